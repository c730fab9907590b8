"""Dates as files write them: ISO, and what spreadsheets make of it (D/M/Y, M/D/Y, Y/M/D)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from enum import Enum

import numpy as np

from beasy_sched.arrays import IntArray
from beasy_sched.errors import InputError

_CLOCK = r"(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.0*)?)?\s*([AaPp][Mm])?)?"
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})" + _CLOCK + r"\s*(Z|UTC|[+-]\d{2}:?\d{2})?$")
_YEAR_LAST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})" + _CLOCK + r"$")


class DateOrder(str, Enum):
    """How to read 03/04/2019."""

    DAY_FIRST = "dmy"
    MONTH_FIRST = "mdy"

    @property
    def other(self) -> DateOrder:
        """The other order."""
        return DateOrder.MONTH_FIRST if self is DateOrder.DAY_FIRST else DateOrder.DAY_FIRST


def parse_moment(text: str) -> int | None:
    """Seconds since 1970 of a time with the year first (UTC where it has no offset); None for other texts."""
    match = _YEAR_FIRST.match(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second, half, zone = match.groups()
    moment = _moment(int(year), int(month), int(day), hour, minute, second, half)
    return None if moment is None else moment - _offset_s(zone)


def parse_times(
    path: str | os.PathLike[str], texts: Sequence[str], lines: IntArray, order: DateOrder | None = None
) -> tuple[IntArray, tuple[str, ...]]:
    """Seconds since 1970 (UTC) of each text, and notes on what had to be guessed.

    Where the year is last and ``order`` is not given, the order is the one whose times follow each
    other evenly; single dates that cannot be read in it are read in the other. Raises InputError with
    the line for what is not a date, and where both orders fit equally well.
    """
    if not texts or _YEAR_LAST.match(texts[0]) is None:
        return _all(path, [parse_moment(text) for text in texts], texts, lines), ()
    readings = {}
    for candidate in [order] if order else list(DateOrder):
        pairs = [_year_last(text, candidate) for text in texts]
        times = _all(path, [moment for moment, _ in pairs], texts, lines)
        swapped = [i for i, (_, as_other) in enumerate(pairs) if as_other]
        readings[candidate] = _unevenness(times), times, swapped, candidate
    best = min(readings.values(), key=lambda reading: (reading[0], len(reading[2])))
    for other in readings.values():
        same = (other[0], len(other[2])) == (best[0], len(best[2]))
        if same and not np.array_equal(other[1], best[1]):
            message = f"{texts[0]!r} may be day/month or month/day: say which with --date-order"
            raise InputError(path, message, line=int(lines[0]))
    _, times, swapped, chosen = best
    if not swapped:
        return times, ()
    shown = f"dates: {len(swapped)} (first {texts[swapped[0]]!r} at line {lines[swapped[0]]})"
    return times, (f"{shown} read as {chosen.other.value}, the others as {chosen.value}",)


def _all(
    path: str | os.PathLike[str], moments: list[int | None], texts: Sequence[str], lines: IntArray
) -> IntArray:
    for i, moment in enumerate(moments):
        if moment is None:
            raise InputError(
                path,
                f"found {texts[i]!r}, expected a time such as 2019-06-01 05:00 (UTC)",
                line=int(lines[i]),
            )
    return np.array(moments, dtype=np.int64)


def _year_last(text: str, order: DateOrder) -> tuple[int | None, bool]:
    """The moment, and whether it had to be read in the other order."""
    match = _YEAR_LAST.match(text)
    if match is None:
        return parse_moment(text), False
    first, second, year, *clock = match.groups()
    for attempt in (order, order.other):
        month, day = (second, first) if attempt is DateOrder.DAY_FIRST else (first, second)
        moment = _moment(int(year), int(month), int(day), *clock)
        if moment is not None:
            return moment, attempt is not order
    return None, False


def _moment(
    year: int,
    month: int,
    day: int,
    hour: str | None,
    minute: str | None,
    second: str | None,
    half: str | None,
) -> int | None:
    hours = int(hour or 0)
    if half:
        hours = hours % 12 + (12 if half.lower() == "pm" else 0)
    extra = timedelta(days=1) if hours == 24 else timedelta()
    try:
        moment = datetime(
            year, month, day, hours % 24 if hours == 24 else hours, int(minute or 0), int(second or 0)
        )
    except ValueError:
        return None
    try:
        moment += extra
    except OverflowError:
        return None
    return int(moment.replace(tzinfo=timezone.utc).timestamp())


def _offset_s(zone: str | None) -> int:
    if zone is None or zone in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if zone[0] == "-" else seconds


def _unevenness(times: IntArray) -> int:
    """How many neighbours are not the most frequent distance apart."""
    gaps = np.diff(times).tolist()
    if not gaps:
        return 0
    distance, count = Counter(gaps).most_common(1)[0]
    return len(gaps) - count + (len(gaps) if distance <= 0 else 0)
