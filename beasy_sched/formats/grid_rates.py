"""Prices and carbon intensities of the grid from files: what a market or a service exports, or plain CSV.

- ENTSO-E day-ahead prices: "MTU (CET)", "Day-ahead Price [EUR/MWh]"; also as a spreadsheet quotes every line
  once more, and with "-" for hours not yet published;
- OMIE: a date and an hour from 1 to 24, local time;
- Electricity Maps: "Carbon Intensity gCO2eq/kWh (direct)" or "(LCA)"; EIA-based: "avg_CI";
- SMARD (local time of Germany) and Energy-Charts (table or JSON);
- Nord Pool: one column without times;
- ``time,value``: times without an offset are in the zone that the column's name or the user states, or else
  UTC; those of a column ``time_s`` are simulated seconds.

Units are those of `beasy_sched.formats.unit_table`, in the column's name or stated next to the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.grid import Signal
from beasy_sched.errors import InputError
from beasy_sched.formats.currencies import Currency, currency_named
from beasy_sched.formats.decoding import csv_line, csv_rows
from beasy_sched.formats.entsoe import entsoe_times, is_entsoe_header, only_rows
from beasy_sched.formats.german_market import is_smard_header, smard_table, smard_times
from beasy_sched.formats.nested_tables import json_object
from beasy_sched.formats.rate_json import rate_json_table
from beasy_sched.formats.table import NOTHING, Table, parse_table, read_table_text
from beasy_sched.formats.time_columns import (
    column_times,
    find_header,
    is_csv_header,
    is_end,
    is_start,
    joined_times,
    time_column,
    with_units_line,
)
from beasy_sched.formats.unit_table import RateUnit, UnitError, carbon_unit, price_unit, rate_in_name
from beasy_sched.limits import listed, shortened
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, counted

_MOST_G_PER_KWH: Final = 3000.0
"""Largest credible carbon intensity, g/kWh; lignite has about 1 100."""
_SEQUENCE: Final = "Sequence"
_SEQUENCE_WORD: Final = re.compile(r"\s*\bSequence\b\s*", re.IGNORECASE)
_DAY_COLUMNS: Final = ("date", "fecha", "day")
_HOUR_COLUMNS: Final = ("hour", "hora", "h")


class RateGaps(str, Enum):
    """Filling of an hour without a value between hours that have one."""

    REFUSE = "refuse"
    HOLD = "hold"
    """A gap has the value before it."""
    INTERPOLATE = "interpolate"
    """A straight line between the values around the gap."""


@dataclass(frozen=True)
class RateQuantity:
    """Quantity that a file is read for."""

    name: str
    columns: re.Pattern[str]
    """Names of columns that hold the quantity."""
    unit: Callable[[str, str | None], RateUnit]
    """Unit that a string states, on a site with that currency (None: unknown). Raises UnitError."""
    example: str
    """Unit that messages name."""


PRICE: Final = RateQuantity(
    "price", re.compile(r"price|precio|preis|prix|per_[km]wh", re.I), price_unit, "EUR/MWh"
)
CARBON: Final = RateQuantity(
    "carbon",
    re.compile(r"carbon intensity|avg_ci$|carbon_g|g_per_kwh|gco2", re.I),
    lambda unit, currency: carbon_unit(unit),
    "g/kWh",
)
_BARE_UNITS: Final = {"avg_ci": "g/kWh", "precio_da": "EUR/MWh", "precio_ida": "EUR/MWh"}
"""Units of columns whose names do not state them."""


@dataclass(frozen=True)
class RateFile:
    """A file with a price or a carbon intensity, and how to read it."""

    path: Path
    quantity: RateQuantity
    column: str | None = None
    """Column that holds the quantity; needed where several might."""
    unit: str | None = None
    """Unit such as ``EUR/MWh``, where the column does not state it."""
    gaps: RateGaps = RateGaps.REFUSE
    start: datetime | None = None
    """Moment of the first value, for a file without times."""
    currency: str | None = None
    """Currency of the site; None where it states none."""
    zone: tzinfo | None = None
    """Time zone of times that state none; None means UTC, or the site's for local days and hours."""
    sequence: str | None = None
    """Auction of ENTSO-E's prices, where the file has several."""


