"""Every policy has the same schedule on both protocols, from the same inputs, through the wire's bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from worlds import World, green_world, random_world, rich_world, session_of

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.policies.registry import built_in
from beasy_sched.protocol import batsim4, batsim5
from beasy_sched.protocol.detection import meet
from beasy_sched.simulator import Ending, Simulation
from beasy_sched.testing.witness import Witness

DRAWS = {"random": random_world, "rich": rich_world, "green": green_world}
SEEDS = range(3)
LATER_S = 2e-3
"""Batsim 5 counts calls in milliseconds, and what a call brings may bring another call."""
FIRST_CALL_S = 1e-3
"""When a scheduler of Batsim 4 is called for the first time, if the first message told it nothing.

Batsim 5 tells what happens at time 0 in its first message where it plays events, so that no such call is
asked for: a policy that decides whenever it is asked has one chance less.
"""


@dataclass
class Schedule:
    """What came of a run: for each job when it started and ended, how, and where."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    ending: Ending | None = None
    energy_j: float = 0.0
    outcomes: dict[Any, int] = field(default_factory=dict)
    acted_s: set[float] = field(default_factory=set)
    """When the policy did something."""

    def see(self, message: e.Message, reply: d.Reply) -> None:
        for event in message.events:
            if isinstance(event, e.JobCompleted):
                told = {"end": event.timestamp, "state": event.end, "hosts": str(event.alloc)}
                self.jobs.setdefault(event.job_id, {}).update(told)
        for decision in reply.decisions:
            if isinstance(decision, d.ExecuteJob):
                self.jobs.setdefault(decision.job_id, {})["start"] = decision.timestamp
            elif isinstance(decision, d.RejectJob):
                self.jobs.setdefault(decision.job_id, {})["rejected"] = decision.timestamp

    def differences(self, other: Schedule) -> Iterator[tuple[str, str, Any, Any]]:
        """What differs by more than `LATER_S`."""
        for job in sorted({*self.jobs, *other.jobs}):
            ours, theirs = self.jobs.get(job, {}), other.jobs.get(job, {})
            for name in sorted({*ours, *theirs}):
                a, b = ours.get(name), theirs.get(name)
                is_close = isinstance(a, float) and isinstance(b, float) and abs(a - b) <= LATER_S
                if a != b and not is_close:
                    yield job, name, a, b


def run(
    world: World, policy: str, simulation: Simulation, talk: Callable[[e.Message, Any], d.Reply]
) -> Schedule:
    """Run a policy; ``talk`` takes a message to the session, and its reply back."""
    schedule, witness = Schedule(), Witness(world.platform)
    session = session_of(world, policy, witness)

    def decide(message: e.Message) -> d.Reply:
        reply = talk(message, session)
        schedule.see(message, reply)
        return reply

    result = simulation.run(decide)
    schedule.ending, schedule.energy_j = result.ending, result.energy_j
    schedule.outcomes = session.outcomes.counts()
    schedule.acted_s = {action.now for action in witness.actions if action.what in ("start", "reject")}
    return schedule


def on_batsim4(world: World, policy: str) -> Schedule:
    def talk(message: e.Message, session: Any) -> d.Reply:
        heard = batsim4.decode_message(batsim4.encode_message(message))
        return batsim4.decode_reply(batsim4.encode_reply(session.step(heard)))

    return run(world, policy, world.simulation(), talk)


def on_batsim5(world: World, policy: str) -> Schedule:
    simulation, spoken = world.batsim5(), meet(batsim5.encode_start(b""))
    assert spoken.greeting is not None
    simulation.greet(batsim5.decode_hello(spoken.greeting).features)

    def talk(message: e.Message, session: Any) -> d.Reply:
        heard = spoken.decode(batsim5.encode_message(message))
        return batsim5.decode_reply(spoken.encode(session.step(heard)))

    return run(world, policy, simulation, talk)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("policy", sorted(built_in()))
@pytest.mark.parametrize("draw", DRAWS)
def test_the_same_schedule(policy: str, draw: str) -> None:
    same = 0
    for seed in SEEDS:
        world = DRAWS[draw](np.random.default_rng([seed, 7])).but(energy=EnergySource.MODEL)
        old, new = on_batsim4(world, policy), on_batsim5(world, policy)
        assert old.ending == new.ending
        found = [*old.differences(new)]
        if found and any(0 < moment <= FIRST_CALL_S for moment in old.acted_s):
            continue  # the policy acted at a call that Batsim 5's schedulers have no need for
        assert found == []
        assert old.outcomes == new.outcomes
        assert new.energy_j == pytest.approx(old.energy_j, rel=1e-4)
        same += 1
    assert same >= len(SEEDS) - 1


def test_schedules_that_differ_are_noticed() -> None:
    world = random_world(np.random.default_rng([0, 7])).but(energy=EnergySource.MODEL)
    done, other = on_batsim4(world, "easy"), on_batsim5(world, "easy")
    first = next(job for job in done.jobs.values() if "end" in job)
    for name, wrong in (("end", first["end"] + 2 * LATER_S), ("hosts", "99"), ("state", e.JobEnd.KILLED)):
        assert not [*done.differences(other)]
        right, first[name] = first[name], wrong
        assert [*done.differences(other)]
        first[name] = right
