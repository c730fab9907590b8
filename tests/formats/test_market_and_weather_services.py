"""NSRDB, Solcast, SMARD, Energy-Charts, and ENTSO-E with one row for each production type."""

import json

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.solar_history import read_solar_history
from beasy_sched.formats.table import FLAGGED, IRRADIANCE, POWER, TEMPERATURE, WIND_SPEED, time_text

NSRDB = (
    "Source,Location ID,City,State,Country,Latitude,Longitude,Time Zone,Elevation,Local Time Zone,DNI Units,"
    "GHI Units,Temperature Units,Wind Speed Units,Version\n"
    "NSRDB,149190,-,-,-,39.73,-105.18,-7,1820,-7,w/m2,w/m2,c,m/s,3.2.0\n"
    "Year,Month,Day,Hour,Minute,DNI,GHI,Clearsky GHI,Fill Flag,Temperature,Wind Speed\n"
    "2020,6,1,11,30,800,700,900,0,20,3\n2020,6,1,12,30,900,800,950,2,21,4\n"
)
SOLCAST = (
    "PeriodEnd,PeriodStart,Period,AirTemp,CloudOpacity,Ghi,WindSpeed10m\n"
    "2022-06-01T10:30:00Z,2022-06-01T10:00:00Z,PT30M,20.5,10,600,3\n"
    "2022-06-01T11:00:00Z,2022-06-01T10:30:00Z,PT30M,21.5,10,700,4\n"
)
SOLCAST_JSON = {
    "estimated_actuals": [
        {"ghi": 600, "period_end": "2022-06-01T10:30:00.0000000Z", "period": "PT30M"},
        {"ghi": 700, "period_end": "2022-06-01T11:00:00.0000000Z", "period": "PT30M"},
    ]
}
SMARD = (
    "Datum von;Datum bis;Photovoltaik [MWh] Berechnete Auflösungen;Biomasse [MWh] Berechnete Auflösungen\n"
    "01.06.2024 12:00;01.06.2024 12:15;1.234,5;-\n01.06.2024 12:15;01.06.2024 12:30;2.000;1.100,25\n"
)
SMARD_ENGLISH = (
    "Start date;End date;Photovoltaics [MWh] Calculated resolutions;Biomass [MWh] Calculated resolutions\n"
    "Jun 1, 2024 12:00 PM;Jun 1, 2024 12:15 PM;1,234.5;-\n"
    "Jun 1, 2024 12:15 PM;Jun 1, 2024 12:30 PM;2,000;1,100.25\n"
)
SMARD_OLD = (
    "Datum;Anfang;Ende;Photovoltaik[MWh];Biomasse[MWh]\n"
    "01.06.2024;12:00;12:15;1.234,5;-\n01.06.2024;12:15;12:30;2.000;1.100,25\n"
)
ENERGY_CHARTS = (
    '"Date (GMT+1)","Nuclear","Solar"\n"","Power (MW)","Power (MW)"\n'
    "2024-06-01T12:00+02:00,0,40000.5\n2024-06-01T12:15+02:00,0,41000\n"
)
ENERGY_CHARTS_JSON = {
    "unix_seconds": [1717236000, 1717236900],
    "production_types": [{"name": "Solar", "data": [40000.5, 41000]}, {"name": "Load", "data": [1, None]}],
    "deprecated": False,
}


def entsoe_long(*rows):
    head = '"MTU (CET/CEST)","Area","Production Type","Generation (MW)"\n'
    return head + "".join(f'"{start} - {end}","BZN|FR","{kind}","{mw}"\n' for start, end, kind, mw in rows)


@pytest.fixture
def read(tmp_path):
    def reading(contents, **options):
        path = tmp_path / "f.txt"
        path.write_text(contents if isinstance(contents, str) else json.dumps(contents), "utf-8")
        return read_weather_file(path, **options)

    return reading


