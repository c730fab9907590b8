"""What the storage guard cannot help, and what it counts, with figures worked out by hand (`guard_steps`)."""

from __future__ import annotations

import numpy as np
import pytest
from engine.guard_steps import BUSY_J, FALLING_J, IDLE_J, PLAIN, SLEEP, at_soc_min, next_step, rows
from talk import (
    ASLEEP,
    changed,
    completed,
    hosts,
    machines,
    production,
    start,
    submitted,
)
from worlds import FAST

from beasy_sched.engine.actions import Kill, SetPState
from beasy_sched.engine.guard import committed_energy_j, sleep_energy_j
from beasy_sched.model import events as e
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.host_states import HostState
from beasy_sched.model.platform import Platform

# --- what nothing can be done about ---


def test_the_sleep_floor_may_cross_soc_min_and_nothing_else_may() -> None:
    """All asleep at SoC_min without production: 4 x 5 W come from below it."""
    talk = at_soc_min()
    next_step(talk, 0.0)
    talk.at(67.0, changed(67.0, "0-3", ASLEEP))
    talk.at(120.0, production(120.0, 0.0))
    talk.at(120.001, e.RequestedCall(120.001))
    talk.at(180.0, production(180.0, 0.0))
    falling, floor = (row.record for row in talk.session.power.trace[1:])
    assert falling.discharge_w * 60 == pytest.approx(4 * FALLING_J)
    assert floor.discharge_w == pytest.approx(20.0)
    assert floor.unserved_w == 0.0
    assert floor.soc_after_pct == pytest.approx(20 - 100 * (4 * FALLING_J + 1200) / 100_000)
    assert not talk.session.view.budget


def test_an_idle_server_that_cannot_sleep_is_unserved() -> None:
    talk = at_soc_min(kinds=[PLAIN])
    next_step(talk, 0.0)
    talk.at(120.0, production(120.0, 0.0))
    assert talk.session.power.trace[1].record.unserved_w == pytest.approx(50.0)
    assert talk.session.power.trace[1].record.discharge_w == pytest.approx(0.0, abs=1e-6)


def test_the_floor_is_served_before_anything_else_of_production_that_comes_within_the_step() -> None:
    talk = at_soc_min()
    next_step(talk, 0.0)
    assert talk.session.view.budget.headroom_j == pytest.approx(-4 * FALLING_J)
    talk.at(90.0, production(90.0, 100.0))
    assert talk.session.view.budget.headroom_j == pytest.approx(3000 - 4 * FALLING_J)


def test_killing_saves_less_where_servers_cannot_sleep() -> None:
    talk = at_soc_min(kinds=[PLAIN, PLAIN])
    talk.run_job(0.0, "a", "0")
    talk.run_job(10.0, "b", "1")
    next_step(talk, (2 * BUSY_J - 3001) / 60)
    assert [job for action, job, _ in rows(talk) if action == "kill"] == ["w0!b", "w0!a"]
    assert talk.session.view.budget.headroom_j == pytest.approx(6000 - 3001)


def test_without_power_actions_the_guard_counts_on_no_sleep() -> None:
    talk = at_soc_min(count=2, power_actions=False)
    talk.run_job(0.0, "a", "0")
    next_step(talk, (BUSY_J + FALLING_J) / 60)
    assert rows(talk) == [("kill", "w0!a", "0")]
    assert talk.session.view.budget.headroom_j == pytest.approx(BUSY_J + FALLING_J - 2 * IDLE_J)


def test_hosts_out_of_service_are_counted_as_they_are() -> None:
    talk = at_soc_min()
    talk.at(1.0, machines(1.0, "2-3", "unavailable"))
    next_step(talk, (4 * IDLE_J - 2 * (IDLE_J - FALLING_J)) / 60)
    assert rows(talk) == [(SLEEP, "", "0-1")]
    assert talk.session.view.budget.headroom_j == pytest.approx(0.0, abs=1e-3)


