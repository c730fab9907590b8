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
    """The hosts of several jobs, one job after the other."""

    def __init__(self, hosts: Sequence[HostIds]) -> None:
        """Lay out the hosts of each job, of one at least."""
        self.ids = np.concatenate(hosts)
        self.counts = np.array([len(mine) for mine in hosts])
        """The number of hosts of each job."""
        self.first = self.counts.cumsum() - self.counts
        """Place of each job's first host among the hosts of all jobs."""

    @cached_property
    def job_of(self) -> IntArray:
        """The job of each host."""
        return np.arange(len(self.first)).repeat(self.counts)

    def only(self, job: int) -> JobHosts:
        """The hosts of one job."""
        begin = int(self.first[job])
        return JobHosts([self.ids[begin : begin + int(self.counts[job])]])


class JobTable:
    """Running jobs as compensation sees them: arrays with one entry per job, and one per host of all jobs."""

    def __init__(self, layout: JobHosts, left_s: FloatArray, remaining_flops: FloatArray) -> None:
        """Keep the arrays."""
        self.layout = layout
        self.hosts, self.first = layout.ids, layout.first
        self.left_s = left_s
        """Time of each job to its walltime, s."""
        self.remaining_flops = remaining_flops
        """Estimated remaining work of each host (Dfl' - Gfl of Eq. 3.28) by job, never negative."""

    def only(self, job: int) -> JobTable:
        """The table of one job."""
        entry = slice(job, job + 1)
        return JobTable(self.layout.only(job), self.left_s[entry], self.remaining_flops[entry])

    def least(self, values: FloatArray) -> FloatArray:
        """The least value among each job's hosts; ``values``' last axis is that of the hosts."""
        return np.minimum.reduceat(values, self.first, axis=-1)

    def needed_s(self, speeds_flops: FloatArray) -> FloatArray:
        """Time that each job needs at the slowest of its hosts' speeds, s."""
        slowest = self.least(speeds_flops)
        needed_s = np.full(slowest.shape, np.inf)
        np.divide(self.remaining_flops, slowest, out=needed_s, where=slowest > 0.0)
        return needed_s
