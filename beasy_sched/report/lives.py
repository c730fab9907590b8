"""The records of jobs: each job's own, and what happened around it while it waited and while it ran.

One pass over the decision log finds it for one job or for all of them.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError
from beasy_sched.policies.easy import SET_ASIDE
from beasy_sched.policies.working_plan import PLANNED
from beasy_sched.report.explain_rules import count, in_short
from beasy_sched.report.story import currency_of
from beasy_sched.results import DeadlineRow, JobRow, LogLine, read_deadlines, read_jobs, read_log


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
    holders: list[str] = field(default_factory=list)
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

    @property
    def end_s(self) -> float:
        """When it ended, s; infinite where that is not known."""
        return np.inf if self.row is None or self.row.end_s is None else self.row.end_s


def find_life(prefix: str, name: str) -> Life:
    """Return a job, by its id with or without the workload's. Raises ConfigError and InputError."""
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
    life = Life(job_id, rows.get(job_id), decisions, deadline=deadline, workflow=workflow, currency=currency)
    return next(look_around(read_log(prefix), [life]))


def lives_of(prefix: str, chosen: Collection[str] | None = None) -> Iterator[Life]:
    """Yield the jobs of a run, in the order of ``jobs.csv``, then those that only the log has.

    ``chosen`` are the ids of those asked for, all where it is None. Raises InputError.
    """
    rows = {row.id: row for row in read_jobs(prefix) if chosen is None or row.id in chosen}
    own: dict[str, list[LogLine]] = {job_id: [] for job_id in rows}
    lines = [*read_log(prefix)]
    for line in lines:
        if line.job and (chosen is None or line.job in chosen):
            own.setdefault(line.job, []).append(line)
    deadlines: dict[str, DeadlineRow] = {}
    workflows: dict[str, list[DeadlineRow]] = defaultdict(list)
    for row in read_deadlines(prefix):
        deadlines.setdefault(row.job, row)
        if row.workflow:
            workflows[row.workflow].append(row)
    currency = currency_of(prefix, of_plans=True)
    lives = []
    for job_id, decisions in own.items():
        due = deadlines.get(job_id)
        members = workflows[due.workflow] if due is not None and due.workflow else []
        lives.append(Life(job_id, rows.get(job_id), decisions, deadline=due, workflow=members,
                          currency=currency))  # fmt: skip
    yield from look_around(lines, lives)


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
        """Since when a job has a reservation, s."""
        self._gone: dict[str, float] = {}
        """When it started, or was rejected, s."""

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
                life.changes.append((line, hosts_of_it, self._in_short(line)))

    def _in_short(self, line: LogLine) -> str:
        """The compensation behind a planned change, in a few words."""
        told = self._compensation
        if told is None or line.rule != PLANNED or told.time != line.time:
            return ""
        return in_short(told.rule, told.facts)
