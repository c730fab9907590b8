"""The story of one job: when it came, why it waited, why it started, what befell it, how it ended.

A job's records in a run's files: its own, and what happened around it.

What every rule of the decision log means: one sentence each, with the numbers behind it.

A sentence is a text with facts in braces (``{cost_j}``, ``{hosts_free:host}`` with the noun that is
counted). A part in square brackets is left out where one of its facts is missing; it may ask for more:
``[dangerous? ...]`` is there when the fact is not 0, ``[mode=shed? ...]`` when it has that value.

An explanation as a tree of short texts, and its layout on a page.

The story of one step: its energy, what was decided in it, and why.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from beasy_sched.errors import ConfigError
from beasy_sched.policies import easy as rules
from beasy_sched.policies.easy import SET_ASIDE
from beasy_sched.policies.follow_plan import PLANNED
from beasy_sched.report.explain_records import (
    Decision,
    JobRow,
    clock,
    count,
    energy,
    fact,
    percent,
    power,
    read_decisions,
    read_jobs,
    read_trace,
    span,
)
from beasy_sched.units import TIME_TOLERANCE_S


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


Facts = Mapping[str, float | int | str | None]

_PLAN: Final = (
    "[ The plan keeps its servers on until {planned_on_until_s}.]"
    "[ For that {server_steps_changed:server-step} that it had asleep had to be on, which takes {needed_j}.]"
)
_PAID: Final = (
    "[ To pay for it {hosts_to_sleep:idle server} will sleep ({server_steps_to_sleep:server-step}):"
    " that saves {found_j}.]"
)
_STEP: Final = "[ It takes up to {cost_j} of the {headroom_j} left in the step.]"
_BUDGET: Final = (
    "[ It draws up to {job_w} more; the budget has {available_j}, of which {reserved_j} are reserved.]"
    "[ It draws up to {job_w} more, on top of {drawn_w} with {reserved_w} reserved; the limit is {limit_w}.]"
)
_HEAD: Final = (
    "It was the first of the queue[, with the largest bounded slowdown ({slowdown})]"
    "[, the smallest ({size_host_s})][dangerous? in a dangerous step][; {hosts_free:host} free]."
)
_FILLER: Final = (
    "It was backfilled ahead of {reserved_for}[, whose hosts are reserved for {reserved_at_s}]"
    "[, which has its hosts and waits for {reserved_lacks}][; {hosts_free:host} free]."
    "[ By its walltime it ends by {ends_by_s}, before that.]"
    "[ It may run longer, on hosts that the reservation leaves over ({hosts_extra}).]"
    "[ It may run longer, but leaves the {hosts_left_alone:reserved host} alone.]"
)
_LACKS: Final = "It asks for {hosts_asked:host}, with {hosts_free} free"
_SHED: Final = (
    "[The storage guard found too little energy for the step: {needed_j} needed, {supply_j} to be had,"
    " {missing_j} missing, at {soc_pct} of charge.]"
)
_SURPLUS: Final = (
    "The plan would end the window (at {window_end_s}) with {diff_j:abs} more in the battery than its target:"
    " {comp_j} could be spent[, {spendable_j} of it without draining the battery on the way]."
    "[ {spent_on_jobs_j} went into faster servers for running jobs,"
    " {spent_on_wakes_j} into waking servers for waiting jobs.]"
    "[ {spent_j} went into {steps_changed:step} to come.]"
)
_SHORTAGE: Final = (
    "The plan would end the window (at {window_end_s}) with {diff_j:abs} less in the battery than its target:"
    " {comp_j:abs} had to be saved[; {saved_j} was, by servers that sleep or run slower]"
    "[ in {steps_changed:step} to come][, around {violation_at_s} ({curves_below} of the nine predicted"
    " curves are below SoC_min there)]."
)

RULES: Final[dict[tuple[str, str], str]] = {
    ("start", rules.HEAD): _HEAD + _PLAN + _STEP + _BUDGET,
    ("start", rules.HEAD + rules.SLEEPERS_PAY): _HEAD + _PLAN + _PAID + _STEP,
    ("start", rules.BACKFILLED): _FILLER + _PLAN + _STEP + _BUDGET,
    ("start", rules.BACKFILLED + rules.SLEEPERS_PAY): _FILLER + _PLAN + _PAID + _STEP,
    ("start", "its hosts are awake"): "Its hosts, woken for it, are all on.",
    ("postpone", rules.RESERVED): _LACKS + "; it is promised its hosts for {reserved_at_s}.",
    ("postpone", rules.NOT_RESERVED): _LACKS + "; when enough will be is not known yet.",
    ("postpone", rules.NO_STEP_ENERGY): (
        "Its {hosts_asked:host} are free, but to the end of the step it would take up to {cost_j}, and"
        " {headroom_j} is left above SoC_min (the guard's veto).[ It is promised hosts for {reserved_at_s}.]"
    ),
    ("postpone", "no energy in the budget"): (
        "Its {hosts_asked:host} could be had, but not its energy within the budget"
        "[: {available_j} available, of which {reserved_j} are reserved]"
        "[: {drawn_w} drawn, {reserved_w} reserved, and {limit_w} is the limit]"
        "[; it is promised to start at {reserved_at_s}]."
    ),
    ("postpone", rules.PLAN_CANNOT_PAY): (
        "Enough hosts are free, but the plan has some asleep before its walltime. To keep them on takes"
        " {needed_j}; idle servers could save {found_j} by sleeping."
        "[ It is promised its hosts for {reserved_at_s}.]"
    ),
    ("postpone", rules.SET_ASIDE): (
        "It is set aside: by its walltime it cannot end within the last planned window, which ends at"
        " {window_end_s}."
    ),
    ("reject", "asks for more hosts than there are"): (
        "It asks for {hosts_asked:host}, and there are {hosts_in_all} in all."
    ),
    ("reject", "the run is over"): "The run ended before it could start[, after {waited_s} of waiting].",
    ("kill", "the run is over"): "The run ended while it ran: it is not completely finished.",
    ("kill", "guard: no energy for it"): (
        _SHED
        + "[ After what idle servers save, {still_missing_j} were to be found.][ Its end saves {saves_j}.]"
        "[mode=shed? It had spent {spent_j}: those that have spent least go first.]"
        "[mode=kill-all? Every running job is killed then; it had spent {spent_j}.]"
    ),
    ("kill", "its server is planned to sleep"): (
        "The plan puts {hosts_to_sleep} of its servers to sleep[, {walltime_left_s} before its walltime]."
    ),
    ("P-state", "guard: no energy for it"): (
        "[Job {killed} ran there and is killed.]" + _SHED + "[ This saves {saves_j}.]"
    ),
    ("P-state", "guard: wake cancelled, no energy for it"): (
        _SHED + " They shall not wake now.[ That saves {saves_j}.]"
    ),
    ("P-state", "planned"): (
        "As planned[, changed online for {hosts_replanned} of them]"
        "[: all servers draw up to {planned_w} in the step]."
    ),
    ("P-state", "the plan has it asleep"): "No job needs it, and the plan, as it is now, has it asleep.",
    ("P-state", "idle for T_wait"): ("Idle for {idle_s}: to sleep pays after {t_wait_s} (T_wait, Eq. 2.9)."),
    ("P-state", "waiting jobs want it"): (
        "Waiting jobs ask for {hosts_wanted:host}, and {hosts_awaited} are free or waking."
        "[ {hosts_left_asleep} more stay asleep: {cost_j} of {headroom_j} left in the step are taken.]"
    ),
    ("P-state", "fed by the arriving power"): (
        "{renewable_w} arrive: beside {hosts_busy:busy server} that feeds {hosts_fed} more."
    ),
    ("P-state", "not fed by the arriving power"): (
        "{renewable_w} arrive, and {taken_w} are taken by {hosts_busy:busy server} and those asleep:"
        " that feeds {hosts_fed} more."
    ),
    ("P-state", "idle within the budget's period"): (
        "No job needs it now, and what it draws idle counts in the budget."
    ),
    ("P-state", "given to a job"): "Given to a job, which starts when all its hosts are on.",
    ("P-state", "reserved for the first waiting job"): "The first waiting job's reservation is due.",
    ("compensate", "surplus"): _SURPLUS,
    ("compensate", "shortage"): _SHORTAGE,
}
"""By what was done (``P-state`` whatever its number) and the rule."""

IN_SHORT: Final[dict[str, str]] = {
    "surplus": (
        "[spent_on_jobs_j? (a surplus: {spent_on_jobs_j} spent on faster servers)]"
        "[spent_j? (a surplus: {spent_j} spent, in {steps_changed:step})]"
    ),
    "shortage": "[saved_j? (a shortage: {saved_j} saved)]",
}
"""What a compensation did, in a few words, for those who look at its effects; nothing if it did nothing."""

_PART: Final = re.compile(r"\[(?:(\w+)(?:=([\w-]+))?\?)?([^\]]*)\]")
_FACT: Final = re.compile(r"\{(\w+)(?::([^}]*))?\}")


def sentence(action: str, rule: str, facts: Facts) -> str:
    """Why an action was taken, in words.

    A rule that is not ours, or lacks facts, stands as it is, with the facts that there are.
    """
    template = RULES.get((action.partition(" ")[0], rule))
    if template is None:
        return _as_it_stands(rule, facts)
    known = {name: value for name, value in facts.items() if value is not None}
    text = _PART.sub(lambda part: _if_known(part, known), template)
    if not all(name in known for name, _ in _FACT.findall(text)):
        return _as_it_stands(rule, facts)
    return _fill(text, known).strip()


def in_short(rule: str, facts: Facts) -> str:
    """What a compensation did, in a few words, a blank before them; nothing if it did nothing."""
    known = {name: value for name, value in facts.items() if value is not None}
    return _fill(_PART.sub(lambda part: _if_known(part, known), IN_SHORT.get(rule, "")), known)


def _if_known(part: re.Match[str], facts: Mapping[str, float | int | str]) -> str:
    asked, wanted, text = part.groups()
    if asked is not None and (not facts.get(asked) or wanted not in (None, facts[asked])):
        return ""
    return text if all(name in facts for name, _ in _FACT.findall(text)) else ""


def _fill(text: str, facts: Mapping[str, float | int | str]) -> str:
    def words(match: re.Match[str]) -> str:
        name, spec = match.groups()
        return fact(name, facts[name], spec or "")

    return _FACT.sub(words, text)


def _as_it_stands(rule: str, facts: Facts) -> str:
    numbers = ", ".join(f"{name} {fact(name, value)}" for name, value in facts.items() if value is not None)
    return f"{rule or 'no rule was given'}" + (f" ({numbers})" if numbers else "")


_INDENT = "  "
_MOST = 12
"""Entries of a section that are told; the others are counted."""


@dataclass(frozen=True)
class Entry:
    """One sentence or more, at a moment of the run (s) where it has one."""

    text: str
    time_s: float | None = None


@dataclass(frozen=True)
class Section:
    """A heading with what belongs to it."""

    title: str
    entries: list[Entry]


@dataclass(frozen=True)
class Story:
    """What is told, and the same as data for tools."""

    title: str
    sections: list[Section]
    data: dict[str, Any] = field(default_factory=dict)

    def lines(self, width: int) -> Iterator[tuple[bool, str]]:
        """The story as (is it a heading, line of at most ``width`` columns)."""
        yield True, printable(self.title)
        for section in self.sections:
            yield False, ""
            yield True, section.title
            told = section.entries if len(section.entries) <= _MOST + 1 else section.entries[:_MOST]
            for entry in told:
                for line in _wrapped(entry, width):
                    yield False, line
            if len(told) < len(section.entries):
                yield False, f"{_INDENT}... and {len(section.entries) - len(told)} more (--json has all)"


def printable(text: str) -> str:
    """Escape what could steer a terminal: names come from files of anyone's making."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def because(decision: Decision) -> str:
    """Why a decision was taken, in words."""
    return sentence(decision.action, decision.rule, decision.facts)


