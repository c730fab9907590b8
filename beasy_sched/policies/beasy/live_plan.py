"""BEASY's working plan, with the parts that read and change it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, StateArray
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.engine.policy import View
from beasy_sched.last_value_cache import LastValueCache
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.beasy.energy_test import EnergyTest
from beasy_sched.policies.beasy.held_servers import HeldServers
from beasy_sched.policies.beasy.job_lengths import JobLengths, LongJobsRule, WindowEnd
from beasy_sched.policies.beasy.planned_levels import PlannedLevels
from beasy_sched.policies.beasy.rest_of_plan import RestOfPlan
from beasy_sched.policies.beasy.sleep_bound import SleepBound
from beasy_sched.policies.planned.follower import offline_plans
from beasy_sched.policies.planned.pstate_table import PStateTable
from beasy_sched.policies.planned.sleep_savings import SleepSavings
from beasy_sched.policies.planned.working_plan import WorkingPlan
from beasy_sched.units import TIME_TOLERANCE_S


class _Changes(NamedTuple):
    """Counters of changes of plan and jobs."""

    plan: int
    jobs: int


class _BoundFrom(NamedTuple):
    """Possible savings of idle servers in rows of the plan, the first of which is ``step``."""

    step: int
    bound: SleepBound


class LivePlan:
    """Working plan with the reservations of running jobs.

    ``lengths`` has the times that jobs take in it, ``held`` the servers that they hold, ``levels`` the
    battery's levels, ``rest`` the view of compensation; `test` makes energy tests of waiting jobs.
    """

    def __init__(
        self,
        view: View,
        *,
        idle_power: bool,
        user_error: float,
        window_end: WindowEnd = "walltime",
        long_jobs: LongJobsRule = "plan",
    ) -> None:
        """Copy the plans of ``view``; see `BeasyOptions` for the others."""
        self.cells = CellEnergies(view.power_model, idle_power=idle_power)
        self.savings = SleepSavings(self.cells)
        self.pstates = PStateTable(view.power_model)
        self.plan = WorkingPlan(offline_plans(view), self.cells, view.pstate)
        self.lengths = JobLengths(
            view,
            self.plan,
            self.pstates,
            user_error=user_error,
            window_end=window_end,
            long_jobs=long_jobs,
        )
        self.levels = PlannedLevels(self.plan, self.cells)
        self.held = HeldServers(view, self.levels, self.lengths, self.pstates)
        self.rest = RestOfPlan(self.held, self.pstates)
        self.on_s: FloatArray = view.power_model.on_s[view.platform.kind_of]
        """Waking time of each host, s, [N]."""
        self.longest_wake_s = float(view.power_model.on_s.max())
        self.no_servers: BoolArray = np.zeros(view.platform.size, dtype=np.bool_)
        """Empty mask of servers, [N]; read-only."""
        self.no_servers.flags.writeable = False
        self._bound: LastValueCache[_Changes, _BoundFrom] = LastValueCache()

    def renew(self, time_s: float) -> bool:
        """Adopt new plans from ``time_s`` on, except for the servers of running jobs.

        These keep their states planned for the job. Returns whether there were new plans.
        """
        plan, old = self.plan, self.plan.states
        if not plan.renew(time_s):
            return False
        self.held.keep_states(round((time_s - plan.start_s) / plan.step_s), old)
        return True

    def test(self, view: View, step: int) -> EnergyTest:
        """Return an energy test on the plan from the current step on.

        It covers the plan's horizon, or the end of the longest waiting job, plus one step.
        """
        plan = self.plan
        end_step = plan.horizon(step)
        if view.now + view.queue.longest_walltime_s > plan.start_of(end_step):
            end_step = max(end_step, self._last_end_step(view, step))
        plan.cover(step, end_step)
        return _TestNow(self, view, step, min(end_step + 1, plan.steps))

    def _last_end_step(self, view: View, step: int) -> int:
        """Return the latest end step of the waiting jobs that can still end before the plan does."""
        walltimes_s = self.lengths.counted_s(view, step, view.queue.walltime_s[view.queue.places()])
        end_s = self.plan.end_s
        in_time = view.now + self.lengths.most_s(view, step, walltimes_s) <= end_s + TIME_TOLERANCE_S
        ends_s = np.minimum(view.now + walltimes_s[in_time], end_s)
        return self.plan.end_step(float(ends_s.max(initial=view.now)))

    def most_saved_j(self, step: int, enough_j: float, rows: int) -> float:
        """Return the most that idle servers can save in ``rows`` from ``step`` on: see `SleepBound.most_j`.

        The bound is kept while neither the plan's states nor the running jobs change.
        """

        def from_here() -> _BoundFrom:
            ahead = self.plan.states[step:]
            return _BoundFrom(step, SleepBound(self.savings, ahead, self.held.until - step, self.plan.step_s))

        saving = self._bound.get(_Changes(self.plan.changes, self.held.changes), from_here)
        row = step - saving.step
        return saving.bound.most_j(enough_j, row + rows, row)


class _TestNow(EnergyTest):
    """Energy test on the plan as it is in the current step."""

    def __init__(self, live: LivePlan, view: View, step: int, end_step: int) -> None:
        """Test on the steps from ``step`` up to ``end_step``, which is not included."""
        plan = live.plan
        rows = slice(step, end_step)
        dt_s = plan.steps_s[rows].copy()
        dt_s[0] = max(plan.start_of(step + 1) - view.now, TIME_TOLERANCE_S)
        super().__init__(
            live.savings,
            states=plan.states[rows],
            now_states=view.pstate.astype(np.int8),
            reserved_until=np.maximum(live.held.until - step, 0),
            dt_s=dt_s,
            min_j=plan.battery.min_j,
            weights=plan.weights(rows),
        )
        self._live, self._view, self._step = live, view, step

    def levels_j(self) -> FloatArray:
        return self._live.levels.levels_j(self._view, self._step)

    def write(self, hosts: HostIds, states: StateArray) -> None:
        self._live.levels.write(self._view, self._step, hosts, states)

    def most_saved_j(self, enough_j: float, rows: int) -> float:
        return self._live.most_saved_j(self._step, enough_j, rows)
