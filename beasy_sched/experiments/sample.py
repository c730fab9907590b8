"""What a campaign says of one scenario: executions by policies, for each measure, with their resamples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.experiments.ranks import competition_ranks
from beasy_sched.experiments.statistics import RESAMPLES, bootstrap_weights, weighted_mean

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
