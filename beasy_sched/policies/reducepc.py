"""reducePC: a reservation lowers the rate at which energy is made available until its job starts."""

from __future__ import annotations

from beasy_sched.policies.energy_budget.policy import BudgetedEasy
from beasy_sched.policies.energy_budget.projection import EnergyTest, Projection


class ReducePC(BudgetedEasy):
    """Section IV-D of the energy-budget paper: as `energybud`, with a lower rate while a job is promised.

    A job promised J joules at q takes J/(q - now) from the joules made available each second until q.
    """

    name = "reducepc"
    summary = "as energybud, but a reservation lowers the rate of energy for all others until it is due"

    def keep(self, test: EnergyTest, begin_s: float, extra_w: float, lasts_s: float) -> float:
        """Set the energy aside evenly from now on."""
        assert isinstance(test, Projection)
        reserved_j = test.promise(begin_s, extra_w, lasts_s)
        test.lower_rate(begin_s, reserved_j)
        return reserved_j
