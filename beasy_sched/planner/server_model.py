"""ITDM as a linear model over counts (Eq. 3.13-3.22), relaxed or in integers.

Columns by kind: ``whole[t, d]`` and ``waking[t, d]`` (servers at P-state d for the whole step, or after
waking in it), and the running totals ``woken[t]`` and ``slept[t]`` of wake-ups and falls asleep up to
and including step t. With n(t) = n0 + woken[t] - slept[t] servers on:

- on through step t: sum of whole[t, d] = n0 + woken[t-1] - slept[t]  (on before and not falling asleep)
- waking in step t: sum of waking[t, d] = woken[t] - woken[t-1]
- only sleepers wake: n0 + woken[t] - slept[t-1] <= N  (a server cannot fall asleep and wake at once)
- least on-time of M steps: slept[t] <= n0 + woken[t-M], and at first slept[t] <= n0 - obliged[t]
- energy of every step (Eq. 3.16) at most the budget.

Running totals make the on-time rule two entries a row instead of M, and rounding a fractional plan easy.

The relaxed model may run 3.7 servers; with 50 servers that alone costs a percent of bound. For few
servers, rows that only fractions of servers violate make the bound tighter: `PriceRows` for several kinds,
`WholeServerRows` for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, IntArray
from beasy_sched.planner.server_problem import KindCounts, KindTable, ServerProblem
from beasy_sched.planner.solver import LinearModel, Solver, Term


@dataclass(frozen=True)
class KindColumns:
    """Columns of one kind."""

    table: KindTable
    start: int
    """Servers that are on in the step before the first."""
    states: IntArray
    """Useful P-states that have columns: D of them."""
    busy: IntArray
    """Columns of busy servers, [T, 2 D]: those of ``whole`` by P-state, then those of ``waking``."""
    flops: FloatArray
    """Flops of one server in each column, [2 D], in the unit of the kind's table."""
    energy_j: FloatArray
    woken: IntArray
    slept: IntArray


