"""Lower bounds of the cost of more speed for running jobs, kept from step to step."""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, StateArray, any_of
from beasy_sched.policies.planned.job_table import JobTable
from beasy_sched.policies.planned.pstate_table import PStateTable


class SpeedPrices:
    """Lower bounds of the cost of the next faster P-state for running jobs, each to its expected end.

    They are sums over rows of the plan, and hold while the jobs and the states planned for their servers stay
    the same.
    """

    def __init__(self, jobs: JobTable, ladder: PStateTable, states: StateArray, asleep: BoolArray) -> None:
        """Sum the cost of speed in each row of ``states``, of the jobs' servers, [L, n].

        ``asleep``: mask of the sleeping cells.
        """
        hosts, first = jobs.hosts, jobs.first
        self._jobs: IndexArray = np.arange(len(first))
        self._speeds_flops = jobs.least(ladder.speed_flops(hosts, ladder.faster(hosts, states)))
        """Speed of each job with all of its servers in the next faster P-state, by row."""
        self._raised_w = _before(np.add.reduceat(ladder.raised_w(hosts, states), first, axis=1))
        """Sum of the powers that this needs in all rows before each one, W."""
        self._rises = _before(np.logical_or.reduceat(ladder.can_rise(hosts, states), first, axis=1))
        """Number of rows before each one in which a server of each job could run faster."""
        unsure = np.logical_or.reduceat(asleep, first, axis=1) | (not ladder.rising)
        self._unsure = _before(unsure) if any_of(unsure) else None
        """Number of rows before each one in which speed may cost less than the difference of powers."""

    def least_j(self, jobs: JobTable, row: int, row_ends_s: FloatArray) -> float:
        """Return the least price of any job from ``row`` on, J; infinite if no job can run faster.

        ``jobs``: the same jobs, with their remaining work. ``row_ends_s``: ends of rows, s from the beginning
        of ``row``.
        """
        speeds, left_flops = self._speeds_flops[row], jobs.remaining_flops
        needed_s = np.full(speeds.shape, np.inf)
        np.divide(left_flops, speeds, out=needed_s, where=speeds > 0.0)
        needed_s = np.minimum(needed_s, jobs.left_s)
        rows = row_ends_s.searchsorted(needed_s - 1e-6) + 1
        ends = np.minimum(row + rows, len(self._speeds_flops))
        prices_j = self._between(self._raised_w, row, ends) * row_ends_s.item(0)
        if self._unsure is not None:
            prices_j[self._between(self._unsure, row, ends) > 0] = -np.inf
        prices_j[self._between(self._rises, row, ends) == 0] = np.inf
        return float(np.minimum.reduce(prices_j))

    def _between(self, sums: FloatArray, row: int, ends: IndexArray) -> FloatArray:
        """Return the part of ``sums`` for each job from ``row`` up to its end."""
        return np.asarray(sums[ends, self._jobs] - sums[row])


def _before(by_row: FloatArray | BoolArray) -> FloatArray:
    """Sums over the rows before each one, and over all of them: [L + 1, jobs]."""
    sums = np.zeros((len(by_row) + 1, by_row.shape[1]))
    np.cumsum(by_row, axis=0, dtype=np.float64, out=sums[1:])
    return sums