def told(decision: Decision) -> dict[str, object]:
    """A decision as data, with its sentence."""
    return {**msgspec.structs.asdict(decision), "sentence": because(decision)}


def _wrapped(entry: Entry, width: int) -> list[str]:
    label = _INDENT + (f"{clock(entry.time_s)}  " if entry.time_s is not None else "")
    hanging = " " * len(label) if entry.time_s is not None else _INDENT
    room = max(width, len(label) + 30)
    return textwrap.wrap(
        printable(entry.text), room, initial_indent=label, subsequent_indent=hanging, break_on_hyphens=False
    )


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


NO_SITE_STEP_S = 300.0
"""What is told together where there is no site, and so no steps."""

Row = Mapping[str, float]


@dataclass
class _Step:
    """The step that is told of; without a site only its bounds are known."""

    start_s: float
    end_s: float
    row: Row | None = None
    before: Row | None = None
    """The step before, for the levels at the start."""


def explain_time(prefix: str, time_s: float) -> Story:
    """Tell what happened in the step that holds a moment of the run (s), and why.

    Without a site, in the five minutes that hold it. Raises ConfigError where the run has no such
    time, and InputError for files that cannot be read.
    """
    step = _find_step(prefix, time_s)
    decisions, last_s = _decisions(prefix, step)
    if step.row is None and time_s > last_s + NO_SITE_STEP_S:
        raise ConfigError(f"--at {clock(time_s)}: the last decision of this run was taken at {clock(last_s)}")
    sections = [] if step.row is None else [Section("Energy", [*_energy(step.row, step.before)])]
    sections += [section for section in _told(decisions) if section.entries]
    if not decisions:
        sections.append(Section("Decisions", [Entry("None: everything stayed as it was.")]))
    number = "" if step.row is None else f"Step {step.row['step']:.0f}, "
    title = f"{number}{clock(step.start_s)} to {clock(step.end_s)}"
    data = {
        "start_s": step.start_s,
        "end_s": step.end_s,
        "energy": None if step.row is None else dict(step.row),
        "decisions": [told(each) for each in decisions],
    }
    return Story(title, sections, data)


