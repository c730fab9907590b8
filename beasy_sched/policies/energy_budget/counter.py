"""C_ea, the counter of available energy (Section IV-C-1 of the paper)."""

from __future__ import annotations

import math

from beasy_sched.policies.budget import energy_tolerance_j
from beasy_sched.policies.energy_budget.options import BudgetPeriod
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
