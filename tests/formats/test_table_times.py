from datetime import datetime, timezone

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.table import Table, parse_moment
from beasy_sched.model.choices import DateOrder


def seconds(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp())


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("2019-06-01", "2019-06-01 00:00"),
        ("2019-06-01 05:00", "2019-06-01 05:00"),
        ("2019-06-01T05:00:30Z", "2019-06-01 05:00:30"),
        ("2019-06-01 05:00+02:00", "2019-06-01 03:00"),
        ("2019-06-01 05:00:00-0330", "2019-06-01 08:30"),
        ("2019/1/1 05:00", "2019-01-01 05:00"),
        ("2019-12-31 24:00", "2020-01-01 00:00"),
        ("2020-02-29 23:00", "2020-02-29 23:00"),
        ("2019/6/1 1:00 PM", "2019-06-01 13:00"),
        ("2019/6/1 12:00 am", "2019-06-01 00:00"),
    ],
)
def test_a_time_with_the_year_first(text, same_as):
    assert parse_moment(text) == seconds(same_as)


@pytest.mark.parametrize("text", ["", "soon", "2019-02-29", "2019-13-01", "2019-01-01 25:00", "31/12/2013"])
def test_what_is_no_such_time(text):
    assert parse_moment(text) is None


def read(texts, order=None):
    rows = [[text] for text in texts]
    times, notes = Table("f.csv", (), ("time",), rows, np.arange(2, 2 + len(texts))).times("time", order)
    return [datetime.fromtimestamp(t, timezone.utc).strftime("%m-%d %H") for t in times.tolist()], notes


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["30/6/2019 23:00", "1/7/2019 0:00", "1/7/2019 1:00"], ["06-30 23", "07-01 00", "07-01 01"]),
        (["6/30/2019 23:00", "7/1/2019 0:00", "7/1/2019 1:00"], ["06-30 23", "07-01 00", "07-01 01"]),
        (["01.02.2019 23:00", "02.02.2019 00:00", "02.02.2019 01:00"], ["02-01 23", "02-02 00", "02-02 01"]),
        (["05/05/2019 00:00", "05/05/2019 01:00"], ["05-05 00", "05-05 01"]),
    ],
)
def test_the_order_of_day_and_month_is_the_one_that_fits(texts, expected):
    assert read(texts) == (expected, ())


def test_a_row_added_by_hand_in_the_other_order_is_read_and_noted():
    hours = [datetime.fromtimestamp(seconds("2014-01-01") + 3600 * h, timezone.utc) for h in range(20 * 24)]
    texts = ["31/12/2013 23:00", *(f"{t.month}/{t.day}/{t.year} {t.hour}:00" for t in hours)]
    times, notes = read(texts)
    assert times == ["12-31 23", *(t.strftime("%m-%d %H") for t in hours)]
    assert notes == ("dates: 1 (first '31/12/2013 23:00' at line 2) read as dmy, the others as mdy",)


def test_days_that_may_be_months_need_an_order():
    texts = ["03/04/2019 00:00", "03/04/2019 01:00"]
    with pytest.raises(InputError, match=r"f.csv:2: '03/04/2019 00:00' may be day/month or month/day"):
        read(texts)
    assert read(texts, DateOrder.DAY_FIRST)[0] == ["04-03 00", "04-03 01"]
    assert read(texts, DateOrder.MONTH_FIRST)[0] == ["03-04 00", "03-04 01"]


@pytest.mark.parametrize("bad", ["", "31/31/2019 01:00", "x"])
def test_what_is_no_date_is_named_with_its_line(bad):
    with pytest.raises(InputError, match=f"f.csv:3: found '{bad}', expected a time such as"):
        read(["1/1/2019 00:00", bad, "1/1/2019 02:00"])
