"""What must hold in every run, whatever the policy, the guard, the jobs and the weather."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import STEP_S, Run, World, random_world, run

from beasy_sched.energy.site import GuardMode
from beasy_sched.model.decisions import ExecuteJob, KillJobs
from beasy_sched.model.job import JobState
from beasy_sched.model.power import HostState
from beasy_sched.policies.registry import OURS
from beasy_sched.simulator import Ending

POLICIES = sorted(OURS)
RESERVE = [HostState.ASLEEP, HostState.SWITCHING_OFF, HostState.SWITCHING_ON]
MOMENT_J = 100.0 * 2e-3
"""What one server at most uses in two moments: a kill comes 1 ms late, and so may a step's end."""

worlds = st.integers(0, 2**32 - 1).map(lambda seed: random_world(np.random.default_rng(seed)))


def check(world: World, done: Run) -> None:
    check_jobs(world, done)
    check_storage(world, done)
    check_energy(done)


def check_jobs(world: World, done: Run) -> None:
    """The simulator took every decision, and each job ended in exactly one way."""
    session = done.session
    assert done.result.ending is Ending.FINISHED
    assert session.ended
    assert session.submitted == len(world.jobs) == len(session.outcomes)
    assert sorted(session.outcomes.ids) == sorted(f"w0!{i}" for i in range(len(world.jobs)))
    assert sum(session.outcomes.counts().values()) == len(world.jobs)
    started = [x.job_id for x in done.decisions if isinstance(x, ExecuteJob)]
    assert len(started) == len(set(started))


def check_storage(world: World, done: Run) -> None:
    battery = world.site.storage.battery
    assert done.session.power is not None
    trace = done.session.power.trace
    assert len(trace) == len(world.production_w)
    uses = np.diff([np.zeros(5), *done.uses_j], axis=0)
    for row, use_j in zip(trace, uses, strict=True):
        record, reserve_j = row.record, use_j[RESERVE].sum()
        assert record.relative_residual <= 1e-6
        assert 0 <= record.soc_after_pct <= 100
        floor_j = min(battery.min_j, record.battery_before_j - record.self_discharge_j)
        below_j = floor_j - record.battery_after_j
        assert below_j <= reserve_j * battery.drawn_per_delivered() + 1e-6
        assert record.discharge_w <= battery.discharge_limit_w * (1 + 1e-9)
        if world.veto:
            assert record.unserved_w * record.dt_s <= reserve_j + MOMENT_J * world.hosts + 1e-3
            if record.unserved_w * record.dt_s > MOMENT_J * world.hosts + 1e-3:
                limited = record.discharge_w >= battery.discharge_limit_w * (1 - 1e-9)
                assert limited or record.battery_after_j < 1e-6 * battery.capacity_j


def check_energy(done: Run) -> None:
    """The pieces add up, and the daemon's own account is the simulator's."""
    account = done.session.power.account
    account.advance(done.result.end_s)
    total_j = account.energy_by_use_j.sum()
    assert total_j == pytest.approx(done.result.energy_j, rel=1e-6)
    jobs_j = done.session.outcomes.energy_j(*JobState)
    assert jobs_j == pytest.approx(account.energy_by_use_j[HostState.BUSY], rel=1e-6, abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(worlds, st.sampled_from(POLICIES))
def test_every_run_is_in_order(world: World, policy: str) -> None:
    check(world, run(world, policy))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_soak(policy: str) -> None:
    for seed in range(400):
        world = random_world(np.random.default_rng(seed), most_jobs=60, steps=30)
        check(world, run(world, policy))


def test_the_worlds_bring_about_what_they_are_for() -> None:
    """The properties mean something only if the runs kill, sleep, wake, end jobs and run dry."""
    counts: dict[str, int] = {}
    kills = lowest = 0
    for seed in range(40):
        done = run(random_world(np.random.default_rng(seed)), POLICIES[seed % len(POLICIES)])
        for name, count in done.session.outcomes.counts().items():
            counts[name] = counts.get(name, 0) + count
        kills += sum(isinstance(x, KillJobs) for x in done.decisions)
        lowest += any(row.record.soc_after_pct < 20 for row in done.session.power.trace)
    del counts["failed"]
    assert min(counts.values()) > 5, counts
    assert kills > 20
    assert lowest > 3


@settings(max_examples=10, deadline=None)
@given(worlds, st.sampled_from(POLICIES))
def test_same_inputs_same_decisions(world: World, policy: str) -> None:
    assert run(world, policy).decisions == run(world, policy).decisions


@settings(max_examples=25, deadline=None)
@given(worlds, st.sampled_from(POLICIES), st.integers(1, 11), st.data())
def test_nothing_of_the_future_is_known(world: World, policy: str, step: int, data: st.DataObject) -> None:
    """Other production after t and other run times of jobs that run past t: the same decisions before t."""
    t = step * STEP_S
    before = run(world, policy)
    ends = dict(zip(before.session.outcomes.ids, before.session.outcomes.columns()["end_s"], strict=True))
    jobs = list(world.jobs)
    for i, job in enumerate(jobs):
        if not ends[f"w0!{i}"] <= t:
            jobs[i] = dataclasses.replace(job, run=job.run + data.draw(st.integers(1, 50)))
    factor = data.draw(st.sampled_from([0.0, 0.5, 2.0]))
    production = [w if i < step else factor * w for i, w in enumerate(world.production_w)]
    after = run(world.but(jobs=tuple(jobs), production_w=tuple(production)), policy)
    early = [[x for x in done.decisions if x.timestamp < t - 1e-6] for done in (before, after)]
    assert early[0] == early[1]


@settings(max_examples=15, deadline=None)
@given(worlds, st.sampled_from(["easy", "fcfs", "workload-reactive"]))
def test_without_a_site_every_job_ends(world: World, policy: str) -> None:
    done = run(world, policy, with_site=False)
    check_jobs(world, done)
    assert not any(isinstance(x, KillJobs) for x in done.decisions)


@settings(max_examples=15, deadline=None)
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


@settings(max_examples=20, deadline=None)
@given(worlds, st.sampled_from(["easy", "fcfs"]), st.integers(1, 300), st.integers(1, 300))
def test_hosts_that_leave_in_the_middle(world: World, policy: str, start: int, length: int) -> None:
    """Busy ones too: no switching here, so that none is in transition when it leaves."""
    outage = (float(start), float(start + length), f"0-{world.hosts // 2}")
    check_jobs(world, run(world.but(outages=(outage,)), policy, with_site=False))
