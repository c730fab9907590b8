"""Batsim 4 (JSON over ZeroMQ): bytes to typed messages and back. Only this module uses its field names.

The simulator's side uses `encode_message` and `decode_reply`, the scheduler's `decode_message` and
`encode_reply`. Unknown event types and fields are kept and reported; a malformed message raises a
ProtocolError with its path.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.protocol.notices import notice
from beasy_sched.protocol.wire import (
    Envelope,
    ReadDecision,
    ReadEvent,
    Unknown,
    WireMessage,
    check_submission,
    convert_at,
    dump,
    fault,
    read_hosts,
    read_message,
    read_reply,
    read_walltime,
    reader,
    refuses_depth,
)

__all__ = ["decode_message", "decode_reply", "encode_message", "encode_reply"]

_ENVELOPE = Envelope()
_MOST_HOSTS = 2**31 - 1


# --- events: from the simulator to the scheduler ---


@refuses_depth
def decode_message(raw: bytes) -> e.Message:
    """Read a message from Batsim. Raises ProtocolError."""
    unknown: Unknown = []
    return read_message(_ENVELOPE.decode(raw, unknown), _EVENT_READERS, "data", unknown)


def encode_message(message: e.Message) -> bytes:
    """Write a message like Batsim: reals with six decimals, no spaces."""
    events = ",".join(map(_event_text, message.events))
    return f'{{"now":{message.now:.6f},"events":[{events}]}}'.encode()


class _Host(Struct):
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


class _HostStates(Struct):
    resources: str
    state: str


class _Answer(Struct):
    consumed_energy: float


class _Notify(Struct):
    type: str


_host = reader(_Host)
_HOST_FIELDS = _Host.__struct_fields__
_begins = reader(_Begins, ("nb_resources", "nb_compute_resources", "nb_storage_resources"))
_submitted = reader(_Submitted)
_completed = reader(_Completed)
_killed = reader(_Killed)
_state_changed = reader(_HostStates)
_answer = reader(_Answer)
_JOB_FIELDS = frozenset(_Job.__struct_fields__)


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
    hosts = (_host(item, f"{path}[{index}]", unknown) for index, item in enumerate(items))
    return tuple(e.Resource(x.id, x.name, x.state, x.properties, x.zone_properties) for x in hosts)


def _read_submitted(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _submitted(data, path, unknown)
    job = convert_at(raw.job, _Job, f"{path}.job")
    if job.id != raw.job_id:
        raise fault(f"{path}.job.id", f"found {job.id!r}, expected {raw.job_id!r} as in job_id")
    walltime = read_walltime(job.walltime, f"{path}.job.walltime", "-1")
    check_submission(job.subtime, f"{path}.job.subtime")
    extras = {k: v for k, v in raw.job.items() if k not in _JOB_FIELDS} if len(raw.job) > 4 else None
    request = e.JobRequest(job.id, job.subtime, job.res, job.profile, walltime, extras or None)
    return e.JobSubmitted(timestamp, request, raw.profile)


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
    return notice(timestamp, convert_at(data, _Notify, path).type, data)


def _read_answer(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    return e.EnergyAnswer(timestamp, _answer(data, path, unknown).consumed_energy)


_EVENT_READERS: dict[str, ReadEvent] = {
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


def _event_text(event: e.Event) -> str:
    kind, data = _EVENT_WRITERS[type(event)](event)
    return f'{{"timestamp":{event.timestamp:.6f},"type":{dump(kind)},"data":{dump(data)}}}'


def _write_begins(x: e.SimulationBegins) -> tuple[str, dict[str, Any]]:
    compute, storage = len(x.resources), len(x.storage_resources)
    return "SIMULATION_BEGINS", {
        "nb_resources": compute + storage,
        "nb_compute_resources": compute,
        "nb_storage_resources": storage,
        "allow_compute_sharing": x.allow_compute_sharing,
        "allow_storage_sharing": x.allow_storage_sharing,
        "config": x.config,
        "compute_resources": [*map(_write_resource, x.resources)],
        "storage_resources": [*map(_write_resource, x.storage_resources)],
        "workloads": x.workloads,
        "profiles": x.profiles,
    }


def _write_resource(x: e.Resource) -> dict[str, Any]:
    return {field: getattr(x, field) for field in _HOST_FIELDS}


def _write_submitted(x: e.JobSubmitted) -> tuple[str, dict[str, Any]]:
    asked, profile = x.job, x.job.profile
    job: dict[str, Any] = {"id": asked.id, "subtime": asked.subtime, "res": asked.res, "profile": profile}
    if asked.walltime is not None:
        job["walltime"] = asked.walltime
    if asked.extras:
        job.update(asked.extras)
    data = {"job_id": asked.id, "job": job}
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
    **dict.fromkeys(e.NOTICES, lambda x: ("NOTIFY", x.data)),
    e.RequestedCall: lambda x: ("REQUESTED_CALL", {}),
    e.EnergyAnswer: lambda x: ("ANSWER", {"consumed_energy": float(x.consumed_energy_j)}),
    e.UnknownEvent: lambda x: (x.type, x.data),
}


# --- decisions: from the scheduler to the simulator ---


def encode_reply(reply: d.Reply) -> bytes:
    """Write a reply to Batsim."""
    events = []
    for decision in reply.decisions:
        kind, data = _DECISION_WRITERS[type(decision)](decision)
        events.append({"timestamp": decision.timestamp, "type": kind, "data": data})
    return msgspec.json.encode({"now": reply.now, "events": events})


def _write_execute(x: d.ExecuteJob) -> tuple[str, dict[str, Any]]:
    data: dict[str, Any] = {"job_id": x.job_id, "alloc": str(x.alloc)}
    if x.mapping is not None:
        data["mapping"] = x.mapping
    return "EXECUTE_JOB", data


@refuses_depth
def decode_reply(raw: bytes) -> d.Reply:
    """Read a scheduler's reply, as strictly as Batsim does. Raises ProtocolError."""
    return read_reply(_ENVELOPE.decode(raw, []), _reader, "data")


