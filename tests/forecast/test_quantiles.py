"""Quantiles of a forecast: their levels, their bounds, what sources know of them."""

from __future__ import annotations

import itertools
from datetime import datetime, timezone

import numpy as np
import pytest
from forecast.sunny_days import DAY_ONE, SUN, day_of, history
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.outlook import FileForecast, PerfectForecast, SolarForecast
from beasy_sched.forecast.production_history import FIRST_ISSUE_H, LEVELS, issue_quantiles
from beasy_sched.forecast.quantiles import PowerBand, Quantiles
from beasy_sched.forecast.solar import SolarModel
from beasy_sched.forecast.weather import ActualWeather, IssuedTable

HOUR = 3600.0


def test_levels_between_below_and_above_the_known_ones() -> None:
    quantiles = Quantiles(np.array([0.1, 0.5]), np.array([[10.0, 0.0], [50.0, 8.0]]))
    assert quantiles.at(0.1).tolist() == [10.0, 0.0]
    assert quantiles.at(0.3).tolist() == pytest.approx([30.0, 4.0])
    assert quantiles.at(0.05).tolist() == [5.0, 0.0]
    assert quantiles.at(0.9).tolist() == [50.0, 8.0]
    assert quantiles.at(0.0).tolist() == quantiles.at(-1.0).tolist() == [0.0, 0.0]


def test_bounds_are_quantiles() -> None:
    quantiles = Quantiles.of_bounds(PowerBand(np.array([8.0]), np.array([10.0]), np.array([13.0])))
    assert [quantiles.at(level).item() for level in (1e-12, 0.25, 0.5, 0.75, 1.0)] == pytest.approx(
        [8.0, 9.0, 10.0, 11.5, 13.0]
    )
    assert [value.item() for value in quantiles.bounds(0.25)] == [9.0, 10.0, 11.5]
    assert [value.item() for value in quantiles.bounds(0.8)] == [10.0, 10.0, 10.0]


@given(
    st.lists(st.floats(0.01, 0.99), min_size=1, max_size=5, unique=True),
    st.lists(st.floats(0.0, 1e6), min_size=1, max_size=4),
    st.lists(st.floats(-0.5, 1.5), min_size=2, max_size=6),
)
def test_a_higher_level_never_has_less_power(
    levels: list[float], gains: list[float], asked: list[float]
) -> None:
    power_w = np.cumsum(np.resize(gains, (len(levels), 3)), axis=0)
    quantiles = Quantiles(np.array(sorted(levels)), power_w)
    found = [quantiles.at(level) for level in sorted(asked)]
    assert all(np.all(low <= high + 1e-6) for low, high in itertools.pairwise(found))
    assert all(np.all((power >= 0.0) & (power <= power_w[-1] + 1e-6)) for power in found)


