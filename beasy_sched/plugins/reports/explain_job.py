"""Explanation of a job: why it waited, started and ended, from the records of a run.

It covers the submission, dependencies, deadline, wait, start, execution and end of the job. One pass over the
decision log finds this for one job or for all jobs.
"""

from __future__ import annotations

import difflib
import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError
from beasy_sched.formats.run_summary import found_summary
from beasy_sched.outputs.quantities import clock, count, span
from beasy_sched.plugins.reports.explain_rules import in_short
from beasy_sched.plugins.reports.story import (
    AT_ONCE_S,
    Chapter,
    Entry,
    Story,
    Teller,
    because,
    entries_of,
    named_hosts,
    teller_of,
    told,
)
from beasy_sched.policies.follow_plan import SET_ASIDE
from beasy_sched.policies.planned.follower import PLANNED
from beasy_sched.policies.registry import built_in
from beasy_sched.run.results import (
    DeadlineRow,
    Glance,
    JobRow,
    LogLine,
    check_starts,
    glance_over,
    read_deadlines,
    read_jobs,
)
from beasy_sched.units import energy_text


def explain_job(prefix: str, name: str) -> Story:
    """Explain why a job waited, started and ended, in all its lives if it came back after kills.

    ``name`` is its id, with or without the workload's (``w0!``). Raises ConfigError if there is no
    such job, and InputError for files that cannot be read.
    """
    lives = [find_life(prefix, name)]
    while (following := lives[-1].next_id) is not None:
        lives.append(find_life(prefix, following))
    if len(lives) == 1:
        return Story(f"Job {lives[0].id}", _chapters(lives[0]), _data(lives[0]))
    chapters = [
        replace(chapter, title=f"{chapter.title} ({life.id})" if number else chapter.title)
        for number, life in enumerate(lives)
        for chapter in _chapters(life)
    ]
    data = {**_data(lives[0]), "lives": [_data(life) for life in lives]}
    return Story(f"Job {lives[0].id}", [*chapters, _altogether(lives)], data)


def _altogether(lives: Sequence[JobHistory]) -> Chapter:
    """Return the sums over the lives of a job that came back."""
    waits_s = [life.start.time - life.came_s for life in lives if life.start is not None]
    text = f"It had {len(lives)} lives, {lives[0].id} to {lives[-1].id}, and waited {span(sum(waits_s))}"
    facts = [line.facts for life in lives for line in life.own if line.kind == "restart"]
    saved_s, redone_s = (
        sum(float(each.get(name) or 0.0) for each in facts) for name in ("saved_s", "redone_s")
    )
    text += f"; {span(redone_s)} of work were done again, {span(saved_s)} were continued."
    last = lives[-1].row
    if last is not None and last.end_s is not None:
        text += f" From its submission to its end, it took {span(last.end_s - lives[0].came_s)}."
    return Chapter("Altogether", [Entry(text)])


def _data(life: JobHistory) -> dict[str, object]:
    """Return the explanation of a life as data."""
    row, start = life.row, life.start
    return {
        "job": life.id,
        "submitted_s": life.came_s,
        "started_s": None if start is None else start.time,
        "ended_s": None if row is None else row.end_s,
        "hosts_asked": row.res if row else life.waits_on and life.waits_on.facts.get("hosts_asked"),
        "walltime_s": row.walltime_s if row else life.waits_on and life.waits_on.facts.get("walltime_s"),
        "final_state": row and row.final_state,
        "energy_j": row and row.energy_j,
        "others_started_while_it_waited": life.others,
        "of_these_came_later": life.came_later,
        **_terms_data(life),
        "decisions": [told(each, life.teller) for each in life.own],
        "p_states_while_it_ran": [told(each, life.teller) for each, _, _ in life.changes],
    }


def explain_jobs(prefix: str, chosen: Collection[str] | None = None) -> Iterator[tuple[str, list[Chapter]]]:
    """Yield each job's id with the chapters of `explain_job`.

    They are in the order of ``jobs.csv``, followed by those that only the log has.

    ``chosen`` are the ids of the requested jobs; None means all. Raises InputError for files
    that cannot be read.
    """
    rows = [row for row in read_jobs(prefix) if chosen is None or row.id in chosen]
    for life in _Lives(prefix, rows, lambda job_id: chosen is None or job_id in chosen):
        yield life.id, _chapters(life)


def _chapters(life: JobHistory) -> list[Chapter]:
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


