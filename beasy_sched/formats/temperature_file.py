"""Outside temperatures from the files of weather that `generate power` reads, and from plain tables.

In an export, only the column of temperatures is needed: ``T2M`` of NASA POWER, ``temperature`` of
Renewables.ninja, ``temperature_2m`` of Open-Meteo, ``T2m`` of PVGIS.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.nested_tables import json_object
from beasy_sched.formats.open_meteo import (
    is_open_meteo,
    is_open_meteo_header,
    open_meteo_series,
    parse_open_meteo,
)
from beasy_sched.formats.power_series import is_export, parse_weather
from beasy_sched.formats.table import TEMPERATURE, TimeSeries, on_grid, read_table_text
from beasy_sched.formats.time_columns import RowTimes, find_header, plain_table, time_column, value_columns
from beasy_sched.formats.unit_table import UnitError, temperature_c
from beasy_sched.formats.weather_columns import is_temperature, weather_series
from beasy_sched.formats.weather_exports import (
    is_nasa,
    is_nasa_header,
    is_ninja_header,
    nasa_power_series,
    parse_nasa_power,
)
from beasy_sched.limits import listed

_ONLY: Final = frozenset({TEMPERATURE})


def read_temperatures(
    path: PathLike, *, column: str | None = None, unit: str | None = None, zone: tzinfo | None = None
) -> TimeSeries:
    """Read a file's temperatures, degrees Celsius. Raises InputError with line or column and cause.

    ``column`` names the column of a plain table, where its name is not a usual one, and ``unit`` its unit
    (C without one); ``zone`` is that of times that state none (UTC without one).
    """
    text = read_table_text(path)
    series = _of_export(path, text) if column is None else None
    if series is None:
        series = _of_table(path, text, column, unit, zone)
    if TEMPERATURE not in series.columns:
        raise _no_temperatures(path, "")
    return series


def _of_export(path: PathLike, text: str) -> TimeSeries | None:
    """Return the temperatures of a service's export; None for other tables."""
    if text.lstrip()[:1] == "{":
        contents = json_object(path, text)
        if is_nasa(contents):
            return nasa_power_series(path, contents, needed=_ONLY)
        if is_open_meteo(contents):
            return open_meteo_series(path, contents, needed=_ONLY)
        return parse_weather(path, text)
    if find_header(text, is_nasa_header):
        return parse_nasa_power(path, text, needed=_ONLY)
    if find_header(text, is_open_meteo_header):
        return parse_open_meteo(path, text, needed=_ONLY)
    is_ninja = "temperature" in find_header(text, is_ninja_header)
    return parse_weather(path, text) if is_ninja or is_export(text) else None


def _of_table(
    path: PathLike, text: str, column: str | None, unit: str | None, zone: tzinfo | None
) -> TimeSeries:
    table = plain_table(path, text)
    if time_column(table) is None:
        raise InputError(path, "has no column of times, such as time: cooling.temperature needs one")
    names = value_columns(table)
    chosen = next((name for name in names if is_temperature(name)), None) if column is None else column
    if chosen not in names:
        raise _no_temperatures(path, f": its columns are {listed(names)}")
    table, times = RowTimes(zone=zone).of(table, [chosen])
    if column is None:
        return weather_series(table, times.seconds, [chosen], dated=times.dated, needed=_ONLY)
    try:
        factor, offset = temperature_c(unit or "C")
    except UnitError as error:
        raise InputError(path, f"cooling.temperature.unit: {error}") from None
    values = {TEMPERATURE: table.numbers(column) * factor + offset}
    return on_grid(table, times.seconds, values, dated=times.dated)


def _no_temperatures(path: PathLike, found: str) -> InputError:
    return InputError(
        path,
        f"has no column of outside temperatures{found}; add one (T2M, temperature), or name it, with"
        ' cooling.temperature = { file = "...", column = "..." }',
    )
