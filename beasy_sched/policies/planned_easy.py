"""EASY on planned servers: the reservation is by walltimes and by the plan."""

from __future__ import annotations

import numpy as np

from beasy_sched.model.job import Job
from beasy_sched.model.platform import FloatArray
from beasy_sched.model.power import HostState
from beasy_sched.policies.actions import Start
from beasy_sched.policies.easy import EasyPass, Reservation
from beasy_sched.policies.view import View
from beasy_sched.policies.working_plan import WorkingPlan
from beasy_sched.units import TIME_TOLERANCE_S


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
        opens_s, closes_s = self._openings(step)
        times_s = np.concatenate([opens_s, closes_s])
        change = np.repeat([1, -1], [len(opens_s), len(closes_s)])
        order = np.argsort(times_s, kind="stable")
        times_s, count = times_s[order], np.cumsum(change[order])
        settled = np.diff(times_s, append=np.inf) > TIME_TOLERANCE_S  # the last change of each moment
        enough = np.flatnonzero(settled & (count >= job.res))
        if not len(enough):
            return Reservation(job, np.inf, self.free)
        return Reservation(job, float(times_s[enough[0]]), int(count[enough[0]]) - job.res)

    def _openings(self, step: int) -> tuple[FloatArray, FloatArray]:
        """From when and until when servers are free and planned on: one entry a run of steps, s.

        Runs that reach the end of the plan are not closed.
        """
        plan, view = self.plan, self.view
        on = plan.on[step:]
        asleep = np.zeros((1, view.platform.size), dtype=np.bool_)
        edges = np.diff(np.concatenate([asleep, on, asleep]).astype(np.int8), axis=0).T
        host, begin = np.nonzero(edges == 1)  # by host, then by step: begins and ends in the same order
        end = np.nonzero(edges == -1)[1]
        on_s = view.power_model.on_s[view.platform.kind_of]
        opens_s = plan.start_of(step) + begin * plan.step_s + on_s[host]
        opens_s = np.where(begin == 0, self._ready_s(step)[host], opens_s)
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
        switching_on = state == HostState.SWITCHING_ON
        ready_s = np.where(switching_on, view.state_since_s + power.on_s[kinds], ready_s)
        for end_s, _, job in view.ends:
            assert job.hosts is not None
            ready_s[job.hosts.ids] = max(end_s, view.now)
        for action in self.actions:
            if isinstance(action, Start):
                ready_s[action.hosts.ids] = view.now + action.job.walltime_s
        return ready_s
