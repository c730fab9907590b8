"""ITDM as a linear model over counts (Eq. 3.13-3.22), relaxed or in whole numbers.

Columns by kind: ``whole[t, d]`` and ``waking[t, d]`` (servers at P-state d for the whole step, or after
waking in it), and the running totals ``woken[t]`` and ``slept[t]`` of wake-ups and falls asleep up to
and including step t. With n(t) = n0 + woken[t] - slept[t] servers on:

- on through step t: sum of whole[t, d] = n0 + woken[t-1] - slept[t]  (on before and not falling asleep)
- waking in step t: sum of waking[t, d] = woken[t] - woken[t-1]
- only sleepers wake: n0 + woken[t] - slept[t-1] <= N  (a server cannot fall asleep and wake at once)
- least on-time of M steps: slept[t] <= n0 + woken[t-M], and at first slept[t] <= n0 - obliged[t]
- energy of every step (Eq. 3.16) at most the budget.

Running totals make the on-time rule two entries a row instead of M, and rounding a fractional plan easy.

The relaxed model may run 3.7 servers; with 50 servers that alone costs a percent of bound. Where servers
are few, rows that only fractions of servers break make the bound tighter: `PriceRows` for several kinds,
`WholeServerRows` for one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.plan.server_problem import KindCounts, KindTable, ServerProblem
from beasy_sched.plan.solver import LinearModel, Solver, Term


@dataclass(frozen=True)
class KindColumns:
    """Columns of one kind."""

    states: IntArray
    """Which useful P-states have columns."""
    whole: IntArray
    waking: IntArray
    woken: IntArray
    slept: IntArray


class ServerModel:
    """The linear model of a problem, in units of one server's step at the highest speed and power."""

    def __init__(self, problem: ServerProblem, *, integer: bool) -> None:
        """Put it together: in whole numbers with all useful P-states, or relaxed with those on the hull."""
        self.problem = problem
        self.linear = LinearModel()
        self.flops_unit = max(float(table.on_flops[-1]) for table in problem.tables)
        self.energy_unit_j = max(float(table.on_j[-1]) for table in problem.tables)
        self._before = np.where(np.arange(problem.steps) == 0, 0.0, 1.0)
        """The coefficient of what was a step earlier."""
        self.columns = tuple(self._columns(k, integer) for k in range(len(problem.tables)))
        for k in range(len(problem.tables)):
            self._chain_rows(k)
        self.reserve = self.linear.columns(problem.steps, 0.0, 0.0)
        """Energy of each step that is to stay unused, in ``energy_unit_j``: fixed by its bounds."""
        self._energy_rows()

    def costs(self) -> list[tuple[IntArray, FloatArray]]:
        """What to minimize: the negative of the flops, and the cost of wake-ups, in ``flops_unit``."""
        costs: list[tuple[IntArray, FloatArray]] = []
        pairs = zip(self.columns, self.problem.tables, self.problem.switch_cost_flops, strict=True)
        for columns, table, switch_cost in pairs:
            whole = np.broadcast_to(-table.on_flops[columns.states], columns.whole.shape)
            waking = np.broadcast_to(switch_cost - table.waking_flops[columns.states], columns.waking.shape)
            costs += [(columns.whole.ravel(), whole.ravel() / self.flops_unit)]
            costs += [(columns.waking.ravel(), waking.ravel() / self.flops_unit)]
        return costs

    def counts(self, values: FloatArray) -> tuple[KindCounts, ...]:
        """Read the counts from a point in whole numbers."""
        counts = []
        for columns, table in zip(self.columns, self.problem.tables, strict=True):
            shape = (self.problem.steps, len(table.pstates))
            whole, waking = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
            whole[:, columns.states] = _rounded(values[columns.whole])
            waking[:, columns.states] = _rounded(values[columns.waking])
            falling = np.diff(_rounded(values[columns.slept]), prepend=0)
            counts.append(KindCounts(whole, waking, falling))
        return tuple(counts)

    def _columns(self, k: int, integer: bool) -> KindColumns:
        table, steps = self.problem.tables[k], self.problem.steps
        states = np.arange(len(table.pstates)) if integer else table.hull
        start, obliged = self.problem.on_at_start[k], self.problem.obliged[k]
        whole = self.linear.columns(steps * len(states), integer=integer).reshape(steps, -1)
        most = steps * table.servers if table.can_sleep else 0
        waking = self.linear.columns(steps * len(states), 0.0, min(most, table.servers), integer=integer)
        woken = self.linear.columns(steps, 0.0, most, integer=integer)
        early = np.arange(steps) < self.problem.minimum_on_steps
        slept = self.linear.columns(
            steps, 0.0, np.where(early, np.minimum(start - obliged, most), most), integer=integer
        )
        return KindColumns(states, whole, waking.reshape(steps, -1), woken, slept)

    def _chain_rows(self, k: int) -> None:
        linear, columns = self.linear, self.columns[k]
        start, servers = self.problem.on_at_start[k], self.problem.tables[k].servers
        steps, least = self.problem.steps, self.problem.minimum_on_steps
        woken, slept = columns.woken, columns.slept
        earlier, before = _shifted(woken), self._before
        through = [(columns.whole[:, d], 1.0) for d in range(len(columns.states))]
        linear.rows(steps, start, start, *through, (earlier, -before), (slept, 1.0))
        waking = [(columns.waking[:, d], 1.0) for d in range(len(columns.states))]
        linear.rows(steps, 0.0, 0.0, *waking, (woken, -1.0), (earlier, before))
        linear.rows(steps, -np.inf, servers - start, (woken, 1.0), (_shifted(slept), -before))
        linear.rows(steps - 1, 0.0, np.inf, (slept[1:], 1.0), (slept[:-1], -1.0))
        late = max(0, steps - least)
        linear.rows(late, -np.inf, start, (slept[steps - late :], 1.0), (woken[:late], -1.0))

    def _energy_rows(self) -> None:
        steps, unit = self.problem.steps, self.energy_unit_j
        right_j = self.problem.allowed_j.copy()
        terms: list[Term] = []
        for columns, table, start in zip(
            self.columns, self.problem.tables, self.problem.on_at_start, strict=True
        ):
            for column, state in enumerate(columns.states):
                terms += [(columns.whole[:, column], table.on_j[state] / unit)]
                terms += [(columns.waking[:, column], table.waking_j[state] / unit)]
            if table.can_sleep:
                # N - n(t) servers sleep, those that fall asleep in this step at another price.
                right_j -= (table.servers - start) * table.asleep_j
                extra_j = table.falling_j - table.asleep_j
                terms += [(columns.woken, -table.asleep_j / unit)]
                terms += [(columns.slept, (table.asleep_j + extra_j) / unit)]
                terms += [(_shifted(columns.slept), -self._before * extra_j / unit)]
        self.linear.rows(steps, -np.inf, right_j / unit, *terms, (self.reserve, 1.0))


