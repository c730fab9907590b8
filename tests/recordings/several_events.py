"""Runs of a real Batsim 4.2.1 with several events files, unpacked and simulated."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from recordings.replay import on_the_wire

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol.batsim4 import decode_message
from beasy_sched.simulator import Inputs, SimulationOptions

ARCHIVE = Path(__file__).parent / "several_events.json.xz"
OPTIONS = SimulationOptions(forward_unknown_events=True)


@dataclass(frozen=True)
class SeveralEvents:
    """A run; its scheduler starts every job at once on host 0."""

    platform: str
    workload: str
    events: tuple[str, ...]
    """The files, in the order of the command line."""
    messages: tuple[str, ...]
    """What Batsim said."""

    def write_inputs(self, folder: Path) -> Inputs:
        (folder / "platform.xml").write_text(self.platform)
        (folder / "w.json").write_text(self.workload)
        paths = [folder / f"events{number}.txt" for number in range(len(self.events))]
        for path, text in zip(paths, self.events, strict=True):
            path.write_text(text)
        return Inputs(folder / "platform.xml", [folder / "w.json"], paths)

    @property
    def recorded(self) -> list[e.Message]:
        return [decode_message(raw.encode()) for raw in self.messages]


@cache
def several_events() -> dict[str, SeveralEvents]:
    data: dict[str, Any] = json.loads(lzma.decompress(ARCHIVE.read_bytes()))
    return {
        name: SeveralEvents(data["platform"], data["workload"], tuple(run["events"]), tuple(run["messages"]))
        for name, run in data["runs"].items()
    }


class AtOnce:
    """Starts every job at once on host 0; keeps the messages, as read from the wire."""

    def __init__(self) -> None:
        self.told: list[e.Message] = []

    def __call__(self, message: e.Message) -> d.Reply:
        self.told.append(on_the_wire(message.now, message.events))
        submitted = [event.job.id for event in message.events if isinstance(event, e.JobSubmitted)]
        return d.Reply(message.now, [d.ExecuteJob(message.now, job, HostSet.of([0])) for job in submitted])
