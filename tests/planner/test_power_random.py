"""Random sites of every size, from watts to gigawatts: a plan that holds, or a reason why there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from beasy_sched.energy.devices.battery import BatterySpec, LossConvention
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.storage import Storage
from beasy_sched.model.choices import Surplus
from beasy_sched.planner.plan import FEASIBLE, INFEASIBLE, OPTIMAL
from beasy_sched.planner.power_plan import plan_power
from beasy_sched.planner.power_problem import PowerProblem, power_violations
from beasy_sched.planner.solver_limits import SolverLimits

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")


def random_problem(seed: int) -> PowerProblem:
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(1, 100))

    def one(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    def size(low: float, high: float) -> float:
        return float(scale_w * 10 ** rng.uniform(low, high))

    scale_w = 1.0
    scale_w = size(0, 9)
    least, most = one(0.0, 20.0), one(90.0, 100.0)
    battery = BatterySpec(
        capacity_j=3600.0 * size(-2, 3),
        soc_min_pct=least,
        soc_max_pct=most,
        soc_start_pct=float(rng.uniform(least, most)),
        soc_target_pct=float(rng.uniform(least, 60.0)),
        charge_limit_w=one(np.inf, size(-2, 1)),
        discharge_limit_w=one(np.inf, size(-2, 1)),
        charge_efficiency=one(1.0, 0.95, 0.7),
        discharge_efficiency=one(1.0, 0.95, 0.7),
        self_discharge_per_day=one(0.0, 0.002, 0.5),
        loss=one(*[LossConvention.PHYSICAL] * 4, LossConvention.PRINTED),
    )
    tank_kg, most_w = float(10 ** rng.uniform(-3, 5)), size(-2, 1)
    hydrogen = HydrogenSpec(
        tank_kg=tank_kg,
        level_start_kg=tank_kg * rng.random(),
        level_target_kg=tank_kg * rng.random() * one(0.0, 1.0),
        electrolyzer_max_w=most_w,
        electrolyzer_min_w=most_w * one(0.0, 0.1, 0.6, 1.0),
        fuel_cell_max_w=size(-2, 0.5) * one(0.0, 1.0),
    )
    return PowerProblem(
        Storage(battery, one(None, hydrogen)),
        scale_w * rng.random(steps) * (rng.random(steps) < 0.8),
        scale_w * rng.random(steps) * one(0.0, 0.5, 1.0, 2.0) * (rng.random(steps) < 0.7),
        step_s=one(60.0, 300.0, 3600.0),
        floor_w=scale_w * one(0.0, 0.02),
        most_w=one(np.inf, scale_w),
        surplus=one(*Surplus),
    )


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", [*range(8, 60), *range(8)])
def test_a_plan_that_holds_or_a_reason(seed: int) -> None:
    case = random_problem(seed)
    decision = plan_power(case, SolverLimits(nodes=200))
    if decision.plan is None:
        assert decision.solved.status == INFEASIBLE
        named = ("soc_target_pct", "level_target_kg", "soc_min_pct", "the sleeping servers")
        assert decision.solved.message.startswith(named)
    else:
        assert power_violations(decision.plan, case) == ()
        assert 0.0 <= decision.plan.relax_factor <= 1.0 + 1e-6
        assert decision.solved.gap <= 1e-4 or decision.solved.status == FEASIBLE


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [179, 395])
def test_presolve_that_calls_a_stage_infeasible_ends_no_search(seed: int) -> None:
    solved = plan_power(random_problem(seed), SolverLimits(nodes=200)).solved
    assert (solved.status, solved.message) == (OPTIMAL, "")
