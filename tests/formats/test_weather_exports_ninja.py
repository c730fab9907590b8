import json

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.table import CLOUD_COVER_SHARE, FLAGGED, IRRADIANCE, POWER, TEMPERATURE, WIND_SPEED
from beasy_sched.formats.weather_exports import ninja_lines, parse_ninja

START = 1559347200  # 2019-06-01


def export(technology="wind", hours=30, capacity=2.0):
    rng = np.random.default_rng(1)
    weather = {
        "pv": {"irradiance_direct": rng.random(hours) / 2, "irradiance_diffuse": rng.random(hours) / 2},
        "wind": {"wind_speed": rng.random(hours) * 20},
    }[technology]
    return "".join(
        ninja_lines(
            technology,
            start_s=START,
            electricity_kw=rng.random(hours) * capacity,
            weather=weather,
            capacity_kw=capacity,
            latitude_deg=43.6,
            source="synthetic, seed 1",
        )
    )


def cells(text, column):
    rows = [line.split(",") for line in text.splitlines() if not line.startswith("#")]
    index = rows[0].index(column)
    return np.array([float(row[index]) for row in rows[1:]])


def shredded(text, date):
    """What a spreadsheet makes of an export: quoted JSON cut at commas, empty columns, other dates."""
    out = []
    for line in text.splitlines():
        if line.startswith("# {"):
            line = ",".join('"' + part.replace('"', '""') + '"' for part in line.split(","))
        elif line[0].isdigit():
            year, month, day = line[:10].split("-")
            line = date.format(y=year, m=month, d=day, mm=int(month), dd=int(day)) + line[10:]
        out.append(line + ",,,")
    return "\r\n".join(out) + "\r\n"


def test_a_wind_export_in_our_units():
    text = export("wind")
    series = parse_ninja("w.csv", text)
    np.testing.assert_allclose(series.columns[POWER], cells(text, "electricity") * 1e3)
    np.testing.assert_allclose(series.columns[WIND_SPEED], cells(text, "wind_speed"))
    assert (series.start_s, series.interval_s, len(series)) == (START, 3600, 30)
    assert (series.capacity_w, series.technology, series.notes) == (2000, "wind", ())


def test_a_pv_export_adds_direct_and_diffuse_light():
    text = export("pv")
    series = parse_ninja("p.csv", text)
    expected = 1e3 * (cells(text, "irradiance_direct") + cells(text, "irradiance_diffuse"))
    np.testing.assert_allclose(series.columns[IRRADIANCE], expected)
    assert series.technology == "pv"


@pytest.mark.parametrize("date", ["{d}/{m}/{y}", "{mm}/{dd}/{y}", "{y}/{mm}/{dd}", "{d}.{m}.{y}"])
@pytest.mark.parametrize("technology", ["pv", "wind"])
def test_spreadsheet_damage_changes_nothing(technology, date):
    text = export(technology)
    whole, damaged = parse_ninja("f.csv", text), parse_ninja("f.csv", shredded(text, date))
    assert (damaged.start_s, damaged.capacity_w, damaged.technology) == (START, 2000, technology)
    for name, values in whole.columns.items():
        np.testing.assert_array_equal(values, damaged.columns[name])


def test_local_time_temperature_and_the_missing_flag():
    text = (
        "time,local_time,electricity,irradiance_direct,irradiance_diffuse,temperature,missing\n"
        "2015-02-16 10:00,2015-02-16 11:00,0.164,0.053,0.136,6.457,1\n"
        "2015-02-16 11:00,2015-02-16 12:00,0.166,0.033,0.159,-7.374,0\n"
    )
    series = parse_ninja("x_ninja_pv_1.csv", text)
    assert series.columns[FLAGGED].tolist() == [1, 0]
    assert series.columns[TEMPERATURE].tolist() == [6.457, -7.374]
    assert series.technology == "pv"
    assert series.capacity_w is None


def test_a_weather_export_is_in_watts():
    text = "time,radiation_surface,temperature\n2015-02-16 10:00,176.363,1\n2015-02-16 11:00,140.706,1\n"
    series = parse_ninja("f.csv", text)
    assert series.columns[IRRADIANCE].tolist() == [176.363, 140.706]
    assert series.technology == "weather"


def test_a_lost_brace_still_gives_the_units():
    text = '# {"units": {"time": "UTC", "electricity": "W"}\n' + "time,electricity\n" + rows(["1", "2"])
    assert parse_ninja("f.csv", text).columns[POWER].tolist() == [1, 2]


def test_units_of_the_units_line_are_used_where_there_is_no_json():
    text = "# Units: time in UTC, electricity in MW\ntime,electricity\n" + rows(["1", "2"])
    assert parse_ninja("f.csv", text).columns[POWER].tolist() == [1e6, 2e6]


