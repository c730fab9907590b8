"""The files of a run: finding runs, and reading each file.

Files are read as pandas data frames (`RunTables`), or line by line, without pandas (`read_log`,
`read_jobs`, `read_trace`).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec

from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.formats import run_files as files
from beasy_sched.formats.atomic import leftover
from beasy_sched.formats.decoding import (
    JsonDecoder,
    read_csv,
    read_csv_rows,
    read_frame,
    read_frame_of_lines,
)
from beasy_sched.formats.reading import read_blocks
from beasy_sched.formats.run_summary import read_members
from beasy_sched.limits import LARGEST_INT, LARGEST_NUMBER, LATEST_S, shortened
from beasy_sched.model.hosts import HostSet
from beasy_sched.numbers import ANY_NUMBER, Range, found_text

if TYPE_CHECKING:
    import pandas as pd

LARGEST = LARGEST_NUMBER
"""Largest number in a run's files."""
Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
_COUNTED = ("waited_s", "hosts_replanned", "hosts_to_sleep", "hosts_to_wake", "hosts_to_speed")
"""Facts that explanations use in calculations."""
_SAME_START_S = 10.0
"""Largest difference between start times of scheduler and simulator, s: the latency of messages."""


def _table(name: str, doc: str, types: dict[str, type] | None = None) -> cached_property[pd.DataFrame]:
    """A field of `RunTables`: a file as a data frame, read on first use."""

    def frame(run: RunTables) -> pd.DataFrame:
        path = files.path_of(run.prefix, name)
        return read_frame_of_lines(path) if name == files.DECISIONS else read_frame(path, types)

    frame.__doc__ = doc
    return cached_property(frame)


def place_of(run: RunTables | PathLike) -> str:
    """Return the prefix, or another path that identifies the files of a run."""
    return run.prefix if isinstance(run, RunTables) else os.fspath(run)


def places_of(runs: Places) -> list[str]:
    """Return the paths of one or several runs, as `place_of` does. Raises ConfigError without any."""
    given = [runs] if isinstance(runs, str | os.PathLike | RunTables) else [*runs]
    if not given:
        raise ConfigError("runs: found none, expected at least one")
    return [place_of(run) for run in given]


@dataclass(frozen=True)
class RunTables:
    """The files of one run, read on first use."""

    prefix: str

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Outcomes, quality, site and energy, as in ``PREFIX_summary.json``."""
        return read_members(self.prefix)

    jobs = _table(
        files.JOBS,
        "One row per job, as Batsim writes them; times in s, energies in J.",
        {"job_id": str, "profile": str, "allocated_resources": str},
    )
    energy_trace = _table(files.TRACE, "One row per step of the site; powers in W.")
    deadlines = _table(
        files.DEADLINES,
        "One row per job with a deadline; times in s.",
        {"job": str, "workflow": str, "outcome": str},
    )
    machine_states = _table(files.STATES, "Number of hosts in each state, at each change.")
    pstate_changes = _table(files.PSTATES, "Every change of P-state.", {"machine_id": str})
    consumed_energy = _table(
        files.ENERGY, "Energy (J) used since time 0, at job starts and ends and P-state changes."
    )
    schedule = _table(files.SCHEDULE, "Batsim's one-row summary.")
    decisions = _table(
        files.DECISIONS, "The decision log: time (s), action, job, hosts, rule, facts (a dictionary)."
    )


Places: TypeAlias = RunTables | PathLike | Sequence[RunTables | PathLike]
"""Path of one run, or paths of several: tables, prefixes, or folders."""


def find_runs(places: Sequence[PathLike]) -> dict[str, str]:
    """Return the runs by name, each with the prefix of its files, in the given order, without duplicates.

    A place is an export prefix (``out/run``), one of a run's files, or a folder: all runs in it, by name.
    A run's name is its prefix without the folder, or with as much of it as distinguishes the runs.
    Raises InputError if there is no run.
    """
    prefixes: dict[str, str] = {}
    for place in places:
        for prefix in _prefixes(os.fspath(place)):
            prefixes.setdefault(os.path.abspath(prefix), prefix)
    return dict(zip(_names([*prefixes]), prefixes.values(), strict=True))


def runs_among(places: Sequence[str], *, counts: Callable[[str], object]) -> tuple[list[str], list[str]]:
    """Separate runs from the other paths that a shell finds for ``out/*``, and return both.

    A path for which ``counts`` is true counts as a run, such as the folder of a campaign; so does a path that
    does not exist, so that it is reported.
    Raises InputError if all paths exist and none is a run.
    """
    runs, others, prefixes = [], [], []
    for place in places:
        try:
            if os.path.exists(place) and not counts(place):
                prefixes += [f"{prefix}_" for prefix in _prefixes(place)]
            runs.append(place)
        except InputError as error:
            others.append(place)
            reason = error
    if not runs:
        raise reason
    return runs, [place for place in others if not place.startswith(tuple(prefixes))]


def _prefixes(place: str) -> list[str]:
    """Return the prefixes of all runs at a place; for a folder without runs, those in its subfolders.

    If any run has a summary, only runs with a summary count.
    """
    if os.path.isdir(place):
        for pattern, endings in product(("*_", "*/*_"), (files.FILES[:1], files.FILES[1:])):
            prefixes = {str(path)[: -len(e) - 1] for e in endings for path in Path(place).glob(pattern + e)}
            if prefixes:
                return _without_accounts(prefixes)
        raise InputError(
            place, "contains no run: expected files such as NAME_summary.json, written with '-o FOLDER/NAME'"
        )
    for ending in files.FILES:
        if place.endswith(f"_{ending}") and os.path.isfile(place):
            return [place[: -len(ending) - 1]]
    if any(os.path.isfile(f"{place}_{ending}") for ending in files.FILES):
        return [place]
    _refuse_unended(place)
    raise InputError(
        place,
        f"is not a run: found neither {Path(place).name}_summary.json nor another file of a run; "
        "give the output prefix (-o) of a run, or a folder",
    )