def _find_step(prefix: str, time_s: float) -> _Step:
    before: Row | None = None
    for row in read_trace(prefix):
        end_s = row["start_s"] + row["duration_s"]
        if time_s < end_s - TIME_TOLERANCE_S:
            return _Step(row["start_s"], end_s, row, before)
        before = row
    if before is not None:
        end_s = before["start_s"] + before["duration_s"]
        raise ConfigError(f"--at {clock(time_s)}: the steps of this run end at {clock(end_s)}")
    start_s = time_s // NO_SITE_STEP_S * NO_SITE_STEP_S
    return _Step(start_s, start_s + NO_SITE_STEP_S)


def _decisions(prefix: str, step: _Step) -> tuple[list[Decision], float]:
    """The step's decisions, and the moment of the last one that was read, s."""
    found, last_s = [], 0.0
    for each in read_decisions(prefix):
        last_s = each.time
        if each.time >= step.end_s - TIME_TOLERANCE_S:
            break
        if each.time >= step.start_s - TIME_TOLERANCE_S:
            found.append(each)
    return found, last_s


# --- words ---------------------------------------------------------------------------------------------


def _energy(row: Row, before: Row | None) -> Iterator[Entry]:
    """The step's energy, a line each: what came, what was drawn, what the storage did."""
    length_s = row["duration_s"]
    yield Entry(
        f"Production: {_flow(row, 'renewable_w', length_s)}{_as_planned(row, 'planned_renewable_w')}."
    )
    envelope = _as_planned(row, "planned_envelope_w")
    on = ""
    if "planned_servers_on" in row:
        on = f"; {count(row['planned_servers_on'], 'server')} planned on"
    yield Entry(f"Servers: {_flow(row, 'demand_w', length_s)}{envelope}{on}.")
    yield Entry(f"Battery: {_battery(row, before)}.")
    if any(row.get(name) for name in _HYDROGEN):
        yield Entry(f"Hydrogen: {_hydrogen(row)}.")
    for name, what in _LOST.items():
        if row.get(name):
            yield Entry(f"{what}: {_flow(row, name, length_s)}.")


