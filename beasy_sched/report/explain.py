"""The stories of a job and of a step: what happened, and why, from the records of a run.

A job's story tells when it came, why it waited, why it started, what befell it, and how it ended; a step's
its energy, and what was decided in it. Both are trees of short texts, with the same as data.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from beasy_sched.errors import ConfigError
from beasy_sched.policies.easy import SET_ASIDE
from beasy_sched.policies.working_plan import PLANNED
from beasy_sched.report.explain_rules import clock, count, energy, in_short, percent, power, sentence, span
from beasy_sched.results import JobRow, LogLine, read_jobs, read_log, read_trace
from beasy_sched.units import TIME_TOLERANCE_S

_INDENT = "  "
_MOST = 12
"""Entries of a chapter that are told; the others are counted."""


@dataclass(frozen=True)
class Entry:
    """One sentence or more, at a moment of the run (s) where it has one."""

    text: str
    time_s: float | None = None


@dataclass(frozen=True)
class Chapter:
    """A heading with what belongs to it."""

    title: str
    entries: list[Entry]


@dataclass(frozen=True)
class Story:
    """What is told, and the same as data for tools."""

    title: str
    chapters: list[Chapter]
    data: dict[str, Any]

    def lines(self, width: int) -> Iterator[tuple[bool, str]]:
        """The story as (is it a heading, line of at most ``width`` columns)."""
        yield True, printable(self.title)
        for chapter in self.chapters:
            yield False, ""
            yield True, chapter.title
            left_out = len(chapter.entries) - _MOST if len(chapter.entries) > _MOST + 1 else 0
            for entry in chapter.entries[: _MOST if left_out else None]:
                label = _INDENT if entry.time_s is None else f"{_INDENT}{clock(entry.time_s)}  "
                text, room, hanging = printable(entry.text), max(width, len(label) + 30), " " * len(label)
                wrapped = textwrap.wrap(
                    text, room, initial_indent=label, subsequent_indent=hanging, break_on_hyphens=False
                )
                yield from ((False, line) for line in wrapped)
            if left_out:
                yield False, f"{_INDENT}... and {left_out} more (--json has all)"


def printable(text: str) -> str:
    """Escape what could steer a terminal: names come from files of anyone's making."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def because(line: LogLine) -> str:
    """Why a decision was taken, in words."""
    return sentence(line.action, line.rule, line.facts)


def told(line: LogLine) -> dict[str, object]:
    """A decision as data, with its sentence."""
    return {**msgspec.structs.asdict(line), "sentence": because(line)}


def _entries(lines: Iterable[LogLine]) -> list[Entry]:
    """The reasons of decisions, each at its moment."""
    return [Entry(because(line), line.time) for line in lines]


_AT_ONCE_S = 0.01
"""A job that started within this time has not waited."""


def explain_job(prefix: str, name: str) -> Story:
    """Tell why a job waited, ran and ended as it did.

    ``name`` is its id, with or without the workload's (``w0!``). Raises ConfigError where there is no
    such job, and InputError for files that cannot be read.
    """
    life = _find_life(prefix, name)
    _look_around(prefix, life)
    chapters = [
        Chapter("Arrival", [Entry(_arrival(life), life.came_s)]),
        *_waiting(life),
        *_start(life),
        *_running(life),
        Chapter("End", _end(life)),
    ]
    row, start = life.row, life.start
    data = {
        "job": life.id,
        "submitted_s": life.came_s,
        "started_s": None if start is None else start.time,
        "ended_s": life.end_s,
        "hosts_asked": row and row.res,
        "walltime_s": row and row.walltime_s,
        "final_state": row and row.final_state,
        "energy_j": row and row.energy_j,
        "others_started_while_it_waited": life.others,
        "of_these_came_later": life.came_later,
        "decisions": [told(each) for each in life.own],
        "p_states_while_it_ran": [told(each) for each, _, _ in life.changes],
    }
    return Story(f"Job {life.id}", chapters, data)


def _arrival(life: Life) -> str:
    if life.row is None:
        asked = "" if life.start is None else f"It ran on {_hosts(life.start)}. "
        return f"It was submitted. {asked}(There is no jobs.csv beside the log: only Batsim knows more.)"
    limit = "without a walltime"
    if life.row.walltime_s is not None:
        limit = f"for {span(life.row.walltime_s)} at most (its walltime)"
    return f"It was submitted, and asked for {count(life.row.res, 'host')} {limit}."


