"""Data of a run for reports, as arrays; None for data that the run's files do not contain.

A `StepCurve` is a piecewise constant quantity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from sys import intern
from typing import Final

import msgspec
import numpy as np

from beasy_sched.arrays import FloatArray, IntArray, StateArray
from beasy_sched.energy.sources import source_kinds
from beasy_sched.engine.session_words import RUN_OVER
from beasy_sched.errors import InputError
from beasy_sched.formats.run_files import DEADLINES, DECISIONS, JOBS, PSTATES, STATES, SUMMARY, TRACE, path_of
from beasy_sched.formats.run_summary import (
    BatteryLevels,
    EnergyPart,
    GridPart,
    HydrogenLevels,
    RunSummary,
    SitePart,
    found_summary,
)
from beasy_sched.limits import MOST_HOSTS
from beasy_sched.model.events import JobEnd
from beasy_sched.model.jobs import ENDS, NOT_OUTCOMES, JobState
from beasy_sched.model.restarts import next_id
from beasy_sched.outputs.deadline_table import OUTCOMES as DEADLINE_OUTCOMES
from beasy_sched.plugins.reports.run_table import RunTable
from beasy_sched.run.results import LogLine, check_starts, read_log

MOST_POINTS: Final = 2000
"""Maximum number of points of a curve; longer ones are drawn as means over this number of spans."""

OUTCOMES = tuple(state for state in JobState if state not in NOT_OUTCOMES)
"""Outcomes of jobs, in the order of tables; a job's outcome is an index into it."""

CAME_BACK: Final = len(OUTCOMES)
"""Index in place of an outcome for a life after which the job came back."""

OUTCOME_COLORS = tuple(state.value.replace(" ", "-") for state in OUTCOMES)
"""Colour name of each outcome."""

_BATSIM_STATES = {end.value: state for end, state in ENDS.items()} | {"REJECTED": JobState.REJECTED}
_CUT_OFF = _BATSIM_STATES | {JobEnd.KILLED.value: JobState.UNFINISHED, "REJECTED": JobState.POSTPONED}
"""Outcomes of jobs cut off by the run's end, by Batsim's states; only the decision log distinguishes them."""


@dataclass(frozen=True)
class RunJobs:
    """Jobs of a run, one entry per job; times in s, NaN if a job never started."""

    ids: list[str]
    submit_s: FloatArray
    start_s: FloatArray
    end_s: FloatArray
    servers: IntArray
    """Number of servers requested by each job."""
    outcome: StateArray
    """Outcome of each job: an index into `OUTCOMES`, or `CAME_BACK`."""
    hosts: list[str]
    """Servers of each job in Batsim's notation; empty for a job that never started."""
    walltime_s: FloatArray | None = None
    """Walltime of each job, s; NaN for a job without a walltime. None if the table has no walltimes."""
    energy_j: FloatArray | None = None
    """Energy of each job's servers, J; NaN if unknown. None if the table has no energies."""

    @property
    def count(self) -> int:
        """Number of jobs: one that came back counts once."""
        return int(np.count_nonzero(self.outcome != CAME_BACK))

    def next_lives(self) -> IntArray:
        """Return the entry of the next life of each job that came back, -1 for the others."""
        following = np.full(len(self.ids), -1, dtype=np.int64)
        if self.count < len(self.ids):
            places = {job_id: place for place, job_id in enumerate(self.ids)}
            for place in np.flatnonzero(self.outcome == CAME_BACK).tolist():
                following[place] = places[next_id(self.ids[place])]
        return following