def _arrival(life: JobHistory) -> str:
    if life.row is None and life.waits_on is not None:
        hosts, limit_s = (life.waits_on.facts.get(name) for name in ("hosts_asked", "walltime_s"))
        return _asked(float(hosts or 0), None if limit_s is None else float(limit_s))
    if life.row is None:
        asked = "" if life.start is None else f"It ran on {named_hosts(life.start.host_set())}. "
        return f"It was submitted. {asked}(No jobs.csv was found, so details are missing.)"
    return _asked(life.row.res, life.row.walltime_s)


def _asked(hosts: float, walltime_s: float | None) -> str:
    limit = "without a walltime"
    if walltime_s is not None:
        limit = f"with a walltime of {span(walltime_s)}"
    return f"It was submitted and requested {count(hosts, 'host')} {limit}."


def _terms(life: JobHistory) -> Iterator[Entry]:
    """Dependencies and deadline of the job, and whether it met the deadline."""
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
        due += f"; it should end by {clock(own.internal_deadline_s)} to leave time for its successors"
    yield Entry(f"{due}. {_kept(own)}")


def _late_phases(life: JobHistory) -> list[Entry]:
    """Jobs of lower phases that were submitted too late for it to wait for them."""
    return entries_of((each for each in life.own if each.kind == "queue"), life.teller)


def _terms_data(life: JobHistory) -> dict[str, object]:
    """Return dependencies and deadline of the job as data; empty for a job without a deadline."""
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
        return "It was rejected."
    if own.end_s is None:
        return "It missed its deadline, because it never ended."
    if own.outcome == "met":
        return f"It met its deadline, {span(own.deadline_s - own.end_s)} early."
    if own.lateness_s:
        return f"It missed its deadline by {span(own.lateness_s)}."
    return "It missed its deadline, because it did not finish."


def _depends_on(predecessors: Sequence[DeadlineRow]) -> str:
    if not predecessors:
        return "It does not depend on other jobs."
    names, alone = ", ".join(row.job for row in predecessors[:3]), len(predecessors) == 1
    if len(predecessors) > 3:
        names = f"{count(len(predecessors), 'job')} of earlier phases, {names} and so on"
    ends = {row.end_s: row.job for row in predecessors}
    if None in ends:
        return f"It depends on {names}{', which' if alone else f'; {ends[None]}'} never ended."
    last_s = max(end_s for end_s in ends if end_s is not None)
    which = ", which" if alone else f"; the last of them, {ends[last_s]},"
    return f"It depends on {names}{which} ended at {clock(last_s)}."


def _waiting(life: JobHistory) -> list[Entry]:
    postponed = [each for each in life.own if each.kind == "postpone"]
    entries = entries_of(postponed[:1], life.teller)
    for line in postponed[1:]:  # the deadline was stated, and does not change much
        facts = {name: value for name, value in line.facts.items() if name != "deadline_s"}
        entries.append(Entry(because(msgspec.structs.replace(line, facts=facts), life.teller), line.time))
    if not entries and life.start is not None and life.start.time - life.came_s <= AT_ONCE_S:
        return []
    holders = [job for job in life.holders if job != life.id]
    if holders and (not entries or life.own[0].time - life.came_s > AT_ONCE_S):
        names = ", ".join(holders)
        if len(holders) > 5:
            names = f"{len(holders):,} jobs in turn, from {holders[0]} to {holders[-1]}"
        entries.insert(0, Entry(f"Before it in the queue: {names}.", life.came_s))
    if not entries:
        entries.append(Entry("The policy gave no reason for the wait.", life.came_s))
    if life.others:
        went = f"Meanwhile {count(life.others, 'other job')} started"
        entries.append(Entry(f"{went}{_later(life.came_later, life.others)}."))
    return entries


def _later(later: int | None, others: int) -> str:
    """State how many of the jobs that started before this one were submitted later, if known."""
    if later is None:
        return ""
    if others == 1:
        return f"; it was {'' if later else 'not '}submitted later"
    which = {0: "none", others: "all"}.get(later, f"{later:,}")
    return f"; {which} of them {'was' if later == 1 else 'were'} submitted later"


def _start(life: JobHistory) -> list[Entry]:
    if (start := life.start) is not None:
        where = named_hosts(start.host_set())
        return [Entry(f"It started on {where}. {because(start, life.teller)}", start.time)]
    return []


