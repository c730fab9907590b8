"""A possible future of a simulation: what replaces everything that its scheduler does not know yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_jobs import WorkloadJob
from beasy_sched.formats.failures import HostFailure


@dataclass(frozen=True)
class Arrival:
    """A job that will be submitted."""

    workload: str
    job: WorkloadJob
    """The job; its profile is one of its workload, which states whether it computes."""
    run_s: float
    """Run time at full speed, s."""


@dataclass(frozen=True)
class Future:
    """Everything that happens after a moment and does not follow from decisions; times in s."""

    runs_s: Mapping[str, float]
    """Whole run time of each job that runs or waits, s."""
    arrivals: Sequence[Arrival] = ()
    """Jobs to be submitted, in the order of time."""
    events: Sequence[ExternalEvent] = ()
    """External events, such as announcements of production, in the order of time."""
    failures: Sequence[HostFailure] = ()
    own_profiles: bool = False
    """Whether each job gets its own profile, so that a scheduler can register what is left of it."""
