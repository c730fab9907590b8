"""Batsim workloads (JSON), checked as Batsim checks them; how long their jobs run, and what they draw.

Files of Batsim 5 are recognised by the types of their profiles, and brought to the form of Batsim 4.

Of the execution profiles, ``delay``, ``parallel_homogeneous``, ``parallel_homogeneous_total`` and
``parallel`` without communication are modelled, and ``composed`` sequences of them. Everything else is
refused by name.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.formats.batsim_versions import (
    JOB_MEMBERS,
    TYPES_OF_BATSIM5_ALONE,
    BatsimFormat,
    dropped_by_batsim5,
    is_of_batsim5,
    job_from_batsim5,
    profile_from_batsim5,
)
from beasy_sched.formats.decoding import JsonDecoder, Malformed, check_names, convert_json
from beasy_sched.formats.reading import in_file, read_bytes
from beasy_sched.limits import LARGEST_INT, LATEST_S, LONGEST_ID, LONGEST_JOB, MOST_FLOPS, shortened
from beasy_sched.model.jobs import Terms, TermsError, read_terms
from beasy_sched.model.platform import Platform
from beasy_sched.model.workflow import in_order, predecessors_of
from beasy_sched.numbers import Range, found_text
from beasy_sched.planner.forecast import demand_power_w, reference_speed_flops
from beasy_sched.planner.requests import JobForecast
from beasy_sched.protocol.wire import as_batsim_reads, rounded
from beasy_sched.structs import check_numbers, has_usual_numbers

_MODELLED = ("delay", "parallel_homogeneous", "parallel_homogeneous_total", "parallel", "composed")
_OTHERS = {
    "smpi": "needs the replay of MPI traces",
    "usage_trace": "needs the replay of usage traces",
    "parallel_homogeneous_pfs": "reads and writes a parallel file system",
    "parallel_homogeneous_pfs_multiple_tiers": "reads and writes a parallel file system",
    "data_staging": "moves data between storages",
    "send": "sends messages to the scheduler",
    "recv": "receives messages from the scheduler",
}
_OLD_NAMES = {
    "msg_par": "parallel",
    "msg_par_hg": "parallel_homogeneous",
    "msg_par_hg_tot": "parallel_homogeneous_total",
    "msg_par_hg_pfs": "parallel_homogeneous_pfs",
    "msg_par_hg_pfs0": "parallel_homogeneous_pfs",
}


_TIME: Final = Range(0, LATEST_S)


class WorkloadError(ValueError):
    """A job or profile is wrong, or of a sort that is not simulated: the text says which and why."""


class ProfileNotModelled(WorkloadError):
    """A profile that Batsim could run, but that is not simulated here."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Base of all profiles."""

    name: str
    return_code: int
    """0, or what the job returns: above 0 it has failed."""


