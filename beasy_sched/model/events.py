"""What the simulator tells the scheduler, free of any protocol version.

Events are frozen and valid once constructed. Times are seconds of simulated time; energies joules.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct

from beasy_sched.model.hosts import NO_HOSTS, HostSet


class JobEnd(str, Enum):
    """End of a job's execution, in Batsim's words."""

    __hash__ = str.__hash__  # Enum's own is a Python function

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
    pstate: int | None = None
    """P-state in which the host starts; None where the simulator does not tell."""
    speeds_flops: tuple[float, ...] = ()
    """Speed of one core in each P-state, flops/s; empty where the simulator does not tell."""
    cores: int = 1


class JobRequest(Struct, frozen=True, gc=False):
    """A job as its user submitted it: no run time, no flops."""

    id: str
    """Id of the job with its workload: ``"w0!7"``."""
    subtime: float | int
    """Submission time, s."""
    res: int
    """Number of hosts requested."""
    profile: str = ""
    """Name of the job's profile, without the workload where that is the job's own."""
    walltime: float | int | None = None
    """Requested time, s; None means no limit. A job is ended after this time whatever the speed of its hosts;
    as a measure of work, it counts at their reference speed (`ServerKind.reference_speed_flops`)."""
    extras: dict[str, Any] | None = None
    """Fields that Batsim does not know, passed through unchanged (deadline, user, ...)."""
    rigid: bool = True
    """Whether the job needs exactly ``res`` hosts (Batsim 5). Every job gets exactly that many."""


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
    answers_queries: bool = True
    """Whether the simulator answers `QueryEnergy`."""

    @property
    def awaits_registration(self) -> bool:
        """Whether the simulation only ends after `FinishRegistration`: the scheduler may register jobs.

        A Batsim 4 does so with ``--enable-dynamic-jobs``; a Batsim 5, if the scheduler's hello asks for it.
        """
        return self.config.get("dynamic-jobs-enabled") is True


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
    profiles: dict[str, dict[str, dict[str, Any]]] | None = None
    """Profiles of the killed jobs by workload and name, if the simulator forwards them."""


class ResourceStateChanged(Event, frozen=True, gc=False):
    """The answer to one SetResourceState, sent when its slowest host is done."""

    resources: HostSet
    state: int
    switch: bool | None = None
    """Whether hosts were switched on or off, not just changed in speed; None if the simulator does not tell.
    """


class Notify(Event, frozen=True, gc=False):
    """Something happened outside: ``kind`` names it, ``data`` is the original object.

    What the scheduler understands is one of the kinds below; `protocol.notices.notice` makes them.

    Known kinds: ``no_more_static_job_to_submit``, ``no_more_external_event_to_occur``,
    ``event_machine_available``, ``event_machine_unavailable``; any other comes from the events file.
    """

    kind: str
    data: dict[str, Any]
    id: str = ""
    """Id of the external event, where the simulator gives it one."""


class NoMoreJobs(Notify, frozen=True, gc=False):
    """All static jobs have been submitted."""


class MachinesChanged(Notify, frozen=True, gc=False):
    """Hosts have gone out of service, or come back."""

    hosts: HostSet = NO_HOSTS
    available: bool = True


class JobWithdrawn(Notify, frozen=True, gc=False):
    """A waiting job is no longer the scheduler's to start."""

    job_id: str = ""


class JobRuns(Notify, frozen=True, gc=False):
    """A job that waits for the scheduler runs already: it was started before the scheduler came."""

    job_id: str = ""
    hosts: HostSet = NO_HOSTS


class LevelsMeasured(Notify, frozen=True, gc=False):
    """What the storage really holds; None for what is not known."""

    soc_pct: float | None = None
    hydrogen_kg: float | None = None


class PowerAnnounced(Notify, frozen=True, gc=False):
    """The production from now on, and what holds for the step that begins."""

    power_w: float = 0.0
    sun_w: float | None = None
    """Part of the production that comes from the sun, W; None where it is not told."""
    price_per_kwh: float | None = None
    """Price of energy from the grid; None where it is not told."""
    carbon_g_per_kwh: float | None = None
    """The grid's carbon intensity; None where it is not told."""


class UnreadableNotice(Notify, frozen=True, gc=False):
    """A notice of machines or of power with a field that cannot be read."""

    problem: str = ""
    """Description of the field that cannot be read: its name, what was found, and what was expected."""


NOTICES = (
    Notify,
    NoMoreJobs,
    MachinesChanged,
    JobWithdrawn,
    JobRuns,
    LevelsMeasured,
    PowerAnnounced,
    UnreadableNotice,
)
"""`Notify` and its kinds."""


class RequestedCall(Event, frozen=True, gc=False):
    """The call that CallMeLater asked for."""

    id: str = ""
    """Id given to CallMeLater, where the simulator repeats it."""
    is_last: bool = False
    """Whether the call is the last one of a number of periods."""


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
