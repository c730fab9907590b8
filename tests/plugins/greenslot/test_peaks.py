"""GreenSlot's price of a slot that raises the highest import."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from plugins.greenslot.round_cases import running, task, window

from beasy_sched.plugins.greenslot.greenslot_words import CHEAPEST, PEAK_LATER
from beasy_sched.plugins.greenslot.peak_prices import SlotPeaks
from beasy_sched.plugins.greenslot.planning import RoundSettings, plan_round
from beasy_sched.plugins.greenslot.slots import Reservations, Slots


def near(values: Any) -> Any:
    return pytest.approx(values, rel=1e-7)


def peaks(so_far_w: float, count: int, per_kw: float = 12.0, period: list[int] | None = None) -> SlotPeaks:
    return SlotPeaks(per_kw, np.full(count, so_far_w), np.array(period or [0] * count))


def priced(sun_wh: list[float], so_far_w: float, **more: object) -> Slots:
    """Two nodes of 100 W, one of them busy for two slots; energy costs nothing, the peak 12 a kW."""
    given = window(sun_wh, 0.0, 2, running=[running("r", 1, 0, 2)], **more)  # type: ignore[arg-type]
    return replace(given, peaks=peaks(so_far_w, len(sun_wh)))


def test_a_start_costs_what_it_raises_the_peak() -> None:
    room = Reservations(priced([0, 0, 0, 0], 100.0))
    costs = room.costs(1, 100.0 * 900, 1)
    assert costs.cost.tolist() == near([1.2, 1.2, 0.0, 0.0])
    assert costs.peak_cost is not None
    assert room.costs(1, 100.0 * 900, 2).cost.tolist() == near([1.2, 1.2, 0.0])


def test_a_peak_that_was_reached_before_is_free() -> None:
    assert Reservations(priced([0, 0, 0], 200.0)).costs(1, 100.0 * 900, 1).cost.tolist() == [0, 0, 0]


def test_what_is_reserved_raises_the_peak_for_all() -> None:
    room = Reservations(priced([0, 0, 0, 0], 100.0))
    room.reserve(slice(0, 1), 1, 100.0 * 900)
    assert room.costs(1, 100.0 * 900, 1).cost.tolist()[1:] == [0.0, 0.0, 0.0]


def test_each_period_has_its_peak() -> None:
    given = replace(priced([0, 0, 0, 0], 0.0), peaks=peaks(0.0, 4, period=[0, 0, 1, 1]))
    assert Reservations(given).costs(1, 50.0 * 900, 1).cost.tolist() == near([0.6, 0.6, 0.6, 0.6])


def test_a_task_waits_for_a_slot_that_keeps_the_peak_low() -> None:
    made = plan_round(priced([0, 0, 0, 0], 100.0), [task("a", 1, 1, 4)], {}, RoundSettings())
    assert (made.plans["a"].start, made.plans["a"].why) == (3, PEAK_LATER)
    assert made.plans["a"].earliest_cost == near(1.2)
    reached = plan_round(priced([0, 0, 0, 0], 250.0), [task("a", 1, 1, 4)], {}, RoundSettings(tie="earliest"))
    assert (reached.plans["a"].start, reached.plans["a"].why) == (0, CHEAPEST)


def test_a_deadline_has_priority_over_the_peak() -> None:
    made = plan_round(priced([0, 0, 0, 0], 0.0), [task("a", 1, 1, 1)], {}, RoundSettings())
    assert made.plans["a"].start == 0