class GridRate(NamedTuple):
    """A price or a carbon intensity over simulated time, per kWh."""

    signal: Signal
    currency: str | None
    """Currency of a price: the site's, or the file's where the site states none."""


def read_rate(source: RateFile, calendar: Calendar) -> GridRate:
    """Read a price or a carbon intensity over simulated time; ``calendar`` states what time 0 is.

    Values are per kWh; hours at the end that have none yet are omitted. Raises InputError that names file,
    line and column.
    """
    table = _of_auction(_table(source), source)
    source = replace(source, currency=_currency(table, source))
    column = _column(table, source)
    unit = _unit(table, column, source)
    times = _times(table, source, calendar)
    if len(table.rows) > 1 and np.all(np.diff(times.starts_s) < 0):  # the newest row is the first
        table = replace(table, rows=table.rows[::-1], lines=table.lines[::-1])
        times = times.reversed()
    if source.zone is not None and times.clock:
        raise InputError(table.path, f"{source.quantity.name}.zone: {times.clock}: omit zone")
    values = table.numbers(column) / unit.in_one
    _check_size(table, values, column, unit.currency)
    rows_with_value = np.flatnonzero(times.exists & ~np.isnan(values))
    if len(rows_with_value) < 2:
        raise InputError(
            table.path, f"has {len(rows_with_value)} values in column {column!r}, expected at least 2"
        )
    rows = np.flatnonzero(times.exists[: rows_with_value[-1] + 1])
    signal = _signal(replace(table, lines=table.lines[rows]), times, rows, values[rows], source)
    return GridRate(signal, source.currency or (unit.currency.name if unit.currency else None))


def _table(source: RateFile) -> Table:
    """Read the table of a file. Raises InputError."""
    path, text = source.path, read_table_text(source.path)
    if text.lstrip()[:1] == "{":
        return rate_json_table(path, json_object(path, text))
    if find_header(text, is_smard_header):
        return smard_table(path, text)
    text = _plain_text(text, path)
    if not find_header(text, lambda cells: _is_header(cells, source)):
        name = source.quantity.name
        raise InputError(
            path,
            f"no header line was found that names a time or a {name}: name the column, with {name} ="
            ' { file = "...", column = "..." }',
        )
    table = with_units_line(parse_table(path, text, lambda cells: _is_header(cells, source)))
    return table if is_entsoe_header(list(table.names)) else joined_times(table, hours=False)


def _of_auction(table: Table, source: RateFile) -> Table:
    """Return the rows of one auction, where a table has several. Raises InputError that names these."""
    table = only_rows(table, "Area", None, "export one area only")
    if _SEQUENCE not in table.names:
        if source.sequence is not None:
            raise InputError(table.path, f"has no column {_SEQUENCE!r}: omit sequence")
        return table
    texts = table.texts(_SEQUENCE)
    kinds = {_SEQUENCE_WORD.sub("", text): text for text in texts}
    if source.sequence is None and len(kinds) < 2:
        return table
    wanted = None if source.sequence is None else kinds.get(_SEQUENCE_WORD.sub("", source.sequence))
    if wanted is None:
        problem = (
            "has several auctions" if source.sequence is None else f"has no sequence {source.sequence!r}"
        )
        raise InputError(
            table.path,
            f'{problem}: choose one with {source.quantity.name} = {{ file = "...", sequence = "..." }}; found'
            f" {listed(sorted(kinds))}",
        )
    return only_rows(table, _SEQUENCE, wanted, "")


