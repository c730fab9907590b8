"""Giving servers the states that a plan has for them."""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import StateArray
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.policies.actions import Action, SetPState
from beasy_sched.policies.facts import FactDict
from beasy_sched.policies.view import View
from beasy_sched.policies.working_plan import WorkingPlan

PLANNED = "planned"


def planned_states(view: View, plan: WorkingPlan, step: int, hosts: HostIds) -> list[Action]:
    """Wish ``hosts`` into the states that ``plan`` has for them in ``step``: one action a P-state.

    The facts say for how many of them this is not the offline plan's state.
    """
    states = plan.states[step, hosts]
    replanned = states != _offline(view, plan, step, hosts)
    planned_w = float(plan.energy_j[step]) / plan.step_s
    actions: list[Action] = []
    for pstate in np.unique(states).tolist():
        mine = states == pstate
        why: FactDict = {"planned_w": planned_w}
        changed = int(np.count_nonzero(replanned & mine))
        if changed:
            why["hosts_replanned"] = changed
        actions.append(SetPState(HostSet(hosts[mine]), pstate, PLANNED, why))
    return actions


def _offline(view: View, plan: WorkingPlan, step: int, hosts: HostIds) -> StateArray:
    """The offline plan's states of ``hosts`` in a step of the working plan."""
    assert view.plans is not None
    place = view.plans.place(plan.start_of(step))
    assert place is not None
    servers = view.plans[place.window].servers
    assert servers is not None
    states: StateArray = servers.states[place.step, hosts]
    return states
