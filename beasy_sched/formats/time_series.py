"""A series of weather or power on a regular grid of times: what every reader of such files returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, IntArray
from beasy_sched.errors import InputError

if TYPE_CHECKING:
    from beasy_sched.formats.table import Table

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
"""Above 0 where the provider marked the row as filled in by itself."""

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
    """By the names of this module: ``power_w``, ``irradiance_w_m2``, ``wind_speed_m_s``, ..."""
    lines: IntArray
    """The file's line of each interval, 0 where it has none."""
    start_s: int | None = None
    """Start of the first interval, seconds since 1970 (UTC); None for a file without dates."""
    capacity_w: float | None = None
    """Capacity that ``power_w`` is for, where the file states it."""
    technology: str | None = None
    """``"pv"``, ``"wind"``, ``"weather"``, or None where the file does not tell."""
    notes: tuple[str, ...] = ()
    """What the reader repaired or assumed, for the user to see."""
    wind_height_m: float | None = None
    """Height above the ground of the wind speed, where the file states it."""
    longitude_deg: float | None = None
    """East of Greenwich, where the file states it."""

    def __len__(self) -> int:
        return len(self.lines)

    def time_text(self, index: int) -> str:
        """When interval ``index`` starts, for messages."""
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
) -> TimeSeries:
    """Sort the rows of ``table`` by time and put them on a grid of their most frequent spacing.

    Rows that are missing become NaN. Raises InputError, naming the line, for times that repeat with
    other values, that are off the grid, or that leave most of the grid empty, and for values that no
    power, irradiance or wind speed can have.
    """
    if len(times_s) < 2:
        raise InputError(table.path, f"has {len(times_s)} rows of data, expected at least 2")
    for name, values in columns.items():
        low, high = _PLAUSIBLE.get(name, (-np.inf, np.inf))
        for at in np.flatnonzero((values < low) | (values > high)).tolist():
            limit = "must not be negative" if values[at] < 0 else f"at most {high:g} is possible: wrong unit?"
            raise table.error(at, f"{name} is {values[at]:g}, {limit}")
    order = np.argsort(times_s, kind="stable")
    if len(back := np.flatnonzero(np.diff(times_s) < 0)):
        notes += (f"rows are not in order of time (first at line {table.lines[back[0] + 1]}): sorted",)
    order, repeats = _without_repeats(table, times_s, columns, order)
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


def _without_repeats(
    table: Table, times_s: IntArray, columns: Mapping[str, FloatArray], order: IndexArray
) -> tuple[IndexArray, tuple[str, ...]]:
    """Drop rows that repeat a time with the same values, with a note; refuse those with others."""
    repeats = np.flatnonzero(np.diff(times_s[order]) == 0)
    if not len(repeats):
        return order, ()
    for first, second in zip(order[repeats], order[repeats + 1], strict=True):
        if not all(np.array_equal(v[first], v[second], equal_nan=True) for v in columns.values()):
            raise table.error(
                second,
                f"repeats the time of line {table.lines[first]} with other values; times must be UTC "
                "(local times repeat an hour in autumn)",
            )
    line = table.lines[order[repeats[0] + 1]]
    note = f"rows that repeat the one before: {len(repeats)} (first at line {line})"
    return np.delete(order, repeats + 1), (note,)


def _grid(table: Table, times_s: IntArray, order: IndexArray, dated: bool) -> tuple[int, IntArray]:
    """The spacing of the grid (s) and the slot on it of each row in ``order``."""
    times = times_s[order]
    gaps = np.diff(times)
    sizes, counts = np.unique(gaps, return_counts=True)
    interval = int(sizes[np.argmax(counts)])
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
        message = f"jumps from {before} to {after}: is a date misread? (see --date-order)"
        raise table.error(order[at + 1], message)
    return interval, slots
