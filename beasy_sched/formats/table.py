"""Tables in text files as people leave them, and the series of weather or power that they hold.

Tables have comment lines, spreadsheet damage, unusual line ends; their cells numbers, and dates, in ISO form
or as spreadsheets write them (D/M/Y, M/D/Y, Y/M/D). Every reader of weather or power returns a series on a
regular grid of times.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.decoding import csv_line, csv_rows
from beasy_sched.formats.local_time import AMBIGUOUS, stated_zone, to_utc
from beasy_sched.formats.reading import plain_bytes, read_bytes
from beasy_sched.limits import LONGEST_NAME, MOST_TABLE_BYTES, listed, shortened
from beasy_sched.model.choices import DateOrder
from beasy_sched.numbers import ANY_NUMBER, number_in, plain
from beasy_sched.units import SECONDS_PER_HOUR, counted

NOTHING = frozenset({"", "-", "n/e", "na", "n/a", "nan", "null", "none"})
"""Texts, in lower case, that files write where there is no value."""
DELIMITERS = (",", ";", "\t")
"""Possible delimiters of the cells of a line."""


@dataclass(frozen=True)
class Table:
    """The cells of a file, as text."""

    path: str
    preamble: tuple[str, ...]
    """The lines above the header line, unchanged."""
    names: tuple[str, ...]
    rows: list[list[str]]
    lines: IntArray
    """1-based line of each row, 0 where it has none."""
    decimal_comma: bool = False
    thousands: str = ""
    """Mark between thousands, where the format has one."""

    def error(self, row: int, message: str) -> InputError:
        """An error that names the line of a row."""
        return InputError(self.path, message, line=int(self.lines[row]) or None)

    def texts(self, name: str) -> list[str]:
        """One column as text. Raises InputError where the file has no such column."""
        if name not in self.names:
            raise InputError(self.path, f"has no column {name!r}; its columns are: {listed(self.names)}")
        index = self.names.index(name)
        return [row[index].strip() for row in self.rows]

    def numbers(self, name: str) -> FloatArray:
        """One column as numbers, NaN where a cell is empty. Raises InputError with the line."""
        texts = self._with_points(name, self.texts(name))
        try:
            plain("".join(texts))
            values = np.array(texts, dtype=np.float64)
        except ValueError:
            values = np.array([self._number(text, i, name) for i, text in enumerate(texts)])
        wrong = np.abs(values) > ANY_NUMBER.most
        if wrong.any():
            at = int(np.argmax(wrong))
            raise self.error(
                at,
                f"{name}: found {shortened(texts[at], 40)!r}, expected {ANY_NUMBER.expected_not(values[at])}",
            )
        return values

    def _with_points(self, name: str, texts: list[str]) -> list[str]:
        """Numbers with a decimal point and without marks between thousands.

        Raises InputError where a point or comma may be either.
        """
        if not self.decimal_comma and not self.thousands:
            return texts
        mark = self.thousands or "."
        grouped = re.compile(_GROUPED.replace("T", re.escape(mark)))
        groups = [grouped.fullmatch(text) is not None for text in texts]
        if not self.thousands and any("," in text for text in texts):
            for at, text in enumerate(texts):
                if "." in text and not groups[at]:
                    found = f"{name}: found {shortened(text, 40)!r}, but other rows have decimal commas"
                    raise self.error(at, f"{found}: expected decimal points or decimal commas in all of them")
        elif not self.thousands:
            if any(groups) and _are_thousands(texts, groups):
                at = groups.index(True)
                found = (
                    f"{name}: found {shortened(texts[at], 40)!r}, whose point may mark thousands or decimals"
                )
                raise self.error(at, f"{found}: write numbers without marks between thousands")
            return texts
        texts = [text.replace(mark, "") if group else text for text, group in zip(texts, groups, strict=True)]
        return [text.replace(",", ".") for text in texts] if self.decimal_comma else texts

    def times(self, name: str, order: DateOrder | None = None) -> tuple[IntArray, tuple[str, ...]]:
        """One column as seconds since 1970 (UTC), and notes on assumptions, as `clock_times` reads them."""
        times = self.clock_times(name, order)
        return times.seconds, times.notes

    def clock_times(
        self,
        name: str,
        order: DateOrder | None = None,
        zone: tzinfo | None = None,
    ) -> ClockTimes:
        """One column as seconds since 1970 (UTC): by the offsets in it, its name, or else by ``zone``.

        Times that state nothing are UTC where ``zone`` is None. Where the year is last and ``order`` is not
        given, the order of day and month is the one whose times follow each other evenly; single dates that
        are invalid in it are read in the other. Raises InputError with the line for what is not a date, where
        both orders fit equally well, where only some times state an offset, and for a name with a zone that
        may or may not have summer time.
        """
        moments, notes = self._moments(self.texts(name), order)
        local_s = np.array([moment.local_s for moment in moments], dtype=np.int64)
        everywhere = np.ones(len(local_s), dtype=np.bool_)
        offsets = [moment.offset_s for moment in moments]
        if any(offset is not None for offset in offsets):
            if None in offsets and any(offsets):
                at = offsets.index(None)
                found = f"found {shortened(self.texts(name)[at], 40)!r}, other rows state an offset from UTC"
                raise self.error(at, f"{found}: expected one in each row, or in none")
            ahead_s = np.array([offset or 0 for offset in offsets], dtype=np.int64)
            return ClockTimes(local_s - ahead_s, everywhere, notes, "its times state their offset from UTC")
        stated, label = zone_in_name(name)
        clock = "" if stated is None else f"its column {shortened(name, 60)!r} states {label}"
        if stated is None and label and zone is None:
            raise InputError(
                self.path,
                f"column {shortened(name, 60)!r} is in {label}: give the time zone (--timezone, or zone of a"
                " price file), such as Europe/Berlin for times with summer time or +01:00 for times without",
            )
        if (meant := stated or zone) is None:
            return ClockTimes(local_s, everywhere, notes, clock)
        utc_s, exists = to_utc(local_s, meant)
        shown = label if stated is not None else str(zone)
        return ClockTimes(
            utc_s, exists, (*notes, *(() if shown == "UTC" else (f"times are {shown}",))), clock
        )

    def _moments(self, texts: Sequence[str], order: DateOrder | None) -> tuple[list[Moment], tuple[str, ...]]:
        if not texts or _YEAR_LAST.match(texts[0]) is None:
            return self._known(texts, [read_moment(text) for text in texts]), ()
        readings = []
        for candidate in [order] if order else list(DateOrder):
            pairs = [_year_last(text, candidate) for text in texts]
            moments = self._known(texts, [moment for moment, _ in pairs])
            swapped = [i for i, (_, as_other) in enumerate(pairs) if as_other]
            unevenness = _unevenness(np.array([moment.local_s for moment in moments], dtype=np.int64))
            readings.append(((unevenness, len(swapped)), moments, swapped, candidate))
        rank, moments, swapped, chosen = min(readings, key=lambda reading: reading[0])
        if any(other[0] == rank and other[1] != moments for other in readings):
            message = f"{texts[0]!r} may be day/month or month/day: specify which with --date-order"
            raise self.error(0, message)
        if not swapped:
            return moments, ()
        shown = f"dates: {len(swapped)} (first {texts[swapped[0]]!r} at line {self.lines[swapped[0]]})"
        return moments, (f"{shown} read as {chosen.other.value}, the others as {chosen.value}",)

    def _known(self, texts: Sequence[str], moments: list[Moment | None]) -> list[Moment]:
        if None in moments:
            at = moments.index(None)
            raise self.error(
                at, f"found {shortened(texts[at], 40)!r}, expected a time such as 2019-06-01 05:00 (UTC)"
            )
        return [moment for moment in moments if moment is not None]

    def _number(self, text: str, row: int, name: str) -> float:
        if text.lower() in NOTHING:
            return float("nan")
        try:
            return number_in(text)
        except ValueError:
            raise self.error(row, f"{name}: found {shortened(text, 40)!r}, expected a number") from None


def read_table_text(path: PathLike) -> str:
    """The text of a file, gzip or not: UTF-8, UTF-16, or else Latin-1. Raises InputError."""
    return table_text(read_bytes(path, most=MOST_TABLE_BYTES, what="for a table"), path)


def table_text(packed: bytes, path: PathLike) -> str:
    """The text of a file's bytes, as `read_table_text` returns it. Raises InputError."""
    data = plain_bytes(packed, path, most=MOST_TABLE_BYTES)
    if b"\0" in data[:4096]:
        raise InputError(path, "is not a text file (a spreadsheet? save it as CSV)")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse_table(path: PathLike, text: str, is_header: Callable[[list[str]], bool]) -> Table:
    """Find the header line (the first whose cells ``is_header`` accepts) and the rows below it.

    Cells may be divided by commas, semicolons (with decimal commas) or tabs; empty columns at the end
    and empty lines are dropped. Raises InputError for rows that do not fit the header, and for JSON.
    """
    if re.match(r"\s*(\{|\[\s*[\[{])", text):
        raise InputError(path, "is JSON in a form that is unknown: expected a table (CSV)", line=1)
    lines = text.splitlines()
    for number, line in enumerate(lines):
        readings = [(_stripped(csv_line(line, d)), d) for d in DELIMITERS]
        headers = [(names, d) for names, d in readings if names and is_header(names)]
        if headers:
            names, delimiter = max(headers, key=lambda header: len(header[0]))
            if max(map(len, names)) > LONGEST_NAME:
                begins = shortened(max(names, key=len), 40)
                message = f"the name of a column is longer than {LONGEST_NAME} characters: {begins!r}"
                raise InputError(path, f"{message}; expected a line that names the columns", line=number + 1)
            rows, places = _rows(path, lines, number + 1, delimiter, len(names))
            decimal_comma = delimiter == ";"
            return Table(os.fspath(path), tuple(lines[:number]), tuple(names), rows, places, decimal_comma)
    raise InputError(path, f"no header line was found in {counted(len(lines), 'line')}")


