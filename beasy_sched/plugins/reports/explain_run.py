"""Explanation of a run: reasons of waits, killed jobs, longest waits, energy shortages."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from beasy_sched.engine.session_words import NO_ENERGY, NO_REASON, QUEUED, RUN_OVER, STILL_WAITING
from beasy_sched.errors import InputError
from beasy_sched.formats.run_files import TRACE, path_of
from beasy_sched.formats.run_summary import RunSummary, found_summary, value_at
from beasy_sched.model.hosts import HostSet
from beasy_sched.outputs.quantities import clock, count, span
from beasy_sched.outputs.reasons import in_words, words_in
from beasy_sched.plugins.reports.story import (
    AT_ONCE_S,
    Chapter,
    Entry,
    Story,
    Teller,
    because,
    named_hosts,
    told,
)
from beasy_sched.policies.easy import NO_STEP_ENERGY
from beasy_sched.run.results import JobRow, LogLine, read_jobs, read_log, read_trace
from beasy_sched.units import SECONDS_PER_HOUR, TIME_TOLERANCE_S, energy_text, percent_text, some_of

LONGEST = 5
"""Number of the longest waits in the overview."""
_NEAR_MIN_POINTS = 1.0
"""Distance from SoC_min below which energy counts as short, percentage points."""
_APART_S = SECONDS_PER_HOUR
"""Maximum gap between shortages that are merged into one, s."""
_TOLD_J = 36.0
"""Minimum energy that is reported, J."""
_NAMED = 6
"""Maximum number of jobs named for a group."""


@dataclass
class Wait:
    """Wait of a job in the queue."""

    job: str
    came_s: float
    ended_s: float
    """Time at which the job started or was rejected, s."""
    refused_for: str | None
    """Rule by which the job was rejected; None if it started."""
    hosts: int | None
    by_rule_s: dict[str, float]
    """Time that the job waited for each rule, s; the empty rule means waiting for the jobs before it."""

    @property
    def length_s(self) -> float:
        """Length of the wait, s."""
        return self.ended_s - self.came_s


@dataclass
class Tight:
    """Period of energy shortage."""

    start_s: float
    end_s: float
    lowest_pct: float | None = None
    """Lowest state of charge in the period, %; None without a battery."""
    unserved_j: float = 0.0
    killed: int = 0
    vetoed: set[str] = field(default_factory=set)
    """Jobs that did not start because of insufficient energy in the step."""

    def add(self, other: Tight) -> None:
        """Extend the period to ``other``, which begins later."""
        self.end_s = max(self.end_s, other.end_s)
        levels = [each for each in (self.lowest_pct, other.lowest_pct) if each is not None]
        self.lowest_pct = min(levels, default=None)
        self.unserved_j += other.unserved_j
        self.killed += other.killed
        self.vetoed |= other.vetoed


@dataclass(frozen=True)
class RunStory:
    """Data of a run, read from its files."""

    prefix: str
    summary: RunSummary | None
    """Summary of the run; None if it has not written one."""
    teller: Teller
    waits: Sequence[Wait]
    """Waits of all jobs that waited, longest first."""
    kills: Sequence[LogLine]
    unfinished: int
    """Jobs that still ran at the end."""
    rows: Mapping[str, JobRow]
    tight: Sequence[Tight]
    absent: Sequence[LogLine] = ()
    """Lines of servers that were lost or became available again."""
    redone_s: Mapping[str, float] = field(default_factory=dict)
    """Time of work that was done again after a kill, by job that came back, s."""

    def in_words(self, outcome: str, rule: str) -> str:
        """Describe why jobs were ``postponed``, ``rejected`` or ``killed``."""
        hosts = None if self.summary is None else self.summary.hosts
        return in_words(outcome, rule, hosts, self.teller.own)


def explain_run(prefix: str) -> Story:
    """Explain a run as a whole. Raises InputError for files that cannot be read."""
    run = _read(prefix)
    chapters = [
        Chapter("Jobs", [*_outcomes(run)]),
        Chapter(_waited_title(run), [*_why_waited(run)]),
        Chapter("Longest waits", [_wait_entry(run, wait) for wait in run.waits[:LONGEST]]),
        Chapter(f"Jobs killed: {len(run.kills)}", [*_kills_together(run)]),
        Chapter("Periods of energy shortage", [_tight_entry(each) for each in run.tight]),
        Chapter("Servers lost", [*_lost(run)]),
    ]
    return Story(_title(run), [chapter for chapter in chapters if chapter.entries], _data(run))


def explain_killed(prefix: str) -> Story:
    """Explain every kill. Raises InputError for files that cannot be read."""
    run = _read(prefix)
    entries = [
        Entry(f"{_killed_job(run, line)}. {because(line, run.teller)}", line.time) for line in run.kills
    ]
    entries = entries or [Entry("No job was killed.")]
    data = {
        "killed": [_kill_data(run, line) for line in run.kills],
        "not_completely_finished": run.unfinished,
    }
    return Story(_title(run), [Chapter(f"Jobs killed: {len(run.kills)}", entries, whole=True)], data)


def explain_waits(prefix: str, most: int) -> Story:
    """Explain the ``most`` longest waits. Raises InputError for files that cannot be read."""
    run = _read(prefix)
    longest = run.waits[:most]
    entries = [_wait_entry(run, wait) for wait in longest] or [Entry("No job waited.")]
    data = {"longest_waits": [_wait_data(wait) for wait in longest]}
    return Story(_title(run), [Chapter("Longest waits", entries, whole=True)], data)


# --- reading ------------------------------------------------------------------------------------------------


def _read(prefix: str) -> RunStory:
    """Read the log once, and the other files of the run."""
    rows = {row.id: row for row in read_jobs(prefix)}
    summary = found_summary(prefix)
    waiting = _Waiting(rows)
    kills: list[LogLine] = []
    vetoes: list[LogLine] = []
    absent: list[LogLine] = []
    redone_s: dict[str, float] = {}
    unfinished = 0
    for line in read_log(prefix):
        kind = line.kind
        if kind == "kill" and line.rule != RUN_OVER:
            kills.append(line)
        elif kind == "kill":
            unfinished += 1
        elif kind == "postpone" and line.rule == NO_STEP_ENERGY:
            vetoes.append(line)
        elif kind in ("lost", "back"):
            absent.append(line)
        elif kind == "restart":
            redone_s[line.job] = float(line.facts.get("redone_s") or 0.0)
        waiting.take(line)
    waits = sorted(waiting.ended, key=lambda wait: -wait.length_s)
    least_pct, steps = value_at(summary, "site", "soc_min_pct"), value_at(summary, "site", "steps")
    tight = _tight_moments(prefix, kills, vetoes, least_pct, steps)
    teller = Teller(words_in(summary))
    return RunStory(prefix, summary, teller, waits, kills, unfinished, rows, tight, absent, redone_s)


class _Waiting:
    """Follows jobs through the log until they start or are rejected."""

    def __init__(self, rows: Mapping[str, JobRow]) -> None:
        self._rows = rows
        self._reasons: dict[str, list[tuple[float, str]]] = {}
        """Reasons of waiting jobs; the first one also covers the time before any reason was given."""
        self._blocked_until_s = -math.inf
        """Time at which a job with a reason last left the queue, s."""
        self.ended: list[Wait] = []
        """Completed waits, except those of zero length."""

    def take(self, line: LogLine) -> None:
        """Record the effect of a line on the wait of its job."""
        kind = line.kind
        if kind == "postpone":
            self._begin(line).append((line.time, line.rule))
        elif kind in ("start", "reject", "waiting") and line.job:
            self._end(line)

    def _begin(self, line: LogLine) -> list[tuple[float, str]]:
        """Return the reasons of a line's job; the first one also covers the time before any was given."""
        if line.job not in self._reasons:
            row = self._rows.get(line.job)
            came_s = line.time - float(line.facts.get("waited_s") or 0.0) if row is None else row.subtime_s
            others_wait = bool(self._reasons) or self._blocked_until_s >= came_s
            self._reasons[line.job] = [(came_s, QUEUED if others_wait else NO_REASON)]
        return self._reasons[line.job]

    def _end(self, line: LogLine) -> None:
        has_reasons = line.job in self._reasons
        row, reasons = self._rows.get(line.job), self._begin(line)
        came_s = reasons[0][0]
        del self._reasons[line.job]
        if has_reasons:
            self._blocked_until_s = line.time
        if line.time - came_s <= AT_ONCE_S:
            return
        by_rule_s: dict[str, float] = defaultdict(float)
        moments = [*reasons, (line.time, "")]
        for (from_s, rule), (until_s, _) in pairwise(moments):
            by_rule_s[rule] += max(until_s - from_s, 0.0)
        asked = line.facts.get("hosts_asked")
        hosts = len(line.host_set()) or (int(asked) if isinstance(asked, int | float) else None)
        hosts = row.res if row is not None else hosts
        waited_s = {rule: length_s for rule, length_s in by_rule_s.items() if length_s > 0.0}
        refused_for = None if line.kind == "start" else line.rule
        self.ended.append(
            Wait(line.job, came_s, line.time, refused_for, hosts, waited_s or {reasons[0][1]: 0.0})
        )


