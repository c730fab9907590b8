"""Structure of explanations: chapters of short entries, and decisions of the log as sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from beasy_sched.engine.session_words import Sentences
from beasy_sched.formats.run_summary import GridTerms, found_summary
from beasy_sched.model.hosts import HostSet
from beasy_sched.outputs.quantities import clock, count, printable
from beasy_sched.outputs.reasons import words_in
from beasy_sched.plugins.reports.explain_rules import sentence
from beasy_sched.run.results import LogLine

_MOST = 12
"""Maximum number of entries printed per chapter; the others are counted."""
STORY_WIDTH = 110
"""Maximum width of an explanation, columns."""


@dataclass(frozen=True)
class Entry:
    """One or more sentences, with a time of the run (s) if applicable."""

    text: str
    time_s: float | None = None


@dataclass(frozen=True)
class Chapter:
    """Heading with its entries."""

    title: str
    entries: list[Entry]
    whole: bool = False
    """Whether all entries of the chapter are printed, regardless of their number."""
    left_out: int = 0
    """Number of further entries, which are omitted."""


@dataclass(frozen=True)
class Story:
    """Explanation in chapters, and as data for tools."""

    title: str
    chapters: list[Chapter]
    data: dict[str, Any]

    def __str__(self) -> str:
        """Return the explanation as text of at most `STORY_WIDTH` columns."""
        return "\n".join(line for _, line in self.lines(STORY_WIDTH))

    __repr__ = __str__  # notebooks and interactive sessions show it

    def lines(self, width: int) -> Iterator[tuple[bool, str]]:
        """Yield the explanation as (is it a heading, line of at most ``width`` columns)."""
        yield True, printable(self.title)
        for chapter in self.chapters:
            yield False, ""
            yield True, chapter.title
            left_out = (
                len(chapter.entries) - _MOST if len(chapter.entries) > _MOST + 1 and not chapter.whole else 0
            )
            for entry in chapter.entries[: _MOST if left_out else None]:
                label = "  " if entry.time_s is None else f"  {clock(entry.time_s)}  "
                room, rest = max(width, len(label) + 30), " " * len(label)
                for line in textwrap.wrap(printable(entry.text), room, initial_indent=label,
                                          subsequent_indent=rest, break_on_hyphens=False):  # fmt: skip
                    yield False, line
            if left_out:
                yield False, f"  ... and {left_out} more (--json has all)"


@dataclass(frozen=True)
class Teller:
    """Data of a run needed to describe its decisions."""

    own: Sentences = field(default_factory=dict)
    """Words of a user's policy."""
    currency: str = ""
    """Currency of the site's grid, if known."""
    plans_currency: str = ""
    """Currency of the planning costs of jobs; none for costs in grams or without a unit."""
    terms: GridTerms | None = None
    """Terms of grid and battery; None for a site without rules."""


def teller_of(prefix: str) -> Teller:
    """Read these data from a run's summary. Raises InputError for a summary that cannot be read."""
    summary = found_summary(prefix)
    if summary is None or summary.grid is None:
        return Teller(words_in(summary))
    options, currency = summary.settings.options, summary.grid.currency
    real = options.get("prices", "real") == "real" and options.get("objective", "price") == "price"
    return Teller(words_in(summary), currency, currency if real else "", summary.grid.terms)


def because(line: LogLine, teller: Teller) -> str:
    """Return the reason for a decision as a sentence."""
    facts = dict(line.facts)
    slack_s, planned_s = facts.get("slack_s"), facts.get("planned_start_s")
    if isinstance(planned_s, int | float) and line.kind == "postpone":
        left_s = slack_s if isinstance(slack_s, int | float) else -_number(facts.get("overdue_s"))
        late_s = planned_s - line.time - left_s
        if late_s > AT_ONCE_S and ("slack_s" in facts or "overdue_s" in facts):
            facts["late_s"] = late_s
    for name in ("cost", "earliest_cost"):
        if teller.plans_currency and isinstance(value := facts.get(name), int | float):
            facts[name] = f"{value:.3g} {teller.plans_currency}"
    return sentence(line.action, line.rule, facts, teller.own)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def told(line: LogLine, teller: Teller) -> dict[str, object]:
    """Return a decision as data, with its sentence."""
    return {**msgspec.structs.asdict(line), "sentence": because(line, teller)}


def entries_of(lines: Iterable[LogLine], teller: Teller) -> list[Entry]:
    """Return the reasons of decisions, each at its time."""
    return [Entry(because(line, teller), line.time) for line in lines]


_LONGEST_SET = 40
"""Maximum length of a set of hosts that is printed completely, characters."""


def named_hosts(hosts: HostSet, noun: str = "host") -> str:
    """Format number and ids of hosts: ``3 hosts (0-1 7)``."""
    text = str(hosts)
    shown = text if len(text) <= _LONGEST_SET else text[:36].rpartition(" ")[0] + " ..."
    return f"{count(len(hosts), noun)} ({shown})"


AT_ONCE_S = 0.01
"""Maximum time to start, s, of a job that counts as not having waited."""
