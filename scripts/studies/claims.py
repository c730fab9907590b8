"""Claims of a paper as data, and their verification with a `Sample` of our runs, which is resampled.

A `Statement` is true or false of our executions, and of each resample. A claim *holds* if its statement
is true of ours and of 95 % of the resamples, *does not hold* if it is false of ours and of 95 % of them;
otherwise it is *undecided*.

A study of a further paper needs its claims, quantities and figures; the rest is here and in `figures`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray, IndexArray
from beasy_sched.plugins.campaigns.samples import CONFIDENCE, interval
from beasy_sched.plugins.campaigns.text_tables import TextTable

SLACK: Final = 1e-9
"""Amount by which a number may lie beyond a limit."""
TIE: Final = 1e-9
"""Values nearer than this share of the larger one are equal."""
_MOST_NAMED: Final = 3

Truth = npt.NDArray[np.bool_]
"""Truth of something for our executions, then for each resample."""
Statement = Callable[[Any], tuple[Truth, str]]
"""Function of a study: whether something is true of it, and what we found in a few words. Raises KeyError
where a condition did not run."""


def competition_ranks(
    values: npt.ArrayLike, *, higher_is_better: bool, from_worst: bool = False
) -> IndexArray:
    """Rank along the last axis: the best is 1, equals share a rank, the next rank is skipped (1, 1, 3).

    ``from_worst`` counts from the other end: 1 is the worst.
    """
    given = np.asarray(values, dtype=np.float64)
    signed = -given if higher_is_better != from_worst else given
    others, own = signed[..., None, :], signed[..., :, None]
    gap = TIE * np.maximum(np.maximum(np.abs(others), np.abs(own)), 1.0)
    return np.asarray((others < own - gap).sum(axis=-1) + 1)


def rank_agreement(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> float:
    """Spearman's correlation of two rankings of the same things: 1 the same, -1 reversed, NaN if all tie."""
    import pandas

    one, other = (pandas.Series(ranks).rank() for ranks in (ours, theirs))
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def ordinal(rank: int) -> str:
    """Return ``1st``, ``2nd``, ``3rd``, ``4th`` and so on."""
    ending = "th" if 10 <= rank % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"


class Quantity(Protocol):
    """A number of a study."""

    @property
    def unit(self) -> str:
        """Unit of the quantity."""

    def values(self, study: Any) -> FloatArray:
        """Return the number of ours, then of the resamples. Raises KeyError where a condition did not run."""


@dataclass(frozen=True)
class Minus:
    """Quantity: one number less another."""

    first: Quantity
    second: Quantity

    @property
    def unit(self) -> str:
        """Unit of the difference: that of the numbers, or points for percentages."""
        return "points" if self.first.unit.startswith("%") else self.first.unit

    def values(self, study: Any) -> FloatArray:
        """Return the difference in our executions, then in each resample."""
        return self.first.values(study) - self.second.values(study)


@dataclass(frozen=True)
class Within:
    """Statement: a number lies between two limits, both included; or outside of them."""

    quantity: Quantity
    low: float = -np.inf
    high: float = np.inf
    outside: bool = False

    def __call__(self, study: Any) -> tuple[Truth, str]:
        """Return the statement's truth, and our number with its interval."""
        values = self.quantity.values(study)
        low, high = interval(values)
        found = f"{values[0]:.2f} [{low:.2f}, {high:.2f}] {self.quantity.unit}"
        if self.outside:
            return (values <= self.low + SLACK) | (values >= self.high - SLACK), found
        return (values >= self.low - SLACK) & (values <= self.high + SLACK), found


def about(quantity: Quantity, value: float, tolerance: float) -> Within:
    """Statement: a number is the printed one, give or take a tolerance."""
    return Within(quantity, value - tolerance, value + tolerance)


