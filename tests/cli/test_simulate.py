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


@pytest.mark.plugins("energy_budget")
def test_a_budget_is_measured(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(place, "--policy", "energybud", "--budget", "60%", "--period", "0:1d") == 2
    assert "remove --no-power-actions and --no-metering" in capsys.readouterr().err


def changed(place: Path, name: str, old: str, new: str) -> Path:
    text = (place / "p.xml").read_text()
    assert old in text
    (place / name).write_text(text.replace(old, new))
    return place / name


ROLE = '<prop id="role" value="master"/>'
MASTER = '<host id="master_host" coordinates="0 0 0" speed="1000000000f">'


def test_a_platform_of_an_older_version_is_read_with_a_warning(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = str(changed(place, "old.xml", MASTER, MASTER + ROLE))
    files = ("-p", platform, "-w", str(place / "w.json"))
    assert exit_code("simulate", *files, "--policy", "fcfs") == 0
    told = capsys.readouterr().err
    assert told.count("warning: host 'master_host' has the property role=master and is the master host") == 1
    assert exit_code("simulate", *files, "--policy", "fcfs", "-m", "none") == 0
    assert "role" not in capsys.readouterr().err


def test_powers_that_batsim_4_2_would_not_find_are_told_once(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = changed(place, "before.xml", 'id="wattage_', 'id="unknown_')
    files = ("-w", str(place / "w.json"), "--policy", "workload-reactive")
    assert exit_code("simulate", "-p", str(place / "p.xml"), *files) == 0
    usual = capsys.readouterr()
    assert "warning" not in usual.err
    assert exit_code("simulate", "-p", str(platform), *files) == 0
    found = capsys.readouterr()
    assert found.err.count("has its powers only under the name used by Batsim 4.0") == 1
    assert found.out == usual.out  # full hosts draw the same under both names
    # without metering nobody but the daemon, which has them from the messages, needs the powers
    assert exit_code("simulate", "-p", str(platform), *files, "--no-metering") == 0
    assert capsys.readouterr().err.count("has its powers only under the name used by Batsim 4.0") == 1


def test_a_run_that_does_not_reach_its_end_is_no_success(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "idle.py").write_text(
        "from beasy_sched.policies import Policy\n"
        "class Idle(Policy):\n"
        "    def schedule(self, view):\n"
        "        return ()\n"
    )
    monkeypatch.syspath_prepend(str(place))
    assert simulate(place, "--policy", "idle:Idle") == 1
    told = capsys.readouterr().err
    assert told.splitlines()[-1].startswith("beasy-sched: the run is incomplete: deadlock")
    assert not json.loads((place / "run_summary.json").read_text())["complete"]
    assert (place / "run_jobs.csv").exists()


# --- hosts that do not start in P-state 0 ---

SITE = "[battery]\ncapacity_kwh = 6.0\ncharge_limit_kw = 3.0\ndischarge_limit_kw = 3.0\n"


def starting_in(place: Path, *pstates: int) -> Path:
    text = (place / "p.xml").read_text()
    for number, pstate in enumerate(pstates, 1):
        host = f'<host id="gros-{number}" pstate="'
        assert host + '0"' in text
        text = text.replace(host + '0"', f'{host}{pstate}"')
    name = place / f"p-{'-'.join(map(str, pstates))}.xml"
    name.write_text(text)
    return name


@pytest.mark.sampled
@pytest.mark.parametrize("pstates", [(12, 12, 12, 12), (0, 12, 13, 13), (13, 13, 13, 13)])
def test_hosts_that_start_in_another_p_state(place: Path, pstates: tuple[int, ...]) -> None:
    (place / "site.toml").write_text(SITE)
    files = ["-p", str(starting_in(place, *pstates)), "-w", str(place / "w.json")]
    files += ["--events", str(place / "power.txt"), "--site", str(place / "site.toml")]
    record = str(place / "run.rec")
    outputs = ["-e", str(place / "other"), "--record", record, "-q"]
    assert exit_code("simulate", *files, *outputs, "--policy", "workload-reactive") == 0
    summary = json.loads((place / "other_summary.json").read_text())
    energy_kwh = summary["energy_kwh"]
    assert summary["warnings"] == []
    # SimGrid meters the first step of hosts that start asleep as if they were idle
    most_kwh = pstates.count(13) * 300 * 100 / 3.6e6
    assert energy_kwh["consumed_by_own_account"] <= energy_kwh["consumed"] * (1 + 1e-6)
    assert energy_kwh["consumed_by_own_account"] >= energy_kwh["consumed"] * (1 - 1e-6) - most_kwh
    assert exit_code("replay", record) == 0


def test_a_deadlock_is_a_failed_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All hosts sleep, and the policy wakes none."""
    files = ["-p", str(starting_in(place, 13, 13, 13, 13)), "-w", str(place / "w.json")]
    assert exit_code("simulate", *files, "-e", str(place / "stuck"), "--policy", "easy", "-q") == 1
    assert "deadlock: jobs are waiting but no events are left" in capsys.readouterr().err
    assert not json.loads((place / "stuck_summary.json").read_text())["complete"]
