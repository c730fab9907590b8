import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.entsoe import parse_entsoe
from beasy_sched.formats.table import POWER, time_text

COLUMN = "Solar  - Actual Aggregated [MW]"


def text(day, hours, zone="CET"):
    """Rows of (local hour, value) on one day, in the export's words."""
    rows = [f'"Area","MTU","{COLUMN}"']
    for hour, value in hours:
        rows.append(f'"BE","{day} {hour:02}:00 - {day} {hour + 1:02}:00 ({zone})","{value}"')
    return "\n".join(rows) + "\n"


def test_winter_is_one_hour_ahead_and_values_are_megawatts():
    series = parse_entsoe("f.csv", text("15.01.2019", [(0, 5), (1, "n/e"), (2, 7)]), COLUMN)
    assert time_text(series.start_s, 0) == "2019-01-14 23:00"
    np.testing.assert_array_equal(series.columns[POWER], [5e6, np.nan, 7e6])


@pytest.mark.parametrize(("zone", "start"), [("CET/CEST", "2019-07-14 22:00"), ("UTC", "2019-07-15 00:00")])
def test_summer_is_two_hours_ahead_unless_it_says_utc(zone, start):
    series = parse_entsoe("f.csv", text("15.07.2019", [(0, 5), (1, 6)], zone), COLUMN)
    assert time_text(series.start_s, 0) == start


def test_the_hour_that_spring_skips_is_dropped():
    day = text("31.03.2019", [(0, 1), (1, 2), (2, ""), (3, 3), (4, 4)])
    series = parse_entsoe("f.csv", day, COLUMN)
    assert series.columns[POWER].tolist() == [1e6, 2e6, 3e6, 4e6]
    assert time_text(series.start_s, 0) == "2019-03-30 23:00"


def test_the_hour_that_autumn_repeats_counts_twice():
    day = text("27.10.2019", [(0, 1), (1, 2), (2, 3), (2, 4), (3, 5)])
    series = parse_entsoe("f.csv", day, COLUMN)
    assert series.columns[POWER].tolist() == [1e6, 2e6, 3e6, 4e6, 5e6]
    assert time_text(series.start_s, 0) == "2019-10-26 22:00"


def test_a_value_in_the_skipped_hour_is_refused():
    with pytest.raises(InputError, match=r"f.csv:4: has a value for an hour that the change to summer time"):
        parse_entsoe("f.csv", text("31.03.2019", [(0, 1), (1, 2), (2, 9), (3, 3)]), COLUMN)


def test_what_is_no_interval_is_refused():
    broken = text("15.01.2019", [(0, 5), (1, 6)]).replace("15.01.2019 01:00 -", "later -")
    with pytest.raises(InputError, match=r"f.csv:3: found 'later - .*', expected an interval such as"):
        parse_entsoe("f.csv", broken, COLUMN)


@pytest.mark.parametrize(
    "text", ["01.13.2019 00:00", "31.02.2019 00:00", "01.01.2019 25:00", "01.01.0000 00:00"]
)
def test_dates_that_there_are_not(text):
    rows = f'"MTU (CET)","Solar  - Actual Aggregated [MW]"\n"{text} - 01.01.2019 01:00","1"\n'
    with pytest.raises(InputError, match=rf"x.csv:2: found '{text} - .*expected day.month.year"):
        parse_entsoe("x.csv", rows, "Solar  - Actual Aggregated [MW]")
