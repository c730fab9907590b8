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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.plan.linear import LinearModel, Term
from beasy_sched.plan.server_problem import KindCounts, ServerProblem
from beasy_sched.plan.server_table import KindTable


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
        return tuple(
            self._kind_counts(columns, table, values)
            for columns, table in zip(self.columns, self.problem.tables, strict=True)
        )

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
        earlier = _shifted(woken)
        before = np.where(np.arange(steps) == 0, 0.0, 1.0)
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
        before = np.where(np.arange(steps) == 0, 0.0, 1.0)
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
                terms += [(_shifted(columns.slept), -before * extra_j / unit)]
        self.linear.rows(steps, -np.inf, right_j / unit, *terms, (self.reserve, 1.0))

    def _kind_counts(self, columns: KindColumns, table: KindTable, values: FloatArray) -> KindCounts:
        shape = (self.problem.steps, len(table.pstates))
        whole, waking = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        whole[:, columns.states] = _rounded(values[columns.whole])
        waking[:, columns.states] = _rounded(values[columns.waking])
        return KindCounts(whole, waking, np.diff(_rounded(values[columns.slept]), prepend=0))


def _shifted(columns: IntArray) -> IntArray:
    """The columns one step earlier (the first stands for itself: give it the coefficient 0)."""
    return np.concatenate((columns[:1], columns[:-1]))


def _rounded(values: FloatArray) -> IntArray:
    return np.rint(values).astype(np.int64)
