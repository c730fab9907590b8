"""Putting servers to sleep and waking them, as several policies do it."""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import StateArray
from beasy_sched.engine.actions import NO_FACTS, Action, FactDict, Facts, SetPState
from beasy_sched.engine.policy import View
from beasy_sched.model.cluster import ASLEEP
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.platform import ServerKind


def sleep(view: View, hosts: HostIds, rule: str, facts: Facts = NO_FACTS) -> list[Action]:
    """Put idle ``hosts`` to sleep, except those that cannot sleep."""
    groups = _by_target(view, hosts, view.platform.sleep_of_kind)
    return [SetPState(HostSet(group), pstate, rule, facts) for group, pstate in groups if pstate >= 0]


def wake(view: View, hosts: HostIds, rule: str, facts: Facts = NO_FACTS) -> list[Action]:
    """Wake ``hosts`` at full speed, as many as the step's energy allows."""
    actions: list[Action] = []
    budget = view.budget
    for group, pstate in _by_target(view, hosts, view.platform.fastest_of_kind):
        before_j = headroom_j(view)
        granted = len(group) if budget is None else budget.grant_wakes(group, pstate)
        if granted:
            why = {**facts, "hosts_to_wake": granted}
            if granted < len(group):
                why["hosts_left_asleep"] = len(group) - granted
            why |= spent_facts(view, before_j)
            actions.append(SetPState(HostSet(group[:granted]), pstate, rule, why))
    return actions


def _by_target(view: View, hosts: HostIds, targets: StateArray) -> list[tuple[HostIds, int]]:
    """Group ``hosts`` by the P-state that ``targets`` lists for their kind."""
    wanted = targets[view.platform.kind_of[hosts]]
    return [(hosts[wanted == pstate], pstate) for pstate in np.unique(wanted).tolist()]


def hosts_wanted(view: View, started: int) -> int:
    """Number of hosts that waiting jobs ask for, without the ``started`` ones of jobs that start now."""
    queue = view.queue
    wanted = int(queue.res[queue.places()].sum()) if len(queue) else 0
    return min(wanted - started, view.platform.size)


def wake_for_queue(view: View, wanted: int, free: int) -> list[Action]:
    """Wake sleeping servers until ``wanted`` hosts are on or waking, as far as the step's energy allows.

    ``free`` hosts are idle and have no job.
    """
    awaited = free + sum(count for _, count in view.wakes)
    asleep = np.flatnonzero((view.host_state == ASLEEP) & view.available)
    missing = wanted - awaited
    if missing <= 0 or not len(asleep) or not view.power_actions_allowed:
        return []
    facts: FactDict = {"hosts_wanted": wanted, "hosts_awaited": awaited}
    return wake(view, asleep[:missing], "waiting jobs want it", facts)


def break_even_s(kind: ServerKind) -> float:
    """T_wait (Eq. 2.9 of the thesis): the idle time beyond which sleeping would have used less energy, s.

    Infinite for servers that cannot sleep, or that use no less asleep than idle.
    """
    if kind.sleep is None or not kind.idle_w or not kind.speeds_flops:
        return np.inf
    off_s, on_s = kind.off_duration_s(), kind.on_duration_s()
    sleep_w, idle_w = kind.idle_w[kind.sleep.pstate], kind.idle_w[kind.fastest]
    if idle_w <= sleep_w:
        return np.inf
    switching_j = kind.full_w[kind.sleep.off_pstate] * off_s + kind.full_w[kind.sleep.on_pstate] * on_s
    return max((switching_j - sleep_w * (off_s + on_s)) / (idle_w - sleep_w), off_s + on_s)


def headroom_j(view: View) -> float:
    """Energy left in the step, J; 0 without a site."""
    return 0.0 if view.budget is None else view.budget.headroom_j


def spent_facts(view: View, before_j: float) -> FactDict:
    """Facts on what a decision took of the step's energy, ``before_j`` until then; empty without a site."""
    if view.budget is None:
        return {}
    return {"headroom_j": before_j, "cost_j": before_j - view.budget.headroom_j}
