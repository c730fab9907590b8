"""Seeded synthetic workloads in the manner of MetaCentrum.

The thesis (Section 3.2.1) finds log-normal run times and inter-arrival times in the MetaCentrum trace.
Here each day gets its share of the jobs; within a day the gaps between arrivals are log-normal, stretched
to fill the day, and bent by a day and night cycle where one is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError
from beasy_sched.generate.random_streams import Stream, log_normal, uniforms
from beasy_sched.generate.walltimes import grouped_walltimes
from beasy_sched.generate.workload import GeneratedWorkload, ProfileType
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

ARRIVAL_SHAPES: Final[Mapping[str, tuple[float, ...]]] = {
    "begin": (75.0, 17.0, 8.0),
    "end": (8.0, 17.0, 75.0),
    "uniform": (1.0, 1.0, 1.0),
}
"""Share of the arrivals of each day, by the name of the shape."""
BUSIEST_HOUR: Final = 14.0
"""Time of day at which most jobs arrive, where there is a day and night cycle."""


@dataclass(frozen=True, kw_only=True)
class SyntheticOptions:
    """Parameters of `synthetic_workload`; the defaults are those of the project's scenarios."""

    reference_speed_flops: float
    """Speed at which a job takes its run time, flops/s a host."""
    jobs: int = 900
    hosts: int = 50
    """Hosts of the site."""
    day_shares: tuple[float, ...] = ARRIVAL_SHAPES["begin"]
    """Relative number of arrivals of each day; there are as many days as numbers."""
    night_ratio: float = 1.0
    """Arrival rate at the quietest time of day over that at the busiest (1: no cycle)."""
    gap_log_sd: float = 1.0
    """Standard deviation of the logarithm of the gaps between arrivals (0: equal gaps)."""
    run_median_s: float = 1800.0
    run_log_sd: float = 1.3
    run_cap_s: float = 6 * SECONDS_PER_HOUR
    """Longest run time; longer ones are cut to it."""
    host_shares: Mapping[int, float] = field(default_factory=lambda: {1: 70.0, 2: 15.0, 4: 15.0})
    """Relative number of jobs by the hosts that they request."""
    walltimes: bool = True
    """Five groups of overestimation; False: no limit."""
    profile_type: ProfileType = "parallel_homogeneous"
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ConfigError for values that make no sense."""
        problems = {
            "the reference speed must be above 0": not 0 < self.reference_speed_flops < math.inf,
            "jobs must be 1 or more": self.jobs < 1,
            "hosts must be 1 or more": self.hosts < 1,
            "the shares of the days must be 0 or more, and one above 0": not _are_shares(self.day_shares),
            "the night ratio must be above 0, and 1 at most": not 0 < self.night_ratio <= 1,
            "the log-sd of gaps and run times must be 0 to 10": not (
                0 <= self.gap_log_sd <= 10 and 0 <= self.run_log_sd <= 10
            ),
            "the median run time must be 1 s or more": not 1 <= self.run_median_s < math.inf,
            "the run time cap must be 1 s or more": not 1 <= self.run_cap_s < math.inf,
            "the shares of the host counts must be 0 or more, and one above 0": not _are_shares(
                tuple(self.host_shares.values())
            ),
            f"host counts must be 1 to {self.hosts}, the site's size": not all(
                1 <= count <= self.hosts for count in self.host_shares
            ),
            "the seed must be 0 or more": self.seed < 0,
        }
        for message, wrong in problems.items():
            if wrong:
                raise ConfigError(message)


def _are_shares(shares: tuple[float, ...]) -> bool:
    return bool(shares) and all(0 <= share < math.inf for share in shares) and 0 < sum(shares) < math.inf


def synthetic_workload(options: SyntheticOptions) -> GeneratedWorkload:
    """Draw a workload; the same options give the same jobs."""
    run_s = _run_times(options)
    walltime_s = np.full(options.jobs, math.nan)
    if options.walltimes:
        walltime_s = grouped_walltimes(run_s, options.seed)
    workload = GeneratedWorkload(
        nb_res=options.hosts,
        window_s=len(options.day_shares) * SECONDS_PER_DAY,
        ids=[str(number) for number in range(options.jobs)],
        submit_s=_arrivals(options),
        run_s=run_s,
        hosts=_hosts(options),
        walltime_s=walltime_s,
        reference_speed_flops=options.reference_speed_flops,
        profile_type=options.profile_type,
    )
    workload.report.rows = options.jobs
    return workload


def split_by_shares(total: int, shares: tuple[float, ...]) -> list[int]:
    """Split ``total`` into whole numbers in proportion to ``shares`` (largest remainders first)."""
    exact = [total * share / sum(shares) for share in shares]
    counts = [math.floor(value) for value in exact]
    remainders = sorted(range(len(shares)), key=lambda i: (counts[i] - exact[i], i))
    for index in remainders[: total - sum(counts)]:
        counts[index] += 1
    return counts


def _arrivals(options: SyntheticOptions) -> FloatArray:
    """Return the submission times in whole seconds, rising."""
    counts = split_by_shares(options.jobs, options.day_shares)
    gaps = log_normal(
        uniforms(options.seed, Stream.ARRIVAL_GAPS, options.jobs + len(counts)), 1.0, options.gap_log_sd
    )
    days, start = [], 0
    for day, count in enumerate(counts):
        until = np.cumsum(gaps[start : start + count + 1])
        start += count + 1
        in_day = _time_of_day(until[:-1] / until[-1], options.night_ratio)
        days.append(day * SECONDS_PER_DAY + np.floor(in_day * SECONDS_PER_DAY))
    return np.concatenate(days)


def _time_of_day(share: FloatArray, night_ratio: float) -> FloatArray:
    """Return when (0 to 1) a share of the day's arrivals has come, for a sinusoidal rate of arrival."""
    if night_ratio == 1.0:
        return share
    times = np.linspace(0.0, 1.0, 1441)
    swing = (1 - night_ratio) / (1 + night_ratio)
    peak = BUSIEST_HOUR / 24
    angle = 2 * math.pi
    arrived = times + swing / angle * (np.sin(angle * (times - peak)) + math.sin(angle * peak))
    return np.interp(share, arrived, times)


def _run_times(options: SyntheticOptions) -> FloatArray:
    """Return run times in whole seconds, 1 at least."""
    uniform = uniforms(options.seed, Stream.RUN_TIMES, options.jobs)
    drawn = log_normal(uniform, options.run_median_s, options.run_log_sd)
    return np.maximum(np.rint(np.minimum(drawn, options.run_cap_s)), 1.0)


def _hosts(options: SyntheticOptions) -> IntArray:
    counts = np.array(sorted(options.host_shares), dtype=np.int64)
    shares = np.cumsum([options.host_shares[int(count)] for count in counts])
    drawn = uniforms(options.seed, Stream.HOSTS, options.jobs)
    return counts[np.searchsorted(shares / shares[-1], drawn, side="right")]
