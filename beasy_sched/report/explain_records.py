"""The records of a run that explanations are made of, read as streams from its files.

Numbers of the decision log as people read them: kWh, %, hours, moments of the run.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec

from beasy_sched.errors import InputError
from beasy_sched.formats.reading import reading
from beasy_sched.limits import LATEST_S, shortened
from beasy_sched.model.hosts import HostSet
from beasy_sched.units import j_to_kwh, parse_duration, w_to_kw

_DECISIONS = "_decisions.jsonl"
_SAME_START_S = 10.0
"""By how much the scheduler's and the simulator's word on a start may differ: by the latency of messages."""
_STEP = ("step", "start_s", "duration_s")
"""What every row of an energy trace has."""
_LARGEST = 1e18


_COUNTED = ("waited_s", "hosts_replanned", "hosts_to_sleep", "hosts_to_wake", "hosts_to_speed")
"""Facts that explanations reckon with."""


class Decision(msgspec.Struct, gc=False):
    """One line of the decision log."""

    time: Annotated[float, msgspec.Meta(ge=0, le=LATEST_S)]
    action: str
    job: str = ""
    hosts: str = ""
    rule: str = ""
    facts: dict[str, Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)] | int | str | None] = {}

    @property
    def kind(self) -> str:
        """The action, a P-state without its number."""
        return self.action.partition(" ")[0]

    def host_set(self) -> HostSet:
        """The hosts that it is about."""
        return HostSet.parse(self.hosts)


@dataclass(frozen=True)
class JobRow:
    """One row of Batsim's ``jobs.csv``; None where there is no value."""

    id: str
    subtime_s: float
    res: int
    walltime_s: float | None
    final_state: str
    start_s: float | None
    end_s: float | None
    energy_j: float | None


def find_prefix(run: str | os.PathLike[str]) -> str:
    """The prefix of a run's files: ``run`` itself, or that of the only run in the folder ``run``.

    Raises InputError where there is no run, or more than one.
    """
    path = Path(run)
    if Path(f"{os.fspath(run)}{_DECISIONS}").exists():
        return os.fspath(run)
    if not path.is_dir():
        raise InputError(
            f"{os.fspath(run)}{_DECISIONS}",
            "no such decision log: name a run by its export prefix (-e), or by the folder that holds it",
        )
    found = sorted(each.name.removesuffix(_DECISIONS) for each in path.glob(f"*{_DECISIONS}"))
    if len(found) == 1:
        return os.fspath(path / found[0])
    what = f"holds several runs: {', '.join(found)}" if found else "holds no decision log (*_decisions.jsonl)"
    below = [] if found else sorted(path.glob(f"*/*{_DECISIONS}"))
    example = str(below[0]).removesuffix(_DECISIONS) if below else path / (found or ["run"])[0]
    raise InputError(path, f"{what}; name one by its prefix, such as {example}")


def check_same_run(prefix: str) -> None:
    """Raise InputError where the decision log and ``jobs.csv`` are of different runs."""
    rows = {row.id: row.start_s for row in read_jobs(prefix)}
    if rows:
        compare_starts(prefix, read_starts(prefix), rows)


def compare_starts(prefix: str, logged: Mapping[str, float], rows: Mapping[str, float | None]) -> None:
    """Raise InputError where a job of ``jobs.csv`` started at another time than the decision log says.

    Both are times in s by job id; ``rows`` has None (or NaN) for a job that never started.
    """
    for job, start_s in rows.items():
        if start_s is None or start_s != start_s:
            continue
        log_s = logged.get(job)
        if log_s is None or abs(log_s - start_s) > _SAME_START_S:
            says = f"does not start {job}" if log_s is None else f"starts {job} at {log_s:g} s"
            raise InputError(
                f"{prefix}_jobs.csv",
                f"is of another run than {prefix}{_DECISIONS}, which {says}, while it started at"
                f" {start_s:g} s here; run both sides again, or remove the files of the older run",
            )


def read_starts(prefix: str) -> dict[str, float]:
    """When each job started as the decision log has it, s by job id. Raises InputError."""
    path = Path(f"{prefix}{_DECISIONS}")
    decode, number, starts = msgspec.json.Decoder(Decision).decode, 0, {}
    try:
        with reading(path), path.open("rb") as file:
            for line in file:
                number += 1
                if b'"start"' in line:
                    decision = decode(line)
                    if decision.action == "start":
                        starts[decision.job] = decision.time
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(path, f"is no decision: {error}", line=number) from None
    return starts


def read_decisions(prefix: str) -> Iterator[Decision]:
    """The decision log, line by line. Raises InputError, also where the log is cut."""
    path = Path(f"{prefix}{_DECISIONS}")
    decode = msgspec.json.Decoder(Decision).decode
    number, line = 0, b""
    with reading(path), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                decision = decode(line)
                _check(decision)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise InputError(path, f"is no decision: {error}", line=number) from None
            yield decision
    if line and not line.endswith(b"\n"):
        raise InputError(path, "ends in the middle of a line: what comes after it is lost", line=number)