def _waiting(life: Life) -> list[Chapter]:
    entries = _entries(each for each in life.own if each.kind == "postpone")
    until_s = life.start.time if life.start is not None else life.end_s
    if not entries and life.start is not None and life.start.time - life.came_s <= _AT_ONCE_S:
        return []
    holders = [job for job in life.holders if job != life.id]
    if holders and (not entries or life.own[0].time - life.came_s > _AT_ONCE_S):
        entries.insert(0, Entry(f"Before it in the queue: {_some(holders)}.", life.came_s))
    if life.others:
        went = f"Meanwhile {count(life.others, 'other job')} started"
        entries.append(Entry(f"{went}; {life.came_later} of them had been submitted later."))
    title = "Waiting" if until_s is None else f"Waiting: {span(until_s - life.came_s)}"
    return [Chapter(title, entries)] if entries else []


def _some(jobs: list[str]) -> str:
    """Jobs by name; of many the first and the last."""
    if len(jobs) <= 5:
        return ", ".join(jobs)
    return f"{count(len(jobs), 'job')} one after the other, {jobs[0]} first and {jobs[-1]} last"


def _start(life: Life) -> list[Chapter]:
    if (start := life.start) is not None:
        return [Chapter("Start", [Entry(f"It started on {_hosts(start)}. {because(start)}", start.time)])]
    if life.row is None or life.row.start_s is None:
        return []
    lost = "It started. The decision log does not say so: it is cut, or belongs to another run."
    return [Chapter("Start", [Entry(lost, life.row.start_s)])]


def _running(life: Life) -> list[Chapter]:
    if life.start is None or not life.changes:
        return []
    res = len(life.start.host_set())
    entries = []
    for each, shared, compensation in life.changes:
        whose = "its host" if res == 1 else "its hosts" if shared == res else f"{shared} of its {res} hosts"
        why = f". {because(each)}"
        if each.rule == PLANNED:
            why = f", {_planned(each, compensation)}."
        entries.append(Entry(f"{each.action} for {whose}{why}", each.time))
    return [Chapter("Servers while it ran", entries)]


def _planned(change: LogLine, compensation: LogLine | None) -> str:
    """Whether the state is the offline plan's, or what it was changed to, with what is done at the moment."""
    replanned = int(change.facts.get("hosts_replanned") or 0)
    if not replanned:
        return "as planned"
    short = "" if compensation is None else in_short(compensation.rule, compensation.facts)
    partly = "" if replanned == len(change.host_set()) else "partly "
    return f"as planned, {partly}changed online{short}"


def _end(life: Life) -> list[Entry]:
    entries = _entries(each for each in life.own if each.kind in ("kill", "reject"))
    row = life.row
    if row is None:
        return entries or [Entry("The decision log does not say how it ended: it was not killed.")]
    if row.start_s is None or row.end_s is None:
        return entries or [Entry(f"It never started ({row.final_state}).")]
    ran_s = row.end_s - row.start_s
    text = f"{_ENDS.get(row.final_state, row.final_state)} after {span(ran_s)}"
    if row.walltime_s is not None and row.final_state == "COMPLETED_SUCCESSFULLY":
        text += f", {span(max(row.walltime_s - ran_s, 0.0))} before its walltime"
    if row.energy_j is not None:
        text += f"; its hosts used {energy(row.energy_j)}"
    return [*entries, Entry(text + ".", row.end_s)]


_ENDS = {
    "COMPLETED_SUCCESSFULLY": "It finished",
    "COMPLETED_FAILED": "It ended by itself, with an error,",
    "COMPLETED_WALLTIME_REACHED": "It reached its walltime",
    "COMPLETED_KILLED": "It was killed",
}


def _hosts(start: LogLine) -> str:
    hosts = start.host_set()
    text = str(hosts)
    shown = text if len(text) <= 40 else text[:36].rpartition(" ")[0] + " ..."
    return f"{count(len(hosts), 'host')} ({shown})"


@dataclass
class Life:
    """A job's own records, and what happened around it while it waited and while it ran."""

    id: str
    row: JobRow | None
    own: list[LogLine]
    others: int = 0
    """Jobs that started while it waited."""
    came_later: int = 0
    """Of those: how many had come after it."""
    holders: dict[str, None] = field(default_factory=dict)
    """Jobs that had a reservation before it was its turn, in the order in which they got them."""
    changes: list[tuple[LogLine, int, LogLine | None]] = field(default_factory=list)
    """P-states of its servers while it ran, of how many, and the compensation behind it."""

    @property
    def start(self) -> LogLine | None:
        """The line that starts it."""
        return next((each for each in self.own if each.kind == "start"), None)

    @property
    def came_s(self) -> float:
        """When it was submitted, s."""
        if self.row is not None:
            return self.row.subtime_s
        first = self.start or self.own[0]
        return first.time - float(first.facts.get("waited_s") or 0.0)

    @property
    def end_s(self) -> float | None:
        """When it ended, s; None where only Batsim knows."""
        return None if self.row is None else self.row.end_s


