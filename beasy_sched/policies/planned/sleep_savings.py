"""Energy saved by sleep in the plan's cells, summed by rules 2a to 2c of BEASY."""

from __future__ import annotations

from typing import Final

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
        self._width = self.saved_w.shape[1]
        self._row_of: IndexArray = power.kind_of * self._width
        """Index in a table by kind and P-state at which the P-states of each host's kind begin, [N]."""
        self._most_saved_j: LastValueCache[float, FloatArray] = LastValueCache()
        self._savings_j: LastValueCache[float, tuple[FloatArray, FloatArray]] = LastValueCache()

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
    ) -> FloatArray:
        """Return the savings of putting ``idle`` cells to sleep in rows 0 to k, for every k: [L, n], J.

        Net of the transitions, including that of waking again after row k (none after the last row).
        ``before_asleep``: servers that slept in the step before row 0; the others as in `CellEnergies`.
        """
        cells = self.cells
        old = cells.asleep(states, hosts)
        place = self._place(states, (old, old | idle), before_asleep, hosts, idle)
        length_s = float(dt_s[-1])
        by_cell_j, again_j = self._savings_j.get(length_s, lambda: self._tabulated_j(length_s))
        saved_j: FloatArray = by_cell_j.take(place)
        if dt_s[0] != dt_s[-1]:
            now, was, first_s = slice(1), before_asleep[None, :], dt_s[:1]
            slept = np.where(idle[now], cells.sleep_pstate[hosts], states[now])
            old_j = cells.energy_j(states[now], was, hosts, first_s, idle[now])
            saved_j[0] = (old_j - cells.energy_j(slept, was, hosts, first_s))[0]
        saved_j.cumsum(axis=0, out=saved_j)
        saved_j[:-1] += again_j.take(place[1:])
        return saved_j

    def _place(
        self,
        states: StateArray,
        slept: tuple[BoolArray, BoolArray],
        before_asleep: BoolArray,
        hosts: HostIds | slice,
        idle: BoolArray,
    ) -> IndexArray:
        """Return the index of each cell in the tables of `_tabulated_j`: [L, n].

        ``slept``: cells that sleep without, and with, the sleep of ``idle`` ones.
        """
        code = np.multiply(idle, 4 * self._width, dtype=np.int16)
        code += states
        code[1:] += np.multiply(slept[0][:-1], self._width, dtype=np.int16)
        code[1:] += np.multiply(slept[1][:-1], 2 * self._width, dtype=np.int16)
        code[0] += np.multiply(before_asleep, 3 * self._width, dtype=np.int16)
        return np.asarray(8 * self._row_of[hosts] + code)

    def _tabulated_j(self, length_s: float) -> tuple[FloatArray, FloatArray]:
        """Return the savings of sleep in cells of one length, and the cost of waking their servers again, J.

        By kind, idle or not, asleep in the previous step with and without the sleep, P-state.
        """
        by_use_j = self.cells.table_j(length_s)
        awake_j = by_use_j[:, [0, -1]]  # by kind, idle or not, asleep before or not, P-state
        slept_j = by_use_j[:, :1].repeat(2, axis=1)
        sleep = np.maximum(self._power.sleep_pstate, 0)
        slept_j[:, 1] = np.take_along_axis(by_use_j[:, 0], sleep[:, None, None], axis=2)
        saved_j = awake_j[:, :, None] - slept_j[:, :, :, None]
        again_j = awake_j[:, :, None] - awake_j[:, :, :, None]
        return saved_j.ravel(), again_j.ravel()


def kept_on(states: StateArray, asleep: BoolArray, before: StateArray) -> StateArray:
    """Fill sleeping cells with the state of the previous step (2a); ``before`` is the state before row 0."""
    rows = np.concatenate([before[None, :], states])
    awake = np.concatenate([np.ones((1, states.shape[1]), dtype=np.bool_), ~asleep])
    source = np.maximum.accumulate(np.where(awake, np.arange(len(rows))[:, None], 0), axis=0)
    return np.asarray(rows[source[1:], np.arange(rows.shape[1])])


def worthwhile(saved_j: FloatArray, idle: BoolArray, break_even: int = _NEVER) -> BoolArray:
    """Return the idle cells without the runs whose sleep saves nothing in total (`SleepSavings.sleeping_j`).

    ``break_even`` or more consecutive whole steps always save energy. If it is one, only the rest of the
    current step can be too short, and only this step is checked.
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
    hosts, starts, ends = Runs.of(idle)
    before_j = np.where(starts > 0, saved_j[np.maximum(starts - 1, 0), hosts], 0.0)
    poor = saved_j[ends - 1, hosts] - before_j <= 0.0
    if not any_of(poor):
        return idle
    edges = np.zeros((len(idle) + 1, idle.shape[1]), dtype=np.int8)
    np.add.at(edges, (starts[poor], hosts[poor]), 1)
    np.add.at(edges, (ends[poor], hosts[poor]), -1)
    return np.asarray(idle & (edges.cumsum(axis=0)[:-1] == 0))