class ServerModel:
    """Linear model of a problem, in units of one server's step at the highest speed and power."""

    def __init__(self, problem: ServerProblem, *, integer: bool) -> None:
        """Build the model: in integers with all useful P-states, or relaxed with those on the hull."""
        self.problem = problem
        self.linear = LinearModel()
        self.flops_unit = max(float(table.on_flops[-1]) for table in problem.tables)
        self.energy_unit_j = max(float(table.on_j[-1]) for table in problem.tables)
        self._before = np.where(np.arange(problem.steps) == 0, 0.0, 1.0)
        """Coefficient of a quantity of the previous step: 0 for the first step, else 1, [T]."""
        kinds = zip(problem.tables, problem.on_at_start, problem.obliged, strict=True)
        self.columns = tuple(self._kind(table, start, obliged, integer) for table, start, obliged in kinds)
        self.reserve = self.linear.columns(problem.steps, 0.0, 0.0)
        """Energy of each step that must remain unused, in ``energy_unit_j``: fixed by its bounds."""
        self._energy_rows()

    def costs(self) -> list[tuple[IntArray, FloatArray]]:
        """Objective to minimize: the negative of the flops, and the cost of wake-ups, in ``flops_unit``."""
        costs: list[tuple[IntArray, FloatArray]] = []
        for columns, switch_cost in zip(self.columns, self.problem.switch_cost_flops, strict=True):
            each = np.repeat((0.0, switch_cost), len(columns.states)) - columns.flops
            costs.append((columns.busy.ravel(), np.tile(each / self.flops_unit, self.problem.steps)))
        return costs

    def counts(self, values: FloatArray) -> tuple[KindCounts, ...]:
        """Read the counts from an integer point."""
        counts = []
        for columns in self.columns:
            shape = (2, self.problem.steps, len(columns.table.pstates))
            whole, waking = np.zeros(shape, dtype=np.int64)
            busy = _rounded(values[columns.busy]).reshape(self.problem.steps, 2, -1)
            whole[:, columns.states], waking[:, columns.states] = busy[:, 0], busy[:, 1]
            counts.append(KindCounts(whole, waking, np.diff(_rounded(values[columns.slept]), prepend=0)))
        return tuple(counts)

    def _kind(self, table: KindTable, start: int, obliged: IntArray, integer: bool) -> KindColumns:
        """Add the columns of a kind and the rows that link its steps."""
        linear, before, steps = self.linear, self._before, self.problem.steps
        least = self.problem.minimum_on_steps
        states = np.arange(len(table.pstates)) if integer else table.hull
        whole = linear.columns(steps * len(states), integer=integer).reshape(steps, -1)
        most = steps * table.servers if table.can_sleep else 0
        waking = linear.columns(whole.size, 0.0, min(most, table.servers), integer=integer).reshape(steps, -1)
        woken = linear.columns(steps, 0.0, most, integer=integer)
        early = np.where(np.arange(steps) < least, np.minimum(start - obliged, most), most)
        slept = linear.columns(steps, 0.0, early, integer=integer)
        earlier = _shifted(woken)
        linear.rows(steps, start, start, *((c, 1.0) for c in whole.T), (earlier, -before), (slept, 1.0))
        linear.rows(steps, 0.0, 0.0, *((c, 1.0) for c in waking.T), (woken, -1.0), (earlier, before))
        linear.rows(steps, -np.inf, table.servers - start, (woken, 1.0), (_shifted(slept), -before))
        linear.rows(steps - 1, 0.0, np.inf, (slept[1:], 1.0), (slept[:-1], -1.0))
        late = max(0, steps - least)
        linear.rows(late, -np.inf, start, (slept[steps - late :], 1.0), (woken[:late], -1.0))
        flops = np.concatenate((table.on_flops[states], table.waking_flops[states]))
        energy_j = np.concatenate((table.on_j[states], table.waking_j[states]))
        return KindColumns(table, start, states, np.hstack((whole, waking)), flops, energy_j, woken, slept)

    def _energy_rows(self) -> None:
        unit, right_j = self.energy_unit_j, self.problem.allowed_j.copy()
        terms: list[Term] = [(self.reserve, 1.0)]
        for columns in self.columns:
            terms += zip(columns.busy.T, columns.energy_j / unit, strict=True)
            table = columns.table
            if table.can_sleep:
                # N - n(t) servers sleep, those that fall asleep in this step at another price.
                right_j -= (table.servers - columns.start) * table.asleep_j
                extra_j = table.falling_j - table.asleep_j
                terms += [(columns.woken, -table.asleep_j / unit)]
                terms += [(columns.slept, (table.asleep_j + extra_j) / unit)]
                terms += [(_shifted(columns.slept), -self._before * extra_j / unit)]
        self.linear.rows(self.problem.steps, -np.inf, right_j / unit, *terms)


def _shifted(columns: IntArray) -> IntArray:
    """Return the columns one step earlier (the first represents itself and needs the coefficient 0)."""
    return np.concatenate((columns[:1], columns[:-1]))


def _rounded(values: FloatArray) -> IntArray:
    return np.rint(values).astype(np.int64)


_MOST_COMBINATIONS = 6000
"""Maximum number of combinations of server counts that are all examined."""
_CELLS_A_PIECE = 100_000
"""Size of the pieces in which large tables are processed."""
_VIOLATION = 1e-6
_ROUNDING_J = 1e-6


