"""The story of a job: why it waited, started and ended as it did, from the records of a run.

It tells when the job came, what it depends on and by when it had to end, why it waited, why it started, what
befell it, and how it ended. One pass over the decision log finds this for one job or for all of them.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError
from beasy_sched.policies.easy import SET_ASIDE
from beasy_sched.policies.planned.follower import PLANNED
from beasy_sched.reports.explain_rules import clock, count, energy, in_short, span
from beasy_sched.reports.story import (
    AT_ONCE_S,
    Chapter,
    Entry,
    Story,
    Teller,
    because,
    entries_of,
    teller_of,
    told,
)
from beasy_sched.run.results import DeadlineRow, JobRow, LogLine, read_deadlines, read_jobs, read_log


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
        "decisions": [told(each, life.teller) for each in life.own],
        "p_states_while_it_ran": [told(each, life.teller) for each, _, _ in life.changes],
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
        Chapter("Workflow and deadline", [*_terms(life), *_late_phases(life)]),
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


def _late_phases(life: Life) -> list[Entry]:
    """The jobs of lower phases that came too late for it to wait for them."""
    return entries_of((each for each in life.own if each.kind == "queue"), life.teller)


def _terms_data(life: Life) -> dict[str, object]:
    """Return what the job depends on and its deadline, as data; nothing for a job without a deadline."""
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
    entries = entries_of(postponed[:1], life.teller)
    for line in postponed[1:]:  # the deadline was told, and does not change much
        facts = {name: value for name, value in line.facts.items() if name != "deadline_s"}
        entries.append(Entry(because(msgspec.structs.replace(line, facts=facts), life.teller), line.time))
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
        return [Entry(f"It started on {_hosts(start)}. {because(start, life.teller)}", start.time)]
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
        why = f". {because(each, life.teller)}"
        if each.rule == PLANNED:
            why = ", as planned."
            if replanned := int(each.facts.get("hosts_replanned") or 0):
                partly = "" if replanned == len(each.host_set()) else "partly "
                why = f", as planned, {partly}changed online{compensation}."
        entries.append(Entry(f"{each.action} for {whose}{why}", each.time))
    return entries


def _end(life: Life) -> list[Entry]:
    entries = entries_of((each for each in life.own if each.kind in ("kill", "reject")), life.teller)
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


# --- the records of jobs -----------------------------------------------------------------------------------


@dataclass
class Life:
    """A job's own records, and what happened around it while it waited and while it ran."""

    id: str
    row: JobRow | None
    own: list[LogLine]
    others: int = 0
    """Number of jobs that started while this one waited."""
    came_later: int = 0
    """Number of jobs that started while this one waited and had come after it."""
    holders: list[str] = field(default_factory=list)
    """Jobs that had a reservation before this one's turn, in the order in which they got them."""
    deadline: DeadlineRow | None = None
    """Deadline of the job; None where it has none."""
    workflow: list[DeadlineRow] = field(default_factory=list)
    """Jobs of the job's workflow, itself included."""
    teller: Teller = field(default_factory=Teller)
    changes: list[tuple[LogLine, int, str]] = field(default_factory=list)
    """Changes of P-state of the job's servers while it ran: the line, the number of servers, and in short the
    compensation behind it."""

    @property
    def predecessors(self) -> list[DeadlineRow]:
        """The jobs of earlier phases of the job's workflow."""
        phase = None if self.deadline is None else self.deadline.phase
        if phase is None:
            return []
        return [row for row in self.workflow if row.phase is not None and row.phase < phase]

    @property
    def start(self) -> LogLine | None:
        """The line that starts the job; None where there is none."""
        return next((each for each in self.own if each.kind == "start"), None)

    @property
    def came_s(self) -> float:
        """Time at which the job was submitted, s."""
        if self.row is not None:
            return self.row.subtime_s
        first = self.start or self.own[0]
        return first.time - float(first.facts.get("waited_s") or 0.0)

    @property
    def end_s(self) -> float:
        """Time at which the job ended, s; infinite where it is not known."""
        return np.inf if self.row is None or self.row.end_s is None else self.row.end_s


def find_life(prefix: str, name: str) -> Life:
    """Return a job, by its id with or without the workload's. Raises ConfigError and InputError."""
    own = {row.id: None for row in read_jobs(prefix) if _is_called(name, row.id)}
    known: dict[str, None] = {}
    for line in read_log(prefix):
        if line.job:
            known[line.job] = None
    own |= {job_id: None for job_id in known if _is_called(name, job_id)}
    if len(own) > 1:
        raise ConfigError(f"job {name}: there are {' and '.join(own)}; name one of them")
    if not own:
        hint, ids = "its decision log names no jobs", [*known]
        if ids:
            near = difflib.get_close_matches(name, ids, n=3, cutoff=0.5) if len(ids) < 50_000 else []
            these = f"; did you mean {', '.join(near)}" if near else ""
            hint = f"it has {count(len(ids), 'job')}, {ids[0]} to {ids[-1]}{these}"
        raise ConfigError(f"job {name}: this run has no such job; {hint}")
    return next(lives_of(prefix, own.keys()))


def _is_called(name: str, job_id: str) -> bool:
    return name in (job_id, job_id.partition("!")[2])


