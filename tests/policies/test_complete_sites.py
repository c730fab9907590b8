"""Every policy on sites with cooling, services, grid rules, a price of peaks, a band and an end value."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from world_checks import check
from worlds import STEP_S, Run, World, complete_world, run

from beasy_sched.energy.site_load import LoadKnown
from beasy_sched.policies.registry import built_in

POLICIES = sorted(built_in())
FOLLOWING_NOTHING = [
    name for name in ("bid-price", "easy", "fcfs", "greenslot", "power-reactive") if name in POLICIES
]
"""Policies without random plans."""
seeds = st.integers(0, 2**32 - 1)


def balances(done: Run) -> None:
    """Servers, cooling, base load and storage take exactly what the sources give, and what lacks."""
    assert done.session.power is not None
    records = [row.record for row in done.session.power.trace]
    assert records
    for r in records:
        inflow_w = r.renew_w + r.import_w + r.discharge_w + r.fuel_cell_w + r.unserved_w
        outflow_w = r.charge_w + r.electrolyzer_w + r.curtailed_w + r.export_w + r.cooling_w + r.base_w
        assert outflow_w + r.consumed_j / r.dt_s == pytest.approx(inflow_w, rel=1e-9, abs=1e-6)
        assert 0.0 <= r.grid_charge_w <= min(r.charge_w, r.import_w) + 1e-9
        assert r.cooling_w > 0.0


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_runs(policy: str) -> None:
    for seed in range(3):
        world = complete_world(np.random.default_rng(seed))
        done = run(world, policy)
        check(world, done)
        balances(done)


@settings(max_examples=examples(60), deadline=None)
@given(seeds, st.sampled_from(POLICIES))
@example(188, "easy")  # the mean price of a step equals the limit of the rule
def test_every_run_balances(seed: int, policy: str) -> None:
    world = complete_world(np.random.default_rng(seed))
    done = run(world, policy)
    check(world, done)
    balances(done)


def changed_after(world: World, step: int, rng: np.random.Generator) -> World:
    """The world with other production, services and temperatures from a step on."""

    def mixed(values: tuple[float, ...], most: float) -> tuple[float, ...]:
        return values[:step] + tuple(rng.uniform(0.0, most, len(values) - step).round(3).tolist())

    return world.but(
        production_w=mixed(world.production_w, 400.0),
        services_w=mixed(world.services_w, 60.0),
        temperature_c=mixed(world.temperature_c, 45.0),
        gusts=tuple(gust for gust in world.gusts if gust[0] < step * STEP_S),
    )


@settings(max_examples=examples(40), deadline=None)
@given(seeds, st.integers(2, 15), st.sampled_from(FOLLOWING_NOTHING))
def test_nothing_uses_what_will_be(seed: int, step: int, policy: str) -> None:
    """Runs whose production, services and temperatures differ only from a step on are the same up to it."""
    world = complete_world(np.random.default_rng(seed))
    world = world.but(
        load_known=LoadKnown.YESTERDAY, gusts=tuple(g for g in world.gusts if g[0] < step * STEP_S)
    )
    done = run(world, policy)
    other = run(changed_after(world, step, np.random.default_rng(seed + 1)), policy)
    until_s = step * STEP_S - 1e-3

    def before(each: Run) -> list[str]:
        return [repr(x) for x in each.decisions if x.timestamp < until_s]

    assert before(done) == before(other)
