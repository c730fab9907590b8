"""The stock rule: energy saved so far is used for jobs that draw more than becomes available.

The results of the energy-budget paper were obtained with this rule, implemented here without its mistakes
(docs/decisions/other-policies.md#energy-budgets). A job is tested as if the current power, plus its own,
lasted for its walltime: its excess, (power - rate) x walltime, must not be above the stock, the energy
available now. The energy that the first waiting job will take from the stock is reserved, but not the energy
that becomes available until it starts.

As this considers neither other jobs' ends nor the excess of running jobs, the future balance (`Projection`)
is also tested: only this guarantees that no debt occurs.
"""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.engine.actions import FactDict
from beasy_sched.engine.guard import ENERGY_TOLERANCE
from beasy_sched.plugins.energy_budget.energy_budget_words import NOT_SAVED
from beasy_sched.plugins.energy_budget.projection import Ceiling, Numbers, Projection, first_moment


class Stock(Projection):
    """Future balance, and the stock."""

    _reserved_j = 0.0
    _due_s: float | None = None
    """Start of the first waiting job, s; None without a reservation."""

    def facts(self, reserved: float) -> FactDict:
        """Return the stock and its reserved part, including the excess of jobs that overtook."""
        return super().facts(self._reserved_j)

    @property
    def _drawn_w(self) -> float:
        """Return the current power (or that of the jobs that will be running when the period starts)."""
        return self._rest_w + self._jobs.drawn_w(self._start_s)

    def _above_rate_w(self, extra_w: Numbers, span_s: Numbers) -> Numbers:
        """Return the power with a job above the mean rate of its time, W."""
        above_w: Numbers = self._drawn_w + extra_w - self._rate.mean_w(self._start_s, self._start_s + span_s)
        return above_w

    # --- tests ----------------------------------------------------------------------------------------

    def admits(self, extra_w: FloatArray, end_s: FloatArray, hosts: FloatArray) -> BoolArray:
        """Whether the stock suffices for each job, and the balance stays positive."""
        span_s = np.minimum(end_s, self._end_s) - self._start_s
        return self._paid(extra_w, span_s) & super().admits(extra_w, end_s, hosts)

    def allows(self, extra_w: float, end_s: float, idle: int) -> bool:
        """Whether a job may start now that takes ``idle`` of the hosts that would be switched off."""
        span_s = min(end_s, self._end_s) - self._start_s
        return bool(self._paid(extra_w, span_s)) and super().allows(extra_w, end_s, idle)

    def _paid(self, extra_w: Numbers, span_s: Numbers) -> BoolArray:
        """Whether the unreserved stock suffices for the power of jobs above the rate for some time."""
        passed: BoolArray = self._affordable(extra_w, span_s) | (span_s <= 0) | (extra_w <= 0)
        return passed

    def _affordable(self, extra_w: Numbers, span_s: Numbers) -> BoolArray:
        excess_j = self._above_rate_w(extra_w, span_s) * span_s
        paid: BoolArray = np.less_equal(excess_j, self._stock_j - self._reserved_j + self._tolerance_j)
        return paid

    def refusal(self, extra_w: float, end_s: float, idle: int) -> tuple[str, FactDict]:
        """Return the rule by which a job may not start, and the energy that it lacks."""
        span_s = min(end_s, self._end_s) - self._start_s
        excess_j = self._above_rate_w(extra_w, span_s) * span_s
        lacks_j = excess_j - self._stock_j
        if lacks_j > self._tolerance_j:
            return NOT_SAVED, {"needed_j": excess_j, "lacks_j": lacks_j}
        return super().refusal(extra_w, end_s, idle)

    def start(self, extra_w: float, end_s: float, idle: int) -> None:
        """Account for a started job; one that overtakes adds its excess to the reserved part."""
        if self._due_s is not None:
            span_s = max(0.0, min(end_s, self._end_s) - self._start_s)
            self._reserved_j += max(0.0, self._above_rate_w(extra_w, span_s) * span_s)
        super().start(extra_w, end_s, idle)

    # --- the first waiting job ------------------------------------------------------------------------

    def earliest(self, from_s: float, extra_w: float, lasts_s: float) -> float:
        """Find the first latest end of a running job at which the stock suffices for a job.

        If there is none, the idle hosts save for it after the last one, at most until the period's end.
        """
        if from_s >= self._end_s:
            return from_s
        ends_s = self._jobs.end_s
        first, last = ends_s.searchsorted((max(from_s, self._start_s), self._end_s), side="right")
        moments_s = np.concatenate(([from_s], ends_s[first:last]))

        def paid(at_s: FloatArray | float) -> BoolArray:
            saved_j = np.interp(at_s, self._t, self._y)
            return np.asarray(self._excess_j(at_s, extra_w, lasts_s) <= saved_j + self._tolerance_j)

        for at_s in moments_s[paid(moments_s)].tolist():
            if self._suffices(at_s, extra_w, lasts_s):
                return float(at_s)

        def enough(at_s: float) -> bool:
            return bool(paid(at_s)) and self._suffices(at_s, extra_w, lasts_s)

        return first_moment(enough, float(moments_s[-1]), self._end_s)

    def promise(self, at_s: float, extra_w: float, lasts_s: float) -> float:
        """Reserve and return the energy that a job will take from the stock when it starts at ``at_s``, J."""
        self._reserved_j = max(0.0, float(self._excess_j(at_s, extra_w, lasts_s)))
        self._due_s = at_s
        return self._reserved_j

    def _excess_j(self, at_s: FloatArray | float, extra_w: float, lasts_s: float) -> FloatArray:
        """Return the power of a job above the rate for each start, with the jobs that still run then."""
        ends_s, ended_w = self._jobs.running(self._start_s)
        begin_s, until_s = np.maximum(at_s, self._start_s), np.minimum(at_s + lasts_s, self._end_s)
        span_s = until_s - begin_s
        power_w = self._drawn_w - ended_w[ends_s.searchsorted(at_s, side="right")] + extra_w
        return np.asarray((power_w - self._rate.mean_w(begin_s, until_s)) * np.maximum(span_s, 0.0))


class EvenStock(Stock):
    """`Stock` for heads of the queue only: a job that overtakes must keep the power below the rate.

    Reserved energy lowers this rate, evenly from now until it is due.
    """

    def _affordable(self, extra_w: Numbers, span_s: Numbers) -> BoolArray:
        if self._due_s is None:
            return super()._affordable(extra_w, span_s)
        until_s = self._due_s - self._start_s
        lowered_w = self._reserved_j / until_s if until_s > 0 else 0.0
        limit_w = self._rate.rate_w * (1 + ENERGY_TOLERANCE) - lowered_w
        paid: BoolArray = np.less_equal(self._drawn_w + extra_w, limit_w)
        return paid


class OpenCeiling(Ceiling):
    """`Ceiling` that does not reserve power for the first waiting job."""

    def promise(self, at_s: float, extra_w: float, lasts_s: float) -> float:
        """Reserve nothing."""
        return 0.0
