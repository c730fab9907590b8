"""Means of a few runs with their intervals, limited to the range of the figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray

METHOD: Final = "95 % intervals of the mean (Student's t), limited to the range of the figure"
"""Note on the intervals, for tables and charts that show them."""
_T975: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
                2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
                2.052, 2.048, 2.045, 2.042)  # fmt: skip
"""97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom."""


@dataclass(frozen=True)
class ValueRange:
    """Range of the values of a figure, both ends included."""

    least: float = -np.inf
    most: float = np.inf

    def cut(self, low: float, high: float) -> tuple[float, float]:
        """Return the part of an interval within the range."""
        return min(max(low, self.least), self.most), max(min(high, self.most), self.least)


PERCENT: Final = ValueRange(0.0, 100.0)
NOT_NEGATIVE: Final = ValueRange(0.0)
UNLIMITED: Final = ValueRange()


@dataclass(frozen=True)
class RunMean:
    """Mean of some runs with its 95 % interval: NaN if there are no runs, or only one."""

    value: float
    low: float = np.nan
    high: float = np.nan

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return not np.isnan(self.low)


def mean_of(values: FloatArray, within: ValueRange = UNLIMITED) -> RunMean:
    """Return the mean of n runs and its interval (Student's t), limited to the range of the figure.

    The mean cannot lie outside that range, so the limit does not change how often the interval contains it.
    """
    if len(values) < 2:
        return RunMean(float(values[0]) if len(values) else np.nan)
    freedom = len(values) - 1
    t = _T975[freedom - 1] if freedom <= len(_T975) else 1.96 + 2.46 / freedom
    mean, half = float(values.mean()), float(t * values.std(ddof=1) / np.sqrt(len(values)))
    return RunMean(mean, *within.cut(mean - half, mean + half))