def _currency(table: Table, source: RateFile) -> str | None:
    """The site's currency, or else that of the table's column "Currency"; refuses rows in another one."""
    column = next((name for name in table.names if name.lower() == "currency"), None)
    if column is None or source.quantity is not PRICE:
        return source.currency
    texts = table.texts(column)
    stated = [(row, text) for row, text in enumerate(texts) if text.lower() not in NOTHING]
    meant = source.currency or (stated[0][1] if stated else None)
    for row, text in stated:
        if meant is not None and currency_named(text) != currency_named(meant):
            raise table.error(
                row, f"{column}: found {shortened(text, 40)!r}, expected prices in {meant} only"
            )
    return meant


def _plain_text(text: str, path: Path) -> str:
    """Undo a spreadsheet's second quoting of every line, and drop the name of a column that has no cells."""
    lines = text.splitlines()
    if lines and len(once := csv_line(lines[0])) == 1 and "," in once[0]:
        lines = [cells[0] if cells else "" for _, cells in csv_rows(text, path)]
    if lines:
        lines[0] = re.sub(r',"?BZN\|[^,"]*"?\s*$', "", lines[0])
    return "\n".join(lines)


def _is_header(cells: list[str], source: RateFile) -> bool:
    if source.column in cells:
        return True
    if not is_csv_header(cells) or (len(cells) < 2 and not any(_holds(cell, source) for cell in cells)):
        return False
    times = ("time_s", *_DAY_COLUMNS)
    return any(
        _holds(name, source) or is_start(name) or is_end(name) or name.lower() in times for name in cells
    )


def _holds(column: str, source: RateFile) -> bool:
    """Whether a column holds the quantity, by its name or the unit in it."""
    if source.quantity.columns.search(column):
        return True
    stated = rate_in_name(column)
    return stated is not None and stated[0] != "/" and _parsed(stated, source) is not None


def _parsed(unit: str, source: RateFile) -> RateUnit | None:
    try:
        return source.quantity.unit(unit, source.currency)
    except UnitError:
        return None


def _column(table: Table, source: RateFile) -> str:
    if source.column is not None:
        table.texts(source.column)  # raises where the file has no such column
        return source.column
    matches = [name for name in table.names if _holds(name, source)]
    if len(matches) > 1:
        matches = [name for name in matches if not all(text.lower() in NOTHING for text in table.texts(name))]
    if not matches and len(table.names) == 2:
        return table.names[1]
    if len(matches) != 1:
        raise InputError(
            table.path,
            f"{len(matches) or 'no'} columns seem to hold the {source.quantity.name}: choose one with"
            f' {source.quantity.name} = {{ file = "...", column = "..." }}; its columns are:'
            f" {listed(table.names)}",
        )
    return matches[0]


def _unit(table: Table, column: str, source: RateFile) -> RateUnit:
    """The unit of the column's values, from its name or next to the file; refuses two that differ."""
    stated = rate_in_name(column) or _BARE_UNITS.get(column.lower())
    given, quantity = source.unit, source.quantity
    if given is None and stated is None:
        example, beside = quantity.example, f'{{ file = "...", unit = "{quantity.example}" }}'
        raise InputError(
            table.path,
            f"column {column!r} does not state its unit: expected it in the name, as in {column} [{example}],"
            f" or next to the file: {quantity.name} = {beside}",
        )
    try:
        unit = quantity.unit(given or stated or "", source.currency)
    except UnitError as error:
        where = f"{quantity.name}.unit" if given else f"column {column!r}"
        raise InputError(table.path, f"{where}: {error}") from None
    if given is not None and stated is not None:
        own = replace(source, currency=unit.currency.name if unit.currency else None)
        other = _parsed(stated, own) or _parsed(stated, replace(source, currency=None))
        if other is not None and other != unit:
            raise InputError(
                table.path, f"column {column!r} is in {stated}, but its unit is given as {given!r}"
            )
    return unit


