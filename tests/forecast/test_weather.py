"""Forecasts of conditions: issued ones, real ones, and real ones with noise."""

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from forecast.sunny_days import CLOUD, DAY_ONE, SCHEME, STORM, SUN, history
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import ConfigError
from beasy_sched.forecast.conditions import UNKNOWN
from beasy_sched.forecast.weather import (
    ActualWeather,
    ForecastNoise,
    IssuedTable,
    IssuedWeather,
    LocalHours,
)

HOUR = 3600.0
START = datetime.fromtimestamp(DAY_ONE * 86400, timezone.utc)


def table(rows, interval_s=HOUR, scheme=None):
    issued, valid, values = np.array(rows, float).T
    return IssuedTable(issued, valid, values, interval_s, scheme)


# --- hours ----------------------------------------------------------------------------------------------


def test_hours_are_those_of_standard_time_whatever_the_offset_of_the_start():
    start = datetime(2010, 7, 12, 9, tzinfo=timezone(timedelta(hours=-4)))  # summer time
    hours = LocalHours(start, -5)
    assert hours.whole_hour(0.0) % 24 == 8
    assert hours.whole_hour(3599.9) % 24 == 8
    assert hours.whole_hour(3600.0 - 1e-6) % 24 == 9  # the next one, but for rounding
    assert hours.time_s(hours.whole_hour(5400.0)) == pytest.approx(3600.0)
    half = LocalHours(start + timedelta(minutes=30), -5)
    assert half.time_s(half.whole_hour(0.0)) == pytest.approx(-1800.0)


def test_a_start_needs_its_offset():
    with pytest.raises(ConfigError, match=r"start: found 2010-07-12T09:00:00, expected .*UTC offset"):
        LocalHours(datetime(2010, 7, 12, 9))


# --- issued ---------------------------------------------------------------------------------------------


def test_the_latest_issue_counts_and_none_before_it_was_issued():
    issued = table([(0, 3600, 10), (0, 7200, 20), (1800, 7200, 30), (7200, 7200, 40)])
    times = np.array([0.0, 3600.0, 7199.0, 7200.0, 10800.0])
    for now, expected in [
        (-1.0, [np.nan] * 5),
        (0.0, [np.nan, 10, 10, 20, np.nan]),
        (1799.0, [np.nan, 10, 10, 20, np.nan]),
        (1800.0, [np.nan, 10, 10, 30, np.nan]),
        (7200.0, [np.nan, 10, 10, 40, np.nan]),
    ]:
        np.testing.assert_equal(issued.latest(now, times), expected)
    assert [issued.issues_by(now) for now in (-1.0, 0.0, 1800.0, 9e9)] == [0, 1, 2, 3]


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 8), st.integers(0, 9)),
        min_size=1,
        max_size=40,
        unique_by=lambda row: row[:2],
    ),
    st.integers(-1, 10),
)
def test_issued_forecasts_are_found_as_by_a_loop(rows, now):
    kept = [(issued, valid, value) for issued, valid, value in rows if valid >= issued]
    if not kept:
        return
    found = table([(i * HOUR, v * HOUR, w) for i, v, w in kept]).latest(now * HOUR, np.arange(-2, 12) * HOUR)
    for at, time in enumerate(range(-2, 12)):
        known = [(issued, value) for issued, valid, value in kept if valid == time and issued <= now]
        np.testing.assert_equal(found[at], max(known)[1] if known else np.nan)


def test_issued_conditions_by_hour():
    hours = LocalHours(START, 0)
    first = DAY_ONE * 24
    weather = IssuedWeather(
        table([(0, 0, CLOUD), (0, 10800, STORM), (5400, 10800, SUN)], 3 * HOUR, SCHEME), hours
    )
    assert weather.classes(first, first - 1, 8).tolist() == [UNKNOWN, 1, 1, 1, 2, 2, 2, UNKNOWN]
    assert weather.classes(first + 1.5, first, 6).tolist() == [1, 1, 1, 0, 0, 0]
    assert (weather.issues_by(first + 1.0), weather.issues_by(first + 1.5)) == (1, 2)


def test_a_table_of_power_is_no_weather():
    with pytest.raises(ConfigError, match="expected conditions"):
        IssuedWeather(table([(0, 0, 1)]), LocalHours(START))


# --- real conditions, and noise -------------------------------------------------------------------------


def test_real_conditions_are_those_of_the_history():
    weather = ActualWeather(history([(day % 3, 100.0) for day in range(30)]))
    first = DAY_ONE * 24
    assert weather.scheme is SCHEME
    assert weather.classes(first, first - 2, 28).tolist() == [UNKNOWN] * 2 + [SUN] * 24 + [CLOUD] * 2
    assert weather.classes(first, first + 30 * 24 - 1, 3).tolist() == [STORM, UNKNOWN, UNKNOWN]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1.5, 100))
def test_the_chance_of_an_exchange_grows(one, other, horizon):
    least, most = sorted((one, other))
    chance = ForecastNoise(least, most, horizon).chance(np.arange(1.0, 200.0))
    assert np.all(np.diff(chance) >= 0)
    assert chance[0] == least
    assert chance[-1] == pytest.approx(most)


def noisy(seed=0, **more):
    days = [(day % 2, 100.0) for day in range(200)]
    return ActualWeather(history(days), ForecastNoise(seed=seed, **more))


def test_noise_exchanges_as_many_classes_as_it_says():
    weather = noisy(chance_at_once=0.1, chance_at_horizon=0.5, horizon_h=25.0)
    real = ActualWeather(weather.history)
    first, hours = (DAY_ONE + 20) * 24, 24
    wrong = np.zeros(48)
    for day in range(150):
        now = first + 24 * day
        wrong += weather.classes(now, now, 2 * hours) != real.classes(now, now, 2 * hours)
    share = wrong / 150
    # About half of the days of the season have another class.
    assert share[0] < 0.15
    assert share[24:].mean() == pytest.approx(0.25, abs=0.04)
    assert share[:12].mean() < share[12:24].mean() < share[24:].mean()


def test_noise_is_the_same_for_the_same_seed_in_any_order():
    first = (DAY_ONE + 50) * 24
    one, other = noisy(), noisy()
    late, early = one.classes(first, first + 24, 48), one.classes(first, first, 48)
    assert other.classes(first, first, 48).tolist() == early.tolist()
    assert other.classes(first, first + 24, 48).tolist() == late.tolist()
    assert noisy(seed=1).classes(first, first, 48).tolist() != early.tolist()


def test_a_wrong_forecast_was_wrong_before():
    weather = noisy(chance_at_once=0.05, chance_at_horizon=0.6)
    real = ActualWeather(weather.history)
    hour = (DAY_ONE + 60) * 24 + 12
    for shift in range(100):
        wrong = [
            weather.classes(hour + shift - x, hour + shift, 1) != real.classes(0, hour + shift, 1)
            for x in range(48)
        ]
        assert wrong == sorted(wrong)


def test_noise_of_chance_zero_changes_nothing():
    weather = noisy(chance_at_once=0.0, chance_at_horizon=0.0)
    first = DAY_ONE * 24
    real = ActualWeather(weather.history)
    assert weather.classes(first, first, 500).tolist() == real.classes(first, first, 500).tolist()
