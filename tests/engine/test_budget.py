"""The headroom of a step: what is granted, what is given back, and that neither happens twice."""

from __future__ import annotations

import pytest
from talk import (
    ASLEEP,
    Talk,
    changed,
    completed,
    hosts,
    killed,
    only,
    production,
    small_battery,
    start,
    submitted,
)

from beasy_sched.engine.actions import Kill, SetPState
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.policies.registry import make_policy

IDLE_J, BUSY_J, FALLING_J = 3000.0, 6000.0, 685.0
START_J = BUSY_J - IDLE_J
"""What a job adds to an idle server over a whole step."""
WAKE_J = 20 * 80 + 40 * 50 - 60 * 5
"""What waking adds to a sleeping server over a whole step."""


def at_step(headroom_j: float, policy: str | None = None, *, count: int = 4, veto: bool = True) -> Talk:
    """A session in its first step, all servers idle, at SoC_min, with this headroom."""
    site = small_battery(soc_pct=20.0, charge_w=1e-9, veto=veto)
    talk = Talk(policy and make_policy(policy), count=count, site=site, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, (count * IDLE_J + headroom_j) / 60))
    assert headroom(talk) == pytest.approx(headroom_j)
    return talk


def headroom(talk: Talk) -> float:
    return talk.session.view.budget.headroom_j


def started(decisions: list[d.Decision]) -> list[str]:
    return [x.job_id for x in only(d.ExecuteJob, decisions)]


# --- starts ---


@pytest.mark.parametrize("policy", ["easy", "workload-reactive"])
def test_the_veto_stops_starts_that_do_not_fit(policy: str) -> None:
    talk = at_step(2.5 * START_J, policy)
    jobs = [submitted(0.0, name) for name in "abcd"]
    assert started(talk.at(0.0, *jobs)) == ["w0!a", "w0!b"]
    assert headroom(talk) == pytest.approx(0.5 * START_J)


def test_in_the_middle_of_a_step_only_the_rest_of_it_counts() -> None:
    talk = at_step(1.5 * START_J, "easy")
    assert started(talk.at(0.0, submitted(0.0, "a"), submitted(0.0, "b"))) == ["w0!a"]
    assert started(talk.at(29.0)) == []
    assert started(talk.at(30.0)) == ["w0!b"]
    assert headroom(talk) == pytest.approx(0.0, abs=1e-3)
    assert started(talk.at(45.0, submitted(45.0, "c"))) == []


def test_without_the_veto_everything_starts_and_the_count_goes_on() -> None:
    talk = at_step(START_J, "easy", veto=False)
    jobs = [submitted(0.0, name) for name in "abcd"]
    assert len(started(talk.at(0.0, *jobs))) == 4
    assert headroom(talk) == pytest.approx(-3 * START_J)


def test_a_delay_job_costs_nothing() -> None:
    talk = at_step(0.0, "easy")
    job = e.JobRequest("w0!a", 0.0, 4, "p", 1000)
    assert started(talk.at(0.0, e.JobSubmitted(0.0, job, {"type": "delay"}))) == ["w0!a"]


# --- wakes ---


def asleep(headroom_j: float, *, veto: bool = True) -> Talk:
    """Four sleeping servers under `easy`, in the second step with this headroom."""
    site = small_battery(soc_pct=20.0, charge_w=1e-9, veto=veto)
    talk = Talk(make_policy("easy"), site=site, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 0.0))
    talk.at(7.0, changed(7.0, "0-3", ASLEEP))
    talk.session.power.storage = site.storage.start()
    talk.at(60.0, production(60.0, 0.0))
    talk.session.power.storage = site.storage.start()
    talk.at(120.0, production(120.0, (1200 + headroom_j) / 60))
    assert headroom(talk) == pytest.approx(headroom_j)
    return talk


@pytest.mark.parametrize(
    ("wakes", "veto", "woken"), [(0.9, True, ""), (2.5, True, "0-1"), (9, True, "0-2"), (0.9, False, "0-2")]
)
def test_as_many_wakes_as_fit(wakes: float, veto: bool, woken: str) -> None:
    talk = asleep(wakes * WAKE_J, veto=veto)
    found = only(d.SetResourceState, talk.at(120.0, submitted(120.0, "a", 3)))
    assert [x.resources for x in found] == ([hosts(woken)] if woken else [])
    assert headroom(talk) == pytest.approx((wakes - len(hosts(woken))) * WAKE_J)


