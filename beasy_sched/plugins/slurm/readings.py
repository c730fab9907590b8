"""Parser of readings from live sources: the power currently produced or used, or storage levels.

A line is a JSON object with the fields of a power event (`protocol.notices`), a number alone, or a row of a
table whose header names the fields, or one column of power with its unit (``PV [kW]``). No input or output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from beasy_sched.formats.batsim_versions import event_from_batsim5, is_generic_event
from beasy_sched.formats.decoding import Malformed, csv_line, decode_json
from beasy_sched.formats.reading import is_number, not_utf8
from beasy_sched.formats.table import DELIMITERS, NOTHING, parse_moment
from beasy_sched.formats.time_columns import EPOCH_FROM_S, TIME_NAMES, is_csv_header
from beasy_sched.formats.unit_table import UnitError, cover_share, power_unit, share_in_name, unit_in_name
from beasy_sched.limits import LARGEST_ENERGY_J, LARGEST_POWER_W, LATEST_S, shortened
from beasy_sched.numbers import ANY_NUMBER, Range, found_text
from beasy_sched.protocol.notices import (
    CARBON_FIELD,
    POWER_FIELD,
    PRICE_FIELD,
    SUN_FIELD,
    power_problem,
)
from beasy_sched.units import counted

SOC_FIELD: Final = "soc_pct"
"""Field with the battery's state of charge, percent of its capacity."""
HYDROGEN_FIELD: Final = "hydrogen_kg"
"""Field, with it or alone, with the hydrogen in the tank, kg."""
USED_POWER_FIELD: Final = "power_w"
"""Field with the power that all nodes draw, W."""
ENERGY_FIELD: Final = "energy_j"
"""Field, with it or alone, with a counter of the energy that they have used, J."""
LONGEST_LINE: Final = 1 << 16
"""Most bytes of a line of a live source; longer ones are damaged."""
_SHOWN: Final = 60
"""Number of characters of a line that a message quotes."""
_FRACTION: Final = re.compile(r"(:\d\d)[.,]\d+")
"""The seconds of a date, and their fraction."""
_CHARGE: Final = re.compile(r"(?i)\bsoc(?![a-z])|state of charge|charge level")
"""Names of columns with a state of charge."""
_NINJA_POWER: Final = "electricity"
"""Column of Renewables.ninja with the power, kW."""


@dataclass(frozen=True)
class Reading:
    """A reading of a source."""

    at: float
    """Time from which it holds, s since 1970."""
    fields: dict[str, float]
    """Its fields of the quantity, such as `POWER_FIELD`, W."""


class Damaged(ValueError):
    """A line that cannot be read; the message states what was found and expected."""

    def __init__(self, kind: str, message: str) -> None:
        """``kind`` is the same for all lines with the same fault."""
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Quantity:
    """The quantity that a source provides."""

    name: str
    """Name, as in "the power source"."""
    field: str
    """The field for a number alone."""
    unit: str
    """Its unit."""
    others: tuple[str, ...]
    """Optional fields."""
    problem: Callable[[Mapping[str, Any]], str]
    """Return the error in the fields of a reading; empty if they are valid."""
    factor: Callable[[str], float | None]
    """Factor from values of a table's column to those of ``field``; None for other columns."""
    assumed: Mapping[str, float] | None
    """Value used while the source is silent; None: the value computed by the run."""
    assumption: str
    """Description of that value."""


def _no_power(fields: Mapping[str, Any]) -> str:
    if POWER_FIELD not in fields:
        return f"found no {POWER_FIELD}"
    return power_problem(fields)


def _power_factor(column: str) -> float | None:
    try:
        unit = power_unit("kW" if column == _NINJA_POWER else unit_in_name(column) or "")
    except UnitError:
        return None
    return unit.worth if unit.is_power else None


def _percent_factor(column: str) -> float | None:
    """Return percent per unit of a column with the state of charge, ``SoC [%]`` or ``soc (p.u.)``."""
    unit = share_in_name(column)
    return 100.0 * cover_share(unit) if unit is not None and _CHARGE.search(column) else None


