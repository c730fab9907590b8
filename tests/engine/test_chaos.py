"""A policy that does legal things at random: the session turns them into nothing that Batsim refuses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import STEP_S, World, random_world

from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import Action, CallAt, Kill, Reject, SetPState
from beasy_sched.engine.policy import Policy, View
from beasy_sched.model import decisions as d
from beasy_sched.model.events import Message
from beasy_sched.model.host_states import HostState
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import JobState
from beasy_sched.policies.easy import EasyPass, by_arrival
from beasy_sched.simulator import Ending


class Chaotic(Policy):
    """Wishes, kills, rejections and calls at random, among them the useless and the contradictory."""

    name = "chaotic"

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def power_actions(self, view: View) -> Sequence[Action]:
        return self.whims(view)

    def schedule(self, view: View) -> Sequence[Action]:
        easy = EasyPass(view, by_arrival, by_arrival)
        easy.run()
        whims = [x for x in self.whims(view) if not (isinstance(x, Reject) and x.job in easy.started)]
        return [*easy.actions, *whims, *self.wake_for_the_rest(view)]

    def whims(self, view: View) -> list[Action]:
        whims: list[Action] = []
        if view.now == 0.0:  # hosts that leave at 0 must not be in transition then: nobody could know
            return whims
        while self.rng.random() < 0.4:
            hosts = np.flatnonzero(self.rng.random(view.platform.size) < 0.5)
            whims.append(SetPState(HostSet(hosts), int(self.rng.integers(3)), "whim"))
        for job in [*view.running.values()]:
            if self.rng.random() < 0.03:
                whims.append(Kill(job, "whim"))
        if view.queue and self.rng.random() < 0.02:
            whims.append(Reject(view.queue.first, "whim"))
        if self.rng.random() < 0.2:
            whims.append(CallAt(view.now + float(self.rng.choice([-1.0, 0.0, 1e-4, 3.0, STEP_S]))))
        return whims

    def wake_for_the_rest(self, view: View) -> list[Action]:
        """So that no run ends in a deadlock."""
        if not view.queue or self.rng.random() < 0.3:
            return [CallAt(view.now + 5.0)] if view.queue else []
        return [SetPState(HostSet(np.arange(view.platform.size)), 0), CallAt(view.now + 30.0)]


def run(world: World, seed: int, *, with_site: bool) -> tuple[Session, list[d.Decision]]:
    options = SessionOptions(site=world.site, windows=world.windows, energy=world.energy)
    session = Session(Chaotic(seed), options if with_site else None)
    decisions: list[d.Decision] = []

    def decide(message: Message) -> d.Reply:
        reply = session.step(message)
        decisions.extend(reply.decisions)
        return reply

    result = world.simulation().run(decide)
    assert result.ending is Ending.FINISHED
    if session.power is not None:
        account = session.power.account
        account.advance(result.end_s)
        assert account.energy_by_use_j.sum() == pytest.approx(result.energy_j, rel=1e-6)
        jobs_j = session.outcomes.energy_j(*JobState)
        assert jobs_j == pytest.approx(account.energy_by_use_j[HostState.BUSY], rel=1e-6, abs=1e-3)
    return session, decisions


def check(world: World, seed: int, *, with_site: bool) -> list[d.Decision]:
    session, decisions = run(world, seed, with_site=with_site)
    assert session.ended
    assert sorted(session.outcomes.ids) == sorted(f"w0!{i}" for i in range(len(world.jobs)))
    return decisions


seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=examples(60))
@given(seeds, st.booleans())
def test_whatever_a_policy_requests(seed: int, with_site: bool) -> None:
    check(random_world(np.random.default_rng(seed)), seed, with_site=with_site)


@settings(max_examples=examples(20))
@given(seeds, st.booleans(), st.sampled_from([30.0, 200.0]))
def test_with_hosts_out_of_service(seed: int, with_site: bool, until_s: float) -> None:
    world = random_world(np.random.default_rng(seed))
    world = world.but(outages=((0.0, until_s, f"0-{world.hosts // 2}"),))
    check(world, seed, with_site=with_site)


@pytest.mark.slow
def test_soak() -> None:
    for seed in range(300):
        world = random_world(np.random.default_rng(seed), most_jobs=60, steps=30)
        check(world, seed, with_site=seed % 2 == 0)


@pytest.mark.slow
def test_the_chaos_is_what_it_is_for() -> None:
    """All kinds of decisions occur, speeds of running jobs among them."""
    counts = dict.fromkeys((d.ExecuteJob, d.RejectJob, d.KillJobs, d.SetResourceState, d.CallMeLater), 0)
    for seed in range(20):
        for decision in check(random_world(np.random.default_rng(seed)), seed, with_site=seed % 2 == 0):
            if type(decision) in counts:
                counts[type(decision)] += 1
    assert min(counts.values()) > 10, counts
