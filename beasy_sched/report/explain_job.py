"""The story of one job: when it came, why it waited, why it started, what befell it, how it ended."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

import numpy as np

from beasy_sched.errors import ConfigError
from beasy_sched.policies.facts import SET_ASIDE
from beasy_sched.report.explain_numbers import count, energy, span
from beasy_sched.report.explain_records import Decision, JobRow, read_decisions, read_jobs
from beasy_sched.report.explain_rules import in_short
from beasy_sched.report.explain_story import Entry, Section, Story, because, told

_AT_ONCE_S = 0.01
"""A job that started within this time has not waited."""


@dataclass
class _Others:
    """What happened around a job while it waited and while it ran."""

    started: int = 0
    came_later: int = 0
    """Of those that started: how many had come after it."""
    holders: dict[str, None] = field(default_factory=dict)
    """Jobs that had a reservation before it was its turn, in the order in which they got them."""
    changes: list[tuple[Decision, int, Decision | None]] = field(default_factory=list)
    """P-states of its servers while it ran, of how many, and the compensation behind it."""


@dataclass
class _Life:
    """A job's own records."""

    id: str
    row: JobRow | None
    own: list[Decision]

    @property
    def start(self) -> Decision | None:
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
        return None if self.row is None else self.row.end_s


def explain_job(prefix: str, name: str) -> Story:
    """Tell why a job waited, ran and ended as it did.

    ``name`` is its id, with or without the workload's (``w0!``). Raises ConfigError where there is no
    such job, and InputError for files that cannot be read.
    """
    life = _find(prefix, name)
    others = _others(prefix, life)
    sections = [
        Section("Arrival", [Entry(_arrival(life), life.came_s)]),
        *_waiting(life, others),
        *_start(life),
        *_running(life, others),
        Section("End", _end(life)),
    ]
    return Story(f"Job {life.id}", sections, _data(life, others))


def _find(prefix: str, name: str) -> _Life:
    rows = {row.id: row for row in read_jobs(prefix) if _is_called(row.id, name)}
    own: dict[str, list[Decision]] = {job_id: [] for job_id in rows}
    known: dict[str, None] = {}
    for decision in read_decisions(prefix):
        if decision.job:
            known[decision.job] = None
            if _is_called(decision.job, name):
                own.setdefault(decision.job, []).append(decision)
    if len(own) > 1:
        raise ConfigError(f"--job {name}: there are {' and '.join(own)}; name one of them")
    if not own:
        raise ConfigError(f"--job {name}: this run has no such job{_hint(name, [*known])}")
    ((job_id, decisions),) = own.items()
    return _Life(job_id, rows.get(job_id), decisions)


def _is_called(job_id: str, name: str) -> bool:
    return job_id == name or job_id.partition("!")[2] == name


def _hint(name: str, known: list[str]) -> str:
    if not known:
        return "; its decision log names none"
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) if len(known) < 50_000 else []
    these = f"; near it: {', '.join(near)}" if near else ""
    return f"; it has {count(len(known), 'job')}, {known[0]} to {known[-1]}{these}"


def _others(prefix: str, life: _Life) -> _Others:
    """Read the log once more, for what the job's own lines do not say."""
    found, start, came_s = _Others(), life.start, life.came_s
    started_s = np.inf if start is None else start.time
    end_s = np.inf if life.end_s is None else life.end_s
    mine = None if start is None else start.host_set().ids
    compensation: Decision | None = None
    killed_s = next((each.time for each in life.own if each.kind == "kill"), np.inf)
    first_s = min((each.time for each in life.own), default=np.inf)
    for each in read_decisions(prefix):
        if each.time > end_s:
            break
        if each.kind == "postpone" and each.rule != SET_ASIDE and each.time <= first_s:
            found.holders[each.job] = None
        if each.time < came_s and each.kind in ("start", "reject"):
            found.holders.pop(each.job, None)
        if each.time < came_s or each.job == life.id:
            continue
        if each.kind == "compensate" or (compensation is not None and each.time > compensation.time):
            compensation = each if each.kind == "compensate" else None
        if each.kind == "start" and each.time <= started_s:
            found.started += 1
            waited_s = each.facts.get("waited_s")
            found.came_later += waited_s is not None and each.time - float(waited_s) > came_s
        elif mine is not None and each.time >= started_s and each.hosts:
            shared = int(np.isin(each.host_set().ids, mine).sum())
            if shared and each.kind == "start":
                break  # its servers have been given to another job: it has ended
            if shared and each.kind == "P-state" and each.time < killed_s:
                found.changes.append((each, shared, compensation if each.rule == "planned" else None))
    return found


