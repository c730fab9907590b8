"""A job's records in a run's files: its own, and what happened around it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

import numpy as np

from beasy_sched.errors import ConfigError
from beasy_sched.policies.facts import SET_ASIDE
from beasy_sched.policies.planned import PLANNED
from beasy_sched.report.explain_numbers import count
from beasy_sched.report.explain_records import Decision, JobRow, read_decisions, read_jobs


@dataclass
class Others:
    """What happened around a job while it waited and while it ran."""

    started: int = 0
    came_later: int = 0
    """Of those that started: how many had come after it."""
    holders: dict[str, None] = field(default_factory=dict)
    """Jobs that had a reservation before it was its turn, in the order in which they got them."""
    changes: list[tuple[Decision, int, Decision | None]] = field(default_factory=list)
    """P-states of its servers while it ran, of how many, and the compensation behind it."""


@dataclass
class Life:
    """A job's own records."""

    id: str
    row: JobRow | None
    own: list[Decision]

    @property
    def start(self) -> Decision | None:
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


def find_life(prefix: str, name: str) -> Life:
    """Find a job by its id, with or without the workload's. Raises ConfigError and InputError."""
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
    return Life(job_id, rows.get(job_id), decisions)


def _is_called(job_id: str, name: str) -> bool:
    return job_id == name or job_id.partition("!")[2] == name


def _hint(name: str, known: list[str]) -> str:
    if not known:
        return "; its decision log names none"
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) if len(known) < 50_000 else []
    these = f"; near it: {', '.join(near)}" if near else ""
    return f"; it has {count(len(known), 'job')}, {known[0]} to {known[-1]}{these}"


def find_others(prefix: str, life: Life) -> Others:
    """Read the log once more, for what the job's own lines do not say. Raises InputError."""
    found, mine, came_s = Others(), _HostsOf(life), life.came_s
    first_s = min((each.time for each in life.own), default=np.inf)
    end_s = np.inf if life.end_s is None else life.end_s
    for each in read_decisions(prefix):
        if each.time > end_s or mine.given_away(each):
            break
        if each.kind == "postpone" and each.rule != SET_ASIDE and each.time <= first_s:
            found.holders[each.job] = None
        if each.time < came_s:
            if each.kind in ("start", "reject"):
                found.holders.pop(each.job, None)
        elif each.kind == "start" and each.job != life.id and not mine.started:
            found.started += 1
            waited_s = each.facts.get("waited_s")
            found.came_later += waited_s is not None and each.time - float(waited_s) > came_s
        elif mine.changed_by(each):
            found.changes.append((each, mine.shared(each), mine.compensation_of(each)))
    return found


class _HostsOf:
    """A job's hosts, as the log is read line by line."""

    def __init__(self, life: Life) -> None:
        kills = (each.time for each in life.own if each.kind == "kill")
        self._killed_s = next(kills, np.inf)
        self.started = False
        """Whether the line that starts the job has been read."""
        self.running = False
        """Whether it has, and none that kills the job."""
        self._life = life
        self._ids = np.empty(0, dtype=np.intp) if life.start is None else life.start.host_set().ids
        self._compensation: Decision | None = None

    def given_away(self, line: Decision) -> bool:
        """Whether a host of the job is given to another one: it has ended."""
        if line.job == self._life.id and line.kind in ("start", "kill"):
            self.running = line.kind == "start"
            self.started = True
            return False
        if line.kind == "compensate":
            self._compensation = line
        return self.running and line.kind == "start" and self.shared(line) > 0

    def changed_by(self, line: Decision) -> bool:
        """Whether the line changes the P-state of a host while it has the job, and will have it on."""
        running = self.running and line.time < self._killed_s
        return running and line.kind == "P-state" and self.shared(line) > 0

    def shared(self, line: Decision) -> int:
        """How many hosts of a line are the job's."""
        return int(np.isin(line.host_set().ids, self._ids).sum())

    def compensation_of(self, line: Decision) -> Decision | None:
        """The compensation that led to a planned state: that of the same moment."""
        last = self._compensation
        return last if last is not None and line.rule == PLANNED and last.time == line.time else None
