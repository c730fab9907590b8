"""Means of few runs with their intervals, and the values that a figure can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray

METHOD: Final = "95 % intervals of the mean (Student's t), cut to the range that the figure can have"
"""Sentence on the intervals, for the places where they are shown."""
_T975: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
                2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
                2.052, 2.048, 2.045, 2.042)  # fmt: skip
"""Student's t for 1, 2, ... degrees of freedom: 97.5 % of the distribution lies below."""


@dataclass(frozen=True)
class ValueRange:
    """The values that a figure can have, both ends included."""

    least: float = -np.inf
    most: float = np.inf

    def cut(self, low: float, high: float) -> tuple[float, float]:
        """Return the part of an interval that lies within."""
        return min(max(low, self.least), self.most), max(min(high, self.most), self.least)


PERCENT: Final = ValueRange(0.0, 100.0)
NOT_NEGATIVE: Final = ValueRange(0.0)
UNLIMITED: Final = ValueRange()


@dataclass(frozen=True)
class RunMean:
    """The mean of some runs, with its 95 % interval: NaN where there are no runs, or only one."""

    value: float
    low: float = np.nan
    high: float = np.nan

    @property
    def has_interval(self) -> bool:
        """Whether the interval is known."""
        return not np.isnan(self.low)


def mean_of(values: FloatArray, within: ValueRange = UNLIMITED) -> RunMean:
    """Return the mean of n runs and its interval (Student's t), cut to what a mean can be at all.

    The mean cannot lie outside the figure's range, so the interval contains it as often with the cut as
    without.
    """
    if len(values) < 2:
        return RunMean(float(values[0]) if len(values) else np.nan)
    freedom = len(values) - 1
    t = _T975[freedom - 1] if freedom <= len(_T975) else 1.96 + 2.46 / freedom
    mean, half = float(values.mean()), float(t * values.std(ddof=1) / np.sqrt(len(values)))
    return RunMean(mean, *within.cut(mean - half, mean + half))
