"""What policies see of the future, from each source."""

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from forecast.sunny_days import CLOUD, DAY_ONE, SCHEME, SUN, changing, day_of, history
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import ConfigError
from beasy_sched.forecast.conditions import CLOUD_COVER
from beasy_sched.forecast.outlook import (
    FileForecast,
    NoForecast,
    PerfectForecast,
    SolarForecast,
    slot_means_w,
)
from beasy_sched.forecast.solar import SolarModel
from beasy_sched.forecast.weather import ActualWeather, IssuedTable, IssuedWeather, LocalHours

HOUR, QUARTER = 3600.0, 900.0
START = datetime.fromtimestamp((DAY_ONE + 40) * 86400 + 6 * 3600, timezone.utc)
"""6:00 of the first day after the history of `changing`."""


def issued(rows, scheme=None, interval_s=HOUR):
    times = np.array(rows, float).T
    return IssuedTable(times[0], times[1], times[2], interval_s, scheme)


def always(code, hours=96):
    """Forecasts of one class, issued at time 0."""
    table = issued([(0, hour * HOUR, code) for hour in range(hours)], SCHEME)
    return IssuedWeather(table, LocalHours(START))


def predictor(code=CLOUD, start=START):
    return SolarForecast(SolarModel(changing()), always(code), start)


def hourly(source, now_h, hours):
    return source.renewable_w(now_h * HOUR, HOUR, hours)


# --- slots ----------------------------------------------------------------------------------------------


def test_an_hour_is_spread_evenly_over_its_slots():
    found = predictor().outlook.renewable_w(0.0, QUARTER, 12)
    np.testing.assert_array_equal(found, [0.0] * 8 + [50.0] * 4)


def test_slots_across_hours_have_the_mean():
    found = predictor().renewable_w(1800.0, HOUR, 3)
    np.testing.assert_allclose(found, [0.0, 25.0, 50.0])


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=20),
    st.floats(-5000, 50000),
    st.sampled_from([300.0, 900.0, 1000.0, 3600.0, 7200.0]),
    st.integers(1, 40),
)
def test_slots_keep_the_energy_of_the_pieces(powers, first_s, slot_s, slots):
    pieces = 1800.0 * np.arange(len(powers) + 1)
    edges = first_s + slot_s * np.arange(slots + 1)
    found = slot_means_w(edges, pieces, np.array(powers))
    for at in range(slots):
        overlap = np.clip(np.minimum(pieces[1:], edges[at + 1]) - np.maximum(pieces[:-1], edges[at]), 0, None)
        np.testing.assert_allclose(found[at], (overlap * powers).sum() / slot_s, rtol=1e-5, atol=2e-3)


@pytest.mark.parametrize(
    "source",
    [
        predictor(),
        FileForecast(issued([(0, 0, 5)])),
        PerfectForecast(np.ones(3), QUARTER),
        NoForecast(),
        NoForecast(START),
    ],
    ids=lambda source: source.name,
)
def test_every_source_answers_any_question(source):
    for slots in (0, 1, 192, 2000):
        for now_s in (0.0, 900.0, 1e6):
            for found in (
                source.renewable_w(now_s, QUARTER, slots),
                source.clear_sky_w(now_s, QUARTER, slots),
            ):
                assert found.shape == (slots,)
                assert np.all(found >= 0)
    with pytest.raises(ConfigError, match="slot_s"):
        source.outlook.renewable_w(0.0, 0.0, 4)
    with pytest.raises(ConfigError, match="slots"):
        source.outlook.clear_sky_w(0.0, 1.0, -1)


def test_the_first_slot_is_what_was_announced_for_it():
    source = predictor()
    source.announce(3 * HOUR, 77.0)
    assert source.renewable_w(3 * HOUR, QUARTER, 3).tolist() == [77.0, 50.0, 50.0]
    assert source.renewable_w(3 * HOUR + 600.0, QUARTER, 2).tolist() == [77.0, 50.0]
    assert source.renewable_w(3 * HOUR + QUARTER, QUARTER, 2).tolist() == [50.0, 50.0]
    assert source.renewable_w(2.75 * HOUR, QUARTER, 2).tolist() == [50.0, 50.0]


def test_an_outlook_can_only_be_read():
    outlook = predictor().outlook
    assert not hasattr(outlook, "observe")
    assert not hasattr(outlook, "announce")
    with pytest.raises(AttributeError):
        outlook.revision = 3