def _without_accounts(prefixes: Collection[str]) -> list[str]:
    """Return the prefixes in order, without failed runs whose prefix also has results."""
    accounts = {files.failed_prefix(prefix) for prefix in prefixes}
    return sorted({*prefixes} - accounts)


def _refuse_unended(prefix: str) -> None:
    """Raise InputError, with advice, if a run failed or was killed."""
    failed = files.failed_prefix(prefix)
    if any(files.path_of(failed, name).exists() for name in files.FILES):
        raise InputError(
            prefix, f"has no results because the run failed: its files up to the failure are {failed}"
        )
    left = None
    with contextlib.suppress(InputError):  # it is still running
        left = leftover(files.path_of(prefix, files.SUMMARY))
    if left is not None:
        raise InputError(prefix, f"was killed: recover its files with 'beasy-sched recover {prefix}'")


def _names(paths: list[str]) -> list[str]:
    """Return the shortest endings of the paths (in whole parts, without a common one) that differ."""
    parts = [Path(path).parts for path in paths]
    while len(parts) > 1 and len({part[-1] for part in parts}) == 1:
        parts = [part[:-1] for part in parts]
    for count in range(1, max(map(len, parts), default=1)):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return paths


def find_prefix(run: PathLike) -> str:
    """Return the prefix of a run's files: ``run`` itself, or that of the only run in the folder ``run``.

    Raises InputError if there is no run, or more than one.
    """
    path, log, ending = Path(run), files.path_of(os.fspath(run), files.DECISIONS), f"_{files.DECISIONS}"
    if log.exists():
        return os.fspath(run)
    if not path.is_dir():
        _refuse_unended(os.fspath(run))
        raise InputError(log, "no such decision log: give the output prefix (-o) of a run, or its folder")
    names = _without_accounts([each.name.removesuffix(ending) for each in path.glob(f"*{ending}")])
    if len(names) == 1:
        return os.fspath(path / names[0])
    what = (
        f"contains several runs: {', '.join(names)}"
        if names
        else "contains no decision log (*_decisions.jsonl)"
    )
    below = [] if names else sorted(path.glob(f"*/*{ending}"))
    example = str(below[0]).removesuffix(ending) if below else path / (names or ["run"])[0]
    raise InputError(path, f"{what}; give the prefix of one, such as {example}")


class _ReadDecisionLine(msgspec.Struct, gc=False):
    """Fields read from every line of the decision log."""

    time: Annotated[float, msgspec.Meta(ge=0, le=LATEST_S)]
    action: str
    job: str = ""

    @property
    def kind(self) -> str:
        """The action; for a P-state, without its number."""
        action = self.action
        return action.partition(" ")[0] if " " in action else action


class LogLine(_ReadDecisionLine, gc=False):
    """One line of the decision log."""

    hosts: str = ""
    rule: str = ""
    facts: dict[str, Number | int | str | None] = {}

    def host_set(self) -> HostSet:
        """The hosts that the line concerns."""
        return HostSet.parse(self.hosts)


_LINE: Final[JsonDecoder[LogLine]] = JsonDecoder(LogLine)