def _shifted(columns: IntArray) -> IntArray:
    """The columns one step earlier (the first stands for itself: give it the coefficient 0)."""
    return np.concatenate((columns[:1], columns[:-1]))


def _rounded(values: FloatArray) -> IntArray:
    return np.rint(values).astype(np.int64)


_MOST_COMBINATIONS = 6000
"""Combinations of numbers of servers up to which all are looked at."""
_CELLS_A_PIECE = 1_000_000
_VIOLATION = 1e-6
_ROUNDING_J = 1e-6


class PriceRows:
    """Rows for a model of several kinds, added step by step where a fractional point breaks them.

    At a price p a joule, a server of a kind that is on through the step gains at most g = max_d(flops_d - p
    * energy_d) + p * (energy asleep), one that wakes at most h, likewise. Summed up, the flops of a step are
    at most sum(g * m) + sum(h * w) + p * (budget - all asleep) for m servers on through and w waking: that
    much the relaxed model knows. For whole servers without wake-ups the last term falls to
    L = max over whole m of (most flops with m - sum(g * m)); every wake-up may give back the difference.
    """

    def __init__(self, model: ServerModel) -> None:
        """Find L for every price and step."""
        self._model = model
        tables = model.problem.tables
        self._prices = _prices(tables)
        gains = [[_gains(table, price) for table in tables] for price in self._prices]
        self._through, self._waking = np.array(gains).transpose(2, 0, 1).copy()
        self._spare_j = model.problem.allowed_j - sum(t.servers * t.rest_j for t in tables)
        self._most = self._tabulate()

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
    extra_j = np.array([t.on_j[0] - t.rest_j for t in tables])
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
        found.append(float((flops / np.maximum(energy_j - table.rest_j, 1e-9)).max()))
    return np.unique(np.array([0.0, *found]))


