"""Times that jobs take in BEASY's plan: by walltime, by work, and of long jobs, whose end is unknown."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray, any_of
from beasy_sched.engine.policy import View
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.jobs import Job
from beasy_sched.policies.long_jobs import LongJobs, planned_length_s
from beasy_sched.policies.planned.pstate_table import PStateTable
from beasy_sched.policies.planned.working_plan import WorkingPlan

LongJobsRule = Literal["plan", "set-aside"]
"""Handling of jobs whose end lies beyond every plan."""
WindowEnd = Literal["walltime", "work"]
"""Condition for a job at the end of the last known window: its walltime reached, or its work done."""


class JobLengths:
    """Times that jobs take in a plan."""

    def __init__(
        self,
        view: View,
        plan: WorkingPlan,
        pstates: PStateTable,
        *,
        user_error: float,
        window_end: WindowEnd,
        long_jobs: LongJobsRule,
    ) -> None:
        """Begin without past jobs; see `BeasyOptions` for the options."""
        self._plan, self._pstates = plan, pstates
        self.user_error = user_error
        """Share of its walltime that a job is assumed to need at the reference speed."""
        self.by_work = window_end == "work"
        """Whether a job only needs to complete its work before the last known window ends."""
        self.long_jobs = LongJobs(planned_length_s(view) if long_jobs == "plan" else math.inf)
        """Long jobs, whose end lies beyond every plan."""
        self.fastest = view.platform.fastest_of_kind[view.platform.kind_of]
        """Fastest P-state of each host, [N]."""
        self._most_speed = float(self._speed(np.arange(view.platform.size), self.fastest).min())
        """Full speed of the slowest host, as a share of its reference speed."""

    def counted_s(self, view: View, step: int, walltime_s: FloatArray) -> FloatArray:
        """Return the walltimes used in the plan for jobs that start now in ``step``, s.

        They are the jobs' own, except for long jobs: the longest run of such jobs, at most to the horizon; if
        that is unknown, the rest of the window, or the longest run so far if that is longer.
        """
        is_long = self.long_jobs.among(walltime_s)
        if not any_of(is_long):
            return walltime_s
        return np.where(is_long, self._long_s(view, step), walltime_s)

    def counted_of(self, view: View, step: int, job: Job) -> float:
        """Return the walltime used in the plan for one job, s; see `counted_s`."""
        return self._long_s(view, step) if self.long_jobs.includes(job) else job.walltime_s

    def _long_s(self, view: View, step: int) -> float:
        plan, expected_s = self._plan, self.long_jobs.expected_s
        if expected_s == math.inf:
            expected_s = max(plan.start_of(plan.window_end(step)) - view.now, self.long_jobs.longest_s)
        return min(expected_s, plan.start_of(plan.horizon(step)) - view.now)

    def open_end(self, view: View, step: int, job: Job) -> int | None:
        """Return the step up to which ``job``, whose run time is unknown, is planned regardless of its start.

        None for a job with a known run time.
        """
        if not self.long_jobs.includes(job) or self.long_jobs.expected_s < math.inf:
            return None
        return self._plan.end_step(view.now + self._long_s(view, step))

    def most_s(self, view: View, step: int, walltime_s: FloatArray) -> FloatArray:
        """Return the longest time that jobs of these walltimes take if the window's end demands it, s.

        By walltimes, or by work: free servers continue at their current speeds in the current ``step``, then
        all run at full speed (Eq. 3.28, 3.29). This holds for any servers that a job gets.
        """
        if not self.by_work:
            return walltime_s
        free = view.free_mask().nonzero()[0]
        now_speed = float(self._speed(free, view.pstate[free]).min()) if len(free) else 0.0
        rest_s = max(self._plan.start_of(step + 1) - view.now, 0.0)
        work_s = walltime_s * self.user_error
        later_s = rest_s + (work_s - now_speed * rest_s) / self._most_speed
        at_once = work_s <= now_speed * rest_s
        with np.errstate(divide="ignore", invalid="ignore"):
            most_s = np.where(at_once, work_s / now_speed, later_s)
        return np.asarray(np.minimum(walltime_s, most_s))

    def _speed(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """Speeds as shares of the reference speed."""
        return np.asarray(self._pstates.speed_flops(hosts, pstates) / self._pstates.reference_flops[hosts])
