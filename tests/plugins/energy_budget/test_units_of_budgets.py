"""Budgets in all units of energy, and those that are refused."""

import pytest

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.energy_budget.energy_budget_options import EnergyBudgetOptions, read_period


def budget_j(budget):
    period = read_period(EnergyBudgetOptions(budget=budget, period_end=3600.0))
    return period.budget_j(1000.0)


@pytest.mark.parametrize(
    ("budget", "joules"),
    [
        ("500 kWh", 1.8e9),
        ("500kwh", 1.8e9),
        ("0.5 MWh", 1.8e9),
        ("0.5 mwh", 1.8e9),
        ("0.0005 GWh", 1.8e9),
        ("1.8 GJ", 1.8e9),
        ("1.8e9 J", 1.8e9),
        ("2 MJ", 2e6),
        ("5 kilowatt-hours", 1.8e7),
        ("60%", 0.6 * 3.6e6),
        ("60 %", 0.6 * 3.6e6),
        (0.6, 0.6 * 3.6e6),
        ("inf", float("inf")),
    ],
)
def test_budgets(budget, joules):
    assert budget_j(budget) == pytest.approx(joules, rel=1e-12)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (
            "5 mWh",
            "budget: found '5 mWh': unit 'mWh' has thousandths (write MWh for millions): expected J, kJ",
        ),
        ("5 kW", "budget: found '5 kW': unit 'kW': expected J, kJ, MJ, GJ, Wh, kWh, MWh or GWh"),
        ("5 kVAh", "budget: found '5 kVAh': unit 'kVAh': expected J, kJ"),
        ("5 TOE", "unit 'TOE': expected J"),
        ("60", "budget: found '60', expected a share such as 0.6"),
        ("-5 J", "budget: found '-5 J', expected a share such as 0.6"),
        ("5..0 J", "budget: found '5..0 J', expected a share such as 0.6"),
        ("much", "budget: found 'much', expected a share such as 0.6"),
    ],
)
def test_budgets_that_are_refused(budget, message):
    with pytest.raises(ConfigError) as error:
        budget_j(budget)
    assert message in str(error.value)
