"""Batsim 4's decisions: what the scheduler answers, written and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from beasy_sched.model import decisions as d
from beasy_sched.protocol.batsim4.fields import add_hosts, read_hosts, read_pstate
from beasy_sched.protocol.wire import decode_envelope, fault, reader

# --- writing (the scheduler's side) ---


def encode_reply(reply: d.Reply) -> bytes:
    """Write a reply to Batsim."""
    events = [_DECISION_WRITERS[type(decision)](decision) for decision in reply.decisions]
    return msgspec.json.encode({"now": reply.now, "events": events})


def _event(kind: str, decision: d.Decision, data: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": decision.timestamp, "type": kind, "data": data}


def _write_execute(x: d.ExecuteJob) -> dict[str, Any]:
    data: dict[str, Any] = {"job_id": x.job_id, "alloc": str(x.alloc)}
    if x.mapping is not None:
        data["mapping"] = x.mapping
    return _event("EXECUTE_JOB", x, data)


def _write_register_profile(x: d.RegisterProfile) -> dict[str, Any]:
    return _event(
        "REGISTER_PROFILE",
        x,
        {"workload_name": x.workload_name, "profile_name": x.profile_name, "profile": x.profile},
    )


_DECISION_WRITERS: dict[type[d.Decision], Callable[[Any], dict[str, Any]]] = {
    d.ExecuteJob: _write_execute,
    d.RejectJob: lambda x: _event("REJECT_JOB", x, {"job_id": x.job_id}),
    d.KillJobs: lambda x: _event("KILL_JOB", x, {"job_ids": list(x.job_ids)}),
    d.SetResourceState: lambda x: _event(
        "SET_RESOURCE_STATE", x, {"resources": str(x.resources), "state": str(x.state)}
    ),
    d.CallMeLater: lambda x: _event("CALL_ME_LATER", x, {"timestamp": x.at}),
    d.QueryEnergy: lambda x: _event("QUERY", x, {"requests": {"consumed_energy": {}}}),
    d.SetJobMetadata: lambda x: _event("SET_JOB_METADATA", x, {"job_id": x.job_id, "metadata": x.metadata}),
    d.RegisterProfile: _write_register_profile,
    d.RegisterJob: lambda x: _event("REGISTER_JOB", x, {"job_id": x.job_id, "job": x.job}),
    d.FinishRegistration: lambda x: _event("NOTIFY", x, {"type": "registration_finished"}),
    d.ContinueRegistration: lambda x: _event("NOTIFY", x, {"type": "continue_registration"}),
    d.ChangeJobState: lambda x: _event("CHANGE_JOB_STATE", x, {"job_id": x.job_id, "job_state": x.job_state}),
}


# --- reading (the simulator's side) ---


class _Execute(Struct):
    job_id: str
    alloc: str
    mapping: dict[str, str] | None = None


class _JobId(Struct):
    job_id: str


class _JobIds(Struct):
    job_ids: list[str]


class _SetState(Struct):
    resources: str
    state: str


class _Call(Struct):
    timestamp: float


class _Query(Struct):
    requests: dict[str, Any]


class _Metadata(Struct):
    job_id: str
    metadata: str


class _RegisterProfile(Struct):
    workload_name: str
    profile_name: str
    profile: dict[str, Any]


class _RegisterJob(Struct):
    job_id: str
    job: dict[str, Any]


class _NotifyKind(Struct):
    type: str


class _ChangeJobState(Struct):
    job_id: str
    job_state: str


_execute = reader(_Execute)
_job_id = reader(_JobId)
_job_ids = reader(_JobIds)
_set_state = reader(_SetState)
_call = reader(_Call)
_query = reader(_Query)
_metadata = reader(_Metadata)
_register_profile = reader(_RegisterProfile)
_register_job = reader(_RegisterJob)
_notify = reader(_NotifyKind)
_change_job_state = reader(_ChangeJobState)


def decode_reply(raw: bytes) -> d.Reply:
    """Read a scheduler's reply, as strictly as Batsim does. Raises ProtocolError."""
    envelope = decode_envelope(raw, [])
    decisions: list[d.Decision] = []
    hosts = 0
    for index, event in enumerate(envelope.events):
        path = f"$.events[{index}]"
        read = _DECISION_READERS.get(event.type)
        if read is None:
            raise fault(f"{path}.type", f"event {index} has an unknown 'type' value {event.type!r}")
        if event.timestamp > envelope.now:
            raise fault(
                f"{path}.timestamp",
                f"timestamp {event.timestamp:g} of event {index} should be lower than or equal to"
                f" now={envelope.now:g}",
            )
        decision = read(event.timestamp, event.data, f"{path}.data")
        decisions.append(decision)
        if type(decision) is d.ExecuteJob:
            hosts = add_hosts(hosts, decision.alloc, path)
        elif type(decision) is d.SetResourceState:
            hosts = add_hosts(hosts, decision.resources, path)
    return d.Reply(envelope.now, decisions)


def _read_execute(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = _execute(data, path, [])
    return d.ExecuteJob(timestamp, raw.job_id, read_hosts(raw.alloc, f"{path}.alloc", some=True), raw.mapping)


def _read_set_state(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = _set_state(data, path, [])
    hosts = read_hosts(raw.resources, f"{path}.resources", some=True)
    return d.SetResourceState(timestamp, hosts, read_pstate(raw.state, f"{path}.state"))


def _read_query(timestamp: float, data: Any, path: str) -> d.Decision:
    for request in _query(data, path, []).requests:
        if request != "consumed_energy":
            raise fault(f"{path}.requests", f"Unknown QUERY {request!r}")
    return d.QueryEnergy(timestamp)


def _read_scheduler_notify(timestamp: float, data: Any, path: str) -> d.Decision:
    kind = _notify(data, path, []).type
    if kind in ("registration_finished", "submission_finished"):
        return d.FinishRegistration(timestamp)
    if kind in ("continue_registration", "continue_submission"):
        return d.ContinueRegistration(timestamp)
    raise fault(f"{path}.type", f"unknown NOTIFY {kind!r} from the scheduler")


def _read_register_profile(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = _register_profile(data, path, [])
    return d.RegisterProfile(timestamp, raw.workload_name, raw.profile_name, raw.profile)


def _read_register_job(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = _register_job(data, path, [])
    return d.RegisterJob(timestamp, raw.job_id, raw.job)


def _read_metadata(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = _metadata(data, path, [])
    return d.SetJobMetadata(timestamp, raw.job_id, raw.metadata)


def _read_change_job_state(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = _change_job_state(data, path, [])
    return d.ChangeJobState(timestamp, raw.job_id, raw.job_state)


_DECISION_READERS: dict[str, Callable[[float, Any, str], d.Decision]] = {
    "EXECUTE_JOB": _read_execute,
    "REJECT_JOB": lambda t, data, path: d.RejectJob(t, _job_id(data, path, []).job_id),
    "KILL_JOB": lambda t, data, path: d.KillJobs(t, tuple(_job_ids(data, path, []).job_ids)),
    "SET_RESOURCE_STATE": _read_set_state,
    "CALL_ME_LATER": lambda t, data, path: d.CallMeLater(t, _call(data, path, []).timestamp),
    "QUERY": _read_query,
    "SET_JOB_METADATA": _read_metadata,
    "REGISTER_PROFILE": _read_register_profile,
    "REGISTER_JOB": _read_register_job,
    "NOTIFY": _read_scheduler_notify,
    "CHANGE_JOB_STATE": _read_change_job_state,
}
