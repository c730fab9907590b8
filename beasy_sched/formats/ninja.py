"""Renewables.ninja exports: PV, wind and weather, as downloaded or as spreadsheets leave them.

An export has three ``#`` lines (title, units, and JSON with units and params), a header line and hourly
rows in UTC, each the mean of the hour that starts at its time. The ``#`` lines and the local time may be
missing, and a spreadsheet may have cut the JSON into cells.

Writing series in the form of a Renewables.ninja export, so that synthetic weather can stand in for one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import InputError
from beasy_sched.formats.table import (
    IRRADIANCE_UNITS,
    POWER_UNITS,
    DateOrder,
    Table,
    parse_moment,
    parse_table,
    parse_times,
    plain_unit,
    split_line,
)
from beasy_sched.formats.time_series import (
    FLAGGED,
    IRRADIANCE,
    POWER,
    TEMPERATURE,
    WIND_SPEED,
    TimeSeries,
    on_grid,
    time_text,
    with_notes,
)

_QUANTITIES = ("electricity", "irradiance_direct", "irradiance_diffuse", "radiation_surface", "wind_speed")
_DEFAULT_UNITS = {
    "electricity": "kW",
    "irradiance_direct": "kW/m2",
    "irradiance_diffuse": "kW/m2",
    "radiation_surface": "W/m2",
    "wind_speed": "m/s",
}
"""The units of exports that do not say, or that say "unknown" (version 1.4)."""
_MOST_OVER_CAPACITY = 1.2


def is_ninja_header(cells: list[str]) -> bool:
    """Whether a header line is that of a ninja export; it may be commented out, as the lines above it are."""
    return cells[0].lstrip("# ") == "time" and any(cell in _QUANTITIES for cell in cells[1:])


def parse_ninja(path: str | os.PathLike[str], text: str, date_order: DateOrder | None = None) -> TimeSeries:
    """Read an export's text; ``path`` is named in errors. Raises InputError with line and cause."""
    table = parse_table(path, text, is_ninja_header)
    table = replace(table, names=("time", *table.names[1:]))
    header = _parse_header(table)
    times, notes = parse_times(path, table.texts("time"), table.lines, date_order)
    columns = _columns(table, header.get("units", {}))
    capacity_w = _capacity_w(table, header.get("params", {}))
    if capacity_w is not None and POWER in columns:
        peak_w = float(np.nanmax(columns[POWER], initial=0.0))
        if peak_w > _MOST_OVER_CAPACITY * capacity_w:
            message = (
                f"electricity reaches {peak_w / 1e3:g} kW at a stated capacity of {capacity_w / 1e3:g} kW"
            )
            raise InputError(path, f"{message}: is the column in another unit?")
    series = on_grid(path, times, table.lines, columns, notes=notes)
    series = replace(series, capacity_w=capacity_w, technology=_technology(table))
    return _with_end_note(series, header.get("params", {}))


def _with_end_note(series: TimeSeries, params: dict[str, Any]) -> TimeSeries:
    """Say so where the file stops before the day that it was made for."""
    wanted_s = parse_moment(str(params.get("date_to", "")))
    assert series.start_s is not None
    end_s = series.start_s + len(series) * series.interval_s
    if wanted_s is None or end_s > wanted_s:
        return series
    last = series.time_text(len(series) - 1)
    return with_notes(series, f"stops at {last}, but was made for days up to {params['date_to']}")


def _columns(table: Table, units: dict[str, Any]) -> dict[str, FloatArray]:
    """The columns that we use, in our units."""
    columns = {}
    names = table.names
    if "electricity" in names:
        factor = _factor(table, units, "electricity", POWER_UNITS)
        columns[POWER] = table.numbers("electricity") * factor
    parts: list[str] = [name for name in ("irradiance_direct", "irradiance_diffuse") if name in names]
    if len(parts) < 2:
        parts = ["radiation_surface"] if "radiation_surface" in names else []
    if parts:
        irradiances = [table.numbers(n) * _factor(table, units, n, IRRADIANCE_UNITS) for n in parts]
        columns[IRRADIANCE] = np.sum(irradiances, axis=0)
    if "wind_speed" in names:
        columns[WIND_SPEED] = table.numbers("wind_speed") * _factor(table, units, "wind_speed", {"m/s": 1.0})
    if "temperature" in names:
        columns[TEMPERATURE] = table.numbers("temperature")
    if "missing" in names:
        columns[FLAGGED] = table.numbers("missing")
    return columns


