"""Batsim 5 (batprotocol's JSON over ZeroMQ): bytes to typed messages and back, as in 5.0.0-rc2.

Only this module and its parts (``batsim5_*``) use its field names. The scheduler's side uses, in
this order, `is_start` (or `is_old_start`), `decode_start`, `encode_hello`, and then `decode_message` and
`encode_reply`; the simulator's side `encode_start`, `decode_hello`, `encode_message` and `decode_reply`.

Messages of the scheduler are read as strictly as Batsim reads them, because Batsim aborts on unknown content;
messages of Batsim are read leniently: unknown event types and fields are kept and reported. A malformed
message raises a ProtocolError with its path.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from beasy_sched._version import __version__
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol.batsim5_replies import call_ms, decode_reply, encode_reply
from beasy_sched.protocol.batsim5_terms import (
    NO_MORE,
    WireJob,
    WireProfile,
    bare_name,
    complete_name,
    read_extras,
    read_notice,
    read_profile,
    read_profiles,
    read_progress,
    workload_of,
    write_extras,
    write_notice,
    write_profile,
    write_profiles,
    write_progress,
)
from beasy_sched.protocol.batsim5_wire import Unsigned32, decode_envelope, decode_strictly, encode_envelope
from beasy_sched.protocol.notices import notice
from beasy_sched.protocol.wire import (
    ReadEvent,
    Unknown,
    check_submission,
    convert_at,
    fault,
    read_hosts,
    read_message,
    read_walltime,
    reader,
    refuses_depth,
)

__all__ = [
    "Constraints",
    "Hello",
    "RequestedFeatures",
    "call_ms",
    "decode_hello",
    "decode_message",
    "decode_reply",
    "decode_start",
    "encode_hello",
    "encode_message",
    "encode_reply",
    "encode_start",
    "is_old_start",
    "is_start",
]

_U32 = struct.Struct("<I")
_BINARY, _JSON = 1, 2


# --- the handshake ---


def is_start(raw: bytes) -> bool:
    """Whether this is the first message of a Batsim 5: the length of the init string, and the string."""
    return len(raw) >= _U32.size and len(raw) == _U32.size + _U32.unpack_from(raw)[0]


def is_old_start(raw: bytes) -> bool:
    """Whether this is the first message of a development version of Batsim 5 from before April 2025."""
    return len(raw) >= 2 * _U32.size and len(raw) == 2 * _U32.size + _U32.unpack_from(raw, _U32.size)[0]


def encode_start(init: bytes = b"") -> bytes:
    """Write the first message: Batsim's init string."""
    return _U32.pack(len(init)) + init


def decode_start(raw: bytes) -> bytes:
    """Read the init string. Raises ProtocolError."""
    if not is_start(raw):
        raise fault("$", "not the first message of a Batsim 5: its length and its contents differ")
    return raw[_U32.size :]


class RequestedFeatures(Struct, frozen=True, forbid_unknown_fields=True):
    """Requests of the scheduler to the simulation."""

    dynamic_registration: bool = False
    profile_reuse: bool = False
    acknowledge_dynamic_jobs: bool = False
    forward_profiles_on_job_submission: bool = False
    forward_profiles_on_jobs_killed: bool = False
    forward_profiles_on_simulation_begins: bool = False


class Constraints(Struct, frozen=True, forbid_unknown_fields=True):
    """Properties of the scheduler; Batsim 5.0.0-rc2 does not read them."""

    compute_sharing: bool = False
    storage_sharing: bool = True
    job_allocation_validation_strategy: Literal[
        "None", "MatchJobRequestExactly", "MatchJobRequestBigEnough"
    ] = "MatchJobRequestExactly"


class Hello(Struct, frozen=True):
    """Introduction of the scheduler."""

    name: str = "beasy-sched"
    version: str = __version__
    commit: str = ""
    features: RequestedFeatures = RequestedFeatures()
    constraints: Constraints = Constraints()
    protocol: str = "1.0.0"
    """Version of batprotocol, which Batsim does not check."""


class _WireFeatures(RequestedFeatures, frozen=True, forbid_unknown_fields=True):
    forward_unknown_external_events: bool = False
    """Removed in July 2025: read, never written."""


class _Hello(Struct, forbid_unknown_fields=True):
    batprotocol_version: str
    decision_component_name: str
    decision_component_version: str
    decision_component_commit: str  # optional in the schema, but Batsim crashes without these two
    requested_simulation_features: _WireFeatures
    scheduling_constraints: Constraints | None = None


