"""BEASY's compensation at a step (Section IV-C): servers are lowered in a shortage, raised in a surplus.

A shortage is covered around the violation step: each of the paper's four orders is a list of actions, from
which the shortest prefix that reaches the target is taken. The actions are stored as arrays of cells, so
that the effect of the first m of them is one sum by row and one projection, and m is found by bisection.

A surplus goes into faster running jobs, then into servers for waiting ones. Nearly all running jobs cannot
gain: they are at full speed, or the next faster P-state costs more than the remaining energy. Both are
checked for all jobs at once, so that only the others are treated one by one. A change is projected through
the battery only where necessary: a joule of demand lowers the battery's later levels by at most a fixed
amount, so that the last projected levels, minus that amount for all energy spent since, are a lower bound.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray, StateArray, any_of
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.planned.job_table import JobTable
from beasy_sched.policies.planned.pstate_table import PStateTable
from beasy_sched.policies.planned.rest_of_window import RestOfWindow, compensation_j
from beasy_sched.policies.planned.sleep_savings import SleepSavings
from beasy_sched.policies.planned.working_plan import Runs

_RUNS_A_PIECE: Final = 64


@dataclass(frozen=True)
class _Actions:
    """Actions in their order, each with a few cells: new states, and the savings in their rows."""

    action: IntArray
    """The action that each cell belongs to, ascending."""
    rows: IntArray
    hosts: HostIds
    states: StateArray
    saved_j: FloatArray


def _expand(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return, for actions of ``counts`` cells, each cell's action and its index among the action's cells."""
    action = np.arange(len(counts)).repeat(counts)
    return action, np.arange(len(action)) - (counts.cumsum() - counts).repeat(counts)


Shortage = Literal["sleep-first", "speed-first"]
"""Whether in a shortage idle servers fall asleep before any server gets slower, or all get slower first:
"BEASY reduces servers speed in the following order" (Section IV-C)."""


