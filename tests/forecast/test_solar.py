"""The predictor: what it learns, its two methods, and the choice between them."""

from datetime import datetime, timezone

import numpy as np
import pytest
from effort import examples
from forecast.sunny_days import CLOUD, DAY_ONE, LIT, SCHEME, STORM, SUN, changing, day_of, history, seen_until
from hypothesis import given, settings
from hypothesis import strategies as st

from beasy_sched.errors import ConfigError
from beasy_sched.forecast.conditions import NO_CONDITIONS, UNKNOWN
from beasy_sched.forecast.solar import SolarHistory, SolarModel, choose_leave_out

TODAY = DAY_ONE + 40


def predict(model, hour, seen, today_class, tomorrow_class=SUN, today=TODAY):
    classes = np.repeat([today_class, tomorrow_class], 24)
    return model.predict_w(today * 24 + hour, seen, classes)


# --- what is learned ------------------------------------------------------------------------------------


def test_b_is_the_most_of_the_hour_and_f_the_median_share_of_the_condition():
    shares = [1.0, 0.9, 0.8, 0.7, 0.2]
    days = [(SUN, 500.0)] * 15  # out of season
    days += [(SUN, 100.0)] * 5 + [(CLOUD, 100.0 * share) for share in shares] + [(SUN, 90.0)] * 5
    learned = SolarModel(history(days)).day(DAY_ONE + 30, DAY_ONE + 30)
    np.testing.assert_allclose(learned.ideal_w, day_of(100.0))
    np.testing.assert_allclose(learned.factors[12, [SUN, CLOUD]], [0.95, 0.8])
    assert np.isnan(learned.factors[12, STORM])
    np.testing.assert_allclose(learned.sunniest, 0.95)


def test_middle_of_the_day_and_rest_have_tables_of_their_own():
    cloudy = day_of(80.0)
    cloudy[10:16] = 40.0
    learned = SolarModel(history([(SUN, 100.0)] * 20 + [(CLOUD, cloudy)] * 10)).day(TODAY, DAY_ONE + 30)
    np.testing.assert_allclose(learned.factors[10:16, CLOUD], 0.4)
    np.testing.assert_allclose(learned.factors[[8, 9, 16, 17], CLOUD], 0.8)


def test_a_table_of_fewer_than_five_values_gives_way_to_one_for_both():
    cloudy = day_of(80.0)
    cloudy[10:16] = 40.0  # one such day: 6 values in the middle of the day, 4 in the rest
    learned = SolarModel(history([(SUN, 100.0)] * 29 + [(CLOUD, cloudy)])).day(TODAY, DAY_ONE + 30)
    np.testing.assert_allclose(learned.factors[12, CLOUD], 0.4)
    np.testing.assert_allclose(learned.factors[9, CLOUD], np.median([0.8] * 4 + [0.4] * 6))


@pytest.mark.parametrize(("hours", "midday"), [(5, 0.4), (4, 0.8)])
def test_five_values_are_enough_for_a_table(hours, midday):
    data = history([(SUN, 100.0)] * 30)
    powers, classes = data.by_day_w.copy(), data.classes_by_day.copy()
    powers[-1, 10 : 10 + hours], classes[-1, 10 : 10 + hours] = 40.0, CLOUD
    powers[-9:, 8:10], classes[-9:, 8:10] = 80.0, CLOUD
    data = SolarHistory(data.first_hour, powers.ravel(), classes.ravel(), SCHEME, 100.0)
    learned = SolarModel(data).day(DAY_ONE + 30, DAY_ONE + 30)
    assert learned.factors[12, CLOUD] == pytest.approx(midday)
    assert learned.factors[9, CLOUD] == pytest.approx(0.8)


def test_hours_without_production_do_not_count_for_f():
    snowed_in = day_of(0.0)
    days = [(SUN, 100.0)] * 15 + [(CLOUD, 50.0)] * 5 + [(CLOUD, snowed_in)] * 10
    np.testing.assert_allclose(SolarModel(history(days)).day(TODAY, DAY_ONE + 30).factors[12, CLOUD], 0.5)


