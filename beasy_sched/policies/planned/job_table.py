"""Running jobs and their hosts, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from beasy_sched.arrays import (
    FloatArray,
    IntArray,
)
from beasy_sched.model.hosts import HostIds


class JobHosts:
    """Hosts of several jobs, one job after the other."""

    def __init__(self, hosts: Sequence[HostIds]) -> None:
        """Concatenate the hosts of at least one job."""
        self.ids = np.concatenate(hosts)
        self.counts = np.array([len(mine) for mine in hosts])
        """Number of hosts of each job."""
        self.first = self.counts.cumsum() - self.counts
        """Index of each job's first host among the hosts of all jobs."""

    @cached_property
    def job_of(self) -> IntArray:
        """Job of each host."""
        return np.arange(len(self.first)).repeat(self.counts)

    def only(self, job: int) -> JobHosts:
        """Return the hosts of one job."""
        begin = int(self.first[job])
        return JobHosts([self.ids[begin : begin + int(self.counts[job])]])


class JobTable:
    """Running jobs for compensation: arrays with one entry per job, or one per host of all jobs."""

    def __init__(self, layout: JobHosts, left_s: FloatArray, remaining_flops: FloatArray) -> None:
        """Store the arrays."""
        self.layout = layout
        self.hosts, self.first = layout.ids, layout.first
        self.left_s = left_s
        """Remaining walltime of each job, s."""
        self.remaining_flops = remaining_flops
        """Estimated remaining work of each host (Dfl' - Gfl of Eq. 3.28) by job, never negative."""

    def only(self, job: int) -> JobTable:
        """Return the table of one job."""
        entry = slice(job, job + 1)
        return JobTable(self.layout.only(job), self.left_s[entry], self.remaining_flops[entry])

    def least(self, values: FloatArray) -> FloatArray:
        """Return the minimum among each job's hosts; the last axis of ``values`` is that of the hosts."""
        return np.minimum.reduceat(values, self.first, axis=-1)

    def needed_s(self, speeds_flops: FloatArray) -> FloatArray:
        """Return the time that each job needs at the speed of its slowest host, s."""
        slowest = self.least(speeds_flops)
        needed_s = np.full(slowest.shape, np.inf)
        np.divide(self.remaining_flops, slowest, out=needed_s, where=slowest > 0.0)
        return needed_s
