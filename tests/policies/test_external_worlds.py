"""Each policy that can offer servers, in small worlds in which an EASY scheduler places the jobs."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import pytest

from beasy_sched.model.choices import Placement
from beasy_sched.policies.registry import CORE, make_policy, policy_class
from beasy_sched.testing.invariants import check_jobs, check_run
from beasy_sched.testing.worlds import (
    SmallWorld,
    WorldRun,
    breaking_world,
    failing_world,
    green_world,
    play_world,
    random_world,
    rich_world,
    run_world,
)

OFFERING = [name for name in CORE if policy_class(name).can_offer]
SORTS = (random_world, rich_world, green_world, failing_world, breaking_world)
SEEDS = [2, 3, 4, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, *range(5, 10)))]
"""The first three draw green, failing and breaking worlds."""


def played(
    name: str, seed: int, options: Mapping[str, object] | None = None, *, with_site: bool = True
) -> tuple[SmallWorld, WorldRun]:
    world = SORTS[seed % len(SORTS)](np.random.default_rng(seed), most_jobs=25, steps=18)
    make = functools.partial(make_policy, name, options)
    return play_world(world, make, with_site=with_site, placement=Placement.EXTERNAL)


def test_the_core_policies_can_offer() -> None:
    assert [*CORE] == OFFERING


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", OFFERING)
def test_invariants_hold(name: str, seed: int) -> None:
    """Among them: energy closes, no job on a sleeping server, no server on beyond the offer."""
    world, done = played(name, seed)
    check_run(world, done)
    assert done.session.offers


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("beasy", {"long_jobs": "set-aside"}),
        ("beasy", {"risk": 0.05}),
        ("beasy", {"window_end": "work", "shortage": "sleep-first"}),
        ("bid-price", {"patience": 0.0}),
        ("peak", {"keep": "never"}),
        ("next", {"shortage": "by-step", "keep": "surplus"}),
        ("power-reactive", {"count": "full"}),
    ],
)
def test_invariants_hold_with_options(name: str, options: Mapping[str, object], seed: int) -> None:
    check_run(*played(name, seed, options))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["easy", "fcfs", "workload-reactive"])
def test_invariants_hold_without_a_site(name: str, seed: int) -> None:
    check_jobs(*played(name, seed, with_site=False))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 100))
@pytest.mark.parametrize("name", OFFERING)
def test_invariants_hold_in_many_worlds(name: str, seed: int) -> None:
    check_run(*played(name, seed))


@pytest.mark.parametrize("name", OFFERING)
def test_the_same_world_has_the_same_decisions(name: str) -> None:
    world, done = played(name, 2)
    again = run_world(world, make_policy(name), placement=Placement.EXTERNAL)
    assert done.decisions == again.decisions
    assert done.witness.actions == again.witness.actions
