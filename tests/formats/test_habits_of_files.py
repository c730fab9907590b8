"""Habits of portals and markets, read right or refused: counters, names of times, marks, other JSON."""

import json
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from beasy_sched.energy.calendar import Calendar
from beasy_sched.errors import InputError
from beasy_sched.formats.grid_rates import CARBON, PRICE, RateFile, read_rate
from beasy_sched.formats.local_time import named_zone
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.table import IRRADIANCE, POWER, WIND_SPEED, time_text

HOURS = range(48)


def at(hour, form="%Y-%m-%d %H:%M"):
    return (datetime(2024, 6, 1) + timedelta(hours=hour)).strftime(form)


def sun(hour):
    return max(0, 5 - abs(hour % 24 - 12))


def rows(head, line):
    return head + "\n" + "".join(line(hour) + "\n" for hour in HOURS)


@pytest.fixture
def read(tmp_path):
    def reading(contents, **options):
        path = tmp_path / "f.csv"
        path.write_text(contents if isinstance(contents, str) else json.dumps(contents), "utf-8")
        return read_weather_file(path, **options)

    return reading


@pytest.fixture
def rate(tmp_path):
    def reading(contents, quantity=PRICE, **how):
        path = tmp_path / "f.csv"
        path.write_text(contents if isinstance(contents, str) else json.dumps(contents), "utf-8")
        calendar = Calendar(datetime.fromisoformat("2024-06-01T00:00:00+02:00"), ZoneInfo("Europe/Berlin"))
        signal = read_rate(RateFile(path, quantity, **how), calendar).signal
        return (signal.times_s[:2] / 3600).tolist(), signal.values[:2].tolist()

    return reading


