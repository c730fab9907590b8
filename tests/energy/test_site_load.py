"""Cooling and services: the power of a site beside its servers, and what is known of it ahead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.energy.balance import settle_step, step_headroom_j
from beasy_sched.energy.cooling import Cooling
from beasy_sched.energy.devices.battery import NO_BATTERY, BatterySpec
from beasy_sched.energy.grid import Grid, Signal
from beasy_sched.energy.services import Line
from beasy_sched.energy.site import Site
from beasy_sched.energy.site_load import Course, LoadAhead, LoadKnown, StepLoad
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.errors import ConfigError

HOUR_S, DAY_S, KWH = 3600.0, 86_400.0, 3.6e6
TABLE = ((-10.0, 1.06), (15.0, 1.10), (25.0, 1.25), (40.0, 1.50))


def hourly(values: list[float], start_s: float = 0.0) -> Signal:
    return Signal(start_s + HOUR_S * np.arange(len(values) + 1), np.array(values))


def site(**load: object) -> Site:
    return Site(Storage(NO_BATTERY), HOUR_S, DAY_S, **load)  # type: ignore[arg-type]


def test_two_servers_that_draw_200_w_for_an_hour_take_a_quarter_of_a_kwh() -> None:
    storage = Storage(BatterySpec(10 * KWH, soc_start_pct=50.0, charge_limit_w=1e4, discharge_limit_w=1e4))
    record, _ = settle_step(
        storage, storage.start(), dt_s=HOUR_S, consumed_j=200.0 * HOUR_S, renew_w=250.0, pue=1.25
    )
    assert (record.demand_w + record.cooling_w) * HOUR_S / KWH == 0.25
    assert record.cooling_w * HOUR_S / KWH == 0.05
    assert (record.charge_w, record.discharge_w, record.unserved_w, record.residual_j) == (0, 0, 0, 0)


def test_the_battery_delivers_what_cooling_takes() -> None:
    battery = BatterySpec(
        10 * KWH, soc_start_pct=50.0, charge_limit_w=1e4, discharge_limit_w=1e4, discharge_efficiency=1.0
    )
    record, after = settle_step(
        Storage(battery), StorageState(6 * KWH, 0.0), dt_s=HOUR_S, consumed_j=2 * KWH, renew_w=0.0,
        base_w=100.0, pue=1.5,
    )  # fmt: skip
    assert record.discharge_w == pytest.approx(3100.0)
    assert after.battery_j == pytest.approx(2.9 * KWH)


def test_the_headroom_is_what_servers_may_draw() -> None:
    storage, state = Storage(NO_BATTERY), StorageState(0.0, 0.0)
    asked = {"dt_s": 100.0, "renew_w": 600.0, "base_w": 100.0}
    assert step_headroom_j(storage, state, **asked) == 50_000.0
    assert step_headroom_j(storage, state, **asked, pue=1.25) == 40_000.0
    grid = Grid(import_limit_w=500.0)
    assert step_headroom_j(storage, state, **asked, pue=1.25, grid=grid) == 80_000.0


@pytest.mark.parametrize(
    ("temp_c", "pue"), [(-40.0, 1.06), (-10.0, 1.06), (2.5, 1.08), (20.0, 1.175), (25.0, 1.25), (60.0, 1.5)]
)
def test_the_pue_is_on_the_lines_between_the_rows(temp_c: float, pue: float) -> None:
    cooling = Cooling(TABLE, Course(hourly([temp_c] * 3)))
    assert cooling.during(0.0, HOUR_S, HOUR_S) == pytest.approx(pue)
    assert cooling.expected(0.0, HOUR_S, HOUR_S * np.arange(3.0)) == pytest.approx([pue, pue])


def test_the_pue_of_a_step_is_that_at_its_mean_temperature() -> None:
    cooling = Cooling(TABLE, Course(hourly([15.0, 25.0, 25.0])))
    assert cooling.during(0.0, 2 * HOUR_S, HOUR_S) == pytest.approx(1.175)


def test_the_pue_of_a_step_follows_a_temperature_that_is_limited() -> None:
    temperature = Course(hourly([15.0, 25.0] * 24))
    cooling = Cooling(TABLE, temperature)
    hours_s = [(HOUR_S * hour, HOUR_S * (hour + 1), HOUR_S) for hour in range(3)]
    assert [cooling.during(*hour_s) for hour_s in hours_s] == [1.10, 1.25, 1.10]
    temperature.limit_to(0.0, DAY_S, HOUR_S)
    assert [cooling.during(*hour_s) for hour_s in hours_s] == [1.10, 1.10, 1.10]


@pytest.mark.parametrize(
    ("pue", "named"),
    [
        (0.9, "pue: found 0.9"),
        (float("nan"), "pue: found nan"),
        (12.0, "pue: found 12"),
        ((), r"pue: found \[\]"),
        (((15.0, 1.1), (15.0, 1.2)), r"pue\[1\]: found 15.0, expected above 15"),
        (((15.0, 1.1), (25.0, 0.5)), r"pue\[1\]: found 0.5, expected a PUE from 1"),
        (((1500.0, 1.1),), r"pue\[0\]: found 1500"),
    ],
)
def test_a_pue_that_no_site_has(pue: object, named: str) -> None:
    temperature = Course(hourly([0.0])) if isinstance(pue, tuple) else None
    with pytest.raises(ConfigError, match=named):
        Cooling(pue, temperature)  # type: ignore[arg-type]


def test_a_table_needs_temperatures() -> None:
    with pytest.raises(ConfigError, match="temperature"):
        Cooling(TABLE)


# --- what is known ahead ---


def test_unknown_hours_are_as_a_day_before() -> None:
    course = Course(hourly([float(hour) for hour in range(72)]))
    expected = course.expected(30 * HOUR_S, HOUR_S, HOUR_S * np.arange(30.0, 60.0))
    assert expected.tolist() == [30.0, *range(7, 31), *range(7, 11)]


def test_the_coming_day_or_everything_may_be_known() -> None:
    rate, edges_s = hourly([float(hour) for hour in range(96)]), HOUR_S * np.arange(30.0, 61.0)
    day = Course(rate, LoadKnown.DAY).expected(30 * HOUR_S, HOUR_S, edges_s)
    assert day.tolist() == [*range(30, 54), *range(30, 36)]
    assert Course(rate, LoadKnown.ALL).expected(30 * HOUR_S, HOUR_S, edges_s).tolist() == [*range(30, 60)]


def test_on_the_first_day_the_present_value_is_expected() -> None:
    course = Course(hourly([float(hour) for hour in range(48)]))
    assert course.expected(5 * HOUR_S, HOUR_S, HOUR_S * np.arange(5.0, 9.0)).tolist() == [5.0, 5.0, 5.0]
    longer = Course(hourly([float(hour) for hour in range(-24, 48)], -DAY_S))
    assert longer.expected(5 * HOUR_S, HOUR_S, HOUR_S * np.arange(5.0, 9.0)).tolist() == [5.0, -18.0, -17.0]


@given(
    st.lists(st.floats(0, 1e4), min_size=50, max_size=60),
    st.integers(0, 40),
    st.sampled_from([LoadKnown.YESTERDAY, LoadKnown.DAY]),
)
def test_nothing_later_than_what_is_known_matters(values: list[float], now: int, known: LoadKnown) -> None:
    """Other values after what is known change nothing that is expected."""
    known_hours = 1 if known is LoadKnown.YESTERDAY else 24
    other = [*values[: now + known_hours], *(value + 17.0 for value in values[now + known_hours :])]
    edges_s = HOUR_S * np.arange(float(now), 60.0)
    seen, told = (
        Course(hourly(each), known).expected(now * HOUR_S, HOUR_S, edges_s) for each in (values, other)
    )
    assert seen.tolist() == told.tolist()


@given(
    st.integers(0, 60), st.integers(1, 70), st.sampled_from([*LoadKnown]), st.sampled_from([0, -30]),
    st.sampled_from([HOUR_S, 2 * HOUR_S]),
)  # fmt: skip
def test_steps_of_the_table_are_those_of_any_edges(
    now: int, steps: int, known: LoadKnown, first: int, step_s: float
) -> None:
    """What is looked up by step equals what is computed from edges that are not those of steps."""
    course = Course(hourly([float(7 * hour % 31) for hour in range(130)], first * HOUR_S), known)
    now_s = step_s * (now // 2)
    edges_s = now_s + step_s * np.arange(steps + 1.0)
    with_one_more = np.append(edges_s, edges_s[-1] + 1.0)
    found = course.expected(now_s, step_s, edges_s)
    assert found == pytest.approx(course.expected(now_s, step_s, with_one_more)[:-1])
    assert course.during(now_s, now_s + step_s, step_s) == pytest.approx(course.mean(now_s, now_s + step_s))


# --- conversions ---


@given(st.floats(0, 1e5), st.floats(1.0, 5.0), st.floats(0, 1e5))
def test_a_site_and_its_servers_are_converted_both_ways(servers_w: float, pue: float, base_w: float) -> None:
    load = StepLoad(base_w, pue)
    assert load.for_servers_w(load.site_w(servers_w)) == pytest.approx(servers_w, abs=1e-6)
    ahead = LoadAhead(base_w, np.zeros(2), np.full(2, pue))
    powers_w = np.full(2, servers_w)
    assert ahead.for_servers_w(ahead.cooled(powers_w) + ahead.always_w) == pytest.approx(powers_w, abs=1e-6)


def test_a_site_adds_its_services_to_the_base_load() -> None:
    services = Course(hourly([10.0, 20.0, 30.0]))
    here = site(base_w=5.0, services=services, cooling=Cooling(1.5))
    assert here.load_during(HOUR_S, 2 * HOUR_S) == StepLoad(25.0, 1.5, 20.0)
    ahead = here.load_ahead(HOUR_S, HOUR_S * np.arange(1.0, 4.0))
    assert np.asarray(ahead.always_w).tolist() == [25.0, 25.0]  # the second hour is not known
    assert np.asarray(ahead.pue).tolist() == [1.5, 1.5]
    assert site(base_w=5.0).load_ahead(0.0, HOUR_S * np.arange(3.0)) == LoadAhead(5.0)


# --- lines ---


def test_a_line_between_values() -> None:
    line = Line(HOUR_S * np.arange(3.0), np.array([0.0, 100.0, 300.0]))
    assert line.means(HOUR_S * np.array([0.0, 1.0, 2.0, 3.0])).tolist() == [50.0, 200.0, 300.0]
    assert line.means(HOUR_S * np.array([0.5, 1.5]))[0] == pytest.approx(0.5 * 75 + 0.5 * 150)
    assert line.span_s == (0.0, 3 * HOUR_S)


@given(st.lists(st.floats(0, 1e3), min_size=2, max_size=9), st.data())
def test_the_means_of_parts_of_a_line_add_up(values: list[float], data: st.DataObject) -> None:
    line = Line(HOUR_S * np.arange(float(len(values))), np.array(values))
    ends = st.floats(0.0, HOUR_S * len(values))
    edges = sorted({0.0, HOUR_S * len(values), *data.draw(st.lists(ends, max_size=6))})
    edges_s = np.array([edge for at, edge in enumerate(edges) if not at or edge - edges[at - 1] > 1e-3])
    total = float(line.means(edges_s) @ np.diff(edges_s))
    whole = float(line.means(edges_s[[0, -1]])[0] * (edges_s[-1] - edges_s[0]))
    assert total == pytest.approx(whole, rel=1e-9, abs=1e-6)
