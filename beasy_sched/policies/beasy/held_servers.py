"""Servers that running jobs hold in BEASY's plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, StateArray, all_of, any_of
from beasy_sched.engine.policy import View
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.jobs import Job
from beasy_sched.policies.beasy.energy_test import EnergyTest, JobPlacement
from beasy_sched.policies.beasy.job_lengths import JobLengths
from beasy_sched.policies.beasy.planned_levels import PlannedLevels
from beasy_sched.policies.long_jobs import BEYOND
from beasy_sched.policies.planned.job_table import JobHosts, JobTable
from beasy_sched.policies.planned.offered_plan import exchange_servers
from beasy_sched.policies.planned.pstate_table import PStateTable
from beasy_sched.policies.planned.sleep_savings import kept_on

_start_order: Final = attrgetter("start_order")


@dataclass
class Held:
    """Reservation of a running job: its servers from step ``first`` on, and their previous states."""

    job: Job
    hosts: HostIds
    first: int
    before: StateArray
    faster: bool
    """Whether the job's servers were made faster for it."""
    end_s: float
    """Time by which the job must end, s."""
    total_flops: float
    """Work that the job is assumed to need on each host (Eq. 3.29), flops."""

    @property
    def end(self) -> int:
        """Step up to which the job holds its servers."""
        return self.first + len(self.before)


class RunningJobs:
    """Constant data of several running jobs."""

    def __init__(self, held: Sequence[Held], pstates: PStateTable) -> None:
        """Tabulate the data of ``held``."""
        self.held = held
        if not held:
            return
        self.layout = JobHosts([each.hosts for each in held])
        self._jobs = [each.job for each in held]
        self._end_s = np.array([each.end_s for each in held])
        self._total_flops = np.array([each.total_flops for each in held])
        self._reference_flops = np.minimum.reduceat(
            pstates.reference_flops[self.layout.ids], self.layout.first
        )
        self._computes = np.array([job.computes for job in self._jobs])
        self._all_compute = all_of(self._computes)
        self._start_s = np.array([job.start_s for job in self._jobs])

    def table(self, view: View) -> JobTable:
        """Return the jobs with their remaining work."""
        done_flops = view.work_flops(self._jobs)
        if not self._all_compute:
            run_flops = (view.now - self._start_s) * self._reference_flops
            done_flops = np.where(self._computes, done_flops, run_flops)
        left_flops = np.maximum(self._total_flops - done_flops, 0.0)
        return JobTable(self.layout, self._end_s - view.now, left_flops)


