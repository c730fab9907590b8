"""Rounds of GreenSlot worked out with a pencil: a node-slot is 25 Wh, prices 0.1 a kWh unless said."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from msgspec.structs import replace
from plugins.greenslot.round_cases import SLOT_S, WH_J, left_wh, running, task, window

from beasy_sched.plugins.greenslot import planning
from beasy_sched.plugins.greenslot.planning import LOWEST_WINDOW, QueuedTask, RoundSettings, plan_round
from beasy_sched.plugins.greenslot.slots import Reservations, Slots

NO_SUN = (0.0,) * 4
TWO_PRICES = (0.2, 0.1, 0.1, 0.2)
FIGURE = (0, 0, 10, 25, 10, 0)


@dataclass
class Case:
    """A round and what it decides: start and cost of each task, None for one without a slot."""

    slots: Slots
    tasks: tuple[QueuedTask, ...]
    starts: dict[str, tuple[int, float] | None]
    refused: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    settings: RoundSettings = field(default_factory=RoundSettings)


CASES = {
    "H1: it waits for the sun": Case(window((0, 0, 25, 0)), (task("a", 1, 1, 4),), {"a": (2, 0.0)}),
    "H2: the latest of a tie": Case(window(NO_SUN, TWO_PRICES), (task("a", 1, 1, 4),), {"a": (2, 0.0025)}),
    "H2: the earliest of a tie at night": Case(
        window(NO_SUN, TWO_PRICES, daylight=False), (task("a", 1, 1, 4),), {"a": (1, 0.0025)}
    ),
    "H2: the earliest of a tie if asked for": Case(
        window(NO_SUN, TWO_PRICES),
        (task("a", 1, 1, 4),),
        {"a": (1, 0.0025)},
        settings=RoundSettings(tie="earliest"),
    ),
    "H2: never late to win a tie": Case(
        window(NO_SUN, TWO_PRICES), (task("a", 1, 1, 2),), {"a": (1, 0.0025)}
    ),
    "H3: one price": Case(window(FIGURE, 0.02), (task("a", 2, 1, 6),), {"a": (3, 0.0003)}),
    "H3: two prices": Case(
        window(FIGURE, (0.2, 0.2, 0.2, 0.2, 0.1, 0.1)), (task("a", 2, 1, 6),), {"a": (3, 0.0015)}
    ),
    "H4: the urgent one gets the sun": Case(
        window((0, 25, 0, 0)),
        (task("a", 1, 1, 4), task("b", 1, 1, 2)),
        {"b": (1, 0.0), "a": (3, 0.0025)},
    ),
    "H5: greedy, not optimal": Case(
        window((0, 0, 0, 50, 50, 0), nodes=2),
        (task("p", 1, 1, 4), task("c", 2, 2, 6, predecessors=("p",))),
        {"p": (3, 0.0), "c": (4, 0.005)},
    ),
    "H6: refused": Case(
        window((0, 0, 0)),
        (task("a", 3, 1, 3), task("b", 1, 1, 3)),
        {"a": (0, 0.0075), "b": None},
        refused=("b",),
    ),
    "H7: late": Case(
        window(NO_SUN),
        (task("a", 2, 1, 2), task("b", 1, 1, 2)),
        {"a": (0, 0.005), "b": (2, 25.0025)},
        late=("b",),
    ),
    "H8: beyond the window and not green": Case(window((0, 10, 0, 0)), (task("a", 1, 1, 6),), {"a": None}),
    "H8: beyond the window and green": Case(window((0, 25, 0, 0)), (task("a", 1, 1, 6),), {"a": (1, 0.0)}),
    "H8: due at the window's very end": Case(
        window((0, 10, 0, 0)), (task("a", 1, 1, 4),), {"a": (1, 0.0015)}
    ),
    "H9: the floor takes sun": Case(
        window((15, 40, 70), nodes=2, base_w=40.0, sleep_w=10.0), (task("a", 1, 2, 3),), {"a": (2, 0.0)}
    ),
    "H10: first round": Case(
        window((0,) * 6),
        (task("a", 1, 1, 2), task("b", 2, 1, 3)),
        {"a": (1, 0.0025), "b": (2, 25.005)},
        late=("b",),
    ),
    "H11: greedy is dearer than at once": Case(
        window((0, 50, 0, 0, 0, 0), (0.1, 0.1, 0.1, 0.2, 0.2, 0.2)),
        (task("a", 1, 1, 4), task("b", 2, 1, 5)),
        {"a": (1, 0.0), "b": (2, 0.0075)},
    ),
    "H12: first round": Case(window(NO_SUN), (task("a", 1, 1, 4),), {"a": (3, 0.0025)}),
}


@pytest.mark.parametrize("name", CASES)
def test_first_rounds(name: str) -> None:
    case = CASES[name]
    done = plan_round(case.slots, case.tasks, {}, case.settings)
    plans = done.plans
    found = {key: plan.start for key, plan in plans.items()}
    assert found == {key: None if start is None else start[0] for key, start in case.starts.items()}
    for key, start in case.starts.items():
        if start is not None:
            assert plans[key].cost == pytest.approx(start[1], abs=1e-12)
    assert tuple(key for key, plan in plans.items() if plan.refused) == case.refused
    assert tuple(key for key, plan in plans.items() if plan.late) == case.late


def test_h2_what_a_late_start_would_cost() -> None:
    """Slots 0 and 1 are taken: a late start is all that is left."""
    slots = window(NO_SUN, TWO_PRICES, running=[running("r", 1, 0, 2)])
    plan = plan_round(slots, [task("a", 1, 1, 2)], {}).plans["a"]
    assert (plan.start, plan.late_slots, plan.cost) == (2, 1, pytest.approx(25.0025))


@pytest.mark.parametrize(
    ("light", "start"), [("1000000", 2), ("0001000", 2), ("0000100", 0), ("0000000", 0), ("0110000", 2)]
)
def test_a_tie_waits_for_daylight_from_its_first_start_to_its_last_end(light: str, start: int) -> None:
    """Starts 0 to 2 are in time; the last of them ends with slot 3."""
    slots = window((0,) * 7)
    slots.daylight[:] = [flag == "1" for flag in light]
    assert plan_round(slots, [task("a", 2, 1, 4)], {}).plans["a"].start == start


def test_h3_cost_of_each_start() -> None:
    flat = Reservations(window(FIGURE, 0.02)).costs(1, 25 * WH_J, 2)
    assert (flat.brown_j / WH_J).tolist() == pytest.approx([50, 40, 15, 15, 40])
    slots = window(FIGURE, (0.2, 0.2, 0.2, 0.2, 0.1, 0.1))
    costs = Reservations(slots).costs(1, 25 * WH_J, 2)
    assert costs.cost.tolist() == pytest.approx([0.010, 0.008, 0.003, 0.0015, 0.004])


def test_h6_the_others_of_its_workflow_are_refused_too() -> None:
    """What the first phase got is free again for the next job."""
    first = task("a", 1, 1, 1, workflow="w", order=0)
    second = task("b", 3, 1, 3, workflow="w", predecessors=("a",), order=1)
    other = task("c", 1, 1, 3, order=2)
    done = plan_round(window((0, 0, 0)), [first, second, other], {})
    assert {key: plan.why for key, plan in done.plans.items()} == {
        "a": planning.WORKFLOW_REFUSED,
        "b": planning.REFUSED,
        "c": planning.AS_CHEAP_LATER,
    }
    assert done.slots.free.tolist() == [1, 1, 0]
    assert not done.taken_s


def test_h7_its_deadline_moves_by_a_slot_and_no_further_than_its_submission() -> None:
    tasks = [task("a", 2, 1, 2), task("b", 1, 1, 2)]
    assert plan_round(window(NO_SUN), tasks, {}).taken_s == {"b": SLOT_S}
    tasks[1] = replace(tasks[1], taken_s=SLOT_S, new=False)
    done = plan_round(window(NO_SUN), tasks, {})
    assert list(done.plans) == ["a", "b"]  # both could start at 0 at the latest, and a came first
    assert done.taken_s == {}
    tasks[1] = replace(tasks[1], taken_s=0.5 * SLOT_S)
    assert plan_round(window(NO_SUN), tasks, {}).taken_s == {"b": SLOT_S}


def test_h10_the_second_round_is_worse() -> None:
    tasks = [task("a", 1, 1, 2), task("b", 2, 1, 3)]
    taken_s = plan_round(window((0,) * 6), tasks, {}).taken_s
    assert taken_s == {"b": SLOT_S}
    later = [replace(one, new=False, taken_s=taken_s.get(one.key, 0.0)) for one in tasks]
    plans = plan_round(window((0,) * 6, now=1), later, {}).plans
    assert (plans["b"].start, plans["a"].start) == (0, 2)
    assert plans["a"].late_slots == 2
    assert plans["b"].late_slots == 1  # by its tightened deadline


def test_h12_sun_that_is_forecast_later_moves_a_job_forward() -> None:
    one = task("a", 1, 1, 4)
    assert plan_round(window(NO_SUN), [one], {}).plans["a"].start == 3
    plan = plan_round(window((0, 25, 0, 0), now=1), [replace(one, new=False)], {}).plans["a"]
    assert (plan.start, plan.cost) == (1, 0.0)


# --- deadlines and the window -------------------------------------------------------------------------------


def test_a_deadline_a_moment_after_the_window_is_beyond_it() -> None:
    """A microsecond is no difference, a millisecond is."""
    at_end, within, after = (
        plan_round(window(NO_SUN), [replace(task("a", 1, 1), deadline_s=3600 + more_s)], {}).plans["a"]
        for more_s in (0.0, 5e-7, 1e-3)
    )
    assert at_end.start == within.start == 3
    assert (after.start, after.why) == (None, planning.SUN_BEYOND)
    assert (after.cost, after.brown_j, after.compared) == (pytest.approx(0.0025), 25 * WH_J, 4)


def test_a_duration_a_moment_over_a_slot_is_one_slot() -> None:
    ends = [
        plan_round(window((25,) * 4), [task("a", slots, 1, 4)], {}).plans["a"].end_slot
        for slots in (0.0, 0.2, 0.9999999, 1.0, 1.0000000001, 1.01)
    ]
    assert ends == [1, 1, 1, 1, 1, 2]


def test_without_a_deadline_a_job_comes_last_and_waits_for_sun() -> None:
    tasks = [task("a", 1, 1), task("b", 1, 1, 4)]
    done = plan_round(window((0, 25, 0, 0)), tasks, {})
    assert {key: plan.start for key, plan in done.plans.items()} == {"b": 1, "a": None}
    assert done.plans["a"].slack_s == math.inf
    anywhere = plan_round(window((0, 25, 0, 0)), tasks, {}, RoundSettings(beyond="anywhere"))
    assert anywhere.plans["a"].start == 3


def test_a_deadline_in_the_past_is_late_not_refused() -> None:
    plan = plan_round(window(NO_SUN, now=8), [task("a", 1, 2, 3)], {}).plans["a"]
    assert plan.refused  # two nodes, but there is one
    plan = plan_round(window((0, 0, 0, 25), now=8), [task("a", 1, 1, 3)], {}).plans["a"]
    assert (plan.start, plan.late_slots, plan.cost) == (0, 1, pytest.approx(25.0025))
    assert plan.slack_s == -6 * SLOT_S


def test_an_old_job_that_fits_nowhere_is_kept() -> None:
    tasks = [task("a", 3, 1, 3), task("b", 1, 1, 3, new=False)]
    done = plan_round(window((0, 0, 0)), tasks, {})
    assert done.plans["b"].why == planning.NO_SLOT
    assert not done.plans["b"].refused
    room = plan_round(window((0, 0, 0)), [task("a", 3, 1, 3), task("b", 1, 1, 4)], {})
    assert (room.plans["b"].start, room.plans["b"].refused) == (None, False)


@pytest.mark.parametrize(("busy", "start"), [((), 0), ((0, 2), 2), ((0, 4), None)])
def test_longer_than_the_window(busy: tuple[int, int] | tuple[()], start: int | None) -> None:
    """As soon as its node stays free, whatever it costs and even without any grid."""
    jobs = [running("r", 1, *busy)] if busy else []
    slots = window((0, 0, 0, 25), running=jobs, limit_wh=0)
    plan = plan_round(slots, [task("a", 5, 1, 40)], {}).plans["a"]
    assert plan.start == start
    assert plan.end_slot == 4
    assert not plan.refused
    if start is not None:
        assert plan.why == planning.FIRST_ROOM
        assert plan.cost == pytest.approx(0.0025 * (3 - start))
        assert plan.green_j == 25 * WH_J


def test_longer_than_the_window_and_late() -> None:
    done = plan_round(window(NO_SUN), [task("a", 5, 1, 4)], {})
    assert done.plans["a"].late_slots == 1
    assert done.taken_s == {}
    slots = window(NO_SUN, running=[running("r", 1, 0, 4)])
    assert plan_round(slots, [task("a", 5, 1, 4)], {}).plans["a"].why == planning.REFUSED
    endless = plan_round(slots, [replace(task("a", 1, 1, 9), duration_s=math.inf)], {}).plans["a"]
    assert (endless.start, endless.refused) == (None, False)


# --- precedence ---------------------------------------------------------------------------------------------


def test_a_running_predecessor_and_one_that_is_not_known() -> None:
    slots = window((25,) * 4, nodes=2, running=[running("r", 1, -1, 3)])
    waits = task("a", 1, 1, 4, predecessors=("r",))
    plan = plan_round(slots, [waits], {"r": 2}).plans["a"]
    assert (plan.start, plan.why) == (2, planning.PREDECESSORS)
    unknown = plan_round(slots, [waits], {}).plans["a"]
    assert (unknown.start, unknown.why, unknown.refused) == (None, planning.PREDECESSORS, False)
    assert plan_round(slots, [waits], {"r": 0}).plans["a"].start == 2  # the sun of slots 0 and 1 is taken


def test_think_time_counts_from_the_end_of_the_last_predecessor() -> None:
    slots = window((25,) * 9, nodes=2)
    first = task("a", 1, 1, 4)
    second = task("b", 1, 1, 9, predecessors=("a",), think_time_s=1.5 * SLOT_S)
    assert plan_round(slots, [first, second], {}).plans["b"].start == 3
    passed = replace(second, earliest_s=-0.5 * SLOT_S)
    assert plan_round(slots, [passed], {"a": 0}).plans["b"].start == 0
    ended = replace(second, earliest_s=2.5 * SLOT_S)
    plan = plan_round(slots, [ended], {"a": 0}).plans["b"]
    assert (plan.start, plan.why) == (3, planning.PREDECESSORS)


def test_a_job_is_tried_after_its_predecessors_even_if_it_is_more_urgent() -> None:
    first, second = task("a", 1, 1, 4), task("b", 1, 1, 2, predecessors=("a",))
    done = plan_round(window((25,) * 4), [second, first], {})
    assert {key: plan.start for key, plan in done.plans.items()} == {"a": 0, "b": 1}


def test_jobs_that_wait_for_each_other_are_not_placed() -> None:
    tasks = [
        task("a", 1, 1, 4, predecessors=("b",)),
        task("b", 1, 1, 4, predecessors=("a",)),
        task("c", 1, 1, 4, predecessors=("b",)),
        task("d", 1, 1, 4),
    ]
    plans = plan_round(window((25,) * 4), tasks, {}).plans
    assert [plans[key].start for key in "abcd"] == [None, None, None, 0]
    assert {plans[key].why for key in "abc"} == {planning.PREDECESSORS}


def test_who_waits_for_a_refused_job_is_refused() -> None:
    tasks = [
        task("a", 4, 1, 4),
        task("b", 1, 1, 4, workflow="w"),
        task("c", 1, 1, 6, workflow="w"),
        task("d", 1, 1, 9, predecessors=("b",)),
        task("e", 1, 1, 9, predecessors=("d",)),
    ]
    plans = plan_round(window(NO_SUN), tasks, {}).plans
    assert [plans[key].why for key in "bcde"] == [
        planning.REFUSED,
        planning.WORKFLOW_REFUSED,
        planning.PREDECESSOR_UNFINISHED,
        planning.PREDECESSOR_UNFINISHED,
    ]


def test_a_refused_job_keeps_its_first_reason() -> None:
    tasks = [
        task("a", 1, 9, 1),
        task("b", 1, 1, 2, predecessors=("a",), workflow="w"),
        task("c", 1, 9, 3, workflow="w"),
    ]
    plans = plan_round(window(NO_SUN), tasks, {}).plans
    assert [plans[key].why for key in "abc"] == [
        planning.REFUSED,
        planning.PREDECESSOR_UNFINISHED,
        planning.REFUSED,
    ]


def test_who_waits_for_a_job_that_waits_for_sun_waits_too() -> None:
    """Though there would be room after the cheapest start of the first."""
    tasks = [task("a", 1, 1, 9), task("b", 1, 1, 30, predecessors=("a",))]
    plans = plan_round(window((24, 0, 0, 0)), tasks, {}).plans
    assert (plans["a"].start, plans["a"].why, plans["a"].end_slot) == (None, planning.SUN_BEYOND, 4)
    assert (plans["b"].start, plans["b"].why) == (None, planning.PREDECESSORS)


# --- tightening ---------------------------------------------------------------------------------------------

CHAIN = (
    task("a", 1, 1, 30, workflow="w"),
    task("b", 1, 1, 30, workflow="w", predecessors=("a",)),
    task("c", 1, 1, 3, workflow="w", predecessors=("b",)),
    task("d", 1, 1, 3, workflow="w", predecessors=("b",)),
)
"""The first two take until 4; the last two are late."""


@pytest.mark.parametrize(
    ("tighten", "moved"), [("ancestors", "ab"), ("job", "cd"), ("both", "abcd"), ("none", "")]
)
def test_who_is_tightened(tighten: str, moved: str) -> None:
    slots = window((0, 0, 25, 25, 0, 0), nodes=2)
    settings = RoundSettings(beyond="anywhere", tighten=tighten)  # type: ignore[arg-type]
    done = plan_round(slots, CHAIN, {}, settings)
    assert [done.plans[key].start for key in "ab"] == [2, 3]
    assert [done.plans[key].late for key in "abcd"] == [False, False, True, True]
    assert done.taken_s == dict.fromkeys(moved, SLOT_S)


def test_late_jobs_whose_ancestors_run_are_tightened_themselves() -> None:
    slots = window((0, 0, 25, 25, 0, 0), nodes=2, running=[running("b", 1, 0, 4)])
    assert plan_round(slots, CHAIN[2:], {"b": 4}).taken_s == {"c": SLOT_S, "d": SLOT_S}


def test_jobs_without_a_workflow_tighten_each_their_own_ancestors() -> None:
    """But none that has no deadline; and of one workflow only the first late job's."""
    slots = window((0, 0, 0, 75, 50, 50), nodes=4)
    tasks = [
        task("a", 1, 1, 30),
        task("b", 1, 1, 40),
        task("c", 1, 1),
        task("x", 1, 1, 3, predecessors=("a",)),
        task("y", 1, 1, 3, predecessors=("b", "c")),
    ]
    settings = RoundSettings(beyond="anywhere")
    assert plan_round(slots, tasks, {}, settings).taken_s == {"a": SLOT_S, "b": SLOT_S}
    tasks[3:] = [replace(one, workflow="w") for one in tasks[3:]]
    assert plan_round(slots, tasks, {}, settings).taken_s == {"a": SLOT_S}


