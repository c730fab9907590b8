"""Random numbers that stay the same: one independent stream for each purpose of a seed.

Every stream is a PCG64 generator seeded by ``SeedSequence(seed, spawn_key=(number,))``; only uniform
doubles are drawn (NumPy keeps those stable across versions, which it does not promise for its
distributions), a fixed count for each job. A new option takes a new stream number, so that old seeds
keep their values. Numbers are never reused.
"""

from __future__ import annotations

import math
from enum import IntEnum
from statistics import NormalDist

import numpy as np

from beasy_sched.arrays import FloatArray


class Stream(IntEnum):
    """What a stream of random numbers is for."""

    WALLTIME_GROUPS = 0
    """One uniform a job: their ranks shuffle the jobs into groups."""
    ARRIVAL_GAPS = 1
    """One uniform for each gap: the jobs of a day and one more, day after day."""
    RUN_TIMES = 2
    """One uniform a job."""
    HOSTS = 3
    """One uniform a job."""
    CLOUDS = 10
    """One uniform for each interval of synthetic weather."""
    WIND = 11
    """One uniform for each interval of synthetic weather."""
    NOISE_ARRIVALS = 20
    """One uniform a job."""
    NOISE_RUN_TIMES = 21
    """One uniform a job."""
    NOISE_PRODUCTION = 22
    """One uniform a step."""


def uniforms(seed: int, stream: Stream, count: int) -> FloatArray:
    """Draw ``count`` uniform numbers in [0, 1) of one stream of ``seed`` (0 or more)."""
    sequence = np.random.SeedSequence(seed, spawn_key=(int(stream),))
    return np.random.Generator(np.random.PCG64(sequence)).random(count)


def log_normal(uniform: FloatArray, median: float, log_sd: float) -> FloatArray:
    """Turn uniforms into log-normal numbers by the inverse of the distribution function."""
    inverse = NormalDist().inv_cdf
    smallest = 2.0**-54
    return np.array([median * math.exp(log_sd * inverse(max(u, smallest))) for u in uniform.tolist()])
