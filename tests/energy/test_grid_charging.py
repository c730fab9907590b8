"""Rules of a grid for the battery: hand-worked steps, and the balance of random ones."""

import math
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from beasy_sched.energy.balance import settle_step, step_headroom_j
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.devices.hydrogen import HydrogenPlan, HydrogenSpec
from beasy_sched.energy.grid import Announced, Export, Foreseen, Grid, Known, Signal
from beasy_sched.energy.grid_charging import (
    AS_ALWAYS,
    ChargeRule,
    GridRules,
    GridUse,
    RateBelow,
    RateKind,
    charging_ahead,
    grid_use,
    uses_ahead,
    within_hours,
)
from beasy_sched.energy.storage import Storage, StorageState

KWH, HOUR = 3.6e6, 3600.0
MIDNIGHT = Calendar(datetime(2022, 1, 31, tzinfo=timezone(timedelta(hours=1))))
BATTERY = BatterySpec(
    10 * KWH,
    soc_min_pct=0.0,
    soc_start_pct=0.0,
    soc_target_pct=0.0,
    charge_limit_w=2000.0,
    discharge_limit_w=2000.0,
    charge_efficiency=1.0,
    discharge_efficiency=1.0,
)
NIGHT = ChargeRule(within_hours(0, 5, MIDNIGHT), 80.0)
PRICES = Signal(HOUR * np.arange(5.0), np.array([0.05, 0.10, 0.25, 0.30]))
PRICE = Foreseen(PRICES, MIDNIGHT)


def settled(grid: Grid, soc_pct: float, load_w: float, *, renew_w: float = 0.0, hour: int = 0):
    use = grid_use(grid, hour * HOUR, HOUR, Announced())
    state = StorageState(BATTERY.energy_j(soc_pct))
    return settle_step(
        Storage(BATTERY), state, dt_s=HOUR, consumed_j=load_w * HOUR, renew_w=renew_w, grid=grid, use=use
    )[0]


def test_an_empty_battery_holds_5_kwh_by_five_oclock() -> None:
    grid = Grid(1500.0, rules=GridRules(NIGHT))
    state, storage, taken = StorageState(0.0), Storage(BATTERY), []
    for step in range(24 * 12):
        start_s = 300.0 * step
        use = grid_use(grid, start_s, 300.0, Announced())
        record, state = settle_step(
            storage, state, dt_s=300.0, consumed_j=500.0 * 300.0, renew_w=0.0, grid=grid, use=use
        )
        taken.append(record.grid_charge_w)
        if start_s + 300.0 == 5 * HOUR:
            assert state.battery_j == 5 * KWH
            assert record.import_w == 1500.0
    assert taken[:60] == [1000.0] * 60
    assert not any(taken[60:])


def test_the_charge_ends_at_its_level() -> None:
    grid = Grid(math.inf, rules=GridRules(NIGHT))
    assert settled(grid, 70.0, 0.0).grid_charge_w == 1000.0
    assert settled(grid, 80.0, 0.0).grid_charge_w == 0.0
    assert settled(grid, 85.0, 0.0).grid_charge_w == 0.0


def test_production_is_charged_first_and_beyond_the_level() -> None:
    grid = Grid(math.inf, rules=GridRules(NIGHT))
    record = settled(grid, 10.0, 500.0, renew_w=1200.0)
    assert (record.charge_w, record.grid_charge_w, record.import_w) == (2000.0, 1300.0, 1300.0)
    record = settled(grid, 80.0, 500.0, renew_w=1200.0)
    assert (record.charge_w, record.grid_charge_w, record.import_w) == (700.0, 0.0, 0.0)


def test_the_battery_rests_up_to_the_price_and_serves_above() -> None:
    grid = Grid(math.inf, price=PRICE, rules=GridRules(rest=RateBelow(PRICE, math.nextafter(0.25, 1.0))))
    of_hours = [settled(grid, 60.0, 800.0, hour=hour) for hour in range(4)]
    assert [record.discharge_w for record in of_hours] == [0.0, 0.0, 0.0, 800.0]
    assert [record.import_w for record in of_hours] == [800.0, 800.0, 800.0, 0.0]


def test_a_resting_battery_serves_what_the_limit_leaves() -> None:
    grid = Grid(500.0, price=PRICE, rules=GridRules(rest=RateBelow(PRICE, 0.25)))
    record = settled(grid, 60.0, 800.0)
    assert (record.import_w, record.discharge_w, record.unserved_w) == (500.0, 300.0, 0.0)
    assert step_headroom_j(Storage(BATTERY), StorageState(6 * KWH), dt_s=HOUR, renew_w=0.0, grid=grid) == (
        2500.0 * HOUR
    )


def test_a_defended_peak_leaves_the_battery_only_what_exceeds_it() -> None:
    grid = Grid(math.inf, rules=GridRules(NIGHT, peak_w=600.0))
    assert settled(grid, 60.0, 500.0, hour=6).discharge_w == 0.0
    record = settled(grid, 60.0, 900.0, hour=6)
    assert (record.import_w, record.discharge_w) == (600.0, 300.0)
    assert settled(grid, 0.0, 900.0, hour=6).import_w == 900.0
    charging = settled(grid, 60.0, 500.0)
    assert (charging.import_w, charging.grid_charge_w) == (600.0, 100.0)


