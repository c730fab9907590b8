"""Batsim workloads (JSON), checked as Batsim checks them; how long their jobs run, and what they draw.

Files of Batsim 5 are recognized by the types of their profiles, and brought to the form of Batsim 4.
"""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.batsim_jobs import FileJob, FileJobs, JobColumns, check_terms, read_jobs
from beasy_sched.formats.batsim_profiles import (
    Composed,
    Parallel,
    Profile,
    ProfileNotModelled,
    WorkloadError,
    add_with_parts,
    parse_profile,
    profile_run_s,
)
from beasy_sched.formats.batsim_versions import is_of_batsim5, profile_from_batsim5
from beasy_sched.formats.decoding import JsonDecoder, Malformed, check_names
from beasy_sched.formats.reading import in_file, is_number, read_bytes
from beasy_sched.formats.swf_fields import FIELDS_A_ROW
from beasy_sched.limits import LARGEST_INT
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.model.platform import Platform
from beasy_sched.planner.forecast import demand_power_w, reference_speed_flops
from beasy_sched.protocol.json_numbers import as_batsim_tells

if TYPE_CHECKING:
    from beasy_sched.planner.requests import JobForecast


@dataclass
class Workload:
    """One workload file."""

    name: str
    """Batsim's name for the workload: w0, w1, ..."""
    path: str
    nb_res: int
    jobs: JobColumns
    """Jobs sorted by submission time, then by id as text: the order in which Batsim submits them."""
    profiles: dict[str, Profile]
    """Profiles that jobs refer to, directly or within a sequence."""
    raw_profiles: dict[str, dict[str, Any]]
    """Profiles as objects for the scheduler, in Batsim 4's form."""
    form: BatsimFormat = BatsimFormat.BATSIM4
    """Version of Batsim that the file is for."""
    dropped: tuple[str, ...] = ()
    """Members of jobs that Batsim 5 does not forward to the scheduler."""


_Job = TypeVar("_Job", FileJob, msgspec.Raw)


class _WorkloadFile(Struct, Generic[_Job]):
    nb_res: int
    jobs: list[_Job]
    profiles: dict[str, dict[str, Any]]


_PLAIN: Final[JsonDecoder[_WorkloadFile[FileJob]]] = JsonDecoder(_WorkloadFile[FileJob])
_RAW: Final[JsonDecoder[_WorkloadFile[msgspec.Raw]]] = JsonDecoder(_WorkloadFile[msgspec.Raw])


def read_workload(path: PathLike, name: str = "w0") -> Workload:
    """Read and check a workload file; ``name`` is what Batsim calls it.

    Raises InputError for anything that Batsim would refuse, and for profiles that are not simulated.
    """
    data = read_bytes(path)
    with _collector_paused(), in_file(path, WorkloadError):
        try:
            nb_res, file_jobs, raw_profiles = _decode(data)
        except Malformed as error:
            if data.lstrip()[:1] == b"<":
                raise WorkloadError(
                    "is XML, as platforms are, but a workload is JSON: are platform (-p) and workload (-w)"
                    " swapped?"
                ) from None
            if _is_swf(data):
                raise WorkloadError(
                    "is an SWF trace: 'beasy-sched generate workload TRACE' makes a workload of it"
                ) from None
            what = "" if error.line is not None else "not a Batsim workload: "
            raise InputError(path, f"{what}{error}", line=error.line) from None
        del data
        if not 1 <= nb_res <= LARGEST_INT:
            raise WorkloadError(f"'nb_res' is {nb_res}, expected the number of hosts, 1 to {LARGEST_INT}")
        form = BatsimFormat.BATSIM4
        if is_of_batsim5(raw_profiles):
            form, raw_profiles = BatsimFormat.BATSIM5, _from_batsim5(name, raw_profiles)
        jobs, dropped = read_jobs(name, file_jobs, form)
        del file_jobs
        one_text = {key: key for key in raw_profiles}  # for each name, or those of the jobs hold memory
        jobs.profile_names[:] = [one_text.get(name, name) for name in jobs.profile_names]
        profiles = _profiles(raw_profiles, jobs)
        check_terms(jobs)
        as_told = as_batsim_tells if form is BatsimFormat.BATSIM4 else dict
        used = {key: as_told(raw_profiles[key]) for key in raw_profiles if key in profiles}
    return Workload(name, os.fspath(path), nb_res, jobs.sorted(), profiles, used, form, dropped)


