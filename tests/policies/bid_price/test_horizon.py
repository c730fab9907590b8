"""What bid-price foresees: what a plan expects where there is one, or else what was seen before."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from plan_cases import hand_plan, two_kinds

from beasy_sched.energy.site import Site
from beasy_sched.planner.plan import PlanStore
from beasy_sched.policies.bid_price.horizon import Cells, Foresight
from beasy_sched.units import TIME_TOLERANCE_S

HOUR_S = 3600.0
START_S = 7200.0
PLAN = replace(hand_plan(), start_s=START_S)
"""Three hours: 6 kW, 1 kW and nothing are expected."""
SITE = Site(PLAN.storage, HOUR_S, 3 * HOUR_S)
SEEN_W = 444.0


class Steady:
    """A forecast that always expects the same."""

    def renewable_w(self, now: float, step_s: float, steps: int) -> np.ndarray:
        return np.full(steps, 777.0)


def foresight(*, plans: PlanStore | None = None, outlook: Any = None, production: Any = "plan") -> Foresight:
    view = SimpleNamespace(
        platform=two_kinds(),
        plans=plans,
        outlook=outlook,
        planned_until_s=0.0 if plans is None else plans.end_s,
        end_s=10 * HOUR_S,
    )
    return Foresight(view, SITE, production)  # type: ignore[arg-type]


def seen_at(now: float, steps: int = 2, **what: Any) -> list[float]:
    return foresight(plans=PlanStore([PLAN]), **what).look(now, steps, SEEN_W).renew_w.tolist()


@pytest.mark.parametrize(
    ("now", "renew_w"),
    [
        (0.0, [SEEN_W, SEEN_W]),
        (START_S - 2 * TIME_TOLERANCE_S, [SEEN_W, SEEN_W]),
        (START_S - TIME_TOLERANCE_S, [6e3, 1e3]),
        (START_S, [6e3, 1e3]),
        (START_S + HOUR_S, [1e3, 0.0]),
        (START_S + 2 * HOUR_S, [0.0]),
        (START_S + 3 * HOUR_S - TIME_TOLERANCE_S, [SEEN_W, SEEN_W]),
        (START_S + 3 * HOUR_S, [SEEN_W, SEEN_W]),
    ],
)
def test_a_plan_counts_from_its_start_to_its_end(now: float, renew_w: list[float]) -> None:
    assert seen_at(now, len(renew_w)) == renew_w


def test_levels_of_the_plan_are_those_at_the_ends_of_its_steps() -> None:
    seen = foresight(plans=PlanStore([PLAN])).look(START_S + HOUR_S, 2, SEEN_W)
    assert seen.planned_j.tolist() == PLAN.power.battery_j[2:].tolist()


def test_without_a_plan_what_was_seen_counts() -> None:
    assert foresight().look(START_S, 2, SEEN_W).renew_w.tolist() == [SEEN_W, SEEN_W]


def test_a_forecast_counts_where_it_is_chosen_or_alone() -> None:
    assert seen_at(START_S, outlook=Steady()) == [6e3, 1e3]
    assert seen_at(START_S, outlook=Steady(), production="forecast") == [777.0, 777.0]
    assert seen_at(0.0, outlook=Steady()) == [777.0, 777.0]
    assert seen_at(START_S, production="forecast") == [6e3, 1e3]  # there is none to choose


def test_it_learns_from_what_it_foresaw_a_step_before() -> None:
    """Half of what was foreseen comes: less is counted on later; that of the present step is known."""
    ahead, cells = foresight(outlook=Steady()), Cells(3, HOUR_S)
    for hour in range(30):
        foreseen = ahead.look(hour * HOUR_S, 3, 388.5)
        supply_w = ahead.supply_w(foreseen, cells, 0.0)
        expected_w = 777.0 if hour == 0 else supply_w[1]
        assert supply_w.tolist() == pytest.approx([388.5, expected_w, supply_w[2]])
    assert supply_w[1] < 0.93 * 777.0
    assert (ahead.supply_w(foreseen, cells, 2.0) <= supply_w).all()


def test_the_same_time_a_day_before_counts_once_there_was_one() -> None:
    ahead = foresight()
    for hour in range(25):
        seen_w = ahead.look(hour * HOUR_S, 3, 100.0 * hour).renew_w
        if hour < 24:
            assert seen_w.tolist() == [50.0 * hour] * 3  # the mean so far
    assert seen_w.tolist() == [0.0, 100.0, 200.0]


@pytest.mark.parametrize(
    ("now", "end_s"),
    [
        (0.0, START_S + 3 * HOUR_S),  # the last planned window
        (START_S + 3 * HOUR_S - TIME_TOLERANCE_S, 6 * HOUR_S),  # beyond it, the present one
        (START_S + 3 * HOUR_S, 6 * HOUR_S),
        (6 * HOUR_S - TIME_TOLERANCE_S, 9 * HOUR_S),
        (9.5 * HOUR_S, 10 * HOUR_S),  # the run's end
    ],
)
def test_where_the_horizon_ends(now: float, end_s: float) -> None:
    assert foresight(plans=PlanStore([PLAN])).end_s(now) == end_s
