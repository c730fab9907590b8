"""Plans on sites whose grid charges the battery: by its rule, and only as far as it is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plan_cases import battery, problem
from planner.test_power_random import random_problem

from beasy_sched.energy.grid_charging import GridCharge
from beasy_sched.planner.plan import INFEASIBLE
from beasy_sched.planner.power_plan import GRID_CHARGE, plan_power
from beasy_sched.planner.power_problem import PowerProblem, Surplus, power_violations
from beasy_sched.units import kwh_to_j

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")

EMPTY = battery(10.0, soc_start_pct=0.0)


def charges(*allowed_kw: float, most_kwh: float = 10.0) -> GridCharge:
    return GridCharge(1e3 * np.array(allowed_kw), kwh_to_j(most_kwh))


def test_a_plan_charges_ahead_of_a_demand_beyond_the_import_limit() -> None:
    case = problem([0.5, 0.5, 3.0], [0, 0, 0], EMPTY, import_limit_w=1500.0)
    alone = plan_power(case).plan
    assert alone is not None
    assert alone.relax_factor == pytest.approx(0.5)
    charging = plan_power(replace(case, grid_charge=charges(1.5, 1.5, 0.0))).plan
    assert charging is not None
    assert charging.relax_factor == 0.0
    assert charging.grid_charge_w.tolist() == pytest.approx([1000.0, 500.0, 0.0])
    assert charging.import_w.tolist() == pytest.approx([1500.0, 1000.0, 1500.0])


def test_a_plan_does_not_charge_where_the_rule_does_not_hold() -> None:
    case = problem([0.5, 0.5, 3.0], [0, 0, 0], EMPTY, import_limit_w=1500.0, grid_charge=charges(0, 1.5, 0))
    plan = plan_power(case).plan
    assert plan is not None
    assert plan.grid_charge_w.tolist() == pytest.approx([0.0, 1500.0 - 500.0 * 6 / 7, 0.0], abs=0.1)
    assert plan.relax_factor == pytest.approx(0.5 / 3.5, abs=1e-4)


def test_a_plan_charges_only_up_to_the_level_of_the_rule() -> None:
    allowed = charges(5.0, 5.0, 0.0, most_kwh=2.0)
    case = problem([0, 0, 9.0], [0, 4.0, 0], EMPTY, import_limit_w=5000.0, grid_charge=allowed)
    decision = plan_power(case)
    assert decision.plan is not None
    assert decision.plan.relax_factor == 0.0
    assert decision.plan.battery_j[1] <= kwh_to_j(2.0)
    assert decision.plan.grid_charge_w[1] == 0.0


def test_the_exclusion_is_added_only_if_it_is_broken() -> None:
    """Without integers, the grid would charge beyond the rule's level, next to production."""
    allowed = charges(5.0, 5.0, 0.0, most_kwh=2.0)
    case = problem([0, 0, 20.0], [0, 4.0, 0], EMPTY, import_limit_w=5000.0, grid_charge=allowed)
    decision = plan_power(case)
    assert decision.plan is not None
    assert GRID_CHARGE in decision.whole_numbers
    assert not power_violations(decision.plan, case)
    free = plan_power(replace(case, grid_charge=charges(5.0, 5.0, 0.0))).plan
    assert free is not None
    assert free.relax_factor < decision.plan.relax_factor


def test_production_beyond_the_demand_replaces_a_charge_from_the_grid() -> None:
    """With `Surplus.STORE`, the first step's surplus is stored, whatever the grid may do."""
    spec = battery(10.0, soc_start_pct=0.0)
    case = problem(
        [0.5, 0.5, 3.0], [2.5, 0, 0], spec, import_limit_w=1500.0, grid_charge=charges(1.5, 1.5, 0)
    )
    plan = plan_power(replace(case, surplus=Surplus.STORE)).plan
    assert plan is not None
    assert plan.charge_w.tolist() == pytest.approx([2000.0, 0.0, 0.0])
    assert plan.grid_charge_w.tolist() == pytest.approx([0.0, 0.0, 0.0])
    assert plan.relax_factor == 0.0
    limit = {"import_limit_w": 1400.0, "grid_charge": charges(0, 1.4, 0)}
    plan = plan_power(problem([0, 0.5, 3.0], [1.0, 0, 0], spec, surplus=Surplus.STORE, **limit)).plan
    assert plan is not None
    assert plan.charge_w.tolist() == pytest.approx([1000.0, 600.0, 0.0])
    assert plan.grid_charge_w.tolist() == pytest.approx([0.0, 600.0, 0.0])
    assert plan.import_w.tolist() == pytest.approx([0.0, 1100.0, 1400.0])
    assert plan.relax_factor == 0.0


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(40))
def test_storing_surplus_costs_nothing_and_imports_no_more(seed: int) -> None:
    case = replace(random_charging(seed), surplus=Surplus.ENVELOPE)
    plain, stored = plan_power(case).plan, plan_power(replace(case, surplus=Surplus.STORE)).plan
    if plain is None or stored is None:
        assert plain is stored
        return
    slack_j = 1e-6 * (case.storage.battery.capacity_j + stored.scale_w * case.step_s)
    assert (stored.battery_j >= plain.battery_j - slack_j).all()
    assert (stored.import_w <= plain.import_w + 1e-6 * stored.scale_w).all()
    assert (stored.shortfall_w <= plain.shortfall_w + 1e-6 * stored.scale_w).all()


def random_charging(seed: int) -> PowerProblem:
    rng, case = np.random.default_rng(seed), random_problem(seed)
    scale_w = max(1.0, float(case.load_w.max()))
    limit_w = scale_w * float(rng.choice([0.3, 0.8, 2.0]))
    allowed_w = np.where(rng.random(case.steps) < 0.4, limit_w * float(rng.choice([1.0, 0.6])), 0.0)
    span_j = case.storage.battery.max_j - case.storage.battery.min_j
    most_j = case.storage.battery.min_j + span_j * float(rng.choice([0.5, 1.0]))
    return replace(
        case,
        import_limit_w=limit_w,
        base_w=scale_w * float(rng.choice([0.0, 0.1])),
        grid_charge=GridCharge(allowed_w, most_j),
    )


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(60))
def test_random_plans_hold(seed: int) -> None:
    case = random_charging(seed)
    decision = plan_power(case)
    if decision.plan is None:
        assert decision.solved.status == INFEASIBLE
        return
    assert not power_violations(decision.plan, case)
    assert decision.plan.relax_factor <= 1.0


def test_a_charge_beyond_the_rule_is_a_violation() -> None:
    case = problem([0.5, 0.5, 3.0], [0, 0, 0], EMPTY, import_limit_w=1500.0, grid_charge=charges(1.5, 1.5, 0))
    plan = plan_power(case).plan
    assert plan is not None
    for grid_charge in (charges(0.0, 1.5, 0.0), charges(1.5, 1.5, 0.0, most_kwh=1.2), charges(1.2, 1.5, 0)):
        broken = {each.constraint for each in power_violations(plan, replace(case, grid_charge=grid_charge))}
        assert broken
    assert power_violations(plan, replace(case, grid_charge=None))
