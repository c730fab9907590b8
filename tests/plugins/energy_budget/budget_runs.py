"""Runs of an energy-budget policy on a small world, with an auditor that knows Section IV of the paper."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from worlds import World, WorldJob

from beasy_sched.engine import Session
from beasy_sched.model.decisions import Decision, ExecuteJob, Reply
from beasy_sched.model.events import Message
from beasy_sched.policies.registry import make_policy
from beasy_sched.simulator import SimulationResult

HIGH = {
    "idle_w": 60.0,
    "computing_w": 110.0,
    "sleeping_w": 8.0,
    "switching_off_w": 65.0,
    "switching_on_w": 90.0,
}
"""Overestimates of every server of `worlds`."""


@dataclass
class BudgetRun:
    session: Session
    result: SimulationResult
    decisions: list[Decision] = field(default_factory=list)
    moments: list[tuple[float, float, list[tuple[float, int]], int]] = field(default_factory=list)
    """After each message with starts: (s, energy used until then in J, latest ends and hosts, starts)."""

    @property
    def starts(self) -> dict[str, float]:
        return {x.job_id[3:]: x.timestamp for x in self.decisions if isinstance(x, ExecuteJob)}

    @property
    def where(self) -> dict[str, str]:
        return {x.job_id[3:]: str(x.alloc) for x in self.decisions if isinstance(x, ExecuteJob)}

    @property
    def budget(self) -> dict[str, Any]:
        return self.session.policy.results()["budget"]


def world_of(hosts: int, *jobs: tuple[float, int, float, float]) -> World:
    """Hosts of 50 W idle and 100 W computing; jobs of (submission, hosts, walltime, run time)."""
    return World(hosts, 0, tuple(WorldJob(*job) for job in jobs), ())


def run_budget(
    world: World, policy: str, *, heard: Callable[[Message], Sequence[Message]] | None = None, **options: Any
) -> BudgetRun:
    """Run without a site; ``heard`` makes of a message of the simulator's what the session gets."""
    session = Session(make_policy(policy, options))
    simulation = world.simulation()
    done = BudgetRun(session, None)  # type: ignore[arg-type]

    def decide(message: Message) -> Reply:
        replies = [session.step(each) for each in (heard(message) if heard else [message])]
        reply = Reply(replies[-1].now, [decision for each in replies for decision in each.decisions])
        done.decisions.extend(reply.decisions)
        starts = sum(isinstance(x, ExecuteJob) for x in reply.decisions)
        if starts and session.cluster is not None:
            meter = simulation.world.meter
            used_j = meter.energy_j + meter.power_w * (message.now - meter._at)
            ends = [(end_s, job.res) for end_s, _, job in session.cluster.ends]
            done.moments.append((message.now, used_j, ends, starts))
        return reply

    done.result = simulation.run(decide)
    return done


def lowest_balance_j(
    now: float,
    available_j: float,
    rate_w: float,
    period: tuple[float, float],
    floor_w: float,
    jobs: list[tuple[float, float]],
) -> float:
    """The least balance from now to the last job's latest end within the period, second by second.

    ``jobs``: (latest end, power above the floor). Slow and obviously right.
    """
    begin = max(now, period[0])
    last = min(max((end for end, _ in jobs), default=begin), period[1])
    points = sorted({begin, last, *(end for end, _ in jobs if begin < end < last)})
    balance = lowest = available_j
    for before, after in itertools.pairwise(points):
        power_w = floor_w + sum(extra for end, extra in jobs if end > before)
        balance += (rate_w - power_w) * (after - before)
        lowest = min(lowest, balance)
    return lowest