# --- energy, prices, limits ---------------------------------------------------------------------------------


def test_at_a_price_of_zero_green_is_still_meant() -> None:
    """All starts cost nothing: the one with least brown energy wins; beyond the window only a green one."""
    slots = window((0, 10, 20, 10), 0.0)
    due = plan_round(slots, [task("a", 1, 1, 4)], {}).plans["a"]
    assert (due.start, due.why, due.cost, due.brown_j) == (2, planning.GREENER_LATER, 0.0, 5 * WH_J)
    beyond = plan_round(slots, [task("a", 1, 1, 9)], {}).plans["a"]
    assert (beyond.start, beyond.cost) == (None, 0.0)


def test_negative_prices_attract_unless_there_is_a_floor() -> None:
    slots = window((0, 0, 25, 0), (0.1, -0.2, 0.1, 0.1))
    assert plan_round(slots, [task("a", 1, 1, 4)], {}).plans["a"].start == 1
    assert plan_round(slots, [task("a", 1, 1, 4)], {}).plans["a"].cost == pytest.approx(-0.005)
    floored = plan_round(slots, [task("a", 1, 1, 4)], {}, RoundSettings(price_floor=0.0)).plans["a"]
    assert (floored.start, floored.cost) == (2, 0.0)
    slots = window((0, 0, 25, 0), (-0.2, 0.1, 0.1, 0.1))
    beyond = plan_round(slots, [task("a", 1, 1, 9)], {}).plans["a"]
    assert (beyond.start, beyond.cost, beyond.why) == (2, 0.0, planning.GREENER_LATER)


