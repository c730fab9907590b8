"""Reading Batsim workloads (JSON), checked as Batsim 4 checks them."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_profiles import (
    Composed,
    Parallel,
    Profile,
    ProfileError,
    ProfileNotModelled,
    check_sequences,
    parse_profile,
)
from beasy_sched.formats.json_numbers import rounded

LARGEST_INT = 2**31 - 1
"""Largest integer that Batsim reads where it wants one: in ``res`` and ``nb_res``."""
NO_WALLTIME = -1
"""How a file may say that a job has no time limit."""


class WorkloadJob(Struct, gc=False):
    """One job of a workload; numbers are as in the file (an integer stays one)."""

    id: str
    """With its workload: ``"w0!7"``."""
    subtime: float | int
    res: int
    profile: str
    walltime: float | int | None = None
    extras: dict[str, Any] | None = None
    """Members that Batsim does not know; they travel to the scheduler."""


@dataclass
class Workload:
    """One workload file."""

    name: str
    """Batsim's name for it: w0, w1, ..."""
    path: str
    nb_res: int
    jobs: list[WorkloadJob]
    """Sorted by submission time, then by id as text: the order in which Batsim submits them."""
    profiles: dict[str, Profile]
    """Those that jobs refer to, directly or within a sequence."""
    raw_profiles: dict[str, dict[str, Any]]
    """The same as objects, for the scheduler."""


class _FileJob(Struct, forbid_unknown_fields=True, gc=False):
    id: str | int
    subtime: float | int
    res: int
    profile: str
    walltime: float | int = NO_WALLTIME


class _File(Struct):
    nb_res: int
    jobs: list[_FileJob]
    profiles: dict[str, dict[str, Any]]


class _RawFile(Struct):
    nb_res: int
    jobs: list[msgspec.Raw]
    profiles: dict[str, dict[str, Any]]


_KNOWN = frozenset(("id", "subtime", "res", "profile", "walltime"))


def read_workload(path: str | os.PathLike[str], name: str = "w0") -> Workload:
    """Read and check a workload file; ``name`` is what Batsim calls it.

    Raises InputError for anything that Batsim would refuse, and for profiles that are not simulated.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from None
    with _collector_paused():
        jobs, raw_profiles, nb_res = _decode(path, name, data)
        del data
        if not 1 <= nb_res <= LARGEST_INT:
            raise InputError(path, f"'nb_res' is {nb_res}, expected the number of hosts, 1 to {LARGEST_INT}")
        profiles = _profiles(path, raw_profiles, jobs)
        jobs.sort(key=lambda job: (job.subtime, job.id))
        used = {key: rounded(raw_profiles[key]) for key in raw_profiles if key in profiles}
    return Workload(name, os.fspath(path), nb_res, jobs, profiles, used)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python's cyclic garbage collector from walking hundreds of thousands of new objects."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _decode(
    path: str | os.PathLike[str], name: str, data: bytes
) -> tuple[list[WorkloadJob], dict[str, dict[str, Any]], int]:
    """Decode in one typed pass; only a file whose jobs have further members needs a second."""
    seen: set[str] = set()
    try:
        try:
            file = msgspec.json.decode(data, type=_File)
        except msgspec.ValidationError:
            raw = msgspec.json.decode(data, type=_RawFile)
            jobs = [_with_extras(path, name, seen, i, text) for i, text in enumerate(raw.jobs)]
            return jobs, raw.profiles, raw.nb_res
        jobs = [_checked(path, name, seen, i, job, None) for i, job in enumerate(file.jobs)]
        return jobs, file.profiles, file.nb_res
    except msgspec.ValidationError as error:
        raise InputError(path, f"not a Batsim workload: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(path, f"not valid JSON: {error}") from None
    except RecursionError:
        raise InputError(path, "nested too deeply") from None


def _with_extras(
    path: str | os.PathLike[str], name: str, seen: set[str], index: int, text: msgspec.Raw
) -> WorkloadJob:
    try:
        members = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.ValidationError as error:
        raise InputError(path, f"jobs[{index}]: {error}") from None
    return parse_job(path, name, members, seen, index)


def parse_job(
    path: str | os.PathLike[str] | None,
    workload: str,
    members: Mapping[str, Any],
    seen: set[str] | None = None,
    index: int = 0,
) -> WorkloadJob:
    """Check one job object of a workload; ``seen`` holds the ids before it. Raises InputError."""
    try:
        job = msgspec.convert({k: v for k, v in members.items() if k in _KNOWN}, _FileJob)
    except msgspec.ValidationError as error:
        raise InputError(path, f"jobs[{index}]: {error}") from None
    extras = {k: v for k, v in members.items() if k not in _KNOWN}
    return _checked(path, workload, set() if seen is None else seen, index, job, extras or None)


def _checked(
    path: str | os.PathLike[str] | None,
    name: str,
    seen: set[str],
    index: int,
    job: _FileJob,
    extras: dict[str, Any] | None,
) -> WorkloadJob:
    job_id = full_job_id(path, name, str(job.id))
    if job_id in seen:
        raise InputError(path, f"jobs[{index}]: the id {job_id!r} occurs twice")
    seen.add(job_id)
    subtime, walltime = job.subtime, job.walltime
    if subtime < 0:
        raise InputError(path, f"job {job_id!r}: 'subtime' is {subtime:g}, expected 0 or more")
    if not 1 <= job.res <= LARGEST_INT:
        raise InputError(path, f"job {job_id!r}: 'res' is {job.res}, expected 1 to {LARGEST_INT}")
    if walltime <= 0 and walltime != NO_WALLTIME:
        raise InputError(
            path,
            f"job {job_id!r} has an invalid walltime ({walltime:g}): expected -1 (no walltime) or a strictly"
            " positive number",
        )
    if extras is not None:
        extras = _renamed(rounded(extras), job_id)
    limit = None if walltime == NO_WALLTIME else walltime
    return WorkloadJob(job_id, subtime, job.res, job.profile, limit, extras)


def full_job_id(path: str | os.PathLike[str] | None, workload: str, text: str) -> str:
    """Return the id with its workload, by Batsim's rule. Raises InputError."""
    if workload not in text:
        if "!" not in text:
            return f"{workload}!{text}"
    elif len(parts := text.split("!")) == 2:
        return "!".join(parts)
    raise InputError(
        path,
        f"Invalid string job identifier {text!r}: an id must not contain '!', nor the workload's name"
        f" {workload!r} unless it is written as '{workload}!id'",
    )


