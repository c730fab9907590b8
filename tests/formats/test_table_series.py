import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.table import IRRADIANCE, POWER, WIND_SPEED, Table, on_grid


def grid(hours, values=None, name=POWER, dated=True):
    times = np.array([round(h * 3600) for h in hours], dtype=np.int64)
    values = np.arange(1.0, len(hours) + 1) if values is None else np.array(values, dtype=float)
    table = Table("f.csv", (), ("time", name), [], np.arange(2, len(hours) + 2))
    return on_grid(table, times, {name: values}, dated=dated)


def test_missing_rows_become_gaps():
    series = grid([0, 1, 4, 5, 6])
    assert series.interval_s == 3600
    np.testing.assert_array_equal(series.columns[POWER], [1, 2, np.nan, np.nan, 3, 4, 5])
    assert series.lines.tolist() == [2, 3, 0, 0, 4, 5, 6]


def test_rows_that_wrap_around_are_sorted_and_noted():
    series = grid([2, 3, 4, 0, 1])
    assert series.columns[POWER].tolist() == [4, 5, 1, 2, 3]
    assert series.start_s == 0
    assert series.notes == ("rows are not in order of time (first at line 5): sorted",)


def test_rows_that_repeat_are_dropped_and_noted():
    series = grid([0, 1, 1, 2], [1, 2, 2, 3])
    assert series.columns[POWER].tolist() == [1, 2, 3]
    assert series.notes == ("rows that repeat the one before: 1 (first at line 4)",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ([0, 1, 1, 2],),
            "f.csv:4: repeats the time of line 3 with other values: expected one row for each time",
        ),
        (([0, 1, 2, 2.5, 4],), "f.csv:5: 1970-01-01 02:30 is not a whole number of 3600 s from the first"),
        (
            ([0, 1, 2, 9000],),
            "f.csv:5: jumps from 1970-01-01 02:00 to 1971-01-11 00:00: is a date misread (--date-order)",
        ),
        (([0, 24, 48],), "f.csv: has a row every 24 h, expected hourly rows or finer"),
        (([0],), "f.csv: has 1 row of data, expected at least 2"),
        (([0, 1], [1, -0.5]), "f.csv:3: power_w is -0.5, must not be negative"),
        (([0, 1], [1, 1700], IRRADIANCE), "f.csv:3: irradiance_w_m2 is 1700, at most 1600 is possible"),
        (([0, 1], [1, 150], WIND_SPEED), "f.csv:3: wind_speed_m_s is 150, at most 120 is possible"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(arguments, message):
    with pytest.raises(InputError) as error:
        grid(*arguments)
    assert message in str(error.value)


def test_files_without_dates_count_from_their_start():
    series = grid([5, 6], dated=False)
    assert series.start_s is None
    assert series.time_text(1) == "3600 s from the start"
