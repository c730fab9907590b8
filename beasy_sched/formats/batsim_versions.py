"""Conversion between input files of Batsim 4 and 5: names, and the place of users' own fields.

The rest of the package works with Batsim 4's form; files of Batsim 5 are brought to it as they are read.
Sources: the sources of Batsim v5.0.0-rc2, and runs of it (docs/guides/batsim.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from beasy_sched.formats.decoding import ANY_JSON, Malformed
from beasy_sched.protocol.batsim5_terms import (
    EACH_AMOUNT,
    PROFILE_FIELDS,
    PROFILE_TYPES,
    SPREAD_AMOUNTS,
    read_extras,
    write_extras,
)

_OLD_TYPES: Final = {new: old for old, new in PROFILE_TYPES.items() if old != "parallel_homogeneous_total"}
TYPES_OF_BATSIM5_ALONE: Final = frozenset(PROFILE_FIELDS) - frozenset(_OLD_TYPES)
"""Types of profiles that Batsim 5 has, and that have no counterpart here."""

_STRATEGY: Final = "generation_strategy"
_EXTRA_DATA: Final = "extra_data"
_PROFILE_MEMBERS: Final = frozenset({"type", "ret", "delay", "cpu", "com", "repeat", "seq"})
JOB_MEMBERS: Final = frozenset({"id", "subtime", "res", "profile", "walltime"})
"""Members of a job that Batsim itself reads, in both versions."""

GENERIC_EVENT: Final = "generic"
"""The one type of external events that Batsim 5 knows."""
DEFAULT_EVENT_TYPE: Final = "user_specific_type"
"""The type of the thesis's example; Batsim 4 forwards any type it does not know."""


def is_of_batsim5(profiles: Mapping[str, Any]) -> bool:
    """Whether a workload with these profiles is one of Batsim 5: a profile has a type of Batsim 5."""
    types = [profile.get("type") for profile in profiles.values() if isinstance(profile, Mapping)]
    return any(isinstance(kind, str) and kind in PROFILE_FIELDS for kind in types)


# --- profiles ---


