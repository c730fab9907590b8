"""Files of power or weather that a user may bring: their formats, and the power of each step.

Plain CSV files have a column of values, and a column of times or none. The unit comes from the column's
name (``Solar [MW]``, ``power (W)``, ``energy_kwh``) or from the user; the energy of a row is divided by the
time between rows. Times are dates (in UTC, or in the zone that they, their column's name or the user state),
seconds since 1970, or seconds from the start; an interval's value is its mean from its time on, or up to it
where the column is called ``period_end`` or the like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.energy.production_sources import resample
from beasy_sched.errors import InputError, PathLike
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.formats.batsim_events import ExternalEvent, read_external_events
from beasy_sched.formats.entsoe import is_entsoe_header, parse_entsoe
from beasy_sched.formats.german_market import (
    energy_charts_series,
    is_energy_charts,
    is_smard_header,
    parse_smard,
)
from beasy_sched.formats.nested_tables import json_object
from beasy_sched.formats.nsrdb import is_nsrdb_header, parse_nsrdb
from beasy_sched.formats.open_meteo import (
    is_open_meteo,
    is_open_meteo_header,
    open_meteo_series,
    parse_open_meteo,
)
from beasy_sched.formats.pvgis import (
    is_pvgis,
    is_pvgis_header,
    is_typical_year_header,
    parse_pvgis,
    parse_typical_year,
    pvgis_series,
)
from beasy_sched.formats.quantile_columns import check_values, is_spread, read_quantiles
from beasy_sched.formats.reading import read_text
from beasy_sched.formats.solcast import is_solcast, is_solcast_header, parse_solcast, solcast_series
from beasy_sched.formats.table import POWER, Table, TimeSeries, equal_row_s, on_grid, read_table_text
from beasy_sched.formats.time_columns import (
    ColumnTimes,
    RowTimes,
    choose_column,
    find_header,
    is_csv_header,
    is_end,
    plain_table,
    time_column,
    value_columns,
)
from beasy_sched.formats.unit_table import EXPECTED_POWER, PowerUnit, UnitError, power_unit, unit_in_name
from beasy_sched.formats.weather_columns import is_weather, weather_series
from beasy_sched.formats.weather_exports import (
    is_nasa,
    is_nasa_header,
    is_ninja_header,
    nasa_power_series,
    parse_nasa_power,
    parse_ninja,
)
from beasy_sched.limits import listed, shortened
from beasy_sched.model.choices import DateOrder, Interpolation
from beasy_sched.protocol.notices import POWER_FIELD, is_power
from beasy_sched.units import SECONDS_PER_DAY, counted

_RESTART_SHARE = 0.1
"""Largest share of its last reading from which a counter of the day's energy restarts."""
_COUNTER_FROM_S = SECONDS_PER_DAY
"""Time over which no energy of rows rises all along."""


class NoUnit(InputError):
    """A column without a unit, where the user has not given one."""


def parse_power_csv(
    path: PathLike,
    text: str,
    *,
    column: str | None = None,
    unit: str | None = None,
    interval_s: int | None = None,
    date_order: DateOrder | None = None,
    clip_negative: bool | None = None,
    zone: tzinfo | None = None,
) -> TimeSeries:
    """Read one column of power. Raises InputError with line or column and cause.

    ``unit`` (W, kW, MW, GW; Wh, kWh, MWh for the energy of each row; per-unit or %) is needed where the
    column's name has none; ``interval_s`` where the file has no times. ``zone`` is that of times that state
    none; None means UTC. A column of shares is the power of a capacity of 1 W. ``clip_negative`` is as for
    `on_grid`.
    """
    table = plain_table(path, text)
    return _one_column(table, column, unit, RowTimes(interval_s, date_order, zone), clip_negative)


def _one_column(
    table: Table, column: str | None, unit: str | None, rows: RowTimes, clip_negative: bool | None = None
) -> TimeSeries:
    path = table.path
    name = choose_column(path, value_columns(table), column)
    of_column = _unit(path, name, unit)
    table, times = rows.of(table, [name])
    values = _watts(table, name, of_column, times.seconds)
    series = _series(table, {POWER: values}, times, clip_negative)
    if of_column.per_unit and np.nanmax(values, initial=0.0) > 2.0:
        raise InputError(path, f"{name} reaches {np.nanmax(values):g} per unit of capacity: wrong unit?")
    return replace(series, capacity_w=1.0) if of_column.per_unit else series


def _watts(table: Table, name: str, unit: PowerUnit, times_s: IntArray) -> FloatArray:
    """A column as powers, W; of the energy of each row, by the time between rows."""
    values = table.numbers(name)
    if not unit.of_rows:
        return values * unit.worth
    _check_no_counter(table, name, values, times_s)
    return values * unit.watts(equal_row_s(table, times_s))


