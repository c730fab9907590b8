"""Running jobs: starts, the leaves of their profiles, ends, walltimes, kills, changes of speed.

Sources: Batsim 4.2.1's behaviour as recorded (docs/conformance.md), SimGrid's parallel tasks.

Several tasks on one host: SimGrid's fair-bottleneck sharing of computing power.

Speed and power of running jobs, found anew whenever a task or a P-state changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import DecisionRefused
from beasy_sched.formats.batsim_workload import Composed, Delay, Parallel, Profile
from beasy_sched.model.decisions import ExecuteJob
from beasy_sched.model.events import JobEnd
from beasy_sched.simulator.clock import Action
from beasy_sched.simulator.jobs import (
    ENDED,
    NEVER,
    RUNNING,
    SimJob,
    alone,
    powers,
    speed_limit,
    start_task,
    used_flops,
)
from beasy_sched.simulator.machines import COMPUTING, IDLE, Machines, common_mode
from beasy_sched.simulator.world import LEAF, World

_TINY = 1e-12


def share(machines: Machines, jobs: Sequence[SimJob]) -> FloatArray:
    """Set the rate of every running task; return the power of every host, W.

    In each round all tasks on a host get an equal part of what is left of it; a task grows by the least
    of its parts, and is settled when its hosts are used up or one of its cores is fully busy.
    """
    table = machines.table
    active = [job for job in jobs if job.task is not None]
    weights = [_weights(job) for job in active]
    limits = [speed_limit(job.task, table, machines.mode[job.alloc.ids]) for job in active if job.task]
    rates = [0.0] * len(active)
    capacity = table.speeds[machines.mode] * table.cores[machines.mode]
    left = capacity.copy()
    growing = [i for i, limit in enumerate(limits) if limit != NEVER]
    while growing:
        sharers = np.zeros(machines.size)
        for i in growing:
            sharers[active[i].alloc.ids[weights[i] > 0]] += 1
        part = np.divide(left, sharers, out=np.zeros_like(left), where=sharers > 0)
        steps = {}
        for i in growing:
            busy = weights[i] > 0
            steps[i] = min(
                float((part[active[i].alloc.ids[busy]] / weights[i][busy]).min()), limits[i] - rates[i]
            )
        for i, step in steps.items():
            rates[i] += step
            left[active[i].alloc.ids] -= weights[i] * step
        full = left <= capacity * 1e-9
        growing = [
            i
            for i in growing
            if rates[i] < limits[i] * (1 - _TINY) and not full[active[i].alloc.ids[weights[i] > 0]].any()
        ]
    used = np.zeros(machines.size)
    for i, job in enumerate(active):
        assert job.task is not None
        job.task.rate = NEVER if limits[i] == NEVER else rates[i]
        used[job.alloc.ids] += used_flops(job.task, job.task.rate, len(job.alloc))
    switching = table.switching[machines.mode]
    used[switching] = table.speeds[machines.mode[switching]]
    return powers(table, machines.mode, used)


def _weights(job: SimJob) -> FloatArray:
    assert job.task is not None
    task = job.task
    return np.full(len(job.alloc), task.amount) if task.flops is None else task.flops


class Rates:
    """Keeps each job's rate, power and expected end, and the total power, up to date."""

    def __init__(self, world: World) -> None:
        """Work on ``world``."""
        self._world = world
        self._sharing = world.options.compute_sharing
        self._energy = world.options.energy

    def find_modes(self, job: SimJob, uniform: int | None) -> None:
        """Note the mode that the job's hosts have in common, and what they draw when idle."""
        table = self._world.table
        if uniform is None:
            modes = self._world.machines.mode[job.alloc.ids]
            uniform = common_mode(modes)
            if uniform < 0:
                job.idle_w = float(table.idle_w[modes].sum())
        job.uniform_mode = uniform
        if uniform >= 0:
            job.idle_w = table.idle_of[uniform] * job.size

    def change(self, job: SimJob) -> None:
        """Find rate, power and end anew after a change of the job's task or of its hosts' P-states."""
        if self._sharing:
            self.share()
            return
        world = self._world
        world.meter.accrue(world.now)
        job.accrue(world.now)
        power_w = job.idle_w
        task = job.task
        if task is not None:
            uniform, table = job.uniform_mode, world.table
            if uniform >= 0 and task.amount > 0.0:
                task.rate = table.speed_of[uniform] / task.amount
                power_w = table.one_core_of[uniform] * job.size
            else:
                task.rate, power_w = alone(task, table, world.machines.mode[job.alloc.ids])
            self._pace(job)
        if power_w != job.power_w:
            world.meter.power_w += power_w - job.power_w
            job.power_w = power_w

    def _pace(self, job: SimJob) -> None:
        """Tell the clock how fast a job's task goes."""
        if job.run is not None and job.task is not None and job.task.rate != NEVER:
            self._world.clock.change_rate(job.run, job.task.rate)

    def share(self) -> None:
        """Find rates, powers and ends of all running jobs anew: hosts are shared."""
        world = self._world
        jobs = [job for job in world.slots if job is not None]
        world.meter.accrue(world.now)
        for job in jobs:
            if self._energy:
                job.accrue(world.now)
        host_w = share(world.machines, jobs)
        world.meter.power_w = float(host_w.sum())
        for job in jobs:
            job.power_w = float(host_w[job.alloc.ids].sum())
            self._pace(job)

    def hosts_changed(self, ids: IntArray, resting_before_w: float) -> None:
        """Take note of hosts' new P-states; ``resting_before_w``: what they drew before, but for jobs."""
        world = self._world
        if self._sharing:
            self.share()
            return
        world.meter.power_w += float(world.table.resting_w[world.machines.mode[ids]].sum()) - resting_before_w
        for job in self.jobs_on(ids):
            old_idle_w = job.idle_w
            self.find_modes(job, None)
            # The idle part has just been counted with the hosts'; the rest is the task's.
            world.meter.power_w -= job.idle_w - old_idle_w
            self.change(job)

    def jobs_on(self, ids: IntArray) -> list[SimJob]:
        """Return the jobs on some hosts."""
        world = self._world
        if self._sharing:
            wanted = set(ids.tolist())
            return [
                job for job in world.slots if job is not None and wanted.intersection(job.alloc.ids.tolist())
            ]
        found = []
        for slot in sorted(set(world.machines.owner[ids].tolist())):
            job = world.slots[slot] if slot >= 0 else None
            if job is not None:
                found.append(job)
        return found


