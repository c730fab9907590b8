"""The nine curves by hand, dangerous steps, the violation step, and agreement with the balance of a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from plan_cases import HOUR_S, battery, hand_plan, three_days

from beasy_sched.energy.balance import settle_step
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.forecast.quantiles import PowerBand, Quantiles
from beasy_sched.forecast.uncertainty import Uncertainty
from beasy_sched.planner.forecast import CURVES, Forecast, Predictions, predict


def curves_kwh(
    spec: BatterySpec, demand_kw: list[float], production_kw: list[float], u: float, **more: Any
) -> np.ndarray:
    shares = np.full(len(demand_kw), u)
    demand, production = (Forecast(1e3 * np.array(kw), shares) for kw in (demand_kw, production_kw))
    return predict(spec, spec.start_j, demand, production, HOUR_S, **more).energy_j / 3.6e6


HALF = battery(charge_efficiency=0.5, discharge_efficiency=0.5)
"""10 kWh, half full; a surplus of 1 kWh stores 0.5, a deficit of 1 kWh takes 2."""


@pytest.mark.parametrize(
    ("curve", "expected_kwh"),
    [
        # Demand 2 kW -+ 50 %, production 2 kW -+ 50 %: net power in each hour, and 5 kWh + 2 h of it.
        (("low", "low"), [5.0, 5.0]),  # 1 - 1 = 0
        (("low", "median"), [5.5, 6.0]),  # 2 - 1 = 1
        (("low", "high"), [6.0, 7.0]),  # 3 - 1 = 2
        (("median", "low"), [3.0, 1.0]),  # 1 - 2 = -1
        (("median", "median"), [5.0, 5.0]),  # 2 - 2 = 0
        (("median", "high"), [5.5, 6.0]),  # 3 - 2 = 1
        (("high", "low"), [1.0, 0.0]),  # 1 - 3 = -2: -4 kWh, then empty
        (("high", "median"), [3.0, 1.0]),  # 2 - 3 = -1
        (("high", "high"), [5.0, 5.0]),  # 3 - 3 = 0
    ],
)
def test_nine_curves_by_hand(curve: tuple[str, str], expected_kwh: list[float]) -> None:
    energy = curves_kwh(HALF, [2.0, 2.0], [2.0, 2.0], 0.5)
    np.testing.assert_allclose(energy[CURVES.index(curve)], expected_kwh)


@pytest.mark.parametrize(
    ("net_kw", "expected_kwh"), [(2.0, [9.5, 9.5]), (0.0, [9.5, 9.5]), (-0.1, [9.3, 9.1])]
)
def test_a_level_that_begins_above_the_maximum_only_falls(net_kw: float, expected_kwh: list[float]) -> None:
    """9.5 kWh where 9 are the most: nothing is charged, and nothing is thrown away."""
    zero, net_w = np.zeros(2), np.full(2, 1e3 * abs(net_kw))
    demand, production = (
        Forecast(net_w if net_kw < 0 else zero, zero),
        Forecast(net_w if net_kw > 0 else zero, zero),
    )
    spec = replace(HALF, soc_max_pct=90.0)
    found = predict(spec, 9.5 * 3.6e6, demand, production, HOUR_S)
    np.testing.assert_allclose(found.energy_j / 3.6e6, [expected_kwh] * 9)


@pytest.mark.parametrize(
    ("changes", "demand_kw", "production_kw", "more", "expected_kwh"),
    [
        ({}, [0, 0], [4, 4], {}, [7.0, 9.0]),
        ({"soc_max_pct": 80.0}, [0, 0], [4, 4], {}, [7.0, 8.0]),
        ({"charge_limit_w": 2e3}, [0, 0], [4, 4], {}, [6.0, 7.0]),
        ({"discharge_limit_w": 500.0}, [4, 4], [0, 0], {}, [4.0, 3.0]),
        ({}, [1, 1], [0, 0], {"fuel_cell_w": 2e3}, [5.5, 6.0]),
        ({}, [1, 1], [4, 4], {"electrolyzer_w": np.array([4e3, 1e3])}, [3.0, 4.0]),
        ({"self_discharge_per_day": 1 - 0.9**24}, [0, 0], [0, 0], {}, [4.5, 4.05]),
    ],
)
def test_limits_hydrogen_and_self_discharge(
    changes: dict[str, Any],
    demand_kw: list[float],
    production_kw: list[float],
    more: dict[str, Any],
    expected_kwh: list[float],
) -> None:
    energy = curves_kwh(replace(HALF, **changes), demand_kw, production_kw, 0.0, **more)
    np.testing.assert_allclose(energy, np.tile(expected_kwh, (9, 1)))


@pytest.mark.parametrize(
    ("below", "present", "dangerous", "violation"),
    [
        ([0, 4, 5, 9], 0, [2, 3], 3),
        ([0, 0, 0, 0], 0, [], 3),
        ([9, 0, 0, 0], 0, [0], 3),  # The present is not the future.
        ([9, 7, 3, 7], 0, [0, 1, 3], 1),
        ([9, 7, 3, 7], 1, [0, 1, 3], 3),
        ([9, 9, 9, 1], 3, [0, 1, 2], 3),
    ],
)
def test_dangerous_and_violation_steps(
    below: list[int], present: int, dangerous: list[int], violation: int
) -> None:
    predictions = Predictions(np.zeros((9, 4)), np.array(below))
    assert np.flatnonzero(predictions.dangerous).tolist() == dangerous
    assert predictions.violation_step(present) == violation


def test_counts_curves_below_the_minimum() -> None:
    spec = replace(HALF, soc_min_pct=10.0, soc_target_pct=50.0)  # 1 kWh: being there is not below.
    shares = np.full(2, 0.5)
    flat = Forecast(np.full(2, 2e3), shares)
    assert predict(spec, spec.start_j, flat, flat, HOUR_S).below.tolist() == [0, 1]


def test_same_as_the_balance_of_each_step() -> None:
    """Above SoC_min, a curve is what `settle_step` does with that demand and production."""
    load, renew = three_days(demand_kw=4.0)
    spec = BatterySpec(3.6e8, charge_limit_w=5e3, discharge_limit_w=3e3, self_discharge_per_day=0.01)
    shares = Uncertainty().over(len(load), 300.0)
    demand, production = Forecast(load, shares), Forecast(renew, shares)
    curve = predict(spec, spec.start_j, demand, production, 300.0).energy_j[CURVES.index(("low", "high"))]
    assert curve.min() > spec.min_j
    state = StorageState(spec.start_j)
    for step, (needed, given) in enumerate(zip(demand.low_w, production.high_w, strict=True)):
        _, state = settle_step(Storage(spec), state, dt_s=300.0, consumed_j=needed * 300.0, renew_w=given)
        assert curve[step] == pytest.approx(state.battery_j, rel=1e-12)


def test_of_a_plan() -> None:
    plan = hand_plan()
    shares = np.zeros(3)
    sure = replace(plan, load_uncertainty=shares, renew_uncertainty=shares)
    np.testing.assert_allclose(sure.predictions().energy_j / 3.6e6, np.tile([9.0, 8.0, 6.0], (9, 1)))
    assert sure.predictions(3.6e6).energy_j[0, 0] == pytest.approx(5 * 3.6e6)


@pytest.mark.parametrize(
    ("flow", "lost_kwh"), [("electrolyzer_w", [1.0, 2.0, 3.0]), ("fuel_cell_w", [-1.0, -2.0, -3.0])]
)
def test_of_a_window_with_its_planned_hydrogen(flow: str, lost_kwh: list[float]) -> None:
    """1 kW in every hour, of a battery that has room for it."""
    plan = hand_plan()
    shares = np.zeros(3)
    sure = replace(plan, load_uncertainty=shares, renew_uncertainty=shares)
    flows = replace(sure, power=replace(sure.power, **{flow: np.full(3, 1e3)}))
    without, with_it = (each.predictions(4.5 * 3.6e6).energy_j / 3.6e6 for each in (sure, flows))
    np.testing.assert_allclose(without - with_it, np.minimum(np.tile(lost_kwh, (9, 1)), without))


def test_of_a_plan_whose_demand_has_quantiles() -> None:
    """They stand for u_load; the low demand is that of the level asked for."""
    plan = hand_plan()
    load_w = plan.power.load_w
    by_level_w = np.stack([0.5 * load_w, load_w, 3.0 * load_w])
    bounded = replace(plan, load_quantiles=Quantiles(np.array([0.1, 0.5, 0.9]), by_level_w))
    bounded.check()
    spec, power = plan.storage.battery, plan.power
    for level, low_w in ((0.1, 0.5 * load_w), (0.3, 0.75 * load_w), (-0.2, 0.0 * load_w)):
        high_w = 2.0 * load_w if level == 0.3 else 3.0 * load_w
        band = bounded.demand_within(level)
        assert np.stack([band.low_w, band.value_w, band.high_w]) == pytest.approx(
            np.stack([low_w, load_w, high_w])
        )
        expected = predict(
            spec,
            float(power.battery_j[0]),
            PowerBand(low_w, load_w, high_w),
            plan.production,
            plan.step_s,
            electrolyzer_w=power.electrolyzer_w,
            fuel_cell_w=power.with_grid(power.fuel_cell_w),
        )
        np.testing.assert_allclose(bounded.predictions(level=level).energy_j, expected.energy_j, atol=1e-3)
    np.testing.assert_array_equal(bounded.predictions().energy_j, bounded.predictions(level=0.1).energy_j)
    assert bounded.until(2).demand.high_w == pytest.approx(3.0 * load_w[:2])


def test_the_planned_demand_lies_within_its_bounds() -> None:
    """Also where the plan's own demand is beyond a quantile, as after late jobs were added to it."""
    plan = hand_plan()
    load_w = plan.power.load_w
    by_level_w = np.stack([2.0 * load_w, 3.0 * load_w])
    band = replace(plan, load_quantiles=Quantiles(np.array([0.1, 0.9]), by_level_w)).demand
    assert np.all((band.low_w <= load_w) & (load_w <= band.high_w))
