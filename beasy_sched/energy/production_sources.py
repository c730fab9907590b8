"""Wind and solar power (Eq. 2.1 and 2.2), over whole arrays, resampled to steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray
from beasy_sched.model.choices import Interpolation


def resample(
    mean_w: npt.ArrayLike,
    *,
    interval_s: float,
    step_s: float,
    steps: int | None = None,
    offset_s: float = 0.0,
    ceiling_w: float | None = None,
    method: Interpolation = Interpolation.SMOOTH,
) -> FloatArray:
    """Return the mean power (W) of each of ``steps`` steps of ``step_s`` seconds from ``offset_s`` on.

    Inside an interval the power follows a parabola P(x) = a + 2*(3*m - 2*a - b)*x + 3*(a + b - 2*m)*x**2,
    x from 0 to 1, whose mean is m, the interval's mean, and whose ends are a and b. An end is the harmonic
    mean of the two neighbouring means (0 next to an interval without power), the same from both sides, so
    that the power is continuous. With both ends at most 3*m the parabola is never negative (the condition
    of Fritsch and Carlson, SIAM J. Numer. Anal. 17, 1980, for the energy curve to be monotone); the
    harmonic mean, at most 2*m, always is. Under a ceiling the same condition holds for ceiling - P, and an
    end that breaks it is moved, which may leave a jump next to an interval at full power.

    Each step's mean is the exact integral of these parabolas over the step, divided by its length, so that
    steps that fill an interval carry its energy to rounding, whether or not dt divides the interval.

    ``mean_w`` (W, one value per interval of ``interval_s`` seconds) must be finite and not negative.
    ``steps`` defaults to the whole steps that fit. ``ceiling_w`` (W) is never exceeded if the means
    do not exceed it. Raises ValueError on bad values, or steps outside the series.
    """
    means = np.asarray(mean_w, dtype=np.float64)
    if not (interval_s > 0 and step_s > 0 and offset_s >= 0):
        raise ValueError("interval_s and step_s must be > 0, offset_s >= 0")
    if means.ndim != 1 or not np.all(np.isfinite(means) & (means >= 0)):
        raise ValueError("mean_w: expected one series of finite values >= 0")
    span_s = len(means) * interval_s
    count = int((span_s - offset_s) / step_s + 1e-9) if steps is None else steps
    if count < 1 or offset_s + count * step_s > span_s * (1 + 1e-12):
        raise ValueError(f"{count} steps of {step_s:g} s from {offset_s:g} s do not fit into {span_s:g} s")
    if method is Interpolation.CONSTANT:
        starts = ends = means
    else:
        starts, ends = _ends(means, ceiling_w)
    return _step_means(means, starts, ends, offset_s / interval_s, step_s / interval_s, count)


def _ends(means: FloatArray, ceiling_w: float | None) -> tuple[FloatArray, FloatArray]:
    """Return the power at the start and at the end of each interval, W."""
    padded = np.concatenate((means[:1], means, means[-1:]))
    left, right = padded[:-1], padded[1:]
    total = left + right
    edges = np.divide(2.0 * left * right, total, out=np.zeros_like(total), where=total > 0.0)
    starts, ends = edges[:-1], edges[1:]
    if ceiling_w is None:
        return starts, ends
    ceiling = np.maximum(ceiling_w, means)
    low = np.maximum(3.0 * means - 2.0 * ceiling, 0.0)
    high = np.minimum(3.0 * means, ceiling)
    return np.clip(starts, low, high), np.clip(ends, low, high)


def _step_means(
    means: FloatArray, starts: FloatArray, ends: FloatArray, offset: float, step: float, count: int
) -> FloatArray:
    """Integrate piece by piece; ``offset`` and ``step`` are in intervals."""
    edges = offset + step * np.arange(count + 1, dtype=np.float64)
    nearest = np.round(edges)  # an edge that misses an interval's only by rounding is set to it
    step_edges = np.minimum(np.where(np.abs(edges - nearest) < 1e-9, nearest, edges), len(means))
    inner = np.arange(np.ceil(step_edges[0]), np.floor(step_edges[-1]) + 1)
    cuts = np.unique(np.concatenate((step_edges, inner)))
    middles = 0.5 * (cuts[:-1] + cuts[1:])
    interval = np.minimum(middles.astype(np.intp), len(means) - 1)
    x0, x1 = cuts[:-1] - interval, cuts[1:] - interval
    a, b, m = starts[interval], ends[interval], means[interval]
    # The integral of P from x0 to x1, divided by the length of the piece.
    square = x0 + x1
    cube = x0 * x0 + x0 * x1 + x1 * x1
    piece = (x1 - x0) * (a + (3.0 * m - 2.0 * a - b) * square + (a + b - 2.0 * m) * cube)
    owner = np.clip(np.searchsorted(step_edges, middles, side="right") - 1, 0, count - 1)
    sums = np.bincount(owner, weights=piece, minlength=count)
    return np.maximum(sums / np.diff(step_edges), 0.0)
