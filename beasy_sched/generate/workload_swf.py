"""From an SWF trace to a Batsim workload (thesis, Sections 3.2.1 and 3.3.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.swf import LINE_COLUMN, Progress, SwfFindings, SwfReader
from beasy_sched.formats.swf_fields import SWF_FIELDS
from beasy_sched.generate.job_deadlines import with_chains
from beasy_sched.generate.random_streams import grouped_walltimes, to_microseconds
from beasy_sched.generate.workload import GeneratedWorkload, Report, plain_numbers
from beasy_sched.generate.workload_options import EXTRA_FIELDS, SwfOptions
from beasy_sched.limits import LARGEST_INT
from beasy_sched.units import counted

OUTSIDE: Final = "outside the time window"
WAITING_SUBMIT_S: Final = 0.1
"""Time at which jobs are submitted that already wait at the window's start: after those that run."""
_EXAMPLES: Final = 5
PARTIAL: Final = (2, 3, 4)
"""Statuses of rows that hold one part of a job that was suspended: not its last, its last (it completed),
and its last (it failed)."""
_ALWAYS: Final = (
    "job_number",
    "status",
    "submit_s",
    "run_s",
    "allocated_processors",
    "requested_processors",
    "requested_time_s",
)


class Rows(dict[str, FloatArray]):
    """Columns of equal length by name: SWF fields, ``line``, and what the conversion adds."""

    def __init__(self, columns: dict[str, FloatArray], report: Report) -> None:
        super().__init__(columns)
        self.report = report
        self.note, self.warn = report.notes.append, report.warnings.append
        self.window_s = math.inf
        """Length of the time window; infinite for one that has no end."""
        self.start_s = 0.0
        """Start of the window in the trace's own time, s."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self["line"])

    def keep(self, mask: BoolArray, reason: str) -> None:
        """Keep the rows of ``mask``, count the others under ``reason``, and note where the first stand."""
        if mask.all():
            return
        lines = self["line"][~mask]
        self.report.dropped[reason] = self.report.dropped.get(reason, 0) + len(lines)
        if reason != OUTSIDE:
            self.report.examples[reason] = [f"line {line:.0f}" for line in lines[:_EXAMPLES].tolist()]
        self.take(mask)

    def take(self, rows: IndexArray | BoolArray) -> None:
        """Choose or reorder rows, as NumPy's indexing does."""
        for name, column in self.items():
            self[name] = column[rows]


def read_rows(reader: SwfReader, options: SwfOptions) -> Rows:
    """Read the columns that ``options`` ask for, of the jobs submitted within the window.

    ``submit_s`` counts from the window's start. Raises InputError.
    """
    positions = _positions(options)
    report = Report()
    first, late, parts = math.inf, 0, []
    for chunk in reader.chunks():
        submit = chunk[:, positions["submit_s"]]
        first = min(first, float(submit[submit >= 0].min(initial=math.inf)))
        end = options.end_s + (0.0 if options.absolute else first)
        # A later row can only move the end of the window to the front: what is behind it stays out.
        outside = submit >= end
        late += int(np.count_nonzero(outside))
        parts.append(chunk[~outside][:, [*positions.values()]])
    columns = {name: np.concatenate([part[:, i] for part in parts]) for i, name in enumerate(positions)}
    _report_findings(report, reader.findings)
    rows = Rows(columns, report)
    _count_jobs_once(rows, options)
    rows.keep(rows["submit_s"] >= 0, "no submission time")
    origin = 0.0 if options.absolute else first
    start = first if options.start_s is None else options.start_s + origin
    end = options.end_s + origin
    if options.carry_over:
        _carry_over(rows, start)
    rows.keep((rows["submit_s"] >= start) & (rows["submit_s"] < end), OUTSIDE)
    if late:
        report.dropped[OUTSIDE] = report.dropped.get(OUTSIDE, 0) + late
    rows["submit_s"] = np.round(rows["submit_s"] - start, 6)
    rows.window_s, rows.start_s = end - start, start
    return rows