@dataclass(frozen=True)
class RunData:
    """Content of the existing files of a run."""

    name: str
    prefix: str
    summary: RunSummary | None
    """Summary of the run; None if it has not written one."""
    jobs: RunJobs | None
    trace: RunTable
    """Energy trace: one row per step of the site."""
    states: RunTable
    """Number of servers in each state over time."""
    pstates: RunTable
    """Changes of P-state."""
    deadlines: RunTable
    """Jobs with a deadline."""
    endings: list[LogLine] | None
    """Kills and rejections of the decision log; None if there is no log."""
    start_rules: dict[str, str] = field(default_factory=dict)
    """Rule by which each job was started, by its id; empty without a decision log."""
    absences: Sequence[LogLine] = ()
    """Lines of servers that were lost or became available again."""

    @property
    def site(self) -> SitePart | None:
        """Summary section about the site; None if there is none."""
        return None if self.summary is None else self.summary.site

    @property
    def battery(self) -> BatteryLevels | None:
        """Summary section about the site's battery; None if there is none."""
        return None if self.site is None else self.site.battery

    @property
    def soc_start_pct(self) -> float | None:
        """State of charge at the start, %; None if unknown."""
        return None if self.battery is None else self.battery.soc_start_pct

    @property
    def hydrogen(self) -> HydrogenLevels | None:
        """Summary section about the site's hydrogen; None if there is none."""
        return None if self.site is None else self.site.hydrogen

    @property
    def grid(self) -> GridPart | None:
        """Summary section about the grid; None if there is none."""
        return None if self.summary is None else self.summary.grid

    @property
    def energy_kwh(self) -> EnergyPart | None:
        """Energies of the summary; None if there are none."""
        return None if self.summary is None else self.summary.energy_kwh

    @property
    def has_battery(self) -> bool:
        """Whether the energy trace has a state of charge."""
        return len(self.trace) > 0 and not np.isnan(self.trace["soc_pct"]).all()

    @property
    def start_s(self) -> float | None:
        """Time of the site's clock at simulated time 0, s since 1970 by that clock; None if unknown."""
        start = None if self.site is None else self.site.start
        if start is None:
            return None
        return msgspec.convert(start, datetime).replace(tzinfo=timezone.utc).timestamp()

    @property
    def end_s(self) -> float:
        """Time at which the run ended according to its files, s."""
        if self.summary is not None and self.summary.end_s is not None:
            return self.summary.end_s
        times = [0.0]
        if self.jobs is not None:
            times += [float(np.nanmax(a, initial=0.0)) for a in (self.jobs.submit_s, self.jobs.end_s)]
        if len(self.trace):
            times.append(float(step_edges_s(self.trace)[-1]))
        return max(times)

    def outcome_counts(self) -> dict[str, int]:
        """Number of jobs by outcome, in the order of `OUTCOMES`; empty if no file has outcomes."""
        if self.summary is not None:
            counts = self.summary.jobs.counts()
            return {state.value: counts[state.value.replace(" ", "_")] for state in OUTCOMES}
        by_code = (
            []
            if self.jobs is None
            else np.bincount(self.jobs.outcome, minlength=len(OUTCOMES))[: len(OUTCOMES)].tolist()
        )
        return {state.value: count for state, count in zip(OUTCOMES, by_code, strict=False)}


_ABSENT: Final = ("lost", "back")


def read_run_data(name: str, prefix: str) -> RunData:
    """Read the existing files of a run.

    Raises InputError for an existing file that cannot be read, and for files of different runs.
    """
    log = _read_log(prefix) if path_of(prefix, DECISIONS).is_file() else None
    endings = None if log is None else log.endings
    summary = found_summary(prefix)
    jobs = _read_jobs(prefix, endings, come_back=summary is not None and summary.restarts is not None)
    data = RunData(
        name,
        prefix,
        summary,
        jobs,
        _read_trace(prefix),
        _read_states(prefix),
        _read_pstates(prefix),
        _read_deadlines(prefix),
        endings,
        {} if log is None else log.start_rules,
        [] if log is None else log.absences,
    )
    if jobs is not None and log is not None:
        check_starts(prefix, log.starts_s, dict(zip(jobs.ids, jobs.start_s.tolist(), strict=True)))
    if jobs is not None and summary is not None:
        submitted, listed = summary.jobs.submitted, jobs.count
        if listed > submitted or (summary.complete and listed < submitted):
            raise InputError(
                path_of(prefix, JOBS),
                f"does not belong to the run of {path_of(prefix, SUMMARY)}: found {listed} jobs, expected"
                f" {submitted}; run both sides again, or remove the files of the older run",
            )
    return data


def read_energy(name: str, prefix: str) -> RunData:
    """Read only the summary and the energy trace of a run. Raises InputError."""
    nothing = RunTable(path_of(prefix, STATES))
    return RunData(
        name, prefix, found_summary(prefix), None, _read_trace(prefix), nothing, nothing, nothing, None
    )


@dataclass
class _Log:
    """Read the data of the decision log that charts need."""

    starts_s: dict[str, float] = field(default_factory=dict)
    start_rules: dict[str, str] = field(default_factory=dict)
    endings: list[LogLine] = field(default_factory=list)
    absences: list[LogLine] = field(default_factory=list)


