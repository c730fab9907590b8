"""Fit of a log-normal distribution to run times or gaps between arrivals.

The thesis finds both log-normal in MetaCentrum's trace by the Kolmogorov-Smirnov test (Section 3.2.1;
p = 0.2174 for gaps, 0.1802 for run times). Here the distance itself is given: with the parameters estimated
from the same values and thousands of jobs, a p-value means little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from beasy_sched.arrays import FloatArray


@dataclass(frozen=True)
class LogNormalFit:
    """A log-normal distribution fitted to times above 0."""

    median_s: float
    log_sd: float
    """Standard deviation of the logarithm."""
    distance: float
    """Kolmogorov-Smirnov: the largest difference of the two distribution functions, 0 to 1."""
    count: int
    """Number of times that it is fitted to."""

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"log-normal with median {self.median_s:.4g} s, log-sd {self.log_sd:.2f}:"
            f" Kolmogorov-Smirnov distance {self.distance:.3f} ({self.count} values)"
        )


def fit_log_normal(times_s: FloatArray) -> LogNormalFit | None:
    """Fit by the mean and standard deviation of the logarithms of the times above 0, s.

    Returns None where fewer than two different ones are left.
    """
    values, counts = np.unique(times_s[times_s > 0.0], return_counts=True)
    if len(values) < 2:
        return None
    logs, total = np.log(values), int(counts.sum())
    mean = float(np.average(logs, weights=counts))
    log_sd = math.sqrt(float(np.average((logs - mean) ** 2, weights=counts)))
    expected = np.array([*map(NormalDist(mean, log_sd).cdf, logs.tolist())])
    upto = counts.cumsum() / total
    below = np.concatenate(([0.0], upto[:-1]))
    distance = float(np.maximum(upto - expected, expected - below).max())
    return LogNormalFit(math.exp(mean), log_sd, distance, total)