@dataclass(frozen=True, slots=True)
class Delay(Profile):
    """Wait, drawing idle power."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Homogeneous(Profile):
    """The same computation on every host."""

    flops: float
    """Flops of each executor, or of all together if ``total``."""
    total: bool = False


@dataclass(frozen=True, slots=True)
class Parallel(Profile):
    """A computation of its own on every host."""

    flops: tuple[float, ...]
    """Flops of each executor, in the order of the allocation."""


@dataclass(frozen=True, slots=True)
class Composed(Profile):
    """Other profiles one after the other, the whole sequence ``repeat`` times."""

    sequence: tuple[str, ...]
    repeat: int


def parse_profile(name: str, raw: Any) -> Profile:
    """Check one profile as Batsim does. Raises WorkloadError."""
    if not isinstance(raw, Mapping):
        raise WorkloadError(f"profile {name!r} is not an object")
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise WorkloadError(f"profile {name!r} has no 'type' text")
    if kind not in _MODELLED:
        raise _unknown(name, kind)
    code = raw.get("ret", 0)
    if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= LARGEST_INT:
        raise WorkloadError(
            f"profile {name!r}: 'ret' is {found_text(code)}, expected an integer of 0 or more"
            " (-1 and -2 are for kills)"
        )
    if kind == "delay":
        return Delay(name, code, _number(name, raw, "delay", positive=True))
    if kind == "composed":
        return _composed(name, code, raw)
    profile: Profile
    if kind == "parallel":
        profile, communicates = Parallel(name, code, _amounts(name, raw)), any(raw["com"])
    else:
        flops, communicates = _number(name, raw, "cpu"), _number(name, raw, "com") > 0
        profile = Homogeneous(name, code, flops, kind == "parallel_homogeneous_total")
    if communicates:
        raise ProfileNotModelled(
            f"profile {name!r} communicates ('com' is not 0), and the network is not simulated: set 'com' to"
            " 0, or use Batsim itself"
        )
    return profile


def _unknown(name: str, kind: str) -> WorkloadError:
    if kind in _OTHERS:
        return ProfileNotModelled(
            f"profile {name!r} has type {kind!r}, which {_OTHERS[kind]}: this simulator models"
            f" {', '.join(_MODELLED)}; use Batsim itself"
        )
    if kind in TYPES_OF_BATSIM5_ALONE:
        return ProfileNotModelled(
            f"profile {name!r} has type {kind!r}, which is not simulated here: use Batsim 5 itself"
        )
    if kind in _OLD_NAMES:
        return WorkloadError(
            f"profile {name!r} has type {kind!r}, the name before Batsim 3 of {_OLD_NAMES[kind]!r}: rename it"
            f" in the file, for example with sed -i 's/{kind}/{_OLD_NAMES[kind]}/'"
        )
    return WorkloadError(f"profile {name!r} has the unknown type {kind!r}: expected {', '.join(_MODELLED)}")


def _number(name: str, raw: Mapping[str, Any], field: str, *, positive: bool = False) -> float:
    value = raw.get(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        found = "is missing" if field not in raw else f"is {found_text(value)}"
        raise WorkloadError(f"profile {name!r}: {field!r} {found}, expected a number")
    most = LATEST_S if field == "delay" else MOST_FLOPS
    if value > most:
        raise WorkloadError(f"profile {name!r}: {field!r} is {found_text(value)}, expected at most {most:g}")
    if value < 0 or (positive and value == 0):
        wanted = "a strictly positive number" if positive else "0 or more"
        raise WorkloadError(f"profile {name!r}: {field!r} is {value:g}, expected {wanted}")
    return as_batsim_reads(value)


def _amounts(name: str, raw: Mapping[str, Any]) -> tuple[float, ...]:
    """The flops of each executor of a parallel task."""
    for field in ("cpu", "com"):
        values = raw.get(field)
        if not isinstance(values, list):
            raise WorkloadError(f"profile {name!r}: {field!r} is not an array")
        for value in values:
            _number(name, {field: value}, field)
    size, pairs = len(raw["cpu"]), len(raw["com"])
    if size == 0 or pairs != size * size:
        raise WorkloadError(
            f"profile {name!r}: 'cpu' has {size} values and 'com' {pairs}, expected {size * size}"
        )
    return tuple(map(as_batsim_reads, raw["cpu"]))


def _composed(name: str, code: int, raw: Mapping[str, Any]) -> Profile:
    repeat = raw.get("repeat", 1)
    if not isinstance(repeat, int) or isinstance(repeat, bool) or not 1 <= repeat <= LARGEST_INT:
        raise WorkloadError(
            f"profile {name!r}: 'repeat' is {found_text(repeat)}, expected a whole number from 1 to"
            f" {LARGEST_INT}"
        )
    sequence = raw.get("seq")
    if not isinstance(sequence, list) or not sequence or not all(isinstance(s, str) for s in sequence):
        raise WorkloadError(f"profile {name!r}: 'seq' is not an array of profile names")
    return Composed(name, code, tuple(sequence), repeat)


def check_sequence(profiles: Mapping[str, Profile], name: str) -> None:
    """Check that the sequences reachable from ``name`` exist and do not contain themselves.

    Raises WorkloadError.
    """
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        profile = profiles[name]
        if name in done or not isinstance(profile, Composed):
            return
        for part in dict.fromkeys(profile.sequence):
            if part not in profiles:
                raise WorkloadError(f"profile {name!r}: 'seq' names {part!r}, which does not exist")
            if part == name or part in above:
                raise WorkloadError(f"profile {name!r}: 'seq' contains itself by way of {part!r}")
            visit(part, (*above, name))
        done.add(name)

    visit(name, ())


NO_WALLTIME = -1
"""Walltimes in a file that stand for no time limit."""


class WorkloadJob(Struct, gc=False):
    """One job of a workload; numbers are as in the file (an integer stays one)."""

    id: str
    """Job id with its workload: ``"w0!7"``."""
    subtime: float | int
    res: int
    """Number of hosts; 0 is possible with Batsim 5 (no scheduler can start such a job)."""
    profile: str
    walltime: float | int | None = None
    extras: dict[str, Any] | None = None
    """Members that Batsim does not know (for Batsim 5: of ``extra_data``); they travel to the scheduler."""


@dataclass
class Workload:
    """One workload file."""

    name: str
    """Batsim's name for the workload: w0, w1, ..."""
    path: str
    nb_res: int
    jobs: list[WorkloadJob]
    """Jobs sorted by submission time, then by id as text: the order in which Batsim submits them."""
    profiles: dict[str, Profile]
    """Profiles that jobs refer to, directly or within a sequence."""
    raw_profiles: dict[str, dict[str, Any]]
    """Profiles as objects for the scheduler, in Batsim 4's form."""
    form: BatsimFormat = BatsimFormat.BATSIM4
    """Version of Batsim that the file is for."""
    dropped: tuple[str, ...] = ()
    """Members of jobs that Batsim 5 does not forward to the scheduler."""


