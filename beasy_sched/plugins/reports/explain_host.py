"""Explanation of a host: when and why it was on, asleep or lost, and which jobs ran on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from beasy_sched.errors import ConfigError
from beasy_sched.formats.run_summary import found_summary
from beasy_sched.outputs.quantities import clock, count, span
from beasy_sched.plugins.reports.story import Chapter, Entry, Story, Teller, because, teller_of, told
from beasy_sched.run.results import LogLine, read_jobs, read_log
from beasy_sched.units import percent_text, some_of

ON: Final = "on"
ASLEEP: Final = "asleep"
LOST: Final = "out of service"
_NAMED: Final = 3
"""Maximum number of jobs named for a period."""


@dataclass(frozen=True)
class Period:
    """Period in which a host was on, asleep or lost, according to the decision log."""

    state: str
    start_s: float
    end_s: float
    why: LogLine | None = None
    """Decision that begins the period; None for the state at the start of the run."""
    jobs: tuple[tuple[str, float, float], ...] = ()
    """Jobs that ran in the period: id, start and end of the execution, s."""
    speeds: tuple[LogLine, ...] = ()
    """Changes of the host's speed."""

    @property
    def length_s(self) -> float:
        """Duration of the period, s."""
        return self.end_s - self.start_s

    @property
    def busy_s(self) -> float:
        """Time during which a job ran, s."""
        runs = ((max(begin, self.start_s), min(end, self.end_s)) for _, begin, end in self.jobs)
        return sum(max(end - begin, 0.0) for begin, end in runs)


@dataclass
class _Record:
    """Decisions about a host, in time order."""

    changes: list[tuple[str, LogLine]] = field(default_factory=list)
    """State changes, each with the new state."""
    speeds: list[LogLine] = field(default_factory=list)
    starts: list[LogLine] = field(default_factory=list)
    ends_s: dict[str, float] = field(default_factory=dict)
    """End time of each of its jobs, s."""
    last_s: float = 0.0
    """Time of the last decision of the run, s."""


def explain_host(prefix: str, host: int) -> Story:
    """Explain when and why the host with this id was on, asleep or lost.

    Raises ConfigError if the run has no such host, and InputError for files that cannot be read.
    """
    summary = found_summary(prefix)
    hosts = None if summary is None else summary.hosts
    if host < 0 or (hosts is not None and host >= hosts):
        hosts_text = "" if hosts is None else f"; it has {count(hosts, 'host')}, 0 to {hosts - 1}"
        raise ConfigError(f"host {host}: no such host in this run{hosts_text}")
    record = _read(prefix, host)
    end_s = max(record.last_s, (summary and summary.end_s) or 0.0, *record.ends_s.values())
    periods, teller = _periods(record, end_s), teller_of(prefix)
    chapters = [
        Chapter("Total", [*_in_all(periods, record)]),
        Chapter("Over time", [Entry(_described(period, teller), period.start_s) for period in periods]),
    ]
    return Story(f"Host {host}", chapters, _data(host, periods, teller))


def _read(prefix: str, host: int) -> _Record:
    record, asleep_pstates = _Record(), set[str]()
    for line in read_log(prefix):
        record.last_s = line.time
        if not line.hosts or host not in line.host_set():
            continue
        if line.kind == "start":
            record.starts.append(line)
        elif line.kind == "kill":
            record.ends_s.setdefault(line.job, line.time)
        elif line.kind in ("lost", "back"):
            record.changes.append((LOST if line.kind == "lost" else _before_loss(record), line))
        elif line.kind == "P-state":
            state = _state_after(line, record, asleep_pstates)
            if state is None:
                record.speeds.append(line)
            else:
                record.changes.append((state, line))
    mine = {line.job for line in record.starts}
    record.ends_s |= {row.id: row.end_s for row in read_jobs(prefix) if row.id in mine and row.end_s}
    return record


