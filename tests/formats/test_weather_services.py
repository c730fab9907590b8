"""Open-Meteo, PVGIS, NASA POWER's JSON, and weather columns of plain CSV files."""

import json

import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.solar_history import read_solar_history
from beasy_sched.formats.table import IRRADIANCE, POWER, TEMPERATURE, WIND_SPEED, time_text

OPEN_METEO = (
    "latitude,longitude,elevation,utc_offset_seconds,timezone,timezone_abbreviation\n"
    "52.5,13.4,38.0,7200,Europe/Berlin,CEST\n\n"
    "time,shortwave_radiation (W/m²),wind_speed_10m (km/h),wind_speed_100m (km/h)\n"
    "2024-06-01T12:00,500.0,18,36\n2024-06-01T13:00,,18,72\n\ntime,sunrise\n2024-06-01,1\n"
)
SEVERAL_PLACES = OPEN_METEO.replace("\ntime,s", "\nlocation_id,time,s").replace(
    "\n2024-06-01T", "\n0,2024-06-01T"
)
OPEN_METEO_JSON = {
    "latitude": 52.5,
    "longitude": 13.4,
    "utc_offset_seconds": 7200,
    "hourly_units": {"time": "iso8601", "shortwave_radiation": "kW/m²", "wind_speed_100m": "km/h"},
    "hourly": {
        "time": ["2024-06-01T12:00", "2024-06-01T13:00"],
        "shortwave_radiation": [0.5, None],
        "wind_speed_100m": [36, 72],
    },
}
PVGIS = (
    "Latitude (decimal degrees):\t50.000\nLongitude (decimal degrees):\t10.000\nElevation (m):\t300\n"
    "Nominal power of the PV system (c-Si) (kWp):\t10.0\n\ntime,P,G(i),H_sun,T2m,WS10m,Int\n"
    "20200227:1010,2588.2,232.9,10,5,3,0\n20200227:1110,5000.0,450.0,10,6,4,0\n\n"
    "P: PV system power (W)\nPVGIS (c) European Union, 2001-2025\n"
)
PVGIS_ROWS = [
    {"time": "20200227:1010", "P": 2588.2, "G(i)": 232.9, "H_sun": 10, "T2m": 5, "WS10m": 3, "Int": 0},
    {"time": "20200227:1110", "P": 5000.0, "G(i)": 450.0, "H_sun": 10, "T2m": 6, "WS10m": 4, "Int": 0},
]
PVGIS_JSON = {
    "inputs": {
        "location": {"latitude": 50.0, "longitude": 10.0},
        "pv_module": {"technology": "c-Si", "peak_power": 10.0},
    },
    "outputs": {"hourly": PVGIS_ROWS},
}
NASA_JSON = {
    "type": "Feature",
    "geometry": {"type": "Point", "coordinates": [30.0, 50.0, 300.0]},
    "properties": {
        "parameter": {
            "ALLSKY_SFC_SW_DWN": {"2024022710": 0.5, "2024022711": -99},
            "WS50M": {"2024022710": 5, "2024022711": 6},
        }
    },
    "header": {"fill_value": -99.0, "time_standard": "UTC"},
    "parameters": {"ALLSKY_SFC_SW_DWN": {"units": "kW-hr/m^2"}, "WS50M": {"units": "m/s"}},
}


@pytest.fixture
def read(tmp_path):
    def reading(contents, **options):
        path = tmp_path / "f.txt"
        path.write_text(contents if isinstance(contents, str) else json.dumps(contents), "utf-8")
        return read_weather_file(path, **options)

    return reading


@pytest.mark.parametrize("contents", [OPEN_METEO, OPEN_METEO_JSON], ids=["csv", "json"])
def test_open_meteo(read, contents):
    series = read(contents)
    assert series.columns[IRRADIANCE].tolist() == [500.0, pytest.approx(float("nan"), nan_ok=True)]
    assert series.columns[WIND_SPEED].tolist() == [pytest.approx(10), pytest.approx(20)]
    assert (series.wind_height_m, series.latitude_deg, series.longitude_deg) == (100, 52.5, 13.4)
    assert time_text(series.start_s, 0) == "2024-06-01 09:00"  # 12:00 local, and the mean of the hour before
    assert series.notes[:2] == ("is an Open-Meteo export", "times are local, +2 h from UTC")


def test_open_meteo_wind_is_not_moved_and_unix_times_are_utc(read):
    assert time_text(read(OPEN_METEO, column="wind_speed_10m (km/h)").start_s, 0) == "2024-06-01 10:00"
    unix = json.loads(json.dumps(OPEN_METEO_JSON))
    unix["hourly"]["time"] = [1717236000, 1717239600]  # 10:00 and 11:00 UTC
    assert time_text(read(unix).start_s, 0) == "2024-06-01 09:00"


