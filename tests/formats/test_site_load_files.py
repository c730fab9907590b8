"""Cooling and services in a site file, and the files that they name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from beasy_sched.energy.site import Site
from beasy_sched.energy.site_load import LoadKnown
from beasy_sched.errors import InputError
from beasy_sched.formats.site_file import parse_site

HOUR_S = 3600.0
TIME = '[time]\nstep_s = 300\nwindow_h = 24\nstart = "2024-07-01T00:00:00+00:00"\n'
BATTERY = "[battery]\ncapacity_kwh = 1\ncharge_limit_kw = 1\ndischarge_limit_kw = 1\n"
TABLE = "pue = [[-10, 1.06], [15, 1.10], [25, 1.25], [40, 1.50]]\n"


def site(folder: Path, text: str) -> Site:
    return parse_site(BATTERY + TIME + text, folder / "site.toml")


def hours(name: str, values: list[str], first: int = 0) -> str:
    rows = (
        f"2024-07-{1 + (first + at) // 24:02} {(first + at) % 24:02}:00,{v}" for at, v in enumerate(values)
    )
    return "\n".join([f"time,{name}", *rows, ""])


def services(folder: Path, content: str, given: str = '"services.csv"', more: str = "") -> Site:
    (folder / "services.csv").write_text(content)
    return site(folder, f"[load]\nseries = {given}\n{more}")


def temperatures(folder: Path, content: str, given: str = '"weather.csv"') -> list[float]:
    """Write a file of weather; return the temperatures of the first hours of the run."""
    (folder / "weather.csv").write_text(content)
    cooling = site(folder, f"[cooling]\n{TABLE}temperature = {given}\n").cooling
    assert cooling is not None
    assert cooling.temperature is not None
    return [round(x, 3) for x in cooling.temperature.rate.means(HOUR_S * np.arange(3.0)).tolist()]


def test_a_constant_pue(tmp_path: Path) -> None:
    here = site(tmp_path, "[cooling]\npue = 1.25\n")
    assert here.load_during(0.0, 300.0).pue == 1.25
    assert not here.metered  # it has no further columns


def test_services_by_step_and_along_lines(tmp_path: Path) -> None:
    content = hours("power_kw", ["1", "2", "4"])
    assert services(tmp_path, content, more="base_kw = 0.5\n").load_during(0.0, HOUR_S).base_w == 1500.0
    line = services(tmp_path, content, '{ file = "services.csv", between = "line", known = "24h" }')
    assert line.load_during(0.0, HOUR_S).services_w == 1500.0
    assert line.services is not None
    assert line.services.known is LoadKnown.DAY
    assert line.metered


def test_services_of_simulated_seconds_need_no_calendar(tmp_path: Path) -> None:
    (tmp_path / "services.csv").write_text("time_s,network_w\n0,100\n600,200\n1200,300\n")
    text = BATTERY + '[time]\nstep_s = 300\nwindow_h = 1\n[load]\nseries = "services.csv"\n'
    here = parse_site(text, tmp_path / "site.toml")
    assert [here.load_during(at, at + 300.0).base_w for at in (0.0, 300.0, 600.0)] == [100, 100, 200]


def test_a_column_and_a_unit_may_be_named(tmp_path: Path) -> None:
    content = "time,disks,network_w\n2024-07-01 00:00,1,7\n2024-07-01 01:00,2,8\n"
    given = '{ file = "services.csv", column = "disks", unit = "kW" }'
    assert services(tmp_path, content, given).load_during(0.0, HOUR_S).services_w == 1000.0


@pytest.mark.parametrize(
    ("content", "given", "named"),
    [
        (hours("power_kw", ["1", "-2", "3"]), '"services.csv"', r"services.csv:3: power_kw: -2 is negative"),
        (hours("power_kw", ["1", "", "3"]), '"services.csv"', "no value for 2024-07-01 01:00.*load.series"),
        (hours("power_kw", ["1", "2"]) + "2024-07-01 04:00,3\n", '"services.csv"', "02:00, and 1 more: load"),
        (hours("power", ["1", "2"]), '"services.csv"', "'power' does not state its unit: name it power_kw"),
        (hours("a_kw,b_kw", ["1,2", "1,2"]), '"services.csv"', r"choose one with load.series = \{ file"),
        (hours("a_kw", ["1", "2"]), '{ file = "services.csv", column = "b" }', "load.series.column: 'b'"),
        (hours("a_kw", ["1", "2"]), '{ file = "services.csv", unit = "MW" }', "load.series.unit is MW"),
        (hours("a_kwh", ["1", "2"]), '"services.csv"', "load.series needs a power"),
        ("power_kw\n1\n2\n", '"services.csv"', "has no column of times: load.series needs time"),
        (hours("a_kw", ["1", "2"]), '{ file = "services.csv", known = "soon" }', "load.series.known"),
        (hours("a_kw", ["1", "2"]), '{ file = "services.csv", zone = "Moon" }', "load.series.zone"),
    ],
)
def test_services_that_cannot_be_used(tmp_path: Path, content: str, given: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        services(tmp_path, content, given)


def test_services_with_dates_need_a_calendar(tmp_path: Path) -> None:
    (tmp_path / "services.csv").write_text(hours("power_kw", ["1", "2"]))
    with pytest.raises(InputError, match=r"load.series: requires \[time\] start"):
        parse_site(BATTERY + '[load]\nseries = "services.csv"\n', tmp_path / "site.toml")


NASA = """-BEGIN HEADER-
NASA/POWER Source Native Resolution Hourly Data
Dates (month/day/year): 07/01/2024 through 07/01/2024 in UTC
Location: latitude 50.0 longitude 10.0
The value for missing source data: -999
Parameter(s):
T2M     MERRA-2 Temperature at 2 Meters (C)
-END HEADER-
YEAR,MO,DY,HR,T2M
2024,7,1,0,11.5
2024,7,1,1,12.5
2024,7,1,2,13.5
"""
OPEN_METEO = {
    "latitude": 50.0,
    "longitude": 10.0,
    "utc_offset_seconds": 0,
    "hourly_units": {"time": "iso8601", "temperature_2m": "°C", "shortwave_radiation": "W/m²"},
    "hourly": {
        "time": ["2024-07-01T00:00", "2024-07-01T01:00", "2024-07-01T02:00"],
        "temperature_2m": [11.5, 12.5, 13.5],
        "shortwave_radiation": [0.0, 0.0, 10.0],
    },
}
NINJA = '# Weather - 50, 10\n# Units: time in UTC, temperature in °C\n# {"units": {}}\n'


@pytest.mark.parametrize(
    "content",
    [
        NASA,
        json.dumps(OPEN_METEO),
        NINJA + hours("radiation_surface,temperature", ["0,11.5", "0,12.5", "0,13.5"]),
        NINJA + hours("temperature", ["11.5", "12.5", "13.5"]),
        hours("temperature", ["11.5", "12.5", "13.5"]),
        hours("ghi,T2M,wind_speed", ["0,11.5,3", "0,12.5,4", "9,13.5,5"]),
        hours("air_temp [F]", ["52.7", "54.5", "56.3"]),
    ],
    ids=["nasa", "open-meteo", "ninja", "ninja-alone", "own", "weather", "fahrenheit"],
)
def test_temperatures_of_all_services_of_weather(tmp_path: Path, content: str) -> None:
    assert temperatures(tmp_path, content) == [11.5, 12.5]


def test_a_column_of_temperatures_may_be_named(tmp_path: Path) -> None:
    content = hours("roof,cellar", ["284.65,280", "285.65,280", "286.65,280"])
    given = '{ file = "weather.csv", column = "roof", unit = "K" }'
    assert temperatures(tmp_path, content, given) == [11.5, 12.5]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (
            hours("humidity", ["1", "2"]),
            "has no column of outside temperatures: its columns are humidity; add",
        ),
        (NASA.replace("T2M", "RH2M"), r"has no temperature \(T2M\): found RH2M"),
        (hours("temperature", ["11", "", "13"]), "no value for 2024-07-01 01:00: cooling.temperature needs"),
        ("temperature\n1\n2\n", "has no column of times"),
        (
            hours("temperature", ["285", "286"]),
            r"has 285 degrees Celsius at 2024-07-01 00:00, expected from -90 to 60: .* unit = \"K\"",
        ),
    ],
)
def test_temperatures_that_cannot_be_used(tmp_path: Path, content: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        temperatures(tmp_path, content)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("pue = 0.8\n", r"cooling.pue: found 0.8, expected a PUE from 1 to 5"),
        (
            "pue = [[15, 1.2], [5, 1.1]]\ntemperature = 'weather.csv'\n",
            r"cooling.pue\[1\]: found 5.*above 15",
        ),
        ("pue = [[15, 1.2, 3]]\n", r"cooling.pue\[0\]: found \[15, 1.2, 3\], expected a list of 2"),
        (TABLE, "cooling.temperature: found nothing, expected a file of the outside temperature"),
        (
            "pue = 1.2\ntemperature = 'weather.csv'\n",
            "cooling.temperature: found 'weather.csv'",
        ),
        ("", "cooling.pue: is missing"),
        (TABLE + "temperature = 'missing.csv'\n", "missing.csv"),
        ("pue = 1.2\nfans = 3\n", "fans"),
    ],
)
def test_cooling_that_no_site_has(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        site(tmp_path, f"[cooling]\n{text}")
