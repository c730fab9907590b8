"""The books of a budget: C_ea, the counter of available energy (Section IV-C-1 of the paper), and the tests.

`Ledger` knows the estimated power of each moment, counts what is drawn, corrects that by measurements, and
makes the tests that say which jobs may start.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.engine.budget import energy_tolerance_j
from beasy_sched.engine.view import View
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.power import BUSY, IDLE
from beasy_sched.policies.energy_budget.options import BudgetPeriod, EstimatedPowers
from beasy_sched.policies.energy_budget.projection import (
    BudgetTest,
    Ceiling,
    Commitments,
    Passing,
    Projection,
)
from beasy_sched.units import TIME_TOLERANCE_S


class EnergyCounter:
    """Energy made available since the period's start (rule 1) less what was used since, J.

    Between two measurements the use is estimated; a measurement replaces the estimate. Outside the
    period nothing is counted.
    """

    def __init__(self, period: BudgetPeriod, budget_j: float) -> None:
        """Nothing is available before the period."""
        self.period = period
        self.budget_j = budget_j
        self.rate_w = budget_j / period.length_s
        """Energy made available each second, W."""
        self.available_j = 0.0
        self.used_j: float | None = None
        """Energy used in the period, up to the last measurement; None before the first."""
        self.stages = 0
        """Measurements taken within the period, its start and end included."""
        self.stages_in_debt = 0
        self.largest_debt_j = 0.0
        """Largest debt found by a measurement."""
        self.overestimated_j = 0.0
        """How much more was estimated to be used than measurements found, in all."""
        self.due_s = period.start_s
        """When the next measurement is due; infinite after the last."""
        self._now_s = 0.0
        self._at_start_j = 0.0
        self._last_j = 0.0
        if period.start_s == 0:
            self.measured(0.0, 0.0)

    @property
    def tolerance_j(self) -> float:
        """How far from zero a balance is still zero, by the budget and by all the energy measured, J."""
        return energy_tolerance_j(self.budget_j, self._last_j)

    def advance(self, now: float, draw_w: float) -> None:
        """Let time pass to ``now`` (s) at an estimated power."""
        period = self.period
        since_s, until_s = max(self._now_s, period.start_s), min(now, period.end_s)
        if until_s > since_s:
            self.available_j += (self.rate_w - draw_w) * (until_s - since_s)
        self._now_s = now

    def is_due(self, now: float) -> bool:
        """Whether a measurement should be taken by now."""
        return now >= self.due_s - TIME_TOLERANCE_S

    def measured(self, at_s: float, energy_j: float) -> None:
        """Take in a measurement: energy used since time 0, at a time."""
        period = self.period
        if at_s < period.start_s - TIME_TOLERANCE_S or math.isinf(self.due_s):
            return
        if self.used_j is None:
            self._at_start_j = energy_j
        self._last_j = energy_j
        self.stages += 1
        self.used_j = energy_j - self._at_start_j
        passed_s = min(at_s, period.end_s) - period.start_s
        estimated_j = self.available_j
        self.available_j = self.rate_w * passed_s - self.used_j if passed_s else 0.0
        if math.isfinite(self.budget_j):
            self.overestimated_j += self.available_j - estimated_j
        if self.available_j < -self.tolerance_j:
            self.stages_in_debt += 1
            self.largest_debt_j = max(self.largest_debt_j, -self.available_j)
        self._set_due(at_s)

    def _set_due(self, now: float) -> None:
        period = self.period
        if now >= period.end_s - TIME_TOLERANCE_S:
            self.due_s = math.inf
            return
        stage = int((now - period.start_s + TIME_TOLERANCE_S) // period.monitoring_s) + 1
        self.due_s = min(period.start_s + stage * period.monitoring_s, period.end_s)


class JobCost(Struct, frozen=True):
    """What one more host costs a job, at most, whichever host that is."""

    power_w: float
    """What a job adds to a resting host's power."""
    switching_j: float
    """Energy of switching the host off again."""
    lead_s: float
    """How long a host may need to wake."""

    def extra_w(self, res: FloatArray, lasts_s: FloatArray) -> FloatArray:
        """Power that jobs add; the switching is spread over their time."""
        extra: FloatArray = res * (self.power_w + self.switching_j / np.maximum(lasts_s, TIME_TOLERANCE_S))
        return extra

    def admitted(self, test: BudgetTest, now: float, res: IntArray, walltime_s: FloatArray) -> BoolArray:
        """Tell for which jobs the energy suffices now, whatever hosts are free."""
        lasts_s, hosts = walltime_s + self.lead_s, res.astype(np.float64)
        return test.admits(self.extra_w(hosts, lasts_s), now + lasts_s, hosts)


FREE = JobCost(0.0, 0.0, 0.0)
"""Where there is no budget."""


