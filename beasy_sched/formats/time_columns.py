"""Plain tables of a user: which column has the times, in one column or several, and which have values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, IntArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.decoding import csv_line
from beasy_sched.formats.reading import is_number
from beasy_sched.formats.table import DELIMITERS, NOTHING, Table, is_date, parse_table, without_zone
from beasy_sched.formats.unit_table import is_unit
from beasy_sched.limits import LATEST_S, listed, shortened
from beasy_sched.model.choices import DateOrder

TIME_NAMES: Final = (
    *("time", "timestamp", "datetime", "date", "utc", "utc_time", "time (utc)", "datetime (utc)"),
    *("period_end", "periodend"),
)
"""Names of the column of times in tables of readings, in lower case."""
_START_NAMES: Final = frozenset(
    (
        *("", "time", "timestamp", "datetime", "date", "date time", "date/time", "date and time"),
        *("time stamp", "start", "start time", "start date", "starttime", "period start", "periodstart"),
        *("interval start", "interval start time", "intervalstarttime", "delivery start", "valid from"),
        *("datetime beginning", "from", "begin", "time start", "zeit", "zeitstempel", "zeitpunkt", "datum"),
        *("datum uhrzeit", "datum/uhrzeit", "datum und uhrzeit", "datum/zeit", "datum von", "von", "beginn"),
        *("fecha", "fecha hora", "fecha y hora", "horodate", "date heure", "date et heure", "date/heure"),
        *("data ora", "tijd", "datum tijd"),
    )
)
"""Names of columns of times at which intervals begin, without the zone that they state."""
_END_NAMES: Final = frozenset(
    (
        *("period end", "periodend", "interval end", "interval end time", "intervalendtime", "end"),
        *("end time", "endtime", "end date", "time end", "datetime ending", "hour ending", "delivery end"),
        *("valid to", "settlementdate", "datum bis", "bis"),
    )
)
"""Names of columns of times at which intervals end, without the zone that they state."""
_DATES: Final = frozenset(("date", "datum", "day", "tag", "fecha", "data"))
_CLOCKS: Final = frozenset(("time", "uhrzeit", "zeit", "hora", "heure", "heures", "ora", "time of day"))
_HOURS: Final = frozenset(("hour", "hour ending", "he", "hora", "stunde", "hr", "heure"))
_CLOCK_TIME: Final = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d*)?)?( ?[AaPp][Mm])?")
_PARTS: Final = (
    ("year", ("year", "yyyy")),
    ("month", ("month", "mo", "mm")),
    ("day", ("day", "dy", "dd")),
    ("hour", ("hour", "hr", "hh")),
    ("minute", ("minute", "min")),
)
EPOCH_FROM_S = 3e8
"""Numbers from here on are seconds since 1970 (mid-1979), not since the file's start."""
_HEAD_LINES = 60
"""A header line stands within the first lines of a file, after any block of comments."""


def is_csv_header(cells: list[str]) -> bool:
    """Whether a line can be a header: not a comment, and no cell of it is a number."""
    return not cells[0].startswith("#") and not any(is_number(cell) for cell in cells)


def find_header(text: str, is_header: Callable[[list[str]], bool]) -> list[str]:
    """The cells of the first line that is a header of a format; empty if none is."""
    for line in text[:200_000].splitlines()[:_HEAD_LINES]:
        for delimiter in DELIMITERS:
            cells = [cell.strip() for cell in csv_line(line, delimiter)]
            if cells and is_header(cells):
                return cells
    return []


def plain_table(path: PathLike, text: str) -> Table:
    """Read a plain table: below a title, with a line of units, and with dates and times of day apart.

    Units of a second line become part of the columns' names. Raises InputError.
    """
    widest = max((len(cells) for cells in _heads(text)), default=1)
    titled = widest > 1
    table = parse_table(path, text, lambda cells: is_csv_header(cells) and (len(cells) > 1 or not titled))
    table = with_units_line(table)
    _check_first_row(table)
    return joined_times(table)


