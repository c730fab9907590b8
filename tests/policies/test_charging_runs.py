"""Every policy on sites whose grid charges the battery, and whose peak costs."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from world_checks import check
from worlds import World, charging_world, run, session_of

from beasy_sched.policies.registry import built_in

POLICIES = sorted(built_in())
charging_worlds = st.integers(0, 2**32 - 1).map(lambda seed: charging_world(np.random.default_rng(seed)))


@settings(max_examples=examples(60), deadline=None)
@given(charging_worlds, st.sampled_from(POLICIES))
def test_every_run_is_in_order(world: World, policy: str) -> None:
    check(world, run(world, policy))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_charges(policy: str) -> None:
    """In some of a few worlds, the grid charges the battery of every policy."""
    worlds = (charging_world(np.random.default_rng(seed)) for seed in range(6))
    charged = 0
    for world in worlds:
        done = run(world, policy)
        check(world, done)
        assert done.session.power is not None
        charged += sum(row.record.grid_charge_w > 0 for row in done.session.power.trace)
        assert (done.session.power.contents is not None) == bool(
            world.site.grid and world.site.grid.charges_battery
        )
    assert charged


def test_a_session_meters_the_peak() -> None:
    world = next(
        world
        for world in (charging_world(np.random.default_rng(seed)) for seed in range(50))
        if world.grid is not None and world.grid.peak_per_kw
    )
    session = session_of(world, "easy")
    world.simulation().run(session.step)
    assert session.power is not None
    assert session.power.peak is not None
    means_w = [row.record.import_w for row in session.power.trace]
    assert 0 < session.power.peak.peak_w <= max(means_w)
