"""Requests of a session that its simulator has not answered yet."""

from __future__ import annotations

from dataclasses import dataclass

from beasy_sched.model.hosts import HostSet


@dataclass(frozen=True)
class UnderWay:
    """Requests without an answer at a moment; times in s."""

    calls_s: tuple[float, ...]
    """Times of the requested calls, in order."""
    commands: tuple[tuple[HostSet, int, bool], ...]
    """Commands: hosts, P-state, and whether they are switched on or off, not only changed in speed."""
    kills: tuple[str, ...]
    """Jobs whose kill was sent, and which have not ended."""
    queries: int
    """Number of energy queries."""
    expects_jobs: bool
    """Whether more jobs may be submitted."""
