"""Times in a time zone: that of the file, of a column's name, or of the user."""

from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats import local_time as clock
from beasy_sched.formats.local_time import CentralEurope, named_zone, stated_zone, to_utc
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.table import POWER, time_text, zone_in_name

BERLIN = named_zone("Europe/Berlin")


@pytest.fixture
def read(tmp_path):
    def reading(text, **options):
        path = tmp_path / "f.csv"
        path.write_text(text, "utf-8")
        return read_weather_file(path, **options)

    return reading


def rows(day, *clocks, name="time"):
    return f"{name},p_kw\n" + "".join(f"{day} {clock},{value}\n" for value, clock in enumerate(clocks, 1))


def local(year, month, day, hour, minute=0):
    return int(datetime(year, month, day, hour, minute, tzinfo=timezone.utc).timestamp())


@pytest.mark.parametrize("zone", [BERLIN, CentralEurope()], ids=["zoneinfo", "rule"])
def test_central_europe_has_the_same_offsets_by_rule_and_by_database(zone):
    hours = np.arange(local(2024, 1, 1, 0), local(2026, 1, 1, 0), 1800)
    assert np.array_equal(to_utc(hours, zone)[0], to_utc(hours, ZoneInfo("Europe/Berlin"))[0])
    assert np.array_equal(to_utc(hours, zone)[1], to_utc(hours, ZoneInfo("Europe/Berlin"))[1])


@pytest.mark.parametrize(
    ("clocks", "hours"),
    [
        (["01:00", "02:00", "02:00", "03:00"], [0, 1, 2, 3]),
        (["01:30", "02:00", "02:30", "02:00", "02:30", "03:00"], [0, 0.5, 1, 1.5, 2, 2.5]),
        (["01:30", "02:00", "02:00", "02:30", "02:30", "03:00"], [0, 0.5, 1.5, 1, 2, 2.5]),
        (["01:30", "02:00", "02:00", "02:30", "03:00"], [0, 0.5, 1.5, 1, 2.5]),
        (["03:00", "02:00", "02:00", "01:00"], [3, 2, 1, 0]),
        (["01:30", "02:00", "02:45", "02:15", "02:45", "03:00"], [0, 0.5, 1.25, 1.75, 2.25, 2.5]),
    ],
)
def test_an_hour_that_occurs_twice_is_in_order(clocks, hours):
    at = np.array([local(2024, 10, 27, *map(int, clock.split(":"))) for clock in clocks])
    utc, exists = to_utc(at, BERLIN)
    assert exists.all()
    assert ((utc - utc.min()) / 3600).tolist() == hours


def test_the_hour_that_spring_skips_is_no_gap(read):
    series = read(rows("2024-03-31", "00:00", "01:00", "03:00", "04:00"), zone=BERLIN)
    assert (series.columns[POWER] / 1e3).tolist() == [1, 2, 3, 4]
    assert time_text(series.start_s, 0) == "2024-03-30 23:00"
    assert (series.clock, series.notes) == ("", ("times are Europe/Berlin",))
    empty = "time,p_kw\n2024-03-31 01:00,1\n2024-03-31 02:00,\n2024-03-31 03:00,2\n"
    assert (read(empty, zone=BERLIN).columns[POWER] / 1e3).tolist() == [1, 2]
    with pytest.raises(
        InputError, match=r"f\.csv:3: has a value for an hour that the change to summer time skips"
    ):
        read(empty.replace("02:00,", "02:00,7"), zone=BERLIN)


def test_energy_of_rows_when_the_clocks_change(read):
    text = rows("2024-10-27", "01:00", "02:00", "02:00", "03:00", name="time").replace("p_kw", "e_kwh")
    assert (read(text, zone=BERLIN).columns[POWER] / 1e3).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("time (UTC)", "2024-07-01 12:00"),
        ("utc_timestamp", "2024-07-01 12:00"),
        ("Timestamp [GMT]", "2024-07-01 12:00"),
        ("time (UTC+02:00)", "2024-07-01 10:00"),
        ("Date (UTC -5)", "2024-07-01 17:00"),
        ("cet_cest_timestamp", "2024-07-01 10:00"),
        ("Datum (MEZ/MESZ)", "2024-07-01 10:00"),
        ("date (CEST)", "2024-07-01 10:00"),
    ],
)
def test_a_columns_name_states_its_zone(read, name, start):
    series = read(rows("2024-07-01", "12:00", "13:00", name=name))
    assert time_text(series.start_s, 0) == start
    assert series.clock.startswith(f"its column {name!r} states ")