def _check_no_counter(table: Table, name: str, values: FloatArray, times_s: IntArray) -> None:
    """Raise InputError for readings of a meter: over a day or more, they fall at most daily, to 0."""
    readings = values[np.argsort(times_s, kind="stable")]
    readings = readings[~np.isnan(readings)]
    lasts_s = float(np.ptp(times_s)) if len(times_s) else 0.0
    if len(readings) < 3 or lasts_s < _COUNTER_FROM_S:
        return
    falls = np.flatnonzero(np.diff(readings) < 0)
    rises = int(np.count_nonzero(np.diff(readings) > 0))
    restarts = bool(np.all(readings[falls + 1] <= _RESTART_SHARE * readings[falls]))
    if len(falls) and restarts and len(falls) <= lasts_s / SECONDS_PER_DAY + 1 and rises >= 4 * len(falls):
        raise InputError(
            table.path,
            f"{name} rises and restarts near 0 {counted(len(falls), 'time')}: is it the energy of the day so"
            " far? expected the energy of each row, which is the difference of two readings",
        )
    if rises and not len(falls):
        raise InputError(
            table.path,
            f"{name} never falls, from {readings[0]:g} to {readings[-1]:g}: is it a meter's counter? expected"
            " the energy of each row, which is the difference of two readings",
        )


def _series(
    table: Table, columns: Mapping[str, FloatArray], times: ColumnTimes, clip_negative: bool | None = None
) -> TimeSeries:
    """The columns on a grid of the rows' times."""
    series = on_grid(
        table, times.seconds, columns, dated=times.dated, notes=times.notes, clip_negative=clip_negative
    )
    return _from_ends(table, replace(series, clock=times.clock))


def _from_ends(table: Table, series: TimeSeries) -> TimeSeries:
    """The series, moved where its times are the ends of its intervals."""
    time_name = time_column(table)
    if time_name is not None and is_end(time_name) and series.start_s is not None:
        series = replace(series, start_s=series.start_s - series.interval_s)
    return series


def _unit(path: PathLike, name: str, unit: str | None) -> PowerUnit:
    """The unit of a column, from its name or the user; refuses two that differ."""
    stated = unit_in_name(name)
    if stated is None and unit is None:
        raise NoUnit(path, f"column {name!r} does not state its unit: give --unit ({EXPECTED_POWER})")
    given = None if unit is None else _parsed(path, "--unit", unit)
    own = given if stated is None else _parsed(path, f"column {name!r}", stated)
    assert own is not None
    if given is not None and given != own:
        raise InputError(path, f"column {name!r} is in {stated}, but --unit is {unit}")
    return own


def _parsed(path: PathLike, where: str, unit: str) -> PowerUnit:
    try:
        return power_unit(unit)
    except UnitError as error:
        raise InputError(path, f"{where}: {error}") from None


def read_power_series(
    path: PathLike,
    *,
    steps: int | None,
    step_s: float,
    unit: str | None = None,
    as_run: bool = False,
) -> FloatArray:
    """Mean power (W) of each step from the file's beginning; None for ``steps``: as many as it covers.

    An events file (one JSON object per line, with ``power_available`` in W) holds each power until the
    next event; a CSV file has a column of powers, means over intervals of equal length. ``as_run`` takes
    events as a run does: 0 W before the first one, and the last one's power to the end. Raises InputError
    for a file that cannot be read, or that does not cover all steps.
    """
    text = read_text(path)
    if text.lstrip()[:1] == "{":
        return _from_events(path, steps, step_s, as_run)
    series = parse_power_csv(path, text, unit=unit, interval_s=round(step_s))
    return _in_steps(series, series.columns[POWER], steps, step_s)


def read_demand(
    path: PathLike, *, steps: int, step_s: float, unit: str | None = None
) -> tuple[FloatArray, Quantiles | None]:
    """Mean demand (W) of each step as `read_power_series` reads it, and its quantiles, if the file has them.

    In the place of its column of powers, a CSV file may have quantiles (columns ``p10 p50 p90``) or the
    members of an ensemble (``m1 m2 m3``), in the unit of their names, in ``unit``, or else in W: the demand
    is the median then. Raises InputError, also for quantiles that cross, or all on one side of the median.
    """
    text = read_text(path)
    if text.lstrip()[:1] == "{":
        return _from_events(path, steps, step_s, as_run=False), None
    table, rows = plain_table(path, text), RowTimes(round(step_s))
    names = value_columns(table)
    if len(names) < 2 or not any(map(is_spread, names)):
        series = _one_column(table, None, unit, rows)
        return _in_steps(series, series.columns[POWER], steps, step_s), None
    table, times = rows.of(table, names)

    def powers_w(name: str) -> FloatArray:
        of_column = _unit(path, name, unit or (None if unit_in_name(name) else "W"))
        if of_column.per_unit:
            raise InputError(path, f"column {name!r}: expected a demand in W, kW or MW, or in Wh, kWh or MWh")
        return _watts(table, name, of_column, times.seconds)

    of_columns = read_quantiles(table, names, powers_w, partial(check_values, table))
    if not of_columns.levels[0] <= 0.5 <= of_columns.levels[-1]:
        expected = "expected the median (p50), or quantiles on both sides of it"
        raise InputError(path, f"columns are {listed(table.names)}: {expected}")
    series = _series(table, {str(row): power_w for row, power_w in enumerate(of_columns.power_w)}, times)
    by_row = Quantiles(of_columns.levels, np.stack([*series.columns.values()]))
    quantiles = by_row.mapped(lambda power_w: _in_steps(series, power_w, steps, step_s))
    return quantiles.at(0.5), quantiles


