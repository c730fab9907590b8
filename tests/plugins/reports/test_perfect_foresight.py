"""The yardstick of a run: its cost is never below that of perfect foresight, and all texts name it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import exit_code
from simulator.small import platform_text

from beasy_sched.errors import ConfigError
from beasy_sched.planner import solver
from beasy_sched.plugins.reports.judgement import cards
from beasy_sched.plugins.reports.perfect_foresight import Yardstick, yardstick
from beasy_sched.plugins.reports.run_data import RunData, read_energy, read_run_data

pytest.importorskip("highspy", reason="perfect foresight needs the HiGHS solver")

BATTERY = """
[battery]
capacity_kwh = 1.0
charge_limit_kw = 0.5
discharge_limit_kw = 0.5
[time]
step_s = 300
window_h = 24
start = "2022-01-10T12:00:00+01:00"
[load]
base_kw = 0.05
"""
PRICES = """
[[grid.tariff]]
hours = [0, 6]
per_kwh = 0.05
[[grid.tariff]]
hours = [6, 17]
per_kwh = 0.15
[[grid.tariff]]
hours = [17, 24]
per_kwh = 0.30
"""
SITES = {
    "charge": 'charge = { hours = [0, 6], up_to_soc_pct = 80 }\nexport = "feed-in"\nfeed_in_per_kwh = 0.08',
    "rest": "charge = { below_per_kwh = 0.1 }\ndischarge = { above_per_kwh = 0.2 }\nimport_limit_kw = 1.0",
    "peak": 'battery = "shave"\npeak_kw = 0.5\npeak_per_kw = 12.0\ncharge = { hours = [22, 6] }',
    "net": 'export = "net"\npeak_per_kw = 1.0\npeak_period = "window"',
}


def run_on(keys: str, folder: Path, policy: str = "easy") -> RunData:
    folder.mkdir(exist_ok=True)
    (folder / "site.toml").write_text(f"{BATTERY}[grid]\n{keys}\n{PRICES}")
    (folder / "platform.xml").write_text(platform_text(4))
    jobs = [
        {"id": str(n), "subtime": 2700.0 * n, "res": 1 + n % 4, "walltime": 9000, "profile": "w"}
        for n in range(20)
    ]
    profiles = {"w": {"type": "delay", "delay": 4000}}
    (folder / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    power = [
        {"timestamp": 300 * n, "type": "power", "power_available": max(0, 900 - 9 * abs(n - 60))}
        for n in range(288)
    ]
    (folder / "power.txt").write_text("".join(f"{json.dumps(event)}\n" for event in power))
    given = {"-p": "platform.xml", "-w": "w.json", "--events": "power.txt", "--site": "site.toml"}
    files = [text for option, name in given.items() for text in (option, str(folder / name))]
    prefix = str(folder / "run")
    assert exit_code("simulate", *files, "--policy", policy, "-o", prefix, "-q") == 0
    return read_run_data(policy, prefix)


@pytest.mark.parametrize("keys", SITES)
def test_no_run_costs_less_than_perfect_foresight(keys: str, tmp_path: Path) -> None:
    run = run_on(SITES[keys], tmp_path / keys)
    found = yardstick(run)
    assert found is not None
    assert found.foresight_cost is not None
    assert found.foresight_cost <= found.cost + 1e-6
    assert found.foresight_cost < found.cost - 0.01 or keys not in ("charge", "peak")
    if (pct := found.reached_pct) is not None:
        assert pct <= 100.0 + 1e-6
    assert found == yardstick(read_energy("easy", run.prefix))


def test_a_report_shows_charge_peak_and_yardstick(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_on(SITES["peak"], tmp_path / "peak")
    titles = {card.title: card for card in cards(run)}
    assert {"Highest mean of 15 minutes", "Charged from the grid", "Perfect foresight"} <= titles.keys()
    grid, energy = run.grid, run.energy_kwh
    assert grid is not None
    assert energy is not None
    assert grid.peak_kw is not None
    assert grid.peak_cost is not None
    assert grid.peak_cost == pytest.approx(12.0 * grid.peak_kw)
    assert energy.grid_charged == pytest.approx(
        float((run.trace["grid_charge_w"] * run.trace["duration_s"]).sum()) / 3.6e6
    )
    assert grid.cost == pytest.approx(float(run.trace["import_cost"].sum()) + grid.peak_cost)
    assert exit_code("explain", run.prefix, "--at", "11h") == 0
    assert "The grid charged the battery" in capsys.readouterr().out


def test_a_site_without_the_keys_has_no_yardstick(tmp_path: Path) -> None:
    run = run_on("import_limit_kw = 1.0", tmp_path / "plain")
    assert yardstick(run) is None
    assert run.grid is not None
    assert run.grid.terms is None
    assert "grid_charge_w" not in run.trace
    assert "Perfect foresight" not in {card.title for card in cards(run)}


def test_without_the_solver_there_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_on(SITES["charge"], tmp_path / "charge")

    def missing() -> None:
        raise ConfigError("planning needs highspy: pip install 'beasy-sched[plan]'")

    monkeypatch.setattr(solver, "_import_highspy", missing)
    found = yardstick(run)
    assert found is not None
    assert found.foresight_cost is None
    assert found.text == "not computed: planning needs highspy: pip install 'beasy-sched[plan]'"
    card = next(card for card in cards(run) if card.title == "Perfect foresight")
    assert (card.value, card.detail) == ("not available", found.text)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((100.0, 90.0, 200.0), "90.00 EUR; rules reach 91 % of what perfect foresight would have saved"),
        ((250.0, 90.0, 200.0), "90.00 EUR; rules cost 50.00 EUR more than a battery that does nothing"),
        ((100.0, 90.0, None), "90.00 EUR; 10.00 EUR less than the run"),
    ],
)
def test_words(given: tuple[float, float, float | None], text: str) -> None:
    assert Yardstick("EUR", *given).text == text


@pytest.mark.slow
@pytest.mark.plugins("campaigns")
def test_compare_prints_perfect_foresight(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_on(SITES["rest"], tmp_path)
    given = {"-p": "platform.xml", "-w": "w.json", "--events": "power.txt", "--site": "site.toml"}
    files = [text for option, name in given.items() for text in (option, str(tmp_path / name))]
    capsys.readouterr()
    out = str(tmp_path / "out")
    assert exit_code("compare", *files, "--policy", "easy", "--policy", "fcfs", "-o", out, "--no-report") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "perfect foresight" in line]
    assert [line.split(":")[0].strip() for line in lines] == [
        "perfect foresight, easy",
        "perfect foresight, fcfs",
    ]
    assert all("rules reach" in line or "rules cost" in line for line in lines)
    table = (tmp_path / "out/comparison.md").read_text()
    words = [line.partition(", ")[2].strip() for line in lines]
    assert table.endswith("".join(["\nPerfect foresight:\n\n", *(f"- {line}\n" for line in words)]))
