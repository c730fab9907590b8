"""Batsim 5: the scheduler's replies, to bytes and back.

They are read as strictly as Batsim reads them: it aborts on unknown content.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from beasy_sched.limits import shortened
from beasy_sched.model import decisions as d
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol.batsim5_terms import (
    PROFILE_FIELDS,
    WireJob,
    WireProfile,
    bare_name,
    complete_name,
    read_extras,
    read_profile,
    workload_of,
    write_extras,
    write_profile,
)
from beasy_sched.protocol.batsim5_wire import Unsigned32, decode_strictly, encode_envelope
from beasy_sched.protocol.wire import (
    ReadDecision,
    WireMessage,
    convert_at,
    fault,
    read_hosts,
    read_reply,
    refuses_depth,
)


def encode_reply(reply: d.Reply, separator: str = " ") -> bytes:
    """Write a reply to Batsim; ``separator`` separates the parts of a set of hosts.

    Raises ValueError for a decision that Batsim 5 does not have, or that does not distinguish
    switches from changes of speed.
    """
    return encode_envelope(
        reply.now, ((each.timestamp, _decision(each, separator)) for each in reply.decisions)
    )


def call_ms(at: float) -> int:
    """Return a time (s) in integer milliseconds, Batsim's unit of calls, rounded up."""
    ms = at * 1000.0
    return max(math.ceil(ms - max(1e-6, math.ulp(ms))), 0)


def _hosts_text(hosts: HostSet, separator: str) -> str:
    """Write each part as ``a-b``: with a wrong separator, Batsim aborts instead of reading other hosts."""
    parts = (part if "-" in part else f"{part}-{part}" for part in str(hosts).split())
    return separator.join(parts)


def _decision(decision: d.Decision, separator: str) -> tuple[str, Any]:
    write = _DECISION_WRITERS.get(type(decision))
    if write is None:
        raise ValueError(f"Batsim 5 has no decision such as {type(decision).__name__}")
    return write(decision, separator)


_SPREAD = "SpreadOverHostsFirst"
_PREDEFINED, _CUSTOM = "PredefinedExecutorPlacementStrategyWrapper", "CustomExecutorToHostMapping"
_PLACED = ("profile_allocation_override", "storage_placement")


def _write_execute(x: d.ExecuteJob, separator: str) -> tuple[str, dict[str, Any]]:
    more = x.placement or {}
    kind, placement = _PREDEFINED, {"strategy": more.get("strategy", _SPREAD)}
    if x.mapping is not None:
        places = {int(executor): int(place) for executor, place in x.mapping.items()}
        kind, placement = _CUSTOM, {"mapping": [places[executor] for executor in sorted(places)]}
    allocation = {
        "host_allocation": _hosts_text(x.alloc, separator),
        "executor_placement_type": kind,
        "executor_placement": placement,
    }
    return "ExecuteJobEvent", {
        "job_id": x.job_id,
        "allocation": allocation,
        **{name: more.get(name, []) for name in _PLACED},
    }


def _write_set_state(x: d.SetResourceState, separator: str) -> tuple[str, dict[str, Any]]:
    if x.switch is None:
        raise ValueError("a change of P-states must state whether it switches hosts on or off")
    hosts = _hosts_text(x.resources, separator)
    if x.switch:
        return "TurnOnOffHostsEvent", {"host_ids": hosts, "state": x.state}
    return "ChangeHostsPStateEvent", {"host_ids": hosts, "pstate": x.state}


