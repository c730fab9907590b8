"""Energy and flops of servers in steps, including transitions: Eq. 3.14-3.22.

A cell is one server in one step. A server that changes between computing and asleep spends the transition at
the beginning of the step.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, StateArray
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.hosts import HostIds

_CELLS_A_PIECE = 1_000_000
_TABLES_KEPT: Final = 16
"""Number of step lengths whose tables are cached."""
_Cell = TypeVar("_Cell", bound=np.generic)


def stretch_energy_j(
    power: PowerModel,
    kinds: IndexArray | slice | int,
    steady_w: FloatArray,
    dt_s: FloatArray | float,
    *,
    off_s: FloatArray | float = 0.0,
    on_s: FloatArray | float = 0.0,
) -> FloatArray:
    """Return the energy of servers of these kinds over ``dt_s`` seconds, J (Eq. 3.18-3.21).

    They switch off for ``off_s``, then on for ``on_s``, and draw ``steady_w`` in the rest.
    """
    steady_j = steady_w * (dt_s - off_s - on_s)
    energy_j: FloatArray = power.off_w[kinds] * off_s + (power.on_w[kinds] * on_s + steady_j)
    return energy_j


def shifted(rows: npt.NDArray[_Cell], first: npt.NDArray[_Cell]) -> npt.NDArray[_Cell]:
    """Return the rows one step earlier: preceded by ``first``, without the last."""
    return np.concatenate([first[None, :], rows])[:-1]


class CellEnergies:
    """Energy and flops of cells, looked up in tables by kind and P-state, one for each length of a step.

    They follow from the cell's state, from whether the server was asleep in the previous step, and from the
    length of the step. A transition does not last longer than its step (Eq. 3.14, 3.15).
    """

    def __init__(self, power: PowerModel, *, idle_power: bool = False) -> None:
        """Servers that are awake are busy, the plan's worst case.

        With ``idle_power``, cells that are marked as idle count at idle power.
        """
        self.power = power
        self.sleep_pstate = power.platform.sleep_pstate
        """P-state number of sleep by host, -1 if it cannot sleep: [N]."""
        self.idle_power = idle_power
        self.awake_w = np.stack([power.full_w, power.idle_w] if idle_power else [power.full_w], axis=1)
        """Power of servers that are awake, W: [kind, busy (or idle), P-state]."""
        cores = np.array([kind.cores for kind in power.platform.kinds], dtype=np.float64)
        self.speed_flops: FloatArray = power.speed_flops * cores[:, None]
        """Speed of a server's cores, flops/s: [kind, P-state], 0 if it does not compute."""
        kinds, uses, self._width = self.awake_w.shape
        self._row_of: IndexArray = power.kind_of * (2 * uses * self._width)
        """Index in a table at which the cells of each host begin, [N]."""
        self._flops_row_of: IndexArray = power.kind_of * (2 * self._width)
        self._tables: dict[float, FloatArray] = {}
        self._asleep = (np.arange(self._width) == power.sleep_pstate[:, None])[:, None, None, :]
        """Whether a cell is asleep, by kind and P-state; axes as in `table_j`."""
        self._kinds = np.arange(kinds)[:, None, None, None]

    def table_j(self, length_s: float) -> FloatArray:
        """Energies of cells of one length, J: [kind, busy (or idle), asleep in the step before, P-state]."""
        table = self._tables.get(length_s)
        if table is None:
            if len(self._tables) >= _TABLES_KEPT:
                self._tables.clear()
            table = self._tables[length_s] = self._tabulated_j(length_s)
        return table

    def _tabulated_j(self, length_s: float) -> FloatArray:
        power, kinds, asleep = self.power, self._kinds, self._asleep
        was_asleep = np.array([[False], [True]])
        steady_w = np.where(asleep, power.sleep_w[kinds], self.awake_w[:, :, None, :])
        off_s = np.minimum(np.where(asleep & ~was_asleep, power.off_s[kinds], 0.0), length_s)
        on_s = np.minimum(np.where(was_asleep & ~asleep, power.on_s[kinds], 0.0), length_s)
        return stretch_energy_j(power, kinds, steady_w, length_s, off_s=off_s, on_s=on_s)

    def flops(self, length_s: float) -> FloatArray:
        """Flops of busy cells of one length: [kind, asleep in the step before, P-state] (Eq. 3.22)."""
        on_s = self.power.on_s
        waking_s = np.stack([np.zeros_like(on_s), np.minimum(on_s, length_s)], axis=1)
        return np.asarray(self.speed_flops[:, None, :] * (length_s - waking_s)[:, :, None])

    def asleep(self, states: StateArray, hosts: HostIds | slice) -> BoolArray:
        """Return the mask of sleeping cells; columns in the order of ``hosts``."""
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

        ``states`` and ``was_asleep`` (in the previous step) are [L, n], columns in the order of ``hosts``, or
        several such arrays at once: [.., L, n]. ``dt_s``: lengths of the rows, equal except for the first.
        ``idle`` marks cells without a job, which count at idle power with the option ``idle_power``.
        """
        code = np.multiply(was_asleep, self._width, dtype=np.int16)
        code += states
        if self.idle_power and idle is not None:
            code += np.multiply(idle, 2 * self._width, dtype=np.int16)
        if not len(dt_s):
            return np.empty(code.shape)
        place = self._row_of[hosts] + code
        last_j = self.table_j(float(dt_s[-1])).ravel()
        energy_j = np.asarray(last_j[place])  # laid out as ``states``, so that sums are also
        if dt_s[0] != dt_s[-1]:
            energy_j[..., 0, :] = self.table_j(float(dt_s[0])).ravel().take(place[..., 0, :])
        return energy_j

    def change_j(
        self, old: StateArray, columns: StateArray, before: BoolArray, hosts: HostIds, dt_s: FloatArray
    ) -> FloatArray:
        """Return the energy that ``columns`` instead of the first rows of ``old`` add to each cell, J.

        ``before``: mask of ``hosts`` asleep in the step before the first row.
        """
        both = np.empty((2, *old.shape), dtype=np.int8)
        both[:] = old
        both[0, : len(columns)] = columns
        was_asleep = np.empty(both.shape, dtype=np.bool_)
        was_asleep[:, 0] = before
        was_asleep[:, 1:] = self.asleep(both[:, :-1], hosts)
        new_j, old_j = self.energy_j(both, was_asleep, hosts, dt_s)
        return np.asarray(new_j - old_j)

    def plan_energy_j(self, states: StateArray, before: StateArray, step_s: float) -> FloatArray:
        """Energy of all servers in each step, J: [T].

        ``states``: P-states, [T, N]; ``before``: those in the step before the first, [N].
        """
        return self._sums(self.table_j(step_s), self._row_of, states, before)

    def plan_flops(self, states: StateArray, before: StateArray, step_s: float) -> FloatArray:
        """Flops that all servers can compute in each step, [T] (Eq. 3.22); arguments as in the energy."""
        return self._sums(self.flops(step_s), self._flops_row_of, states, before)

    def _sums(
        self, table: FloatArray, row_of: IndexArray, states: StateArray, before: StateArray
    ) -> FloatArray:
        """Sum over the servers of each step, in pieces of bounded size."""
        rows = max(1, _CELLS_A_PIECE // max(1, states.shape[1]))
        sums, cells = np.empty(len(states)), table.ravel()
        for first in range(0, len(states), rows):
            now = states[first : first + rows]
            earlier = before if first == 0 else states[first - 1]
            was_asleep = self.asleep(shifted(now, earlier), slice(None))
            code = np.multiply(was_asleep, self._width, dtype=np.int16)
            code += now
            sums[first : first + rows] = cells[row_of + code].sum(axis=1)
        return sums
