"""Conversion of the past jobs of a Slurm cluster, from the output of ``sacct`` (JSON or text), to a workload.

A job that ran becomes a job with its actual run time, its number of (whole) nodes, its time limit as
walltime, and its time of submission. Time 0 is the first submission.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Struct

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.reading import as_text, in_file
from beasy_sched.generate.random_streams import to_microseconds
from beasy_sched.generate.workload import GeneratedWorkload, Report
from beasy_sched.limits import LATEST_S, shortened
from beasy_sched.plugins.slurm.history_options import HistoryOptions
from beasy_sched.plugins.slurm.records import (
    AnswerError,
    AnyNames,
    AnyNumber,
    check_answered,
    count_of,
    decoded,
    expanded,
    job_state,
    minutes_of,
    number_of,
    numbers_in,
)
from beasy_sched.units import counted

SACCT: Final = (
    "SLURM_TIME_FORMAT=%s sacct -P -X -a -S 2026-01-01 -o"
    " JobID,Partition,State,Submit,Start,End,Elapsed,Timelimit,NNodes,NodeList"
)
"""Command that writes a text file to import; -E sets the end."""
_SPAN: Final = re.compile(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)(?:\.\d+)?")
_EXAMPLES: Final = 5


class PastJob(Struct, frozen=True, gc=False):
    """A past job, from the accounting."""

    id: str
    """``4711``, ``4711_3`` for the task of an array, ``4711+1`` for a component of a heterogeneous job."""
    state: str
    submit_s: float | None
    """Time of submission, s since 1970, as all times here; None if unknown."""
    start_s: float | None
    """Time of the start; None for a job that has not started."""
    end_s: float | None
    limit_s: float | None
    """Its time limit; None without one."""
    node_count: int
    place: str
    """Its position, for messages: ``line 7``, or ``job 4711``."""
    partition: str = ""
    elapsed_s: float | None = None
    """Its run time without suspensions; None if unknown."""
    nodes: str = ""
    """Names of its nodes, in Slurm's short form; empty if unknown."""
    cluster: str = ""
    """Name of its cluster; empty if unknown."""

    @property
    def run_s(self) -> float | None:
        """Its run time; None if it has not ended."""
        if self.start_s is None or self.end_s is None:
            return None
        return self.end_s - self.start_s if self.elapsed_s is None else self.elapsed_s


class History:
    """The remaining jobs, and the report on those that were dropped."""

    def __init__(self, jobs: list[PastJob], unreadable: Sequence[str] = (), steps: int = 0) -> None:
        """``unreadable``: errors of rows that cannot be read; ``steps``: number of rows of job steps."""
        self.jobs, self.report = jobs, Report(rows=len(jobs) + len(unreadable))
        if unreadable:
            self._count("cannot be read", unreadable)
        if steps:
            self.report.notes.append(f"{counted(steps, 'row')} of job steps: omitted, as intended")

    def drop(self, reason: str, wrong: Callable[[PastJob], bool]) -> None:
        """Drop the jobs for which ``wrong`` is true."""
        out = [job.place for job in self.jobs if wrong(job)]
        if out:
            self.jobs = [job for job in self.jobs if not wrong(job)]
            self._count(reason, out)

    def _count(self, reason: str, places: Sequence[str]) -> None:
        self.report.dropped[reason] = len(places)
        self.report.examples[reason] = list(places[:_EXAMPLES])


def read_history(data: bytes, source: PathLike) -> History:
    """Read the output of ``sacct --json`` (22.05 and later) or ``sacct -P``; errors name ``source``.

    Times without an offset are local times of this computer, as in ``sacct``. Raises InputError, and
    SlurmAway for output that contains only errors.
    """
    if data.lstrip()[:1] == b"{":
        return _read_json(data, source)
    return _read_text(as_text(data, source), source)


# --- JSON -------------------------------------------------------------------------------------------------


class _JobTimes(Struct):
    submission: AnyNumber = None
    start: AnyNumber = None
    end: AnyNumber = None
    elapsed: AnyNumber = None
    limit: AnyNumber = None


class _JsonState(Struct):
    current: AnyNames = None


class _ArrayTask(Struct):
    job_id: AnyNumber = 0
    task_id: AnyNumber = None


class _Het(Struct):
    job_id: AnyNumber = 0
    job_offset: AnyNumber = None


class _Accounted(Struct):
    job_id: AnyNumber
    time: _JobTimes
    state: _JsonState
    array: _ArrayTask = msgspec.field(default_factory=_ArrayTask)
    het: _Het = msgspec.field(default_factory=_Het)
    partition: str | None = ""
    cluster: str | None = ""
    allocation_nodes: AnyNumber = 0
    nodes: str | None = ""


