"""Tighter bounds where servers are few: rows that only fractions of servers break.

The relaxed model may run 3.7 servers; with 50 servers that alone costs a percent of bound. For one
kind, the most flops of a step, U(n, w) with n servers on of which w wake, is concave in n for whole
n, so that between two whole numbers the straight line bounds every plan in whole servers; each wake-up
changes it by at most a slope that a look at all pairs (n, w) gives. The same holds for the greatest n.
"""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.plan.server_model import ServerModel
from beasy_sched.plan.solver import Solver

_LARGEST = 120
"""Servers up to which the pairs (n, w) are looked at."""
_VIOLATION = 1e-6
_ROUNDING_J = 1e-6


class WholeServerRows:
    """Rows for a model of one kind, added step by step where a fractional point breaks them."""

    def __init__(self, model: ServerModel) -> None:
        """Tabulate U over all pairs."""
        self._model = model
        self._table = model.problem.tables[0]
        self._start = model.problem.on_at_start[0]
        pairs = np.array([(n, w) for n in range(self._table.servers + 1) for w in range(n + 1)])
        self._on, self._waking = pairs[:, 0], pairs[:, 1]
        self._most_flops = self._tabulate()
        finite = np.where(np.isfinite(self._most_flops), self._on, -1)
        self._most_on = finite[:, self._waking == 0].max(axis=1)
        excess = np.where(self._waking > 0, finite - self._most_on[:, None], 0)
        self._most_on_slope = (excess / np.maximum(self._waking, 1)).max(axis=1).clip(min=0.0)

    @staticmethod
    def fit(model: ServerModel) -> bool:
        """Whether such rows are known for this model."""
        tables = model.problem.tables
        return len(tables) == 1 and tables[0].can_sleep and 0 < tables[0].servers <= _LARGEST

    def _tabulate(self) -> FloatArray:
        """U by step and pair, in the model's unit of flops; minus infinity where the energy does not do."""
        table, model = self._table, self._model
        hull = table.hull
        asleep_j = min(table.asleep_j, table.falling_j)
        least_j = (self._on - self._waking) * table.on_j[0] + self._waking * table.waking_j[0]
        least_j = least_j + (table.servers - self._on) * asleep_j
        spare_j = model.problem.allowed_j[:, None] - least_j
        worth = table.waking_flops[-1] / table.on_flops[-1]  # a waking server counts as this much of one
        working = np.maximum(self._on - self._waking * (1.0 - worth), 1e-12)
        each_j = np.maximum(spare_j, 0.0) / working
        each = np.interp(each_j, table.on_j[hull] - table.on_j[0], table.on_flops[hull])
        return np.where(spare_j >= -_ROUNDING_J, each * working, -np.inf) / model.flops_unit

    def add_broken(self, solver: Solver, point: FloatArray) -> int:
        """Add the rows that the point breaks; return their number."""
        columns = self._model.columns[0]
        woken, slept = point[columns.woken], point[columns.slept]
        on, waking = self._start + woken - slept, np.diff(woken, prepend=0.0)
        speeds = self._step_flops()
        flops = (point[self._flops_columns] * speeds).sum(axis=1)
        slope, offset, waking_slope = self._lines(on)
        broken = flops > slope * on + waking_slope * waking + offset + _VIOLATION
        for step in np.flatnonzero(broken):
            self._add(solver, int(step), speeds, -slope[step], -waking_slope[step], offset[step])
        many = on > self._most_on + self._most_on_slope * waking + _VIOLATION
        for step in np.flatnonzero(many):
            self._add(solver, int(step), None, 1.0, -self._most_on_slope[step], self._most_on[step])
        return int(broken.sum() + many.sum())

    @property
    def _flops_columns(self) -> IntArray:
        columns = self._model.columns[0]
        return np.hstack((columns.whole, columns.waking))

    def _step_flops(self) -> FloatArray:
        states = self._model.columns[0].states
        parts = (self._table.on_flops[states], self._table.waking_flops[states])
        return np.concatenate(parts) / self._model.flops_unit

    def _lines(self, on: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The lines through U at the whole numbers around ``on``, and what each wake-up adds at most."""
        steady = self._most_flops[:, self._waking == 0]
        below = np.clip(np.floor(on), 0, np.maximum(self._most_on - 1, 0)).astype(np.intp)
        above = np.minimum(below + 1, self._most_on)
        rows = np.arange(len(on))
        slope = steady[rows, above] - steady[rows, below]
        offset = steady[rows, below] - slope * below
        over = self._most_flops - slope[:, None] * self._on - offset[:, None]
        each = np.where(self._waking > 0, over / np.maximum(self._waking, 1), -np.inf)
        most = each.max(axis=1)
        return slope, offset, np.where(np.isfinite(most), most, 0.0)  # no server can wake: any slope holds

    def _add(
        self, solver: Solver, step: int, speeds: FloatArray | None, on: float, waking: float, upper: float
    ) -> None:
        """Add ``flops + on * n + waking * w <= upper`` (without the flops where no speeds are given)."""
        columns = self._model.columns[0]
        entries = {int(columns.woken[step]): on + waking, int(columns.slept[step]): -on}
        if step > 0:
            entries[int(columns.woken[step - 1])] = -waking
        indices, values = np.array(list(entries)), np.array(list(entries.values()))
        if speeds is not None:
            indices = np.concatenate((self._flops_columns[step], indices))
            values = np.concatenate((speeds, values))
        solver.add_row(indices, values, upper=upper - on * self._start)
