"""Random numbers that stay the same: one independent stream for each purpose of a seed; drawn walltimes.

Every stream is a PCG64 generator seeded by ``SeedSequence(seed, spawn_key=(number,))``; only uniform
doubles are drawn (NumPy keeps those stable across versions, which it does not promise for its
distributions), a fixed count for each job. A new option takes a new stream number, so that old seeds
keep their values. Numbers are never reused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import IntEnum
from statistics import NormalDist
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray


class Stream(IntEnum):
    """Purpose of a stream of random numbers: one uniform per job, unless stated otherwise."""

    WALLTIME_GROUPS = 0
    """Their ranks shuffle the jobs into groups."""
    ARRIVAL_GAPS = 1
    """One uniform for each gap: the jobs of a day and one more, day after day."""
    RUN_TIMES = 2
    HOSTS = 3
    CLOUDS = 10
    """One uniform for each interval of synthetic weather, as for `WIND`."""
    WIND = 11
    NOISE_ARRIVALS = 20
    NOISE_RUN_TIMES = 21
    NOISE_PRODUCTION = 22
    """One uniform per step."""
    ESTIMATES = 30
    """One uniform per job: how far its run time is from the user's estimate."""
    DEADLINES = 31
    """One uniform per job."""


def uniforms(seed: int, stream: Stream, count: int) -> FloatArray:
    """Draw ``count`` uniform numbers in [0, 1) of one stream of ``seed`` (0 or more)."""
    sequence = np.random.SeedSequence(seed, spawn_key=(int(stream),))
    return np.random.Generator(np.random.PCG64(sequence)).random(count)


def normals(uniform: FloatArray) -> Iterator[float]:
    """Turn uniforms into standard normal numbers by the inverse of the distribution function."""
    inverse = NormalDist().inv_cdf
    return (inverse(max(share, 2.0**-54)) for share in uniform.tolist())


def log_normal(uniform: FloatArray, median: float, log_sd: float) -> FloatArray:
    """Turn uniforms into log-normal numbers in the same way."""
    return np.array([median * math.exp(log_sd * z) for z in normals(uniform)])


GROUP_FACTORS: Final = (5.0, 3.333333333, 2.0, 1.428571429, 1.111111111)
"""Walltime over run time in five equal groups of jobs (thesis, Section 3.2.1, after Takizawa and Takano)."""


def grouped_walltimes(run_s: FloatArray, seed: int) -> FloatArray:
    """Return the walltimes of jobs split at random into five equal groups (sizes differ by one at most)."""
    shuffled = np.argsort(uniforms(seed, Stream.WALLTIME_GROUPS, len(run_s)), kind="stable")
    ranks = np.argsort(shuffled)
    factors = np.array(GROUP_FACTORS)[ranks % len(GROUP_FACTORS)]
    return to_microseconds(run_s * factors)


def to_microseconds(times_s: FloatArray) -> FloatArray:
    """Round times as Batsim prints them, so that file and messages agree; never down to 0."""
    return np.maximum(np.round(times_s, 6), 1e-6)