def _rows(
    path: PathLike, lines: list[str], skipped: int, delimiter: str, width: int
) -> tuple[list[list[str]], IntArray]:
    rows, places = [], []
    text = "\n".join(lines[skipped:])
    for line, cells in csv_rows(text, path, delimiter=delimiter, skipped=skipped):
        if not any(cell.strip() for cell in cells):
            continue
        cut_off = len(cells) < width
        if cut_off or any(cell.strip() for cell in cells[width:]):
            count = len(cells) if cut_off else len(_stripped(cells))
            found = f"has {counted(count, 'value')} but the header has {counted(width, 'column')}"
            guess = ": is the file truncated?" if cut_off else " (decimal commas?)"
            raise InputError(path, found + guess, line=line)
        rows.append(cells)
        places.append(line)
    return rows, np.array(places, dtype=np.int64)


def _stripped(cells: list[str]) -> list[str]:
    """Cells without blanks around them and without the empty ones at the end."""
    cells = [cell.strip() for cell in cells]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _are_thousands(texts: Sequence[str], groups: Sequence[bool]) -> bool:
    """Whether the points of numbers seem to mark thousands: no other points, and integers from 100 to 999."""
    points = [group for text, group in zip(texts, groups, strict=True) if "." in text]
    small = any(re.fullmatch(r"-?[1-9]\d{2}", text) for text in texts)
    return all(points) and small and not any(text.lstrip("-").startswith("0.") for text in texts)


