"""JSON of services of prices and carbon intensities, as tables with their units in the columns' names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.german_market import energy_charts_prices, is_energy_charts
from beasy_sched.formats.nested_tables import columns_table, member, rows_of
from beasy_sched.formats.table import Table
from beasy_sched.limits import listed, shortened

_LISTS: Final = ("data", "history", "forecast")


def rate_json_table(path: PathLike, contents: Mapping[str, Any]) -> Table:
    """Return the table of a JSON object of Energy-Charts, aWATTar, Electricity Maps, WattTime or the UK's
    Carbon Intensity. Raises InputError for others.
    """
    if is_energy_charts(contents):
        return energy_charts_prices(path, contents)
    name = next((name for name in _LISTS if isinstance(contents.get(name), list)), None)
    columns = {} if name is None else rows_of(path, name, contents[name])
    rows = (
        _awattar(path, columns)
        or _electricity_maps(columns)
        or _watttime(columns, member(contents, "meta", "units"))
        or _uk_carbon(columns)
    )
    if not rows:
        raise InputError(
            path,
            "is JSON in a form that is unknown: expected that of Energy-Charts, aWATTar, Electricity Maps,"
            f" WattTime or the UK's Carbon Intensity, or a table (CSV); found {listed(sorted(contents))}",
        )
    return columns_table(path, rows)


_Columns = dict[str, list[Any]]


def _awattar(path: PathLike, columns: _Columns) -> _Columns | None:
    if not {"start_timestamp", "marketprice", "unit"} <= columns.keys():
        return None
    units = {str(unit) for unit in columns["unit"]}
    if len(units) > 1:
        raise InputError(path, f"unit has several values, {listed(sorted(units))}: expected one")
    return {
        "time": columns["start_timestamp"],
        f"price [{shortened(units.pop(), 40)}]": columns["marketprice"],
    }


def _electricity_maps(columns: _Columns) -> _Columns | None:
    if not {"datetime", "carbonIntensity"} <= columns.keys():
        return None
    return {"time": columns["datetime"], "carbon intensity [gCO2eq/kWh]": columns["carbonIntensity"]}


def _watttime(columns: _Columns, unit: object) -> _Columns | None:
    if not {"point_time", "value"} <= columns.keys():
        return None
    stated = shortened(str(unit), 40).replace("lbs_co2", "lb").replace("_per_", "/")
    name = "value" if unit is None else f"carbon intensity [{stated}]"
    return {"time": columns["point_time"], name: columns["value"]}


def _uk_carbon(columns: _Columns) -> _Columns | None:
    parts = [name for name in ("intensity.actual", "intensity.forecast") if name in columns]
    if "from" not in columns or not parts:
        return None
    return {"time": columns["from"], **{f"{name} [gCO2/kWh]": columns[name] for name in parts}}
