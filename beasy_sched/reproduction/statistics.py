"""The bootstrap over executions, by weights: how often each execution is taken in each resample.

Row 0 of the weights takes each execution once: whatever is computed from all rows has our value first and
the resamples after it. As all policies of an execution share its weight, every comparison is paired.

Ranks as in the tables of the papers: the best is 1, equals share a rank, the next rank is skipped.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray, IndexArray

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


TOLERANCE = 1e-9
"""Values nearer than this share of the larger one are equal."""


def competition_ranks(
    values: npt.ArrayLike, *, higher_is_better: bool, from_worst: bool = False
) -> IndexArray:
    """Rank along the last axis: 1, 1, 3. ``from_worst`` counts from the other end: 1 is the worst."""
    given = np.asarray(values, dtype=np.float64)
    signed = -given if higher_is_better != from_worst else given
    others, own = signed[..., None, :], signed[..., :, None]
    gap = TOLERANCE * np.maximum(np.maximum(np.abs(others), np.abs(own)), 1.0)
    better: IndexArray = (others < own - gap).sum(axis=-1)
    return better + 1


def rank_agreement(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> float:
    """Spearman's correlation of two rankings of the same things: 1 the same, -1 reversed, NaN if all tie."""
    one, other = (_mid_ranks(np.asarray(ranks, dtype=np.float64)) for ranks in (ours, theirs))
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def ordinal(rank: int) -> str:
    """Return ``1st``, ``2nd``, ``3rd``, ``4th`` and so on."""
    ending = "th" if 10 <= rank % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"


def _mid_ranks(values: FloatArray) -> FloatArray:
    """Ranks in which equals get the mean of their places."""
    below = (values[None, :] < values[:, None]).sum(axis=1)
    same = (values[None, :] == values[:, None]).sum(axis=1)
    return np.asarray(below + (same + 1) / 2.0)