_SHORTEST_S = 1e-5
"""Batsim's execution time of a job that took none."""

KILLED_TASK, KILLED_DELAY, OUT_OF_TIME = -2, -1, -1
"""Return codes."""


class Execution:
    """Moves jobs through their lives; the rules of who may run where are in `requests`."""

    def __init__(self, world: World, rates: Rates) -> None:
        """Work on ``world``."""
        self._world = world
        self._rates = rates
        self._free_slots: list[int] = []
        self._sharing = world.options.compute_sharing
        self._energy = world.options.energy

    # --- starting ---

    def start(self, job: SimJob, decision: ExecuteJob, modes: IntArray, uniform: int) -> None:
        """Start a job on hosts that have been checked; their modes are ``modes``."""
        world, ids = self._world, decision.alloc.ids
        job.state = RUNNING
        job.alloc = decision.alloc
        job.size = len(ids)
        now = job.start = job.powered_at = job.owned_metering = world.now
        job.wall_left = job.walltime
        job.energy_j = 0.0 if self._energy else -1.0
        world.meter_row("s")
        job.slot = self._take_slot(job)
        if self._sharing:
            world.machines.change_state(ids, COMPUTING, now)
            world.machines.owner[ids] = job.slot
        else:
            world.machines.occupy(ids, modes, uniform, job.slot, now)
        world.running += 1
        world.states_row()
        self._rates.find_modes(
            job, uniform + COMPUTING - IDLE if uniform >= 0 and not self._sharing else None
        )
        job.power_w = job.idle_w
        job.stack = None
        self._enter(job, job.profile)

    def _take_slot(self, job: SimJob) -> int:
        slots = self._world.slots
        if self._free_slots:
            slot = self._free_slots.pop()
            slots[slot] = job
            return slot
        slots.append(job)
        return len(slots) - 1

    # --- leaves ---

    def _enter(self, job: SimJob, profile: Profile) -> None:
        """Begin a profile: go down to its first leaf, and run that."""
        while isinstance(profile, Composed):
            if job.stack is None:
                job.stack = []
            job.stack.append([profile, 0])
            profile = self._world.profiles[job.workload][profile.sequence[0]]
        job.leaf, job.leaf_start = profile, self._world.now
        if isinstance(profile, Delay):
            self._enter_delay(job, profile)
        else:
            self._enter_task(job, profile)

    def _enter_delay(self, job: SimJob, leaf: Delay) -> None:
        world = self._world
        lasts = leaf.delay_s
        if 0 <= job.wall_left <= lasts:
            lasts = job.wall_left
        job.run = world.clock.wait(LEAF, job, lasts)
        if self._sharing:
            self._rates.share()

    def _enter_task(self, job: SimJob, leaf: Profile) -> None:
        if isinstance(leaf, Parallel):
            executors = job.size if job.executors is None else len(job.executors)
            if len(leaf.flops) != executors:
                raise DecisionRefused(
                    f"Job {job.request.id!r}: the number of executors ({executors}) differs from the number"
                    f" that profile {leaf.name!r} describes ({len(leaf.flops)})"
                )
        task = job.task = start_task(job, leaf)
        before_w = job.power_w
        job.run = None
        self._rates.change(job)
        clock = self._world.clock
        if task.rate == NEVER:
            job.run = clock.work(LEAF, job, 1.0, left=0.0)
        else:
            job.run = clock.work(LEAF, job, task.rate)
        if job.wall_left >= 0.0:
            job.limit = clock.wait(LEAF, job, job.wall_left)
        if job.stack is not None and job.power_w != before_w and not self._sharing:
            self._charge_late_metering(job)

    def _charge_late_metering(self, job: SimJob) -> None:
        """Add what Batsim charges by mistake when a task follows a delay within a composed job.

        Only the allocation's first host is metered then; the others are charged the task's load from
        their last metering on.
        """
        world = self._world
        since = max(world.meter.metered_at, job.owned_metering)
        if not self._energy or since >= world.now or job.task is None:
            return
        modes = world.machines.mode[job.alloc.ids]
        used = used_flops(job.task, job.task.rate, len(modes))
        excess = powers(world.table, modes, used) - world.table.idle_w[modes]
        first = 0 if job.executors is None else int(job.executors[0])
        extra_j = float(excess.sum() - excess[first]) * (world.now - since)
        world.meter.energy_j += extra_j
        job.energy_j += extra_j

    def _leave(self, job: SimJob) -> None:
        """Stop the present leaf: its hosts idle, though still the job's."""
        self._stop_clock(job)
        if job.task is not None:
            job.task = None
            job.owned_metering = self._world.now
            self._rates.change(job)

    def _stop_clock(self, job: SimJob) -> None:
        clock = self._world.clock
        if job.run is not None:
            clock.cancel(job.run)
            job.run = None
        if job.limit is not None:
            clock.cancel(job.limit)
            job.limit = None

    # --- ends ---

    def leaf_ended(self, job: SimJob, action: Action) -> bool:
        """A leaf's end, or the walltime's, has come; return whether the job has ended."""
        world = self._world
        leaf = job.leaf
        spent = world.now - job.leaf_start
        in_time = action is job.run and not (isinstance(leaf, Delay) and 0 <= job.wall_left <= leaf.delay_s)
        if not in_time:
            self._finish(job, JobEnd.WALLTIME_REACHED, OUT_OF_TIME)
            return True
        if not isinstance(leaf, Delay):
            job.wall_left -= spent
        elif job.wall_left > 0:
            job.wall_left -= leaf.delay_s
        if job.stack is None or leaf.return_code:
            self._finish(job, JobEnd.FAILED if leaf.return_code > 0 else JobEnd.SUCCESS, leaf.return_code)
            return True
        self._leave(job)
        following = self._next_profile(job)
        if following is None:
            code = job.profile.return_code
            self._finish(job, JobEnd.FAILED if code > 0 else JobEnd.SUCCESS, code)
            return True
        self._enter(job, following)
        return False

    def _next_profile(self, job: SimJob) -> Profile | None:
        stack: list[list[Any]] = job.stack or []
        while stack:
            top = stack[-1]
            profile, top[1] = top[0], top[1] + 1
            if top[1] < profile.repeat * len(profile.sequence):
                return self._world.profiles[job.workload][profile.sequence[top[1] % len(profile.sequence)]]
            stack.pop()
        return None

    def _finish(self, job: SimJob, end: JobEnd, code: int) -> None:
        world = self._world
        now = world.now
        if self._energy:
            world.meter.meter_all(now)
            job.accrue(now)
        job.end, job.return_code, job.state = end, code, ENDED
        self._stop_clock(job)
        job.task = None
        ids = job.alloc.ids
        world.slots[job.slot] = None
        self._free_slots.append(job.slot)
        if self._sharing:
            self._release_shared(ids)
        else:
            world.meter.power_w += job.idle_w - job.power_w
            if (
                job.uniform_mode >= 0
                and world.table.state_of[job.uniform_mode] == COMPUTING
                and not job.moved
            ):
                world.machines.release(ids, job.uniform_mode, job.start, now)
            else:
                self._release_moved(ids)
        world.running -= 1
        world.states_row()
        runtime = now - job.start or _SHORTEST_S
        world.meter_row("e")
        world.tally.add(job.subtime, job.start, runtime, end)
        if world.tracer is not None:
            world.tracer.job(job, runtime)

    def _release_moved(self, ids: IntArray) -> None:
        """Free hosts of which some may be unavailable; those stay so."""
        machines = self._world.machines
        computing = ids[self._world.table.states[machines.mode[ids]] == COMPUTING]
        machines.change_state(computing, IDLE, self._world.now)
        machines.owner[ids] = -1

    def _release_shared(self, ids: IntArray) -> None:
        """Free those hosts on which no other job is left."""
        machines = self._world.machines
        machines.owner[ids] = -1
        for job in self._world.slots:
            if job is not None:
                machines.owner[job.alloc.ids] = job.slot
        self._free_idle(ids)
        self._rates.share()

    def _free_idle(self, ids: IntArray) -> None:
        machines = self._world.machines
        free = ids[machines.owner[ids] < 0]
        computing = free[self._world.table.states[machines.mode[free]] == COMPUTING]
        machines.change_state(computing, IDLE, self._world.now)

    # --- kills ---

    def kill(self, job: SimJob) -> dict[str, Any]:
        """Stop a running job; return its progress as JOB_KILLED tells it."""
        progress = self._progress(job)
        self._finish(job, JobEnd.KILLED, KILLED_DELAY if isinstance(job.leaf, Delay) else KILLED_TASK)
        return progress

    def _progress(self, job: SimJob) -> dict[str, Any]:
        leaf = job.leaf
        if isinstance(leaf, Delay):
            done = min(1.0, (self._world.now - job.leaf_start) / leaf.delay_s)
        else:
            assert job.run is not None
            done = 1.0 - self._world.clock.settle(job.run)
        told: dict[str, Any] = {"profile_name": leaf.name, "progress": round(done, 6)}
        for profile, index in reversed(job.stack or []):
            assert isinstance(profile, Composed)
            told = {"profile_name": profile.name, "current_task_index": index, "current_task": told}
        return told