def _factor(table: Table, units: dict[str, Any], name: str, known: dict[str, float]) -> float:
    unit = str(units.get(name, "unknown"))
    if unit.lower() == "unknown":
        unit = _DEFAULT_UNITS[name]
    factor = known.get(plain_unit(unit))
    if factor is None:
        raise InputError(table.path, f"{name} is in {unit!r}, expected one of {', '.join(known)}")
    return factor


def _capacity_w(table: Table, params: dict[str, Any]) -> float | None:
    """The stated capacity (ninja's is in kW)."""
    stated = params.get("capacity")
    if stated is None:
        return None
    try:
        capacity_kw = float(stated)
    except (TypeError, ValueError):
        capacity_kw = float("nan")
    if not 0 < capacity_kw < float("inf"):
        raise InputError(table.path, f"states a capacity of {stated!r}, expected a number of kW > 0")
    return capacity_kw * 1e3


def _technology(table: Table) -> str | None:
    """Sun, wind or weather, from the title, or else from the columns or the file's name."""
    title = table.preamble[0] if table.preamble else ""
    if re.search(r"\bWeather\b", title):
        return "weather"
    if re.search(r"\bWind\b", title):
        return "wind"
    if re.search(r"\bPV\b|\bSolar\b", title):
        return "pv"
    if "electricity" not in table.names:
        return "weather"
    if "wind_speed" in table.names or "irradiance_direct" in table.names:
        return "wind" if "wind_speed" in table.names else "pv"
    match = re.search(r"ninja_(pv|wind)_", os.path.basename(table.path))
    return match[1] if match else None


def _parse_header(table: Table) -> dict[str, dict[str, Any]]:
    """``units`` and ``params`` of the ``#`` lines: from the JSON, or the units from their own line."""
    found: dict[str, dict[str, Any]] = {}
    for line in table.preamble:
        joined = _unquoted(line).lstrip("# ")
        if joined.startswith("Units:"):
            pairs = re.findall(r"(\w+) in ([^,]+)", joined)
            found.setdefault("units", {name: unit.strip() for name, unit in pairs})
        elif joined.startswith("{"):
            contents = _parse_json(joined)
            found.update(
                {k: v for k, v in contents.items() if k in ("units", "params") and isinstance(v, dict)}
            )
    return found


def _unquoted(line: str) -> str:
    """The line as it was before a spreadsheet quoted it and cut it at its commas."""
    if line.startswith('"'):
        line = ",".join(split_line(line))
    return line.rstrip().rstrip(",;\t")


def _parse_json(text: str) -> dict[str, Any]:
    """The JSON object; a spreadsheet may have lost its last braces."""
    for ending in ("", "}", "}}"):
        try:
            contents = json.loads(text + ending)
        except ValueError:
            continue
        return contents if isinstance(contents, dict) else {}
    return {}


_TITLES = {"pv": "Solar photovoltaic power (PV)", "wind": "Wind power"}
_WEATHER_COLUMNS = {
    "pv": {"irradiance_direct": "kW/m2", "irradiance_diffuse": "kW/m2"},
    "wind": {"wind_speed": "m/s"},
}


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
    or ``wind_speed`` in m/s. ``source`` says in the title where the numbers are from.
    """
    units = {"time": "UTC", "electricity": "kW", **_WEATHER_COLUMNS[technology]}
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
    yield f"# {_TITLES[technology]} - {latitude_deg:g}, 0 - {source}; in the format of Renewables.ninja\n"
    yield "# Units: " + ", ".join(f"{name} in {unit}" for name, unit in units.items()) + "\n"
    yield "# " + json.dumps({"units": units, "params": params}) + "\n"
    yield ",".join(units) + "\n"
    columns = np.column_stack([electricity_kw, *(weather[name] for name in _WEATHER_COLUMNS[technology])])
    for hour, row in enumerate(columns.tolist()):
        cells = (f"{value:.3f}" for value in row)
        yield f"{time_text(start_s, hour * 3600)},{','.join(cells)}\n"