def test_nsrdb(read):
    series = read(NSRDB)
    assert series.columns[IRRADIANCE].tolist() == [700, 800]
    assert series.columns[WIND_SPEED].tolist() == [3, 4]
    assert series.columns[TEMPERATURE].tolist() == [20, 21]
    assert series.columns[FLAGGED].tolist() == [0, 2]
    assert (series.latitude_deg, series.longitude_deg, series.interval_s) == (39.73, -105.18, 3600)
    assert time_text(series.start_s, 0) == "2020-06-01 18:00"  # 11:30 is the middle of the hour, UTC-7
    assert series.technology == "weather"
    half_hours = NSRDB.replace("2020,6,1,12,30", "2020,6,1,12,0")
    assert time_text(read(half_hours).start_s, 0) == "2020-06-01 18:30"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",-7,1820", ",x,1820", "Time Zone: found 'x', expected hours from UTC"),
        ("2020,6,1,12,30", "2020,6,31,12,30", ":5: found '2020-6-31 12:30', expected a time"),
        ("w/m2,w/m2", "w/m2,lux", "GHI: unit 'lux'"),
    ],
)
def test_nsrdb_that_is_wrong(read, old, new, message):
    with pytest.raises(InputError) as error:
        read(NSRDB.replace(old, new))
    assert message in str(error.value)


def test_a_typical_year_is_named(read):
    months = "".join(
        f"{year},{month},{day},{hour},30,0,0,0,0,1,1\n"
        for month, year in ((1, 2003), (2, 2011), (3, 1998))
        for day in (1, 2)
        for hour in range(24)
    )
    head = NSRDB.splitlines(keepends=True)[:3]
    with pytest.raises(InputError, match="is it a typical year"):
        read("".join(head) + months)


@pytest.mark.parametrize(
    "contents", [SOLCAST, SOLCAST.replace("PeriodStart", "X").replace("X,", "period_x,"), SOLCAST_JSON]
)
def test_solcast(read, contents):
    series = read(contents)
    assert series.columns[IRRADIANCE].tolist() == [600, 700]
    assert (time_text(series.start_s, 0), series.interval_s) == ("2022-06-01 10:00", 1800)
    assert series.notes[0] == "is a Solcast export, in UTC"


def test_solcast_power_is_in_kw(read):
    series = read(SOLCAST.replace("Ghi", "pv_estimate"))
    assert series.columns[POWER].tolist() == [600e3, 700e3]
    assert series.technology == "pv"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("PT30M,21.5", "PT60M,21.5", "Period: found 'PT60M', expected PT30M in each row"),
        ("PT30M", "30", "Period: found '30', expected PT30M"),
        ("PT30M", "PT5M", "its period is 300 s, but most rows are 1800 s apart"),
    ],
)
def test_solcast_that_is_wrong(read, old, new, message):
    with pytest.raises(InputError) as error:
        read(SOLCAST.replace(old, new))
    assert message in str(error.value)


@pytest.mark.parametrize("contents", [SMARD, SMARD_ENGLISH, SMARD_OLD], ids=["german", "english", "old"])
def test_smard(read, contents):
    series = read(contents, column="Photo")
    assert series.columns[POWER].tolist() == pytest.approx([4 * 1234.5e6, 4 * 2000e6])
    assert (time_text(series.start_s, 0), series.interval_s) == ("2024-06-01 10:00", 900)
    assert series.columns.keys() == {POWER}
    biomass = read(contents, column="Biomass").columns[POWER]
    assert np.isnan(biomass[0])
    assert biomass[1] == pytest.approx(4 * 1100.25e6)
    with pytest.raises(InputError, match="has several columns"):
        read(contents)