def _renamed(value: Any, job_id: str) -> Any:
    """Overwrite nested members named ``id``: Batsim replaces them all, by a regular expression."""
    if isinstance(value, dict):
        return {
            k: job_id if k == "id" and isinstance(v, (str, int)) else _renamed(v, job_id)
            for k, v in value.items()
        }
    return [_renamed(item, job_id) for item in value] if isinstance(value, list) else value


def _profiles(
    path: str | os.PathLike[str], raw: Mapping[str, Any], jobs: list[WorkloadJob]
) -> dict[str, Profile]:
    parsed: dict[str, Profile] = {}
    later: dict[str, ProfileNotModelled] = {}
    for name, item in raw.items():
        try:
            parsed[name] = parse_profile(name, item)
        except ProfileNotModelled as error:
            later[name] = error
        except ProfileError as error:
            raise InputError(path, str(error)) from None
    for name, profile in parsed.items():
        for part in profile.sequence if isinstance(profile, Composed) else ():
            if part not in raw:
                raise InputError(path, f"profile {name!r}: 'seq' names {part!r}, which does not exist")
    used: dict[str, Profile] = {}
    names = {name: name for name in raw}
    for job in jobs:
        name = job.profile
        if name not in names:
            raise InputError(path, f"job {job.id!r}: the profile {name!r} does not exist")
        job.profile = names[name]
        if name not in used:
            _use(path, name, parsed, later, used)
        profile = used[name]
        if isinstance(profile, Parallel) and len(profile.flops) != job.res:
            raise InputError(
                path,
                f"job {job.id!r}: 'res' is {job.res}, but 'cpu' of its profile {name!r} has"
                f" {len(profile.flops)} values: expected one for each host",
            )
    return used


def _use(
    path: str | os.PathLike[str],
    name: str,
    parsed: dict[str, Profile],
    later: dict[str, ProfileNotModelled],
    used: dict[str, Profile],
) -> None:
    """Add a profile, and those of its sequence, to ``used``."""
    if name in later:
        raise InputError(path, str(later[name]))
    used[name] = profile = parsed[name]
    if not isinstance(profile, Composed):
        return
    for part in profile.sequence:
        if part in later:
            raise InputError(path, str(later[part]))
    try:
        check_sequences(parsed, [name])
    except (ProfileError, KeyError) as error:
        message = str(error) if isinstance(error, ProfileError) else str(later[error.args[0]])
        raise InputError(path, message) from None
    for part in profile.sequence:
        if part not in used:
            _use(path, part, parsed, later, used)