def _reader(envelope: WireMessage, index: int, path: str) -> ReadDecision:
    event = envelope.events[index]
    read = _DECISION_READERS.get(event.type)
    if read is None:
        raise fault(f"{path}.type", f"event {index} has an unknown 'type' value {event.type!r}")
    if event.timestamp > envelope.now:
        raise fault(
            f"{path}.timestamp",
            f"timestamp {event.timestamp:g} of event {index} should be lower than or equal to"
            f" now={envelope.now:g}",
        )
    return read


class _Execute(Struct):
    job_id: str
    alloc: str
    mapping: dict[str, str] | None = None


class _Call(Struct):
    timestamp: float


class _Query(Struct):
    requests: dict[str, Any]


def _read_execute(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = convert_at(data, _Execute, path)
    return d.ExecuteJob(timestamp, raw.job_id, read_hosts(raw.alloc, f"{path}.alloc", some=True), raw.mapping)


def _read_set_state(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = convert_at(data, _HostStates, path)
    hosts = read_hosts(raw.resources, f"{path}.resources", some=True)
    return d.SetResourceState(timestamp, hosts, read_pstate(raw.state, f"{path}.state"))


def _read_query(timestamp: float, data: Any, path: str) -> d.Decision:
    for request in convert_at(data, _Query, path).requests:
        if request != "consumed_energy":
            raise fault(f"{path}.requests", f"Unknown QUERY {request!r}")
    return d.QueryEnergy(timestamp)


def _read_scheduler_notify(timestamp: float, data: Any, path: str) -> d.Decision:
    kind = convert_at(data, _Notify, path).type
    if kind in ("registration_finished", "submission_finished"):
        return d.FinishRegistration(timestamp)
    if kind in ("continue_registration", "continue_submission"):
        return d.ContinueRegistration(timestamp)
    raise fault(f"{path}.type", f"unknown NOTIFY {kind!r} from the scheduler")


def _plain_writer(name: str, kind: type[d.Decision]) -> Callable[[d.Decision], tuple[str, dict[str, Any]]]:
    fields = kind.__struct_fields__[1:]  # the timestamp is that of the event
    return lambda x: (name, {field: getattr(x, field) for field in fields})


def _plain_reader(kind: type[d.Decision]) -> Callable[[float, Any, str], d.Decision]:
    return lambda timestamp, data, path: convert_at(
        {**data, "timestamp": timestamp} if isinstance(data, dict) else data, kind, path
    )


_PLAIN: dict[str, type[d.Decision]] = {
    "REJECT_JOB": d.RejectJob,
    "KILL_JOB": d.KillJobs,
    "SET_JOB_METADATA": d.SetJobMetadata,
    "REGISTER_PROFILE": d.RegisterProfile,
    "REGISTER_JOB": d.RegisterJob,
    "CHANGE_JOB_STATE": d.ChangeJobState,
}
"""Decisions whose fields are those of the wire."""

_DECISION_WRITERS: dict[type[d.Decision], Callable[[Any], tuple[str, dict[str, Any]]]] = {
    **{kind: _plain_writer(name, kind) for name, kind in _PLAIN.items()},
    d.ExecuteJob: _write_execute,
    d.SetResourceState: lambda x: (
        "SET_RESOURCE_STATE",
        {"resources": str(x.resources), "state": str(x.state)},
    ),
    d.CallMeLater: lambda x: ("CALL_ME_LATER", {"timestamp": x.at}),
    d.QueryEnergy: lambda x: ("QUERY", {"requests": {"consumed_energy": {}}}),
    d.FinishRegistration: lambda x: ("NOTIFY", {"type": "registration_finished"}),
    d.ContinueRegistration: lambda x: ("NOTIFY", {"type": "continue_registration"}),
}

_DECISION_READERS: dict[str, ReadDecision] = {
    **{name: _plain_reader(kind) for name, kind in _PLAIN.items()},
    "EXECUTE_JOB": _read_execute,
    "SET_RESOURCE_STATE": _read_set_state,
    "CALL_ME_LATER": lambda t, data, path: d.CallMeLater(t, convert_at(data, _Call, path).timestamp),
    "QUERY": _read_query,
    "NOTIFY": _read_scheduler_notify,
}


# --- fields that are strings on the wire ---

_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")


def read_pstate(text: str, path: str) -> int:
    """Read a P-state number, which Batsim sends as a string. Raises ProtocolError."""
    if not _INTEGER.fullmatch(text):
        raise fault(path, f"should be a string corresponding to an integer (got {text!r})")
    return int(text)
