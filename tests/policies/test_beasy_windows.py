"""BEASY over windows: predictions once a window from the true level, and plans known beyond the window.

Servers of `worlds.FAST`, busy 100 W, in steps of 60 s; a battery of 100 kJ without losses, SoC_min at 20 kJ.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from talk import ASLEEP, Talk, changed, completed, only, production, small_battery, submitted
from worlds import FAST, plans_of

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform
from beasy_sched.planner.plan import PlanStore
from beasy_sched.policies.registry import make_policy

Z, ON = ASLEEP, 0
NO_COMPENSATION = {"compensate": False}


def started(decisions: list[d.Decision]) -> list[str]:
    return [x.job_id.removeprefix("w0!") for x in only(d.ExecuteJob, decisions)]


def talk_of(
    *windows: list[list[int]],
    name: str = "beasy",
    doubled: int | None = None,
    run_windows: int | None = None,
    **site_changes: Any,
) -> Talk:
    """States by window, step and server; ``doubled`` is a window whose demand is expected to be twice its
    production, so that all nine curves fall in it."""
    site = small_battery(**{"capacity_j": 100_000.0, "steps": len(windows[0]), **site_changes})
    count = len(windows[0][0])
    platform = Platform((FAST,), np.zeros(count, dtype=np.intp), tuple(f"n{i:03}" for i in range(count)))
    plans = [*plans_of(site, platform, [np.array(window, dtype=np.int8) for window in windows])]
    if doubled is not None:
        power = plans[doubled].power
        plans[doubled] = dataclasses.replace(
            plans[doubled], power=dataclasses.replace(power, load_w=2 * power.load_w)
        )
    policy = make_policy(name, NO_COMPENSATION if name == "beasy" else {})
    return Talk(
        policy,
        count=count,
        site=site,
        plans=PlanStore(plans),
        windows=run_windows or len(windows),
        energy=EnergySource.MODEL,
    )


def to_step(talk: Talk, step: int, watts: float = 1e4) -> None:
    """Begin every step up to this one."""
    first = 0 if talk.session.power.budget is None else talk.session.power.budget.step + 1
    for each in range(first, step + 1):
        talk.at(60.0 * each, production(60.0 * each, watts))


def first_at_an_end(talk: Talk, step: int) -> list[str]:
    """One server: long has the larger slowdown, (50 + 150) / 150; short the smaller size, (1 + 40) / 40."""
    now = 60.0 * step
    talk.at(now + 1, submitted(now + 1, "x", 1, 100.0))
    talk.at(now + 2, submitted(now + 2, "long", 1, 150.0))
    talk.at(now + 51, submitted(now + 51, "short", 1, 40.0))
    return started(talk.at(now + 52, completed(now + 52, "x", "0")))


# --- predictions: once a window, from the level at its start ---


@pytest.mark.parametrize(("step", "first"), [(3, "long"), (5, "short")])
def test_the_smallest_job_is_first_in_steps_that_were_predicted_to_be_dangerous(
    step: int, first: str
) -> None:
    """6 kJ a step: from 50 kJ, the median curve and six others are below 20 kJ at the end of the sixth step,
    and none of the fourth. That the battery is full by then changes no prediction of this window."""
    talk = talk_of([[ON]] * 12, doubled=0)
    to_step(talk, step)
    assert talk.session.power.trace[-1].record.soc_after_pct == pytest.approx(90.0)
    assert first_at_an_end(talk, step) == [first]


@pytest.mark.parametrize(("watts", "first"), [(1e4, "long"), (50.0, "short")])
def test_a_windows_predictions_start_from_the_true_level(watts: float, first: str) -> None:
    """The plan has 50 kJ as the second window begins. Really it is 90 kJ, from which no curve falls below
    SoC_min in six steps, or the 50 kJ that it had been, since an idle server takes 50 W."""
    talk = talk_of([[ON]] * 12, [[ON]] * 12, doubled=1)
    to_step(talk, 12, watts)
    to_step(talk, 17)
    assert first_at_an_end(talk, 17) == [first]


# --- plans known beyond the window ---


@pytest.mark.parametrize(
    ("known", "walltime", "starts"), [(1, 180.0, False), (2, 180.0, True), (2, 360.0, False)]
)
def test_verification_runs_on_into_the_next_known_window(known: int, walltime: float, starts: bool) -> None:
    """A run of three windows of three steps, of which one or two are planned."""
    talk = talk_of(*[[[ON]] * 3] * known, run_windows=3)
    to_step(talk, 0)
    assert started(talk.at(1.0, submitted(1.0, "a", 1, walltime))) == (["a"] if starts else [])


def test_a_job_over_the_boundary_changes_the_next_windows_plan() -> None:
    """Server 0 sleeps after its job, which pays for server 1 in the next window's first step."""
    talk = talk_of([[ON, ON]] * 3, [[ON, Z]] * 3, soc_pct=50.0, capacity_j=1e7)
    to_step(talk, 0)
    assert started(talk.at(1.0, submitted(1.0, "other", 1, 100.0), submitted(1.0, "a", 1, 200.0))) == [
        "other",
        "a",
    ]
    to_step(talk, 3)
    assert "w0!a" in talk.session.cluster.running
    assert only(d.SetResourceState, talk.at(201.0, completed(201.0, "a", "1"))) == [
        d.SetResourceState(201.0, HostSet.parse("1"), Z)
    ]


@pytest.mark.parametrize("name", ["beasy", "follow-plan", "peak", "next", "last", "workload"])
@pytest.mark.parametrize(("walltime", "starts"), [(190.0, True), (190.1, False)])
def test_reservations_reach_into_the_next_window(name: str, walltime: float, starts: bool) -> None:
    """The head wants two servers; the second is planned on from the next window, and ready at 200 s."""
    talk = talk_of([[ON, Z]] * 3, [[ON, ON]] * 3, name=name)
    talk.at(0.0, production(0.0, 105.0))
    talk.at(7.0, changed(7.0, "1", Z))
    found = talk.at(10.0, submitted(10.0, "head", 2, 100.0), submitted(10.0, "filler", 1, walltime))
    assert started(found) == (["filler"] if starts else [])
