"""The cluster: its hosts' states, the running jobs and the queue, and what the hosts draw.

Events and decisions change it through its methods. A `PowerModel` tells the power of a host by state, a
`PowerAccount` keeps the energy of every use up to date change by change. How far jobs are follows from the
P-states that their hosts have had (`Progress`).
"""

from __future__ import annotations

import operator
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import reduce
from itertools import takewhile
from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import (
    FloatArray,
    PStateArray,
    StateArray,
    all_of,
    any_of,
    distinct,
    is_rising,
    total,
)
from beasy_sched.errors import PeerError, PolicyError
from beasy_sched.limits import shortened
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job, JobQueue, JobState
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.units import TIME_TOLERANCE_S


class HostState(IntEnum):
    """What a server is doing."""

    IDLE = 0
    BUSY = 1
    ASLEEP = 2
    SWITCHING_OFF = 3
    SWITCHING_ON = 4


IDLE, BUSY, ASLEEP, SWITCHING_OFF, SWITCHING_ON = (int(state) for state in HostState)
"""The same as plain integers: comparing arrays with them is several times as fast."""

USES = ("idle", "computing", "sleeping", "switching off", "switching on")
"""Names of the energy uses, by `HostState`."""


NOT_REQUESTED: Final = -1
"""In place of a requested P-state: nothing is requested."""


class Progress(NamedTuple):
    """How far jobs are that run or have ended: arrays with one entry per job."""

    run_s: FloatArray
    """How long each has run, s; NaN for one that has not started."""
    work_flops: FloatArray
    """Flops done on each of its hosts: the slowest one sets the pace. NaN if speeds are not known, 0 for a
    ``delay`` job."""
    work_share: FloatArray
    """The work done as a share of what fits into the walltime at the reference speed, the median P-state's
    (Eq. 3.29 of the thesis with epsilon_u = 1): above 1 for a job that has outrun its walltime on faster
    P-states. For a ``delay`` job, whose run time does not depend on its hosts, the share of the walltime
    that has passed. NaN without a walltime."""
    energy_j: FloatArray
    """Energy of its hosts since it started, their idle power included, J; NaN if energy is not counted."""


_OUT_OF_TRANSITION = {SWITCHING_OFF: ASLEEP, SWITCHING_ON: IDLE}
_INTO_TRANSITION = {after: before for before, after in ((IDLE, SWITCHING_OFF), (ASLEEP, SWITCHING_ON))}