def _count_jobs_once(rows: Rows, options: SwfOptions) -> None:
    """Use the row of the whole job where a trace also has rows of its parts, otherwise join the parts.

    The definition of field 11 (status) recommends one or the other, never both. Parts are used where their
    statuses are asked for.
    """
    if not set(PARTIAL).isdisjoint(options.keep.get("status", ())):
        return
    partial = np.isin(rows["status"], PARTIAL) & (rows["job_number"] >= 0)
    if not partial.any():
        return
    described = np.isin(rows["job_number"], rows["job_number"][~partial])
    rows.keep(~(partial & described), "part of a job that also has a row for the whole (status 2, 3 or 4)")
    _join_parts(rows)


def _join_parts(rows: Rows) -> None:
    """Make one row of the parts of each job: its first part, with the run time of all of them."""
    partial = np.isin(rows["status"], PARTIAL) & (rows["job_number"] >= 0)
    places = partial.nonzero()[0]
    _, first, job = np.unique(rows["job_number"][places], return_index=True, return_inverse=True)
    if len(first) == len(places):
        return
    run_s = np.maximum(rows["run_s"][places], 0.0)
    rows["run_s"][places[first]] = np.bincount(job, weights=run_s)
    later = np.ones(len(places), dtype=np.bool_)
    later[first] = False
    whole = np.ones(rows.count, dtype=np.bool_)
    whole[places[later]] = False
    joined = int(np.count_nonzero(np.bincount(job) > 1))
    rows.note(f"{counted(joined, 'job')} of which the trace has parts only: their run times were added")
    rows.keep(whole, "part that was added to the first part of its job")


def _carry_over(rows: Rows, start: float) -> None:
    """Move jobs that ran or waited at ``start`` to it: as the energy-budget study cut its weeks.

    A running job keeps what was left of its run time and its requested time.
    """
    begin = rows["submit_s"] + np.maximum(rows["wait_s"], 0.0)
    end = begin + rows["run_s"]
    earlier = (rows["submit_s"] < start) & (rows["run_s"] >= 0)
    running = earlier & (begin <= start) & (end > start)
    waiting = earlier & (begin > start)
    rows["run_s"] = np.where(running, end - start, rows["run_s"])
    left = rows["requested_time_s"] - (start - begin)
    rows["requested_time_s"] = np.where(running, left, rows["requested_time_s"])
    rows["submit_s"] = np.where(running, start, rows["submit_s"])
    rows["submit_s"] = np.where(waiting, start + WAITING_SUBMIT_S, rows["submit_s"])
    rows.note(
        f"{running.sum()} jobs were running when the window starts, {waiting.sum()} were waiting: "
        f"submitted at 0 and {WAITING_SUBMIT_S}"
    )


def _positions(options: SwfOptions) -> dict[str, int]:
    """Choose the columns to keep, so that millions of jobs fit into memory."""
    waits = ["wait_s"] if options.carry_over else []
    chained = [] if options.chains == "none" else ["preceding_job", "think_time_s"]
    extras = (EXTRA_FIELDS[name] for name in options.extras)
    names = (*_ALWAYS, *options.keep, *extras, *waits, *chained)
    positions = {name: SWF_FIELDS[name] - 1 for name in names}
    positions["requested_time_s"] = options.requested_time_field - 1
    positions["line"] = LINE_COLUMN
    return positions


def _report_findings(report: Report, findings: SwfFindings) -> None:
    report.rows = findings.rows
    if findings.bad_rows:
        report.dropped["cannot be read"] = findings.bad_rows
        report.examples["cannot be read"] = findings.examples
        report.warnings.append(
            f"{findings.bad_rows} of {counted(findings.rows, 'row')} cannot be read: {findings.examples[0]}"
        )
    if findings.long_rows:
        long = f"more than 18 fields in {counted(findings.long_rows, 'row')}"
        report.warnings.append(f"{long}: the first 18 were used")
    if findings.damage:
        report.warnings.append(f"{findings.damage}: only the jobs before that are included")