class CoverShortage:
    """E_diff < 0: lower idle servers, then those of running jobs, until the target is reached."""

    def __init__(
        self,
        rest: RestOfWindow,
        cells: CellEnergies,
        ladder: PStateTable,
        violation: int,
        *,
        shortage: Shortage,
    ) -> None:
        """``violation`` is the row with the most predicted curves below SoC_min, the last if none."""
        self.rest, self.cells, self.ladder = rest, cells, ladder
        self.violation = min(violation, len(rest.states) - 1)
        self._slower_first = shortage == "speed-first"

    def lower(self, jobs: JobTable | None, diff_j: float | None = None) -> None:
        """Go through the paper's four orders: idle servers backward and forward, running ones likewise.

        With ``speed-first``, all of them get slower in these orders before idle ones fall asleep. Speeds
        below those that walltimes require are the last resort.

        ``jobs``: the running jobs, if any; ``diff_j``: E_diff of the rest, if known.
        """
        if (self.rest.diff_j if diff_j is None else diff_j) >= -self.rest.tolerance_j:
            return
        if self._slower_first and (self._lower_idle(self._slower) or self._slow_running(jobs, True)):
            return
        if self._lower_idle(self._asleep) or self._slow_running(jobs, True):
            return
        self._slow_running(jobs, False)

    def _slow_running(self, jobs: JobTable | None, in_time: bool) -> bool:
        """Orders 3 and 4: from the violation step to the last, then back to the current one."""
        if jobs is None:
            return False
        rows, at = len(self.rest.states), self.violation
        slowing = _Slowing(self, jobs, in_time=in_time)
        return slowing.go(np.arange(at, rows)) or slowing.again().go(np.arange(at - 1, -1, -1))

    # --- idle servers ---------------------------------------------------------------------------------

    def _lower_idle(self, lower: Callable[[int, int, bool], bool]) -> bool:
        """Orders 1 and 2: from the violation step back to the current one, then to the last step."""
        after = self.violation + 1
        return lower(0, after, True) or lower(after, len(self.rest.states), False)

    def _slower(self, first: int, end: int, backward: bool) -> bool:
        """Give idle servers the P-state of least energy per flop, cell by cell."""
        rest, cells, ladder = self.rest, self.cells, self.ladder
        hosts = np.arange(len(rest.now_asleep))
        speeds = ladder.speed_flops(hosts, rest.states[first:end])
        fast = speeds > ladder.speed_flops(hosts, ladder.thriftiest)
        fast &= np.arange(first, end)[:, None] >= rest.reserved_until
        row, host = fast.nonzero()
        order = np.lexsort((-host, -row)) if backward else np.lexsort((-host, row))
        row, host = first + row[order], host[order]
        old, new = rest.states[row, host], ladder.thriftiest[host]
        asleep = cells.asleep(rest.states[row - 1, host], host)
        was = np.where(row > 0, asleep, rest.now_asleep[host])
        dt_s = rest.dt_s[-1:]
        saved_j = cells.energy_j(old, was, host, dt_s) - cells.energy_j(new, was, host, dt_s)
        return self.take(_Actions(np.arange(len(row)), row, host, new, saved_j))

    def _asleep(self, first: int, end: int, backward: bool) -> bool:
        """Put idle servers to sleep in whole runs of rows, the rows nearest to the violation first."""
        rest, cells = self.rest, self.cells
        states = rest.states[first:end]
        idle = (states != cells.sleep_pstate) & (cells.sleep_pstate >= 0)
        idle &= np.arange(first, end)[:, None] >= rest.reserved_until
        hosts, starts, ends = Runs.of(idle)
        order = np.lexsort((-hosts, -ends)) if backward else np.lexsort((-hosts, starts))
        size = _RUNS_A_PIECE
        while len(order):
            piece, order = order[:size], order[size:]
            if self.take(self._sleeping(hosts[piece], first + starts[piece], first + ends[piece])):
                return True
            size *= 4
        return False

    def _sleeping(self, hosts: HostIds, starts: IntArray, ends: IntArray) -> _Actions:
        """Sleep in these runs of rows, except those that do not save energy with the waking after them."""
        rest, cells, dt_s = self.rest, self.cells, self.rest.dt_s[-1:]
        lengths = ends - starts
        counts = lengths + (ends < len(rest.states))  # waking happens in the row after the run
        action, offset = _expand(counts)
        row, host = starts[action] + offset, hosts[action]
        old, asleep = rest.states[row, host], cells.sleep_pstate[host]
        was = np.where(row > 0, rest.states[row - 1, host] == asleep, rest.now_asleep[host])
        new = np.where(offset < lengths[action], asleep, old)
        saved_j = cells.energy_j(old, was, host, dt_s) - cells.energy_j(new, was | (offset > 0), host, dt_s)
        worth = np.bincount(action, saved_j, len(counts)) > 0.0
        stay = worth[action]
        number = (worth.cumsum() - 1)[action]
        return _Actions(number[stay], row[stay], host[stay], new[stay], saved_j[stay])

    # --- as few actions as reach the target ---------------------------------------------------------------

    def take(self, actions: _Actions) -> bool:
        """Apply the fewest first actions that reach the target, or all of them."""
        rest, count = self.rest, int(actions.action[-1]) + 1 if len(actions.action) else 0
        target_j = rest.battery.target_j - rest.tolerance_j
        reached = self._end_j(actions, count) >= target_j
        if reached:
            count = bisect_left(range(count), target_j, key=lambda first: self._end_j(actions, first))
        cells = slice(int(actions.action.searchsorted(count)))
        rest.put((actions.rows[cells], actions.hosts[cells]), actions.states[cells])
        rest.demand_j -= self._saved_j(actions, count)
        return reached

    def _end_j(self, actions: _Actions, count: int) -> float:
        """Return the level at the end after the first ``count`` actions."""
        return float(self.rest.levels_j(-self._saved_j(actions, count))[-1])

    def _saved_j(self, actions: _Actions, count: int) -> FloatArray:
        """Return the savings of the first ``count`` actions in each row."""
        cells = slice(int(actions.action.searchsorted(count)))
        saved_j = np.bincount(actions.rows[cells], actions.saved_j[cells], len(self.rest.states))
        return saved_j.astype(np.float64)