class _Accounting(Struct):
    jobs: list[_Accounted]
    errors: list[AnswerError] = []


def _read_json(data: bytes, source: PathLike) -> History:
    answer = decoded(data, _Accounting, source)
    check_answered(answer.errors, answer.jobs, source)
    with in_file(source, ValueError):
        return History([_past_job(row) for row in answer.jobs])


def _past_job(row: _Accounted) -> PastJob:
    """Convert a row. Raises ValueError."""
    times, job_id = row.time, str(count_of(row.job_id))
    task, whole = count_of(row.array.task_id, -1), count_of(row.array.job_id)
    if whole and task >= 0:
        job_id = f"{whole}_{task}"
    elif het := count_of(row.het.job_id):
        job_id = f"{het}+{count_of(row.het.job_offset)}"
    return PastJob(
        id=job_id,
        state=job_state(row.state.current),
        submit_s=_moment(times.submission),
        start_s=_moment(times.start),
        end_s=_moment(times.end),
        limit_s=minutes_of(times.limit),
        node_count=count_of(row.allocation_nodes),
        place=f"job {job_id}",
        partition=row.partition or "",
        elapsed_s=number_of(times.elapsed),
        nodes=row.nodes or "",
        cluster=row.cluster or "",
    )


def _moment(value: AnyNumber) -> float | None:
    """Return a time; None if Slurm has none, which may be a 0."""
    return number_of(value) or None


# --- text -------------------------------------------------------------------------------------------------


def _time(text: str) -> float | None:
    """Read a time printed by sacct: in its own format, or as s since 1970."""
    if text in ("", "Unknown", "None", "N/A"):
        return None
    if text.isdecimal() and len(text) < 15:
        return float(text)
    return moment_s(text)


def moment_s(text: str) -> float:
    """Read a time such as ``2026-01-01`` or ``2026-01-01T08:00:00`` (local, if it has no offset).

    Returns s since 1970. Raises ValueError.
    """
    try:
        return datetime.fromisoformat(text.strip().replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"found {shortened(text, 40)!r}, expected a time such as 2026-01-01 or 2026-01-01T08:00:00"
        ) from None


def _span_s(text: str, column: str, unit_s: int) -> float:
    """Read ``2-03:00:00``, ``00:05:00``, or a bare number of ``unit_s``."""
    parts = _SPAN.fullmatch(text)
    if parts is None or len(text) > 25:
        raise ValueError(f"{column}: found {shortened(text, 40)!r}, expected a time such as 2-03:00:00")
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    if text.isdecimal():
        return float(int(text) * unit_s)
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _elapsed(text: str) -> float | None:
    return _span_s(text, "Elapsed", unit_s=1) if text else None


def _limit(text: str) -> float | None:
    if text in ("", "UNLIMITED", "Partition_Limit", "None", "Unknown"):
        return None
    return _span_s(text, "Timelimit", unit_s=60) or None  # a bare number is TimelimitRaw's, in minutes


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise ValueError(f"NNodes: found {shortened(text, 40)!r}, expected an integer")
    return int(text)


def _state(text: str) -> str:
    """Return the first word of ``CANCELLED by 0``, and of a truncated name (``OUT_OF_ME+``)."""
    return (text.split() or [""])[0].rstrip("+").upper()


_COLUMNS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "JobID": ("id", str),
    "State": ("state", _state),
    "Submit": ("submit_s", _time),
    "Start": ("start_s", _time),
    "End": ("end_s", _time),
    "NNodes": ("node_count", _count),
    "Timelimit": ("limit_s", _limit),
    "Partition": ("partition", str),
    "Elapsed": ("elapsed_s", _elapsed),
    "NodeList": ("nodes", str),
    "Cluster": ("cluster", str),
}
"""Columns that are read, each with its field of `PastJob` and the parser of a cell."""
REQUIRED: Final = ("JobID", "State", "Submit", "Start", "End", "NNodes", "Timelimit")
"""Required columns."""
_INSTEAD: Final = {"NNodes": "AllocNodes", "Timelimit": "TimelimitRaw", "Elapsed": "ElapsedRaw"}
"""Alternative columns."""