def test_smard_when_the_clocks_change(read):
    head = "Datum von;Datum bis;Photovoltaik [MWh] Originalauflösungen\n"
    autumn = [f"27.10.2024 {h}:00;27.10.2024 {h + 1}:00;{value}\n" for value, h in enumerate((1, 2, 2, 3))]
    series = read(head + "".join(autumn))
    assert (series.columns[POWER] / 1e6).tolist() == [0, 1, 2, 3]
    assert time_text(series.start_s, 0) == "2024-10-26 23:00"
    spring = [f"31.03.2024 {h}:00;31.03.2024 {h + 1}:00;{value}\n" for value, h in enumerate((0, 1, 3, 4))]
    series = read(head + "".join(spring))
    assert (series.columns[POWER] / 1e6).tolist() == [0, 1, 2, 3]
    assert time_text(series.start_s, 0) == "2024-03-30 23:00"


def test_energy_charts(read):
    assert read(ENERGY_CHARTS, column="Solar").columns[POWER].tolist() == [40000.5e6, 41000e6]
    assert time_text(read(ENERGY_CHARTS, column="Solar").start_s, 0) == "2024-06-01 10:00"
    series = read(ENERGY_CHARTS_JSON, column="Solar")
    assert series.columns[POWER].tolist() == [40000.5e6, 41000e6]
    assert time_text(series.start_s, 0) == "2024-06-01 10:00"
    with pytest.raises(InputError, match="its columns are: Load, Solar"):
        read(ENERGY_CHARTS_JSON)
    with pytest.raises(InputError, match="without production_types: found price, unix_seconds"):
        read({"unix_seconds": [0, 900], "price": [1, 2]})


def test_entsoe_with_one_row_for_each_production_type(read):
    hours = [f"27/10/2024 {hour:02}:00:00" for hour in (1, 2, 2, 3)]
    ends = [f"27/10/2024 {hour:02}:00:00" for hour in (2, 2, 3, 4)]
    kinds = {"Nuclear": (9, 9, 9, 9), "Solar": (1, 2, 3, "n/e"), "Wind Onshore": (5, 6, 7, 8)}
    rows = [
        (s, e, kind, kinds[kind][i])
        for i, (s, e) in enumerate(zip(hours, ends, strict=True))
        for kind in kinds
    ]
    series = read(entsoe_long(*rows), column="Solar")
    assert (series.columns[POWER][:3] / 1e6).tolist() == [1, 2, 3]
    assert np.isnan(series.columns[POWER][3])
    assert time_text(series.start_s, 0) == "2024-10-26 23:00"
    assert (read(entsoe_long(*rows), column="wind").columns[POWER] / 1e6).tolist() == [5, 6, 7, 8]
    with pytest.raises(InputError, match="its columns are: Nuclear, Solar, Wind Onshore"):
        read(entsoe_long(*rows), column="Hydro")
    two = entsoe_long(*rows).replace("BZN|FR", "BZN|BE", 1)
    with pytest.raises(InputError, match=r"Area has 2 values, BZN\|BE, BZN\|FR: export one area only"):
        read(two, column="Solar")


def test_entsoe_labels_of_the_repeated_hour_are_used(read):
    rows = [
        ("27/10/2024 01:00:00 (CEST)", "27/10/2024 02:00:00 (CEST)", "Solar", 1),
        ("27/10/2024 02:00:00 (CET)", "27/10/2024 03:00:00 (CET)", "Solar", 3),
        ("27/10/2024 03:00:00 (CET)", "27/10/2024 04:00:00 (CET)", "Solar", 4),
    ]
    power_w = read(entsoe_long(*rows), column="Solar").columns[POWER]
    assert np.isnan(power_w[1])
    assert (power_w[[0, 2, 3]] / 1e6).tolist() == [1, 3, 4]


def test_training_data_may_be_such_a_file(tmp_path):
    rows = "".join(
        f"2020,6,{day},{hour},30,0,{100 * (8 < hour < 16)},0,0,20,3\n"
        for day in range(1, 29)
        for hour in range(24)
    )
    (tmp_path / "f.csv").write_text("".join(NSRDB.splitlines(keepends=True)[:3]) + rows)
    assert read_solar_history(tmp_path / "f.csv").production_w.max() == 100
