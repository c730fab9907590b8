"""BEASY's compensation of a shortage: servers are lowered around the violation step (Section IV-C).

Each of the paper's four orders is a row of actions, of which as few as reach the target are taken. The
actions are laid out as cells side by side, so that "how far do the first m of them get?" is one sum by row
and one projection, and m is found by bisection; and they are made in pieces, as most steps need few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray, StateArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.beasy_cells import CellPowers, idle_runs
from beasy_sched.policies.beasy_compensation import JobTable, Rest, RunningJob
from beasy_sched.policies.beasy_speeds import Ladder

_RUNS_A_PIECE: Final = 64


@dataclass(frozen=True)
class _Actions:
    """Actions in their order, each a few cells: new states, and what they save in their rows."""

    action: IntArray
    """The action that each cell belongs to, ascending."""
    rows: IntArray
    hosts: HostIds
    states: StateArray
    saved_j: FloatArray

    @property
    def count(self) -> int:
        """How many actions there are."""
        return int(self.action[-1]) + 1 if len(self.action) else 0


def _expand(counts: IntArray) -> tuple[IntArray, IntArray]:
    """For actions of so many cells: the action of each cell, and its place among the action's cells."""
    action = np.repeat(np.arange(len(counts)), counts)
    return action, np.arange(len(action)) - np.repeat(np.cumsum(counts) - counts, counts)


class Saving:
    """E_diff < 0: lower idle servers, then those of running jobs, until the target is reached."""

    def __init__(self, rest: Rest, cells: CellPowers, ladder: Ladder, violation: int) -> None:
        """``violation`` is the row with the most predicted curves below SoC_min, the last if none."""
        self.rest, self.cells, self.ladder = rest, cells, ladder
        self.violation = min(violation, len(rest.states) - 1)

    @property
    def enough(self) -> bool:
        """Whether the projected level at the end has reached the target."""
        return self.rest.diff_j >= -self.rest.tolerance_j

    def lower(self, jobs: Sequence[RunningJob]) -> None:
        """Go through the four orders of the paper; at last, speeds below what walltimes ask for."""
        rows, at = len(self.rest.states), self.violation
        forward, backward = np.arange(at, rows), np.arange(at - 1, -1, -1)
        if self.enough or self._sleep_idle(0, at + 1, backward=True):
            return
        if self._sleep_idle(at + 1, rows, backward=False) or not jobs:
            return
        for in_time in (True, False):
            slowing = _Slowing(self, jobs, in_time=in_time)
            if slowing.go(forward) or slowing.again().go(backward):
                return

    # --- idle servers ---------------------------------------------------------------------------------

    def _sleep_idle(self, first: int, end: int, *, backward: bool) -> bool:
        """Put idle servers to sleep in whole runs of rows, the rows nearest to the violation first."""
        rest, cells = self.rest, self.cells
        states = rest.states[first:end]
        idle = (states != cells.sleep_pstate) & (cells.sleep_pstate >= 0)
        idle &= np.arange(first, end)[:, None] >= rest.reserved_until
        hosts, starts, ends = idle_runs(idle)
        order = np.lexsort((-hosts, -ends)) if backward else np.lexsort((-hosts, starts))
        size = _RUNS_A_PIECE
        while len(order):
            piece, order = order[:size], order[size:]
            if self.take(self._sleeping(hosts[piece], first + starts[piece], first + ends[piece])):
                return True
            size *= 4
        return False

    def _sleeping(self, hosts: HostIds, starts: IntArray, ends: IntArray) -> _Actions:
        """Sleep in these runs of rows; what saves nothing, the waking after it counted in, is left out."""
        rest, cells, dt_s = self.rest, self.cells, float(self.rest.dt_s[-1])
        lengths = ends - starts + 1
        counts = lengths + (ends + 1 < len(rest.states))  # waking again falls into the row after the run
        action, offset = _expand(counts)
        row, host = starts[action] + offset, hosts[action]
        old, asleep = rest.states[row, host], cells.sleep_pstate[host]
        was = np.where(row > 0, rest.states[row - 1, host] == asleep, rest.now_asleep[host])
        new = np.where(offset < lengths[action], asleep, old)
        saved_j = cells.cell_j(old, was, host, dt_s) - cells.cell_j(new, was | (offset > 0), host, dt_s)
        worth = np.bincount(action, saved_j, len(counts)) > 0.0
        stay = worth[action]
        number = (np.cumsum(worth) - 1)[action]
        return _Actions(number[stay], row[stay], host[stay], new[stay], saved_j[stay])

    # --- as few actions as reach the target ---------------------------------------------------------------

    def take(self, actions: _Actions) -> bool:
        """Carry out as few of the first actions as reach the target, all of them if none do."""
        rest, low, high = self.rest, 0, actions.count
        target_j = rest.battery.target_j - rest.tolerance_j
        reached = self._end_j(actions, high) >= target_j
        while reached and low < high:
            middle = (low + high) // 2
            if self._end_j(actions, middle) >= target_j:
                high = middle
            else:
                low = middle + 1
        cells = slice(0, int(np.searchsorted(actions.action, high)))
        rest.states[actions.rows[cells], actions.hosts[cells]] = actions.states[cells]
        rest.demand_j -= self._saved_j(actions, cells)
        return reached

    def _end_j(self, actions: _Actions, count: int) -> float:
        cells = slice(0, int(np.searchsorted(actions.action, count)))
        return float(self.rest.levels_j(-self._saved_j(actions, cells))[-1])

    def _saved_j(self, actions: _Actions, cells: slice) -> FloatArray:
        rows, saved_j = actions.rows[cells], actions.saved_j[cells]
        return np.bincount(rows, saved_j, len(self.rest.states)).astype(np.float64)


