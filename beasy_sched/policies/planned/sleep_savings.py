"""Energy saved by sleep in the plan's cells, summed by rules 2a to 2c of BEASY."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    StateArray,
    any_of,
)
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.last_value_cache import LastValueCache
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.planned.working_plan import Runs

_NEVER: Final = 1_000_000
"""Number of rows to break even if sleeping does not save energy."""


class _StepTables(NamedTuple):
    """Savings of a cell that is put to sleep, in steps of one length.

    Flat tables of [kind, idle, sleeps before, slept before, P-state]: ``idle`` is whether the cell is put to
    sleep, ``sleeps before`` and ``slept before`` whether the server sleeps in the step before it, with and
    without the change; ``P-state`` is the one that is planned in the cell.
    """

    saved_j: FloatArray
    """Energy of the cell without the change, minus that with it, J."""
    again_j: FloatArray
    """The same if the server is on in the cell in either case: minus the cost of waking it, J."""


class _Strides(NamedTuple):
    """Steps between neighbours along the axes of `_StepTables`; 1 along that of P-states."""

    idle: int
    sleeps_before: int
    slept_before: int


class SleepSavings:
    """Energy saved by sleep in cells, by kind and P-state: exact values, and fast bounds."""

    def __init__(self, cells: CellEnergies) -> None:
        """Derive the savings from the energies of ``cells``."""
        self.cells = cells
        power = self._power = cells.power
        pstates = [list(kind.computing) for kind in power.platform.kinds]
        on_w = [cells.awake_w[row][:, found] for row, found in enumerate(pstates)]
        least_w = np.array([watts.min(initial=np.inf) for watts in on_w])
        most_w = np.array([watts.max(initial=0.0) for watts in on_w])
        self._least_w = least_w - power.sleep_w
        """Minimum additional power of a server of each kind when on instead of asleep, W."""
        least_on_w = self._least_w[power.can_sleep]
        self._least_on_w = float(least_on_w.min()) if len(least_on_w) else 0.0
        """Minimum additional power of any server when on instead of asleep, W; 0 if none can sleep."""
        falling_j = power.off_s * np.maximum(power.off_w - power.sleep_w, 0.0)
        self._switching_j = falling_j + power.on_s * np.maximum(power.on_w - least_w, 0.0)
        """Maximum energy of the transitions of a server of each kind, J."""
        spared_j = power.on_s * np.maximum(most_w - power.on_w, 0.0)
        spared_j += power.off_s * np.maximum(power.sleep_w - power.off_w, 0.0)
        most_switching_j = np.where(power.can_sleep, self._switching_j + spared_j, 0.0)
        self.most_switched_j = float(most_switching_j.max())
        """Maximum energy that the transitions around a run of sleep can add to its savings, J, over all
        kinds."""
        self.most_added_j = np.ceil(most_switching_j)[power.kind_of]
        """Maximum energy that the transitions around a run of sleep can add, by host, whole joules: [N]."""
        saved_w = np.maximum(cells.awake_w[:, -1] - power.sleep_w[:, None], 0.0)
        self.saved_w = np.where(power.can_sleep[:, None], saved_w, 0.0)
        """Power saved by the sleep of an idle server, W: [kind, P-state], 0 if it cannot sleep."""
        width = self.saved_w.shape[1]
        self._row_of: IndexArray = power.kind_of * width
        """Index in a flat table [kind, P-state] at which the P-states of each host's kind begin, [N]."""
        self._strides = _Strides(idle=4 * width, sleeps_before=2 * width, slept_before=width)
        self._table_of: IndexArray = power.kind_of * (8 * width)
        """Index in the flat tables of `_StepTables` at which each host's kind begins, [N]."""
        self._most_saved_j: LastValueCache[float, FloatArray] = LastValueCache()
        self._tables: LastValueCache[float, _StepTables] = LastValueCache()

    def most_saved_j(self, states: StateArray, dt_s: float) -> FloatArray:
        """Return the maximum savings of each cell that is on, in whole joules: [L, N], rows of ``dt_s``."""
        most_j = self._most_saved_j.get(dt_s, lambda: np.ceil(self.saved_w * dt_s).ravel())
        return np.asarray(most_j.take(self._row_of + states))

    def least_waking_j(self, dt_s: float) -> float:
        """Return a lower bound of the cost of each step for which a server is woken, J; steps of ``dt_s``."""
        return self._least_on_w * dt_s - self.most_switched_j

    def least_woken_j(self, asleep: BoolArray, dt_s: float) -> float:
        """Return a lower bound of the cost of waking servers in all cells in which they are ``asleep``, J.

        ``asleep`` is [L, n], with rows of ``dt_s``.
        """
        runs = np.count_nonzero(asleep[0]) + np.count_nonzero(asleep[1:] > asleep[:-1])
        return np.count_nonzero(asleep) * self._least_on_w * dt_s - runs * self.most_switched_j

    def rows_to_break_even(self, dt_s: float) -> int:
        """Number of consecutive steps for which sleeping always saves energy, for every kind."""
        saved_j, rows = self._least_w * dt_s, np.full(len(self._least_w), float(_NEVER))
        np.divide(self._switching_j, saved_j, out=rows, where=saved_j > 0.0)
        return 1 + int(min(rows[self._power.can_sleep].max(initial=0.0), _NEVER))

    def sleeping_j(
        self,
        states: StateArray,
        before_asleep: BoolArray,
        hosts: HostIds | slice,
        dt_s: FloatArray,
        idle: BoolArray,
        weights: FloatArray | None = None,
    ) -> FloatArray:
        """Return the savings of putting ``idle`` cells to sleep in rows 0 to k, for every k: [L, n], J.

        Net of the transitions, including that of waking again after row k (none after the last row).
        ``before_asleep``: servers that slept in the step before row 0; the others as in `CellEnergies`.
        ``weights``: energy of servers and their cooling per energy of servers in each row, [L].
        """
        cells = self.cells
        asleep = cells.asleep(states, hosts)
        index = self._table_index(states, asleep, before_asleep, hosts, idle)
        length_s = float(dt_s[-1])
        tables = self._tables.get(length_s, lambda: self._tabulated(length_s))
        saved_j: FloatArray = tables.saved_j.take(index)
        if dt_s[0] != dt_s[-1]:  # the rest of the current step
            now, was_asleep, first_s = slice(1), before_asleep[None, :], dt_s[:1]
            changed = np.where(idle[now], cells.sleep_pstate[hosts], states[now])
            planned_j = cells.energy_j(states[now], was_asleep, hosts, first_s, idle[now])
            saved_j[0] = (planned_j - cells.energy_j(changed, was_asleep, hosts, first_s))[0]
        if weights is not None:
            saved_j *= weights[:, None]
        saved_j.cumsum(axis=0, out=saved_j)
        again_j = tables.again_j.take(index[1:])
        saved_j[:-1] += again_j if weights is None else again_j * weights[1:, None]
        return saved_j

    def _table_index(
        self,
        states: StateArray,
        asleep: BoolArray,
        before_asleep: BoolArray,
        hosts: HostIds | slice,
        idle: BoolArray,
    ) -> IndexArray:
        """Return the index of each cell in the tables of `_StepTables`: [L, n].

        ``asleep``: cells that are planned asleep; the ``idle`` ones are put to sleep as well.
        """
        to_idle, to_sleeps_before, to_slept_before = self._strides
        sleeps = asleep | idle
        in_kind = np.multiply(idle, to_idle, dtype=np.int16)
        in_kind += states
        in_kind[1:] += np.multiply(asleep[:-1], to_slept_before, dtype=np.int16)
        in_kind[1:] += np.multiply(sleeps[:-1], to_sleeps_before, dtype=np.int16)
        in_kind[0] += np.multiply(before_asleep, to_slept_before + to_sleeps_before, dtype=np.int16)
        return np.asarray(self._table_of[hosts] + in_kind)

    def _tabulated(self, length_s: float) -> _StepTables:
        """Return the tables for steps of ``length_s``."""
        by_use_j = self.cells.table_j(length_s)  # [kind, use, slept before, P-state]
        planned_j = by_use_j[:, [0, -1]]  # [kind, idle, slept before, P-state]
        changed_j = by_use_j[:, :1].repeat(2, axis=1)  # [kind, idle, sleeps before, P-state]
        sleep = np.maximum(self._power.sleep_pstate, 0)[:, None, None]
        changed_j[:, 1] = np.take_along_axis(by_use_j[:, 0], sleep, axis=2)
        saved_j = planned_j[:, :, None] - changed_j[:, :, :, None]
        again_j = planned_j[:, :, None] - planned_j[:, :, :, None]
        return _StepTables(saved_j.ravel(), again_j.ravel())


