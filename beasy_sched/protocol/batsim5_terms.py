"""Translation between the model's terms, those of Batsim 4, and Batsim 5's: names, profiles, progress, texts.

A profile is ``{"type": "delay", "delay": 5}`` in the model, and its name is given without the workload if
that is the job's own. Types that Batsim 4 does not have keep their name and fields. A job's ``extra_data`` is
read as the JSON object of its user's fields; any other string is kept as the field ``extra_data``. The data
of an external event is read in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from beasy_sched.protocol.wire import convert_at

_MOST_HOSTS = 2**31 - 1


class WireJob(Struct):
    """Job on the wire."""

    resource_request: Annotated[int, Meta(ge=0, le=_MOST_HOSTS)] = 0
    walltime: float | int | None = None
    extra_data: str | None = None
    rigid: bool = True
    profile_id: str | None = None


class WireProfile(Struct):
    """Profile on the wire."""

    id: str
    profile_type: str
    profile: dict[str, Any]
    extra_data: str | None = None


# --- names: complete on the wire, without the own workload in the model ---


def workload_of(job_id: str) -> str:
    """Return the workload in the id of a job or profile; empty if there is none."""
    return job_id.partition("!")[0] if "!" in job_id else ""


def bare_name(profile_id: str, workload: str) -> str:
    """Return a profile's name without the workload, if it is this one and the name stays unambiguous."""
    prefix, bang, name = profile_id.partition("!")
    return name if bang and prefix == workload and name and "!" not in name else profile_id


def complete_name(name: str, workload: str) -> str:
    """Return a profile's name with its workload."""
    return f"{workload}!{name}" if name and workload and "!" not in name else name


# --- profiles and progress, which the model has in the terms of Batsim 4 ---

_HOMOGENEOUS = "ParallelTaskHomogeneousProfile"
EACH_AMOUNT, SPREAD_AMOUNTS = "DefinedAmountsUsedForEachValue", "DefinedAmountsSpreadUniformly"
_STORAGE = "ParallelTaskOnStorageHomogeneousProfile"
_STAGING = "ParallelTaskDataStagingBetweenStoragesProfile"

PROFILE_FIELDS: dict[str, tuple[str, ...]] = {
    "DelayProfile": ("delay",),
    "ParallelTaskProfile": ("computation_vector", "communication_matrix"),
    _HOMOGENEOUS: ("computation_amount", "communication_amount", "generation_strategy"),
    "SequentialCompositionProfile": ("repetition_count", "profile_ids"),
    "ForkJoinCompositionProfile": ("profile_ids",),
    "ParallelTaskMergeCompositionProfile": ("profile_ids",),
    _STORAGE: ("storage_name", "bytes_to_read", "bytes_to_write", "generation_strategy"),
    _STAGING: ("bytes_to_transfer", "emitter_storage_name", "receiver_storage_name"),
    "TraceReplayProfile": ("trace_type", "filename"),
}
"""Types of profiles, and their fields."""

PROFILE_TYPES = {
    "delay": "DelayProfile",
    "parallel": "ParallelTaskProfile",
    "parallel_homogeneous": _HOMOGENEOUS,
    "parallel_homogeneous_total": _HOMOGENEOUS,
    "composed": "SequentialCompositionProfile",
}
"""Batsim 4's types of profiles with another name in Batsim 5."""
_FIELD_OF = {
    "DelayProfile": {"delay": "delay"},
    "ParallelTaskProfile": {"cpu": "computation_vector", "com": "communication_matrix"},
    _HOMOGENEOUS: {"cpu": "computation_amount", "com": "communication_amount"},
    "SequentialCompositionProfile": {"repeat": "repetition_count", "seq": "profile_ids"},
}
"""Fields of profiles by type of Batsim 5: Batsim 4's names, and Batsim 5's."""


def read_profile(x: WireProfile) -> dict[str, Any]:
    """Translate a profile into the terms of Batsim 4; unknown types are kept."""
    names = _FIELD_OF.get(x.profile_type)
    more = {} if x.extra_data is None else {"extra_data": x.extra_data}
    if names is None:
        return {"type": x.profile_type, **x.profile, **more}
    kind = next(old for old, new in PROFILE_TYPES.items() if new == x.profile_type)
    if x.profile.get("generation_strategy") == SPREAD_AMOUNTS:
        kind = "parallel_homogeneous_total"
    fields = {old: x.profile[new] for old, new in names.items() if new in x.profile}
    if isinstance(fields.get("seq"), list):
        fields["seq"] = [bare_name(str(each), workload_of(x.id)) for each in fields["seq"]]
    return {"type": kind, **fields, **more}


