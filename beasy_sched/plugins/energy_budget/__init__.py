"""Scheduling within an energy budget: common code of `energybud`, `reducepc` and `powercap`.

"The paper" is the energy-budget paper, Section IV. See
docs/decisions/other-policies.md#energy-budgets for what it leaves open.
"""

from beasy_sched.plugin import Plugin

PLUGIN = Plugin(
    "energy_budget",
    commands={"generate": {"budget": "beasy_sched.plugins.energy_budget.commands.generate_budget:budget"}},
    policies={
        "energybud": "beasy_sched.plugins.energy_budget.energy_budget_policy:EnergyBud",
        "reducepc": "beasy_sched.plugins.energy_budget.energy_budget_policy:ReducePC",
        "powercap": "beasy_sched.plugins.energy_budget.energy_budget_policy:PowerCap",
    },
)
