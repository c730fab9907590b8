"""A session beside the fake Slurm: what the tests of the bridge share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from plugins.slurm.fake_slurm import FakeSlurm

from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.generate.platform_file import host_properties
from beasy_sched.model.choices import OnKill
from beasy_sched.model.platform import Platform, ServerKind, SleepState
from beasy_sched.model.restarts import NO_RESTART_SECTION
from beasy_sched.plugins.slurm.acting import Acting
from beasy_sched.plugins.slurm.bridge import Bridge
from beasy_sched.plugins.slurm.kills import ClusterKills
from beasy_sched.plugins.slurm.meter import EnergyMeter
from beasy_sched.plugins.slurm.records import MARK
from beasy_sched.plugins.slurm.service import Feed, Service
from beasy_sched.plugins.slurm.shadow import Shadow
from beasy_sched.plugins.slurm.slurm_commands import Slurm
from beasy_sched.plugins.slurm.sources.base import Source
from beasy_sched.plugins.slurm.sources.watcher import Watcher
from beasy_sched.policies.registry import make_policy

KIND = ServerKind(
    "node",
    speeds_flops=(1e9, 0.001, 1 / 10.0, 1 / 3.0),
    idle_w=(50.0, 5.0, 80.0, 60.0),
    epsilon_w=(50.0, 5.0, 80.0, 60.0),
    full_w=(100.0, 5.0, 80.0, 60.0),
    sleeps=(SleepState(1, 3, 2),),
)
"""Busy 100 W, idle 50 W, asleep 5 W; 3 s to fall asleep, 10 s to wake."""


def platform_of(count: int) -> Platform:
    names = tuple(f"n{number}" for number in range(1, count + 1))
    properties = (host_properties(KIND),) * count
    return Platform(
        (KIND,), np.zeros(count, dtype=np.intp), names, properties=properties, zone_properties=({},) * count
    )


class Beside:
    """A policy beside a fake Slurm; `go` lets time pass for both."""

    def __init__(
        self,
        slurm: FakeSlurm,
        policy: str = "easy",
        *,
        act: bool = True,
        site: Any = None,
        power: Any = None,
        options: dict[str, Any] | None = None,
        poll_s: float = 1.0,
        windows: int = 1000,
        meter: Source | None = None,
        plans: Any = None,
        on_kill: Any = "drop",
        **acting: Any,
    ) -> None:
        self.slurm, self.said = slurm, []
        self.log: list[tuple[float, str, str, str, str]] = []
        platform = platform_of(len(slurm.nodes))
        epoch_s = slurm.now_s
        self.bridge: Bridge
        counted, feeds = EnergyMeter(epoch_s), list[Feed]()
        if act:
            used_j = None if meter is None else counted.used_j
            restarts = NO_RESTART_SECTION if site is None else site.restarts
            kills = ClusterKills(on_kill, restarts, names_lives=True)
            self.bridge = Acting(platform, "main", epoch_s=epoch_s, used_j=used_j, kills=kills, **acting)
        else:
            self.bridge = Shadow(platform, "main", epoch_s=epoch_s)
        if power is not None:
            feeds.append((power, self.bridge.announce))
        if meter is not None:
            feeds.append((Watcher(meter, 60.0, epoch_s), lambda now_s, reading: counted.take(reading)))
        session_options = SessionOptions(
            site=site,
            plans=plans,
            platform=platform,
            energy=EnergySource.MODEL if meter is None else EnergySource.BATSIM,
            inputs_checked=True,
            windows=windows,
            on_kill=OnKill(on_kill),
        )
        self.session = Session(make_policy(policy, options or {}), session_options, self._logged)
        self.service = Service(
            self.bridge,
            Slurm(slurm),
            feeds=feeds,
            poll_s=poll_s,
            say=self.said.append,
            clock=lambda: slurm.now_s,
            sleep=slurm.advance,
        )
        self._run = self._cycles()
        next(self._run)

    def _logged(self, time_s: float, action: str, job: str, hosts: str, rule: str, facts: Any = None) -> None:
        self.log.append((time_s, action, job, hosts, rule))

    def _cycles(self):
        """The service's loop, a cycle at a time: each `next` is one."""
        service, now_s = self.service, lambda: self.slurm.now_s - self.bridge.epoch_s
        self.bridge.begin({node.name: node for node in service.slurm.nodes()})
        while True:
            service.cycle(now_s(), self.session.step)
            yield
            self.slurm.advance(service._pause_s())

    def go(self, seconds: float) -> None:
        """Let so much time pass."""
        end_s = self.slurm.now_s + seconds
        while self.slurm.now_s < end_s:
            next(self._run)

    def until(self, happened: Callable[[], bool], most_s: float = 600.0) -> None:
        """Let time pass until something has happened."""
        end_s = self.slurm.now_s + most_s
        while not happened():
            assert self.slurm.now_s < end_s, "it has not happened"
            next(self._run)

    def job_states(self) -> dict[str, str]:
        """What became of the jobs that have left the scheduler, by their names."""
        outcomes = self.session.outcomes
        return dict(zip(outcomes.ids, outcomes.columns()["state"].tolist(), strict=True))

    def starts(self) -> list[tuple[str, str]]:
        """Jobs that were started, and their hosts, in order."""
        return [(job, hosts) for _, action, job, hosts, _ in self.log if action == "start"]


def submit(slurm: FakeSlurm, **job: Any) -> str:
    """Have a user submit a job to the partition that is driven."""
    return slurm.submit(**({"admin_comment": MARK} | job))


def all_over(slurm: FakeSlurm) -> bool:
    """Whether no job waits or runs any more."""
    over = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")
    return all(job.state in over for job in slurm.jobs.values())