_GROUPED = r"-?\d{1,3}(T\d{3})+([.,]\d*)?"
"""A number with a mark (T) between its thousands."""
_CLOCK = (
    r"(?:(?:,?[T ]+|,)(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d*)?)?\s*([AaPp]\.?[Mm]\.?)?"
    r"\s*\(?(Z|UTC|GMT|CEST|CET|MESZ|MEZ|[+-]\d{2}(?::?\d{2})?)?\)?)?"
)
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})" + _CLOCK + "$")
_YEAR_LAST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})" + _CLOCK + "$")
_MONTH_FIRST = re.compile(r"([A-Za-z]{3,9})\.? (\d{1,2}),? (\d{4})" + _CLOCK + "$")
_MONTH_MIDDLE = re.compile(r"(\d{1,2})[- .]([A-Za-z]{3,9})\.?[- ,]{1,2}(\d{4})" + _CLOCK + "$")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LABELS_H = {"Z": 0, "UTC": 0, "GMT": 0, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2}


class ClockTimes(NamedTuple):
    """Times of the rows of a table."""

    seconds: IntArray
    """Seconds since 1970 (UTC)."""
    exists: BoolArray
    """Whether the clocks show each of the times: False for an hour that spring skips."""
    notes: tuple[str, ...]
    clock: str
    """Reason why a zone given by the user is not needed; empty where it is."""