def read_log(prefix: str, *actions: str) -> Iterator[LogLine]:
    """Yield the entries of the decision log; with ``actions``, only those with these actions.

    Raises InputError, also if a log that is read as a whole is truncated.
    """
    path = files.path_of(prefix, files.DECISIONS)
    words = [f'"{action}"'.encode() for action in actions]
    number, block = 0, b""
    for number, block in read_blocks(path):
        for line in _decisions(path, number, block, words):
            if not actions or line.action in actions:
                yield line
    if not actions:
        _check_end(path, number, block)


def _decisions(path: Path, number: int, block: bytes, words: Sequence[bytes]) -> Iterable[LogLine]:
    """Yield the lines of a block that contain one of the words, if any; the first line is ``number``."""
    chosen = block
    if words:
        chosen = b"\n".join(line for line in block.split(b"\n") if any(word in line for word in words))
    decoded = _LINE.decode_lines(chosen) if chosen else []
    try:
        for line in decoded or ():
            _check(line)
    except ValueError:
        decoded = None
    if decoded is not None:
        return decoded
    lines = enumerate(_lines(block), number)
    return (_decision(path, n, line) for n, line in lines if not words or any(word in line for word in words))


def _lines(block: bytes) -> list[bytes]:
    return block.removesuffix(b"\n").split(b"\n")


def _decision(path: Path, number: int, line: bytes) -> LogLine:
    """Read one line of a decision log. Raises InputError."""
    try:
        decoded = _LINE.decode(line)
        _check(decoded)
    except ValueError as error:
        raise InputError(path, f"is not a decision: {error}", line=number) from None
    return decoded


def _check_end(path: Path, number: int, block: bytes) -> None:
    """Raise InputError if the last block of a log, from line ``number``, lacks the end of a line."""
    if block and not block.endswith(b"\n"):
        last = number + block.count(b"\n")
        raise InputError(path, "is truncated in the middle of a line", line=last)


class _Waited(msgspec.Struct, frozen=True, gc=False):
    waited_s: Number | None = None


class Glance(_ReadDecisionLine, gc=False):
    """Partial entry of the decision log, for waiting times; the other facts are not parsed."""

    rule: str = ""
    facts: _Waited = _Waited()


_GLANCE: Final[JsonDecoder[Glance]] = JsonDecoder(Glance)


def glance_over(prefix: str) -> Iterator[tuple[Glance, Callable[[], LogLine]]]:
    """Yield a partial entry for each line of the decision log, with a function that reads the whole line.

    It takes a fifth of the time of `read_log`. Raises InputError, also if the log is truncated.
    """
    path = files.path_of(prefix, files.DECISIONS)
    number, block = 0, b""
    for number, block in read_blocks(path):
        lines = _lines(block)
        glances = _GLANCE.decode_lines(block) or (
            _GLANCE.decode(msgspec.json.encode(_decision(path, n, line)))
            for n, line in enumerate(lines, number)
        )
        for n, (glance, line) in enumerate(zip(glances, lines, strict=True), number):
            yield glance, partial(_decision, path, n, line)
    _check_end(path, number, block)


def _check(decision: LogLine) -> None:
    """Check values that the types do not restrict. Raises ValueError."""
    if decision.hosts:
        _check_hosts(decision.hosts)
    for name, value in decision.facts.items():
        if isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError(f"facts.{name}: found {found_text(value)}, expected at most {LARGEST:g}")
        if name in _COUNTED and isinstance(value, str):
            raise ValueError(f"facts.{name}: found {shortened(value)!r}, expected a number")


@lru_cache(1 << 12)
def _check_hosts(text: str) -> None:
    HostSet.ranges(text)


class JobRow(msgspec.Struct, frozen=True, gc=False):
    """One row of Batsim's ``jobs.csv``; None for a missing value."""

    id: str
    subtime_s: float
    res: int
    walltime_s: float | None
    final_state: str
    start_s: float | None
    end_s: float | None
    energy_j: float | None


_JOB_COLUMNS: Final = (
    "workload_name", "job_id", "submission_time", "requested_number_of_resources", "requested_time",
    "final_state", "starting_time", "finish_time", "consumed_energy",
)  # fmt: skip


