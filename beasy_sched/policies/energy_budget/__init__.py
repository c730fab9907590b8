"""Scheduling within an energy budget: what `energybud`, `reducepc` and `powercap` share.

"The paper" is the energy-budget paper, Section IV; docs/decisions/energy-budgets.md covers what it leaves open.
"""