class Cluster:
    """The scheduler's picture of the site. Its arrays are for others to read only."""

    # With more than 30 attributes, calls of methods would take twice as long without.
    __slots__ = (
        "_account",
        "_counts",
        "_ended",
        "_ends",
        "_ends_at",
        "_has_speeds",
        "_job_on",
        "_one_speed",
        "_order_on",
        "_pace_flops",
        "_reference_flops",
        "_some_pending",
        "_some_requested",
        "_speeds",
        "_starts",
        "_wakes",
        "all_available",
        "availability_version",
        "available",
        "free",
        "free_count",
        "kill_pending",
        "load",
        "platform",
        "power",
        "pstate",
        "queue",
        "requested_pstate",
        "requests",
        "running",
        "size",
        "sleep_requested",
        "state",
        "state_counts",
        "state_since_s",
        "switch_end_s",
        "uniform_speed",
        "wake_requested",
    )

    def __init__(self, platform: Platform) -> None:
        """All servers idle, or asleep where their initial P-state is one of sleep."""
        size = platform.size
        self.platform = platform
        self.size = size
        self.state = np.zeros(size, dtype=np.int8)
        """`HostState` of each host."""
        self.pstate = platform.initial_pstates.astype(np.int16)
        """Present P-state; the target while switching."""
        self.state_counts = np.zeros((len(platform.kinds) or 1, len(HostState)), dtype=np.int64)
        """How many hosts of each kind are in each `HostState`, [kind, state]."""
        self._counts = self.state_counts[0].data if len(self.state_counts) == 1 else None
        """The same of the only kind, for changing single numbers in a fraction of the array's time."""
        self.load = np.zeros(size)
        """Share of full load that a job puts on each host: 1 on its slowest, 0 if it does not compute."""
        self.available = np.ones(size, dtype=np.bool_)
        self.all_available = True
        self.free = np.ones(size, dtype=np.bool_)
        """Idle and available: may be given to a job now."""
        self.free_count = size
        self.sleep_requested = np.zeros(size, dtype=np.bool_)
        """Requested to sleep: not given to new jobs."""
        self.requested_pstate = np.full(size, NOT_REQUESTED, dtype=np.int16)
        """The P-state requested of each host, while the command has not been sent; else `NOT_REQUESTED`."""
        self.requests = 0
        """Number of hosts with a request."""
        self._some_requested = False
        """Whether anything was ever requested."""
        self.kill_pending = np.zeros(size, dtype=np.bool_)
        """Hosts of jobs that are about to be killed."""
        self._some_pending = False
        """Whether any host was ever one of these."""
        self.wake_requested = np.zeros(size, dtype=np.bool_)
        """Asleep and requested to wake: the command has not been sent yet."""
        self.state_since_s = np.zeros(size)
        """When each host entered its present state, s."""
        self.power = PowerModel(platform)
        self.switch_end_s = np.zeros(size)
        """When a host in transition will complete it, s."""
        self._wakes: list[tuple[float, int]] | None = None
        """What `wakes` tells, until hosts change."""
        self.availability_version = 0
        """Changes whenever a waiting job may have become able to start: a host has become free, a waiting job
        has left."""
        self.queue = JobQueue()
        self.running: dict[str, Job] = {}
        self._ends: list[tuple[float, int, Job]] = []
        """What `ends` told last."""
        self._ends_at = 0
        """How many jobs had been started then."""
        self._ended: list[Job] = []
        """Those of `_ends` that have ended since."""
        self.uniform_speed = True
        """Whether all hosts run at the same speed."""
        self._speeds = _table(platform, [kind.speeds_flops for kind in platform.kinds])
        self._has_speeds = platform.has_speeds
        paces_flops = _paces_flops(platform)
        self._one_speed = len(paces_flops) < 2
        """Whether all computing P-states of all hosts have the same speed."""
        self._pace_flops = min(paces_flops) if len(paces_flops) == 1 else None
        """Speed of every host that has a job, flops/s; None if they may differ."""
        self._reference_flops = np.array(
            [kind.reference_speed_flops if kind.speeds_flops else np.nan for kind in platform.kinds]
        )
        """Reference speed of each kind, flops/s."""
        self._starts = 0
        self._account: PowerAccount | None = None
        """Energy by use; None if it is not counted."""
        self._job_on: dict[int, Job] = {}
        """Running jobs by their order of start, in that order."""
        self._order_on = np.zeros(size, dtype=np.int64)
        """Which job is on each host, by its order of start; 0 for none."""
        for row, kind in enumerate(platform.kinds):
            asleep = np.isin(self.pstate, list(kind.asleep_in)) & (platform.kind_of == row)
            self.state[asleep] = ASLEEP
        np.add.at(self.state_counts, (platform.kind_of, self.state), 1)
        self._refresh_free(np.arange(size))
        self._refresh_speed()

    def open_account(self) -> PowerAccount:
        """Start counting the energy of every use and job; call it at time 0."""
        self._account = PowerAccount(self.power, self.state, self.pstate)
        return self._account

    # --- jobs ---------------------------------------------------------------------------------

    @property
    def draw_w(self) -> FloatArray:
        """Present power of each host, W; for others to read only."""
        if self._account is not None:
            return self._account.draw_w
        return self.power.draw_w(np.arange(self.size), self.state, self.pstate, self.load)

    def any_in(self, state: int) -> bool:
        """Tell whether any host is in a `HostState`."""
        if self._counts is not None:
            return bool(self._counts[state])
        return bool(np.count_nonzero(self.state_counts[:, state]))

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

    def start(self, job: Job, hosts: HostSet, now: float) -> HostSet:
        """Start a waiting job on ``hosts``. Raises PolicyError if Batsim would abort.

        Returns a copy of the hosts: the caller may modify its own array.
        """
        hosts = hosts.kept()
        ids, index = hosts.ids, hosts.index
        if job.state is not JobState.WAITING or job.place < 0:
            where = job.state.value if job.state is not JobState.WAITING else "not in the queue"
            raise PolicyError(f"job {job.id} is {where}: it cannot be started")
        if len(ids) != job.res:
            raise PolicyError(f"job {job.id} requests {job.res} hosts and was given {len(ids)} ({hosts})")
        self.queue.check_holds(job)
        self.check_hosts(hosts, f"job {job.id} was given")
        if not self._are_free(index):
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
        self.free_count -= len(ids)
        return hosts

    def end(self, job_id: str, state: JobState, now: float) -> Job:
        """Take a job off its hosts. Raises PeerError for a job that is not running."""
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
        if self._some_pending:
            self.kill_pending[ids] = False
        self._move(hosts, BUSY, IDLE, now)
        self._free_again(hosts)
        return job

    def set_kill_pending(self, job: Job) -> None:
        """Note that a running job is about to be killed."""
        self._some_pending = True
        self.kill_pending[job.hosts.ids] = True

    def progress(self, jobs: Sequence[Job], now: float) -> Progress:
        """Return how far ``jobs`` are at ``now`` (s), or how far those were that have ended."""
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

    def _references_flops(self, jobs: Sequence[Job]) -> FloatArray | float:
        """Return the speed that each job's walltime stands for, the least among its hosts, flops/s."""
        if len(self._reference_flops) == 1:
            return float(self._reference_flops[0])
        kinds = (self.platform.kind_of[job.hosts.ids] for job in jobs)
        return np.array([self._reference_flops[some].min(initial=np.inf) for some in kinds])

    def _count_work(self, job: Job, now: float) -> None:
        """Add what a running job has done since it was last counted; call it before its pace changes."""
        if job.computes and len(job.hosts):
            pace_flops = self._pace_flops
            if pace_flops is None:
                pace_flops = float(self.speed_flops(job.hosts.ids).min())
            job.work_flops += pace_flops * (now - job.worked_until_s)
        job.worked_until_s = now

    def drop(self, job: Job, state: JobState) -> None:
        """Drop a waiting job for good (rejected or postponed), whether or not it has been queued."""
        job.move(state)
        if job.place >= 0:
            self.queue.remove(job)
        self.availability_version += 1

    # --- hosts --------------------------------------------------------------------------------

    def begin_switch(self, hosts: HostIds, state: int, pstate: int, now: float) -> None:
        """Start falling asleep or waking, towards ``pstate``: what was requested of ``hosts``, all alike."""
        duration_s = self.power.on_s if state == SWITCHING_ON else self.power.off_s
        self.switch_end_s[hosts] = now + duration_s[self.platform.kind_of[hosts]]
        self.pstate[hosts] = pstate
        self._move(HostSet(hosts), _INTO_TRANSITION[state], state, now)
        self.drop_requests(hosts)

    def change_speed(self, hosts: HostIds, pstate: int, now: float) -> None:
        """Change hosts that are on to another computing P-state immediately, as was requested of them."""
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

        ``pstate`` replaces the present P-states of the hosts.
        """
        if not job.computes:
            return 0.0
        speeds = self.speed_flops(hosts, pstate)
        listed = speeds.tolist()
        slowest = min(listed, default=0.0)
        if slowest <= 0.0 or listed.count(slowest) == len(listed):
            return 1.0
        return slowest / speeds

    def end_switch(self, hosts: HostIds, pstate: int, now: float) -> None:
        """End a transition: hosts are now asleep or awake in ``pstate``."""
        state = self.state[hosts]
        self.pstate[hosts] = pstate
        for before in distinct(state):
            if before in _OUT_OF_TRANSITION:
                self._move(HostSet(hosts[state == before]), before, _OUT_OF_TRANSITION[before], now)
        self._refresh_free(hosts)
        self._refresh_speed()

    def request(self, hosts: HostIds, pstate: int) -> None:
        """Request a P-state of ``hosts``, until a command is sent or the request is dropped.

        Those that are to sleep are given to no job meanwhile.
        """
        self._some_requested = True
        self.requested_pstate[hosts] = pstate
        self.requests = int(np.count_nonzero(self.requested_pstate != NOT_REQUESTED))
        to_sleep = self.platform.sleep_of_kind[self.platform.kind_of[hosts]] == pstate
        self.sleep_requested[hosts] = to_sleep
        self.wake_requested[hosts] = ~to_sleep & (self.state[hosts] == ASLEEP)
        self._refresh_free(hosts)

    def drop_requests(self, hosts: HostIds) -> None:
        """Forget what was requested of ``hosts``."""
        self.requests -= int(np.count_nonzero(self.requested_pstate[hosts] != NOT_REQUESTED))
        self.requested_pstate[hosts] = NOT_REQUESTED
        self.sleep_requested[hosts] = False
        self.wake_requested[hosts] = False
        self._refresh_free(hosts)

    def wakes(self) -> list[tuple[float, int]]:
        """Return the hosts that are waking to be used: (when ready in s, how many), sorted."""
        if not self.any_in(SWITCHING_ON):
            return []
        if self._wakes is None:
            waking = (self.state == SWITCHING_ON) & self.available & ~self.sleep_requested
            self._wakes = sorted(Counter(self.switch_end_s[waking].tolist()).items())
        return self._wakes[:]

    def set_available(self, hosts: HostIds, available: bool) -> None:
        """Take hosts out of service, or put them back."""
        self.available[hosts] = available
        self.all_available = all_of(self.available)
        self._refresh_free(hosts)

    def speed_flops(self, hosts: HostIds, pstate: PStateArray | None = None) -> FloatArray:
        """Return the speed of each host, now or in ``pstate``, flops/s (0 if not known)."""
        return self._speeds[self.platform.kind_of[hosts], self.pstate[hosts] if pstate is None else pstate]

    def check_hosts(self, hosts: HostSet, who: str) -> None:
        """Raise PolicyError unless ``hosts`` are hosts of the platform, sorted, each once."""
        ids = hosts.ids
        if len(ids) and (ids.item(0) < 0 or ids.item(-1) >= self.size or not is_rising(ids)):
            raise PolicyError(
                f"{who} hosts {ids.tolist()[:20]}: expected some of 0 to {self.size - 1}, sorted, each once"
            )

    def _move(
        self, hosts: HostSet, before: int, after: int, now: float, load: FloatArray | float = 1.0
    ) -> None:
        """Bring hosts from one `HostState` to another; ``load`` is the share of full load of busy ones."""
        ids, index, counts = hosts.ids, hosts.index, self._counts
        if counts is not None:
            counts[before] -= len(ids)
            counts[after] += len(ids)
        else:
            by_kind = np.bincount(self.platform.kind_of[ids], minlength=len(self.state_counts))
            self.state_counts[:, before] -= by_kind
            self.state_counts[:, after] += by_kind
        self.state[index] = after
        self.state_since_s[index] = now
        if self._account is not None:
            self._account.change(ids, before, after, self.pstate[ids], now, load)

    def _are_free(self, index: HostIds | int) -> bool:
        if isinstance(index, int):
            return bool(self.free[index])
        return all_of(self.free[index])

    def _free_again(self, hosts: HostSet) -> None:
        ids = hosts.ids
        self.availability_version += 1
        if self.all_available and not self._some_requested:
            self.free[hosts.index] = True
            self.free_count += len(ids)
            return
        usable = self.available[ids] & ~self.sleep_requested[ids]
        self.free[ids] = usable
        self.free_count += int(np.count_nonzero(usable))

    def _refresh_free(self, hosts: HostIds) -> None:
        self.availability_version += 1
        self._wakes = None
        idle = self.state[hosts] == IDLE
        self.free[hosts] = idle & self.available[hosts] & ~self.sleep_requested[hosts]
        self.free_count = int(np.count_nonzero(self.free))

    def _refresh_speed(self) -> None:
        if self.size and not self._one_speed:
            speeds = self._speeds[self.platform.kind_of, self.pstate]
            self.uniform_speed = all_of(speeds == speeds[0])
            self._pace_flops = float(speeds[0]) if self.uniform_speed else None

    def _not_free(self, ids: HostIds) -> str:
        bad = ids[~self.free[ids]]
        groups: dict[str, list[int]] = {}
        for host in bad.tolist():
            groups.setdefault(self._condition(host), []).append(host)
        return ", ".join(f"{HostSet.of(hosts)} ({condition})" for condition, hosts in groups.items())

    def _condition(self, host: int) -> str:
        state = HostState(int(self.state[host]))
        if state is HostState.IDLE:
            return "unavailable" if not self.available[host] else "idle, but to sleep"
        return state.name.lower().replace("_", " ")


def _paces_flops(platform: Platform) -> set[float]:
    """The different speeds of computing P-states, flops/s (0 if not known)."""
    return {
        kind.speeds_flops[p] if kind.speeds_flops else 0.0 for kind in platform.kinds for p in kind.computing
    }


class PowerModel:
    """Powers and transition times of every kind, as tables: [kind, P-state] in W, [kind] in s and W.

    A job computes on one core of each of its hosts, so it draws full power only where there is one core.
    """

    def __init__(self, platform: Platform) -> None:
        """Build the tables; kinds without powers draw nothing."""
        kinds = platform.kinds
        self.kind_of = platform.kind_of
        self.sleep_pstate = platform.sleep_of_kind
        self.idle_w = _table(platform, [kind.idle_w for kind in kinds])
        self.epsilon_w = _table(platform, [kind.epsilon_w or kind.idle_w for kind in kinds])
        self.full_w = _table(platform, [kind.full_w for kind in kinds])
        self.sleep_w = np.array([k.idle_w[k.sleep.pstate] if k.sleep and k.idle_w else 0.0 for k in kinds])
        self.off_w = np.array([_transition_w(kind, "off_pstate") for kind in kinds])
        self.on_w = np.array([_transition_w(kind, "on_pstate") for kind in kinds])
        self.off_s = np.array([kind.off_duration_s() for kind in kinds])
        self.on_s = np.array([kind.on_duration_s() for kind in kinds])
        self.can_sleep = np.array([kind.sleep is not None for kind in kinds])
        by_kind = [
            np.broadcast_to(w[:, None], self.idle_w.shape) for w in (self.sleep_w, self.off_w, self.on_w)
        ]
        self._unloaded_w = np.stack([self.idle_w, self.idle_w, *by_kind])
        """Power by state, kind and P-state, without a job's load."""
        cores = np.array([kind.cores for kind in kinds], dtype=np.float64)
        self._core_w = (self.full_w - self.epsilon_w) / cores[:, None]
        """What one core adds at full load."""
        self._loaded_w = self.epsilon_w + self._core_w
        """Power with one core at full load, as `busy_w` adds it up."""
        self._full_job_w = self._loaded_w - self.idle_w
        for table in vars(self).values():
            table.flags.writeable = False

    def state_w(self, hosts: HostIds, state: int, pstate: PStateArray) -> FloatArray:
        """Power of ``hosts`` that are all in one state, which is not that of a job, W."""
        return np.asarray(self._unloaded_w[state, self.kind_of[hosts], pstate])

    def draw_w(
        self,
        hosts: HostIds,
        state: StateArray,
        pstate: PStateArray,
        load: FloatArray | float = 1.0,
    ) -> FloatArray:
        """Power of ``hosts`` in these states (arrays of the same length), W; ``load`` of the busy, 0 to 1."""
        busy = state == BUSY
        draw_w: FloatArray = self._unloaded_w[state, self.kind_of[hosts], pstate]
        if any_of(busy):
            loads = load if isinstance(load, float) else load[busy]
            draw_w[busy] = self.busy_w(hosts[busy], pstate[busy], loads)
        return draw_w

    def busy_w(self, hosts: HostIds, pstate: PStateArray, load: FloatArray | float = 1.0) -> FloatArray:
        """Power of ``hosts`` at a share of one core's full load, W: idle at 0, epsilon or more above."""
        kinds = self.kind_of[hosts]
        if isinstance(load, float) and load == 1.0:
            return np.asarray(self._loaded_w[kinds, pstate])
        least_w = self.epsilon_w[kinds, pstate]
        loaded_w = least_w + self._core_w[kinds, pstate] * load
        return np.where(np.asarray(load) > 0.0, loaded_w, self.idle_w[kinds, pstate])

    def job_w(self, hosts: HostIds, pstate: PStateArray, load: FloatArray | None = None) -> float:
        """What a job adds to the idle power of its hosts, W; at full load where ``load`` is not given."""
        if load is None:
            return total(self._full_job_w[self.kind_of[hosts], pstate])
        idle_w = self.idle_w[self.kind_of[hosts], pstate]
        return total(self.busy_w(hosts, pstate, load) - idle_w)