@pytest.mark.parametrize("contents", [PVGIS, PVGIS_JSON], ids=["csv", "json"])
def test_pvgis(read, contents):
    series = read(contents)
    assert series.columns[POWER].tolist() == [2588.2, 5000.0]
    assert series.columns[IRRADIANCE].tolist() == [232.9, 450.0]
    assert series.columns[TEMPERATURE].tolist() == [5, 6]
    assert (series.capacity_w, series.technology, series.wind_height_m) == (10_000, "pv", 10)
    assert (time_text(series.start_s, 0), series.latitude_deg) == ("2020-02-27 10:00", 50)
    assert series.notes[0] == "is an hourly PVGIS export, in UTC"


def test_pvgis_without_a_plant_is_weather(read):
    series = read("\n".join(line.replace(",P,", ",X,") for line in PVGIS.splitlines()))
    assert (series.technology, POWER in series.columns, series.capacity_w) == ("weather", False, None)


def test_nasa_power_json(read):
    series = read(NASA_JSON)
    assert series.columns[IRRADIANCE].tolist() == [500, pytest.approx(float("nan"), nan_ok=True)]
    assert series.columns[WIND_SPEED].tolist() == [5, 6]
    assert (time_text(series.start_s, 0), series.latitude_deg) == ("2024-02-27 10:00", 50)
    assert (series.notes[0], series.longitude_deg) == ("is a NASA POWER export (JSON)", 30)
    solar = json.loads(json.dumps(NASA_JSON))
    solar["header"]["time_standard"] = "LST"
    assert time_text(read(solar).start_s, 0) == "2024-02-27 08:00"


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"a": 1}, "is JSON, but not of NASA POWER, Open-Meteo, PVGIS, Solcast"),
        ('{"a": ', "is not valid JSON"),
        (
            {"properties": {"parameter": {"WS50M": {"20240227": 5}}}},
            "found '20240227', expected hours",
        ),
        ({"properties": {"parameter": {}}}, "found nothing, expected hours"),
        ({"outputs": {"hourly": [{"time": "20200227:1010", "P": 1}, {"P": 2}]}}, "with the same members"),
        ({"outputs": {"hourly": []}}, "with the same members"),
        ({**OPEN_METEO_JSON, "hourly": {"time": ["2024-06-01T12:00"], "ghi": []}}, "lists of equal length"),
        (
            PVGIS.replace("20200227:1110", "20200231:1110"),
            ":8: found '20200231:1110', expected a time such as",
        ),
        (OPEN_METEO.replace("7200", ""), "does not state utc_offset_seconds"),
        (
            OPEN_METEO.replace("time,short", "location_id,time,short").replace(
                "\n2024-06-01T", "\n0,2024-06-01T"
            ),
            "has several places",
        ),
    ],
)
def test_what_is_wrong_is_told(read, contents, message):
    with pytest.raises(InputError) as error:
        read(contents)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("GHI [W/m2]", 1),
        ("ghi", 1),
        ("irradiance", 1),
        ("shortwave_radiation (W/m²)", 1),
        ("G(h)", 1),
        ("ALLSKY_SFC_SW_DWN", 1),
        ("Global Horizontal Irradiance (kW/m2)", 100),
        ("ghi_w_m2", 1),
        ("GHI (Wh/m2)", 2),
    ],
)
def test_irradiance_of_a_plain_file_by_its_usual_names(read, name, factor):
    small = 0.1 if "kW" in name else 1
    series = read(f"time,{name}\n2024-06-01 00:00,{3 * small}\n2024-06-01 00:30,{4 * small}\n")
    assert series.columns[IRRADIANCE].tolist() == pytest.approx([3 * factor, 4 * factor])
    assert series.technology == "weather"
    told = any("states no unit: read as W/m2" in note for note in series.notes)
    assert told == (name in ("ghi", "irradiance", "G(h)", "ALLSKY_SFC_SW_DWN"))


def test_irradiance_in_a_small_unit_that_is_not_stated_is_refused(read):
    with pytest.raises(InputError, match=r"ghi reaches 0.9 and states no unit"):
        read("time,ghi\n2024-06-01 00:00,0.3\n2024-06-01 00:30,0.9\n")


def test_power_beside_irradiance_is_chosen_by_its_column(read):
    text = "time,pv_kw,ghi\n2024-06-01 00:00,1,400\n2024-06-01 00:30,2,500\n"
    assert read(text, column="pv_kw").columns[POWER].tolist() == [1e3, 2e3]
    assert read(text, column="ghi").columns[IRRADIANCE].tolist() == [400, 500]
    with pytest.raises(InputError, match="has several columns"):
        read(text)


def test_training_data_may_be_such_an_export(tmp_path):
    rows = [
        {**PVGIS_ROWS[0], "time": f"202002{day:02}:{hour:02}10", "P": 1000.0 * (8 < hour < 16)}
        for day in range(1, 29)
        for hour in range(24)
    ]
    (tmp_path / "f.json").write_text(json.dumps({**PVGIS_JSON, "outputs": {"hourly": rows}}))
    assert read_solar_history(tmp_path / "f.json").production_w.max() == 1000.0