class PriceRows:
    """Rows for a model of several kinds, added step by step if a fractional point violates them.

    At a price p a joule, a server of a kind that is on through the step gains at most g = max_d(flops_d - p
    * energy_d) + p * (energy asleep), one that wakes at most h, likewise. Summed up, the flops of a step are
    at most sum(g * m) + sum(h * w) + p * (budget - all asleep) for m servers on through and w waking: that
    much the relaxed model knows. For whole servers without wake-ups the last term falls to
    L = max over whole m of (most flops with m - sum(g * m)); every wake-up may give back the difference.
    """

    def __init__(self, model: ServerModel) -> None:
        self._model = model
        tables = model.problem.tables
        prices = [0.0]  # prices (flops/J) at which a kind changes its best P-state, or breaks even
        for table in tables:
            energy_j, flops = table.on_j[table.hull], table.on_flops[table.hull]
            prices += (np.diff(flops) / np.diff(energy_j)).tolist()
            prices.append(float((flops / np.maximum(energy_j - table.rest_j, 1e-9)).max()))
        self._prices = np.unique(prices)
        each, asleep = self._prices[:, None], [self._prices * t.rest_j for t in tables]
        through = [(t.on_flops - each * t.on_j).max(axis=1) for t in tables]
        waking = [(t.waking_flops - each * t.waking_j).max(axis=1) for t in tables]
        self._through, self._waking = np.add((through, waking), asleep).transpose(0, 2, 1).copy()
        """Maximum gain of a server that is on through (g), or wakes (h), by price and kind."""
        self._spare_j = model.problem.allowed_j - sum(t.servers * t.rest_j for t in tables)
        self._most = self._tabulate()

    def add_broken(self, solver: Solver, point: FloatArray) -> int:
        """Add the violated rows, for each step the most violated one."""
        kinds, unit = self._model.columns, self._model.flops_unit
        sums = [point[columns.busy].reshape(len(columns.busy), 2, -1).sum(axis=2) for columns in kinds]
        through, waking = np.array(sums).transpose(2, 0, 1).copy()
        flops = sum(point[columns.busy] @ columns.flops for columns in kinds)
        give_back = self._prices[:, None] * self._spare_j - self._most
        limits = self._through @ through + self._waking @ waking + self._most + give_back * waking.sum(axis=0)
        prices = np.argmin(limits, axis=0)
        broken = np.flatnonzero(flops > limits.min(axis=0) + _VIOLATION * unit)
        price, values = prices[broken], []
        for k, columns in enumerate(kinds):
            gains = np.stack((self._through[price, k], self._waking[price, k]), axis=1)
            back = np.stack((np.zeros(len(broken)), give_back[price, broken]), axis=1)
            each = columns.flops - gains.repeat(len(columns.states), axis=1)
            values.append(each - back.repeat(len(columns.states), axis=1))
        busy = np.hstack([columns.busy[broken] for columns in kinds])
        solver.add_rows(busy, np.hstack(values) / unit, self._most[price, broken] / unit)
        return len(broken)

    def _tabulate(self) -> FloatArray:
        """Return L by price and step, flops, over all combinations of servers on through and P-states."""
        problem = self._model.problem
        choices = [np.arange(0 if t.can_sleep else t.servers, t.servers + 1) for t in problem.tables]
        grid = np.stack([part.ravel() for part in np.meshgrid(*choices, indexing="ij")], axis=1)
        extra_j = grid @ np.array([t.on_j[0] - t.rest_j for t in problem.tables])
        slowest = grid @ np.array([t.on_flops[0] for t in problem.tables])
        moves = [move for move in problem.moves[0] if not move.waking]
        most = np.empty((len(self._prices), problem.steps))
        rows = max(1, _CELLS_A_PIECE // len(grid))
        for first in range(0, problem.steps, rows):
            piece = slice(first, first + rows)
            left_j = self._spare_j[piece, None] - extra_j
            flops = np.where(left_j < -_ROUNDING_J, -np.inf, slowest)
            left_j = np.maximum(left_j, 0.0)
            for move in moves:
                used_j = np.minimum(left_j, grid[:, move.kind] * move.energy_j)
                flops += move.flops / move.energy_j * used_j
                left_j -= used_j
            for price, gains in enumerate(self._through):
                most[price, piece] = (flops - grid @ gains).max(axis=1)
        return most


_MOST_SERVERS = 120
"""Maximum number of servers for which all pairs (n, w) are examined."""


class _Pairs(NamedTuple):
    """All pairs of numbers of servers that are on (n) and waking (w) in a step, w > 0, sorted by n."""

    on: IntArray
    waking: IntArray
    least_j: FloatArray
    """Least energy of all servers, J."""


class _Lines(NamedTuple):
    """Straight line over n in each step, [T]: flops, in the model's unit."""

    slope: FloatArray
    offset: FloatArray


class WholeServerRows:
    """Rows for a model of one kind, added step by step if a fractional point violates them.

    The most flops of a step, U(n, w) with n servers on of which w wake, is concave in n for whole n, so that
    between two integers the straight line bounds every integer plan; each wake-up changes it by at most a
    slope determined from all pairs (n, w). The same holds for the greatest n.
    """

    def __init__(self, model: ServerModel) -> None:
        self._model = model
        (self._columns,) = model.columns
        self._speeds = self._columns.flops / model.flops_unit
        servers = self._columns.table.servers
        self._steps = np.arange(model.problem.steps)
        steady = np.arange(servers + 1)
        self._steady_flops = self._most_flops(steady, np.zeros_like(steady), self._steps)
        """U(n, 0): most flops of each step without wake-ups, [T, n]."""
        self._most_on = np.where(np.isfinite(self._steady_flops), steady, -1).max(axis=1)
        """Greatest n of each step without wake-ups, [T]."""
        pairs = np.array([(on, waking) for on in range(servers + 1) for waking in range(1, on + 1)])
        on, waking = pairs[:, 0], pairs[:, 1]
        self._pairs = _Pairs(on, waking, self._least_energy_j(on, waking))
        self._most_on_slope = self._slopes_of_most_on()

    def add_broken(self, solver: Solver, point: FloatArray) -> int:
        """Add the violated rows; return their number."""
        columns = self._columns
        woken, slept = point[columns.woken], point[columns.slept]
        on, waking = columns.start + woken - slept, np.diff(woken, prepend=0.0)
        flops = (point[columns.busy] * self._speeds).sum(axis=1)
        return self._add_flops_rows(solver, on, waking, flops) + self._add_most_on_rows(solver, on, waking)

    def _add_flops_rows(self, solver: Solver, on: FloatArray, waking: FloatArray, flops: FloatArray) -> int:
        """Add ``flops <= slope * n + waking slope * w + offset`` where it is violated; return how often.

        ``on`` (n), ``waking`` (w) and ``flops`` are those of the point, by step, [T].
        """
        lines = self._lines(on)
        without_waking = lines.slope * on + lines.offset
        # If none wakes, the slope of wake-ups does not affect whether the row is violated.
        doubtful = np.flatnonzero((waking != 0.0) | (flops > without_waking + _VIOLATION))
        waking_slope = np.zeros(len(on))
        waking_slope[doubtful] = self._waking_slopes(doubtful, lines)
        limit = lines.slope * on + waking_slope * waking + lines.offset
        broken = np.flatnonzero(flops > limit + _VIOLATION)
        self._add(
            solver, broken, -lines.slope[broken], -waking_slope[broken], lines.offset[broken], self._speeds
        )
        return len(broken)

    def _add_most_on_rows(self, solver: Solver, on: FloatArray, waking: FloatArray) -> int:
        """Add ``n <= greatest n + slope * w`` where it is violated; return how often."""
        slope, most_on = self._most_on_slope, self._most_on
        broken = np.flatnonzero(on > most_on + slope * waking + _VIOLATION)
        no_flops = self._speeds[:0]
        self._add(solver, broken, np.ones(len(broken)), -slope[broken], most_on[broken], no_flops)
        return len(broken)

    def _add(
        self,
        solver: Solver,
        steps: IndexArray,
        each_on: FloatArray,
        each_waking: FloatArray,
        upper: FloatArray,
        speeds: FloatArray,
    ) -> None:
        """Add rows ``flops (or nothing) + each_on * n + each_waking * w <= upper`` of these steps."""
        columns = self._columns
        woken_before = np.where(steps > 0, columns.woken[steps - 1], -1)
        totals = columns.woken[steps], columns.slept[steps], woken_before
        indices = np.column_stack((columns.busy[steps, : len(speeds)], *totals))
        factors = each_on + each_waking, -each_on, -each_waking
        values = np.column_stack((np.tile(speeds, (len(steps), 1)), *factors))
        solver.add_rows(indices, values, upper - each_on * columns.start)

    def _lines(self, on: FloatArray) -> _Lines:
        """Return the lines through U(n, 0) at the integers around ``on``."""
        steady = self._steady_flops
        below = np.clip(np.floor(on), 0, np.maximum(self._most_on - 1, 0)).astype(np.intp)
        above = np.minimum(below + 1, self._most_on)
        slope = steady[self._steps, above] - steady[self._steps, below]
        return _Lines(slope, steady[self._steps, below] - slope * below)

    def _waking_slopes(self, steps: IndexArray, lines: _Lines) -> FloatArray:
        """Return the maximum that each wake-up adds to these lines, at ``steps``."""
        most = np.full(len(lines.slope), -np.inf)
        for piece, fed in self._pieces(steps):
            on, waking = self._pairs.on[fed], self._pairs.waking[fed]
            above_line = self._most_flops(on, waking, piece)  # [steps, pairs]
            above_line -= lines.slope[piece, None] * on
            above_line -= lines.offset[piece, None]
            above_line /= waking
            most[piece] = above_line.max(axis=1, initial=-np.inf)
        return np.where(np.isfinite(most), most, 0.0)[steps]  # no server can wake: any slope holds

    def _slopes_of_most_on(self) -> FloatArray:
        """Return the maximum increase of the greatest number of servers on per wake-up, in each step."""
        slopes = np.zeros(len(self._steps))
        pairs = self._pairs
        for piece, fed in self._pieces(self._steps):
            first_above = int(np.searchsorted(pairs.on, self._most_on[piece].min(), side="right"))
            more = slice(first_above, fed.stop)
            possible = self._spare_j(pairs.least_j[more], piece) >= -_ROUNDING_J
            excess = np.where(possible, pairs.on[more], -1) - self._most_on[piece, None]
            slopes[piece] = (excess / pairs.waking[more]).max(axis=1, initial=0.0)
        return slopes

    def _pieces(self, steps: IndexArray) -> Iterator[tuple[IndexArray, slice]]:
        """Yield groups of steps of similar energy, with the range of pairs that any of them can supply.

        A table of all pairs at all steps would leave the processor's caches.
        """
        allowed_j = self._model.problem.allowed_j
        ordered = steps[np.argsort(allowed_j[steps], kind="stable")]
        size = max(1, _CELLS_A_PIECE // len(self._pairs.on))
        for first in range(0, len(steps), size):
            piece = ordered[first : first + size]
            fed = np.flatnonzero(allowed_j[piece[-1]] - self._pairs.least_j >= -_ROUNDING_J)
            yield piece, slice(0, int(fed[-1]) + 1 if fed.size else 0)

    def _least_energy_j(self, on: IntArray, waking: IntArray) -> FloatArray:
        """Return the least energy of all servers with ``on`` servers on, of which some wake, J."""
        table = self._columns.table
        least_j: FloatArray = (on - waking) * table.on_j[0] + waking * table.waking_j[0]
        return least_j + (table.servers - on) * table.rest_j

    def _spare_j(self, least_j: FloatArray, steps: IndexArray) -> FloatArray:
        """Return the remaining energy of each step: [steps, pairs]."""
        return np.asarray(self._model.problem.allowed_j[steps, None] - least_j)

    def _most_flops(self, on: IntArray, waking: IntArray, steps: IndexArray) -> FloatArray:
        """U by step and pair, in the model's unit of flops; minus infinity if the energy does not suffice."""
        table = self._columns.table
        hull = table.hull
        spare_j = self._spare_j(self._least_energy_j(on, waking), steps)
        waking_share = table.waking_flops[-1] / table.on_flops[-1]
        """Work of a waking server, as a share of that of one that is on for the whole step."""
        whole_servers = np.maximum(on - waking * (1.0 - waking_share), 1e-12)
        more_each_j = np.maximum(spare_j, 0.0) / whole_servers
        flops_each = np.interp(more_each_j, table.on_j[hull] - table.on_j[0], table.on_flops[hull])
        most_flops = np.where(spare_j >= -_ROUNDING_J, flops_each * whole_servers, -np.inf)
        return most_flops / self._model.flops_unit


def rows_for_whole_servers(model: ServerModel) -> WholeServerRows | PriceRows | None:
    """Return the rows that tighten this model; None if there are too many server counts to examine."""
    tables = model.problem.tables
    if len(tables) == 1:
        few = tables[0].can_sleep and 0 < tables[0].servers <= _MOST_SERVERS
        return WholeServerRows(model) if few else None
    combinations = np.prod([float(t.servers + 1) for t in tables if t.can_sleep])
    return PriceRows(model) if combinations <= _MOST_COMBINATIONS else None