class Moment(NamedTuple):
    """A time of a file."""

    local_s: int
    """Seconds since 1970 on the clock that it was read from."""
    offset_s: int | None
    """Seconds by which that clock is ahead of UTC, if stated."""


def parse_moment(text: str) -> int | None:
    """Seconds since 1970 of a time with the year first (UTC where it has no offset); None for other texts."""
    moment = read_moment(text)
    return None if moment is None else moment.local_s - (moment.offset_s or 0)


def read_moment(text: str) -> Moment | None:
    """Read a time with the year first or the name of its month; None for other texts."""
    text = text.strip()
    if match := _YEAR_FIRST.match(text):
        return _moment(*match.groups())
    if match := _MONTH_FIRST.match(text):
        name, day, year, *clock = match.groups()
    elif match := _MONTH_MIDDLE.match(text):
        day, name, year, *clock = match.groups()
    else:
        return None
    month = next((number for number, start in enumerate(_MONTHS, 1) if name[:3].lower() == start), None)
    return None if month is None else _moment(year, str(month), day, *clock)


def is_date(text: str) -> bool:
    """Whether a string is a date, with a time of day or without, in any order of its parts."""
    return read_moment(text) is not None or any(_year_last(text.strip(), o)[0] is not None for o in DateOrder)


def _year_last(text: str, order: DateOrder) -> tuple[Moment | None, bool]:
    """The moment, and whether it had to be read in the other order."""
    match = _YEAR_LAST.match(text)
    if match is None:
        return read_moment(text), False
    first, second, year, *clock = match.groups()
    for attempt in (order, order.other):
        month, day = (second, first) if attempt is DateOrder.DAY_FIRST else (first, second)
        moment = _moment(year, month, day, *clock)
        if moment is not None:
            return moment, attempt is not order
    return None, False


