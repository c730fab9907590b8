"""Scheduling within an energy budget: common code of `energybud`, `reducepc` and `powercap`.

"The paper" is the energy-budget paper, Section IV. See
docs/decisions/other-policies.md#energy-budgets for what it leaves open.
"""