def _tight_moments(
    prefix: str,
    kills: Sequence[LogLine],
    vetoes: Sequence[LogLine],
    least_pct: float | None,
    steps: float | None,
) -> list[Tight]:
    """Return when the battery was at SoC_min, load was unserved, or the guard killed jobs or vetoed starts.

    ``steps`` is the expected number of rows of the trace, None if unknown.
    """
    moments = [Tight(line.time, line.time, killed=1) for line in kills if line.rule == NO_ENERGY]
    moments += [Tight(line.time, line.time, vetoed={line.job}) for line in vetoes]
    trace = [*read_trace(prefix)]
    if trace and steps is not None and len(trace) != steps:
        raise InputError(
            path_of(prefix, TRACE),
            f"has {len(trace)} rows, but the run's summary has {steps:g} steps: one of the files is truncated"
            " or belongs to a different run",
        )
    for row in trace:
        soc_pct, unserved_w = row.get("soc_pct"), row.get("unserved_w", 0.0)
        low = soc_pct is not None and least_pct is not None and soc_pct < least_pct + _NEAR_MIN_POINTS
        if low or unserved_w > 0.0:
            end_s = row["start_s"] + row["duration_s"]
            unserved_j = unserved_w * row["duration_s"]
            moments.append(Tight(row["start_s"], end_s, soc_pct, unserved_j))
    together: list[Tight] = []
    for moment in sorted(moments, key=lambda each: each.start_s):
        if together and moment.start_s <= together[-1].end_s + _APART_S + TIME_TOLERANCE_S:
            together[-1].add(moment)
        else:
            together.append(moment)
    return together


