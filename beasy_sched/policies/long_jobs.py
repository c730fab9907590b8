"""Long jobs: without a walltime, or with a walltime longer than the planned horizon.

Policies that follow a plan cannot verify that such a job ends within it. They assume the run times of past
long jobs, or plan up to the end of the plan. A run time is known only after the job has ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.engine.policy import View
from beasy_sched.engine.run_findings import KnownInputs, counted, hours
from beasy_sched.findings import Finding, odd
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.units import TIME_TOLERANCE_S

ENOUGH_JOBS: Final = 20
"""Number of run times after which the longest is used: the next is longer with a probability of 1 in 21."""
BEYOND: Final = 1.25
"""Multiple of its run so far that a job without a bound is expected to need if it outran all others."""
ENDS_THAT_TELL: Final = frozenset({JobState.FINISHED, JobState.WALLTIME_REACHED})
"""Final states that show a job's run time, or a lower bound of it."""
_MANY_LATE: Final = 0.1
"""Share of jobs submitted too late for their walltimes above which a warning is given."""


def planned_length_s(view: View) -> float:
    """Return the maximum length of a job that can be planned, s: from start to end of the current plans.

    Without plans, a window of the site.
    """
    if view.plans is not None:
        return view.planned_until_s - view.plans.start_s
    return math.inf if view.site is None else view.site.window_s


class LongJobs:
    """Jobs with walltimes beyond a bound, and the run times of past ones."""

    def __init__(self, bound_s: float) -> None:
        """``bound_s``: walltimes above it are long, s; infinite: no walltime is long."""
        self.bound_s = bound_s + TIME_TOLERANCE_S
        self._count = 0
        self.longest_s = 0.0
        """The longest run so far, s."""

    def add(self, run_s: float) -> None:
        """Record a long job that ended after ``run_s``."""
        self._count += 1
        self.longest_s = max(self.longest_s, run_s)

    @property
    def expected_s(self) -> float:
        """Expected maximum run time, s: the longest run; infinite until 20 have ended."""
        return self.longest_s if self._count >= ENOUGH_JOBS else math.inf

    def includes(self, job: Job) -> bool:
        """Whether ``job`` is a long job."""
        return job.walltime_s > self.bound_s

    def among(self, walltime_s: FloatArray) -> BoolArray:
        """Return the mask of long walltimes."""
        return np.asarray(walltime_s > self.bound_s)

    def learn(self, ended: Iterable[Job]) -> None:
        """Record the long jobs among ended ones."""
        for job in ended:
            if job.walltime_s > self.bound_s and job.state in ENDS_THAT_TELL:
                self.add(job.end_s - job.start_s)


def never_started(inputs: KnownInputs, policy: str, long_ones_start: bool) -> Iterator[Finding]:
    """Report jobs that ``policy`` never starts, because their walltimes exceed the planned horizon."""
    submit_s, walltime_s = inputs.submit_s, inputs.walltime_s
    end_s, planned_s = inputs.end_s, inputs.planned_s
    if not len(submit_s) or end_s is None or planned_s is None:
        return
    is_long = walltime_s > planned_s + TIME_TOLERANCE_S
    endless = int(np.count_nonzero(np.isinf(walltime_s)))
    longer = int(np.count_nonzero(is_long)) - endless
    if is_long.any() and not long_ones_start:
        parts = [f"{endless:,} without a walltime"] if endless else []
        if longer:
            parts.append(f"{longer:,} with a walltime above the planned {hours(planned_s)}")
        yield odd(
            "jobs-never",
            f"{int(is_long.sum()):,} of {counted(len(submit_s), 'job')} cannot start with {policy}, because"
            f" they might not end within the planned horizon ({', '.join(parts)}): give them walltimes"
            " with --missing-walltime of 'generate workload --swf' or 'slurm import', or use --option"
            " long_jobs=plan",
        )
    late = ~is_long & (submit_s < end_s) & (submit_s + walltime_s > end_s + TIME_TOLERANCE_S)
    if (count := int(np.count_nonzero(late))) > _MANY_LATE * len(submit_s):
        yield odd(
            "jobs-too-late",
            f"{count:,} of {counted(len(submit_s), 'job')} cannot start with {policy}: their walltimes"
            f" end after the last planned window, at {hours(end_s)}; run more --windows, or shorten"
            " their walltimes",
        )
