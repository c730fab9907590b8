"""Servers to sleep and to wake: the actions that policies take, and the energy that they take of a step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from beasy_sched.arrays import StateArray, distinct
from beasy_sched.engine.actions import NO_FACTS, Action, FactDict, Facts, SetPState
from beasy_sched.model.hosts import HostIds, HostSet

if TYPE_CHECKING:
    from beasy_sched.engine.policy import View


def sleep(view: View, hosts: HostIds, rule: str, facts: Facts = NO_FACTS) -> list[Action]:
    """Put idle ``hosts`` to sleep, except those that cannot sleep."""
    groups = by_target(view, hosts, view.platform.sleep_of_kind)
    return [SetPState(HostSet(group), pstate, rule, facts) for group, pstate in groups if pstate >= 0]


def wake(
    view: View, hosts: HostIds, rule: str, facts: Facts = NO_FACTS, pstates: StateArray | None = None
) -> list[Action]:
    """Wake ``hosts``, as many as the step's energy allows, to ``pstates`` of their kinds or at full speed."""
    actions: list[Action] = []
    budget = view.budget
    targets = view.platform.fastest_of_kind if pstates is None else pstates
    for group, pstate in by_target(view, hosts, targets):
        before_j = headroom_j(view)
        granted = len(group) if budget is None else budget.grant_wakes(group, pstate)
        if granted:
            why = {**facts, "hosts_to_wake": granted}
            if granted < len(group):
                why["hosts_left_asleep"] = len(group) - granted
            why |= spent_facts(view, before_j)
            actions.append(SetPState(HostSet(group[:granted]), pstate, rule, why))
    return actions


def by_target(view: View, hosts: HostIds, targets: StateArray) -> list[tuple[HostIds, int]]:
    """Group ``hosts`` by the P-state that ``targets`` lists for their kind."""
    if len(targets) == 1 and len(hosts):
        return [(hosts, targets.item())]
    wanted = targets[view.platform.kind_of[hosts]]
    return [(hosts[wanted == pstate], pstate) for pstate in distinct(wanted)]


def headroom_j(view: View) -> float:
    """Energy left in the step, J; 0 without a site."""
    return 0.0 if view.budget is None else view.budget.headroom_j


def spent_facts(view: View, before_j: float) -> FactDict:
    """Facts on what a decision took of the step's energy, ``before_j`` until then; empty without limits."""
    if view.budget is None or before_j == math.inf:
        return {}
    return {"headroom_j": before_j, "cost_j": before_j - view.budget.headroom_j}
