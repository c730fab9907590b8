"""What claims are about: numbers computed from a study, once from our executions and once a resample.

``values`` returns an array whose first element is ours, the others those of the resamples. It raises
KeyError where a scenario or a policy did not run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.experiments.sample import MEASURES, TABLE_MEASURES, Study
from beasy_sched.experiments.statistics import weighted_mean, weighted_spread


class Quantity(Protocol):
    """A number of a study."""

    @property
    def unit(self) -> str:
        """What it is counted in."""

    def values(self, study: Study) -> FloatArray:
        """Ours, then the resamples'."""


@dataclass(frozen=True)
class Mean:
    """Mean of a measure over the executions."""

    scenario: str
    measure: str
    policy: str

    @property
    def unit(self) -> str:
        """The measure's."""
        return MEASURES[self.measure].unit

    def values(self, study: Study) -> FloatArray:
        """Ours, then the resamples'."""
        sample = study[self.scenario]
        return sample.means(self.measure)[:, sample.column(self.policy)]


@dataclass(frozen=True)
class Spread(Mean):
    """Standard deviation of a measure over the executions."""

    def values(self, study: Study) -> FloatArray:
        """Ours, then the resamples'."""
        sample = study[self.scenario]
        return weighted_spread(sample.weights, sample.of(self.measure, self.policy))


@dataclass(frozen=True)
class ShareAbove:
    """Share of the executions in which a measure is above a limit, %."""

    scenario: str
    measure: str
    policy: str
    limit: float
    unit: str = "% of executions"

    def values(self, study: Study) -> FloatArray:
        """Ours, then the resamples'."""
        sample = study[self.scenario]
        above = sample.of(self.measure, self.policy) > self.limit
        return weighted_mean(sample.weights, np.where(above, 100.0, 0.0))


@dataclass(frozen=True)
class ShareBest:
    """Share of the executions in which no other policy is better in a measure, %."""

    scenario: str
    measure: str
    policy: str
    unit: str = "% of executions"

    def values(self, study: Study) -> FloatArray:
        """Ours, then the resamples'."""
        sample = study[self.scenario]
        signed = sample.values[self.measure] * (1.0 if MEASURES[self.measure].higher_is_better else -1.0)
        best = signed[:, sample.column(self.policy)] >= signed.max(axis=1) - 1e-9
        return weighted_mean(sample.weights, np.where(best, 100.0, 0.0))


@dataclass(frozen=True)
class WhereWorst:
    """A measure of a policy, in the execution in which another policy's ``by`` is largest."""

    scenario: str
    measure: str
    policy: str
    other: str
    by: str

    @property
    def unit(self) -> str:
        """The measure's."""
        return MEASURES[self.measure].unit

    def values(self, study: Study) -> FloatArray:
        """Ours, then the resamples'."""
        sample = study[self.scenario]
        drawn = np.where(sample.weights > 0, sample.of(self.by, self.other), -np.inf)
        worst: FloatArray = sample.of(self.measure, self.policy)[drawn.argmax(axis=1)]
        return worst


@dataclass(frozen=True)
class LeadOfWorst:
    """How far the second largest value of a policy lies above the largest of all others."""

    scenario: str
    measure: str
    policy: str

    @property
    def unit(self) -> str:
        """The measure's."""
        return MEASURES[self.measure].unit

    def values(self, study: Study) -> FloatArray:
        """Ours, then the resamples'."""
        sample = study[self.scenario]
        own = np.where(sample.weights > 0, sample.of(self.measure, self.policy), -np.inf)
        others = np.delete(sample.values[self.measure], sample.column(self.policy), axis=1).max(axis=1)
        second = np.sort(own, axis=1)[:, -min(2, own.shape[1])]
        lead: FloatArray = second - np.where(sample.weights > 0, others, -np.inf).max(axis=1)
        return np.where(np.isfinite(lead), lead, -100.0)


@dataclass(frozen=True)
class Saving:
    """By how many percent the mean of a policy is below another's."""

    scenario: str
    measure: str
    policy: str
    than: str
    unit: str = "% saved"

    def values(self, study: Study) -> FloatArray:
        """Ours, then the resamples'."""
        own = Mean(self.scenario, self.measure, self.policy).values(study)
        return 100.0 * (1.0 - own / Mean(self.scenario, self.measure, self.than).values(study))


@dataclass(frozen=True)
class Minus:
    """One number less another."""

    first: Quantity
    second: Quantity

    @property
    def unit(self) -> str:
        """The numbers': points for percentages."""
        return "points" if self.first.unit.startswith("%") else self.first.unit

    def values(self, study: Study) -> FloatArray:
        """Ours, then the resamples'."""
        return self.first.values(study) - self.second.values(study)


@dataclass(frozen=True)
class LowPlaces:
    """In how many results (Table I's measures in some scenarios) a policy is among the worst three."""

    scenarios: tuple[str, ...]
    policy: str
    unit: str = "results"

    def values(self, study: Study) -> FloatArray:
        """Ours, then the resamples'."""
        found = [
            study[name].ranks(measure, from_worst=True)[:, study[name].column(self.policy)] <= 3
            for name in self.scenarios
            for measure in TABLE_MEASURES
        ]
        return np.asarray(np.sum(found, axis=0), dtype=np.float64)