def workload_from_swf(
    path: PathLike, options: SwfOptions, progress: Progress | None = None
) -> GeneratedWorkload:
    """Convert the trace at ``path``; the file is read once, as a stream.

    Jobs are sorted by submission (those of one instant stay in the file's order), and the window's start
    becomes 0. Every row that is omitted is counted in the workload's ``report``. Raises InputError for a
    file that cannot be read, and where no job is left.
    """
    reader = SwfReader(path, accept_damaged=options.accept_damaged, progress=progress)
    rows = read_rows(reader, options)
    _fix_run_times(rows, options)
    _count_hosts(rows, options)
    _filter(rows, options)
    site = _fit_site(rows, options, reader)
    inversions = int(np.count_nonzero(np.diff(rows["submit_s"]) < 0))
    if inversions:
        rows.note(f"rows were out of order ({inversions} steps back): sorted by submission")
        rows.take(np.argsort(rows["submit_s"], kind="stable"))
    _set_walltimes(rows, options)
    if not rows.count:
        reasons = "; ".join(f"{count} {reason}" for reason, count in rows.report.dropped.items())
        raise InputError(path, f"no job is left of {rows.report.rows}: {reasons}")
    ids, from_trace = _ids(rows)
    made = GeneratedWorkload(
        nb_res=site,
        window_s=rows.window_s if math.isfinite(rows.window_s) else float(rows["submit_s"].max()),
        ids=ids,
        submit_s=rows["submit_s"],
        run_s=rows["run_s"],
        hosts=rows["hosts"].astype(np.int64),
        walltime_s=rows["walltime_s"],
        reference_speed_flops=options.speed_flops,
        profile_type=options.profile_type,
        extras=_extras(rows, options.extras if from_trace else [*options.extras, "job_number"]),
        report=rows.report,
        midnight_s=_midnight_s(reader, rows.start_s),
    )
    if options.chains == "none":
        return made
    return with_chains(made, options.chains, rows["job_number"], rows["preceding_job"], rows["think_time_s"])


def local_time(reader: SwfReader, time_s: float) -> datetime | None:
    """Return the local time of a moment of the trace's own time; None where the header does not state it.

    ``reader`` has read the header, which is complete after the first chunk.
    """
    unix_s, zone_name = reader.header_number("UnixStartTime"), reader.header.get("TimeZoneString", "")
    if unix_s is None:
        return None
    try:
        return datetime.fromtimestamp(unix_s + time_s, ZoneInfo(zone_name))
    except (ValueError, OverflowError, OSError, ZoneInfoNotFoundError):
        return None


def _midnight_s(reader: SwfReader, start_s: float) -> float | None:
    """The local midnight before the window's start, counted from it; None if the header does not state it."""
    local = local_time(reader, start_s)
    return None if local is None else -float(local.hour * 3600 + local.minute * 60 + local.second)


def _fix_run_times(rows: Rows, options: SwfOptions) -> None:
    rows.keep(rows["run_s"] >= 0, "no run time")
    zero = rows["run_s"] == 0
    if options.zero_run_time_s is None:
        rows.keep(~zero, "run time 0")
    elif zero.any():
        rows["run_s"] = np.where(zero, options.zero_run_time_s, rows["run_s"])
        rows.note(f"{zero.sum()} run times of 0 became {options.zero_run_time_s:g} s")


def _count_hosts(rows: Rows, options: SwfOptions) -> None:
    """Add the column ``hosts``: ceil(processors / cores_per_host)."""
    first = options.processors
    second = "requested" if first == "allocated" else "allocated"
    chosen, other = f"{first}_processors", f"{second}_processors"
    rows.keep((rows[chosen] > 0) | (rows[other] > 0), "no number of processors")
    replaced = rows[chosen] <= 0
    if replaced.any():
        rows.note(f"{replaced.sum()} jobs have no {first} processors: the {second} ones were used")
    processors = np.where(replaced, rows[other], rows[chosen])
    rows["hosts"] = np.ceil(processors / options.cores_per_host)


