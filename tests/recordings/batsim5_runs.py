"""Recorded answers of schedulers into the simulator as a Batsim 5; what it tells, beside what Batsim told."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

from protocol.batsim5_files import FOLDER, Recorded
from recordings.replay import compare_csv

from beasy_sched.errors import BeasyError
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.model.events import Event, Message, SimulationEnds
from beasy_sched.protocol import batsim5
from beasy_sched.simulator import Inputs, SimulationOptions
from beasy_sched.simulator.batsim5_peer import Batsim5Simulation, batsim5_from_files

PLATFORMS = FOLDER.parent / "batsim-recordings" / "platforms"
CLOSE = 1e-6
"""How far apart numbers may be, and energies (J) by this share."""
NOT_COMPARED = {
    "batsim_arguments",
    "batsim_execution_context_json",
    "external_event_lists_RECONSTRUCTED_NAME",
    "filename",
}
TEXTS = {"data", "extra_data"}
"""Members that are texts in which users write JSON: the same value may be written in two ways."""


@dataclass
class Replay:
    """What came of a replay."""

    told: list[bytes] = field(default_factory=list)
    end: str = ""
    """``finished``, ``deadlock``, ``not finished``, or why it was refused."""
    files: dict[str, str] = field(default_factory=dict)


def arguments_of(run: Recorded) -> list[str]:
    """Return the command line of a recorded run; without a message, the usual one."""
    for raw in run.of("batsim"):
        begins = json.loads(raw.removesuffix(b"\0"))["events"][0]["event"]
        return [str(part) for part in begins["batsim_arguments"]]
    return ["batsim", "-p", "platforms/dvfs4.xml", "-w", "wl/one.json"]


def simulation_of(run: Recorded, prefix: str | None = None) -> Batsim5Simulation:
    """Read the inputs of a recorded run. Raises InputError."""
    given = arguments_of(run)

    def of(option: str) -> Iterator[Path]:
        for before, value in pairwise(given):
            if before == option:
                folder = PLATFORMS if value.startswith("platforms/") else FOLDER / "workloads"
                yield folder / Path(value).name

    inputs = Inputs(next(of("-p")), [*of("-w")], [*of("--external-events")], strict=BatsimFormat.BATSIM5)
    return batsim5_from_files(
        inputs,
        SimulationOptions(energy="--energy-host" in given),
        prefix,
        machine_states="--trace-machine-state" in given,
        pstates="--trace-pstate-changes" in given,
    )


def replay(run: Recorded) -> Replay:
    """Feed the recorded answers in; stop at a refusal or at the end."""
    done = Replay()
    try:
        with tempfile.TemporaryDirectory() as folder:
            _feed(run, simulation_of(run, f"{folder}/out_"), done)
            done.files = {path.name: path.read_text() for path in Path(folder).glob("out_*")}
    except BeasyError as error:
        done.end = str(error)
    return done


def _feed(run: Recorded, simulation: Batsim5Simulation, done: Replay) -> None:
    def tell(events: list[Event]) -> None:
        done.told.append(batsim5.encode_message(Message(simulation.world.stamp, events)))

    simulation.greet(batsim5.decode_hello(run.frames[1][1]).features)
    events = simulation.start()
    for reply in run.of("scheduler"):
        tell(events)
        simulation.answer(batsim5.decode_reply(reply))
        events = simulation.listen()
        if not events:
            break
    if events:
        done.end = "not finished"
        tell(events)
    elif simulation.finished:
        done.end = "finished"
        tell([SimulationEnds(simulation.world.stamp)])
    else:
        done.end = "deadlock"
    simulation._result(None, 0.0)  # type: ignore[arg-type]


def differences(told: list[bytes], recorded: list[bytes]) -> Iterator[str]:
    """Tell what differs between two lists of messages: number, grouping, order, and every member."""
    for number, (ours, theirs) in enumerate(zip_longest(told, recorded)):
        if ours is None or theirs is None:
            yield f"{len(told)} messages told, {len(recorded)} recorded"
            return
        yield from _differ(*(json.loads(raw.removesuffix(b"\0")) for raw in (ours, theirs)), f"[{number}]")


def _differ(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted({*ours, *theirs} - NOT_COMPARED):
            if name not in ours or name not in theirs:
                yield f"{path}.{name} is missing"
                continue
            pair = ours[name], theirs[name]
            if name in TEXTS:
                pair = _value(pair[0]), _value(pair[1])
            yield from _differ(*pair, f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            yield f"{path}: {len(ours)} items told, {len(theirs)} recorded"
        for index, pair in enumerate(zip(ours, theirs, strict=False)):
            yield from _differ(*pair, f"{path}[{index}]")
    elif _is_number(ours) and _is_number(theirs):
        relative = CLOSE if path.endswith(".data") or ".data[" in path else 0.0
        if abs(ours - theirs) > max(CLOSE, relative * abs(theirs)):
            yield f"{path}: {ours} told, {theirs} recorded"
    elif ours != theirs:
        yield f"{path}: {ours!r} told, {theirs!r} recorded"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


SUMMARY, EXECUTION = "out_schedule.json", "out_real_exec_info.json"
NOT_SUMMED = ("time_computing", "time_idle")
"""In Batsim's own files, hosts go on computing after their job, until something else happens to them."""


def different_files(done: Replay, run: Recorded) -> list[str]:
    """Tell what differs between the files written and those of Batsim."""
    recorded = {path.name: path.read_text() for path in (FOLDER / "rc2" / run.name).glob("out_*")}
    if done.files.keys() != recorded.keys():
        return [f"{sorted(done.files)} written, {sorted(recorded)} recorded"]
    ours, theirs = json.loads(done.files[SUMMARY]), json.loads(recorded[SUMMARY])
    faults = [*_differ(*({k: v for k, v in x.items() if k not in NOT_SUMMED} for x in (ours, theirs)), "$")]
    if list(ours) != list(theirs):
        faults.append(f"{SUMMARY}: another order of members")
    for name in recorded.keys() - {SUMMARY, EXECUTION}:
        kind = name.removeprefix("out_").removesuffix(".csv")
        columns = ("nb_idle", "nb_computing") if kind == "machine_states" else ()
        faults += [
            fault
            for fault in compare_csv(kind, done.files[name], recorded[name])
            if not fault.startswith(tuple(f"{kind}: {column} is" for column in columns) or "never")
        ]
    return faults