def profile_from_batsim5(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a profile of Batsim 5 in Batsim 4's form; unknown types stay unchanged.

    Raises ValueError for a type of Batsim 4, which Batsim 5 refuses, and a wrong ``generation_strategy``.
    """
    kind = raw.get("type")
    if kind in PROFILE_TYPES:
        raise ValueError(
            f"profile {name!r} has the type {kind!r} of Batsim 4 among profiles of Batsim 5, where it is"
            f" called {PROFILE_TYPES[kind]!r}"
        )
    if not isinstance(kind, str) or kind not in _OLD_TYPES:
        return dict(raw)
    profile = {key: value for key, value in raw.items() if key in _PROFILE_MEMBERS}
    profile["type"] = _OLD_TYPES[kind]
    if kind == PROFILE_TYPES["parallel_homogeneous"]:
        strategy = raw.get(_STRATEGY, EACH_AMOUNT)
        if strategy not in (EACH_AMOUNT, SPREAD_AMOUNTS):
            raise ValueError(
                f"profile {name!r}: {_STRATEGY!r} is {strategy!r}, expected {EACH_AMOUNT!r} or"
                f" {SPREAD_AMOUNTS!r}"
            )
        if strategy == SPREAD_AMOUNTS:
            profile["type"] = "parallel_homogeneous_total"
    return profile | (extras_from(raw.get(_EXTRA_DATA), _PROFILE_MEMBERS) or {})


def profile_for_batsim5(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a profile of Batsim 4 in Batsim 5's form. Raises ValueError for types without a counterpart."""
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in PROFILE_TYPES:
        raise ValueError(
            f"profile {name!r} has the type {kind!r}: profiles of the types {', '.join(PROFILE_TYPES)} can be"
            " converted for Batsim 5"
        )
    profile = {key: value for key, value in raw.items() if key in _PROFILE_MEMBERS}
    profile["type"] = PROFILE_TYPES[kind]
    if kind == "parallel_homogeneous_total":
        profile[_STRATEGY] = SPREAD_AMOUNTS
    own = {key: value for key, value in raw.items() if key not in _PROFILE_MEMBERS}
    return profile | ({_EXTRA_DATA: write_extras(own)} if own else {})


# --- what users add to jobs and profiles ---


def extras_from(extra_data: Any, taken: frozenset[str] = JOB_MEMBERS) -> dict[str, Any] | None:
    """Return the members that a job of Batsim 4 has for this ``extra_data`` of Batsim 5.

    Those are the members of a JSON object, written out as a string or not. Any other text, and an object with
    a member that is among those ``taken``, becomes one member, ``extra_data``. None where there is nothing.
    """
    if extra_data is None:
        return None
    text = extra_data if isinstance(extra_data, str) else json.dumps(extra_data)
    members = read_extras(text)
    if members is not None and not taken.intersection(members):
        return members
    return None if members is None else {_EXTRA_DATA: extra_data}


def job_from_batsim5(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job of Batsim 5 in Batsim 4's form, without the members that Batsim 5 drops."""
    job = {key: value for key, value in raw.items() if key in JOB_MEMBERS}
    return job | (extras_from(raw.get(_EXTRA_DATA)) or {})


def job_for_batsim5(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job of Batsim 4 in Batsim 5's form: no limit is an absent walltime, not -1."""
    job = {key: value for key, value in raw.items() if key in JOB_MEMBERS}
    if job.get("walltime") == -1:
        del job["walltime"]
    own = {key: value for key, value in raw.items() if key not in JOB_MEMBERS}
    return job | ({_EXTRA_DATA: write_extras(own)} if own else {})


def dropped_by_batsim5(raw: Mapping[str, Any]) -> list[str]:
    """Name the members of a job that Batsim 5 does not forward to the scheduler."""
    return [key for key in raw if key not in JOB_MEMBERS and key != _EXTRA_DATA]


# --- external events ---


def event_from_batsim5(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a generic event, whose ``data`` is a string, as Batsim 4 forwards one: an object.

    The members of a JSON object are those of the event. Its type is the object's, or else
    `DEFAULT_EVENT_TYPE`. Data of other sorts stays a string, in an event of the type ``generic``.
    """
    try:
        members = ANY_JSON.decode(line["data"].encode())
    except Malformed:
        members = None
    if not isinstance(members, dict) or not isinstance(members.get("type", ""), str):
        return dict(line)
    own = {key: value for key, value in members.items() if key not in ("type", "timestamp")}
    return {"type": members.get("type", DEFAULT_EVENT_TYPE), "timestamp": line["timestamp"], **own}


def is_generic_event(line: Mapping[str, Any]) -> bool:
    """Whether an event has the form of Batsim 5."""
    return line.get("type") == GENERIC_EVENT and isinstance(line.get("data"), str)


def event_for_batsim5(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event of Batsim 4 as a generic one, whose data is the text of its object."""
    if is_generic_event(line):
        return dict(line)
    left_out = ("timestamp", "type") if line["type"] == DEFAULT_EVENT_TYPE else ("timestamp",)
    data = {key: value for key, value in line.items() if key not in left_out}
    return {
        "type": GENERIC_EVENT,
        "timestamp": float(line["timestamp"]),
        "data": json.dumps(data, ensure_ascii=False),
    }


# --- whole files ---


def workload_for_batsim5(raw: Mapping[str, Any], name: str = "w0") -> tuple[dict[str, Any], list[str]]:
    """Return a workload of Batsim 4 in Batsim 5's form, and what has been renamed in it.

    ``name`` is what Batsim will call the workload. Batsim 5 aborts on names of profiles that contain it,
    which get another name here. Raises ValueError for ids of jobs that contain it, which Batsim 4 refuses as
    well, and for profiles that cannot be converted.
    """
    jobs, profiles = _parts(raw)
    new_names = _free_names(profiles, name)
    for job in jobs:
        if name in (job_id := str(job.get("id"))) and not _is_complete(job_id, name):
            raise ValueError(
                f"job {job_id!r}: Batsim refuses ids that contain the workload's name, {name!r}: choose"
                " another id"
            )
    made: dict[str, Any] = {}
    for old, profile in profiles.items():
        made[new_names[old]] = new = profile_for_batsim5(old, profile)
        if isinstance(new.get("seq"), list):
            new["seq"] = [new_names.get(part, part) for part in new["seq"]]
    renamed = [f"profile {old!r} is now {new!r}" for old, new in new_names.items() if new != old]
    done = [job_for_batsim5(job) for job in jobs]
    for job in done:
        if (new_name := new_names.get(str(job.get("profile")))) is not None:
            job["profile"] = new_name
    return {**raw, "jobs": done, "profiles": made}, renamed


def workload_for_batsim4(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a workload of Batsim 5 in Batsim 4's form, and what was omitted: what Batsim 5 drops itself.

    Raises ValueError for profiles that cannot be converted.
    """
    jobs, profiles = _parts(raw)
    for name, profile in profiles.items():
        if profile.get("type") in TYPES_OF_BATSIM5_ALONE:
            raise ValueError(f"profile {name!r}: Batsim 4 has no counterpart of {profile['type']!r}")
    made = {name: profile_from_batsim5(name, profile) for name, profile in profiles.items()}
    dropped = sorted({member for job in jobs for member in dropped_by_batsim5(job)})
    left_out = [f"dropped job fields that Batsim 5 does not forward: {', '.join(dropped)}"] if dropped else []
    return {**raw, "jobs": [job_from_batsim5(job) for job in jobs], "profiles": made}, left_out


def _parts(raw: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    jobs, profiles = raw.get("jobs"), raw.get("profiles")
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise ValueError("'jobs' is not an array of objects")
    if not isinstance(profiles, dict) or not all(isinstance(profile, dict) for profile in profiles.values()):
        raise ValueError("'profiles' is not an object of objects")
    return jobs, profiles


def _is_complete(job_id: str, workload: str) -> bool:
    """Whether an id is written as ``workload!id``."""
    before, _, after = job_id.partition("!")
    return before == workload and bool(after) and "!" not in after


def _free_names(names: Mapping[str, Any], workload: str) -> dict[str, str]:
    """Return the name in Batsim 5 of each profile."""
    new_names: dict[str, str] = {}
    taken = {name for name in names if workload not in name}
    for name in names:
        new = name
        if workload in name:
            new = name.replace(workload, f"{workload[0]}_{workload[1:]}").replace("!", "_")
            while new in taken or workload in new:
                new += "_"
            taken.add(new)
        new_names[name] = new
    return new_names
