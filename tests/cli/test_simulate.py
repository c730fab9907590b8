"""``beasy-sched simulate`` without -E."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import exit_code


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("simulate")
    assert exit_code("generate", "platform", "-n", "gros:4", "-o", str(place / "p.xml"), "-q") == 0
    synthetic = ("generate", "workload", "--synthetic", "--hosts", "4", "--jobs", "20")
    assert exit_code(*synthetic, "-o", str(place / "w.json"), "-q") == 0
    power = ("generate", "power", "--synthetic", "--pv-kw", "2")
    assert exit_code(*power, "-o", str(place / "power.txt"), "-q") == 0
    return place


def simulate(place: Path, *arguments: str) -> int:
    files = ("-p", str(place / "p.xml"), "-w", str(place / "w.json"), "-e", str(place / "run"))
    return exit_code("simulate", *files, "-q", "--no-metering", *arguments)


def test_no_p_state_is_changed(place: Path) -> None:
    assert simulate(place, "--policy", "workload-reactive") == 0
    summary = json.loads((place / "run_summary.json").read_text())
    assert summary["complete"]
    assert summary["quality"]["server_switches"] == 0


def test_a_site_needs_the_daemons_own_account(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = ("--site", "default", "--events", str(place / "power.txt"))
    assert simulate(place, *site) == 2
    assert "add --energy model" in capsys.readouterr().err
    assert simulate(place, *site, "--energy", "model") == 0


def test_a_budget_is_measured(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(place, "--policy", "energybud", "--budget", "60%", "--period", "0:1d") == 2
    assert "leave out --no-power-actions and --no-metering" in capsys.readouterr().err
