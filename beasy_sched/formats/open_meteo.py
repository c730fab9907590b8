"""Open-Meteo's exports, CSV (a block of the place above the table) and JSON.

Times are ahead of UTC by the ``utc_offset_seconds`` that the file states, or seconds since 1970. A mean of
radiation is that of the interval before its time, so the rows of such a file are moved by one interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from beasy_sched.arrays import IntArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.decoding import csv_line
from beasy_sched.formats.nested_tables import columns_table, member, one_block
from beasy_sched.formats.reading import is_number
from beasy_sched.formats.table import IRRADIANCE, TEMPERATURE, Table, TimeSeries, parse_table
from beasy_sched.formats.weather_columns import PRODUCING, is_temperature, weather_series
from beasy_sched.formats.weather_exports import degrees

_OFFSET: Final = "utc_offset_seconds"
_STEPS: Final = ("minutely_15", "hourly")


def is_open_meteo_header(cells: list[str]) -> bool:
    """Whether a line names the parts of a place in an Open-Meteo export."""
    return _OFFSET in cells and "latitude" in cells


def is_open_meteo(contents: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an Open-Meteo export."""
    return _OFFSET in contents and any(isinstance(contents.get(step), dict) for step in _STEPS)


def parse_open_meteo(
    path: PathLike, text: str, column: str | None = None, needed: frozenset[str] = PRODUCING
) -> TimeSeries:
    """Read the CSV export; ``column`` chooses one column of weather. Raises InputError.

    ``needed``: quantities of which one at least must be there; for temperatures, only these are read.
    """
    table = parse_table(path, one_block(text, _is_table_header), _is_table_header)
    if "location_id" in table.names:
        raise InputError(path, "has several places (location_id): export one")
    blocks = [csv_line(line) for line in table.preamble if line.strip()]
    place = dict(zip(blocks[0], blocks[1], strict=False)) if len(blocks) > 1 else {}
    return _series(table, place, column, None, needed)


def open_meteo_series(
    path: PathLike,
    contents: Mapping[str, Any],
    column: str | None = None,
    needed: frozenset[str] = PRODUCING,
) -> TimeSeries:
    """Read the JSON export as `parse_open_meteo` does."""
    step = next(step for step in _STEPS if isinstance(contents.get(step), dict))
    units = member(contents, f"{step}_units")
    stated = {str(name): str(unit) for name, unit in units.items()} if isinstance(units, dict) else {}
    return _series(columns_table(path, contents[step]), contents, column, stated, needed)


def _is_table_header(cells: list[str]) -> bool:
    return cells[0] == "time" or cells[:2] == ["location_id", "time"]


def _series(
    table: Table,
    place: Mapping[str, Any],
    column: str | None,
    units: Mapping[str, str] | None,
    needed: frozenset[str],
) -> TimeSeries:
    names = [column] if column else [name for name in table.names if name != "time"]
    if TEMPERATURE in needed:  # values at their times, unlike irradiance
        names = [name for name in names if is_temperature(name)] or names
    times, note = _times(table, place)
    series = weather_series(
        table, times, names, needed=needed, units=units, notes=("is an Open-Meteo export", *note)
    )
    instants = any(name.endswith("_instant") for name in names)
    if IRRADIANCE in series.columns and not instants and series.start_s is not None:
        before = "radiation is the mean of the interval before its time: rows start one interval earlier"
        series = replace(series, start_s=series.start_s - series.interval_s, notes=(*series.notes, before))
    return replace(
        series,
        latitude_deg=degrees(place.get("latitude"), 90.0),
        longitude_deg=degrees(place.get("longitude"), 360.0),
    )


def _times(table: Table, place: Mapping[str, Any]) -> tuple[IntArray, tuple[str, ...]]:
    """Seconds since 1970 (UTC) of each row, and a note on its local time."""
    texts = table.texts("time")
    if texts and is_number(texts[0]):
        return table.numbers("time").astype("int64"), ()
    times, notes = table.times("time")
    offset = degrees(place.get(_OFFSET), 86_400.0)
    if offset is None:
        raise InputError(table.path, f"does not state {_OFFSET}, by which its times are ahead of UTC")
    if offset:
        notes += (f"times are local, {offset / 3600:+g} h from UTC",)
    return times - round(offset), notes