def test_only_days_within_15_of_the_day_in_any_year_teach():
    powers = 1.0 + np.arange(800.0)  # the days can be told apart by their power
    model = SolarModel(history([(SUN, power) for power in powers], capacity_w=800.0))
    today = DAY_ONE + 765  # 35 days before the end; a year (365.2425) earlier is day 400
    assert model.day(today, today).ideal_w[12] == powers[764]
    rows = model.training_days(today, today).tolist()
    assert rows == [*range(20, 51), *range(385, 416), *range(750, 765)]


def test_days_of_the_future_teach_only_where_days_are_left_out():
    days = [(SUN, 10.0)] * 30 + [(SUN, 500.0)] * 3 + [(SUN, 20.0)] * 30
    past = SolarModel(history(days, capacity_w=500.0))
    assert past.day(DAY_ONE + 31, DAY_ONE + 30).ideal_w[12] == 10.0
    left = SolarModel(history(days, capacity_w=500.0), leave_out=1)
    assert left.day(DAY_ONE + 31, DAY_ONE + 31).ideal_w[12] == 20.0
    assert SolarModel(history(days, capacity_w=500.0), leave_out=0).day(DAY_ONE + 31, DAY_ONE + 31).ideal_w[
        12
    ] == pytest.approx(500.0)


def test_the_present_day_never_teaches_for_a_later_one():
    days = [(SUN, 10.0)] * 30 + [(SUN, 500.0)] + [(SUN, 20.0)] * 30
    model = SolarModel(history(days, capacity_w=500.0), leave_out=1)
    assert model.day(DAY_ONE + 32, DAY_ONE + 30).ideal_w[12] == 20.0


def test_a_season_without_data_takes_the_nearest_days():
    model = SolarModel(history([(SUN, float(power)) for power in range(1, 61)]))
    assert model.day(DAY_ONE + 120, DAY_ONE + 120).ideal_w[12] == 60.0
    assert model.training_days(DAY_ONE + 120, DAY_ONE + 120).tolist() == list(range(29, 60))


def test_without_a_day_of_the_past_there_is_a_message():
    with pytest.raises(ConfigError, match="no training data from before"):
        SolarModel(changing()).day(DAY_ONE, DAY_ONE)


def test_leaving_out_is_chosen_where_there_is_only_one_year():
    year = history([(SUN, 1.0)] * 365)

    def chosen(days_after):
        return choose_leave_out(year, datetime.fromtimestamp((DAY_ONE + days_after) * 86400, timezone.utc))

    assert [chosen(days) for days in (-3000, 200, 349, 350, 365, 3000)] == [1, 1, 1, None, None, None]
    assert SolarModel(year).notes == ()
    assert "trained with days of the predicted year" in SolarModel(year, leave_out=1).notes[0]


# --- method 1 -------------------------------------------------------------------------------------------


def test_method_1_is_the_factor_of_the_forecast_condition():
    model = SolarModel(changing())
    predicted = predict(model, 5, seen_until(5), CLOUD, SUN)
    np.testing.assert_allclose(predicted, np.concatenate((day_of(50.0)[5:], day_of(100.0))))


def test_a_condition_never_seen_has_the_factor_of_the_hour_before():
    classes = np.full(24, CLOUD)
    classes[:9] = STORM  # at first: the sunniest class's
    classes[12] = STORM
    predicted = SolarModel(changing()).predict_w(TODAY * 24, seen_until(0), classes)
    expected = day_of(50.0)
    expected[8] = 100.0
    np.testing.assert_allclose(predicted, expected)


def test_an_hour_without_a_forecast_has_the_median_over_all_conditions():
    days = [(SUN, 100.0)] * 10 + [(CLOUD, 50.0)] * 21
    predicted = SolarModel(history(days)).predict_w((DAY_ONE + 31) * 24, seen_until(0), np.full(24, UNKNOWN))
    np.testing.assert_allclose(predicted, day_of(50.0))


# --- method 2, and the choice ---------------------------------------------------------------------------


def test_method_2_follows_the_last_hour_for_the_rest_of_the_day_only():
    model = SolarModel(changing())
    predicted = predict(model, 12, seen_until(12, h10=80.0, h11=90.0), CLOUD, CLOUD)
    # Hour 11 was 90 W: method 1 said 50, method 2 (from hour 10) 80.
    np.testing.assert_allclose(predicted, np.concatenate((day_of(90.0)[12:], day_of(50.0))))


