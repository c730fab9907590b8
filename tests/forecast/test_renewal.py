"""Which of several forecasts is in use, its age, and what is reported; no clock, no file."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.forecast.outlook import FileForecast
from beasy_sched.forecast.renewal import RenewedForecast, merged, with_issue
from beasy_sched.forecast.weather import IssuedTable

HOUR, DAY = 3600.0, 86400.0


def issue(issued_h, first_h, values, interval_s=HOUR, levels=None):
    """One issue: values from ``first_h`` on."""
    values = np.array(values, float)
    by_level = None if levels is None else np.outer(np.arange(1, len(levels) + 1), values)
    return IssuedTable(
        np.full(len(values), issued_h * HOUR),
        first_h * HOUR + interval_s * np.arange(len(values)),
        values,
        interval_s,
        levels=None if levels is None else np.array(levels),
        by_level=by_level,
    )


def renewed(table, stale_h=6, watched=True, windows=2):
    return RenewedForecast(
        "f", table, stale_s=stale_h * HOUR, window_s=DAY, run_s=windows * DAY, watched=watched
    )


def reported(forecast, now_h):
    """The reports up to now: what happened, and the text."""
    forecast.check(now_h * HOUR)
    found = [(each.happening, each.text) for each in forecast.reports]
    forecast.reports.clear()
    return found


def at(table, now_h, hours):
    return table.latest(now_h * HOUR, HOUR * np.array(hours, float) + 1.0).tolist()


# --- values -------------------------------------------------------------------------------------------


def test_the_newest_is_in_use_and_the_one_before_follows_its_end():
    forecast = renewed(issue(0, 0, [1.0] * 24))
    assert forecast.renew(issue(3, 3, [2.0] * 6), 4 * HOUR)
    assert at(forecast.table, 4, [4, 8, 9, 23]) == [2.0, 2.0, 1.0, 1.0]


def test_values_that_can_no_longer_be_used_are_dropped():
    before, new = issue(0, 0, [1.0] * 24), issue(3, 3, [2.0] * 48)
    both = merged(before, new, 4 * HOUR)
    assert len(both.valid_s) == 3 + 48
    assert len(merged(both, issue(500, 500, [1.0]), 500 * HOUR).valid_s) == 1  # older than 15 days


def test_issues_of_the_future_are_used_from_their_time_on():
    forecast = renewed(issue(0, 0, [1.0] * 24))
    later = issue(6, 6, [3.0] * 24)
    first = issue(3, 3, [2.0] * 24)
    both = IssuedTable(
        *(
            np.concatenate((getattr(first, name), getattr(later, name)))
            for name in ("issued_s", "valid_s", "values")
        ),
        HOUR,
    )
    assert forecast.renew(both, 4 * HOUR)
    assert at(forecast.table, 4, [8]) == [2.0]
    assert at(forecast.table, 6, [8]) == [3.0]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=8), st.integers(0, 80)
)
def test_after_any_renewals_each_hour_has_its_newest_value(steps, hour):
    """Against a plain dictionary: each renewal is issued when it is read."""
    table, known, now_h = issue(0, 0, [0.0] * 10), dict.fromkeys(range(10), 0.0), 0
    for number, (later_h, hours) in enumerate(steps, 1):
        now_h += later_h
        table = merged(table, issue(now_h, now_h, [float(number)] * hours), now_h * HOUR)
        known |= dict.fromkeys(range(now_h, now_h + hours), float(number))
    found = at(table, now_h, [max(hour, now_h)])[0]
    assert known.get(max(hour, now_h)) == (None if np.isnan(found) else found)


@pytest.mark.parametrize(
    "other",
    [
        issue(3, 3, [2.0] * 200, interval_s=900.0),
        issue(3, 3, [2.0] * 48, levels=[0.1, 0.9]),
        issue(3.3, 3.3, [2.0] * 48),
    ],
)
def test_a_forecast_of_another_form_replaces_the_one_before(other):
    forecast = renewed(issue(0, 0, [1.0] * 24))
    assert forecast.renew(other, 4 * HOUR)
    assert forecast.table is other


def test_quantiles_are_merged():
    forecast = renewed(issue(0, 0, [1.0] * 48, levels=[0.1, 0.9]))
    assert forecast.renew(issue(3, 3, [5.0] * 4, levels=[0.1, 0.9]), 4 * HOUR)
    found = forecast.table.latest_by_level(4 * HOUR, HOUR * np.array([5.0, 20.0]))
    assert found.tolist() == [[5.0, 1.0], [10.0, 2.0]]


# --- reports ------------------------------------------------------------------------------------------


def test_a_forecast_that_ends_before_the_window_is_reported_once_until_one_does_not():
    forecast = renewed(issue(0, 0, [1.0] * 24), windows=3)
    assert reported(forecast, 1) == []
    forecast.renew(issue(3, 3, [1.0] * 4), 3 * HOUR)
    told = "forecast f: it ends 17.0 h before the end of the window: the one before is used after that"
    assert reported(forecast, 3) == [("renewed", ""), ("short", told)]
    assert reported(forecast, 5) == []
    forecast.renew(issue(6, 6, [1.0] * 18), 6 * HOUR)
    assert reported(forecast, 6) == [("renewed", "")]
    told = "forecast f: it ends 24.0 h before the end of the window: no production is expected after that"
    assert reported(forecast, 24) == [("stale", reported_stale(18)), ("short", told)]


def reported_stale(hours):
    limit = "longer than --forecast-stale (6.0 h): it stays in use until there is a newer one"
    return f"forecast f: it was issued {hours:.1f} h ago, {limit}"


def test_the_end_of_the_run_is_enough():
    forecast = renewed(issue(0, 0, [1.0] * 24), stale_h=100, windows=1)
    assert reported(forecast, 23) == []


def test_a_stale_forecast_is_reported_once_until_it_is_renewed():
    forecast = renewed(issue(0, 0, [1.0] * 48))
    assert reported(forecast, 6) == []
    assert reported(forecast, 6.1) == [("stale", reported_stale(6.1))]
    assert reported(forecast, 9) == []
    forecast.renew(issue(9, 9, [1.0] * 48), 9.5 * HOUR)
    assert reported(forecast, 10) == [("renewed", "")]
    assert reported(forecast, 16) == [("stale", reported_stale(7))]


def test_an_older_forecast_is_not_used():
    forecast = renewed(issue(5, 5, [1.0] * 48))
    assert not forecast.renew(issue(2, 2, [9.0] * 48), 6 * HOUR)
    assert not forecast.renew(issue(2, 2, [9.0] * 48), 6 * HOUR)
    told = "forecast f: it was issued 4.0 h ago: the one in use, issued 1.0 h ago, stays in use"
    assert reported(forecast, 6) == [("older", told)]
    assert at(forecast.table, 6, [6]) == [1.0]


def test_a_short_forecast_of_another_form_is_not_used():
    forecast = renewed(issue(0, 0, [1.0] * 24))
    assert not forecast.renew(issue(3, 3, [9.0] * 4, interval_s=900.0), 4 * HOUR)
    told = "forecast f: it ends 20.0 h before the end of the window: the one before stays in use"
    assert reported(forecast, 4) == [("short", told)]


def test_a_failure_is_reported_once_until_the_source_can_be_read():
    forecast = renewed(issue(0, 0, [1.0] * 48))
    told = ("failed", "x: broken; the forecast before stays in use")
    for now_h, expected in ((1, [told]), (2, [])):
        forecast.fail("x: broken", now_h * HOUR)
        assert reported(forecast, now_h) == expected
    forecast.renew(issue(3, 3, [1.0] * 48), 3 * HOUR)
    forecast.fail("x: broken", 4 * HOUR)
    assert reported(forecast, 4) == [("renewed", ""), told]


def test_nothing_is_reported_on_a_forecast_that_never_changes():
    forecast = renewed(issue(0, 0, [1.0]), watched=False)
    assert reported(forecast, 47) == []


# --- the source that policies see ---------------------------------------------------------------------


def test_policies_see_the_renewed_forecast_and_its_revision():
    source = FileForecast(issue(0, 0, [100.0] * 48))
    source.announce(0.0, 100.0)
    assert (source.revision, source.age_s(HOUR)) == (0, None)
    source.renew(merged(issue(0, 0, [100.0] * 48), issue(1, 1, [500.0] * 48), HOUR))
    source.observe(0.0, HOUR, 100.0)
    assert source.revision == 1
    assert source.renewable_w(HOUR, HOUR, 2).tolist() == [500.0, 500.0]
    assert source.age_s(3 * HOUR) == 2 * HOUR


def test_a_table_can_be_given_its_issue():
    assert with_issue(issue(0, 0, [1.0, 2.0]), -60.0).issued_s.tolist() == [-60.0, -60.0]


def test_members_are_those_of_the_newest():
    def with_members(table, members_w):
        return replace(table, members_w=np.array(members_w, float))

    before = with_members(issue(0, 0, [1, 2, 3, 4]), [[1, 2, 3, 4], [5, 6, 7, 8]])
    new = with_members(issue(1, 2, [30]), [[30], [70]])
    both = merged(before, new, 1.5 * HOUR)
    hours = HOUR * np.array([1.0, 2.0, 3.0]) + 1.0
    assert both.latest_members_w(1.5 * HOUR, hours).tolist() == [[2, 30, 4], [6, 70, 8]]
    assert merged(issue(0, 0, [1, 2, 3, 4]), new, 1.5 * HOUR).members_w is None
    assert merged(before, issue(1, 2, [30]), 1.5 * HOUR).members_w is None


def test_issues_are_added_to_those_that_are_known():
    table = replace(merged(issue(0, 0, [1, 2, 3]), issue(2, 2, [7]), 1.0), members_w=None)
    known = table.known_at(HOUR)
    assert known.issued_s.tolist() == [0.0] * 3
    assert table.known_at(-1.0) is None
    more = known.with_later(issue(1, 2, [9]))
    assert at(more, 0, [0, 1, 2]) == [1, 2, 3]
    assert at(more, 1, [0, 1, 2]) == [1, 2, 9]
    forecast = FileForecast(table)
    forecast.forget_later(HOUR)
    forecast.issue(issue(1, 1, [8, 9]))
    assert forecast.renewable_w(0.0, HOUR, 3).tolist() == [1, 2, 3]
    assert forecast.renewable_w(HOUR, HOUR, 2).tolist() == [8, 9]
    assert forecast.members_w(HOUR, HOUR, 2) is None
