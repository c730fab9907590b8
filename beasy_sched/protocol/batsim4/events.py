"""Batsim 4's events: what the simulator tells the scheduler, read and written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from beasy_sched.limits import MOST_UNKNOWN, shortened
from beasy_sched.model import events as e
from beasy_sched.protocol.batsim4.fields import add_hosts, read_hosts, read_pstate
from beasy_sched.protocol.json_text import dump
from beasy_sched.protocol.wire import Unknown, convert_at, decode_envelope, fault, reader

NO_WALLTIME = -1

_MOST_HOSTS = 2**31 - 1
_LONGEST_TIME_S = 1e300
"""Integers of any length are JSON, but not times."""


# --- what each event carries ---


class _Resource(Struct):
    id: int
    name: str
    state: str = "idle"
    properties: dict[str, str] = {}
    zone_properties: dict[str, str] = {}


class _Begins(Struct):
    compute_resources: list[dict[str, Any]]
    config: dict[str, Any] = {}
    allow_compute_sharing: bool = False
    allow_storage_sharing: bool = True
    storage_resources: list[dict[str, Any]] = []
    workloads: dict[str, str] = {}
    profiles: dict[str, dict[str, dict[str, Any]]] = {}


class _Job(Struct):
    id: str
    subtime: float | int
    res: Annotated[int, Meta(ge=1, le=_MOST_HOSTS)]
    profile: str = ""
    walltime: float | int | None = None


class _Submitted(Struct):
    job_id: str
    job: dict[str, Any]
    profile: dict[str, Any] | None = None


class _Completed(Struct):
    job_id: str
    job_state: e.JobEnd
    return_code: int = 0
    alloc: str = ""


class _Killed(Struct):
    job_ids: list[str]
    job_progress: dict[str, Any] = {}


class _StateChanged(Struct):
    resources: str
    state: str


class _Answer(Struct):
    consumed_energy: float


class _Notify(Struct):
    type: str


_resource = reader(_Resource)
_begins = reader(_Begins, ("nb_resources", "nb_compute_resources", "nb_storage_resources"))
_submitted = reader(_Submitted)
_completed = reader(_Completed)
_killed = reader(_Killed)
_state_changed = reader(_StateChanged)
_answer = reader(_Answer)
_notify = reader(_Notify)
_JOB_FIELDS = frozenset(_Job.__struct_fields__)


# --- reading (the scheduler's side) ---


def decode_message(raw: bytes) -> e.Message:
    """Read a message of Batsim's. Raises ProtocolError."""
    unknown: Unknown = []
    envelope = decode_envelope(raw, unknown)
    events: list[e.Event] = []
    hosts = 0
    for index, event in enumerate(envelope.events):
        read = _EVENT_READERS.get(event.type)
        path = f"$.events[{index}].data"
        if read is None:
            events.append(e.UnknownEvent(event.timestamp, shortened(event.type), event.data))
            continue
        decoded = read(event.timestamp, event.data, path, unknown)
        events.append(decoded)
        if type(decoded) is e.JobCompleted:
            hosts = add_hosts(hosts, decoded.alloc, path)
        elif type(decoded) is e.ResourceStateChanged:
            hosts = add_hosts(hosts, decoded.resources, path)
    return e.Message(envelope.now, events, tuple(unknown[: MOST_UNKNOWN + 1]))


