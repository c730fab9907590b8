"""The scheduler of the containers, docker/serve_folder.py, run beside the embedded simulator in a folder."""

from __future__ import annotations

import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from command_line import exit_code
from processes import free_endpoint, program, started
from project.shell import ROOT
from small_site import small_site

SCRIPT = ROOT / "docker/serve_folder.py"
SIMULATOR = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]["batsim"]["command"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_site(tmp_path, jobs=40)
    return tmp_path


def scheduler(endpoint: str, *options: str) -> list[str]:
    return [sys.executable, str(SCRIPT), *options, f"--socket-endpoint={endpoint}", "--timeout=600"]


def simulator(endpoint: str) -> list[str]:
    return [program("beasy-sched"), "batsim", f"--socket-endpoint={endpoint}", *SIMULATOR[1:]]


def serve(folder: Path, *options: str) -> str:
    """Run both sides to a good end; return what the scheduler said."""
    endpoint = free_endpoint()
    with (
        started(scheduler(endpoint, *options), folder) as deciding,
        started(simulator(endpoint), folder) as simulating,
    ):
        assert simulating.wait() == 0, simulating.said()
        assert deciding.wait() == 0, deciding.said()
        return deciding.said()


def simulated(folder: Path, *options: str | Path) -> bytes:
    """The file of jobs of the same run by `simulate`."""
    inputs = ["-p", folder / "platform.xml", "-w", folder / "workload.json", "--events", folder / "power.txt"]
    options = ("--site", folder / "site.toml", *options, "-o", folder / "other", "-q")
    assert exit_code("simulate", *map(str, [*inputs, *options])) == 0
    return (folder / "other_jobs.csv").read_bytes()


def plan(folder: Path, workload: str, power: str) -> bytes:
    inputs = ["-p", folder / "platform.xml", "--site", folder / "site.toml", "-w", folder / workload]
    inputs += ["--production", folder / power, "-o", folder / "own.msgpack", "-q"]
    assert exit_code("plan", *map(str, inputs)) == 0
    return (folder / "own.msgpack").read_bytes()


def make_forecast(folder: Path) -> None:
    """Other jobs than those that come."""
    (folder / "f").mkdir()
    forecast = small_site(folder / "f", seed=2, jobs=30)
    shutil.copy(forecast.workload, folder / "forecast_workload.json")


@pytest.mark.sampled
@pytest.mark.parametrize("forecast", [False, True])
def test_a_missing_plan_is_made_from_the_best_forecast_there_is(folder: Path, forecast: bool) -> None:
    workload = "workload.json"
    if forecast:
        make_forecast(folder)
        workload = "forecast_workload.json"
    said = serve(folder, "--policy=beasy")
    assert f"plan.msgpack is missing: making it from {workload} and power.txt\n" in said
    assert (folder / "plan.msgpack").read_bytes() == plan(folder, workload, "power.txt")
    jobs = simulated(folder, "--policy", "beasy", "--plan", folder / "plan.msgpack")
    assert (folder / "run_jobs.csv").read_bytes() == jobs


@pytest.mark.slow
def test_a_plan_that_is_there_is_used_by_every_policy(folder: Path) -> None:
    made = plan(folder, "workload.json", "power.txt")
    (folder / "plan.msgpack").write_bytes(made)
    said = serve(folder)
    assert "making" not in said
    assert (folder / "plan.msgpack").read_bytes() == made
    assert "planned / actual" in said
    assert (folder / "run_jobs.csv").read_bytes() == simulated(folder, "--plan", folder / "plan.msgpack")


@pytest.mark.slow
def test_no_plan_is_made_for_a_policy_that_needs_none(folder: Path) -> None:
    serve(folder, "--policy=easy")
    assert not (folder / "plan.msgpack").exists()


@pytest.mark.slow
def test_a_forecast_that_is_there_is_used(folder: Path) -> None:
    (folder / "forecast.csv").write_text("no forecast\n")
    done = subprocess.run(
        scheduler(free_endpoint(), "--policy=bid-price"),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 2
    assert "forecast.csv" in done.stderr


@pytest.mark.slow
def test_the_last_line_names_the_results(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", "/home/me/days")
    *_, last = serve(folder).splitlines()
    match = re.fullmatch(r"results in /home/me/days: (\S+), (\S+) and all other files (\S+)", last)
    assert match is not None
    assert (folder / match[1]).exists()
    assert (folder / match[2]).exists()
    assert {*folder.glob(match[3])} > {folder / match[1], folder / match[2]}


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["no-such", "beasy"])
def test_what_is_wrong_is_told_once(folder: Path, policy: str) -> None:
    (folder / "platform.xml").write_text("<nothing/>")
    command = scheduler(free_endpoint(), f"--policy={policy}")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2
    assert done.stderr.count("beasy-sched: ") + done.stderr.count("Error: ") == 1
    assert "Traceback" not in done.stderr
    assert not [*folder.glob("run_*"), *folder.glob("plan.msgpack")]


@pytest.mark.slow
def test_a_signal_reaches_the_daemon(folder: Path) -> None:
    with subprocess.Popen(
        scheduler(free_endpoint()), cwd=folder, stderr=subprocess.PIPE, text=True
    ) as deciding:
        assert deciding.stderr is not None
        assert "listening" in deciding.stderr.readline()
        deciding.send_signal(signal.SIGTERM)
        said = deciding.stderr.read()
        assert deciding.wait(60) == 1
    assert "SIGTERM" in said
    assert not (folder / "run_failed_summary.json").exists()  # no run had begun


def test_it_does_not_wait_forever_for_the_simulators_files(folder: Path, capfd: pytest.CaptureFixture[str]):
    script = runpy.run_path(str(SCRIPT))
    waiting = script["await_simulator"]
    waiting.__globals__["PATIENCE_S"] = 0.2
    waiting.__globals__["FINISH_S"] = 0.0

    class Quiet:
        stopped = False

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert waiting(Quiet(), None) == 1
        assert "run_schedule.csv" in capfd.readouterr().err
        last = folder / "run_schedule.csv"
        last.write_text("")
        assert waiting(Quiet(), None) == 1
        last.write_text("a\n")
        assert waiting(Quiet(), None) == 0
        stamp = script["stamp_of_last_file"]()
        assert waiting(Quiet(), stamp) == 1  # of an earlier run
        time.sleep(0.01)
        last.write_text("b\n")
        assert waiting(Quiet(), stamp) == 0