class _FileJob(Struct, forbid_unknown_fields=True, gc=False):
    id: str | int
    subtime: float | int
    res: int
    profile: str
    walltime: float | int | UnsetType = UNSET


FileJob = TypeVar("FileJob", _FileJob, msgspec.Raw)


class _WorkloadFile(Struct, Generic[FileJob]):
    nb_res: int
    jobs: list[FileJob]
    profiles: dict[str, dict[str, Any]]


def read_workload(path: PathLike, name: str = "w0") -> Workload:
    """Read and check a workload file; ``name`` is what Batsim calls it.

    Raises InputError for anything that Batsim would refuse, and for profiles that are not simulated.
    """
    data = read_bytes(path)
    with _collector_paused(), in_file(path, WorkloadError):
        try:
            file = _decode(data)
            check_names(data, _names_of_plain(file))
        except Malformed as error:
            if data.lstrip()[:1] == b"<":
                raise WorkloadError(
                    "is XML, as platforms are, but a workload is JSON: are platform (-p) and workload (-w)"
                    " swapped?"
                ) from None
            what = "" if error.line is not None else "not a Batsim workload: "
            raise InputError(path, f"{what}{error}", line=error.line) from None
        del data
        nb_res = file.nb_res
        if not 1 <= nb_res <= LARGEST_INT:
            raise WorkloadError(f"'nb_res' is {nb_res}, expected the number of hosts, 1 to {LARGEST_INT}")
        form, raw_profiles, dropped = BatsimFormat.BATSIM4, file.profiles, set[str]()
        if is_of_batsim5(raw_profiles):
            form, raw_profiles = BatsimFormat.BATSIM5, _from_batsim5(name, raw_profiles)
        jobs = list(_jobs(name, file.jobs, form, dropped))
        profiles = _profiles(raw_profiles, jobs)
        _check_terms(jobs)
        jobs.sort(key=lambda job: (job.subtime, job.id))
        told = rounded if form is BatsimFormat.BATSIM4 else dict
        used = {key: told(raw_profiles[key]) for key in raw_profiles if key in profiles}
    return Workload(name, os.fspath(path), nb_res, jobs, profiles, used, form, tuple(sorted(dropped)))


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


