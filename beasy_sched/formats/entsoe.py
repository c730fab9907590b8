"""ENTSO-E "Actual generation per production type": MW an hour (or quarter), in Brussels time.

The local day of the change to summer time has an empty row for the hour that does not exist; that of
the change back has two rows with the same text, the first of them still in summer time.
"""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta, timezone

import numpy as np

from beasy_sched.arrays import IntArray
from beasy_sched.errors import InputError
from beasy_sched.formats.table import Table, parse_table, power_factor, unit_in_name
from beasy_sched.formats.time_series import POWER, TimeSeries, on_grid

_INTERVAL = re.compile(r"(\d{2})[./](\d{2})[./](\d{4}) (\d{2}):(\d{2})(?::\d{2})?(?: \(?[A-Z/]+\)?)? - ")
_ZONE = re.compile(r"\((UTC|CET|CEST|CET/CEST)\)")


def is_entsoe_header(cells: list[str]) -> bool:
    """Whether a header line is that of an ENTSO-E export."""
    return any(cell.startswith("MTU") for cell in cells)


def parse_entsoe(path: str | os.PathLike[str], text: str, column: str) -> TimeSeries:
    """Read the generation of one full column name. Raises InputError with line and cause."""
    table = parse_table(path, text, is_entsoe_header)
    factor = power_factor(unit_in_name(column) or "MW")
    assert factor is not None
    values = table.numbers(column) * factor
    times, exists = _times(table)
    wrong = ~exists & ~np.isnan(values)
    if wrong.any():
        line = int(table.lines[int(np.argmax(wrong))])
        message = "has a value for an hour that the change to summer time skips"
        raise InputError(path, f"{message}: are its times local at all?", line=line)
    return on_grid(path, times[exists], table.lines[exists], {POWER: values[exists]})


def _times(table: Table) -> tuple[IntArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Seconds since 1970 (UTC) of each row, and whether its local hour exists."""
    name = next(name for name in table.names if name.startswith("MTU"))
    zone = _ZONE.search(name)
    times = np.zeros(len(table.rows), dtype=np.int64)
    exists = np.ones(len(table.rows), dtype=np.bool_)
    seen: set[datetime] = set()
    for i, text in enumerate(table.texts(name)):
        match = _INTERVAL.match(text)
        if match is None:
            expected = "an interval such as '01.01.2019 00:00 - 01.01.2019 01:00 (CET)'"
            raise InputError(table.path, f"found {text!r}, expected {expected}", line=int(table.lines[i]))
        day, month, year, hour, minute = (int(part) for part in match.groups())
        try:
            local = datetime(year, month, day, hour, minute, tzinfo=timezone.utc)
        except ValueError as error:
            reason = f"{error}; expected day.month.year hour:minute"
            raise InputError(table.path, f"found {text!r}: {reason}", line=int(table.lines[i])) from None
        label = _ZONE.search(text) or zone
        if label and label[1] == "UTC":
            times[i] = int(local.timestamp())
            continue
        offset = _brussels_offset_h(local, local in seen)
        seen.add(local)
        exists[i] = offset is not None
        times[i] = int(local.timestamp()) - 3600 * (offset or 0)
    return times, exists


def _brussels_offset_h(local: datetime, second_time: bool) -> int | None:
    """Hours ahead of UTC of a Brussels time since 1996; None for the hour that spring skips."""
    spring, autumn = (_last_sunday(local.year, month) for month in (3, 10))
    if spring + timedelta(hours=2) <= local < spring + timedelta(hours=3):
        return None
    if autumn + timedelta(hours=2) <= local < autumn + timedelta(hours=3):
        return 1 if second_time else 2
    return 2 if spring < local < autumn + timedelta(hours=2) and local >= spring + timedelta(hours=3) else 1


def _last_sunday(year: int, month: int) -> datetime:
    """Midnight of the last Sunday of a month of 31 days."""
    last = datetime(year, month, 31, tzinfo=timezone.utc)
    return last - timedelta(days=(last.weekday() + 1) % 7)
