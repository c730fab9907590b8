"""Walltimes: how users overestimate (or the trace says they did)."""

from __future__ import annotations

from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.generate.random_streams import Stream, uniforms

GROUP_FACTORS: Final = (5.0, 3.333333333, 2.0, 1.428571429, 1.111111111)
"""Walltime over run time in five equal groups of jobs (thesis, Section 3.2.1, after Takizawa and Takano)."""


def grouped_walltimes(run_s: FloatArray, seed: int) -> FloatArray:
    """Return the walltimes of jobs split at random into five equal groups (sizes differ by one at most)."""
    shuffled = np.argsort(uniforms(seed, Stream.WALLTIME_GROUPS, len(run_s)), kind="stable")
    ranks = np.argsort(shuffled)
    factors = np.array(GROUP_FACTORS)[ranks % len(GROUP_FACTORS)]
    return to_microseconds(run_s * factors)


def to_microseconds(times_s: FloatArray) -> FloatArray:
    """Round times as Batsim prints them, so that file and messages say the same; never down to 0."""
    return np.maximum(np.round(times_s, 6), 1e-6)