def test_the_weather_serves_where_it_was_better():
    predicted = predict(SolarModel(changing()), 12, seen_until(12, h10=20.0, h11=80.0), SUN, SUN)
    # Method 1 was wrong by 20, method 2 by 60.
    np.testing.assert_allclose(predicted, np.concatenate((day_of(100.0)[12:], day_of(100.0))))


def test_a_tie_goes_to_the_weather():
    predicted = predict(SolarModel(changing()), 12, seen_until(12, h10=100.0, h11=75.0), CLOUD)
    np.testing.assert_allclose(predicted[:6], 50.0)


def test_method_2_is_capped_by_the_sunniest_condition():
    days = [(CLOUD, 40.0)] * 25 + [(SUN, 100.0)] + [(SUN, 80.0)] * 10 + [(CLOUD, 40.0)] * 4
    predicted = predict(SolarModel(history(days)), 12, seen_until(12, h10=95.0, h11=99.0), CLOUD)
    np.testing.assert_allclose(predicted[:6], 80.0)


@pytest.mark.parametrize("hour", [8, 9])
def test_at_dawn_there_is_no_hour_to_judge_by(hour):
    predicted = predict(
        SolarModel(changing()), hour, seen_until(hour, h8=100.0) if hour == 9 else seen_until(8), CLOUD
    )
    np.testing.assert_allclose(predicted, np.concatenate((day_of(50.0)[hour:], day_of(100.0))))


def test_an_hour_of_hardly_any_ideal_production_is_no_base():
    sunny = day_of(100.0)
    sunny[8] = 4.0  # below 5 % of the day's largest
    model = SolarModel(history([(SUN, sunny), (CLOUD, sunny / 2)] * 20))
    predicted = predict(model, 10, seen_until(10, h8=4.0, h9=100.0), CLOUD)
    np.testing.assert_allclose(predicted[:8], 50.0)  # method 2 said nothing for hour 9
    sunny[8] = 6.0
    model = SolarModel(history([(SUN, sunny), (CLOUD, sunny / 2)] * 20))
    predicted = predict(model, 10, seen_until(10, h8=6.0, h9=100.0), CLOUD)
    np.testing.assert_allclose(predicted[:8], 100.0)


def test_an_hour_that_was_not_observed_leaves_the_weather():
    seen = seen_until(12, h10=np.nan, h11=90.0)
    np.testing.assert_allclose(predict(SolarModel(changing()), 12, seen, CLOUD)[:6], 50.0)


def test_sticky_keeps_method_2_until_night():
    seen = seen_until(13, h9=100.0, h10=100.0, h11=55.0, h12=45.0)
    # At 11:00 method 2 was better (hour 10); at 12:00 and 13:00 the weather was.
    assert predict(SolarModel(changing()), 13, seen, CLOUD)[0] == pytest.approx(50.0)
    assert predict(SolarModel(changing(), sticky=True), 13, seen, CLOUD)[0] == pytest.approx(45.0)
    assert predict(SolarModel(changing(), sticky=True), 13, seen, CLOUD)[-8] == pytest.approx(100.0)


def test_sticky_does_not_judge_before_nine_or_after_sixteen():
    long_day = day_of(100.0)
    long_day[5:8] = 100.0
    model = SolarModel(history([(SUN, long_day), (CLOUD, long_day / 2)] * 20), sticky=True)
    early = predict(model, 8, seen_until(8, h5=100.0, h6=100.0, h7=100.0), CLOUD)
    np.testing.assert_allclose(early[:10], 50.0)
    powers = {f"h{hour}": 50.0 for hour in range(5, 16)}
    powers["h15"] = 100.0  # method 2 is better at 17:00 and 18:00: it knows of hour 15
    late = seen_until(18, **powers, h16=100.0, h17=100.0)
    longer = long_day.copy()
    longer[18] = 100.0
    days = [(SUN, longer), (CLOUD, longer / 2)] * 20
    assert predict(SolarModel(history(days)), 18, late, CLOUD)[0] == pytest.approx(100.0)
    assert predict(SolarModel(history(days), sticky=True), 18, late, CLOUD)[0] == pytest.approx(50.0)


