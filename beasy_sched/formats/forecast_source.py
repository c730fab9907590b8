"""Sources of a run's predictions of the production, as a user names them; files of forecasts.

``none``; ``perfect:EVENTS`` (the real production, for studies; ``perfect`` alone where the run's own events
are known); ``predictor:FILE`` (training data, or a TOML file with further settings); any other text is a
forecast file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.fields import require, require_not_negative, require_positive
from beasy_sched.energy.site import Site
from beasy_sched.energy.sources import with_own_w
from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.forecast.conditions import WORDS, ConditionScheme
from beasy_sched.forecast.outlook import (
    FileForecast,
    ForecastSource,
    NoForecast,
    PerfectForecast,
    SolarForecast,
)
from beasy_sched.forecast.production_history import LEVELS, IssuedQuantiles
from beasy_sched.forecast.solar import SolarHistory, SolarModel, choose_leave_out
from beasy_sched.forecast.weather import (
    ActualWeather,
    ForecastNoise,
    IssuedTable,
    IssuedWeather,
    LocalHours,
    WeatherForecast,
)
from beasy_sched.formats.power_series import read_power_series
from beasy_sched.formats.quantile_columns import check_values, is_spread, read_spread
from beasy_sched.formats.reading import in_file, parse_toml, read_text
from beasy_sched.formats.solar_history import (
    CONDITION_COLUMNS,
    number_classes,
    read_solar_history,
    word_classes,
)
from beasy_sched.formats.source_names import is_command
from beasy_sched.formats.table import Table, parse_table, read_table_text
from beasy_sched.formats.time_columns import column_times
from beasy_sched.formats.unit_table import UnitError, power_unit, unit_in_name
from beasy_sched.limits import listed
from beasy_sched.structs import as_type
from beasy_sched.units import SECONDS_PER_HOUR, kw_to_w

KINDS: Final = "none, perfect:EVENTS, predictor:FILE, or a forecast file"


class _Predictor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The file of a predictor: what it learns from, and where its weather forecast comes from."""

    training: str
    """File of hourly production of the past; its name is relative to this file's folder."""
    production: str | None = None
    conditions: str | None = None
    unit: str | None = None
    capacity_kw: float | None = None
    """Size of the site's panels, kW; None for that of the training data."""
    weather: str | None = None
    """File of issued conditions; None for the conditions of the training data, where these cover the run."""
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
            f"forecast 'perfect': uses the run's events file, but the run {found}:"
            " name the file with the production, as perfect:EVENTS"
        )
    return f"perfect:{os.fspath(events[0])}"


def is_file(text: str | None) -> bool:
    """Whether a forecast is a file of forecasts, or the output of a program."""
    return text is not None and text != "none" and text.partition(":")[0] not in ("perfect", "predictor")


def read_forecast(text: str, site: Site, windows: int = 1) -> ForecastSource:
    """Open the source that ``text`` names, for a run of ``windows``. Raises ConfigError and InputError."""
    kind, colon, path = text.partition(":")
    start = None if site.calendar is None else site.calendar.start
    if text == "none":
        return NoForecast(start)
    if kind == "perfect" and colon and path:
        announced_w = read_power_series(path, steps=site.steps * windows, step_s=site.step_s, as_run=True)
        production_w = with_own_w(site.sources, announced_w, site.step_s)
        return PerfectForecast(production_w, site.step_s, start)
    if kind == "predictor" and colon and path:
        return _predictor(path, site)
    if kind in ("perfect", "predictor"):
        raise ConfigError(f"forecast {text!r}: names no file, expected {KINDS}")
    if is_command(text):
        raise ConfigError(only_live(f"forecast {text!r}"))
    return FileForecast(read_forecast_file(text, start), start)


def only_live(source: str) -> str:
    """Return the error for a program as the source of a forecast in a run that does not follow the clock."""
    return (
        f"{source}: only 'serve' and 'slurm run' run a program for a forecast: write its output to a file,"
        " and name this file"
    )


def forecast_files(text: str) -> list[str]:
    """Return the files that a forecast named so is made from. Raises InputError."""
    kind, colon, path = text.partition(":")
    if kind != "predictor" or not colon:
        return [] if text == "none" or is_command(text) else [path if kind == "perfect" and colon else text]
    if Path(path).suffix != ".toml":
        return [path]
    given = _given(path)
    folder = Path(path).parent
    return [path, *(str(folder / name) for name in (given.training, given.weather) if name is not None)]


