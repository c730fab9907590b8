"""Cells of a plan, one server in one step each: their energies, which rules 2a to 2c of BEASY add up.

Also what the compensation works on: how much energy (Section IV-C; Eq. 3.30, 3.31), which jobs, which rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, StateArray
from beasy_sched.energy.server_energy import step_table_j
from beasy_sched.energy.storage import BatterySpec, project_levels_j
from beasy_sched.engine.guard import energy_tolerance_j
from beasy_sched.model.cluster import PowerModel
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.policies.working_plan import Runs

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
        self._row_of = (self.power.kind_of * (4 * self._width)).astype(np.int32)
        """Where a host's cells begin in a table: its kind's part of it, [N]."""
        self._tables: dict[float, FloatArray] = {}
        self._sleepers = [self._sleeper(row, kind) for row, kind in enumerate(platform.kinds)]

    def _sleeper(self, row: int, kind: ServerKind) -> tuple[list[float], float, float, float]:
        """Powers that sleep may save of a kind (none if it cannot sleep) and its costs: W; W, J, J."""
        power, on_w = self.power, []
        if kind.sleep is not None:
            on_w = [power.full_w[row, p] for p in kind.computing]
            if self.idle_power:
                on_w += [power.idle_w[row, p] for p in kind.computing]
        sleep_w = float(power.sleep_w[row])
        falling_j = power.off_s[row] * max(power.off_w[row] - sleep_w, 0.0)
        waking_j = power.on_s[row] * max(power.on_w[row] - min(on_w, default=0.0), 0.0)
        return on_w, sleep_w, falling_j, waking_j

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

        ``states`` and ``was_asleep`` (the step before) are [L, n], columns in the order of ``hosts``; all
        steps but the first are equally long. A transition stands at the beginning of its step.
        ``idle`` marks cells without a job, which count at idle power with the option ``idle_power``.
        """
        place = self._row_of[hosts] + states
        place += np.multiply(was_asleep, self._width, dtype=np.int32)
        if self.idle_power and idle is not None:
            place += np.multiply(idle, 2 * self._width, dtype=np.int32)
        if not len(dt_s):
            return np.empty(place.shape)
        energy_j = np.asarray(self._table(float(dt_s[-1]))[place])
        if dt_s[0] != dt_s[-1]:
            energy_j[0] = self._table(float(dt_s[0])).take(place[0])
        return energy_j

    def most_saved_j(self, dt_s: float) -> FloatArray:
        """Upper bound of what a step of sleep saves of each server's energy, J: [N]."""
        most_j = [
            max(max(on_w) - sleep_w, 0.0) * dt_s + falling_j + waking_j if on_w else 0.0
            for on_w, sleep_w, falling_j, waking_j in self._sleepers
        ]
        return np.array(most_j)[self.power.kind_of]

    def rows_to_break_even(self, dt_s: float) -> int:
        """Number of consecutive steps that are always worth sleeping through, for every kind."""
        rows = 1
        for on_w, sleep_w, falling_j, waking_j in self._sleepers:
            if on_w:
                saved_j = (min(on_w) - sleep_w) * dt_s
                rows = max(rows, int((falling_j + waking_j) / saved_j) + 1 if saved_j > 0.0 else _NEVER)
        return rows

    def change_j(
        self, old: StateArray, columns: StateArray, before: BoolArray, hosts: HostIds, dt_s: FloatArray
    ) -> FloatArray:
        """What ``columns`` in the place of the first rows of ``old`` add to the energy of each cell, J.

        ``before``: which of ``hosts`` were asleep in the step before the first row.
        """
        new = old.copy()
        new[: len(columns)] = columns
        new_j, old_j = (
            self.energy_j(states, shifted(self.asleep(states, hosts), before), hosts, dt_s)
            for states in (new, old)
        )
        return new_j - old_j

    def _table(self, length_s: float) -> FloatArray:
        """Energies of all cells of one length: by kind, idle or not, asleep before or not, P-state."""
        table = self._tables.get(length_s)
        if table is None:
            if len(self._tables) >= _TABLES_KEPT:
                self._tables.clear()
            powers_w = (self.power.full_w, self.power.idle_w)
            tables = [step_table_j(self.power, length_s, awake_w) for awake_w in powers_w]
            table = self._tables[length_s] = np.stack(tables, axis=1).ravel()
        return table


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
    hosts: HostIds | slice,
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


