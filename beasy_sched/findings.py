"""Findings: warnings and errors about inputs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """Severity of a finding."""

    ODD = "warning"
    """The run continues, but its results may not be as intended."""
    FAILS = "error"
    """The run (here or in a real Batsim) would end with an error."""


@dataclass(frozen=True)
class Finding:
    """A problem with the inputs of a run."""

    level: Level
    code: str
    """A stable name, the same in all versions, such as ``power-short``."""
    text: str
    """Message and suggested fix."""


def odd(code: str, text: str) -> Finding:
    """Return a warning."""
    return Finding(Level.ODD, code, text)


def fails(code: str, text: str) -> Finding:
    """Return an error, which would end a run."""
    return Finding(Level.FAILS, code, text)
