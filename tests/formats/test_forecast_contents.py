"""Contents of a forecast that is renewed: a forecast file, exports of services, CSV, events."""

import json

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.forecast_contents import ForecastScale, Plants, parse_contents
from beasy_sched.formats.power_series import read_power_series

NOON = 1_780_056_000.0
"""2026-05-29 12:00 UTC, time 0 of the runs here."""
OPEN_METEO = {
    "latitude": 48.0,
    "longitude": 11.0,
    "utc_offset_seconds": 0,
    "hourly_units": {"time": "iso8601", "shortwave_radiation": "W/m²", "wind_speed_10m": "m/s"},
    "hourly": {
        "time": ["2026-05-29T13:00", "2026-05-29T14:00", "2026-05-29T15:00"],
        "shortwave_radiation": [100.0, 500.0, 0.0],
    },
}
SOLCAST = {
    "forecasts": [
        {"pv_estimate": 1.5, "period_end": f"2026-05-29T{hour}:00:00.0000000Z", "period": "PT60M"}
        for hour in (13, 14, 15)
    ]
}


def read(text, **scale):
    given = {"step_s": 300.0, "most_steps": 36, "time_0_s": NOON} | scale
    return parse_contents(
        "f", (text if isinstance(text, str) else json.dumps(text)).encode(), ForecastScale(**given)
    )


def rows(contents):
    table = contents.table
    return list(zip(table.valid_s.tolist(), table.values.tolist(), strict=True))


def test_a_forecast_file_states_its_issues():
    found = read(
        "issued,valid,kW\n2026-05-29T11:00Z,2026-05-29T12:00Z,1\n2026-05-29T11:00Z,2026-05-29T13:00Z,2\n"
    )
    assert found.states_issue
    assert found.table.issued_s.tolist() == [-3600.0, -3600.0]
    assert rows(found) == [(0.0, 1000.0), (3600.0, 2000.0)]


def test_open_meteo_needs_the_size_of_the_plant():
    found = read(OPEN_METEO, plants=Plants(pv_w=10_000.0))
    assert not found.states_issue
    assert rows(found) == [(0.0, 900.0), (3600.0, 4500.0), (7200.0, 0.0)]
    with pytest.raises(
        InputError, match="f: has weather, not power: give --forecast-pv-kw for its irradiance"
    ):
        read(OPEN_METEO)


def test_solcast_has_power():
    assert rows(read(SOLCAST)) == [(0.0, 1500.0), (3600.0, 1500.0), (7200.0, 1500.0)]


def test_a_gap_is_no_forecast_for_policies_and_an_error_for_plans():
    text = "time,kW\n2026-05-29 12:00,1\n2026-05-29 13:00,\n2026-05-29 14:00,3\n"
    assert rows(read(text)) == [(0.0, 1000.0), (7200.0, 3000.0)]
    with pytest.raises(InputError, match="has no power for 2026-05-29 13:00"):
        read(text, in_steps=True)


def test_dates_require_a_known_time_0():
    with pytest.raises(InputError, match="has dates, but the site has no \\[time\\] start"):
        read(SOLCAST, time_0_s=None)
    assert rows(read(SOLCAST, time_0_s=None, from_first=True))[0] == (0.0, 1500.0)


@pytest.mark.parametrize(
    "text",
    [
        "power (W)\n" + "\n".join(str(100 * n) for n in range(36)),
        "time,kW\n2026-05-29 00:00,1\n2026-05-29 01:00,7\n2026-05-29 02:00,3\n",
        '{"timestamp": 0, "type": "power", "power_available": 5}\n'
        '{"timestamp": 700, "type": "power", "power_available": 50}\n',
    ],
)
def test_the_steps_of_plans_are_those_of_a_file_that_is_read_once(text, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(text)
    expected = read_power_series(path, steps=36, step_s=300.0, as_run=True)
    found = read(text, in_steps=True, from_first=True, time_0_s=None)
    np.testing.assert_array_equal(found.table.values, expected)
    np.testing.assert_array_equal(found.table.valid_s, 300.0 * np.arange(36))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "f: is empty: expected a forecast"),
        ("  \n", "f: is empty"),
        ("Service unavailable\n", "f: .*expected"),
        ("<html><body>502 Bad Gateway</body></html>", "f: .*expected"),
        ('{"error": true, "reason": "limit"}', "f: is JSON, but not of NASA POWER, Open-Meteo"),
        ('{"hourly": {"time": ["2026-', "f"),
        ("issued,valid,condition\n0,0,sun\n", "f: "),
        ("issued,valid,kW\n0,0,1\n0,36", "f:3: "),
        ("time,kW\n2026-05-29 12:00,\n2026-05-29 13:00,\n", "f: "),
    ],
)
def test_garbage_is_one_error(text, told):
    with pytest.raises(InputError, match=told):
        read(text)
