"""Exports of the ENTSO-E Transparency Platform: generation by production type, and the times of all tables.

"Actual generation per production type" has MW an hour (or quarter), in Brussels time, with one column for
each type or, in newer exports, one row. The local day of the change to summer time has an empty row for the
hour that does not exist; that of the change back has two rows with the same text, the first in summer time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, IntArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.local_time import CentralEurope, to_utc
from beasy_sched.formats.table import POWER, Table, TimeSeries, equal_row_s, on_grid, parse_table
from beasy_sched.formats.time_columns import choose_column, existing_rows
from beasy_sched.formats.unit_table import UnitError, power_unit, unit_in_name
from beasy_sched.limits import listed, shortened

_INTERVAL: Final = re.compile(
    r"(\d{2})[./](\d{2})[./](\d{4}) (\d{2}):(\d{2})(?::\d{2})?(?: \(?([A-Z/]+)\)?)? - "
)
_ZONE: Final = re.compile(r"\((UTC|CET|CEST|CET/CEST)\)")
_AREA, _TYPE = "Area", "Production Type"
_LABELS_S: Final = {"CET": 3600, "CEST": 7200, "UTC": 0}


def is_entsoe_header(cells: list[str]) -> bool:
    """Whether a header line is that of an ENTSO-E export."""
    return any(cell.startswith("MTU") for cell in cells)


def parse_entsoe(
    path: PathLike, text: str, column: str | None, clip_negative: bool | None = None
) -> TimeSeries:
    """Read the generation of one column or production type. Raises InputError with line and cause.

    ``clip_negative`` is as for `on_grid`.
    """
    table = parse_table(path, text, is_entsoe_header)
    if _TYPE in table.names:
        table = only_rows(table, _AREA, None, "export one area only")
        types = sorted({*table.texts(_TYPE)})
        table = only_rows(table, _TYPE, choose_column(path, types, column), "")
        names = [name for name in table.names if name not in (_AREA, _TYPE) and name[:3] != "MTU"]
        column = choose_column(path, names, None)
    else:
        names = [name for name in table.names if name != _AREA and name[:3] != "MTU"]
        column = choose_column(path, names, column)
    try:
        unit = power_unit(unit_in_name(column) or "MW")
    except UnitError as error:
        raise InputError(path, f"{column}: {error}") from None
    if unit.per_unit:
        raise InputError(path, f"column {column!r} is a share: expected powers in MW")
    table, times = existing_rows(table, *entsoe_times(table), [column])
    row_s = equal_row_s(table, times) if unit.of_rows else 1
    values = table.numbers(column) * unit.watts(row_s)
    return on_grid(table, times, {POWER: values}, clip_negative=clip_negative)


def only_rows(table: Table, name: str, wanted: str | None, advice: str) -> Table:
    """Return a table with the rows that have ``wanted`` in a column; None: the only text that it has.

    Raises InputError with ``advice`` where there are several texts.
    """
    if name not in table.names:
        return table
    texts = table.texts(name)
    kinds = sorted({*texts})
    if wanted is None and len(kinds) > 1:
        raise InputError(table.path, f"{name} has {len(kinds)} values, {listed(kinds)}: {advice}")
    kept = [row for row, text in enumerate(texts) if wanted is None or text == wanted]
    return replace(table, rows=[table.rows[row] for row in kept], lines=table.lines[kept])


def entsoe_times(table: Table) -> tuple[IntArray, BoolArray]:
    """Seconds since 1970 (UTC) of each row, and whether its local hour exists."""
    name = next(name for name in table.names if name.startswith("MTU"))
    of_header = _ZONE.search(name)
    local_s = np.zeros(len(table.rows), dtype=np.int64)
    fixed: dict[int, int] = {}
    for row, text in enumerate(table.texts(name)):
        match = _INTERVAL.match(text)
        if match is None:
            expected = "an interval such as '01.01.2019 00:00 - 01.01.2019 01:00 (CET)'"
            raise table.error(row, f"found {shortened(text, 60)!r}, expected {expected}")
        day, month, year, hour, minute = (int(part) for part in match.groups()[:5])
        try:
            local = datetime(year, month, day, hour, minute, tzinfo=timezone.utc)
        except ValueError as error:
            reason = f"{error}; expected day.month.year hour:minute"
            raise table.error(row, f"found {shortened(text, 60)!r}: {reason}") from None
        local_s[row] = int(local.timestamp())
        label = _ZONE.search(text) or of_header
        if match[6] in _LABELS_S:
            fixed[row] = _LABELS_S[match[6]]
        elif label and label[1] == "UTC":
            fixed[row] = 0
    if len(fixed) == len(local_s):
        return local_s - _column(fixed, len(local_s)), np.ones(len(local_s), dtype=np.bool_)
    times, exists = to_utc(local_s, CentralEurope())
    for row, offset_s in fixed.items():
        times[row], exists[row] = local_s[row] - offset_s, True
    return times, exists


def _column(fixed: Mapping[int, int], rows: int) -> IntArray:
    return np.array([fixed[row] for row in range(rows)], dtype=np.int64)
