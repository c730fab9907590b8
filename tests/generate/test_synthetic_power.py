import math

import numpy as np
import pytest

from beasy_sched.errors import ConfigError
from beasy_sched.formats.table import IRRADIANCE, POWER, WIND_SPEED
from beasy_sched.formats.weather_exports import parse_ninja
from beasy_sched.generate.power_events import (
    Window,
    clear_sky_irradiance,
    export_lines,
    pv_production,
    step_power,
    synthetic_series,
    wind_production,
)
from beasy_sched.generate.power_options import SyntheticWeather

JUNE, DECEMBER = 1718928000, 1734739200  # 2024-06-21 and 2024-12-21
TOULOUSE = SyntheticWeather()


def weather(weather=TOULOUSE, *, seed=1, start=JUNE, hours=72.0):
    return synthetic_series(weather, seed=seed, start_s=start, hours=hours)


def day(latitude, start):
    return clear_sky_irradiance(latitude, start + 300.0 * np.arange(288))


def test_the_sun_is_highest_at_noon_and_down_at_night():
    sun = day(43.6, JUNE)
    assert sun.argmax() == 144
    assert sun[0] == sun[-1] == 0
    np.testing.assert_allclose(sun[145:], sun[143:0:-1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("latitude", "start", "hours"),
    [(0, JUNE, 12.0), (43.6, JUNE, 15.3), (43.6, DECEMBER, 8.7), (80, DECEMBER, 0)],
)
def test_the_length_of_the_day(latitude, start, hours):
    assert np.count_nonzero(day(latitude, start)) / 12 == pytest.approx(hours, abs=0.35)


def test_noon_in_june_is_the_textbook_value():
    # Elevation 90 - 43.6 + 23.45 degrees; Haurwitz: 1098 sin(h) exp(-0.057 / sin(h)).
    sine = math.sin(math.radians(90 - 43.6 + 23.45))
    assert day(43.6, JUNE).max() == pytest.approx(1098 * sine * math.exp(-0.057 / sine), rel=1e-4)


def test_the_same_seed_gives_the_same_weather_and_another_does_not():
    first, again, other = weather(), weather(), weather(seed=2)
    for name in (IRRADIANCE, WIND_SPEED):
        np.testing.assert_array_equal(first.columns[name], again.columns[name])
        assert not np.array_equal(first.columns[name], other.columns[name])


def test_a_seed_gives_these_very_values():
    """Who has made a study with a seed can make it again with a later version."""
    columns = weather().columns
    assert columns[WIND_SPEED][:3].tolist() == [4.25, 4.337, 4.204]
    assert columns[IRRADIANCE][143:146].tolist() == [969.859, 969.939, 969.576]


def test_a_longer_series_starts_like_a_shorter_one():
    np.testing.assert_array_equal(weather(hours=24).columns[WIND_SPEED], weather().columns[WIND_SPEED][:288])


def test_clouds_only_take_away():
    clear = weather(SyntheticWeather(cloudiness=0)).columns[IRRADIANCE]
    some = weather().columns[IRRADIANCE]
    overcast = weather(SyntheticWeather(cloudiness=1)).columns[IRRADIANCE]
    assert np.all(overcast <= some)
    assert np.all(some <= clear)
    assert overcast.sum() == pytest.approx(0.25 * clear.sum(), rel=1e-3)


def test_the_clear_sky_of_an_interval_is_that_of_its_middle():
    """So the intervals before noon mirror those after it, and a whole hour is near the mean of its parts."""
    clear = SyntheticWeather(cloudiness=0)
    by_interval = weather(clear, hours=24).columns[IRRADIANCE]
    np.testing.assert_allclose(by_interval, by_interval[::-1], atol=2e-3)
    hourly = synthetic_series(clear, seed=1, start_s=JUNE, hours=24, interval_s=3600).columns[IRRADIANCE]
    np.testing.assert_allclose(hourly, by_interval.reshape(-1, 12).mean(axis=1), atol=15.0)


@pytest.mark.slow
def test_a_year_of_wind_has_the_distribution_and_the_memory_asked_for():
    windy = SyntheticWeather(wind_mean_m_s=6)
    speeds = np.concatenate([weather(windy, seed=s, hours=8760).columns[WIND_SPEED] for s in range(4)])
    assert speeds.mean() == pytest.approx(6, rel=0.05)
    median = 6 / math.gamma(1.5) * math.log(2) ** 0.5
    assert np.median(speeds) == pytest.approx(median, rel=0.05)
    hourly = speeds[::12]
    assert np.corrcoef(hourly[:-8], hourly[8:])[0, 1] == pytest.approx(math.exp(-1), abs=0.05)


@pytest.mark.slow
def test_a_year_of_clouds_has_the_mean_asked_for():
    for cloudiness in (0.2, 0.7):
        cloudy = weather(SyntheticWeather(cloudiness=cloudiness), hours=4 * 8760)
        clear = weather(SyntheticWeather(cloudiness=0), hours=4 * 8760)
        up = clear.columns[IRRADIANCE] > 10
        share = cloudy.columns[IRRADIANCE][up] / clear.columns[IRRADIANCE][up]
        cover = (np.maximum(1 - share, 0) / 0.75) ** (1 / 3.4)
        assert cover.mean() == pytest.approx(cloudiness, abs=0.03)


def test_an_export_reads_back_as_the_hourly_means():
    made = {
        "pv": pv_production(weather(), installed_w=10_000),
        "wind": wind_production(weather(), installed_w=7000),
    }
    for name, production in made.items():
        text = "".join(export_lines(production, latitude_deg=43.6, seed=1))
        series = parse_ninja("s.csv", text)
        assert (series.technology, series.capacity_w, series.start_s, series.notes) == (
            name,
            production.installed_w,
            JUNE,
            (),
        )
        expected = production.mean_w.reshape(-1, 12).mean(axis=1)
        np.testing.assert_allclose(series.columns[POWER], expected, atol=0.5)
        column = IRRADIANCE if name == "pv" else WIND_SPEED
        hourly = weather().columns[column].reshape(-1, 12).mean(axis=1)
        np.testing.assert_allclose(series.columns[column], hourly, atol=1.0 if name == "pv" else 1e-3)


@pytest.mark.parametrize("step_s", [60, 300, 700, 3600])
def test_the_step_does_not_change_the_energy(step_s):
    made = wind_production(weather(hours=70), installed_w=7000)  # 360 steps of 700 s
    steps = 252_000 // step_s
    power = step_power(made, Window(steps, step_s))
    assert power.sum() * step_s == pytest.approx(made.mean_w.sum() * 300, rel=1e-12)


@pytest.mark.parametrize(
    ("field", "value"),
    [("latitude_deg", 91), ("cloudiness", 1.1), ("wind_mean_m_s", 0), ("wind_shape", math.nan)],
)
def test_a_climate_that_cannot_be_is_refused(field, value):
    with pytest.raises(ConfigError, match=f"^{field}: found"):
        SyntheticWeather(**{field: value})
