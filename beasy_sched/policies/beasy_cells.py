"""Energies of single cells of a plan, one server in one step: what 2a to 2c of BEASY add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import FloatArray, Platform
from beasy_sched.model.power import PowerModel

StateArray = npt.NDArray[np.int8]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CellPowers:
    """Powers of all servers, by host, for rows of steps of ``dt_s`` seconds each."""

    power: PowerModel
    sleep_pstate: StateArray
    """P-state number of sleep by host, -1 where it cannot sleep: [N]."""
    idle_power: bool = False
    """Count servers without a job at idle power, not at the plan's worst case (busy)."""

    @classmethod
    def of(cls, platform: Platform, *, idle_power: bool = False) -> CellPowers:
        """The powers of a platform's servers."""
        numbers = [kind.sleep.pstate if kind.sleep else -1 for kind in platform.kinds]
        sleep = np.array(numbers, dtype=np.int8)[platform.kind_of]
        return cls(PowerModel(platform), sleep, idle_power)

    def asleep(self, states: StateArray, hosts: HostIds) -> BoolArray:
        """Which cells are asleep."""
        return np.asarray(states == self.sleep_pstate[hosts])

    def energy_j(
        self,
        states: StateArray,
        was_asleep: BoolArray,
        hosts: HostIds,
        dt_s: FloatArray,
        idle: BoolArray | None = None,
    ) -> FloatArray:
        """Energy of each cell, J: [L, n] (Eq. 3.18 to 3.21).

        ``states`` and ``was_asleep`` (the step before) are [L, n], columns in the order of ``hosts``.
        A transition stands at the beginning of its step. ``idle`` marks cells without a job; they count
        at idle power where the powers say so.
        """
        power, kinds = self.power, self.power.kind_of[hosts]
        asleep, length_s = self.asleep(states, hosts), dt_s[:, None]
        on_w = power.full_w[kinds, states]
        if self.idle_power and idle is not None:
            on_w = np.where(idle, power.idle_w[kinds, states], on_w)
        steady_w = np.where(asleep, power.sleep_w[kinds], on_w)
        waking_s = np.where(was_asleep & ~asleep, np.minimum(power.on_s[kinds], length_s), 0.0)
        falling_s = np.where(asleep & ~was_asleep, np.minimum(power.off_s[kinds], length_s), 0.0)
        energy_j: FloatArray = (
            steady_w * (length_s - waking_s - falling_s)
            + waking_s * power.on_w[kinds]
            + falling_s * power.off_w[kinds]
        )
        return energy_j


def shifted(rows: BoolArray, first: BoolArray) -> BoolArray:
    """The rows one step earlier: ``first`` before them, the last left out."""
    return np.concatenate([first[None, :], rows[:-1]])


def kept_on(states: StateArray, asleep: BoolArray, before: StateArray) -> StateArray:
    """Fill sleeping cells with the state of the step before (2a); ``before`` stands before row 0."""
    rows = np.concatenate([before[None, :], states])
    awake = np.concatenate([np.ones((1, states.shape[1]), dtype=np.bool_), ~asleep])
    source = np.maximum.accumulate(np.where(awake, np.arange(len(rows))[:, None], 0), axis=0)
    return np.take_along_axis(rows, source, axis=0)[1:]


def sleep_savings_j(
    cells: CellPowers,
    states: StateArray,
    before_asleep: BoolArray,
    hosts: HostIds,
    dt_s: FloatArray,
    idle: BoolArray,
) -> FloatArray:
    """What putting ``idle`` cells to sleep in rows 0 to k saves, for every k: [L, n], J.

    Net of the transitions, that of waking again after row k among them (none after the last row).
    """
    old = cells.asleep(states, hosts)
    new = old | idle
    old_j = cells.energy_j(states, shifted(old, before_asleep), hosts, dt_s, idle)
    slept = np.where(idle, cells.sleep_pstate[hosts], states)
    new_j = cells.energy_j(slept, shifted(new, before_asleep), hosts, dt_s)
    saved_j: FloatArray = np.cumsum(old_j - new_j, axis=0)
    again_j = cells.energy_j(states[1:], new[:-1], hosts, dt_s[1:], idle[1:])
    saved_j[:-1] += old_j[1:] - again_j
    return saved_j


def worthwhile(saved_j: FloatArray, idle: BoolArray) -> BoolArray:
    """The idle cells less the runs whose sleep as a whole saves nothing (`sleep_savings_j` says)."""
    hosts, starts, ends = idle_runs(idle)
    if not len(hosts):
        return idle
    before_j = np.where(starts > 0, saved_j[np.maximum(starts - 1, 0), hosts], 0.0)
    poor = saved_j[ends, hosts] - before_j <= 0.0
    if not poor.any():
        return idle
    edges = np.zeros((len(idle) + 1, idle.shape[1]), dtype=np.int8)
    np.add.at(edges, (starts[poor], hosts[poor]), 1)
    np.add.at(edges, (ends[poor] + 1, hosts[poor]), -1)
    return np.asarray(idle & (np.cumsum(edges, axis=0)[:-1] == 0))


def idle_runs(
    idle: BoolArray,
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Maximal runs of marked rows: (column, first row, last row) of each, by column and row."""
    padded = np.zeros((idle.shape[1], len(idle) + 2), dtype=np.int8)
    padded[:, 1:-1] = idle.T
    change = np.diff(padded, axis=1)
    hosts, starts = np.nonzero(change == 1)
    ends = np.nonzero(change == -1)[1] - 1
    return hosts, starts, ends