@pytest.mark.parametrize(
    ("levels", "power_w", "said"),
    [
        ([0.5, 0.1], [[1.0], [2.0]], "increasing shares"),
        ([0.1, 1.5], [[1.0], [2.0]], "increasing shares"),
        ([0.1, 0.5], [[2.0], [1.0]], "quantiles cross"),
        ([0.1], [[1.0], [2.0]], "one row of powers for each level"),
    ],
)
def test_what_quantiles_cannot_be(levels: list[float], power_w: list[list[float]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Quantiles(np.array(levels), np.array(power_w))


def table(levels: FloatArray | None, by_level: FloatArray | None, median_w: FloatArray) -> IssuedTable:
    hours = HOUR * np.arange(len(median_w))
    return IssuedTable(np.zeros(len(hours)), hours, median_w, HOUR, None, levels, by_level)


def test_a_file_without_quantiles_has_a_band() -> None:
    source = FileForecast(table(None, None, np.full(80, 1000.0)))
    bounds = source.outlook.quantiles(0.0, HOUR, 80).bounds(0.0)
    quantiles = source.outlook.quantiles(0.0, HOUR, 80)
    assert quantiles.at(1.0)[[0, 72, 79]].tolist() == pytest.approx([1050.0, 1300.0, 1300.0])
    assert quantiles.at(1e-12)[[0, 72]].tolist() == pytest.approx([950.0, 700.0])
    assert bounds.low_w.tolist() == [0.0] * 80


def test_a_file_with_quantiles_has_these_in_slots_and_the_announced_power_at_once() -> None:
    by_level = np.array([[100.0, 0.0], [300.0, 200.0], [700.0, 600.0]])
    source = FileForecast(table(np.array([0.1, 0.5, 0.9]), by_level, by_level[1]))
    found = source.outlook.quantiles(0.0, HOUR / 2, 5)
    assert found.at(0.9).tolist() == [700.0, 700.0, 600.0, 600.0, 0.0]
    source.announce(0.0, 450.0)
    found = source.outlook.quantiles(0.0, HOUR / 2, 4)
    assert found.power_w[:, 0].tolist() == [450.0] * 3
    assert found.power_w[:, 1].tolist() == [100.0, 300.0, 700.0]


def test_what_is_known_in_advance_has_no_band() -> None:
    source = PerfectForecast(np.array([100.0, 200.0]), HOUR)
    assert np.ptp(source.outlook.quantiles(0.0, HOUR, 2).power_w, axis=0).tolist() == [0.0, 0.0]


@pytest.mark.slow
def test_the_predictor_has_the_errors_of_its_training_data() -> None:
    shadow = day_of(100.0)
    shadow[8:14] = 40.0  # hours under a cloud that nobody told of
    days = [(SUN, shadow if day % 2 == 0 else 100.0) for day in range(60)]
    start = datetime.fromtimestamp((DAY_ONE + 60) * 86400 + 6 * 3600, timezone.utc)
    found = []
    for data in (history(days), history([(SUN, 100.0)] * 60)):
        source = SolarForecast(SolarModel(data, leave_out=1), ActualWeather(data), start)
        quantiles = source.outlook.quantiles(0.0, HOUR, 24)
        ideal_w = source.outlook.clear_sky_w(0.0, HOUR, 24)
        assert np.all(quantiles.power_w <= ideal_w + 1e-9)
        found.append(float(np.ptp(quantiles.power_w, axis=0).max()))
    assert found[0] > 1.0
    assert found[1] == pytest.approx(0.0, abs=1e-9)


# --- from the past of a site ---------------------------------------------------------------------------


def weather(days: int, seed: int) -> FloatArray:
    """Sun under clouds that come and go within days, and wind that lasts, W."""
    rng = np.random.default_rng(seed)
    hours = np.arange(24 * days)
    sun = np.maximum(np.sin((hours % 24 - 6) / 12 * np.pi), 0.0)
    clouds = np.repeat(rng.uniform(0.2, 1.0, days), 24)
    wind = np.zeros(24 * days)
    for hour in hours[1:]:
        wind[hour] = 0.95 * wind[hour - 1] + rng.normal(0.0, 0.3)
    power_w: FloatArray = 1000.0 * (sun * clouds + np.maximum(wind + 4.0, 0.0))
    return power_w


@pytest.mark.slow
def test_the_share_of_powers_below_a_quantile_is_its_level() -> None:
    hourly_w = weather(300, 4)
    issued = issue_quantiles(hourly_w, FIRST_ISSUE_H)
    real_w = hourly_w[issued.valid_h]
    shares = [np.mean(real_w <= power_w) for power_w in issued.power_w]
    assert shares == pytest.approx(LEVELS, abs=0.05)
    ahead = issued.valid_h - issued.issued_h
    assert (ahead.min(), ahead.max()) == (0, 95)
    width_w = issued.power_w[-2] - issued.power_w[1]
    assert width_w[ahead < 3].mean() < 0.7 * width_w[ahead > 24].mean()


def test_an_issue_knows_nothing_of_what_comes() -> None:
    hourly_w = weather(110, 5)
    first = issue_quantiles(hourly_w, FIRST_ISSUE_H)
    at = FIRST_ISSUE_H + 24
    changed = hourly_w.copy()
    changed[at:] = 0.0
    second = issue_quantiles(changed, FIRST_ISSUE_H)
    known = first.issued_h <= at
    assert np.array_equal(first.power_w[:, known], second.power_w[:, known])
    assert not np.array_equal(first.power_w, second.power_w)


def test_the_past_is_long_enough() -> None:
    with pytest.raises(ConfigError, match="requires 98 days of production before its start: found 40"):
        issue_quantiles(weather(60, 1), 40 * 24)


def test_changed_and_cut() -> None:
    quantiles = Quantiles(np.array([0.1, 0.9]), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert quantiles.during(slice(1, None)).power_w.tolist() == [[2.0, 3.0], [5.0, 6.0]]
    limited = quantiles.mapped(lambda power_w: np.minimum(power_w, 2.5))
    assert limited.levels is quantiles.levels
    assert limited.power_w.tolist() == [[1.0, 2.0, 2.5], [2.5, 2.5, 2.5]]


def test_a_change_that_loses_digits_does_not_cross_quantiles() -> None:
    quantiles = Quantiles(np.array([0.1, 0.9]), np.array([[1.0, 3.0], [1.0, 3.0]]))
    lost = iter([0.0, 1e-16])
    assert np.all(np.diff(quantiles.mapped(lambda power_w: power_w * (1 - next(lost))).power_w, axis=0) >= 0)
