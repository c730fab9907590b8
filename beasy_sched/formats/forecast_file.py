"""Forecasts as they were issued: a CSV file with the columns ``issued``, ``valid`` and one of values.

The values are powers (the column's name has their unit: ``W``, ``power [kW]``, ``pv_kw``), or conditions:
``condition`` (words), ``cloud_cover`` (share of the sky) or ``clearness`` (ratio). Times are dates (UTC, or
with an offset), or seconds since time 0 of the run. Each value holds from its valid time to the next.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.forecast.conditions import CLEARNESS, CLOUD_COVER, WORDS, ConditionScheme
from beasy_sched.forecast.weather import IssuedTable
from beasy_sched.formats.power_series import column_times
from beasy_sched.formats.reading import in_file
from beasy_sched.formats.solar_history import number_classes, word_classes
from beasy_sched.formats.table import (
    DateOrder,
    Table,
    parse_table,
    power_factor,
    read_table_text,
    unit_in_name,
)
from beasy_sched.units import SECONDS_PER_HOUR

_SCHEMES: Final = {
    "condition": WORDS,
    "conditions": WORDS,
    "cloud_cover": CLOUD_COVER,
    "clearness": CLEARNESS,
    "clearness_index": CLEARNESS,
}


def read_forecast_file(
    path: PathLike,
    start: datetime | None = None,
    *,
    unit: str | None = None,
    date_order: DateOrder | None = None,
) -> IssuedTable:
    """Read a forecast file; ``start`` (with its UTC offset) is what time 0 is, for a file with dates.

    ``unit`` is for a power column whose name has none. Raises InputError with line and cause: a forecast for
    a time before it was issued, two values for one time of one issue, an unknown condition, a negative power.
    """
    table = parse_table(path, read_table_text(path), _is_header)
    name = _value_column(table)
    issued_s, valid_s = _times(table, start, date_order)
    values, scheme = _values(table, name, unit)
    _check_rows(table, name, issued_s, valid_s, values)
    interval_s = _interval_s(table, valid_s)
    with in_file(path):
        return IssuedTable(issued_s, valid_s, values, interval_s, scheme)


def _is_header(cells: list[str]) -> bool:
    return {"issued", "valid"} <= {cell.lower() for cell in cells}


def _value_column(table: Table) -> str:
    names = [name for name in table.names if name.lower() not in ("issued", "valid")]
    if not table.rows:
        raise InputError(table.path, "has no row of data")
    if len(names) != 1:
        found = ", ".join(table.names)
        raise InputError(table.path, f"columns are {found}: expected issued, valid and one of values")
    return names[0]


def _times(
    table: Table, start: datetime | None, date_order: DateOrder | None
) -> tuple[FloatArray, FloatArray]:
    """Issued and valid times, seconds since time 0."""
    columns = []
    for wanted in ("issued", "valid"):
        name = next(name for name in table.names if name.lower() == wanted)
        times, dated, _ = column_times(table, name, date_order)
        columns.append((times.astype(np.float64), dated))
    (issued_s, dated), (valid_s, also_dated) = columns
    if dated != also_dated:
        raise InputError(table.path, "has dates in one of issued and valid, seconds in the other")
    if not dated:
        return issued_s, valid_s
    if start is None or start.utcoffset() is None:
        raise InputError(
            table.path, "has dates, but what time 0 of the run is was not stated with its UTC offset"
        )
    return issued_s - start.timestamp(), valid_s - start.timestamp()


def _values(table: Table, name: str, unit: str | None) -> tuple[FloatArray, ConditionScheme | None]:
    """Classes and their scheme, or W and None."""
    scheme = _SCHEMES.get(name.lower())
    if scheme is WORDS:
        return word_classes(table, name), scheme
    if scheme is not None:
        return number_classes(table, name, table.numbers(name), scheme), scheme
    stated = unit_in_name(name) or unit or name
    factor = power_factor(stated)
    if factor is None:
        known = ", ".join(_SCHEMES)
        expected = f"a power with its unit (W, kW, MW), or one of {known}"
        raise InputError(table.path, f"column {name!r} is not known, expected {expected}")
    return table.numbers(name) * factor, None


def _check_rows(
    table: Table, name: str, issued_s: FloatArray, valid_s: FloatArray, values: FloatArray
) -> None:
    """Refuse the first row that cannot be meant, by line."""
    for wrong, message in (
        (np.isnan(values), f"{name}: the value is missing"),
        (values < 0, f"{name}: must not be negative"),
        (valid_s < issued_s, "is valid before it was issued: are the columns swapped?"),
    ):
        if wrong.any():
            raise table.error(int(np.argmax(wrong)), message)
    order = np.lexsort((valid_s, issued_s))
    same = (np.diff(issued_s[order]) == 0) & (np.diff(valid_s[order]) == 0)
    same &= np.diff(values[order]) != 0
    if same.any():
        at = int(np.argmax(same))
        line = table.lines[order[at]]
        raise table.error(int(order[at + 1]), f"repeats the times of line {line} with another value")


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
