"""What must hold in every run of a world with one of our own policies, beside the invariants of all."""

from __future__ import annotations

import math

from worlds import SLOT_POLICIES, Run, World, slot_options

from beasy_sched.model.workflow import PREDECESSOR_LOST
from beasy_sched.policies.easy import NO_STEP_ENERGY
from beasy_sched.testing.invariants import check_run, lost_successors

AT_STEPS = ("follow-plan", "peak", "next", "last", "workload", "power-reactive")
"""Policies that change servers at the beginning of a step only."""
SUCCESSORS_RULES = (PREDECESSOR_LOST, "its workflow was refused", "no slot before its deadline")
"""The last two are GreenSlot's, a plug-in."""
LATE_S = 2e-3
"""How late the first message of a step may be taken for its beginning: two moments."""
SLEEPS_BETWEEN = "the plan has it asleep"
"""The rule by which `beasy` lets idle servers sleep within a step."""


def check(world: World, done: Run) -> None:
    check_run(world, done)
    check_rules(world, done)
    check_slots(world, done)
    check_inside_steps(done)


def check_rules(world: World, done: Run) -> None:
    """A job that is refused takes with it those that wait for it; an unlimited grid has energy for all."""
    assert set(lost_successors(world, done).values()) <= set(SUCCESSORS_RULES)
    if world.grid is not None and math.isinf(world.grid.import_limit_w):
        rules = {action.rule for action in done.witness.actions}
        assert not any(rule.startswith(NO_STEP_ENERGY) for rule in rules), rules


def check_slots(world: World, done: Run) -> None:
    """What policies of slots start in a slot was there as the slot began; idle servers go to sleep only then,
    if they are to sleep at the starts of slots."""
    if done.session.policy.name not in SLOT_POLICIES:
        return
    options = slot_options(world)
    for action in done.witness.actions:
        slot_s = (action.now + 1e-6) // options["slot_s"] * options["slot_s"]
        if action.what == "start":
            assert world.jobs[int(action.job[3:])].subtime <= slot_s + LATE_S, action
        if action.rule == "idle at the start of a slot":
            assert options.get("sleep", "slot") != "never", action
            assert options.get("sleep", "slot") == "at-once" or action.now <= slot_s + LATE_S, action


def check_inside_steps(done: Run) -> None:
    """Servers' states are chosen as a step begins. Within it, no job is killed, `beasy` only lets idle
    servers sleep that its changed plan has asleep, and the policies in `AT_STEPS` change nothing at all.
    """
    openings, name = set(done.witness.openings), done.session.policy.name
    for action in done.witness.actions:
        if action.now in openings or action.rule == "the run is over":
            continue
        assert action.what != "kill", action
        if action.what.startswith("P-state"):
            assert name not in AT_STEPS, action
            assert name != "beasy" or action.rule == SLEEPS_BETWEEN, action
