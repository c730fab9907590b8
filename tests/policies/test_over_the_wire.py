"""Every policy decides over ZeroMQ as it does in one process: the recorded bytes are the same."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import numpy as np
import pytest
from worlds import SLOT_POLICIES, World, green_world, policy_of, rich_world, session_of

from beasy_sched.daemon import Daemon
from beasy_sched.energy.site import GuardMode
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.observed import ObservedSession
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.policies.registry import built_in
from beasy_sched.protocol.batsim4 import encode_message, encode_reply
from beasy_sched.simulator.zmq_client import ZmqScheduler
from beasy_sched.testing.random_plans import world_plans

Exchanges = list[tuple[bytes, bytes]]
Sessions = Callable[[World, str], Session]


def planned_session(world: World, policy: str) -> Session:
    """A session that has a plan, whether its policy needs one or not."""
    options = SessionOptions(
        site=world.site, plans=world_plans(world), windows=world.windows, energy=world.energy
    )
    return Session(policy_of(world, policy), options)


def in_one_process(world: World, policy: str, session_for: Sessions = session_of) -> Exchanges:
    session, seen = session_for(world, policy), []

    def decide(message: Message) -> Reply:
        reply = session.step(message)
        seen.append((encode_message(message), encode_reply(reply)))
        return reply

    world.simulation().run(decide)
    return seen


def over_the_wire(world: World, policy: str, session_for: Sessions = session_of) -> Exchanges:
    session, seen = session_for(world, policy), []
    with Daemon("tcp://127.0.0.1:0", timeout_s=300.0) as daemon:
        served = Thread(
            target=daemon.serve, args=(ObservedSession(session), lambda *exchange: seen.append(exchange))
        )
        served.start()
        scheduler = ZmqScheduler(daemon.endpoint, timeout_s=300.0)
        try:
            world.simulation().run(scheduler)
        finally:
            scheduler.close()
            served.join(300.0)
    return seen


@pytest.mark.sampled(4)
@pytest.mark.parametrize("policy", sorted(built_in()))
@pytest.mark.parametrize(("mode", "energy"), [*zip(GuardMode, EnergySource, strict=True)])
def test_the_same_bytes(policy: str, mode: GuardMode, energy: EnergySource) -> None:
    world = rich_world(np.random.default_rng(15), most_jobs=60, steps=18)
    world = world.but(mode=mode, energy=energy, veto=mode is GuardMode.SHED, soc_start_pct=50.0)
    alone = in_one_process(world, policy)
    assert len(alone) > 40
    assert over_the_wire(world, policy) == alone


@pytest.mark.sampled(2)
@pytest.mark.parametrize("policy", SLOT_POLICIES)
@pytest.mark.parametrize("seed", [9, 55])
def test_the_same_bytes_with_a_grid_and_workflows(policy: str, seed: int) -> None:
    world = green_world(np.random.default_rng(seed))
    assert world.grid
    assert any("phase" in dict(job.members) for job in world.jobs)
    alone = in_one_process(world, policy)
    assert sum(b"EXECUTE_JOB" in reply for _, reply in alone) > 3
    assert over_the_wire(world, policy) == alone


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["bid-price", "beasy"])
@pytest.mark.parametrize("seed", [15])
def test_the_same_bytes_with_a_plan(policy: str, seed: int) -> None:
    """One that the planner makes of a forecast, which `bid-price` can do without."""
    world = rich_world(np.random.default_rng(seed), most_jobs=60, steps=30)
    world = world.but(windows=1, soc_start_pct=50.0, forecast_w=world.production_w, energy=EnergySource.MODEL)
    alone = in_one_process(world, policy, planned_session)
    assert sum(b"EXECUTE_JOB" in reply for _, reply in alone) > 3
    assert over_the_wire(world, policy, planned_session) == alone
    if policy == "bid-price":
        assert [reply for _, reply in in_one_process(world, policy)] != [reply for _, reply in alone]
