"""GreenSlot's price of a slot that raises the highest import."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from plugins.greenslot.round_cases import running, task, window

from beasy_sched.energy.balance import settle_step
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.grid import Announced, Grid
from beasy_sched.energy.grid_charging import ChargeRule, GridRules, grid_use, within_hours
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.plugins.greenslot.greenslot_words import CHEAPEST, PEAK_LATER
from beasy_sched.plugins.greenslot.peak_prices import (
    GridCharges,
    PeakCosts,
    SlotPeaks,
    _window_maxima,
    charges_ahead,
)
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


# --- the battery's charge from the grid ---

HOUR_S = 3600.0
EDGES_S = HOUR_S * np.arange(13)
BATTERY = BatterySpec(3.6e6, charge_limit_w=500.0, discharge_limit_w=500.0, soc_start_pct=40.0)


def grid(limit_w: float, rest: bool = False) -> Grid:
    nights = within_hours(0, 4, Calendar(datetime(2024, 7, 1, tzinfo=timezone.utc)))
    return Grid(limit_w, rules=GridRules(ChargeRule(nights, 80.0), nights if rest else None))


@given(
    st.lists(st.floats(-2500, 2500), min_size=12, max_size=12),
    st.sampled_from([400.0, 1500.0, math.inf]),
    st.booleans(),
)
def test_expected_charges_are_those_of_the_balance(drawn: list[float], limit_w: float, rest: bool) -> None:
    net_w, site_grid = np.array(drawn), grid(limit_w, rest)
    charges = charges_ahead(site_grid, Storage(BATTERY), StorageState(BATTERY.start_j), net_w, 0.0, EDGES_S)
    state, expected = StorageState(BATTERY.start_j), []
    for number, power_w in enumerate(drawn):
        record, state = settle_step(
            Storage(BATTERY),
            state,
            dt_s=HOUR_S,
            consumed_j=max(-power_w, 0.0) * HOUR_S,
            renew_w=max(power_w, 0.0),
            grid=site_grid,
            use=grid_use(site_grid, EDGES_S[number], HOUR_S, Announced()),
        )
        expected.append(record.grid_charge_w)
    found = np.zeros(12) if charges is None else charges.charge_w
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)


def charged(charge_w: list[float], limit_w: float, so_far_w: float = 0.0) -> Slots:
    """Two idle nodes of 100 W without production, and a battery that the grid charges."""
    count = len(charge_w)
    charges = GridCharges(np.array(charge_w), np.array([limit_w if each else 0.0 for each in charge_w]))
    priced_peaks = SlotPeaks(12.0, np.full(count, so_far_w), np.zeros(count, dtype=np.int64), None, charges)
    return replace(window([0] * count, 0.0, 2), peaks=priced_peaks)


def costs(slots: Slots, length: int = 1) -> list[float]:
    return Reservations(slots).costs(1, 100.0 * 900, length).cost.tolist()


def test_a_job_beside_a_charging_battery_raises_the_peak() -> None:
    """The charge of 300 W is the peak: a job of 100 W raises it only in the same slot."""
    assert costs(charged([300.0, 0.0, 0.0], 1000.0)) == near([1.2, 0.0, 0.0])
    assert costs(charged([300.0, 0.0, 0.0], 1000.0), 2) == near([1.2, 0.0])


def test_a_battery_charged_up_to_the_limit_gives_way() -> None:
    """Up to the limit of the rule, the battery takes what the job leaves: the peak is the limit."""
    assert costs(charged([300.0, 0.0], 300.0)) == near([0.0, 0.0])
    assert costs(charged([300.0, 0.0], 350.0)) == near([0.6, 0.0])
    assert costs(charged([50.0, 0.0], 50.0)) == near([0.6, 0.6])


def test_cooling_adds_to_the_peak() -> None:
    plain = window([0, 0], 0.0, 2)
    hot = replace(
        plain, peaks=SlotPeaks(12.0, np.zeros(2), np.zeros(2, dtype=np.int64), np.array([1.5, 1.0]))
    )
    assert costs(hot) == near([1.8, 1.2])


@given(st.lists(st.floats(0.0, 9.0), min_size=1, max_size=20), st.data())
def test_maxima_of_windows(values: list[float], data: st.DataObject) -> None:
    length = data.draw(st.integers(1, len(values)))
    expected = [max(values[at : at + length]) for at in range(len(values) - length + 1)]
    assert _window_maxima(np.array(values), length).tolist() == expected


def test_many_slots_with_a_charge_are_as_few() -> None:
    for count in (3, 12):
        found = costs(charged([300.0] * count + [0.0], 350.0, so_far_w=310.0))
        assert found == near([0.48] * count + [0.0])


COUNT = 16
SLOT_J = 100.0 * 900


def per_slot(least: int, most: int) -> st.SearchStrategy[Any]:
    values = st.lists(st.integers(least, most).map(float), min_size=COUNT, max_size=COUNT)
    return values.map(np.array)


@st.composite
def drawn_peaks(draw: st.DrawFn) -> SlotPeaks:
    charges = None
    if draw(st.booleans()):
        charge_w = np.maximum(draw(per_slot(-300, 500)), 0.0)
        limit_w = draw(st.sampled_from([300.0, 600.0, 1000.0]))
        charges = GridCharges(charge_w, np.where(charge_w > 0.0, limit_w, 0.0))
    period = np.repeat([0, draw(st.integers(0, 1))], [5, COUNT - 5])
    so_far_w = np.array(draw(st.lists(st.integers(0, 1000).map(float), min_size=2, max_size=2)))
    pue = draw(st.none() | per_slot(100, 160).map(lambda percents: percents / 100.0))
    return SlotPeaks(12.0, so_far_w[period], period, pue, charges)


def peak_cost(slot_peaks: SlotPeaks, net_j: Any) -> Any:
    """What one more node costs in each slot, from the imports with and without it."""
    before_w, after_w = (
        slot_peaks.import_w(np.maximum(more_j - net_j, 0.0) / 900) for more_j in (0.0, SLOT_J)
    )
    return np.maximum(after_w - slot_peaks.highest_w(before_w), 0.0) * 12.0 / 1000.0


@settings(max_examples=200)
@given(drawn_peaks(), per_slot(-500, 500), st.data())
def test_costs_after_reservations_are_as_computed_afresh(
    slot_peaks: SlotPeaks, sun_w: Any, data: st.DataObject
) -> None:
    slots = replace(window((sun_w / 4).tolist(), 0.0, 50), peaks=slot_peaks)
    room, reserved = Reservations(slots), []
    for _ in range(data.draw(st.integers(1, 6))):
        if reserved and data.draw(st.integers(0, 3)) == 0:
            span, res = reserved.pop(data.draw(st.integers(0, len(reserved) - 1)))
            room.reserve(span, -res, -res * SLOT_J)
        else:
            res, length = data.draw(st.integers(1, 3)), data.draw(st.integers(1, COUNT))
            found = room.costs(res, res * SLOT_J, length).peak_cost
            assert found is not None
            start = data.draw(st.sampled_from([int(found.argmin()), COUNT - length]))
            span = slice(start, start + length)
            room.reserve(span, res, res * SLOT_J)
            reserved.append((span, res))
        afresh = PeakCosts(slot_peaks, room.net_j, 900.0).of_starts(SLOT_J, 1)
        kept = room.costs(1, SLOT_J, 1).peak_cost
        np.testing.assert_allclose(kept, afresh, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(kept, peak_cost(slot_peaks, room.net_j), rtol=1e-6, atol=1e-6)
