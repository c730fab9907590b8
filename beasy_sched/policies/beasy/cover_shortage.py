"""BEASY's compensation of a shortage at a step (Section IV-C): servers are lowered around the violation step.

Each of the paper's four orders is a list of actions, from which the shortest prefix that reaches the target
is taken. The actions are stored as arrays of cells, so that the effect of the first m of them is one sum by
row and one projection, and m is found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray, StateArray, any_of
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.planned.job_table import JobTable
from beasy_sched.policies.planned.pstate_table import PStateTable
from beasy_sched.policies.planned.rest_of_window import RestOfWindow
from beasy_sched.policies.planned.working_plan import Runs

_RUNS_A_PIECE: Final = 64
"""Number of runs of idle steps that are tried first; more are tried each time that these do not suffice."""


@dataclass(frozen=True)
class _Actions:
    """Actions in their order, each of which changes a few cells: arrays with one entry per cell."""

    action: IntArray
    """Number of the action that the cell belongs to, ascending."""
    rows: IntArray
    hosts: HostIds
    states: StateArray
    """New state of the cell."""
    saved_j: FloatArray
    """Energy that the change of the cell saves in its row, J."""

    @property
    def count(self) -> int:
        """Number of actions."""
        return int(self.action[-1]) + 1 if len(self.action) else 0

    def cells_of_first(self, count: int) -> slice:
        """Return the cells of the first ``count`` actions."""
        return slice(int(self.action.searchsorted(count)))

    def saved_by_row_j(self, count: int, rows: int) -> FloatArray:
        """Return the savings of the first ``count`` actions in each of ``rows`` rows, J."""
        cells = self.cells_of_first(count)
        return np.bincount(self.rows[cells], self.saved_j[cells], rows).astype(np.float64)


class _Cells(NamedTuple):
    """Cells of actions, one entry each."""

    action: IntArray
    """Number of the action that the cell belongs to."""
    offset: IntArray
    """Index of the cell among those of its action."""


def _cells_of(counts: IntArray) -> _Cells:
    """Return the cells of actions of which each has ``counts`` cells."""
    action = np.arange(len(counts)).repeat(counts)
    first = counts.cumsum() - counts
    return _Cells(action, np.arange(len(action)) - first[action])


class _Stretch(NamedTuple):
    """Rows that one of the paper's orders goes through, away from the violation step."""

    first: int
    end: int
    """Row after the last one."""
    backward: bool


Shortage = Literal["sleep-first", "speed-first"]
"""Whether in a shortage idle servers fall asleep before any server gets slower, or all get slower first:
"BEASY reduces servers speed in the following order" (Section IV-C)."""


class CoverShortage:
    """E_diff < 0: lower idle servers, then those of running jobs, until the target is reached."""

    def __init__(
        self,
        rest: RestOfWindow,
        cells: CellEnergies,
        pstates: PStateTable,
        violation: int,
        *,
        shortage: Shortage,
    ) -> None:
        """``violation`` is the row with the most predicted curves below SoC_min, the last if none."""
        self.rest, self.cells, self.pstates = rest, cells, pstates
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
        if self._slower_first and (
            self._lower_idle(self._slow_idle) or self._slow_running(jobs, in_time=True)
        ):
            return
        if self._lower_idle(self._let_idle_sleep) or self._slow_running(jobs, in_time=True):
            return
        self._slow_running(jobs, in_time=False)

    def _slow_running(self, jobs: JobTable | None, *, in_time: bool) -> bool:
        """Orders 3 and 4: from the violation step to the last, then back to the current one."""
        if jobs is None:
            return False
        rows, at = len(self.rest.states), self.violation
        slowing = _Slowing(self, jobs, in_time=in_time)
        return slowing.go(np.arange(at, rows)) or slowing.again().go(np.arange(at - 1, -1, -1))

    # --- idle servers ---------------------------------------------------------------------------------

    def _lower_idle(self, lower: Callable[[_Stretch], bool]) -> bool:
        """Orders 1 and 2: from the violation step back to the current one, then to the last step.

        ``lower`` returns whether the target is reached.
        """
        after = self.violation + 1
        return lower(_Stretch(0, after, backward=True)) or lower(
            _Stretch(after, len(self.rest.states), backward=False)
        )

    def _slow_idle(self, stretch: _Stretch) -> bool:
        """Give idle servers the P-state of least energy per flop, cell by cell."""
        first, end, backward = stretch
        rest, cells, pstates = self.rest, self.cells, self.pstates
        hosts = np.arange(len(rest.now_asleep))
        speeds = pstates.speed_flops(hosts, rest.states[first:end])
        fast = speeds > pstates.speed_flops(hosts, pstates.thriftiest)
        fast &= np.arange(first, end)[:, None] >= rest.reserved_until
        row, host = fast.nonzero()
        order = np.lexsort((-host, -row)) if backward else np.lexsort((-host, row))
        row, host = first + row[order], host[order]
        old, new = rest.states[row, host], pstates.thriftiest[host]
        asleep = cells.asleep(rest.states[row - 1, host], host)
        was = np.where(row > 0, asleep, rest.now_asleep[host])
        dt_s = rest.dt_s[-1:]
        saved_j = cells.energy_j(old, was, host, dt_s) - cells.energy_j(new, was, host, dt_s)
        return self.take(_Actions(np.arange(len(row)), row, host, new, saved_j))

    def _let_idle_sleep(self, stretch: _Stretch) -> bool:
        """Put idle servers to sleep in whole runs of rows, the rows nearest to the violation first."""
        first, end, backward = stretch
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
        action, offset = _cells_of(counts)
        row, host = starts[action] + offset, hosts[action]
        old, asleep = rest.states[row, host], cells.sleep_pstate[host]
        was = np.where(row > 0, rest.states[row - 1, host] == asleep, rest.now_asleep[host])
        new = np.where(offset < lengths[action], asleep, old)
        saved_j = cells.energy_j(old, was, host, dt_s) - cells.energy_j(new, was | (offset > 0), host, dt_s)
        worthwhile = np.bincount(action, saved_j, len(counts)) > 0.0
        stays = worthwhile[action]
        new_number = (worthwhile.cumsum() - 1)[action]
        return _Actions(new_number[stays], row[stays], host[stays], new[stays], saved_j[stays])

    # --- as few actions as reach the target ---------------------------------------------------------------

    def take(self, actions: _Actions) -> bool:
        """Apply the fewest first actions that reach the target, or all of them."""
        rest, count = self.rest, actions.count
        target_j = rest.battery.least_end_j - rest.tolerance_j
        reached = self._end_j(actions, count) >= target_j
        if reached:
            count = bisect_left(range(count), target_j, key=lambda first: self._end_j(actions, first))
        cells = actions.cells_of_first(count)
        rest.put((actions.rows[cells], actions.hosts[cells]), actions.states[cells])
        rest.demand_j -= rest.cooled_j(actions.saved_by_row_j(count, len(rest.states)))
        return reached

    def _end_j(self, actions: _Actions, count: int) -> float:
        """Return the level at the end of the window after the first ``count`` actions, J."""
        saved_j = self.rest.cooled_j(actions.saved_by_row_j(count, len(self.rest.states)))
        return float(self.rest.levels_j(-saved_j)[-1])


