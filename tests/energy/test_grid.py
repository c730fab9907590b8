import itertools
import math
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.energy.balance import settle_step, step_headroom_j
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.devices.battery import NO_BATTERY, BatterySpec
from beasy_sched.energy.fields import FieldError
from beasy_sched.energy.grid import (
    Announced,
    Export,
    Foreseen,
    Grid,
    Known,
    Signal,
    Tariff,
    meter,
    tariff_table,
)
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.errors import ConfigError

HOUR, DAY, KWH = 3600.0, 86_400.0, 3.6e6
NEW_YORK = ZoneInfo("America/New_York")
SUMMER = [6, 7, 8, 9]
WINTER = [1, 2, 3, 4, 5, 10, 11, 12]
PAPER = [(SUMMER, (9, 23), 0.13), (SUMMER, (23, 9), 0.08), (WINTER, (9, 23), 0.12), (WINTER, (23, 9), 0.08)]


def calendar(text, zone=NEW_YORK):
    return Calendar(datetime.fromisoformat(text), zone)


def hourly(rate, hours, first=0):
    return rate.means(HOUR * np.arange(first, first + hours + 1)).tolist()


# --- balance ------------------------------------------------------------------------------------------------

BATTERY = BatterySpec(10 * KWH, charge_limit_w=3000, discharge_limit_w=4000)


def settle(grid, renew, demand, soc=50.0, base=0.0, battery=BATTERY, reserve=0.0):
    state = StorageState(battery.energy_j(soc))
    return settle_step(
        Storage(battery), state, dt_s=HOUR, consumed_j=demand * HOUR, renew_w=renew, reserve_w=reserve,
        base_w=base, grid=grid,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("grid", "case", "imported", "exported", "discharged", "charged", "curtailed", "unserved"),
    [
        # Sun first, then the battery above SoC_min, then the grid up to its limit.
        (Grid(), {"renew": 500, "demand": 800}, 0, 0, 300, 0, 0, 0),
        (Grid(), {"renew": 500, "demand": 800, "soc": 20}, 300, 0, 0, 0, 0, 0),
        (Grid(), {"renew": 0, "demand": 9000}, 6150, 0, 2850, 0, 0, 0),
        (Grid(1000), {"renew": 500, "demand": 1800, "soc": 20}, 1000, 0, 0, 0, 0, 300),
        (Grid(0), {"renew": 500, "demand": 1800, "soc": 20}, 0, 0, 0, 0, 0, 1300),
        # A base load is served like the servers.
        (Grid(), {"renew": 100, "demand": 0, "base": 300, "soc": 20}, 200, 0, 0, 0, 0, 0),
        # The sleep floor does not take the battery below SoC_min where there is a grid.
        (Grid(100), {"renew": 0, "demand": 300, "soc": 20, "reserve": 300}, 100, 0, 0, 0, 0, 200),
        # A surplus: the battery, then export where it is allowed, then curtailment; never import.
        (Grid(), {"renew": 5000, "demand": 500}, 0, 0, 0, 3000, 1500, 0),
        (Grid(export=Export.FEED_IN), {"renew": 5000, "demand": 500}, 0, 1500, 0, 3000, 0, 0),
        (Grid(export=Export.FEED_IN, export_limit_w=400), {"renew": 5000, "demand": 500},
         0, 400, 0, 3000, 1100, 0),
        # Without a battery.
        (Grid(), {"renew": 500, "demand": 800, "battery": NO_BATTERY, "soc": 0}, 300, 0, 0, 0, 0, 0),
        (Grid(), {"renew": 900, "demand": 800, "battery": NO_BATTERY, "soc": 0}, 0, 0, 0, 0, 100, 0),
        (None, {"renew": 500, "demand": 800, "battery": NO_BATTERY, "soc": 0}, 0, 0, 0, 0, 0, 300),
    ],
)  # fmt: skip
def test_who_serves_a_step(grid, case, imported, exported, discharged, charged, curtailed, unserved):
    record, _ = settle(grid, **case)
    found = (record.import_w, record.export_w, record.discharge_w, record.charge_w, record.curtailed_w)
    assert (*found, record.unserved_w) == pytest.approx(
        (imported, exported, discharged, charged, curtailed, unserved)
    )
    assert record.relative_residual < 1e-12


watts = st.floats(0, 1e4) | st.sampled_from([0.0, 500.0])
grids = st.builds(
    Grid, import_limit_w=watts | st.just(math.inf), export=st.sampled_from([Export.NONE, Export.FEED_IN]),
    export_limit_w=watts | st.just(math.inf),
)  # fmt: skip


