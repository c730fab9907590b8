"""Recorded decisions into the simulator; what it tells, message by message, beside the recording."""

from __future__ import annotations

import csv
import io
import math
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
from recordings.archive import Recording, inputs, options

from beasy_sched.errors import DecisionRefused, InputError, ProtocolError
from beasy_sched.model import events as e
from beasy_sched.protocol.batsim4 import decode_message, decode_reply, encode_message
from beasy_sched.simulator import Simulation, Tracer

TIME_S = 1.0001e-6
ENERGY = 1e-6

SHORT_TIMES = ("machine_states", "pstate_changes")
"""Files whose times have six significant digits: an error of half a microsecond can turn the last one."""

WALL_TIMES = ("scheduling_time", "simulation_time")


@dataclass
class Outcome:
    """What came of a replay."""

    told: list[e.Message] = field(default_factory=list)
    """As a scheduler would read them from the wire."""
    clocks_s: list[float] = field(default_factory=list)
    """The simulator's clock at each message."""
    refusal: str = ""
    ended: str = ""
    notes: tuple[str, ...] = ()
    csv: dict[str, str] = field(default_factory=dict)


def replay(recording: Recording) -> Outcome:
    """Feed the recorded replies in; stop at a refusal or at the end."""
    outcome = Outcome()
    try:
        platform, workloads, events = inputs(recording)
    except InputError as error:
        outcome.refusal = str(error)
        return outcome
    with tempfile.TemporaryDirectory() as folder:
        chosen = options(recording)
        tracer = Tracer(Path(folder) / "out", energy=chosen.energy)
        simulation = Simulation(platform, workloads, events, chosen, tracer)
        try:
            feed(recorded_replies(recording), simulation, outcome)
        except (DecisionRefused, InputError, ProtocolError) as error:
            outcome.refusal = str(error)
        outcome.notes = simulation._result(None, 0.0).notes  # type: ignore[arg-type]
        outcome.csv = {p.stem.removeprefix("out_"): p.read_text() for p in Path(folder).glob("*.csv")}
    return outcome


def feed(replies: Iterable[str], simulation: Simulation, outcome: Outcome) -> None:
    events = simulation.start()
    for reply in replies:
        outcome.told.append(on_the_wire(simulation.world.stamp, events))
        outcome.clocks_s.append(simulation.world.now)
        simulation.answer(decode_reply(reply.encode()))
        events = simulation.listen()
        if not events:
            break
    if events:
        outcome.ended = "not finished"
        outcome.told.append(on_the_wire(simulation.world.stamp, events))
    elif simulation.finished:
        outcome.ended = "finished"
        outcome.told.append(on_the_wire(simulation.world.stamp, [e.SimulationEnds(simulation.world.stamp)]))
    else:
        outcome.ended = "deadlock"


# --- messages ---


def recorded_messages(recording: Recording) -> list[e.Message]:
    return [decode_message(raw.encode()) for who, raw in recording.messages if who == "batsim"]


def recorded_replies(recording: Recording) -> list[str]:
    return [raw for who, raw in recording.messages if who != "batsim"]


def on_the_wire(now: float, events: list[e.Event]) -> e.Message:
    """Take a message through the codec."""
    return decode_message(encode_message(e.Message(now, events)))


def with_profiles_turned(begins: e.SimulationBegins) -> e.SimulationBegins:
    """Return the same event with the profiles in the opposite order."""
    turned = {name: dict(reversed(profiles.items())) for name, profiles in begins.profiles.items()}
    return msgspec.structs.replace(begins, profiles=turned)


def compare_messages(told: list[e.Message], recorded: list[e.Message]) -> list[str]:
    """Return the differences: number, times and grouping of messages, order and content of events.

    Times are equal as printed, with six decimals; energies to 1e-6 relative.
    """
    faults: list[str] = []
    for number, (ours, theirs) in enumerate(zip_longest(told, recorded)):
        if ours is None or theirs is None:
            return [*faults, f"{len(told)} messages told, {len(recorded)} recorded"]
        if ours.now != theirs.now or not _all_alike(ours.events, theirs.events):
            faults.append(f"message {number}: {ours} told, {theirs} recorded")
    return faults


