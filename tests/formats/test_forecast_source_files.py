"""Files of forecasts as they were issued."""

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.forecast.conditions import CLEARNESS, CLOUD_COVER, WORDS
from beasy_sched.forecast.outlook import FileForecast
from beasy_sched.forecast.production_history import FIRST_ISSUE_H, LEVELS, issue_quantiles
from beasy_sched.formats.forecast_source import forecast_lines, read_forecast_file

START = datetime(2010, 7, 12, 9, tzinfo=timezone(timedelta(hours=-4)))


def write(tmp_path, *lines):
    path = tmp_path / "forecast.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_powers_with_dates(tmp_path):
    path = write(
        tmp_path,
        "issued,valid,power [kW]",
        "2010-07-12T09:00-04:00,2010-07-12T09:00-04:00,0.5",
        "2010-07-12T09:00-04:00,2010-07-12T10:00-04:00,0.75",
        "2010-07-12 14:00Z,2010-07-12 14:00Z,1",
    )
    table = read_forecast_file(path, START)
    assert table.scheme is None
    assert table.interval_s == 3600.0
    assert table.issued_s.tolist() == [0.0, 0.0, 3600.0]
    assert table.valid_s.tolist() == [0.0, 3600.0, 3600.0]
    assert table.values.tolist() == [500.0, 750.0, 1000.0]
    source = FileForecast(table, START)
    assert source.renewable_w(0.0, 3600.0, 3).tolist() == [500.0, 750.0, 0.0]
    assert source.renewable_w(3600.0, 3600.0, 2).tolist() == [1000.0, 0.0]


def test_seconds_from_time_zero_need_no_start(tmp_path):
    table = read_forecast_file(write(tmp_path, "issued,valid,W", "0,0,1", "0,900,2", "900,900,3"))
    assert table.interval_s == 900.0
    assert table.latest(0.0, np.array([0.0, 899.0, 900.0])).tolist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "cell", "scheme", "code"),
    [
        ("condition", "PM Showers / Wind", WORDS, 7),
        ("cloud_cover", "0.8", CLOUD_COVER, 3),
        ("clearness", "0.8", CLEARNESS, 1),
    ],
)
def test_conditions(tmp_path, name, cell, scheme, code):
    table = read_forecast_file(write(tmp_path, f"issued,valid,{name}", f"0,0,{cell}", f"0,3600,{cell}"))
    assert table.scheme is scheme
    assert table.values.tolist() == [code, code]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["issued,valid,W", "0,0,1", "3600,0,2"], r":3: is valid before it was issued"),
        (["issued,valid,W", "0,0,1", "0,3600,-2"], r":3: W: must not be negative"),
        (["issued,valid,W", "0,0,1", "0,3600,"], r":3: W: the value is missing"),
        (
            ["issued,valid,condition", "0,0,Sunny", "0,3600,Murky"],
            r":3: condition: found 'Murky', expected one of: .*fair",
        ),
        (["issued,valid,condition", "0,0,Sunny", "0,3600,"], r":3: condition: the value is missing"),
        (
            ["issued,valid,cloud_cover", "0,0,3"],
            ":2: cloud_cover: found 3, expected",
        ),
        (["issued,valid,W", "0,0,1", "0,0,2"], r":3: repeats the times of line 2 with a different value"),
        (
            ["issued,valid,W", "0,0,1", "0,3600,1", "0,7200,1", "0,9000,1"],
            r":5: is not valid at",
        ),
        (["issued,valid,sky", "0,0,1"], r"column 'sky' is unknown, expected a power with its unit"),
        (["issued,valid,pv_kwh", "0,0,1"], r"column 'pv_kwh' is in kwh: expected powers in W, kW or MW"),
        (["issued,valid,pv [%]", "0,0,1"], r"column 'pv \[%\]' is in %: expected powers in W, kW or MW"),
        (["issued,valid,pv_kva", "0,0,1"], r"column 'pv_kva': unit 'kva' is apparent power"),
        (["issued,valid,p10_wh,p90_wh", "0,0,1,2"], r"column 'p10_wh' is in wh: expected powers in W, kW"),
        (["issued,valid,W,kW", "0,0,1,1"], r"expected issued, valid and one of values"),
        (["issued,valid,W"], r"has no row of data"),
        (["time,W", "0,1"], r"no header line was found"),
        (["issued,valid,W", "now,0,1"], r":2: found 'now', expected a time"),
        (["issued,valid,W", "0,2010-07-12 09:00,1"], r"dates in one of issued and valid"),
        (["issued,valid,W", "2010-07-12 09:00,2010-07-12 09:00,1"], r"start with a UTC offset"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, lines, message):
    with pytest.raises(InputError, match=message) as told:
        read_forecast_file(write(tmp_path, *lines))
    assert "forecast.csv" in str(told.value)