def _read_log(prefix: str) -> _Log:
    log = _Log()
    for line in read_log(prefix, "start", "kill", "reject", *_ABSENT):
        if line.action == "start":
            log.starts_s[line.job] = line.time
            log.start_rules[line.job] = intern(line.rule)
        else:
            (log.absences if line.action in _ABSENT else log.endings).append(line)
    return log


@dataclass(frozen=True)
class StepCurve:
    """Value (row i of ``values``, of shape (n,) or (n, k)) from each edge to the next; n + 1 rising edges.

    It is unknown beyond its last edge.
    """

    edges_s: FloatArray
    values: FloatArray
    notes: list[str] = field(default_factory=list)
    """Notes on the curve, shown below its chart."""

    def mean_over(self, edges_s: FloatArray) -> StepCurve:
        """Return the time-weighted means between ``edges_s``, which preserve sums over time.

        Before the first edge and after the last one the value is 0.
        """
        values = self.values.reshape(len(self.values), -1)
        lengths_s = np.diff(self.edges_s)[:, None]
        sums = np.vstack([np.zeros(values.shape[1]), np.cumsum(values * lengths_s, axis=0)])
        within_s = np.clip(edges_s, self.edges_s[0], self.edges_s[-1])
        at = np.clip(np.searchsorted(self.edges_s, within_s, "right") - 1, 0, len(values) - 1)
        reached = sums[at] + values[at] * (within_s - self.edges_s[at])[:, None]
        means = np.diff(reached, axis=0) / np.diff(edges_s)[:, None]
        return StepCurve(edges_s, means.reshape(-1, *self.values.shape[1:]))

    def thinned(self, most: int = MOST_POINTS) -> StepCurve:
        """Return the curve, reduced to means over ``most`` equal spans if it has more values."""
        if len(self.values) <= most or self.edges_s[-1] <= self.edges_s[0]:
            return self
        edges_s = np.linspace(self.edges_s[0], self.edges_s[-1], most + 1)
        note = f"Means over {edges_s[1] - edges_s[0]:,.0f} s each."
        return replace(self.mean_over(edges_s), notes=[note])


def count_changes(times_s: FloatArray, changes: FloatArray, end_s: float) -> StepCurve:
    """Accumulate ``changes`` in time order; simultaneous ones count as one.

    The last count holds until ``end_s``.
    """
    order = np.argsort(times_s, kind="stable")
    return last_of_each_time(times_s[order], np.cumsum(changes[order], axis=0), end_s)


def last_of_each_time(times_s: FloatArray, values: FloatArray, end_s: float) -> StepCurve:
    """Keep the last row of each time; the times must not fall. The last row holds until ``end_s``.

    A row at the very end has no duration and is omitted.
    """
    last = np.diff(times_s, append=np.inf) > 0
    edges_s, kept = times_s[last], values[last]
    if len(kept) > 1 and edges_s[-1] >= end_s:
        return StepCurve(edges_s, kept[:-1])
    return StepCurve(np.append(edges_s, max(end_s, float(edges_s[-1]))), kept)


def step_edges_s(trace: RunTable) -> FloatArray:
    """Return the start of each step, and the end of the last."""
    starts_s = trace["start_s"]
    return np.append(starts_s, starts_s[-1] + trace["duration_s"][-1])


def powers(trace: RunTable, columns: list[str]) -> StepCurve:
    """Return the mean powers of the steps (W), one column each, thinned."""
    return StepCurve(step_edges_s(trace), trace.side_by_side(columns)).thinned()


def levels(trace: RunTable, column: str, start: float | None = None) -> tuple[FloatArray, FloatArray]:
    """Return a level at the ends of the steps, and at the start if known."""
    edges_s, values = step_edges_s(trace), trace[column]
    if start is None:
        return edges_s[1:], values
    return edges_s, np.append(start, values)


_MAY_BE_EMPTY: Final = ("planned_", "predicted_", "clear_sky_w", "carbon_g", "import_")
"""Prefixes of columns of the energy trace that may be empty in some rows, as those of sources may."""