def _find_life(prefix: str, name: str) -> Life:
    """Find a job by its id, with or without the workload's. Raises ConfigError and InputError."""
    rows = {row.id: row for row in read_jobs(prefix) if _is_called(row.id, name)}
    own: dict[str, list[LogLine]] = {job_id: [] for job_id in rows}
    known: dict[str, None] = {}
    for decision in read_log(prefix):
        if decision.job:
            known[decision.job] = None
            if _is_called(decision.job, name):
                own.setdefault(decision.job, []).append(decision)
    if len(own) > 1:
        raise ConfigError(f"--job {name}: there are {' and '.join(own)}; name one of them")
    if not own:
        raise ConfigError(f"--job {name}: this run has no such job{_hint(name, [*known])}")
    ((job_id, decisions),) = own.items()
    return Life(job_id, rows.get(job_id), decisions)


def _is_called(job_id: str, name: str) -> bool:
    return job_id == name or job_id.partition("!")[2] == name


def _hint(name: str, known: list[str]) -> str:
    if not known:
        return "; its decision log names no jobs"
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) if len(known) < 50_000 else []
    these = f"; did you mean {', '.join(near)}" if near else ""
    return f"; it has {count(len(known), 'job')}, {known[0]} to {known[-1]}{these}"


def _look_around(prefix: str, life: Life) -> None:
    """Read the log once more, for what the job's own lines do not say. Raises InputError."""
    came_s = life.came_s
    first_s = min((line.time for line in life.own), default=np.inf)
    end_s = np.inf if life.end_s is None else life.end_s
    killed_s = next((line.time for line in life.own if line.kind == "kill"), np.inf)
    ids = np.empty(0, dtype=np.intp) if life.start is None else life.start.host_set().ids

    def shared(line: LogLine) -> int:
        return int(np.isin(line.host_set().ids, ids).sum())

    started = running = False
    compensation: LogLine | None = None
    for line in read_log(prefix):
        if line.time > end_s:
            break
        if line.job == life.id and line.kind in ("start", "kill"):
            started, running = True, line.kind == "start"
        elif line.kind == "compensate":
            compensation = line
        elif running and line.kind == "start" and shared(line):
            break  # a host of the job is given to another one: it has ended
        if line.kind == "postpone" and line.rule != SET_ASIDE and line.time <= first_s:
            life.holders[line.job] = None
        if line.time < came_s:
            if line.kind in ("start", "reject"):
                life.holders.pop(line.job, None)
        elif line.kind == "start" and line.job != life.id and not started:
            life.others += 1
            waited_s = line.facts.get("waited_s")
            life.came_later += waited_s is not None and line.time - float(waited_s) > came_s
        elif running and line.time < killed_s and line.kind == "P-state" and (hosts := shared(line)):
            planned = compensation is not None and line.rule == PLANNED and compensation.time == line.time
            life.changes.append((line, hosts, compensation if planned else None))


NO_SITE_STEP_S = 300.0
"""What is told together where there is no site, and so no steps."""

Row = Mapping[str, float]


def explain_time(prefix: str, time_s: float) -> Story:
    """Tell what happened in the step that holds a moment of the run (s), and why.

    Without a site, in the five minutes that hold it. Raises ConfigError where the run has no such
    time, and InputError for files that cannot be read.
    """
    start_s, end_s, row, before = _find_step(prefix, time_s)
    lines, last_s = [], 0.0
    for line in read_log(prefix):
        last_s = line.time
        if line.time >= end_s - TIME_TOLERANCE_S:
            break
        if line.time >= start_s - TIME_TOLERANCE_S:
            lines.append(line)
    if row is None and time_s > last_s + NO_SITE_STEP_S:
        raise ConfigError(f"--at {clock(time_s)}: the last decision of this run was taken at {clock(last_s)}")
    chapters = [] if row is None else [Chapter("Energy", [*_energy(row, before)])]
    chapters += [chapter for chapter in _decisions(lines) if chapter.entries]
    if not lines:
        chapters.append(Chapter("Decisions", [Entry("None: nothing changed.")]))
    number = "" if row is None else f"Step {row['step']:.0f}, "
    data = {
        "start_s": start_s,
        "end_s": end_s,
        "energy": None if row is None else dict(row),
        "decisions": [told(line) for line in lines],
    }
    return Story(f"{number}{clock(start_s)} to {clock(end_s)}", chapters, data)


def _find_step(prefix: str, time_s: float) -> tuple[float, float, Row | None, Row | None]:
    """Start and end of the step (s), its row, and the row before it; without a site only the times."""
    before: Row | None = None
    end_s = 0.0
    for row in read_trace(prefix):
        end_s = row["start_s"] + row["duration_s"]
        if time_s < end_s - TIME_TOLERANCE_S:
            return row["start_s"], end_s, row, before
        before = row
    if before is not None:
        raise ConfigError(f"--at {clock(time_s)}: the steps of this run end at {clock(end_s)}")
    start_s = time_s // NO_SITE_STEP_S * NO_SITE_STEP_S
    return start_s, start_s + NO_SITE_STEP_S, None, None