def _running(life: JobHistory) -> list[Entry]:
    """Changes of P-state; planned ones with their online changes and the reason for these."""
    entries = []
    res = 0 if life.start is None else len(life.start.host_set())
    for each, shared, compensation in life.changes:
        whose = "its host" if res == 1 else "its hosts" if shared == res else f"{shared} of its {res} hosts"
        why = f". {because(each, life.teller)}"
        if each.kind == "lost":
            lost = f"{whose} {'was' if res == 1 else 'were'} lost{why}"
            entries.append(Entry(lost[0].upper() + lost[1:], each.time))
            continue
        if each.rule == PLANNED:
            why = ", as planned."
            if replanned := int(each.facts.get("hosts_replanned") or 0):
                partly = "" if replanned == len(each.host_set()) else "partly "
                why = f", as planned, {partly}changed online{compensation}."
        entries.append(Entry(f"{each.action} for {whose}{why}", each.time))
    return entries


def _end(life: JobHistory) -> list[Entry]:
    ends = (each for each in life.own if each.kind in ("kill", "reject", "waiting", "restart"))
    entries = entries_of(ends, life.teller)
    row = life.row
    if row is None:
        return entries or [Entry("The decision log does not record its end; it was not killed.")]
    if row.start_s is None or row.end_s is None:
        return entries or [Entry(f"It never started ({row.final_state}).")]
    ran_s = row.end_s - row.start_s
    how = _ENDS.get(row.final_state, row.final_state)
    if any(each.kind == "lost" and abs(each.time - row.end_s) <= AT_ONCE_S for each, _, _ in life.changes):
        how = _ENDS_WITH_HOSTS.get(row.final_state, how)
    text = f"{how} after {span(ran_s)}"
    if row.walltime_s is not None and row.final_state == "COMPLETED_SUCCESSFULLY":
        text += f", {span(max(row.walltime_s - ran_s, 0.0))} before its walltime"
    if row.energy_j is not None:
        text += f"; its hosts used {energy_text(row.energy_j)}"
    return [*entries, Entry(text + ".", row.end_s)]


_ENDS = {
    "COMPLETED_SUCCESSFULLY": "It finished",
    "COMPLETED_FAILED": "It ended with an error,",
    "COMPLETED_WALLTIME_REACHED": "It reached its walltime",
    "COMPLETED_KILLED": "It was killed",
}


_ENDS_WITH_HOSTS = {
    "COMPLETED_FAILED": "It failed because some of its hosts were lost,",
    "COMPLETED_KILLED": "It was killed because some of its hosts were lost,",
}
"""Sentences for jobs that ended when they lost hosts."""


# --- the records of jobs -----------------------------------------------------------------------------------


@dataclass
class JobHistory:
    """Records of a job, and events during its wait and its execution."""

    id: str
    row: JobRow | None
    own: list[LogLine]
    others: int = 0
    """Number of jobs that started while this one waited."""
    came_later: int | None = 0
    """Number of these that were submitted after it; None if unknown."""
    holders: list[str] = field(default_factory=list)
    """Jobs that held a reservation before this one, in the order in which they received it."""
    deadline: DeadlineRow | None = None
    """Deadline of the job; None if it has none."""
    workflow: list[DeadlineRow] = field(default_factory=list)
    """Jobs of the job's workflow, including this one."""
    teller: Teller = field(default_factory=Teller)
    changes: list[tuple[LogLine, int, str]] = field(default_factory=list)
    """P-state changes and losses of the job's servers while it ran: the line, the number of servers,
    and a short description of the related compensation."""

    @property
    def predecessors(self) -> list[DeadlineRow]:
        """Jobs of earlier phases of the job's workflow."""
        phase = None if self.deadline is None else self.deadline.phase
        if phase is None:
            return []
        return [row for row in self.workflow if row.phase is not None and row.phase < phase]

    @property
    def start(self) -> LogLine | None:
        """Line that starts the job; None if there is none."""
        return next((each for each in self.own if each.kind == "start"), None)

    @property
    def waits_on(self) -> LogLine | None:
        """Line that records that the job still waited when the run ended early; None if there is none."""
        return next((each for each in self.own if each.kind == "waiting"), None)

    @property
    def next_id(self) -> str | None:
        """Id of the next life of the job; None if it did not come back."""
        back = next((each for each in self.own if each.kind == "restart"), None)
        return None if back is None else str(back.facts.get("life"))

    def drop_changes_of_killed(self) -> None:
        """Omit changes at the time of the job's kill, which the kill explains."""
        killed_s = next((each.time for each in self.own if each.kind == "kill"), np.inf)
        self.changes = [change for change in self.changes if change[0].time < killed_s]

    @property
    def came_s(self) -> float:
        """Time at which the job was submitted, s."""
        if self.row is not None:
            return self.row.subtime_s
        first = self.start or self.waits_on or self.own[0]
        return first.time - float(first.facts.get("waited_s") or 0.0)

    @property
    def end_s(self) -> float:
        """Time at which the job ended, s; infinite if unknown."""
        return np.inf if self.row is None or self.row.end_s is None else self.row.end_s


