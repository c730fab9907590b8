"""The right reader for each file, and no traceback for any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import InputError
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.table import IRRADIANCE, POWER, WIND_SPEED
from beasy_sched.formats.weather_exports import ninja_lines

NINJA = "".join(
    ninja_lines(
        "wind",
        start_s=1559347200,
        electricity_kw=np.linspace(0, 1, 8),
        weather={"wind_speed": np.linspace(0, 20, 8)},
        capacity_kw=1,
        latitude_deg=43.6,
        source="synthetic",
    )
)
NASA = (
    "-BEGIN HEADER-\nLocation: Latitude 43 Longitude 1\nALLSKY_SFC_SW_DWN  Light (Wh/m^2)\n-END HEADER-\n"
    "YEAR,MO,DY,HR,ALLSKY_SFC_SW_DWN\n2020,6,22,10,500\n2020,6,22,11,600\n2020,6,22,12,-999\n"
)
ENTSOE = (
    '"Area","MTU","Solar [MW]"\n"BE","01.01.2019 00:00 - 01.01.2019 01:00 (CET)","5"\n'
    '"BE","01.01.2019 01:00 - 01.01.2019 02:00 (CET)","n/e"\n'
)
PLAIN = "time,p_kw\n2019-06-01 00:00,1\n2019-06-01 00:30,2\n"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (NINJA, {POWER, WIND_SPEED}),
        (NASA, {IRRADIANCE}),
        (ENTSOE, {POWER}),
        (PLAIN, {POWER}),
        (PLAIN.replace(",", ";"), {POWER}),
        ("# a comment\n" + PLAIN, {POWER}),
    ],
)
def test_each_format_finds_its_reader(tmp_path, text, columns):
    path = tmp_path / "f.csv"
    path.write_text(text)
    assert set(read_weather_file(path).columns) == columns


@pytest.mark.parametrize("content", ["", "\n\n", " "])
def test_an_empty_file_is_told_as_such(tmp_path, content):
    path = tmp_path / "f.csv"
    path.write_text(content)
    with pytest.raises(InputError, match="is empty"):
        read_weather_file(path)


junk = st.sampled_from(
    ["", "\n", ",", '"', ";", "#", "nan", "1e999", "-5", "é", "/", "{", "\t", "2019-06-01"]
)


@given(
    st.sampled_from([NINJA, NASA, ENTSOE, PLAIN]),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 12), junk | st.text(max_size=3)), max_size=4),
)
def test_a_mutilated_file_is_read_or_refused(tmp_path_factory, text, wounds):
    for place, length, new in wounds:
        at = place % (len(text) + 1)
        text = text[:at] + new + text[at + length :]
    path = tmp_path_factory.mktemp("mutilated") / "f.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        series = read_weather_file(path)
    except InputError:
        return
    for name, values in series.columns.items():
        assert len(values) == len(series)
        assert name not in (POWER, IRRADIANCE, WIND_SPEED) or np.nanmin(values, initial=0.0) >= 0
