"""Columns of weather by their usual names, in any table or JSON, and the units that they state."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.table import (
    CLOUD_COVER_SHARE,
    IRRADIANCE,
    TEMPERATURE,
    WIND_SPEED,
    Table,
    TimeSeries,
    equal_row_s,
    on_grid,
)
from beasy_sched.formats.unit_table import UnitError, cover_share, irradiance_w_m2, speed_m_s, temperature_c
from beasy_sched.limits import listed

_USUAL: Final = {
    IRRADIANCE: (
        r"ghi|g\(h\)|g\(i\)|irradiance|irradiation|(global|solar)_?(horizontal_|tilted_)?(irradiance|radiation)"
        r"|shortwave_radiation|radiation_surface|allsky_sfc_sw_dwn|poa(_global)?|gti",
        "W/m2",
    ),
    WIND_SPEED: (r"wind_?speed(_?(?P<height>\d+)m)?|ws(?P<other>\d+)m", "m/s"),
    TEMPERATURE: (r"(air_?)?temp(erature)?(_2m)?|t2m|temp_air", "C"),
    CLOUD_COVER_SHARE: (r"cloud_?cover(_total)?", "%"),
}
"""Names of each quantity's columns, as patterns, and the unit where none is stated."""
_LEAST_PEAK_W_M2: Final = 2.0
"""Irradiance without a unit that never exceeds this is not in W/m2."""
_STATED: Final = re.compile(r"(?P<name>.*?)\s*[\[(](?P<unit>[^\[\]()]*)[\])]\s*")
_SUFFIX: Final = re.compile(r"_?(k?w)_?(?:per_)?m\^?2", re.IGNORECASE)


@dataclass(frozen=True)
class _Column:
    name: str
    quantity: str
    unit: str | None
    height_m: float | None


def _known(name: str, units: Mapping[str, str]) -> _Column | None:
    """Return the quantity and unit of a column by its name; None for an unusual name."""
    whole, stated = name.strip(), _STATED.fullmatch(name)
    readings = [(whole, units.get(name))]
    if stated is not None:
        readings.append((stated["name"], stated["unit"]))
    if (suffix := _SUFFIX.search(whole)) is not None and suffix.end() == len(whole):
        readings.append((whole[: suffix.start()], suffix[1] + "/m2"))
    for text, unit in readings:
        for quantity, (pattern, _) in _USUAL.items():
            match = re.fullmatch(pattern, re.sub(r"[\s-]+", "_", text.strip()), re.IGNORECASE)
            if match is not None:
                groups = match.groupdict()
                height = groups.get("height") or groups.get("other")
                return _Column(name, quantity, unit, float(height) if height else None)
    return None


def is_weather(name: str) -> bool:
    """Whether a column's name is a usual one of irradiance or wind speed."""
    column = _known(name, {})
    return column is not None and column.quantity in (IRRADIANCE, WIND_SPEED)


def is_temperature(name: str) -> bool:
    """Whether a column's name is a usual one of the outside temperature."""
    column = _known(name, {})
    return column is not None and column.quantity == TEMPERATURE


PRODUCING: Final = frozenset({IRRADIANCE, WIND_SPEED})
"""Quantities that power follows from."""


def weather_series(
    table: Table,
    times_s: IntArray,
    names: Sequence[str],
    *,
    needed: frozenset[str] = PRODUCING,
    units: Mapping[str, str] | None = None,
    more: Mapping[str, FloatArray] | None = None,
    dated: bool = True,
    notes: tuple[str, ...] = (),
) -> TimeSeries:
    """Return the columns of ``names`` that are weather, with those of ``more``; of wind, the highest.

    ``units`` are those stated next to the names. A unit that is not stated is the usual one, with a note.
    Raises InputError for other units, and where there is none of the quantities ``needed``, nor ``more``.
    """
    known_columns = [column for name in names if (column := _known(name, units or {})) is not None]
    known_columns.sort(key=lambda column: -(column.height_m or 0.0))
    chosen: dict[str, _Column] = {}
    for column in known_columns:
        chosen.setdefault(column.quantity, column)
    columns = dict(more or {})
    if not columns and not needed & chosen.keys():
        lacks = "neither irradiance nor wind speed" if needed == PRODUCING else "no temperature"
        raise InputError(table.path, f"has {lacks}: found {listed(names)}")
    for quantity, column in chosen.items():
        unit = column.unit or _USUAL[quantity][1]
        columns[quantity] = _converted(table, column, unit, times_s)
        if not column.unit and units is None:
            notes += (f"{column.name} states no unit: read as {unit}",)
    irradiance = chosen.get(IRRADIANCE)
    if irradiance is not None and not irradiance.unit:
        _check_peak(table.path, irradiance.name, columns[IRRADIANCE])
    used = listed(sorted(column.name for column in chosen.values()))
    notes += (f"weather: {used}",) if used else ()
    wind = chosen.get(WIND_SPEED)
    return replace(
        on_grid(table, times_s, columns, dated=dated, notes=notes),
        technology=None if more else "weather",
        wind_height_m=None if wind is None else wind.height_m,
    )


def _converted(table: Table, column: _Column, unit: str, times_s: IntArray) -> FloatArray:
    values, name = table.numbers(column.name), column.name
    convert: Mapping[str, Callable[[], FloatArray]] = {
        IRRADIANCE: lambda: values * irradiance_w_m2(unit, equal_row_s(table, times_s)),
        WIND_SPEED: lambda: values * speed_m_s(unit),
        TEMPERATURE: lambda: values * temperature_c(unit)[0] + temperature_c(unit)[1],
        CLOUD_COVER_SHARE: lambda: values * cover_share(unit),
    }
    try:
        return convert[column.quantity]()
    except UnitError as error:
        raise InputError(table.path, f"{name}: {error}") from None


def _check_peak(path: PathLike, name: str, irradiance_w_m2: FloatArray) -> None:
    peak = float(np.nanmax(irradiance_w_m2, initial=0.0))
    if 0.0 < peak < _LEAST_PEAK_W_M2:
        raise InputError(
            path, f"{name} reaches {peak:g} and states no unit: name the column with one, as {name} [kW/m2]"
        )