def _moment(year: str, month: str, day: str, *clock: str | None) -> Moment | None:
    """Read the parts of a time; ``clock`` has hour, minute, second, AM or PM, and zone, or None for each."""
    hour, minute, second, half, zone = clock
    hours = int(hour or 0)
    if half:
        hours = hours % 12 + (12 if half[0].lower() == "p" else 0)
    time = 0 if hours == 24 else hours, int(minute or 0), int(second or 0)
    try:
        moment = datetime(int(year), int(month), int(day), *time, tzinfo=timezone.utc)
        local_s = int((moment + timedelta(days=hours // 24)).timestamp())
    except (ValueError, OverflowError):
        return None
    return Moment(local_s, None if zone is None else _offset_s(zone))


def _offset_s(zone: str) -> int:
    if (ahead_h := _LABELS_H.get(zone)) is not None:
        return round(ahead_h * SECONDS_PER_HOUR)
    digits = zone[1:].replace(":", "").ljust(4, "0")
    ahead_s = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -ahead_s if zone[0] == "-" else ahead_s


_LOCAL_NAMES = frozenset(
    (
        *(
            "local",
            "lokal",
            "lt",
            "lst",
            "wet",
            "west",
            "eet",
            "eest",
            "bst",
            "ist",
            "est",
            "edt",
            "ept",
            "cst",
        ),
        *("cdt", "cpt", "mst", "mdt", "pst", "pdt", "ppt", "aest", "aedt"),
    )
)
"""Words in a column's name by which its times are local, in lower case, without their offset from UTC."""


def zone_in_name(name: str) -> tuple[tzinfo | None, str]:
    """Return the zone that a column's name states, and its text: ``time (UTC)``, ``cet_cest_timestamp``.

    A string without a zone is one that may have summer time or not, such as CET. The text is empty for other
    names.
    """
    words = _words(name)
    lower = [word.lower() for word in words]
    for winter, summer in (("cet", "cest"), ("mez", "mesz")):
        if winter in lower and summer in lower:
            return stated_zone("CET/CEST"), "CET/CEST"
    for word in words:
        if word.lower() != "z" and (zone := stated_zone(word)) is not None:
            return zone, word
    if "settlementdate" in lower:  # AEMO, whose market has no summer time
        return None, "the market's time"
    local = next((word for word in words if word.lower() in _LOCAL_NAMES or word.upper() in AMBIGUOUS), "")
    return None, "local time" if local.lower() in ("local", "lokal", "lt") else local


def without_zone(name: str) -> str:
    """Return a column's name in lower case without the zone that it states, its words divided by blanks."""
    words = (word.lower() for word in _words(name))
    return " ".join(word for word in words if word == "settlementdate" or zone_in_name(word) == (None, ""))


def _words(name: str) -> list[str]:
    joined = re.sub(r"\b(UTC|GMT)\s+(?=[+-]\d)", r"\1", name[:LONGEST_NAME], flags=re.IGNORECASE)
    return [word for word in re.split(r"[\s_()\[\],;]+", joined) if word]


def _unevenness(times: IntArray) -> int:
    """Return the number of neighbours that are not the most frequent distance apart."""
    gaps = np.diff(times).tolist()
    distance, count = Counter(gaps).most_common(1)[0] if gaps else (1, 0)
    return len(gaps) - count + (len(gaps) if distance <= 0 else 0)


POWER = "power_w"
IRRADIANCE = "irradiance_w_m2"
WIND_SPEED = "wind_speed_m_s"
TEMPERATURE = "temperature_c"
CLOUD_COVER_SHARE = "cloud_cover"
"""The covered share of the sky, 0 to 1."""
CLEARNESS_INDEX = "clearness_index"
"""Irradiance on the ground relative to that above the atmosphere."""
CLEAR_SKY = "clear_sky_w_m2"
"""Irradiance as it would be without clouds."""
FLAGGED = "flagged"
"""Column above 0 where the provider marked the row as filled in by itself."""

_LONGEST_INTERVAL_S = 6 * 3600
_PLAUSIBLE = {
    POWER: (0.0, 1e12),
    IRRADIANCE: (0.0, 1600.0),
    WIND_SPEED: (0.0, 120.0),
    CLOUD_COVER_SHARE: (0.0, 1.0),
}
"""Least and largest value that a quantity can have; beyond it, the unit is wrong."""


@dataclass(frozen=True)
class TimeSeries:
    """Means over intervals of equal length; NaN where the file has nothing."""

    path: str
    interval_s: int
    columns: Mapping[str, FloatArray]
    """Values by the names of this module: ``power_w``, ``irradiance_w_m2``, ``wind_speed_m_s``, ..."""
    lines: IntArray
    """Line of each interval in the file, 0 where it has none."""
    start_s: int | None = None
    """Start of the first interval, seconds since 1970 (UTC); None for a file without dates."""
    capacity_w: float | None = None
    """Capacity that ``power_w`` is for, where the file states it."""
    technology: str | None = None
    """Technology: ``"pv"``, ``"wind"``, ``"weather"``, or None if the file does not state it."""
    notes: tuple[str, ...] = ()
    """Notes for the user on what the reader repaired or assumed."""
    wind_height_m: float | None = None
    """Height above the ground of the wind speed, where the file states it."""
    longitude_deg: float | None = None
    """Longitude, degrees east of Greenwich, where the file states it."""
    latitude_deg: float | None = None
    """Latitude, degrees north, where the file states it."""
    nights_at_deg: tuple[float, float] | None = None
    """Latitude and longitude by whose nights gaps were counted as 0; None where they were not."""
    clock: str = "its format states its time zone"
    """Reason why a time zone that the user gives does not apply; empty where it does."""

    def __len__(self) -> int:
        return len(self.lines)

    def time_text(self, index: int) -> str:
        """Return the start of interval ``index`` as text for messages."""
        return time_text(self.start_s, index * self.interval_s)


def time_text(start_s: int | None, offset_s: float) -> str:
    """A time as ``2019-06-01 05:00`` UTC, or as seconds from the file's start where it has no dates."""
    if start_s is None:
        return f"{offset_s:g} s from the start"
    try:
        moment = datetime.fromtimestamp(start_s + offset_s, timezone.utc)
    except (ValueError, OverflowError, OSError):  # no year from 1 to 9999
        return f"{offset_s:g} s after {start_s} s since 1970"
    return moment.strftime("%Y-%m-%d %H:%M")


def on_grid(
    table: Table,
    times_s: IntArray,
    columns: Mapping[str, FloatArray],
    *,
    dated: bool = True,
    notes: tuple[str, ...] = (),
    clip_negative: bool | None = None,
) -> TimeSeries:
    """Sort the rows of ``table`` by time and put them on a grid of their most frequent spacing.

    Rows that are missing become NaN. Raises InputError, naming the line, for times that repeat with
    other values, that are off the grid, or that leave most of the grid empty, and for values that no
    power, irradiance or wind speed can have. ``clip_negative`` counts negative power as 0, with a note; None
    where the user has no option for that.
    """
    if len(times_s) < 2:
        raise InputError(table.path, f"has {counted(len(times_s), 'row')} of data, expected at least 2")
    if clip_negative and POWER in columns:
        clipped, clippings = _clipped(table, columns[POWER])
        columns, notes = {**columns, POWER: clipped}, notes + clippings
    for name, values in columns.items():
        low, high = _PLAUSIBLE.get(name, (-np.inf, np.inf))
        for at in np.flatnonzero((values < low) | (values > high)).tolist():
            limit = "must not be negative" if values[at] < 0 else f"at most {high:g} is possible: wrong unit?"
            if name == POWER and values[at] < 0 and clip_negative is False:
                limit += (
                    " (--clip-negative counts negative power as 0, such as an inverter's own demand at night)"
                )
            raise table.error(at, f"{name} is {values[at]:g}, {limit}")
    order = np.argsort(times_s, kind="stable")
    if len(back := np.flatnonzero(np.diff(times_s) < 0)):
        notes += (f"rows are not in order of time (first at line {table.lines[back[0] + 1]}): sorted",)
    order, repeats = _without_repeats(table, times_s, columns, order)
    if len(order) < 2:
        raise InputError(table.path, "has one time only, expected at least 2")
    interval, slots = _grid(table, times_s, order, dated)
    size = int(slots[-1]) + 1
    lines = np.zeros(size, dtype=np.int64)
    lines[slots] = table.lines[order]
    gridded = {}
    for name, values in columns.items():
        gridded[name] = np.full(size, np.nan)
        gridded[name][slots] = values[order]
    start = int(times_s[order[0]]) if dated else None
    return TimeSeries(table.path, interval, gridded, lines, start, notes=notes + repeats)


def _clipped(table: Table, power_w: FloatArray) -> tuple[FloatArray, tuple[str, ...]]:
    """Return power without its negative values, and a note; refuse those beyond the positive ones."""
    negative = power_w < 0
    if not negative.any():
        return power_w, ()
    at = int(np.nanargmin(power_w))
    least_w, most_w = float(power_w[at]), float(np.nanmax(power_w))
    if -least_w > most_w:
        raise table.error(
            at, f"{POWER} falls to {least_w:g} and reaches {most_w:g} only: has it the other sign?"
        )
    count = counted(int(np.count_nonzero(negative)), "negative value")
    return np.where(negative, 0.0, power_w), (f"{count} counted as 0 (the least is {least_w:g} W)",)


def _usual_interval_s(times_s: IntArray) -> int:
    """Return the most frequent distance of ascending times, s; of at least two."""
    sizes, counts = np.unique(np.diff(times_s), return_counts=True)
    return int(sizes[np.argmax(counts)])


def equal_row_s(table: Table, times_s: IntArray) -> int:
    """Return the time that each row lasts, s, for values that are the energy of a row.

    Raises InputError, naming the line, where rows of another length begin: two distances in a row that are
    equal, and not the usual one. A single longer distance is a row that is missing.
    """
    times, rows = np.unique(times_s, return_index=True)
    if len(times) < 2:
        raise InputError(table.path, f"has {counted(len(times), 'row')} of data, expected at least 2")
    gaps, usual_s = np.diff(times), _usual_interval_s(times)
    others = np.flatnonzero((gaps[1:] == gaps[:-1]) & (gaps[1:] != usual_s))
    if len(others):
        found = f"rows are {gaps[others[0]]} s apart here, but most are {usual_s} s apart"
        raise table.error(int(rows[others[0]]), f"{found}: expected energies of rows of one length")
    return usual_s


def _without_repeats(
    table: Table, times_s: IntArray, columns: Mapping[str, FloatArray], order: IndexArray
) -> tuple[IndexArray, tuple[str, ...]]:
    """Drop rows that repeat a time with the same values, with a note; refuse those with others."""
    repeats = np.flatnonzero(np.diff(times_s[order]) == 0)
    if not len(repeats):
        return order, ()
    for first, second in zip(order[repeats], order[repeats + 1], strict=True):
        other = len(table.rows) == len(times_s) and table.rows[first] != table.rows[second]
        if other or not all(np.array_equal(v[first], v[second], equal_nan=True) for v in columns.values()):
            raise table.error(
                second,
                f"repeats the time of line {table.lines[first]} with other values: expected one row for each"
                " time (of local times, which repeat an hour in autumn, give --timezone)",
            )
    line = table.lines[order[repeats[0] + 1]]
    note = f"rows that repeat the one before: {len(repeats)} (first at line {line})"
    return np.delete(order, repeats + 1), (note,)


def _grid(table: Table, times_s: IntArray, order: IndexArray, dated: bool) -> tuple[int, IntArray]:
    """The spacing of the grid (s) and the slot on it of each row in ``order``."""
    times = times_s[order]
    gaps = np.diff(times)
    interval = _usual_interval_s(times)
    if interval > _LONGEST_INTERVAL_S:
        raise InputError(table.path, f"has a row every {interval / 3600:g} h, expected hourly rows or finer")
    start = int(times[0]) if dated else None
    slots, remainder = np.divmod(times - times[0], interval)
    for at in np.flatnonzero(remainder).tolist():
        message = f"{time_text(start, int(times[at] - times[0]))} is not a whole number of {interval} s from"
        raise table.error(order[at], f"{message} the first row")
    if slots[-1] > 4 * len(times) + 48:
        at = int(np.argmax(gaps))
        before, after = (time_text(start, int(times[i] - times[0])) for i in (at, at + 1))
        message = (
            f"jumps from {before} to {after}: is a date misread (--date-order), or is it a typical year"
            " (TMY), whose months are of different years? expected one row after another"
        )
        raise table.error(order[at + 1], message)
    return interval, slots