def test_the_same_value_twice_is_one(tmp_path):
    table = read_forecast_file(write(tmp_path, "issued,valid,W", "0,0,1", "0,0,1", "0,3600,4"))
    assert table.latest(0.0, np.array([0.0, 3600.0])).tolist() == [1.0, 4.0]


# --- quantiles and members ----------------------------------------------------------------------------


def test_quantiles(tmp_path):
    path = write(tmp_path, "issued,valid,p90_kw,p10 [W],p50", "0,0,0.9,100,500", "0,3600,1,0,200")
    table = read_forecast_file(path)
    assert table.levels.tolist() == [0.1, 0.5, 0.9]
    assert table.values.tolist() == [500.0, 200.0]
    assert table.by_level.tolist() == [[100.0, 0.0], [500.0, 200.0], [900.0, 1000.0]]
    assert FileForecast(table).renewable_w(0.0, 3600.0, 2).tolist() == [500.0, 200.0]


def test_members_of_an_ensemble(tmp_path):
    path = write(tmp_path, "issued,valid,m1,m2,m3", "0,0,300,100,200", "0,3600,1,2,3")
    table = read_forecast_file(path)
    assert table.levels.tolist() == pytest.approx([1 / 6, 1 / 2, 5 / 6])
    assert table.by_level.tolist() == [[100.0, 1.0], [200.0, 2.0], [300.0, 3.0]]
    assert table.values.tolist() == [200.0, 2.0]


def test_what_is_written_reads_back(tmp_path):
    hourly_w = 1000.0 * np.abs(np.sin(np.arange(24 * 100)))
    issued = issue_quantiles(hourly_w, FIRST_ISSUE_H)
    path = tmp_path / "forecast.csv"
    path.write_text("".join(forecast_lines(issued, FIRST_ISSUE_H)))
    table = read_forecast_file(path)
    assert table.levels.tolist() == list(LEVELS)
    assert table.by_level == pytest.approx(issued.power_w, abs=0.051)
    assert table.issued_s.min() == table.valid_s.min() == 0.0


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["issued,valid,p10,p50", "0,0,1,2", "0,3600,5,4"], ":3: quantiles cross: p10 is 5 W, p50 4 W"),
        (["issued,valid,m1,m2", "0,0,1,2", "0,3600,5,"], ":3: m2: the value is missing"),
        (["issued,valid,p10,m2", "0,0,1,2"], "expected quantiles (p10 p50 p90) or members (m1 m2 m3)"),
        (["issued,valid,p50", "0,0,1"], "at least two of one kind"),
        (["issued,valid,p0,p50", "0,0,1,2"], "p0 and p50: expected percentages above 0, below 100"),
        (["issued,valid,p50,p50.0", "0,0,1,2"], "expected percentages above 0, below 100"),
        (["issued,valid,p10,p90", "0,0,-1,2"], ":2: p10: must not be negative"),
        (["issued,valid,W,kW", "0,0,1,2"], "one of values, quantiles (p10 p50 p90) or members"),
        (["issued,valid", "0,0"], "columns are issued, valid: expected"),
    ],
)
def test_bad_quantiles(tmp_path, lines, said):
    with pytest.raises(InputError) as error:
        read_forecast_file(write(tmp_path, *lines))
    assert said in str(error.value)
