"""Each weather file at hand: read rightly, or refused with a message that one can act on.

The values are checked against an independent reading: rows split at their commas, nothing else.
"""

from pathlib import Path

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.table import (
    CLEARNESS_INDEX,
    CLOUD_COVER_SHARE,
    IRRADIANCE,
    POWER,
    TEMPERATURE,
    WIND_SPEED,
)

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
YEAR, LEAP = 8760, 8784


def plain_rows(path, first_cell):
    """The cells of the rows below the line that starts with ``first_cell``."""
    lines = path.read_text("utf-8", errors="replace").splitlines()
    head = next(i for i, line in enumerate(lines) if line.lstrip('"').startswith(first_cell))
    return [line.replace('"', "").split(",") for line in lines[head + 1 :]]


def plain(rows, *indices, factor=1.0):
    """The sum of some columns, row by row."""
    return factor * np.array([sum(float(row[i]) for i in indices) for row in rows])


READ = [
    # folder/start of the name, start, rows, technology, capacity (W), {column: (plain columns, factor)}
    ("ninja/Sibari_MERRA2_1992_Solar_1", "1992-01-01 00:00", LEAP, "pv", 1e3, {POWER: ((2,), 1e3)}),
    ("ninja/Sibari_MERRA2_1992_Solar_fixed", "1992-01-01 00:00", LEAP, "pv", 1e3, {POWER: ((2,), 1e3)}),
    (
        "ninja/Sibari_MERRA2_1992_Wind",
        "1992-01-01 00:00",
        LEAP,
        "wind",
        1e3,
        {POWER: ((2,), 1e3), WIND_SPEED: ((3,), 1)},
    ),
    ("ninja/almeria2023", "2023-01-01 00:00", YEAR, None, None, {POWER: ((1,), 1e3)}),
    (
        "ninja/berlin2014_ninja_pv_52.5170_13.3889_corrected_excel",
        "2013-12-31 23:00",
        YEAR + 1,
        "pv",
        None,
        {POWER: ((2,), 1e3), IRRADIANCE: ((3, 4), 1e3), TEMPERATURE: ((5,), 1)},
    ),
    (
        "ninja/berlin2014_ninja_pv_52.5170_13.3889_corrected_original",
        "2014-01-01 00:00",
        YEAR,
        "pv",
        1e3,
        {POWER: ((2,), 1e3), IRRADIANCE: ((3, 4), 1e3), TEMPERATURE: ((5,), 1)},
    ),
    (
        "ninja/berlin2014_ninja_wind",
        "2013-12-31 23:00",
        YEAR + 1,
        "wind",
        None,
        {POWER: ((2,), 1e3), WIND_SPEED: ((3,), 1)},
    ),
    (
        "ninja/nantes2015_ninja_pv",
        "2015-01-01 00:00",
        YEAR,
        "pv",
        1e3,
        {POWER: ((2,), 1e3), IRRADIANCE: ((3, 4), 1e3), TEMPERATURE: ((5,), 1), "flagged": ((6,), 1)},
    ),
    (
        "ninja/nantes2015_ninja_wind",
        "2015-01-01 00:00",
        YEAR,
        "wind",
        1e3,
        {POWER: ((2,), 1e3), WIND_SPEED: ((3,), 1)},
    ),
    (
        "ninja/nottingham2019_ninja_pv",
        "2019-01-01 00:00",
        YEAR,
        "pv",
        3.5e3,
        {POWER: ((2,), 1e3), IRRADIANCE: ((3, 4), 1e3), TEMPERATURE: ((5,), 1)},
    ),
    (
        "ninja/nottingham2019_ninja_wind",
        "2019-01-01 00:00",
        YEAR,
        "wind",
        1e3,
        {POWER: ((2,), 1e3), WIND_SPEED: ((3,), 1)},
    ),
    (
        "ninja/ny2019_ninja_pv",
        "2019-01-01 00:00",
        YEAR,
        "pv",
        12.5e6,
        {POWER: ((2,), 1e3), IRRADIANCE: ((3, 4), 1e3), TEMPERATURE: ((5,), 1)},
    ),
    (
        "ninja/ny2019_ninja_wind",
        "2019-01-01 00:00",
        YEAR,
        "wind",
        1.65e6,
        {POWER: ((2,), 1e3), WIND_SPEED: ((3,), 1)},
    ),
    (
        "ninja/uk2019_ninja_weather",
        "2019-01-01 00:00",
        YEAR,
        "weather",
        None,
        {IRRADIANCE: ((7,), 1), TEMPERATURE: ((2,), 1), CLOUD_COVER_SHARE: ((9,), 1)},
    ),
    (
        "ninja/uk2019_ninja_wind",
        "2019-01-01 00:00",
        YEAR,
        "wind",
        1e3,
        {POWER: ((2,), 1e3), WIND_SPEED: ((3,), 1)},
    ),
    ("ninja/vendee2024", "2024-01-01 00:00", LEAP, "pv", None, {POWER: ((2,), 1e3)}),
    (
        "nasa_power/EXCERPT",
        "2020-06-22 00:00",
        72,
        "weather",
        None,
        {
            IRRADIANCE: ((4,), 1),
            WIND_SPEED: ((9,), 1),
            TEMPERATURE: ((8,), 1),
            CLEARNESS_INDEX: ((7,), 1),
        },
    ),
]
ROTATED = {"ninja/ny2019_ninja_pv": 5, "ninja/ny2019_ninja_wind": 5}
"""Rows at the end of the file that belong before the first one."""


