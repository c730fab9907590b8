import math

import pytest

from beasy_sched.energy.devices.hydrogen import (
    HydrogenSpec,
    electrolyzer_power,
    fuel_cell_power,
    level_after_step,
)
from beasy_sched.energy.fields import FieldError

SPEC = HydrogenSpec(
    tank_kg=10,
    level_start_kg=5,
    level_target_kg=5,
    electrolyzer_min_w=500,
    electrolyzer_max_w=5000,
    fuel_cell_max_w=3000,
    electrolyzer_efficiency=0.6,
    fuel_cell_efficiency=0.5,
)


def test_a_kilogram_costs_the_higher_and_gives_the_lower_heating_value():
    assert level_after_step(SPEC, 5, 39_400 / 0.6, 0, 3600) == pytest.approx(6)
    assert level_after_step(SPEC, 5, 0, 33_300 * 0.5, 3600) == pytest.approx(4)


@pytest.mark.parametrize(
    ("level_kg", "wanted_w", "power_w"),
    [(5, 2000, 2000), (5, 9000, 5000), (5, 499, 0), (5, 500, 500), (5, 0, 0), (10, 2000, 0)],
)
def test_the_electrolyzer_is_off_or_within_its_limits(level_kg, wanted_w, power_w):
    assert electrolyzer_power(SPEC, level_kg, wanted_w, 3600) == power_w


def test_the_electrolyzer_fills_the_tank_and_no_more():
    power = electrolyzer_power(SPEC, 9.97, 5000, 3600)
    assert 500 < power < 5000
    assert level_after_step(SPEC, 9.97, power, 0, 3600) == pytest.approx(10)
    assert electrolyzer_power(SPEC, 9.999, 5000, 3600) == 0  # the room asks for less than its minimum


@pytest.mark.parametrize(
    ("level_kg", "wanted_w", "power_w"), [(5, 1000, 1000), (5, 9000, 3000), (0, 1000, 0), (0.01, 1000, 166.5)]
)
def test_the_fuel_cell_stops_at_its_limit_or_at_an_empty_tank(level_kg, wanted_w, power_w):
    assert fuel_cell_power(SPEC, level_kg, wanted_w, 3600) == pytest.approx(power_w)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tank_kg", 0),
        ("tank_kg", math.nan),
        ("level_start_kg", 11),
        ("level_target_kg", -1),
        ("electrolyzer_min_w", 6000),
        ("electrolyzer_max_w", math.inf),
        ("fuel_cell_max_w", -1),
        ("electrolyzer_efficiency", 1.2),
        ("fuel_cell_efficiency", 0),
    ],
)
def test_hydrogen_that_cannot_be_is_refused(field, value):
    values = {
        "tank_kg": 10,
        "level_start_kg": 5,
        "level_target_kg": 5,
        "electrolyzer_max_w": 5,
        "fuel_cell_max_w": 5,
    }
    with pytest.raises(FieldError, match=f"^{field}: found"):
        HydrogenSpec(**{**values, field: value})