@dataclass(frozen=True)
class Several:
    """Statement: at least ``at_least`` of some statements are true; all of them by default."""

    statements: tuple[Statement, ...]
    at_least: int | None = None

    def __call__(self, study: Any) -> tuple[Truth, str]:
        """Return the truth; what each of few found, or of many how many are true and what others found."""
        found = [statement(study) for statement in self.statements]
        needed = len(found) if self.at_least is None else self.at_least
        truth = np.asarray(np.sum([true for true, _ in found], axis=0) >= needed)
        if len(found) <= _MOST_NAMED + 1:
            return truth, "; ".join(ours for _, ours in found)
        pairs = zip(self.statements, found, strict=True)
        wrong = [_named(statement) + ours for statement, (true, ours) in pairs if not true[0]]
        rest = [f"{len(wrong) - _MOST_NAMED} more"] if len(wrong) > _MOST_NAMED else []
        count = f"{len(found) - len(wrong)} of {len(found)}"
        return truth, count + (f"; not: {', '.join([*wrong[:_MOST_NAMED], *rest])}" if wrong else "")


def every(statements: Iterable[Statement]) -> Several:
    """Statement: all of them are true."""
    return Several(tuple(statements))


def _named(statement: Statement) -> str:
    """Scenario, policy and measure of a statement about a single one of each."""
    source = getattr(statement, "quantity", statement)
    parts = [getattr(source, name, None) for name in ("scenario", "policy", "measure")]
    words = [str(part) for part in parts if part]
    return f"{' '.join(words)} " if words else ""


class Ruling(Enum):
    """The possible rulings on a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Claim:
    """One claim. ``paper`` is what the paper prints; ``number`` its figure, where it prints one."""

    name: str
    part: str
    """Part of the paper that contains the claim, or scenario that it is about."""
    text: str
    statement: Statement
    paper: str = ""
    number: float | None = None
    universal: bool = False
    """Whether the claim is about every execution: one counterexample refutes it, without resamples."""


@dataclass(frozen=True)
class Verdict:
    """The ruling on a claim, and what we found."""

    claim: Claim
    ruling: Ruling
    ours: str
    support: float
    """Share of the resamples in which the claim is true."""

    @property
    def true_in(self) -> str:
        """Share of the resamples in which the claim is true, as text in percent."""
        return f"{100 * self.support:.0f} %"


def judge(claims: Iterable[Claim], study: Any) -> list[Verdict]:
    """Judge each claim."""
    return [_judged(claim, study) for claim in claims]


def _judged(claim: Claim, study: Any) -> Verdict:
    try:
        truth, ours = claim.statement(study)
    except KeyError as missing:
        return Verdict(claim, Ruling.NOT_RUN, f"{missing.args[0]} was not run", float("nan"))
    support = float(truth[1:].mean())
    certain = claim.universal or (support >= CONFIDENCE if truth[0] else support <= 1.0 - CONFIDENCE)
    ruling = Ruling.HOLDS if truth[0] else Ruling.FAILS
    return Verdict(claim, ruling if certain else Ruling.UNDECIDED, ours, support)


def claim_table(
    verdicts: Iterable[Verdict],
    columns: Mapping[str, str],
    *,
    title: str = "Claims",
    numbers: Sequence[str] = (),
    note: str = "",
) -> TextTable:
    """One row per claim that could be judged; ``columns``: headings, and the field under each."""
    cells = attrgetter(*columns.values())
    rows = [cells(verdict) for verdict in verdicts if verdict.ruling is not Ruling.NOT_RUN]
    return TextTable(title, tuple(columns), rows, tuple(numbers), note)


def tally(verdicts: Iterable[Verdict]) -> str:
    """Numbers of claims that hold, do not hold, and so on, of those that could be judged."""
    counts = Counter(verdict.ruling for verdict in verdicts)
    judged = (ruling for ruling in Ruling if ruling is not Ruling.NOT_RUN and counts[ruling])
    return ", ".join(f"{counts[ruling]} {ruling.value}" for ruling in judged)