def read_jobs(prefix: str, mentioned: str = "") -> Iterator[JobRow]:
    """Yield the rows of ``jobs.csv``; none if Batsim wrote that file elsewhere. Raises InputError.

    ``mentioned``: only rows that contain this string are needed, in a tenth of the time; others may be among
    them.
    """
    path = files.path_of(prefix, files.JOBS)
    if not path.exists():
        return
    names, rows = read_csv(path, mentioned)
    places = {name: place for place, name in enumerate(names)}
    pick = None
    for line, cells in rows:
        try:
            pick = pick or itemgetter(*(places[name] for name in _JOB_COLUMNS))
            workload, job, came, hosts, walltime, state, start, end, energy = pick(cells)
            yield JobRow(
                id=f"{workload}!{job}",
                subtime_s=_finite(came),
                res=_hosts(hosts),
                walltime_s=_number(walltime, least=0.0),
                final_state=state,
                start_s=_number(start),
                end_s=_number(end),
                energy_j=_number(energy),
            )
        except (KeyError, ValueError) as error:
            raise InputError(
                path, f"is not a row of Batsim's jobs.csv: {_described(error)}", line=line
            ) from None


@dataclass(frozen=True)
class DeadlineRow:
    """One row of ``deadlines.csv``, times in s; None for a missing value."""

    job: str
    workflow: str
    """Workflow of the job; empty if there is none."""
    phase: int | None
    end_s: float | None
    internal_deadline_s: float | None
    """Time by which the job must end so that its successors can meet their deadlines."""
    deadline_s: float
    lateness_s: float | None
    outcome: str


def read_deadlines(prefix: str) -> Iterator[DeadlineRow]:
    """Yield the rows of ``deadlines.csv``; none if no job had a deadline. Raises InputError."""
    for path, line, row in _rows(prefix, files.DEADLINES):
        try:
            yield DeadlineRow(
                job=row["job"],
                workflow=row["workflow"],
                phase=_hosts(row["phase"]) if row["phase"] else None,
                end_s=_number(row["end_s"]),
                internal_deadline_s=_number(row["internal_deadline_s"]),
                deadline_s=_finite(row["deadline_s"]),
                lateness_s=_number(row["lateness_s"]),
                outcome=row["outcome"],
            )
        except (KeyError, ValueError) as error:
            raise InputError(path, f"is not a row of deadlines: {_described(error)}", line=line) from None


def read_trace(prefix: str) -> Iterator[dict[str, float]]:
    """Yield the rows of the energy trace without empty fields; none without a site. Raises InputError."""
    for path, line, row in _rows(prefix, files.TRACE):
        try:
            numbers = {name: _finite(text) for name, text in row.items() if text}
            for name in ("step", "start_s", "duration_s"):
                if name not in numbers:
                    raise ValueError(f"it has no {name}")
            yield numbers
        except ValueError as error:
            raise InputError(path, f"is not a row of an energy trace: {error}", line=line) from None


def _rows(prefix: str, name: str) -> Iterator[tuple[Path, int, dict[str, str]]]:
    path = files.path_of(prefix, name)
    if path.exists():
        for line, row in read_csv_rows(path):
            yield path, line, row


def _described(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


_HOSTS: Final = Range(0, LARGEST_INT, whole=True)


@lru_cache(1 << 10)
def _hosts(text: str) -> int:
    number: int = _HOSTS.read(text)
    return number


def _finite(text: str) -> float:
    """Read a number as `ANY_NUMBER` does, with its message for invalid numbers."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (-LARGEST <= value <= LARGEST and text.isascii() and "_" not in text):
        value = ANY_NUMBER.read(text)
    return value


def _number(text: str, least: float = -LARGEST) -> float | None:
    """Return a number; None for an empty string or less than ``least`` (Batsim's -1: no walltime)."""
    return value if text and (value := _finite(text)) >= least else None


def check_same_run(prefix: str) -> None:
    """Raise InputError if the decision log and ``jobs.csv`` are from different runs."""
    rows = {row.id: row.start_s for row in read_jobs(prefix)}
    if rows:
        starts = {line.job: line.time for line, _ in glance_over(prefix) if line.action == "start"}
        check_starts(prefix, starts, rows)


def check_starts(prefix: str, logged: Mapping[str, float], rows: Mapping[str, float | None]) -> None:
    """Raise InputError if a job's start times in ``jobs.csv`` and the decision log differ.

    Both map job ids to times in s; ``rows`` are those of ``jobs.csv``, None (or NaN) for a job that never
    started.
    """
    for job, start_s in rows.items():
        if start_s is None or start_s != start_s:
            continue
        log_s = logged.get(job)
        if log_s is None or abs(log_s - start_s) > _SAME_START_S:
            in_log = f"does not start {job}" if log_s is None else f"starts {job} at {log_s:g} s"
            raise InputError(
                files.path_of(prefix, files.JOBS),
                f"is from another run than {files.path_of(prefix, files.DECISIONS)}, which {in_log}, while it"
                f" started at {start_s:g} s here; rerun scheduler and simulator, or delete the older files",
            )
