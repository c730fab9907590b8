"""The study of promised risks: its bands, its inputs, a trial from end to end."""

from __future__ import annotations

from math import comb
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project.shell import run_study
from studies.risk.command import band, parse_arguments, site_table, whole_table
from studies.risk.study import Promise, RiskStudy, Weather
from studies.study import Measured


@given(st.integers(1, 200), st.floats(0.005, 0.6))
def test_the_band_holds_95_percent(windows: int, share: float) -> None:
    low, high = band(windows, share)

    def chance(most: int) -> float:
        """Of at most so many windows."""
        return sum(comb(windows, k) * share**k * (1.0 - share) ** (windows - k) for k in range(most + 1))

    assert chance(low) >= 0.025 - 1e-9
    assert low == 0 or chance(low - 1) < 0.025 + 1e-9
    assert chance(high) >= 0.975 - 1e-9
    assert high == 0 or chance(high - 1) < 0.975 + 1e-9


def test_the_weather_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = parse_arguments(["--weather", "here=pv.csv,wind.csv", "--weather", "there=,wind.csv"])
    assert [(one.name, Path(one.pv).name, Path(one.wind).name) for one in chosen.weather] == [
        ("here", "pv.csv", "wind.csv"),
        ("there", "", "wind.csv"),
    ]
    with pytest.raises(SystemExit):
        parse_arguments(["--weather", "here"])
    assert "expected NAME=PV,WIND" in capsys.readouterr().err


def test_tables_of_what_was_measured() -> None:
    values: dict[str, float | int | None] = {
        "windows": 20, "wrong": 3, "submitted": 200, "finished": 190, "killed": 4, "slowdown": 2.0,
    }  # fmt: skip
    results = {Promise("here", "beasy", 0.1): Measured(values=values)}
    assert whole_table(results).rows == [("beasy", "10", "3 of 20", "15.0", "0 to 5", "95.00", "4", "2.0")]
    assert ("beasy", "10", "3 of 20 (95.0)") in site_table(results).rows
    assert ("bid-price", "none", "failed") in site_table(results).rows


def test_inputs_are_the_same_each_time(tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        study = RiskStudy(tmp_path / name, [Weather("north")], "", 1, 98)
        study.begin()
        study.write_inputs()
        written.append({path.name: path.read_bytes() for path in (tmp_path / name / "inputs").iterdir()})
    assert written[0] == written[1]
    assert set(written[0]) == {
        "platform.xml", "workload.json", "site.toml", "north-power.txt", "north-forecast.csv",
    }  # fmt: skip


@pytest.mark.slow
def test_a_trial_from_end_to_end(tmp_path: Path) -> None:
    arguments = ("--quick", "--windows", "2", "--out", tmp_path / "out", "--jobs", "2")
    done = run_study("risk", *arguments)
    assert done.returncode == 0, done.stderr
    assert "# Risk limits" in (tmp_path / "out/tables.md").read_text()
    assert (tmp_path / "out/figures/risk-calibration.png").exists()
    assert run_study("risk", *arguments).returncode == 0
