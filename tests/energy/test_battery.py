import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.energy.devices.battery import (
    BatterySpec,
    LevelProjection,
    LossConvention,
    charge_power_limit,
    discharge_power_limit,
    energy_after_step,
    project_levels_j,
    project_need_j,
)
from beasy_sched.energy.fields import FieldError

KWH = 3.6e6
BATTERY = BatterySpec(100 * KWH, charge_limit_w=25e3, discharge_limit_w=50e3)


def test_charging_stores_its_efficiency_s_share():
    assert energy_after_step(BATTERY, 50 * KWH, 10e3, 0, 3600) == pytest.approx(59.5 * KWH)


def test_delivering_takes_more_than_is_delivered():
    assert energy_after_step(BATTERY, 50 * KWH, 0, 9.5e3, 3600) == pytest.approx(40 * KWH)


def test_the_printed_formula_takes_less_than_is_delivered():
    printed = BatterySpec(100 * KWH, loss=LossConvention.PRINTED)
    assert energy_after_step(printed, 50 * KWH, 0, 10e3, 3600) == pytest.approx(40.5 * KWH)


def test_self_discharge_is_the_same_in_a_day_of_any_steps():
    leaky = BatterySpec(KWH, self_discharge_per_day=0.2)
    assert leaky.kept_fraction(86_400) == pytest.approx(0.8)
    assert leaky.kept_fraction(300) ** 288 == pytest.approx(0.8)
    assert energy_after_step(leaky, KWH, 0, 0, 43_200) == pytest.approx(math.sqrt(0.8) * KWH)


@pytest.mark.parametrize(
    ("energy_kwh", "limit_w"),
    [(50, 25e3), (90, 0), (95, 0), (89.05, 950 / 0.95)],
)
def test_charging_stops_at_its_limit_or_at_soc_max(energy_kwh, limit_w):
    assert charge_power_limit(BATTERY, energy_kwh * KWH, 3600) == pytest.approx(limit_w)


@pytest.mark.parametrize(
    ("energy_kwh", "floor_kwh", "limit_w"),
    [(90, 20, 50e3), (20, 20, 0), (15, 20, 0), (21, 20, 950), (15, 0, 14.25e3), (0, 0, 0)],
)
def test_discharging_stops_at_its_limit_or_at_the_floor(energy_kwh, floor_kwh, limit_w):
    limit = discharge_power_limit(BATTERY, energy_kwh * KWH, 3600, floor_kwh * KWH)
    assert limit == pytest.approx(limit_w)


def test_the_limits_allow_for_self_discharge():
    leaky = BatterySpec(100 * KWH, self_discharge_per_day=0.1)
    power = discharge_power_limit(leaky, 30 * KWH, 86_400, leaky.min_j)
    assert energy_after_step(leaky, 30 * KWH, 0, power, 86_400) == pytest.approx(20 * KWH)
    power = charge_power_limit(leaky, 30 * KWH, 86_400)
    assert energy_after_step(leaky, 30 * KWH, power, 0, 86_400) == pytest.approx(90 * KWH)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("capacity_j", -1),
        ("capacity_j", math.nan),
        ("capacity_j", math.inf),
        ("soc_min_pct", -1),
        ("soc_max_pct", 101),
        ("soc_max_pct", 20),
        ("soc_start_pct", 91),
        ("soc_target_pct", 95),
        ("soc_target_pct", math.nan),
        ("charge_limit_w", 0),
        ("discharge_limit_w", math.nan),
        ("charge_efficiency", 95),
        ("discharge_efficiency", 0),
        ("self_discharge_per_day", 1),
        ("self_discharge_per_day", -0.1),
    ],
)
def test_a_battery_that_cannot_be_is_refused(field, value):
    with pytest.raises(FieldError, match=f"^{field}: found .*, expected") as error:
        BatterySpec(**{"capacity_j": KWH, field: value})
    assert error.value.field == field


@given(st.integers(0, 2**32 - 1), st.sampled_from([5e3, 40e3, 400e3]))
def test_projecting_again_gives_the_same_levels_as_projecting_anew(seed, most_w):
    """Time goes on, levels are not as projected, some steps gain something else: equal to the last bit."""
    rng = np.random.default_rng(seed)
    battery = BatterySpec(20 * KWH, self_discharge_per_day=0.01, discharge_limit_w=50e3)
    net_w = rng.uniform(-most_w, most_w, 120)
    again, first = LevelProjection(battery, 300.0), 0
    for _ in range(12):
        end = int(rng.integers(first + 1, len(net_w) + 1))
        level_j = rng.choice([0.0, 0.5, 0.95]) * battery.capacity_j
        found_j = again.levels_j(first, level_j, net_w[first:end])
        assert found_j.tolist() == project_levels_j(battery, level_j, net_w[first:end], 300.0).tolist()
        some = rng.integers(0, len(net_w), int(rng.integers(0, 4)))
        net_w[some] = rng.uniform(-most_w, most_w, len(some))
        first = min(first + int(rng.integers(0, 10)), len(net_w) - 1)


def test_a_projection_may_start_above_soc_max_and_stays_there():
    """Only what is gained above SoC_max is lost, not what was there."""
    battery = BatterySpec(100 * KWH, soc_max_pct=80, self_discharge_per_day=0.0)
    net_w, step_s = np.array([10e3, 0.0, -9.5e3, 1e3]), np.full(4, 3600.0)
    levels_j = project_need_j(battery, 90 * KWH, net_w, step_s, np.ones(4))
    assert levels_j == pytest.approx(np.array([90, 90, 90, 80, 80.95]) * KWH)
    assert levels_j[:4] == pytest.approx(project_levels_j(battery, 90 * KWH, net_w[:3], 3600.0))
