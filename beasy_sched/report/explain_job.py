"""The story of a job: why it waited, started and ended as it did, from the records of a run.

It tells when the job came, what it depends on and by when it had to end, why it waited, why it started, what
befell it, and how it ended.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from beasy_sched.errors import ConfigError
from beasy_sched.policies.easy import SET_ASIDE
from beasy_sched.policies.working_plan import PLANNED
from beasy_sched.report.explain_rules import clock, count, energy, in_short, span
from beasy_sched.report.story import AT_ONCE_S, Chapter, Entry, Story, because, currency_of, entries_of, told
from beasy_sched.results import (
    DeadlineRow,
    JobRow,
    LogLine,
    read_deadlines,
    read_jobs,
    read_log,
)


def explain_job(prefix: str, name: str) -> Story:
    """Tell why a job waited, ran and ended as it did.

    ``name`` is its id, with or without the workload's (``w0!``). Raises ConfigError where there is no
    such job, and InputError for files that cannot be read.
    """
    life = _find_life(prefix, name)
    _look_around(prefix, life)
    row, start = life.row, life.start
    started_s, ended_s = None if start is None else start.time, None if row is None else row.end_s
    until_s = ended_s if started_s is None else started_s
    chapters = [
        Chapter("Arrival", [Entry(_arrival(life), life.came_s)]),
        Chapter("Workflow and deadline", [*_terms(life)]),
        Chapter("Waiting" if until_s is None else f"Waiting: {span(until_s - life.came_s)}", _waiting(life)),
        Chapter("Start", _start(life)),
        Chapter("Servers while it ran", _running(life)),
        Chapter("End", _end(life)),
    ]
    data = {
        "job": life.id,
        "submitted_s": life.came_s,
        "started_s": started_s,
        "ended_s": ended_s,
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
    return Story(f"Job {life.id}", [chapter for chapter in chapters if chapter.entries], data)


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
    deadline: DeadlineRow | None = None
    """Its deadline, where it has one."""
    workflow: list[DeadlineRow] = field(default_factory=list)
    """The jobs of its workflow, itself included."""
    currency: str = ""
    changes: list[tuple[LogLine, int, str]] = field(default_factory=list)
    """P-states of its servers while it ran, of how many, and in short the compensation behind it."""

    @property
    def predecessors(self) -> list[DeadlineRow]:
        """The jobs of earlier phases of its workflow."""
        phase = None if self.deadline is None else self.deadline.phase
        if phase is None:
            return []
        return [row for row in self.workflow if row.phase is not None and row.phase < phase]

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


def _find_life(prefix: str, name: str) -> Life:
    """Find a job by its id, with or without the workload's. Raises ConfigError and InputError."""
    rows = {row.id: row for row in read_jobs(prefix) if name in (row.id, row.id.partition("!")[2])}
    own: dict[str, list[LogLine]] = {job_id: [] for job_id in rows}
    known: dict[str, None] = {}
    for decision in read_log(prefix):
        if decision.job:
            known[decision.job] = None
            if name in (decision.job, decision.job.partition("!")[2]):
                own.setdefault(decision.job, []).append(decision)
    if len(own) > 1:
        raise ConfigError(f"--job {name}: there are {' and '.join(own)}; name one of them")
    if not own:
        hint, ids = "its decision log names no jobs", [*known]
        if ids:
            near = difflib.get_close_matches(name, ids, n=3, cutoff=0.5) if len(ids) < 50_000 else []
            these = f"; did you mean {', '.join(near)}" if near else ""
            hint = f"it has {count(len(ids), 'job')}, {ids[0]} to {ids[-1]}{these}"
        raise ConfigError(f"--job {name}: this run has no such job; {hint}")
    ((job_id, decisions),) = own.items()
    terms = [*read_deadlines(prefix)]
    deadline = next((row for row in terms if row.job == job_id), None)
    workflow = [row for row in terms if deadline and row.workflow and row.workflow == deadline.workflow]
    currency = currency_of(prefix, of_plans=True)
    return Life(job_id, rows.get(job_id), decisions, deadline=deadline, workflow=workflow, currency=currency)


def _look_around(prefix: str, life: Life) -> None:
    """Read the log once more, for what the job's own lines do not say. Raises InputError."""
    came_s = life.came_s
    first_s = min((line.time for line in life.own), default=np.inf)
    end_s = np.inf if life.row is None or life.row.end_s is None else life.row.end_s
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
            short = ""
            if compensation is not None and line.rule == PLANNED and compensation.time == line.time:
                short = in_short(compensation.rule, compensation.facts)
            life.changes.append((line, hosts, short))
