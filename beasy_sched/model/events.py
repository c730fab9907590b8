"""What the simulator tells the scheduler, free of any protocol version.

Events are frozen and valid once constructed. Times are seconds of simulated time; energies joules.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct

from beasy_sched.model.hosts import HostSet


class JobEnd(str, Enum):
    """How a job's execution ended, in Batsim's words."""

    SUCCESS = "COMPLETED_SUCCESSFULLY"
    FAILED = "COMPLETED_FAILED"
    WALLTIME_REACHED = "COMPLETED_WALLTIME_REACHED"
    KILLED = "COMPLETED_KILLED"


class Resource(Struct, frozen=True):
    """One host as SIMULATION_BEGINS describes it."""

    id: int
    name: str
    state: str = "idle"
    properties: dict[str, str] = {}
    zone_properties: dict[str, str] = {}


class JobRequest(Struct, frozen=True, gc=False):
    """A job as its user submitted it: no run time, no flops."""

    id: str
    """Including its workload: ``"w0!7"``."""
    subtime: float | int
    """Submission time, s."""
    res: int
    """Number of hosts requested."""
    profile: str = ""
    walltime: float | int | None = None
    """Requested time, s; None means no limit. A job is ended after this time whatever the speed of its hosts;
    as a measure of work, it counts at their reference speed (`ServerKind.reference_speed_flops`)."""
    extras: dict[str, Any] | None = None
    """Fields that Batsim does not know, passed through unchanged (deadline, user, ...)."""


class Event(Struct, frozen=True, gc=False):
    """Base of all events."""

    timestamp: float


class SimulationBegins(Event, frozen=True):
    """The first event of a simulation."""

    resources: tuple[Resource, ...]
    config: dict[str, Any] = {}
    workloads: dict[str, str] = {}
    profiles: dict[str, dict[str, Any]] = {}
    allow_compute_sharing: bool = False
    allow_storage_sharing: bool = True
    storage_resources: tuple[Resource, ...] = ()


class SimulationEnds(Event, frozen=True, gc=False):
    """The last event of a simulation."""


class JobSubmitted(Event, frozen=True, gc=False):
    """A job has arrived."""

    job: JobRequest
    profile: dict[str, Any] | None = None
    """The profile, if Batsim forwards it. Policies do not see it."""


class JobCompleted(Event, frozen=True, gc=False):
    """A job has ended, for any reason."""

    job_id: str
    end: JobEnd
    alloc: HostSet
    return_code: int = 0


class JobsKilled(Event, frozen=True, gc=False):
    """The answer to a kill; each job's JobCompleted came before it."""

    job_ids: tuple[str, ...]
    progress: dict[str, Any] = {}


class ResourceStateChanged(Event, frozen=True, gc=False):
    """The answer to one SetResourceState, sent when its slowest host is done."""

    resources: HostSet
    state: int


class Notify(Event, frozen=True, gc=False):
    """Something happened outside: ``kind`` names it, ``data`` is the original object.

    Known kinds: ``no_more_static_job_to_submit``, ``no_more_external_event_to_occur``,
    ``event_machine_available``, ``event_machine_unavailable``; any other comes from the events file.
    """

    kind: str
    data: dict[str, Any]


class RequestedCall(Event, frozen=True, gc=False):
    """The call that CallMeLater asked for."""


class EnergyAnswer(Event, frozen=True, gc=False):
    """Energy used by all compute hosts since time 0, J."""

    consumed_energy_j: float


class UnknownEvent(Event, frozen=True, gc=False):
    """An event type that this version does not know, kept and reported."""

    type: str
    data: Any


class Message(Struct, frozen=True, gc=False):
    """One message of the simulator: all its events are applied before the policy decides."""

    now: float
    events: list[Event]
    unknown_fields: tuple[str, ...] = ()
    """JSON paths of fields that the codec did not know."""