# --- the predictor --------------------------------------------------------------------------------------


def test_the_ideal_production_is_zero_at_night():
    source = predictor()
    np.testing.assert_array_equal(source.clear_sky_w(0.0, HOUR, 24), np.roll(day_of(100.0), -6))


def feed(source, first_h, powers, step_s=QUARTER):
    """Observe whole hours of constant power in steps."""
    for hour, power in enumerate(powers, first_h):
        for part in range(round(HOUR / step_s)):
            at = hour * HOUR + part * step_s
            source.observe(at, at + step_s, power)


@pytest.mark.parametrize("step_s", [300.0, QUARTER, HOUR])
def test_real_production_turns_the_rest_of_the_day(step_s):
    source = predictor(CLOUD)
    feed(source, 0, [0.0, 0.0, 80.0], step_s)  # 6:00 to 9:00; hour 8 alone judges nothing
    assert hourly(source, 3, 2).tolist() == [50.0, 50.0]
    feed(source, 3, [90.0], step_s)
    np.testing.assert_allclose(hourly(source, 4, 9), [90.0] * 8 + [0.0])
    np.testing.assert_allclose(hourly(source, 4, 32)[-8:], 50.0)  # the next day


def test_steps_longer_than_an_hour_and_across_hours_are_shared_out():
    source = predictor(CLOUD)
    source.observe(0.0, 1.5 * HOUR, 0.0)
    source.observe(1.5 * HOUR, 2.5 * HOUR, 60.0)
    source.observe(2.5 * HOUR, 4.0 * HOUR, 90.0)
    # Hour 8 had 75 W, hour 9 had 90 W: method 2 said 75, method 1 said 50.
    np.testing.assert_allclose(hourly(source, 4, 2), [90.0, 90.0])


def test_an_hour_counts_if_half_of_it_was_observed():
    late = predictor(CLOUD, START + timedelta(hours=2, minutes=30))
    late.observe(0.0, 1800.0, 80.0)
    late.observe(1800.0, 5400.0, 90.0)
    assert late.renewable_w(5400.0, HOUR, 1).tolist() == [90.0]
    later = predictor(CLOUD, START + timedelta(hours=2, minutes=40))
    later.observe(0.0, 1200.0, 80.0)
    later.observe(1200.0, 4800.0, 90.0)
    assert later.renewable_w(4800.0, HOUR, 1).tolist() == [50.0]


@given(st.lists(st.integers(0, 100), min_size=20, max_size=20), st.integers(1, 19), st.integers(0, 2**32 - 1))
def test_what_comes_later_changes_nothing_that_was_predicted(powers, now, seed):
    other = np.random.default_rng(seed).integers(0, 100, 20).tolist()

    def told(values):
        source = predictor(SUN)
        answers = []
        for hour in range(now):
            feed(source, hour, [float(values[hour])], HOUR)
            source.announce((hour + 1) * HOUR, 3.0)
            answers.append((source.revision, source.renewable_w((hour + 1) * HOUR, QUARTER, 192).tolist()))
        return answers

    assert told(powers) == told(powers[:now] + other[now:])


def test_a_step_that_is_settled_late_still_counts():
    source = predictor(CLOUD)
    feed(source, 0, [0.0, 0.0, 90.0])
    source.announce(4 * HOUR, 90.0)
    assert source.renewable_w(4 * HOUR, QUARTER, 5).tolist() == [90.0] + [50.0] * 4
    before = source.revision
    feed(source, 3, [90.0], HOUR)
    assert source.renewable_w(4 * HOUR, QUARTER, 5).tolist() == [90.0] * 5
    assert source.revision == before + 1


def test_a_step_of_no_length_to_speak_of_is_no_news():
    source = predictor(CLOUD)
    source.observe(0.0, 1e-8, 50.0)
    assert source.renewable_w(0.0, HOUR, 3).tolist() == [0.0, 0.0, 50.0]


def test_a_longer_question_has_the_same_beginning():
    source = predictor(CLOUD)
    feed(source, 0, [0.0, 0.0, 90.0, 80.0])
    short = source.renewable_w(4 * HOUR, QUARTER, 4).tolist()
    assert source.renewable_w(4 * HOUR, QUARTER, 4000)[:4].tolist() == short
    assert source.renewable_w(4 * HOUR, QUARTER, 4).tolist() == short


