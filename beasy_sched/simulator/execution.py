"""Running jobs: their rates and powers, the leaves of their profiles, ends, walltimes and kills.

Sources: Batsim 4.2.1's behaviour as recorded (docs/design/conformance.md), SimGrid's parallel tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, IntArray, total
from beasy_sched.formats.batsim_profiles import Composed, Delay, Homogeneous, Parallel, Profile
from beasy_sched.model.events import JobEnd
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator.clock import LEAF, Action
from beasy_sched.simulator.machines import COMPUTING, IDLE, NOBODY, Machines
from beasy_sched.simulator.simulated_jobs import (
    ENDED,
    NEVER,
    RUNNING,
    SimJob,
    Task,
    check_storage,
    powers,
    speed_limit,
    start_task,
)
from beasy_sched.simulator.world import World

_TINY = 1e-12


def share(machines: Machines, jobs: Sequence[SimJob]) -> FloatArray:
    """Set the rate of every running task; return the power of every host, W.

    In each round all tasks on a host get an equal part of what is left of it; a task grows by the least
    of its parts, and is settled when its hosts are used up or one of its cores is fully busy.
    """
    table = machines.table
    tasks = [(job.alloc.ids, job.task) for job in jobs if job.task is not None]
    weights = [task.flops_on(len(ids)) for ids, task in tasks]
    busy = [weight > 0 for weight in weights]
    limits = [speed_limit(task, table, machines.mode[ids]) for ids, task in tasks]
    rates = [0.0] * len(tasks)
    capacity = table.speeds[machines.mode] * table.cores[machines.mode]
    left = capacity.copy()
    growing = [i for i, limit in enumerate(limits) if limit != NEVER]
    while growing:
        sharers = np.zeros(machines.size)
        for i in growing:
            sharers[tasks[i][0][busy[i]]] += 1
        part = np.divide(left, sharers, out=np.zeros_like(left), where=sharers > 0)
        steps = {}
        for i in growing:
            least = (part[tasks[i][0][busy[i]]] / weights[i][busy[i]]).min()
            steps[i] = min(float(least), limits[i] - rates[i])
        for i, step in steps.items():
            rates[i] += step
            left[tasks[i][0]] -= weights[i] * step
        full = left <= capacity * 1e-9
        growing = [
            i for i in growing if rates[i] < limits[i] * (1 - _TINY) and not full[tasks[i][0][busy[i]]].any()
        ]
    for (_, task), limit, rate in zip(tasks, limits, rates, strict=True):
        task.rate = NEVER if limit == NEVER else rate
    return host_powers_w(machines, jobs)


def side_by_side(machines: Machines, jobs: Sequence[SimJob]) -> FloatArray:
    """Set the rate of every running task as if it were alone on its hosts; return the power of every host, W.

    Each host draws the power of the job that loads it most.
    """
    table, used = machines.table, np.zeros(machines.size)
    for job in jobs:
        if job.task is not None:
            ids = job.alloc.ids
            job.task.rate = speed_limit(job.task, table, machines.mode[ids])
            used[ids] = np.maximum(used[ids], job.task.used_on(len(ids)))
    return _powers_w(machines, used)


def host_powers_w(machines: Machines, jobs: Iterable[SimJob]) -> FloatArray:
    """Return the present power of every host, W; ``jobs`` are those that run."""
    used = np.zeros(machines.size)
    for job in jobs:
        if job.task is not None:
            used[job.alloc.ids] += job.task.used_on(len(job.alloc.ids))
    return _powers_w(machines, used)


def _powers_w(machines: Machines, used: FloatArray) -> FloatArray:
    """Return the power of every host of which jobs use so many flops/s, W."""
    table = machines.table
    switching = table.switching[machines.mode]
    used[switching] = table.speeds[machines.mode[switching]]
    return powers(table, machines.mode, used)


def is_uneven(jobs: Iterable[SimJob]) -> bool:
    """Whether tasks share a host that differ in their hosts or in the work on each."""
    on_host: dict[int, tuple[bytes, bytes]] = {}
    for job in jobs:
        if job.task is not None:
            flops = job.task.flops_on(job.size)
            layout = job.alloc.ids.tobytes(), flops.tobytes()
            if any(on_host.setdefault(host, layout) != layout for host in job.alloc.ids[flops > 0].tolist()):
                return True
    return False


_SHORTEST_S = 1e-5
"""Batsim's execution time of a job that took none."""