class _Slowing:
    """Repeatedly gives running jobs the next more efficient P-state, row by row.

    With ``in_time``, never so slow that the estimated remaining work does not end by the walltime
    (Eq. 3.28).
    """

    def __init__(self, saving: CoverShortage, jobs: JobTable, *, in_time: bool) -> None:
        self.saving, self.in_time = saving, in_time
        self.rest, self.ladder = saving.rest, saving.ladder
        self.table = table = jobs
        dt_s = self.rest.dt_s
        starts_s = dt_s.cumsum() - dt_s
        rows = int(starts_s.searchsorted(float(table.left_s.max())))
        self.lengths_s = np.clip(table.left_s - starts_s[:rows, None], 0.0, dt_s[:rows, None])
        """Maximum time that each job runs in each row, s: [rows, jobs]."""
        self.again()

    def again(self) -> _Slowing:
        """Restart from the current states."""
        table, rows = self.table, len(self.lengths_s)
        self.states = self.rest.states[:rows, table.hosts]
        self.spare_flops = np.full(len(table.first), np.inf)
        if self.in_time and rows:
            speeds = self._speeds(self.states)
            beyond_s = np.maximum(table.left_s - float(self.rest.dt_s.sum()), 0.0)
            able = (speeds * self.lengths_s).sum(axis=0) + speeds[-1] * beyond_s
            self.spare_flops = able - table.remaining_flops
        return self

    def go(self, order: IndexArray) -> bool:
        """Go through the rows in this order, one P-state at a time; return whether the target is reached."""
        order = order[order < len(self.lengths_s)]
        while True:
            new = self.ladder.thriftier(self.table.hosts, self.states)
            changes = new != self.states
            if not any_of(changes):
                return False
            some = np.logical_or.reduceat(changes, self.table.first, axis=1)
            lost_flops = (self._speeds(self.states) - self._speeds(new)) * self.lengths_s
            at, jobs = (some & (self.lengths_s > 0.0))[order].nonzero()
            rows, jobs = self._affordable(order[at], jobs, lost_flops)
            if not len(rows):
                return False
            if self.saving.take(self._actions(rows, jobs, new, changes)):
                return True
            chosen = np.zeros(some.shape, dtype=np.bool_)
            chosen[rows, jobs] = True
            self.states = np.where(chosen[:, self.table.layout.job_of], new, self.states)

    def _speeds(self, states: StateArray) -> FloatArray:
        return self.table.least(self.ladder.speed_flops(self.table.hosts, states))

    def _affordable(
        self, rows: IntArray, jobs: IntArray, lost_flops: FloatArray
    ) -> tuple[IntArray, IntArray]:
        """Return the changes, in order, after which each job can still do its required work."""
        chosen, spare = [], self.spare_flops.tolist()
        for place, (job, lost) in enumerate(zip(jobs.tolist(), lost_flops[rows, jobs].tolist(), strict=True)):
            if lost <= spare[job]:
                spare[job] -= lost
                chosen.append(place)
        self.spare_flops = np.array(spare)
        return rows[chosen], jobs[chosen]

    def _actions(self, rows: IntArray, jobs: IntArray, new: StateArray, changes: BoolArray) -> _Actions:
        """One action per row and job, for all its hosts."""
        table = self.table
        action, offset = _expand(table.layout.counts[jobs])
        row, place = rows[action], table.first[jobs][action] + offset
        old = self.states[row, place]
        with np.errstate(divide="ignore", invalid="ignore"):
            saved_w = self.ladder.saved_w(table.hosts[place], old, new[row, place])
        saved_j = np.where(changes[row, place], saved_w * self.lengths_s[rows, jobs][action], 0.0)
        return _Actions(action, row, table.hosts[place], new[row, place], saved_j)


ROUNDING_J: Final = 1e-3
"""Tolerance when the remaining energy is compared with a bound of the required energy, J."""


