"""Where BEASY spends a surplus: faster running jobs, then servers for waiting ones (Section IV-C).

Nearly all running jobs have nothing to gain at a step: they are at full speed, or the next faster one
costs more than there is. Both are seen for all jobs at once, so that only the others are looked at one
by one. A change that is paid for is projected through the battery only where it matters: a joule of demand
takes no more than a fixed amount out of the battery's later levels, so that the levels of the last
projection, less that for all that was spent since, are a floor for what the levels are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray, StateArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.beasy_cells import CellPowers, shifted
from beasy_sched.policies.beasy_compensation import (
    JobTable,
    Rest,
    RunningJob,
    compensation_j,
)
from beasy_sched.policies.beasy_speeds import Ladder

_ROUNDING_J = 1e-3


@dataclass(frozen=True)
class Wish:
    """A waiting job: hosts, and rows that it takes from now on, the waking included."""

    res: int
    rows: int


class Spending:
    """E_diff > 0: speed up running jobs, then wake servers for waiting ones; keep what remains."""

    def __init__(self, rest: Rest, cells: CellPowers, ladder: Ladder) -> None:
        """Find what may be spent: E_comp, and no more than the battery can lose before the end."""
        self.rest, self.cells, self.ladder = rest, cells, ladder
        self._floor_j = rest.levels_j()
        """No more than the level at the end of each row."""
        battery = rest.battery
        self._lost_a_joule = max(battery.charge_efficiency, battery.drawn_per_delivered())
        comp_j = compensation_j(battery, float(self._floor_j[-1]) - battery.target_j)
        self.left_j = max(0.0, min(comp_j, float(self._floor_j.min()) - battery.min_j))
        """What may still be spent, J."""

    def speed_up(self, jobs: Sequence[RunningJob]) -> None:
        """Raise the P-states of running jobs to their expected end; closest to the walltime first."""
        if not jobs:
            return
        table = JobTable(jobs)
        speeds = self.ladder.speed_flops(table.hosts, self.rest.states[0, table.hosts])
        needed_s = table.needed_s(speeds)
        with np.errstate(divide="ignore", invalid="ignore"):
            slack = np.where(table.left_s > 0.0, 1.0 - needed_s / table.left_s, -np.inf)
        prices_j = self._prices_j(table)
        for place in np.argsort(slack, kind="stable").tolist():
            if self.left_j <= self.rest.tolerance_j:
                return
            if prices_j[place] <= self.left_j + _ROUNDING_J:
                while self.left_j > self.rest.tolerance_j and self._raise(jobs[place]):
                    pass

    def _prices_j(self, table: JobTable) -> FloatArray:
        """No more than what the next faster P-state costs each job to its expected end, J.

        Infinite for jobs that are at full speed to that end.
        """
        rest, ladder, hosts = self.rest, self.ladder, table.hosts
        first = ladder.faster(hosts, rest.states[0, hosts])
        needed_s = table.needed_s(ladder.speed_flops(hosts, first))
        ends = np.minimum(rest.expected_rows(table.left_s, needed_s), len(rest.states))
        states = rest.states[: int(ends.max()), hosts]
        counts = np.arange(len(states))[:, None] < ends[table.job_of]
        faster = ladder.faster(hosts, states)
        extra_w = np.where(counts, ladder.full_w(hosts, faster) - ladder.full_w(hosts, states), 0.0)
        prices_j = table.total(extra_w.sum(axis=0)) * float(rest.dt_s[0])
        unsure = (self.cells.asleep(states, hosts) & counts).any(axis=0)  # a step spent waking costs less
        if not ladder.rising or unsure.any():
            prices_j[np.logical_or.reduceat(unsure, table.first) | (not ladder.rising)] = -np.inf
        rises = ((faster != states) & counts).any(axis=0)
        return np.where(np.logical_or.reduceat(rises, table.first), prices_j, np.inf)

    def wake(self, wishes: Iterable[Wish], idle: int, asleep: HostIds) -> None:
        """Wake servers for waiting jobs, thriftiest P-state, while that can be paid for.

        ``idle`` servers are on without a job; ``asleep`` are those that may be woken.
        """
        order = np.lexsort((asleep, self._joules_per_flop(asleep)))
        asleep = asleep[order]
        for wish in wishes:
            if not idle and not len(asleep):
                return
            missing = max(wish.res - idle, 0)
            if missing > len(asleep) or wish.rows > len(self.rest.states):
                continue
            chosen = asleep[:missing]
            if missing and not self._pay(chosen, wish.rows, self._woken(chosen, wish.rows)):
                return
            idle, asleep = idle + missing - wish.res, asleep[missing:]

    def _raise(self, job: RunningJob) -> bool:
        """Try the next faster P-state from now to the expected end."""
        hosts, rest = job.hosts, self.rest
        first = self.ladder.faster(hosts, rest.states[0, hosts])
        table = JobTable([job])
        needed_s = table.needed_s(self.ladder.speed_flops(hosts, first))
        end = min(int(rest.expected_rows(table.left_s, needed_s)[0]), len(rest.states))
        rows = rest.states[:end, hosts]
        faster = np.where(self.cells.asleep(rows, hosts), rows, self.ladder.faster(hosts, rows))
        if not end or np.array_equal(faster, rows):
            return False
        return self._pay(hosts, end, faster)

    def _woken(self, hosts: HostIds, end: int) -> StateArray:
        rows = self.rest.states[:end, hosts]
        asleep = self.cells.asleep(rows, hosts)
        return np.where(asleep, self.ladder.thriftiest[hosts], rows)

    def _joules_per_flop(self, hosts: HostIds) -> FloatArray:
        best = self.ladder.thriftiest[hosts]
        joules: FloatArray = self.ladder.full_w(hosts, best) / self.ladder.speed_flops(hosts, best)
        return joules

    def _pay(self, hosts: HostIds, end: int, columns: StateArray) -> bool:
        """Make a change if it can be paid for and the battery stays where it should."""
        rest, rows = self.rest, slice(0, end + 1)
        extra_j = column_change_j(rest, self.cells, hosts, end, columns)
        cost_j = float(extra_j.sum())
        if cost_j > self.left_j + self.rest.tolerance_j:
            return False
        floor_j = self._floor_j - self._lost_a_joule * np.cumsum(np.maximum(extra_j, 0.0))
        if not self._suffices(floor_j):
            floor_j = rest.levels_j(extra_j)
            if not self._suffices(floor_j):
                return False
        self._floor_j = floor_j
        rest.states[:end, hosts] = columns
        rest.demand_j[rows] += extra_j[rows]
        self.left_j -= max(cost_j, 0.0)
        return True

    def _suffices(self, levels_j: FloatArray) -> bool:
        """Whether the target is reached, and SoC_min kept on the way."""
        battery = self.rest.battery
        reached = levels_j[-1] >= battery.target_j - self.rest.tolerance_j
        return bool(reached and levels_j.min() >= battery.min_j - self.rest.tolerance_j)


def column_change_j(
    rest: Rest, cells: CellPowers, hosts: HostIds, end: int, columns: StateArray
) -> FloatArray:
    """What new states of ``hosts`` in rows 0 to ``end`` - 1 add to each row's energy, J: [L]."""
    rows = slice(0, end + 1)
    old = rest.states[rows, hosts]
    new = old.copy()
    new[:end] = columns
    before, dt_s = rest.now_asleep[hosts], rest.dt_s[rows]
    energies = [
        cells.energy_j(states, shifted(cells.asleep(states, hosts), before), hosts, dt_s)
        for states in (new, old)
    ]
    extra_j = np.zeros(len(rest.states))
    extra_j[rows] = (energies[0] - energies[1]).sum(axis=1)
    return extra_j