class Ledger:
    """Keeps the counter up to date and makes the tests of a moment."""

    def __init__(
        self,
        period: BudgetPeriod,
        powers: EstimatedPowers,
        jobs: Commitments,
        view: View,
        *,
        energies: bool = True,
    ) -> None:
        """``energies``: whether jobs are charged with switching off their hosts."""
        self.period = period
        self.counter = EnergyCounter(period, period.budget_j(powers.all_computing_w))
        self._powers, self._jobs = powers, jobs
        self._kind_of = view.platform.kind_of
        self._off_again_j = powers.off_again_j * energies
        self._most = powers.most(powers.job_w), powers.most(self._off_again_j)
        self._counts = view.state_counts.copy()
        self._draw_w = powers.draw_w(self._counts)
        self._measured_s = -math.inf
        self._asked_s = -math.inf

    # --- time ---------------------------------------------------------------------------------------

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return math.isfinite(self.counter.budget_j)

    def is_over(self, now: float) -> bool:
        """Whether the period has ended."""
        return now >= self.period.end_s - TIME_TOLERANCE_S

    def is_on(self, now: float) -> bool:
        """Whether the period is under way."""
        return now >= self.period.start_s - TIME_TOLERANCE_S and not self.is_over(now)

    def catch_up(self, view: View) -> None:
        """Bring the counter up to the present, by a measurement where there is a new one."""
        self.counter.advance(view.now, self._draw_w)
        measured = view.measured
        if measured is not None and measured.at_s > self._measured_s:
            self._measured_s = measured.at_s
            self.counter.measured(measured.at_s, measured.energy_j)
        self._counts = view.state_counts.copy()

    def moved(self, hosts: HostIds, before: int, after: int) -> None:
        """Take in that hosts will change their state by a decision of this moment."""
        counts = self._counts
        by_kind = np.bincount(self._kind_of[hosts], minlength=len(counts)) if len(counts) > 1 else len(hosts)
        counts[:, before] -= by_kind
        counts[:, after] += by_kind

    def settle(self) -> None:
        """Reckon what will be drawn from now on."""
        self._draw_w = self._powers.draw_w(self._counts)

    def wants_measurement(self, now: float) -> bool:
        """Tell whether to measure now; told once for a moment."""
        wanted = self.counter.is_due(now) and now > self._asked_s
        if wanted:
            self._asked_s = now
        return wanted

    # --- tests --------------------------------------------------------------------------------------

    def projection(self, now: float, kind: type[Projection] = Projection) -> Projection:
        """Return the balance of available energy to come."""
        settling_j = self._powers.settling_j * self._counts
        rest_w = float((self._powers.rest_w * self._counts).sum())
        idle_j, available_j = float(settling_j[:, IDLE].sum()), self.counter.available_j
        if now < self.period.start_s:  # hosts that come free by then are still on
            idle_j += float((self._off_again_j * self._counts[:, BUSY]).sum())
        available_j -= float(settling_j.sum()) - float(settling_j[:, IDLE].sum())
        rate_w, tolerance_j, passing = self.counter.rate_w, self.counter.tolerance_j, self._passing(idle_j)
        return kind(self.period, rate_w, now, available_j, rest_w, self._jobs, passing, tolerance_j)

    def ceiling(self, now: float) -> Ceiling:
        """Return the power to come, under the limit."""
        peak_w = self._powers.peak_w * self._counts
        rest_w = self._powers.rest_w[:, IDLE] * self._counts[:, IDLE]
        idle_w = float((peak_w[:, IDLE] - rest_w).sum())
        floor_w, passing = float(peak_w.sum()) - idle_w, self._passing(idle_w)
        return Ceiling(self.period, self.counter.rate_w, now, floor_w, self._jobs, passing)

    def _passing(self, total: float) -> Passing:
        return Passing(total, int(self._counts[:, IDLE].sum()))

    def cost(self, lead_s: float) -> JobCost:
        """Return what one host costs a job at most."""
        return JobCost(*self._most, lead_s)

    def extra_w(self, hosts: HostIds, lasts_s: float) -> float:
        """Return what a job adds to the power of ``hosts`` at rest, switching them off again included."""
        total = self._powers.total
        lasts_s = max(lasts_s, TIME_TOLERANCE_S)
        return total(self._powers.job_w, hosts) + total(self._off_again_j, hosts) / lasts_s

    # --- results ------------------------------------------------------------------------------------

    def results(self) -> dict[str, Any]:
        """Return the budget and what was used of it; energies in J, times in s."""
        counter, period = self.counter, self.period
        limited, used_j = self.is_limited, counter.used_j
        known = limited and used_j is not None
        return {
            "budget_j": counter.budget_j if limited else None,
            "share": counter.budget_j / (self._powers.all_computing_w * period.length_s) if limited else None,
            "period_start_s": period.start_s,
            "period_end_s": period.end_s,
            "measured_to_the_end": math.isinf(counter.due_s),
            "measurements": counter.stages,
            "used_j": used_j,
            "excess_j": max(0.0, used_j - counter.budget_j) if known and used_j is not None else None,
            "overestimated_j": counter.overestimated_j if limited else None,
            "measurements_in_debt": counter.stages_in_debt,
            "largest_debt_j": counter.largest_debt_j,
        }
