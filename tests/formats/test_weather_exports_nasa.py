import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.table import IRRADIANCE, TEMPERATURE, WIND_SPEED, time_text
from beasy_sched.formats.weather_exports import parse_nasa_power

HEADER = """-BEGIN HEADER-
NASA/POWER Source Native Resolution Hourly Data
Dates (month/day/year): 06/22/2020 through 06/22/2020 in {standard}
Location: Latitude  43.6   Longitude {longitude}
The value for missing source data that cannot be computed or is outside of the range: -999
Parameter(s):
ALLSKY_SFC_SW_DWN      CERES SYN1deg All Sky Surface Shortwave Downward Irradiance ({unit})
WS10M                  MERRA-2 Wind Speed at 10 Meters (m/s)
WS50M                  MERRA-2 Wind Speed at 50 Meters (m/s)
T2M                    MERRA-2 Temperature at 2 Meters (C)
-END HEADER-
"""
ROWS = """YEAR,MO,DY,HR,ALLSKY_SFC_SW_DWN,WS10M,WS50M,T2M
2020,6,22,10,510.5,3.5,5.0,20
2020,6,22,11,-999.0,3.6,5.5,21
2020,6,22,12,700,3.7,-999,22
"""


def read(standard="UTC", longitude=1.4, unit="Wh/m^2", rows=ROWS, name="f.csv", column=None):
    text = HEADER.format(standard=standard, longitude=longitude, unit=unit) + rows
    return parse_nasa_power(name, text, column)


def test_the_parameters_that_we_use_and_their_fill_values():
    series = read()
    np.testing.assert_array_equal(series.columns[IRRADIANCE], [510.5, np.nan, 700])
    np.testing.assert_array_equal(series.columns[WIND_SPEED], [5.0, 5.5, np.nan])
    np.testing.assert_array_equal(series.columns[TEMPERATURE], [20, 21, 22])
    assert time_text(series.start_s, 0) == "2020-06-22 10:00"
    assert series.notes == ("wind speed is WS50M",)


def test_the_wind_column_may_be_chosen():
    assert read(column="WS10M").columns[WIND_SPEED].tolist() == [3.5, 3.6, 3.7]
    with pytest.raises(InputError, match="has no column 'WS80M'; its columns are: YEAR, MO"):
        read(column="WS80M")


def test_mixed_line_ends_are_one_file():
    text = HEADER.format(standard="UTC", longitude=0, unit="W/m^2").replace("\n", " \r\n") + ROWS
    assert len(parse_nasa_power("f.csv", text)) == 3


@pytest.mark.parametrize(
    ("unit", "factor"), [("W/m^2", 1), ("Wh/m2", 1), ("kW-hr/m^2", 1e3), ("MJ/hr", 1e6 / 3600)]
)
def test_irradiance_units(unit, factor):
    rows = ROWS.replace("510.5", "0.5").replace(",700,", ",0.25,")
    series = read(unit=unit, rows=rows)
    np.testing.assert_allclose(series.columns[IRRADIANCE], [0.5 * factor, np.nan, 0.25 * factor])


def test_units_of_wind_and_temperature():
    header = HEADER.replace("(m/s)", "(mph)").replace("(C)", "(F)")
    text = header.format(standard="UTC", longitude=0, unit="W/m^2") + ROWS
    series = parse_nasa_power("f.csv", text)
    np.testing.assert_allclose(series.columns[WIND_SPEED], [5.0 * 0.44704, 5.5 * 0.44704, np.nan])
    np.testing.assert_allclose(series.columns[TEMPERATURE], [-20 / 3, -55 / 9, -50 / 9])
    for stated in ("(m/s)", "(C)"):
        with pytest.raises(InputError, match=r"(WS50M|T2M): unit 'foo': expected "):
            parse_nasa_power(
                "f.csv", text.replace("(mph)", "(m/s)").replace("(F)", "(C)").replace(stated, "(foo)")
            )


@pytest.mark.parametrize(
    ("standard", "longitude", "name", "start"),
    [
        ("LST", 1.4, "f.csv", "2020-06-22 10:00"),
        ("LST", 100.0, "f.csv", "2020-06-22 03:00"),
        ("LST", -75.0, "f.csv", "2020-06-22 15:00"),
        ("UTC", -75.0, "f.csv", "2020-06-22 10:00"),
        ("", -75.0, "POWER_041d40N_075d00W_UTC.csv", "2020-06-22 10:00"),
        ("", -75.0, "POWER_041d40N_075d00W_LST.csv", "2020-06-22 15:00"),
    ],
)
def test_local_solar_time_becomes_utc(standard, longitude, name, start):
    series = read(standard=standard, longitude=longitude, name=name)
    assert time_text(series.start_s, 0) == start


def test_an_unstated_time_standard_is_assumed_and_noted():
    assert (
        "UTC-5 (assumed: the file does not state LST or UTC)" in read(standard="", longitude=-75.0).notes[0]
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "langley"}, "ALLSKY_SFC_SW_DWN: unit 'langley': expected W/m2, kW/m2"),
        (
            {"rows": "YEAR,MO,DY,HR,RH2M\n2020,6,22,10,5\n"},
            "has neither irradiance nor wind speed: found RH2M",
        ),
        (
            {"rows": "YEAR,MO,DY,T2M\n2020,6,22,5\n"},
            "columns start with YEAR,MO,DY,T2M, expected YEAR,MO,DY,HR",
        ),
        (
            {"rows": ROWS.replace("2020,6,22,12", "2020,6,31,12")},
            "f.csv:15: 2020,6,31,12 is not an hour: day",
        ),
    ],
)
def test_what_is_wrong_is_told(changes, message):
    with pytest.raises(InputError) as error:
        read(**changes)
    assert message in str(error.value)


@pytest.mark.parametrize("row", ["0,1,1,0", "10000,1,1,0", "2019,13,1,0", "2019,1,1,24"])
def test_hours_that_there_are_not(row):
    text = f"YEAR,MO,DY,HR,ALLSKY_SFC_SW_DWN\n2019,1,1,0,1\n{row},1\n"
    with pytest.raises(InputError, match=r"x.csv:3: .* is not an hour"):
        parse_nasa_power("x.csv", text)


def test_a_longitude_that_is_none_is_not_taken_for_one():
    text = "Location: Latitude 1.0 Longitude 9.9.9.9\nYEAR,MO,DY,HR,WS10M\n2019,1,1,0,1\n2019,1,1,1,1\n"
    assert parse_nasa_power("x.csv", text).start_s is not None
