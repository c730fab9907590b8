"""Where predictions come from, as users name it: every kind, and what is wrong with it."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from beasy_sched.energy.site import Site
from beasy_sched.errors import BeasyError, ConfigError, InputError
from beasy_sched.forecast.outlook import FileForecast, NoForecast, PerfectForecast, SolarForecast
from beasy_sched.formats.forecast_source import read_forecast, with_own_events
from beasy_sched.formats.site_file import parse_site

HOUR = 3600.0
START = datetime(2019, 6, 29, 12, tzinfo=timezone.utc)
TIME = '[time]\nstep_s = 3600\nwindow_h = 24\nstart = "2019-06-29T12:00:00+00:00"\n'


def site(text: str = TIME) -> Site:
    return parse_site(text)


def clear_w(hour: int) -> float:
    return max(math.sin(math.pi * (hour % 24 - 6) / 12), 0.0) * 1000.0


def training(folder: Path, days: int = 40, name: str = "past.csv") -> Path:
    """Every second day is cloudy, and gives half as much; the last day is 30 June or thereabouts."""
    first = datetime(2019, 6, 1, tzinfo=timezone.utc)
    lines = ["time,production_w,cloud_cover"]
    for hour in range(24 * days):
        cloudy = hour // 24 % 2 == 1
        moment = (first + timedelta(hours=hour)).strftime("%Y-%m-%d %H:%M")
        lines.append(f"{moment},{clear_w(hour) * (0.5 if cloudy else 1.0):.3f},{0.9 if cloudy else 0.0}")
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def events(folder: Path, *powers: float) -> Path:
    path = folder / "power.txt"
    lines = (
        json.dumps({"type": "power", "timestamp": HOUR * at, "power_available": power})
        for at, power in enumerate(powers)
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def test_none_expects_nothing() -> None:
    source = read_forecast("none", site())
    assert isinstance(source, NoForecast)
    assert source.renewable_w(0.0, HOUR, 4).tolist() == [0.0] * 4


def test_perfect_is_what_comes(tmp_path: Path) -> None:
    powers = [100.0 * n for n in range(24)]
    source = read_forecast(f"perfect:{events(tmp_path, *powers)}", site())
    assert isinstance(source, PerfectForecast)
    assert source.renewable_w(0.0, HOUR, 24).tolist() == powers
    assert source.notes == ("the production was known in advance: for studies only",)
    twice = read_forecast(f"perfect:{events(tmp_path, *powers, *powers)}", site(), windows=2)
    assert twice.renewable_w(24 * HOUR, HOUR, 24).tolist() == powers


def test_perfect_is_as_short_or_late_as_the_run(tmp_path: Path) -> None:
    path = events(tmp_path, 100.0, 200.0)
    assert (
        read_forecast(f"perfect:{path}", site()).renewable_w(0.0, HOUR, 4).tolist() == [100.0] + [200.0] * 3
    )


def test_perfect_alone_is_the_runs_own_events() -> None:
    assert with_own_events("perfect", ["power.txt"]) == "perfect:power.txt"
    assert with_own_events("perfect:other.txt", ["power.txt"]) == "perfect:other.txt"
    assert with_own_events(None, []) is None
    with pytest.raises(ConfigError, match="but the run has none: name the file with the production"):
        with_own_events("perfect", [])
    with pytest.raises(ConfigError, match="but the run has 2 of them"):
        with_own_events("perfect", ["a", "b"])


def test_a_file_of_powers(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("issued,valid,W\n0,0,10\n0,3600,20\n3600,3600,30\n")
    source = read_forecast(str(tmp_path / "f.csv"), site("[time]\n"))
    assert isinstance(source, FileForecast)
    assert source.renewable_w(0.0, HOUR, 3).tolist() == [10.0, 20.0, 0.0]
    assert source.hour_by_hour_w(3).tolist() == [10.0, 30.0, 0.0]


def test_a_predictor_of_training_data(tmp_path: Path) -> None:
    source = read_forecast(f"predictor:{training(tmp_path)}", site())
    assert isinstance(source, SolarForecast)
    predicted = source.renewable_w(0.0, HOUR, 36)
    sunny = [clear_w(12 + hour) for hour in range(12)]
    assert predicted[:12] == pytest.approx(sunny, abs=0.01)  # 29 June is sunny, and known to be
    assert predicted[12:] == pytest.approx([clear_w(hour) / 2 for hour in range(24)], abs=0.01)


def test_a_predictor_of_a_toml_file(tmp_path: Path) -> None:
    training(tmp_path)
    (tmp_path / "weather.csv").write_text(
        "issued,valid,cloud_cover\n"
        + "".join(f"0,{hour * 3600},{0.9 if hour < 12 else 0.0}\n" for hour in range(36))
    )
    plain = 'training = "past.csv"\nproduction = "production_w"\nconditions = "cloud_cover"\n'
    given = {"p": "", "scaled": "capacity_kw = 2\n", "told": 'weather = "weather.csv"\n'}
    found = {}
    for name, more in given.items():
        (tmp_path / f"{name}.toml").write_text(plain + more)
        found[name] = read_forecast(f"predictor:{tmp_path / name}.toml", site()).renewable_w(0.0, HOUR, 12)
    assert found["scaled"] == pytest.approx(2.0 * found["p"], rel=1e-3)
    assert found["told"] == pytest.approx(0.5 * found["p"], abs=0.01)  # cloudy, says the file
    assert found["p"].max() > 900.0


def test_noise_is_drawn_by_its_seed(tmp_path: Path) -> None:
    training(tmp_path)

    def predicted(seed: int) -> list[float]:
        text = f'training = "past.csv"\nnoise = 0.6\nnoise_seed = {seed}\n'
        (tmp_path / "p.toml").write_text(text)
        return read_forecast(f"predictor:{tmp_path / 'p.toml'}", site()).renewable_w(0.0, HOUR, 36).tolist()

    assert predicted(1) == predicted(1)
    assert len({tuple(predicted(seed)) for seed in range(4)}) > 1


def refused(text: str, given: Site | None = None) -> str:
    with pytest.raises(BeasyError) as told:
        read_forecast(text, site() if given is None else given)
    assert told.value.exit_code == 2
    return str(told.value)


@pytest.mark.parametrize("text", ["perfect", "perfect:", "predictor", "predictor:"])
def test_a_kind_without_its_file(text: str) -> None:
    told = refused(text)
    assert told == f"forecast {text!r}: names no file, expected none, perfect:EVENTS, predictor:FILE, or " + (
        "a forecast file"
    )


@pytest.mark.parametrize("text", ["perfect:{}", "predictor:{}", "predictor:{}.toml", "{}"])
def test_a_file_that_is_missing(tmp_path: Path, text: str) -> None:
    told = refused(text.format(tmp_path / "gone"))
    assert str(tmp_path / "gone") in told
    assert "cannot be read: No such file" in told


def test_a_predictor_needs_the_moment_of_time_0(tmp_path: Path) -> None:
    told = refused(f"predictor:{training(tmp_path)}", site("[time]\n"))
    assert "requires [time] start in the site file" in told


def test_training_data_of_under_a_month(tmp_path: Path) -> None:
    path = training(tmp_path, days=20)
    told = refused(f"predictor:{path}")
    assert told.startswith(str(path))
    assert "found 20 days of production, expected at least a month" in told


def test_a_forecast_that_is_valid_before_it_was_issued(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("issued,valid,W\n0,0,10\n7200,3600,20\n")
    told = refused(str(path))
    assert told.startswith(f"{path}:3: ")
    assert "is valid before it was issued" in told


def test_dates_without_the_moment_of_time_0(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("issued,valid,W\n2019-06-29 12:00,2019-06-29 13:00,10\n")
    told = refused(str(path), site("[time]\n"))
    assert str(path) in told
    assert "has no [time] start with a UTC offset" in told


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('trainign = "past.csv"', "trainign: no such field, expected one of training"),
        ("noise = 'much'", "noise: found 'much', expected a number"),
        ("noise = 1.5", "noise: found 1.5, expected a chance from 0 to 1"),
        ("capacity_kw = 0", "capacity_kw: found 0"),
        ("noise_seed = -1", "noise_seed: found -1"),
        ('weather = "power.csv"', "found power, expected conditions"),
    ],
)
def test_a_predictors_file_that_is_wrong(tmp_path: Path, line: str, expected: str) -> None:
    training(tmp_path)
    (tmp_path / "power.csv").write_text("issued,valid,W\n0,0,10\n0,3600,20\n")
    path = tmp_path / "p.toml"
    path.write_text(f'training = "past.csv"\n{line}\n')
    told = refused(f"predictor:{path}")
    assert told.startswith(str(path))
    assert expected in told


def test_a_predictors_file_without_training(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("sticky = true\n")
    assert refused(f"predictor:{path}") == f"{path}: training: is missing"


def test_conditions_of_two_kinds(tmp_path: Path) -> None:
    training(tmp_path)
    (tmp_path / "weather.csv").write_text("issued,valid,condition\n0,0,Sunny\n0,3600,Sunny\n")
    path = tmp_path / "p.toml"
    path.write_text('training = "past.csv"\nweather = "weather.csv"\n')
    assert "they must be the same" in refused(f"predictor:{path}")


def test_errors_are_of_one_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_forecast(str(tmp_path), site())  # a folder
    assert np.all(read_forecast("none", site()).clear_sky_w(0.0, HOUR, 24) == 0.0)
