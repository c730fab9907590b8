"""Findings: what is odd about inputs, or would end a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """How bad a finding is."""

    ODD = "odd"
    """The run goes on, but its results may not be what was meant."""
    FAILS = "fails"
    """The run, or that of a real Batsim, would end with an error."""


@dataclass(frozen=True)
class Finding:
    """Fact about a run that is not as it should be."""

    level: Level
    code: str
    """A name that stays the same from version to version, such as ``power-short``."""
    text: str
    """What was found, and what to do about it."""


def odd(code: str, text: str) -> Finding:
    """Return something odd."""
    return Finding(Level.ODD, code, text)


def fails(code: str, text: str) -> Finding:
    """Return something that ends a run."""
    return Finding(Level.FAILS, code, text)
