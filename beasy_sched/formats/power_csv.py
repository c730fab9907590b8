"""Plain CSV files of power: a column of values, and a column of times or none.

The unit comes from the column's name (``Solar [MW]``, ``power (W)``, ``pv_kw``) or from the user. Times
are UTC dates, seconds since 1970, or seconds from the start; an interval's value is its mean from its
time on, or up to it where the column is called ``period_end``.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from beasy_sched.arrays import IntArray
from beasy_sched.errors import InputError
from beasy_sched.formats.power_units import PER_UNIT, POWER_UNITS, power_factor, unit_in_name
from beasy_sched.formats.table import Table, parse_table
from beasy_sched.formats.time_series import POWER, TimeSeries, on_grid
from beasy_sched.formats.timestamps import DateOrder, parse_times

_TIME_NAMES = ("time", "timestamp", "datetime", "date", "utc", "utc_time", "time (utc)", "datetime (utc)")
_END_NAMES = ("period_end", "periodend")
_EPOCH_FROM_S = 3e8
"""Numbers from here on are seconds since 1970 (mid-1979), not since the file's start."""


def is_csv_header(cells: list[str]) -> bool:
    """Whether a line can be a header: not a comment, and no cell of it is a number."""
    return not cells[0].startswith("#") and not any(_is_number(cell) for cell in cells)


def choose_column(path: str | os.PathLike[str], names: list[str], wanted: str | None) -> str:
    """The column that the user means: by name, or by a part of it that only one column has.

    Raises InputError that lists the columns.
    """
    listing = f"its columns are: {', '.join(names)}"
    if wanted is None:
        if len(names) == 1:
            return names[0]
        raise InputError(path, f"has several columns, say which with --pv-column or --wind-column; {listing}")
    if wanted in names:
        return wanted
    matches = [name for name in names if wanted.lower() in name.lower()]
    if len(matches) != 1:
        found = "matches more than one column" if matches else "is not a column"
        raise InputError(path, f"{wanted!r} {found}; {listing}")
    return matches[0]


def parse_power_csv(
    path: str | os.PathLike[str],
    text: str,
    *,
    column: str | None = None,
    unit: str | None = None,
    interval_s: int | None = None,
    date_order: DateOrder | None = None,
) -> TimeSeries:
    """Read one column of power. Raises InputError with line or column and cause.

    ``unit`` (W, kW, MW, GW or per-unit) is needed where the column's name has none; ``interval_s`` where
    the file has no times. A per-unit column is the power of a capacity of 1 W.
    """
    table = parse_table(path, text, is_csv_header)
    time_name = next((n for n in table.names if n.lower() in _TIME_NAMES + _END_NAMES), None)
    name = choose_column(path, [n for n in table.names if n != time_name], column)
    factor, per_unit = _unit(path, name, unit)
    values = table.numbers(name) * factor
    if time_name is None:
        if interval_s is None:
            raise InputError(path, "has no column of times: give the length of its rows with --interval")
        times: IntArray = np.arange(len(values), dtype=np.int64) * interval_s
        series = on_grid(path, times, table.lines, {POWER: values}, dated=False)
    else:
        times, dated, notes = _times(table, time_name, date_order)
        series = on_grid(path, times, table.lines, {POWER: values}, dated=dated, notes=notes)
        if time_name.lower() in _END_NAMES and series.start_s is not None:
            series = replace(series, start_s=series.start_s - series.interval_s)
    if per_unit and np.nanmax(values, initial=0.0) > 2.0:
        raise InputError(path, f"{name} reaches {np.nanmax(values):g} per unit of capacity: wrong unit?")
    return replace(series, capacity_w=1.0) if per_unit else series


def _unit(path: str | os.PathLike[str], name: str, unit: str | None) -> tuple[float, bool]:
    """Watts in one of the column's unit, and whether it is per unit of capacity."""
    stated = unit_in_name(name)
    if stated is None and unit is None:
        known = ", ".join([*POWER_UNITS, PER_UNIT])
        raise InputError(path, f"column {name!r} does not tell its unit: give --unit ({known})")
    if stated is not None and unit is not None and power_factor(unit) != POWER_UNITS[stated]:
        raise InputError(path, f"column {name!r} is in {stated}, but --unit says {unit}")
    chosen = stated or unit or ""
    factor = power_factor(chosen)
    if factor is None:
        raise InputError(
            path, f"unknown unit {chosen!r}, expected one of {', '.join([*POWER_UNITS, PER_UNIT])}"
        )
    return factor, chosen.lower() not in POWER_UNITS


def _times(table: Table, name: str, order: DateOrder | None) -> tuple[IntArray, bool, tuple[str, ...]]:
    """Seconds of each row, whether they are dates, and notes."""
    texts = table.texts(name)
    if texts and _is_number(texts[0]):
        seconds = table.numbers(name)
        if np.isnan(seconds).any():
            at = int(np.argmax(np.isnan(seconds)))
            raise InputError(table.path, f"{name}: the time is missing", line=int(table.lines[at]))
        if seconds[0] > 1000 * _EPOCH_FROM_S:
            seconds = seconds / 1000.0
        return np.round(seconds).astype(np.int64), bool(seconds[0] > _EPOCH_FROM_S), ()
    times, notes = parse_times(table.path, texts, table.lines, order)
    return times, True, notes


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