def _decode(data: bytes) -> _WorkloadFile[Any]:
    """Decode in one typed pass; only a file whose jobs have further members needs a second."""
    plain = _PLAIN.attempt(data)
    return _RAW.decode(data) if plain is None else plain


def _names_of_plain(file: _WorkloadFile[Any]) -> int | None:
    """Count the names in a file that has nothing but what is required; None for one that has more."""
    if not all(isinstance(job, _FileJob) for job in file.jobs[:1]):
        return None
    jobs = sum(4 + (job.walltime is not UNSET) for job in file.jobs)
    return 3 + jobs + len(file.profiles) + sum(map(len, file.profiles.values()))


_PLAIN: Final[JsonDecoder[_WorkloadFile[_FileJob]]] = JsonDecoder(_WorkloadFile[_FileJob])
_RAW: Final[JsonDecoder[_WorkloadFile[msgspec.Raw]]] = JsonDecoder(_WorkloadFile[msgspec.Raw])


def _jobs(
    name: str, jobs: Sequence[_FileJob | msgspec.Raw], form: BatsimFormat, dropped: set[str]
) -> Iterator[WorkloadJob]:
    """Check the jobs of a file; what Batsim 5 drops of them is added to ``dropped``."""
    seen: set[str] = set()
    for index, job in enumerate(jobs):
        if isinstance(job, _FileJob):
            if form is BatsimFormat.BATSIM5:
                _check_limit_of_batsim5(job.id, job.walltime)
            yield _checked(name, seen, index, job, None, form)
        elif form is BatsimFormat.BATSIM4:
            yield parse_job(name, job, seen, index)
        else:
            members = _members(job, index)
            dropped.update(dropped_by_batsim5(members))
            _check_limit_of_batsim5(members.get("id"), members.get("walltime"))
            known = {k: v for k, v in members.items() if k in JOB_MEMBERS}
            checked = parse_job(name, known, seen, index, form)
            own = {k: v for k, v in job_from_batsim5(members).items() if k not in JOB_MEMBERS}
            checked.extras = own or None
            yield checked


def _check_limit_of_batsim5(job_id: object, walltime: object) -> None:
    if walltime == NO_WALLTIME:
        raise WorkloadError(
            f"job {job_id!r}: 'walltime' is {NO_WALLTIME}, which Batsim 5 refuses: leave it out where there"
            " is no limit"
        )


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


_MEMBERS: Final[JsonDecoder[dict[str, Any]]] = JsonDecoder(dict[str, Any])


def _members(job: msgspec.Raw, index: int) -> dict[str, Any]:
    text = bytes(job)
    if len(text) > LONGEST_JOB:
        raise WorkloadError(f"jobs[{index}]: has {len(text):,} bytes, expected {LONGEST_JOB:,} at most")
    try:
        return _MEMBERS.decode(text)
    except Malformed as error:
        raise WorkloadError(f"jobs[{index}]: {error}") from None


def parse_job(
    workload: str,
    job: Mapping[str, Any] | msgspec.Raw,
    seen: set[str] | None = None,
    index: int = 0,
    form: BatsimFormat = BatsimFormat.BATSIM4,
) -> WorkloadJob:
    """Check one job object of a workload; ``seen`` holds the ids before it. Raises WorkloadError."""
    members = _members(job, index) if isinstance(job, msgspec.Raw) else job
    try:
        known: _FileJob = convert_json({k: v for k, v in members.items() if k in JOB_MEMBERS}, _FileJob)
    except Malformed as error:
        raise WorkloadError(f"jobs[{index}].{error}") from None
    own = {k: v for k, v in members.items() if k not in JOB_MEMBERS}
    return _checked(workload, set() if seen is None else seen, index, known, own or None, form)


