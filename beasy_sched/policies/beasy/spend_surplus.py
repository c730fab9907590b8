"""BEASY's compensation of a surplus at a step (Section IV-C): servers are raised for jobs.

The surplus goes into faster running jobs, then into servers for waiting ones. Nearly all running jobs cannot
gain: they are at full speed, or the next faster P-state costs more than the remaining energy. Both are
checked for all jobs at once (`SpeedPrices`), so that only the others are treated one by one. A change is
projected through the battery only where necessary: a joule of demand lowers the battery's later levels by at
most a fixed amount, so that the last projected levels, minus that amount for all energy spent since, are a
lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, StateArray, any_of
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.beasy.speed_prices import ROUNDING_J, SpeedPrices, rows_to_end
from beasy_sched.policies.planned.job_table import JobTable
from beasy_sched.policies.planned.pstate_table import PStateTable
from beasy_sched.policies.planned.rest_of_window import RestOfWindow, compensation_j
from beasy_sched.policies.planned.sleep_savings import SleepSavings


class AskedServers(NamedTuple):
    """Servers that a waiting job asks for."""

    hosts: int
    rows: int
    """Number of rows that the job takes, including waking."""


class SpendSurplus:
    """E_diff > 0: speed up running jobs, then wake servers for waiting ones; keep the remainder."""

    def __init__(
        self,
        rest: RestOfWindow,
        savings: SleepSavings,
        pstates: PStateTable,
        levels_j: FloatArray | None = None,
        *,
        bounded: bool = True,
    ) -> None:
        """Find the energy to spend: E_comp; if ``bounded``, at most what the battery can lose before the end.

        Without the bound, which is not in the paper, only the level at the end counts: spending may take
        the level below SoC_min before the end. ``levels_j``: the levels of the rest, if known.
        """
        self.rest, self.savings, self.cells, self.pstates = rest, savings, savings.cells, pstates
        self._floor_j = rest.levels_j() if levels_j is None else levels_j
        """Lower bound of the level at the end of each row, J, [L]."""
        battery = rest.battery
        self._lost_a_joule = max(battery.charge_efficiency, battery.drawn_per_delivered())
        """Most that a joule of demand takes from any later level, J."""
        comp_j = compensation_j(battery, float(self._floor_j[-1]) - battery.least_end_j)
        self._least_j = battery.min_j - rest.tolerance_j if bounded else -math.inf
        """Minimum level after spending, J."""
        spare_j = float(np.minimum.reduce(self._floor_j)) - battery.min_j if bounded else math.inf
        self.left_j = max(0.0, min(comp_j, spare_j))
        """Energy that servers and their cooling may still spend, J."""
        self._least_weight = rest.least_weight

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
        states = self.rest.states[: int(np.maximum.reduce(ends)), jobs.hosts]
        prices = SpeedPrices(jobs, self.pstates, states, self.cells.asleep(states, jobs.hosts))
        prices_j = prices.prices_j(0, ends, float(self.rest.dt_s[0]))
        prices_j *= self._least_weight
        if np.minimum.reduce(prices_j) > self.left_j + ROUNDING_J:
            return
        speeds = self.pstates.speed_flops(jobs.hosts, self.rest.states[0, jobs.hosts])
        needed_s = jobs.needed_s(speeds)
        needed_share = np.full(len(needed_s), np.inf)
        np.divide(needed_s, jobs.left_s, out=needed_share, where=jobs.left_s > 0.0)
        slack = 1.0 - needed_share
        for number in slack.argsort(kind="stable").tolist():
            if not self.has_left():
                return
            if prices_j[number] <= self.left_j + ROUNDING_J:
                job, end = jobs.only(number), int(ends[number])
                while end and self.has_left():
                    end = self._raise(job, end)

    def _ends(self, jobs: JobTable) -> IndexArray:
        """Return the row of each job's end in its next faster P-state, or at its walltime, [jobs]."""
        faster = self.pstates.faster(jobs.hosts, self.rest.states[0, jobs.hosts])
        rows = rows_to_end(jobs, self.pstates.speed_flops(jobs.hosts, faster), self._row_ends_s)
        return np.minimum(rows, len(self.rest.states))

    def may_wake(self, asleep: HostIds) -> bool:
        """Whether the remaining energy may suffice for waking one of the servers ``asleep`` for a step."""
        if not len(asleep):
            return False
        least_j = self.savings.least_waking_j(float(self.rest.dt_s[0])) * self._least_weight
        return self.left_j + self.rest.tolerance_j >= least_j

    def wake(self, asked: Iterable[AskedServers], idle: int, asleep: HostIds) -> None:
        """Wake servers for waiting jobs, most efficient P-state, while there is enough energy.

        ``asked``: what the jobs ask for, in their order; ``idle``: number of servers that are on without a
        job; ``asleep``: servers that may be woken.
        """
        if not self.may_wake(asleep):
            return
        step_s, tolerance_j = float(self.rest.dt_s[0]), self.rest.tolerance_j
        ordered = False  # ``asleep`` is only sorted if a server is to be woken
        for hosts, rows in asked:
            if not idle and not len(asleep):
                return
            missing = max(hosts - idle, 0)
            if missing > len(asleep) or rows > len(self.rest.states):
                continue
            if missing:
                if not ordered:
                    asleep, ordered = self.pstates.thriftiest_first(asleep), True
                chosen = asleep[:missing]
                states = self.rest.states[:rows, chosen]
                sleeping = self.cells.asleep(states, chosen)
                least_j = self.savings.least_woken_j(sleeping, step_s) * self._least_weight
                if least_j > self.left_j + tolerance_j + ROUNDING_J:
                    return
                woken = np.where(sleeping, self.pstates.thriftiest[chosen], states)
                if not self._pay(chosen, rows, woken):
                    return
            idle, asleep = idle + missing - hosts, asleep[missing:]

    def _raise(self, job: JobTable, end: int) -> int:
        """Try the next faster P-state from now to the expected ``end``.

        Returns the expected end at a still faster one; 0 if there is none, or not enough energy for this.
        """
        hosts, rows = job.hosts, self.rest.states[:end, job.hosts]
        faster = np.where(self.cells.asleep(rows, hosts), rows, self.pstates.faster(hosts, rows))
        if not any_of(faster != rows) or not self._pay(hosts, end, faster):
            return 0
        if not any_of(self.pstates.can_rise(hosts, faster)):
            return 0
        return int(self._ends(job)[0])

    def _pay(self, hosts: HostIds, end: int, columns: StateArray) -> bool:
        """Make a change if there is enough energy and the battery stays within its limits."""
        rest, rows = self.rest, slice(0, end + 1)
        old, before = rest.states[rows, hosts], rest.now_asleep[hosts]
        extra_j = np.zeros(len(rest.states))
        change_j = self.cells.change_j(old, columns, before, hosts, rest.dt_s[rows])
        extra_j[rows] = rest.cooled_j(np.add.reduce(change_j, axis=1))
        cost_j = float(np.add.reduce(extra_j))
        if cost_j > self.left_j + self.rest.tolerance_j:
            return False
        # First by the lower bound of the levels; projected only where that is too low.
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
        reached = levels_j[-1] >= self.rest.battery.least_end_j - self.rest.tolerance_j
        return bool(reached and np.minimum.reduce(levels_j) >= self._least_j)