def _is_swf(data: bytes) -> bool:
    """Whether text begins with a comment or a row of the Standard Workload Format."""
    first, _, _ = data.lstrip().partition(b"\n")
    fields = first.decode("utf-8", "replace").split()
    return first.startswith(b";") or (len(fields) == FIELDS_A_ROW and all(map(is_number, fields)))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python's cyclic garbage collector from walking hundreds of thousands of new objects."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _decode(data: bytes) -> tuple[int, FileJobs, dict[str, dict[str, Any]]]:
    """Decode in one typed pass; only a file whose jobs have further members needs a second.

    Raises Malformed, also where an object has a name twice.
    """
    file: _WorkloadFile[Any] | None = _PLAIN.attempt(data)
    if file is not None:
        jobs = FileJobs.plain(file.jobs)
    else:
        file = _RAW.decode(data)
        jobs = FileJobs.of_texts(file.jobs)
    profiles = file.profiles
    names = None if jobs.names is None else 3 + jobs.names + len(profiles) + sum(map(len, profiles.values()))
    check_names(data, names)
    return file.nb_res, jobs, profiles


def _from_batsim5(name: str, profiles: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the profiles of a file of Batsim 5 in Batsim 4's form. Raises WorkloadError."""
    for profile in profiles:
        if name in profile:
            raise WorkloadError(
                f"profile {profile!r}: Batsim 5 refuses names that contain {name!r}, the workload's"
            )
    try:
        return {key: profile_from_batsim5(key, raw) for key, raw in profiles.items()}
    except ValueError as error:
        raise WorkloadError(str(error)) from None


def _profiles(raw: Mapping[str, Any], jobs: JobColumns) -> dict[str, Profile]:
    """The profiles that ``jobs`` use, directly or within a sequence. Raises WorkloadError."""
    parsed: dict[str, Profile | ProfileNotModelled] = {}
    for name, item in raw.items():
        try:
            parsed[name] = parse_profile(name, item)
        except ProfileNotModelled as error:
            parsed[name] = error
    for name, profile in parsed.items():
        for part in profile.sequence if isinstance(profile, Composed) else ():
            if part not in raw:
                raise WorkloadError(f"profile {name!r}: 'seq' names {part!r}, which does not exist")
    depths: dict[str, int] = {}
    first_of_shape, _ = jobs.shapes()
    for place in np.sort(first_of_shape).tolist():
        name, res = jobs.profile_names[jobs.profile.item(place)], jobs.res.item(place)
        if name not in raw:
            raise WorkloadError(f"job {jobs.ids[place]!r}: the profile {name!r} does not exist")
        add_with_parts(name, parsed, depths)
        profile = parsed[name]
        if isinstance(profile, Parallel) and len(profile.flops) != res:
            raise WorkloadError(
                f"job {jobs.ids[place]!r}: 'res' is {res}, but 'cpu' of its profile {name!r} has"
                f" {len(profile.flops)} values: expected one for each host"
            )
    return {name: profile for name in depths if isinstance(profile := parsed[name], Profile)}


def run_times_s(workload: Workload, speed_flops: float) -> FloatArray:
    """Seconds that each job would run on hosts of this speed (flops/s) without a walltime."""
    jobs = workload.jobs
    first_of_shape, shape = jobs.shapes()
    known_s = [
        profile_run_s(jobs.profile_names[profile], workload.profiles, res, speed_flops)
        for profile, res in zip(
            jobs.profile[first_of_shape].tolist(), jobs.res[first_of_shape].tolist(), strict=True
        )
    ]
    return np.array(known_s, dtype=np.float64)[shape]


def expected_runs_s(workload: Workload, speed_flops: float, *, walltimes: bool = False) -> FloatArray:
    """Seconds that each job runs on hosts of this speed (flops/s), its walltime at most.

    With ``walltimes``, the walltimes themselves: all that a scheduler may know. Raises InputError for a
    job without one then.
    """
    limits_s = workload.jobs.walltime_s
    if not walltimes:
        return np.minimum(limits_s, run_times_s(workload, speed_flops))
    without = (limits_s == math.inf).nonzero()[0]
    if len(without):
        job_id = workload.jobs.ids[without.item(0)]
        raise InputError(workload.path, f"job {job_id!r} has no walltime to forecast its run from")
    return limits_s


def workload_demand_w(
    paths: Sequence[Path], platform: Platform, *, steps: int, step_s: float, walltimes: bool = False
) -> FloatArray:
    """Return the demand (W a step) of Batsim workloads that are played together.

    Runs are expected to last as their profiles state, or to their ``walltimes``. Raises InputError.
    """
    jobs = expected_jobs(paths, platform, walltimes=walltimes)
    return demand_power_w(platform, jobs.submit_s, jobs.run_s, jobs.hosts, steps=steps, step_s=step_s)


def expected_jobs(paths: Sequence[PathLike], platform: Platform, *, walltimes: bool = False) -> JobForecast:
    """Return submission times and expected run times of the jobs of workloads. Raises InputError."""
    from beasy_sched.planner.requests import JobForecast

    speed = reference_speed_flops(platform)
    submit, runs, hosts = [], [], []
    for number, path in enumerate(paths):
        workload = read_workload(path, f"w{number}")
        submit.append(workload.jobs.subtime_s)
        runs.append(expected_runs_s(workload, speed, walltimes=walltimes))
        hosts.append(workload.jobs.res)
    return JobForecast(np.concatenate(submit), np.concatenate(runs), np.concatenate(hosts))
