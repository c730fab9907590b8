"""The cluster: hosts, their jobs, and the queue.

Events and decisions change it through its methods. The progress of jobs follows from the past P-states of
their hosts (`Progress`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray, PStateArray, all_of, distinct
from beasy_sched.errors import PeerError, PolicyError
from beasy_sched.limits import shortened
from beasy_sched.model.host_states import BUSY, IDLE
from beasy_sched.model.host_table import HostTable
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job, JobQueue, JobState
from beasy_sched.model.platform import Platform
from beasy_sched.units import TIME_TOLERANCE_S


class Progress(NamedTuple):
    """Progress of jobs that run or have ended: arrays with one entry per job."""

    run_s: FloatArray
    """Time that each job has run, s; NaN for one that has not started."""
    work_flops: FloatArray
    """Flops done on each of a job's hosts: the slowest host sets the pace. NaN if speeds are unknown, 0 for a
    ``delay`` job."""
    work_share: FloatArray
    """Work done as a share of the work that fits into the walltime at the reference speed, that of the median
    P-state (Eq. 3.29 of the thesis with epsilon_u = 1): above 1 for a job that has done more on faster
    P-states. For a ``delay`` job, whose run time does not depend on its hosts, the elapsed share of the
    walltime. NaN without a walltime."""
    energy_j: FloatArray
    """Energy of a job's hosts since its start, idle power included, J; NaN if energy is not counted."""


