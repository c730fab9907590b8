"""Levels of the battery by BEASY's plan, with what the servers draw in the current step beyond the plan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray, StateArray
from beasy_sched.energy.devices.battery import project_levels_j
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.engine.policy import View
from beasy_sched.last_value_cache import LastValueCache
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.planned.follower import battery_j
from beasy_sched.policies.planned.working_plan import WorkingPlan
from beasy_sched.policies.risk import CalibratedRisk
from beasy_sched.units import TIME_TOLERANCE_S


class _PlanAt(NamedTuple):
    """Inputs of projected levels."""

    version: int
    """`WorkingPlan.version`."""
    step: int
    level_j: float
    """Actual level at the start of the step."""


class _Beyond(NamedTuple):
    """Energy that servers draw in one step beyond the plan."""

    step: int
    energy_j: float


class PlannedLevels:
    """Levels of the battery by a plan, and the changes to the plan during a step."""

    def __init__(self, plan: WorkingPlan, cells: CellEnergies) -> None:
        """Begin with no energy drawn beyond ``plan``."""
        self.plan, self.cells = plan, cells
        self._levels_j: LastValueCache[_PlanAt, FloatArray] = LastValueCache()
        self._least_left_j: LastValueCache[_PlanAt, FloatArray] = LastValueCache()
        self._beyond_plan = _Beyond(-1, 0.0)

    def levels_j(self, view: View, step: int) -> FloatArray:
        """Planned battery energy (J) at the end of the current step and of each one up to the horizon."""
        plan, level_j = self.plan, battery_j(view)

        def project() -> FloatArray:
            return plan.project_soc(step, plan.horizon(step), level_j, self._beyond_plan_j(step))[1:]

        return self._levels_j.get(_PlanAt(plan.version, step, level_j), project)

    def least_left_j(self, view: View, step: int, risk: CalibratedRisk) -> FloatArray:
        """Least energy (J) above SoC_min and the reserve, up to the end of each step from ``step`` on.

        Servers are as planned; production is the quantile used for starts.
        """
        plan, level_j = self.plan, battery_j(view)

        def project() -> FloatArray:
            rows = slice(step, step + len(risk.careful_w))
            net_w = risk.careful_w + plan.given_w[rows] - plan.site_j(rows) / plan.step_s
            net_w[0] -= self._beyond_plan_j(step) * plan.pue.item(step) / plan.step_s
            levels_j = project_levels_j(plan.battery, level_j, net_w, plan.step_s)
            return np.minimum.accumulate(levels_j[1:] - plan.battery.min_j - risk.reserve_j)

        return self._least_left_j.get(_PlanAt(plan.version, step, level_j), project)

    def write(self, view: View, step: int, hosts: HostIds, states: StateArray) -> None:
        """Plan ``states`` for ``hosts`` from the current step on.

        The plan has whole steps: a server that falls asleep now is planned asleep from the step's start. The
        energy that it has already drawn is stored separately until the end of the step.
        """
        plan = self.plan
        changed = hosts[plan.states[step, hosts] != states[0]]
        if not len(changed):
            plan.set_states(hosts, step, step + len(states), states)
            return
        planned_j = -plan.server_energy_j(changed, step, step + 1).sum()
        rest_j = -self._rest_j(view, step, changed)
        plan.set_states(hosts, step, step + len(states), states)
        planned_j += plan.server_energy_j(changed, step, step + 1).sum()
        rest_j += self._rest_j(view, step, changed)
        self._beyond_plan = _Beyond(step, self._beyond_plan_j(step) + float(rest_j - planned_j))

    def _rest_j(self, view: View, step: int, hosts: HostIds) -> float:
        """Return the energy of ``hosts`` in the rest of the current step as planned, J."""
        rest_s = np.array([max(self.plan.start_of(step + 1) - view.now, TIME_TOLERANCE_S)])
        was_asleep = (view.pstate[hosts] == self.plan.sleep[hosts])[None, :]
        states = self.plan.states[step, hosts][None, :]
        return float(self.cells.energy_j(states, was_asleep, hosts, rest_s).sum())

    def _beyond_plan_j(self, step: int) -> float:
        """Return the energy that the servers draw in the current step beyond the plan, J."""
        beyond = self._beyond_plan
        return beyond.energy_j if beyond.step == step else 0.0
