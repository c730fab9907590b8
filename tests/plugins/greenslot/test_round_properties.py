"""Rounds of random windows: the same as planned slot by slot, and what must hold for each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from plugins.greenslot.round_cases import (
    REFUSED,
    SLOT_S,
    WH_J,
    Instance,
    NaiveRound,
    first_fit,
    instances,
    left_wh,
)

from beasy_sched.plugins.greenslot.planning import RoundSettings, plan_round


@settings(max_examples=examples(300))
@given(instances())
def test_a_round_is_that_of_the_specification_slot_by_slot(case: Instance) -> None:
    naive, done = NaiveRound(*case), case.plan()
    found = {key: REFUSED if plan.refused else plan.start for key, plan in done.plans.items()}
    assert found == naive.starts
    for key, cost in naive.costs.items():
        if isinstance(naive.starts[key], int):
            assert done.plans[key].cost == pytest.approx(float(cost), rel=1e-9, abs=1e-9)
    late = {key for key, plan in done.plans.items() if plan.late}
    assert late == {key for key in naive.late if naive.starts[key] != REFUSED}
    assert done.taken_s == naive.taken_s()


@given(instances())
def test_what_is_left_is_what_the_placed_tasks_leave(case: Instance) -> None:
    """Never more nodes than there are, in no slot; energy is given away once."""
    done = case.plan()
    free, net_j = case.slots.free.copy(), case.slots.net_j.copy()
    for one in case.tasks:
        plan = done.plans[one.key]
        if plan.start is not None:
            span = slice(plan.start, plan.end_slot)
            free[span] -= one.res
            net_j[span] -= case.settings.reserve_energy * one.res * 25 * WH_J
            assert plan.brown_j + plan.green_j == pytest.approx(
                one.res * 25 * WH_J * (plan.end_slot - plan.start)
            )
            assert plan.brown_j >= 0
            assert plan.green_j >= -1e-6
    assert free.min() >= 0
    assert np.array_equal(done.slots.free, free)
    assert done.slots.net_j == pytest.approx(net_j)
    assert set(done.plans) == {one.key for one in case.tasks}


@given(instances())
def test_the_import_limit_is_kept(case: Instance) -> None:
    """But for jobs longer than the window, which start as soon as nodes allow."""
    tasks = [one for one in case.tasks if one.duration_s <= case.slots.size * SLOT_S]
    rules = replace(case.settings, reserve_energy=True)
    done = plan_round(case.slots, tasks, case.ends, rules)
    before_wh, after_wh = left_wh(case.slots), left_wh(done.slots)
    assert (after_wh >= np.minimum(before_wh, -1e-9)).all()


@given(instances())
def test_no_task_starts_before_its_predecessors_have_ended(case: Instance) -> None:
    plans = case.plan().plans
    ends = {key: plan.end_slot for key, plan in plans.items()} | case.ends
    for one in case.tasks:
        start = plans[one.key].start
        if start is not None:
            assert all(ends.get(key, math.inf) <= start for key in one.predecessors)


@given(instances(), st.sampled_from([1e-6, 1e-3, 0.3, 7.0, 1e3, 1e6]))
def test_scaling_prices_changes_no_schedule(case: Instance, factor: float) -> None:
    scaled = replace(case.slots, price_per_kwh=case.slots.price_per_kwh * factor)
    starts, others = (
        {key: (plan.start, plan.why) for key, plan in plan_round(slots, *case[1:]).plans.items()}
        for slots in (case.slots, scaled)
    )
    assert starts == others


@given(instances(), st.randoms(use_true_random=False))
def test_the_order_in_which_tasks_are_named_changes_nothing(case: Instance, random: Any) -> None:
    assume(len({one.urgency for one in case.tasks}) == len(case.tasks))
    shuffled = list(case.tasks)
    random.shuffle(shuffled)
    done, other = case.plan(), plan_round(case.slots, shuffled, *case[2:])
    assert done.plans == other.plans
    assert done.taken_s == other.taken_s
    assert [*done.plans] == [*other.plans]


@given(instances())
def test_tasks_that_share_their_predecessors_are_no_others(case: Instance) -> None:
    """One tuple object for all tasks that wait for the same jobs, or one each that names a job twice."""
    tuples = {one.predecessors: one.predecessors for one in case.tasks}
    copies = [replace(one, predecessors=tuples[one.predecessors]) for one in case.tasks]
    own = [replace(one, predecessors=(*one.predecessors, *one.predecessors[:1])) for one in case.tasks]
    shared, separate = (plan_round(case.slots, tasks, *case[2:]) for tasks in (copies, own))
    assert shared.plans == separate.plans
    assert shared.taken_s == separate.taken_s


@given(instances(st.just(RoundSettings())), st.booleans())
def test_with_sun_enough_and_time_enough_each_starts_as_early_as_nodes_allow(
    case: Instance, infinite: bool
) -> None:
    sun_j = math.inf if infinite else 1e9
    slots = replace(case.slots, net_j=np.full(case.slots.size, sun_j))
    tasks = [
        replace(one, deadline_s=one.deadline_s + 100 * SLOT_S, predecessors=(), earliest_s=-math.inf)
        for one in case.tasks
        if one.duration_s <= slots.size * SLOT_S
    ]
    done = plan_round(slots, tasks, {}, case.settings)
    expected = first_fit(slots.free.copy(), sorted(tasks, key=lambda one: one.urgency))
    assert {key: plan.start for key, plan in done.plans.items()} == expected
    assert not any(plan.cost > 0 for plan in done.plans.values() if plan.start is not None)


@given(instances(st.builds(RoundSettings, tie=st.sampled_from(["latest", "earliest"]))))
def test_at_a_price_of_zero_nothing_beyond_the_window_gets_brown_energy(case: Instance) -> None:
    slots = replace(case.slots, price_per_kwh=np.zeros(case.slots.size))
    done = plan_round(slots, *case[1:])
    for one in case.tasks:
        plan = done.plans[one.key]
        if plan.start is not None and one.deadline_s > slots.end_s and one.duration_s <= slots.size * SLOT_S:
            assert plan.brown_j == 0


@given(instances())
def test_tightening_never_asks_for_a_start_before_submission(case: Instance) -> None:
    taken_s = case.plan().taken_s
    by_key = {one.key: one for one in case.tasks}
    for key, new_s in taken_s.items():
        one = by_key[key]
        assert one.taken_s < new_s <= one.taken_s + SLOT_S
        assert one.deadline_s - new_s >= one.submit_s + one.duration_s