KILLED_TASK, KILLED_DELAY, OUT_OF_TIME, BROKEN = -2, -1, -1, 1
"""Return codes."""


class Execution:
    """Moves jobs through their lives, with their rates and powers; who may run where is in `requests`."""

    __slots__ = ("_energy", "_free_slots", "_sharing", "_world", "late", "shared_unevenly")

    def __init__(self, world: World) -> None:
        self._world = world
        self._free_slots: list[int] = []
        self.late: list[SimJob] = []
        """Composed jobs whose task has just followed a delay."""
        self._sharing = world.options.compute_sharing
        self._energy = world.options.energy
        self.shared_unevenly = False
        """Whether tasks have shared hosts in a way in which SimGrid can differ."""

    # --- rates and powers ---

    def _find_modes(self, job: SimJob, uniform: int | None) -> None:
        """Record the mode that the job's hosts have in common, and what they draw when idle."""
        world = self._world
        if uniform is None:
            uniform = world.machines.common_mode(job.alloc)
        job.uniform_mode = uniform
        if uniform >= 0:
            job.idle_w = world.table.idle_of[uniform] * job.size
        else:
            job.idle_w = float(world.table.idle_w[world.machines.mode[job.alloc.ids]].sum())

    def _change(self, job: SimJob) -> None:
        """Recompute rate, power and end after a change of the job's task or of its hosts' P-states."""
        if self._sharing:
            self._share()
            return
        world = self._world
        job.accrue(world.now)
        power_w = job.idle_w
        task = job.task
        if task is not None:
            uniform, table = job.uniform_mode, world.table
            if uniform >= 0 and task.amount > 0.0:
                task.rate = table.speed_of[uniform] / task.amount
                power_w = table.one_core_of[uniform] * job.size
            else:
                modes = world.machines.mode[job.alloc.ids]
                task.rate = speed_limit(task, table, modes)
                power_w = float(powers(table, modes, task.used_on(len(modes))).sum())
            if job.run is not None:
                self._pace(job.run, task)
        world.meter.change(world.now, power_w - job.power_w)
        job.power_w = power_w

    def _pace(self, run: Action, task: Task) -> None:
        """Set the speed of a job's task in the clock."""
        if task.rate != NEVER:
            self._world.clock.change_rate(run, task.rate)

    def share_hosts(self) -> None:
        """From now on, let several jobs be on a host: slower to simulate, so that it begins when needed."""
        if not self._sharing:
            self._sharing = True
            self._share()

    def _share(self) -> None:
        """Recompute rates, powers and ends of all running jobs: hosts are shared."""
        world = self._world
        jobs = list(filter(None, world.slots))
        parts = world.options.host_parts
        self.shared_unevenly = self.shared_unevenly or (not parts and is_uneven(jobs))
        if self._energy:
            for job in jobs:
                job.accrue(world.now)
        host_w = (side_by_side if parts else share)(world.machines, jobs)
        world.meter.accrue(world.now)
        world.meter.power_w = float(host_w.sum())
        for job in jobs:
            job.power_w = float(host_w[job.alloc.ids].sum())
            if job.run is not None and job.task is not None:
                self._pace(job.run, job.task)

    def change_pstate(self, ids: IntArray, pstate: int) -> None:
        """Bring hosts to a P-state, and update the jobs on them and the total power."""
        world, table, mode = self._world, self._world.table, self._world.machines.mode
        before: IndexArray = mode[ids]
        world.machines.change_pstate(ids, pstate)
        after = mode[ids]
        wattmin_by_w = total(table.epsilon_w[after] - table.epsilon_w[before])
        by_w = total(table.resting_w[after]) - total(table.resting_w[before])
        world.meter.change(world.now, by_w, wattmin_by_w)
        if self._sharing:
            self._share()
            return
        for job in self.jobs_on(ids):
            old_idle_w = job.idle_w
            self._find_modes(job, None)
            # The idle part has just been counted with the hosts'; the rest is the task's.
            world.meter.change(world.now, old_idle_w - job.idle_w)
            self._change(job)

    def jobs_on(self, ids: IntArray) -> list[SimJob]:
        """Return the jobs on some hosts."""
        world = self._world
        if self._sharing:
            wanted = set(ids.tolist())
            return [job for job in filter(None, world.slots) if not wanted.isdisjoint(job.alloc.ids.tolist())]
        slots = sorted(set(world.machines.owner[ids].tolist()) - {NOBODY})
        return [job for slot in slots if (job := world.slots[slot]) is not None]

    # --- starting ---

    def start(self, job: SimJob, hosts: HostSet, uniform: int) -> None:
        """Start a job on hosts that have been checked, all in mode ``uniform`` (unless that is below 0)."""
        world = self._world
        job.state = RUNNING
        job.alloc = hosts
        job.size = hosts.ids.size
        now = job.start = job.powered_at = job.owned_metering = world.now
        job.wall_left = job.walltime
        job.energy_j = 0.0 if self._energy else -1.0
        world.meter_row("s")
        if self._free_slots:
            job.slot = self._free_slots.pop()
            world.slots[job.slot] = job
        else:
            job.slot = len(world.slots)
            world.slots.append(job)
        if self._sharing:
            world.machines.change_state(hosts.ids, COMPUTING, now)
            world.machines.owner[hosts.ids] = job.slot
        else:
            world.machines.occupy(hosts, uniform, job.slot, now)
        world.states_row()
        is_uniform = uniform >= 0 and not self._sharing
        self._find_modes(job, uniform + COMPUTING - IDLE if is_uniform else None)
        job.power_w = job.idle_w
        self._enter(job, job.profile)

    def resume(self, job: SimJob, hosts: HostSet, start_s: float) -> None:
        """Let a job run that has run since ``start_s`` (s), on hosts whose modes show it.

        Its work begins now: `set_run_time` sets how much is left.
        """
        world = self._world
        job.state, job.alloc, job.size, job.start = RUNNING, hosts, hosts.ids.size, start_s
        job.powered_at = job.owned_metering = world.now
        job.wall_left = -1.0 if job.walltime < 0.0 else max(start_s + job.walltime - world.now, 0.0)
        job.energy_j = 0.0 if self._energy else -1.0
        job.slot = len(world.slots)
        world.slots.append(job)
        world.machines.owner[hosts.ids] = job.slot
        self._find_modes(job, None)
        job.power_w = job.idle_w
        self._enter(job, job.profile)

    # --- leaves ---

    def _enter(self, job: SimJob, profile: Profile) -> None:
        """Begin a profile: go down to its first leaf, and run that."""
        while type(profile) is Composed:
            if job.stack is None:
                job.stack = []
            job.stack.append([profile, 0])
            profile = self._world.profiles[job.workload][profile.sequence[0]]
        job.leaf, job.leaf_start = profile, self._world.now
        if isinstance(profile, (Homogeneous, Parallel)):
            self._enter_task(job, profile)
        elif isinstance(profile, Delay):
            lasts = min(job.wall_left, profile.delay_s) if job.wall_left >= 0 else profile.delay_s
            job.run = self._world.clock.wait(LEAF, job, lasts)
            if self._sharing:
                self._share()

    def _enter_task(self, job: SimJob, leaf: Homogeneous | Parallel) -> None:
        task = job.task = start_task(job, leaf)
        machines = self._world.machines
        if machines.size > machines.compute_hosts:
            check_storage(job, leaf, machines.compute_hosts)
        before_w = job.power_w
        job.run = None
        self._change(job)
        clock = self._world.clock
        job.run = clock.work(LEAF, job, 1.0, 0.0) if task.rate == NEVER else clock.work(LEAF, job, task.rate)
        if job.wall_left >= 0.0:
            job.limit = clock.limit(LEAF, job.run, job.wall_left)
        composed = job.stack is not None and self._energy and not self._sharing
        if composed and job.power_w != before_w and self._metered_at(job) < self._world.now:
            self.late.append(job)

    def _metered_at(self, job: SimJob) -> float:
        """Return when the hosts of a job were last metered, s."""
        return max(self._world.meter.metered_at, job.owned_metering)

    def charge_late_metering(self) -> None:
        """Add what Batsim charges by mistake when a task follows a delay within a composed job.

        Only the allocation's first host is metered then; the others are charged the task's load from
        their last metering on, unless something else in the same step of SimGrid has had all hosts metered.
        Call it at the end of each step that leaves such jobs `late`.
        """
        late, self.late = self.late, []
        for job in late:
            if job.task is not None:
                self._charge_late(job, job.task.used_on(job.size))

    def _charge_late(self, job: SimJob, used: FloatArray) -> None:
        world = self._world
        since = self._metered_at(job)
        if since >= world.now:
            return
        modes = world.machines.mode[job.alloc.ids]
        excess = powers(world.table, modes, used) - world.table.idle_w[modes]
        first = 0 if job.executors is None else int(job.executors[0])
        extra_j = float(excess.sum() - excess[first]) * (world.now - since)
        world.meter.energy_j += extra_j
        job.energy_j += extra_j

    def _stop_clock(self, job: SimJob) -> None:
        if job.run is not None and not job.lingering_w:
            job.run.cancel()
            job.run = None
        if job.limit is not None:
            job.limit.cancel()
            job.limit = None

    def set_run_time(self, job: SimJob, profile: Homogeneous | Delay, run_s: float) -> None:
        """Let a job run for ``run_s`` (s) altogether, at the present speed of its hosts if it runs already.

        ``profile`` is what it computes, or how long it waits, if it has not started. A composed job that runs
        is in its last part from now on. The progress of a job is that in this run time.
        """
        if job.state != RUNNING:
            job.profile = job.leaf = profile
            return
        if job.run is None or job.run.over:
            return
        clock, now = self._world.clock, self._world.now
        rest_s = max(job.start + run_s - now, _SHORTEST_S)
        job.stack = None
        if job.task is not None:
            rest = rest_s * job.run.rate
            clock.change_rest(job.run, rest)
            job.rest_scale = rest_s / (run_s * rest) if rest > 0.0 else 1.0
        else:
            wait = job.leaf = Delay(job.leaf.name, 0, now - job.leaf_start + rest_s)
            limit_s = wait.delay_s if job.wall_left < 0 else min(wait.delay_s, job.wall_left)
            clock.change_rest(job.run, limit_s - (now - job.leaf_start))
            job.rest_scale = wait.delay_s / run_s

    # --- ends ---

    def leaf_ended(self, job: SimJob, action: Action) -> bool:
        """Handle the end of a leaf or of the walltime; return whether the job has ended."""
        world, leaf = self._world, job.leaf
        delay_s = leaf.delay_s if isinstance(leaf, Delay) else None
        if action is not job.run or (delay_s is not None and 0 <= job.wall_left <= delay_s):
            if delay_s is None and world.mailbox.has_latency and not self._sharing:
                job.lingering_w = job.power_w - job.idle_w
            self._finish(job, JobEnd.WALLTIME_REACHED, OUT_OF_TIME)
            return True
        if delay_s is None:
            job.wall_left -= world.now - job.leaf_start
        elif job.wall_left > 0:
            job.wall_left -= delay_s
        code = leaf.return_code
        if job.stack is not None and not code:
            self._stop_clock(job)
            if job.task is not None:  # its hosts idle, though still the job's
                job.task = None
                job.owned_metering = world.now
                self._change(job)
            following = self._next_profile(job)
            if following is not None:
                self._enter(job, following)
                return False
            code = job.profile.return_code
        self._finish(job, JobEnd.FAILED if code > 0 else JobEnd.SUCCESS, code)
        return True

    def stop_lingering(self, job: SimJob) -> None:
        """Let hosts idle whose task Batsim leaves running from its walltime until the server hears of it."""
        self._world.meter.change(self._world.now, -job.lingering_w)
        job.lingering_w = 0.0
        self._stop_clock(job)

    def _next_profile(self, job: SimJob) -> Profile | None:
        while job.stack:
            top = job.stack[-1]
            profile, top[1] = top[0], top[1] + 1
            if top[1] < profile.repeat * len(profile.sequence):
                return self._world.profiles[job.workload][profile.sequence[top[1] % len(profile.sequence)]]
            job.stack.pop()
        return None

    def _finish(self, job: SimJob, end: JobEnd, code: int) -> None:
        world = self._world
        now = world.now
        world.meter_row("e")
        if self._energy:
            job.accrue(now)
        job.end, job.return_code, job.state = end, code, ENDED
        self._stop_clock(job)
        job.task = None
        ids = job.alloc.ids
        world.slots[job.slot] = None
        self._free_slots.append(job.slot)
        if self._sharing:
            world.machines.owner[ids] = NOBODY
            for other in filter(None, world.slots):
                world.machines.owner[other.alloc.ids] = other.slot
            self._free_idle(ids)
            self._share()
        else:
            world.meter.change(now, job.idle_w - job.power_w + job.lingering_w)
            mode = job.uniform_mode
            if mode >= 0 and world.table.state_of[mode] == COMPUTING and not job.moved:
                world.machines.release(job.alloc, mode, job.start, now)
            else:  # those hosts that have become unavailable stay so
                world.machines.owner[ids] = NOBODY
                self._free_idle(ids)
        world.states_row()
        job.runtime = now - job.start or _SHORTEST_S
        world.tally.add(job.subtime, job.start, job.runtime, job.end)

    def _free_idle(self, ids: IntArray) -> None:
        """Let those hosts idle that compute for nobody any more."""
        machines = self._world.machines
        free = ids[machines.owner[ids] < 0]
        computing = free[self._world.table.states[machines.mode[free]] == COMPUTING]
        machines.change_state(computing, IDLE, self._world.now)

    # --- failures and kills ---

    def fail(self, job: SimJob) -> None:
        """End a running job with an error: one of its hosts broke."""
        self._finish(job, JobEnd.FAILED, BROKEN)

    def fail_to_start(self, job: SimJob, hosts: HostSet) -> None:
        """End a job as it starts: one of the hosts that it was given broke in the same instant."""
        world = self._world
        world.meter_row("s")
        job.alloc, job.size, job.start = hosts, len(hosts), world.now
        job.energy_j = 0.0 if self._energy else -1.0
        job.end, job.return_code, job.state = JobEnd.FAILED, BROKEN, ENDED
        job.runtime = _SHORTEST_S
        world.meter_row("e")
        world.tally.add(job.subtime, job.start, job.runtime, job.end)

    def kill(self, job: SimJob) -> dict[str, Any]:
        """Stop a running job; return its progress as JOB_KILLED has it."""
        leaf, done = job.leaf, 0.0
        if isinstance(leaf, Delay):
            done = min(1.0, (self._world.now - job.leaf_start) / leaf.delay_s)
        elif job.run is not None:
            done = 1.0 - self._world.clock.settle(job.run)
        if job.rest_scale != 1.0:
            done = max(1.0 - job.rest_scale * (1.0 - done), 0.0)
        progress: dict[str, Any] = {"profile_name": leaf.name, "progress": round(done, self._world.decimals)}
        for profile, index in reversed(job.stack or []):
            progress = {"profile_name": profile.name, "current_task_index": index, "current_task": progress}
        self._finish(job, JobEnd.KILLED, KILLED_DELAY if isinstance(leaf, Delay) else KILLED_TASK)
        return progress
