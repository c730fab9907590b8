"""Recorded decisions at their recorded times into the simulator; what it tells, beside the recording."""

from __future__ import annotations

import csv
import io
import math
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recordings.archive import Recording, inputs, options

from beasy_sched.errors import DecisionRefused, InputError, ProtocolError
from beasy_sched.model import events as e
from beasy_sched.protocol.batsim4 import decode_message, decode_reply, encode_message
from beasy_sched.simulator import Simulation, Tracer
from beasy_sched.simulator.arrivals import NEVER

PRINTED_S = 5.01e-7
"""Batsim's clock may be this much later than it prints."""

TIME_S = 1.0001e-6
ENERGY = 1e-6

SHORT_TIMES = ("machine_states", "pstate_changes")
"""Files whose times have six significant digits: an error of half a microsecond can turn the last one."""

WALL_TIMES = ("scheduling_time", "simulation_time")


@dataclass
class Outcome:
    """What came of a replay."""

    told: list[e.Event] = field(default_factory=list)
    refusal: str = ""
    ended: str = ""
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
            _feed(recording, simulation, outcome)
        except (DecisionRefused, InputError, ProtocolError) as error:
            outcome.refusal = str(error)
            outcome.told = [event for event in outcome.told if not _cut_off(event, simulation.engine.now)]
        simulation._result(None, 0.0)  # type: ignore[arg-type]
        outcome.csv = {p.stem.removeprefix("out_"): p.read_text() for p in Path(folder).glob("*.csv")}
    return outcome


def _feed(recording: Recording, simulation: Simulation, outcome: Outcome) -> None:
    engine = simulation.engine
    for who, raw in recording.messages:
        if who == "batsim":
            message = decode_message(raw.encode())
            first = message.events[0] if message.events else None
            if isinstance(first, e.SimulationBegins):
                outcome.told.append(simulation.begins())
                continue
            engine.advance(message.now + PRINTED_S)
            outcome.told += engine.take()
            if isinstance(first, e.SimulationEnds):
                outcome.ended = "finished" if engine.finished else "not finished"
                outcome.told.append(e.SimulationEnds(engine.world.stamp))
                return
        else:
            reply = decode_reply(raw.encode())
            for decision in reply.decisions:
                engine.apply(decision, reply.now)
            if reply.now > engine.now:
                engine.advance(reply.now)
                engine.world.set_clock(reply.now)
    while (at := engine.next_time()) != NEVER:
        engine.instant(at)
        outcome.told += engine.take()
    outcome.told += engine.take()
    outcome.ended = "finished" if engine.finished else "deadlock"


def _cut_off(event: e.Event, end_s: float) -> bool:
    """Whether a refusal kept Batsim from sending this: such notices can come a message later there."""
    return (
        isinstance(event, e.Notify) and event.kind.startswith("no_more") and event.timestamp >= end_s - TIME_S
    )


# --- events ---


def recorded_events(recording: Recording) -> list[e.Event]:
    return [
        event
        for who, raw in recording.messages
        if who == "batsim"
        for event in decode_message(raw.encode()).events
    ]


def on_the_wire(events: list[e.Event]) -> list[e.Event]:
    """Take events through the codec, as a scheduler would see them."""
    return decode_message(encode_message(e.Message(0.0, events))).events


def compare_events(told: list[e.Event], recorded: list[e.Event]) -> list[str]:
    """Return the differences, as a set in each instant: times 1e-6 s, energies 1e-6 relative."""
    ours, theirs = _by_key(told), _by_key(recorded)
    faults = []
    for key in ours.keys() | theirs.keys():
        a, b = ours.get(key, []), theirs.get(key, [])
        if len(a) != len(b):
            faults.append(f"{key}: {len(a)} told, {len(b)} recorded")
        faults += [f"{x} told, {y} recorded" for x, y in zip(a, b, strict=False) if not _alike(x, y)]
    return faults


def _by_key(events: list[e.Event]) -> dict[Any, list[e.Event]]:
    found: dict[Any, list[e.Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.timestamp):
        found[_key(event)].append(event)
    return found


def _key(event: e.Event) -> Any:
    kind = type(event).__name__
    if isinstance(event, e.JobSubmitted):
        return kind, event.job.id
    if isinstance(event, e.JobCompleted):
        return kind, event.job_id, event.end, event.return_code, str(event.alloc)
    if isinstance(event, e.JobsKilled):
        return kind, event.job_ids
    if isinstance(event, e.ResourceStateChanged):
        return kind, str(event.resources), event.state
    if isinstance(event, e.Notify):
        return kind, event.kind
    return kind


def _alike(a: e.Event, b: e.Event) -> bool:
    if abs(a.timestamp - b.timestamp) > TIME_S:
        return False
    if isinstance(a, e.EnergyAnswer) and isinstance(b, e.EnergyAnswer):
        return _close(a.consumed_energy_j, b.consumed_energy_j)
    if isinstance(a, e.JobsKilled) and isinstance(b, e.JobsKilled):
        return _same(a.progress, b.progress)
    if isinstance(a, e.JobSubmitted) and isinstance(b, e.JobSubmitted):
        return a.job == b.job and a.profile == b.profile
    if isinstance(a, e.Notify) and isinstance(b, e.Notify):
        return bool(a.data == b.data)
    if isinstance(a, e.SimulationBegins):
        return a == b
    return True


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
    if a == b:
        return True
    try:
        return math.isclose(float(a), float(b), rel_tol=relative, abs_tol=1.5e-6)
    except ValueError:
        return False


def same_order(told: list[e.Event], recorded: list[e.Event]) -> bool:
    """Whether the order is the recorded one, too."""
    return [_key(event) for event in told] == [_key(event) for event in recorded]
