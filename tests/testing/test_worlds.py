"""The random worlds bring about what they are for."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from worlds import FAST, World, WorldJob, breaking_world, failing_world, green_world, play, policy_of, run

from beasy_sched.engine.lost import GIVEN_UP, IN_SERVICE, MAY_BE_ASKED, NOT_COME, OUT_OF_SERVICE
from beasy_sched.errors import DecisionRefused
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.decisions import Reply
from beasy_sched.model.host_states import HostState
from beasy_sched.model.hosts import HostSet
from beasy_sched.testing.invariants import PREDECESSORS, check_jobs, check_workflows
from beasy_sched.testing.witness import BrokenInvariant, Witness
from beasy_sched.testing.worlds import HostsLost, SmallWorld, run_world, session_of

SPLIT = 55
"""Seed of a green world in which jobs of one workflow and instant come in several messages."""


def split_world() -> SmallWorld:
    return green_world(np.random.default_rng(SPLIT), most_jobs=60, steps=24)


@pytest.mark.slow
def test_failing_worlds_lose_hosts_in_every_state() -> None:
    """Those that sleep, compute, idle, and are being switched; many come back."""
    left: Counter[int] = Counter()
    back = lost = 0
    for seed in range(60):
        world = failing_world(np.random.default_rng(seed), most_jobs=40)
        played, done = play(world, "workload-reactive")
        lost += played != world
        session = session_of(played, policy_of(played, "workload-reactive"))

        def decide(message, session=session):
            for event in message.events:
                if isinstance(event, e.Notify) and event.kind == "event_machine_unavailable":
                    hosts = HostSet.parse(event.data["resources"])
                    left.update(session.cluster.state[hosts.ids].tolist())
            return session.step(message)

        played.simulation().run(decide)
        back += sum(end_s < math.inf for _, end_s, _ in played.outages)
        assert done.session.ended
    assert set(left) == {0, 1, 2, 3, 4}, left
    assert min(left.values()) >= 5, left
    assert back > 100
    assert lost >= 5


@pytest.mark.slow
def test_breaking_worlds_break_hosts_in_every_state_and_let_wake_ups_fail() -> None:
    """Hosts are lost, left alone, woken again, and come; and some are given up."""
    broken: Counter[int] = Counter()
    rules: Counter[str] = Counter()
    failed = came = not_come = 0
    for seed in range(60):
        world = breaking_world(np.random.default_rng(seed), most_jobs=40)
        witness = Witness(world.platform, world.retry_s)
        session = session_of(world, policy_of(world, "workload-reactive"), witness)

        def decide(message, session=session, witness=witness):
            nonlocal came
            for event in message.events:
                if isinstance(event, e.MachinesChanged) and not event.available:
                    broken.update(session.cluster.state[event.hosts.ids].tolist())
                elif isinstance(event, e.ResourceStateChanged):
                    came += session.cluster.state[event.resources.ids[0]] == HostState.SWITCHING_ON
            reply = session.step(message)
            witness.see(message, reply, None)
            return reply

        world.simulation().run(decide)
        assert session.lost.failed_wakes == witness.not_come
        not_come += witness.not_come
        failed += session.outcomes.counts()["failed"]
        rules.update(action.rule for action in witness.actions if action.what in ("lost", "back"))
    assert set(broken) == {0, 1, 2, 3, 4}, broken
    assert min(broken.values()) >= 5, broken
    assert failed > 20
    assert not_come > 100
    assert came > 100
    assert set(rules) == {NOT_COME, GIVEN_UP, OUT_OF_SERVICE, IN_SERVICE, MAY_BE_ASKED}, rules


def test_a_host_that_leaves_in_the_middle_of_a_switch_and_returns_ends_the_run() -> None:
    """Its job needs it awake, and it leaves while it wakes."""
    jobs = (WorldJob(61.0, 1, 50.0, 30.0),)
    world = World(
        1, 0, jobs, (300.0,) * 6, start_pstates=(FAST.sleeps[0].pstate,), outages=((70.0, 200.0, "0"),)
    )
    with pytest.raises(HostsLost) as caught:
        run_world(world, policy_of(world, "easy"))
    assert caught.value.world.outages == ((70.0, math.inf, "0"),)
    played, done = play(world, "easy")
    assert played == caught.value.world
    assert "while they were switched on or off" in done.session.warnings[-1]
    early = world.but(outages=((70.0, 75.0, "0"),))
    assert play(early, "easy")[0] == early


class Abrupt(SmallWorld):
    """Its simulator refuses the first start, since a host has left meanwhile: Batsim splits some instants."""

    def simulation(self):
        simulation = super().simulation()

        def run(decide, play=simulation.run):
            def refuse(message):
                reply = decide(message)
                if any(isinstance(decision, d.ExecuteJob) for decision in reply.decisions):
                    raise DecisionRefused("its state is 'unavailable'")
                return reply

            return play(refuse)

        simulation.run = run
        return simulation


@pytest.mark.parametrize("start_s", [61.000001, 62.0])
def test_a_host_that_leaves_in_the_moment_in_which_it_is_used(start_s: float) -> None:
    """No policy can know of it, but only of what comes in this moment."""
    outages = ((10.0, 20.0, "1"), (start_s, 80.0, "0"))
    world = Abrupt(2, 0, (WorldJob(61.0, 1, 50.0, 30.0),), (300.0,) * 6, outages=outages)
    with pytest.raises(HostsLost if start_s < 62.0 else DecisionRefused) as caught:
        run_world(world, policy_of(world, "easy"))
    if isinstance(caught.value, HostsLost):
        assert caught.value.world.outages == outages[:1]


def test_events_come_in_the_order_in_which_batsim_plays_them() -> None:
    """Hosts return, then leave, then there is news of the power."""
    world = World(3, 0, (), (300.0,) * 3, outages=((30.0, 60.0, "0"), (60.0, 70.0, "1-2")))
    told = []
    world.simulation().run(lambda message: told.extend(message.events) or Reply(message.now, []))
    names = [event.kind for event in told if isinstance(event, e.Notify) and event.timestamp == 60.0]
    assert names[:3] == ["event_machine_available", "event_machine_unavailable", "power"]


def test_green_worlds_have_phases_that_come_at_one_time() -> None:
    several = 0
    for seed in range(100):
        world = green_world(np.random.default_rng(seed))
        phases = defaultdict(set)
        for job in world.jobs:
            own = dict(job.members)
            if own.get("phase", -1) >= 0 and "after" not in own:
                phases[own["workflow"], job.subtime].add(own["phase"])
        several += any(len(each) > 1 for each in phases.values())
    assert several >= 15


def test_phases_hold_where_an_instant_comes_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would not if a job were queued before the next message of its instant."""
    world = split_world()
    session, times = session_of(world, policy_of(world, "easy")), Counter[float]()

    def decide(message):
        came = [event for event in message.events if isinstance(event, e.JobSubmitted)]
        times[message.now] += any(event.job.extras and "phase" in event.job.extras for event in came)
        return session.step(message)

    world.simulation().run(decide)
    assert max(times.values()) > 1
    done = run(world, "easy")
    check_jobs(world, done)
    assert not done.session.workflows.early
    monkeypatch.setattr("beasy_sched.model.workflow.SETTLED_S", -1.0)
    with pytest.raises(BrokenInvariant, match=PREDECESSORS):
        check_workflows(world, run(world, "easy"))
