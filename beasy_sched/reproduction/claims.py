"""Claims of a paper, as data, and whether they hold in a study.

A statement is true or false of our executions, and of every resample of them. A claim *holds* where it is
true of ours and of 95 % of the resamples, *does not hold* where it is false of ours and of 95 % of them; all
else is *undecided*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray
from beasy_sched.reproduction.sample import MEASURES, Quantity, Study
from beasy_sched.reproduction.statistics import CONFIDENCE, interval, ordinal

Truth = npt.NDArray[np.bool_]
_SLACK: Final = 1e-9
_MOST_NAMED: Final = 3


class Statement(Protocol):
    """Something that is true or false of a study."""

    def truth(self, study: Study) -> Truth:
        """Of ours, then of each resample. Raises KeyError where something did not run."""

    def ours(self, study: Study) -> str:
        """What we found, in a few words."""


@dataclass(frozen=True)
class Within:
    """A number lies between two limits, both included; or outside of them."""

    quantity: Quantity
    low: float = -np.inf
    high: float = np.inf
    outside: bool = False

    def truth(self, study: Study) -> Truth:
        """Of ours, then of each resample."""
        values = self.quantity.values(study)
        if self.outside:
            return (values <= self.low + _SLACK) | (values >= self.high - _SLACK)
        return (values >= self.low - _SLACK) & (values <= self.high + _SLACK)

    def ours(self, study: Study) -> str:
        """The number and its interval."""
        return f"{number_text(self.quantity, study)} {self.quantity.unit}"


def about(quantity: Quantity, value: float, tolerance: float) -> Within:
    """A number is a printed one, give or take a tolerance."""
    return Within(quantity, value - tolerance, value + tolerance)


@dataclass(frozen=True)
class Ranked:
    """The rank of a policy's mean lies between two ranks; ``from_worst`` counts from the other end."""

    scenario: str
    measure: str
    policy: str
    best: int = 1
    worst: int = 1
    from_worst: bool = False
    among: tuple[str, ...] | None = None
    """Only these policies are compared."""

    def _ranks(self, study: Study) -> FloatArray:
        sample = study[self.scenario]
        if self.among is None:
            return sample.ranks(self.measure, from_worst=self.from_worst)[:, sample.column(self.policy)]
        sign = -1.0 if MEASURES[self.measure].higher_is_better != self.from_worst else 1.0
        means = sign * sample.means(self.measure)
        own = means[:, [sample.column(self.policy)]]
        others = means[:, [sample.column(name) for name in self.among]]
        better: FloatArray = 1.0 + (others < own - _SLACK).sum(axis=1)
        return better

    def truth(self, study: Study) -> Truth:
        """Of ours, then of each resample."""
        ranks = self._ranks(study)
        return (ranks >= self.best) & (ranks <= self.worst)

    def ours(self, study: Study) -> str:
        """The rank, and the mean that it is for."""
        sample = study[self.scenario]
        measure = MEASURES[self.measure]
        rank = ordinal(int(self._ranks(study)[0])) + (" from the worst" if self.from_worst else "")
        return f"{rank} ({sample.means(self.measure)[0, sample.column(self.policy)]:.2f} {measure.unit})"


@dataclass(frozen=True)
class Several:
    """At least so many of some statements are true; all of them unless said otherwise."""

    statements: tuple[Statement, ...]
    at_least: int | None = None

    def truth(self, study: Study) -> Truth:
        """Of ours, then of each resample."""
        true = np.sum([statement.truth(study) for statement in self.statements], axis=0)
        needed = len(self.statements) if self.at_least is None else self.at_least
        return np.asarray(true >= needed)

    def ours(self, study: Study) -> str:
        """What each of a few found; of many, how many are true, and what those found that are not."""
        if len(self.statements) <= _MOST_NAMED + 1:
            return "; ".join(statement.ours(study) for statement in self.statements)
        wrong = [statement for statement in self.statements if not statement.truth(study)[0]]
        told = [_named(statement) + statement.ours(study) for statement in wrong[:_MOST_NAMED]]
        rest = [f"{len(wrong) - _MOST_NAMED} more"] if len(wrong) > _MOST_NAMED else []
        count = f"{len(self.statements) - len(wrong)} of {len(self.statements)}"
        return count + (f"; not: {', '.join([*told, *rest])}" if wrong else "")


def every(statements: Iterable[Statement]) -> Several:
    """All of them are true."""
    return Several(tuple(statements))


class Verdict(Enum):
    """What became of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Claim:
    """One claim. ``paper`` is what the paper prints; ``number`` its figure, where it prints one."""

    name: str
    scenario: str
    """Whose part of the paper it stands in."""
    text: str
    statement: Statement
    paper: str = ""
    number: float | None = None
    universal: bool = False
    """Whether it is about every execution: one against it refutes it, and resamples say nothing."""


@dataclass(frozen=True)
class Finding:
    """A claim, and what we found."""

    claim: Claim
    verdict: Verdict
    ours: str
    support: float
    """Share of the resamples in which it is true."""


def judge(claims: Sequence[Claim], study: Study) -> list[Finding]:
    """Judge each claim."""
    return [_judged(claim, study) for claim in claims]


def _judged(claim: Claim, study: Study) -> Finding:
    try:
        truth, ours = claim.statement.truth(study), claim.statement.ours(study)
    except KeyError as missing:
        return Finding(claim, Verdict.NOT_RUN, f"{missing.args[0]} was not run", float("nan"))
    support = float(truth[1:].mean())
    verdict = Verdict.UNDECIDED
    if claim.universal:
        verdict = Verdict.HOLDS if truth[0] else Verdict.FAILS
    elif truth[0] and support >= CONFIDENCE:
        verdict = Verdict.HOLDS
    elif not truth[0] and support <= 1.0 - CONFIDENCE:
        verdict = Verdict.FAILS
    return Finding(claim, verdict, ours, support)


def number_text(quantity: Quantity, study: Study) -> str:
    """Return our number with its interval."""
    values = quantity.values(study)
    low, high = interval(values)
    return f"{values[0]:.2f} [{low:.2f}, {high:.2f}]"


def _named(statement: Statement) -> str:
    """Where a statement is about one scenario, policy and measure: which."""
    source = getattr(statement, "quantity", statement)
    parts = [getattr(source, name, None) for name in ("scenario", "policy", "measure")]
    words = [str(part) for part in parts if part]
    return f"{' '.join(words)} " if words else ""