def _check_size(table: Table, values: FloatArray, column: str, currency: Currency | None) -> None:
    if currency is None:
        largest, unit, what = _MOST_G_PER_KWH, "g", "carbon intensity"
    else:
        largest, unit, what = currency.most_per_kwh, currency.name, "price"
    wrong = np.abs(values) > largest
    if wrong.any():
        at = int(np.argmax(wrong))
        raise table.error(
            at,
            f"{column}: {values[at]:g} {unit} per kWh is not a credible {what} (at most {largest:g}):"
            " is it in another unit?",
        )


class _RowTimes(NamedTuple):
    """Times of the rows of a file."""

    starts_s: FloatArray
    """Simulated time at which each row begins, s."""
    exists: BoolArray
    """Whether each row's local time exists: False for an hour that the change of clocks skips."""
    lasting: FloatArray
    """Number of intervals that each row lasts: 1, or 2 for an hour that the clocks show twice."""
    clock: str = ""
    """Reason why a time zone that the user gives does not apply; empty where it does."""

    def reversed(self) -> _RowTimes:
        """Return the times of the rows in the other order."""
        return self._replace(
            starts_s=self.starts_s[::-1], exists=self.exists[::-1], lasting=self.lasting[::-1]
        )


def _times(table: Table, source: RateFile, calendar: Calendar) -> _RowTimes:
    names = {name.lower(): name for name in table.names}
    zero_s = calendar.start.timestamp()
    if is_entsoe_header(list(table.names)):
        seconds, exists = entsoe_times(table)
        return _dated(seconds, exists, zero_s, "its format states its time zone")
    if is_smard_header(list(table.names)):
        local = smard_times(table)
        return _dated(local.seconds, local.exists, zero_s, "SMARD's times are local time of Germany")
    if "time_s" in names:
        return _evenly(table.numbers(names["time_s"]))._replace(clock="its times are simulated seconds")
    day, hour = (next((names[n] for n in some if n in names), None) for some in (_DAY_COLUMNS, _HOUR_COLUMNS))
    if day is not None and hour is not None:
        local_calendar = calendar if source.zone is None else replace(calendar, zone=source.zone)
        return _days_and_hours(table, day, hour, local_calendar)
    time = time_column(table)
    if time is None:
        time = next((name for low, name in names.items() if low.startswith(("time", "date"))), None)
    if time is not None:
        times = column_times(table, time, None, source.zone)
        seconds = times.seconds
        if is_end(time) and len(seconds) > 1:
            seconds = seconds - round(float(np.median(np.diff(seconds))))
        return _dated(seconds, times.exists, zero_s, times.clock)
    if source.start is None:
        raise InputError(
            table.path,
            "has no time column: give the time of the first value, with"
            f' {source.quantity.name} = {{ file = "...", start = "2019-01-01T00:00:00+01:00" }}',
        )
    hours = np.arange(len(table.rows), dtype=np.float64)
    starts_s = source.start.timestamp() - zero_s + SECONDS_PER_HOUR * hours
    return _evenly(starts_s)._replace(clock="it has no column of times")


def _dated(seconds: IntArray, exists: BoolArray, zero_s: float, clock: str) -> _RowTimes:
    """Times of seconds since 1970, for a run whose time 0 is ``zero_s``."""
    starts_s = np.asarray(seconds - zero_s, dtype=np.float64)
    return _RowTimes(starts_s, exists, np.ones(len(starts_s)), clock)


def _evenly(starts_s: FloatArray) -> _RowTimes:
    return _RowTimes(starts_s, np.ones(len(starts_s), dtype=np.bool_), np.ones(len(starts_s)))


