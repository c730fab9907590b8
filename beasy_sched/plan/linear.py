"""A mixed-integer linear model, put together block by block, as arrays that a solver takes."""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray

Term = tuple[IndexArray, float | FloatArray]
"""Columns and their coefficients, one a row (a single column or coefficient stands for all rows)."""


class LinearModel:
    """Columns (variables) and rows (constraints), in the order in which they are added."""

    def __init__(self) -> None:
        """Begin without columns and rows."""
        self.column_count = 0
        self.row_count = 0
        self._lower: list[FloatArray] = []
        self._upper: list[FloatArray] = []
        self._integer: list[BoolArray] = []
        self._row_lower: list[FloatArray] = []
        self._row_upper: list[FloatArray] = []
        self._entries: list[tuple[IndexArray, IndexArray, FloatArray]] = []

    def columns(
        self,
        count: int,
        lower: float | FloatArray = 0.0,
        upper: float | FloatArray = np.inf,
        *,
        integer: bool = False,
    ) -> IndexArray:
        """Add ``count`` columns within bounds, and return their indices."""
        self._lower.append(np.broadcast_to(np.asarray(lower, dtype=np.float64), count))
        self._upper.append(np.broadcast_to(np.asarray(upper, dtype=np.float64), count))
        self._integer.append(np.full(count, integer))
        self.column_count += count
        return np.arange(self.column_count - count, self.column_count)

    def rows(
        self, count: int, lower: float | FloatArray, upper: float | FloatArray, *terms: Term
    ) -> IndexArray:
        """Add ``count`` rows ``lower <= sum of terms <= upper``, and return their indices."""
        self._row_lower.append(np.broadcast_to(np.asarray(lower, dtype=np.float64), count))
        self._row_upper.append(np.broadcast_to(np.asarray(upper, dtype=np.float64), count))
        indices = np.arange(self.row_count, self.row_count + count)
        for columns, values in terms:
            spread = np.broadcast_to(np.asarray(values, dtype=np.float64), count)
            kept = spread != 0.0
            self._entries.append((indices[kept], np.broadcast_to(columns, count)[kept], spread[kept]))
        self.row_count += count
        return indices

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of all columns."""
        return np.concatenate(self._lower), np.concatenate(self._upper)

    @property
    def row_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of all rows."""
        return np.concatenate(self._row_lower), np.concatenate(self._row_upper)

    @property
    def integer(self) -> BoolArray:
        """Which columns must be whole numbers."""
        return np.concatenate(self._integer)

    def matrix(self) -> tuple[IndexArray, IndexArray, FloatArray]:
        """The coefficients by rows: starts (one more than rows), columns, values."""
        rows, columns, values = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        order = np.lexsort((columns, rows))
        counts = np.bincount(rows, minlength=self.row_count)
        starts = np.concatenate(([0], np.cumsum(counts)))
        return starts, columns[order], values[order]
