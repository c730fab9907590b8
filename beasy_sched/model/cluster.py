"""Servers, running jobs and the queue: the state that events and decisions change."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
import numpy.typing as npt

from beasy_sched.errors import PeerError, PolicyError
from beasy_sched.model.events import JobRequest
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.job import Job, JobState
from beasy_sched.model.platform import Platform
from beasy_sched.model.power import HostState, PowerAccount, PowerModel
from beasy_sched.model.queue import JobQueue

BoolArray = npt.NDArray[np.bool_]


class Cluster:
    """The scheduler's picture of the site. Only the session writes to it."""

    def __init__(self, platform: Platform) -> None:
        """All servers on, idle, at their platform's initial P-state (0 unless it says otherwise)."""
        size = platform.size
        self.platform = platform
        self.size = size
        self.state = np.zeros(size, dtype=np.int8)
        """`HostState` of each host."""
        self.pstate = np.zeros(size, dtype=np.int16)
        """Present P-state; the target while switching."""
        self.available = np.ones(size, dtype=np.bool_)
        self.all_available = True
        self.free = np.ones(size, dtype=np.bool_)
        """Idle and available: may be given to a job now."""
        self.free_count = size
        self.held = np.zeros(size, dtype=np.bool_)
        """Kept from new jobs because they are to sleep."""
        self.to_wake = np.zeros(size, dtype=np.bool_)
        """Asleep, and wished awake: the command has not gone out yet."""
        self.state_since_s = np.zeros(size)
        """When each host came into its present state, s."""
        self.power = PowerModel(platform)
        self.account: PowerAccount | None = None
        """Energy by use; None where nobody asks for it."""
        self.switch_end_s = np.zeros(size)
        """When a host in transition will be done, s."""
        self._waking = 0
        self.openings = 0
        """Counts what may let a waiting job start: hosts coming free, a waiting job leaving."""
        self.queue = JobQueue()
        self.running: dict[str, Job] = {}
        self.ends: list[tuple[float, int, Job]] = []
        """Running jobs by latest end: (expected end in s, order of start, job)."""
        self.uniform_speed = True
        """Whether all hosts run at one speed, so that any choice of hosts is as fast as another."""
        self._speeds = _speed_table(platform)
        self._starts = 0
        self._refresh_speed()

    # --- jobs ---------------------------------------------------------------------------------

    def submit(self, request: JobRequest) -> Job:
        """Queue a new job."""
        job = Job(request)
        self.queue.append(job)
        return job

    def start(self, job: Job, hosts: HostSet, now: float) -> None:
        """Give ``hosts`` to a waiting job. Raises PolicyError where Batsim would abort."""
        ids = hosts.ids
        if len(ids) != job.res:
            raise PolicyError(f"job {job.id} asks for {job.res} hosts and was given {len(ids)} ({hosts})")
        if job.state is not JobState.WAITING:
            raise PolicyError(f"job {job.id} is {job.state.value}: it cannot be started")
        if not self.free[ids].all():
            raise PolicyError(f"job {job.id} was given hosts that are not free: {self._not_free(ids)}")
        job.move(JobState.RUNNING)
        self.queue.remove(job)
        job.hosts = hosts
        job.start_s = now
        job.expected_end_s = now + job.walltime_s
        self.running[job.id] = job
        self._starts += 1
        job.start_order = self._starts
        insort(self.ends, (job.expected_end_s, job.start_order, job))
        self._set_state(ids, HostState.BUSY, now, computes=job.computes)
        self.free[ids] = False
        self.free_count -= len(ids)

    def end(self, job_id: str, state: JobState, now: float) -> Job:
        """Take a job off its hosts. Raises PeerError for a job that is not running."""
        job = self.running.pop(job_id, None)
        if job is None:
            raise PeerError(f"the simulator says that job {job_id} ended, but it is not running")
        job.move(state)
        job.end_s = now
        del self.ends[bisect_left(self.ends, (job.expected_end_s, job.start_order))]
        assert job.hosts is not None
        ids = job.hosts.ids
        if self.account is not None:
            self.account.advance(now)
            job.energy_j = self.account.close_job(ids, now)
        self._set_state(ids, HostState.IDLE, now)
        self._free_again(ids)
        return job

    def drop(self, job: Job, state: JobState) -> None:
        """Take a waiting job out of the queue for good (rejected or postponed)."""
        job.move(state)
        self.queue.remove(job)
        self.openings += 1

    # --- hosts --------------------------------------------------------------------------------

    def begin_switch(self, hosts: HostIds, state: HostState, pstate: int, now: float) -> None:
        """Hosts begin to fall asleep or to wake, towards ``pstate``."""
        duration_s = self.power.on_s if state == HostState.SWITCHING_ON else self.power.off_s
        self.switch_end_s[hosts] = now + duration_s[self.platform.kind_of[hosts]]
        self.pstate[hosts] = pstate
        self._set_state(hosts, state, now)
        self._waking = int(np.count_nonzero(self.state == HostState.SWITCHING_ON))
        self._refresh_free(hosts)

    def change_speed(self, hosts: HostIds, pstate: int, now: float) -> None:
        """Hosts that are on go to another computing P-state, at once."""
        self.pstate[hosts] = pstate
        if self.account is not None:
            self.account.change(hosts, self.state[hosts], self.pstate[hosts], now)
        self._refresh_speed()

    def end_switch(self, hosts: HostIds, pstate: int, now: float) -> None:
        """Hosts have reached ``pstate``: asleep, awake, or at another speed."""
        was = self.state[hosts]
        self.pstate[hosts] = pstate
        self._set_state(hosts[was == HostState.SWITCHING_OFF], HostState.ASLEEP, now)
        self._set_state(hosts[was == HostState.SWITCHING_ON], HostState.IDLE, now)
        self._waking = int(np.count_nonzero(self.state == HostState.SWITCHING_ON))
        self._refresh_free(hosts)
        self._refresh_speed()

    def hold(self, hosts: HostIds, held: bool | BoolArray) -> None:
        """Keep hosts from new jobs, or give them back."""
        self.held[hosts] = held
        self._refresh_free(hosts)

    def wakes(self) -> list[tuple[float, int]]:
        """Return the hosts that are waking: (when ready in s, how many), sorted."""
        if not self._waking:
            return []
        waking = self.switch_end_s[self.state == HostState.SWITCHING_ON]
        times, counts = np.unique(waking, return_counts=True)
        return list(zip(times.tolist(), counts.tolist(), strict=True))

    def set_available(self, hosts: HostIds, available: bool) -> None:
        """Hosts leave or rejoin the choice of every policy."""
        self.available[hosts] = available
        self.all_available = bool(self.available.all())
        self._refresh_free(hosts)

    def speed_flops(self, hosts: HostIds) -> npt.NDArray[np.float64]:
        """Return the present speed of each host, flops/s (0 where speeds are not known)."""
        return self._speeds[self.platform.kind_of[hosts], self.pstate[hosts]]

    def _set_state(self, ids: HostIds, state: HostState, now: float, *, computes: bool = True) -> None:
        self.state[ids] = state
        self.state_since_s[ids] = now
        if self.account is not None:
            self.account.change(ids, self.state[ids], self.pstate[ids], now, computes=computes)

    def _free_again(self, ids: HostIds) -> None:
        self.openings += 1
        usable = self.available[ids] & ~self.held[ids]
        self.free[ids] = usable
        self.free_count += int(np.count_nonzero(usable))

    def _refresh_free(self, hosts: HostIds) -> None:
        self.openings += 1
        idle = self.state[hosts] == HostState.IDLE
        self.free[hosts] = idle & self.available[hosts] & ~self.held[hosts]
        self.free_count = int(np.count_nonzero(self.free))

    def _refresh_speed(self) -> None:
        if self.size:
            speeds = self.speed_flops(np.arange(self.size))
            self.uniform_speed = bool((speeds == speeds[0]).all())

    def _not_free(self, ids: HostIds) -> str:
        bad = ids[~self.free[ids]]
        states = sorted({HostState(s).name.lower().replace("_", " ") for s in self.state[bad].tolist()})
        return f"{HostSet(bad)} ({', '.join(states)})"


def _speed_table(platform: Platform) -> npt.NDArray[np.float64]:
    width = max((kind.pstates for kind in platform.kinds), default=1)
    table = np.zeros((len(platform.kinds) or 1, width))
    for row, kind in enumerate(platform.kinds):
        table[row, : len(kind.speeds_flops)] = kind.speeds_flops
    return table