# --- sentences ----------------------------------------------------------------------------------------------


def _title(run: RunStory) -> str:
    return f"Run {run.prefix}" + ("" if run.summary is None else f", policy {run.summary.settings.policy}")


def _outcomes(run: RunStory) -> Iterator[Entry]:
    """Number of submitted jobs, and their outcomes."""
    if (summary := run.summary) is None:
        return
    parts = [
        f"{number:,} {name.replace('_', ' ')}"
        for name, number in summary.jobs.counts().items()
        if name != "submitted" and number
    ]
    yield Entry(f"{count(summary.jobs.submitted, 'job')} submitted: {', '.join(parts) or 'none ended'}.")
    if summary.error:
        yield Entry(f"The run ended early: {summary.error}.")
    for outcome in ("rejected", "postponed"):
        counts = summary.reasons.get(outcome, {})
        words = [f"{run.in_words(outcome, rule)} ({number:,})" for rule, number in counts.items()]
        if any(counts):
            yield Entry(f"{outcome.capitalize()}: {'; '.join(words)}.")


def _waited_title(run: RunStory) -> str:
    total_s = sum(wait.length_s for wait in run.waits)
    return f"Why jobs waited: {_hours(total_s)} of {count(len(run.waits), 'job')}"


def _hours(length_s: float) -> str:
    """Format a sum of waiting times in job-hours."""
    return f"{length_s / SECONDS_PER_HOUR:,.1f} job-hours"


