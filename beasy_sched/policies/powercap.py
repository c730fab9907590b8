"""powercap: EASY under a limit on power, the paper's point of comparison."""

from __future__ import annotations

from beasy_sched.policies.energy_budget.ledger import Ledger
from beasy_sched.policies.energy_budget.policy import BudgetedEasy
from beasy_sched.policies.energy_budget.projection import EnergyTest
from beasy_sched.policies.facts import FactDict


class PowerCap(BudgetedEasy):
    """Section V-C of the energy-budget paper: no job starts that takes the power above B/(te - ts)."""

    name = "powercap"
    summary = "EASY under a constant limit on power, the energy budget over its period"

    counts_energy = False

    def energy_test(self, ledger: Ledger, now: float) -> EnergyTest:
        """Test powers, not energies."""
        return ledger.ceiling(now)

    def numbers(self, test: EnergyTest, reserved: float) -> FactDict:
        """Return powers."""
        assert self.ledger is not None
        return {"drawn_w": test.present, "limit_w": self.ledger.counter.rate_w, "reserved_w": reserved}