def rows(values, day="2020-02-28"):
    return "".join(f"{day} {hour:02}:00,{value}\n" for hour, value in enumerate(values))


def test_a_leap_day_is_a_day_and_a_missing_one_a_gap():
    days = ("2020-02-28", "2020-02-29", "2020-03-01")
    whole = "time,electricity\n" + "".join(rows(["1"] * 24, day) for day in days)
    assert len(parse_ninja("f.csv", whole)) == 72
    without = "time,electricity\n" + rows(["1"] * 24) + rows(["1"] * 24, "2020-03-01")
    series = parse_ninja("f.csv", without)
    assert len(series) == 72
    assert np.isnan(series.columns[POWER]).sum() == 24


def test_a_file_that_stops_early_says_so():
    lines = export(hours=100).splitlines(keepends=True)
    series = parse_ninja("f.csv", "".join(lines[:40]))
    assert series.notes == ("ends at 2019-06-02 11:00 but should cover days up to 2019-06-05",)


def header(**params):
    return "# " + json.dumps({"units": {"electricity": "kW"}, "params": params}) + "\ntime,electricity\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,electricity\n" + rows(["1", "x"]), "f.csv:3: electricity: found 'x', expected a number"),
        ("time,electricity\n" + rows(["1", "-1"]), "f.csv:3: power_w is -1000, must not be negative"),
        ("time,electricity\n2019-02-29 00:00,1\n", "f.csv:2: found '2019-02-29 00:00', expected a time"),
        ("time,electricity\n2019-02-28 00:00,1\n2019-02-2", "f.csv:3: has 1 value but the header has 2"),
        (
            header(capacity="1") + rows(["1", "500"]),
            "reaches 500 kW at a stated capacity of 1 kW: is the column",
        ),
        (
            header(capacity="none") + rows(["1", "5"]),
            "states a capacity of 'none', expected a number of kW > 0",
        ),
        (
            "# Units: electricity in hp\ntime,electricity\n" + rows(["1", "5"]),
            "electricity: unit 'hp' is not one of the units of electric power: expected W, kW",
        ),
        ("time,electricity\n", "has 0 rows of data, expected at least 2"),
    ],
)
def test_what_is_wrong_is_told_with_line_and_cause(text, message):
    with pytest.raises(InputError) as error:
        parse_ninja("f.csv", text)
    assert message in str(error.value)


def test_an_irradiance_in_the_wrong_unit_is_noticed():
    text = "time,irradiance_direct,irradiance_diffuse\n2019-06-01 10:00,500,100\n2019-06-01 11:00,500,100\n"
    with pytest.raises(InputError, match="irradiance_w_m2 is 600000, at most 1600 is possible: wrong unit"):
        parse_ninja("f.csv", text)


def test_a_column_line_that_is_commented_out_above_dates_of_a_spreadsheet():
    rows = "".join(
        f"{1 + h // 672}/{1 + h // 24 % 28}/2019 {h % 24}:00,x,{h % 24 / 240}\n" for h in range(1400)
    )
    text = f"# Renewables.ninja PV\n# Units: electricity in kW\n# time,local_time,electricity\n{rows}"
    series = parse_ninja("x.csv", text)
    assert series.time_text(0) == "2019-01-01 00:00"
    assert series.time_text(len(series) - 1) == "2019-03-03 07:00"
    assert series.columns[POWER][1] == pytest.approx(1000 / 240)


def test_stated_units_are_converted():
    units = {
        "electricity": "Wh",
        "irradiance_direct": "kJ/m2",
        "irradiance_diffuse": "W/m2",
        "wind_speed": "km/h",
    }
    units |= {"temperature": "°F", "cloud_cover": "%"}
    text = (
        "# "
        + json.dumps({"units": units})
        + "\ntime,"
        + ",".join(units)
        + "\n"
        + rows(["500,360,50,36,77,40"] * 2)
    )
    columns = parse_ninja("f.csv", text).columns
    found = [columns[name][0] for name in (POWER, IRRADIANCE, WIND_SPEED, TEMPERATURE, CLOUD_COVER_SHARE)]
    assert found == pytest.approx([500, 150, 10, 25, 0.4])


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("electricity", "per-unit"),
        ("electricity", "kVA"),
        ("radiation_surface", "kWh/m2/day"),
        ("wind_speed", "Beaufort"),
        ("temperature", "R"),
        ("cloud_cover", "tenths"),
    ],
)
def test_units_of_exports_that_are_refused(name, unit):
    names = dict.fromkeys(("time", "electricity", name))
    row = ",".join("1" for _ in list(names)[1:])
    text = "# " + json.dumps({"units": {name: unit}}) + "\n" + ",".join(names) + "\n" + rows([row] * 2)
    with pytest.raises(InputError, match=f"f.csv: {name}: unit '{unit}'.*: expected"):
        parse_ninja("f.csv", text)
