"""Energies of the plan's cells, and what sleep saves of them.

A cell is one server in one step; rules 2a to 2c of BEASY add up its energies.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    StateArray,
    any_of,
)
from beasy_sched.energy.server_energy import StepEnergies
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import Platform
from beasy_sched.model.power import PowerModel
from beasy_sched.policies.planned.working_plan import Runs

_TABLES_KEPT: Final = 16


_NEVER: Final = 1_000_000
"""Rows to break even, where sleeping saves nothing."""


class CellPowers:
    """Energies of cells, by kind of server, for rows of steps.

    A cell's energy follows from its state, from whether the server was asleep in the step before, and
    from the length of the step. An outlook has two lengths (the rest of the present step, and a whole
    step), so that all energies come from small tables, one per length.
    """

    def __init__(self, platform: Platform, *, idle_power: bool = False) -> None:
        """Take the powers of a platform's servers.

        ``idle_power`` counts servers without a job at idle power, not at the plan's worst case (busy).
        """
        self.power = PowerModel(platform)
        self.sleep_pstate = platform.sleep_pstate
        """P-state number of sleep by host, -1 where it cannot sleep: [N]."""
        self.idle_power = idle_power
        self._width = self.power.full_w.shape[1]
        powers_w = (self.power.full_w, self.power.idle_w) if idle_power else (self.power.full_w,)
        self._energies = [StepEnergies(self.power, awake_w) for awake_w in powers_w]
        self._row_of: IndexArray = self.power.kind_of * (2 * len(powers_w) * self._width)
        """Where a host's cells begin in a table: its kind's part of it, [N]."""
        self._savings_row_of: IndexArray = self.power.kind_of * (8 * self._width)
        """The same in tables of savings."""
        self._tables: dict[float, FloatArray] = {}
        self._savings_tables: dict[float, tuple[FloatArray, FloatArray]] = {}
        self._sleep_saves(platform)
        least_w = self._least_w[self.power.can_sleep]
        self._least_on_w = float(least_w.min()) if len(least_w) else 0.0
        """The least that a server which can sleep draws more when it is on, W; 0 if none can."""
        self.most_switched_j = float(self.most_switching_j.max())
        """The greatest ``most_switching_j`` of all kinds."""
        self.most_added_j = np.ceil(self.most_switching_j)[self.power.kind_of]
        """``most_switching_j`` by host, in whole joules: [N]."""
        self._saved_row_of: IndexArray = self.power.kind_of * self._width
        self._most_saved: tuple[float, FloatArray] = (0.0, np.zeros(self.saved_w.size))

    def _sleep_saves(self, platform: Platform) -> None:
        """What sleep saves of each kind at most and at least (W), and what its transitions cost (J)."""
        power = self.power
        tables_w = (power.full_w, power.idle_w) if self.idle_power else (power.full_w,)
        pstates = [list(kind.computing) for kind in platform.kinds]
        on_w = [np.concatenate([w[row, found] for w in tables_w]) for row, found in enumerate(pstates)]
        least_w = np.array([watts.min(initial=np.inf) for watts in on_w])
        most_w = np.array([watts.max(initial=0.0) for watts in on_w])
        self._least_w = least_w - power.sleep_w
        falling_j = power.off_s * np.maximum(power.off_w - power.sleep_w, 0.0)
        self._switching_j = falling_j + power.on_s * np.maximum(power.on_w - least_w, 0.0)
        spared_j = power.on_s * np.maximum(most_w - power.on_w, 0.0)
        spared_j += power.off_s * np.maximum(power.sleep_w - power.off_w, 0.0)
        self.most_switching_j = np.where(power.can_sleep, self._switching_j + spared_j, 0.0)
        """Upper bound of what the transitions around a run of sleep can add to its savings, J, by kind."""
        awake_w = power.idle_w if self.idle_power else power.full_w
        saved_w = np.maximum(awake_w - power.sleep_w[:, None], 0.0)
        self.saved_w = np.where(power.can_sleep[:, None], saved_w, 0.0)
        """What sleep saves of an idle server, W: [kind, P-state], 0 where it cannot sleep."""

    def asleep(self, states: StateArray, hosts: HostIds | slice) -> BoolArray:
        """Which cells are asleep."""
        return np.asarray(states == self.sleep_pstate[hosts])

    def energy_j(
        self,
        states: StateArray,
        was_asleep: BoolArray,
        hosts: HostIds | slice,
        dt_s: FloatArray,
        idle: BoolArray | None = None,
    ) -> FloatArray:
        """Energy of each cell, J: [L, n] (Eq. 3.18 to 3.21).

        ``states`` and ``was_asleep`` (the step before) are [L, n], columns in the order of ``hosts``, or
        several such arrays at once: [.., L, n]; all steps but the first are equally long. A transition stands
        at the beginning of its step.
        ``idle`` marks cells without a job, which count at idle power with the option ``idle_power``.
        """
        code = np.multiply(was_asleep, self._width, dtype=np.int16)
        code += states
        if self.idle_power and idle is not None:
            code += np.multiply(idle, 2 * self._width, dtype=np.int16)
        if not len(dt_s):
            return np.empty(code.shape)
        place = self._row_of[hosts] + code
        energy_j = np.asarray(self._table(float(dt_s[-1]))[place])  # in the order of ``states``, as sums are
        if dt_s[0] != dt_s[-1]:
            energy_j[..., 0, :] = self._table(float(dt_s[0])).take(place[..., 0, :])
        return energy_j

    def most_saved_j(self, states: StateArray, dt_s: float) -> FloatArray:
        """The most that sleep saves of each cell that is on, in whole joules: [L, N], rows of ``dt_s``."""
        if dt_s != self._most_saved[0]:
            self._most_saved = dt_s, np.ceil(self.saved_w * dt_s).ravel()
        return np.asarray(self._most_saved[1].take(self._saved_row_of + states))

    def least_waking_j(self, dt_s: float) -> float:
        """Lower bound of what each step costs for which a server is woken, J; steps of ``dt_s``."""
        return self._least_on_w * dt_s - self.most_switched_j

    def least_woken_j(self, asleep: BoolArray, dt_s: float) -> float:
        """Lower bound of what it costs to wake servers in all cells in which they are ``asleep``, J.

        ``asleep`` is [L, n], with rows of ``dt_s``.
        """
        runs = np.count_nonzero(asleep[0]) + np.count_nonzero(asleep[1:] > asleep[:-1])
        return np.count_nonzero(asleep) * self._least_on_w * dt_s - runs * self.most_switched_j

    def rows_to_break_even(self, dt_s: float) -> int:
        """Number of consecutive steps that are always worth sleeping through, for every kind."""
        saved_j, rows = self._least_w * dt_s, np.full(len(self._least_w), float(_NEVER))
        np.divide(self._switching_j, saved_j, out=rows, where=saved_j > 0.0)
        return 1 + int(min(rows[self.power.can_sleep].max(initial=0.0), _NEVER))

    def change_j(
        self, old: StateArray, columns: StateArray, before: BoolArray, hosts: HostIds, dt_s: FloatArray
    ) -> FloatArray:
        """What ``columns`` in the place of the first rows of ``old`` add to the energy of each cell, J.

        ``before``: which of ``hosts`` were asleep in the step before the first row.
        """
        both = np.empty((2, *old.shape), dtype=np.int8)
        both[:] = old
        both[0, : len(columns)] = columns
        was_asleep = np.empty(both.shape, dtype=np.bool_)
        was_asleep[:, 0] = before
        was_asleep[:, 1:] = self.asleep(both[:, :-1], hosts)
        new_j, old_j = self.energy_j(both, was_asleep, hosts, dt_s)
        return np.asarray(new_j - old_j)

    def _table(self, length_s: float) -> FloatArray:
        """Energies of all cells of one length: by kind, idle or not, asleep before or not, P-state."""
        table = self._tables.get(length_s)
        if table is None:
            tables = [energies.table_j(length_s) for energies in self._energies]
            if len(self._tables) >= _TABLES_KEPT:
                self._tables.clear()
            table = self._tables[length_s] = np.stack(tables, axis=1).ravel()
        return table

    def savings_place(
        self,
        states: StateArray,
        slept: tuple[BoolArray, BoolArray],
        before: BoolArray,
        hosts: HostIds | slice,
        idle: BoolArray,
    ) -> IndexArray:
        """Where each cell stands in the tables of `savings_j`: [L, n].

        ``slept``: which cells sleep without, and with, the sleep of ``idle`` ones; ``before``: which servers
        slept in the step before row 0.
        """
        code = np.multiply(idle, 4 * self._width, dtype=np.int16)
        code += states
        code[1:] += np.multiply(slept[0][:-1], self._width, dtype=np.int16)
        code[1:] += np.multiply(slept[1][:-1], 2 * self._width, dtype=np.int16)
        code[0] += np.multiply(before, 3 * self._width, dtype=np.int16)
        return np.asarray(self._savings_row_of[hosts] + code)

    def savings_j(self, length_s: float) -> tuple[FloatArray, FloatArray]:
        """What sleep saves in cells of one length, and what their servers' waking again takes of it, J.

        By kind, idle or not, asleep in the step before with and without the sleep, P-state.
        """
        tables = self._savings_tables.get(length_s)
        if tables is None:
            by_use_j = self._table(length_s).reshape(len(self._least_w), -1, 2, self._width)
            awake_j = by_use_j[:, [0, -1]]  # by kind, idle or not, asleep before or not, P-state
            slept_j = by_use_j[:, :1].repeat(2, axis=1)
            sleep = np.maximum(self.power.sleep_pstate, 0)
            slept_j[:, 1] = np.take_along_axis(by_use_j[:, 0], sleep[:, None, None], axis=2)
            saved_j = awake_j[:, :, None] - slept_j[:, :, :, None]
            again_j = awake_j[:, :, None] - awake_j[:, :, :, None]
            tables = self._savings_tables[length_s] = saved_j.ravel(), again_j.ravel()
        return tables


_Cell = TypeVar("_Cell", bound=np.generic)


def shifted(rows: npt.NDArray[_Cell], first: npt.NDArray[_Cell]) -> npt.NDArray[_Cell]:
    """The rows one step earlier: ``first`` before them, the last left out."""
    return np.concatenate([first[None, :], rows])[:-1]


def kept_on(states: StateArray, asleep: BoolArray, before: StateArray) -> StateArray:
    """Fill sleeping cells with the state of the step before (2a); ``before`` stands before row 0."""
    rows = np.concatenate([before[None, :], states])
    awake = np.concatenate([np.ones((1, states.shape[1]), dtype=np.bool_), ~asleep])
    source = np.maximum.accumulate(np.where(awake, np.arange(len(rows))[:, None], 0), axis=0)
    return np.asarray(rows[source[1:], np.arange(rows.shape[1])])


def sleep_savings_j(
    cells: CellPowers,
    states: StateArray,
    before_asleep: BoolArray,
    hosts: HostIds | slice,
    dt_s: FloatArray,
    idle: BoolArray,
) -> FloatArray:
    """What putting ``idle`` cells to sleep in rows 0 to k saves, for every k: [L, n], J.

    Net of the transitions, that of waking again after row k among them (none after the last row).
    """
    old = cells.asleep(states, hosts)
    place = cells.savings_place(states, (old, old | idle), before_asleep, hosts, idle)
    by_cell_j, again_j = cells.savings_j(float(dt_s[-1]))
    saved_j: FloatArray = by_cell_j.take(place)
    if dt_s[0] != dt_s[-1]:
        now, was, first_s = slice(1), before_asleep[None, :], dt_s[:1]
        slept = np.where(idle[now], cells.sleep_pstate[hosts], states[now])
        old_j = cells.energy_j(states[now], was, hosts, first_s, idle[now])
        saved_j[0] = (old_j - cells.energy_j(slept, was, hosts, first_s))[0]
    saved_j.cumsum(axis=0, out=saved_j)
    saved_j[:-1] += again_j.take(place[1:])
    return saved_j


def worthwhile(saved_j: FloatArray, idle: BoolArray, break_even: int = _NEVER) -> BoolArray:
    """The idle cells less the runs whose sleep as a whole saves nothing (`sleep_savings_j` says).

    ``break_even`` or more whole steps in a row always pay off. If that is one, only the rest of the present
    step can be too short, and only this step is checked.
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
