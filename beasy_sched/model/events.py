"""Simulator events, independent of the protocol version.

Events are frozen and valid once constructed. Times are seconds of simulated time; energies joules.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """Host as described in SIMULATION_BEGINS."""

    id: int
    name: str
    state: str = "idle"
    properties: dict[str, str] = {}
    zone_properties: dict[str, str] = {}
    pstate: int | None = None
    """Initial P-state of the host; None if the simulator does not report it."""
    speeds_flops: tuple[float, ...] = ()
    """Speed of one core in each P-state, flops/s; empty if the simulator does not report it."""
    cores: int = 1


class JobRequest(Struct, frozen=True, gc=False):
    """Job as submitted by its user, without run time or flops."""

    id: str
    """Id of the job with its workload: ``"w0!7"``."""
    subtime: float | int
    """Submission time, s."""
    res: int
    """Number of hosts requested."""
    profile: str = ""
    """Name of the job's profile, without the workload if it is the job's own."""
    walltime: float | int | None = None
    """Requested time, s; None means no limit. A job is ended after this time at any speed of its hosts; as a
    measure of work, it refers to their reference speed (`ServerKind.reference_speed_flops`)."""
    extras: dict[str, Any] | None = None
    """Fields unknown to Batsim, passed through unchanged (deadline, user, ...)."""
    rigid: bool = True
    """Whether the job needs exactly ``res`` hosts (Batsim 5). Every job gets exactly that many."""


class Event(Struct, frozen=True, gc=False):
    """Base of all events."""

    timestamp: float


class SimulationBegins(Event, frozen=True):
    """First event of a simulation."""

    resources: tuple[Resource, ...]
    config: dict[str, Any] = {}
    workloads: dict[str, str] = {}
    profiles: dict[str, dict[str, Any]] = {}
    allow_compute_sharing: bool = False
    allow_storage_sharing: bool = True
    storage_resources: tuple[Resource, ...] = ()
    answers_queries: bool = True
    """Whether the simulator supports `QueryEnergy`."""

    @property
    def awaits_registration(self) -> bool:
        """Whether the simulation only ends after `FinishRegistration`: the scheduler may register jobs.

        This requires ``--enable-dynamic-jobs`` in Batsim 4, and a request in the scheduler's hello in Batsim
        5.
        """
        return self.config.get("dynamic-jobs-enabled") is True


class SimulationEnds(Event, frozen=True, gc=False):
    """Last event of a simulation."""


class JobSubmitted(Event, frozen=True, gc=False):
    """A job was submitted."""

    job: JobRequest
    profile: dict[str, Any] | None = None
    """Profile, if Batsim forwards it; not available to policies."""


class JobCompleted(Event, frozen=True, gc=False):
    """A job has ended, for any reason."""

    job_id: str
    end: JobEnd
    alloc: HostSet
    return_code: int = 0


class JobsKilled(Event, frozen=True, gc=False):
    """Reply to a kill, sent after each job's JobCompleted."""

    job_ids: tuple[str, ...]
    progress: dict[str, Any] = {}
    profiles: dict[str, dict[str, dict[str, Any]]] | None = None
    """Profiles of the killed jobs by workload and name, if the simulator forwards them."""


class ResourceStateChanged(Event, frozen=True, gc=False):
    """Reply to one SetResourceState, sent when its slowest host is done."""

    resources: HostSet
    state: int
    switch: bool | None = None
    """Whether hosts were switched on or off, not only changed in speed; None if not reported.
    """


class Notify(Event, frozen=True, gc=False):
    """External event: ``kind`` is its name, ``data`` the original object.

    Supported kinds are the subclasses below, made by `protocol.notices.notice`.

    Known kinds: ``no_more_static_job_to_submit``, ``no_more_external_event_to_occur``,
    ``event_machine_available``, ``event_machine_unavailable``; others come from the events file.
    """

    kind: str
    data: dict[str, Any]
    id: str = ""
    """Id of the external event, if the simulator assigns one."""


class NoMoreJobs(Notify, frozen=True, gc=False):
    """All static jobs have been submitted."""


class MachinesChanged(Notify, frozen=True, gc=False):
    """Hosts have gone out of service, or are available again."""

    hosts: HostSet = NO_HOSTS
    available: bool = True


class JobWithdrawn(Notify, frozen=True, gc=False):
    """A waiting job must no longer be started by the scheduler."""

    job_id: str = ""


class JobRuns(Notify, frozen=True, gc=False):
    """A waiting job runs: it was started before the scheduler, or by whoever places jobs."""

    job_id: str = ""
    hosts: HostSet = NO_HOSTS


class JobNotStarted(Notify, frozen=True, gc=False):
    """A job that the scheduler has started does not run; its `JobCompleted` follows."""

    job_id: str = ""
    reason: str = ""


class QueueOrdered(Notify, frozen=True, gc=False):
    """Waiting jobs have another order than that of their submission; jobs that are not named are first."""

    job_ids: tuple[str, ...] = ()


class LevelsMeasured(Notify, frozen=True, gc=False):
    """Actual levels of the storage; None if unknown."""

    soc_pct: float | None = None
    hydrogen_kg: float | None = None


class PowerAnnounced(Notify, frozen=True, gc=False):
    """Production from now on, and prices for the step that begins."""

    power_w: float = 0.0
    parts_w: Mapping[str, float] = {}
    """Known parts of the production, W, by kind of source (`energy.sources`)."""
    price_per_kwh: float | None = None
    """Price of energy from the grid; None if not given."""
    carbon_g_per_kwh: float | None = None
    """Carbon intensity of the grid; None if not given."""


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
    JobNotStarted,
    QueueOrdered,
    LevelsMeasured,
    PowerAnnounced,
    UnreadableNotice,
)
"""`Notify` and its kinds."""


class RequestedCall(Event, frozen=True, gc=False):
    """The call requested by CallMeLater."""

    id: str = ""
    """Id given to CallMeLater, if the simulator repeats it."""
    is_last: bool = False
    """Whether the call is the last one of a number of periods."""


class EnergyAnswer(Event, frozen=True, gc=False):
    """Energy used by all compute hosts since time 0, J."""

    consumed_energy_j: float


class UnknownEvent(Event, frozen=True, gc=False):
    """Unknown type of event, kept and reported."""

    type: str
    data: Any


class Message(Struct, frozen=True, gc=False):
    """One message of the simulator: all its events are applied before the policy decides."""

    now: float
    events: list[Event]
    unknown_fields: tuple[str, ...] = ()
    """JSON paths of fields unknown to the codec."""
