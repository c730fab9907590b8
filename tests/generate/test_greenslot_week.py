"""The sun of the paper's week, and its predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from beasy_sched.forecast.outlook import FileForecast
from beasy_sched.formats.forecast_source import read_forecast_file
from beasy_sched.generate.greenslot_week import ACTUAL_W, PREDICTED_W, WEEK_S, forecast_lines, step_power_w


def test_a_value_for_each_hour_of_the_week() -> None:
    assert len(ACTUAL_W) == len(PREDICTED_W) == WEEK_S / 3600
    assert ACTUAL_W.sum() == 42_352.0
    assert min(ACTUAL_W.min(), PREDICTED_W.min()) >= 0.0
    assert max(ACTUAL_W.max(), PREDICTED_W.max()) <= 2300.0
    night = (np.arange(104) + 9) % 24
    assert not ACTUAL_W[(night >= 21) | (night <= 4)].any()
    assert not PREDICTED_W[(night >= 22) | (night <= 4)].any()


def test_predictions_are_off_by_what_the_figure_shows() -> None:
    """Monday 10:00 to Friday 17:00, in percent of an ideal day's 14.8 kWh: read off Figure 7 by day."""
    days = (np.arange(104) + 9) // 24
    wrong = np.abs(PREDICTED_W - ACTUAL_W)[1:]
    pct = 100.0 * np.bincount(days[1:], wrong) / 14_800.0
    assert pct.tolist() == pytest.approx([10.3, 22.4, 17.8, 12.5, 16.5], abs=0.1)


def test_steps_hold_the_energy_of_their_hours() -> None:
    assert step_power_w(ACTUAL_W, 900.0).sum() / 4 == ACTUAL_W.sum()
    assert step_power_w(ACTUAL_W, 900.0)[:5].tolist() == [884.0] * 4 + [1020.0]


def test_the_forecast_file_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("".join(forecast_lines(PREDICTED_W)))
    source = FileForecast(read_forecast_file(path), None)
    np.testing.assert_array_equal(source.renewable_w(0.0, 3600.0, 104), PREDICTED_W)
