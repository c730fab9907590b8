"""The price of the highest mean import of 15 minutes, by hand."""

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.fields import FieldError
from beasy_sched.energy.grid_peak import QUARTER_S, PeakMeter, PeakPeriod, PeakPrice

DAY_S = 86_400.0


def at(text: str) -> Calendar:
    return Calendar(datetime.fromisoformat(text))


def metered(price: PeakPrice, *imports_w: tuple[float, float], start_s: float = 0.0) -> PeakMeter:
    """Meter steps of (length s, import W), one after the other."""
    meter = PeakMeter(price, 3 * DAY_S)
    for dt_s, import_w in imports_w:
        meter.add(start_s, dt_s, import_w)
        start_s += dt_s
    return meter


def test_three_kilowatts_in_the_dearest_quarter_cost_36() -> None:
    meter = metered(PeakPrice(12.0), (300.0, 3500.0), (300.0, 2500.0), (300.0, 3000.0), (900.0, 2900.0))
    assert meter.peak_w == 3000.0
    assert meter.cost == 36.0


def test_a_step_longer_than_a_quarter_counts_with_its_mean() -> None:
    assert metered(PeakPrice(1.0), (3600.0, 2000.0)).peak_w == 2000.0


def test_steps_that_do_not_divide_a_quarter_add_the_energy_of_each_part() -> None:
    meter = metered(PeakPrice(1.0), (600.0, 900.0), (600.0, 3000.0), (600.0, 0.0))
    assert meter.peak_w == pytest.approx((600 * 900 + 300 * 3000) / 900)
    meter = metered(PeakPrice(1.0), (600.0, 0.0), (600.0, 3000.0), (600.0, 1500.0))
    assert meter.peak_w == pytest.approx((300 * 3000 + 600 * 1500) / 900)


def test_quarters_are_those_of_the_clock() -> None:
    """Five minutes before the hour, a run imports for ten minutes: five in each quarter."""
    price = PeakPrice(1.0, PeakPeriod.MONTH, at("2022-03-01T08:55:00+05:45"))
    assert metered(price, (600.0, 900.0)).peak_w == 300.0
    assert metered(PeakPrice(1.0), (600.0, 900.0)).peak_w == 600.0


def test_a_quarter_that_a_run_covers_in_part_counts_with_what_it_imported() -> None:
    assert metered(PeakPrice(1.0), (900.0, 100.0), (1.0, 900.0)).peak_w == 100.0


def test_each_month_of_the_clock_has_its_peak() -> None:
    price = PeakPrice(10.0, PeakPeriod.MONTH, at("2022-01-31T23:30:00+01:00"))
    meter = metered(price, (900.0, 1000.0), (900.0, 2000.0), (900.0, 500.0), (900.0, 400.0))
    assert list(meter.peaks_w.values()) == [2000.0, 500.0]
    assert meter.cost == 25.0
    assert meter.peak_at_w(1800.0) == 500.0
    assert meter.peak_at_w(1799.0) == 2000.0


def test_each_window_has_its_peak() -> None:
    meter = PeakMeter(PeakPrice(10.0), 3600.0)
    meter.add(2700.0, 900.0, 2000.0)
    meter.add(3600.0, 900.0, 1000.0)
    assert meter.cost == 30.0


@pytest.mark.parametrize("start", ["2022-03-30T22:10:00+00:00", "2022-03-02T00:00:00+00:00"])
@pytest.mark.parametrize("period", list(PeakPeriod))
def test_the_periods_of_times_are_those_of_each(period: PeakPeriod, start: str) -> None:
    meter = PeakMeter(PeakPrice(1.0, period, at(start)), DAY_S)
    times_s = 450.0 + 900.0 * np.arange(300)
    assert meter.periods_at(times_s).tolist() == [meter.period_at(time_s) for time_s in times_s.tolist()]


def test_no_import_costs_nothing() -> None:
    meter = metered(PeakPrice(12.0), (900.0, 0.0))
    assert (meter.peak_w, meter.cost, dict(meter.peaks_w)) == (0.0, 0.0, {})


def test_a_price_below_zero_is_an_error() -> None:
    with pytest.raises(FieldError, match="per_kw"):
        PeakPrice(-1.0)


lengths = st.sampled_from([1.0, 60.0, 300.0, 420.0, 900.0, 2000.0])


@given(st.lists(st.tuples(lengths, st.floats(0, 5000)), min_size=1, max_size=40), st.integers(0, 899))
def test_the_peak_is_that_of_the_means_second_by_second(imports: list, offset_s: int) -> None:
    start = datetime(2022, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=offset_s)
    meter = metered(PeakPrice(1.0, PeakPeriod.MONTH, Calendar(start)), *imports)
    joules: dict[int, float] = {}
    now_s = offset_s
    for dt_s, import_w in imports:
        for second in range(now_s, now_s + int(dt_s)):
            quarter = second // int(QUARTER_S)
            joules[quarter] = joules.get(quarter, 0.0) + import_w
        now_s += int(dt_s)
    assert meter.peak_w == pytest.approx(max(joules.values()) / QUARTER_S, rel=1e-9, abs=1e-9)
