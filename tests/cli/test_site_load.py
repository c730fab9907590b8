"""Commands on a site with cooling and services: what they show, and files that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import exit_code
from small_site import SmallSite, small_site

LOADED = """start = "2024-07-01T00:00:00+00:00"
[cooling]
pue = [[-10, 1.06], [15, 1.10], [25, 1.25], [40, 1.50]]
temperature = "weather.csv"
[load]
base_kw = 0.1
series = "services.csv"
"""


def hours(column: str, count: int, value: float) -> str:
    rows = (f"2024-07-{1 + at // 24:02} {at % 24:02}:00,{value + at % 24}" for at in range(count))
    return "\n".join([f"time,{column}", *rows, ""])


@pytest.fixture
def made(tmp_path: Path) -> SmallSite:
    site = small_site(tmp_path, jobs=40)
    site.site.write_text(site.site.read_text() + LOADED)
    (tmp_path / "weather.csv").write_text(hours("T2M", 24, 10.0))
    (tmp_path / "services.csv").write_text(hours("power_w", 24, 50.0))
    return site


def simulate(made: SmallSite, out: Path, *more: str) -> int:
    files = {"-p": made.platform, "-w": made.workload, "--events": made.events, "--site": made.site}
    given = [str(part) for option, path in files.items() for part in (option, path)]
    return exit_code("simulate", *given, "-e", str(out), *more)


def test_what_a_run_shows(made: SmallSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(made, tmp_path / "run", "--policy", "easy") == 0
    assert "energy of cooling" in capsys.readouterr().out
    summary = json.loads((tmp_path / "run_summary.json").read_text())
    trace = pd.read_csv(tmp_path / "run_energy_trace.csv")
    hours_h = trace.duration_s / 3.6e6
    assert summary["energy_kwh"]["cooling"] == pytest.approx((trace.cooling_w * hours_h).sum())
    assert summary["energy_kwh"]["base"] == pytest.approx((trace.base_w * hours_h).sum())
    mean = 1.0 + (trace.cooling_w * hours_h).sum() / (trace.demand_w * hours_h).sum()
    assert summary["site"]["pue_mean"] == pytest.approx(mean)
    assert trace.base_w.iloc[0] == pytest.approx(150.0)
    assert trace.residual_j.abs().max() < 1e-3


@pytest.mark.plugins("reports")
def test_explain_names_cooling(made: SmallSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(made, tmp_path / "run", "--policy", "easy") == 0
    assert exit_code("explain", str(tmp_path / "run"), "--at", "12h") == 0
    assert "Cooling of the servers: " in capsys.readouterr().out


def test_a_plan_counts_cooling_and_services(made: SmallSite, tmp_path: Path) -> None:
    pytest.importorskip("highspy")
    files = {"-p": made.platform, "-w": made.workload, "--production": made.events, "--site": made.site}
    given = [str(part) for option, path in files.items() for part in (option, path)]
    assert exit_code("plan", *given, "-o", str(tmp_path / "plan.msgpack"), "-q") == 0
    assert (
        simulate(made, tmp_path / "run", "--policy", "beasy", "--plan", str(tmp_path / "plan.msgpack")) == 0
    )
    summary = json.loads((tmp_path / "run_summary.json").read_text())
    assert summary["site"]["largest_relative_residual"] < 1e-6


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("weather.csv", hours("T2M", 12, 10.0), "cooling.temperature: the file covers 2024-07-01 00:00 to"),
        ("services.csv", hours("power_w", 12, 50.0), "load.series: the file covers 2024-07-01 00:00 to"),
        ("services.csv", hours("power_w", 24, -3.0), "services.csv:2: power_w: -3 is negative"),
        ("weather.csv", hours("humidity", 24, 1.0), "weather.csv: has no column of outside temperatures"),
        ("site.toml", "[cooling]\npue = 0.9\n", "site.toml: cooling.pue: found 0.9, expected a PUE from 1"),
    ],
)
def test_bad_input_is_one_message_and_no_file(
    made: SmallSite, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, content: str, named: str
) -> None:
    (tmp_path / file).write_text(content)
    assert simulate(made, tmp_path / "run") == 2
    told = capsys.readouterr().err
    assert named in told
    assert told.count("\n") == 1
    assert not [*tmp_path.glob("run*")]
