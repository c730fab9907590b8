"""BEASY's energy test as decisions show it (Section IV-B, 2a to 2c), and its reservation.

Servers of `worlds.FAST` in steps of 60 s: busy 6000 J, asleep 300 J, falling asleep 685 J, waking 5600 J.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from policies.beasy_steps import Steps
from talk import ASLEEP, Talk, only, production, small_battery, submitted
from worlds import FAST, SLOW, plans_of

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.platform import Platform
from beasy_sched.policies.registry import make_policy

Z, ON = ASLEEP, 0


def talk_of(
    *rows: Sequence[int], kinds: Sequence[int] = (), watts: float | None = None, **site_changes: Any
) -> Talk:
    """One row of states a step; ``watts`` arrive in the first."""
    states = np.array(rows, dtype=np.int8)
    kind_of = np.array(kinds or [0] * states.shape[1], dtype=np.intp)
    site = small_battery(**{"capacity_j": 1e7, "steps": len(rows), **site_changes})
    platform = Platform((FAST, SLOW), kind_of, tuple(f"n{i:03}" for i in range(len(kind_of))))
    plans = plans_of(site, platform, [states])
    talk = Talk(
        make_policy("beasy", {"compensate": False}),
        kinds=[(FAST, SLOW)[kind] for kind in kind_of],
        site=site,
        plans=plans,
        energy=EnergySource.MODEL,
    )
    talk.at(0.0, production(0.0, 1e4 if watts is None else watts))
    return talk


def started(decisions: list[d.Decision]) -> list[tuple[str, str]]:
    return [(x.job_id[3:], str(x.alloc)) for x in only(d.ExecuteJob, decisions)]


# --- select_servers ---


@pytest.mark.parametrize(
    ("second_step", "kinds", "chosen"),
    [
        ([ON, ON], (1, 0), "1"),
        ([ON, ON], (0, 0), "0"),
        ([ON, Z], (1, 0), "0"),
        ([Z, ON], (0, 1), "1"),
    ],
    ids=["the faster", "the lower id", "without a change before the faster", "and before the lower id"],
)
def test_which_server_a_job_gets(second_step: list[int], kinds: tuple[int, int], chosen: str) -> None:
    """Kind 0 is the faster one; the job runs into the second step."""
    talk = talk_of([ON, ON], second_step, second_step, kinds=kinds)
    assert started(talk.at(1.0, submitted(1.0, "a", 1, 110.0))) == [("a", chosen)]


# --- 2c: the new SoC ---


@pytest.mark.parametrize(("level_j", "second"), [(60_000.0, True), (24_800.0, False)])
def test_the_next_job_sees_the_soc_that_the_job_before_has_left(level_j: float, second: bool) -> None:
    """a takes 2 x 5315 J in the second step; servers 3 to 5 sleep from the third on and pay for it.

    From 24.8 kJ that takes the planned battery below SoC_min at the second step's end: nothing after it pays
    for b, although there would be enough. The present step is nearly over: nothing to be saved in it.
    """
    later = [Z, Z, Z, ON, ON, ON]
    talk = talk_of([ON] * 6, *[later] * 4, capacity_j=100_000.0, soc_pct=level_j / 1000, watts=600.0)
    found = talk.at(1.0, *(submitted(1.0, name, 1, 100.0) for name in "xyz"))
    assert started(found) == [("x", "3"), ("y", "4"), ("z", "5")]
    found = talk.at(59.99, submitted(59.99, "a", 2, 50.0), submitted(59.99, "b", 1, 50.0))
    assert started(found) == [("a", "0-1"), *([("b", "2")] if second else [])]


# --- the reservation and those who fill in ---


@pytest.mark.parametrize(("walltime", "starts"), [(100.0, True), (100.1, False)])
def test_jobs_started_in_the_same_pass_count_for_the_reservation(walltime: float, starts: bool) -> None:
    talk = talk_of(*[[ON] * 3] * 6)
    jobs = [("first", 2, 100.0), ("head", 3, 100.0), ("filler", 1, walltime)]
    found = started(talk.at(1.0, *(submitted(1.0, *job) for job in jobs)))
    assert found == [("first", "0-1"), *([("filler", "2")] if starts else [])]


@pytest.mark.parametrize(("rows", "starts"), [(4, False), (7, True)])
def test_promised_servers_do_not_sleep_for_a_filler(rows: int, starts: bool) -> None:
    """The head has servers 1 and 2 from 171 to 231 s. A filler on server 0 needs 5700 J more, which server 1
    could save from 120 s on were it not promised; where the plan goes on after that, there is enough."""
    talk = talk_of([ON] * 3, *[[Z, ON, ON]] * (rows - 1))
    found = talk.at(1.0, submitted(1.0, "x", 1, 100.0), submitted(1.0, "y", 1, 170.0))
    assert started(found) == [("x", "1"), ("y", "2")]
    assert started(talk.at(2.0, submitted(2.0, "head", 2, 60.0))) == []
    found = talk.at(30.0, submitted(30.0, "filler", 1, 50.0))
    assert started(found) == ([("filler", "0")] if starts else [])


@pytest.mark.parametrize(("walltime", "starts"), [(50.0, True), (70.0, False)])
def test_a_filler_undergoes_the_same_test(walltime: float, starts: bool) -> None:
    """At SoC_min nothing can be moved to keep its server on in the second step."""
    talk = talk_of([ON, ON], *[[ON, Z]] * 5, soc_pct=20.0, watts=200.0)
    talk.at(1.0, submitted(1.0, "x", 1, 200.0), submitted(1.0, "head", 2, 50.0))
    found = talk.at(2.0, submitted(2.0, "filler", 1, walltime))
    assert started(found) == ([("filler", "1")] if starts else [])


@pytest.mark.parametrize(("walltime", "starts"), [(50.0, True), (50.1, False)])
def test_a_head_without_the_present_steps_energy_is_promised_the_next(walltime: float, starts: bool) -> None:
    """At SoC_min with the power of two idle servers; a filler that only waits needs no energy."""
    talk = talk_of(*[[ON, ON]] * 5, soc_pct=20.0, watts=100.0)
    assert started(talk.at(1.0, submitted(1.0, "head", 2, 100.0))) == []
    filler = e.JobSubmitted(10.0, e.JobRequest("w0!filler", 10.0, 1, "p", walltime), {"type": "delay"})
    assert started(talk.at(10.0, filler)) == ([("filler", "0")] if starts else [])


def test_a_server_whose_sleep_would_cost_more_than_it_saves_stays_on_for_nothing() -> None:
    """Waking at 1000 W takes 24 000 J: to stay on through the planned sleep needs no energy from anyone."""
    watts = (*FAST.full_w[:4], 1000.0)
    kind = dataclasses.replace(FAST, full_w=watts, idle_w=(50.0, 50.0, *watts[2:]), epsilon_w=watts)
    steps = Steps([ON], [Z], [ON], [ON], kind=kind, soc_pct=20.0, options={"compensate": False})
    assert started(steps.talk.at(1.0, submitted(1.0, "a", 1, 170.0))) == [("a", "0")]
    assert steps.begin(1) == []
    assert steps.talk.policy.live.plan.states[:, 0].tolist() == [ON] * 4