def _all_alike(ours: list[e.Event], theirs: list[e.Event]) -> bool:
    return len(ours) == len(theirs) and all(map(_alike, ours, theirs))


def _alike(a: e.Event, b: e.Event) -> bool:
    if isinstance(a, e.EnergyAnswer) and isinstance(b, e.EnergyAnswer):
        return a.timestamp == b.timestamp and _close(a.consumed_energy_j, b.consumed_energy_j)
    if isinstance(a, e.JobsKilled) and isinstance(b, e.JobsKilled):
        return (a.timestamp, a.job_ids) == (b.timestamp, b.job_ids) and _same(a.progress, b.progress)
    return a == b


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return abs(a - b) <= TIME_S if isinstance(a, float) and isinstance(b, float) else a == b


def _close(a: float, b: float, absolute: float = TIME_S) -> bool:
    return abs(a - b) <= max(absolute, ENERGY * max(abs(a), abs(b)))


# --- CSV files ---


def compare_csv(name: str, ours: str, theirs: str) -> list[str]:
    """Return the differences between two CSV files; rows of one instant may be in any order."""
    a, b = list(csv.DictReader(io.StringIO(ours))), list(csv.DictReader(io.StringIO(theirs)))
    heads = ours.splitlines()[0], theirs.splitlines()[0]
    if heads[0] != heads[1]:
        return [f"{name}: columns {heads[0]!r}, recorded {heads[1]!r}"]
    if len(a) != len(b):
        return [f"{name}: {len(a)} rows, {len(b)} recorded"]
    faults = _compare_powers(name, a, b)
    a.sort(key=_row_key)
    b.sort(key=_row_key)
    short = name in SHORT_TIMES
    for x, y in zip(a, b, strict=True):
        faults += [
            f"{name}: {column} is {x[column]}, recorded {y[column]} (row {y})"
            for column in x
            if column not in WALL_TIMES
            and column != "epower"
            and not _alike_text(x[column], y[column], 1.01e-5 if short and column == "time" else ENERGY)
        ]
    return faults


def _compare_powers(name: str, *files: list[dict[str, str]]) -> list[str]:
    """Compare mean powers over intervals; within an instant they are rounding noise on both sides."""
    if not all(rows and "epower" in rows[0] for rows in files):
        return []
    ours, theirs = ([*_powers(rows)] for rows in files)
    if len(ours) != len(theirs):
        return [f"{name}: {len(ours)} intervals, {len(theirs)} recorded"]
    return [
        f"{name}: epower {p}, recorded {q}"
        for (lasted, p), (_, q) in zip(ours, theirs, strict=True)
        if not math.isclose(p, q, rel_tol=ENERGY + TIME_S / lasted, abs_tol=1e-6)
    ]


def _powers(rows: list[dict[str, str]]) -> Iterator[tuple[float, float]]:
    before = 0.0
    for row in rows:
        now = float(row["time"])
        if now - before > 2 * TIME_S:
            yield now - before, float(row["epower"])
        before = now


def _row_key(row: dict[str, str]) -> tuple[Any, ...]:
    if "job_id" in row:
        return (row["workload_name"], row["job_id"])
    if "time" not in row:
        return ()
    rest = [row[c] for c in row if c not in ("time", "energy", "epower")]
    return (round(float(row["time"]), 5), *rest)


def _alike_text(a: str, b: str, relative: float) -> bool:
    if a.removeprefix("v") == b.removeprefix("v"):  # builds write "v4.2.1" or "4.2.1"
        return True
    try:
        return math.isclose(float(a), float(b), rel_tol=relative, abs_tol=1.5e-6)
    except ValueError:
        return False
