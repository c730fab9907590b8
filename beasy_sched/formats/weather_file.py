"""Any file of weather or power that a user may bring: which format it is, and its reader."""

from __future__ import annotations

import os
from collections.abc import Callable

from beasy_sched.errors import InputError
from beasy_sched.formats.entsoe import is_entsoe_header, parse_entsoe
from beasy_sched.formats.nasa_power import is_nasa_header, parse_nasa_power
from beasy_sched.formats.ninja import is_ninja_header, parse_ninja
from beasy_sched.formats.power_csv import choose_column, parse_power_csv
from beasy_sched.formats.table import DELIMITERS, read_text, split_line
from beasy_sched.formats.time_series import TimeSeries
from beasy_sched.formats.timestamps import DateOrder

_HEAD_LINES = 60
"""A header line stands within the first lines of a file, after any block of comments."""


def read_weather_file(
    path: str | os.PathLike[str],
    *,
    column: str | None = None,
    unit: str | None = None,
    interval_s: int | None = None,
    date_order: DateOrder | None = None,
) -> TimeSeries:
    """Read a Renewables.ninja, NASA POWER, ENTSO-E or plain CSV file (gzip or not).

    ``column`` names the power column of the latter two, or the wind speed column of a NASA POWER file;
    ``unit`` and ``interval_s`` are for plain CSV. Raises InputError with line or column and cause.
    """
    text = read_text(path)
    if not text.strip():
        raise InputError(path, "is empty")
    if _has(text, is_entsoe_header):
        names = [name for name in _header(text, is_entsoe_header) if name != "Area" and name[:3] != "MTU"]
        return parse_entsoe(path, text, choose_column(path, names, column))
    if _has(text, is_nasa_header):
        return parse_nasa_power(path, text, column)
    if column is None and _has(text, is_ninja_header):
        return parse_ninja(path, text, date_order)
    return parse_power_csv(path, text, column=column, unit=unit, interval_s=interval_s, date_order=date_order)


def _header(text: str, is_header: Callable[[list[str]], bool]) -> list[str]:
    """The cells of the first line that is a header of a format; empty if none is."""
    for line in text[:200_000].splitlines()[:_HEAD_LINES]:
        for delimiter in DELIMITERS:
            cells = [cell.strip() for cell in split_line(line, delimiter)]
            if cells and is_header(cells):
                return cells
    return []


def _has(text: str, is_header: Callable[[list[str]], bool]) -> bool:
    return bool(_header(text, is_header))