@given(grids, watts, watts, watts, watts, st.floats(0, 100), st.sampled_from([BATTERY, NO_BATTERY]))
def test_every_step_balances_within_the_limits_of_the_grid(grid, renew, demand, base, reserve, soc, battery):
    record, after = settle(grid, renew, demand, soc, base, battery, reserve)
    assert record.relative_residual <= 1e-9 or abs(record.residual_j) <= 1e-9
    assert 0 <= record.import_w <= grid.import_limit_w
    assert 0 <= record.export_w <= grid.may_export_w
    assert record.import_w == 0 or record.export_w == record.curtailed_w == record.charge_w == 0
    assert record.unserved_w == 0 or record.import_w == grid.import_limit_w
    assert after.battery_j >= min(battery.min_j, record.battery_before_j) - 1e-6
    # Metering: what was imported and what was green is what was used.
    used_w = record.demand_w + base
    assert record.import_w + record.green_w + record.unserved_w == pytest.approx(
        used_w, abs=1e-9 * (1 + used_w)
    )


@given(watts, watts, st.floats(0, 1e4), st.floats(0, 1))
def test_demand_within_the_headroom_needs_no_more_than_the_grids_limit(renew, base, limit, share):
    grid, storage = Grid(limit), Storage(BATTERY)
    most_j = step_headroom_j(storage, storage.start(), dt_s=300, renew_w=renew, base_w=base, grid=grid)
    record, _ = settle_step(
        storage,
        storage.start(),
        dt_s=300,
        consumed_j=max(share * most_j, 0.0),
        renew_w=renew,
        base_w=base,
        grid=grid,
    )
    short_w = max(0.0, base - renew - limit - 4000)
    assert record.unserved_w <= short_w + 1e-9 * (renew + base + limit + 1)


def test_a_base_load_that_cannot_be_served_is_owed_when_production_rises():
    """What the servers may draw after a rise is what is left after the base load, not all of the rise."""
    storage = Storage(NO_BATTERY)
    low, high = (
        step_headroom_j(storage, storage.start(), dt_s=60, renew_w=renew, base_w=85.0)
        for renew in (10.0, 90.0)
    )
    assert (low, high) == pytest.approx((-75 * 60, 5 * 60))


def test_an_unlimited_grid_gives_unlimited_headroom():
    storage = Storage(NO_BATTERY)
    assert step_headroom_j(storage, storage.start(), dt_s=300, renew_w=0, grid=Grid()) == math.inf


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"import_limit_w": -1}, "import_limit_w"),
        ({"import_limit_w": math.nan}, "import_limit_w"),
        ({"export_limit_w": -1}, "export_limit_w"),
        ({"feed_in_per_kwh": math.inf}, "feed_in_per_kwh"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(values, message):
    with pytest.raises(FieldError, match=message):
        Grid(**values)


def test_net_metering_requires_a_price():
    with pytest.raises(ConfigError, match='"net" requires a price'):
        Grid(export=Export.NET)


# --- prices -------------------------------------------------------------------------------------------------


def test_a_signal_is_averaged_over_time():
    signal = Signal(np.array([0.0, 3600.0, 7200.0]), np.array([0.1, 0.3]))
    assert signal.means(np.array([0.0, 1800.0, 3600.0, 7200.0])).tolist() == [0.1, 0.1, 0.3]
    assert signal.means(np.array([1800.0, 5400.0])) == pytest.approx([0.2])


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=8),
    st.lists(st.floats(0, 8), min_size=2, max_size=6, unique=True),
)
def test_means_of_a_signal_equal_a_sum_over_small_pieces(values, edges):
    signal = Signal(np.arange(len(values) + 1.0), np.array(values))
    edges = sorted(min(edge, len(values)) for edge in edges)
    for first, last in itertools.pairwise(edges):
        if last - first < 1e-3:
            continue
        pieces = [max(0.0, min(last, at + 1) - max(first, at)) * value for at, value in enumerate(values)]
        mean = signal.means(np.array([first, last]))[0]
        assert mean == pytest.approx(sum(pieces) / (last - first), abs=1e-5)


@pytest.mark.parametrize(
    ("times", "values"),
    [([0.0], []), ([0.0, 0.0], [1.0]), ([0.0, 1.0], [math.nan]), ([0.0, 1.0], [1.0, 2.0])],
)
def test_a_signal_that_cannot_be_is_refused(times, values):
    with pytest.raises(ValueError, match="expected"):
        Signal(np.array(times), np.array(values))


def test_the_papers_tariff():
    tariff = Tariff(tariff_table(PAPER), calendar("2010-07-12T09:00:00-04:00"))
    assert hourly(tariff, 25) == [0.13] * 14 + [0.08] * 10 + [0.13]
    assert tariff.span_s == (-math.inf, math.inf)
    autumn = Tariff(tariff_table(PAPER), calendar("2010-09-30T22:00:00-04:00"))
    assert hourly(autumn, 12) == [0.13] + [0.08] * 10 + [0.12]


