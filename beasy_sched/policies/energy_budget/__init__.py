"""Scheduling within an energy budget: what `energybud`, `reducepc` and `powercap` share.

"The paper" is the energy-budget paper, Section IV. See
docs/decisions/other-policies.md#energy-budgets for what it leaves open.
"""
