"""Resampled executions: means and their intervals, paired over all conditions.

A `Sample` holds the measures of executions. It is resampled: row 0 of its weights takes each execution once,
every other row is one resample of the bootstrap. A value computed from all rows has the observed value first
and the resamples' values after it. As all conditions of an execution share its weight, every comparison is
paired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray

RESAMPLES: Final = 4000
CONFIDENCE: Final = 0.95
Condition = TypeVar("Condition")


def bootstrap_weights(groups: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 1) -> FloatArray:
    """Return weights of shape (resamples + 1, n) for n executions, the first row all ones.

    ``groups`` has the plan of each execution. If there are several, plans are drawn first and then
    executions within each (two stages, because executions of one plan are similar). The same groups and
    seed give the same weights.
    """
    labels = np.asarray(groups)
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    random = np.random.default_rng(seed)
    weights = np.zeros((resamples + 1, len(labels)))
    weights[0] = 1.0
    for row in weights[1:]:
        for group in random.integers(len(members), size=len(members)):
            own = members[group]
            np.add.at(row, own[random.integers(len(own), size=len(own))], 1.0)
    return weights


def weighted_mean(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return the mean over executions in each resample; ``values`` of shape (n, ...)."""
    total = weights @ values
    return np.asarray(total / weights.sum(axis=1).reshape(-1, *[1] * (total.ndim - 1)))


def weighted_spread(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Standard deviation (n - 1) over executions in each resample; 0 for a single execution."""
    count = weights.sum(axis=1)
    centred = values - values.mean()
    variance = weighted_mean(weights, centred**2) - weighted_mean(weights, centred) ** 2
    return np.asarray(np.sqrt(np.maximum(variance, 0.0) * count / np.maximum(count - 1.0, 1.0)))


def interval(resampled: FloatArray) -> tuple[Any, Any]:
    """Return the percentile interval of a value over all rows except row 0; arrays for several values."""
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(resampled[1:], [tail, 1.0 - tail], axis=0)
    return low, high


@dataclass(frozen=True)
class Sample(Generic[Condition]):
    """Executions of an experiment in which every condition (policy, setting) completed."""

    conditions: tuple[Condition, ...]
    values: Mapping[str, FloatArray]
    """Values of shape (executions, conditions), by measure."""
    executions: tuple[Any, ...]
    """Name of each execution."""
    weights: FloatArray
    left_out: int = 0
    """Number of executions excluded because a run failed or is not finished."""
    _means: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    def column(self, condition: Condition) -> int:
        """Index of a condition. Raises KeyError if it did not run."""
        if condition not in self.conditions:
            raise KeyError(condition)
        return self.conditions.index(condition)

    def of(self, measure: str, condition: Condition) -> FloatArray:
        """Values of a measure under a condition, one per execution."""
        return self.values[measure][:, self.column(condition)]

    def means(self, measure: str) -> FloatArray:
        """Means of all conditions, observed and in each resample, shape (resamples + 1, conditions)."""
        if measure not in self._means:
            self._means[measure] = weighted_mean(self.weights, self.values[measure])
        return self._means[measure]

    def mean(self, measure: str, condition: Condition) -> FloatArray:
        """Mean of one condition: observed, then in each resample."""
        return weighted_mean(self.weights, self.of(measure, condition))
