"""Files of services that export weather or power: Renewables.ninja, NASA POWER.

Renewables.ninja: three ``#`` lines (title, units, and JSON with units and params), a header line and hourly
rows in UTC, each the mean of the hour that starts at its time. The ``#`` lines and the local time may be
missing, and a spreadsheet may have cut the JSON into cells. Synthetic weather also has this form.

NASA POWER, hourly: a header block, then ``YEAR,MO,DY,HR`` and one column a parameter. Hours are UTC or local
solar time (LST, UTC plus a whole number of hours for each 15 degrees of longitude). An hour's irradiance,
written Wh/m^2 or W/m^2, is its mean in W/m2.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, TypeVar

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.decoding import Malformed, csv_line, decode_json
from beasy_sched.formats.nested_tables import columns_table, member
from beasy_sched.formats.table import (
    CLEAR_SKY,
    CLEARNESS_INDEX,
    CLOUD_COVER_SHARE,
    FLAGGED,
    IRRADIANCE,
    POWER,
    TEMPERATURE,
    WIND_SPEED,
    Table,
    TimeSeries,
    on_grid,
    parse_moment,
    parse_table,
    time_text,
)
from beasy_sched.formats.unit_table import (
    UnitError,
    cover_share,
    irradiance_w_m2,
    power_unit,
    speed_m_s,
    temperature_c,
)
from beasy_sched.formats.weather_columns import PRODUCING
from beasy_sched.limits import LARGEST_NUMBER, listed, shortened
from beasy_sched.model.choices import DateOrder
from beasy_sched.numbers import number_in
from beasy_sched.units import SECONDS_PER_HOUR

_NINJA_UNITS = {
    "electricity": "kW",
    "irradiance_direct": "kW/m2",
    "irradiance_diffuse": "kW/m2",
    "radiation_surface": "W/m2",
    "wind_speed": "m/s",
    "temperature": "°C",
    "cloud_cover": "fraction",
}
"""The quantities, and the units of exports that do not state them, or that state "unknown" (version 1.4)."""
_NINJA_COLUMNS = ("electricity", "irradiance_direct", "irradiance_diffuse", "radiation_surface", "wind_speed")
"""The columns of which one at least makes a file an export."""
MOST_OVER_CAPACITY = 1.2
"""Largest share of its capacity that a plant's power may reach."""


def is_ninja_header(cells: list[str]) -> bool:
    """Whether a header line is that of a ninja export; such a line may be commented out."""
    return cells[0].lstrip("# ") == "time" and any(cell in _NINJA_COLUMNS for cell in cells[1:])


def parse_ninja(path: PathLike, text: str, date_order: DateOrder | None = None) -> TimeSeries:
    """Read an export's text; ``path`` is named in errors. Raises InputError with line and cause."""
    table = parse_table(path, text, is_ninja_header)
    table = replace(table, names=("time", *table.names[1:]))
    header = _ninja_header(table)
    times, notes = table.times("time", date_order)
    columns = _ninja_columns(table, header.get("units", {}))
    capacity_w = _ninja_capacity_w(table, header.get("params", {}))
    peak_w = float(np.nanmax(columns.get(POWER, np.zeros(1)), initial=0.0))
    if capacity_w is not None and peak_w > MOST_OVER_CAPACITY * capacity_w:
        message = f"electricity reaches {peak_w / 1e3:g} kW at a stated capacity of {capacity_w / 1e3:g} kW"
        raise InputError(path, f"{message}: is the column in another unit?")
    series = on_grid(table, times, columns, notes=notes)
    params = header.get("params", {})
    series = replace(
        series,
        capacity_w=capacity_w,
        technology=_ninja_technology(table),
        longitude_deg=degrees(params.get("lon"), 360.0),
        latitude_deg=degrees(params.get("lat"), 90.0),
    )
    made_until = params.get("date_to", "")
    wanted_s = parse_moment(str(made_until))
    if wanted_s is None or int(times.max()) + series.interval_s > wanted_s:
        return series
    last = series.time_text(len(series) - 1)
    note = f"ends at {last} but should cover days up to {made_until}"
    return replace(series, notes=(*series.notes, note))


