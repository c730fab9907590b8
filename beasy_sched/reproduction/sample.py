"""What a campaign says of one scenario: executions by policies, for each measure, with their resamples.

What claims are about: numbers computed from a study, once from our executions and once a resample.

``values`` returns an array whose first element is ours, the others those of the resamples. It raises
KeyError where a scenario or a policy did not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.reproduction.statistics import (
    RESAMPLES,
    bootstrap_weights,
    competition_ranks,
    weighted_mean,
    weighted_spread,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Measure:
    """A column of results under the name that claims use."""

    column: str
    title: str
    unit: str
    higher_is_better: bool


MEASURES: Final[Mapping[str, Measure]] = {
    "finished": Measure("finished_pct", "Finished jobs", "%", True),
    "killed": Measure("killed_as_in_paper_pct", "Killed jobs", "%", False),
    "soc": Measure("soc_final_pct", "SoC", "%", True),
    "wasted": Measure("wasted_kwh", "Wasted energy", "kWh", False),
    "shot": Measure("killed_pct", "Killed for lack of energy", "%", False),
    "postponed": Measure("postponed_pct", "Postponed jobs", "%", False),
    "distance": Measure("soc_distance_points", "Distance from the target", "points", True),
    "lowest": Measure("soc_lowest_pct", "Lowest SoC", "%", True),
}
"""``killed`` is Table I's (killed, reached the walltime or still running), ``shot`` only those killed. SoC is
best where it is highest, as in the paper."""

TABLE_MEASURES: Final = ("finished", "killed", "soc", "wasted")
"""Those of Table I."""


@dataclass(frozen=True)
class Sample:
    """The executions of a scenario in which every policy reached its end."""

    policies: tuple[str, ...]
    values: Mapping[str, FloatArray]
    """Shape (executions, policies), by measure."""
    executions: tuple[tuple[int, int], ...]
    """(tuple, seed) of each."""
    weights: FloatArray
    left_out: int = 0
    """Executions left out because a run failed or is yet to come."""
    _means: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    def column(self, policy: str) -> int:
        """Index of a policy. Raises KeyError where it did not run."""
        if policy not in self.policies:
            raise KeyError(policy)
        return self.policies.index(policy)

    def of(self, measure: str, policy: str) -> FloatArray:
        """One value an execution."""
        return self.values[measure][:, self.column(policy)]

    def means(self, measure: str) -> FloatArray:
        """Means of all policies in each resample, shape (resamples + 1, policies)."""
        if measure not in self._means:
            self._means[measure] = weighted_mean(self.weights, self.values[measure])
        return self._means[measure]

    def ranks(self, measure: str, *, from_worst: bool = False) -> FloatArray:
        """Ranks of these means in each resample."""
        better = MEASURES[measure].higher_is_better
        ranks = competition_ranks(self.means(measure), higher_is_better=better, from_worst=from_worst)
        return ranks.astype(np.float64)


Study = Mapping[str, Sample]
"""Samples by scenario."""


def sample_of(
    runs: pd.DataFrame, policies: Sequence[str] | None = None, *, resamples: int = RESAMPLES
) -> Sample | None:
    """Return the sample of one scenario's rows of one guard setting; None without a whole execution.

    ``policies`` are those of the rows unless named.
    """
    names = list(runs["policy"].unique()) if policies is None else list(policies)
    ended = runs[(runs["status"] == "ok") & runs["policy"].isin(names)]
    keys = ["tuple", "seed"]
    counts = ended.groupby(keys)["policy"].nunique()
    whole = counts[counts == len(names)].index
    left_out = runs.groupby(keys).ngroups - len(whole)
    if len(whole) == 0:
        return None
    wide = ended.set_index([*keys, "policy"])
    values = {
        name: wide[measure.column].unstack("policy").loc[whole, names].to_numpy(np.float64)
        for name, measure in MEASURES.items()
    }
    weights = bootstrap_weights(whole.get_level_values("tuple").to_numpy(), resamples=resamples)
    executions = tuple((int(number), int(seed)) for number, seed in whole)
    return Sample(tuple(names), values, executions, weights, left_out)


def study_of(runs: pd.DataFrame) -> dict[str, Sample]:
    """Return the samples of all scenarios in rows of one guard setting, in the order of the rows."""
    found = {str(name): sample_of(own) for name, own in runs.groupby("scenario", sort=False)}
    return {name: sample for name, sample in found.items() if sample is not None}


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
