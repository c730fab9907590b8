"""energyBud: a reservation takes energy out of the counter when its job starts."""

from __future__ import annotations

from beasy_sched.policies.energy_budget.policy import BudgetedEasy


class EnergyBud(BudgetedEasy):
    """Section IV of the energy-budget paper: jobs start while the balance of available energy allows it.

    The first waiting job's energy is set aside where it will be needed: what is saved until then is
    everyone's.
    """

    name = "energybud"
    summary = "EASY within an energy budget: saved energy pays for jobs above the average power"
