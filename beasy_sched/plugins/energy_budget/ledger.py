"""Accounting of a budget: the counter of available energy, and the tests based on it.

`EnergyCounter` is C_ea (Section IV-C-1 of the paper). `Ledger` updates it with estimated powers and
measurements, and creates the tests that admit jobs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import BoolArray, FloatArray, IntArray, total
from beasy_sched.engine.guard import energy_tolerance_j
from beasy_sched.engine.policy import View
from beasy_sched.model.host_states import BUSY, IDLE
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.jobs import Job
from beasy_sched.plugins.energy_budget.cooling_share import CoolingShare
from beasy_sched.plugins.energy_budget.energy_budget_options import BudgetPeriod, EstimatedPowers
from beasy_sched.plugins.energy_budget.projection import (
    BudgetTest,
    Ceiling,
    Commitments,
    IdleShutdownCost,
    Numbers,
    Projection,
)
from beasy_sched.units import TIME_TOLERANCE_S


class EnergyCounter:
    """Energy made available since the period's start (rule 1) minus the energy used since, J.

    Use is estimated between measurements; each measurement replaces the estimate. Energy outside the period
    is not counted.
    """

    def __init__(self, period: BudgetPeriod, budget_j: float) -> None:
        """Begin without available energy."""
        self.period = period
        self.budget_j = budget_j
        self.rate = period.rate(budget_j)
        """Energy made available per second."""
        self.available_j = 0.0
        self.used_j: float | None = None
        """Energy used in the period up to the last measurement; None before the first."""
        self.stages = 0
        """Number of measurements in the period, including those at its start and end."""
        self.stages_in_debt = 0
        self.largest_debt_j = 0.0
        """Maximum debt found by a measurement."""
        self.overestimated_j = 0.0
        """Total by which estimates exceeded measurements."""
        self.due_s = period.start_s
        """Time at which the next measurement is due, s; infinite after the last."""
        self._now_s = 0.0
        self._at_start_j = 0.0
        self._last_j = 0.0
        if period.start_s == 0:
            self.measured(0.0, 0.0)

    @property
    def tolerance_j(self) -> float:
        """Largest balance that counts as zero, given the budget and the energy measured so far, J."""
        return energy_tolerance_j(self.budget_j, self._last_j)

    def advance(self, now: float, draw_w: float) -> None:
        """Advance to ``now`` (s) at an estimated power."""
        period = self.period
        since_s, until_s = max(self._now_s, period.start_s), min(now, period.end_s)
        if until_s > since_s:
            self.available_j += (self.rate.mean_w(since_s, until_s) - draw_w) * (until_s - since_s)
        self._now_s = now

    def measured(self, at_s: float, energy_j: float) -> None:
        """Account for a measurement of the energy used since time 0."""
        period = self.period
        if at_s < period.start_s - TIME_TOLERANCE_S or math.isinf(self.due_s):
            return
        if self.used_j is None:
            self._at_start_j = energy_j
        self._last_j = energy_j
        self.stages += 1
        self.used_j = energy_j - self._at_start_j
        until_s = min(at_s, period.end_s)
        passed_s, rate_w = until_s - period.start_s, self.rate.mean_w(period.start_s, until_s)
        estimated_j = self.available_j
        self.available_j = rate_w * passed_s - self.used_j if passed_s else 0.0
        if math.isfinite(self.budget_j):
            self.overestimated_j += self.available_j - estimated_j
        if self.available_j < -self.tolerance_j:
            self.stages_in_debt += 1
            self.largest_debt_j = max(self.largest_debt_j, -self.available_j)
        stage = int((at_s - period.start_s + TIME_TOLERANCE_S) // period.monitoring_s) + 1
        due_s = min(period.start_s + stage * period.monitoring_s, period.end_s)
        self.due_s = math.inf if at_s >= period.end_s - TIME_TOLERANCE_S else due_s


class JobCost(Struct, frozen=True):
    """Upper bounds of the cost of each host for a job."""

    power_w: float
    """Power that a job adds to a host at rest, W."""
    switching_j: float
    """Energy of switching the host off again, J."""
    lead_s: float
    """Maximum waking time of a host, s."""

    def extra_w(self, res: Numbers, lasts_s: Numbers) -> Numbers:
        """Power that jobs add, including the energy of switching spread over their duration."""
        power_w: Numbers = res * (self.power_w + self.switching_j / np.maximum(lasts_s, TIME_TOLERANCE_S))
        return power_w

    def of(self, job: Job) -> tuple[float, float]:
        """Return the maximum duration of ``job``, s, and the power that it adds, W."""
        lasts_s = job.walltime_s + self.lead_s
        return lasts_s, float(self.extra_w(float(job.res), lasts_s))

    def admitted(self, test: BudgetTest, now: float, res: IntArray, walltime_s: FloatArray) -> BoolArray:
        """Whether the energy suffices for each job now, whichever hosts are free."""
        lasts_s, hosts = walltime_s + self.lead_s, res.astype(np.float64)
        return test.admits(self.extra_w(hosts, lasts_s), now + lasts_s, hosts)


FREE = JobCost(0.0, 0.0, 0.0)
"""Cost without a budget."""


class Ledger:
    """Keeps the counter up to date and creates the tests."""

    def __init__(
        self,
        period: BudgetPeriod,
        powers: EstimatedPowers,
        jobs: Commitments,
        view: View,
        *,
        energies: bool = True,
    ) -> None:
        """``energies``: whether jobs are charged for switching off their hosts."""
        self.period = period
        self.counter = EnergyCounter(period, period.budget_j(powers.all_computing_w))
        self._powers, self._jobs = powers, jobs
        self._cooling = CoolingShare(view.site, period.end_s)
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
        """Whether the budget is finite."""
        return math.isfinite(self.counter.budget_j)

    def is_over(self, now: float) -> bool:
        """Whether the period has ended."""
        return now >= self.period.end_s - TIME_TOLERANCE_S

    def is_on(self, now: float) -> bool:
        """Whether the period is under way."""
        return now >= self.period.start_s - TIME_TOLERANCE_S and not self.is_over(now)

    def catch_up(self, view: View) -> bool:
        """Bring the counter up to the present; return whether there is a new measurement."""
        self.counter.advance(view.now, self._draw_w * self._cooling.now(view.now))
        measured = view.measured
        is_new = measured is not None and measured.at_s > self._measured_s
        if measured is not None and is_new:
            self._measured_s = measured.at_s
            used_j = self._cooling.measured_j(measured.at_s, measured.energy_j)
            self.counter.measured(measured.at_s, used_j)
        self._counts = view.state_counts.copy()
        return is_new

    def moved(self, hosts: HostIds, before: int, after: int) -> None:
        """Account for hosts whose state this decision changes."""
        counts = self._counts
        by_kind = np.bincount(self._kind_of[hosts], minlength=len(counts)) if len(counts) > 1 else len(hosts)
        counts[:, before] -= by_kind
        counts[:, after] += by_kind

    def settle(self) -> None:
        """Estimate the power from now on."""
        self._draw_w = self._powers.draw_w(self._counts)

    def wants_measurement(self, now: float) -> bool:
        """Whether to measure now; true only once per instant."""
        wanted = now >= self.counter.due_s - TIME_TOLERANCE_S and now > self._asked_s
        if wanted:
            self._asked_s = now
        return wanted

    # --- tests --------------------------------------------------------------------------------------

    def test_at(self, now: float, kind: type[BudgetTest]) -> BudgetTest:
        """Return a test of the ``kind`` for a time before the period's end."""
        return self._ceiling(now, kind) if issubclass(kind, Ceiling) else self._projection(now, kind)

    def _projection(self, now: float, kind: type[Projection]) -> Projection:
        """Return the future balance of available energy."""
        settling_j = self._powers.settling_j * self._counts
        rest_w = total((self._powers.rest_w * self._counts).ravel())
        pue = self._cooling.ahead(now)
        idle_j, available_j = total(settling_j[:, IDLE]), self.counter.available_j / pue
        available_j -= total(settling_j.ravel()) - idle_j
        if now < self.period.start_s:  # hosts that become free by then are still on
            idle_j += float((self._off_again_j * self._counts[:, BUSY]).sum())
        rate, tolerance_j, passing = (
            self.counter.rate.divided(pue),
            self.counter.tolerance_j,
            self._passing(idle_j),
        )
        return kind(self.period, rate, now, available_j, rest_w, self._jobs, passing, tolerance_j)

    def _ceiling(self, now: float, kind: type[Ceiling]) -> Ceiling:
        """Return the future power and its limit."""
        peak_w = self._powers.peak_w * self._counts
        rest_w = self._powers.rest_w[:, IDLE] * self._counts[:, IDLE]
        idle_w = float((peak_w[:, IDLE] - rest_w).sum())
        floor_w, passing = float(peak_w.sum()) - idle_w, self._passing(idle_w)
        rate_w = self.counter.rate.rate_w / self._cooling.ahead(now)
        return kind(self.period, rate_w, now, floor_w, self._jobs, passing)

    def _passing(self, cost: float) -> IdleShutdownCost:
        return IdleShutdownCost(cost, int(self._counts[:, IDLE].sum()))

    def cost(self, lead_s: float) -> JobCost:
        """Return the upper bounds of the cost of a host for a job."""
        return JobCost(*self._most, lead_s)

    def extra_w(self, hosts: HostIds, lasts_s: float) -> float:
        """Return the power that a job adds to ``hosts`` at rest, including switching them off again."""
        of = self._powers.total
        lasts_s = max(lasts_s, TIME_TOLERANCE_S)
        return of(self._powers.job_w, hosts) + of(self._off_again_j, hosts) / lasts_s

    # --- results ------------------------------------------------------------------------------------

    def results(self) -> dict[str, Any]:
        """Return the budget and its use; energies in J, times in s."""
        counter, period = self.counter, self.period
        limited, used_j = self.is_limited, counter.used_j
        most_j = self._powers.all_computing_w * period.length_s
        return {
            "budget_j": counter.budget_j if limited else None,
            "share": counter.budget_j / most_j if limited and most_j > 0.0 else None,
            "period_start_s": period.start_s,
            "period_end_s": period.end_s,
            "measured_to_the_end": math.isinf(counter.due_s),
            "measurements": counter.stages,
            "used_j": used_j,
            "excess_j": max(0.0, used_j - counter.budget_j) if limited and used_j is not None else None,
            "overestimated_j": counter.overestimated_j if limited else None,
            "measurements_in_debt": counter.stages_in_debt,
            "largest_debt_j": counter.largest_debt_j,
        }
