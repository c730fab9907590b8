"""Wear of a battery from its trace of charge."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.energy.battery_life import (
    END_OF_LIFE,
    LMO,
    BatteryLife,
    counted_cycles,
    data_sheet_cell,
    wear_of,
)
from beasy_sched.units import SECONDS_PER_YEAR

SHEET = data_sheet_cell([(0.2, 20_000), (0.8, 4_000), (1.0, 2_500)], calendar_years=20)
ANY_CHARGE = replace(LMO, k_sigma=0.0)
"""Ages in the same way at all states of charge."""
DAY_S = 86_400.0

levels = st.integers(0, 1000).map(lambda level: level / 1000)
traces = st.lists(levels, min_size=2, max_size=30)
models = st.sampled_from([LMO, SHEET])


def hourly(charges, model=LMO, temperature_c=25.0):
    return wear_of(model, temperature_c, 3600.0 * np.arange(len(charges)), np.array(charges, dtype=float))


def cycled(times, low=0.0, high=1.0, span_s=DAY_S):
    """A battery that goes from ``low`` to ``high`` and back."""
    charges = np.array([low, *[high, low] * times])
    return np.linspace(0.0, span_s, len(charges)), charges


@pytest.mark.parametrize(
    ("series", "counts"),
    [  # ASTM E1049-85, figures 6 (rainflow) and 7 (a repeating history)
        ([-2, 1, -3, 5, -1, 3, -4, 4, -2], {3: 0.5, 4: 1.5, 6: 0.5, 8: 1.0, 9: 0.5}),
        ([5, -1, 3, -4, 4, -3, 1, -2, 5], {3: 1.0, 4: 1.0, 7: 1.0, 9: 1.0}),
        ([0, 1], {1: 0.5}),
        ([0, 1, 1], {1: 0.5}),
        ([0, 1, 0], {1: 1.0}),
        ([3, 3, 3], {}),
        ([3], {}),
    ],
)
def test_cycles_are_those_of_the_standard(series, counts):
    found = {}
    for cycle in counted_cycles(series):
        found[cycle.depth] = found.get(cycle.depth, 0) + cycle.weight
    assert found == counts


def test_ends_of_cycles_that_the_standard_names():
    """Range, mean and count of each cycle of ASTM E1049-85, figure 6."""
    found = sorted(counted_cycles([-2, 1, -3, 5, -1, 3, -4, 4, -2]))
    assert found == sorted(
        [(3, -0.5, 0.5), (4, -1, 0.5), (4, 1, 1.0), (8, 1, 0.5), (9, 0.5, 0.5), (8, 0, 0.5), (6, 1, 0.5)]
    )


def test_a_battery_at_rest_only_grows_old():
    """12.5 years: f_t is 4.14e-10/s, and 0.9425 exp(-f) is 0.8 at f = 0.1639."""
    wear = hourly([0.5] * 100)
    assert wear.cycling == wear.full_cycles == 0.0
    assert wear.calendar == pytest.approx(99 * 3600 * 4.14e-10)
    assert wear.years_to_end == pytest.approx(math.log(0.9425 / 0.8) / 4.14e-10 / SECONDS_PER_YEAR, rel=1e-6)
    assert hourly([0.5] * 100, SHEET).years_to_end == pytest.approx(20)


def test_full_cycles_of_a_published_cell():
    """1.4e5 - 1.23e5 is 17 000, and exp(-k_sigma * 0) is 1: f_d of a full cycle is 1/17 000."""
    wear = wear_of(LMO, 25.0, *cycled(100))
    assert (wear.full_cycles, wear.cycling) == (100, pytest.approx(100 / 17_000))
    half = wear_of(LMO, 25.0, *cycled(100, 0.25, 0.75))
    assert half.cycling == pytest.approx(100 / (1.4e5 * 2**0.501 - 1.23e5))
    film = 0.0575 * math.exp(-121 * wear.degradation)
    assert wear.health == pytest.approx(film + 0.9425 * math.exp(-wear.degradation))


def test_stresses_of_charge_and_temperature():
    resting = hourly([0.5, 0.5]).degradation
    assert hourly([0.9, 0.9]).degradation == pytest.approx(resting * math.exp(1.04 * 0.4))
    assert hourly([0.5, 0.5], temperature_c=35).degradation == pytest.approx(
        resting * math.exp(0.0693 * 10 * 298.15 / 308.15)
    )
    assert hourly([0.5, 0.5], SHEET, 35).degradation > 1.9 * hourly([0.5, 0.5], SHEET).degradation


@pytest.mark.parametrize(("depth", "cycles"), [(0.2, 20_000), (0.8, 4_000), (1.0, 2_500), (0.1, 40_000)])
def test_a_data_sheet_s_cycles_use_up_the_life(depth, cycles):
    wear = wear_of(SHEET, 25.0, *cycled(cycles // 100, 0.0, depth, span_s=0.0))
    assert wear.life_used == pytest.approx(0.01)
    assert SHEET.health(100 * wear.degradation) == pytest.approx(END_OF_LIFE)


def test_between_the_rows_of_a_data_sheet_the_logarithms_are_linear():
    at = SHEET.depth.per_cycle(np.array([0.2, 0.4, 0.8]))
    assert at[1] == pytest.approx(math.sqrt(at[0] * at[2]))


@pytest.mark.parametrize("model", [LMO, SHEET])
def test_the_whole_life_ends_at_80_percent(model):
    assert model.health(model.whole_life) == pytest.approx(END_OF_LIFE, abs=1e-12)
    assert model.health(0.0) == 1.0


@given(traces, st.integers(2, 7), models)
def test_wear_does_not_depend_on_the_time_step(charges, finer, model):
    coarse = hourly(charges, model)
    times_s = np.linspace(0.0, coarse.span_s, (len(charges) - 1) * finer + 1)
    fine = wear_of(model, 25.0, times_s, np.interp(times_s, 3600.0 * np.arange(len(charges)), charges))
    assert fine.degradation == pytest.approx(coarse.degradation, rel=1e-9, abs=1e-10)
    assert fine.full_cycles == pytest.approx(coarse.full_cycles, abs=1e-9)
    assert fine.health == pytest.approx(coarse.health, abs=1e-7)


@given(traces, st.floats(1.0, 3.0), st.sampled_from([ANY_CHARGE, SHEET]))
def test_deeper_cycles_never_wear_less(charges, deeper, model):
    shallow = np.array(charges) / 3.0
    less, more = hourly(shallow, model), hourly(deeper * shallow, model)
    assert more.degradation >= less.degradation - 1e-15


@given(traces, st.data(), models)
def test_one_more_cycle_never_wears_less(charges, data, model):
    """A cycle on the way from one level to the next, around their mean: the mean charge is the same."""
    at = data.draw(st.integers(1, len(charges) - 1))
    first, last = charges[at - 1], charges[at]
    inner = [0.75 * first + 0.25 * last, 0.25 * first + 0.75 * last]
    times_s = 3600.0 * np.arange(len(charges))
    more_s = np.insert(times_s, at, times_s[at - 1] + 3600.0 * np.array([0.25, 0.75]))
    less = wear_of(model, 25.0, more_s, np.insert(charges, at, inner))
    more = wear_of(model, 25.0, more_s, np.insert(charges, at, inner[::-1]))
    assert more.calendar == pytest.approx(less.calendar)
    assert more.cycling >= less.cycling - 1e-12
    if abs(first - last) > 0.01:
        assert more.cycling > less.cycling


@given(traces, models)
def test_a_new_battery_loses_health_by_degradation(charges, model):
    wear = hourly(charges, model)
    assert 0.0 < wear.health < 1.0
    assert wear.life_used > 0.0
    assert wear.years_to_end == pytest.approx(wear.span_s / wear.life_used / SECONDS_PER_YEAR)


def test_no_time_at_all_wears_nothing():
    wear = BatteryLife(LMO).wear(np.array([0.0]), np.array([0.5]))
    assert (wear.health, wear.life_used, wear.years_to_end) == (1.0, 0.0, None)


@given(
    st.sampled_from([LMO, data_sheet_cell([(0.2, 20000), (0.5, 6000), (1.0, 2500)], 15.0)]),
    st.floats(0.01, 1.0),
)
def test_beyond_the_depth_that_is_worth_it_a_kilowatt_hour_wears_more_than_the_price(model, most):
    life = BatteryLife(model, price_per_kwh=300.0)
    depth = life.depth_worth(most)
    price = 300.0 / model.whole_life

    def marginal(at: float) -> float:
        edges = np.array([at - 1e-3, at])
        return float(price * np.diff(model.depth.per_cycle(edges))[0] / 1e-3)

    if 0.0 < depth < 1.0:
        assert marginal(depth) <= most + 1e-9
        assert marginal(depth + 1e-3) > most
    assert life.depth_worth(2.0 * most) >= depth


@pytest.mark.parametrize(
    ("depth", "blast_lite", "apart"),
    [(0.02, 0.9393, 0.005), (0.3, 0.9277, 0.01), (0.6, 0.9139, 0.02), (0.9, 0.8996, 0.02)],
)
def test_a_year_of_daily_cycles_wears_as_blast_lite_has_it(depth, blast_lite, apart):
    """Health after a year of one cycle a day around 50 %, by BLAST-Lite 1.1.1 for a Nissan Leaf."""
    hours = np.arange(365 * 24 + 1)
    charges = 0.5 + depth / 2.0 * np.cos(2.0 * np.pi * hours / 24.0)
    health = wear_of(LMO, 25.0, 3600.0 * hours, charges).health
    assert health == pytest.approx(blast_lite, abs=apart)