def _checked(
    name: str, seen: set[str], index: int, job: _FileJob, extras: dict[str, Any] | None, form: BatsimFormat
) -> WorkloadJob:
    job_id = _full_job_id(name, str(job.id))
    if job_id in seen:
        raise WorkloadError(f"jobs[{index}]: the id {job_id!r} occurs twice")
    if len(job_id) > LONGEST_ID or len(job.profile) > LONGEST_ID:
        what, text = ("id", job_id) if len(job_id) > LONGEST_ID else ("profile", job.profile)
        raise WorkloadError(
            f"jobs[{index}]: {what}: found {shortened(text, 40)!r} with {len(text):,} characters,"
            f" expected {LONGEST_ID:,} at most"
        )
    seen.add(job_id)
    subtime = job.subtime
    limit = None if job.walltime is UNSET or job.walltime == NO_WALLTIME else job.walltime
    if not 0 <= subtime <= LATEST_S:
        raise WorkloadError(f"job {job_id!r}: 'subtime' is {found_text(subtime)}, expected {_TIME.expected}")
    least = 0 if form is BatsimFormat.BATSIM5 else 1
    if not least <= job.res <= LARGEST_INT:
        raise WorkloadError(f"job {job_id!r}: 'res' is {job.res}, expected {least} to {LARGEST_INT}")
    if limit is not None and not 0 < limit <= LATEST_S:
        raise WorkloadError(
            f"job {job_id!r} has an invalid walltime ({found_text(limit)}): expected -1 (no walltime)"
            f" or a strictly positive number, at most {LATEST_S:g} s"
        )
    if extras is not None and not has_usual_numbers(extras):
        try:
            check_numbers(extras)
        except ConfigError as error:
            raise WorkloadError(f"job {job_id!r}: {error}") from None
    if extras is not None:
        extras = _renamed(rounded(extras), job_id)
    return WorkloadJob(job_id, subtime, job.res, job.profile, limit, extras)


def _check_terms(jobs: list[WorkloadJob]) -> None:
    """Check deadlines and workflows: what the scheduler would refuse when the jobs come."""
    asking = [job for job in jobs if job.extras is not None]
    if not asking:
        return
    terms: list[tuple[str, Terms]] = []
    for job in asking:
        try:
            terms.append((job.id, read_terms(job.id, job.extras, float(job.subtime))))
        except TermsError as error:
            raise WorkloadError(f"job {job.id!r}: {error}") from None
    predecessors = predecessors_of(terms)
    if not any(predecessors.values()):
        return
    known = {job.id for job in jobs}
    for job_id, some in predecessors.items():
        for before in some:
            if before not in known and _same_workload(job_id, before):
                raise WorkloadError(f"job {job_id!r}: after: there is no job {before.partition('!')[2]!r}")
    if len(order := set(in_order(predecessors))) < len(predecessors):
        circle = next(job_id for job_id in predecessors if job_id not in order)
        raise WorkloadError(f"job {circle!r}: after: the job waits for itself, by way of others")


def _same_workload(job_id: str, other: str) -> bool:
    return job_id.partition("!")[0] == other.partition("!")[0]


def _full_job_id(workload: str, text: str) -> str:
    """The id with its workload, by Batsim's rule."""
    if workload not in text:
        if "!" not in text:
            return f"{workload}!{text}"
    elif len(parts := text.split("!")) == 2:
        return "!".join(parts)
    raise WorkloadError(
        f"Invalid string job identifier {text!r}: an id must not contain '!', nor the workload's name"
        f" {workload!r} unless it is written as '{workload}!id'"
    )


def _renamed(value: Any, job_id: str) -> Any:
    """Overwrite nested members named ``id``: Batsim replaces them all, by a regular expression."""
    if isinstance(value, dict):
        return {
            k: job_id if k == "id" and isinstance(v, (str, int)) else _renamed(v, job_id)
            for k, v in value.items()
        }
    return [_renamed(item, job_id) for item in value] if isinstance(value, list) else value