def _names_a_quantity(column: str) -> bool:
    """Whether a string names a column of any quantity, with its unit for the numbers below."""
    return unit_in_name(column) is not None or _CHARGE.search(column) is not None


def _outside(ranges: Mapping[str, Range]) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that describes errors in fields, of which at least one is required."""

    def problem(fields: Mapping[str, Any]) -> str:
        if not fields:
            return f"found neither {' nor '.join(ranges)}"
        for field, value in fields.items():
            if not ranges[field].holds(value):
                return f"found {field} {found_text(value)}, expected {ranges[field].expected_not(value)}"
        return ""

    return problem


POWER: Final = Quantity(
    "power",
    POWER_FIELD,
    "W",
    (SUN_FIELD, PRICE_FIELD, CARBON_FIELD),
    _no_power,
    _power_factor,
    {POWER_FIELD: 0.0},
    "assuming 0 W",
)
"""The current production."""
BATTERY: Final = Quantity(
    "battery",
    SOC_FIELD,
    "percent",
    (HYDROGEN_FIELD,),
    _outside({SOC_FIELD: Range(0, 100), HYDROGEN_FIELD: Range(0)}),
    _percent_factor,
    None,
    "using the computed state of charge",
)
"""The current storage levels."""
METER: Final = Quantity(
    "meter",
    USED_POWER_FIELD,
    "W",
    (ENERGY_FIELD,),
    _outside({USED_POWER_FIELD: Range(0, LARGEST_POWER_W), ENERGY_FIELD: Range(0, LARGEST_ENERGY_J)}),
    _power_factor,
    None,
    "using its last reading",
)
"""The current power or energy use of the nodes."""


@dataclass(frozen=True)
class _ReadColumns:
    """Columns of a table that are read."""

    delimiter: str
    width: int
    values: dict[str, tuple[int, float]]
    """Column and factor of each field."""
    time: int | None
    """The column of times."""


class LineReader:
    """Parser of the lines of one source, in sequence."""

    def __init__(self, quantity: Quantity, epoch_s: float | None = None) -> None:
        """``epoch_s``: the time, s since 1970, from which small timestamps count.

        Without one, and on lines without a time, a reading holds from the time at which it is read.
        """
        self._quantity, self._epoch_s = quantity, epoch_s
        self._columns: _ReadColumns | None = None
        self._unknown_header = ""
        """Error in the header; empty if it is valid."""

    def forget(self) -> None:
        """Begin a new file, with its own header."""
        self._columns, self._unknown_header = None, ""

    def read(self, line: bytes, now: float) -> Reading | None:
        """Return the reading on a line that was written at ``now`` (s since 1970).

        None for an empty line, a comment or a header. Raises Damaged.
        """
        if len(line) > LONGEST_LINE:
            raise Damaged("length", f"found a line of more than {LONGEST_LINE >> 10} KiB")
        try:
            text = line.decode("utf-8-sig").strip()
        except UnicodeDecodeError as error:
            raise Damaged("encoding", not_utf8(line, error.start)) from None
        if not text or text[0] == "#":
            return None
        if text[0] == "{":
            fields, time = self._of_object(text)
        elif not text[0].isdigit() and (columns := self._header(text)) is not None:
            self._columns, self._unknown_header = columns, ""
            return None
        elif self._columns is not None:
            fields, time = self._of_row(text, self._columns)
        elif self._unknown_header:
            raise Damaged("header", self._unknown_header)
        elif is_number(text):
            fields, time = {self._quantity.field: float(text)}, None
        else:
            raise Damaged("text", f"found {shortened(text, _SHOWN)!r}, expected {self._expected}")
        if problem := self._quantity.problem(fields):
            raise Damaged("value", f"{problem}, in {shortened(text, _SHOWN)!r}")
        at = now if time is None else self._moment(time, now)
        return Reading(at, {field: float(value) for field, value in fields.items()})

    @property
    def _expected(self) -> str:
        field = self._quantity.field
        return f"a number ({self._quantity.unit}), or a JSON object or a table with {field}"

    def _of_object(self, text: str) -> tuple[dict[str, Any], Any]:
        """Return the fields of a JSON object, and its time. Raises Damaged."""
        try:
            event = decode_json(text.encode(), dict[str, Any])
        except Malformed as error:
            raise Damaged("JSON", f"{shortened(text, _SHOWN)!r} {error}") from None
        if is_generic_event(event) and "timestamp" in event:
            event = event_from_batsim5(event)
        quantity = self._quantity
        fields = {name: event.get(name) for name in (quantity.field, *quantity.others)}
        time = next((event[name] for name in TIME_NAMES if event.get(name) is not None), None)
        return {name: value for name, value in fields.items() if value is not None}, time

    # --- tables ---------------------------------------------------------------------------------------------

    def _header(self, text: str) -> _ReadColumns | None:
        """Return the columns that a header names; None for another line. Raises Damaged."""
        readings = [(csv_line(text, delimiter), delimiter) for delimiter in DELIMITERS]
        cells, delimiter = max(readings, key=lambda reading: len(reading[0]))
        names = [cell.strip() for cell in cells]
        if not names or not is_csv_header(names):
            return None
        time = next((at for at, name in enumerate(names) if name.lower() in TIME_NAMES), None)
        fields = (self._quantity.field, *self._quantity.others)
        values = {name: (at, 1.0) for at, name in enumerate(names) if name in fields}
        stated = [(at, factor) for at, name in enumerate(names) if (factor := self._quantity.factor(name))]
        if len(stated) == 1:
            values.setdefault(self._quantity.field, stated[0])
        if values and (len(stated) < 2 or self._quantity.field in values):
            return _ReadColumns(delimiter, len(names), values, time)
        unnamed = time is None and not stated and not any(map(_names_a_quantity, names))
        if unnamed or self._columns is not None:
            return None
        named, field = shortened(", ".join(names), 200), self._quantity.field
        self._unknown_header = (
            f"found the columns {named}: rename one to {field}, or state the unit of only one"
        )
        raise Damaged("header", self._unknown_header)

    def _of_row(self, text: str, columns: _ReadColumns) -> tuple[dict[str, Any], Any]:
        """Return the fields of a row, and its time. Raises Damaged."""
        cells = [cell.strip() for cell in csv_line(text, columns.delimiter)]
        if len(cells) != columns.width:
            message = (
                f"{shortened(text, _SHOWN)!r} has {counted(len(cells), 'value')}, expected {columns.width}"
            )
            raise Damaged("row", message)
        fields: dict[str, float] = {}
        for field, (at, factor) in columns.values.items():
            if cells[at].lower() in NOTHING:
                continue
            cell = cells[at].replace(",", ".") if columns.delimiter == ";" else cells[at]
            try:
                fields[field] = factor * ANY_NUMBER.read(cell)
            except ValueError as error:
                raise Damaged("number", f"{field}: {error}") from None
        return fields, None if columns.time is None else cells[columns.time]

    # --- times ----------------------------------------------------------------------------------------------

    def _moment(self, time: object, now: float) -> float:
        """Return seconds since 1970 of a date, or of a number of (milli)seconds. Raises Damaged."""
        seconds: float | None = None
        if isinstance(time, str):
            seconds = float(time) if is_number(time) else parse_moment(_FRACTION.sub(r"\1", time))
        elif isinstance(time, (int, float)) and not isinstance(time, bool):
            seconds = float(time)
        if seconds is None or not 0 <= seconds <= LATEST_S:
            expected = "seconds since 1970 or a time such as 2026-06-01T05:00:00Z"
            raise Damaged("time", f"found the time {found_text(time)}, expected {expected}")
        if seconds < EPOCH_FROM_S:
            return now if self._epoch_s is None else self._epoch_s + seconds
        return seconds / 1000.0 if seconds > 1000 * EPOCH_FROM_S else seconds
