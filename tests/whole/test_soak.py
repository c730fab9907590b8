"""More than a thousand windows of random worlds: what must hold in every run does."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from world_checks import check
from worlds import (
    SLOT_POLICIES,
    World,
    breaking_world,
    failing_world,
    green_world,
    play,
    random_world,
    rich_world,
    run,
)

from beasy_sched.energy.grid import Export
from beasy_sched.model.decisions import ExecuteJob, KillJobs
from beasy_sched.model.workflow import PREDECESSOR_LOST
from beasy_sched.plugins.greenslot.dispatch import NOT_NEEDED
from beasy_sched.plugins.greenslot.planning import CHEAPER_LATER, REFUSED, WORKFLOW_REFUSED
from beasy_sched.policies.registry import built_in
from beasy_sched.testing.invariants import predecessors
from beasy_sched.testing.random_plans import planner_plans

POLICIES = sorted(built_in())
SEEDS = 12
"""Worlds of each sort and policy."""

SORTS = (
    (random_world, 30),
    (rich_world, 18),
    (green_world, 24),
    (failing_world, 18),
    (breaking_world, 18),
)
"""Sorts of worlds, with their numbers of steps."""


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_soak(policy: str) -> None:
    for seed in range(SEEDS):
        for draw, steps in SORTS:
            world = draw(np.random.default_rng(seed), most_jobs=60, steps=steps)
            try:
                check(*play(world, policy))
            except Exception as error:
                raise AssertionError(f"{draw.__name__} of seed {seed}: {error}") from error


def test_the_soak_is_of_more_than_a_thousand_windows() -> None:
    assert SEEDS * len(POLICIES) * len(SORTS) > 1000


@pytest.mark.slow
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
    assert min(counts.values()) >= 3, counts
    assert kills > 20
    assert lowest > 3


@pytest.mark.slow
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
    assert min(found.values()) >= 3, found
    assert planned_by_the_planner(worlds) >= 10
    departed = 0
    for world in worlds[:20]:
        if world.hydrogen:
            trace = run(world, "follow-plan").session.power.trace
            departed += any(row.record.deviations for row in trace)
    assert departed >= 2


def test_the_green_worlds_have_what_they_are_for() -> None:
    """Every kind of grid, price and workflow, often."""
    worlds = [green_world(np.random.default_rng(seed)) for seed in range(100)]
    grids = [world.grid for world in worlds if world.grid]
    features = {
        "tariff": sum(grid.tariff for grid in grids),
        "negative prices": sum(min(grid.prices, default=0.0) < 0 for grid in grids),
        "no price": sum(not grid.prices and not grid.tariff for grid in grids),
        "limit": sum(math.isfinite(grid.import_limit_w) for grid in grids),
        "carbon": sum(bool(grid.carbon) for grid in grids),
        "no grid": len(worlds) - len(grids),
        "no battery": sum(not world.capacity_j for world in worlds),
        "base load": sum(world.base_w > 0 for world in worlds),
        "forecast": sum(bool(world.predicted_w) for world in worlds),
        "servers of several kinds": sum(world.one + world.plain > 0 for world in worlds),
    }
    for export in Export:
        features[f"export {export.value}"] = sum(grid.export is export for grid in grids)
    names = ("deadline_s", "phase", "after", "think_time_s", "estimate_s", "power_w")
    for name in names:
        features[name] = sum(any(name in dict(job.members) for job in world.jobs) for world in worlds)
    assert min(features.values()) >= 8, features


@pytest.mark.slow
def test_the_green_worlds_bring_about_what_they_are_for() -> None:
    counts: Counter[str] = Counter()
    for seed in range(90):
        world = green_world(np.random.default_rng(seed))
        done = run(world, SLOT_POLICIES[seed % len(SLOT_POLICIES)])
        counts.update(action.rule for action in done.witness.actions)
        waited = predecessors(world)
        started = [x.job_id for x in done.decisions if isinstance(x, ExecuteJob)]
        counts["started after others"] += sum(job in waited for job in started)
        for row in done.session.power.trace:
            counts["import"] += row.record.import_w > 0
            counts["export"] += row.record.export_w > 0
            counts["earned by import"] += row.metered is not None and row.metered.cost < 0
            counts["at the limit"] += bool(world.grid) and row.record.import_w == world.grid.import_limit_w
            counts["unserved"] += bool(world.grid) and row.record.unserved_w > 0
            counts["green"] += row.record.green_w > 0
    rare = {PREDECESSOR_LOST, WORKFLOW_REFUSED, REFUSED, NOT_NEEDED, "deadline tightened", CHEAPER_LATER}
    found = {name: counts[name] for name in counts.keys() | rare if name in rare or " " not in name}
    assert min(found.values()) >= 3, found
    assert min(counts[each] for each in ("started after others", "earned by import", "at the limit")) >= 3


def planned_by_the_planner(worlds: list[World]) -> int:
    return sum(bool(world.forecast_w) and planner_plans(world) is not None for world in worlds)
