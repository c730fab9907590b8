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
    with pytest.raises(InputError, match="has no time column: give the time between rows with --interval"):
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
        (MANY, {"column": "solar", "unit": "kW"}, "column 'Solar [MW]' is in MW, but --unit is kW"),
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
            "f.csv:4: repeats the time of line 3 with other values: expected one row for each time",
        ),
    ],
)
def test_what_is_wrong_is_told(text, options, message):
    with pytest.raises(InputError) as error:
        read(text, **options)
    assert message in str(error.value)


def quarters(name, values, step=900):
    return f"time,{name}\n" + "".join(f"{step * row},{value}\n" for row, value in enumerate(values))


@pytest.mark.parametrize(
    ("name", "unit", "per_row", "step_s"),
    [
        ("energy_kwh", None, 0.25, 900),
        ("energy (Wh)", None, 250, 900),
        ("PV [MWh]", None, 0.0005, 1800),
        ("energy [kJ]", None, 300, 300),
        ("energy_MJ", None, 3.6, 3600),
        ("energy", "kWh", 1, 3600),
        ("energy_kwh", "KWH", 0.25, 900),
    ],
)
def test_the_energy_of_each_row_is_divided_by_its_length(name, unit, per_row, step_s):
    series = read(quarters(name, [0, per_row, 2 * per_row], step_s), unit=unit)
    assert series.columns[POWER].tolist() == pytest.approx([0, 1000, 2000])


def test_energy_without_times_goes_by_the_interval():
    assert read("energy_kwh\n1\n0\n", interval_s=1800).columns[POWER].tolist() == [2000, 0]


def test_a_share_of_the_capacity_in_percent_or_as_yield():
    assert read(quarters("pv [%]", [0, 50])).columns[POWER].tolist() == [0, 0.5]
    series = read(quarters("yield [kWh/kWp]", [0, 0.125]))
    assert (series.columns[POWER].tolist(), series.capacity_w) == ([0, 0.5], 1)
    with pytest.raises(InputError, match=r"pv reaches 50 per unit of capacity: wrong unit\?"):
        read(quarters("pv", [0, 50]), unit="per-unit")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("energy_kwh", {"unit": "kw"}, "column 'energy_kwh' is in kwh, but --unit is kw"),
        (
            "energy",
            {},
            "give --unit (W, kW, MW or GW; Wh, kWh or MWh for the energy of each row; per-unit or %)",
        ),
        (
            "pv (kVA)",
            {},
            "column 'pv (kVA)': unit 'kVA' is apparent power, from which the power does not follow",
        ),
        (
            "pv_kwp",
            {"unit": "kW"},
            "column 'pv_kwp': unit 'kwp' is a plant's capacity, not its power: expected",
        ),
        ("pv [mW]", {}, "column 'pv [mW]': unit 'mW' has thousandths (write MW for millions): expected"),
        ("pv", {"unit": "mW"}, "--unit: unit 'mW' has thousandths (write MW for millions): expected"),
    ],
)
def test_units_that_are_refused(name, options, message):
    with pytest.raises(InputError) as error:
        read(quarters(name, [1, 2]), **options)
    assert message in str(error.value)


def test_rows_of_two_lengths_have_no_power():
    """As in a year in which a market changes from hours to quarters of an hour."""
    times = [*range(0, 4 * 3600, 3600), *range(4 * 3600, 8 * 3600, 900)]
    text = "time,pv_kwh\n" + "".join(f"{at},1\n" for at in times)
    with pytest.raises(InputError) as error:
        read(text)
    message = (
        "f.csv:2: rows are 3600 s apart here, but most are 900 s apart: expected energies of rows of one"
    )
    assert str(error.value) == f"{message} length"
    assert len(read(text.replace("kwh", "kw"))) == 32  # powers have gaps there
    gone = quarters("pv_kwh", [1, 2, 3, 4, 5]).replace("1800,3\n", "")
    assert read(gone).columns[POWER].tolist() == pytest.approx(
        [4000, 8000, float("nan"), 16000, 20000], nan_ok=True
    )


def test_a_meter_s_counter_is_no_energy_of_rows():
    counter = [1000 + row // 2 for row in range(97)]
    with pytest.raises(
        InputError, match=r"total_kwh never falls, from 1000 to 1048: is it a meter's counter\?"
    ):
        read(quarters("total_kwh", counter))
    read(quarters("total_kwh", counter[:40]))  # a morning may rise all along
    read(quarters("total_kwh", [5] * 97))  # a steady demand
    read(quarters("total_kw", counter))


def test_rows_of_one_time_only():
    with pytest.raises(InputError, match="has one time only, expected at least 2"):
        read("time,p_kw\n0,1\n0,1\n")
    with pytest.raises(InputError, match="has 1 row of data, expected at least 2"):
        read("time,p_kwh\n0,1\n")


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