def test_announced_rates_replace_those_of_the_files() -> None:
    grid = Grid(price=PRICE, carbon=PRICE, rules=GridRules(ChargeRule(RateBelow(PRICE, 0.08), 80.0)))
    assert grid_use(grid, 0.0, HOUR, Announced()).charge_soc_pct == 80.0
    assert grid_use(grid, 0.0, HOUR, Announced(price_per_kwh=0.2)) == AS_ALWAYS
    clean = ChargeRule(RateBelow(PRICE, 100.0, RateKind.CARBON), 80.0)
    grid = Grid(price=PRICE, carbon=PRICE, rules=GridRules(clean))
    assert grid_use(grid, 0.0, HOUR, Announced(carbon_g_per_kwh=200.0)) == AS_ALWAYS
    assert grid_use(grid, 0.0, HOUR, Announced(price_per_kwh=200.0)).charge_w == math.inf


@pytest.mark.parametrize(
    ("hours", "start", "length_s", "holds"),
    [
        ((22, 6), 23.0, 300.0, True),
        ((22, 6), 5.5, 300.0, True),
        ((22, 6), 6.0, 300.0, False),
        ((0, 5), 4.5, HOUR, False),  # half of the step is not its greater part
        ((0, 5), 4.4, HOUR, True),
        ((20, 24), 23.9, 300.0, True),
    ],
)
def test_hours_hold_for_the_greater_part_of_a_step(
    hours: tuple[int, int], start: float, length_s: float, *, holds: bool
) -> None:
    assert within_hours(*hours, MIDNIGHT).holds(start * HOUR, length_s, Announced()) is holds


def test_only_known_prices_count_ahead() -> None:
    """Beyond what is known, the day before is expected, whatever the file has."""
    per_day = np.array([0.05] * 12 + [0.3] * 12)
    times_s = HOUR * np.arange(49.0)
    now, edges_s = 0.0, times_s

    def ahead(second_day: np.ndarray) -> list[bool]:
        signal = Signal(times_s, np.concatenate((per_day, second_day)))
        rule = ChargeRule(RateBelow(Foreseen(signal, MIDNIGHT, Known.DAY), 0.1), 80.0)
        return charging_ahead(Grid(rules=GridRules(rule)), now, edges_s).tolist()

    assert ahead(per_day) == ahead(per_day[::-1]) == [*[True] * 12, *[False] * 12] * 2


def test_uses_ahead_are_those_of_each_step() -> None:
    rules = GridRules(ChargeRule(RateBelow(PRICE, 0.08), 80.0), RateBelow(PRICE, 0.2))
    grid = Grid(1500.0, price=PRICE, rules=rules)
    edges_s = HOUR * np.arange(5.0)
    assert uses_ahead(grid, 0.0, edges_s) == [
        grid_use(grid, start_s, HOUR, Announced()) for start_s in edges_s[:-1].tolist()
    ]
    assert uses_ahead(Grid(), 0.0, edges_s) is None


hydrogens = st.sampled_from(
    [
        None,
        HydrogenSpec(
            2.0, 1.0, 1.0, electrolyzer_min_w=100.0, electrolyzer_max_w=900.0, fuel_cell_max_w=700.0
        ),
    ]
)
uses = st.builds(
    GridUse,
    st.sampled_from([0.0, 300.0, 2500.0]),
    st.sampled_from([0.0, 300.0, 2500.0]),
    st.sampled_from([30.0, 80.0, 90.0]),
)
steps = st.lists(
    st.tuples(uses, st.floats(0, 3000), st.floats(0, 3000), st.floats(0, 900), st.floats(0, 700)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=examples(300), deadline=None)
@given(
    steps,
    hydrogens,
    st.sampled_from([0.0, 250.0, 1700.0, math.inf]),
    st.sampled_from(Export),
    st.floats(20, 90),
    st.sampled_from([60.0, 300.0, 7200.0]),
    st.floats(0.5, 1.0),
)
def test_the_balance_closes_whatever_the_rules(
    drawn: list,
    hydrogen: HydrogenSpec | None,
    limit_w: float,
    export: Export,
    soc: float,
    dt_s: float,
    eff: float,
) -> None:
    battery = BatterySpec(
        KWH,
        soc_start_pct=soc,
        charge_limit_w=800.0,
        discharge_limit_w=900.0,
        charge_efficiency=eff,
        self_discharge_per_day=0.1,
    )
    price = PRICE if export is Export.NET else None
    grid = Grid(limit_w, export, 500.0, price=price)
    storage = Storage(battery, hydrogen)
    state = storage.start()
    for use, load_w, renew_w, into_w, out_w in drawn:
        use = GridUse(min(use.first_w, limit_w), min(use.charge_w, limit_w), use.charge_soc_pct)
        planned = HydrogenPlan(into_w, 0.0 if into_w else out_w, state.battery_j) if hydrogen else None
        record, state = settle_step(
            storage,
            state,
            dt_s=dt_s,
            consumed_j=load_w * dt_s,
            renew_w=renew_w,
            base_w=40.0,
            grid=grid,
            use=use,
            **({"planned": planned} if planned else {}),
        )
        assert record.relative_residual < 1e-9
        assert 0.0 <= record.import_w <= limit_w
        assert 0.0 <= record.grid_charge_w <= record.charge_w * (1 + 1e-12)
        assert record.grid_charge_w <= record.import_w * (1 + 1e-12)
        assert record.charge_w <= battery.charge_limit_w
        assert not (record.charge_w and record.discharge_w)
        assert record.import_w == 0.0 or record.export_w == record.curtailed_w == 0.0
        least_j = battery.min_j - record.self_discharge_j - 1e-6
        assert least_j <= state.battery_j or record.battery_before_j < battery.min_j + 1e3
        assert state.battery_j <= battery.max_j * (1 + 1e-12)
        if record.grid_charge_w:
            assert record.soc_after_pct <= use.charge_soc_pct * (1 + 1e-12)
            assert record.import_w <= use.charge_w
        if record.unserved_w > 1e-6:
            assert record.import_w == limit_w
