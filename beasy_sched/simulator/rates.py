"""Speed and power of running jobs, found anew whenever a task or a P-state changes."""

from __future__ import annotations

from beasy_sched.arrays import IntArray
from beasy_sched.simulator.job import SimJob
from beasy_sched.simulator.modes import common_mode
from beasy_sched.simulator.sharing import share
from beasy_sched.simulator.tasks import NEVER, alone
from beasy_sched.simulator.world import World


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