def _predictor(path: PathLike, site: Site) -> SolarForecast:
    if site.calendar is None:
        raise ConfigError(
            'a predictor requires [time] start in the site file, such as start = "2010-07-12T09:00:00-04:00"'
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
    """Return the content of the file: training data itself, or a TOML file."""
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


def read_forecast_file(path: PathLike, start: datetime | None = None) -> IssuedTable:
    """Read a forecast file: a CSV file with the columns ``issued``, ``valid`` and those of values.

    The values are powers (the column's name has their unit: ``W``, ``power [kW]``, ``pv_kw``), or conditions:
    ``condition`` (words), ``cloud_cover`` (share of the sky) or ``clearness`` (ratio). Powers may also be
    quantiles (columns ``p10 p50 p90``) or the members of an ensemble (``m1 m2 m3``), in W or in the unit of
    their names (``p10_kw``). Times are dates (UTC, or with an offset; ``start``, with its offset, is what
    time 0 is), or seconds since time 0 of the run. Each value holds from its valid time to the next.

    Raises InputError with line and cause: a forecast for a time before it was issued, two values for one time
    of one issue, an unknown condition, a negative power, quantiles that cross, a member without a value.
    """
    return parse_forecast(path, read_table_text(path), start)


def is_forecast_header(cells: list[str]) -> bool:
    """Whether a line is the header of a forecast file."""
    return {"issued", "valid"} <= {cell.lower() for cell in cells}


def parse_forecast(path: PathLike, text: str, start: datetime | None = None) -> IssuedTable:
    """Read the text of a forecast file as `read_forecast_file` does; ``path`` names it in errors."""
    table = parse_table(path, text, is_forecast_header)
    names = [name for name in table.names if name.lower() not in ("issued", "valid")]
    if not table.rows:
        raise InputError(path, "has no row of data")
    issued_s, valid_s = _times(table, start)
    levels = by_level = members_w = scheme = None
    if names and is_spread(names[0]):
        quantiles, members_w = read_spread(
            table,
            names,
            lambda name: table.numbers(name) * _unit_w(table, name, unit_in_name(name) or "W"),
            lambda name, power_w: _check_rows(table, name, issued_s, valid_s, power_w),
        )
        levels, by_level, values = quantiles.levels, quantiles.power_w, quantiles.at(0.5)
    elif len(names) == 1:
        values, scheme = _values(table, names[0])
        _check_rows(table, names[0], issued_s, valid_s, values)
    else:
        expected = "issued, valid and one of values, quantiles (p10 p50 p90) or members (m1 m2 m3)"
        raise InputError(path, f"columns are {listed(table.names)}: expected {expected}")
    interval_s = _interval_s(table, valid_s)
    return IssuedTable(issued_s, valid_s, values, interval_s, scheme, levels, by_level, members_w)


def forecast_lines(issued: IssuedQuantiles, time_0_h: int) -> Iterator[str]:
    """Lines of a forecast file for a run whose time 0 is hour ``time_0_h`` of the past, each with its end."""
    yield f"issued,valid,{','.join(f'p{100.0 * level:g}' for level in LEVELS)}\n"
    seconds = (3600 * (hours - time_0_h) for hours in (issued.issued_h, issued.valid_h))
    for at_s, for_s, power_w in zip(*(times.tolist() for times in seconds), issued.power_w.T, strict=True):
        yield f"{at_s},{for_s},{','.join(f'{value:.1f}' for value in power_w.tolist())}\n"


def _times(table: Table, start: datetime | None) -> tuple[FloatArray, FloatArray]:
    """Issued and valid times, seconds since time 0."""
    columns = []
    for wanted in ("issued", "valid"):
        name = next(name for name in table.names if name.lower() == wanted)
        times = column_times(table, name)
        columns.append((times.seconds.astype(np.float64), times.dated))
    (issued_s, dated), (valid_s, also_dated) = columns
    if dated != also_dated:
        raise InputError(table.path, "has dates in one of issued and valid, seconds in the other")
    if not dated:
        return issued_s, valid_s
    if start is None or start.utcoffset() is None:
        raise InputError(table.path, "has dates, but the site has no [time] start with a UTC offset")
    return issued_s - start.timestamp(), valid_s - start.timestamp()


def _values(table: Table, name: str) -> tuple[FloatArray, ConditionScheme | None]:
    """Classes and their scheme, or W and None."""
    scheme = CONDITION_COLUMNS.get(name.lower())
    if scheme is WORDS:
        return word_classes(table, name), scheme
    if scheme is not None:
        return number_classes(table, name, table.numbers(name), scheme), scheme
    stated = unit_in_name(name)
    if stated is None:
        columns = ", ".join(CONDITION_COLUMNS)
        expected = f"a power with its unit (W, kW, MW), or one of {columns}"
        raise InputError(table.path, f"column {name!r} is unknown, expected {expected}")
    return table.numbers(name) * _unit_w(table, name, stated), None


def _unit_w(table: Table, name: str, unit: str) -> float:
    """W in one unit of a column of powers; refuses energies and shares, which no forecast file has."""
    try:
        of_column = power_unit(unit)
    except UnitError as error:
        raise InputError(table.path, f"column {name!r}: {error}") from None
    if not of_column.is_power:
        raise InputError(table.path, f"column {name!r} is in {unit}: expected powers in W, kW or MW")
    return of_column.worth


def _check_rows(
    table: Table, name: str, issued_s: FloatArray, valid_s: FloatArray, values: FloatArray
) -> None:
    """Refuse the first row that cannot be meant, by line."""
    check_values(table, name, values)
    early = valid_s < issued_s
    if early.any():
        raise table.error(int(np.argmax(early)), "is valid before it was issued: are the columns swapped?")
    order = np.lexsort((valid_s, issued_s))
    same = (np.diff(issued_s[order]) == 0) & (np.diff(valid_s[order]) == 0)
    same &= np.diff(values[order]) != 0
    if same.any():
        at = int(np.argmax(same))
        line = table.lines[order[at]]
        raise table.error(int(order[at + 1]), f"repeats the times of line {line} with a different value")


def _interval_s(table: Table, valid_s: FloatArray) -> float:
    """The most frequent distance of valid times; refuses a time off that grid."""
    times = np.unique(valid_s)
    if len(times) < 2:
        return SECONDS_PER_HOUR
    gaps, counts = np.unique(np.diff(times), return_counts=True)
    interval_s = float(gaps[np.argmax(counts)])
    off = np.abs((valid_s - times[0]) / interval_s - np.round((valid_s - times[0]) / interval_s)) > 1e-9
    if off.any():
        message = f"is not valid at a whole number of {interval_s:g} s from the first valid time"
        raise table.error(int(np.argmax(off)), message)
    return interval_s
