"""Ranks as in the tables of the papers: the best is 1, equals share a rank, the next rank is skipped."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray, IndexArray

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
