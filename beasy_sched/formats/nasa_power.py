"""NASA POWER point exports, hourly: a header block, then ``YEAR,MO,DY,HR`` and one column a parameter.

Hours are UTC or local solar time (LST, UTC plus a whole number of hours for each 15 degrees of
longitude). An hour's irradiance, written Wh/m^2 or W/m^2, is its mean in W/m2.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import datetime, timezone

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import InputError
from beasy_sched.formats.table import IRRADIANCE_UNITS, Table, parse_table, plain_unit
from beasy_sched.formats.time_series import (
    IRRADIANCE,
    TEMPERATURE,
    WIND_SPEED,
    TimeSeries,
    on_grid,
    with_notes,
)

_IRRADIANCE_COLUMN = "ALLSKY_SFC_SW_DWN"
_WIND_COLUMNS = ("WS50M", "WS10M", "WS2M")
"""Wind speeds by height, the one nearest to a turbine's hub first."""
_HOURLY = ("YEAR", "MO", "DY", "HR")
_DEFAULT_FILL = -999.0


def is_nasa_header(cells: list[str]) -> bool:
    """Whether a header line is that of a NASA POWER export (of any time step)."""
    return cells[0] == "YEAR" or cells[:2] == ["PARAMETER", "YEAR"]


def parse_nasa_power(path: str | os.PathLike[str], text: str, wind_column: str | None = None) -> TimeSeries:
    """Read an export's text; ``wind_column`` chooses among several heights. Raises InputError."""
    table = parse_table(path, text, is_nasa_header)
    if table.names[:4] != _HOURLY:
        found = ",".join(table.names[:4])
        raise InputError(
            path, f"columns start with {found}, expected {','.join(_HOURLY)} (the hourly export)"
        )
    columns = {name: _filled(table, name) for name in _wanted(table, wind_column)}
    named: dict[str, FloatArray] = {}
    for name, values in columns.items():
        if name == _IRRADIANCE_COLUMN:
            named[IRRADIANCE] = values * _irradiance_factor(table)
        else:
            named[TEMPERATURE if name == "T2M" else WIND_SPEED] = values
    series = on_grid(path, _times(table), table.lines, named)
    series = replace(series, technology="weather")
    shift_h, note = _shift_h(table)
    assert series.start_s is not None
    series = replace(series, start_s=series.start_s - shift_h * 3600)
    speeds = [name for name in columns if name in _WIND_COLUMNS or name == wind_column]
    if speeds and (height := re.fullmatch(r"WS(\d+)M", speeds[0])):
        series = replace(series, wind_height_m=float(height[1]))
    notes = [note] if note else []
    return with_notes(series, *notes, *(f"wind speed is {name}" for name in speeds))


def _wanted(table: Table, wind_column: str | None) -> list[str]:
    """The columns that we use."""
    if wind_column is not None and wind_column not in table.names:
        table.texts(wind_column)  # raises, naming the columns that there are
    speed = wind_column or next((name for name in _WIND_COLUMNS if name in table.names), None)
    wanted = [_IRRADIANCE_COLUMN] if _IRRADIANCE_COLUMN in table.names else []
    wanted += [speed] if speed else []
    if not wanted:
        found = ", ".join(table.names[4:])
        expected = f"{_IRRADIANCE_COLUMN} for sun, or {' or '.join(_WIND_COLUMNS)} for wind"
        raise InputError(table.path, f"has neither irradiance nor wind speed: found {found}; add {expected}")
    return wanted + (["T2M"] if "T2M" in table.names else [])


def _filled(table: Table, name: str) -> FloatArray:
    """A column with NaN where the export has its fill value."""
    fill = _DEFAULT_FILL
    for line in table.preamble:
        match = re.search(r"missing .*:\s*(-?\d+(?:\.\d*)?)\s*$", line)
        fill = float(match[1]) if match else fill
    values = table.numbers(name)
    return np.where(values == fill, np.nan, values)


def _irradiance_factor(table: Table) -> float:
    """W/m2 in one of the export's irradiance unit; W/m2 where the header block is missing."""
    for line in table.preamble:
        if line.split()[:1] == [_IRRADIANCE_COLUMN]:
            match = re.search(r"\(([^()]*)\)\s*$", line)
            factor = IRRADIANCE_UNITS.get(plain_unit(match[1])) if match else None
            if factor is None:
                raise InputError(table.path, f"{_IRRADIANCE_COLUMN} is in an unknown unit: {line.strip()!r}")
            return factor
    return 1.0


def _times(table: Table) -> IntArray:
    """Seconds since 1970 of each row, in the file's own time."""
    parts = [table.numbers(name) for name in _HOURLY]
    times = np.empty(len(table.rows), dtype=np.int64)
    for i, row in enumerate(zip(*(part.tolist() for part in parts), strict=True)):
        try:
            year, month, day, hour = (int(value) for value in row)
            moment = datetime(year, month, day, hour, tzinfo=timezone.utc)
        except (ValueError, OverflowError) as error:
            raise InputError(
                table.path, f"{','.join(table.rows[i][:4])} is not an hour: {error}", line=int(table.lines[i])
            ) from None
        times[i] = int(moment.timestamp())
    return times


def _shift_h(table: Table) -> tuple[int, str | None]:
    """Hours by which the file's time is ahead of UTC, and what had to be assumed."""
    header = "\n".join(table.preamble)
    name = os.path.basename(table.path)
    standard = re.search(r"\bin (LST|UTC)\b", header) or re.search(r"_(LST|UTC)\b", name)
    if standard and standard[1] == "UTC":
        return 0, None
    longitude = re.search(r"Longitude\s+(-?\d{1,3}(?:\.\d*)?)", header)
    if longitude is None or abs(float(longitude[1])) > 360.0:
        return 0, "does not state its longitude: its hours are taken as UTC"
    shift = round(float(longitude[1]) / 15.0)
    assumed = "" if standard else " (assumed: the file does not say LST or UTC)"
    return shift, f"hours are local solar time, UTC{shift:+d}{assumed}"
