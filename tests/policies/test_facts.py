"""The numbers behind decisions, worked out by hand on tiny cases.

Servers of `worlds.FAST`: idle 50 W, busy 100 W, asleep 5 W, falling asleep 7 s at 60 W, waking 20 s at
80 W; steps of 60 s.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from engine.test_guard import at_soc_min, next_step
from policies.test_beasy import ON, Z, pays_for_a, talk_of
from policies.test_follow_plan import talk_of as planned_talk
from talk import Talk, completed, production, small_battery, submitted
from worlds import green_world, random_world, session_of

from beasy_sched.energy.site import GuardMode
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model.decisions import Decision, Reply
from beasy_sched.model.events import Message
from beasy_sched.policies.registry import built_in, make_policy
from beasy_sched.testing.witness import Witness

Line = tuple[float, str, str, str, dict[str, object]]


def lines(talk: Talk, *actions: str) -> list[Line]:
    """Lines of the decision log of these actions: time, action, job, rule, facts."""
    both = zip(talk.log, talk.facts, strict=True)
    return [
        (time, action, job[3:], rule, facts)
        for (time, action, job, _, rule), facts in both
        if action in actions
    ]


# --- EASY -------------------------------------------------------------------------------------------------


def busy_until_100() -> Talk:
    """Four hosts: job a has three of them until 100 s, job b waits for two."""
    talk = Talk(make_policy("easy"))
    talk.at(0.0, submitted(0.0, "a", 3, 100.0))
    talk.at(1.0, submitted(1.0, "b", 2, 50.0))
    return talk


def test_the_head_of_the_queue_and_its_reservation() -> None:
    assert lines(busy_until_100(), "start", "postpone") == [
        (0.0, "start", "a", "head of the queue", {"hosts_free": 4, "waited_s": 0.0}),
        (1.0, "postpone", "b", "reserved", {"hosts_asked": 2, "hosts_free": 1, "reserved_at_s": 100.0}),
    ]


@pytest.mark.parametrize(
    ("walltime_s", "why"),
    [
        (98.0, {"ends_by_s": 100.0}),
        (99.0, {"hosts_extra": 2}),  # at 100 s all four are free, and b takes two of them
        (None, {"hosts_extra": 2}),
    ],
)
def test_a_filler(walltime_s: float | None, why: dict[str, object]) -> None:
    talk = busy_until_100()
    talk.at(2.0, submitted(2.0, "c", 1, walltime_s))
    known = {"hosts_free": 1, "waited_s": 0.0, "reserved_for": "w0!b", "reserved_at_s": 100.0}
    assert lines(talk, "start")[1:] == [(2.0, "start", "c", "backfilled", {**known, **why})]


def test_the_same_reason_is_told_once_a_new_one_again() -> None:
    talk = busy_until_100()
    for now in (3.0, 4.0, 5.0):
        talk.at(now, submitted(now, f"x{now}", 4, 10.0))
    assert len(lines(talk, "postpone")) == 1
    talk.at(60.0, completed(60.0, "a", "0-2"))
    assert [line[2:4] for line in lines(talk, "postpone")] == [("b", "reserved"), ("x3.0", "reserved")]
    assert lines(talk, "start")[-1] == (
        60.0,
        "start",
        "b",
        "head of the queue",
        {"hosts_free": 4, "waited_s": 59.0},
    )


def test_no_end_in_sight() -> None:
    talk = Talk(make_policy("easy"))
    talk.at(0.0, submitted(0.0, "a", 3, None))
    talk.at(1.0, submitted(1.0, "b", 2, 50.0))
    facts = {"hosts_asked": 2, "hosts_free": 1}
    assert lines(talk, "postpone") == [(1.0, "postpone", "b", "no reservation", facts)]


def test_the_veto() -> None:
    """110 W feed two idle servers, and 600 J are left; a job would take 50 W for 60 s."""
    site = small_battery(soc_pct=20.0, charge_w=1e-9)
    talk = Talk(make_policy("easy"), count=2, site=site, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 110.0), submitted(0.0, "a", 1, 50.0))
    ((_, _, job, rule, facts),) = lines(talk, "postpone")
    assert (job, rule) == ("a", "no energy in this step")
    assert facts == pytest.approx({"hosts_asked": 1, "hosts_free": 2, "cost_j": 3000.0, "headroom_j": 600.0})


# --- the guard --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", GuardMode)
def test_a_guard_kill(mode: GuardMode) -> None:
    """Servers 0 and 1 compute from 1 s on; at 60 s the step has 6000 J, and they and server 2 need 15,000.

    Server 2 saves 2315 J asleep, the job's end 2 x 5315 J.
    """
    talk = at_soc_min(count=3, mode=mode)
    talk.run_job(1.0, "a", "0-1")
    next_step(talk, 100.0)
    (kill,) = lines(talk, "kill")
    step = {"supply_j": 6000.0, "needed_j": 15_000.0, "missing_j": 9000.0, "soc_pct": 20.0}
    assert kill[-1].pop("mode") == mode.value
    assert kill[-1] == pytest.approx(
        {**step, "still_missing_j": 9000.0 - 2315.0, "saves_j": 10_630.0, "spent_j": 2 * 100.0 * 59}
    )
    assert kill[:4] == (60.0, "kill", "a", "guard: no energy for it")
    idle, killed = lines(talk, "P-state 2")
    assert idle[-1] == pytest.approx({**step, "hosts_to_sleep": 1, "saves_j": 2315.0})
    assert killed[-1] == {"hosts_to_sleep": 2, "killed": "w0!a"}


# --- BEASY ------------------------------------------------------------------------------------------------


def test_a_start_that_idle_servers_pay_for() -> None:
    """Job a needs 5315 J in its second step and 385 J in the one after; server 1 saves 5315 J and 400 J."""
    talk = pays_for_a()
    *_, (_, _, job, rule, facts) = lines(talk, "start")
    assert (job, rule) == ("a", "head of the queue; idle servers sleep for it")
    budget = talk.session.view.budget
    assert budget is not None
    assert facts.pop("headroom_j") == pytest.approx(budget.headroom_j + 50.0 * 58)
    assert facts == pytest.approx(
        {
            "hosts_free": 1,
            "waited_s": 0.0,
            "slowdown": 1.0,
            "planned_on_until_s": 120.0,
            "cost_j": 50.0 * 58,
            "server_steps_changed": 1,
            "needed_j": 5315.0 + 385.0,
            "found_j": 5315.0 + 400.0,
            "server_steps_to_sleep": 1,
            "hosts_to_sleep": 1,
        }
    )


def test_a_job_that_the_plan_cannot_pay_for() -> None:
    talk = talk_of([ON], [Z], [Z])
    talk.at(1.0, submitted(1.0, "a", 1, 100.0))
    facts = {"hosts_asked": 1, "hosts_free": 1, "needed_j": 5700.0, "found_j": 0.0}
    assert lines(talk, "postpone") == [(1.0, "postpone", "a", "plan cannot pay", facts)]


def test_a_job_is_set_aside_once() -> None:
    talk = talk_of([ON], [ON], [ON], options={"long_jobs": "set-aside"})
    talk.at(1.0, submitted(1.0, "late", 1, 180.0), submitted(1.0, "endless", 1, None))
    for now in (2.0, 3.0):
        talk.at(now, submitted(now, f"short{now}", 1, 1.0))
    facts = {"window_end_s": 180.0, "waited_s": 0.0}
    rules = {"late": "ends after the last window", "endless": "no walltime to plan with"}
    assert [line for line in lines(talk, "postpone") if line[3] in rules.values()] == [
        (1.0, "postpone", name, rule, facts) for name, rule in rules.items()
    ]


def test_a_job_is_set_aside_when_it_has_waited_too_long() -> None:
    talk = talk_of([ON], [ON], [ON])
    talk.at(1.0, submitted(1.0, "a", 1, 100.0))
    talk.at(2.0, submitted(2.0, "b", 1, 75.0))
    assert [line[2:4] for line in lines(talk, "postpone")] == [("b", "reserved")]
    talk.at(60.0, production(60.0, 100.0))
    talk.at(106.0, completed(106.0, "a", "0"))
    assert lines(talk, "postpone")[1:] == [
        (106.0, "postpone", "b", "ends after the last window", {"window_end_s": 180.0, "waited_s": 104.0})
    ]


def test_compensation_of_a_surplus() -> None:
    """The plan keeps the battery at its level; 1000 W come instead of 100 W, and nothing can use them."""
    talk = talk_of([ON], [ON], options={"compensate": True}, watts=1000.0)
    ((time, _, _, rule, facts),) = lines(talk, "compensate")
    surplus_j = (1000.0 - 100.0) * 60
    assert (time, rule) == (0.0, "surplus")
    assert facts == pytest.approx(
        {
            "diff_j": surplus_j,
            "comp_j": surplus_j,
            "spendable_j": surplus_j,
            "window_end_s": 120.0,
            "dangerous": 0,
            "spent_on_jobs_j": 0.0,
            "spent_on_wakes_j": 0.0,
        }
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("policy", built_in())
def test_whether_someone_listens_changes_no_decision(policy: str) -> None:
    for seed in range(4):
        world = (green_world if seed % 2 else random_world)(np.random.default_rng(seed))
        decided: list[list[Decision]] = [[], []]
        for found, listener in zip(decided, (None, Witness(world.platform)), strict=True):
            session = session_of(world, policy, listener)

            def decide(message: Message, session=session, found=found) -> Reply:  # type: ignore[no-untyped-def]
                reply = session.step(message)
                found.extend(reply.decisions)
                return reply

            world.simulation().run(decide)
        assert decided[0] == decided[1]
        assert decided[0]


def test_no_fact_is_infinite_or_missing() -> None:
    """What cannot be written as a number is left out."""
    talk = Talk(make_policy("easy"), site=small_battery(), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 100.0), submitted(0.0, "a", 3, None), submitted(0.0, "b", 2, None))
    values = [value for facts in talk.facts for value in facts.values()]
    assert values
    assert all(isinstance(value, str) or math.isfinite(value) for value in values)  # type: ignore[arg-type]


# --- plans ------------------------------------------------------------------------------------------------


def test_a_planned_kill_and_planned_states() -> None:
    """In the second step server 0 computes (100 W) and server 1 falls asleep (685 J): 6685 J in 60 s."""
    talk = planned_talk([0, 0], [0, Z])
    talk.at(1.0, submitted(1.0, "a", 2, 100.0))
    talk.at(60.0, production(60.0, 1e4))
    rule, facts = "its server is planned to sleep", {"hosts_to_sleep": 1, "walltime_left_s": 41.0}
    assert lines(talk, "kill") == [(60.0, "kill", "a", rule, facts)]
    ((_, _, _, rule, facts),) = lines(talk, "P-state 2")
    assert (rule, facts) == ("planned", {"hosts_to_sleep": 1, "planned_w": pytest.approx(6685 / 60)})


def test_states_that_are_not_the_offline_plans() -> None:
    talk = planned_talk([0, 0], [0, Z])
    talk.policy.plan.set_states(np.array([0, 1]), 1, 2, 1)
    talk.at(60.0, production(60.0, 1e4))
    ((_, _, _, _, facts),) = lines(talk, "P-state 1")
    assert facts == {"hosts_to_speed": 2, "planned_w": pytest.approx(140.0), "hosts_replanned": 2}