def write_profile(profile_id: str, profile: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a profile of the model into that of the wire."""
    kind = str(profile.get("type"))
    wire_kind = PROFILE_TYPES.get(kind, kind)
    names = _FIELD_OF.get(wire_kind)
    if names is None:
        data = {name: value for name, value in profile.items() if name not in ("type", "extra_data")}
    else:
        data = {new: profile[old] for old, new in names.items() if old in profile}
    if wire_kind == _HOMOGENEOUS:
        data = {"computation_amount": 0.0, "communication_amount": 0.0, **data}
        total = kind == "parallel_homogeneous_total"
        data["generation_strategy"] = SPREAD_AMOUNTS if total else EACH_AMOUNT
    if kind == "composed":
        data = {"repetition_count": 1, **data}
        data["profile_ids"] = [
            complete_name(name, workload_of(profile_id)) for name in data.get("profile_ids", ())
        ]
    written = {"id": profile_id, "profile_type": wire_kind, "profile": data}
    return written | ({"extra_data": profile["extra_data"]} if "extra_data" in profile else {})


def read_profiles(profiles: Iterable[WireProfile]) -> dict[str, dict[str, dict[str, Any]]]:
    """Sort profiles by workload and name."""
    by_workload: dict[str, dict[str, dict[str, Any]]] = {}
    for profile in profiles:
        workload = workload_of(profile.id)
        by_workload.setdefault(workload, {})[bare_name(profile.id, workload)] = read_profile(profile)
    return by_workload


def write_profiles(profiles: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the profiles of all workloads, as on the wire."""
    return [
        write_profile(complete_name(name, workload), profile)
        for workload, some in profiles.items()
        for name, profile in some.items()
    ]


class _Atomic(Struct):
    profile_id: str
    progress: float = 0.0


class _Sequential(Struct):
    profile_id: str
    current_task_progress: dict[str, Any]
    current_repetition: int = 0
    current_task_index: int = 0


class _ForkJoin(Struct):
    profile_id: str
    tasks_progress: list[dict[str, Any]]


class _Wrapper(Struct):
    kill_progress_type: str
    kill_progress: dict[str, Any]


def read_progress(wrapper: Any, workload: str, path: str) -> dict[str, Any]:
    """Translate the progress of a killed job's profile."""
    raw = convert_at(wrapper, _Wrapper, path)
    path = f"{path}.kill_progress"
    if raw.kill_progress_type == "KillProgressSequentialProfile":
        part = convert_at(raw.kill_progress, _Sequential, path)
        return {
            "profile_name": bare_name(part.profile_id, workload),
            "current_repetition": part.current_repetition,
            "current_task_index": part.current_task_index,
            "current_task": read_progress(
                part.current_task_progress, workload, f"{path}.current_task_progress"
            ),
        }
    if raw.kill_progress_type == "KillProgressForkJoinProfile":
        forked = convert_at(raw.kill_progress, _ForkJoin, path)
        tasks = [
            read_progress(task, workload, f"{path}.tasks_progress[{index}]")
            for index, task in enumerate(forked.tasks_progress)
        ]
        return {"profile_name": bare_name(forked.profile_id, workload), "tasks": tasks}
    if raw.kill_progress_type != "KillProgressAtomicProfile":
        return {"kill_progress_type": raw.kill_progress_type, "kill_progress": raw.kill_progress}
    leaf = convert_at(raw.kill_progress, _Atomic, path)
    return {"profile_name": bare_name(leaf.profile_id, workload), "progress": leaf.progress}


def write_progress(progress: Mapping[str, Any], workload: str) -> dict[str, Any]:
    """Translate progress back."""
    if "kill_progress_type" in progress:
        return dict(progress)
    data: dict[str, Any] = {"profile_id": complete_name(str(progress.get("profile_name", "")), workload)}
    if "current_task" in progress:
        kind = "KillProgressSequentialProfile"
        data |= {
            "current_repetition": progress.get("current_repetition", 0),
            "current_task_index": progress.get("current_task_index", 0),
            "current_task_progress": write_progress(progress["current_task"], workload),
        }
    elif "tasks" in progress:
        kind = "KillProgressForkJoinProfile"
        data["tasks_progress"] = [write_progress(task, workload) for task in progress["tasks"]]
    else:
        kind = "KillProgressAtomicProfile"
        data["progress"] = float(progress.get("progress", 0.0))
    return {"kill_progress_type": kind, "kill_progress": data}


# --- strings in which users write JSON ---

NO_MORE = {
    "no_more_static_job_to_submit": "AllStaticJobsHaveBeenSubmittedEvent",
    "no_more_external_event_to_occur": "AllStaticExternalEventsHaveBeenInjectedEvent",
}
"""Separate events in Batsim 5 that are kinds of `Notify`."""

_MACHINES = {
    "machine_available": "event_machine_available",
    "machine_unavailable": "event_machine_unavailable",
}
"""Types of external events in Batsim's documentation, and their kinds of `Notify`."""
_GENERIC = "generic"


def _object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a string, or None."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_extras(text: str | None) -> dict[str, Any] | None:
    """Read the fields of a job's user from its ``extra_data``."""
    if not text:
        return None
    members = _object(text)
    return {"extra_data": text} if members is None else members or None


def write_extras(extras: Mapping[str, Any] | None) -> str:
    """Write the fields of a job's user as its ``extra_data``."""
    if not extras:
        return ""
    return _own_text(extras, "extra_data") or msgspec.json.encode(extras).decode()


def _own_text(fields: Mapping[str, Any], name: str) -> str:
    """Return the only string, under ``name``, if it would be read as such; else an empty one."""
    text = fields.get(name)
    alone = len(fields) == 1 and isinstance(text, str) and _object(text) is None
    return str(text) if alone else ""


def read_notice(text: str) -> tuple[str, dict[str, Any]]:
    """Read the data of an external event: kind and fields of its notice."""
    members = _object(text)
    if members is None:
        return _GENERIC, {"data": text}
    kind = members.get("type")
    if not isinstance(kind, str) or kind in NO_MORE or kind in _MACHINES.values():
        return _GENERIC, members
    if kind in _MACHINES:
        kind = _MACHINES[kind]
        return kind, {**members, "type": kind}
    return kind, members


def write_notice(kind: str, data: Mapping[str, Any]) -> str:
    """Write the data of an external event."""
    name = next((name for name, ours in _MACHINES.items() if ours == kind), None)
    if name is not None:
        data = {**data, "type": name}
    return _own_text(data, "data") or msgspec.json.encode(data).decode()