def _check_first_row(table: Table) -> None:
    """Raise InputError for a first row of words, which is a further line of names."""
    cells = [cell.strip() for cell in table.rows[0]] if table.rows else []
    values = [cell for cell in cells if cell.lower() not in NOTHING]
    if len(table.names) == 1 and values and not is_number(values[0].replace(",", ".")):
        first_cell = shortened(values[0], 40)
        raise table.error(
            0, f"found {first_cell!r}, expected a number, or cells divided by commas, semicolons or tabs"
        )
    if values and not any(
        is_number(cell.replace(",", ".")) or is_date(cell) or ":" in cell for cell in values
    ):
        raise table.error(
            0,
            f"found {shortened(values[0], 40)!r}, expected a row of data: leave one line of names above the"
            " data, and at most one of units, and delete the others",
        )


def _heads(text: str) -> list[list[str]]:
    """The cells of each of the first lines that can be a header, divided as makes most of them."""
    heads = []
    for line in text[:200_000].splitlines()[:_HEAD_LINES]:
        readings = [[cell.strip() for cell in csv_line(line, delimiter)] for delimiter in DELIMITERS]
        cells = max(readings, key=len)
        if any(cells) and is_csv_header(cells):
            heads.append(cells)
    return heads


def with_units_line(table: Table) -> Table:
    """Return a table whose first row has units, such as ``Power (MW)``, with these in the columns' names."""
    first = table.rows[0] if table.rows else []
    cells = [cell.strip() for cell in first[: len(table.names)]]
    stated = [_unit_of_cell(cell) for cell in cells]
    others = [cell for cell, unit in zip(cells, stated, strict=True) if cell and unit is None]
    if not any(stated) or any(is_number(cell) or is_date(cell) for cell in others):
        return table
    names = tuple(
        f"{name} [{unit}]" if unit else name for name, unit in zip(table.names, stated, strict=True)
    )
    return replace(table, names=names, rows=table.rows[1:], lines=table.lines[1:])


def _unit_of_cell(cell: str) -> str | None:
    bracketed = re.fullmatch(r"[^()\[\]]*[(\[]([^()\[\]]*)[)\]]", cell)
    unit = (bracketed[1] if bracketed else cell).split(",")[0].strip()
    return unit if unit and is_unit(unit) else None


def joined_times(table: Table, *, hours: bool = True) -> Table:
    """Return a table in which a date and a time of day that are columns apart are one column, the first.

    That also holds for year, month, day, hour and minute, and, with ``hours``, for a date and an hour, from 0
    or from 1. Raises InputError for hours that may be either.
    """
    places: dict[str, int] = {}
    for at, name in enumerate(table.names):
        places.setdefault(without_zone(name), at)
    parts = [next((places[n] for n in names if n in places), None) for _, names in _PARTS]
    if None not in parts[:4]:
        columns = [at for at in parts if at is not None]
        return _joined(table, columns, [_of_parts([row[at] for at in columns]) for row in table.rows])
    day = next((places[name] for name in places if name in _DATES), None)
    if day is None or not table.rows or _has_clock(table.rows[0][day]):
        return table
    clock = next((places[n] for n in places if n in _CLOCKS and _is_clock(table, places[n])), None)
    if clock is not None:
        return _joined(
            table, [day, clock], [f"{row[day].strip()} {row[clock].strip()}" for row in table.rows]
        )
    hour = next((places[name] for name in places if name in _HOURS and places[name] != day), None)
    return (
        table if hour is None or not hours else _joined(table, [day, hour], _days_and_hours(table, day, hour))
    )


def _is_clock(table: Table, at: int) -> bool:
    return _CLOCK_TIME.fullmatch(table.rows[0][at].strip()) is not None


def _has_clock(text: str) -> bool:
    return ":" in text or is_number(text.strip())


def _of_parts(cells: list[str]) -> str:
    year, month, day, hour, *rest = (cell.strip() for cell in cells)
    return f"{year}-{month}-{day} {hour}:{(rest[0] if rest else '0').zfill(2)}"


def _days_and_hours(table: Table, day: int, hour: int) -> list[str]:
    """Date and time of each row. Raises InputError for hours that may begin at 0 or at 1."""
    hours = table.numbers(table.names[hour])
    wrong = ~((hours >= 0) & (hours <= 24) & (hours == np.floor(hours)))
    if wrong.any():
        at = int(np.argmax(wrong))
        found = shortened(table.rows[at][hour].strip(), 40)
        raise table.error(at, f"{table.names[hour]}: found {found!r}, expected an hour from 0 to 24")
    from_zero, to_24 = bool((hours == 0).any()), bool((hours == 24).any())
    if from_zero == to_24:
        found = "both 0 and 24" if from_zero else "neither 0 nor 24"
        raise InputError(
            table.path,
            f"column {shortened(table.names[hour], 40)!r} has {found}, so that its hours may begin or end at"
            " their number: write the times in one column, such as 2019-06-01 05:00",
        )
    texts = []
    for row, number in zip(table.rows, (hours - (1 if to_24 else 0)).astype(int).tolist(), strict=True):
        texts.append(f"{row[day].strip()} {number}:00")
    return texts


