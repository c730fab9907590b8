"""Jobs that no plan can hold to their end: without a walltime, or with one longer than all that is planned.

Policies that follow a plan cannot verify that such a job ends within it. They count on how long such jobs
have run so far, or up to the end of the plan. A real run time is seen only once the job has ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.engine.findings import KnownInputs, counted, hours
from beasy_sched.engine.policy import View
from beasy_sched.findings import Finding, odd
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.units import TIME_TOLERANCE_S

ENOUGH_JOBS: Final = 20
"""Run times after which the longest is trusted: the next is longer with a probability of 1 in 21."""
BEYOND: Final = 1.25
"""A job without a bound that has outrun all others is expected to need this multiple of its run so far."""
ENDS_THAT_TELL: Final = frozenset({JobState.FINISHED, JobState.WALLTIME_REACHED})
"""Ends that show how long jobs run, or would have run at least."""
_MANY_LATE: Final = 0.1
"""Share of jobs that arrive too late for their walltimes above which this is reported."""


def planned_length_s(view: View) -> float:
    """How far a job can be planned for, at most, s: from the start of the plans known now to their end.

    Without plans, a window of the site.
    """
    if view.plans is not None:
        return view.planned_until_s - view.plans.start_s
    return math.inf if view.site is None else view.site.window_s


class LongJobs:
    """Jobs with walltimes beyond a bound, and how long such jobs have run."""

    def __init__(self, bound_s: float) -> None:
        """``bound_s``: walltimes above it are long, s; infinite: none is."""
        self.bound_s = bound_s + TIME_TOLERANCE_S
        self._count = 0
        self.longest_s = 0.0
        """The longest run so far, s."""

    def add(self, run_s: float) -> None:
        """Learn from a long job that has ended after ``run_s``."""
        self._count += 1
        self.longest_s = max(self.longest_s, run_s)

    @property
    def expected_s(self) -> float:
        """What one is expected to run at most, s: the longest run; infinite until 20 have ended."""
        return self.longest_s if self._count >= ENOUGH_JOBS else math.inf

    def includes(self, job: Job) -> bool:
        """Whether ``job`` is one of them."""
        return job.walltime_s > self.bound_s

    def among(self, walltime_s: FloatArray) -> BoolArray:
        """Which of these walltimes are long."""
        return np.asarray(walltime_s > self.bound_s)

    def learn(self, ended: Iterable[Job]) -> None:
        """Learn from the long ones among jobs that have ended."""
        for job in ended:
            if job.walltime_s > self.bound_s and job.state in ENDS_THAT_TELL:
                self.add(job.end_s - job.start_s)


def never_started(inputs: KnownInputs, policy: str, long_ones_start: bool) -> Iterator[Finding]:
    """Report jobs that ``policy`` never starts, because their walltimes do not fit into what is planned."""
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
            parts.append(f"{longer:,} with a walltime of more than the {hours(planned_s)} that are planned")
        yield odd(
            "jobs-never",
            f"{int(is_long.sum()):,} of {counted(len(submit_s), 'job')} cannot start with {policy}, since"
            f" they might not end within what is planned ({', '.join(parts)}): give them walltimes, such as"
            " by --missing-walltime of 'generate workload --swf' and 'slurm import', or use --option"
            " long_jobs=plan",
        )
    late = ~is_long & (submit_s < end_s) & (submit_s + walltime_s > end_s + TIME_TOLERANCE_S)
    if (count := int(np.count_nonzero(late))) > _MANY_LATE * len(submit_s):
        yield odd(
            "jobs-too-late",
            f"{count:,} of {counted(len(submit_s), 'job')} cannot start with {policy}: by their walltimes"
            f" they end after the last planned window, at {hours(end_s)}; run more --windows, or shorten"
            " their walltimes",
        )
