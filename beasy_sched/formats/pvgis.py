"""PVGIS' hourly exports, CSV (a block of lines above and below the table) and JSON.

Times are UTC, such as ``20200227:0010``: a value at that minute represents the hour. Power (P, in W) is for
the nominal power that the file states.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import IntArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.nested_tables import columns_table, member, one_block
from beasy_sched.formats.table import POWER, Table, TimeSeries, parse_table
from beasy_sched.formats.weather_columns import weather_series
from beasy_sched.formats.weather_exports import degrees
from beasy_sched.limits import LARGEST_NUMBER, listed, shortened
from beasy_sched.numbers import number_in

_TIME: Final = re.compile(r"(\d{4})(\d{2})(\d{2}):(\d{2})(\d{2})")


def is_pvgis_header(cells: list[str]) -> bool:
    """Whether a header line is that of an hourly PVGIS export."""
    return cells[0] == "time" and "H_sun" in cells


def is_typical_year_header(cells: list[str]) -> bool:
    """Whether a header line is that of a PVGIS typical year, or the first line of an EPW file."""
    return cells[:2] == ["time(UTC)", "T2m"] or (cells[0] == "LOCATION" and len(cells) > 8)


def parse_typical_year(path: PathLike, text: str, column: str | None = None) -> TimeSeries:
    """Raise InputError: a typical year has no dates that a window could be in."""
    raise InputError(
        path,
        "is a typical year (TMY or EPW), whose months are of different years: export hourly data of a year",
    )


def is_pvgis(contents: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an hourly PVGIS export."""
    return isinstance(member(contents, "outputs", "hourly"), list)


def parse_pvgis(path: PathLike, text: str, column: str | None = None) -> TimeSeries:
    """Read the CSV export; ``column`` chooses one column of it. Raises InputError."""
    table = parse_table(path, one_block(text, is_pvgis_header), is_pvgis_header)
    header = "\n".join(table.preamble)

    def stated(what: str) -> str | None:
        match = re.search(rf"^{what}[^:\n]*:\s*(\S+)", header, re.MULTILINE)
        return match[1] if match else None

    peak_kw = stated("Nominal power")
    return _series(table, (stated("Latitude"), stated("Longitude")), peak_kw, column)


def pvgis_series(path: PathLike, contents: Mapping[str, Any], column: str | None = None) -> TimeSeries:
    """Read the JSON export as `parse_pvgis` does."""
    rows = contents["outputs"]["hourly"]
    if not rows or not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        raise InputError(path, "outputs.hourly: expected objects with the same members")
    table = columns_table(path, {name: [row[name] for row in rows] for name in rows[0]})
    table.texts("time")  # raises where it is missing
    place = member(contents, "inputs", "location")
    peak_kw = member(contents, "inputs", "pv_module", "peak_power")
    return _series(
        table, (member(place or {}, "latitude"), member(place or {}, "longitude")), peak_kw, column
    )


def _series(table: Table, place: tuple[object, object], peak_kw: object, column: str | None) -> TimeSeries:
    names = [column] if column else [name for name in table.names if name != "time"]
    if not {"P", "G(i)"} & {*names}:
        raise InputError(
            table.path,
            f"has neither P nor G(i): found {listed(names)}; export it without radiation components",
        )
    powers = {POWER: table.numbers("P")} if "P" in names else {}
    series = weather_series(
        table, _times(table), names, more=powers, units={}, notes=("is an hourly PVGIS export, in UTC",)
    )
    return replace(
        series,
        technology="pv" if powers else "weather",
        capacity_w=_capacity_w(table, peak_kw) if powers else None,
        latitude_deg=degrees(place[0], 90.0),
        longitude_deg=degrees(place[1], 360.0),
    )


def _capacity_w(table: Table, peak_kw: object) -> float | None:
    if peak_kw is None:
        return None
    try:
        capacity_kw = number_in(str(peak_kw))
    except ValueError:
        capacity_kw = float("nan")
    if not 0 < capacity_kw < LARGEST_NUMBER:
        raise InputError(
            table.path, f"states a nominal power of {shortened(repr(peak_kw), 40)}, expected kWp above 0"
        )
    return 1e3 * capacity_kw


def _times(table: Table) -> IntArray:
    """Seconds since 1970 of the hour of each row."""
    times = np.zeros(len(table.rows), dtype=np.int64)
    for row, text in enumerate(table.texts("time")):
        match = _TIME.fullmatch(text)
        try:
            year, month, day, hour, _ = map(int, match.groups()) if match else (0,) * 5
            times[row] = int(datetime(year, month, day, hour, tzinfo=timezone.utc).timestamp())
        except ValueError:
            shown = shortened(text, 40)
            raise table.error(row, f"found {shown!r}, expected a time such as 20200227:0010 (UTC)") from None
    return times
