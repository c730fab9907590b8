import numpy as np
import pytest

from beasy_sched.cli.generate_power import figures
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.table import FLAGGED, IRRADIANCE, POWER, WIND_SPEED, TimeSeries
from beasy_sched.generate.power_events import (
    Window,
    flagged_intervals,
    pv_production,
    shared_start,
    step_power,
    wind_production,
)
from beasy_sched.generate.power_options import Gaps, Route
from beasy_sched.model.choices import Interpolation

DAY = 86_400
START = 1559347200  # 2019-06-01


def series(columns, *, start=START, capacity=None, technology=None, interval=3600):
    columns = {name: np.asarray(values, dtype=float) for name, values in columns.items()}
    length = len(next(iter(columns.values())))
    return TimeSeries("f.csv", interval, columns, np.arange(2, 2 + length), start, capacity, technology)


SUN = np.maximum(0, np.sin((np.arange(72) % 24 - 6) / 12 * np.pi)) * 800


def test_electricity_is_scaled_from_the_stated_to_the_installed_capacity():
    made = pv_production(series({POWER: [100, 200]}, capacity=1000), installed_w=10_000)
    np.testing.assert_allclose(made.mean_w, [1000, 2000])
    assert (made.installed_w, made.ceiling_w) == (10_000, 10_000)


def test_without_an_installed_capacity_the_stated_one_stays():
    made = wind_production(series({POWER: [100, 200]}, capacity=1000))
    np.testing.assert_allclose(made.mean_w, [100, 200])
    assert made.installed_w == 1000


def test_weather_goes_through_the_papers_equations():
    made = pv_production(series({IRRADIANCE: [0, 500]}), installed_w=2000, efficiency=0.8)
    np.testing.assert_allclose(made.mean_w, [0, 800])
    made = wind_production(series({WIND_SPEED: [3, 8, 26]}), installed_w=1000, rated_m_s=13)
    np.testing.assert_allclose(made.mean_w, [0, 500, 0])


@pytest.mark.parametrize(
    ("route", "expected"), [(Route.AUTO, 100), (Route.ELECTRICITY, 100), (Route.WEATHER, 450)]
)
def test_a_raw_export_has_both_routes(route, expected):
    raw = series({POWER: [100, 100], IRRADIANCE: [500, 500]}, capacity=1000)
    assert pv_production(raw, installed_w=1000, route=route).mean_w[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: pv_production(series({POWER: [5, 9]})),
            InputError,
            "its peak is 0.009 kW): give --pv-capacity-kw",
        ),
        (
            lambda: pv_production(series({POWER: [1, 1]}, capacity=1.0)),
            InputError,
            "is per unit of capacity: give",
        ),
        (lambda: pv_production(series({IRRADIANCE: [5, 9]})), ConfigError, "give --pv-kw"),
        (lambda: wind_production(series({WIND_SPEED: [5, 9]})), ConfigError, "give --wind-kw"),
        (
            lambda: wind_production(series({IRRADIANCE: [5, 9]})),
            InputError,
            "neither electricity nor wind speed",
        ),
        (
            lambda: pv_production(series({POWER: [1, 1]}, technology="wind")),
            InputError,
            "is a wind export: give it with --wind, not --pv",
        ),
        (
            lambda: pv_production(series({IRRADIANCE: [1, 1]}), route=Route.ELECTRICITY),
            InputError,
            "has no electricity: use --route weather",
        ),
        (
            lambda: wind_production(series({POWER: [1, 1]}), route=Route.WEATHER),
            InputError,
            "has no wind speed: use --route electricity",
        ),
        (
            lambda: pv_production(series({POWER: [1, 2500]}), installed_w=10.0, stated_w=1000.0),
            InputError,
            "electricity reaches 2.5 kW, and --pv-capacity-kw is 1: is the column in another unit (--unit)",
        ),
    ],
)
def test_what_is_missing_is_told(make, error, message):
    with pytest.raises(error) as raised:
        make()
    assert message in str(raised.value)


@pytest.mark.parametrize("method", Interpolation)
@pytest.mark.parametrize("day", [0, 1, 2])
def test_a_window_keeps_the_energy_of_its_hours(method, day):
    made = pv_production(series({IRRADIANCE: SUN}), installed_w=10_000)
    power = step_power(made, Window(288, 300, START + day * DAY), method=method)
    hourly = power.reshape(24, 12).mean(axis=1)
    np.testing.assert_allclose(hourly, made.mean_w[24 * day : 24 * (day + 1)], rtol=1e-9)


