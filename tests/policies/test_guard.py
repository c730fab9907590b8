"""The storage guard, rule by rule, with figures worked out by hand.

Servers: idle 50 W, busy 100 W, asleep 5 W, falling asleep 7 s at 60 W, waking 20 s at 80 W; steps of
60 s. Falling asleep at a step's start costs 7 x 60 + 53 x 5 = 685 J, idling 3000 J, computing 6000 J,
sleeping 300 J: an idle server that sleeps saves 2315 J, a killed job's server 5315 J.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from talk import (
    ASLEEP,
    Talk,
    changed,
    completed,
    hosts,
    killed,
    machines,
    only,
    production,
    small_battery,
    start,
    submitted,
)
from worlds import FAST, plans_of

from beasy_sched.energy.hydrogen import HydrogenSpec
from beasy_sched.energy.site import GuardMode
from beasy_sched.energy.storage import Storage
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.model.power import HostState
from beasy_sched.policies.actions import Kill, SetPState
from beasy_sched.policies.guard import _fewest, committed_energy_j
from beasy_sched.policies.registry import make_policy
from beasy_sched.session.power import EnergySource

ASLEEP_J, IDLE_J, BUSY_J, FALLING_J = 300.0, 3000.0, 6000.0, 685.0
PLAIN = ServerKind("plain", (100.0,), (50.0,), (50.0,), (100.0,))


def at_soc_min(count: int = 4, first_w: float = 1000.0, **options: object) -> Talk:
    """A session in its first step, at SoC_min, with power enough for it; the battery hardly charges."""
    known = {key: options.pop(key) for key in ("power_actions", "kinds") if key in options}
    site = small_battery(**{"soc_pct": 20.0, "charge_w": 1e-9, **options})
    talk = Talk(count=count, site=site, energy=EnergySource.MODEL, **known)
    talk.at(0.0, production(0.0, first_w))
    return talk


def next_step(talk: Talk, watts: float) -> list[d.Decision]:
    """Begin the second step with this production."""
    return talk.at(60.0, production(60.0, watts))


def rows(talk: Talk, since: float = 60.0) -> list[tuple[str, str, str]]:
    """What was logged: (action, job, hosts)."""
    return [row[1:4] for row in talk.log if row[0] >= since]


SLEEP = f"P-state {ASLEEP}"


# --- how much must go ---


@pytest.mark.parametrize(
    ("short_j", "asleep"),
    [(-1.0, ""), (0.0, ""), (1.0, "3"), (2315.0, "3"), (2316.0, "2-3"), (9260.0, "0-3"), (11_000.0, "0-3")],
)
def test_idle_servers_sleep_as_many_as_needed_the_last_first(short_j: float, asleep: str) -> None:
    talk = at_soc_min()
    found = next_step(talk, (4 * IDLE_J - short_j) / 60)
    assert [x.resources for x in only(d.SetResourceState, found)] == ([hosts(asleep)] if asleep else [])
    saved_j = len(hosts(asleep)) * (IDLE_J - FALLING_J)
    assert talk.session.view.budget.headroom_j == pytest.approx(saved_j - short_j, abs=1e-6)


def test_the_battery_above_soc_min_is_used_first() -> None:
    talk = at_soc_min(soc_pct=50.0)
    assert only(d.SetResourceState, next_step(talk, 0.0)) == []
    assert talk.session.view.budget.headroom_j == pytest.approx(30_000 - 4 * IDLE_J)


def test_no_more_than_the_discharge_limit_of_it() -> None:
    talk = at_soc_min(soc_pct=90.0, discharge_w=150.0)
    found = next_step(talk, 0.0)
    assert only(d.SetResourceState, found) == [d.SetResourceState(60.0, hosts("2-3"), ASLEEP)]
    assert talk.session.view.budget.headroom_j == pytest.approx(150 * 60 - 2 * IDLE_J - 2 * FALLING_J)


@pytest.mark.parametrize(
    ("watts", "hydrogen_w", "asleep"),
    [(100.0, 100.0, ""), (99.0, 100.0, "3"), (300.0, -100.0, ""), (299.0, -100.0, "3")],
)
def test_the_planned_hydrogen_is_counted(watts: float, hydrogen_w: float, asleep: str) -> None:
    """Four idle servers take 200 W: production, more the fuel cell, less the electrolyzer."""
    tank = HydrogenSpec(1e-2, 5e-3, 0.0, electrolyzer_max_w=150.0, fuel_cell_max_w=150.0)
    site = small_battery(soc_pct=20.0, charge_w=1e-9)
    site = dataclasses.replace(site, storage=Storage(site.storage.battery, tank))
    platform = Platform((FAST,), np.zeros(4, dtype=np.intp), tuple(f"n{i:03}" for i in range(4)))
    states = np.zeros((3, 4), dtype=np.int8)
    talk = Talk(
        site=site, plans=plans_of(site, platform, [states], [hydrogen_w] * 3), energy=EnergySource.MODEL
    )
    found = talk.at(0.0, production(0.0, watts))
    assert [x.resources for x in only(d.SetResourceState, found)] == ([hosts(asleep)] if asleep else [])


# --- in which order ---


def test_wakes_are_cancelled_before_idle_servers_sleep_and_jobs_are_killed() -> None:
    talk = at_soc_min()
    talk.put_to_sleep(0.0, "0-1")
    talk.run_job(1.0, "a", "2")
    wish = lambda view: [SetPState(hosts("0-1"), 0)]  # noqa: E731
    talk.policy.say_at_step = wish
    waking_j = 20 * 80 + 40 * 50
    needs_j = 2 * waking_j + BUSY_J + IDLE_J
    found = next_step(talk, (needs_j - 2 * (waking_j - ASLEEP_J)) / 60)
    assert only(d.SetResourceState, found) == []
    assert rows(talk) == [("P-state 0", "", "0-1"), (SLEEP, "", "0-1")]
    assert talk.session.cluster.state[:2].tolist() == [HostState.ASLEEP] * 2
    assert not talk.session.view.waking_wished().any()
    assert talk.session.view.budget.headroom_j == pytest.approx(0.0, abs=1e-3)


def test_then_idle_servers_sleep_before_jobs_are_killed() -> None:
    talk = at_soc_min()
    talk.run_job(1.0, "a", "0-1")
    next_step(talk, (2 * BUSY_J + 2 * FALLING_J) / 60)
    assert rows(talk) == [(SLEEP, "", "2-3")]


def test_then_jobs_are_killed_and_their_servers_sleep() -> None:
    talk = at_soc_min()
    talk.run_job(1.0, "a", "0-1")
    found = next_step(talk, (2 * BUSY_J + 2 * FALLING_J - 1) / 60)
    assert rows(talk) == [(SLEEP, "", "2-3"), ("kill", "w0!a", "0-1"), (SLEEP, "", "0-1")]
    assert only(d.KillJobs, found) == []
    assert talk.at(60.001, e.RequestedCall(60.001)) != []
    assert only(d.SetResourceState, talk.at(60.001, killed(60.001, "a", "0-1"))) == [
        d.SetResourceState(60.001, hosts("0-1"), ASLEEP)
    ]


def test_a_server_that_is_waking_sleeps_as_soon_as_it_can() -> None:
    talk = at_soc_min(count=1)
    talk.put_to_sleep(0.0, "0")
    talk.ask(50.0, lambda view: [SetPState(hosts("0"), 0)])
    assert only(d.SetResourceState, next_step(talk, 0.0)) == []
    assert talk.session.view.wakes == []
    assert only(d.SetResourceState, talk.at(70.0, changed(70.0, "0", 0))) == [
        d.SetResourceState(70.0, hosts("0"), ASLEEP)
    ]


def test_starts_come_after_the_guard() -> None:
    """What the guard leaves is two idle servers and nothing for the job that comes with the step."""
    site = small_battery(soc_pct=20.0, charge_w=1e-9)
    talk = Talk(make_policy("easy"), site=site, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 1000.0))
    found = talk.at(60.0, production(60.0, (2 * IDLE_J + 2 * FALLING_J) / 60), submitted(60.0, "a"))
    assert only(d.ExecuteJob, found) == []
    assert [row for row in rows(talk) if row[0] != "postpone"] == [(SLEEP, "", "2-3")]


# --- which jobs ---


def three_jobs(mode: GuardMode, *, veto: bool = True) -> Talk:
    """Spent at 60 s: by a on one host 6000 J, by b on two 6000 J, by c on one 2000 J."""
    talk = at_soc_min(mode=mode, veto=veto)
    talk.run_job(0.0, "a", "0")
    talk.run_job(30.0, "b", "1-2")
    talk.run_job(40.0, "c", "3")
    return talk


SAVED_J = BUSY_J - FALLING_J


@pytest.mark.parametrize(
    ("short_j", "killed"),
    [
        (1.0, ["c"]),
        (SAVED_J, ["c"]),
        (SAVED_J + 1, ["c", "a"]),
        (2 * SAVED_J + 1, ["c", "b"]),
        (3 * SAVED_J + 1, ["c", "a", "b"]),
        (4 * SAVED_J + 1, ["c", "a", "b"]),
    ],
)
def test_shed_kills_those_that_spent_least_and_nobody_needlessly(short_j: float, killed: list[str]) -> None:
    talk = three_jobs(GuardMode.SHED)
    next_step(talk, (4 * BUSY_J - short_j) / 60)
    assert [job for action, job, _ in rows(talk) if action == "kill"] == [f"w0!{x}" for x in killed]


@pytest.mark.parametrize("short_j", [1.0, SAVED_J, 24_000.0])
def test_kill_all_kills_all(short_j: float) -> None:
    talk = three_jobs(GuardMode.KILL_ALL)
    next_step(talk, (4 * BUSY_J - short_j) / 60)
    assert sorted(job for action, job, _ in rows(talk) if action == "kill") == ["w0!a", "w0!b", "w0!c"]


@pytest.mark.parametrize("veto", [True, False])
@pytest.mark.parametrize(("short_j", "killed"), [(0.0, []), (1.0, ["w0!c"])])
def test_the_guard_acts_without_veto_too(veto: bool, short_j: float, killed: list[str]) -> None:
    talk = three_jobs(GuardMode.SHED, veto=veto)
    next_step(talk, (4 * BUSY_J - short_j) / 60)
    assert [job for action, job, _ in rows(talk) if action == "kill"] == killed


@pytest.mark.parametrize("mode", GuardMode)
def test_neither_kills_anyone_where_there_is_energy_for_all(mode: GuardMode) -> None:
    talk = three_jobs(mode)
    next_step(talk, 4 * BUSY_J / 60)
    assert rows(talk) == []


@pytest.mark.parametrize(
    ("saves_j", "missing_j", "chosen"),
    [
        ([], 5, []),
        ([3, 3], 0, []),
        ([1, 10], 10, [1]),  # the first turns out not to be needed
        ([10, 1], 10, [0]),
        ([2, 2, 9], 9, [2]),
        ([2, 2, 9], 10, [0, 2]),
        ([0, 4], 4, [1]),  # what saves nothing is left alone
        ([1, 1], 5, [0, 1]),
    ],
)
def test_fewest(saves_j: list[float], missing_j: float, chosen: list[int]) -> None:
    assert _fewest([float(x) for x in saves_j], missing_j) == chosen


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
    energy_j = committed_energy_j(cluster, np.array([-1], dtype=np.int16), 60.0, 60.0)
    assert energy_j == pytest.approx([2 * 60 + 58 * 5])


def test_a_server_that_falls_asleep_and_is_to_wake_is_counted_awake_again() -> None:
    cluster = falling_asleep()
    energy_j = committed_energy_j(cluster, np.array([0], dtype=np.int16), 60.0, 60.0)
    assert energy_j == pytest.approx([2 * 60 + 20 * 80 + 38 * 50])