def test_the_counter_of_a_day_is_not_the_energy_of_rows(read):
    day = [sum(sun(h) for h in range(24 * (hour // 24), hour + 1)) for hour in HOURS]
    with pytest.raises(InputError, match="restarts near 0 1 time: is it the energy of the day so far"):
        read(rows("time,E-Today (kWh),Pac (W)", lambda h: f"{at(h)},{day[h]},{sun(h)}"), column="E-Today")
    energy = read(rows("time,Yield (kWh),Pac (W)", lambda h: f"{at(h)},{sun(h)},{sun(h)}"), column="Yield")
    assert energy.columns[POWER].max() == 5000
    assert read(rows("time,e (kWh)", lambda h: f"{at(h)},1")).columns[POWER].tolist() == [1000.0] * 48


def test_times_that_state_no_zone_are_noted(read):
    text = rows("Time,Production (Wh)", lambda h: f"{at(h)},{sun(h)}")
    assert read(text).notes == ("times state no time zone: read as UTC (--timezone gives another)",)
    assert read(text, zone=named_zone("UTC")).notes == ()
    assert read(text.replace("Time,", "Time (UTC),")).notes == ()


def test_the_only_column_of_dates_has_the_times(read):
    text = rows("entity_id,state,last_changed", lambda h: f"sensor.pv,{sun(h)},{at(h)}:00.123Z")
    series = read(text, column="state", unit="W")
    assert (time_text(series.start_s, 0), series.columns[POWER][12]) == ("2024-06-01 00:00", 5)
    two = rows("state,changed,updated", lambda h: f"{sun(h)},{at(h)}Z,{at(h)}Z")
    with pytest.raises(InputError, match="several columns of dates, changed, updated: rename the one"):
        read(two, column="state", unit="W", interval_s=60)


def test_utc_comes_before_local_time_where_a_file_has_both(read):
    text = rows(
        "cet_cest_timestamp,utc_timestamp,p_kw", lambda h: f"{at(h + 2)}:00+0200,{at(h)}:00Z,{sun(h)}"
    )
    series = read(text)
    assert (time_text(series.start_s, 0), series.columns[POWER][12]) == ("2024-06-01 00:00", 5000)


def test_values_up_to_their_time(read):
    series = read(rows("Interval End,p_kw", lambda h: f"{at(h + 1)},{sun(h)}"))
    assert (time_text(series.start_s, 0), series.columns[POWER][12]) == ("2024-06-01 00:00", 5000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ";SN 1;SN 1\n;Power;Yield\n;kW;kWh\n01.06.2024 00:00;1;2\n",
            ":2: found 'Power', expected a row of data",
        ),
        ("time,p_kw\n00:00,1\n00:05,2\n", ":2: found '00:00', expected a time such as"),
        ("LOCATION,Denver,CO,USA,TMY3,724666,39.74,-105.18,-7.0,1829.0\n1999,1\n", "is a typical year"),
        (
            "Latitude: 5\nmonth,year\n1,2007\n\ntime(UTC),T2m,RH,G(h)\n20070101:0000,1,2,3\n",
            "is a typical year",
        ),
        ('{"energy": {"values": [{"date": "2024-06-01", "value": 1.0}]}}', "is JSON, but not of NASA POWER"),
        ('[{"time": 1, "value": 2}]', "is JSON in a form that is unknown"),
    ],
)
def test_what_is_refused_in_one_line(read, text, message):
    with pytest.raises(InputError) as error:
        read(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    "text", ["x" * 5000, '{"a": "' + "y" * 5000 + '"}', "time,p_kw\n" + "z" * 5000 + ",1\n"]
)
def test_a_long_line_is_shortened_in_messages(read, text):
    with pytest.raises(InputError) as error:
        read(text)
    assert len(str(error.value)) < 600
    assert "\n" not in str(error.value)


def test_weather_of_other_services(read):
    series = read(rows("name,datetime,windspeed,solarradiation", lambda h: f"Berlin,{at(h)},3,{sun(h)}"))
    assert series.columns[IRRADIANCE][12] == 5
    assert series.columns[WIND_SPEED][12] == 3


def test_json_of_prices_and_carbon(rate):
    stamps = [1717192800000 + 3600_000 * hour for hour in range(3)]
    data = [{"start_timestamp": at, "marketprice": 50 + i, "unit": "Eur/MWh"} for i, at in enumerate(stamps)]
    assert rate({"object": "list", "data": data}) == ([0, 1], [0.05, 0.051])
    history = [{"zone": "DE", "carbonIntensity": 300 + h, "datetime": f"{at(h)}:00.000Z"} for h in range(3)]
    assert rate({"zone": "DE", "history": history}, CARBON) == ([2, 3], [300, 301])
    moer = [{"point_time": f"{at(h)}:00+00:00", "value": 1000} for h in range(3)]
    meta = {"units": "lbs_co2_per_mwh"}
    assert rate({"data": moer, "meta": meta}, CARBON) == ([2, 3], [pytest.approx(453.59237)] * 2)
    halves = [
        {"from": f"{at(h / 2)}Z", "intensity": {"forecast": 1, "actual": 200 + h, "index": "low"}}
        for h in range(3)
    ]
    column = "intensity.actual [gCO2/kWh]"
    assert rate({"data": halves}, CARBON, column=column) == ([2, 2.5], [200, 201])
    with pytest.raises(InputError, match="is JSON in a form that is unknown: expected that of Energy-Charts"):
        rate({"data": {"viewer": {}}})
    data[1]["unit"] = "Eur/kWh"
    with pytest.raises(InputError, match="unit has several values"):
        rate({"object": "list", "data": data})


def test_prices_with_the_newest_first(rate):
    text = "valid_from,valid_to,price (p/kWh)\n" + "".join(
        f"{at(h / 2)}Z,{at((h + 1) / 2)}Z,{h}\n" for h in reversed(range(4))
    )
    assert rate(text, currency="GBP") == ([2, 2.5], [0, 0.01])


def test_a_row_of_data_is_not_taken_for_the_header_of_prices(rate):
    text = "id;name;value;datetime\n" + "".join(
        f"600;Precio SPOT;{50 + h},5;{at(h)}:00+02:00\n" for h in range(3)
    )
    with pytest.raises(InputError, match=r"no columns seem to hold the price: .* id, name, value, datetime"):
        rate(text)
    assert rate(text, column="value", unit="EUR/MWh") == ([0, 1], [0.0505, 0.0515])


def test_the_time_of_a_market_requires_its_zone(rate):
    text = "REGION,SETTLEMENTDATE,RRP\n" + "".join(
        f"NSW1,{at(h / 12 + 1 / 12, '%Y/%m/%d %H:%M:%S')},{50 + h}\n" for h in range(3)
    )
    how = {"column": "RRP", "unit": "AUD/MWh", "currency": "AUD"}
    with pytest.raises(InputError, match="'SETTLEMENTDATE' is in the market's time: give the time zone"):
        rate(text, **how)
    times, values = rate(text, **how, zone=named_zone("+10:00"))
    assert (times, values) == ([-8, pytest.approx(-8 + 1 / 12)], [0.05, 0.051])


@pytest.mark.parametrize(
    "time", ["2024060112", "202406011200", "20240601120000", "20240601T1200", "2024060112:00"]
)
def test_compact_dates(read, time):
    later = time.replace("0112", "0113").replace("T12", "T13")
    series = read(f"MESS_DATUM,time,p_kw\n1,{time},1\n2,{later},2\n", column="p_kw")
    assert (time_text(series.start_s, 0), series.interval_s) == ("2024-06-01 12:00", 3600)


def test_a_spreadsheets_numbers_of_days_are_refused(read):
    with pytest.raises(InputError, match="found '45444', a spreadsheet's number of a day: write dates"):
        read("time,p_kw\n45444,1\n45444.0416667,2\n")
    assert read("time,p_kw\n45000,1\n48600,2\n").interval_s == 3600


def test_two_columns_of_one_name_are_not_told_apart(read):
    with pytest.raises(InputError, match="'Power \\(W\\)' matches more than one column"):
        read("time,Power (W),Power (W)\n2024-06-01 00:00,1,2\n2024-06-01 01:00,3,4\n", column="Power (W)")


@pytest.mark.parametrize(
    ("cells", "watts"),
    [
        (("0,5", "1.234,5"), [500, 1234500]),
        (("0,5", "1.234"), [500, 1234000]),
        (("0.5", "1.234"), [500, 1234]),
        (("0", "1.234"), [0, 1234]),
        (("0.250", "1.234"), [250, 1234]),
    ],
)
def test_marks_of_decimals_and_thousands(read, cells, watts):
    text = f"time;p (kW)\n2024-06-01 00:00;{cells[0]}\n2024-06-01 01:00;{cells[1]}\n"
    assert read(text).columns[POWER].tolist() == watts


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (("1,234", "999.5"), ":3: p (kW): found '999.5', but other rows have decimal commas"),
        (("250", "1.234"), ":3: p (kW): found '1.234', whose point may mark thousands or decimals"),
    ],
)
def test_marks_that_may_be_either_are_refused(read, cells, message):
    with pytest.raises(InputError) as error:
        read(f"time;p (kW)\n2024-06-01 00:00;{cells[0]}\n2024-06-01 01:00;{cells[1]}\n")
    assert message in str(error.value)


def test_rows_of_several_plants_are_refused_also_with_equal_values(read):
    text = rows("time,plant,p_kw", lambda h: f"{at(h)},A,{sun(h)}\n{at(h)},B,{sun(h)}")
    with pytest.raises(
        InputError, match=r"f\.csv:3: repeats the time of line 2 with other values: expected one row"
    ):
        read(text, column="p_kw")
    assert len(read(text.replace(",B,", ",A,"), column="p_kw")) == 48


@pytest.mark.parametrize("mark", ["|", " "])
def test_cells_divided_by_other_marks_are_refused(read, mark):
    with pytest.raises(
        InputError, match=r"found '2024-06-01T00:00.*expected a number, or cells divided by commas"
    ):
        read(f"time{mark}p_kw\n2024-06-01T00:00{mark}1\n2024-06-01T01:00{mark}2\n")
