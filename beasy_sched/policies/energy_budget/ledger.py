"""The books of a budget: the counter, the estimated powers, and what follows for the tests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from beasy_sched.model.hosts import HostIds
from beasy_sched.model.power import BUSY, IDLE
from beasy_sched.policies.energy_budget.ceiling import Ceiling
from beasy_sched.policies.energy_budget.commitments import Commitments
from beasy_sched.policies.energy_budget.counter import EnergyCounter
from beasy_sched.policies.energy_budget.options import BudgetPeriod
from beasy_sched.policies.energy_budget.powers import EstimatedPowers
from beasy_sched.policies.energy_budget.projection import Passing, Projection
from beasy_sched.policies.energy_budget.rounds import JobCost
from beasy_sched.policies.view import View
from beasy_sched.units import TIME_TOLERANCE_S


class Ledger:
    """Keeps the counter up to date and makes the tests of a moment."""

    def __init__(
        self,
        period: BudgetPeriod,
        powers: EstimatedPowers,
        jobs: Commitments,
        view: View,
        *,
        switches: bool,
        energies: bool = True,
    ) -> None:
        """``switches``: whether idle hosts are switched off within the period.

        ``energies``: whether jobs are charged with switching off their hosts; a limit on power leaves it out.
        """
        self.period = period
        self.counter = EnergyCounter(period, period.budget_j(powers.all_computing_w))
        self._powers, self._jobs, self._switches = powers, jobs, switches
        self._kind_of = view.platform.kind_of
        self._rest_w, self._peak_w = powers.rest_w(switches), powers.peak_w(switches)
        self._settling_j = powers.settling_j(switches)
        self._job_w, self._off_again_j = powers.job_w(switches), powers.off_again_j(switches) * energies
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

    def projection(self, now: float) -> Projection:
        """Return the balance of available energy to come."""
        settling_j = self._settling_j * self._counts
        rest_w = float((self._rest_w * self._counts).sum())
        idle_j, available_j = float(settling_j[:, IDLE].sum()), self.counter.available_j
        if now < self.period.start_s:  # hosts that come free by then are still on
            idle_j += float((self._off_again_j * self._counts[:, BUSY]).sum())
        available_j -= float(settling_j.sum()) - float(settling_j[:, IDLE].sum())
        passing = Passing(idle_j, self._idle)
        rate_w, tolerance_j = self.counter.rate_w, self.counter.tolerance_j
        return Projection(self.period, rate_w, now, available_j, rest_w, self._jobs, passing, tolerance_j)

    def ceiling(self, now: float) -> Ceiling:
        """Return the power to come, under the limit."""
        peak_w = self._peak_w * self._counts
        rest_w = self._rest_w[:, IDLE] * self._counts[:, IDLE]
        idle_w = float((peak_w[:, IDLE] - rest_w).sum())
        passing = Passing(idle_w, self._idle)
        floor_w = float(peak_w.sum()) - idle_w
        return Ceiling(self.period, self.counter.rate_w, now, floor_w, self._jobs, passing)

    @property
    def _idle(self) -> int:
        return int(self._counts[:, IDLE].sum())

    def cost(self, lead_s: float) -> JobCost:
        """Return what one host costs a job at most."""
        most = self._powers.most
        return JobCost(most(self._job_w), most(self._off_again_j), lead_s)

    def extra_w(self, hosts: HostIds, lasts_s: float) -> float:
        """Return what a job adds to the power of ``hosts`` at rest, switching them off again included."""
        total = self._powers.total
        lasts_s = max(lasts_s, TIME_TOLERANCE_S)
        return total(self._job_w, hosts) + total(self._off_again_j, hosts) / lasts_s

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