def _before_loss(record: _Record) -> str:
    """State before the host was lost, to which it returns according to the decisions."""
    return next((state for state, _ in reversed(record.changes) if state != LOST), ON)


def _state_after(line: LogLine, record: _Record, asleep_pstates: set[str]) -> str | None:
    """State that a change of P-state puts the host into; None if only the speed changes.

    A line has the number of its hosts that sleep, wake or change their speed, not which ones: a host
    that is asleep wakes.
    """
    some_sleep, some_wake = (bool(line.facts.get(name)) for name in ("hosts_to_sleep", "hosts_to_wake"))
    others = some_wake or bool(line.facts.get("hosts_to_speed"))
    if some_sleep and (not others or line.action in asleep_pstates):
        asleep_pstates.add(line.action)
        return ASLEEP
    was_on = record.changes[-1][0] == ON if record.changes else not some_wake
    return ON if some_wake and not was_on else None


def _periods(record: _Record, end_s: float) -> list[Period]:
    """Consecutive periods from the start of the run to ``end_s``."""
    first = record.changes[0][0] if record.changes else ON
    woken_first = bool(record.changes) and first == ON and record.changes[0][1].kind == "P-state"
    periods = [Period(ASLEEP if woken_first else ON, 0.0, end_s)]
    for state, line in record.changes:
        if state == periods[-1].state:
            continue
        periods[-1] = replace(periods[-1], end_s=line.time)
        periods.append(Period(state, line.time, end_s, line))
    periods = [period for period in periods if period.length_s > 0.0 or period.why is not None]
    runs = [(line.job, line.time, record.ends_s.get(line.job, end_s)) for line in record.starts]
    return [
        replace(
            period,
            jobs=tuple(run for run in runs if run[1] < period.end_s and run[2] > period.start_s),
            speeds=tuple(line for line in record.speeds if period.start_s <= line.time < period.end_s),
        )
        for period in periods
    ]


def _in_all(periods: Sequence[Period], record: _Record) -> Iterator[Entry]:
    total_s = sum(period.length_s for period in periods)
    for state in (ON, ASLEEP, LOST):
        mine = [period for period in periods if period.state == state]
        if not mine:
            continue
        state_s = sum(period.length_s for period in mine)
        share = f" ({percent_text(100.0 * state_s / total_s)})" if total_s else ""
        text = f"{state.capitalize()} for {span(state_s)}{share}, in {count(len(mine), 'period')}"
        if state == ON:
            busy_s = sum(period.busy_s for period in periods)
            text += f"; {count(len(record.starts), 'job')} ran on it, for {span(busy_s)}"
        yield Entry(f"{text}.")


def _described(period: Period, teller: Teller) -> str:
    """Describe a period: its state, end, reason, and jobs."""
    parts = [f"{period.state.capitalize()} until {clock(period.end_s)}, for {span(period.length_s)}."]
    if period.why is not None:
        parts.append(f"Why: {because(period.why, teller).rstrip('.')}.")
    if period.jobs:
        names = some_of([job for job, _, _ in period.jobs], _NAMED)
        parts.append(f"{count(len(period.jobs), 'job')} ran: {names}, for {span(period.busy_s)}.")
    elif period.state == ON:
        parts.append("No job ran.")
    if period.speeds:
        last = because(period.speeds[-1], teller).rstrip(".")
        parts.append(f"Its speed changed {count(len(period.speeds), 'time')}; the last reason: {last}.")
    return " ".join(parts)


def _data(host: int, periods: Sequence[Period], teller: Teller) -> dict[str, Any]:
    return {
        "host": host,
        "periods": [
            {
                "state": period.state,
                "start_s": period.start_s,
                "end_s": period.end_s,
                "why": None if period.why is None else told(period.why, teller),
                "jobs": [
                    {"job": job, "start_s": begin_s, "end_s": end_s} for job, begin_s, end_s in period.jobs
                ],
                "busy_s": period.busy_s,
                "speed_changes": [told(line, teller) for line in period.speeds],
            }
            for period in periods
        ],
    }
