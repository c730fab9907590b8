"""Tighter bounds where few servers are of several kinds: rows from a price on energy.

At a price p a joule, a server of a kind that is on through the step gains at most g = max_d(flops_d - p *
energy_d) + p * (energy asleep), one that wakes at most h, likewise. Summed up, the flops of a step
are at most sum(g * m) + sum(h * w) + p * (budget - all asleep) for m servers on through and w waking: that
much the relaxed model knows. For whole servers without wake-ups the last term falls to
L = max over whole m of (most flops with m - sum(g * m)); every wake-up may give back the difference.
"""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.plan.server_model import ServerModel
from beasy_sched.plan.server_table import KindTable
from beasy_sched.plan.solver import Solver

_LARGEST = 6000
"""Combinations of numbers of servers up to which all are looked at."""
_CELLS_A_PIECE = 1_000_000
_VIOLATION = 1e-6
_ROUNDING_J = 1e-6


class PriceRows:
    """Rows for a model of several kinds, added step by step where a fractional point breaks them."""

    def __init__(self, model: ServerModel) -> None:
        """Find L for every price and step."""
        self._model = model
        tables = model.problem.tables
        self._prices = _prices(tables)
        self._through = np.array([[_gain(t, t.on_j, t.on_flops, p) for t in tables] for p in self._prices])
        self._waking = np.array(
            [[_gain(t, t.waking_j, t.waking_flops, p) for t in tables] for p in self._prices]
        )
        self._spare_j = model.problem.allowed_j - sum(t.servers * _asleep_j(t) for t in tables)
        self._most = self._tabulate()

    @staticmethod
    def fit(model: ServerModel) -> bool:
        """Whether such rows are known for this model."""
        return len(model.problem.tables) > 1 and _combinations(model.problem.tables) <= _LARGEST

    def add_broken(self, solver: Solver, point: FloatArray) -> int:
        """Add the rows that the point breaks, the one of each step that it breaks most."""
        numbers = [(point[c.whole], point[c.waking]) for c in self._model.columns]
        unit = self._model.flops_unit
        through = np.array([whole.sum(axis=1) for whole, _ in numbers])
        waking = np.array([woken.sum(axis=1) for _, woken in numbers])
        flops = sum(
            whole @ t.on_flops[c.states] + woken @ t.waking_flops[c.states]
            for (whole, woken), t, c in zip(
                numbers, self._model.problem.tables, self._model.columns, strict=True
            )
        )
        give_back = self._prices[:, None] * self._spare_j - self._most
        limits = self._through @ through + self._waking @ waking + self._most + give_back * waking.sum(axis=0)
        price = np.argmin(limits, axis=0)
        steps = np.arange(len(price))
        broken = np.flatnonzero(flops > limits[price, steps] + _VIOLATION * unit)
        for step in broken.tolist():
            self._add(solver, step, int(price[step]), float(give_back[price[step], step]))
        return len(broken)

    def _add(self, solver: Solver, step: int, price: int, give_back: float) -> None:
        indices, values = [], []
        for k, (table, columns) in enumerate(
            zip(self._model.problem.tables, self._model.columns, strict=True)
        ):
            indices += [columns.whole[step], columns.waking[step]]
            values += [table.on_flops[columns.states] - self._through[price, k]]
            values += [table.waking_flops[columns.states] - self._waking[price, k] - give_back]
        unit = self._model.flops_unit
        solver.add_row(
            np.concatenate(indices),
            np.concatenate(values) / unit,
            upper=float(self._most[price, step]) / unit,
        )

    def _tabulate(self) -> FloatArray:
        """L by price and step, flops."""
        tables, steps = self._model.problem.tables, self._model.problem.steps
        choices = [np.arange(t.servers + 1) if t.can_sleep else np.array([t.servers]) for t in tables]
        grid = np.stack([part.ravel() for part in np.meshgrid(*choices, indexing="ij")], axis=1)
        most = np.empty((len(self._prices), steps))
        rows = max(1, _CELLS_A_PIECE // len(grid))
        for first in range(0, steps, rows):
            piece = slice(first, first + rows)
            flops = _most_flops(tables, grid, self._spare_j[piece])
            for price, gains in enumerate(self._through):
                most[price, piece] = (flops - grid @ gains).max(axis=1)
        return most


def _most_flops(tables: tuple[KindTable, ...], grid: FloatArray, spare_j: FloatArray) -> FloatArray:
    """Flops of each step for each combination of numbers on through it, P-states mixed at will."""
    extra_j = np.array([t.on_j[0] - _asleep_j(t) for t in tables])
    left_j = spare_j[:, None] - grid @ extra_j
    flops = np.broadcast_to(grid @ np.array([t.on_flops[0] for t in tables]), left_j.shape).copy()
    flops[left_j < -_ROUNDING_J] = -np.inf
    left_j = np.maximum(left_j, 0.0)
    moves = [
        (float((t.on_flops[b] - t.on_flops[a]) / (t.on_j[b] - t.on_j[a])), float(t.on_j[b] - t.on_j[a]), k)
        for k, t in enumerate(tables)
        for a, b in zip(t.hull[:-1], t.hull[1:], strict=True)
    ]
    for slope, energy_j, kind in sorted(moves, reverse=True):
        used_j = np.minimum(left_j, grid[:, kind] * energy_j)
        flops += slope * used_j
        left_j -= used_j
    return flops


def _prices(tables: tuple[KindTable, ...]) -> FloatArray:
    """Prices (flops/J) at which a kind changes its best P-state, or just pays for being on."""
    found = []
    for table in tables:
        energy_j, flops = table.on_j[table.hull], table.on_flops[table.hull]
        found += (np.diff(flops) / np.diff(energy_j)).tolist()
        found.append(float((flops / np.maximum(energy_j - _asleep_j(table), 1e-9)).max()))
    return np.unique(np.array([0.0, *found]))


def _gain(table: KindTable, energy_j: FloatArray, flops: FloatArray, price: float) -> float:
    return float((flops - price * energy_j).max()) + price * _asleep_j(table)


def _asleep_j(table: KindTable) -> float:
    return min(table.asleep_j, table.falling_j) if table.can_sleep else 0.0


def _combinations(tables: tuple[KindTable, ...]) -> int:
    return int(np.prod([float(t.servers + 1) for t in tables if t.can_sleep]))
