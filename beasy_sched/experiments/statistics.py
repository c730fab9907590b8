"""The bootstrap over executions, by weights: how often each execution is taken in each resample.

Row 0 of the weights takes each execution once: whatever is computed from all rows has our value first and
the resamples after it. As all policies of an execution share its weight, every comparison is paired.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray

RESAMPLES: Final = 4000
CONFIDENCE: Final = 0.95


def bootstrap_weights(groups: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 1) -> FloatArray:
    """Return weights of shape (resamples + 1, n) for n executions, the first row all ones.

    ``groups`` says which plan each execution belongs to. Where there are several, plans are drawn first
    and then executions within each (two stages: executions of one plan are alike). The same groups and
    seed give the same weights.
    """
    labels = np.asarray(groups)
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    random = np.random.default_rng(seed)
    weights = np.ones((resamples + 1, len(labels)))
    for row in weights[1:]:
        row[:] = 0.0
        for group in random.integers(len(members), size=len(members)):
            own = members[group]
            np.add.at(row, own[random.integers(len(own), size=len(own))], 1.0)
    return weights


def weighted_mean(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Mean over executions in each resample; ``values`` of shape (n, ...)."""
    total = weights @ values
    result: FloatArray = total / weights.sum(axis=1).reshape(-1, *[1] * (total.ndim - 1))
    return result


def weighted_spread(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Standard deviation (n - 1) over executions in each resample; 0 for a single execution."""
    count = weights.sum(axis=1)
    centred = values - values.mean()
    variance = weighted_mean(weights, centred**2) - weighted_mean(weights, centred) ** 2
    result: FloatArray = np.sqrt(np.maximum(variance, 0.0) * count / np.maximum(count - 1.0, 1.0))
    return result


def interval(resampled: FloatArray, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Percentile interval of a value computed in all rows, row 0 left out."""
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(resampled[1:], [tail, 1.0 - tail])
    return float(low), float(high)
