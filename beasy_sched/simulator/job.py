"""A job inside the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beasy_sched.arrays import IndexArray
from beasy_sched.formats.batsim_profiles import Profile
from beasy_sched.formats.batsim_workload import WorkloadJob
from beasy_sched.formats.json_numbers import as_batsim_reads
from beasy_sched.model.events import JobEnd, JobRequest
from beasy_sched.model.hosts import HostSet

if TYPE_CHECKING:
    from beasy_sched.simulator.clock import Action
    from beasy_sched.simulator.tasks import Task

NOT_SUBMITTED, SUBMITTED, RUNNING, BY_HAND, ENDED = range(5)
"""Life of a job; BY_HAND: its scheduler said that it runs (CHANGE_JOB_STATE)."""

STATE_WORDS = ("NOT_SUBMITTED", "SUBMITTED", "RUNNING", "RUNNING", "COMPLETED")


class SimJob:
    """A submitted job: what was asked, where it runs, and how far it is.

    A job is one *leaf* (a delay or a parallel task) at a time; only composed jobs have several. The
    class holds the defaults, so that making a job is cheap.
    """

    state = SUBMITTED
    end: JobEnd | None = None
    return_code = -1
    kill_asked = False
    metadata = ""
    moved = False
    """Whether some of its hosts became unavailable under it."""
    alloc: HostSet
    executors: IndexArray | None = None
    """Position in the allocation of each executor's host, with a custom mapping."""
    start = -1.0
    wall_left = -1.0
    """Seconds that the walltime leaves at the start of the present leaf; below 0: no limit."""
    stack: list[list[Any]] | None = None
    """Composed profiles around the present leaf, each with the index of its part that runs."""
    leaf: Profile
    leaf_start = 0.0
    task: Task | None = None
    """The present leaf's computation, or None in a delay."""
    run: Action | None = None
    """The present leaf on the clock."""
    limit: Action | None = None
    """The walltime of the present leaf, if that is a task."""
    size = 0
    """Number of hosts."""
    slot = -1
    uniform_mode = -1
    """Mode of the hosts if all have the same, else -1."""
    idle_w = 0.0
    power_w = 0.0
    energy_j = 0.0
    powered_at = 0.0
    owned_metering = 0.0

    def __init__(self, workload: str, request: JobRequest, profile: Profile, exact: WorkloadJob) -> None:
        """Make a job that has just been submitted.

        ``exact`` has the times that ``request`` tells with six decimals only.
        """
        self.workload = workload
        self.request = request
        self.profile = profile
        self.subtime = as_batsim_reads(exact.subtime)
        self.walltime = -1.0 if exact.walltime is None else as_batsim_reads(exact.walltime)

    def accrue(self, now: float) -> None:
        """Charge the job for the time since its power last changed."""
        self.energy_j += self.power_w * (now - self.powered_at)
        self.powered_at = now
