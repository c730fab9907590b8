"""BEASY in a session: Algorithm 1 on small plans, what early ends give back, compensation at a step.

Servers of `worlds.FAST` in steps of 60 s: 100 W at full speed, 70 W at half of it, asleep 5 W; they fall
asleep in 7 s and wake in 20 s.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from talk import ASLEEP, Talk, changed, completed, only, production, small_battery, submitted
from worlds import FAST, plans_of, random_world
from worlds import run as run_world

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model.platform import Platform
from beasy_sched.policies.beasy.beasy_policy import Beasy

Z = ASLEEP
ON = 0


def talk_of(*rows: Sequence[int], options: dict[str, Any] | None = None, **changes: Any) -> Talk:
    """One row of states a step; production as the plan has it unless ``watts`` says otherwise."""
    states = np.array(rows, dtype=np.int8)
    count = states.shape[1]
    site_changes = {"soc_pct": 50.0, "capacity_j": 1e7, "steps": len(rows), **changes}
    watts = site_changes.pop("watts", None)
    site = small_battery(**site_changes)
    platform = Platform((FAST,), np.zeros(count, dtype=np.intp), tuple(f"n{i:03}" for i in range(count)))
    plans = plans_of(site, platform, [states])
    policy = Beasy({"compensate": False, **(options or {})})
    talk = Talk(policy, count=count, site=site, plans=plans, energy=EnergySource.MODEL)
    talk.begun = talk.at(0.0, production(0.0, plans[0].power.renew_w[0] if watts is None else watts))
    return talk


def plan(talk: Talk) -> list[str]:
    """The plan as it is now, a text a server."""
    assert isinstance(talk.policy, Beasy)
    return ["".join("1s."[state] for state in column) for column in talk.policy.live.plan.states.T]


def started(decisions: list[d.Decision]) -> list[tuple[str, str]]:
    return [(x.job_id[3:], str(x.alloc)) for x in only(d.ExecuteJob, decisions)]


def switched(decisions: list[d.Decision]) -> list[tuple[str, int]]:
    return [(str(x.resources), x.state) for x in only(d.SetResourceState, decisions)]


# --- starts -----------------------------------------------------------------------------------------------


def test_a_job_starts_where_the_plan_keeps_its_server_on():
    talk = talk_of([ON, ON], [ON, Z], [ON, Z])
    assert started(talk.at(1.0, submitted(1.0, "a", 1, 150.0))) == [("a", "0")]
    assert plan(talk) == ["111", "1.."]


def test_servers_with_the_fewest_changes_to_the_plan_come_first():
    talk = talk_of([ON, ON], [Z, ON], [Z, ON])
    assert started(talk.at(1.0, submitted(1.0, "a", 1, 150.0))) == [("a", "1")]


def pays_for_a(**options: Any) -> Talk:
    """Server 1 has a job for two steps; what it saves by sleeping after it lets server 0 take job a.

    Job a adds 5315 J to the second step and 385 J to the third; server 1 saves 5315 J in the third step
    and, waking, 400 J in the fourth.
    """
    talk = talk_of([ON, ON], [Z, ON], [Z, ON], [Z, ON], options=options)
    assert started(talk.at(1.0, submitted(1.0, "other", 1, 100.0))) == [("other", "1")]
    assert started(talk.at(2.0, submitted(2.0, "a", 1, 110.0))) == [("a", "0")]
    return talk


def test_an_idle_server_sleeps_for_a_job_that_the_plan_would_not_have_kept():
    talk = pays_for_a()
    assert plan(talk) == ["11..", "11.1"]
    assert talk.log[-1][-1] == "head of the queue; idle servers sleep for it"


def test_without_energy_to_move_the_job_waits_and_the_plan_stays():
    talk = talk_of([ON], [Z], [Z])
    assert started(talk.at(1.0, submitted(1.0, "a", 1, 100.0))) == []
    assert plan(talk) == ["1.."]


def test_a_job_that_cannot_end_inside_the_window_is_set_aside_and_blocks_nobody():
    talk = talk_of([ON], [ON], [ON])
    assert started(talk.at(1.0, submitted(1.0, "long", 1, 180.0))) == []
    assert started(talk.at(2.0, submitted(2.0, "short", 1, 170.0))) == [("short", "0")]


@pytest.mark.parametrize("walltime", [None, 121.0, 1e6])
def test_a_job_that_no_plan_can_hold_is_planned_up_to_the_end_of_the_plan(walltime):
    """It starts where the plan has its server on, or can pay for it; or it is set aside, by the option."""
    aside = talk_of([ON], [ON], options={"long_jobs": "set-aside"})
    assert started(aside.at(1.0, submitted(1.0, "long", 1, walltime))) == []
    talk = talk_of([ON], [ON])
    assert started(talk.at(1.0, submitted(1.0, "long", 1, walltime))) == [("long", "0")]
    unpaid = talk_of([ON], [Z])
    assert started(unpaid.at(1.0, submitted(1.0, "long", 1, walltime))) == []
    paid = talk_of([ON, ON], [ON, Z], [Z, Z], [Z, Z])
    assert started(paid.at(1.0, submitted(1.0, "long", 1, None))) == []  # three steps, of which one is paid
    paid = talk_of([ON, ON], [ON, Z], [ON, Z], [Z, Z])
    assert started(paid.at(1.0, submitted(1.0, "long", 1, None))) == [("long", "0")]
    assert plan(paid)[0] == "1111"


def test_a_long_job_counts_with_the_longest_of_twenty_runs():
    """The plan has the server asleep from the third step on, which nothing can pay for."""
    talk = talk_of([ON], [ON], *[[Z]] * 8)
    live = talk.policy.live
    for number in range(19):
        live.lengths.long_jobs.add(30.0 + number)
    assert started(talk.at(1.0, submitted(1.0, "a", 1, None))) == []
    live.lengths.long_jobs.add(50.0)
    assert started(talk.at(2.0, submitted(2.0, "b", 1, 1e6))) == [("a", "0")]  # by arrival: it counts last
    assert live.held.until.tolist() == [1]


def test_a_long_job_that_runs_on_keeps_its_server():
    """In the next window, whose plan has it asleep; when it ends, the server is asleep again."""
    site = small_battery(soc_pct=50.0, capacity_j=1e7, steps=2)
    platform = Platform((FAST,), np.zeros(1, dtype=np.intp), ("n000",))
    plans = plans_of(site, platform, [np.full((2, 1), ON, np.int8), np.full((2, 1), Z, np.int8)])
    talk = Talk(
        Beasy({"compensate": False}), count=1, site=site, plans=plans, windows=2, energy=EnergySource.MODEL
    )
    talk.at(0.0, production(0.0, 100.0))
    assert started(talk.at(1.0, submitted(1.0, "long", 1, None))) == [("long", "0")]
    assert plan(talk) == ["11.."]
    talk.at(60.0, production(60.0, 100.0))
    assert not only(d.SetResourceState, talk.at(120.0, production(120.0, 100.0)))
    assert plan(talk) == ["1111"]
    assert talk.policy.live.held.until.tolist() == [4]
    asleep = talk.at(130.0, completed(130.0, "long", "0"))
    assert plan(talk) == ["11.."]
    assert only(d.SetResourceState, asleep)


@pytest.mark.parametrize("longest_s", [50.0, 70.0])
def test_a_long_job_that_outruns_all_others_keeps_its_server(longest_s):
    talk = talk_of([ON], [ON], *[[Z]] * 8)
    live = talk.policy.live
    for _ in range(20):
        live.lengths.long_jobs.add(longest_s)
    assert started(talk.at(1.0, submitted(1.0, "a", 1, None))) == [("a", "0")]
    for step in range(1, 8):
        talk.at(60.0 * step, production(60.0 * step, 100.0))
        assert live.held.until[0] > step
        assert plan(talk)[0][: step + 1] == "1" * (step + 1)
    left_s = live.rest.running_jobs(talk.session.view).left_s
    assert np.isfinite(left_s).all()
    assert (left_s > 0.0).all()


def test_the_longest_slowdown_goes_first_and_the_smallest_size_fills_in():
    """All wait for the server; then the head is the one that has waited longest for its length."""
    talk = talk_of(*[[ON]] * 8)
    talk.at(1.0, submitted(1.0, "running", 1, 100.0))
    talk.at(2.0, submitted(2.0, "older", 1, 100.0))
    talk.at(3.0, submitted(3.0, "shorter", 1, 40.0))
    assert started(talk.at(50.0, completed(50.0, "running", "0"))) == [("shorter", "0")]


@pytest.mark.parametrize(("below", "first"), [(4, "long"), (5, "short")])
def test_in_a_dangerous_step_the_smallest_goes_first(below, first):
    """Five of the nine curves below SoC_min make it dangerous; else the largest slowdown is first."""
    talk = talk_of(*[[ON]] * 8)
    policy = talk.policy
    assert isinstance(policy, Beasy)
    assert policy._window is not None
    curves = dataclasses.replace(policy._window.predictions, below=np.full(8, below))
    policy._window = policy._window._replace(predictions=curves)
    talk.at(1.0, submitted(1.0, "running", 1, 100.0))
    talk.at(2.0, submitted(2.0, "long", 1, 100.0))
    talk.at(45.0, submitted(45.0, "short", 1, 40.0))
    assert started(talk.at(50.0, completed(50.0, "running", "0"))) == [(first, "0")]


def test_a_known_next_window_is_part_of_the_verification():
    site = small_battery(soc_pct=50.0, capacity_j=1e7, steps=2)
    platform = Platform((FAST,), np.zeros(1, dtype=np.intp), ("n000",))
    states = np.full((2, 1), ON, dtype=np.int8)
    for windows, starts in ((1, []), (2, [("a", "0")])):
        plans = plans_of(site, platform, [states] * windows)
        options = {"site": site, "plans": plans, "windows": windows, "energy": EnergySource.MODEL}
        talk = Talk(Beasy({"compensate": False, "long_jobs": "set-aside"}), count=1, **options)
        talk.at(0.0, production(0.0, 100.0))
        assert started(talk.at(1.0, submitted(1.0, "a", 1, 200.0))) == starts


@pytest.mark.parametrize(("watts", "starts"), [(50.0, []), (100.0, [("a", "0")])])
def test_a_start_needs_the_energy_of_the_present_step_too(watts, starts):
    """100 J above SoC_min, and the power of an idle server or of a busy one; the plan has it on."""
    talk = talk_of([ON], [Z], [ON], [ON], soc_pct=20.01, watts=watts, capacity_j=1e6)
    assert started(talk.at(1.0, submitted(1.0, "a", 1, 50.0))) == starts
    assert plan(talk) == ["1.11"]


def test_a_server_that_sleeps_within_a_step_has_drawn_its_power_by_then():
    """At 40 s three servers go to sleep for job a: each saves 20 s at 100 W less 7 s at 60 W and 13 s at
    5 W in this step, not the 5315 J of a whole step asleep, and 385 J in the next; a needs 5700 J."""
    talk = talk_of([ON] * 4, *[[Z] * 4] * 3)
    live, view = talk.policy.live, talk.session.view
    before_j = live.levels.levels_j(view, 0)[0]
    assert started(talk.at(40.0, submitted(40.0, "a", 1, 70.0))) == [("a", "0")]
    assert plan(talk) == ["11..", "....", "....", "...."]
    stored_j = live.levels.levels_j(view, 0)[0] - before_j
    assert stored_j == pytest.approx(live.plan.battery.charge_efficiency * 3 * (2000.0 - 420.0 - 65.0))


# --- reservation and backfilling --------------------------------------------------------------------------


def test_backfilling_does_not_delay_the_reservation_by_walltimes():
    """The head needs both servers when the running job ends at 101 s; a filler may take the free one
    to then and no longer."""
    talk = talk_of(*[[ON, ON]] * 6)
    assert started(talk.at(1.0, submitted(1.0, "running", 1, 100.0))) == [("running", "0")]
    assert started(talk.at(2.0, submitted(2.0, "head", 2, 100.0))) == []
    assert started(talk.at(3.0, submitted(3.0, "late", 1, 99.0))) == []
    assert started(talk.at(3.0, submitted(3.0, "in-time", 1, 98.0))) == [("in-time", "1")]


def test_a_head_that_fails_only_the_energy_test_waits_for_planned_servers():
    """At SoC_min nothing can be moved. The server is planned on again from the fourth step."""
    talk = talk_of([ON], [Z], [Z], [ON], [ON], [ON], soc_pct=20.0)
    assert started(talk.at(1.0, submitted(1.0, "head", 1, 100.0))) == []
    assert started(talk.at(2.0, submitted(2.0, "filler", 1, 50.0))) == [("filler", "0")]
    talk.at(40.0, completed(40.0, "filler", "0"))
    talk.at(60.0, production(60.0, 1e3))
    talk.at(67.0, changed(67.0, "0", Z))
    for now in (120.0, 180.0):
        talk.at(now, production(now, 1e3))
    assert started(talk.at(200.0, changed(200.0, "0", ON))) == [("head", "0")]


def test_one_backfilling_pass_and_no_second_reservation():
    """After the head has its reservation, another job that does not fit gets none."""
    talk = talk_of(*[[ON, ON, ON]] * 8)
    talk.at(1.0, submitted(1.0, "running", 1, 200.0))
    talk.at(2.0, submitted(2.0, "head", 3, 100.0))
    found = talk.at(3.0, submitted(3.0, "two", 2, 190.0), submitted(3.0, "one", 1, 190.0))
    assert started(found) == [("one", "1")]


# --- early ends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["offer", "at-once"])
def test_what_an_early_end_frees_goes_back_to_what_the_plan_had(release):
    talk = pays_for_a(release=release)
    talk.at(20.0, completed(20.0, "a", "0"))
    assert plan(talk) == ["1...", "11.1"]


@pytest.mark.parametrize(("release", "starts"), [("offer", [("next", "0")]), ("at-once", [])])
def test_the_rest_of_a_reservation_is_offered_to_the_queue_first(release, starts):
    """Given back at once, it would have to be paid for again, and server 1 has only 5300 J left."""
    talk = pays_for_a(release=release)
    found = talk.at(20.0, completed(20.0, "a", "0"), submitted(20.0, "next", 1, 90.0))
    assert started(found) == starts
    assert plan(talk)[0] == ("11.." if starts else "1...")


# --- steps ------------------------------------------------------------------------------------------------


def test_servers_follow_the_plan_but_for_jobs():
    talk = talk_of([ON, ON, Z], [1, Z, ON], [1, Z, ON])
    assert switched(talk.begun) == [("2", Z)]
    talk.at(7.0, changed(7.0, "2", Z))
    assert sorted(switched(talk.at(60.0, production(60.0, 300.0)))) == [("0", 1), ("1", Z), ("2", ON)]


def test_a_surplus_wakes_servers_for_waiting_jobs():
    """Four times what the plan needs arrives in the first step."""
    options = {"compensate": True}
    talk = talk_of([Z], [Z], [Z], [Z], options=options, watts=1000.0, capacity_j=1e6)
    talk.at(7.0, changed(7.0, "0", Z))
    assert started(talk.at(10.0, submitted(10.0, "a", 1, 60.0))) == []
    found = talk.at(60.0, production(60.0, 1000.0))
    assert switched(found) == [("0", ON)]
    assert started(talk.at(80.0, changed(80.0, "0", ON))) == [("a", "0")]


def test_a_shortage_puts_idle_servers_to_sleep():
    """12000 J are missing: one server that sleeps through saves 22415 J."""
    talk = talk_of(*[[ON, ON]] * 4, options={"compensate": True}, watts=0.0, capacity_j=1e6)
    assert switched(talk.begun) == [("1", Z)]
    assert plan(talk) == ["1111", "...."]


def test_a_surplus_speeds_up_running_jobs():
    talk = talk_of([1], [1], [1], [1], options={"compensate": True}, capacity_j=1e6)
    talk.at(1.0, submitted(1.0, "a", 1, 200.0))
    assert switched(talk.at(60.0, production(60.0, 1000.0))) == [("0", ON)]


# --- whole runs -------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(25))
def test_no_decision_is_refused_and_every_job_is_accounted_for(seed):
    world = random_world(np.random.default_rng([7, seed]))
    result = run_world(world, "beasy_sched.policies.beasy.beasy_policy:Beasy")
    counts = result.session.outcomes.counts()
    assert result.session.ended
    assert sum(counts.values()) == len(world.jobs)


@pytest.mark.parametrize("seed", range(15))
def test_the_account_of_planned_energy_holds_through_a_run(seed):
    """The incremental energies of the changed plan are those of its states."""
    world = random_world(np.random.default_rng([8, seed]))
    result = run_world(world, "beasy_sched.policies.beasy.beasy_policy:Beasy")
    policy = result.session.policy
    assert isinstance(policy, Beasy)
    live = policy.live.plan
    again_j = live.server_energy_j(np.arange(world.hosts), 0, live.steps).sum(axis=1)
    np.testing.assert_allclose(live.energy_j, again_j, rtol=1e-9, atol=1e-3)
