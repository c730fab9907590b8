import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.power_series import parse_power_csv
from beasy_sched.formats.table import POWER, time_text


def read(text, **options):
    return parse_power_csv("f.csv", text, **options)


@pytest.mark.parametrize(
    ("name", "unit", "factor"),
    [
        ("power (W)", None, 1),
        ("Solar [MW]", None, 1e6),
        ("pv_kw", None, 1e3),
        ("pv_kW", "kw", 1e3),
        ("pv", "kW", 1e3),
        ("pv", "GW", 1e9),
        ("pv", "per-unit", 1),
    ],
)
def test_the_unit_comes_from_the_name_or_the_user(name, unit, factor):
    series = read(f"time,{name}\n2019-06-01 00:00,0.5\n2019-06-01 01:00,1\n", unit=unit)
    assert series.columns[POWER].tolist() == [0.5 * factor, factor]
    assert series.capacity_w == (1 if unit == "per-unit" else None)


@pytest.mark.parametrize(
    ("times", "start", "interval"),
    [
        (["2019-06-01 00:00", "2019-06-01 00:15"], "2019-06-01 00:00", 900),
        (["1559347200", "1559347500"], "2019-06-01 00:00", 300),
        (["1559347200000", "1559347500000"], "2019-06-01 00:00", 300),
        (["0", "300"], "0 s from the start", 300),
    ],
)
def test_times_are_dates_epochs_or_seconds_from_the_start(times, start, interval):
    series = read(f"time,p_kw\n{times[0]},1\n{times[1]},2\n")
    assert (time_text(series.start_s, 0), series.interval_s) == (start, interval)


def test_the_end_of_a_period_is_not_its_start():
    series = read("period_end,p_kw\n2019-06-01 00:30,1\n2019-06-01 01:00,2\n")
    assert time_text(series.start_s, 0) == "2019-06-01 00:00"


def test_no_times_need_an_interval():
    text = "p_kw\n1\n2\n3\n"
    with pytest.raises(
        InputError, match="has no column of times: give the length of its rows with --interval"
    ):
        read(text)
    series = read(text, interval_s=3600)
    assert (series.start_s, series.interval_s, len(series)) == (None, 3600, 3)


MANY = "time,Solar [MW],Wind Onshore [MW],Wind Offshore [MW]\n0,1,2,3\n300,4,5,6\n"


@pytest.mark.parametrize(("column", "first"), [("solar", 1e6), ("onshore", 2e6), ("Wind Offshore [MW]", 3e6)])
def test_a_part_of_a_column_s_name_is_enough(column, first):
    assert read(MANY, column=column).columns[POWER][0] == first


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            MANY,
            {},
            "has several columns, choose one with --pv-column or --wind-column; its columns are: Solar",
        ),
        (MANY, {"column": "wind"}, "'wind' matches more than one column; its columns are: Solar"),
        (MANY, {"column": "hydro"}, "'hydro' is not a column; its columns are"),
        (MANY, {"column": "solar", "unit": "kW"}, "column 'Solar [MW]' is in MW, but --unit says kW"),
        (
            "time,p\n0,1\n300,2\n",
            {},
            "column 'p' does not state its unit: give --unit (W, kW, MW or GW; Wh, kWh or MWh for the energy",
        ),
        (
            "time,p\n0,1\n300,2\n",
            {"unit": "hp"},
            "--unit: unit 'hp' is not one of the units of electric power: expected W, kW, MW or GW",
        ),
        ("time,p\n0,1\n300,9\n", {"unit": "per-unit"}, "p reaches 9 per unit of capacity: wrong unit?"),
        ("time,p_kw\n0,1\n,2\n", {}, "f.csv:3: time: the time is missing"),
        ("time,p_kw\n0,1\n300,-2\n", {}, "f.csv:3: power_w is -2000, must not be negative"),
        (
            "time,p_kw\n2019-10-27 01:00,1\n2019-10-27 02:00,2\n2019-10-27 02:00,3\n",
            {},
            "f.csv:4: repeats the time of line 3 with other values; times must be UTC (local times repeat",
        ),
    ],
)
def test_what_is_wrong_is_told(text, options, message):
    with pytest.raises(InputError) as error:
        read(text, **options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "times",
    [("2024-02-28 00:00:00+00:00", "2024-02-28 01:00:00+00:00"), ("29/02/2024 00:00", "29/02/2024 01:00")],
)
def test_an_unnamed_first_column_of_times_is_the_time(times):
    series = read(f",power_kw\n{times[0]},1\n{times[1]},2\n")
    assert (series.interval_s, series.columns[POWER].tolist()) == (3600, [1e3, 2e3])
    assert series.start_s is not None


def test_an_unnamed_first_column_of_row_numbers_is_neither_time_nor_power():
    series = read(",power_kw\n0,1\n1,2\n", interval_s=900)
    assert (series.start_s, series.interval_s, series.columns[POWER].tolist()) == (None, 900, [1e3, 2e3])
    assert read(",time,power_kw\n0,2024-02-28 00:00,1\n1,2024-02-28 01:00,2\n").interval_s == 3600


NEGATIVE = "time,power_kw\n0,-0.012\n300,2\n600,-0.02\n"


def test_negative_power_is_refused_with_the_option_that_clips_it():
    with pytest.raises(InputError, match=r":2: power_w is -12, must not be negative \(--clip-negative"):
        read(NEGATIVE, clip_negative=False)
    with pytest.raises(InputError, match=r"must not be negative$"):  # where there is no such option
        read(NEGATIVE)


def test_negative_power_is_clipped_with_a_note():
    series = read(NEGATIVE, clip_negative=True)
    assert series.columns[POWER].tolist() == [0, 2e3, 0]
    assert series.notes == ("2 negative values counted as 0 (the least is -20 W)",)
    with pytest.raises(InputError, match=":3: power_w falls to -5000 and reaches 0 only"):
        read("time,power_kw\n0,0\n300,-5\n", clip_negative=True)