def test_sticky_judges_hours_up_to_sixteen():
    seen = seen_until(16, **{f"h{hour}": 50.0 for hour in range(9, 14)}, h14=100.0, h15=100.0)
    sunny = day_of(100.0)
    model = SolarModel(history([(SUN, sunny), (CLOUD, sunny / 2)] * 20), sticky=True)
    assert predict(model, 16, seen, CLOUD)[0] == pytest.approx(100.0)  # only at 16:00 was method 2 better


# --- properties -----------------------------------------------------------------------------------------

DAYS = 45
powers = st.lists(st.integers(0, 20), min_size=DAYS * 24, max_size=DAYS * 24)


@st.composite
def cases(draw):
    """A history of random days, a moment in or after it, and a forecast."""
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    production = random.integers(0, 20, (DAYS, 24)) * 1.0
    production[:, : draw(st.integers(0, 8))] = 0.0
    production[random.random((DAYS, 24)) < 0.05] = np.nan
    classes = random.integers(-1, draw(st.integers(1, 3)), (DAYS, 24))
    leave_out = draw(st.sampled_from([None, 0, 1, 2]))
    now = DAY_ONE * 24 + draw(st.integers((DAYS - 12) * 24, (DAYS + 3) * 24))
    forecast = random.integers(-1, 3, now % 24 + draw(st.integers(1, 60)))
    seen = random.integers(0, 20, 24) * 1.0
    seen[random.random(24) < 0.1] = np.nan
    sticky = draw(st.booleans())
    data = SolarHistory(DAY_ONE * 24, production.ravel(), classes.ravel(), SCHEME, 20.0)
    return data, leave_out, sticky, now, seen, forecast


def naive_table(data, leave_out, day, today):
    rows = []
    for row, d in enumerate(data.days):
        past = d < today if leave_out is None else d < min(today, day) - leave_out or d > day + leave_out
        if past and abs(day - d) <= 15:
            rows.append(row)
    if len(rows) < 7:
        return None
    ideal = [max([w for w in data.by_day_w[rows, h] if not np.isnan(w)], default=0.0) for h in range(24)]
    shares = {}
    for row in rows:
        for h in range(24):
            power, code = data.by_day_w[row, h], int(data.classes_by_day[row, h])
            if power > 0:
                for key in {code, -1}:
                    shares.setdefault((key, 10 <= h <= 15), []).append(power / ideal[h])

    def factor(code, h):
        cell = shares.get((code, 10 <= h <= 15), [])
        if len(cell) < 5:
            cell = shares.get((code, True), []) + shares.get((code, False), [])
        return float(np.median(cell)) if cell else None

    return ideal, factor