def test_conditions_of_another_kind_are_refused():
    table = issued([(0, 0, 1)], CLOUD_COVER)
    with pytest.raises(ConfigError, match="conditions by sky, the forecast by cloud cover"):
        SolarForecast(SolarModel(changing()), IssuedWeather(table, LocalHours(START)), START)
    assert SolarForecast(SolarModel(changing()), ActualWeather(changing()), START).revision == 0


def test_a_model_of_the_predicted_year_is_told_of():
    model = SolarModel(changing(), leave_out=1)
    assert SolarForecast(model, always(SUN), START).notes == model.notes != ()


def test_training_data_of_the_future_is_refused_at_once():
    with pytest.raises(ConfigError, match="no training data from before"):
        SolarForecast(SolarModel(changing()), always(SUN), START - timedelta(days=100))


def test_a_forecast_that_comes_within_an_hour_counts_at_once():
    rows = [(0, hour * HOUR, CLOUD) for hour in range(12)]
    rows += [(9000, hour * HOUR, SUN) for hour in range(3, 12)]
    weather = IssuedWeather(issued(rows, SCHEME), LocalHours(START))
    source = SolarForecast(SolarModel(changing()), weather, START)
    source.announce(8100.0, 50.0)
    before = source.revision
    assert source.renewable_w(8100.0, QUARTER, 5).tolist() == [50.0] * 5
    source.announce(9000.0, 50.0)
    assert source.revision == before + 1
    assert source.renewable_w(9000.0, QUARTER, 4).tolist() == [50.0, 50.0, 100.0, 100.0]


# --- revisions ------------------------------------------------------------------------------------------


def test_a_prediction_that_moves_by_more_than_a_hundredth_is_a_revision():
    def revision(last_w):
        source = predictor(CLOUD)
        feed(source, 0, [0.0, 0.0], HOUR)  # until 8:00: two hours have passed
        first = source.revision
        feed(source, 2, [50.0, last_w], HOUR)
        return source.revision - first

    # At 10:00 two more hours have passed: one revision in any case; at 9:00 nothing has moved.
    assert revision(50.0) == 1
    source = predictor(CLOUD)
    feed(source, 0, [0.0, 0.0, 51.5, 52.2], HOUR)
    before = source.revision
    source.announce(4 * HOUR, 1.0)
    assert source.revision == before
    feed(source, 4, [53.0], HOUR)  # method 2: the rest of the day moves from 52.2 to 53 W, 0.8 % of 100 W
    assert source.revision == before
    feed(source, 5, [60.0], HOUR)
    assert source.revision == before + 1


def test_without_news_there_is_a_revision_every_two_hours():
    source = predictor(CLOUD)
    source.announce(0.0, 0.0)
    found = []
    for quarter in range(1, 33):
        source.announce(quarter * QUARTER, 0.0)
        found.append(source.revision)
    assert found == [0] * 7 + [1] * 8 + [2] * 8 + [3] * 8 + [4]


def test_a_small_move_is_no_revision_and_a_large_one_is():
    rows = [(0, hour * HOUR, 50) for hour in range(4)] + [(0, 40 * HOUR, 100)]
    for later, expected in ((50.9, 0), (51.1, 1), (48.0, 1)):
        source = FileForecast(issued([*rows, (1800, 3 * HOUR, later)]))
        source.announce(0.0, 0.0)
        source.announce(1800.0, 0.0)
        assert source.revision == expected


def test_small_moves_add_up():
    rows = [(0, 3 * HOUR, 50), (900, 3 * HOUR, 50.6), (1800, 3 * HOUR, 51.2), (2700, 3 * HOUR, 51.8)]
    source = FileForecast(issued([*rows, (0, 40 * HOUR, 100)]))
    found = []
    for now in (0.0, 900.0, 1800.0, 2700.0):
        source.announce(now, 0.0)
        found.append(source.revision)
    assert found == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("method", "values", "field"),
    [
        ("announce", (0.0, -1.0), "power_w"),
        ("announce", (0.0, np.nan), "power_w"),
        ("observe", (0.0, 900.0, -1.0), "mean_w"),
        ("observe", (900.0, 900.0, 1.0), "end_s"),
    ],
)
def test_impossible_production_is_refused(method, values, field):
    with pytest.raises(ConfigError, match=field):
        getattr(predictor(), method)(*values)


