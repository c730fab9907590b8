"""Results in the formats of others: a trace of what happened (SWF), and a table of jobs with their energy."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, Final

from beasy_sched._version import __version__
from beasy_sched.errors import InputError
from beasy_sched.extras import load_optional
from beasy_sched.formats import run_files
from beasy_sched.formats.decoding import JsonDecoder, Malformed
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.repeatable import checked_paths, read_run_inputs
from beasy_sched.formats.run_summary import RunSummary, read_summary
from beasy_sched.formats.swf_fields import SWF_FIELDS
from beasy_sched.run.results import JobRow, read_jobs

STATUS: Final = {"COMPLETED_SUCCESSFULLY": 1, "COMPLETED_FAILED": 0, "COMPLETED_WALLTIME_REACHED": 0}
"""Status in SWF of Batsim's final states; others are 5: cancelled, before or after the start."""
_CANCELLED: Final = 5
_OF_USERS: Final = ("user", "group", "executable", "queue", "partition")
"""Fields of SWF that jobs of a workload may have, as numbers."""
PARQUET: Final = ".parquet"


@dataclass(frozen=True)
class JobWithEnergy:
    """One row of the table of jobs. Times count from the start of the run; None if there is no value."""

    run: str
    policy: str
    job: str
    """Id of the job, with its workload."""
    user: int | str | None
    """User, if the workload names users."""
    nodes: int
    """Number of servers that the job requested."""
    walltime_s: float | None
    submit_s: float
    start_s: float | None
    end_s: float | None
    state: str
    """Batsim's final state."""
    energy_j: float | None
    """Energy of the job's servers while it ran."""
    mean_power_w: float | None
    """Mean power of all of its servers together."""


def jobs_with_energy(name: str, prefix: str, note: Callable[[str], None]) -> Iterator[JobWithEnergy]:
    """Yield the jobs of a run, in the order in which they ended. Raises InputError.

    ``note`` receives the reason if the users of jobs are unknown.
    """
    policy = read_summary(prefix).settings.policy
    known = _known_fields(prefix, note)
    for job in _rows_of(prefix):
        ran_s = None if job.start_s is None or job.end_s is None else job.end_s - job.start_s
        yield JobWithEnergy(
            run=name,
            policy=policy,
            job=job.id,
            user=known.get(job.id, {}).get("user"),
            nodes=job.res,
            walltime_s=job.walltime_s,
            submit_s=job.subtime_s,
            start_s=job.start_s,
            end_s=job.end_s,
            state=job.final_state,
            energy_j=job.energy_j,
            mean_power_w=job.energy_j / ran_s if ran_s and job.energy_j is not None else None,
        )


def failed_among(prefixes: Collection[str]) -> list[str]:
    """Return the prefixes of runs that failed, and so have no file of jobs; none if all failed."""
    suffix = run_files.failed_prefix("")
    failed = [
        prefix
        for prefix in prefixes
        if prefix.endswith(suffix) and not run_files.path_of(prefix, run_files.JOBS).exists()
    ]
    return failed if len(failed) < len(prefixes) else []


def _rows_of(prefix: str) -> Iterator[JobRow]:
    path = run_files.path_of(prefix, run_files.JOBS)
    if not path.exists():
        raise InputError(path, "not found: only runs that write Batsim's files have jobs to export")
    return read_jobs(prefix)


def csv_pieces(rows: Iterable[JobWithEnergy]) -> Iterator[str]:
    """Yield the table as CSV; empty cells have no value."""
    yield ",".join(field.name for field in fields(JobWithEnergy)) + "\n"
    for row in rows:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(
            ["" if cell is None else cell for cell in astuple(row)]
        )
        yield line.getvalue()


def parquet_bytes(rows: Iterable[JobWithEnergy]) -> bytes:
    """Return the table as Parquet. Raises ConfigError without the extra ``data``."""
    pyarrow = load_optional("pyarrow", "beasy-sched[data]", "Parquet files")
    parquet = load_optional("pyarrow.parquet", "beasy-sched[data]", "Parquet files")
    columns = [*zip(*map(astuple, rows), strict=True)]
    names = [field.name for field in fields(JobWithEnergy)]
    types = {
        "user": pyarrow.string(),
        "nodes": pyarrow.int64(),
        **{name: pyarrow.string() for name in ("run", "policy", "job", "state")},
    }
    arrays = [
        pyarrow.array(
            [None if cell is None else str(cell) for cell in column] if name == "user" else list(column),
            types.get(name, pyarrow.float64()),
        )
        for name, column in zip(names, columns or [()] * len(names), strict=True)
    ]
    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_arrays(arrays, names), sink)
    return sink.getvalue()


def swf_pieces(prefix: str, note: Callable[[str], None]) -> Iterator[str]:
    """Yield what happened in a run in the Standard Workload Format 2.2, in the order of submission.

    Times are integers, as the format requires: each is rounded, so that sums of them stay exact. Raises
    InputError.
    """
    jobs = sorted(_rows_of(prefix), key=lambda job: job.subtime_s)
    known = _known_fields(prefix, note)
    yield from _swf_header(read_summary(prefix), jobs)
    for number, job in enumerate(jobs, 1):
        yield _swf_row(number, job, known.get(job.id, {}))


def _swf_header(summary: RunSummary, jobs: Sequence[JobRow]) -> Iterator[str]:
    hosts = summary.hosts or max((job.res for job in jobs), default=0)
    lines = {
        "Version": "2.2",
        "Computer": f"simulation by beasy-sched {__version__}, policy {summary.settings.policy}",
        "MaxJobs": len(jobs),
        "MaxRecords": len(jobs),
        "UnixStartTime": 0,
        "MaxNodes": hosts,
        "MaxProcs": hosts,
        "Note": "a processor is a whole server; times count from the start of the run",
    }
    return (f"; {name}: {value}\n" for name, value in lines.items())


def _swf_row(number: int, job: JobRow, known: Mapping[str, Any]) -> str:
    submit = round(job.subtime_s)
    ran = job.start_s is not None and job.end_s is not None
    start, end = (round(job.start_s or 0.0), round(job.end_s or 0.0)) if ran else (0, 0)
    values: dict[str, int] = {
        "job_number": number,
        "submit_s": submit,
        "wait_s": start - submit if ran else -1,
        "run_s": end - start if ran else -1,
        "allocated_processors": job.res if ran else -1,
        "requested_processors": job.res,
        "requested_time_s": -1 if job.walltime_s is None else round(job.walltime_s),
        "status": STATUS.get(job.final_state, _CANCELLED),
        **{name: value for name, value in known.items() if isinstance(value, int)},
    }
    return " ".join(str(values.get(name, -1)) for name in SWF_FIELDS) + "\n"


def _known_fields(prefix: str, note: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """Return the users and queues of each job that the workloads of a run name."""
    if not run_files.path_of(prefix, run_files.INPUTS).exists():
        return {}
    try:
        paths = checked_paths(prefix, read_run_inputs(prefix).workloads)
    except InputError as error:
        note(f"users of jobs are unknown: {error}")
        return {}
    known: dict[str, dict[str, Any]] = {}
    for number, path in enumerate(paths):
        try:
            jobs = JsonDecoder(dict[str, Any]).decode(read_bytes(path))["jobs"]
        except (Malformed, KeyError) as error:
            raise InputError(path, f"is not a workload: {error}") from None
        for job in jobs:
            if found := {name: job[name] for name in _OF_USERS if job.get(name) is not None}:
                known[f"w{number}!{job['id']}"] = found
    return known