class _Slowing:
    """Repeatedly gives running jobs the next more efficient P-state, row by row.

    With ``in_time``, never so slow that the estimated remaining work does not end by the walltime
    (Eq. 3.28).
    """

    def __init__(self, saving: CoverShortage, jobs: JobTable, *, in_time: bool) -> None:
        self.saving, self.in_time = saving, in_time
        self.rest, self.pstates = saving.rest, saving.pstates
        self.table = table = jobs
        """The jobs; the servers of all of them, one job after the other, are the columns of `states`."""
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
        """States in which the jobs' servers are planned, [rows, servers]."""
        self.spare_flops = np.full(len(table.first), np.inf)
        """Work of each job that need not be done by its walltime, [jobs]."""
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
            slower = self.pstates.thriftier(self.table.hosts, self.states)  # [rows, servers]
            changes = slower != self.states
            if not any_of(changes):
                return False
            job_changes = np.logical_or.reduceat(changes, self.table.first, axis=1)  # [rows, jobs]
            lost_flops = (self._speeds(self.states) - self._speeds(slower)) * self.lengths_s
            place_in_order, jobs = (job_changes & (self.lengths_s > 0.0))[order].nonzero()
            rows, jobs = self._affordable(order[place_in_order], jobs, lost_flops)
            if not len(rows):
                return False
            if self.saving.take(self._actions(rows, jobs, slower, changes)):
                return True
            chosen = np.zeros(job_changes.shape, dtype=np.bool_)
            chosen[rows, jobs] = True
            self.states = np.where(chosen[:, self.table.layout.job_of], slower, self.states)

    def _speeds(self, states: StateArray) -> FloatArray:
        """Return the speed of each job in ``states``, that of its slowest server, flops/s: [rows, jobs]."""
        return self.table.least(self.pstates.speed_flops(self.table.hosts, states))

    def _affordable(
        self, rows: IntArray, jobs: IntArray, lost_flops: FloatArray
    ) -> tuple[IntArray, IntArray]:
        """Return the changes, each of a job in a row, after which each job can still do its required work.

        They are examined in order, and each takes its part of the work that the job can spare.
        """
        chosen, spare_flops = [], self.spare_flops.tolist()
        lost_by_change = lost_flops[rows, jobs].tolist()
        for change, (job, lost) in enumerate(zip(jobs.tolist(), lost_by_change, strict=True)):
            if lost <= spare_flops[job]:
                spare_flops[job] -= lost
                chosen.append(change)
        self.spare_flops = np.array(spare_flops)
        return rows[chosen], jobs[chosen]

    def _actions(self, rows: IntArray, jobs: IntArray, new: StateArray, changes: BoolArray) -> _Actions:
        """One action per row and job, for all its hosts."""
        table = self.table
        action, offset = _cells_of(table.layout.counts[jobs])
        row, column = rows[action], table.first[jobs][action] + offset
        host, old_state, new_state = table.hosts[column], self.states[row, column], new[row, column]
        with np.errstate(divide="ignore", invalid="ignore"):
            saved_w = self.pstates.saved_w(host, old_state, new_state)
        saved_j = np.where(changes[row, column], saved_w * self.lengths_s[rows, jobs][action], 0.0)
        return _Actions(action, row, host, new_state, saved_j)
