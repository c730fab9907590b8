"""BEASY's option `window_end`: a job may start if its work, not its walltime, ends within the known windows.

Servers with three speeds, 200, 100 (the reference) and 50 flops/s, in steps of 60 s. The job takes the first
one; those that are idle can pay for its speed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from talk import Talk, completed, only, production, small_battery, submitted
from worlds import plans_of, random_world

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.platform import Platform, ServerKind, SleepState
from beasy_sched.policies.beasy.beasy_policy import Beasy
from beasy_sched.testing.worlds import run_world

QUICK = ServerKind(
    "quick",
    speeds_flops=(200.0, 100.0, 50.0, 100.0, 1 / 7, 1 / 20),
    idle_w=(50.0, 50.0, 50.0, 5.0, 60.0, 80.0),
    epsilon_w=(50.0, 50.0, 50.0, 5.0, 60.0, 80.0),
    full_w=(200.0, 100.0, 70.0, 5.0, 60.0, 80.0),
    sleeps=(SleepState(3, 4, 5),),
)
BY_WORK = {"window_end": "work", "long_jobs": "set-aside"}


def talk_of(states: list[int], options: dict[str, Any], *, idle: int = 2, **site: Any) -> Talk:
    """A window with these states of all its servers."""
    count = 1 + idle
    space = small_battery(**{"capacity_j": 1e6, "steps": len(states), **site})
    platform = Platform((QUICK,), np.zeros(count, dtype=np.intp), tuple(f"n{i:03}" for i in range(count)))
    plans = plans_of(space, platform, [np.array([states] * count, dtype=np.int8).T])
    policy = Beasy({"compensate": False, **options})
    talk = Talk(policy, kinds=[QUICK] * count, site=space, plans=plans, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 1e4))
    return talk


def started(decisions: list[d.Decision]) -> list[str]:
    return [one.job_id.removeprefix("w0!") for one in only(d.ExecuteJob, decisions)]


@pytest.mark.parametrize(
    ("walltime", "options", "starts"),
    [
        (230.0, {}, True),
        (231.0, {}, False),
        (241.0, {"long_jobs": "set-aside"}, False),
        (241.0, {}, True),  # no plan reaches so far: up to its end
        (None, {}, True),
        (231.0, BY_WORK, True),
        (410.0, BY_WORK, True),  # 50 s at the reference speed, 360 at twice that: 230 s
        (411.0, BY_WORK, False),
        (820.0, {**BY_WORK, "user_error": 0.5}, True),
        (822.0, {**BY_WORK, "user_error": 0.5}, False),
        (None, BY_WORK, False),
    ],
)
def test_which_jobs_may_start_ten_seconds_into_a_window_of_240(
    walltime: float | None, options: dict[str, Any], starts: bool
) -> None:
    talk = talk_of([1, 1, 1, 1], options)
    assert bool(started(talk.at(10.0, submitted(10.0, "a", 1, walltime)))) is starts
    if not starts:
        told = "ends after the last window" if walltime else "no walltime to plan with"
        assert told in [rule for _, _, _, _, rule in talk.log]


def test_its_server_is_at_full_speed_from_the_next_step_on() -> None:
    talk = talk_of([1, 1, 2, 1], BY_WORK)
    assert started(talk.at(10.0, submitted(10.0, "a", 1, 410.0))) == ["a"]
    assert talk.policy.live.plan.states[:, 0].tolist() == [1, 0, 0, 0]
    for step in (1, 2, 3):
        now = 60.0 * step
        found = only(d.SetResourceState, talk.at(now, production(now, 1e4)))
        speeds = [one.state for one in found if 0 in one.resources]
        assert speeds == ([0] if step == 1 else [])
    talk.at(239.0, e.RequestedCall(239.0))
    (flops,) = talk.session.view.progress().work_flops
    assert flops == pytest.approx(41_000.0 - 200.0)


def test_after_an_early_end_the_server_is_planned_as_before() -> None:
    talk = talk_of([1, 1, 2, 1], BY_WORK)
    talk.at(10.0, submitted(10.0, "a", 1, 410.0))
    talk.at(70.0, production(70.0, 1e4))
    talk.at(80.0, completed(80.0, "a"))
    assert talk.policy.live.plan.states[1:, 0].tolist() == [1, 2, 1]


def test_full_speed_must_be_paid_for() -> None:
    """At full speed the three steps take 18 kJ more than planned, and there is nobody to save them."""
    talk = talk_of([1, 1, 1, 1], BY_WORK, idle=0)
    assert started(talk.at(10.0, submitted(10.0, "a", 1, 300.0))) == []
    assert "plan cannot pay" in [rule for _, _, _, _, rule in talk.log]


def test_a_job_whose_run_time_does_not_depend_on_speed_counts_by_its_walltime() -> None:
    talk = talk_of([0, 0, 0, 0], BY_WORK)
    delay = e.JobSubmitted(10.0, e.JobRequest("w0!a", 10.0, 1, "p", 300.0), {"type": "delay", "delay": 5})
    assert started(talk.at(10.0, delay, submitted(10.0, "b", 1, 300.0))) == ["b"]


def test_compensation_slows_a_job_no_further_than_the_window_allows() -> None:
    """Little production: the plan must save, yet a job that is hurried keeps its speed if that is enough."""
    talk = talk_of([0, 0, 0, 0], {**BY_WORK, "compensate": True}, soc_pct=60.0)
    assert started(talk.at(1.0, submitted(1.0, "a", 1, 440.0))) == ["a"]
    for step in (1, 2, 3):
        talk.at(60.0 * step, production(60.0 * step, 1e4))
    (flops,) = talk.session.view.progress().work_flops
    assert flops == pytest.approx(179.0 * 200.0)


@pytest.mark.parametrize("seed", range(6))
def test_where_no_speed_exceeds_the_reference_both_are_the_same(seed: int) -> None:
    world = random_world(np.random.default_rng(seed))
    by_walltime = run_world(world, Beasy({"long_jobs": "set-aside"})).decisions
    assert run_world(world, Beasy(BY_WORK)).decisions == by_walltime