def _check(decision: Decision) -> None:
    """Raise ValueError for what the types leave open."""
    if decision.hosts:
        HostSet.ranges(decision.hosts)
    for name, value in decision.facts.items():
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise ValueError(f"facts.{name}: found a number of {len(str(value))} digits")
        if name in _COUNTED and isinstance(value, str):
            raise ValueError(f"facts.{name}: found {shortened(value)!r}, expected a number")


def read_jobs(prefix: str) -> Iterator[JobRow]:
    """The rows of ``jobs.csv``; none where Batsim has written that file elsewhere. Raises InputError."""
    for path, line, row in _rows(f"{prefix}_jobs.csv"):
        try:
            yield JobRow(
                id=f"{row['workload_name']}!{row['job_id']}",
                subtime_s=_finite(row["submission_time"]),
                res=int(row["requested_number_of_resources"]),
                walltime_s=_walltime(row["requested_time"]),
                final_state=row["final_state"],
                start_s=_number(row["starting_time"]),
                end_s=_number(row["finish_time"]),
                energy_j=_number(row["consumed_energy"]),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(path, f"is no row of Batsim's jobs.csv: {error!r}", line=line) from None


def read_trace(prefix: str) -> Iterator[dict[str, float]]:
    """The rows of the energy trace, empty fields left out; none without a site. Raises InputError."""
    for path, line, row in _rows(f"{prefix}_energy_trace.csv"):
        try:
            numbers = {name: _finite(text) for name, text in row.items() if text}
            missing = [name for name in _STEP if name not in numbers]
            if missing:
                raise ValueError(f"it has no {missing[0]}")
            yield numbers
        except (ValueError, TypeError) as error:
            raise InputError(path, f"is no row of an energy trace: {error}", line=line) from None


def _rows(name: str) -> Iterator[tuple[Path, int, dict[str, str]]]:
    path = Path(name)
    if not path.exists():
        return
    try:
        with reading(path), path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            for row in reader:
                yield path, reader.line_num, row
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(path, f"cannot be read: {error}") from None


def _finite(text: str) -> float:
    value = float(text)
    if not abs(value) <= _LARGEST:
        raise ValueError(f"found {text!r}, expected a number")
    return value


def _number(text: str) -> float | None:
    return _finite(text) if text else None


def _walltime(text: str) -> float | None:
    """Batsim writes -1 where a job has no walltime."""
    value = _number(text)
    return None if value is None or value < 0 else value


_MOMENTS: Final = ("_at_s", "_by_s", "_until_s", "_end_s")
_LATEST_S: Final = 1e11
"""No run lasts 3000 years."""
_CLOCK: Final = re.compile(r"(?:(\d+)\s*d\s*)?(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?")


def clock(time_s: float) -> str:
    """A moment of the run, counted from its start: ``06:05:10``, ``2d 06:05:10``."""
    seconds = round(time_s)
    days, seconds = divmod(seconds, 86_400)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{days}d {text}" if days else text


def parse_moment(text: str) -> float:
    """Read a moment of the run: seconds, ``1d6h``, or as `clock` writes it; returns s.

    Raises ValueError.
    """
    match = _CLOCK.fullmatch(text.strip())
    if match is not None:
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        time_s = days * 86_400 + hours * 3600 + minutes * 60 + seconds
    else:
        try:
            time_s = parse_duration(text)
        except ValueError:
            time_s = math.inf
    if time_s > _LATEST_S:
        raise ValueError(f"{text!r} is no time of a run: seconds, or such as 1d6h, '1d 06:30:00'")
    return time_s


def span(seconds: float) -> str:
    """How long something takes, in its two largest units: ``45 s``, ``5 min 12 s``, ``2 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    minutes = whole // 60
    if minutes < 10 and whole % 60:
        return f"{minutes} min {whole % 60} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 1440:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def energy(joules: float) -> str:
    """Three digits of an energy: ``1.25 kWh``, ``109 Wh``."""
    kwh = j_to_kwh(joules)
    return f"{_digits(kwh)} kWh" if abs(kwh) >= 1 else f"{_digits(1000 * kwh)} Wh"


def power(watts: float) -> str:
    """Three digits of a power: ``970 W``, ``1.25 kW``."""
    return f"{_digits(w_to_kw(watts))} kW" if abs(watts) >= 1000 else f"{_digits(watts)} W"


def percent(value: float) -> str:
    """Two digits after the point: ``19.98 %``."""
    return f"{value:.2f} %"


def count(number: float, noun: str) -> str:
    """``1 host``, ``4 hosts``."""
    return f"{number:g} {noun}" if number == 1 else f"{number:,.0f} {noun}s"


def fact(name: str, value: float | int | str, spec: str = "") -> str:
    """A fact in words, by the unit in its name; ``spec`` is ``abs``, or the noun that it counts."""
    if isinstance(value, str):
        return value
    if spec == "abs":
        value = abs(value)
    elif spec:
        return count(value, spec)
    if name.endswith("_host_s"):
        return f"{value / 3600:.3g} host-hours"
    if name.endswith(_MOMENTS):
        return clock(value)
    for unit, words in (("_s", span), ("_j", energy), ("_w", power), ("_pct", percent)):
        if name.endswith(unit):
            return words(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _digits(value: float) -> str:
    """Three digits, but all before the point: no exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return "0" if float(text) == 0 or "e" in text else text