def worthwhile(saved_j: FloatArray, idle: BoolArray, break_even: int = _NEVER) -> BoolArray:
    """The idle cells less the runs whose sleep as a whole saves nothing (`sleep_savings_j` says).

    ``break_even`` or more whole steps in a row always pay off. If that is one, only the rest of the present
    step can be too short, and only this step is checked.
    """
    if break_even <= 1:
        poor = idle[0] & (saved_j[0] <= 0.0)
        if len(idle) > 1:
            poor &= ~idle[1]
        if not poor.any():
            return idle
        good = idle.copy()
        good[0] &= ~poor
        return good
    hosts, starts, ends = Runs.of(idle)
    before_j = np.where(starts > 0, saved_j[np.maximum(starts - 1, 0), hosts], 0.0)
    poor = saved_j[ends - 1, hosts] - before_j <= 0.0
    if not poor.any():
        return idle
    edges = np.zeros((len(idle) + 1, idle.shape[1]), dtype=np.int8)
    np.add.at(edges, (starts[poor], hosts[poor]), 1)
    np.add.at(edges, (ends[poor], hosts[poor]), -1)
    return np.asarray(idle & (np.cumsum(edges, axis=0)[:-1] == 0))


class Ladder:
    """Speeds and their neighbours by kind and P-state; for P-states that do not compute, they stay."""

    def __init__(self, platform: Platform) -> None:
        """Sort each kind's computing P-states by speed."""
        kinds, self._kind_of = platform.kinds, platform.kind_of
        self._full_w = PowerModel(platform).full_w
        self._speed_flops = np.zeros_like(self._full_w)
        self._faster = np.tile(np.arange(self._full_w.shape[1], dtype=np.int8), (len(kinds), 1))
        self._thriftier = self._faster.copy()
        self.rising = True
        """Whether a faster P-state never draws less than the next slower one."""
        for row, kind in enumerate(kinds):
            self._fill(row, kind)
        thriftiest = [
            min(kind.computing, key=lambda p: (_joules_per_flop(kind, p), -kind.speeds_flops[p]))
            for kind in kinds
        ]
        self.thriftiest = np.array(thriftiest, dtype=np.int8)[platform.kind_of]
        """P-state of least energy per flop (the faster of equals), by host."""
        self.reference_flops = np.array([kind.reference_speed_flops for kind in kinds])[platform.kind_of]
        """F': the speed that a walltime is taken to stand for, by host (Eq. 3.29)."""

    def _fill(self, row: int, kind: ServerKind) -> None:
        for pstate in kind.computing:
            self._speed_flops[row, pstate] = kind.speeds_flops[pstate]
        by_speed = sorted(kind.computing, key=lambda p: (kind.speeds_flops[p], -p))
        for slow, fast in itertools.pairwise(by_speed):
            self._faster[row, slow] = fast
            self.rising &= kind.full_w[slow] <= kind.full_w[fast]
            if _joules_per_flop(kind, slow) < _joules_per_flop(kind, fast):
                self._thriftier[row, fast] = slow

    def faster(self, hosts: HostIds, pstates: StateArray) -> StateArray:
        """The next faster P-state of each of ``hosts``; the same one at the top."""
        return self._faster[self._kind_of[hosts], pstates]

    def thriftier(self, hosts: HostIds, pstates: StateArray) -> StateArray:
        """The next slower P-state where it needs less energy per flop; else the same one."""
        return self._thriftier[self._kind_of[hosts], pstates]

    def speed_flops(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """Speed of one core in these P-states, flops/s; 0 where they do not compute."""
        speeds: FloatArray = self._speed_flops[self._kind_of[hosts], pstates]
        return speeds

    def full_w(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """Full power in these P-states, W."""
        watts: FloatArray = self._full_w[self._kind_of[hosts], pstates]
        return watts

    def saved_w(self, hosts: HostIds, old: StateArray, new: StateArray) -> FloatArray:
        """What running in ``new`` instead of ``old`` saves, W, net of the longer run that the work takes."""
        kinds = self._kind_of[hosts]
        longer = self._speed_flops[kinds, old] / self._speed_flops[kinds, new]
        saved_w: FloatArray = self._full_w[kinds, old] - longer * self._full_w[kinds, new]
        return saved_w


def _joules_per_flop(kind: ServerKind, pstate: int) -> float:
    return kind.full_w[pstate] / kind.speeds_flops[pstate]


def compensation_j(battery: BatterySpec, diff_j: float) -> float:
    """E_comp of E_diff (both J): Eq. 3.31.

    A shortage counts by the loss convention: the thesis divides it by the discharge efficiency, which
    is what saving a joule of demand keeps in the cells if losses are counted as printed.
    """
    if diff_j > 0.0:
        return diff_j / battery.charge_efficiency
    return diff_j / battery.drawn_per_delivered()


@dataclass
class Rest:
    """What is left of a window: rows from the present step to its last one, N servers."""

    states: StateArray
    """Planned P-states, [L, N]; compensation writes its changes here."""
    now_asleep: BoolArray
    """Which servers were asleep in the step before, [N]."""
    reserved_until: IndexArray
    """Rows before this one are taken by running jobs, [N]."""
    dt_s: FloatArray
    """Length of each row, [L]."""
    supply_j: FloatArray
    """Production and hydrogen of each row, [L]."""
    demand_j: FloatArray
    """Planned energy of the servers in each row, [L]; kept up with the changes."""
    battery: BatterySpec
    start_j: float
    """The true level of the battery now."""

    @cached_property
    def tolerance_j(self) -> float:
        """Levels that derive from measured ones count as equal up to this difference, J."""
        return energy_tolerance_j(self.battery.capacity_j)

    def levels_j(self, extra_j: FloatArray | float = 0.0) -> FloatArray:
        """Battery energy at the end of each row (Eq. 1), with ``extra_j`` more demand by row."""
        net_w = (self.supply_j - self.demand_j - extra_j) / self.dt_s
        return project_levels_j(self.battery, self.start_j, net_w, float(self.dt_s[-1]))[1:]

    @property
    def diff_j(self) -> float:
        """E_diff: the estimated level at the end less the target, J (Eq. 3.30)."""
        return float(self.levels_j()[-1]) - self.battery.target_j

    def expected_rows(self, left_s: FloatArray, needed_s: FloatArray) -> IndexArray:
        """Rows until jobs that need this long are expected to end, at their walltimes at the latest."""
        ends_s = np.cumsum(self.dt_s)
        return np.searchsorted(ends_s, np.minimum(needed_s, left_s) - 1e-6) + 1


@dataclass(frozen=True)
class RunningJob:
    """A running job as compensation sees it."""

    hosts: HostIds
    left_s: float
    """Time to its walltime, s."""
    remaining_flops: float
    """Estimated remaining work of each host (Dfl' - Gfl of Eq. 3.28), never negative."""


class JobTable:
    """Running jobs as arrays: one entry per job, and one per host of all jobs."""

    def __init__(self, jobs: Sequence[RunningJob]) -> None:
        """Fill the arrays from at least one job."""
        counts = [len(job.hosts) for job in jobs]
        self.hosts = np.concatenate([job.hosts for job in jobs])
        self.first = np.concatenate([[0], np.cumsum(counts[:-1])]).astype(np.intp)
        """Where the hosts of each job begin."""
        self.job_of = np.repeat(np.arange(len(jobs)), counts)
        self.left_s = np.array([job.left_s for job in jobs])
        self.remaining_flops = np.array([job.remaining_flops for job in jobs])

    def least(self, values: FloatArray) -> FloatArray:
        """The least value among each job's hosts; ``values``' last axis is that of the hosts."""
        return np.minimum.reduceat(values, self.first, axis=-1)

    def total(self, values: FloatArray) -> FloatArray:
        """The sum over each job's hosts."""
        return np.add.reduceat(values, self.first, axis=-1)

    def needed_s(self, speeds_flops: FloatArray) -> FloatArray:
        """How long each job needs at the slowest of its hosts' speeds, s."""
        slowest = self.least(speeds_flops)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(slowest > 0.0, self.remaining_flops / slowest, np.inf)
