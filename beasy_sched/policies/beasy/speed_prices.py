"""Lower bounds of the cost of more speed for running jobs, which may be kept from step to step."""

from __future__ import annotations

from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, StateArray, any_of
from beasy_sched.policies.planned.job_table import JobTable
from beasy_sched.policies.planned.pstate_table import PStateTable

ROUNDING_J: Final = 1e-3
"""Tolerance when the remaining energy is compared with a bound of the required energy, J."""
_ROUNDING_S: Final = 1e-6
"""Time by which a job may reach into a row without needing it, s."""


def rows_to_end(jobs: JobTable, speeds_flops: FloatArray, row_ends_s: FloatArray) -> IndexArray:
    """Return the number of rows to each job's end at these speeds of its servers, or to its walltime: [jobs].

    ``row_ends_s``: ends of the rows, s from now.
    """
    needed_s = np.minimum(jobs.needed_s(speeds_flops), jobs.left_s)
    return np.asarray(row_ends_s.searchsorted(needed_s - _ROUNDING_S) + 1)


class SpeedPrices:
    """Lower bounds of the cost of the next faster P-state for running jobs, each to its expected end.

    They are sums over rows of the plan, and hold while the jobs and the states planned for their servers stay
    the same.
    """

    def __init__(self, jobs: JobTable, pstates: PStateTable, states: StateArray, asleep: BoolArray) -> None:
        """Sum the cost of speed in each row of ``states``, of the jobs' servers, [L, servers].

        ``asleep``: mask of the sleeping cells.
        """
        hosts, first = jobs.hosts, jobs.first
        self._pstates, self._states = pstates, states
        self._jobs: IndexArray = np.arange(len(first))
        self._raised_w = _sums_before(np.add.reduceat(pstates.raised_w(hosts, states), first, axis=1))
        """Sum of the powers that more speed of each job needs in all rows before each one, W."""
        self._rises = _sums_before(np.logical_or.reduceat(pstates.can_rise(hosts, states), first, axis=1))
        """Number of rows before each one in which a server of each job could run faster."""
        unsure = np.logical_or.reduceat(asleep, first, axis=1) | (not pstates.rising)
        self._unsure = _sums_before(unsure) if any_of(unsure) else None
        """Number of rows before each one in which speed may cost less than the difference of powers, because
        a server wakes, or its faster P-state draws less."""

    def ends(self, jobs: JobTable, row: int, row_ends_s: FloatArray) -> IndexArray:
        """Return the row at which each job would end in its next faster P-state from ``row`` on, [jobs].

        ``jobs``: the same jobs, with their remaining work. ``row_ends_s``: ends of rows, s from the beginning
        of ``row``.
        """
        faster = self._pstates.faster(jobs.hosts, self._states[row])
        rows = rows_to_end(jobs, self._pstates.speed_flops(jobs.hosts, faster), row_ends_s)
        return np.minimum(row + rows, len(self._states))

    def prices_j(self, row: int, ends: IndexArray, step_s: float) -> FloatArray:
        """Return the least price of more speed from ``row`` to each job's end, J: [jobs]; rows of ``step_s``.

        Infinite for a job that cannot run faster; minus infinity where it is unknown.
        """
        prices_j = self._between(self._raised_w, row, ends) * step_s
        if self._unsure is not None:
            prices_j[self._between(self._unsure, row, ends) > 0] = -np.inf
        prices_j[self._between(self._rises, row, ends) == 0] = np.inf
        return prices_j

    def _between(self, sums_before: FloatArray, row: int, ends: IndexArray) -> FloatArray:
        """Return the sum of each job from ``row`` up to its end, [jobs]."""
        return np.asarray(sums_before[ends, self._jobs] - sums_before[row])


def _sums_before(by_row: FloatArray | BoolArray) -> FloatArray:
    """Return sums over the rows before each one, and over all of them: [L + 1, jobs]."""
    sums = np.zeros((len(by_row) + 1, by_row.shape[1]))
    np.cumsum(by_row, axis=0, dtype=np.float64, out=sums[1:])
    return sums