def encode_hello(hello: Hello) -> bytes:
    """Write the reply to the first message: the JSON format, and the scheduler's introduction."""
    wire = _Hello(hello.protocol, hello.name, hello.version, hello.commit, _WireFeatures(), hello.constraints)
    data = {**msgspec.to_builtins(wire), "requested_simulation_features": msgspec.to_builtins(hello.features)}
    return _U32.pack(_JSON) + encode_envelope(0.0, [(0.0, ("EDCHelloEvent", data))])


@refuses_depth
def decode_hello(raw: bytes) -> Hello:
    """Read the scheduler's introduction, as strictly as Batsim does. Raises ProtocolError."""
    flags = _U32.unpack_from(raw)[0] if len(raw) >= _U32.size else None
    if flags == _BINARY:
        raise fault("$", "found binary messages: only JSON is supported")
    if flags != _JSON:
        raise fault("$", "expected a number of 4 bytes, 2 for JSON, and an EDCHelloEvent")
    envelope = decode_strictly(raw[_U32.size :])
    if [event.type for event in envelope.events] != ["EDCHelloEvent"]:
        raise fault("$.events", "expected exactly one EDCHelloEvent")
    wire = convert_at(envelope.events[0].data, _Hello, "$.events[0].event")
    asked = wire.requested_simulation_features
    return Hello(
        wire.decision_component_name,
        wire.decision_component_version,
        wire.decision_component_commit,
        RequestedFeatures(*(getattr(asked, name) for name in RequestedFeatures.__struct_fields__)),
        wire.scheduling_constraints or Constraints(),
        wire.batprotocol_version,
    )


# --- events: from the simulator to the scheduler ---


@refuses_depth
def decode_message(raw: bytes) -> e.Message:
    """Read a message from Batsim. Raises ProtocolError."""
    unknown: Unknown = []
    return read_message(decode_envelope(raw, unknown), _EVENT_READERS, "event", unknown)


def encode_message(message: e.Message) -> bytes:
    """Write a message like Batsim. Raises ValueError for an event that Batsim 5 does not have."""
    return encode_envelope(message.now, ((event.timestamp, _event(event)) for event in message.events))


class _Property(Struct):
    key: str
    value: str


class _Host5(Struct):
    id: int
    name: str
    pstate: Unsigned32 = 0
    pstate_count: int = 1
    state: str = "IDLE"
    properties: list[_Property] = []
    zone_properties: list[_Property] = []
    core_count: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    computation_speed: list[float] = []


class _Workload(Struct):
    name: str
    filename: str


class _Begins5(Struct):
    computation_hosts: list[dict[str, Any]]
    storage_hosts: list[dict[str, Any]] = []
    workloads: list[_Workload] = []
    profiles: list[WireProfile] | None = None


class _Submitted5(Struct):
    job_id: str
    job: dict[str, Any]
    submission_time: float = 0.0
    profile: WireProfile | None = None


class _Completed5(Struct):
    job_id: str
    state: Literal[
        "COMPLETED_SUCCESSFULLY",
        "COMPLETED_FAILED",
        "COMPLETED_WALLTIME_REACHED",
        "COMPLETED_KILLED",
        "REJECTED",
    ] = "COMPLETED_SUCCESSFULLY"
    return_code: int = 0


class _Progress5(Struct):
    job_id: str
    wrapper: dict[str, Any]


class _Killed5(Struct):
    job_ids: list[str]
    progresses: list[_Progress5] = []
    profiles: list[WireProfile] | None = None


class _Switched(Struct):
    host_ids: str
    state: Unsigned32 = 0


class _Changed(Struct):
    host_ids: str
    pstate: Unsigned32 = 0


class _Generic(Struct):
    data: str = ""


class _External(Struct):
    external_event_type: str
    external_event: dict[str, Any]
    id: str = ""


class _Call5(Struct):
    call_me_later_id: str
    last_periodic_call: bool = False


_BEGINS_COUNTS = ("host_number", "computation_host_number", "storage_host_number")
_BEGINS_CONFIG = (
    "batsim_arguments",
    "batsim_execution_context_json",
    "batsim_version",
    "batsim_commit",
)
"""Fields of SimulationBegins that are kept as its ``config``, in addition to unknown ones."""
_NOT_CONFIG = frozenset((*_Begins5.__struct_fields__, *_BEGINS_COUNTS))

