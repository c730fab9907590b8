"""A cluster on which others place jobs, several of them on one host if they share it."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from beasy_sched.arrays import any_of
from beasy_sched.errors import PolicyError
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.host_states import BUSY, IDLE
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.model.platform import Platform


class SharedCluster(Cluster):
    """A cluster whose hosts may have several jobs; each host is busy until its last job has ended."""

    def __init__(self, platform: Platform) -> None:
        """Begin without jobs."""
        super().__init__(platform)
        self._jobs_on = np.zeros(self.size, dtype=np.int64)
        """Number of jobs that were taken over on each host."""
        self._orders_on: dict[int, set[int]] = defaultdict(set)
        """Their `Job.start_order`, by host."""
        self._before_j: dict[str, float] = {}
        """Energy that the hosts of each job had spent on earlier jobs when it was taken over, J."""

    def submit(self, job: Job) -> Job:
        """Extend `Cluster.submit`: note jobs that take a part of their hosts."""
        self.shares_hosts = self.shares_hosts or job.terms.host_share < 1.0
        return super().submit(job)

    def start(self, job: Job, hosts: HostSet, now: float) -> HostSet:
        """Extend `Cluster.start`: a job that takes a part of its hosts may start on hosts with other jobs."""
        if job.terms.host_share == 1.0:
            return super().start(job, hosts, now)
        if len(hosts) != job.res:
            raise PolicyError(f"job {job.id} requests {job.res} hosts and was given {len(hosts)} ({hosts})")
        return self.take(job, hosts, now)

    def take(self, job: Job, hosts: HostSet, now: float) -> HostSet:
        """Take over a waiting job that others have started on ``hosts``, which may have other jobs.

        The number of hosts may differ from the request. Returns a copy of the hosts. Raises PolicyError for
        hosts that are neither idle nor busy, and for a job that does not wait.
        """
        hosts = hosts.kept()
        ids = hosts.ids
        self.check_hosts(hosts, f"job {job.id} was started on")
        self.queue.check_holds(job)
        if not ids.size or any_of(self.state[ids] > BUSY):
            raise PolicyError(f"job {job.id} was started on hosts that are not on: {self._not_free(ids)}")
        self.queue.remove(job)
        job.state, job.hosts, job.res = JobState.RUNNING, hosts, ids.size
        job.start_s = job.worked_until_s = now
        job.expected_end_s = now + job.walltime_s
        if not self._has_speeds:
            job.work_flops = np.nan
        self.running[job.id] = job
        self._starts += 1
        job.start_order = self._starts
        self._job_on[self._starts] = job
        self._jobs_on[ids] += 1
        for host in ids.tolist():
            self._orders_on[host].add(job.start_order)
        new = HostSet(ids[self.state[ids] == IDLE])
        if len(new):
            self._order_on[new.ids] = self._starts
            self.load[new.ids] = load = self.load_of(job, new.ids)
            self._move(new, IDLE, BUSY, now, load)
        if self._account is not None and len(new) < len(hosts):
            self._before_j[job.id] = self._account.job_spent_j(ids, now)
        self._refresh_free(ids)
        return hosts

    def end(self, job_id: str, state: JobState, now: float) -> Job:
        """Remove a job from its hosts; those of other jobs stay busy. Raises PeerError if it does not run."""
        job = self.running.get(job_id)
        if job is None or not self._jobs_on[job.hosts.ids].all():
            return super().end(job_id, state, now)  # unknown, or started by this process
        ids = job.hosts.ids
        self._jobs_on[ids] -= 1
        for host in ids.tolist():
            self._orders_on[host].discard(job.start_order)
        shared = ids[self._jobs_on[ids] > 0]
        before_j = self._before_j.pop(job_id, 0.0)
        if not len(shared) and not before_j:
            return super().end(job_id, state, now)
        energy_j = math.nan if self._account is None else self._account.job_spent_j(ids, now) - before_j
        hosts, job.hosts = job.hosts, HostSet(ids[self._jobs_on[ids] == 0])
        work_flops, worked_s = job.work_flops, now - job.worked_until_s
        computes, job.computes = job.computes, False  # its pace is that of all its hosts, not of those left
        super().end(job_id, state, now)
        job.hosts, job.computes, job.energy_j = hosts, computes, energy_j * job.terms.host_share
        if computes:
            job.work_flops = work_flops + float(self.speed_flops(ids).min()) * worked_s
        for host in shared.tolist():
            self._order_on[host] = max(self._orders_on[host])
        return job

    def set_kill_pending(self, job: Job) -> None:
        """Record that a kill is pending for a running job, on the hosts that have no other job."""
        alone = job.hosts.ids[self._jobs_on[job.hosts.ids] < 2]
        self._some_kill_pending = True
        self.kill_pending[alone] = True
