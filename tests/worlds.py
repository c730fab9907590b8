"""Small random worlds (`beasy_sched.testing.worlds`) for our own policies, which have options for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from beasy_sched.engine import Session
from beasy_sched.engine.policy import Policy
from beasy_sched.policies.registry import built_in, make_policy
from beasy_sched.testing import worlds
from beasy_sched.testing.random_plans import plans_of, world_plans
from beasy_sched.testing.witness import Witness
from beasy_sched.testing.worlds import (
    FAST,
    GEARED,
    ONE,
    PLAIN,
    SLEEP_FIRST,
    SLOW,
    STEP_S,
    WorldJob,
    breaking_world,
    charging_world,
    complete_world,
    failing_world,
    green_world,
    random_world,
    rich_world,
    server,
)
from beasy_sched.testing.worlds import SmallWorld as World
from beasy_sched.testing.worlds import WorldRun as Run

__all__ = [
    "DEFAULT_SLOTS",
    "FAST",
    "GEARED",
    "ONE",
    "PLAIN",
    "SLEEP_FIRST",
    "SLOT_POLICIES",
    "SLOW",
    "STEP_S",
    "Run",
    "World",
    "WorldJob",
    "breaking_world",
    "charging_world",
    "complete_world",
    "failing_world",
    "green_world",
    "plans_of",
    "play",
    "policy_of",
    "random_world",
    "rich_world",
    "run",
    "server",
    "session_of",
    "slot_options",
    "world_plans",
]

SLOT_POLICIES = [name for name in ("greenslot", "lowest-window", "conventional") if name in built_in()]
"""Policies that decide at the starts of slots."""
DEFAULT_SLOTS = {"slot_s": STEP_S, "window_h": 6 * STEP_S / 3600}
_SHARED_OPTIONS = ("slot_s", "sleep", "default_slack_h", "internal_deadlines")


def run(world: World, policy: str, *, with_site: bool = True) -> Run:
    """Run a policy on a world in the embedded simulator, with a witness."""
    return worlds.run_world(world, policy_of(world, policy), with_site=with_site)


def play(world: World, policy: str, *, with_site: bool = True) -> tuple[World, Run]:
    """The same for a world whose hosts leave and return: where Batsim aborts on a return, they stay away."""
    return worlds.play_world(world, lambda: policy_of(world, policy), with_site=with_site)


def session_of(
    world: World, policy: str, witness: Witness | None = None, *, with_site: bool = True
) -> Session:
    """A session for a world, its plans included where the policy needs them."""
    return worlds.session_of(world, policy_of(world, policy), witness, with_site=with_site)


def policy_of(world: World, name: str, slots: dict[str, Any] | None = None) -> Policy:
    """A policy with the options that it has for this world; ``slots`` take the place of `slot_options`."""
    options = (slots or slot_options(world)) if name in SLOT_POLICIES else {}
    shared = {option: value for option, value in options.items() if option in _SHARED_OPTIONS}
    return make_policy(name, shared if name == "conventional" else options)


def slot_options(world: World) -> dict[str, Any]:
    """Options of the policies that decide in slots: a world always has the same ones."""
    if world.grid is None and not world.predicted_w and not world.base_w:
        return DEFAULT_SLOTS
    known = (world.hosts, len(world.jobs), world.windows, world.capacity_j, sum(world.predicted_w))
    rng = np.random.default_rng([int(each) for each in known])  # of nothing that happens later
    slot_s = float(rng.choice([60.0, 60.0, 120.0, 180.0]))
    objectives: list[Any] = ["price", "price"]
    if world.grid is not None and world.grid.carbon:
        from beasy_sched.plugins.greenslot.greenslot_policy import Mix

        objectives += ["carbon", Mix(price=1.0, carbon=0.001)]
    return {
        "slot_s": slot_s,
        "window_h": slot_s * int(rng.integers(2, 10)) / 3600.0,
        "sleep": str(rng.choice(["slot", "slot", "at-once", "never"])),
        "default_slack_h": [24.0, 0.1, None][rng.integers(3)],
        "internal_deadlines": str(rng.choice(["slots", "exact"])),
        "prices": str(rng.choice(["real", "real", "flat"])),
        "objective": objectives[rng.integers(len(objectives))],
        "beyond": str(rng.choice(["green", "anywhere"])),
        "tie": str(rng.choice(["latest", "earliest"])),
        "tighten": str(rng.choice(["ancestors", "job", "both", "none"])),
        "price_floor": [None, 0.0][rng.integers(2)],
    }
