"""Exports of SMARD (tables) and Energy-Charts (JSON): production by type, and prices.

SMARD writes local time of Germany, an hour that occurs twice in autumn in two rows, energy per interval, and
numbers as its language does: 1.234,5 in German, 1,234.5 in English. Energy-Charts' tables are plain CSV.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.local_time import CentralEurope
from beasy_sched.formats.nested_tables import columns_table
from beasy_sched.formats.table import POWER, ClockTimes, Table, TimeSeries, equal_row_s, on_grid, parse_table
from beasy_sched.formats.time_columns import choose_column, existing_rows
from beasy_sched.formats.unit_table import UnitError, power_unit, unit_in_name
from beasy_sched.limits import listed, shortened
from beasy_sched.model.choices import DateOrder

_RESOLUTION: Final = re.compile(
    r"\]\s*(Original|Berechnete|Calculated)\s*(auflösung|resolution)", re.IGNORECASE
)
_TIMES: Final = (
    "Datum von",
    "Datum bis",
    "Start date",
    "End date",
    "Datum",
    "Date",
    "Anfang",
    "Start",
    "Ende",
    "End",
)
_MW: Final = 1e6


def is_smard_header(cells: list[str]) -> bool:
    """Whether a header line is that of a SMARD export."""
    return cells[0] in _TIMES and (
        any(_RESOLUTION.search(cell) for cell in cells[1:]) or cells[:3] == ["Datum", "Anfang", "Ende"]
    )


def parse_smard(
    path: PathLike, text: str, column: str | None, clip_negative: bool | None = None
) -> TimeSeries:
    """Read one column of production. Raises InputError; ``clip_negative`` is as for `on_grid`."""
    table = smard_table(path, text)
    name = choose_column(path, [name for name in table.names if name not in _TIMES], column)
    try:
        unit = power_unit(unit_in_name(name) or "MWh")
    except UnitError as error:
        raise InputError(path, f"{shortened(name, 60)}: {error}") from None
    if unit.per_unit:
        raise InputError(path, f"column {shortened(name, 60)!r} is a share: expected MWh or MW")
    times = smard_times(table)
    table, times_s = existing_rows(table, times.seconds, times.exists, [name])
    row_s = equal_row_s(table, times_s) if unit.of_rows else 1
    notes = ("is a SMARD export, in local time of Germany", *times.notes)
    values = table.numbers(name) * unit.watts(row_s)
    return on_grid(table, times_s, {POWER: values}, notes=notes, clip_negative=clip_negative)


def smard_table(path: PathLike, text: str) -> Table:
    """Return a SMARD export as a table, with the numbers of its language. Raises InputError."""
    table = parse_table(path, text, is_smard_header)
    german = table.names[0] in ("Datum von", "Datum")
    return replace(table, decimal_comma=german, thousands="." if german else ",")


def smard_times(table: Table) -> ClockTimes:
    """Return the times of the rows of a SMARD export. Raises InputError."""
    name = table.names[0]
    if name in ("Datum", "Date"):  # the date and the time of day are columns apart
        rows = [[f"{row[0].strip()} {row[1].strip()}", *row[1:]] for row in table.rows]
        table = replace(table, rows=rows)
    order = DateOrder.DAY_FIRST if table.decimal_comma else None
    times = table.clock_times(name, order, CentralEurope())
    return times._replace(notes=tuple(note for note in times.notes if not note.startswith("times are")))


def is_energy_charts(contents: Mapping[str, Any]) -> bool:
    """Whether a JSON object is one of Energy-Charts, with a production or a price."""
    return isinstance(contents.get("unix_seconds"), list)


def energy_charts_series(
    path: PathLike, contents: Mapping[str, Any], column: str | None, clip_negative: bool | None = None
) -> TimeSeries:
    """Read one production type of Energy-Charts' JSON, in MW. Raises InputError."""
    types = contents.get("production_types")
    if not isinstance(types, list) or not all(isinstance(each, dict) and "name" in each for each in types):
        raise InputError(
            path, f"is JSON of Energy-Charts without production_types: found {listed(sorted(contents))}"
        )
    data = {str(each["name"]): each.get("data") for each in types}
    name = choose_column(path, sorted(data), column)
    if re.search(r"share|\(.*%.*\)", name, re.IGNORECASE):
        raise InputError(path, f"production type {shortened(name, 60)!r} is a share: expected one in MW")
    table = columns_table(path, {"time": contents["unix_seconds"], name: data[name]})
    times = table.numbers("time").astype("int64")
    return on_grid(
        table,
        times,
        {POWER: table.numbers(name) * _MW},
        notes=("is JSON of Energy-Charts, in MW",),
        clip_negative=clip_negative,
    )


def energy_charts_prices(path: PathLike, contents: Mapping[str, Any]) -> Table:
    """Return the prices of Energy-Charts' JSON as a table. Raises InputError."""
    unit = contents.get("unit")
    if "price" not in contents or not isinstance(unit, str):
        raise InputError(
            path, f"is JSON of Energy-Charts without price and unit: found {listed(sorted(contents))}"
        )
    name = f"price [{shortened(unit.replace(' ', ''), 40)}]"
    return columns_table(path, {"time": contents["unix_seconds"], name: contents["price"]})
