"""A forecast within a recording: what was read, and is in use from the next message on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.forecast.weather import IssuedTable


class RecordedForecast(msgspec.Struct, frozen=True):
    """A table of powers; arrays are bytes of 64-bit numbers, times count from time 0 of the run, s."""

    option: str
    """Option that named the source: ``--forecast`` or ``--replan-production``."""
    start: str | None
    """Date of time 0, as in ISO 8601; None if unknown."""
    is_watched: bool
    """Whether its age counts."""
    interval_s: float
    issued_s: bytes
    valid_s: bytes
    values: bytes
    levels: bytes | None = None
    by_level: bytes | None = None

    @classmethod
    def of(
        cls, option: str, table: IssuedTable, start: datetime | None, *, is_watched: bool
    ) -> RecordedForecast:
        """Return the record of a table."""
        return cls(
            option,
            None if start is None else start.isoformat(),
            is_watched,
            table.interval_s,
            _bytes(table.issued_s),
            _bytes(table.valid_s),
            _bytes(table.values),
            None if table.levels is None else _bytes(table.levels),
            None if table.by_level is None else _bytes(table.by_level),
        )

    def table(self) -> IssuedTable:
        """Return the table. Raises ValueError for arrays that do not fit together."""
        issued_s, valid_s, values = map(_array, (self.issued_s, self.valid_s, self.values))
        if not len(issued_s) == len(valid_s) == len(values) > 0:
            raise ValueError(f"{len(issued_s)} issues, {len(valid_s)} times and {len(values)} values")
        levels = None if self.levels is None else _array(self.levels)
        by_level = None
        if levels is not None and self.by_level is not None:
            by_level = _array(self.by_level).reshape(len(levels), len(values))
        return IssuedTable(issued_s, valid_s, values, self.interval_s, levels=levels, by_level=by_level)

    def start_date(self) -> datetime | None:
        """Return the date of time 0. Raises ValueError for another text."""
        return None if self.start is None else datetime.fromisoformat(self.start)

    def fields(self) -> dict[str, Any]:
        """Return the fields by name, for MessagePack."""
        return msgspec.structs.asdict(self)


def _bytes(values: FloatArray) -> bytes:
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def _array(data: bytes) -> FloatArray:
    return np.frombuffer(data, dtype="<f8").astype(np.float64)