def _ninja_columns(table: Table, units: dict[str, Any]) -> dict[str, FloatArray]:
    """The columns that we use, in our units."""
    columns = {}
    names = table.names
    if "electricity" in names:
        factor = _ninja_unit(table, units, "electricity", _power_w)
        columns[POWER] = table.numbers("electricity") * factor
    parts: list[str] = [name for name in ("irradiance_direct", "irradiance_diffuse") if name in names]
    if len(parts) < 2:
        parts = ["radiation_surface"] if "radiation_surface" in names else []
    if parts:
        irradiances = [table.numbers(n) * _ninja_unit(table, units, n, _hourly_w_m2) for n in parts]
        columns[IRRADIANCE] = np.sum(irradiances, axis=0)
    if "wind_speed" in names:
        factor = _ninja_unit(table, units, "wind_speed", speed_m_s)
        columns[WIND_SPEED] = table.numbers("wind_speed") * factor
    if "temperature" in names:
        factor, offset = _ninja_unit(table, units, "temperature", temperature_c)
        columns[TEMPERATURE] = table.numbers("temperature") * factor + offset
    if "cloud_cover" in names:
        factor = _ninja_unit(table, units, "cloud_cover", cover_share)
        columns[CLOUD_COVER_SHARE] = table.numbers("cloud_cover") * factor
    if "missing" in names:
        columns[FLAGGED] = table.numbers("missing")
    return columns


Converted = TypeVar("Converted")


def _ninja_unit(
    table: Table, units: dict[str, Any], name: str, convert: Callable[[str], Converted]
) -> Converted:
    """A column's conversion, by the unit that the export states for it, or by the usual one."""
    unit = str(units.get(name, "unknown"))
    return _converted(table, name, _NINJA_UNITS[name] if unit.lower() == "unknown" else unit, convert)


def _converted(table: Table, name: str, unit: str, convert: Callable[[str], Converted]) -> Converted:
    try:
        return convert(unit)
    except UnitError as error:
        raise InputError(table.path, f"{name}: {error}") from None


def _power_w(unit: str) -> float:
    """W in one unit of power, or of energy in an hour. Raises UnitError."""
    power = power_unit(unit)
    if power.per_unit:
        raise UnitError(f"unit {shortened(unit, 40)!r}: expected W, kW or MW")
    return power.watts(SECONDS_PER_HOUR)


def _hourly_w_m2(unit: str) -> float:
    """W/m2 in one unit of irradiance, or of irradiation in an hour."""
    return irradiance_w_m2(unit, SECONDS_PER_HOUR)


def degrees(stated: object, most: float) -> float | None:
    """Return a longitude or latitude of at most ``most`` degrees, where ``stated`` is one."""
    try:
        angle = number_in(str(stated))
    except ValueError:
        return None
    return angle if abs(angle) <= most else None


def _ninja_capacity_w(table: Table, params: dict[str, Any]) -> float | None:
    """The stated capacity (ninja's is in kW)."""
    stated = params.get("capacity")
    if stated is None:
        return None
    try:
        capacity_kw = number_in(str(stated))
    except ValueError:
        capacity_kw = float("nan")
    if not 0 < capacity_kw < LARGEST_NUMBER:
        raise InputError(
            table.path, f"states a capacity of {shortened(repr(stated), 40)}, expected a number of kW > 0"
        )
    return capacity_kw * 1e3


def _ninja_technology(table: Table) -> str | None:
    """Solar, wind or weather, from the title, or else from the columns or the file's name."""
    title = table.preamble[0] if table.preamble else ""
    for pattern, technology in ((r"Weather", "weather"), (r"Wind", "wind"), (r"PV|Solar", "pv")):
        if re.search(rf"\b({pattern})\b", title):
            return technology
    if "electricity" not in table.names:
        return "weather"
    if "wind_speed" in table.names or "irradiance_direct" in table.names:
        return "wind" if "wind_speed" in table.names else "pv"
    match = re.search(r"ninja_(pv|wind)_", os.path.basename(table.path))
    return match[1] if match else None