def _filter(rows: Rows, options: SwfOptions) -> None:
    for name, values in options.keep.items():
        rows.keep(np.isin(rows[name], sorted(values)), f"other {name}")
    run = rows["run_s"]
    rows.keep((run >= options.min_run_s) & (run <= options.max_run_s), "run time out of bounds")
    if options.max_hosts is not None:
        rows.keep(rows["hosts"] <= options.max_hosts, f"more than {options.max_hosts} hosts")


def _fit_site(rows: Rows, options: SwfOptions, reader: SwfReader) -> int:
    """Return the site's size in hosts; drop jobs that are larger than a size given."""
    largest = int(rows["hosts"].max(initial=1))
    if options.hosts is not None:
        too_large = rows["hosts"] > options.hosts
        if not options.keep_oversize:
            rows.keep(~too_large, f"larger than the site ({options.hosts} hosts)")
        elif too_large.any():
            rows.warn(f"{too_large.sum()} jobs need more than the site's {options.hosts} hosts")
        return options.hosts
    processors = reader.header_number("MaxProcs", "MaxNodes")
    if processors is None:
        rows.note(f"the header states no size: the site is as large as the largest job, {largest}")
        return largest
    site = math.ceil(processors / options.cores_per_host)
    if site > LARGEST_INT:
        raise InputError(
            reader.path,
            f"its header (MaxProcs, MaxNodes) states {processors:.0f} processors, which is more than Batsim"
            f" counts hosts ({LARGEST_INT}): give the size of the site with --hosts",
        )
    if largest > site:
        rows.warn(
            f"the header's size is {site} hosts, but the largest job needs {largest}: this is the site's size"
        )
    return max(site, largest)


def _set_walltimes(rows: Rows, options: SwfOptions) -> None:
    """Add the column ``walltime_s`` (NaN: no limit) and shorten run times to it if asked."""
    if options.walltimes == "none":
        rows["walltime_s"] = np.full(rows.count, math.nan)
        rows.note("walltimes: none, no job has a limit")
    elif options.walltimes == "groups":
        rows["walltime_s"] = grouped_walltimes(rows["run_s"], options.seed)
        rows.note(f"walltimes: five equal groups of overestimation, seed {options.seed}")
    else:
        _trace_walltimes(rows, options)
    late = rows["run_s"] > rows["walltime_s"]
    if options.clip_run_time and late.any():
        rows["run_s"] = np.where(late, rows["walltime_s"], rows["run_s"])
        rows.note(f"{late.sum()} run times were shortened to the walltime")


def _trace_walltimes(rows: Rows, options: SwfOptions) -> None:
    rule, field = options.missing_walltime, options.requested_time_field
    missing = rows["requested_time_s"] <= 0
    count = int(missing.sum())
    if count and count == rows.count:
        rows.warn(f"no job has a requested time in field {field}: try another field (--requested-time-field)")
    if rule == "drop":
        rows.keep(~missing, "no requested time")
        rows["walltime_s"] = to_microseconds(rows["requested_time_s"])
        return
    factor = math.nan if rule == "none" else float(rule)
    guess = rows["run_s"] * factor
    rows["walltime_s"] = to_microseconds(np.where(missing, guess, rows["requested_time_s"]))
    if count:
        what = "they have no limit" if rule == "none" else f"their walltime is {factor:g} x the run time"
        rows.note(f"{count} jobs have no requested time: {what}")


def _ids(rows: Rows) -> tuple[Sequence[str], bool]:
    """Take the job numbers as ids, or count from 1 where they are not ids; return which."""
    numbers = rows["job_number"]
    if (numbers >= 0).all() and len(np.unique(numbers)) == len(numbers):
        return [str(number) for number in plain_numbers(numbers)], True
    rows.note("job numbers are missing or occur twice: ids count from 1, job_number is kept")
    return [str(number) for number in range(1, rows.count + 1)], False


def _extras(rows: Rows, names: Iterable[str]) -> dict[str, list[Any]]:
    """The members of the jobs; -1 is what SWF has for a missing value."""
    return {
        name: [None if value == -1 else value for value in plain_numbers(rows[EXTRA_FIELDS[name]])]
        for name in dict.fromkeys(names)
    }