def _gains(table: KindTable, price: float) -> tuple[float, float]:
    """What a server that is on through, or wakes, gains at most at a price a joule."""
    through = float((table.on_flops - price * table.on_j).max())
    waking = float((table.waking_flops - price * table.waking_j).max())
    return through + price * table.rest_j, waking + price * table.rest_j


_MOST_SERVERS = 120
"""Servers up to which the pairs (n, w) are looked at."""


class WholeServerRows:
    """Rows for a model of one kind, added step by step where a fractional point breaks them.

    The most flops of a step, U(n, w) with n servers on of which w wake, is concave in n for whole n, so that
    between two whole numbers the straight line bounds every plan in whole servers; each wake-up changes it
    by at most a slope that a look at all pairs (n, w) gives. The same holds for the greatest n.
    """

    def __init__(self, model: ServerModel) -> None:
        """Tabulate U over all pairs."""
        self._model = model
        self._table = model.problem.tables[0]
        self._start = model.problem.on_at_start[0]
        columns = model.columns[0]
        speeds = self._table.on_flops[columns.states], self._table.waking_flops[columns.states]
        self._flops_columns = np.hstack((columns.whole, columns.waking))
        self._speeds = np.concatenate(speeds) / model.flops_unit
        pairs = np.array([(n, w) for n in range(self._table.servers + 1) for w in range(n + 1)])
        self._on, self._waking = pairs[:, 0], pairs[:, 1]
        self._most_flops = self._tabulate()
        finite = np.where(np.isfinite(self._most_flops), self._on, -1)
        self._most_on = finite[:, self._waking == 0].max(axis=1)
        excess = np.where(self._waking > 0, finite - self._most_on[:, None], 0)
        self._most_on_slope = (excess / np.maximum(self._waking, 1)).max(axis=1).clip(min=0.0)

    def _tabulate(self) -> FloatArray:
        """U by step and pair, in the model's unit of flops; minus infinity where the energy does not do."""
        table, model = self._table, self._model
        hull = table.hull
        least_j = (self._on - self._waking) * table.on_j[0] + self._waking * table.waking_j[0]
        least_j = least_j + (table.servers - self._on) * table.rest_j
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
        flops = (point[self._flops_columns] * self._speeds).sum(axis=1)
        slope, offset, waking_slope = self._lines(on)
        broken = flops > slope * on + waking_slope * waking + offset + _VIOLATION
        for step in np.flatnonzero(broken):
            self._add(solver, int(step), self._speeds, -slope[step], -waking_slope[step], offset[step])
        many = on > self._most_on + self._most_on_slope * waking + _VIOLATION
        for step in np.flatnonzero(many):
            self._add(solver, int(step), None, 1.0, -self._most_on_slope[step], self._most_on[step])
        return int(broken.sum() + many.sum())

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


def rows_for_whole_servers(model: ServerModel) -> WholeServerRows | PriceRows | None:
    """The rows that tighten this model; None where the numbers of servers are too many to look at."""
    tables = model.problem.tables
    if len(tables) == 1:
        few = tables[0].can_sleep and 0 < tables[0].servers <= _MOST_SERVERS
        return WholeServerRows(model) if few else None
    combinations = np.prod([float(t.servers + 1) for t in tables if t.can_sleep])
    return PriceRows(model) if combinations <= _MOST_COMBINATIONS else None