def _ninja_header(table: Table) -> dict[str, dict[str, Any]]:
    """``units`` and ``params`` of the ``#`` lines: from the JSON, or the units from their own line."""
    header: dict[str, dict[str, Any]] = {}
    for line in table.preamble:
        if line.startswith('"'):  # a spreadsheet has quoted it and cut it at its commas
            line = ",".join(csv_line(line))
        joined = line.rstrip().rstrip(",;\t").lstrip("# ")
        if joined.startswith("Units:"):
            pairs = re.findall(r"(\w+) in ([^,]+)", joined)
            header.setdefault("units", {name: unit.strip() for name, unit in pairs})
        elif joined.startswith("{"):
            parts = _parse_json(joined).items()
            header.update({k: v for k, v in parts if k in ("units", "params") and isinstance(v, dict)})
    return header


def _parse_json(text: str) -> dict[str, Any]:
    """The JSON object; a spreadsheet may have lost its last braces."""
    for ending in ("", "}", "}}"):
        try:
            contents = decode_json((text + ending).encode(), object)
        except Malformed:
            continue
        return contents if isinstance(contents, dict) else {}
    return {}


_NINJA_TITLES = {"pv": "Solar photovoltaic power (PV)", "wind": "Wind power"}


def ninja_lines(
    technology: str,
    *,
    start_s: int,
    electricity_kw: FloatArray,
    weather: dict[str, FloatArray],
    capacity_kw: float,
    latitude_deg: float,
    source: str,
) -> Iterator[str]:
    """The lines (with line ends) of an hourly raw export of ``technology``, ``"pv"`` or ``"wind"``.

    ``weather`` has the export's own columns: ``irradiance_direct`` and ``irradiance_diffuse`` in kW/m2,
    or ``wind_speed`` in m/s. ``source`` states the origin of the numbers in the title.
    """
    columns = {"electricity": electricity_kw, **weather}
    units = {"time": "UTC", **{name: _NINJA_UNITS[name] for name in columns}}
    hours = len(electricity_kw)
    params = {
        "local_time": False,
        "header": True,
        "lat": f"{latitude_deg:g}",
        "lon": "0",
        "date_from": time_text(start_s, 0)[:10],
        "date_to": time_text(start_s, (hours - 1) * 3600)[:10],
        "dataset": source,
        "capacity": f"{capacity_kw:g}",
        "raw": True,
    }
    title = f"{_NINJA_TITLES[technology]} - {latitude_deg:g}, 0 - {source}"
    yield f"# {title}; in the format of Renewables.ninja\n"
    yield "# Units: " + ", ".join(f"{name} in {unit}" for name, unit in units.items()) + "\n"
    yield "# " + json.dumps({"units": units, "params": params}) + "\n"
    yield ",".join(units) + "\n"
    for hour, row in enumerate(np.column_stack(list(columns.values())).tolist()):
        cells = (f"{value:.3f}" for value in row)
        yield f"{time_text(start_s, hour * 3600)},{','.join(cells)}\n"


_IRRADIANCE_COLUMN = "ALLSKY_SFC_SW_DWN"
_CLEAR_SKY_COLUMN = "CLRSKY_SFC_SW_DWN"
_WIND_COLUMNS = ("WS50M", "WS10M", "WS2M")
"""Wind speeds by height, the one nearest to a turbine's hub first."""
_HOURLY = ("YEAR", "MO", "DY", "HR")
_DEFAULT_FILL = -999.0


def is_nasa_header(cells: list[str]) -> bool:
    """Whether a header line is that of a NASA POWER export (of any time step)."""
    return cells[0] == "YEAR" or cells[:2] == ["PARAMETER", "YEAR"]


def parse_nasa_power(
    path: PathLike, text: str, wind_column: str | None = None, needed: frozenset[str] = PRODUCING
) -> TimeSeries:
    """Read an export's text; ``wind_column`` chooses among several heights. Raises InputError.

    ``needed``: quantities of which one at least must be there.
    """
    return _nasa_series(parse_table(path, text, is_nasa_header), wind_column, needed)