_host = reader(_Host5)
_begins = reader(_Begins5, (*_BEGINS_COUNTS, *_BEGINS_CONFIG))
_submitted = reader(_Submitted5)
_job = reader(WireJob)
_completed = reader(_Completed5)
_killed = reader(_Killed5)
_switched = reader(_Switched)
_changed = reader(_Changed)
_external = reader(_External)
_generic = reader(_Generic)
_call = reader(_Call5)


def _read_begins(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _begins(data, path, unknown)
    return e.SimulationBegins(
        timestamp,
        resources=_resources(raw.computation_hosts, f"{path}.computation_hosts", unknown),
        config={name: value for name, value in data.items() if name not in _NOT_CONFIG},
        workloads={workload.name: workload.filename for workload in raw.workloads},
        profiles=read_profiles(raw.profiles or ()),
        storage_resources=_resources(raw.storage_hosts, f"{path}.storage_hosts", unknown),
        answers_queries=False,
    )


def _resources(items: list[dict[str, Any]], path: str, unknown: Unknown) -> tuple[e.Resource, ...]:
    return tuple(_resource(_host(item, f"{path}[{index}]", unknown)) for index, item in enumerate(items))


def _resource(x: _Host5) -> e.Resource:
    properties, zone = ({each.key: each.value for each in some} for some in (x.properties, x.zone_properties))
    speeds = tuple(x.computation_speed)
    return e.Resource(x.id, x.name, x.state.lower(), properties, zone, x.pstate, speeds, x.core_count)


def _read_submitted(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _submitted(data, path, unknown)
    job = _job(raw.job, f"{path}.job", unknown)
    workload = workload_of(raw.job_id)
    walltime = read_walltime(job.walltime, f"{path}.job.walltime", "null")
    check_submission(raw.submission_time, f"{path}.submission_time")
    profile = bare_name(job.profile_id or "", workload)
    extras = read_extras(job.extra_data)
    at, res, rigid = raw.submission_time, job.resource_request, job.rigid
    request = e.JobRequest(raw.job_id, at, res, profile, walltime, extras, rigid)
    return e.JobSubmitted(timestamp, request, None if raw.profile is None else read_profile(raw.profile))


def _read_completed(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event | None:
    raw = _completed(data, path, unknown)
    if raw.state == "REJECTED":
        return None
    code = raw.return_code - 2**32 if raw.return_code >= 2**31 else raw.return_code
    return e.JobCompleted(timestamp, raw.job_id, e.JobEnd(raw.state), HostSet.parse(""), code)


def _read_killed(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _killed(data, path, unknown)
    progress = {
        each.job_id: read_progress(
            each.wrapper, workload_of(each.job_id), f"{path}.progresses[{index}].wrapper"
        )
        for index, each in enumerate(raw.progresses)
    }
    profiles = None if raw.profiles is None else read_profiles(raw.profiles)
    return e.JobsKilled(timestamp, tuple(raw.job_ids), progress, profiles)


def _read_switched(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _switched(data, path, unknown)
    hosts = read_hosts(raw.host_ids, f"{path}.host_ids")
    return e.ResourceStateChanged(timestamp, hosts, raw.state, switch=True)


def _read_changed(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _changed(data, path, unknown)
    hosts = read_hosts(raw.host_ids, f"{path}.host_ids")
    return e.ResourceStateChanged(timestamp, hosts, raw.pstate, switch=False)


def _read_external(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event | None:
    raw = _external(data, path, unknown)
    if raw.external_event_type != "GenericExternalEvent":
        return None
    kind, content = read_notice(_generic(raw.external_event, f"{path}.external_event", unknown).data)
    return notice(timestamp, kind, content, raw.id)


def _read_call(timestamp: float, data: Any, path: str, unknown: Unknown) -> e.Event:
    raw = _call(data, path, unknown)
    return e.RequestedCall(timestamp, raw.call_me_later_id, raw.last_periodic_call)


def _telling(kind: str) -> Callable[[float, Any, str, Unknown], e.Event]:
    return lambda timestamp, data, path, unknown: notice(timestamp, kind, {"type": kind})


_EVENT_READERS: dict[str, ReadEvent] = {
    "SimulationBeginsEvent": _read_begins,
    "SimulationEndsEvent": lambda timestamp, data, path, unknown: e.SimulationEnds(timestamp),
    "JobSubmittedEvent": _read_submitted,
    "JobCompletedEvent": _read_completed,
    "JobsKilledEvent": _read_killed,
    "HostsTurnedOnOffEvent": _read_switched,
    "HostsPStateChangedEvent": _read_changed,
    "ExternalEventOccurredEvent": _read_external,
    "RequestedCallEvent": _read_call,
    **{name: _telling(kind) for kind, name in NO_MORE.items()},
}


def _event(event: e.Event) -> tuple[str, Any]:
    write = _EVENT_WRITERS.get(type(event))
    if write is None:
        raise ValueError(f"Batsim 5 has no event such as {type(event).__name__}")
    return write(event)


def _write_begins(x: e.SimulationBegins) -> tuple[str, dict[str, Any]]:
    compute, storage = len(x.resources), len(x.storage_resources)
    return "SimulationBeginsEvent", {
        "host_number": compute + storage,
        "computation_host_number": compute,
        "computation_hosts": [*map(_write_resource, x.resources)],
        "storage_host_number": storage,
        "storage_hosts": [*map(_write_resource, x.storage_resources)],
        "workloads": [{"name": name, "filename": file} for name, file in x.workloads.items()],
        "profiles": write_profiles(x.profiles),
        **x.config,
    }


def _write_resource(x: e.Resource) -> dict[str, Any]:
    return {
        "id": x.id,
        "name": x.name,
        "pstate": x.pstate or 0,
        "pstate_count": max(len(x.speeds_flops), 1),
        "state": x.state.upper(),
        "properties": [{"key": key, "value": value} for key, value in x.properties.items()],
        "zone_properties": [{"key": key, "value": value} for key, value in x.zone_properties.items()],
        "core_count": x.cores,
        "computation_speed": [float(speed) for speed in x.speeds_flops],
    }


def _write_submitted(x: e.JobSubmitted) -> tuple[str, dict[str, Any]]:
    asked = x.job
    data: dict[str, Any] = {
        "job_id": asked.id,
        "job": {
            "resource_request": asked.res,
            "walltime": None if asked.walltime is None else float(asked.walltime),
            "extra_data": write_extras(asked.extras),
            "rigid": asked.rigid,
            "profile_id": complete_name(asked.profile, workload_of(asked.id)),
        },
        "submission_time": float(asked.subtime),
    }
    if x.profile is not None:
        data["profile"] = write_profile(data["job"]["profile_id"], x.profile)
    return "JobSubmittedEvent", data


def _write_completed(x: e.JobCompleted) -> tuple[str, dict[str, Any]]:
    code = x.return_code % 2**32
    return "JobCompletedEvent", {"job_id": x.job_id, "state": x.end.value, "return_code": code}


def _write_killed(x: e.JobsKilled) -> tuple[str, dict[str, Any]]:
    progresses = [
        {"job_id": job_id, "wrapper": write_progress(progress, workload_of(job_id))}
        for job_id, progress in x.progress.items()
    ]
    data: dict[str, Any] = {"job_ids": list(x.job_ids), "progresses": progresses}
    if x.profiles is not None:
        data["profiles"] = write_profiles(x.profiles)
    return "JobsKilledEvent", data


def _write_state_changed(x: e.ResourceStateChanged) -> tuple[str, dict[str, Any]]:
    if x.switch:
        return "HostsTurnedOnOffEvent", {"host_ids": str(x.resources), "state": x.state}
    return "HostsPStateChangedEvent", {"host_ids": str(x.resources), "pstate": x.state}


def _write_notify(x: e.Notify) -> tuple[str, dict[str, Any]]:
    if x.kind in NO_MORE:
        return NO_MORE[x.kind], {}
    return "ExternalEventOccurredEvent", {
        "id": x.id,
        "external_event_type": "GenericExternalEvent",
        "external_event": {"data": write_notice(x.kind, x.data)},
    }


_EVENT_WRITERS: dict[type[e.Event], Callable[[Any], tuple[str, Any]]] = {
    e.SimulationBegins: _write_begins,
    e.SimulationEnds: lambda x: ("SimulationEndsEvent", {}),
    e.JobSubmitted: _write_submitted,
    e.JobCompleted: _write_completed,
    e.JobsKilled: _write_killed,
    e.ResourceStateChanged: _write_state_changed,
    **dict.fromkeys(e.NOTICES, _write_notify),
    e.RequestedCall: lambda x: (
        "RequestedCallEvent",
        {"call_me_later_id": x.id, "last_periodic_call": x.is_last},
    ),
    e.UnknownEvent: lambda x: (x.type, {} if x.data is None else x.data),
}