def find_life(prefix: str, name: str) -> JobHistory:
    """Return a job, by its id with or without the workload's. Raises ConfigError and InputError."""
    rows = [row for row in read_jobs(prefix, name.partition("!")[2] or name) if _is_called(name, row.id)]
    lives = _Lives(prefix, rows, lambda job_id: job_id.endswith(name) and _is_called(name, job_id))
    if len(lives.explained) > 1:
        names = " and ".join(lives.explained)
        raise ConfigError(f"job {name}: found {names}, expected one job; give its full id")
    if not lives.explained:
        hint, ids = "its decision log contains no jobs", [*_ids(prefix)]
        if ids:
            near = difflib.get_close_matches(name, ids, n=3, cutoff=0.5) if len(ids) < 50_000 else []
            these = f"; did you mean {', '.join(near)}" if near else ""
            hint = f"it has {count(len(ids), 'job')}, {ids[0]} to {ids[-1]}{these}"
        raise ConfigError(f"job {name}: this run has no such job; {hint}")
    life = next(iter(lives))
    logged = {} if life.start is None else {life.id: life.start.time}
    check_starts(prefix, logged, {row.id: row.start_s for row in rows})
    return life


def _ids(prefix: str) -> Iterable[str]:
    """Jobs of the log, each once."""
    return dict.fromkeys(glance.job for glance, _ in glance_over(prefix) if glance.job)


def _is_called(name: str, job_id: str) -> bool:
    return name in (job_id, job_id.partition("!")[2])


class _Lives:
    """Selected jobs of a run, found in one pass over the log."""

    def __init__(self, prefix: str, rows: Iterable[JobRow], is_explained: Callable[[str], bool]) -> None:
        """``rows`` are their rows in ``jobs.csv``. Raises InputError."""
        teller = teller_of(prefix)
        self.explained = {row.id: JobHistory(row.id, row, [], teller=teller) for row in rows}
        """The explained jobs, by their ids."""
        summary = found_summary(prefix)
        of_ours = summary is None or summary.settings.policy in built_in()
        self._queue, self._running = _WaitingLine(of_ours), _Running()
        for number, (glance, whole) in enumerate(glance_over(prefix)):
            job, kind = glance.job, glance.kind
            life = self.explained.get(job)
            if life is None and job and is_explained(job):
                life = self.explained[job] = JobHistory(job, None, [], teller=teller)
            self._queue.take(number, kind, glance)
            if life is not None:
                life.own.append(whole())
                if kind in ("start", "kill"):
                    self._queue.turns.setdefault(job, number)
            if life is not None or self._running.is_concerned(kind):
                self._running.take(kind, glance, life, whole)
        self._queue.close(prefix)
        self._add_deadlines(prefix)

    def _add_deadlines(self, prefix: str) -> None:
        workflows: dict[str, list[DeadlineRow]] = defaultdict(list)
        for row in read_deadlines(prefix):
            life = self.explained.get(row.job)
            if life is not None and life.deadline is None:
                life.deadline = row
            if row.workflow:
                workflows[row.workflow].append(row)
        for life in self.explained.values():
            if life.deadline is not None and life.deadline.workflow:
                life.workflow = workflows[life.deadline.workflow]

    def __iter__(self) -> Iterator[JobHistory]:
        for life in self.explained.values():
            self._queue.tell(life)
            life.drop_changes_of_killed()
            yield life