def _profiles(raw: Mapping[str, Any], jobs: list[WorkloadJob]) -> dict[str, Profile]:
    """The profiles that ``jobs`` use, directly or within a sequence. Raises WorkloadError."""
    parsed: dict[str, Profile] = {}
    later: dict[str, ProfileNotModelled] = {}
    for name, item in raw.items():
        try:
            parsed[name] = parse_profile(name, item)
        except ProfileNotModelled as error:
            later[name] = error
    for name, profile in parsed.items():
        for part in profile.sequence if isinstance(profile, Composed) else ():
            if part not in raw:
                raise WorkloadError(f"profile {name!r}: 'seq' names {part!r}, which does not exist")
    used: dict[str, Profile] = {}

    def use(name: str) -> None:
        """Add a profile, and those of its sequence, to ``used``."""
        if name in later:
            raise later[name]
        used[name] = profile = parsed[name]
        if isinstance(profile, Composed):
            for part in profile.sequence:
                if part in later:
                    raise later[part]
            check_sequence(parsed, name)
            for part in profile.sequence:
                if part not in used:
                    use(part)

    names = {name: name for name in raw}
    for job in jobs:
        name = job.profile
        if name not in names:
            raise WorkloadError(f"job {job.id!r}: the profile {name!r} does not exist")
        job.profile = names[name]
        if name not in used:
            use(name)
        profile = used[name]
        if isinstance(profile, Parallel) and len(profile.flops) != job.res:
            raise WorkloadError(
                f"job {job.id!r}: 'res' is {job.res}, but 'cpu' of its profile {name!r} has"
                f" {len(profile.flops)} values: expected one for each host"
            )
    return used


def expected_runs_s(workload: Workload, speed_flops: float, *, walltimes: bool = False) -> FloatArray:
    """Seconds that each job runs on hosts of this speed (flops/s), its walltime at most.

    With ``walltimes``, the walltimes themselves: all that a scheduler may know. Raises InputError for a
    job without one then.
    """
    runs = np.empty(len(workload.jobs))
    for index, job in enumerate(workload.jobs):
        limit = np.inf if job.walltime is None else float(job.walltime)
        if not walltimes:
            runs[index] = min(limit, profile_run_s(job.profile, workload.profiles, job.res, speed_flops))
        elif limit < np.inf:
            runs[index] = limit
        else:
            raise InputError(workload.path, f"job {job.id!r} has no walltime to forecast its run from")
    return runs


def profile_run_s(name: str, profiles: Mapping[str, Profile], hosts: int, speed_flops: float) -> float:
    """Seconds that a profile runs on ``hosts`` hosts of this speed; 0 for one that is not modelled."""
    profile = profiles[name]
    if isinstance(profile, Delay):
        return profile.delay_s
    if isinstance(profile, Homogeneous):
        return profile.flops / (max(hosts, 1) if profile.total else 1) / speed_flops
    if isinstance(profile, Parallel):
        return max(profile.flops, default=0.0) / speed_flops
    if isinstance(profile, Composed):
        once = sum(profile_run_s(part, profiles, hosts, speed_flops) for part in profile.sequence)
        return profile.repeat * once
    return 0.0


def workload_demand_w(
    paths: Sequence[Path], platform: Platform, *, steps: int, step_s: float, walltimes: bool = False
) -> FloatArray:
    """Return the demand (W a step) of Batsim workloads that are played together.

    Runs are expected to last as their profiles say, or to their ``walltimes``. Raises InputError.
    """
    jobs = expected_jobs(paths, platform, walltimes=walltimes)
    return demand_power_w(platform, jobs.submit_s, jobs.run_s, jobs.hosts, steps=steps, step_s=step_s)


def expected_jobs(paths: Sequence[PathLike], platform: Platform, *, walltimes: bool = False) -> JobForecast:
    """Return when the jobs of workloads come and how long they are expected to run. Raises InputError."""
    speed = reference_speed_flops(platform)
    submit, runs, hosts = [], [], []
    for number, path in enumerate(paths):
        workload = read_workload(path, f"w{number}")
        submit += [float(job.subtime) for job in workload.jobs]
        runs.append(expected_runs_s(workload, speed, walltimes=walltimes))
        hosts += [job.res for job in workload.jobs]
    return JobForecast(np.array(submit), np.concatenate(runs), np.array(hosts, dtype=np.int64))