def _energy(row: Row, before: Row | None) -> Iterator[Entry]:
    """The step's energy, a line each: what came, what was drawn, what the storage did."""
    length_s = row["duration_s"]
    yield Entry(
        f"Production: {_flow(row, 'renewable_w', length_s)}{_as_planned(row, 'planned_renewable_w')}."
    )
    envelope, known = _as_planned(row, "planned_envelope_w"), "planned_servers_on" in row
    on = f"; {count(row['planned_servers_on'], 'server')} planned on" if known else ""
    yield Entry(f"Servers: {_flow(row, 'demand_w', length_s)}{envelope}{on}.")
    yield Entry(f"Battery: {_battery(row, before)}.")
    if any(row.get(name) for name in _HYDROGEN):
        yield Entry(f"Hydrogen: {_hydrogen(row)}.")
    for name, what in _LOST.items():
        if row.get(name):
            yield Entry(f"{what}: {_flow(row, name, length_s)}.")


_HYDROGEN = ("electrolyzer_w", "fuel_cell_w", "planned_electrolyzer_w", "planned_fuel_cell_w")
_LOST = {
    "curtailed_w": "Curtailed, since nothing could take it",
    "unserved_w": "Unserved, since nothing could supply it",
}


def _flow(row: Row, name: str, length_s: float) -> str:
    return f"{power(row[name])} ({energy(row[name] * length_s)} in {span(length_s)})"


def _as_planned(row: Row, name: str) -> str:
    return f", {power(row[name])} planned" if name in row else ""


def _battery(row: Row, before: Row | None) -> str:
    did, plan = "neither charged nor discharged", ""
    for name, verb in (("charge_w", "charged"), ("discharge_w", "discharged")):
        if row[name]:
            did = f"{verb} with {power(row[name])}"
        if row.get(f"planned_{name}"):
            plan = f" (planned: {verb} with {power(row[f'planned_{name}'])})"
    was = "" if before is None else f"from {percent(before['soc_pct'])} "
    planned = f", {percent(row['planned_soc_pct'])} planned" if "planned_soc_pct" in row else ""
    return f"{did}{plan}; {was}to {percent(row['soc_pct'])} of charge{planned}"


def _hydrogen(row: Row) -> str:
    parts = []
    for name, what in (("electrolyzer_w", "electrolyzer"), ("fuel_cell_w", "fuel cell")):
        if row[name] or row[f"planned_{name}"]:
            parts.append(f"{what} {power(row[name])}, {power(row[f'planned_{name}'])} planned")
    return f"{'; '.join(parts)}; {row['hydrogen_kg']:.3g} kg in the tank at the end"


def _decisions(lines: list[LogLine]) -> Iterator[Chapter]:
    """The decisions by kind, what shaped the step first."""
    by_kind: dict[str, list[LogLine]] = {}
    for line in lines:
        by_kind.setdefault(line.kind, []).append(line)
    yield Chapter("The rest of the window", _entries(by_kind.get("compensate", [])))
    yield Chapter("Servers", [*_servers(by_kind.get("P-state", []))])
    for kind, title in _JOBS.items():
        jobs = by_kind.get(kind, [])
        entries = []
        for line in jobs:
            on = f" on {count(len(line.host_set()), 'host')}" if kind == "start" else ""
            entries.append(Entry(f"{line.job}{on}. {because(line)}", line.time))
        yield Chapter(f"{title}: {len(jobs)}", entries)


_JOBS = {
    "kill": "Jobs killed",
    "start": "Jobs started",
    "postpone": "Jobs made to wait",
    "reject": "Jobs refused",
}


def _servers(changes: list[LogLine]) -> Iterator[Entry]:
    """P-states, those for the same reason and at the same moment together."""
    groups: dict[tuple[float, str], list[LogLine]] = {}
    for line in changes:
        groups.setdefault((line.time, because(line)), []).append(line)
    for (time_s, why), group in groups.items():
        yield Entry(f"{', '.join(_deeds(group))}. {why}", time_s)


_DEEDS = {"hosts_to_sleep": "to sleep", "hosts_to_wake": "woken", "hosts_to_speed": "to another speed"}


def _deeds(group: list[LogLine]) -> Iterator[str]:
    for name, deed in _DEEDS.items():
        number = sum(int(line.facts.get(name) or 0) for line in group)
        if number:
            yield f"{count(number, 'server')} {deed}"
    for line in group:
        if not any(name in line.facts for name in _DEEDS):
            yield f"{count(len(line.host_set()), 'server')} to {line.action}"
