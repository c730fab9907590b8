"""Powers of steps from events and CSV."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.formats.power_series import read_power_series
from beasy_sched.model.choices import BatsimFormat


def read(tmp_path: Path, text: str, steps: int = 2, step_s: float = 300.0, **more: str) -> np.ndarray:
    path = tmp_path / "powers"
    path.write_text(text)
    return read_power_series(path, steps=steps, step_s=step_s, **more)


def events(*pairs: tuple[float, float]) -> str:
    lines = ({"type": "x", "timestamp": moment, "power_available": power} for moment, power in pairs)
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_own_events_come_back_exactly(tmp_path: Path) -> None:
    powers = np.random.default_rng(1).uniform(0, 1e4, 864).round(6)
    text = "".join(power_event_lines(powers, 300.0, BatsimFormat.BATSIM4))
    np.testing.assert_array_equal(read(tmp_path, text, steps=864), powers)


@pytest.mark.parametrize(
    ("pairs", "expected_w"),
    [
        ([(0, 100), (300, 200)], [100, 200]),
        ([(0, 100), (150, 200), (300, 400), (450, 0)], [150, 200]),
        ([(0, 100), (600, 50)], [100, 100]),
        ([(0, 100), (299, 400), (301, 0), (600, 7)], [101, 400 / 300]),
    ],
)
def test_events_off_the_grid(
    tmp_path: Path, pairs: list[tuple[float, float]], expected_w: list[float]
) -> None:
    np.testing.assert_allclose(read(tmp_path, events(*pairs)), expected_w)


def test_csv_of_longer_rows_is_smooth_and_of_shorter_ones_is_their_mean(tmp_path: Path) -> None:
    hours = "utc,power (W)\n" + "".join(f"2024-06-01 0{h}:00,{100 * h}\n" for h in range(4))
    within = read(tmp_path, hours, steps=16, step_s=900.0)
    assert within.reshape(4, 4).mean(axis=1) == pytest.approx([0, 100, 200, 300])
    assert (np.diff(within[4:12]) > 1.0).all()
    minutes = "utc,power (W)\n" + "".join(f"2024-06-01 00:{m}0,{w}\n" for m, w in enumerate((0, 90, 300)))
    assert read(tmp_path, minutes, steps=2, step_s=900.0) == pytest.approx([30, 230])


def test_csv_of_the_step(tmp_path: Path) -> None:
    np.testing.assert_allclose(read(tmp_path, "power (kW)\n1\n2.5\n3\n"), [1000, 2500])


def test_hourly_csv_keeps_the_energy(tmp_path: Path) -> None:
    powers = read(tmp_path, "time,demand_kw\n0,1\n3600,4\n7200,2\n", steps=36)
    np.testing.assert_allclose(powers.reshape(3, 12).mean(axis=1), [1000, 4000, 2000])


def test_events_as_a_run_takes_them(tmp_path: Path) -> None:
    path = tmp_path / "powers"
    path.write_text(events((10, 100), (600, 300)))
    powers = read_power_series(path, steps=4, step_s=300.0, as_run=True)
    np.testing.assert_allclose(powers, [100 * 290 / 300, 100, 300, 300])
    path.write_text(events((0, 100), (300, 200), (600, 300)))
    whole = read_power_series(path, steps=3, step_s=300.0)
    assert read_power_series(path, steps=3, step_s=300.0, as_run=True).tolist() == whole.tolist()


def test_unit_given(tmp_path: Path) -> None:
    np.testing.assert_allclose(read(tmp_path, "demand\n5\n6\n", unit="W"), [5, 6])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (events((0, 100), (300, -1)), "powers:2: power_available is -1, expected a power in W, 0 or more"),
        (events((10, 100), (300, 1)), "the first power is for 10 s: expected one for time 0"),
        (events((0, 100)), "covers 0.08333 h, the plan needs 0.1667 h"),
        ('{"type":"x","timestamp":0}\n', "has no event with the field 'power_available'"),
        ('{"type":"x","timestamp":0,"power_available":"5"}\n', "power_available is '5'"),
        ("power (kW)\n1\n", "at least 2"),
        ("power (kW)\n1\n-2\n", "must not be negative"),
        ("time,power (kW)\n0,1\n300,\n600,2\n", "has no power for 300 s from the start"),
        ("demand\n5\n6\n", "does not state its unit: give --unit"),
        ("", "powers"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_power_series(tmp_path / "none", steps=1, step_s=300.0)


def test_as_many_steps_as_there_are(tmp_path: Path) -> None:
    """Events to 50 minutes, the last one as long as the others: an hour; 100 rows of an hour."""
    events, rows = tmp_path / "power.txt", tmp_path / "power.csv"
    events.write_text("".join(power_event_lines(np.arange(12.0), 300.0)))
    rows.write_text("power_w\n" + "5\n" * 100)
    assert read_power_series(events, steps=None, step_s=300.0).tolist() == list(range(12))
    assert read_power_series(events, steps=None, step_s=3600.0) == pytest.approx([5.5])
    assert read_power_series(events, steps=None, step_s=1400.0).shape == (2,)
    assert read_power_series(rows, steps=None, step_s=3600.0).shape == (100,)
    with pytest.raises(InputError, match="covers 1 h, the plan needs 24 h"):
        read_power_series(events, steps=None, step_s=86_400.0)
