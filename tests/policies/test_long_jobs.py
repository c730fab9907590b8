"""Jobs that no plan can hold: which they are, what they count with, and reports of those that never start."""

from __future__ import annotations

import math

import numpy as np
import pytest
from talk import small_battery
from worlds import World, WorldJob, random_world, run

from beasy_sched.engine.run_findings import KnownInputs
from beasy_sched.policies.beasy.beasy_policy import Beasy
from beasy_sched.policies.long_jobs import LongJobs, never_started
from beasy_sched.testing.worlds import run_world


class _Given(KnownInputs):
    """Inputs of a run of one window of 600 s with these jobs."""

    submit_s = np.array([0.0, 10.0, 500.0])
    walltime_s = np.array([math.inf, 700.0, 200.0])


def inputs() -> KnownInputs:
    return _Given(site=small_battery(steps=10))


def test_jobs_that_cannot_start_are_reported() -> None:
    """One has no walltime, one a longer one than is planned; one comes too late for its walltime."""
    never, late = never_started(inputs(), "beasy", long_ones_start=False)
    assert (never.code, late.code) == ("jobs-never", "jobs-too-late")
    assert never.text.startswith(
        "2 of 3 jobs cannot start with beasy, because they might not end within the planned horizon (1"
        " without a walltime, 1 with a walltime above the planned 0.1667 h)"
    )
    assert late.text.startswith("1 of 3 jobs cannot start with beasy: their walltimes end after")
    assert [each.code for each in Beasy().check_inputs(inputs())] == ["jobs-too-late"]
    aside = Beasy({"long_jobs": "set-aside"})
    assert [each.code for each in aside.check_inputs(inputs())] == ["jobs-never", "jobs-too-late"]
    assert not Beasy().check_inputs(KnownInputs(site=small_battery(steps=10)))


def test_the_longest_run_counts_from_the_twentieth_on() -> None:
    long = LongJobs(600.0)
    assert long.among(np.array([600.0, 601.0, math.inf])).tolist() == [False, True, True]
    for number in range(19):
        long.add(number)
    assert (long.expected_s, long.longest_s) == (math.inf, 18)
    long.add(3.0)
    assert long.expected_s == 18
    assert not LongJobs(math.inf).among(np.array([math.inf])).any()


def one_long_job(walltime_s: float | None) -> World:
    return World(
        fast=0,
        slow=0,
        geared=2,
        jobs=(WorldJob(30.0, 1, walltime_s, 100.0), WorldJob(60.0, 1, 100.0, 50.0)),
        production_w=(150.0,) * 12,
    )


@pytest.mark.parametrize("policy", ["beasy", "bid-price"])
@pytest.mark.parametrize("walltime_s", [None, 1e5])
def test_on_an_idle_site_it_starts(policy: str, walltime_s: float | None) -> None:
    assert run(one_long_job(walltime_s), policy).session.outcomes.counts()["finished"] == 2


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(12))
def test_without_long_jobs_the_option_changes_nothing(seed: int) -> None:
    world = random_world(np.random.default_rng(seed))
    planned_s = world.site.window_s
    world = world.but(
        jobs=tuple(job for job in world.jobs if job.walltime is not None and job.walltime <= planned_s)
    )
    assert world.jobs
    decided = run_world(world, Beasy()).decisions
    assert decided == run_world(world, Beasy({"long_jobs": "set-aside"})).decisions