class HeldServers:
    """Reservations of running jobs in a plan, from their starts to their latest ends."""

    def __init__(self, view: View, levels: PlannedLevels, lengths: JobLengths, pstates: PStateTable) -> None:
        """Begin without jobs."""
        self.plan, self.cells = levels.plan, levels.cells
        self._levels, self._lengths, self._pstates = levels, lengths, pstates
        self.until: IndexArray = np.zeros(view.platform.size, dtype=np.intp)
        """Step up to which each host belongs to a running job, [N]."""
        self.ends_s: FloatArray = np.full(view.platform.size, -np.inf)
        """Latest end of the job of each host, s, [N]; minus infinity without a job."""
        self.changes = 0
        """Counter that changes whenever jobs start or end, or hold their servers for longer."""
        self._held: dict[str, Held] = {}
        self._long_held: dict[str, None] = {}
        """Ids of the running long jobs."""
        self._released: list[Held] = []
        """Reservations of jobs that have ended, whose servers no other job has taken yet."""

    def __len__(self) -> int:
        """Return the number of running jobs."""
        return len(self._held)

    @property
    def reservations(self) -> Sequence[Held]:
        """Reservations of the running jobs."""
        return [*self._held.values()]

    def keep_states(self, step: int, old: StateArray) -> None:
        """Put the states planned for running jobs into a new plan from ``step`` on.

        ``old``: the states of the plan that it replaces, [steps, N].
        """
        plan = self.plan
        self._released = []
        for held in self._held.values():
            end = min(held.end, len(old), plan.steps)
            held.before = plan.states[step:end, held.hosts].copy()
            held.first = step
            if step < end:
                plan.set_states(held.hosts, step, end, old[step:end, held.hosts])

    def start(self, view: View, step: int, job: Job, test: EnergyTest, placement: JobPlacement) -> None:
        """Give a job its servers up to its walltime, with the required changes."""
        hosts, end = placement.hosts, step + placement.end
        before = self.plan.states[step:end, hosts]
        test.apply(placement)
        self.until[hosts] = end
        self.ends_s[hosts] = view.now + job.walltime_s
        reference_flops = float(self._pstates.reference_flops[hosts].min())
        walltime_s = self._lengths.counted_of(view, step, job)
        total_flops = walltime_s * reference_flops * self._lengths.user_error
        end_s = view.now + walltime_s
        if self._lengths.by_work:
            end_s = min(end_s, self.plan.end_s)
        self.changes += 1
        self._held[job.id] = Held(job, hosts, step, before, placement.faster, end_s, total_flops)
        if self._lengths.long_jobs.includes(job):
            self._long_held[job.id] = None

    def _take(self, view: View, step: int, job: Job) -> None:
        """Give a job that others have started its servers, planned on up to its walltime; without a test."""
        plan, hosts = self.plan, job.hosts.ids
        walltime_s = self._lengths.counted_of(view, step, job)
        if walltime_s == math.inf:  # others start jobs that this policy would set aside
            walltime_s = plan.start_of(plan.horizon(step)) - job.start_s
        end_s = job.start_s + walltime_s
        end = min(max(plan.end_step(end_s), step + 1), plan.steps)
        before = plan.states[step:end, hosts].copy()
        asleep = self.cells.asleep(before, hosts)
        plan.set_states(hosts, step, end, np.where(asleep, view.pstate[hosts], before))
        self.until[hosts] = np.maximum(self.until[hosts], end)
        self.ends_s[hosts] = np.maximum(self.ends_s[hosts], job.start_s + job.walltime_s)
        reference_flops = float(self._pstates.reference_flops[hosts].min())
        total_flops = walltime_s * reference_flops * self._lengths.user_error
        self.changes += 1
        self._held[job.id] = Held(job, hosts, step, before, False, end_s, total_flops)
        if self._lengths.long_jobs.includes(job):
            self._long_held[job.id] = None

    def keep_long_jobs(self, step: int) -> None:
        """Extend the plan of running long jobs: to the end of the window, or to their expected end.

        There is no energy test: these jobs run, and compensation offsets their energy.
        """
        for held in [self._held[job_id] for job_id in self._long_held]:
            end = self._end_of_long(held, step)
            if end > held.end:
                self._keep(held, end)

    def _end_of_long(self, held: Held, step: int) -> int:
        """Return the step up to which a running long job holds its servers."""
        plan, start_s, expected_s = self.plan, held.job.start_s, self._lengths.long_jobs.expected_s
        if expected_s == math.inf:
            latest_s = plan.start_of(plan.window_end(step))
        elif held.end > step:
            return held.end
        else:
            run_s = plan.start_of(step) - start_s
            latest_s = start_s + (expected_s if run_s < expected_s else BEYOND * run_s)
        latest_s = min(latest_s, start_s + held.job.walltime_s)
        return min(max(plan.end_step(latest_s), step + 1), plan.horizon(step))

    def _keep(self, held: Held, end: int) -> None:
        """Let a running job hold its servers up to step ``end``, in the states that they are planned in."""
        plan, hosts, first = self.plan, held.hosts, held.end
        before = plan.states[first:end, hosts]
        asleep = self.cells.asleep(before, hosts)
        plan.set_states(hosts, first, end, kept_on(before, asleep, plan.before(first)[hosts]))
        held.before = np.concatenate((held.before, before))
        held.total_flops *= (plan.start_of(end) - held.job.start_s) / (held.end_s - held.job.start_s)
        held.end_s = plan.start_of(end)
        self.until[hosts] = end
        self.changes += 1

    def settle_ends(self, view: View, step: int) -> None:
        """Free the servers of jobs that have ended; `give_back` handles those that no other job takes."""
        running, held = view.running, self._held
        if len(running) == len(held):
            return
        gone = [job.id for job in sorted(view.ended, key=_start_order) if job.id in held]
        if len(running) + len(gone) != len(held):  # others ended outside all windows
            gone = [key for key in held if key not in running]
        self._free(gone, step)

    def take_all(self, view: View, step: int) -> None:
        """Plan the jobs that others have started on their servers, and return those of ended jobs."""
        self._free([key for key in self._held if key not in view.running], step)
        self.give_back(view, step)
        exchange_servers(view, self.plan, step, self.until <= step)
        for job in view.running.values():
            if job.id not in self._held:
                self._take(view, step, job)

    def _free(self, gone: Sequence[str], step: int) -> None:
        """Free the servers of jobs that have ended."""
        known = self._held
        for key in gone:
            held = known.pop(key)
            self._long_held.pop(key, None)
            self.changes += 1
            self.until[held.hosts] = 0
            self.ends_s[held.hosts] = -np.inf
            if step < held.first + len(held.before):
                self._released.append(held)

    def give_back(self, view: View, step: int) -> None:
        """Plan released servers that no job has taken asleep again, as before the job."""
        plan, released, self._released = self.plan, self._released, []
        for held in released:
            end = held.first + len(held.before)
            mine = self.until[held.hosts] <= step
            hosts, before = held.hosts[mine], held.before[step - held.first :, mine]
            if not len(hosts) or not len(before):
                continue
            changed = self.cells.asleep(before, hosts) | held.faster
            if any_of(changed):
                self._levels.write(view, step, hosts, np.where(changed, before, plan.states[step:end, hosts]))
