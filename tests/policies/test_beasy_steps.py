"""BEASY's compensation of a surplus, as decisions show it (Section IV-C).

Servers of `worlds.FAST` in steps of 60 s; a battery of 100 kJ without losses, half full, which is its target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from policies.beasy_steps import Steps
from talk import ASLEEP, changed, submitted

Z, ON, SLOWER = ASLEEP, 0, 1


def test_the_true_level_counts() -> None:
    """6 kJ more than planned came in the first step; the second brings what was planned."""
    steps = Steps(*[[SLOWER]] * 5, more_w=100.0)
    steps.talk.at(1.0, submitted(1.0, "a", 1, 200.0))
    assert steps.begin(1) == [("0", ON)]


def test_without_a_surplus_nothing_changes() -> None:
    """At half speed the job takes the 70 W that were planned for it."""
    steps = Steps(*[[SLOWER]] * 5)
    steps.talk.at(0.0, submitted(0.0, "a", 1, 200.0))
    assert steps.begin(1) == []


@pytest.mark.parametrize(
    ("dangerous", "woken"), [(False, []), (True, [("0", ON)])], ids=["slowdown first", "smallest first"]
)
def test_servers_wake_for_jobs_in_the_order_of_the_present_step(dangerous: bool, woken: list[Any]) -> None:
    """10 kJ more at the sixth step. a (two servers, 22.8 kJ) has the larger slowdown, b (5.7 kJ) the smaller
    size; where a is first and cannot be paid for, nobody wakes. Demand expected to be twice the production
    makes the sixth step dangerous."""
    steps = Steps(*[[Z, Z, Z, ON]] * 12, load_w=[230.0] * 12 if dangerous else [])
    steps.talk.at(0.0, submitted(0.0, "x", 1, 700.0))
    steps.talk.at(7.0, changed(7.0, "0-2", Z))
    steps.talk.at(8.0, submitted(8.0, "a", 2, 100.0))
    assert [steps.begin(step) for step in range(1, 5)] == [[]] * 4
    steps.talk.at(250.0, submitted(250.0, "b", 1, 30.0))
    assert steps.begin(5, 10_000 / 60) == woken


def test_servers_wake_for_the_job_that_waits_longest_for_its_length() -> None:
    """a was there before b, which has the larger slowdown and can be paid for."""
    steps = Steps(*[[Z, Z]] * 6)
    steps.talk.at(7.0, changed(7.0, "0-1", Z))
    steps.talk.at(8.0, submitted(8.0, "a", 2, 100.0))
    steps.talk.at(9.0, submitted(9.0, "b", 1, 30.0))
    assert steps.begin(1, 10_000 / 60) == [("0", ON)]


def test_running_jobs_speed_up_before_servers_wake() -> None:
    """6 kJ: the job takes 5400 of them for three steps, waking for the other would take 5685."""
    steps = Steps(*[[SLOWER, Z]] * 6, more_w=100.0)
    steps.talk.at(0.0, submitted(0.0, "a", 1, 200.0))
    steps.talk.at(7.0, changed(7.0, "1", Z), submitted(7.0, "b", 1, 30.0))
    assert steps.begin(1) == [("0", ON)]


@pytest.mark.parametrize(("surplus_j", "changes"), [(10_790.0, []), (10_810.0, [("0", ON)])])
def test_the_end_is_projected_anew_with_losses(surplus_j: float, changes: list[Any]) -> None:
    """5400 J more for three steps take 10 800 J out of the cells; the sum would allow it from 5400 J on."""
    steps = Steps(*[[SLOWER]] * 6, more_w=surplus_j / 60, efficiency=0.5, capacity_j=1e6)
    steps.talk.at(0.0, submitted(0.0, "a", 1, 200.0))
    assert steps.begin(1) == changes


@pytest.mark.parametrize(("surplus_j", "changes"), [(10_790.0, []), (10_810.0, [("0", ON)])])
def test_no_later_step_may_end_below_soc_min_for_it(surplus_j: float, changes: list[Any]) -> None:
    """The plan goes from 24 kJ down to SoC_min, 20 kJ, and back; the target is 22 kJ."""
    levels = {"soc_pct": 24.0, "target_pct": 22.0}
    steps = Steps(*[[SLOWER]] * 8, more_w=surplus_j / 60, dip_j=4000.0, efficiency=0.5, **levels)
    steps.talk.at(0.0, submitted(0.0, "a", 1, 200.0))
    assert steps.begin(1) == changes


@pytest.mark.parametrize(("surplus_j", "changes"), [(21_580.0, [("0", ON)]), (21_620.0, [("0-1", ON)])])
def test_each_action_is_projected_on_those_before_it(surplus_j: float, changes: list[Any]) -> None:
    """Two jobs, 10 800 J out of the cells for each: the sums alone would allow both from 10 800 J on."""
    steps = Steps(*[[SLOWER, SLOWER]] * 6, more_w=surplus_j / 60, efficiency=0.5, capacity_j=1e6)
    steps.talk.at(0.0, submitted(0.0, "a", 1, 200.0), submitted(0.0, "b", 1, 200.0))
    assert steps.begin(1) == changes


@pytest.mark.parametrize(("more_w", "changes"), [(0.0, []), (100.0, [("0", ON)])])
def test_what_a_full_battery_cannot_take_is_spent_without_loss(more_w: float, changes: list[Any]) -> None:
    """Full, 1900 J above the target. 1800 J more for one step would take 3600 out of the cells, but for the
    6 kJ that arrive in that step and would be lost."""
    levels = {"soc_pct": 90.0, "target_pct": 88.1}
    steps = Steps(*[[SLOWER]] * 6, efficiency=0.5, **levels)
    steps.talk.at(0.0, submitted(0.0, "a", 1, 110.0))
    assert steps.begin(1, more_w) == changes


def test_a_job_works_at_the_speed_of_its_slowest_server() -> None:
    """100 s of 100 flops/s are asked for; 60 s at 50 flops/s are done at the second step."""
    steps = Steps(*[[ON, SLOWER]] * 6)
    steps.talk.at(0.0, submitted(0.0, "a", 2, 300.0))
    policy, view = steps.talk.policy, steps.talk.session.view
    assert [str(job.hosts) for job in view.running.values()] == ["0-1"]
    begun = policy.live.rest.running_jobs(view)
    steps.begin(1)
    job = policy.live.rest.running_jobs(view)
    assert begun.remaining_flops - job.remaining_flops == [60 * 50.0]
    steps.begin(2)
    job = policy.live.rest.running_jobs(view)
    assert begun.remaining_flops - job.remaining_flops == [120 * 50.0]


def test_what_servers_have_drawn_beyond_the_plan_counts_in_its_step_only() -> None:
    """At 30 s the server is planned to sleep for the whole first step; it has idled for half of it."""
    steps = Steps(*[[ON]] * 4)
    steps.talk.at(30.0, submitted(30.0, "too large", 2))
    live, view = steps.talk.policy.live, steps.talk.session.view
    live.levels.write(view, 0, np.array([0]), np.array([[Z]], dtype=np.int8))
    level_j = view.storage_state.battery_j
    assert live.levels.levels_j(view, 0)[0] < live.plan.project_soc(0, live.plan.steps, level_j)[1] - 1000.0
    steps.begin(1)
    level_j = view.storage_state.battery_j
    assert (
        live.levels.levels_j(view, 1).tolist()
        == live.plan.project_soc(1, live.plan.steps, level_j)[1:].tolist()
    )
