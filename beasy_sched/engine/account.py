"""The account of a session: all that its results are made from, in one typed record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from beasy_sched.engine.lives import Lives
from beasy_sched.engine.power_side import PowerSide
from beasy_sched.model.jobs import Job, JobState, Outcomes

if TYPE_CHECKING:
    from beasy_sched.engine.replanning import Replanning


@dataclass(frozen=True)
class LostServers:
    """Servers that were lost or out of service during a run."""

    servers: int
    """Number of servers that were lost or out of service at least once."""
    failed_wakes: int
    """Number of times that a server failed to wake."""
    breakdowns: int
    """Number of times that a server went out of service."""
    missing: int
    """Number of servers that are unavailable now."""


@dataclass(frozen=True)
class SessionAccount:
    """State of a session after its last message; `Session.account` makes it."""

    begun: bool
    ended: bool
    now_s: float
    """Time of the last message, s; -inf before the first."""
    hosts: int
    submitted: int
    """Number of jobs submitted."""
    waiting: int
    """Number of jobs that wait, in the queue or for other jobs."""
    running: Sequence[str]
    """Ids of the running jobs."""
    outcomes: Outcomes
    reasons: Mapping[JobState, Counter[str]]
    """Number of jobs rejected, postponed and killed for each rule."""
    windows: Sequence[Mapping[str, int]]
    """Outcomes at the end of each window but the last."""
    with_deadline: Sequence[Job]
    """Jobs that have a deadline, in order of submission."""
    server_switches: int
    """Number of times that servers were put to sleep or woken."""
    speed_changes: int
    """Number of times that servers changed to another computing P-state."""
    lost: LostServers
    lives: Lives
    """Jobs that came back after a kill."""
    power: PowerSide | None
    """Steps, storage and energy; None without a site."""
    replanning: Replanning | None
    """Plans made during the run; None if none are."""
    warnings: Sequence[str]

    @property
    def end_s(self) -> float:
        """End of the time that results are about: the last message, or the end of the last window, s."""
        return self.now_s if self.power is None else min(self.now_s, self.power.end_s)