def _in_steps(series: TimeSeries, values: FloatArray, steps: int | None, step_s: float) -> FloatArray:
    """The mean of each step of one column of a series. Raises InputError where it does not cover them."""
    path = series.path
    for missing in np.flatnonzero(np.isnan(values)).tolist():
        raise InputError(path, f"has no power for {series.time_text(missing)}")
    steps = _covered_steps(path, len(values) * series.interval_s, steps, step_s)
    if series.interval_s == step_s:
        return values[:steps].copy()
    method = Interpolation.SMOOTH if series.interval_s > step_s else Interpolation.CONSTANT
    return resample(values, interval_s=series.interval_s, step_s=step_s, steps=steps, method=method)


def _from_events(path: PathLike, steps: int | None, step_s: float, as_run: bool) -> FloatArray:
    return powers_of_events(path, read_external_events(path, forward_unknown=True), steps, step_s, as_run)


def powers_of_events(
    path: PathLike, of_file: Iterable[ExternalEvent], steps: int | None, step_s: float, as_run: bool
) -> FloatArray:
    """Return the powers of events as `read_power_series` does; ``path`` names them in errors."""
    events = [event for event in of_file if POWER_FIELD in event.data]
    if not events:
        raise InputError(path, f"has no event with the field {POWER_FIELD!r}: is it a file of powers?")
    for event in events:
        value = event.data[POWER_FIELD]
        if not is_power(value):
            found = f"{POWER_FIELD} is {shortened(repr(value), 40)}"
            raise InputError(None, f"{event.where}: {found}, expected a power in W, 0 or more")
    times = np.array([event.timestamp for event in events])
    powers = np.array([float(event.data[POWER_FIELD]) for event in events])
    if as_run and steps is not None:
        times, powers = np.insert(times, 0, 0.0), np.insert(powers, 0, 0.0)
    elif times[0] > 0.0:
        raise InputError(path, f"the first power is for {times[0]:g} s: expected one for time 0")
    else:
        lasting_s = float(np.median(np.diff(times))) if len(times) > 1 else step_s
        steps = _covered_steps(path, times[-1] + lasting_s, steps, step_s)
    edges = step_s * np.arange(steps + 1)
    integral = np.concatenate(([0.0], np.cumsum(powers[:-1] * np.diff(times))))
    at = np.searchsorted(times, edges, side="right") - 1
    upto = integral[at] + powers[at] * (edges - times[at])
    means = np.diff(upto) / step_s
    # Where no event falls inside a step its power is the event's own, without rounding.
    inside = np.searchsorted(times, edges[1:], side="left") - 1 > at[:-1]
    return np.where(inside, np.maximum(means, 0.0), powers[at[:-1]])


def _covered_steps(path: PathLike, covered_s: float, steps: int | None, step_s: float) -> int:
    """Return ``steps``, or as many as the file covers. Raises InputError where it covers too few."""
    if steps is None:
        steps = max(1, int(covered_s / step_s * (1 + 1e-9)))
    needed_s = steps * step_s
    if covered_s < needed_s * (1 - 1e-9):
        raise InputError(
            path,
            f"covers {covered_s / 3600:.4g} h, the plan needs {needed_s / 3600:.4g} h: "
            "give a longer file, or plan fewer windows",
        )
    return steps


def read_weather_file(
    path: PathLike,
    *,
    column: str | None = None,
    unit: str | None = None,
    interval_s: int | None = None,
    date_order: DateOrder | None = None,
    clip_negative: bool | None = None,
    zone: tzinfo | None = None,
) -> TimeSeries:
    """Read an export of a service of weather or power, or plain CSV; packed with gzip or not.

    ``column`` names the column of power, or of the wind speed of a NASA POWER file, or the production type of
    a market's export. ``unit``, ``interval_s``, ``date_order`` and ``zone`` are for plain CSV, as in
    `parse_power_csv`; the series' ``clock`` is empty where ``zone`` was used. ``clip_negative`` is as for
    `on_grid`. Raises InputError with line or column and cause.
    """
    return parse_weather(
        path,
        read_table_text(path),
        column=column,
        unit=unit,
        interval_s=interval_s,
        date_order=date_order,
        clip_negative=clip_negative,
        zone=zone,
    )