def test_a_tariff_on_the_days_of_the_change_of_clocks():
    prices = [(range(1, 13), (hour, hour + 1), float(hour)) for hour in range(24)]
    spring = Tariff(tariff_table(prices), calendar("2010-03-14T00:00:00-05:00"))
    assert hourly(spring, 23) == [0, 1, *range(3, 24)]
    assert hourly(spring, 1, first=23) == [0]
    autumn = Tariff(tariff_table(prices), calendar("2010-11-07T00:00:00-04:00"))
    assert hourly(autumn, 26) == [0, 1, 1, *range(2, 24), 0]


def test_a_tariff_is_the_same_however_far_it_was_asked_before():
    table, start = tariff_table(PAPER), "2010-07-12T09:00:00-04:00"
    long = hourly(Tariff(table, calendar(start)), 24 * 120)
    short = Tariff(table, calendar(start))
    assert [hourly(short, 1, first=hour)[0] for hour in range(24 * 120)] == long
    assert hourly(short, 24, first=-24) == hourly(Tariff(table, calendar(start)), 24, first=-24)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(range(1, 13), (0, 23), 0.1)], "month 1 has no price from 23:00 on"),
        ([(range(1, 13), (0, 24), 0.1), ([5], (7, 8), 0.2)], "month 5 has two prices from 7:00 on"),
        ([(range(1, 12), (0, 24), 0.1)], "month 12 has no price from 0:00 on"),
    ],
)
def test_a_tariff_must_name_every_hour_once(rows, message):
    with pytest.raises(ConfigError, match=message):
        tariff_table(rows)


# --- what is known ahead ------------------------------------------------------------------------------------


def test_day_ahead_prices_are_known_to_the_end_of_the_day_and_after_13_to_the_end_of_the_next():
    prices = Foreseen(
        Signal(HOUR * np.arange(97), np.arange(96.0)), calendar("2010-07-12T00:00:00-04:00"), Known.DAY_AHEAD
    )
    assert prices.known_until_s(12 * HOUR) == DAY
    assert prices.known_until_s(13 * HOUR) == 2 * DAY
    edges = HOUR * np.arange(12, 73)
    assert prices.expected(12 * HOUR, edges).tolist() == [*range(12, 24), *range(24), *range(24)]
    assert prices.expected(13 * HOUR, edges).tolist() == [*range(12, 48), *range(24, 48)]


def test_beyond_the_file_the_last_day_repeats():
    prices = Foreseen(Signal(HOUR * np.arange(37), np.arange(36.0)))
    assert prices.expected(0.0, HOUR * np.arange(30, 50)).tolist() == [*range(30, 36), *range(12, 25)]


def test_known_for_24_hours():
    carbon = Foreseen(Signal(HOUR * np.arange(97), np.arange(96.0)), None, Known.DAY)
    assert carbon.expected(2 * HOUR, HOUR * np.arange(24, 30)).tolist() == [24, 25, 2, 3, 4]


def test_a_local_day_has_23_to_25_hours():
    spring = calendar("2010-03-13T00:00:00-05:00")
    assert spring.day_end_s(0) == DAY
    assert spring.day_end_s(DAY) == 47 * HOUR
    assert spring.day_end_s(0, days=1) == 47 * HOUR
    autumn = calendar("2010-11-07T00:00:00-04:00")
    assert autumn.day_end_s(0) == 25 * HOUR
    assert calendar("2010-11-07T00:00:00-04:00", None).day_end_s(0) == DAY


def test_a_calendar_needs_an_offset():
    with pytest.raises(ValueError, match="offset"):
        Calendar(datetime(2010, 7, 12))


# --- cost ---------------------------------------------------------------------------------------------------


def test_what_a_step_costs():
    price = Foreseen(Signal(np.array([0.0, 3600.0, 7200.0]), np.array([0.1, -0.3])))
    carbon = Foreseen(Signal(np.array([0.0, 7200.0]), np.array([400.0])))
    grid = Grid(price=price, carbon=carbon, export=Export.NET)
    first = meter(grid, 0, 3600, 2000, 0, Announced())
    assert (first.price_per_kwh, first.cost, first.carbon_g) == pytest.approx((0.1, 0.2, 800))
    negative = meter(grid, 3600, 1800, 2000, 0, Announced())
    assert negative.cost == pytest.approx(-0.3)
    announced = meter(grid, 3600, 1800, 2000, 0, Announced(0.5, 100.0))
    assert (announced.cost, announced.carbon_g) == pytest.approx((0.5, 100))
    assert meter(grid, 0, 3600, 0, 3000, Announced()).revenue == pytest.approx(0.3)
    feed_in = meter(Grid(export=Export.FEED_IN, feed_in_per_kwh=0.05), 0, 3600, 1000, 3000, Announced())
    assert (feed_in.price_per_kwh, feed_in.cost, feed_in.revenue) == pytest.approx((0, 0, 0.15))
    assert feed_in.carbon_g is None
