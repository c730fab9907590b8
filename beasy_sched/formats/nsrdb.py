"""Exports of the NSRDB (PSM v3 and v4): two lines on the place, then Year,Month,Day,Hour,Minute and weather.

Times are in the "Time Zone" of the second line, hours from UTC. A row of an hourly file is at the middle
of its hour.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.decoding import csv_line
from beasy_sched.formats.table import FLAGGED, TimeSeries, parse_table
from beasy_sched.formats.time_columns import joined_times
from beasy_sched.formats.weather_columns import weather_series
from beasy_sched.formats.weather_exports import degrees
from beasy_sched.limits import shortened
from beasy_sched.units import SECONDS_PER_HOUR

_ZONE: Final = "Time Zone"
_TIMES: Final = ["Year", "Month", "Day", "Hour"]
_FLAG: Final = "Fill Flag"


def is_nsrdb_header(cells: list[str]) -> bool:
    """Whether a line names the parts of the first line of an NSRDB export."""
    return _ZONE in cells and "Local Time Zone" in cells


def parse_nsrdb(path: PathLike, text: str, column: str | None = None) -> TimeSeries:
    """Read the CSV export; ``column`` chooses one column of weather. Raises InputError."""
    raw = parse_table(path, text, lambda cells: cells[:4] == _TIMES)
    blocks = [csv_line(line) for line in raw.preamble if line.strip()]
    at = next((row for row, cells in enumerate(blocks) if is_nsrdb_header(cells)), len(blocks))
    place = dict(zip(blocks[at], blocks[at + 1], strict=False)) if at + 1 < len(blocks) else {}
    offset_h = degrees(place.get(_ZONE), 15.0)
    if offset_h is None:
        found = shortened(place.get(_ZONE, ""), 40)
        raise InputError(path, f"{_ZONE}: found {found!r}, expected hours from UTC such as -7", line=at + 2)
    table = joined_times(raw)
    times, _ = table.times("time")
    names = [column] if column else [name for name in table.names if name != "time"]
    units = {
        name[: -len(" Units")]: unit.replace("Degree", "deg")
        for name, unit in place.items()
        if name[-6:] == " Units"
    }
    series = weather_series(
        table,
        times - round(offset_h * SECONDS_PER_HOUR),
        names,
        units={name: unit for name, unit in units.items() if unit},
        more={FLAGGED: table.numbers(_FLAG)} if _FLAG in table.names else None,
        notes=("is an NSRDB export", *([f"times are UTC{offset_h:+g}"] if offset_h else [])),
    )
    assert series.start_s is not None
    middle = series.interval_s == SECONDS_PER_HOUR and bool(np.all(times % 3600 == 1800))
    return replace(
        series,
        technology="weather",
        start_s=series.start_s - (1800 if middle else 0),
        latitude_deg=degrees(place.get("Latitude"), 90.0),
        longitude_deg=degrees(place.get("Longitude"), 360.0),
    )