def _joined(table: Table, columns: list[int], texts: list[str]) -> Table:
    zone = " ".join(table.names[at] for at in columns if "(" in table.names[at] or "[" in table.names[at])
    stated = re.search(r"[(\[]([^()\[\]]*)[)\]]", zone)
    name = f"time ({stated[1]})" if stated else "time"
    kept = [at for at in range(len(table.names)) if at not in columns]
    rows = [[text, *(row[at] for at in kept)] for text, row in zip(texts, table.rows, strict=True)]
    return replace(table, names=(name, *(table.names[at] for at in kept)), rows=rows)


def choose_column(path: PathLike, names: list[str], wanted: str | None) -> str:
    """The column that the user names, in full or by a part that only one column has.

    Raises InputError that lists the columns.
    """
    listing = f"its columns are: {listed(names)}"
    if wanted is None:
        if len(names) == 1:
            return names[0]
        raise InputError(
            path, f"has several columns, choose one with --pv-column or --wind-column; {listing}"
        )
    if names.count(wanted) == 1:
        return wanted
    matches = [name for name in names if wanted.lower() in name.lower()]
    if len(matches) != 1:
        problem = "matches more than one column" if matches else "is not a column"
        raise InputError(path, f"{wanted!r} {problem}; {listing}")
    return matches[0]


def value_columns(table: Table) -> list[str]:
    """The names of all columns but those of times, and that of the numbers of rows (unnamed)."""
    time_name = time_column(table)
    return [
        name for name in table.names if name and name != time_name and not (is_start(name) or is_end(name))
    ]


def is_start(name: str) -> bool:
    """Whether a column's name is that of times at which intervals begin."""
    return bool(name.strip()) and without_zone(name) in _START_NAMES


def is_end(name: str) -> bool:
    """Whether a column's name is that of times at which intervals end."""
    return without_zone(name) in _END_NAMES


def time_column(table: Table) -> str | None:
    """The name of the column of times, by its usual names, or else the only column of dates, or None.

    An unnamed column of dates is what `DataFrame.to_csv` writes as an index. Of several names, one that
    states UTC is preferred. Raises InputError for several columns of dates without a usual name.
    """
    names = [name for name in table.names if is_start(name)]
    names = names or [name for name in table.names if is_end(name)]
    utc = [name for name in names if "utc" in name.lower() or "gmt" in name.lower()]
    if utc or names:
        return (utc or names)[0]
    first = table.rows[0] if table.rows else []
    dated = [name for name, cell in zip(table.names, first, strict=False) if is_date(cell)]
    if len(dated) > 1:
        raise InputError(
            table.path,
            f"has several columns of dates, {listed(dated)}: rename the one with the start of each row to"
            " 'time'",
        )
    return dated[0] if dated else None


class ColumnTimes(NamedTuple):
    """Times of a column."""

    seconds: IntArray
    """Seconds since 1970 (UTC), or from the start of the file."""
    dated: bool
    """Whether they are since 1970."""
    exists: BoolArray
    """Whether the local clocks show each of the times."""
    notes: tuple[str, ...]
    clock: str
    """Reason why a time zone that the user gives does not apply; empty where it does."""


_COMPACT: Final = re.compile(
    r"((?:19|20)\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"
    r"(?:[T :]?([01]\d|2[0-4])(?::?([0-5]\d))?([0-5]\d)?)?(Z?)"
)
"""A date such as 20240601, 2024060112, 202406011230 or 20240601T123000Z."""
_DAY_NUMBERS: Final = (20_000.0, 80_000.0)
"""Days since 1900 of dates from 1954 to 2119."""


