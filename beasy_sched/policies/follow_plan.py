"""Follow-plan: the servers exactly as the offline plan has them.

Giving servers the states that a plan has for them.

EASY on planned servers: the reservation is by walltimes and by the plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, StateArray
from beasy_sched.engine.actions import Action, Facts, Kill, SetPState, Start
from beasy_sched.engine.policy import Policy, View
from beasy_sched.model.cluster import SWITCHING_ON
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.policies.easy import EasyPass, FactDict, Reservation, largest_slowdown, smallest_size
from beasy_sched.policies.working_plan import WorkingPlan
from beasy_sched.units import TIME_TOLERANCE_S

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


_LOOKS_AHEAD = 24
"""A reservation is sought within so many steps, then within as many times as many, and so on."""


class PlannedEasyPass(EasyPass):
    """An EASY pass that knows when servers are planned to wake and to sleep."""

    def __init__(self, view: View, plan: WorkingPlan) -> None:
        """Begin a pass at the view's present time."""
        super().__init__(view)
        self.plan = plan

    def reserve(self, job: Job) -> Reservation:
        """Promise ``job`` the earliest time at which enough servers are free and planned on.

        Whether they stay on for the job's whole walltime is not looked at.
        """
        step = self.plan.step_at(self.view.now)
        if step is None:
            return super().reserve(job)
        ready_s, end_step = self._ready_s(step), step
        while end_step < self.plan.steps:
            end_step = min(step + _LOOKS_AHEAD * max(end_step - step, 1), self.plan.steps)
            found = self._earliest(job, step, end_step, ready_s)
            if found is not None:
                return found
        return Reservation(job, np.inf, self.free)

    def _earliest(self, job: Job, step: int, end_step: int, ready_s: FloatArray) -> Reservation | None:
        """The reservation, if it lies before ``end_step``; all that follows is not looked at."""
        opens_s, closes_s = self._openings(step, end_step, ready_s)
        times_s = np.concatenate([opens_s, closes_s])
        change = np.repeat([1, -1], [len(opens_s), len(closes_s)])
        order = np.argsort(times_s, kind="stable")
        times_s, count = times_s[order], np.cumsum(change[order])
        settled = np.diff(times_s, append=np.inf) > TIME_TOLERANCE_S  # the last change of each moment
        if end_step < self.plan.steps:
            settled &= times_s < self.plan.start_of(end_step) - 2 * TIME_TOLERANCE_S
        enough = np.flatnonzero(settled & (count >= job.res))
        if not len(enough):
            return None
        return Reservation(job, float(times_s[enough[0]]), int(count[enough[0]]) - job.res)

    def _openings(self, step: int, end_step: int, ready_s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From when and until when servers are free and planned on: one entry a run of steps, s.

        Runs that reach ``end_step`` are not closed. ``ready_s`` (N): when those that are on now can take a
        job.
        """
        plan, view = self.plan, self.view
        on = plan.on[step:end_step]
        asleep = np.zeros((1, view.platform.size), dtype=np.bool_)
        edges = np.diff(np.concatenate([asleep, on, asleep]).astype(np.int8), axis=0).T
        host, begin = np.nonzero(edges == 1)  # by host, then by step: begins and ends in the same order
        end = np.nonzero(edges == -1)[1]
        on_s = view.power_model.on_s[view.platform.kind_of]
        opens_s = plan.start_of(step) + begin * plan.step_s + on_s[host]
        opens_s = np.where(begin == 0, ready_s[host], opens_s)
        closes_s = np.where(end == len(on), np.inf, plan.start_of(step) + end * plan.step_s)
        counts = np.logical_and(view.available[host], opens_s < closes_s - TIME_TOLERANCE_S)
        opens_s, closes_s = opens_s[counts], closes_s[counts]
        return opens_s, closes_s[closes_s < np.inf]

    def _ready_s(self, step: int) -> FloatArray:
        """When each server that is planned on now can take a job, s.

        One that sleeps all the same, for want of energy, wakes at the next step at the earliest.
        """
        view, kinds = self.view, self.view.platform.kind_of
        power, state = view.power_model, view.host_state
        wakes_s = self.plan.start_of(step + 1) + power.on_s[kinds]
        ready_s = np.where(self.free_mask(), view.now, wakes_s)
        switching_on = state == SWITCHING_ON
        ready_s = np.where(switching_on, view.state_since_s + power.on_s[kinds], ready_s)
        for end_s, _, job in view.ends:
            ready_s[job.hosts.ids] = max(end_s, view.now)
        for action in self.actions:
            if isinstance(action, Start):
                ready_s[action.hosts.ids] = view.now + action.job.walltime_s
        return ready_s


class FollowPlan(Policy):
    """EASY on the planned servers; a job on a server that the plan puts to sleep is killed.

    After the last planned window the servers stay as they are. Subclasses change ``plan`` and follow it.
    """

    name = "follow-plan"
    summary = "EASY on the servers of the offline plan, which is followed to the letter"
    needs_power = True
    needs_plan = True

    def begin(self, view: View) -> None:
        """Copy the plan."""
        assert view.plans is not None
        self.plan = WorkingPlan(view.plans, view.platform, view.pstate)
        self._asked = view.pstate.copy()

    def power_actions(self, view: View) -> Sequence[Action]:
        """Kill the jobs on servers that are to sleep, and give every server its planned state."""
        assert view.budget is not None
        step = self.plan.step_at(view.budget.start_s)
        if step is None or not view.power_actions_allowed:
            return ()
        return self.follow(view, step)

    def follow(self, view: View, step: int) -> list[Action]:
        """Kills and P-states that bring every server in service to its planned state."""
        planned, on = self.plan.states[step], self.plan.on[step]
        to_sleep = np.logical_and(view.available, ~on)
        actions: list[Action] = [
            Kill(job, "its server is planned to sleep", _kill_facts(view, job, to_sleep))
            for job in view.running.values()
            if to_sleep[job.hosts.ids].any()
        ]
        pending = np.where(on, view.sleep_wished(), view.waking_wished())
        differs = (view.pstate != planned) | (self._asked != planned) | pending
        hosts = np.flatnonzero(np.logical_and(differs, view.available))
        self._asked[hosts] = planned[hosts]
        return actions + planned_states(view, self.plan, step, hosts)

    def schedule(self, view: View) -> Sequence[Action]:
        """Start what EASY starts on the servers that are on."""
        easy = PlannedEasyPass(view, self.plan)
        easy.run_heads(largest_slowdown)
        easy.backfill(smallest_size)
        return easy.actions


def _kill_facts(view: View, job: Job, to_sleep: BoolArray) -> Facts:
    """How many of a job's hosts are to sleep, and how long it might have run on."""
    facts: dict[str, float | int | str] = {"hosts_to_sleep": int(np.count_nonzero(to_sleep[job.hosts.ids]))}
    if np.isfinite(job.expected_end_s):
        facts["walltime_left_s"] = job.expected_end_s - view.now
    return facts
