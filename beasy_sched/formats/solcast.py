"""Solcast's exports, CSV and JSON: weather, or power in kW, means of the time up to ``period_end``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.nested_tables import columns_table, rows_of
from beasy_sched.formats.table import POWER, Table, TimeSeries, parse_table
from beasy_sched.formats.weather_columns import weather_series
from beasy_sched.limits import shortened
from beasy_sched.units import kw_to_w

_LISTS: Final = ("estimated_actuals", "forecasts", "live")
_PERIOD: Final = re.compile(r"PT(?:(\d{1,2})H)?(?:(\d{1,3})M)?")
_POWERS: Final = ("pvestimate", "pvpowerrooftop", "pvpoweradvanced")


def is_solcast_header(cells: list[str]) -> bool:
    """Whether a header line is that of a Solcast export."""
    names = [_folded(cell) for cell in cells]
    return "period" in names and ("periodend" in names or "periodstart" in names)


def is_solcast(contents: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a Solcast export."""
    return any(isinstance(contents.get(name), list) for name in _LISTS)


def parse_solcast(path: PathLike, text: str, column: str | None = None) -> TimeSeries:
    """Read the CSV export; ``column`` chooses one column of it. Raises InputError."""
    return _series(parse_table(path, text, is_solcast_header), column)


def solcast_series(path: PathLike, contents: Mapping[str, Any], column: str | None = None) -> TimeSeries:
    """Read the JSON export as `parse_solcast` does."""
    name = next(name for name in _LISTS if isinstance(contents.get(name), list))
    return _series(columns_table(path, rows_of(path, name, contents[name])), column)


def _folded(name: str) -> str:
    return re.sub(r"[\s_]", "", name).lower()


def _series(table: Table, column: str | None) -> TimeSeries:
    places = {_folded(name): name for name in table.names}
    if "period" not in places or not {"periodstart", "periodend"} & places.keys():
        raise InputError(table.path, "has no period and period_end, which Solcast's exports have")
    lasts_s = _period_s(table, places["period"])
    starts = "periodstart" in places
    times, notes = table.times(places["periodstart" if starts else "periodend"])
    if not starts:
        times = times - lasts_s
    names = [column] if column else [n for key, n in places.items() if key[:6] != "period"]
    power = next((places[key] for key in _POWERS if places.get(key) in names), None)
    more = {} if power is None else {POWER: kw_to_w(1.0) * table.numbers(power)}
    series = weather_series(
        table, times, names, units={}, more=more, notes=("is a Solcast export, in UTC", *notes)
    )
    if series.interval_s != lasts_s:
        problem = f"its period is {lasts_s} s, but most rows are {series.interval_s} s apart"
        raise InputError(table.path, f"{problem}: expected rows of one period")
    return replace(series, technology="pv" if power else "weather")


def _period_s(table: Table, name: str) -> int:
    """The only period of the rows, s."""
    texts = table.texts(name)
    for row, text in enumerate(texts):
        match = _PERIOD.fullmatch(text)
        if match is None or text != texts[0] or not any(match.groups()):
            expected = "PT30M" if match is None or not row else texts[0]
            raise table.error(row, f"{name}: found {shortened(text, 40)!r}, expected {expected} in each row")
    if not texts:
        raise InputError(table.path, "has no rows of data")
    match = _PERIOD.fullmatch(texts[0])
    assert match is not None
    return int(np.dot([int(part or 0) for part in match.groups()], (3600, 60)))