class _WaitingLine:
    """Start times and reservation times of jobs."""

    def __init__(self, of_ours: bool) -> None:
        """``of_ours``: whether the run's policy is built-in, so that its facts have submission times."""
        self._of_ours = of_ours
        self.turns: dict[str, int] = {}
        """Line that started or killed an explained job."""
        self._numbers, self._times_s, self._came_s = array("q"), array("d"), array("d")
        """Line, time and submission time (s; NaN if unknown) of each start."""
        self._unknown: dict[str, int] = {}
        """Index among the starts of each job whose policy does not log its submission time."""
        self._reserved: dict[str, float] = {}
        """Time at which each job received its reservation, s."""
        self._gone: dict[str, float] = {}
        """Time at which each of them started, or was rejected, s."""

    def take(self, number: int, kind: str, line: Glance) -> None:
        if kind == "start":
            waited_s = line.facts.waited_s if self._of_ours else None
            if waited_s is None:
                self._unknown[line.job] = len(self._numbers)
            self._numbers.append(number)
            self._times_s.append(line.time)
            self._came_s.append(math.nan if waited_s is None else line.time - waited_s)
        if kind in ("start", "reject"):
            if line.job in self._reserved:
                self._gone.setdefault(line.job, line.time)
        elif kind == "postpone" and line.rule != SET_ASIDE:
            self._reserved.setdefault(line.job, line.time)

    def close(self, prefix: str) -> None:
        """Convert the collected values to arrays, and read unlogged submission times from ``jobs.csv``."""
        if self._unknown:
            for row in read_jobs(prefix):
                if (place := self._unknown.get(row.id)) is not None:
                    self._came_s[place] = row.subtime_s
        self._starts = np.array(self._numbers), np.array(self._times_s), np.array(self._came_s)
        self._names = [*self._reserved]
        self._since_s: FloatArray = np.array([*self._reserved.values()], dtype=np.float64)
        self._until_s = np.array([self._gone.get(job, np.inf) for job in self._names])

    def tell(self, life: JobHistory) -> None:
        """Set the jobs that were before it in the queue, and the number that started while it waited."""
        first_s = min((line.time for line in life.own), default=np.inf)
        reserved = int(np.searchsorted(self._since_s, first_s, "right"))
        there = np.flatnonzero(self._until_s[:reserved] >= life.came_s)
        life.holders = [self._names[place] for place in there]
        turn = self.turns.get(life.id)
        numbers, times_s, came_s = self._starts
        if turn is not None:
            until = int(np.searchsorted(numbers, turn))
        else:
            until = int(np.searchsorted(times_s, life.end_s, "right"))
        since = min(int(np.searchsorted(times_s, life.came_s)), until)
        life.others = until - since
        others_s = came_s[since:until]
        life.came_later = None if np.isnan(others_s).any() else int((others_s > life.came_s).sum())


class _Running:
    """Map from hosts to the explained jobs running on them, to assign P-state changes to jobs."""

    def __init__(self) -> None:
        self._lives: list[JobHistory] = []
        """Jobs that have started."""
        self._running: dict[str, int] = {}
        """Index in `_lives` of each running job, by its id."""
        self._owner: IntArray = np.full(64, -1, dtype=np.int64)
        """Index of the job that started last on each host, -1 if it is not an explained one."""
        self._compensation: tuple[float, Callable[[], LogLine]] | None = None
        """Time of the last compensation, s, and the function that reads its line."""

    def is_concerned(self, kind: str) -> bool:
        """Whether a line of another job, or without a job, concerns the running ones."""
        return kind == "compensate" or (bool(self._running) and kind in ("start", "P-state", "lost"))

    def take(self, kind: str, glance: Glance, life: JobHistory | None, whole: Callable[[], LogLine]) -> None:
        """Record a line; ``life`` is its job if that is explained, and ``whole`` reads all of it."""
        if kind == "compensate":
            self._compensation = glance.time, whole
        elif kind == "start":
            self._start(whole(), life)
        elif kind == "kill":
            self._running.pop(glance.job, None)
        elif kind in ("P-state", "lost") and self._running:
            self._change(whole())

    def _start(self, line: LogLine, life: JobHistory | None) -> None:
        """Remove jobs whose host is given to another one: they have ended."""
        hosts = line.host_set().ids
        if len(hosts) and (most := int(hosts.max())) >= len(self._owner):
            more = np.full(most + 1, -1, dtype=np.int64)
            self._owner = np.concatenate([self._owner, more])
        for place in np.unique(self._owner[hosts]).tolist():
            if place >= 0:
                self._running.pop(self._lives[place].id, None)
        self._owner[hosts] = -1 if life is None else len(self._lives)
        if life is not None:
            self._running[life.id] = len(self._lives)
            self._lives.append(life)

    def _change(self, line: LogLine) -> None:
        hosts = line.host_set().ids
        owners, shared = np.unique(self._owner[hosts[hosts < len(self._owner)]], return_counts=True)
        for place, hosts_of_it in zip(owners.tolist(), shared.tolist(), strict=True):
            if place < 0 or self._running.get((life := self._lives[place]).id) != place:
                continue
            if line.time > life.end_s:
                del self._running[life.id]
            else:
                life.changes.append((line, hosts_of_it, self._in_short(line, life.teller)))

    def _in_short(self, line: LogLine, teller: Teller) -> str:
        """Short description of the compensation behind a planned change."""
        if self._compensation is None or line.rule != PLANNED or self._compensation[0] != line.time:
            return ""
        compensation = self._compensation[1]()
        return in_short(compensation.rule, compensation.facts, teller.own)
