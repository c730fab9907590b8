"""A job and its life cycle, as the scheduler sees them."""

from __future__ import annotations

import math
from enum import Enum
from typing import Final

from beasy_sched.errors import PeerError
from beasy_sched.model.events import JobEnd, JobRequest
from beasy_sched.model.hosts import HostSet

SLOWDOWN_FLOOR_S: Final = 10.0
"""tau of the bounded slowdown (Eq. 4 of the BEASY paper, 3.26 of the thesis)."""


class JobState(Enum):
    """Where a job stands; the value is the outcome's name in tables."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    """Ended by itself with an error code: counted among the finished, and shown beside them."""
    WALLTIME_REACHED = "reached walltime"
    KILLED = "killed"
    UNFINISHED = "not completely finished"
    """Still running when the run ended."""
    POSTPONED = "postponed"
    """Never started in the run."""
    REJECTED = "rejected"
    """Could never fit."""


_NEXT: Final[dict[JobState, frozenset[JobState]]] = {
    JobState.WAITING: frozenset({JobState.RUNNING, JobState.POSTPONED, JobState.REJECTED}),
    JobState.RUNNING: frozenset(
        {
            JobState.FINISHED,
            JobState.FAILED,
            JobState.WALLTIME_REACHED,
            JobState.KILLED,
            JobState.UNFINISHED,
        }
    ),
}
"""Every legal transition; the other states are final."""

ENDS: Final[dict[JobEnd, JobState]] = {
    JobEnd.SUCCESS: JobState.FINISHED,
    JobEnd.FAILED: JobState.FAILED,
    JobEnd.WALLTIME_REACHED: JobState.WALLTIME_REACHED,
    JobEnd.KILLED: JobState.KILLED,
}


class Job:
    """One submitted job. Holds nothing of its real run time."""

    __slots__ = (
        "computes",
        "end_s",
        "energy_j",
        "expected_end_s",
        "hosts",
        "id",
        "place",
        "postponed_for",
        "request",
        "res",
        "start_order",
        "start_s",
        "state",
        "subtime_s",
        "walltime_s",
    )

    def __init__(self, request: JobRequest) -> None:
        """Take in a job that has just been submitted."""
        self.request = request
        self.id = request.id
        self.res = request.res
        self.subtime_s = float(request.subtime)
        self.walltime_s = math.inf if request.walltime is None else float(request.walltime)
        self.state = JobState.WAITING
        self.hosts: HostSet | None = None
        self.start_s = math.nan
        self.end_s = math.nan
        self.expected_end_s = math.inf
        """Start plus walltime: the latest end."""
        self.place = -1
        """Where the queue keeps it; -1 when it does not."""
        self.postponed_for = ""
        """The rule by which it waits, as logged last."""
        self.computes = True
        """Whether it loads its hosts: a ``delay`` job leaves them at idle power."""
        self.energy_j = math.nan
        """Energy of its hosts while it ran, once it has ended and where energy is counted."""
        self.start_order = 0
        """How many jobs had been started when it was, itself included."""

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.state.value}, res={self.res}, walltime={self.walltime_s:g} s)"

    def move(self, state: JobState) -> None:
        """Go on to ``state``. Raises PeerError where that is not a legal transition."""
        if state not in _NEXT.get(self.state, ()):
            raise PeerError(f"job {self.id} is {self.state.value}: it cannot become {state.value}")
        self.state = state

    @property
    def size(self) -> float:
        """Walltime times hosts, host-seconds (infinite without a walltime)."""
        return self.walltime_s * self.res


def bounded_slowdown(wait_s: float, duration_s: float) -> float:
    """Bounded slowdown (Eq. 4 / 3.26): with the walltime to order jobs, the run time to report."""
    return max((wait_s + duration_s) / max(duration_s, SLOWDOWN_FLOOR_S), 1.0)
