"""The jobs of a Batsim workload: checked as Batsim checks them, and kept by column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, overload

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray
from beasy_sched.errors import ConfigError
from beasy_sched.formats.batsim_profiles import WorkloadError
from beasy_sched.formats.batsim_versions import JOB_MEMBERS, dropped_by_batsim5, job_from_batsim5
from beasy_sched.formats.decoding import JSON_OBJECT, Malformed, convert_json
from beasy_sched.limits import LARGEST_INT, LATEST_S, LONGEST_ID, LONGEST_JOB, shortened
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.model.jobs import NO_TERMS, Terms, TermsError, read_terms
from beasy_sched.model.workflow import in_order, predecessors_of
from beasy_sched.numbers import Range, found_text
from beasy_sched.protocol.json_numbers import CLOSE, as_batsim_reads_all, as_batsim_tells
from beasy_sched.structs import check_numbers, has_usual_numbers

_TIME: Final = Range(0, LATEST_S)

NO_WALLTIME = -1
"""Walltimes in a file that mean no time limit."""


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


_PART: Final = 512
"""Number of jobs that iteration makes at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class JobColumns(Sequence[WorkloadJob]):
    """The jobs of a workload, a column for each member; a job becomes an object when it is asked for."""

    ids: list[str]
    """Job ids with their workload: ``"w0!7"``."""
    subtime_s: FloatArray
    """Submission times, s."""
    res: IntArray
    """Numbers of hosts."""
    walltime_s: FloatArray
    """Walltimes, s; infinite without one."""
    profile: IndexArray
    """Positions of the jobs' profiles in ``profile_names``."""
    profile_names: list[str]
    """Names of the profiles, each once, in the order in which the file's jobs first name them."""
    subtime_is_whole: BoolArray
    """Whether the submission time is an integer in the file."""
    walltime_is_whole: BoolArray
    """Whether the walltime is an integer in the file."""
    extras: dict[int, dict[str, Any]]
    """Members that Batsim does not know, of the jobs that have some, by position."""

    @classmethod
    def of(cls, jobs: Iterable[WorkloadJob]) -> JobColumns:
        """Return the columns of jobs in this order."""
        listed = [*jobs]
        return cls.from_lists(
            [job.id for job in listed],
            [job.subtime for job in listed],
            [job.res for job in listed],
            [math.inf if job.walltime is None else job.walltime for job in listed],
            [job.profile for job in listed],
            {place: job.extras for place, job in enumerate(listed) if job.extras is not None},
        )

    @classmethod
    def from_lists(
        cls,
        ids: list[str],
        subtimes_s: Sequence[float | int],
        res: Sequence[int],
        walltimes_s: Sequence[float | int],
        profiles: Sequence[str],
        extras: dict[int, dict[str, Any]],
    ) -> JobColumns:
        """Return columns with these entries, one for each job. Raises OverflowError for absurd numbers."""
        place_of: dict[str, int] = {}
        profile = [place_of.setdefault(name, len(place_of)) for name in profiles]
        return cls(
            ids=ids,
            subtime_s=np.array(subtimes_s, dtype=np.float64),
            res=np.array(res, dtype=np.int64),
            walltime_s=np.array(walltimes_s, dtype=np.float64),
            profile=np.array(profile, dtype=np.intp),
            profile_names=list(place_of),
            subtime_is_whole=_are_whole(subtimes_s),
            walltime_is_whole=_are_whole(walltimes_s),
            extras=extras,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> WorkloadJob: ...
    @overload
    def __getitem__(self, place: slice) -> list[WorkloadJob]: ...
    def __getitem__(self, place: int | slice) -> WorkloadJob | list[WorkloadJob]:
        if not isinstance(place, slice):
            place = range(len(self))[place]  # raises IndexError
            return self[place : place + 1][0]
        rows = zip(
            range(*place.indices(len(self))),
            self.ids[place],
            self.subtime_s[place].tolist(),
            self.subtime_is_whole[place].tolist(),
            self.res[place].tolist(),
            self.profile[place].tolist(),
            self.walltime_s[place].tolist(),
            self.walltime_is_whole[place].tolist(),
            strict=True,
        )
        return [
            WorkloadJob(
                job_id,
                int(subtime) if subtime_is_whole else subtime,
                res,
                self.profile_names[profile],
                None if walltime == math.inf else int(walltime) if walltime_is_whole else walltime,
                self.extras.get(at) if self.extras else None,
            )
            for at, job_id, subtime, subtime_is_whole, res, profile, walltime, walltime_is_whole in rows
        ]

    def __iter__(self) -> Iterator[WorkloadJob]:
        for first in range(0, len(self), _PART):
            yield from self[first : first + _PART]

    def __eq__(self, other: object) -> bool:
        return self[:] == other[:] if isinstance(other, JobColumns) else NotImplemented

    def shapes(self) -> tuple[IndexArray, IndexArray]:
        """Return the first job of each shape, which is a profile and a number of hosts; and each job's shape.

        The first are positions of jobs, the others positions in the first array.
        """
        keys = self.profile * (int(self.res.max(initial=0)) + 1) + self.res
        _, first_of_shape, shape = np.unique(keys, return_index=True, return_inverse=True)
        return first_of_shape, shape

    def sorted(self) -> JobColumns:
        """Return the jobs by submission time, then by id as text: the order in which Batsim submits them."""
        times_s = self.subtime_s
        if (times_s[1:] - times_s[:-1] > times_s[1:] * CLOSE).all():
            return self
        rows = sorted(zip(as_batsim_reads_all(times_s), self.ids, range(len(self)), strict=True))
        order = np.array([place for _, _, place in rows])
        return replace(
            self,
            ids=[job_id for _, job_id, _ in rows],
            subtime_s=times_s[order],
            res=self.res[order],
            walltime_s=self.walltime_s[order],
            profile=self.profile[order],
            subtime_is_whole=self.subtime_is_whole[order],
            walltime_is_whole=self.walltime_is_whole[order],
            extras={new: self.extras[old] for new, old in enumerate(order.tolist()) if old in self.extras},
        )


def _are_whole(numbers: Sequence[float | int]) -> BoolArray:
    if int not in set(map(type, numbers)):
        return np.zeros(len(numbers), dtype=np.bool_)
    return np.fromiter((number.__class__ is int for number in numbers), np.bool_, len(numbers))


# --- the jobs of a file ---


class FileJob(Struct, forbid_unknown_fields=True, gc=False):
    """A job in a file that has no members other than those that Batsim knows."""

    id: str | int
    subtime: float | int
    res: int
    profile: str
    walltime: float | int | UnsetType = UNSET


class _KnownMembers(FileJob, forbid_unknown_fields=False, gc=False):
    """The members of any job that Batsim knows."""


_KNOWN: Final = msgspec.json.Decoder(_KnownMembers)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass
class FileJobs:
    """The jobs of a file as they were decoded."""

    jobs: Sequence[FileJob | msgspec.Raw]
    """The jobs, or the text of each where one has further members."""
    known: Sequence[FileJob]
    """The jobs without further members; empty where one of them cannot be understood."""
    own: Sequence[dict[str, Any]]
    """Further members of each job; empty where none has any."""
    names: int | None
    """Number of names in the objects of the jobs; None where that is unknown."""

    @classmethod
    def plain(cls, jobs: Sequence[FileJob]) -> FileJobs:
        """Return jobs without further members."""
        return cls(jobs, jobs, (), sum(4 if job.walltime is UNSET else 5 for job in jobs))

    @classmethod
    def of_texts(cls, jobs: Sequence[msgspec.Raw]) -> FileJobs:
        """Decode jobs of which some have further members."""
        try:
            decoded = [_KNOWN.decode(job) for job in jobs]
            own, names = _own_members(jobs)
        except (msgspec.MsgspecError, RecursionError):
            return cls(jobs, (), (), None)
        if any(memoryview(job).nbytes > LONGEST_JOB for job in jobs):
            return cls(jobs, (), (), None)
        return cls(jobs, decoded, own, names)


def _own_members(jobs: Sequence[msgspec.Raw]) -> tuple[list[dict[str, Any]], int]:
    """Return the further members of each job, and the number of names in all objects. Raises MsgspecError."""
    own, names = [], 0
    for job in jobs:
        members = _OBJECT.decode(job)
        names += len(members)
        mine = {name: value for name, value in members.items() if name not in JOB_MEMBERS}
        names += sum(map(_names_in, mine.values()))
        own.append(mine)
    return own, names


def _names_in(value: Any) -> int:
    """Count the names in the objects of a value."""
    if value.__class__ is dict:
        return len(value) + sum(map(_names_in, value.values()))
    return sum(map(_names_in, value)) if value.__class__ is list else 0


def read_jobs(name: str, file: FileJobs, form: BatsimFormat) -> tuple[JobColumns, tuple[str, ...]]:
    """Check the jobs of the workload ``name``; return them in the file's order, and what Batsim 5 drops.

    Raises WorkloadError for the first job with a fault.
    """
    dropped: set[str] = set()
    columns = _sound_columns(name, file, form)
    if columns is None:
        columns = JobColumns.of(_one_by_one(name, file.jobs, form, dropped))
    return columns, tuple(sorted(dropped))


def _sound_columns(name: str, file: FileJobs, form: BatsimFormat) -> JobColumns | None:
    """Return the jobs of a file without unusual ones; None if its jobs must be checked one by one."""
    jobs = file.known
    if len(jobs) < len(file.jobs) or (file.own and form is BatsimFormat.BATSIM5):  # which drops members
        return None
    texts = [str(job.id) for job in jobs]
    if name in (all_texts := "\n".join(texts)) or "!" in all_texts:
        return None
    ids = [f"{name}!{text}" for text in texts]
    try:
        columns = JobColumns.from_lists(
            ids,
            [job.subtime for job in jobs],
            [job.res for job in jobs],
            [math.inf if job.walltime is UNSET else job.walltime for job in jobs],
            [job.profile for job in jobs],
            {n: _checked_extras(own, ids[n]) for n, own in enumerate(file.own) if own},
        )
    except (OverflowError, WorkloadError):
        return None
    if form is BatsimFormat.BATSIM4:
        columns.walltime_s[columns.walltime_s == NO_WALLTIME] = math.inf
    return columns if _are_sound(columns, form) else None


def _are_sound(jobs: JobColumns, form: BatsimFormat) -> bool:
    """Whether `_checked` would find no fault with any of the jobs."""
    limits_s = jobs.walltime_s[jobs.walltime_s < math.inf]
    return bool(
        ((jobs.subtime_s >= 0.0) & (jobs.subtime_s <= LATEST_S)).all()
        and ((jobs.res >= _least_res(form)) & (jobs.res <= LARGEST_INT)).all()
        and ((limits_s > 0.0) & (limits_s <= LATEST_S)).all()
        and len(set(jobs.ids)) == len(jobs)
        and max(map(len, jobs.ids), default=0) <= LONGEST_ID
        and max(map(len, jobs.profile_names), default=0) <= LONGEST_ID
    )


def _least_res(form: BatsimFormat) -> int:
    return 0 if form is BatsimFormat.BATSIM5 else 1


def _one_by_one(
    name: str, jobs: Sequence[FileJob | msgspec.Raw], form: BatsimFormat, dropped: set[str]
) -> Iterator[WorkloadJob]:
    """Check the jobs of a file; what Batsim 5 drops of them is added to ``dropped``."""
    seen: set[str] = set()
    for index, job in enumerate(jobs):
        if isinstance(job, FileJob):
            if form is BatsimFormat.BATSIM5:
                _check_limit_of_batsim5(job.id, job.walltime)
            yield _checked(name, seen, index, job, None, form)
        elif form is BatsimFormat.BATSIM4:
            yield parse_job(name, job, seen, index)
        else:
            members = _members(job, index)
            dropped.update(dropped_by_batsim5(members))
            _check_limit_of_batsim5(members.get("id"), members.get("walltime"))
            batsim_members = {k: v for k, v in members.items() if k in JOB_MEMBERS}
            checked = parse_job(name, batsim_members, seen, index, form)
            own = {k: v for k, v in job_from_batsim5(members).items() if k not in JOB_MEMBERS}
            checked.extras = own or None
            yield checked


def _check_limit_of_batsim5(job_id: object, walltime: object) -> None:
    if walltime == NO_WALLTIME:
        raise WorkloadError(
            f"job {job_id!r}: 'walltime' is {NO_WALLTIME}, which Batsim 5 refuses: omit it where there"
            " is no limit"
        )


def _members(job: msgspec.Raw, index: int) -> dict[str, Any]:
    text = bytes(job)
    if len(text) > LONGEST_JOB:
        raise WorkloadError(f"jobs[{index}]: has {len(text):,} bytes, expected {LONGEST_JOB:,} at most")
    try:
        return JSON_OBJECT.decode(text)
    except Malformed as error:
        raise WorkloadError(f"jobs[{index}]: {error}") from None


def parse_job(
    workload: str,
    job: Mapping[str, Any] | msgspec.Raw,
    seen: set[str] | None = None,
    index: int = 0,
    form: BatsimFormat = BatsimFormat.BATSIM4,
    tells: Callable[[Any], Any] = as_batsim_tells,
) -> WorkloadJob:
    """Check one job object of a workload; ``seen`` holds the ids before it, ``tells`` forwards its numbers.

    Raises WorkloadError.
    """
    members = _members(job, index) if isinstance(job, msgspec.Raw) else job
    try:
        file_job: FileJob = convert_json({k: v for k, v in members.items() if k in JOB_MEMBERS}, FileJob)
    except Malformed as error:
        raise WorkloadError(f"jobs[{index}].{error}") from None
    own = {k: v for k, v in members.items() if k not in JOB_MEMBERS}
    return _checked(workload, set() if seen is None else seen, index, file_job, own or None, form, tells)


def _checked(
    name: str,
    seen: set[str],
    index: int,
    job: FileJob,
    extras: dict[str, Any] | None,
    form: BatsimFormat,
    tells: Callable[[Any], Any] = as_batsim_tells,
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
    least = _least_res(form)
    if not least <= job.res <= LARGEST_INT:
        raise WorkloadError(f"job {job_id!r}: 'res' is {job.res}, expected {least} to {LARGEST_INT}")
    if limit is not None and not 0 < limit <= LATEST_S:
        raise WorkloadError(
            f"job {job_id!r} has an invalid walltime ({found_text(limit)}): expected -1 (no walltime)"
            f" or a strictly positive number, at most {LATEST_S:g} s"
        )
    if extras is not None:
        extras = _checked_extras(extras, job_id, tells)
    return WorkloadJob(job_id, subtime, job.res, job.profile, limit, extras)


def _checked_extras(
    extras: dict[str, Any], job_id: str, tells: Callable[[Any], Any] = as_batsim_tells
) -> dict[str, Any]:
    """Return a job's further members as Batsim forwards them. Raises WorkloadError."""
    if has_usual_numbers(extras):
        if not any(value.__class__ is float for value in extras.values()):
            return extras
    else:
        try:
            check_numbers(extras)
        except ConfigError as error:
            raise WorkloadError(f"job {job_id!r}: {error}") from None
    renamed: dict[str, Any] = _renamed(tells(extras), job_id)
    return renamed


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


def check_terms(jobs: JobColumns) -> None:
    """Check deadlines and workflows: what the scheduler would reject on submission.

    Raises WorkloadError.
    """
    terms: list[tuple[str, Terms]] = []
    for place, extras in jobs.extras.items():
        job_id = jobs.ids[place]
        try:
            job_terms = read_terms(job_id, extras, jobs.subtime_s.item(place))
        except TermsError as error:
            raise WorkloadError(f"job {job_id!r}: {error}") from None
        if job_terms is not NO_TERMS:
            terms.append((job_id, job_terms))
    predecessors = predecessors_of(terms)
    if not any(predecessors.values()):
        return
    all_ids = set(jobs.ids)
    for job_id, some in predecessors.items():
        for before in some:
            if before not in all_ids and _same_workload(job_id, before):
                raise WorkloadError(f"job {job_id!r}: after: there is no job {before.partition('!')[2]!r}")
    if len(order := set(in_order(predecessors))) < len(predecessors):
        circle = next(job_id for job_id in predecessors if job_id not in order)
        raise WorkloadError(f"job {circle!r}: after: the job waits for itself, by way of others")


def _same_workload(job_id: str, other: str) -> bool:
    return job_id.partition("!")[0] == other.partition("!")[0]