class Cluster(HostTable):
    """The scheduler's model of the cluster: hosts, waiting and running jobs."""

    def __init__(self, platform: Platform) -> None:
        """Begin without jobs."""
        super().__init__(platform)
        self.queue = JobQueue()
        self.shares_hosts = False
        """Whether a job has been submitted that takes only a part of its hosts."""
        self.departures = 0
        """Number of waiting jobs that have left without having started."""
        self.running: dict[str, Job] = {}
        self.kill_pending = np.zeros(self.size, dtype=np.bool_)
        """Whether a kill is pending for the job on each host, [N]."""
        self._some_kill_pending = False
        """Whether a kill was ever pending."""
        self._starts = 0
        self._job_on: dict[int, Job] = {}
        """Running jobs by their order of start, in that order."""
        self._order_on = np.zeros(self.size, dtype=np.int64)
        """Order of start of the job on each host; 0 if there is none."""
        self._ends: list[tuple[float, int, Job]] = []
        """Result of the last call of `ends`."""
        self._ends_at = 0
        """Number of jobs that had been started when `ends` was last called."""
        self._ended: list[Job] = []
        """Jobs in `_ends` that have ended since `ends` was last called."""
        self._has_speeds = platform.has_speeds
        self._reference_flops = np.array(
            [kind.reference_speed_flops if kind.speeds_flops else np.nan for kind in platform.kinds]
        )
        """Reference speed of each kind, flops/s."""

    @property
    def ends(self) -> list[tuple[float, int, Job]]:
        """Running jobs sorted by latest end: (expected end in s, order of start, job)."""
        ends = self._ends
        for job in self._ended:
            del ends[bisect_left(ends, (job.expected_end_s, job.start_order))]
        self._ended.clear()
        if self._ends_at < self._starts:
            new = takewhile(lambda job: job.start_order > self._ends_at, reversed(self._job_on.values()))
            for job in new:
                insort(ends, (job.expected_end_s, job.start_order, job))
            self._ends_at = self._starts
        return ends

    def submit(self, job: Job) -> Job:
        """Queue a job."""
        self.queue.append(job)
        return job

    def reorder(self, jobs: Iterable[Job]) -> None:
        """Move waiting jobs to the end of the queue, in this order."""
        for job in jobs:
            self.queue.remove(job)
            self.queue.append(job)
        self.departures += 1

    def start(self, job: Job, hosts: HostSet, now: float) -> HostSet:
        """Start a waiting job on ``hosts``. Raises PolicyError if Batsim would abort.

        Returns a copy of the hosts: the caller may modify its own array.
        """
        hosts = hosts.kept()
        ids, index = hosts.ids, hosts.index
        if job.state is not JobState.WAITING or job.place < 0:
            where = job.state.value if job.state is not JobState.WAITING else "not in the queue"
            raise PolicyError(f"job {job.id} is {where}: it cannot be started")
        if ids.size != job.res:
            raise PolicyError(f"job {job.id} requests {job.res} hosts and was given {ids.size} ({hosts})")
        self.queue.check_holds(job)
        self.check_hosts(hosts, f"job {job.id} was given")
        if not (self.free[index] if type(index) is int else all_of(self.free[index])):
            raise PolicyError(f"job {job.id} was given hosts that are not free: {self._not_free(ids)}")
        job.state = JobState.RUNNING
        self.queue.remove(job)
        job.hosts = hosts
        job.start_s = now
        job.worked_until_s = now
        if not self._has_speeds:
            job.work_flops = np.nan
        job.expected_end_s = now + job.walltime_s
        self.running[job.id] = job
        self._starts += 1
        job.start_order = self._starts
        self._job_on[self._starts] = job
        self._order_on[index] = self._starts
        load: FloatArray | float = 1.0
        if self._account is not None:
            self.load[ids] = load = self.load_of(job, ids)
        self._move(hosts, IDLE, BUSY, now, load)
        self.free[index] = False
        self.free_count -= ids.size
        return hosts

    def end(self, job_id: str, state: JobState, now: float) -> Job:
        """Remove a job from its hosts. Raises PeerError for a job that is not running."""
        job = self.running.pop(job_id, None)
        if job is None:
            raise PeerError(
                f"the simulator reported the end of job {shortened(job_id)}, which is not running"
            )
        if now < job.start_s - TIME_TOLERANCE_S:
            raise PeerError(f"job {job_id} ended at {now} s, before its start at {job.start_s} s")
        job.move(state)
        job.end_s = now
        if job.start_order <= self._ends_at:
            self._ended.append(job)
        hosts = job.hosts
        ids, index = hosts.ids, hosts.index
        self._count_work(job, now)
        del self._job_on[job.start_order]
        self._order_on[index] = 0
        if self._account is not None:
            job.energy_j = self._account.job_spent_j(ids, now)
            self.load[ids] = 0.0
        if self._some_kill_pending:
            self.kill_pending[ids] = False
        self._move(hosts, BUSY, IDLE, now)
        self._free_again(hosts)
        return job

    def set_kill_pending(self, job: Job) -> None:
        """Record that a kill is pending for a running job."""
        self._some_kill_pending = True
        self.kill_pending[job.hosts.ids] = True

    def drop(self, job: Job, state: JobState) -> None:
        """Remove a waiting job permanently (rejected or postponed), whether or not it has been queued."""
        job.move(state)
        if job.place >= 0:
            self.queue.remove(job)
        self.departures += 1

    def progress(self, jobs: Sequence[Job], now: float) -> Progress:
        """Return the progress of ``jobs`` at ``now`` (s), or at their end."""
        run_s = np.array([job.end_s - job.start_s for job in jobs])
        work_flops = np.array([job.work_flops for job in jobs])
        energy_j = np.array([job.energy_j for job in jobs])
        rows = [row for row, job in enumerate(jobs) if job.state is JobState.RUNNING]
        if rows:
            running = [jobs[row] for row in rows]
            sizes = [len(job.hosts) for job in running]
            hosts, first = np.concatenate([job.hosts.ids for job in running]), np.cumsum([0, *sizes[:-1]])
            run_s[rows] = now - np.array([job.start_s for job in running])
            pace_flops = np.minimum.reduceat(self.speed_flops(hosts), first)
            pace_flops *= np.array([job.computes for job in running])
            work_flops[rows] += pace_flops * (now - np.array([job.worked_until_s for job in running]))
            if self._account is not None:
                energy_j[rows] = np.add.reduceat(self._account.spent_j(now)[hosts], first)
        walltime_s = np.array([job.walltime_s for job in jobs])
        done_s = np.where([job.computes for job in jobs], work_flops / self._references_flops(jobs), run_s)
        work_share = np.divide(done_s, walltime_s, out=np.full(len(jobs), np.nan), where=walltime_s < np.inf)
        return Progress(run_s, work_flops, work_share, energy_j)

    def work_flops(self, jobs: Sequence[Job], now: float) -> FloatArray:
        """Return the flops that running ``jobs`` have done by ``now`` (s) on each of their hosts."""
        done = np.array([(job.work_flops, job.worked_until_s, job.computes) for job in jobs])
        pace_flops: FloatArray | float | None = self._pace_flops
        if pace_flops is None:
            counts = [len(job.hosts) for job in jobs]
            speeds_flops = self.speed_flops(np.concatenate([job.hosts.ids for job in jobs]))
            pace_flops = np.minimum.reduceat(speeds_flops, np.cumsum([0, *counts[:-1]]))
        return np.asarray(done[:, 0] + pace_flops * done[:, 2] * (now - done[:, 1]))

    def change_speed(self, hosts: HostIds, pstate: int, now: float) -> None:
        """Change hosts that are on to their requested computing P-state immediately."""
        jobs = [self._job_on[order] for order in distinct(self._order_on[hosts]) if order]
        for job in jobs:
            self._count_work(job, now)
        self.pstate[hosts] = pstate
        if self._account is not None:
            for job in jobs:
                self.load[job.hosts.ids] = self.load_of(job, job.hosts.ids)
            loaded = hosts
            if jobs:
                loaded = np.unique(np.concatenate([hosts, *(job.hosts.ids for job in jobs)]))
            state = self.state[loaded]
            for same in distinct(state):
                some = loaded[state == same]
                self._account.change(some, same, same, self.pstate[some], now, self.load[some])
        self._refresh_speed()
        self.drop_requests(hosts)

    def load_of(self, job: Job, hosts: HostIds, pstate: PStateArray | None = None) -> FloatArray | float:
        """Return the share of full load that ``job`` puts on each host: the slowest one sets the pace.

        ``pstate`` replaces the current P-states of the hosts.
        """
        if not job.computes:
            return 0.0
        speeds = self.speed_flops(hosts, pstate)
        listed = speeds.tolist()
        slowest = min(listed, default=0.0)
        if slowest <= 0.0 or listed.count(slowest) == len(listed):
            return 1.0
        return slowest / speeds

    def _references_flops(self, jobs: Sequence[Job]) -> FloatArray | float:
        """Return the speed to which each job's walltime refers, the minimum among its hosts, flops/s."""
        if len(self._reference_flops) == 1:
            return float(self._reference_flops[0])
        kinds = (self.platform.kind_of[job.hosts.ids] for job in jobs)
        return np.array([self._reference_flops[some].min(initial=np.inf) for some in kinds])

    def _count_work(self, job: Job, now: float) -> None:
        """Add the work of a running job since it was last counted; must be called before its pace changes."""
        if job.computes and job.res:
            pace_flops = self._pace_flops
            if pace_flops is None:
                pace_flops = float(self.speed_flops(job.hosts.ids).min())
            job.work_flops += pace_flops * (now - job.worked_until_s)
        job.worked_until_s = now

    def _free_again(self, hosts: HostSet) -> None:
        ids = hosts.ids
        self.hosts_version += 1
        if self.all_available and not self._some_requested:
            self.free[hosts.index] = True
            self.free_count += ids.size
            return
        usable = self.available[ids] & ~self.sleep_requested[ids]
        self.free[ids] = usable
        self.free_count += int(np.count_nonzero(usable))