def kept_on(states: StateArray, asleep: BoolArray, before: StateArray) -> StateArray:
    """Fill sleeping cells with the state of the previous step (2a): [L, n].

    ``asleep``: mask of the sleeping cells; ``before``: the state before row 0, [n].
    """
    with_before = np.concatenate([before[None, :], states])
    rows, columns = np.arange(len(with_before))[:, None], np.arange(states.shape[1])
    awake = np.concatenate([np.ones((1, states.shape[1]), dtype=np.bool_), ~asleep])
    last_awake_row = np.maximum.accumulate(np.where(awake, rows, 0), axis=0)
    return np.asarray(with_before[last_awake_row[1:], columns])


def worthwhile(saved_j: FloatArray, idle: BoolArray, break_even: int = _NEVER) -> BoolArray:
    """Return the idle cells, [L, n], without the runs whose sleep saves nothing in total.

    ``saved_j``: savings by `SleepSavings.sleeping_j`, [L, n]. ``break_even`` or more consecutive whole steps
    always save energy. If it is one, only the rest of the current step can be too short, and only this step
    is checked.
    """
    if break_even <= 1:
        poor = idle[0] & (saved_j[0] <= 0.0)
        if len(idle) > 1:
            poor &= ~idle[1]
        if not any_of(poor):
            return idle
        good = idle.copy()
        good[0] &= ~poor
        return good
    host, start, end = Runs.of(idle)
    before_run_j = np.where(start > 0, saved_j[np.maximum(start - 1, 0), host], 0.0)
    poor = saved_j[end - 1, host] - before_run_j <= 0.0
    if not any_of(poor):
        return idle
    # 1 where a poor run begins and -1 after its end: the sums along the rows are 1 within it.
    edges = np.zeros((len(idle) + 1, idle.shape[1]), dtype=np.int8)
    np.add.at(edges, (start[poor], host[poor]), 1)
    np.add.at(edges, (end[poor], host[poor]), -1)
    in_poor_run = edges.cumsum(axis=0)[:-1] > 0
    return np.asarray(idle & ~in_poor_run)
