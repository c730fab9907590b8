"""An explanation as a tree of short texts, and its layout on a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from beasy_sched.report.explain_numbers import clock
from beasy_sched.report.explain_records import Decision
from beasy_sched.report.explain_rules import sentence

_INDENT = "  "
_MOST = 12
"""Entries of a section that are told; the others are counted."""


@dataclass(frozen=True)
class Entry:
    """One sentence or more, at a moment of the run (s) where it has one."""

    text: str
    time_s: float | None = None


@dataclass(frozen=True)
class Section:
    """A heading with what belongs to it."""

    title: str
    entries: list[Entry]


@dataclass(frozen=True)
class Story:
    """What is told, and the same as data for tools."""

    title: str
    sections: list[Section]
    data: dict[str, Any] = field(default_factory=dict)

    def lines(self, width: int) -> Iterator[tuple[bool, str]]:
        """The story as (is it a heading, line of at most ``width`` columns)."""
        yield True, printable(self.title)
        for section in self.sections:
            yield False, ""
            yield True, section.title
            told = section.entries if len(section.entries) <= _MOST + 1 else section.entries[:_MOST]
            for entry in told:
                for line in _wrapped(entry, width):
                    yield False, line
            if len(told) < len(section.entries):
                yield False, f"{_INDENT}... and {len(section.entries) - len(told)} more (--json has all)"


def printable(text: str) -> str:
    """Escape what could steer a terminal: names come from files of anyone's making."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def because(decision: Decision) -> str:
    """Why a decision was taken, in words."""
    return sentence(decision.action, decision.rule, decision.facts)


def told(decision: Decision) -> dict[str, object]:
    """A decision as data, with its sentence."""
    return {**msgspec.structs.asdict(decision), "sentence": because(decision)}


def _wrapped(entry: Entry, width: int) -> list[str]:
    label = _INDENT + (f"{clock(entry.time_s)}  " if entry.time_s is not None else "")
    hanging = " " * len(label) if entry.time_s is not None else _INDENT
    room = max(width, len(label) + 30)
    return textwrap.wrap(
        printable(entry.text), room, initial_indent=label, subsequent_indent=hanging, break_on_hyphens=False
    )