def test_a_policys_own_kills_are_taken_into_account() -> None:
    """The policy kills a and lets its host sleep: that is enough, and the guard adds nothing."""
    talk = at_soc_min(count=2)
    talk.run_job(0.0, "a", "0")
    talk.run_job(0.0, "b", "1")
    talk.policy.say_at_step = lambda view: [Kill(view.running["w0!a"]), SetPState(hosts("0"), ASLEEP)]
    next_step(talk, (BUSY_J + FALLING_J) / 60)
    assert rows(talk) == [("kill", "w0!a", "0"), (SLEEP, "", "0")]
    assert talk.session.view.budget.headroom_j == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize(("left_j", "guarded"), [(IDLE_J, []), (IDLE_J - 1, [(SLEEP, "", "1")])])
def test_servers_that_a_policys_kill_leaves_idle_may_be_put_to_sleep(
    left_j: float, guarded: list[tuple[str, str, str]]
) -> None:
    talk = at_soc_min(count=2)
    talk.run_job(0.0, "a", "0-1")
    talk.policy.say_at_step = lambda view: [Kill(view.running["w0!a"]), SetPState(hosts("0"), ASLEEP)]
    next_step(talk, (FALLING_J + left_j) / 60)
    assert rows(talk) == [("kill", "w0!a", "0-1"), (SLEEP, "", "0"), *guarded]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("short_j", [-0.1, 0.1])
def test_speeds_that_a_policy_has_just_chosen_are_those_that_count(first: int, short_j: float) -> None:
    """Computing takes 100 W in P-state 0 and 70 W in P-state 1; the other server is idle."""
    talk = at_soc_min(count=2)
    talk.ask(0.0, lambda view: [SetPState(hosts("0"), first)])
    talk.run_job(0.0, "a", "0")
    talk.policy.say_at_step = lambda view: [SetPState(hosts("0"), 1 - first)]
    need_j = IDLE_J + (4200.0 if first == 0 else BUSY_J)
    next_step(talk, (need_j - short_j) / 60)
    assert rows(talk)[1:] == ([(SLEEP, "", "1")] if short_j > 0 else [])
    assert talk.session.view.budget.headroom_j == pytest.approx(
        -short_j if short_j < 0 else IDLE_J - FALLING_J - short_j, abs=1e-3
    )


def test_a_job_over_servers_loads_them_by_the_speeds_to_come() -> None:
    """One of its two goes at half speed from now on: the other is loaded by half, 75 W of 50 to 100."""
    talk = at_soc_min(count=2)
    talk.run_job(0.0, "a", "0-1")
    talk.policy.say_at_step = lambda view: [SetPState(hosts("0"), 1)]
    next_step(talk, 70.0 + 75.0)
    assert talk.session.view.budget.headroom_j == pytest.approx(0.0, abs=1e-3)


def test_a_delay_job_is_counted_as_the_idle_server_it_leaves() -> None:
    talk = at_soc_min(count=1)
    job = e.JobRequest("w0!a", 0.0, 1, "p", 1000)
    talk.ask(0.0, lambda view: [start(view, "a", "0")], e.JobSubmitted(0.0, job, {"type": "delay"}))
    next_step(talk, IDLE_J / 60)
    assert rows(talk) == []
    assert talk.session.view.budget.headroom_j == pytest.approx(0.0, abs=1e-3)
    talk.at(70.0, completed(70.0, "a"))
    assert talk.session.view.budget.headroom_j == pytest.approx(0.0, abs=1e-3)


def test_nothing_is_left_out_of_the_figures() -> None:
    """The figures of this file's head, from the kind they are about."""
    assert FAST.off_duration_s() == pytest.approx(7.0)
    assert FAST.on_duration_s() == pytest.approx(20.0)
    assert np.isclose(7 * 60 + 53 * 5, FALLING_J)


