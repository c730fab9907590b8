"""Random runs with all that seldom comes together, and a scheduler that does whatever Batsim allows.

Two events files, hosts with several cores, machines that come and go, jobs that the scheduler registers,
switches, P-states, kills, calls and queries.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from simulator.small import WORK, job, write_files

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator import Inputs, SimulationOptions

OPTIONS = SimulationOptions(
    energy=True, dynamic_jobs=True, acknowledge_dynamic_jobs=True, forward_unknown_events=True
)
ARGUMENTS = ("-E", "--enable-dynamic-jobs", "--acknowledge-dynamic-jobs", "--forward-unknown-events")
ASLEEP = 2
END_S = 400
PROFILES: dict[str, Any] = {
    "w": WORK,
    "short": {**WORK, "cpu": 3.3e8},
    "wait": {"type": "delay", "delay": 7},
    "total": {"type": "parallel_homogeneous_total", "cpu": 2e9, "com": 0},
    "both": {"type": "composed", "repeat": 2, "seq": ["wait", "short"]},
}


@dataclass(frozen=True)
class Soak:
    """The inputs of a run."""

    seed: int
    hosts: int
    cores: int
    fickle: tuple[int, ...]
    """Hosts that become unavailable now and then."""
    jobs: int

    @classmethod
    def drawn(cls, seed: int) -> Soak:
        rng = Random(seed)
        hosts = rng.randint(3, 9)
        return cls(
            seed, hosts, rng.choice([1, 2, 4]), (0, hosts - 1)[: rng.randint(0, 2)], rng.randint(15, 50)
        )

    def write(self, folder: Path) -> Inputs:
        """Write the files: marks every 5 or 7.5 s in one events file, machine events between them."""
        rng = Random(f"files {self.seed}")
        jobs = [
            job(
                str(number),
                rng.choice([0, 5, 7.5, rng.randint(0, END_S)]) if number else 0,
                rng.randint(1, max(1, self.hosts - 2)),
                rng.choice([*PROFILES]),
                walltime=rng.choice([5, 12, 60, 600]),
            )
            for number in range(self.jobs)
        ]
        slow = self.hosts // 3
        xml, workload = write_files(
            folder, jobs, PROFILES, fast=self.hosts - slow, slow=slow, cores=self.cores
        )
        if rng.random() < 0.5:  # two powers: the least load draws the idle power
            xml.write_text(xml.read_text().replace("100:110:200", "100:200").replace("60:70:140", "60:140"))
        marks = [folder / "marks.txt", folder / "others.txt"]
        for number, (path, step_s) in enumerate(zip(marks, (5, 7.5), strict=True)):
            lines = [
                {"type": "mark", "timestamp": n * step_s, "file": number, "n": n}
                for n in range(rng.randint(1, int(END_S / step_s)))
            ]
            path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *self._machines(number)]))
        return Inputs(xml, [workload], marks)

    def _machines(self, number: int) -> list[dict[str, Any]]:
        if number >= len(self.fickle):
            return []
        rng = Random(f"machines {self.seed}")
        times = sorted(rng.sample(range(1, END_S), 2 * rng.randint(1, 5)))
        return [
            {"type": f"machine_{kind}", "timestamp": at, "resources": str(self.fickle[number])}
            for at, kind in zip(times, ["unavailable", "available"] * len(times), strict=False)
        ]


@dataclass
class Anything:
    """Does at random what Batsim allows; ``reckless``, it also switches machines that may leave meanwhile."""

    soak: Soak
    reckless: bool = False
    messages: list[e.Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = Random(f"decisions {self.soak.seed}")
        self._queue: list[e.JobRequest] = []
        self._running: set[str] = set()
        self._busy: set[int] = set()
        self._away: set[int] = set()
        self._asleep: set[int] = set()
        self._switching: set[int] = set()
        self._registered = 0
        self._open = True
        self._static = True

    def __call__(self, message: e.Message) -> d.Reply:
        self.messages.append(message)
        for event in message.events:
            self._learn(event)
        if isinstance(message.events[-1], e.SimulationEnds):
            return d.Reply(message.now, [])
        return d.Reply(message.now, self._decide(message.now))

    def _learn(self, event: e.Event) -> None:
        if isinstance(event, e.JobSubmitted):
            self._queue.append(event.job)
        elif isinstance(event, e.JobCompleted):
            self._running.discard(event.job_id)
            self._busy -= set(event.alloc)
        elif isinstance(event, e.ResourceStateChanged):
            hosts = set(event.resources)
            self._switching -= hosts
            self._asleep = self._asleep | hosts if event.state == ASLEEP else self._asleep - hosts
        elif isinstance(event, e.Notify) and event.kind.startswith("event_machine"):
            hosts = set(HostSet.parse(event.data["resources"]))
            self._away = self._away | hosts if "unavailable" in event.kind else self._away - hosts
        elif isinstance(event, e.Notify) and event.kind == "no_more_static_job_to_submit":
            self._static = False

    def _decide(self, now: float) -> list[d.Decision]:
        rng = self._rng
        found: list[d.Decision] = []
        if rng.random() < 0.2:
            found.append(d.QueryEnergy(now))
        if rng.random() < 0.1:
            found.append(d.CallMeLater(now, now + rng.choice([0.5, 5, 7.5, 30])))
        found += self._register(now)
        found += self._power(now)
        found += self._start(now)
        if self._running and rng.random() < 0.03:
            found.append(d.KillJobs(now, (rng.choice(sorted(self._running)),)))
        comes = self._running or self._static or self._switching
        if (self._queue or self._open) and not (comes or found):
            found.append(d.CallMeLater(now, now + 10))
        return found

    def _register(self, now: float) -> list[d.Decision]:
        rng = self._rng
        if not self._open or now == 0.0 or rng.random() < 0.8:
            return []
        if self._registered == 6:
            self._open = False
            return [d.FinishRegistration(now)]
        self._registered += 1
        name = f"p{self._registered}"
        told = {"subtime": now, "res": rng.randint(1, 2), "profile": name, "walltime": 50}
        profile = {**WORK, "cpu": rng.randint(1, 9) * 1e8}
        return [
            d.RegisterProfile(now, "dyn", name, profile),
            d.RegisterJob(now, f"dyn!{self._registered}", {"id": f"dyn!{self._registered}", **told}),
        ]

    def _idle(self) -> set[int]:
        return set(range(self.soak.hosts)) - self._busy - self._away - self._asleep - self._switching

    def _power(self, now: float) -> list[d.Decision]:
        rng = self._rng
        fickle = set() if self.reckless else set(self.soak.fickle)
        draw = rng.random()
        if draw < 0.08 and (hosts := self._idle() - fickle):
            chosen = HostSet.of(rng.sample(sorted(hosts), rng.randint(1, len(hosts))))
            self._switching |= set(chosen)
            return [d.SetResourceState(now, chosen, ASLEEP)]
        if self._asleep and draw < (0.6 if len(self._asleep) > 1 else 0.2):
            chosen = HostSet.of(sorted(self._asleep - self._away))
            self._switching |= set(chosen)
            self._asleep -= set(chosen)
            return [d.SetResourceState(now, chosen, 0)] if len(chosen) else []
        if draw > 0.9 and (hosts := set(range(self.soak.hosts)) - self._asleep - self._switching - fickle):
            chosen = HostSet.of(rng.sample(sorted(hosts), 1))
            return [d.SetResourceState(now, chosen, rng.randint(0, 1))]
        return []

    def _start(self, now: float) -> list[d.Decision]:
        rng = self._rng
        found: list[d.Decision] = []
        for asked in [*self._queue]:
            free = sorted(self._idle())
            mapped = self.soak.cores > 1 and rng.random() < 0.3
            size = rng.randint(1, asked.res) if mapped else asked.res
            if size > len(free) or rng.random() < 0.2:
                continue
            self._queue.remove(asked)
            hosts = HostSet.of(sorted(rng.sample(free, size)))
            mapping = {str(n): str(n % size) for n in range(asked.res)} if mapped else None
            self._busy |= set(hosts)
            self._running.add(asked.id)
            found.append(d.ExecuteJob(now, asked.id, hosts, mapping))
        return found
