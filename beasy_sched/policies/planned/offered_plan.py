"""A plan whose servers somebody else fills with jobs: offers of its steps, and servers exchanged to match."""

from __future__ import annotations

from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray
from beasy_sched.engine.actions import Action, FactDict, Offer
from beasy_sched.engine.policy import View
from beasy_sched.engine.session_words import Rule, Words
from beasy_sched.model.host_states import BUSY, IDLE, SWITCHING_ON
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.offering import counts_by_kind, offer_steps
from beasy_sched.policies.planned.follower import PlanFollower
from beasy_sched.policies.planned.working_plan import WorkingPlan

OFFERED_AS_PLANNED: Final = Rule(
    "offer",
    "as planned",
    Words("As planned[, with the changes made online][: all servers draw up to {planned_w} in the step]."),
)


def exchange_servers(view: View, plan: WorkingPlan, step: int, free: BoolArray) -> bool:
    """Exchange the planned states of ``free`` servers of a kind so that those in use are planned on.

    Whoever places jobs chooses among equal servers, the plan only counts them. From ``step`` to the horizon,
    busy servers take the states of those planned on in ``step``, then servers that are on without a job.
    Returns whether any were exchanged.
    """
    state, end = view.host_state, plan.horizon(step)
    ends_s = np.full(view.platform.size, -np.inf)
    for end_s, _, job in view.ends:
        ends_s[job.hosts.ids] = end_s
    in_use = np.select([state == BUSY, (state == IDLE) | (state == SWITCHING_ON)], [2, 1], 0)
    in_use[~view.available & (state != BUSY)] = -1
    old, new = [], []
    for kind in range(len(view.platform.kinds)):
        hosts = (free & (view.platform.kind_of == kind)).nonzero()[0]
        on = plan.on[step, hosts]
        order = np.lexsort((hosts, ~on, -ends_s[hosts], -in_use[hosts]))
        chosen = np.zeros(len(hosts), dtype=np.bool_)
        chosen[order[: np.count_nonzero(on)]] = True
        arriving, leaving = hosts[chosen & ~on], hosts[on & ~chosen]
        arriving = arriving[np.argsort(-ends_s[arriving], kind="stable")]
        leaving = leaving[np.argsort(-_steps_on(plan, leaving, step, end), kind="stable")]
        old += [arriving, leaving]
        new += [leaving, arriving]
    to, source = np.concatenate(old), np.concatenate(new)
    if len(to):
        plan.set_states(to, step, end, plan.states[step:end, source])
    return bool(len(to))


def _steps_on(plan: WorkingPlan, hosts: HostIds, step: int, end: int) -> HostIds:
    """Return the number of steps from ``step`` on for which each of ``hosts`` is planned on."""
    off = ~plan.on[step:end, hosts]
    return np.where(off.any(axis=0), off.argmax(axis=0), end - step)


def offer_plan(view: View, plan: WorkingPlan, step: int) -> list[Offer]:
    """Return the offers of the servers planned on, from ``step`` to the horizon, and as then after it."""
    rows = range(step, plan.horizon(step))
    counts = counts_by_kind(view.platform, plan.on[rows.start : rows.stop])
    starts_s = [plan.start_of(row) for row in rows]
    why: FactDict = {"planned_w": float(plan.energy_j[step]) / plan.step_s}
    return offer_steps(view.platform, counts, starts_s, np.inf, OFFERED_AS_PLANNED, why)


def follow_speeds(view: View, follower: PlanFollower, step: int) -> list[Action]:
    """Bring servers that are on, and planned on, to their planned speeds."""
    if not view.power_actions_allowed:
        return []
    state = view.host_state
    on = (state == IDLE) | (state == BUSY) | (state == SWITCHING_ON)
    may_change = on & view.available & follower.plan.on[step] & ~view.sleep_requested()
    return follower.follow(view, step, may_change)
