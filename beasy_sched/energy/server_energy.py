"""What a server draws and computes in a step, transitions included: Eq. 3.14-3.22.

A server that changes between computing and asleep spends the transition at the beginning of the step.
"""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, StateArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import Platform
from beasy_sched.model.power import PowerModel

_CELLS_A_PIECE = 1_000_000


def stretch_energy_j(
    power: PowerModel,
    kinds: IndexArray | slice | int,
    steady_w: FloatArray,
    dt_s: FloatArray | float,
    *,
    off_s: FloatArray | float = 0.0,
    on_s: FloatArray | float = 0.0,
) -> FloatArray:
    """Energy over ``dt_s`` seconds of servers of these kinds, J (Eq. 3.18-3.21).

    They switch off for ``off_s``, then on for ``on_s``, and draw ``steady_w`` in the rest.
    """
    steady_j = steady_w * (dt_s - off_s - on_s)
    energy_j: FloatArray = power.off_w[kinds] * off_s + (power.on_w[kinds] * on_s + steady_j)
    return energy_j


class StepEnergies:
    """Energy of a step of any length, J: [kind, asleep in the step before, P-state in the step].

    A transition lasts no longer than the step (Eq. 3.14, 3.15).
    """

    def __init__(self, power: PowerModel, awake_w: FloatArray) -> None:
        """``awake_w`` ([kind, P-state]) is drawn by servers that are awake."""
        kinds = np.arange(len(awake_w))[:, None, None]
        was_asleep = np.array([[False], [True]])
        asleep = np.arange(awake_w.shape[1]) == power.sleep_pstate[kinds]
        self._steady_w = np.where(asleep, power.sleep_w[kinds], awake_w[:, None, :])
        self._off_w, self._off_s = power.off_w[kinds], np.where(asleep & ~was_asleep, power.off_s[kinds], 0.0)
        self._on_w, self._on_s = power.on_w[kinds], np.where(was_asleep & ~asleep, power.on_s[kinds], 0.0)

    def table_j(self, dt_s: float) -> FloatArray:
        """The energies of a step of ``dt_s`` seconds."""
        off_s, on_s = np.minimum(self._off_s, dt_s), np.minimum(self._on_s, dt_s)
        steady_j = self._steady_w * (dt_s - off_s - on_s)
        return np.asarray(self._off_w * off_s + (self._on_w * on_s + steady_j))


class ServerSteps:
    """Worst-case energy and flops of servers in steps of ``step_s`` seconds: awake means busy.

    Tables: [kind, asleep in the step before, P-state in the step].
    """

    def __init__(self, platform: Platform, step_s: float) -> None:
        """Lay out the tables; no flops where speeds are not known."""
        self.platform = platform
        self.step_s = step_s
        self.power = power = PowerModel(platform)
        self.energy_j = StepEnergies(power, power.full_w).table_j(step_s)
        self._width = power.full_w.shape[1]
        self._row_of: IndexArray = platform.kind_of * self._width**2
        """Where a host's kind begins in a table by pairs, [N]."""
        self._pair_energy_j = self._by_pairs(self.energy_j)
        self.speed_flops = np.zeros_like(power.full_w)
        """Flops per second of a server's cores: [kind, P-state], 0 where it does not compute."""
        for row, kind in enumerate(platform.kinds):
            for pstate in kind.computing if kind.speeds_flops else ():
                self.speed_flops[row, pstate] = kind.speeds_flops[pstate] * kind.cores
        waking_s = np.stack([np.zeros_like(power.on_s), np.minimum(power.on_s, step_s)], axis=1)
        self.flops = self.speed_flops[:, None, :] * (step_s - waking_s)[:, :, None]
        self._pair_flops = self._by_pairs(self.flops)

    def server_energy_j(
        self, now: StateArray, previous: StateArray, hosts: HostIds | slice = slice(None)
    ) -> FloatArray:
        """Energy of each of ``hosts`` in each step, J: [steps, hosts].

        ``now`` and ``previous``: P-states in these steps and one step earlier.
        """
        return self._looked_up(self._pair_energy_j, now, previous, hosts)

    def plan_energy_j(self, states: StateArray, before: StateArray) -> FloatArray:
        """Energy of all servers in each step, J: [T].

        ``states``: P-states, [T, N]; ``before``: those in the step before the first, [N].
        """
        return self._sums(self._pair_energy_j, states, before)

    def plan_flops(self, states: StateArray, before: StateArray) -> FloatArray:
        """Flops that all servers can compute in each step, [T] (Eq. 3.22); arguments as in the energy."""
        return self._sums(self._pair_flops, states, before)

    def _by_pairs(self, table: FloatArray) -> FloatArray:
        """Lay out a table by kind, P-state in the step before, and P-state in the step, in one row."""
        kinds, _, width = table.shape
        slept = np.arange(width) == self.power.sleep_pstate[:, None]
        pairs: FloatArray = table[np.arange(kinds)[:, None], slept.astype(np.intp)]
        return pairs.ravel()

    def _looked_up(
        self, pairs: FloatArray, now: StateArray, previous: StateArray, hosts: HostIds | slice
    ) -> FloatArray:
        code = np.multiply(previous, self._width, dtype=np.int16)
        code += now
        return np.asarray(pairs[self._row_of[hosts] + code])  # in memory as ``now`` is, so that sums are, too

    def _sums(self, table: FloatArray, states: StateArray, before: StateArray) -> FloatArray:
        """Sum over the servers of each step, in pieces of bounded size."""
        rows = max(1, _CELLS_A_PIECE // max(1, states.shape[1]))
        sums = np.empty(len(states))
        for first in range(0, len(states), rows):
            now = states[first : first + rows]
            earlier = before if first == 0 else states[first - 1]
            previous = np.vstack([earlier[None, :], now[:-1]])
            sums[first : first + rows] = self._looked_up(table, now, previous, slice(None)).sum(axis=1)
        return sums
