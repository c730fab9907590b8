"""Every policy decides for a Batsim 5, too, and says nothing that would make it abort."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import World, green_world, random_world, rich_world, run, session_of

from beasy_sched.engine import Session
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.policies.registry import built_in
from beasy_sched.protocol import batsim5
from beasy_sched.protocol.detection import Talk, meet
from beasy_sched.simulator import SimulationResult

POLICIES = sorted(built_in())
seeds = st.integers(0, 2**32 - 1)
worlds = st.one_of(
    *(
        seeds.map(lambda seed, draw=draw: draw(np.random.default_rng(seed)))
        for draw in (random_world, rich_world, green_world)
    )
)


class Wire:
    """The embedded simulator's messages in the bytes of a Batsim 5, and the session's answers back.

    Every answer is checked as it is in the daemon (`batsim5_rules`); requests of a kind that Batsim 5 does
    not have cannot be written.
    """

    def __init__(self, world: World, session: Session) -> None:
        self._platform = world.platform
        self._session = session
        self._talk: Talk = meet(batsim5.encode_start())
        self._asked: dict[tuple[str, int], list[bool]] = {}
        """Whether requests for hosts and a P-state were switches."""
        self.decisions: list[d.Decision] = []

    def decide(self, message: e.Message) -> d.Reply:
        events = [self._event(event) for event in message.events]
        raw = batsim5.encode_message(e.Message(message.now, events))
        answer = self._talk.encode(self._session.step(self._talk.decode(raw)))
        reply = batsim5.decode_reply(answer)
        for decision in reply.decisions:
            if isinstance(decision, d.SetResourceState):
                assert decision.switch is not None
                key = str(decision.resources), decision.state
                self._asked.setdefault(key, []).append(decision.switch)
            if isinstance(decision, d.CallMeLater):
                assert round(1000 * decision.at, 6) == round(1000 * decision.at)
                assert decision.at > message.now
        self.decisions += reply.decisions
        return reply

    def _event(self, event: e.Event) -> e.Event:
        if isinstance(event, e.SimulationBegins):
            return msgspec.structs.replace(event, resources=tuple(map(self._host, event.resources)))
        if isinstance(event, e.ResourceStateChanged):
            switch = self._asked[str(event.resources), event.state].pop(0)
            return msgspec.structs.replace(event, switch=switch)
        assert not isinstance(event, e.EnergyAnswer)
        return event

    def _host(self, host: e.Resource) -> e.Resource:
        start = int(self._platform.initial_pstates[host.id])
        return msgspec.structs.replace(
            host, pstate=start, speeds_flops=self._platform.kind(host.id).speeds_flops
        )


def run_on_batsim5(
    world: World, policy: str, *, with_site: bool = True
) -> tuple[Session, SimulationResult, Wire]:
    session = session_of(world, policy, with_site=with_site)
    wire = Wire(world, session)
    return session, world.simulation().run(wire.decide), wire


def deeds(decisions: list[d.Decision]) -> tuple[list[d.Decision], list[float]]:
    """What was done, without what only Batsim 5 has and without calls; and when."""
    done = [each for each in decisions if not isinstance(each, d.CallMeLater)]
    plain = [
        d.SetResourceState(0.0, each.resources, each.state)
        if isinstance(each, d.SetResourceState)
        else msgspec.structs.replace(each, timestamp=0.0)
        for each in done
    ]
    return plain, [each.timestamp for each in done]


@settings(max_examples=examples(60), deadline=None)
@given(worlds, st.sampled_from(POLICIES))
def test_no_policy_makes_batsim5_abort(world: World, policy: str) -> None:
    session, result, _ = run_on_batsim5(world, policy)
    assert result.ending.value == run(world.but(energy=EnergySource.MODEL), policy).result.ending.value
    assert session.ended
    assert sum(session.outcomes.counts().values()) == len(world.jobs)
    assert not session.cluster.running


@pytest.mark.sampled(4)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_decisions_as_for_batsim4(policy: str) -> None:
    """On these worlds, the millisecond to which calls are rounded up changes nothing but times."""
    for seed in range(4):
        world = rich_world(np.random.default_rng([seed, 5])).but(energy=EnergySource.MODEL)
        session, _, wire = run_on_batsim5(world, policy)
        done = run(world, policy)
        (ours, at), (theirs, then) = deeds(wire.decisions), deeds(done.decisions)
        assert ours == theirs
        assert at == pytest.approx(then, abs=2e-3)
        assert session.outcomes.counts() == done.session.outcomes.counts()