@pytest.mark.parametrize("name", ["time (CET)", "Datum (MEZ)", "local_time", "time [EST]"])
def test_a_name_that_leaves_summer_time_open_requires_a_zone(read, name):
    text = rows("2024-07-01", "12:00", "13:00", name=name)
    with pytest.raises(InputError, match="give the time zone"):
        read(text)
    assert time_text(read(text, zone=BERLIN).start_s, 0) == "2024-07-01 10:00"


def test_offsets_in_times_come_first(read):
    text = "time,p_kw\n2024-07-01T12:00+02:00,1\n2024-07-01T13:00+02:00,2\n"
    series = read(text, zone=named_zone("America/New_York"))
    assert time_text(series.start_s, 0) == "2024-07-01 10:00"
    assert series.clock == "its times state their offset from UTC"
    with pytest.raises(InputError, match=r"f\.csv:3: found '2024-07-01T13:00', other rows state an offset"):
        read(text.replace("13:00+02:00", "13:00"))


@pytest.mark.parametrize(
    ("text", "hours"),
    [("UTC", 0), ("+01:00", 1), ("UTC+1", 1), ("GMT-05:30", -5.5), ("+0530", 5.5), ("-3", -3), ("CEST", 2)],
)
def test_names_of_offsets(text, hours):
    zone = named_zone(text)
    assert zone.utcoffset(datetime(2024, 7, 1)) == timedelta(hours=hours)


def test_an_unknown_name_and_a_missing_database(monkeypatch):
    with pytest.raises(
        ConfigError, match="found 'Europe/Berlim', expected a time zone such as Europe/Berlin"
    ):
        named_zone("Europe/Berlim")
    monkeypatch.setattr("zoneinfo.ZoneInfo", lambda name: (_ for _ in ()).throw(OSError()))
    with pytest.raises(ConfigError, match="no database of time zones: install the Python package tzdata"):
        named_zone("Europe/Berlin")
    assert named_zone("+01:00") == timezone(timedelta(hours=1))


def test_what_is_no_zone():
    assert stated_zone("+99:00") is None
    assert stated_zone("Solar") is None
    assert zone_in_name("estimate") == (None, "")
    assert isinstance(zone_in_name("MTU (CET/CEST)")[0], tzinfo)
    assert clock.CentralEurope().tzname(None) == "CET/CEST"


def test_dates_and_times_of_day_in_columns_apart(read):
    assert time_text(read("Date,Time,p_kw\n2024-07-01,12:00,1\n2024-07-01,13:00,2\n").start_s, 0) == (
        "2024-07-01 12:00"
    )
    german = "Datum;Uhrzeit;Leistung [kW]\n13.07.2024;12:00;1,5\n13.07.2024;13:00;1.234,5\n"
    series = read(german, zone=BERLIN)
    assert series.columns[POWER].tolist() == [1500, 1234500]
    assert time_text(series.start_s, 0) == "2024-07-13 10:00"
    parts = read("Year,Month,Day,Hour,Minute,p_kw\n2024,7,1,12,0,1\n2024,7,1,12,30,2\n")
    assert (time_text(parts.start_s, 0), parts.interval_s) == ("2024-07-01 12:00", 1800)


@pytest.mark.parametrize(
    ("hours", "start"), [(range(24), "2024-07-01 00:00"), (range(1, 25), "2024-07-01 00:00")]
)
def test_a_date_and_hours_from_0_or_from_1(read, hours, start):
    text = "Date,Hour,p_kw\n" + "".join(f"2024-07-01,{hour},{hour}\n" for hour in hours)
    assert time_text(read(text).start_s, 0) == start


def test_hours_that_may_be_from_0_or_from_1(read):
    with pytest.raises(InputError, match="column 'Hour' has neither 0 nor 24"):
        read("Date,Hour,p_kw\n2024-07-01,1,1\n2024-07-01,2,2\n")


@pytest.mark.parametrize(
    "time", ["Jul 1, 2024 12:00 PM", "1 Jul 2024 12:00", "01-Jul-2024 12:00", "2024/07/01, 12:00"]
)
def test_dates_with_the_name_of_the_month(read, time):
    text = f'time,p_kw\n"{time}",1\n"{time.replace("12:00", "12:30")}",2\n'
    assert time_text(read(text).start_s, 0) == "2024-07-01 12:00"


def test_a_second_line_of_units_and_a_title(read):
    text = "Report of plant 7\n\nTimestamp,Solar,Wind\n,kW,kW\n2024-07-01 12:00,1,2\n2024-07-01 13:00,3,4\n"
    assert read(text, column="Solar").columns[POWER].tolist() == [1e3, 3e3]
