"""The story of a job: why it waited, started and ended as it did, from the records of a run.

It tells when the job came, what it depends on and by when it had to end, why it waited, why it started, what
befell it, and how it ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from beasy_sched.policies.working_plan import PLANNED
from beasy_sched.report.explain_rules import clock, count, energy, span
from beasy_sched.report.lives import Life, find_life, lives_of
from beasy_sched.report.story import AT_ONCE_S, Chapter, Entry, Story, because, entries_of, told
from beasy_sched.results import DeadlineRow, LogLine


def explain_job(prefix: str, name: str) -> Story:
    """Tell why a job waited, ran and ended as it did.

    ``name`` is its id, with or without the workload's (``w0!``). Raises ConfigError where there is no
    such job, and InputError for files that cannot be read.
    """
    life = find_life(prefix, name)
    row, start = life.row, life.start
    data = {
        "job": life.id,
        "submitted_s": life.came_s,
        "started_s": None if start is None else start.time,
        "ended_s": None if row is None else row.end_s,
        "hosts_asked": row and row.res,
        "walltime_s": row and row.walltime_s,
        "final_state": row and row.final_state,
        "energy_j": row and row.energy_j,
        "others_started_while_it_waited": life.others,
        "of_these_came_later": life.came_later,
        **_terms_data(life),
        "decisions": [told(each, life.currency) for each in life.own],
        "p_states_while_it_ran": [told(each) for each, _, _ in life.changes],
    }
    return Story(f"Job {life.id}", _chapters(life), data)


def explain_jobs(prefix: str, chosen: Collection[str] | None = None) -> Iterator[tuple[str, list[Chapter]]]:
    """Yield each job's id with the chapters that `explain_job` tells of it.

    ``chosen`` are the ids of the jobs that are asked for, all where it is None. Raises InputError for files
    that cannot be read.
    """
    for life in lives_of(prefix, chosen):
        yield life.id, _chapters(life)


def _chapters(life: Life) -> list[Chapter]:
    start, ended_s = life.start, None if life.row is None else life.row.end_s
    until_s = ended_s if start is None else start.time
    chapters = [
        Chapter("Arrival", [Entry(_arrival(life), life.came_s)]),
        Chapter("Workflow and deadline", [*_terms(life)]),
        Chapter("Waiting" if until_s is None else f"Waiting: {span(until_s - life.came_s)}", _waiting(life)),
        Chapter("Start", _start(life)),
        Chapter("Servers while it ran", _running(life)),
        Chapter("End", _end(life)),
    ]
    return [chapter for chapter in chapters if chapter.entries]


def _arrival(life: Life) -> str:
    if life.row is None:
        asked = "" if life.start is None else f"It ran on {_hosts(life.start)}. "
        return f"It was submitted. {asked}(There is no jobs.csv beside the log: only Batsim knows more.)"
    limit = "without a walltime"
    if life.row.walltime_s is not None:
        limit = f"for {span(life.row.walltime_s)} at most (its walltime)"
    return f"It was submitted, and asked for {count(life.row.res, 'host')} {limit}."


def _terms(life: Life) -> Iterator[Entry]:
    """What the job depends on, by when it had to end, and what became of that."""
    own = life.deadline
    if own is None:
        return
    if own.workflow and own.phase is not None:
        phases = count(len({row.phase for row in life.workflow}), "phase")
        size = f"{count(len(life.workflow), 'job')} in {phases}"
        yield Entry(f"It belongs to phase {own.phase} of {own.workflow} ({size}).")
        yield Entry(_depends_on(life.predecessors))
    due = f"{'Its workflow' if own.workflow else 'It'} is due at {clock(own.deadline_s)}"
    if own.internal_deadline_s is not None and own.internal_deadline_s < own.deadline_s:
        due += f"; to leave time for the jobs after it, it should end by {clock(own.internal_deadline_s)}"
    yield Entry(f"{due}. {_kept(own)}")


def _terms_data(life: Life) -> dict[str, object]:
    """The same as data; nothing for a job without a deadline."""
    own = life.deadline
    if own is None:
        return {}
    return {
        "workflow": own.workflow or None,
        "phase": own.phase,
        "predecessors": [row.job for row in life.predecessors],
        "internal_deadline_s": own.internal_deadline_s,
        "deadline_s": own.deadline_s,
        "deadline_outcome": own.outcome,
    }


def _kept(own: DeadlineRow) -> str:
    if own.outcome == "refused":
        return "It was refused."
    if own.end_s is None:
        return "It missed its deadline: it never ended."
    if own.outcome == "met":
        return f"It met its deadline, {span(own.deadline_s - own.end_s)} early."
    if own.lateness_s:
        return f"It missed its deadline by {span(own.lateness_s)}."
    return "It missed its deadline: it did not finish."


def _depends_on(predecessors: Sequence[DeadlineRow]) -> str:
    if not predecessors:
        return "It depends on no other job."
    names, alone = ", ".join(row.job for row in predecessors[:3]), len(predecessors) == 1
    if len(predecessors) > 3:
        names = f"{count(len(predecessors), 'job')} of earlier phases, {names} and so on"
    ends = {row.end_s: row.job for row in predecessors}
    if None in ends:
        return f"It depends on {names}{', which' if alone else f'; {ends[None]}'} never ended."
    last_s = max(end_s for end_s in ends if end_s is not None)
    which = ", which" if alone else f"; the last of them, {ends[last_s]},"
    return f"It depends on {names}{which} ended at {clock(last_s)}."


def _waiting(life: Life) -> list[Entry]:
    postponed = [each for each in life.own if each.kind == "postpone"]
    entries = entries_of(postponed[:1], life.currency)
    for line in postponed[1:]:  # the deadline was told, and does not change much
        facts = {name: value for name, value in line.facts.items() if name != "deadline_s"}
        entries.append(Entry(because(msgspec.structs.replace(line, facts=facts), life.currency), line.time))
    if not entries and life.start is not None and life.start.time - life.came_s <= AT_ONCE_S:
        return []
    holders = [job for job in life.holders if job != life.id]
    if holders and (not entries or life.own[0].time - life.came_s > AT_ONCE_S):
        names = ", ".join(holders)
        if len(holders) > 5:
            names = f"{len(holders):,} jobs one after the other, {holders[0]} first and {holders[-1]} last"
        entries.insert(0, Entry(f"Before it in the queue: {names}.", life.came_s))
    if life.others:
        went = f"Meanwhile {count(life.others, 'other job')} started"
        entries.append(Entry(f"{went}; {life.came_later} of them had been submitted later."))
    return entries


def _start(life: Life) -> list[Entry]:
    if (start := life.start) is not None:
        return [Entry(f"It started on {_hosts(start)}. {because(start, life.currency)}", start.time)]
    if life.row is None or life.row.start_s is None:
        return []
    lost = "It started. The decision log does not say so: it is cut, or belongs to another run."
    return [Entry(lost, life.row.start_s)]


def _running(life: Life) -> list[Entry]:
    """Changes of P-state; planned ones with whether they were changed online, and what for."""
    entries = []
    res = 0 if life.start is None else len(life.start.host_set())
    for each, shared, compensation in life.changes:
        whose = "its host" if res == 1 else "its hosts" if shared == res else f"{shared} of its {res} hosts"
        why = f". {because(each)}"
        if each.rule == PLANNED:
            why = ", as planned."
            if replanned := int(each.facts.get("hosts_replanned") or 0):
                partly = "" if replanned == len(each.host_set()) else "partly "
                why = f", as planned, {partly}changed online{compensation}."
        entries.append(Entry(f"{each.action} for {whose}{why}", each.time))
    return entries


def _end(life: Life) -> list[Entry]:
    entries = entries_of(each for each in life.own if each.kind in ("kill", "reject"))
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
