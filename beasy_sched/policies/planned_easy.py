"""EASY on planned servers: the reservation is by walltimes and by the plan."""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.model.job import Job
from beasy_sched.model.power import SWITCHING_ON
from beasy_sched.policies.actions import Start
from beasy_sched.policies.easy import EasyPass, Reservation
from beasy_sched.policies.view import View
from beasy_sched.policies.working_plan import WorkingPlan
from beasy_sched.units import TIME_TOLERANCE_S

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
            assert job.hosts is not None
            ready_s[job.hosts.ids] = max(end_s, view.now)
        for action in self.actions:
            if isinstance(action, Start):
                ready_s[action.hosts.ids] = view.now + action.job.walltime_s
        return ready_s
