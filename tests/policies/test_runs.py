"""What must hold in every run, whatever the policy, the guard, the jobs and the weather."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from world_checks import check
from worlds import (
    SLOT_POLICIES,
    STEP_S,
    World,
    breaking_world,
    failing_world,
    green_world,
    play,
    random_world,
    rich_world,
    run,
    session_of,
)

from beasy_sched.energy.site import GuardMode
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model.decisions import Decision, KillJobs, Reply
from beasy_sched.model.events import JobSubmitted, Message
from beasy_sched.policies.registry import built_in
from beasy_sched.protocol.batsim4 import encode_message, encode_reply
from beasy_sched.testing.invariants import check_energy, check_jobs

POLICIES = sorted(built_in())
WITHOUT_SITE = [name for name in ("easy", "fcfs", "workload-reactive", "conventional") if name in POLICIES]

seeds = st.integers(0, 2**32 - 1)
worlds = seeds.map(lambda seed: random_world(np.random.default_rng(seed)))
rich_worlds = seeds.map(lambda seed: rich_world(np.random.default_rng(seed)))
green_worlds = seeds.map(lambda seed: green_world(np.random.default_rng(seed)))
failing_worlds = seeds.map(lambda seed: failing_world(np.random.default_rng(seed)))
breaking_worlds = seeds.map(lambda seed: breaking_world(np.random.default_rng(seed)))


@settings(max_examples=examples(60), deadline=None)
@example(green_world(np.random.default_rng(2533717311)), WITHOUT_SITE[-1])  # a base load, and a gust of wind
@given(worlds | rich_worlds | green_worlds, st.sampled_from(POLICIES))
def test_every_run_is_in_order(world: World, policy: str) -> None:
    check(world, run(world, policy))


@settings(max_examples=examples(10), deadline=None)
@given(rich_worlds | green_worlds, st.sampled_from(POLICIES))
def test_same_inputs_same_bytes(world: World, policy: str) -> None:
    """Every message and every reply, as they go over the wire."""
    assert bytes_of(world, policy) == bytes_of(world, policy)


def bytes_of(world: World, policy: str) -> list[bytes]:
    session, seen = session_of(world, policy), []

    def decide(message: Message) -> Reply:
        reply = session.step(message)
        seen.extend([encode_message(message), encode_reply(reply)])
        return reply

    world.simulation().run(decide)
    return seen


@settings(max_examples=examples(25), deadline=None)
@given(worlds | rich_worlds | green_worlds, st.sampled_from(POLICIES), st.integers(1, 11), st.data())
def test_nothing_of_the_future_is_known(world: World, policy: str, step: int, data: st.DataObject) -> None:
    """Other production from t on and other run times of jobs that run past t: the same decisions before t."""
    t = step * STEP_S
    before = run(world, policy)
    ends = dict(zip(before.session.outcomes.ids, before.session.outcomes.columns()["end_s"], strict=True))
    jobs = list(world.jobs)
    for i, job in enumerate(jobs):
        if not ends[f"w0!{i}"] <= t:
            jobs[i] = dataclasses.replace(job, run=job.run + data.draw(st.integers(1, 50)))
    factor = data.draw(st.sampled_from([0.0, 0.5, 2.0]))
    production = [w if i < step else factor * w for i, w in enumerate(world.production_w)]
    gusts = [(when, w if when < t else factor * w) for when, w in world.gusts]
    future = {"jobs": tuple(jobs), "production_w": tuple(production), "gusts": tuple(gusts)}
    after = run(world.but(**future), policy)
    early = [[x for x in done.decisions if x.timestamp < t - 1e-6] for done in (before, after)]
    assert early[0] == early[1]


@settings(max_examples=examples(20), deadline=None)
@pytest.mark.plugins("greenslot")
@given(green_worlds, st.sampled_from(SLOT_POLICIES or POLICIES), st.integers(0, 2**32 - 1))
def test_the_order_of_events_within_a_message_changes_no_plan(world: World, policy: str, seed: int) -> None:
    """Ends, submissions, production, finished transitions: only the order in which jobs were submitted tells
    two equally urgent ones apart for `conventional`, as for EASY."""
    plain, mixed = (sorted(decisions_of(world, policy, rng), key=str) for rng in (None, seed))
    assert plain == mixed


def decisions_of(world: World, policy: str, shuffled_by: int | None) -> list[Decision]:
    session, rng = session_of(world, policy), np.random.default_rng(shuffled_by)
    found: list[Decision] = []

    def decide(message: Message) -> Reply:
        reply = session.step(message if shuffled_by is None else shuffled(message, rng, policy))
        found.extend(reply.decisions)
        return reply

    world.simulation().run(decide)
    return found


def shuffled(message: Message, rng: np.random.Generator, policy: str) -> Message:
    events = [message.events[place] for place in rng.permutation(len(message.events))]
    if policy == "conventional":
        submissions = iter([event for event in message.events if isinstance(event, JobSubmitted)])
        events = [next(submissions) if isinstance(event, JobSubmitted) else event for event in events]
    return Message(message.now, events, message.unknown_fields)


@settings(max_examples=examples(15), deadline=None)
@given(worlds, st.sampled_from(WITHOUT_SITE))
def test_without_a_site_every_job_ends(world: World, policy: str) -> None:
    done = run(world, policy, with_site=False)
    check_jobs(world, done)
    assert not any(isinstance(x, KillJobs) for x in done.decisions)


@settings(max_examples=examples(15), deadline=None)
@given(worlds, st.sampled_from(POLICIES), st.data())
def test_hosts_out_of_service(world: World, policy: str, data: st.DataObject) -> None:
    """Batsim aborts when a host that comes back was switched meanwhile: the daemon must not do that.

    Hosts leave at the start, when none can be in transition yet.
    """
    end = data.draw(st.sampled_from([30.0, STEP_S, 200.0]))
    hosts = data.draw(st.sampled_from(["0", f"0-{world.hosts - 1}"]))
    world = world.but(outages=((0.0, end, hosts),), mode=GuardMode.SHED, veto=True)
    done = run(world, policy)
    check_jobs(world, done)
    check_energy(done)


@settings(max_examples=examples(20), deadline=None)
@given(worlds, st.sampled_from(["easy", "fcfs"]), st.integers(1, 300), st.integers(1, 300))
def test_hosts_that_leave_in_the_middle(world: World, policy: str, start: int, length: int) -> None:
    """Busy ones too: no switching here, so that none is in transition when it leaves."""
    outage = (float(start), float(start + length), f"0-{world.hosts // 2}")
    check_jobs(world, run(world.but(outages=(outage,)), policy, with_site=False))


@settings(max_examples=examples(40), deadline=None)
@given(failing_worlds, st.sampled_from(POLICIES))
def test_hosts_leave_and_return_all_the_time(world: World, policy: str) -> None:
    """Those that sleep, are switched, or compute, too: no run ends by a decision of ours."""
    check(*play(world, policy))


@settings(max_examples=examples(20), deadline=None)
@given(failing_worlds, st.sampled_from(WITHOUT_SITE))
def test_hosts_leave_and_return_without_a_site(world: World, policy: str) -> None:
    check_jobs(*play(world, policy, with_site=False))


@settings(max_examples=examples(40), deadline=None)
@given(breaking_worlds, st.sampled_from(POLICIES))
def test_hosts_break_and_do_not_wake(world: World, policy: str) -> None:
    """Jobs fail with their hosts, lost ones are left alone for a while, and every run comes to its end."""
    check(*play(world, policy))


@settings(max_examples=examples(20), deadline=None)
@given(breaking_worlds, st.sampled_from(WITHOUT_SITE))
def test_hosts_break_and_do_not_wake_without_a_site(world: World, policy: str) -> None:
    check_jobs(*play(world, policy, with_site=False))


@st.composite
def other_starts(draw: st.DrawFn) -> World:
    """A world whose hosts start in slower P-states, and some of them asleep; with two layouts of P-states."""
    world = draw(worlds)
    first = draw(st.integers(0, 3))
    starts = [draw(st.sampled_from([0, 1, 1, 2])) for _ in range(world.hosts)]  # 2 is sleep
    starts += [draw(st.sampled_from([0, 1, 2, 2])) for _ in range(first)]  # 0 is sleep
    return world.but(sleep_first=first, start_pstates=tuple(starts), energy=EnergySource.BATSIM)


@settings(max_examples=examples(60), deadline=None)
@given(other_starts(), st.sampled_from(POLICIES))
def test_hosts_that_start_in_other_p_states_are_known_to(world: World, policy: str) -> None:
    """The own account is the meter's, but for the first step: SimGrid charges it as if all began in 0."""
    done = run(world, policy)
    check_jobs(world, done)
    power = done.session.power
    assert power is not None
    metered_j = np.cumsum([row.record.consumed_j for row in power.trace])
    own_j = np.array([uses_j.sum() for uses_j in done.uses_j])
    assert own_j - own_j[0] == pytest.approx(metered_j - metered_j[0], rel=1e-6, abs=1e-3)