# --- other sources --------------------------------------------------------------------------------------


def test_a_file_gives_the_latest_issue_and_nothing_where_it_has_none():
    source = FileForecast(issued([(0, 0, 10), (0, HOUR, 20), (HOUR, HOUR, 25), (HOUR, 2 * HOUR, 35)]))
    assert hourly(source, 0, 4).tolist() == [10, 20, 0, 0]
    assert hourly(source, 1, 3).tolist() == [25, 35, 0]
    assert source.renewable_w(-HOUR, HOUR, 2).tolist() == [0, 0]  # not yet issued
    assert source.name == "file"


def test_a_file_of_quarters_of_an_hour():
    source = FileForecast(issued([(0, at * QUARTER, at) for at in range(1, 9)], interval_s=QUARTER))
    assert source.renewable_w(0.0, 1800.0, 5).tolist() == [0.5, 2.5, 4.5, 6.5, 4.0]


def test_the_ideal_of_a_file_is_the_most_of_the_hour_of_the_day():
    rows = [(0, hour * HOUR, 10 * (hour // 24 + 1) * (hour % 24 in (10, 11))) for hour in range(72)]
    source = FileForecast(issued(rows))
    np.testing.assert_array_equal(source.clear_sky_w(0.0, HOUR, 24), [0] * 10 + [30, 30] + [0] * 12)
    assert source.clear_sky_w(90 * 86400.0 + 10 * HOUR, HOUR, 1).tolist() == [30]
    shifted = FileForecast(issued(rows), datetime(2010, 7, 12, 9, tzinfo=timezone(timedelta(hours=-4))))
    np.testing.assert_array_equal(shifted.clear_sky_w(0.0, HOUR, 12), [0] * 10 + [30, 30])


def test_a_file_of_conditions_is_refused():
    with pytest.raises(ConfigError, match="add a predictor"):
        FileForecast(issued([(0, 0, 1)], SCHEME))


def test_perfect_knowledge_is_the_series():
    series = np.array([0.0, 4.0, 8.0, 2.0, 1.0])
    source = PerfectForecast(series, 1800.0)
    assert source.renewable_w(0.0, 1800.0, 7).tolist() == [0, 4, 8, 2, 1, 0, 0]
    assert source.renewable_w(1800.0, HOUR, 3).tolist() == [6, 1.5, 0]
    assert source.renewable_w(1e6, HOUR, 1).tolist() == [0]
    assert source.clear_sky_w(0.0, HOUR, 4).tolist() == [4, 8, 1, 0]
    assert source.name == "perfect"
    assert "known in advance" in source.notes[0]


@pytest.mark.parametrize("series", [[], [-1.0], [np.nan], [[1.0]]])
def test_perfect_knowledge_needs_powers(series):
    with pytest.raises(ConfigError, match="production_w"):
        PerfectForecast(np.array(series), HOUR)


def test_none_expects_nothing():
    for source in (NoForecast(), NoForecast(START)):
        assert not source.renewable_w(0.0, HOUR, 48).any()
        assert not source.clear_sky_w(0.0, HOUR, 48).any()


# --- for plans ------------------------------------------------------------------------------------------


def test_predicted_steps_for_a_plan():
    model = SolarModel(changing())
    noon = START + timedelta(hours=6)
    source = SolarForecast(model, ActualWeather(model.history), noon)
    found = source.renewable_w(0.0, 1800.0, 48)
    usual = model.day(DAY_ONE + 40, DAY_ONE + 40).factors[12, -1] * 100.0
    np.testing.assert_allclose(found[:12], usual)
    assert not found[12:40].any()
    source.observe(-3 * HOUR, -HOUR, 90.0)
    source.observe(-HOUR, 0.0, 90.0)
    np.testing.assert_allclose(source.renewable_w(0.0, 1800.0, 12), 90.0)


def test_a_plan_may_reach_further_than_two_days():
    model = SolarModel(history([(SUN, 60.0)] * 40))
    found = SolarForecast(model, ActualWeather(model.history), START).renewable_w(0.0, HOUR, 24 * 7)
    np.testing.assert_allclose(found, np.roll(np.tile(day_of(60.0), 7), -6))
