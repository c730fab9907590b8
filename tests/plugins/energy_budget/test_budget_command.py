"""--budget, --period, --shutdown, --allocation: part of the policy's options, clear when they are wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import exit_code


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("budget")
    platform, workload = str(place / "p.xml"), str(place / "w.json")
    assert exit_code("generate", "platform", "-n", "taurus:8", "--one-pstate", "-o", platform, "-q") == 0
    synthetic = ("generate", "workload", "--synthetic", "--hosts", "8", "--jobs", "30")
    assert exit_code(*synthetic, "--platform-preset", "taurus", "-o", workload, "-q") == 0
    return place


def simulate(place: Path, *arguments: str) -> int:
    files = ("-p", str(place / "p.xml"), "-w", str(place / "w.json"), "-e", str(place / "run"))
    return exit_code("simulate", *files, "-q", *arguments)


def test_the_flags_become_options(place: Path) -> None:
    flags = (
        "--budget",
        "60%",
        "--period",
        "6h:1d",
        "--shutdown",
        "opportunistic",
        "--allocation",
        "contiguous",
    )
    assert simulate(place, "--policy", "energybud", *flags, "--options", '{"monitoring": "5m"}') == 0
    summary = json.loads((place / "run_summary.json").read_text())
    assert summary["settings"]["options"] == {
        "monitoring": "5m",
        "budget": "60%",
        "shutdown": "opportunistic",
        "allocation": "contiguous",
        "period_start": "6h",
        "period_end": "1d",
    }
    budget = summary["budget"]
    assert budget["budget_j"] == pytest.approx(0.6 * 8 * 190.74 * 18 * 3600)
    assert budget["share"] == pytest.approx(0.6)
    assert 0 < budget["used_j"] <= budget["budget_j"]
    assert budget["excess_j"] == 0
    assert budget["measurements"] == 18 * 12 + 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--budget 60% --period 2d", "expected START:END"),
        ("--budget 60% --period 2d:1d", "expected more than period_start (172800 s)"),
        ("--budget 60% --period 2d:5y", "'5y' is not a duration"),
        (
            '--budget 60% --options {"budget":"50%"}',
            "--budget 60% and the policy's option budget=50%",
        ),
        ("--period 0:1d --option period_end=2d", "--period 0:1d and the policy's option period_end=2d are"),
        ("--option budget=50% --option budget=60%", "--option budget=60%: 'budget' is given twice ('50%'"),
        ("--budget 60%", "the end of its period"),
        ("--budget 60 --period 0:1d", "expected a share"),
        ("--budget much --period 0:1d", "expected a share"),
        ("--budget -1J --period 0:1d", "expected a share"),
        ("--period 0:1d", "requires a budget"),
        ("--shutdown opportunistic", "requires a budget"),
        ("--budget 60% --period 0:1d --no-power-actions", "remove --no-power-actions"),
        ('--budget 60% --period 0:1d --options {"idle_w":{"gros":1}}', "unknown kind of server 'gros'"),
        ('--budget 60% --period 0:1d --options {"idle_w":-1}', "expected watts"),
        ('--budget 60% --period 0:1d --options {"monitoring":0}', "expected more than 0 s"),
    ],
)
def test_what_is_wrong_is_told(
    place: Path, arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(place, "--policy", "reducepc", *arguments.split()) == 2
    assert told in capsys.readouterr().err


def test_other_policies_know_no_budget(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(place, "--policy", "easy", "--budget", "60%", "--period", "0:1d") == 2
    assert "budget: no such field" in capsys.readouterr().err


@pytest.mark.parametrize("policy", ["energybud", "reducepc", "powercap"])
def test_unlimited_is_easy_byte_for_byte(place: Path, policy: str) -> None:
    files = {}
    for name, arguments in {
        "easy": (),
        policy: ("--budget", "inf", "--period", "6h:1d"),
    }.items():
        assert simulate(place, "--policy", name, *arguments) == 0
        files[name] = (place / "run_jobs.csv").read_bytes()
    assert files["easy"] == files[policy]


def test_stated_powers_by_kind(place: Path) -> None:
    powers = '{"idle_w": {"taurus": 100}, "computing_w": 203.12}'
    budget = ("--budget", "0.5", "--period", ":1d")
    assert simulate(place, "--policy", "powercap", *budget, "--options", powers) == 0
    found = json.loads((place / "run_summary.json").read_text())["budget"]
    assert found["budget_j"] == pytest.approx(0.5 * 8 * 203.12 * 86400)


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ("60%", [" kWh (60 %)", "used in its period"]),
        ("1%", [" kWh (1 %)", "used in its period", "more than the budget"]),
        ("inf", ["energy budget                    none\n", "used in its period"]),
    ],
)
def test_the_table_tells_of_the_budget(
    place: Path, budget: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("-p", str(place / "p.xml"), "-w", str(place / "w.json"))
    period = ("--budget", budget, "--period", "0:1d")
    assert exit_code("simulate", *files, "--policy", "energybud", *period) == 0
    table = capsys.readouterr().out
    for part in told:
        assert part in table
    assert ("more than the budget" in table) == (budget == "1%")


def test_check_tells_of_servers_without_powers(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A budget requires them, of the platform or of the options; the run fails, and so does `check`."""
    text, count = re.subn(r'<prop id="[^"]*(?:watt|sleep)[^"]*"[^>]*>', "", (place / "p.xml").read_text())
    assert count
    (tmp_path / "bare.xml").write_text(text)
    files = ("-p", str(tmp_path / "bare.xml"), "-w", str(place / "w.json"), "-q")
    flags = ("--policy", "energybud", "--budget", "1kWh", "--period", "0:1d")
    for command in ("check", "simulate"):
        assert exit_code(command, *files, *flags) == 2
        message = capsys.readouterr().err
        assert "an energy budget requires powers, but servers of kind" in message
        assert "add wattage_per_state to the hosts of the platform file, or set the policy's" in message
    states = ("idle", "computing", "sleeping", "switching_off", "switching_on")
    options = [each for state in states for each in ("--option", f"{state}_w=100")]
    assert exit_code("simulate", *files, *flags, *options) == 0
    assert exit_code("check", *files, *flags, *options) == 1