# --- words ---------------------------------------------------------------------------------------------


def _arrival(life: _Life) -> str:
    if life.row is None:
        asked = "" if life.start is None else f"It ran on {_hosts(life.start)}. "
        return f"It came. {asked}(No jobs.csv is beside the decision log: Batsim knows the rest.)"
    limit = "without a walltime"
    if life.row.walltime_s is not None:
        limit = f"for {span(life.row.walltime_s)} at most (its walltime)"
    return f"It came, and asked for {count(life.row.res, 'host')} {limit}."


def _waiting(life: _Life, others: _Others) -> list[Section]:
    entries = [Entry(because(each), each.time) for each in life.own if each.kind == "postpone"]
    until_s = life.start.time if life.start is not None else life.end_s
    if not entries and life.start is not None and life.start.time - life.came_s <= _AT_ONCE_S:
        return []
    holders = [job for job in others.holders if job != life.id]
    if holders and (not entries or life.own[0].time - life.came_s > _AT_ONCE_S):
        entries.insert(0, Entry(f"Before it in the queue: {_some(holders)}.", life.came_s))
    if others.started:
        went = f"Meanwhile {count(others.started, 'other job')} started"
        entries.append(Entry(f"{went}; {others.came_later} of them had come later."))
    title = "Waiting" if until_s is None else f"Waiting: {span(until_s - life.came_s)}"
    return [Section(title, entries)] if entries else []


def _some(jobs: list[str]) -> str:
    """Jobs by name; of many the first and the last."""
    if len(jobs) <= 5:
        return ", ".join(jobs)
    return f"{count(len(jobs), 'job')} one after the other, {jobs[0]} first and {jobs[-1]} last"


def _start(life: _Life) -> list[Section]:
    start = life.start
    if start is None:
        return []
    return [Section("Start", [Entry(f"It started on {_hosts(start)}. {because(start)}", start.time)])]


def _running(life: _Life, others: _Others) -> list[Section]:
    if life.start is None or not others.changes:
        return []
    res = len(life.start.host_set())
    entries = []
    for each, shared, compensation in others.changes:
        whose = "its host" if res == 1 else "its hosts" if shared == res else f"{shared} of its {res} hosts"
        why = f". {because(each)}"
        if each.rule == "planned":
            short = "" if compensation is None else in_short(compensation.rule, compensation.facts)
            why = f", {_planned(each)}{short}."
        entries.append(Entry(f"{each.action} for {whose}{why}", each.time))
    return [Section("Servers while it ran", entries)]


def _planned(change: Decision) -> str:
    """Whether the state is the offline plan's, or what it was changed to."""
    replanned = int(change.facts.get("hosts_replanned") or 0)
    if replanned == len(change.host_set()):
        return "as changed online"
    return "as planned, and partly changed online" if replanned else "as planned"


def _end(life: _Life) -> list[Entry]:
    entries = [Entry(because(each), each.time) for each in life.own if each.kind in ("kill", "reject")]
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


def _hosts(start: Decision) -> str:
    hosts = start.host_set()
    text = str(hosts)
    shown = text if len(text) <= 40 else text[:36].rpartition(" ")[0] + " ..."
    return f"{count(len(hosts), 'host')} ({shown})"


# --- data ----------------------------------------------------------------------------------------------


def _data(life: _Life, others: _Others) -> dict[str, object]:
    row, start = life.row, life.start
    return {
        "job": life.id,
        "submitted_s": life.came_s,
        "started_s": None if start is None else start.time,
        "ended_s": life.end_s,
        "hosts_asked": None if row is None else row.res,
        "walltime_s": None if row is None else row.walltime_s,
        "final_state": None if row is None else row.final_state,
        "energy_j": None if row is None else row.energy_j,
        "others_started_while_it_waited": others.started,
        "of_these_came_later": others.came_later,
        "decisions": [told(each) for each in life.own],
        "p_states_while_it_ran": [told(each) for each, _, _ in others.changes],
    }