def _with_dates(table: Table, name: str) -> Table:
    """Return a table in which a column of compact dates has these in parts."""
    at = table.names.index(name)
    rows = []
    for row in table.rows:
        match = _COMPACT.fullmatch(row[at].strip())
        assert match is not None
        year, month, day, hour, minute, second, zone = match.groups()
        text = f"{year}-{month}-{day} {hour or '00'}:{minute or '00'}:{second or '00'}{zone}"
        rows.append([*row[:at], text, *row[at + 1 :]])
    return replace(table, rows=rows)


def column_times(
    table: Table, name: str, order: DateOrder | None = None, zone: tzinfo | None = None
) -> ColumnTimes:
    """Read a column of times: dates, seconds or milliseconds since 1970, or seconds from the start."""
    texts = table.texts(name)
    if texts and all(_COMPACT.fullmatch(text) for text in texts):
        table = _with_dates(table, name)
    if not texts or not is_number(texts[0]) or _COMPACT.fullmatch(texts[0]):
        times = table.clock_times(name, order, zone)
        notes = times.notes
        if zone is None and not times.clock:
            notes += ("times state no time zone: read as UTC (--timezone gives another)",)
        return ColumnTimes(times.seconds, True, times.exists, notes, times.clock)
    seconds = table.numbers(name)
    for at in np.flatnonzero(np.isnan(seconds)).tolist():
        raise table.error(at, f"{name}: the time is missing")
    if _DAY_NUMBERS[0] < seconds[0] < _DAY_NUMBERS[1] and np.any(seconds % 1.0):
        found_text = shortened(texts[0], 40)
        raise table.error(
            0,
            f"{name}: found {found_text!r}, a spreadsheet's number of a day: write dates such as"
            " 2019-06-01 05:00",
        )
    if seconds[0] > 1000 * EPOCH_FROM_S:
        seconds = seconds / 1000.0
    for at in np.flatnonzero(np.abs(seconds) > LATEST_S).tolist():
        raise table.error(
            at, f"{name}: found {shortened(texts[at], 40)!r}, expected a time of at most {LATEST_S:g} s"
        )
    dated = bool(seconds[0] > EPOCH_FROM_S)
    clock = "its times are seconds since 1970" if dated else "its times are not dates"
    whole = np.round(seconds).astype(np.int64)
    return ColumnTimes(whole, dated, np.ones(len(whole), dtype=np.bool_), (), clock)


def existing_rows(
    table: Table, times_s: IntArray, exists: BoolArray, names: Sequence[str]
) -> tuple[Table, IntArray]:
    """Return a table and its times without the rows at times that the clocks skip in spring.

    Raises InputError for such a row with a value in one of the columns ``names``.
    """
    if exists.all():
        return table, times_s
    columns = [table.names.index(name) for name in names]
    for row in np.flatnonzero(~exists).tolist():
        if any(table.rows[row][at].strip().lower() not in NOTHING for at in columns):
            raise table.error(
                row,
                "has a value for an hour that the change to summer time skips: are the timestamps really"
                " local time? (--timezone +01:00 is local time without summer time)",
            )
    rows = [row for row, kept in zip(table.rows, exists.tolist(), strict=True) if kept]
    return replace(table, rows=rows, lines=table.lines[exists]), times_s[exists]


@dataclass(frozen=True)
class RowTimes:
    """Statements of the user on the times of a table's rows."""

    interval_s: int | None = None
    """Time between rows, s, of a table without times."""
    date_order: DateOrder | None = None
    zone: tzinfo | None = None
    """Zone of times that state none; None means UTC."""

    def of(self, table: Table, names: Sequence[str]) -> tuple[Table, ColumnTimes]:
        """Return a table and the times of its rows; without rows at times that the clocks skip.

        ``names`` are the columns to be read. Raises InputError for a table without times, if ``interval_s``
        is None.
        """
        name = time_column(table)
        if name is None:
            if self.interval_s is None:
                raise InputError(table.path, "has no time column: give the time between rows with --interval")
            seconds = np.arange(len(table.rows), dtype=np.int64) * self.interval_s
            every = np.ones(len(seconds), dtype=np.bool_)
            return table, ColumnTimes(seconds, False, every, (), "it has no column of times")
        times = column_times(table, name, self.date_order, self.zone)
        table, seconds = existing_rows(table, times.seconds, times.exists, names)
        return table, times._replace(seconds=seconds, exists=times.exists[times.exists])
