"""The plan as BEASY lives with it: what running jobs hold of it, and what their early ends give back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, StateArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.job import Job
from beasy_sched.policies.beasy_cells import CellPowers
from beasy_sched.policies.beasy_compensation import Rest, RunningJob
from beasy_sched.policies.beasy_scheduling import Change, EnergyTest, Outlook
from beasy_sched.policies.beasy_speeds import Ladder
from beasy_sched.policies.view import View
from beasy_sched.policies.working_plan import WorkingPlan
from beasy_sched.units import TIME_TOLERANCE_S


@dataclass
class _Held:
    """What a running job holds: its servers' steps from ``first`` on, and their states before it came."""

    job: Job
    hosts: HostIds
    first: int
    before: StateArray
    since_s: float
    """Its work is counted up to this moment."""
    total_flops: float
    """What it is taken to need on each host (Eq. 3.29)."""
    done_flops: float = 0.0


class LivePlan:
    """The working plan with its reservations."""

    def __init__(self, view: View, *, idle_power: bool, user_error: float) -> None:
        """Copy the plans of ``view``; see `Beasy`'s options for the others."""
        assert view.plans is not None
        self.plan = WorkingPlan(view.plans, view.platform, view.pstate.astype(np.int16))
        self.cells = CellPowers(view.platform, idle_power=idle_power)
        self.ladder = Ladder(view.platform)
        self.until: IndexArray = np.zeros(view.platform.size, dtype=np.intp)
        """Steps before this one belong to a running job, by host."""
        self.ends_s: FloatArray = np.full(view.platform.size, -np.inf)
        """When the running job of each host ends at the latest, s; minus infinity without one."""
        self._hosts = np.arange(view.platform.size)
        self._gone = (-1, 0.0)
        self._levels_of: tuple[int, int, float] | None = None
        self._levels_j: FloatArray = np.empty(0)
        self._user_error = user_error
        self._held: dict[str, _Held] = {}
        self._released: list[_Held] = []

    # --- scheduling -----------------------------------------------------------------------------------

    def end_step(self, time_s: float) -> int:
        """The first step that lies wholly after a moment."""
        return math.ceil((time_s - self.plan.start_s - TIME_TOLERANCE_S) / self.plan.step_s)

    def test(self, view: View, step: int) -> EnergyTest:
        """An energy test on the plan from the present step on."""
        plan = self.plan
        dt_s = np.full(plan.steps - step, plan.step_s)
        dt_s[0] = max(plan.start_of(step + 1) - view.now, TIME_TOLERANCE_S)
        outlook = Outlook(
            states=plan.states[step:],
            now_states=view.pstate.astype(np.int8),
            reserved_until=np.maximum(self.until - step, 0),
            level_j=lambda: self.levels_j(view, step),
            min_j=plan.battery.min_j,
            dt_s=dt_s,
            asleep_rows=lambda first, end: plan.asleep_steps(self._hosts, step + first, step + end),
            write=lambda hosts, states: self._write(view, step, hosts, states),
        )
        return EnergyTest(self.cells, outlook)

    def levels_j(self, view: View, step: int) -> FloatArray:
        """Planned battery energy at the end of the present step and of each later one, J.

        Projected again only where the plan or the true level has changed since.
        """
        assert view.storage_state is not None
        of = (self.plan.version, step, view.storage_state.battery_j)
        if of != self._levels_of:
            self._levels_of = of
            self._levels_j = self.plan.project_soc(step, view.storage_state.battery_j, self._gone_j(step))[1:]
        return self._levels_j

    def _write(self, view: View, step: int, hosts: HostIds, states: StateArray) -> None:
        """Plan ``hosts`` in ``states`` from the present step on.

        The plan counts whole steps: a server that sleeps now is planned as if it had slept from the
        step's start. What it has drawn by now is kept beside the plan to the end of the step.
        """
        plan = self.plan
        changed = hosts[plan.states[step, hosts] != states[0]]
        planned_j = -plan.server_energy_j(changed, step, step + 1).sum()
        rest_j = -self._rest_j(view, step, changed)
        plan.set_states(hosts, step, step + len(states), states)
        planned_j += plan.server_energy_j(changed, step, step + 1).sum()
        rest_j += self._rest_j(view, step, changed)
        self._gone = (step, self._gone_j(step) + float(rest_j - planned_j))

    def _rest_j(self, view: View, step: int, hosts: HostIds) -> float:
        """What ``hosts`` draw in the rest of the present step as planned, J."""
        rest_s = np.array([max(self.plan.start_of(step + 1) - view.now, TIME_TOLERANCE_S)])
        was_asleep = self.cells.asleep(view.pstate[hosts].astype(np.int8), hosts)[None, :]
        return float(
            self.cells.energy_j(self.plan.states[step, hosts][None, :], was_asleep, hosts, rest_s).sum()
        )

    def _gone_j(self, step: int) -> float:
        """What the servers draw in the present step beyond what the plan has for it by now, J."""
        return self._gone[1] if self._gone[0] == step else 0.0

    def start(self, view: View, step: int, job: Job, test: EnergyTest, change: Change) -> None:
        """Give a job its servers to its walltime, and make the changes that this takes."""
        hosts, end = change.hosts, step + change.end
        before = self.plan.states[step:end, hosts]
        test.apply(change)
        self.until[hosts] = end
        self.ends_s[hosts] = view.now + job.walltime_s
        reference_flops = float(self.ladder.reference_flops[hosts].min())
        total_flops = job.walltime_s * reference_flops * self._user_error
        self._held[job.id] = _Held(job, hosts, step, before, view.now, total_flops)

    def settle_ends(self, view: View, step: int) -> None:
        """Free what jobs held that run no more; `give_back` decides on what nobody takes."""
        running = view.running
        if len(running) == len(self._held):
            return
        ended = [key for key in self._held if key not in running]
        for key in ended:
            held = self._held.pop(key)
            self.until[held.hosts] = 0
            self.ends_s[held.hosts] = -np.inf
            if step < held.first + len(held.before):
                self._released.append(held)

    def give_back(self, view: View, step: int) -> None:
        """Put released servers that no job has taken back to sleep where they slept before the extension."""
        plan, released, self._released = self.plan, self._released, []
        for held in released:
            end = held.first + len(held.before)
            mine = self.until[held.hosts] <= step
            hosts, before = held.hosts[mine], held.before[step - held.first :, mine]
            if not len(hosts) or not len(before):
                continue
            slept = self.cells.asleep(before, hosts)
            if slept.any():
                self._write(view, step, hosts, np.where(slept, before, plan.states[step:end, hosts]))

    # --- compensation ---------------------------------------------------------------------------------

    def count_work(self, view: View) -> None:
        """Add up what running jobs have computed; call it before any speed changes."""
        if not self._held:
            return
        jobs = self._held.values()
        hosts = np.concatenate([held.hosts for held in jobs])
        first = np.cumsum([0, *(len(held.hosts) for held in jobs)])[:-1]
        speeds = self.ladder.speed_flops(hosts, view.pstate[hosts])
        for held, speed in zip(jobs, np.minimum.reduceat(speeds, first).tolist(), strict=True):
            held.done_flops += speed * (view.now - held.since_s)
            held.since_s = view.now

    def running_jobs(self, view: View) -> list[RunningJob]:
        """The running jobs with their estimated remaining work (Eq. 3.28, 3.29)."""
        return [
            RunningJob(
                held.hosts,
                held.job.expected_end_s - view.now,
                max(held.total_flops - held.done_flops, 0.0),
            )
            for held in self._held.values()
        ]

    def rest(self, view: View, step: int, end: int) -> Rest:
        """What is left of a window that ends before step ``end``."""
        assert view.storage_state is not None
        plan, rows = self.plan, slice(step, end)
        return Rest(
            states=plan.states[rows].copy(),
            now_asleep=np.asarray(view.pstate == plan.sleep),
            reserved_until=np.maximum(self.until - step, 0),
            dt_s=np.full(end - step, plan.step_s),
            supply_j=(plan.renew_w[rows] + plan.hydrogen_w[rows]) * plan.step_s,
            demand_j=plan.energy_j[rows].copy(),
            battery=plan.battery,
            start_j=view.storage_state.battery_j,
        )

    def adopt(self, step: int, rest: Rest) -> None:
        """Make the states of ``rest`` the plan's."""
        differs = rest.states != self.plan.states[step : step + len(rest.states)]
        hosts = np.flatnonzero(differs.any(axis=0))
        if len(hosts):
            rows = np.flatnonzero(differs.any(axis=1))
            first, end = int(rows[0]), int(rows[-1]) + 1
            self.plan.set_states(hosts, step + first, step + end, rest.states[first:end, hosts])
