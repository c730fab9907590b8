"""A session in the nodes-only mode beside the fake Slurm: what its tests share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from plugins.slurm.fake_slurm import Delays, FakeNode, FakeSlurm
from plugins.slurm.live_cases import platform_of

from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import Action, CallAt, Offer
from beasy_sched.engine.policy import Options, Policy, View
from beasy_sched.model.choices import Placement
from beasy_sched.plugins.slurm.nodes_only import NodesOnly
from beasy_sched.plugins.slurm.service import Service
from beasy_sched.plugins.slurm.slurm_commands import Slurm

STEP_S = 60.0


class WrittenOptions(Options, frozen=True):
    timetable: tuple[tuple[float, int], ...]
    """Time (s) from which each number of nodes applies."""


class OffersAsWritten(Policy):
    """Offers numbers of nodes by a timetable, in one kind; acts at each of its times."""

    name = "as-written"
    can_offer = True
    options_type = WrittenOptions
    options: WrittenOptions

    def schedule(self, view: View) -> Sequence[Action]:
        table = self.options.timetable
        ends = [at_s for at_s, _ in table[1:]] + [math.inf]
        kind = view.platform.kinds[0].name
        offers: list[Action] = [
            Offer(kind, count, at_s, end_s, "as written")
            for (at_s, count), end_s in zip(table, ends, strict=True)
            if end_s > view.now
        ]
        later = [at_s for at_s, _ in table if at_s > view.now]
        return offers + [CallAt(at_s) for at_s in later[:1]]


class NodesBeside:
    """A timetable of offers beside a fake Slurm; `go` lets time pass for both."""

    def __init__(
        self,
        slurm: FakeSlurm,
        timetable: Sequence[tuple[float, int]],
        *,
        poll_s: float = 1.0,
        site: Any = None,
        session: dict[str, Any] | None = None,
        count: int | None = None,
        **bridge: Any,
    ) -> None:
        self.slurm, self.said = slurm, []
        self.log: list[tuple[float, str, str, str, str]] = []
        platform = platform_of(count or len(slurm.nodes))
        self.bridge = NodesOnly(platform, "main", epoch_s=slurm.now_s, step_s=STEP_S, **bridge)
        options = SessionOptions(
            site=site,
            platform=platform,
            inputs_checked=True,
            windows=1000,
            placement=Placement.EXTERNAL,
            **session or {},
        )
        self.policy = OffersAsWritten({"timetable": timetable})
        self.session = Session(self.policy, options, self._logged)
        self.bridge.offers = lambda: self.session.offers
        self.service = Service(
            self.bridge,
            Slurm(slurm),
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
        service = self.service
        self.bridge.begin({node.name: node for node in service.slurm.nodes()})
        while True:
            service.cycle(self.slurm.now_s - self.bridge.epoch_s, self.session.step)
            yield
            self.slurm.advance(service._pause_s())

    def go(self, seconds: float, each: Callable[[], None] = lambda: None) -> None:
        """Let so much time pass; ``each`` is called after each cycle."""
        end_s = self.slurm.now_s + seconds
        while self.slurm.now_s < end_s:
            next(self._run)
            each()

    def commands(self, since: int) -> list[tuple[str, ...]]:
        """The calls of scontrol since a number of commands, without the queries of each poll."""
        return [each for each in self.slurm.commands[since:] if each[0] == "scontrol" and each[2] != "nodes"]


def shared_slurm(nodes: int = 4, *, suspend_s: float = math.inf, **other: Any) -> FakeSlurm:
    """Nodes of four CPUs that jobs share, in two partitions; jobs are not held."""
    slurm = FakeSlurm(nodes, holding=False, delays=Delays(suspend_s=suspend_s), **other)
    slurm.settings = {"SelectType": "select/cons_tres"}
    for node in slurm.nodes.values():
        node.cpus, node.partitions = 4, ("main", "low")
    return slurm


def is_asleep(node: FakeNode) -> bool:
    return bool(node.flags & {"POWERED_DOWN", "POWERING_DOWN"})