def test_a_wake_is_paid_for_once() -> None:
    """Asked for again while it waits or is under way, it takes nothing more."""
    talk = asleep(9 * WAKE_J)
    talk.at(120.0, submitted(120.0, "a", 3))
    left_j = headroom(talk)
    assert only(d.SetResourceState, talk.at(121.0)) == []
    assert only(d.SetResourceState, talk.at(139.0, submitted(139.0, "b", 1))) != []
    assert headroom(talk) == pytest.approx(left_j - (20 * 80 + 21 * 50 - 41 * 5))


def test_a_wake_late_in_a_step_costs_only_its_part_of_the_transition() -> None:
    talk = asleep(2 * WAKE_J)
    talk.at(170.0, submitted(170.0, "a"))
    assert headroom(talk) == pytest.approx(2 * WAKE_J - 10 * 75)


def test_a_wake_that_begins_with_the_step_is_part_of_its_headroom() -> None:
    talk = Talk(site=small_battery(soc_pct=90.0), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 1000.0))
    talk.put_to_sleep(0.0, "0")
    talk.policy.say_at_step = lambda view: [SetPState(hosts("0"), 0)]
    talk.at(60.0, production(60.0, 1000.0))
    budget = talk.session.view.budget
    assert headroom(talk) == pytest.approx(budget.supply_j - 3 * IDLE_J - (20 * 80 + 40 * 50))


# --- giving back ---


def test_a_job_that_ends_gives_back_its_rest_once() -> None:
    talk = at_step(START_J)
    talk.ask(0.0, lambda view: [start(view, "a", "0")], submitted(0.0, "a"))
    assert talk.session.view.budget.grant_start(hosts("0").ids)
    talk.at(20.0, completed(20.0, "a"))
    assert headroom(talk) == pytest.approx(START_J * 40 / 60)
    talk.at(20.0)
    assert headroom(talk) == pytest.approx(START_J * 40 / 60)


def test_a_job_at_half_speed_gives_back_what_it_draws() -> None:
    """70 % of 100 W busy and 50 W idle at P-state 1: 20 W for the 40 s that are left."""
    talk = at_step(START_J)
    talk.run_job(0.0, "a", "0")
    talk.ask(10.0, lambda view: [SetPState(hosts("0"), 1)])
    before_j = headroom(talk)
    talk.at(20.0, completed(20.0, "a"))
    assert headroom(talk) == pytest.approx(before_j + 20 * 40)


def test_a_job_that_the_guard_kills_gives_nothing_back_a_second_time() -> None:
    """The headroom after the guard has the kill in it already."""
    talk = at_step(START_J)
    talk.run_job(0.0, "a", "0-3")
    talk.at(60.0, production(60.0, (4 * BUSY_J - 1) / 60))
    left_j = headroom(talk)
    assert left_j == pytest.approx(4 * (BUSY_J - FALLING_J) - 1)
    talk.at(60.001, e.RequestedCall(60.001))
    talk.at(60.001, killed(60.001, "a", "0-3"))
    assert headroom(talk) == pytest.approx(left_j)


def test_nor_one_that_ends_by_itself_before_the_guards_kill() -> None:
    talk = at_step(START_J)
    talk.run_job(0.0, "a", "0-3")
    talk.at(60.0, production(60.0, (4 * BUSY_J - 1) / 60))
    left_j = headroom(talk)
    talk.at(60.0005, completed(60.0005, "a", "0-3"))
    assert headroom(talk) == pytest.approx(left_j)


def test_a_kill_of_the_policys_own_within_a_step_gives_back_at_the_jobs_end() -> None:
    talk = at_step(START_J)
    talk.run_job(0.0, "a", "0")
    before_j = headroom(talk)
    talk.ask(30.0, lambda view: [Kill(view.running["w0!a"])])
    assert headroom(talk) == pytest.approx(before_j)
    talk.at(30.001, e.RequestedCall(30.001))
    talk.at(30.001, killed(30.001, "a"))
    assert headroom(talk) == pytest.approx(before_j + START_J * 29.999 / 60)


def test_a_policys_kill_at_a_step_is_in_the_headroom_already() -> None:
    talk = at_step(START_J)
    talk.run_job(0.0, "a", "0")
    talk.policy.say_at_step = lambda view: [Kill(view.running["w0!a"])]
    talk.at(60.0, production(60.0, 500.0))
    left_j = headroom(talk)
    assert left_j == pytest.approx(500 * 60 - 4 * IDLE_J, rel=1e-6)
    talk.at(60.001, e.RequestedCall(60.001))
    talk.at(60.001, killed(60.001, "a"))
    assert headroom(talk) == pytest.approx(left_j)