def parse_weather(
    path: PathLike,
    text: str,
    *,
    column: str | None = None,
    unit: str | None = None,
    interval_s: int | None = None,
    date_order: DateOrder | None = None,
    clip_negative: bool | None = None,
    zone: tzinfo | None = None,
) -> TimeSeries:
    """Read the text of a file as `read_weather_file` does; ``path`` names it in errors."""
    if not text.strip():
        raise InputError(path, "is empty")
    if (parse := _production(path, text)) is not None:
        return parse(column, clip_negative)
    if (series := _export(path, text, column)) is not None:
        return series
    if column is None and find_header(text, is_ninja_header):
        return parse_ninja(path, text, date_order)
    rows = RowTimes(interval_s, date_order, zone)
    if (series := _weather_csv(path, text, column, rows)) is not None:
        return series
    return parse_power_csv(
        path,
        text,
        column=column,
        unit=unit,
        interval_s=interval_s,
        date_order=date_order,
        clip_negative=clip_negative,
        zone=zone,
    )


_Parse = Callable[[str | None, bool | None], TimeSeries]
"""Reads a column, or a production type, and counts negative power as 0."""
_EXPORTS: Final = (
    (is_nasa_header, parse_nasa_power),
    (is_open_meteo_header, parse_open_meteo),
    (is_pvgis_header, parse_pvgis),
    (is_typical_year_header, parse_typical_year),
    (is_nsrdb_header, parse_nsrdb),
    (is_solcast_header, parse_solcast),
)
"""Tables of services of weather, by their headers."""
_JSON_EXPORTS: Final = (
    (is_nasa, nasa_power_series),
    (is_open_meteo, open_meteo_series),
    (is_pvgis, pvgis_series),
    (is_solcast, solcast_series),
)
"""JSON of services of weather, by its members."""
_PRODUCTIONS: Final = (
    (is_entsoe_header, parse_entsoe),
    (is_smard_header, parse_smard),
)
"""Tables of the production of a country, by their headers."""


def is_export(text: str) -> bool:
    """Whether a string is an export of a service that `read_weather_file` recognizes by its content alone."""
    return text.lstrip()[:1] in "{[" or any(find_header(text, is_header) for is_header, _ in _EXPORTS)


def is_production(text: str) -> bool:
    """Whether a string is a table of a country's production by type, one of which has to be chosen."""
    return any(find_header(text, is_header) for is_header, _ in _PRODUCTIONS)


def _production(path: PathLike, text: str) -> _Parse | None:
    """The reader of a country's production; None for other files."""
    for is_header, parse in _PRODUCTIONS:
        if find_header(text, is_header):
            return partial(parse, path, text)
    if text.lstrip()[:1] == "{" and is_energy_charts(contents := json_object(path, text)):
        return partial(energy_charts_series, path, contents)
    return None


def _export(path: PathLike, text: str, column: str | None) -> TimeSeries | None:
    """The series of a service's export; None for other tables. Raises InputError for other JSON."""
    if text.lstrip()[:1] != "{":
        parse = next((parse for is_header, parse in _EXPORTS if find_header(text, is_header)), None)
        return None if parse is None else parse(path, text, column)
    contents = json_object(path, text)
    read = next((read for is_one, read in _JSON_EXPORTS if is_one(contents)), None)
    if read is None:
        raise InputError(
            path,
            "is JSON, but not of NASA POWER, Open-Meteo, PVGIS, Solcast or Energy-Charts: expected them, or a"
            f" table (CSV); found {listed(sorted(contents))}",
        )
    return read(path, contents, column)


def _weather_csv(path: PathLike, text: str, column: str | None, rows: RowTimes) -> TimeSeries | None:
    """The weather of a plain CSV file, by the usual names of its columns; None for a file of power."""
    if not find_header(text, is_csv_header):
        return None
    table = plain_table(path, text)
    names = value_columns(table)
    names = names if column is None else [choose_column(path, names, column)]
    if not any(map(is_weather, names)) or any(unit_in_name(name) for name in names if not is_weather(name)):
        return None
    table, times = rows.of(table, [name for name in names if is_weather(name)])
    series = weather_series(table, times.seconds, names, dated=times.dated, notes=times.notes)
    return _from_ends(table, replace(series, clock=times.clock))