def _read_text(text: str, source: PathLike) -> History:
    lines = text.splitlines()
    names = lines[0].rstrip("|").split("|") if lines else []
    columns = {name: _INSTEAD.get(name, name) if name not in names else name for name in _COLUMNS}
    missing = [name for name in REQUIRED if columns[name] not in names]
    if missing:
        found = shortened(repr(lines[0]), 60) if lines else "nothing"
        raise InputError(
            source,
            f"found {found}, expected JSON ('sacct --json') or a table whose first line names its columns,"
            f" among them {', '.join(REQUIRED)} (missing: {', '.join(missing)}); create it with: {SACCT}",
            line=1,
        )
    places = {name: names.index(column) for name, column in columns.items() if column in names}
    jobs, unreadable, steps = [], [], 0
    for number, line in enumerate(lines[1:], 2):
        cells = line.removesuffix("|").split("|") if len(names) < line.count("|") + 1 else line.split("|")
        if not line.strip():
            continue
        if len(cells) != len(names):
            unreadable.append(f"line {number}: {len(cells)} values, {len(names)} columns")
        elif "." in cells[places["JobID"]]:
            steps += 1
        else:
            try:
                values = {_COLUMNS[name][0]: _COLUMNS[name][1](cells[at]) for name, at in places.items()}
            except ValueError as error:
                unreadable.append(f"line {number}: {error}")
            else:
                jobs.append(PastJob(**values, place=f"line {number}"))
    return History(jobs, unreadable, steps)


# --- the workload -----------------------------------------------------------------------------------------


def workload_from_history(history: History, options: HistoryOptions, source: PathLike) -> GeneratedWorkload:
    """Return a workload of the jobs that ran; other jobs are dropped from ``history``, and counted.

    Jobs are sorted by submission, and the first one is at 0. Raises InputError if no job is left, or
    if the jobs of several clusters are mixed.
    """
    _choose_cluster(history, options.cluster, source)
    _drop_what_did_not_run(history, options)
    if options.missing_walltime == "drop":
        history.drop("without a time limit", lambda job: job.limit_s is None)
    site = _site(history, options)
    jobs = sorted(history.jobs, key=lambda job: (job.submit_s or 0.0, numbers_in(job.id)))
    report = history.report
    if not jobs:
        reasons = "; ".join(f"{count} {reason}" for reason, count in report.dropped.items())
        raise InputError(source, f"no jobs left of {report.rows}{': ' + reasons if reasons else ''}")
    first = jobs[0].submit_s or 0.0
    submit = np.array([(job.submit_s or 0.0) - first for job in jobs])
    local = datetime.fromtimestamp(first, timezone.utc).astimezone()
    _note(report, jobs, local)
    run_s = np.array([job.run_s for job in jobs], dtype=np.float64)
    return GeneratedWorkload(
        nb_res=site,
        window_s=options.to_s - first if math.isfinite(options.to_s) else float(submit.max()),
        ids=[job.id for job in jobs],
        submit_s=submit,
        run_s=run_s,
        hosts=np.array([job.node_count for job in jobs], dtype=np.int64),
        walltime_s=_walltimes_s(history.report, jobs, run_s, options.missing_walltime),
        reference_speed_flops=options.reference_speed_flops,
        profile_type=options.profile_type,
        report=report,
        midnight_s=-float(local.hour * 3600 + local.minute * 60 + local.second),
    )


def _choose_cluster(history: History, cluster: str | None, source: PathLike) -> None:
    """Keep the jobs of ``cluster``. Raises InputError if it is None and there are several clusters.

    Job ids are unique within one cluster only.
    """
    counts = Counter(job.cluster for job in history.jobs)
    if cluster is not None:
        if cluster not in counts:
            names = ", ".join(sorted(filter(None, counts))) or "none: the table has no column Cluster"
            raise InputError(source, f"no job of cluster {cluster!r}; clusters in it: {names}")
        history.drop("of other clusters", lambda job: job.cluster != cluster)
    elif len(counts) > 1:
        listed = ", ".join(f"{name or 'unknown'} ({counted(count, 'job')})" for name, count in counts.items())
        raise InputError(
            source,
            f"contains the jobs of {len(counts)} clusters, {listed}: their job ids overlap; choose one with"
            " --cluster NAME",
        )


def _walltimes_s(
    report: Report, jobs: Sequence[PastJob], run_s: FloatArray, rule: float | Literal["drop", "none"]
) -> FloatArray:
    """Return time limits, s: NaN for none, or a multiple of the run time if requested."""
    limits_s = np.array([math.nan if job.limit_s is None else job.limit_s for job in jobs])
    missing = np.isnan(limits_s)
    if not missing.any():
        return limits_s
    found = f"{counted(int(missing.sum()), 'job')} without a time limit"
    if isinstance(rule, str):
        report.notes.append(
            f"{found}: no walltime. 'beasy' and 'bid-price' reserve energy up to the end of the plan;"
            " --missing-walltime 2 sets twice the run time, --missing-walltime drop omits them"
        )
        return limits_s
    report.notes.append(f"{found}: their walltime is {rule:g} x the run time")
    return to_microseconds(np.where(missing, run_s * rule, limits_s))


