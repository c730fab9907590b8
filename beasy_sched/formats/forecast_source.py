"""Where a run's predictions of the production come from, as a user names it.

``none``; ``perfect:EVENTS`` (the real production, for studies; ``perfect`` alone where the run's own events
are known); ``predictor:FILE`` (training data, or a TOML file that tells more); any other text is a forecast
file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import require, require_not_negative, require_positive
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.forecast.outlook import (
    FileForecast,
    ForecastSource,
    NoForecast,
    PerfectForecast,
    SolarForecast,
)
from beasy_sched.forecast.solar import SolarHistory, SolarModel, choose_leave_out
from beasy_sched.forecast.weather import (
    ActualWeather,
    ForecastNoise,
    IssuedWeather,
    LocalHours,
    WeatherForecast,
)
from beasy_sched.formats.forecast_file import read_forecast_file
from beasy_sched.formats.power_series import read_power_series
from beasy_sched.formats.reading import as_type, in_file, parse_toml, read_text
from beasy_sched.formats.solar_history import read_solar_history
from beasy_sched.units import kw_to_w

KINDS: Final = "none, perfect:EVENTS, predictor:FILE, or a forecast file"


class _Predictor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The file of a predictor: what it learns from, and what it is told of the weather."""

    training: str
    """File of hourly production of the past; its name is relative to this file's folder."""
    production: str | None = None
    conditions: str | None = None
    unit: str | None = None
    capacity_kw: float | None = None
    """Size of the site's panels; None: that of the training data."""
    weather: str | None = None
    """File of issued conditions; None: those of the training data themselves, where it covers the run."""
    noise: float = 0.0
    """Chance that a class forecast a day ahead is wrong, for weather from the training data."""
    noise_seed: int = 0
    sticky: bool = False


def with_own_events(text: str | None, events: Sequence[PathLike]) -> str | None:
    """Put the run's own events file behind ``perfect`` alone. Raises ConfigError unless there is one."""
    if text != "perfect":
        return text
    if len(events) != 1:
        found = f"has {len(events)} of them" if events else "has none"
        raise ConfigError(
            f"forecast 'perfect': stands for the run's events file, but the run {found}:"
            " name the file with the production, as perfect:EVENTS"
        )
    return f"perfect:{os.fspath(events[0])}"


def read_forecast(text: str, site: Site, windows: int = 1) -> ForecastSource:
    """Open the source that ``text`` names, for a run of ``windows``. Raises ConfigError and InputError."""
    kind, colon, path = text.partition(":")
    start = None if site.calendar is None else site.calendar.start
    if text == "none":
        return NoForecast(start)
    if kind == "perfect" and colon and path:
        production_w = read_power_series(path, steps=site.steps * windows, step_s=site.step_s, as_run=True)
        return PerfectForecast(production_w, site.step_s, start)
    if kind == "predictor" and colon and path:
        return _predictor(path, site)
    if kind in ("perfect", "predictor"):
        raise ConfigError(f"forecast {text!r}: names no file, expected {KINDS}")
    return FileForecast(read_forecast_file(text, start), start)


def forecast_files(text: str) -> list[str]:
    """Return the files that a forecast named so is made from. Raises InputError."""
    kind, colon, path = text.partition(":")
    if kind != "predictor" or not colon:
        return [] if text == "none" else [path if kind == "perfect" and colon else text]
    if Path(path).suffix != ".toml":
        return [path]
    given = _given(path)
    folder = Path(path).parent
    return [path, *(str(folder / name) for name in (given.training, given.weather) if name is not None)]


def _predictor(path: PathLike, site: Site) -> SolarForecast:
    if site.calendar is None:
        raise ConfigError(
            "a predictor requires the moment of time 0: add [time] start to the site file, such as"
            ' start = "2010-07-12T09:00:00-04:00"'
        )
    start, folder = site.calendar.start, Path(path).parent
    given = _given(path)
    history = read_solar_history(
        folder / given.training, column=given.production, conditions=given.conditions, unit=given.unit
    )
    if given.capacity_kw is not None:
        history = history.scaled_to(kw_to_w(given.capacity_kw))
    with in_file(path):
        model = SolarModel(history, choose_leave_out(history, start), given.sticky)
        return SolarForecast(model, _weather(given, folder, history, start), start)


def _given(path: PathLike) -> _Predictor:
    """What the file says: training data itself, or a TOML file."""
    if Path(path).suffix != ".toml":
        return _Predictor(training=Path(path).name)
    values = parse_toml(read_text(path), path)
    with in_file(path):
        given = as_type(values, _Predictor)
        require(0 <= given.noise <= 1, "noise", given.noise, "a chance from 0 to 1")
        require_not_negative("noise_seed", given.noise_seed)
        if given.capacity_kw is not None:
            require_positive("capacity_kw", given.capacity_kw)
    return given


def _weather(given: _Predictor, folder: Path, history: SolarHistory, start: datetime) -> WeatherForecast:
    if given.weather is not None:
        table = read_forecast_file(folder / given.weather, start)
        return IssuedWeather(table, LocalHours(start, history.utc_offset_h))
    if not given.noise:
        return ActualWeather(history)
    return ActualWeather(
        history,
        ForecastNoise(chance_at_once=given.noise / 3.0, chance_at_horizon=given.noise, seed=given.noise_seed),
    )