def is_nasa(contents: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a NASA POWER export."""
    return isinstance(member(contents, "properties", "parameter"), dict)


def nasa_power_series(
    path: PathLike,
    contents: Mapping[str, Any],
    wind_column: str | None = None,
    needed: frozenset[str] = PRODUCING,
) -> TimeSeries:
    """Read the JSON export, hourly with times such as 2024022700, as `parse_nasa_power` does."""
    parameters: dict[str, Any] = contents["properties"]["parameter"]
    hours = [*next(iter(parameters.values()), ())]
    for name, values in parameters.items():
        if not isinstance(values, dict) or [*values] != hours:
            raise InputError(
                path, f"properties.parameter.{shortened(name, 40)}: expected values of the same hours"
            )
    wrong = next((hour for hour in hours if not re.fullmatch(r"\d{10}", hour)), None)
    if wrong is not None or not hours:
        found = "nothing" if wrong is None else repr(shortened(wrong, 40))
        raise InputError(path, f"found {found}, expected hours such as 2024022700 (the hourly export)")
    places = zip(_HOURLY, ((0, 4), (4, 6), (6, 8), (8, 10)), strict=True)
    columns = {name: [hour[start:end] for hour in hours] for name, (start, end) in places}
    columns |= {name: [*values.values()] for name, values in parameters.items()}
    table = columns_table(path, columns, _nasa_header_lines(contents, parameters))
    series = _nasa_series(table, wind_column, needed)
    return replace(series, notes=("is a NASA POWER export (JSON)", *series.notes))


def _nasa_header_lines(contents: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[str]:
    """The lines that the header block of the CSV export would have."""
    lines = [f"in {member(contents, 'header', 'time_standard')}"]
    point = member(contents, "geometry", "coordinates")
    if isinstance(point, list) and len(point) > 1:
        lines.append(f"Location: Latitude {point[1]} Longitude {point[0]}")
    fill = member(contents, "header", "fill_value")
    lines += [] if fill is None else [f"The value for missing data: {fill}"]
    units = ((name, member(contents, "parameters", name, "units")) for name in parameters)
    return [*lines, *(f"{name} ({unit})" for name, unit in units if unit)]


def _nasa_series(table: Table, wind_column: str | None, needed: frozenset[str]) -> TimeSeries:
    path = table.path
    if table.names[:4] != _HOURLY:
        found = shortened(",".join(table.names[:4]))
        raise InputError(
            path, f"columns start with {found}, expected {','.join(_HOURLY)} (the hourly export)"
        )
    if wind_column is not None:
        table.texts(wind_column)  # raises if it is missing, naming the existing columns
    speed = wind_column or next((name for name in _WIND_COLUMNS if name in table.names), None)
    columns: dict[str, FloatArray] = {}
    if _IRRADIANCE_COLUMN in table.names:
        factor = _nasa_unit(table, _IRRADIANCE_COLUMN, "W/m2", _hourly_w_m2)
        columns[IRRADIANCE] = _nasa_column(table, _IRRADIANCE_COLUMN) * factor
    if speed is not None:
        columns[WIND_SPEED] = _nasa_column(table, speed) * _nasa_unit(table, speed, "m/s", speed_m_s)
    if "T2M" in table.names:
        factor, offset = _nasa_unit(table, "T2M", "C", temperature_c)
        columns[TEMPERATURE] = _nasa_column(table, "T2M") * factor + offset
    if not needed & columns.keys():
        found = listed(table.names[4:])
        expected = f"{_IRRADIANCE_COLUMN} for sun, or {' or '.join(_WIND_COLUMNS)} for wind"
        if needed != PRODUCING:
            raise InputError(path, f"has no temperature (T2M): found {found}")
        raise InputError(path, f"has neither irradiance nor wind speed: found {found}; add {expected}")
    columns.update(_nasa_conditions(table))
    times = _nasa_times(table)
    shift_h, notes = _nasa_shift_h(table)
    series = on_grid(table, times, columns)
    height = re.fullmatch(r"WS(\d+)M", speed or "")
    return replace(
        series,
        technology="weather",
        start_s=int(times.min()) - shift_h * 3600,
        wind_height_m=float(height[1]) if height else None,
        longitude_deg=_nasa_place_deg(table, "Longitude", 360.0),
        latitude_deg=_nasa_place_deg(table, "Latitude", 90.0),
        notes=(*series.notes, *notes, *([f"wind speed is {speed}"] if speed else [])),
    )


def _nasa_column(table: Table, name: str) -> FloatArray:
    """A column with NaN where the export has its fill value."""
    fill = _DEFAULT_FILL
    for line in table.preamble:
        match = re.search(r"missing .*:\s*(-?\d+(?:\.\d*)?)\s*$", line)
        fill = float(match[1]) if match else fill
    values = table.numbers(name)
    return np.where(values == fill, np.nan, values)


def _nasa_conditions(table: Table) -> dict[str, FloatArray]:
    """Return the columns on clouds, if the export has them."""
    columns = {}
    if "ALLSKY_KT" in table.names:
        columns[CLEARNESS_INDEX] = _nasa_column(table, "ALLSKY_KT")
    if "CLOUD_AMT" in table.names:
        columns[CLOUD_COVER_SHARE] = _nasa_column(table, "CLOUD_AMT") * _nasa_unit(
            table, "CLOUD_AMT", "%", cover_share
        )
    if _CLEAR_SKY_COLUMN in table.names:
        factor = _nasa_unit(table, _CLEAR_SKY_COLUMN, "W/m2", _hourly_w_m2)
        columns[CLEAR_SKY] = _nasa_column(table, _CLEAR_SKY_COLUMN) * factor
    return columns


def _nasa_unit(table: Table, name: str, usual: str, convert: Callable[[str], Converted]) -> Converted:
    """A column's conversion, by the unit in the header block; by the usual one where the block is missing."""
    for line in table.preamble:
        if line.split()[:1] == [name]:
            match = re.search(r"\(([^()]*)\)\s*$", line)
            return _converted(table, name, match[1] if match else line.strip(), convert)
    return convert(usual)


def _nasa_times(table: Table) -> IntArray:
    """Seconds since 1970 of each row, in the file's own time."""
    times = np.empty(len(table.rows), dtype=np.int64)
    for i, row in enumerate(zip(*(table.numbers(name).tolist() for name in _HOURLY), strict=True)):
        try:
            year, month, day, hour = (int(value) for value in row)
            moment = datetime(year, month, day, hour, tzinfo=timezone.utc)
        except (ValueError, OverflowError) as error:
            raise table.error(
                i, f"{shortened(','.join(table.rows[i][:4]), 40)} is not an hour: {error}"
            ) from None
        times[i] = int(moment.timestamp())
    return times


def _nasa_shift_h(table: Table) -> tuple[int, tuple[str, ...]]:
    """Hours by which the file's time is ahead of UTC, and what had to be assumed."""
    header = "\n".join(table.preamble)
    name = os.path.basename(table.path)
    standard = re.search(r"\bin (LST|UTC)\b", header) or re.search(r"_(LST|UTC)\b", name)
    if standard and standard[1] == "UTC":
        return 0, ()
    longitude = _nasa_place_deg(table, "Longitude", 360.0)
    if longitude is None:
        return 0, ("does not state its longitude: assuming that its hours are UTC",)
    shift = round(longitude / 15.0)
    assumed = "" if standard else " (assumed: the file does not state LST or UTC)"
    return shift, (f"hours are local solar time, UTC{shift:+d}{assumed}",)


def _nasa_place_deg(table: Table, name: str, most: float) -> float | None:
    """The longitude or latitude of the header block."""
    stated = re.search(name + r"\s+(-?\d{1,3}(?:\.\d*)?)", "\n".join(table.preamble))
    return degrees(stated[1], most) if stated else None
