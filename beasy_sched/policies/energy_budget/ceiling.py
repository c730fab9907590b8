"""The power limit of `powercap`: which jobs may start below it."""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.policies.budget import ENERGY_TOLERANCE
from beasy_sched.policies.energy_budget.commitments import Commitments
from beasy_sched.policies.energy_budget.options import BudgetPeriod
from beasy_sched.policies.energy_budget.projection import Passing


class Ceiling:
    """The estimated power as it will be within the period, and the limit that it must not exceed."""

    def __init__(
        self,
        period: BudgetPeriod,
        limit_w: float,
        now: float,
        rest_w: float,
        jobs: Commitments,
        passing: Passing,
    ) -> None:
        """``rest_w``: power of all hosts without their jobs."""
        self._passing = passing
        self._start_s, self._end_s = max(now, period.start_s), period.end_s
        self._limit_w = limit_w * (1 + ENERGY_TOLERANCE)
        first = int(jobs.end_s.searchsorted(self._start_s, side="right"))
        ends_s, extra_w = jobs.end_s[first:], jobs.extra_w[first:]
        inside = int(ends_s.searchsorted(self._end_s))
        self._t = np.concatenate(([self._start_s], ends_s[:inside]))
        self._p = rest_w + extra_w.sum() - np.concatenate(([0.0], np.cumsum(extra_w[:inside])))

    @property
    def present(self) -> float:
        """Estimated power now, or at the period's start, W."""
        return float(self._p[0])

    def admits(self, extra_w: FloatArray, end_s: FloatArray, hosts: FloatArray) -> BoolArray:
        """Tell for each job whether it stays below the limit to its end."""
        until_s = np.minimum(end_s, self._end_s)
        highest_w = np.maximum.accumulate(self._p)
        place = np.maximum(self._t.searchsorted(until_s) - 1, 0)
        highest_w = np.maximum(highest_w[place], self._p[0] + self._passing.left(hosts))
        fits: BoolArray = highest_w + extra_w <= self._limit_w
        return fits | (until_s <= self._start_s) | (extra_w <= 0)

    def allows(self, extra_w: float, end_s: float, idle: int) -> bool:
        """Tell whether one job may start now; the hosts that stay idle switch off."""
        return bool(self.admits(np.array([extra_w]), np.array([end_s]), np.array([float(idle)]))[0])

    def start(self, extra_w: float, end_s: float, idle: int) -> None:
        """A job starts now."""
        self._passing.take(idle)
        self._add(self._start_s, extra_w, end_s)

    def _add(self, from_s: float, extra_w: float, end_s: float) -> None:
        from_s, until_s = max(from_s, self._start_s), min(end_s, self._end_s)
        if until_s <= from_s:
            return
        for at_s in (from_s, until_s):
            place = int(self._t.searchsorted(at_s))
            if place == len(self._t) or self._t[place] != at_s:
                self._t, self._p = (
                    np.insert(self._t, place, at_s),
                    np.insert(self._p, place, self._p[place - 1]),
                )
        self._p = self._p + np.where((self._t >= from_s) & (self._t < until_s), extra_w, 0.0)

    def earliest(self, from_s: float, extra_w: float, lasts_s: float) -> float:
        """Find when enough running jobs have ended; at the latest the period's end."""
        if extra_w <= 0 or from_s >= self._end_s or from_s + lasts_s <= self._start_s:
            return from_s
        low = np.flatnonzero(self._p + extra_w <= self._limit_w)
        return max(from_s, float(self._t[low[0]])) if len(low) else self._end_s

    def promise(self, at_s: float, extra_w: float, lasts_s: float) -> float:
        """Set aside the power that a job will add; return it, W."""
        if at_s >= self._end_s:
            return 0.0
        self._add(at_s, extra_w, at_s + lasts_s)
        return extra_w