def _read_trace(prefix: str) -> RunTable:
    """Read the energy trace: a number in every field, except in columns that may have gaps."""
    needed = ("start_s", "duration_s", "renewable_w", "demand_w", "soc_pct")
    table = RunTable.read(path_of(prefix, TRACE), needed)
    if table.is_there:
        table.rising_times("start_s", strictly=True)
        table.times("duration_s")
        of_sources = {kind.column for kind in source_kinds()}
        for name in table.unread:
            no_battery = name == "soc_pct" and not any(table.texts(name))
            may_be_empty = name in of_sources or name.startswith(_MAY_BE_EMPTY)
            table.numbers(name, gaps=may_be_empty or no_battery)
    return table


def _read_deadlines(prefix: str) -> RunTable:
    """Read the table of jobs with a deadline."""
    table = RunTable.read(path_of(prefix, DEADLINES), ("job", "workflow", "deadline_s", "outcome"))
    if table.is_there:
        table.numbers("deadline_s")
        _check_known(table, "outcome", DEADLINE_OUTCOMES)
    return table


def _read_states(prefix: str) -> RunTable:
    """Read the table of the numbers of servers by state."""
    table = RunTable.read(path_of(prefix, STATES), ("time", "nb_sleeping", "nb_idle", "nb_computing"))
    if table.is_there:
        table.rising_times("time")
        for name in table.unread:
            if name.startswith("nb_"):
                table.numbers(name, least=0, most=MOST_HOSTS, whole=True)
    return table


def _read_pstates(prefix: str) -> RunTable:
    """Read the table of P-state changes; -1 and -2 mean switching servers."""
    table = RunTable.read(path_of(prefix, PSTATES), ("time", "machine_id", "new_pstate"))
    if table.is_there:
        table.rising_times("time")
        table.numbers("new_pstate", least=-2, most=(1 << 15) - 1, whole=True)
        table.host_sets("machine_id")
    return table


def _read_jobs(prefix: str, endings: list[LogLine] | None, *, come_back: bool) -> RunJobs | None:
    """Read the table of jobs; ``come_back``: jobs of the run may have several lives, with a row each."""
    columns = ("job_id", "workload_name", "submission_time", "requested_number_of_resources",
               "final_state", "starting_time", "finish_time", "allocated_resources")  # fmt: skip
    table = RunTable.read(path_of(prefix, JOBS), columns)
    if not table.is_there:
        return None
    states = _check_known(table, "final_state", _BATSIM_STATES)
    servers = table.numbers("requested_number_of_resources", least=1, most=(1 << 31) - 1, whole=True)
    submit_s = table.times("submission_time")
    start_s, end_s = table.times("starting_time", gaps=True), table.times("finish_time", gaps=True)
    half = np.isnan(start_s) != np.isnan(end_s)
    if half.any():
        line = int(np.argmax(half)) + 2
        raise InputError(table.path, "has only one of starting_time and finish_time", line=line)
    ids = [f"{w}!{j}" for w, j in zip(table.texts("workload_name"), table.texts("job_id"), strict=True)]
    over = {line.job for line in endings or [] if line.rule == RUN_OVER}
    ends = [
        (_CUT_OFF if job in over else _BATSIM_STATES)[state] for job, state in zip(ids, states, strict=True)
    ]
    outcome = np.array([OUTCOMES.index(end) for end in ends], dtype=np.int8)
    if come_back:
        all_ids = set(ids)
        outcome[[next_id(job_id) in all_ids for job_id in ids]] = CAME_BACK
    return RunJobs(
        ids=ids,
        submit_s=submit_s,
        start_s=start_s,
        end_s=end_s,
        servers=servers.astype(np.int64),
        outcome=outcome,
        hosts=table.host_sets("allocated_resources", gaps=True),
        walltime_s=_told(table, "requested_time"),
        energy_j=_told(table, "consumed_energy"),
    )


def _check_known(table: RunTable, name: str, allowed: Iterable[str]) -> list[str]:
    """Return a column of strings. Raises InputError if one is not in ``allowed``."""
    texts = [text or "nothing" for text in table.texts(name)]
    if unknown := sorted({*texts} - {*allowed}):
        raise InputError(table.path, f"{name}: found {unknown[0]!r}, expected {', '.join(allowed)}")
    return texts


def _told(table: RunTable, name: str) -> FloatArray | None:
    """Return a column that may be missing or have gaps; Batsim writes -1 for missing values."""
    if name not in table:
        return None
    values = table.numbers(name, gaps=True)
    return np.where(values < 0, np.nan, values)