def test_submitted_jobs_wait_while_kills_are_under_way() -> None:
    talk = at_soc_min()
    talk.run_job(0.0, "a", "0-3")
    next_step(talk, 0.0)
    asked = len(talk.policy.asked)
    talk.at(60.0005, submitted(60.0005, "b"))
    assert len(talk.policy.asked) == asked


# --- a server that is falling asleep ---


def falling_asleep() -> Cluster:
    """One FAST server, sent to sleep at 55 s: it is down at 62 s."""
    cluster = Cluster(Platform((FAST,), np.zeros(1, dtype=np.intp), ("n0",)))
    cluster.begin_switch(np.array([0]), HostState.SWITCHING_OFF, ASLEEP, 55.0)
    return cluster


def test_a_server_that_falls_asleep_and_stays_so_is_counted_in_two_parts() -> None:
    cluster = falling_asleep()
    energy_j = committed_energy_j(cluster, 60.0, 60.0)
    assert energy_j == pytest.approx([2 * 60 + 58 * 5])


def test_a_server_that_falls_asleep_and_is_to_wake_is_counted_awake_again() -> None:
    cluster = falling_asleep()
    cluster.request(np.array([0]), 0)
    energy_j = committed_energy_j(cluster, 60.0, 60.0)
    assert energy_j == pytest.approx([2 * 60 + 20 * 80 + 38 * 50])


@pytest.mark.parametrize(
    ("wakes", "left_s", "energy_j"),
    [
        (False, 1.0, 60.0),
        (True, 1.0, 60.0),
        (True, 10.0, 2 * 60.0 + 8 * 80.0),
        (True, 22.0, 2 * 60.0 + 20 * 80.0),
    ],
)
def test_of_transitions_only_what_falls_into_the_step_counts(
    wakes: bool, left_s: float, energy_j: float
) -> None:
    """Two seconds of falling asleep are left, and twenty of waking come after them."""
    cluster = falling_asleep()
    if wakes:
        cluster.request(np.array([0]), 0)
    found_j = committed_energy_j(cluster, 60.0, left_s)
    assert found_j == pytest.approx([energy_j])


@pytest.mark.parametrize(("left_s", "energy_j"), [(3.0, 3 * 60.0), (7.0, 7 * 60.0), (8.0, 7 * 60.0 + 5.0)])
def test_a_server_that_sleeps_late_in_a_step_is_still_falling_asleep_at_its_end(
    left_s: float, energy_j: float
) -> None:
    cluster = Cluster(Platform((FAST,), np.zeros(1, dtype=np.intp), ("n0",)))
    assert sleep_energy_j(cluster, np.array([0]), left_s) == pytest.approx([energy_j])


# --- what may be drawn below SoC_min ---


def test_only_what_sleeps_in_a_step_draws_below_soc_min_in_it() -> None:
    """One server falls asleep at 60 s and sleeps in the next step at 5 W; the other idles at 50 W."""
    talk = at_soc_min(kinds=[FAST, PLAIN])
    next_step(talk, 0.0)
    talk.at(67.0, changed(67.0, "0", ASLEEP))
    for now in (120.0, 180.0):
        talk.at(now, production(now, 0.0))
    record = talk.session.power.trace[2].record
    assert (record.discharge_w, record.unserved_w) == (pytest.approx(5.0), pytest.approx(50.0))


def test_waking_draws_below_soc_min_and_idling_after_it_does_not() -> None:
    """7 s off at 60 W, 23 s asleep at 5 W, 20 s on at 80 W; then 10 s idle at 50 W."""
    talk = at_soc_min(count=1, first_w=0.0)
    talk.at(7.0, changed(7.0, "0", ASLEEP))
    talk.ask(30.0, lambda view: [SetPState(hosts("0"), 0)])
    talk.at(50.0, changed(50.0, "0", 0))
    talk.at(60.0, production(60.0, 0.0))
    record = talk.session.power.trace[0].record
    assert record.discharge_w * 60 == pytest.approx(7 * 60 + 23 * 5 + 20 * 80)
    assert record.unserved_w * 60 == pytest.approx(10 * 50)