def _in_unit(ms: Mapping[str, int]) -> dict[str, Any]:
    """Write times in whole seconds if possible."""
    if any(value % 1000 for value in ms.values()):
        return {**ms, "time_unit": "Millisecond"}
    return {**{name: value // 1000 for name, value in ms.items()}, "time_unit": "Second"}


def _write_call(x: d.CallMeLater, separator: str) -> tuple[str, dict[str, Any]]:
    ms = call_ms(x.at)
    name = x.id or f"{ms} ms"
    return "CallMeLaterEvent", {
        "call_me_later_id": name,
        "when_type": "OneShot",
        "when": _in_unit({"time": ms}),
    }


def _write_periodic(x: d.CallPeriodically, separator: str) -> tuple[str, dict[str, Any]]:
    mode = ("Infinite", {}) if x.count is None else ("FinitePeriodNumber", {"nb_periods": x.count})
    when = _in_unit({"period": x.period_ms, "offset": x.offset_ms})
    return "CallMeLaterEvent", {
        "call_me_later_id": x.id,
        "when_type": "Periodic",
        "when": {**when, "mode_type": mode[0], "mode": mode[1]},
    }


def _write_register_job(x: d.RegisterJob, separator: str) -> tuple[str, dict[str, Any]]:
    given = dict(x.job)
    workload = workload_of(x.job_id)
    walltime = given.pop("walltime", None)
    job: dict[str, Any] = {"resource_request": given.pop("res")}
    if walltime is not None and walltime != -1:
        job["walltime"] = float(walltime)
    profile, rigid = given.pop("profile", ""), given.pop("rigid", True)
    for name in ("id", "subtime"):
        given.pop(name, None)
    job |= {"extra_data": write_extras(given), "rigid": rigid, "profile_id": complete_name(profile, workload)}
    return "RegisterJobEvent", {"job_id": x.job_id, "job": job}


def _write_register_profile(x: d.RegisterProfile, separator: str) -> tuple[str, dict[str, Any]]:
    profile_id = complete_name(x.profile_name, x.workload_name)
    return "RegisterProfileEvent", {"profile": write_profile(profile_id, x.profile)}


_DECISION_WRITERS: dict[type[d.Decision], Callable[[Any, str], tuple[str, Any]]] = {
    d.ExecuteJob: _write_execute,
    d.RejectJob: lambda x, separator: ("RejectJobEvent", {"job_id": x.job_id}),
    d.KillJobs: lambda x, separator: ("KillJobsEvent", {"job_ids": list(x.job_ids)}),
    d.SetResourceState: _write_set_state,
    d.CallMeLater: _write_call,
    d.CallPeriodically: _write_periodic,
    d.StopCalls: lambda x, separator: ("StopCallMeLaterEvent", {"call_me_later_id": x.id}),
    d.ProbeRequest: lambda x, separator: (x.kind, x.data),
    d.RegisterProfile: _write_register_profile,
    d.RegisterJob: _write_register_job,
    d.FinishRegistration: lambda x, separator: ("FinishRegistrationEvent", {}),
    d.ForceStop: lambda x, separator: ("ForceSimulationStopEvent", {}),
}


@refuses_depth
def decode_reply(raw: bytes) -> d.Reply:
    """Read a scheduler's reply, as strictly as Batsim does. Raises ProtocolError."""
    return read_reply(decode_strictly(raw), _reader, "event")


def _reader(envelope: WireMessage, index: int, path: str) -> ReadDecision:
    event = envelope.events[index]
    read = _DECISION_READERS.get(event.type)
    if read is None:
        raise fault(f"{path}.event_type", f"event {index} is a {event.type!r}, which no scheduler sends")
    if event.timestamp > envelope.now:
        raise fault(
            f"{path}.timestamp",
            f"invalid event {index} (type='{shortened(event.type)}') in message: event timestamp"
            f" ({event.timestamp:g}) is after message's now ({envelope.now:g})",
        )
    if index and event.timestamp < envelope.events[index - 1].timestamp:
        raise fault(f"{path}.timestamp", f"event {index} is earlier than the one before it")
    return read


class _Strict(Struct, forbid_unknown_fields=True):
    pass


class _Allocation(_Strict):
    host_allocation: str
    executor_placement_type: Literal[
        "PredefinedExecutorPlacementStrategyWrapper", "CustomExecutorToHostMapping"
    ]
    executor_placement: dict[str, Any]


class _Strategy(_Strict):
    strategy: Literal["SpreadOverHostsFirst", "FillOneHostCoresFirst"] = "SpreadOverHostsFirst"


_U64Value = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class _Mapping(_Strict):
    mapping: list[Unsigned32] = []


class _Override(_Allocation):
    profile_id: str


class _StoragePlace(_Strict):
    storage_name: str
    host_id: Unsigned32 = 0


class _Execute5(_Strict):
    job_id: str
    allocation: _Allocation
    profile_allocation_override: list[_Override] | None = None
    storage_placement: list[_StoragePlace] | None = None


class _Kill(_Strict):
    job_ids: list[str]


class _TurnOnOff(_Strict):
    host_ids: str
    state: Unsigned32 = 0


class _ChangePState(_Strict):
    host_ids: str
    pstate: Unsigned32 = 0


class _CallMeLater(_Strict):
    call_me_later_id: str
    when_type: Literal["OneShot", "Periodic"]
    when: dict[str, Any]


_Unit = Literal["Second", "Millisecond"]


class _OneShot(_Strict):
    time: _U64Value = 0
    time_unit: _Unit = "Second"


class _Periodic(_Strict):
    mode_type: Literal["Infinite", "FinitePeriodNumber"]
    mode: dict[str, Any]
    period: _U64Value = 0
    offset: _U64Value = 0
    time_unit: _Unit = "Second"


class _Periods(_Strict):
    nb_periods: Unsigned32 = 0


class _StopCall(_Strict):
    call_me_later_id: str


class _RegisterProfile(_Strict):
    profile: dict[str, Any]


class _StrictProfile(WireProfile, forbid_unknown_fields=True):
    pass


class _RegisterJob(_Strict):
    job_id: str
    job: dict[str, Any]


class _StrictJob(WireJob, forbid_unknown_fields=True):
    pass


class _Rejected(_Strict):
    job_id: str


def _read_execute(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = convert_at(data, _Execute5, path)
    where = f"{path}.allocation"
    mapping, placement = None, {}
    if raw.allocation.executor_placement_type == _CUSTOM:
        placed = convert_at(raw.allocation.executor_placement, _Mapping, f"{where}.executor_placement")
        mapping = {str(executor): str(place) for executor, place in enumerate(placed.mapping)}
    else:
        how = convert_at(raw.allocation.executor_placement, _Strategy, f"{where}.executor_placement")
        placement = {} if how.strategy == _SPREAD else {"strategy": how.strategy}
    placement |= {name: data[name] for name in _PLACED if data.get(name)}
    hosts = read_hosts(raw.allocation.host_allocation, f"{where}.host_allocation", some=True)
    return d.ExecuteJob(timestamp, raw.job_id, hosts, mapping, placement or None)


def _read_turn_on_off(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = convert_at(data, _TurnOnOff, path)
    hosts = read_hosts(raw.host_ids, f"{path}.host_ids", some=True)
    return d.SetResourceState(timestamp, hosts, raw.state, switch=True)


def _read_change_pstate(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = convert_at(data, _ChangePState, path)
    hosts = read_hosts(raw.host_ids, f"{path}.host_ids", some=True)
    return d.SetResourceState(timestamp, hosts, raw.pstate, switch=False)


def _read_call_me_later(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = convert_at(data, _CallMeLater, path)
    if raw.when_type == "OneShot":
        once = convert_at(raw.when, _OneShot, f"{path}.when")
        at = once.time / 1000.0 if once.time_unit == "Millisecond" else float(once.time)
        return d.CallMeLater(timestamp, at, raw.call_me_later_id)
    often = convert_at(raw.when, _Periodic, f"{path}.when")
    count = None
    if often.mode_type == "FinitePeriodNumber":
        count = convert_at(often.mode, _Periods, f"{path}.when.mode").nb_periods
    ms = 1 if often.time_unit == "Millisecond" else 1000
    return d.CallPeriodically(timestamp, raw.call_me_later_id, often.period * ms, often.offset * ms, count)


def _read_register_profile(timestamp: float, data: Any, path: str) -> d.Decision:
    path = f"{path}.profile"
    raw = convert_at(convert_at(data, _RegisterProfile, path).profile, _StrictProfile, path)
    fields = PROFILE_FIELDS.get(raw.profile_type)
    if fields is None:
        raise fault(f"{path}.profile_type", f"unknown profile type {raw.profile_type!r}")
    strange = [name for name in raw.profile if name not in fields]
    if strange:
        raise fault(f"{path}.profile", f"a {raw.profile_type} has no field {shortened(strange[0])!r}")
    workload, _, name = raw.id.rpartition("!")
    return d.RegisterProfile(timestamp, workload, name, read_profile(raw))


def _read_register_job(timestamp: float, data: Any, path: str) -> d.Decision:
    raw = convert_at(data, _RegisterJob, path)
    job = convert_at(raw.job, _StrictJob, f"{path}.job")
    description: dict[str, Any] = {
        **(read_extras(job.extra_data) or {}),
        "id": raw.job_id,
        "res": job.resource_request,
        "profile": bare_name(job.profile_id or "", workload_of(raw.job_id)),
    }
    if job.walltime is not None and job.walltime != -1:
        description["walltime"] = job.walltime
    if not job.rigid:
        description["rigid"] = False
    return d.RegisterJob(timestamp, raw.job_id, description)


def _read_probe(kind: str) -> Callable[[float, Any, str], d.Decision]:
    def read(timestamp: float, data: Any, path: str) -> d.Decision:
        if not isinstance(data, dict) or not isinstance(data.get("probe_id"), str):
            raise fault(path, "a probe requires its probe_id, a string")
        return d.ProbeRequest(timestamp, kind, data)

    return read


def _plain(kind: type[d.Decision]) -> Callable[[float, Any, str], d.Decision]:
    def read(timestamp: float, data: Any, path: str) -> d.Decision:
        convert_at(data, _Strict, path)
        return kind(timestamp)

    return read


_PROBES = ("CreateProbeEvent", "StopProbeEvent", "TriggerProbeEvent", "ResetProbeEvent")

_DECISION_READERS: dict[str, ReadDecision] = {
    "ExecuteJobEvent": _read_execute,
    "RejectJobEvent": lambda t, data, path: d.RejectJob(t, convert_at(data, _Rejected, path).job_id),
    "KillJobsEvent": lambda t, data, path: d.KillJobs(t, tuple(convert_at(data, _Kill, path).job_ids)),
    "TurnOnOffHostsEvent": _read_turn_on_off,
    "ChangeHostsPStateEvent": _read_change_pstate,
    "CallMeLaterEvent": _read_call_me_later,
    "StopCallMeLaterEvent": lambda t, data, path: d.StopCalls(
        t, convert_at(data, _StopCall, path).call_me_later_id
    ),
    "RegisterProfileEvent": _read_register_profile,
    "RegisterJobEvent": _read_register_job,
    "FinishRegistrationEvent": _plain(d.FinishRegistration),
    "ForceSimulationStopEvent": _plain(d.ForceStop),
    **{name: _read_probe(name) for name in _PROBES},
}
