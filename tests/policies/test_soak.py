"""Thousands of windows of random worlds: what must hold in every run does."""

from __future__ import annotations

import numpy as np
import pytest
from world_checks import check
from world_plans import planner_plans
from worlds import World, random_world, rich_world, run

from beasy_sched.model.decisions import KillJobs
from beasy_sched.policies.registry import OURS

POLICIES = sorted(OURS)
SEEDS = 120
"""Worlds of each sort and policy: more than 3000 windows in all."""


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_soak(policy: str) -> None:
    for seed in range(SEEDS):
        for draw, steps in ((random_world, 30), (rich_world, 18)):
            world = draw(np.random.default_rng(seed), most_jobs=60, steps=steps)
            try:
                check(world, run(world, policy))
            except Exception as error:
                raise AssertionError(f"{draw.__name__} of seed {seed}: {error}") from error


def test_the_soak_is_of_more_than_a_thousand_windows() -> None:
    assert SEEDS * len(POLICIES) * 2 > 1000


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


def test_the_rich_worlds_have_what_they_are_for() -> None:
    """Every feature often, plans made by the planner, hydrogen that departs from its plan."""
    worlds = [rich_world(np.random.default_rng(seed)) for seed in range(60)]
    features = {
        "one P-state": lambda world: world.one,
        "no sleep": lambda world: world.plain,
        "hydrogen": lambda world: world.hydrogen,
        "gusts": lambda world: world.gusts,
        "forecast": lambda world: world.forecast_w,
        "three windows": lambda world: world.windows == 3,
        "fewer plans than windows": lambda world: world.unplanned_windows,
        "outages": lambda world: world.outages,
    }
    found = {name: sum(map(bool, map(has, worlds))) for name, has in features.items()}
    assert min(found.values()) >= 5, found
    assert planned_by_the_planner(worlds) >= 10
    departed = 0
    for world in worlds[:20]:
        if world.hydrogen:
            trace = run(world, "follow-plan").session.power.trace
            departed += any(row.record.deviations for row in trace)
    assert departed >= 2


def planned_by_the_planner(worlds: list[World]) -> int:
    return sum(bool(world.forecast_w) and planner_plans(world) is not None for world in worlds)
