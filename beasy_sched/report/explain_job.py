"""The story of one job: when it came, why it waited, why it started, what befell it, how it ended."""

from __future__ import annotations

from beasy_sched.policies.planned import PLANNED
from beasy_sched.report.explain_life import Life, Others, find_life, find_others
from beasy_sched.report.explain_numbers import count, energy, span
from beasy_sched.report.explain_records import Decision
from beasy_sched.report.explain_rules import in_short
from beasy_sched.report.explain_story import Entry, Section, Story, because, told

_AT_ONCE_S = 0.01
"""A job that started within this time has not waited."""


def explain_job(prefix: str, name: str) -> Story:
    """Tell why a job waited, ran and ended as it did.

    ``name`` is its id, with or without the workload's (``w0!``). Raises ConfigError where there is no
    such job, and InputError for files that cannot be read.
    """
    life = find_life(prefix, name)
    others = find_others(prefix, life)
    sections = [
        Section("Arrival", [Entry(_arrival(life), life.came_s)]),
        *_waiting(life, others),
        *_start(life),
        *_running(life, others),
        Section("End", _end(life)),
    ]
    return Story(f"Job {life.id}", sections, _data(life, others))


# --- words ---------------------------------------------------------------------------------------------


def _arrival(life: Life) -> str:
    if life.row is None:
        asked = "" if life.start is None else f"It ran on {_hosts(life.start)}. "
        return f"It came. {asked}(No jobs.csv is beside the decision log: Batsim knows the rest.)"
    limit = "without a walltime"
    if life.row.walltime_s is not None:
        limit = f"for {span(life.row.walltime_s)} at most (its walltime)"
    return f"It came, and asked for {count(life.row.res, 'host')} {limit}."


def _waiting(life: Life, others: Others) -> list[Section]:
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


def _start(life: Life) -> list[Section]:
    start, row = life.start, life.row
    if start is None:
        if row is None or row.start_s is None:
            return []
        lost = "It started. The decision log does not say so: it is cut, or that of another run."
        return [Section("Start", [Entry(lost, row.start_s)])]
    return [Section("Start", [Entry(f"It started on {_hosts(start)}. {because(start)}", start.time)])]


def _running(life: Life, others: Others) -> list[Section]:
    if life.start is None or not others.changes:
        return []
    res = len(life.start.host_set())
    entries = []
    for each, shared, compensation in others.changes:
        whose = "its host" if res == 1 else "its hosts" if shared == res else f"{shared} of its {res} hosts"
        why = f". {because(each)}"
        if each.rule == PLANNED:
            why = f", {_planned(each, compensation)}."
        entries.append(Entry(f"{each.action} for {whose}{why}", each.time))
    return [Section("Servers while it ran", entries)]


def _planned(change: Decision, compensation: Decision | None) -> str:
    """Whether the state is the offline plan's, or what it was changed to, with what is done at the moment."""
    replanned = int(change.facts.get("hosts_replanned") or 0)
    if not replanned:
        return "as planned"
    short = "" if compensation is None else in_short(compensation.rule, compensation.facts)
    partly = "" if replanned == len(change.host_set()) else "partly "
    return f"as planned, {partly}changed online{short}"


def _end(life: Life) -> list[Entry]:
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


def _data(life: Life, others: Others) -> dict[str, object]:
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