def naive_prediction(data, leave_out, sticky, now, seen, forecast):
    today, hour = divmod(now, 24)
    tables = [naive_table(data, leave_out, today + k, today) for k in range(4)]
    if None in tables:
        return None

    def sunniest(h, table):
        return next((f for f in (table[1](code, h) for code in range(3)) if f is not None), 1.0)

    said, ideal, before = [], [], None
    for at, code in enumerate(forecast.tolist()):
        table = tables[at // 24]
        factor = table[1](code, at % 24)
        if factor is None:
            factor = (before if before is not None else sunniest(0, tables[0])) if code >= 0 else 0.0
        before = factor
        ideal.append(table[0][at % 24])
        said.append(factor * ideal[-1])

    def recent(t):
        """Method 2's factor with what was seen until hour t."""
        if t < 1 or not ideal[t - 1] > 0.05 * max(tables[0][0]) or np.isnan(seen[t - 1]):
            return None
        return seen[t - 1] / ideal[t - 1]

    def better(t):
        if t < 2 or recent(t - 1) is None or np.isnan(seen[t - 1]):
            return False
        second = min(recent(t - 1), sunniest(t - 1, tables[0])) * ideal[t - 1]
        return abs(seen[t - 1] - second) < abs(seen[t - 1] - said[t - 1]) - 1e-9

    judged = [t for t in range(9, 17) if t <= hour] if sticky else [hour]
    if recent(hour) is not None and any(better(t) for t in judged):
        for at in range(hour, min(24, len(said))):
            said[at] = min(recent(hour), sunniest(at, tables[0])) * ideal[at]
    return said[hour:]


@settings(max_examples=examples(60))
@given(cases())
def test_predictions_are_those_of_a_plain_program(case):
    data, leave_out, sticky, now, seen, forecast = case
    expected = naive_prediction(*case)
    found = SolarModel(data, leave_out, sticky).predict_w(now, seen, forecast)
    assert len(found) == len(forecast) - now % 24
    if expected is not None:
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@given(cases(), st.integers(0, 2**32 - 1))
def test_what_is_produced_later_changes_nothing(case, seed):
    data, _, sticky, now, seen, forecast = case
    later = np.random.default_rng(seed)
    production, classes = data.production_w.copy(), data.classes.copy()
    first = max(now - now % 24 - data.first_hour, 0)
    production[first:] = later.integers(0, 1000, len(production[first:]))
    classes[first:] = later.integers(-1, 3, len(classes[first:]))
    other_seen = seen.copy()
    other_seen[now % 24 :] = later.integers(0, 1000, 24 - now % 24)
    changed = SolarHistory(data.first_hour, production, classes, SCHEME, 20.0)
    before = SolarModel(data, None, sticky).predict_w(now, seen, forecast)
    after = SolarModel(changed, None, sticky).predict_w(now, other_seen, forecast)
    assert before.tolist() == after.tolist()


@given(cases(), st.sampled_from([2.0**-3, 3.7, 1024.0]))
def test_predictions_scale_with_the_panels(case, factor):
    data, leave_out, sticky, now, seen, forecast = case
    small = SolarModel(data, leave_out, sticky).predict_w(now, seen, forecast)
    large = SolarModel(data.scaled_to(20.0 * factor), leave_out, sticky).predict_w(
        now, seen * factor, forecast
    )
    np.testing.assert_allclose(large, small * factor, rtol=1e-9, atol=1e-9)


@given(cases())
def test_predictions_lie_between_nothing_and_the_ideal(case):
    data, leave_out, sticky, now, seen, forecast = case
    model = SolarModel(data, leave_out, sticky)
    found = model.predict_w(now, seen, forecast)
    ideal = model.ideal_w(now, len(found))
    assert np.all(found >= 0)
    assert np.all(found <= ideal * (1 + 1e-12))
    assert not found[ideal == 0].any()


# --- bad inputs -----------------------------------------------------------------------------------------


def test_less_than_a_month_is_refused():
    with pytest.raises(ConfigError, match="found 27 days of production, expected at least a month"):
        history([(SUN, 1.0)] * 27)
    assert len(history([(SUN, 1.0)] * 28)) == 28 * 24


def test_gaps_do_not_count_as_days():
    with pytest.raises(ConfigError, match="expected at least a month"):
        history([(SUN, 1.0)] * 27 + [(SUN, np.full(24, np.nan))] * 30)


def test_training_data_without_sun_is_refused():
    with pytest.raises(ConfigError, match="no production above 0"):
        history([(SUN, 0.0)] * 40)


@pytest.mark.parametrize("capacity_w", [0.0, -1.0, np.inf, np.nan])
def test_a_capacity_is_above_zero(capacity_w):
    with pytest.raises(ConfigError, match="capacity_w"):
        changing().scaled_to(capacity_w)


def test_a_negative_number_of_days_cannot_be_left_out():
    with pytest.raises(ConfigError, match="leave_out: found -1"):
        SolarModel(changing(), leave_out=-1)


def test_without_conditions_the_recent_past_is_all():
    production = np.tile(day_of(100.0), 40)
    production[: 20 * 24] *= 0.6
    data = SolarHistory(DAY_ONE * 24, production, np.full(len(production), UNKNOWN), NO_CONDITIONS, 100.0)
    model = SolarModel(data)
    seen = seen_until(12, h10=100.0, h11=100.0)
    predicted = model.predict_w((DAY_ONE + 33) * 24 + 12, seen, np.full(48, UNKNOWN))
    np.testing.assert_allclose(predicted[:6], 100.0)  # no sunniest class caps it
    assert list(np.flatnonzero(predicted[12:])) == list(LIT)
