"""Scheduling within an energy budget: what `energybud`, `reducepc` and `powercap` share.

"The paper" is the energy-budget paper, Section IV; where it is silent: docs/decisions/energy-budgets.md.
"""
