"""Follow-plan: EASY on servers that are kept in the states of the offline plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.engine.actions import Action, FactDict, Kill, Start
from beasy_sched.engine.policy import Policy, View
from beasy_sched.model.jobs import Job
from beasy_sched.policies.easy import EasyPass, Reservation
from beasy_sched.policies.working_plan import PlanFollower, WorkingPlan, offline_plans, ready_s
from beasy_sched.units import TIME_TOLERANCE_S

_LOOKS_AHEAD = 24
"""Number of steps that are searched for a reservation first, as most reservations are near."""


class PlannedEasyPass(EasyPass):
    """An EASY pass that considers when servers are planned to wake and to sleep."""

    def __init__(self, view: View, plan: WorkingPlan) -> None:
        """Begin a pass at the view's present time."""
        super().__init__(view)
        self.plan = plan

    def reserve(self, job: Job) -> Reservation:
        """Reserve for ``job`` from the earliest time at which enough servers are free and planned on.

        They need not stay on for the job's whole walltime. There is no reservation beyond the plan's horizon.
        """
        step = self.plan.step_at(self.view.now)
        if step is None:
            return super().reserve(job)
        ends_s = latest_ends_s(self.view)
        for action in self.actions:
            if isinstance(action, Start):
                ends_s[action.hosts.ids] = self.view.now + action.job.walltime_s
        ready = ready_s(self.view, self.plan, step, self.free_mask(), ends_s)
        horizon = self.plan.horizon(step)
        for end_step in (min(step + _LOOKS_AHEAD, horizon), horizon):
            found = self._earliest(job, step, end_step, ready)
            if found is not None:
                return found
        return Reservation(job, np.inf, self.free)

    def _earliest(self, job: Job, step: int, end_step: int, ready: FloatArray) -> Reservation | None:
        """Return the reservation if it starts before ``end_step``."""
        opens_s, closes_s = self._openings(step, end_step, ready)
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

    def _openings(self, step: int, end_step: int, ready: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From when and until when servers are free and planned on, s: one entry per run of steps.

        Leaves out runs that begin at ``end_step`` or later. Runs that reach the end of the plan do not close.
        """
        plan, view = self.plan, self.view
        host, begin, end = plan.runs_on(step)
        if end_step < plan.steps:
            near = begin < end_step
            host, begin, end = host[near], begin[near], end[near]
        on_s = view.power_model.on_s[view.platform.kind_of]
        opens_s = plan.start_of(step) + (begin - step) * plan.step_s + on_s[host]
        opens_s = np.where(begin == step, ready[host], opens_s)
        closes_s = np.where(end == plan.steps, np.inf, plan.start_of(step) + (end - step) * plan.step_s)
        counts = np.logical_and(view.available[host], opens_s < closes_s - TIME_TOLERANCE_S)
        opens_s, closes_s = opens_s[counts], closes_s[counts]
        return opens_s, closes_s[closes_s < np.inf]


def latest_ends_s(view: View) -> FloatArray:
    """When the job of each server ends at the latest, s; minus infinity without a job."""
    ends_s = np.full(view.platform.size, -np.inf)
    for end_s, _, job in view.ends:
        ends_s[job.hosts.ids] = end_s
    return ends_s


class FollowPlan(Policy):
    """EASY on the planned servers; jobs on servers that the plan puts to sleep are killed.

    Servers keep their states after the last planned window. Subclasses change ``plan`` and follow it.
    """

    name = "follow-plan"
    summary = "EASY on exactly the servers that the offline plan has on"
    needs_power = True
    needs_plan = True

    def begin(self, view: View) -> None:
        """Copy the plan."""
        self.plan = WorkingPlan(offline_plans(view), view.platform, view.pstate)
        self._follower = PlanFollower(view, self.plan)

    def power_actions(self, view: View) -> Sequence[Action]:
        """Kill jobs on servers that are to sleep, and bring every server to its planned state."""
        if view.budget is not None and self.plan.renew(view.budget.start_s):
            self.plan_renewed()
        step = None if view.budget is None else self.plan.step_at(view.budget.start_s)
        if view.budget is None or step is None or not view.power_actions_allowed:
            return ()
        actions = [*self.compensate(view, step, view.budget.renew_w)]
        to_sleep = np.logical_and(view.available, ~self.plan.on[step])
        for job in view.running.values():
            count = int(np.count_nonzero(to_sleep[job.hosts.ids]))
            if count:
                why: FactDict = {"hosts_to_sleep": count}
                if np.isfinite(job.expected_end_s):
                    why["walltime_left_s"] = job.expected_end_s - view.now
                actions.append(Kill(job, "its server is planned to sleep", why))
        return actions + self._follower.follow(view, step, view.available)

    def plan_renewed(self) -> None:
        """Do what is to be done when the plan has been made anew; here, nothing."""

    def compensate(self, view: View, step: int, renew_w: float) -> Sequence[Action]:
        """Change the plan from ``step`` on, whose production is known now; here, it is followed as it is."""
        return ()

    def schedule(self, view: View) -> Sequence[Action]:
        """Run EASY on the servers that are on."""
        return PlannedEasyPass(view, self.plan).run()