class SpendSurplus:
    """E_diff > 0: speed up running jobs, then wake servers for waiting ones; keep the remainder."""

    def __init__(
        self,
        rest: RestOfWindow,
        savings: SleepSavings,
        ladder: PStateTable,
        levels_j: FloatArray | None = None,
        *,
        bounded: bool = True,
    ) -> None:
        """Find the energy to spend: E_comp; if ``bounded``, at most what the battery can lose before the end.

        Without the bound, which is not in the paper, only the level at the end counts: spending may take
        the level below SoC_min before the end. ``levels_j``: the levels of the rest, if known.
        """
        self.rest, self.savings, self.cells, self.ladder = rest, savings, savings.cells, ladder
        self._floor_j = rest.levels_j() if levels_j is None else levels_j
        """Lower bound of the level at the end of each row."""
        battery = rest.battery
        self._lost_a_joule = max(battery.charge_efficiency, battery.drawn_per_delivered())
        comp_j = compensation_j(battery, float(self._floor_j[-1]) - battery.target_j)
        self._least_j = battery.min_j - rest.tolerance_j if bounded else -math.inf
        """Minimum level after spending, J."""
        spare_j = float(np.minimum.reduce(self._floor_j)) - battery.min_j if bounded else math.inf
        self.left_j = max(0.0, min(comp_j, spare_j))
        """Energy that may still be spent, J."""

    def has_left(self) -> bool:
        """Whether any energy may still be spent."""
        return self.left_j > self.rest.tolerance_j

    @cached_property
    def _row_ends_s(self) -> FloatArray:
        """End of each row, s from now."""
        return self.rest.dt_s.cumsum()

    def speed_up(self, jobs: JobTable | None) -> None:
        """Raise the P-states of running jobs to their expected end; closest to the walltime first."""
        if jobs is None or not self.has_left():
            return
        ends = self._ends(jobs)
        prices_j = self._prices_j(jobs, ends)
        if np.minimum.reduce(prices_j) > self.left_j + ROUNDING_J:
            return
        speeds = self.ladder.speed_flops(jobs.hosts, self.rest.states[0, jobs.hosts])
        needed_s = jobs.needed_s(speeds)
        shares = np.full(len(needed_s), np.inf)
        slack = 1.0 - np.divide(needed_s, jobs.left_s, out=shares, where=jobs.left_s > 0.0)
        for place in slack.argsort(kind="stable").tolist():
            if not self.has_left():
                return
            if prices_j[place] <= self.left_j + ROUNDING_J:
                job, end = jobs.only(place), int(ends[place])
                while end and self.has_left():
                    end = self._raise(job, end)

    def _ends(self, table: JobTable) -> IndexArray:
        """Rows until each job would end in its next faster P-state, at its walltime at the latest."""
        faster = self.ladder.faster(table.hosts, self.rest.states[0, table.hosts])
        needed_s = np.minimum(table.needed_s(self.ladder.speed_flops(table.hosts, faster)), table.left_s)
        rows = self._row_ends_s.searchsorted(needed_s - 1e-6) + 1
        return np.asarray(np.minimum(rows, len(self.rest.states)))

    def _prices_j(self, table: JobTable, ends: IndexArray) -> FloatArray:
        """Lower bound of the cost of the next faster P-state for each job to its expected end (``ends``), J.

        Infinite for jobs that are at full speed to that end.
        """
        rest, ladder, hosts = self.rest, self.ladder, table.hosts
        states = rest.states[: int(np.maximum.reduce(ends)), hosts]
        counts = (np.arange(len(states)) < ends[table.layout.job_of][:, None]).T  # in memory as ``states`` is
        rises = np.logical_or.reduce(ladder.can_rise(hosts, states) & counts, axis=0)
        if not any_of(rises):
            return np.full(len(ends), np.inf)
        extra_w = np.add.reduce(ladder.raised_w(hosts, states) * counts, axis=0)
        prices_j = np.add.reduceat(extra_w, table.first) * float(rest.dt_s[0])
        unsure = self.cells.asleep(states, hosts) & counts  # a step spent waking costs less
        if not ladder.rising or any_of(unsure):
            some = np.logical_or.reduceat(np.logical_or.reduce(unsure, axis=0), table.first)
            prices_j[some | (not ladder.rising)] = -np.inf
        return np.where(np.logical_or.reduceat(rises, table.first), prices_j, np.inf)

    def may_wake(self, asleep: HostIds) -> bool:
        """Whether the remaining energy may suffice for waking one of the servers ``asleep`` for a step."""
        if not len(asleep):
            return False
        return self.left_j + self.rest.tolerance_j >= self.savings.least_waking_j(float(self.rest.dt_s[0]))

    def wake(self, asked: Iterable[tuple[int, int]], idle: int, asleep: HostIds) -> None:
        """Wake servers for waiting jobs, most efficient P-state, while there is enough energy.

        ``asked``: the hosts that a job needs, and the rows that it takes, including waking; ``idle``:
        servers that are on without a job; ``asleep``: those that may be woken.
        """
        if not self.may_wake(asleep):
            return
        step_s, tolerance_j = float(self.rest.dt_s[0]), self.rest.tolerance_j
        ordered = False
        for res, rows in asked:
            if not idle and not len(asleep):
                return
            missing = max(res - idle, 0)
            if missing > len(asleep) or rows > len(self.rest.states):
                continue
            if missing:
                if not ordered:
                    asleep, ordered = self.ladder.thriftiest_first(asleep), True
                chosen = asleep[:missing]
                states = self.rest.states[:rows, chosen]
                sleeping = self.cells.asleep(states, chosen)
                if self.savings.least_woken_j(sleeping, step_s) > self.left_j + tolerance_j + ROUNDING_J:
                    return
                woken = np.where(sleeping, self.ladder.thriftiest[chosen], states)
                if not self._pay(chosen, rows, woken):
                    return
            idle, asleep = idle + missing - res, asleep[missing:]

    def _raise(self, job: JobTable, end: int) -> int:
        """Try the next faster P-state from now to the expected ``end``.

        Returns the expected end at a still faster one; 0 if there is none, or not enough energy for this.
        """
        hosts, rows = job.hosts, self.rest.states[:end, job.hosts]
        faster = np.where(self.cells.asleep(rows, hosts), rows, self.ladder.faster(hosts, rows))
        if not any_of(faster != rows) or not self._pay(hosts, end, faster):
            return 0
        if not any_of(self.ladder.can_rise(hosts, faster)):
            return 0
        return int(self._ends(job)[0])

    def _pay(self, hosts: HostIds, end: int, columns: StateArray) -> bool:
        """Make a change if there is enough energy and the battery stays within its limits."""
        rest, rows = self.rest, slice(0, end + 1)
        old, before = rest.states[rows, hosts], rest.now_asleep[hosts]
        extra_j = np.zeros(len(rest.states))
        change_j = self.cells.change_j(old, columns, before, hosts, rest.dt_s[rows])
        extra_j[rows] = np.add.reduce(change_j, axis=1)
        cost_j = float(np.add.reduce(extra_j))
        if cost_j > self.left_j + self.rest.tolerance_j:
            return False
        floor_j = self._floor_j - self._lost_a_joule * np.maximum(extra_j, 0.0).cumsum()
        if not self._suffices(floor_j):
            floor_j = rest.levels_j(extra_j)
            if not self._suffices(floor_j):
                return False
        self._floor_j = floor_j
        rest.put((slice(end), hosts), columns)
        rest.demand_j[rows] += extra_j[rows]
        self.left_j -= max(cost_j, 0.0)
        return True

    def _suffices(self, levels_j: FloatArray) -> bool:
        """Whether the target is reached and, if required, SoC_min is kept before the end."""
        reached = levels_j[-1] >= self.rest.battery.target_j - self.rest.tolerance_j
        return bool(reached and np.minimum.reduce(levels_j) >= self._least_j)