_HYDROGEN = ("electrolyzer_w", "fuel_cell_w", "planned_electrolyzer_w", "planned_fuel_cell_w")
_LOST = {
    "curtailed_w": "Curtailed, for nothing could take it",
    "unserved_w": "Unserved, for there was nothing to serve it with",
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


def _told(decisions: list[Decision]) -> Iterator[Section]:
    """The decisions by kind, what shaped the step first."""
    by_kind: dict[str, list[Decision]] = {}
    for each in decisions:
        by_kind.setdefault(each.kind, []).append(each)
    later = [Entry(because(each), each.time) for each in by_kind.get("compensate", ())]
    yield Section("The rest of the window", later)
    yield Section("Servers", [*_servers(by_kind.get("P-state", []))])
    for kind, title in _JOBS.items():
        each_job = by_kind.get(kind, [])
        entries = [Entry(f"{_job(each)}. {because(each)}", each.time) for each in each_job]
        yield Section(f"{title}: {len(entries)}", entries)


_JOBS = {
    "kill": "Jobs killed",
    "start": "Jobs started",
    "postpone": "Jobs made to wait",
    "reject": "Jobs refused",
}


def _job(decision: Decision) -> str:
    if decision.kind != "start":
        return decision.job
    return f"{decision.job} on {count(len(decision.host_set()), 'host')}"


def _servers(changes: list[Decision]) -> Iterator[Entry]:
    """P-states, those for the same reason and at the same moment together."""
    groups: dict[tuple[float, str], list[Decision]] = {}
    for each in changes:
        groups.setdefault((each.time, because(each)), []).append(each)
    for (time_s, why), group in groups.items():
        yield Entry(f"{', '.join(_deeds(group))}. {why}", time_s)


_DEEDS = {"hosts_to_sleep": "to sleep", "hosts_to_wake": "woken", "hosts_to_speed": "to another speed"}


def _deeds(group: list[Decision]) -> Iterator[str]:
    for name, deed in _DEEDS.items():
        number = sum(int(each.facts.get(name) or 0) for each in group)
        if number:
            yield f"{count(number, 'server')} {deed}"
    unknown = [each for each in group if not any(name in each.facts for name in _DEEDS)]
    for each in unknown:
        yield f"{count(len(each.host_set()), 'server')} to {each.action}"