def find(prefix):
    matches = list(DATA.glob(prefix + "*"))
    if not matches:
        pytest.skip("no real weather files beside the project (../shared/data)")
    return matches[0]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("prefix", "start", "rows", "technology", "capacity_w", "columns"), READ, ids=[row[0] for row in READ]
)
def test_a_file_that_is_read(prefix, start, rows, technology, capacity_w, columns):
    path = find(prefix)
    series = read_weather_file(path)
    assert (series.time_text(0), len(series), series.interval_s) == (start, rows, 3600)
    assert (series.technology, series.capacity_w) == (technology, capacity_w)
    cells = plain_rows(path, "YEAR" if prefix.startswith("nasa") else "time")
    turn = ROTATED.get(prefix, 0)
    assert set(series.columns) == set(columns)
    for name, (indices, factor) in columns.items():
        expected = np.roll(plain(cells, *indices, factor=factor), turn)
        expected = np.where(expected == -999.0, np.nan, expected)
        np.testing.assert_allclose(series.columns[name], expected, rtol=1e-12, atol=1e-9)


def test_the_damaged_copy_has_the_values_of_the_original():
    damaged = read_weather_file(find("ninja/berlin2014_ninja_pv_52.5170_13.3889_corrected_excel"))
    original = read_weather_file(find("ninja/berlin2014_ninja_pv_52.5170_13.3889_corrected_original"))
    for name, values in original.columns.items():
        np.testing.assert_allclose(damaged.columns[name][1:], values)


@pytest.mark.parametrize(
    ("prefix", "column", "unit", "index", "rows", "interval"),
    [
        ("solar_measured/Almeria2023", "PV-MEAS", "per-unit", 3, YEAR, 3600),
        ("solar_measured/Almeria2023", "RN-MERRA2", "per-unit", 2, YEAR, 3600),
        ("solar_measured/vessim", "Berlin", "per-unit", 1, 8352, 300),
        ("solar_measured/vessim", "Paulo", "per-unit", 10, 8352, 300),
    ],
)
def test_a_column_of_a_plain_file(prefix, column, unit, index, rows, interval):
    path = find(prefix)
    given = 3600 if "Almeria" in prefix else None
    series = read_weather_file(path, column=column, unit=unit, interval_s=given)
    assert (len(series), series.interval_s, series.start_s, series.capacity_w) == (rows, interval, None, 1.0)
    expected = plain(plain_rows(path, "Almeria" if given else "time"), index)
    np.testing.assert_allclose(series.columns[POWER], expected)


def test_the_almeria_export_is_the_same_in_both_of_its_files():
    alone = read_weather_file(find("ninja/almeria2023")).columns[POWER] / 1e3
    column = read_weather_file(
        find("solar_measured/Almeria2023"), column="RN-MERRA2", unit="per-unit", interval_s=3600
    )
    np.testing.assert_allclose(alone, column.columns[POWER])


@pytest.mark.sampled
@pytest.mark.parametrize(("column", "index"), [("Solar", 19), ("Wind Onshore", 22), ("Wind Offshore", 21)])
def test_a_national_fleet_in_brussels_time(column, index):
    path = find("solar_measured/entsoe")
    series = read_weather_file(path, column=column)
    assert (series.time_text(0), len(series), series.interval_s) == ("2018-12-31 23:00", YEAR, 3600)
    lines = path.read_text("utf-8").splitlines()[1:]
    cells = [line[1:-1].split('","') for line in lines]
    values = [float(row[index]) * 1e6 if row[index] not in ("", "n/e") else np.nan for row in cells]
    skipped = next(i for i, row in enumerate(cells) if row[1].startswith("31.03.2019 02:00"))
    assert np.isnan(values.pop(skipped))
    np.testing.assert_array_equal(series.columns[POWER], values)


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        (
            "nasa_power/barcelona2",
            "has neither irradiance nor wind speed: found RH2M, T2M; add ALLSKY_SFC_SW_DWN",
        ),
        ("solar_measured/Almeria2023", "has several columns, choose one with --pv-column or --wind-column"),
        ("solar_measured/entsoe", "has several columns, choose one with --pv-column or --wind-column"),
        ("solar_measured/vessim", "has several columns, choose one with --pv-column or --wind-column"),
    ],
)
def test_a_file_that_is_refused(prefix, message):
    with pytest.raises(InputError) as error:
        read_weather_file(find(prefix))
    assert message in str(error.value)


def test_every_file_has_its_row_here():
    folders = [DATA / name for name in ("ninja", "nasa_power", "solar_measured")]
    if not all(folder.is_dir() for folder in folders):
        pytest.skip("no real weather files beside the project (../shared/data)")
    known = [row[0] for row in READ] + ["nasa_power/barcelona2", "solar_measured/"]
    for folder in folders:
        for path in folder.iterdir():
            assert any(f"{folder.name}/{path.name}".startswith(prefix) for prefix in known), path.name