def test_a_price_that_would_pay_for_being_late_does_not() -> None:
    """0.1 against 100 000 a kWh: the penalty is never less than a thousand dear node-slots."""
    plan = plan_round(window(NO_SUN, (1e5, 1e5, 0.1, 0.1)), [task("a", 1, 1, 2)], {}).plans["a"]
    assert (plan.start, plan.late) == (1, False)
    late = plan_round(window(NO_SUN, 1e5, running=[running("r", 1, 0, 2)]), [task("a", 1, 1, 2)], {})
    assert late.plans["a"].cost == pytest.approx(1e5 * 0.025 * 1001)


def test_an_import_limit_blocks_slots_and_counts_what_is_given_away() -> None:
    """A limit of 40 Wh feeds one node-slot, and the rest of one that the sun feeds in part."""
    slots = window((0, 10, 0, 0), nodes=3, limit_wh=40)
    tasks = [task("a", 1, 1, 1), task("b", 1, 1, 1), task("c", 1, 2, 4)]
    done = plan_round(slots, tasks, {}, RoundSettings(refuse=False))
    assert {key: plan.start for key, plan in done.plans.items()} == {"a": 0, "b": 1, "c": None}
    assert left_wh(done.slots).tolist() == [15, 25, 40, 40]
    assert plan_round(window((0, 20), nodes=2, limit_wh=30), [task("a", 1, 2, 2)], {}).plans["a"].start == 1