def _by_rule(run: RunStory) -> list[tuple[str, float, int]]:
    """Return each rule with its total wait (s) and number of jobs, the longest wait first."""
    length_s: dict[str, float] = defaultdict(float)
    jobs: dict[str, int] = defaultdict(int)
    for wait in run.waits:
        for rule, waited_s in wait.by_rule_s.items():
            length_s[rule] += waited_s
            jobs[rule] += 1
    return sorted(((rule, length_s[rule], jobs[rule]) for rule in length_s), key=lambda each: -each[1])


def _why_waited(run: RunStory) -> Iterator[Entry]:
    reasons = _by_rule(run)
    total_s = sum(length_s for _, length_s, _ in reasons)
    for rule, length_s, jobs in reasons:
        share = f"{100.0 * length_s / total_s:.0f} %" if total_s else "0 %"
        words = run.in_words("postponed", rule)
        yield Entry(f"{_hours(length_s)} ({share}) of {count(jobs, 'job')}: {words}.")


def _wait_entry(run: RunStory, wait: Wait) -> Entry:
    hosts = "" if wait.hosts is None else f", {count(wait.hosts, 'host')}"
    over = " and never started; the run ended"
    ends: dict[str | None, str] = {None: ", started", RUN_OVER: over, STILL_WAITING: over}
    end = f"{ends.get(wait.refused_for, ' and was rejected')} at {clock(wait.ended_s)}"
    parts = sorted(wait.by_rule_s.items(), key=lambda item: -item[1])
    whys = [
        run.in_words("postponed", rule) + (f" ({span(length_s)})" if len(parts) > 1 else "")
        for rule, length_s in parts
    ]
    text = f"{wait.job}{hosts}: waited {span(wait.length_s)}{end}."
    return Entry(f"{text} Why: {'; '.join(whys)}.", wait.came_s)


def _kills_together(run: RunStory) -> Iterator[Entry]:
    """One entry for simultaneous kills by the same rule; then the kills at the end of the run."""
    groups: dict[tuple[float, str], list[LogLine]] = defaultdict(list)
    for line in run.kills:
        groups[line.time, line.rule].append(line)
    for (time_s, rule), lines in groups.items():
        names = some_of([line.job for line in lines], _NAMED)
        lost_j = sum(_lost_j(run, line.job) for line in lines)
        lost = f", {energy_text(lost_j)} of work lost" if lost_j else ""
        yield Entry(f"{names}: {_cause(run, rule, lines[0])}{lost}.", time_s)
    if run.unfinished and run.kills:
        yield Entry(f"(In addition, {count(run.unfinished, 'job')} still ran when the run ended.)")


def _lost_j(run: RunStory, job: str) -> float:
    """Return the energy of a killed job's work, without that which its next life continues, J."""
    row = run.rows.get(job)
    if row is None or not row.energy_j:
        return 0.0
    redone_s = run.redone_s.get(job)
    if redone_s is None or row.start_s is None or row.end_s is None or row.end_s <= row.start_s:
        return row.energy_j
    return row.energy_j * min(redone_s / (row.end_s - row.start_s), 1.0)


def _cause(run: RunStory, rule: str, line: LogLine) -> str:
    """Reason for simultaneous kills, with the facts that they share."""
    missing_j, soc_pct = line.facts.get("missing_j"), line.facts.get("soc_pct")
    parts = [run.in_words("killed", rule)]
    if isinstance(missing_j, int | float):
        parts.append(f"{energy_text(missing_j)} short in this step")
    if isinstance(soc_pct, int | float):
        parts.append(f"battery at {percent_text(soc_pct)}")
    return ", ".join(parts)


