"""Small platforms and workloads, and a scheduler that starts jobs in order."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator import Simulation, SimulationOptions, Tracer

HOST = """<host id="n{i:03d}" coordinates="0 0 0" speed="{speeds}" core="{cores}">
<prop id="wattage_per_state" value="{watts}"/><prop id="sleep_pstates" value="2:3:4"/></host>"""
FAST = ("100Mf, 50Mf, 1e-9Mf, 0.5f, 0.2f", "100:110:200, 90:95:150, 10:10:10, 120:120:120, 130:130:130")
SLOW = ("80Mf, 40Mf, 1e-9Mf, 0.5f, 0.2f", "60:70:140, 50:55:90, 5:5:5, 80:80:80, 90:90:90")
WORK = {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}
"""10 s on a fast host in P-state 0."""


def platform_text(fast: int = 4, slow: int = 0, cores: int = 1) -> str:
    hosts = [FAST] * fast + [SLOW] * slow
    lines = [HOST.format(i=i, speeds=s, watts=w, cores=cores) for i, (s, w) in enumerate(hosts)]
    return (
        '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
        '<platform version="4.1"><zone id="z" routing="Vivaldi"><host id="master_host" coordinates="0 0 0"'
        f' speed="1Gf"/>{"".join(lines)}</zone></platform>'
    )


def job(name: str, subtime: float = 0, res: int = 1, profile: str = "w", **more: Any) -> dict[str, Any]:
    return {"id": name, "subtime": subtime, "res": res, "profile": profile, **more}


def write_files(
    folder: Path, jobs: list[dict[str, Any]], profiles: dict[str, Any] | None = None, **platform: int
) -> tuple[Path, Path]:
    paths = folder / "platform.xml", folder / "workload.json"
    paths[0].write_text(platform_text(**platform))
    paths[1].write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles or {"w": WORK}}))
    return paths


def simulation(
    folder: Path,
    jobs: list[dict[str, Any]],
    profiles: dict[str, Any] | None = None,
    *,
    files: bool = False,
    options: SimulationOptions | None = None,
    **platform: int,
) -> Simulation:
    xml, workload = write_files(folder, jobs, profiles, **platform)
    options = options or SimulationOptions(energy=True)
    tracer = Tracer(folder / "out", energy=options.energy) if files else None
    return Simulation(read_simgrid_platform(xml), [read_workload(workload)], (), options, tracer)


class InOrder:
    """First come, first served; keeps the messages that it got."""

    def __init__(self) -> None:
        self.queue: deque[e.JobRequest] = deque()
        self.free: set[int] = set()
        self.size = 0
        self.messages: list[e.Message] = []
        self.replies: list[d.Reply] = []

    def __call__(self, message: e.Message) -> d.Reply:
        self.messages.append(message)
        for event in message.events:
            if isinstance(event, e.SimulationBegins):
                self.size = len(event.resources)
                self.free = set(range(self.size))
            elif isinstance(event, e.JobSubmitted):
                self.queue.append(event.job)
            elif isinstance(event, e.JobCompleted):
                self.free |= set(event.alloc)
        reply = d.Reply(message.now, self.decide(message.now))
        self.replies.append(reply)
        return reply

    def decide(self, now: float) -> list[d.Decision]:
        found: list[d.Decision] = []
        while self.queue and (self.queue[0].res <= len(self.free) or self.queue[0].res > self.size):
            first = self.queue.popleft()
            if first.res > self.size:
                found.append(d.RejectJob(now, first.id))
                continue
            hosts = sorted(self.free)[: first.res]
            self.free -= set(hosts)
            found.append(d.ExecuteJob(now, first.id, HostSet.of(hosts)))
        return found

    @property
    def events(self) -> list[e.Event]:
        return [event for message in self.messages for event in message.events]


class Scripted:
    """Answers the n-th message with the n-th list of decisions (then with none)."""

    def __init__(self, *script: list[d.Decision]) -> None:
        self.script = list(script)
        self.messages: list[e.Message] = []

    def __call__(self, message: e.Message) -> d.Reply:
        self.messages.append(message)
        decisions = self.script.pop(0) if self.script else []
        latest = max([message.now, *(decision.timestamp for decision in decisions)])
        return d.Reply(latest, decisions)

    @property
    def events(self) -> list[e.Event]:
        return [event for message in self.messages for event in message.events]