def lives_of(prefix: str, chosen: Collection[str] | None = None) -> Iterator[Life]:
    """Yield the jobs of a run, in the order of ``jobs.csv``, then those that only the log has.

    ``chosen`` are the ids of those asked for, all where it is None. Raises InputError.
    """
    rows = {row.id: row for row in read_jobs(prefix) if chosen is None or row.id in chosen}
    own: dict[str, list[LogLine]] = {job_id: [] for job_id in rows}
    for line in read_log(prefix):
        if line.job and (chosen is None or line.job in chosen):
            own.setdefault(line.job, []).append(line)
    deadlines: dict[str, DeadlineRow] = {}
    workflows: dict[str, list[DeadlineRow]] = defaultdict(list)
    for row in read_deadlines(prefix):
        deadlines.setdefault(row.job, row)
        if row.workflow:
            workflows[row.workflow].append(row)
    teller = teller_of(prefix)
    lives = []
    for job_id, decisions in own.items():
        due = deadlines.get(job_id)
        members = workflows[due.workflow] if due is not None and due.workflow else []
        lives.append(Life(job_id, rows.get(job_id), decisions, deadline=due, workflow=members,
                          teller=teller))  # fmt: skip
    yield from look_around(read_log(prefix), lives)


def look_around(lines: Iterable[LogLine], lives: Sequence[Life]) -> Iterator[Life]:
    """Yield the lives with what their own lines do not say; ``lines`` is the log, in the order of time."""
    queue, running = _WaitingLine(), _Running(lives)
    for number, line in enumerate(lines):
        queue.take(number, line)
        running.take(line)
        if line.job in running.places and line.kind in ("start", "kill"):
            queue.turns.setdefault(line.job, number)
    queue.close()
    for life in lives:
        queue.tell(life)
        yield life


class _WaitingLine:
    """Who started when, and who had a reservation when."""

    def __init__(self) -> None:
        self.turns: dict[str, int] = {}
        """The line that started or killed a job that is told of."""
        self._starts: list[tuple[int, float, float]] = []
        """Line, time and time of submission (s; NaN where it is not known) of each start."""
        self._reserved: dict[str, float] = {}
        """Time since which each job has a reservation, s."""
        self._gone: dict[str, float] = {}
        """Time at which each job started, or was rejected, s."""

    def take(self, number: int, line: LogLine) -> None:
        if line.kind == "start":
            waited_s = line.facts.get("waited_s")
            came_s = np.nan if waited_s is None else line.time - float(waited_s)
            self._starts.append((number, line.time, came_s))
        if line.kind in ("start", "reject"):
            self._gone.setdefault(line.job, line.time)
        elif line.kind == "postpone" and line.rule != SET_ASIDE:
            self._reserved.setdefault(line.job, line.time)

    def close(self) -> None:
        """Make arrays of what was taken."""
        numbers, times_s, came_s = np.array(self._starts, dtype=np.float64).reshape(-1, 3).T
        self._numbers, self._times_s, self._came_s = numbers, times_s, came_s
        self._names = [*self._reserved]
        self._since_s: FloatArray = np.array([*self._reserved.values()], dtype=np.float64)
        self._until_s = np.array([self._gone.get(job, np.inf) for job in self._names])

    def tell(self, life: Life) -> None:
        """Set which jobs were before it in the queue, and how many started while it waited."""
        first_s = min((line.time for line in life.own), default=np.inf)
        reserved = int(np.searchsorted(self._since_s, first_s, "right"))
        there = np.flatnonzero(self._until_s[:reserved] >= life.came_s)
        life.holders = [self._names[place] for place in there]
        turn = self.turns.get(life.id)
        if turn is not None:
            until = int(np.searchsorted(self._numbers, turn))
        else:
            until = int(np.searchsorted(self._times_s, life.end_s, "right"))
        since = min(int(np.searchsorted(self._times_s, life.came_s)), until)
        life.others = until - since
        life.came_later = int((self._came_s[since:until] > life.came_s).sum())


class _Running:
    """Which jobs run where, so that changes of P-states find theirs."""

    def __init__(self, lives: Sequence[Life]) -> None:
        self._lives = lives
        self.places = {life.id: place for place, life in enumerate(lives)}
        self._killed_s = [
            next((line.time for line in life.own if line.kind == "kill"), np.inf) for life in lives
        ]
        self._running: set[int] = set()
        self._owner: IntArray = np.full(64, -1, dtype=np.int64)
        """The running job of each host, -1 where there is none that is told of."""
        self._compensation: LogLine | None = None

    def take(self, line: LogLine) -> None:
        if line.kind == "compensate":
            self._compensation = line
        elif line.kind == "start":
            self._start(line)
        elif line.kind == "kill":
            self._running.discard(self.places.get(line.job, -1))
        elif line.kind == "P-state" and self._running:
            self._change(line)

    def _start(self, line: LogLine) -> None:
        """A job whose host is given to another one has ended."""
        place = self.places.get(line.job, -1)
        if place < 0 and not self._running:
            return
        hosts = line.host_set().ids
        if len(hosts) and (most := int(hosts.max())) >= len(self._owner):
            more = np.full(most + 1, -1, dtype=np.int64)
            self._owner = np.concatenate([self._owner, more])
        self._running -= {int(owner) for owner in np.unique(self._owner[hosts])}
        self._owner[hosts] = place
        if place >= 0:
            self._running.add(place)

    def _change(self, line: LogLine) -> None:
        hosts = line.host_set().ids
        owners, shared = np.unique(self._owner[hosts[hosts < len(self._owner)]], return_counts=True)
        for place, hosts_of_it in zip(owners.tolist(), shared.tolist(), strict=True):
            if place not in self._running:
                continue
            life = self._lives[place]
            if line.time > life.end_s:
                self._running.discard(place)
            elif line.time < self._killed_s[place]:
                life.changes.append((line, hosts_of_it, self._in_short(line, life.teller)))

    def _in_short(self, line: LogLine, teller: Teller) -> str:
        """The compensation behind a planned change, in a few words."""
        told = self._compensation
        if told is None or line.rule != PLANNED or told.time != line.time:
            return ""
        return in_short(told.rule, told.facts, teller.own)