def _read_begins(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _begins(data, path, unknown)
    if raw.config.get("redis-enabled") is True:
        raise fault(f"{path}.config", "jobs are kept in Redis, not sent: start Batsim without --enable-redis")
    return e.SimulationBegins(
        timestamp,
        resources=_resources(raw.compute_resources, f"{path}.compute_resources", unknown),
        config=raw.config,
        workloads=raw.workloads,
        profiles=raw.profiles,
        allow_compute_sharing=raw.allow_compute_sharing,
        allow_storage_sharing=raw.allow_storage_sharing,
        storage_resources=_resources(raw.storage_resources, f"{path}.storage_resources", unknown),
    )


def _resources(items: list[dict[str, Any]], path: str, unknown: Unknown) -> tuple[e.Resource, ...]:
    read = (_resource(item, f"{path}[{index}]", unknown) for index, item in enumerate(items))
    return tuple(e.Resource(raw.id, raw.name, raw.state, raw.properties, raw.zone_properties) for raw in read)


def _read_submitted(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _submitted(data, path, unknown)
    job = convert_at(raw.job, _Job, f"{path}.job")
    if job.id != raw.job_id:
        raise fault(f"{path}.job.id", f"found {job.id!r}, expected {raw.job_id!r} as in job_id")
    walltime = _walltime(job.walltime, f"{path}.job.walltime")
    if not -_LONGEST_TIME_S < job.subtime < _LONGEST_TIME_S:
        raise fault(f"{path}.job.subtime", f"found {job.subtime}, expected a time")
    extras = {k: v for k, v in raw.job.items() if k not in _JOB_FIELDS} if len(raw.job) > 4 else None
    request = e.JobRequest(job.id, job.subtime, job.res, job.profile, walltime, extras or None)
    return e.JobSubmitted(timestamp, request, raw.profile)


def _walltime(walltime: float | None, path: str) -> float | None:
    if walltime is None or walltime == NO_WALLTIME:
        return None
    if not 0 < walltime < _LONGEST_TIME_S:
        raise fault(path, f"found {walltime}, expected more than 0, or -1")
    return walltime


def _read_completed(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _completed(data, path, unknown)
    return e.JobCompleted(
        timestamp, raw.job_id, raw.job_state, read_hosts(raw.alloc, f"{path}.alloc"), raw.return_code
    )


def _read_killed(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _killed(data, path, unknown)
    return e.JobsKilled(timestamp, tuple(raw.job_ids), raw.job_progress)


def _read_state_changed(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _state_changed(data, path, unknown)
    hosts = read_hosts(raw.resources, f"{path}.resources")
    return e.ResourceStateChanged(timestamp, hosts, read_pstate(raw.state, f"{path}.state"))


def _read_notify(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    kind = _notify(data, path, []).type
    return e.Notify(timestamp, kind, data)


def _read_answer(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    return e.EnergyAnswer(timestamp, _answer(data, path, unknown).consumed_energy)


_EVENT_READERS: dict[str, Callable[[float, Any, str, Unknown], e.Event]] = {
    "SIMULATION_BEGINS": _read_begins,
    "SIMULATION_ENDS": lambda timestamp, data, path, unknown: e.SimulationEnds(timestamp),
    "JOB_SUBMITTED": _read_submitted,
    "JOB_COMPLETED": _read_completed,
    "JOB_KILLED": _read_killed,
    "RESOURCE_STATE_CHANGED": _read_state_changed,
    "NOTIFY": _read_notify,
    "REQUESTED_CALL": lambda timestamp, data, path, unknown: e.RequestedCall(timestamp),
    "ANSWER": _read_answer,
}


# --- writing (the simulator's side) ---


def encode_message(message: e.Message) -> bytes:
    """Write a message as Batsim does: reals with six decimals, no spaces."""
    events = ",".join(map(_event_text, message.events))
    return f'{{"now":{message.now:.6f},"events":[{events}]}}'.encode()


def _event_text(event: e.Event) -> str:
    kind, data = _EVENT_WRITERS[type(event)](event)
    return f'{{"timestamp":{event.timestamp:.6f},"type":{dump(kind)},"data":{dump(data)}}}'


def job_object(job: e.JobRequest) -> dict[str, Any]:
    """Return the job as the JSON object that JOB_SUBMITTED carries."""
    data: dict[str, Any] = {"id": job.id, "subtime": job.subtime, "res": job.res, "profile": job.profile}
    if job.walltime is not None:
        data["walltime"] = job.walltime
    if job.extras:
        data.update(job.extras)
    return data


def _write_begins(x: e.SimulationBegins) -> tuple[str, dict[str, Any]]:
    compute, storage = len(x.resources), len(x.storage_resources)
    return "SIMULATION_BEGINS", {
        "nb_resources": compute + storage,
        "nb_compute_resources": compute,
        "nb_storage_resources": storage,
        "allow_compute_sharing": x.allow_compute_sharing,
        "allow_storage_sharing": x.allow_storage_sharing,
        "config": x.config,
        "compute_resources": [msgspec.structs.asdict(resource) for resource in x.resources],
        "storage_resources": [msgspec.structs.asdict(resource) for resource in x.storage_resources],
        "workloads": x.workloads,
        "profiles": x.profiles,
    }


def _write_submitted(x: e.JobSubmitted) -> tuple[str, dict[str, Any]]:
    data = {"job_id": x.job.id, "job": job_object(x.job)}
    if x.profile is not None:
        data["profile"] = x.profile
    return "JOB_SUBMITTED", data


def _write_completed(x: e.JobCompleted) -> tuple[str, dict[str, Any]]:
    return "JOB_COMPLETED", {
        "job_id": x.job_id,
        "job_state": x.end.value,
        "return_code": x.return_code,
        "alloc": str(x.alloc),
    }


_EVENT_WRITERS: dict[type[e.Event], Callable[[Any], tuple[str, Any]]] = {
    e.SimulationBegins: _write_begins,
    e.SimulationEnds: lambda x: ("SIMULATION_ENDS", {}),
    e.JobSubmitted: _write_submitted,
    e.JobCompleted: _write_completed,
    e.JobsKilled: lambda x: ("JOB_KILLED", {"job_ids": list(x.job_ids), "job_progress": x.progress}),
    e.ResourceStateChanged: lambda x: (
        "RESOURCE_STATE_CHANGED",
        {"resources": str(x.resources), "state": str(x.state)},
    ),
    e.Notify: lambda x: ("NOTIFY", x.data),
    e.RequestedCall: lambda x: ("REQUESTED_CALL", {}),
    e.EnergyAnswer: lambda x: ("ANSWER", {"consumed_energy": float(x.consumed_energy_j)}),
    e.UnknownEvent: lambda x: (x.type, x.data),
}