def test_a_window_is_a_piece_of_the_whole():
    made = pv_production(series({IRRADIANCE: SUN}), installed_w=10_000)
    whole = step_power(made, Window(864))
    part = step_power(made, Window(30, 300, START + 30_900))
    np.testing.assert_allclose(part, whole[103:133], rtol=1e-12)


def test_electricity_never_exceeds_the_plant():
    blow = np.tile([0, 1000, 1000, 300, 1000], 20)
    made = wind_production(series({POWER: blow}, capacity=1000))
    assert step_power(made, Window(1200)).max() <= 1000 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("start", "steps", "message"),
    [
        (
            START - 300,
            10,
            "covers 2019-06-01 00:00 to 2019-06-04 00:00, but the window is 2019-05-31 23:55 to",
        ),
        (START + 2 * DAY, 289, "but the window is 2019-06-03 00:00 to 2019-06-04 00:05 (UTC)"),
        (None, 865, "but the window is 2019-06-01 00:00 to 2019-06-04 00:05 (UTC)"),
    ],
)
def test_a_window_outside_the_file_is_refused(start, steps, message):
    made = pv_production(series({IRRADIANCE: SUN}), installed_w=1)
    with pytest.raises(InputError) as error:
        step_power(made, Window(steps, 300, start))
    assert message in str(error.value)


def test_files_without_dates_have_windows_from_their_start_only():
    made = pv_production(series({IRRADIANCE: SUN}, start=None), installed_w=1)
    assert len(step_power(made, Window(12))) == 12
    with pytest.raises(InputError, match="has no timestamps: omit --start"):
        step_power(made, Window(12, 300, START))


def gappy(hours_missing):
    values = np.arange(24.0) * 10
    values[10 : 10 + hours_missing] = np.nan
    return wind_production(series({POWER: values}, capacity=1000))


def test_gaps_matter_inside_the_window_only():
    with pytest.raises(InputError, match=r"f.csv:12: has no value for 2019-06-01 10:00 \(UTC\), 2 in a row"):
        step_power(gappy(2), Window(288))
    assert len(step_power(gappy(2), Window(120))) == 120
    assert len(step_power(gappy(2), Window(144, 300, START + DAY // 2))) == 144


@pytest.mark.parametrize("hours", [1, 2, 6])
def test_short_gaps_may_be_bridged(hours):
    power = step_power(gappy(hours), Window(288), gaps=Gaps.INTERPOLATE)
    np.testing.assert_allclose(power.reshape(24, 12).mean(axis=1), np.arange(24) * 10, rtol=1e-9)


def test_long_gaps_may_not():
    with pytest.raises(InputError, match=r"7 in a row: use another window$"):
        step_power(gappy(7), Window(288), gaps=Gaps.INTERPOLATE)


def test_hours_that_the_provider_filled_are_counted():
    flags = np.zeros(24)
    flags[[3, 4, 20]] = 1
    marked = series({POWER: np.ones(24), FLAGGED: flags})
    assert flagged_intervals(marked, Window(288)) == 3
    assert flagged_intervals(marked, Window(60)) == 2
    assert flagged_intervals(marked, Window(12, 300, START + 4 * 3600)) == 1


def test_the_shared_start_is_the_first_moment_of_all():
    early, late = (pv_production(series({IRRADIANCE: SUN}, start=s), installed_w=1) for s in (0, 3600))
    undated = pv_production(series({IRRADIANCE: SUN}, start=None), installed_w=1)
    assert shared_start([early, late, undated]) == 3600
    assert shared_start([undated]) is None
    far = pv_production(series({IRRADIANCE: SUN}), installed_w=1)
    with pytest.raises(InputError, match=r"ends at 1970-01-04 00:00, before f.csv begins: use --pv-start"):
        shared_start([early, far])


def test_the_summary():
    summary = figures(np.array([0.0, 1000, 2000, 1000]), 900, 4000)
    assert summary == "    1.000 kWh, peak 2.000 kW, mean 1.000 kW, capacity factor 25.0 %"