def _killed_job(run: RunStory, line: LogLine) -> str:
    row = run.rows.get(line.job)
    ran = "" if row is None or row.start_s is None else f" after {span(line.time - row.start_s)}"
    return f"{line.job} on {count(len(line.host_set()), 'host')}{ran}"


def _tight_entry(tight: Tight) -> Entry:
    parts = [] if tight.lowest_pct is None else [f"battery down to {percent_text(tight.lowest_pct)}"]
    if tight.killed:
        parts.append(f"{count(tight.killed, 'job')} killed by the guard")
    if tight.vetoed:
        parts.append(f"{count(len(tight.vetoed), 'job')} not started for lack of energy")
    if tight.unserved_j >= _TOLD_J:
        parts.append(f"{energy_text(tight.unserved_j)} not served")
    until = f"until {clock(tight.end_s)}: " if tight.end_s > tight.start_s else ""
    return Entry(f"{until}{', '.join(parts)}.", tight.start_s)


def _lost(run: RunStory) -> Iterator[Entry]:
    """Losses of servers, and whether they became available again; equal ones are grouped."""
    last: dict[int, LogLine] = {}
    failures: dict[int, Counter[str]] = defaultdict(Counter)
    for line in run.absent:
        for host in line.host_set():
            last[host] = line
            if line.kind == "lost":
                failures[host][line.rule] += 1
    alike: dict[str, list[int]] = defaultdict(list)
    for host, rules in sorted(failures.items()):
        why = ", ".join(f"{rule} {count(times, 'time')}" for rule, times in rules.items())
        end = f"{'back' if last[host].kind == 'back' else 'permanently lost'} at {clock(last[host].time)}"
        alike[f"{why}; {end}"].append(host)
    for text, hosts in alike.items():
        yield Entry(f"{named_hosts(HostSet.of(hosts), 'server')}: {text}.")


# --- data ---------------------------------------------------------------------------------------------------


def _data(run: RunStory) -> dict[str, Any]:
    """Return the explanation as data for tools."""
    return {
        "policy": None if run.summary is None else run.summary.settings.policy,
        "jobs": None if run.summary is None else run.summary.jobs.counts(),
        "reasons": None if run.summary is None else run.summary.reasons,
        "waiting": [
            {
                "rule": rule,
                "words": run.in_words("postponed", rule),
                "job_hours": length_s / SECONDS_PER_HOUR,
                "jobs": jobs,
            }
            for rule, length_s, jobs in _by_rule(run)
        ],
        "longest_waits": [_wait_data(wait) for wait in run.waits[:LONGEST]],
        "killed": [_kill_data(run, line) for line in run.kills],
        "not_completely_finished": run.unfinished,
        **({"servers_lost": [told(line, run.teller) for line in run.absent]} if run.absent else {}),
        "tight_moments": [
            {
                "start_s": each.start_s,
                "end_s": each.end_s,
                "soc_lowest_pct": each.lowest_pct,
                "unserved_j": each.unserved_j,
                "jobs_killed": each.killed,
                "jobs_without_energy": len(each.vetoed),
            }
            for each in run.tight
        ],
    }


def _wait_data(wait: Wait) -> dict[str, Any]:
    return {
        "job": wait.job,
        "submitted_s": wait.came_s,
        "waited_s": wait.length_s,
        "started_s": wait.ended_s if wait.refused_for is None else None,
        "hosts_asked": wait.hosts,
        "refused_for": wait.refused_for,
        "waited_s_by_rule": wait.by_rule_s,
    }


def _kill_data(run: RunStory, line: LogLine) -> dict[str, Any]:
    row = run.rows.get(line.job)
    return {
        **told(line, run.teller),
        "started_s": None if row is None else row.start_s,
        "energy_j": None if row is None else row.energy_j,
        "lost_j": None if row is None else _lost_j(run, line.job),
    }