class PowerAccount:
    """Energy of every use since time 0, and of each busy host for its present job."""

    def __init__(self, model: PowerModel, state: StateArray, pstate: PStateArray) -> None:
        """Start at time 0 with the hosts in these states."""
        size = len(state)
        self.model = model
        self.now_s = 0.0
        self._energy_by_use_j = [0.0] * len(USES)
        self._power_by_use_w = [0.0] * len(USES)
        self._hosts_by_use = [0] * len(USES)
        self.draw_w = model.draw_w(np.arange(size), state, pstate)
        """Present power of each host, W."""
        self._since_s = np.zeros(size)
        self._job_j = np.zeros(size)
        for use in distinct(state):
            self._add_up(use, self.draw_w[state == use], operator.add, 1)

    @property
    def power_w(self) -> float:
        """Present power of all servers, W."""
        return float(np.sum(self._power_by_use_w))

    @property
    def energy_by_use_j(self) -> FloatArray:
        """Energy of every use from time 0 to `now_s`, J."""
        return np.array(self._energy_by_use_j)

    def advance(self, now: float) -> None:
        """Advance to ``now`` (s)."""
        if now > self.now_s:
            for use, power_w in enumerate(self._power_by_use_w):
                self._energy_by_use_j[use] += power_w * (now - self.now_s)
            self.now_s = now

    def change(
        self,
        hosts: HostIds,
        before: int,
        after: int,
        pstate: PStateArray,
        now: float,
        load: FloatArray | float = 1.0,
    ) -> None:
        """Change hosts at ``now`` from one `HostState` to another, or from busy to busy in other P-states.

        ``load`` is the share of full load of busy ones. The job of hosts that were busy is over, if they are
        not busy any more.
        """
        self.advance(now)
        old_w = self.draw_w[hosts]
        if after == BUSY:
            new_w = self.model.busy_w(hosts, pstate, load)
        else:
            new_w = self.model.state_w(hosts, after, pstate)
        if before == BUSY:
            spent_j = old_w * (now - self._since_s[hosts])
            self._job_j[hosts] = self._job_j[hosts] + spent_j if after == BUSY else 0.0
        self._add_up(before, old_w, operator.sub, -1)
        self._add_up(after, new_w, operator.add, 1)
        for use in (before, after):
            # Remove rounding errors: no power is below 0, and no hosts draw none.
            if self._power_by_use_w[use] < 0.0 or not self._hosts_by_use[use]:
                self._power_by_use_w[use] = 0.0
        self.draw_w[hosts] = new_w
        self._since_s[hosts] = now

    def _add_up(
        self, use: int, draw_w: FloatArray, apply: Callable[[float, float], float], sign: int
    ) -> None:
        """Add the powers of hosts to that of their ``use`` one by one, or take them off, and count them."""
        self._power_by_use_w[use] = reduce(apply, draw_w.tolist(), self._power_by_use_w[use])
        self._hosts_by_use[use] += sign * len(draw_w)

    def spent_j(self, now: float) -> FloatArray:
        """Energy that each busy host has spent on its present job, J; undefined for other hosts."""
        return np.asarray(self._job_j + self.draw_w * (now - self._since_s))

    def job_spent_j(self, hosts: HostIds, now: float) -> float:
        """Energy that busy hosts have spent since their job started, J; call it before the job ends."""
        return total(self._job_j[hosts] + self.draw_w[hosts] * (now - self._since_s[hosts]))


def _table(platform: Platform, rows: list[tuple[float, ...]]) -> FloatArray:
    """Lay out values of each kind by P-state, [kind, P-state]; 0 where none are known."""
    table = np.zeros((len(rows), max((kind.pstates for kind in platform.kinds), default=1)))
    for row, values in enumerate(rows):
        table[row, : len(values)] = values
    return table


def _transition_w(kind: ServerKind, which: str) -> float:
    """Power of a transition: 1 flop keeps one of the cores busy."""
    if kind.sleep is None or not kind.full_w:
        return 0.0
    pstate: int = getattr(kind.sleep, which)
    if kind.cores == 1:
        return kind.full_w[pstate]
    return kind.epsilon_w[pstate] + (kind.full_w[pstate] - kind.epsilon_w[pstate]) / kind.cores
