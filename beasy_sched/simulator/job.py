"""A job inside the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from beasy_sched.formats.batsim_profiles import Profile
from beasy_sched.formats.batsim_workload import WorkloadJob
from beasy_sched.model.events import JobEnd, JobRequest
from beasy_sched.model.hosts import HostSet

if TYPE_CHECKING:
    from beasy_sched.simulator.tasks import Task

NOT_SUBMITTED, SUBMITTED, RUNNING, BY_HAND, ENDED = range(5)
"""Life of a job; BY_HAND: its scheduler said that it runs (CHANGE_JOB_STATE)."""

STATE_WORDS = ("NOT_SUBMITTED", "SUBMITTED", "RUNNING", "RUNNING", "COMPLETED")


class SimJob:
    """A submitted job: what was asked, where it runs, and how far it is.

    A job is one *leaf* (a delay or a parallel task) at a time; only composed jobs have several.
    """

    __slots__ = (
        "alloc",
        "end",
        "energy_j",
        "executors",
        "idle_w",
        "kill_asked",
        "leaf",
        "leaf_start",
        "metadata",
        "moved",
        "owned_metering",
        "power_w",
        "powered_at",
        "profile",
        "request",
        "return_code",
        "slot",
        "stack",
        "start",
        "state",
        "subtime",
        "task",
        "uniform_mode",
        "version",
        "wall_left",
        "walltime",
        "workload",
    )

    def __init__(self, workload: str, request: JobRequest, profile: Profile, exact: WorkloadJob) -> None:
        """Make a job that has just been submitted.

        ``exact`` has the times that ``request`` tells with six decimals only.
        """
        self.workload = workload
        self.subtime = float(exact.subtime)
        self.walltime = -1.0 if exact.walltime is None else float(exact.walltime)
        self.request = request
        self.profile = profile
        self.state = SUBMITTED
        self.end: JobEnd | None = None
        self.return_code = -1
        self.kill_asked = False
        self.metadata = ""
        self.moved = False
        """Whether some of its hosts became unavailable under it."""
        self.alloc: HostSet
        self.executors: npt.NDArray[np.intp] | None = None
        """Position in the allocation of each executor's host, with a custom mapping."""
        self.start = -1.0
        self.wall_left = -1.0
        """Seconds that the walltime leaves at the start of the present leaf; below 0: no limit."""
        self.stack: list[list[Any]] | None = None
        """Composed profiles around the present leaf, each with the index of its part that runs."""
        self.leaf: Profile
        self.leaf_start = 0.0
        self.task: Task | None = None
        """The present leaf's computation, or None in a delay."""
        self.version = 0
        """Counts changes of the expected end, so that an outdated one can be told."""
        self.slot = -1
        self.uniform_mode = -1
        """Mode of the hosts if all have the same, else -1."""
        self.idle_w = 0.0
        self.power_w = 0.0
        self.energy_j = 0.0
        self.powered_at = 0.0
        self.owned_metering = 0.0

    def accrue(self, now: float) -> None:
        """Charge the job for the time since its power last changed."""
        self.energy_j += self.power_w * (now - self.powered_at)
        self.powered_at = now