def test_the_floor_and_running_jobs_count_against_the_limit() -> None:
    jobs = [running("r", 1, 0, 2)]
    slots = window((0, 0, 0), nodes=3, limit_wh=60, running=jobs, base_w=80.0)
    assert left_wh(slots).tolist() == [15, 15, 40]
    assert plan_round(slots, [task("a", 1, 1, 3)], {}).plans["a"].start == 2


def test_without_a_grid_only_green_starts_exist() -> None:
    slots = window((0, 24.9, 25, 0), limit_wh=0)
    assert plan_round(slots, [task("a", 1, 1, 4)], {}).plans["a"].start == 2
    assert plan_round(slots, [task("a", 2, 1, 4)], {}).plans["a"].refused


def test_a_job_with_a_power_of_its_own() -> None:
    slots = window((0, 10, 25, 0))
    plan = plan_round(slots, [task("a", 1, 1, 4, extra_w=40.0)], {}).plans["a"]
    assert (plan.start, plan.green_j) == (1, 10 * WH_J)


def test_what_is_told_about_a_choice() -> None:
    """The running job should have ended by now, and keeps one slot more."""
    slots = window(NO_SUN, running=[running("r", 1, -3, 3)])
    plan = plan_round(slots, [task("a", 1, 1, 4)], {}).plans["a"]
    assert (plan.start, plan.why, plan.compared, plan.earliest) == (3, planning.AS_CHEAP_LATER, 3, 1)
    assert (plan.cost, plan.earliest_cost) == (pytest.approx(0.0025), pytest.approx(0.0025))
    cheaper = plan_round(window(NO_SUN, TWO_PRICES), [task("a", 1, 1, 4)], {}).plans["a"]
    assert (cheaper.why, cheaper.earliest, cheaper.earliest_cost) == (
        planning.CHEAPER_LATER,
        0,
        pytest.approx(0.005),
    )
    now = plan_round(window(NO_SUN), [task("a", 4, 1, 4)], {})
    assert (now.plans["a"].why, now.plans["a"].start) == (planning.CHEAPEST, 0)
    slots = window((25, 25), running=[running("r", 1, 0, 1)])
    assert plan_round(slots, [task("a", 1, 1, 2)], {}).plans["a"].why == planning.FIRST_ROOM


# --- lowest window ------------------------------------------------------------------------------------------


def test_lowest_window_shares_nodes_but_not_sun() -> None:
    slots = window((0, 25, 0, 0), nodes=2)
    tasks = [task("a", 1, 1, 4), task("b", 1, 1, 2), task("c", 1, 1, 4)]
    done = plan_round(slots, tasks, {}, LOWEST_WINDOW)
    assert {key: plan.start for key, plan in done.plans.items()} == {"a": 1, "b": 1, "c": 0}
    assert list(done.plans) == ["a", "b", "c"]
    assert np.array_equal(done.slots.net_j, slots.net_j)


def test_lowest_window_keeps_the_deadline_and_refuses_nobody() -> None:
    slots = window(NO_SUN, (0.4, 0.3, 0.2, 0.1))
    assert plan_round(slots, [task("a", 1, 1, 3)], {}, LOWEST_WINDOW).plans["a"].start == 2
    assert plan_round(slots, [task("a", 1, 1)], {}, LOWEST_WINDOW).plans["a"].start == 3
    tasks = [task("a", 4, 1, 4), task("b", 1, 1, 4)]
    assert plan_round(slots, tasks, {}, LOWEST_WINDOW).plans["b"].why == planning.NO_SLOT