def _days_and_hours(table: Table, day_column: str, hour_column: str, calendar: Calendar) -> _RowTimes:
    """Times of local days with hours from 1; a day of the change of clocks has 23 or 25, or always 24.

    Where it has 24, its hours are those of the clock: one that is skipped does not exist, one that occurs
    twice counts twice as long.
    """
    days, hours = table.texts(day_column), table.numbers(hour_column)
    whole = (hours >= 1) & (hours <= 25) & (hours == np.floor(hours))
    if not whole.all():
        at = int(np.argmin(whole))
        raise table.error(
            at, f"{hour_column}: found {shortened(table.texts(hour_column)[at], 40)!r}, expected 1 to 24"
        )
    times, exists, lasting, _ = _evenly(np.empty(len(days)))
    counts = Counter(days)
    for row, (day, hour) in enumerate(zip(days, hours.astype(int).tolist(), strict=True)):
        try:
            noon = datetime.fromisoformat(day[:10]).replace(
                hour=12, tzinfo=calendar.zone or calendar.start.tzinfo
            )
        except ValueError:
            raise table.error(
                row, f"{day_column}: found {shortened(day, 40)!r}, expected a day such as 2026-01-31"
            ) from None
        midnight = calendar.midnight(noon)
        start_s, length_s = (
            calendar.seconds(midnight),
            calendar.seconds(calendar.midnight(noon + timedelta(1))),
        )
        length_s -= start_s
        if counts[day] == 24 and length_s != SECONDS_PER_DAY and hour <= 24:
            clock = midnight.replace(hour=hour - 1)
            times[row] = calendar.seconds(clock)
            exists[row] = calendar.local(times[row]).hour == clock.hour
            lasting[row] = (calendar.seconds(clock.replace(fold=1)) - times[row]) / SECONDS_PER_HOUR + 1.0
        else:
            times[row] = start_s + (hour - 1) * SECONDS_PER_HOUR
            exists[row] = times[row] < start_s + length_s
    return _RowTimes(times, exists, lasting)


def _signal(table: Table, times: _RowTimes, rows: IndexArray, values: FloatArray, source: RateFile) -> Signal:
    """The signal of the rows up to the last one with a value, without gaps; ``table.lines`` are theirs."""
    times_s = times.starts_s[rows]
    steps: FloatArray = np.diff(times_s)
    if np.any(steps <= 0):
        at = int(np.argmax(steps <= 0)) + 1
        raise table.error(
            at, f"is not later than line {table.lines[at - 1]}: expected ascending times, one row for each"
        )
    usual_s = float(np.median(steps))
    lasting = times.lasting[rows]
    times_s, values, lines = _with_all_hours(times_s, values, table.lines, lasting[:-1], usual_s)
    empty = np.isnan(values)
    if empty.any():
        if source.gaps is RateGaps.REFUSE:
            line = int(lines[int(np.argmax(empty))])
            raise InputError(
                table.path,
                f"has {counted(int(empty.sum()), 'interval')} without a value, from this line on: choose"
                f" how to fill them, with {source.quantity.name} = "
                '{ file = "...", gaps = "hold" } or "interpolate"',
                line=line,
            )
        values = _filled(times_s, values, source.gaps)
    return Signal(np.append(times_s, times_s[-1] + lasting[-1] * usual_s), values)


def _with_all_hours(
    times_s: FloatArray, values: FloatArray, lines: IntArray, lasting: FloatArray, usual_s: float
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Add intervals without a value where rows are missing; ``lines`` names the row before them."""
    missing = np.maximum(np.round(np.diff(times_s) / usual_s - lasting), 0.0).astype(np.intp)
    after = np.repeat(np.arange(len(missing)), missing)
    number = np.arange(len(after)) - np.repeat(np.cumsum(missing) - missing, missing)
    added_s = times_s[after] + (lasting[after] + number) * usual_s
    return (
        np.insert(times_s, after + 1, added_s),
        np.insert(values, after + 1, np.nan),
        np.insert(lines, after + 1, lines[after]),
    )


def _filled(times_s: FloatArray, values: FloatArray, gaps: RateGaps) -> FloatArray:
    places_known = np.flatnonzero(~np.isnan(values))
    if gaps is RateGaps.INTERPOLATE:
        return np.interp(times_s, times_s[places_known], values[places_known])
    places = np.searchsorted(places_known, np.arange(len(values)), side="right") - 1
    return np.asarray(values[places_known[np.maximum(places, 0)]])
