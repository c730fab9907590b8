"""The load of a site besides its servers, as a site file gives it: cooling, and services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.cooling import COLDEST_C, HOTTEST_C, Cooling
from beasy_sched.energy.devices.device import SiteSection
from beasy_sched.energy.fields import FieldError
from beasy_sched.energy.grid import Rate, Signal
from beasy_sched.energy.services import Line
from beasy_sched.energy.site_load import Course, LoadKnown
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.table import POWER, TEMPERATURE, Table, TimeSeries, on_grid, read_table_text
from beasy_sched.formats.time_columns import RowTimes, is_end, plain_table, time_column, value_columns
from beasy_sched.formats.unit_table import UnitError, power_unit, unit_in_name
from beasy_sched.limits import listed

Zone: TypeAlias = Callable[[str, "str | None"], "tzinfo | None"]
"""Returns the time zone that a field names. Raises ConfigError."""


class TemperatureFile(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of outside temperatures."""

    file: str
    column: str | None = None
    unit: str | None = None
    """Unit of ``column``: C, F or K."""
    zone: str | None = None
    """Time zone of times that state none; without it, they are UTC."""
    known: LoadKnown = LoadKnown.YESTERDAY


class CoolingSection(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Cooling and losses in proportion to the servers' power."""

    pue: float | tuple[tuple[float, float], ...]
    temperature: str | TemperatureFile | None = None


class ServicesFile(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of the power of services."""

    file: str
    column: str | None = None
    unit: str | None = None
    """Unit such as ``kW``, where the column does not state it."""
    zone: str | None = None
    """Time zone of times that state none; without it, they are UTC."""
    between: Literal["step", "line"] = "step"
    """Power between two rows: that of the first one, or on the straight line between them."""
    known: LoadKnown = LoadKnown.YESTERDAY


_TIME_S: Final = "time_s"
"""Column of simulated seconds."""


def cooling_of(section: CoolingSection, calendar: Calendar | None, folder: Path, zone: Zone) -> Cooling:
    """Return the cooling of a section, whose file is in ``folder``. Raises ConfigError and InputError."""
    pue, given = section.pue, section.temperature
    if given is None or not isinstance(pue, tuple):
        if given is not None:
            raise FieldError("temperature", given, "none with a constant pue: omit it, or write a table")
        return Cooling(pue)
    Cooling(pue, Course(Signal(np.array([0.0, 1.0]), np.zeros(1))))  # the table is checked before the file
    source = TemperatureFile(file=given) if isinstance(given, str) else given
    from beasy_sched.formats.temperature_file import read_temperatures

    series = read_temperatures(
        folder / source.file,
        column=source.column,
        unit=source.unit,
        zone=zone("cooling.temperature.zone", source.zone),
    )
    starts_s, values = _on_the_clock(series, TEMPERATURE, "cooling.temperature", calendar)
    for at in np.flatnonzero((values < COLDEST_C) | (values > HOTTEST_C)).tolist():
        raise InputError(
            series.path,
            f"has {values[at]:g} degrees Celsius at {series.time_text(at)}, expected from {COLDEST_C:g} to"
            f' {HOTTEST_C:g}: if it is in another unit, state it with cooling.temperature = {{ file = "...",'
            ' column = "...", unit = "K" }',
        )
    return Cooling(pue, Course(_held(starts_s, values, series.interval_s), source.known))


def services_of(given: str | ServicesFile, calendar: Calendar | None, folder: Path, zone: Zone) -> Course:
    """Return the services of a file in ``folder``, W over time. Raises ConfigError and InputError."""
    source = ServicesFile(file=given) if isinstance(given, str) else given
    table = plain_table(folder / source.file, read_table_text(folder / source.file))
    column = _column(table, source)
    of_times = zone("load.series.zone", source.zone)
    series, dated = _series(table, column, _unit_w(table, column, source), of_times)
    starts_s, values = _on_the_clock(series, POWER, "load.series", calendar, dated=dated)
    is_line = source.between == "line"
    rate: Rate = Line(starts_s, values) if is_line else _held(starts_s, values, series.interval_s)
    return Course(rate, source.known, dated=dated)


def _held(starts_s: FloatArray, values: FloatArray, interval_s: float) -> Signal:
    return Signal(np.append(starts_s, starts_s[-1] + interval_s), values)


def _column(table: Table, source: ServicesFile) -> str:
    """Return the name of the column of powers."""
    names = [name for name in value_columns(table) if name.lower() != _TIME_S]
    if source.column is not None:
        if source.column not in names:
            raise InputError(
                table.path, f"load.series.column: {source.column!r} is none of its columns: {listed(names)}"
            )
        return source.column
    if len(names) != 1:
        raise InputError(
            table.path,
            f"has {len(names) or 'no'} columns of values ({listed(table.names)});"
            ' choose one with load.series = { file = "...", column = "..." }',
        )
    return names[0]


def _unit_w(table: Table, column: str, source: ServicesFile) -> float:
    """Return the watts in one unit of the column."""
    stated, given = unit_in_name(column), source.unit
    if stated is None and given is None:
        raise InputError(
            table.path,
            f"column {column!r} does not state its unit: name it {column}_kw or {column}_w, or give"
            ' load.series = { file = "...", unit = "kW" }',
        )
    try:
        unit, other = power_unit(given or stated or ""), None if stated is None else power_unit(stated)
    except UnitError as error:
        raise InputError(table.path, f"column {column!r}: {error}") from None
    if other is not None and other != unit:
        raise InputError(table.path, f"column {column!r} is in {stated}, but load.series.unit is {given}")
    if unit.per_unit or unit.of_rows:
        raise InputError(table.path, f"column {column!r}: load.series needs a power, in W or kW")
    return unit.worth


def _series(table: Table, column: str, unit_w: float, zone: tzinfo | None) -> tuple[TimeSeries, bool]:
    """Return the column's powers, W, and whether its times are dates; if not, they are simulated seconds.

    Raises InputError that names the line of a negative power.
    """
    names = {name.lower(): name for name in table.names}
    at_end, dated = False, False
    if _TIME_S in names:
        times_s = np.round(table.numbers(names[_TIME_S])).astype(np.int64)
    else:
        time = time_column(table)
        if time is None:
            raise InputError(
                table.path,
                f"has no column of times: load.series needs time, or {_TIME_S} (simulated seconds)",
            )
        table, times = RowTimes(zone=zone).of(table, [column])
        times_s, dated, at_end = times.seconds, times.dated, is_end(time)
    values_w = table.numbers(column) * unit_w
    for at in np.flatnonzero(values_w < 0.0).tolist():
        raise table.error(at, f"{column}: {values_w[at] / unit_w:g} is negative: load.series needs 0 or more")
    series = on_grid(table, times_s, {POWER: values_w}, dated=dated)
    first_s = int(times_s.min()) - (series.interval_s if at_end else 0)
    return replace(series, start_s=first_s), dated


def _on_the_clock(
    series: TimeSeries, name: str, field: str, calendar: Calendar | None, *, dated: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return the starts of a series' intervals (simulated s), and its values. Raises InputError for gaps.

    ``dated``: whether its times are dates.
    """
    values = series.columns[name]
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        raise InputError(
            series.path,
            f"has no value for {series.time_text(int(missing[0]))}"
            + (f", and {len(missing) - 1} more" if len(missing) > 1 else "")
            + f": {field} needs one for each {series.interval_s:g} s: fill the gap in the file",
        )
    start_s = float(series.start_s or 0)
    if dated and series.start_s is not None:
        if calendar is None:
            raise ConfigError(f'{field}: requires [time] start, such as start = "2010-07-12T09:00:00-04:00"')
        start_s = series.start_s - calendar.start.timestamp()
    return start_s + series.interval_s * np.arange(len(values), dtype=np.float64), values
