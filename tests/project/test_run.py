"""scripts/run, the main job, with all its real parts."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from main_job import parse_arguments, power_arguments, site_text, workload_arguments
from project.shell import ROOT, run

from beasy_sched.energy.site import parse_site

RUN = ROOT / "scripts" / "run"
FILES = {
    "platform.xml", "workload.json", "power.txt", "site.toml", "plan.msgpack", "plan.png",
    "run_jobs.csv", "run_schedule.csv", "run_machine_states.csv", "run_pstate_changes.csv",
    "run_consumed_energy.csv", "run_energy_trace.csv", "run_decisions.jsonl", "run_summary.json",
}  # fmt: skip


def summary(folder: Path) -> dict:
    return json.loads((folder / "run_summary.json").read_text())


def test_from_any_folder_twice_with_the_same_result(tmp_path: Path):
    traces = []
    for _ in range(2):
        done = run(RUN, "--quick", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert {path.name for path in (tmp_path / "out/run").iterdir()} == FILES
        traces.append((tmp_path / "out/run/run_energy_trace.csv").read_text())
    assert traces[0] == traces[1]
    assert len(traces[0].splitlines()) == 1 + 24 * 12
    assert "jobs submitted" in done.stdout
    assert all(name in done.stdout for name in FILES)
    assert summary(tmp_path / "out/run")["jobs"]["submitted"] == 300
    assert "planned / real: production" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--quick"], ["--swf", "x.swf"]])
def test_the_seed_goes_to_all_that_is_drawn(arguments: list[str]):
    chosen = parse_arguments([*arguments, "--seed", "7"])
    for asked in (workload_arguments(chosen, 3.0), power_arguments(chosen, parse_site(site_text(chosen)))):
        assert asked[asked.index("--seed") + 1] == "7"


def test_own_trace_and_weather(tmp_path: Path):
    rows = [f"{n} {n * 600} 5 {300 + n} 4 -1 -1 4 900 -1 1 1 1 -1 1 -1 -1 -1" for n in range(1, 200)]
    (tmp_path / "own.swf").write_text("; MaxProcs: 64\n" + "\n".join(rows) + "\n")
    sky = run(sys.executable, "-m", "beasy_sched", "generate", "power", "--synthetic", "--pv-kw", "10",
              "--wind-kw", "7", "--write-ninja", "own", "-o", "power.txt", cwd=tmp_path)  # fmt: skip
    assert sky.returncode == 0, sky.stderr
    done = run(RUN, "--quick", "--swf", "own.swf", "--cores-per-host", "2", "--ninja-pv", "own_pv.csv",
               "--ninja-wind", "own_wind.csv", "--out", "own", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    jobs = json.loads((tmp_path / "own/workload.json").read_text())["jobs"]
    assert {job["res"] for job in jobs} == {2}
    assert summary(tmp_path / "own")["jobs"]["submitted"] == len(jobs) > 100
    day = (tmp_path / "power.txt").read_text().splitlines()[: 24 * 12]
    own = (tmp_path / "own/power.txt").read_text().splitlines()
    assert len(own) == len(day)
    got, expected = (sum(json.loads(line)["power_available"] for line in lines) for lines in (own, day))
    assert got == pytest.approx(expected, rel=0.02)


def test_own_site(tmp_path: Path):
    (tmp_path / "site.toml").write_text(
        "[battery]\ncapacity_kwh = 50\ncharge_limit_kw = 20\ndischarge_limit_kw = 20\n"
        "[time]\nwindow_h = 12\nstep_s = 600\n"
    )
    done = run(RUN, "--site", "site.toml", "--policy", "fcfs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path / "out/run")["settings"]["policy"] == "fcfs"
    assert len((tmp_path / "out/run/run_energy_trace.csv").read_text().splitlines()) == 1 + 72


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "nonsense"], "no policy is called 'nonsense'"),
        (["--options", "{"], "--options"),
        (["--site", "missing.toml"], "missing.toml"),
        (["--swf", "missing.swf"], "missing.swf"),
        (["--ninja-pv", "missing.csv"], "missing.csv"),
        (["--from", "3d"], "--swf"),
        (["--quick", "--site", "site.toml"], "window_h"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_mistakes_are_told_and_the_exit_code_is_2(arguments: list[str], message: str, tmp_path: Path):
    done = run(RUN, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_every_option():
    done = run(RUN, "--help")
    assert done.returncode == 0
    for option in ("--policy", "--swf", "--ninja-pv", "--ninja-wind", "--seed", "--out", "--quick"):
        assert option in done.stdout


@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps to look for processes with")
def test_ctrl_c_in_the_middle(tmp_path: Path):
    """Ctrl-C reaches the whole foreground group, as on a terminal; nothing stays behind."""
    process = subprocess.Popen(
        [RUN, "--out", tmp_path / "stopped"],
        env={**os.environ, "BEASY_VENV": sys.prefix},
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("listening on"):
            break
    os.killpg(process.pid, signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(30) == 128 + signal.SIGINT
    assert "run: SIGINT" in rest
    assert "Traceback" not in rest
    assert not _processes_with(str(tmp_path / "stopped"))


def _processes_with(text: str) -> list[str]:
    time.sleep(0.1)
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if text in line]