def _drop_what_did_not_run(history: History, options: HistoryOptions) -> None:
    if options.partition is not None:
        history.drop("of other partitions", lambda job: job.partition != options.partition)
    history.drop("without a time of submission", lambda job: not 0 <= (job.submit_s or -1) <= LATEST_S)
    history.drop("submitted before the start", lambda job: (job.submit_s or 0.0) < options.from_s)
    history.drop("submitted at or after the end", lambda job: (job.submit_s or 0.0) >= options.to_s)
    _warn_of_one_id_twice(history)
    last = {job.id: index for index, job in enumerate(history.jobs)}
    again = {id(job) for index, job in enumerate(history.jobs) if last[job.id] != index}
    history.drop("earlier run of a job that was requeued", lambda job: id(job) in again)
    history.drop("cancelled before the start", lambda job: job.start_s is None and job.end_s is not None)
    history.drop("still waiting", lambda job: job.start_s is None or job.state == "PENDING")
    history.drop("requeued, and not run again", lambda job: job.state in ("REQUEUED", "REQUEUE_HOLD"))
    history.drop("still running", lambda job: job.end_s is None)
    history.drop("run time 0", lambda job: job.run_s == 0)
    history.drop("no run time", lambda job: job.run_s is None or not 0 < job.run_s <= LATEST_S)
    history.drop("no number of nodes", lambda job: job.node_count < 1)


def _warn_of_one_id_twice(history: History) -> None:
    """Warn if a job seems to have run twice at the same time, because two clusters share an id."""
    ends_s: dict[str, float] = {}
    overlapping: list[str] = []
    for job in sorted(history.jobs, key=lambda job: job.start_s or math.inf):
        if job.start_s is not None and job.end_s is not None:
            if job.start_s < ends_s.get(job.id, -math.inf):
                overlapping.append(job.place)
            ends_s[job.id] = max(job.end_s, ends_s.get(job.id, -math.inf))
    if overlapping:
        history.report.warnings.append(
            f"{counted(len(overlapping), 'row')} of a job that ran at the same time as an earlier row of the"
            f" same id ({', '.join(overlapping[:_EXAMPLES])}): are these jobs of several clusters? Add the"
            " column Cluster to the table, and use --cluster NAME"
        )


def _site(history: History, options: HistoryOptions) -> int:
    """Return the site's size in hosts; drop jobs that are larger than a given size."""
    report = history.report
    nodes = _node_names(history.jobs)
    largest = max((job.node_count for job in history.jobs), default=1)
    if options.hosts is not None:
        site = options.hosts
        history.drop(f"larger than the site ({counted(site, 'host')})", lambda job: job.node_count > site)
    else:
        site = max(len(nodes), largest)
        report.notes.append(
            f"hosts: {counted(len(nodes), 'node')}, on which these jobs ran"
            if len(nodes) == site
            else f"hosts: {largest}, the size of the largest job (the table has no NodeList)"
        )
    most = _most_at_once(history.jobs)
    if most > site:
        report.warnings.append(
            f"at one time, jobs used {counted(most, 'node')}, more than {site}: they shared nodes; they are"
            " imported with exclusive nodes, so the load is higher than on the cluster"
        )
    return site


def _node_names(jobs: Iterable[PastJob]) -> set[str]:
    names: set[str] = set()
    for short in {job.nodes for job in jobs}:
        with in_file("NodeList", ValueError):
            names.update(expanded(short))
    return names


def _most_at_once(jobs: Sequence[PastJob]) -> int:
    """Return the largest number of nodes used at one time, each counted as often as it was used."""
    if not jobs:
        return 0
    starts: FloatArray = np.array([job.start_s for job in jobs], dtype=np.float64)
    ends: FloatArray = np.array([job.end_s for job in jobs], dtype=np.float64)
    counts = np.array([job.node_count for job in jobs], dtype=np.int64)
    times = np.concatenate([ends, starts])  # at the same time, ends precede starts
    order = np.argsort(times, kind="stable")
    return int(np.cumsum(np.concatenate([-counts, counts])[order]).max())


def _note(report: Report, jobs: Sequence[PastJob], local: datetime) -> None:
    """Report time 0, and the end states of the jobs that were kept."""
    utc = local.astimezone(timezone.utc)
    report.notes.append(
        f"time 0 is {local.isoformat()}, the first submission: [time] start of a site; for 'generate power',"
        f" --start '{utc:%Y-%m-%d %H:%M:%S}' (UTC)"
    )
    ends = Counter(job.state for job in jobs)
    report.notes.append("ended as: " + ", ".join(f"{count} {state}" for state, count in ends.most_common()))