class _Slowing:
    """Gives running jobs the next thriftier P-state, row by row, again and again.

    With ``in_time``, never so slow that the estimated remaining work does not end by the walltime
    (Eq. 3.28).
    """

    def __init__(self, saving: Saving, jobs: Sequence[RunningJob], *, in_time: bool) -> None:
        self.saving, self.in_time = saving, in_time
        self.rest, self.ladder = saving.rest, saving.ladder
        self.table = table = JobTable(jobs)
        dt_s = self.rest.dt_s
        starts_s = np.cumsum(dt_s) - dt_s
        rows = int(np.searchsorted(starts_s, float(table.left_s.max())))
        self.lengths_s = np.clip(table.left_s - starts_s[:rows, None], 0.0, dt_s[:rows, None])
        """How long each job runs in each row at most: [rows, jobs]."""
        self.again()

    def again(self) -> _Slowing:
        """Begin anew from the states as they are."""
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
        """Go through the rows in this order, a P-state at a time; whether the target is reached."""
        order = order[order < len(self.lengths_s)]
        while True:
            new = self.ladder.thriftier(self.table.hosts, self.states)
            changes = new != self.states
            some = np.logical_or.reduceat(changes, self.table.first, axis=1) if changes.any() else None
            if some is None:
                return False
            lost_flops = (self._speeds(self.states) - self._speeds(new)) * self.lengths_s
            at, jobs = np.nonzero((some & (self.lengths_s > 0.0))[order])
            rows, jobs = self._affordable(order[at], jobs, lost_flops)
            if not len(rows):
                return False
            if self.saving.take(self._actions(rows, jobs, new, changes)):
                return True
            chosen = np.zeros(some.shape, dtype=np.bool_)
            chosen[rows, jobs] = True
            self.states = np.where(chosen[:, self.table.job_of], new, self.states)

    def _speeds(self, states: StateArray) -> FloatArray:
        return self.table.least(self.ladder.speed_flops(self.table.hosts, states))

    def _affordable(
        self, rows: IntArray, jobs: IntArray, lost_flops: FloatArray
    ) -> tuple[IntArray, IntArray]:
        """Those changes, in their order, that leave each job the work that it must be able to do."""
        chosen, spare = [], self.spare_flops.tolist()
        for place, (job, lost) in enumerate(zip(jobs.tolist(), lost_flops[rows, jobs].tolist(), strict=True)):
            if lost <= spare[job]:
                spare[job] -= lost
                chosen.append(place)
        self.spare_flops = np.array(spare)
        return rows[chosen], jobs[chosen]

    def _actions(self, rows: IntArray, jobs: IntArray, new: StateArray, changes: BoolArray) -> _Actions:
        """One action a row and job: all its hosts; what they save is put down with the first of them."""
        table = self.table
        counts = np.diff(np.append(table.first, len(table.hosts)))[jobs]
        action, offset = _expand(counts)
        row, place = rows[action], table.first[jobs][action] + offset
        old = self.states[row, place]
        with np.errstate(divide="ignore", invalid="ignore"):
            saved_w = self.ladder.saved_w(table.hosts[place], old, new[row, place])
        saved_j = np.where(changes[row, place], saved_w * self.lengths_s[rows, jobs][action], 0.0)
        return _Actions(action, row, table.hosts[place], new[row, place], saved_j)
