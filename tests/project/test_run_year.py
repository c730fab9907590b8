"""scripts/run_year: a year in one run, on a few days."""

import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import exit_code
from project.shell import ROOT, run

from beasy_sched.plugins.campaigns.commands.year import explain_command
from beasy_sched.units import parse_duration

RUN = ROOT / "scripts" / "run_year"
FEW = ("--days", "3", "--policy", "power-reactive", "--policy", "easy")


@pytest.mark.slow
def test_a_table_by_month_a_picture_and_all_results(tmp_path: Path):
    done = run(RUN, *FEW, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out/year"
    assert (out / "year.png").read_bytes().startswith(b"\x89PNG")
    table = (out / "months.txt").read_text()
    assert "power-reactive" in table
    assert "easy" in table
    (row,) = [line for line in table.splitlines() if line.startswith("2024-01")]
    assert row.split()[2] == "300"
    assert table.rstrip() in done.stdout
    assert (out / "easy/run_summary.json").exists()
    assert not (out / "easy/progress").exists()
    assert "--replan window" in done.stderr
    for kind in ("workload.json", "power.txt"):
        assert (out / kind).read_bytes() != (out / f"forecast_{kind}").read_bytes()
    assert max(map(len, done.stdout.splitlines())) <= 100
    hint = shlex.split(done.stdout.partition("To explain a step: beasy-sched ")[2])
    assert hint == ["explain", "out/year/power-reactive", "--at", "1d12h"]
    explained = run(Path(sys.executable).parent / "beasy-sched", *hint, cwd=tmp_path)
    assert explained.returncode == 0, explained.stderr
    assert explained.stdout.startswith("Step 144, 1d 12:00:00")


@pytest.mark.slow
def test_a_single_server(tmp_path: Path):
    """Its jobs ask for no more than there is."""
    done = run(RUN, "--days", "1", "--servers", "1", "--policy", "easy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--host-shares 1:70" in done.stdout + done.stderr
    assert (tmp_path / "out/year/easy/run_summary.json").exists()


@pytest.mark.parametrize(("days", "at"), [(1, "0d12h"), (2, "1d12h"), (6, "3d12h"), (365, "20d12h")])
def test_the_moment_of_the_hint_is_within_the_run(days: int, at: str):
    words = shlex.split(explain_command(Path("my year/easy"), days))
    assert words == ["beasy-sched", "explain", "my year/easy", "--at", at]
    assert parse_duration(at) < days * 86_400.0


@pytest.mark.slow
def test_a_policy_that_fails_leaves_the_others_whole(tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        "from beasy_sched.policies import Policy\n"
        "class Broken(Policy):\n"
        "    name = 'broken'\n"
        "    def schedule(self, view):\n"
        "        raise RuntimeError('no idea')\n"
    )
    policies = ("--policy", "mine:Broken", "--policy", "easy")
    done = run(RUN, "--days", "1", *policies, cwd=tmp_path, variables={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "no idea" in done.stdout + done.stderr
    assert (tmp_path / "out/year/months.txt").exists()


@pytest.mark.slow
def test_ctrl_c_stops_it_and_says_so(tmp_path: Path):
    ours, theirs = pty.openpty()
    old = [tmp_path / "out/year" / name for name in ("months.txt", "year.png", "power-reactive/run_jobs.csv")]
    for path in old:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("old")
    process = subprocess.Popen(
        [RUN, "--quick", "--policy", "power-reactive"], cwd=tmp_path,
        env={**os.environ, "BEASY_VENV": sys.prefix}, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    decisions = tmp_path / "out/year/power-reactive/.run_decisions.jsonl.part"
    deadline = time.monotonic() + 120
    while not decisions.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 128 + signal.SIGINT
    os.close(ours)
    assert {path.read_text() for path in old} == {"old"}
    assert not [*(tmp_path / "out").rglob(".*")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--quick", "--days", "3"), "--quick sets the number of days: omit --days"),
        (("--start", "June"), "found 'June', expected a day such as 2019-01-01"),
        (("--start", "0001-01-01"), "expected a day such as"),
        (("--start", "9999-01-01"), "expected a day such as"),
        (("--start", "2024-13-01"), "expected a day such as"),
        (("--days", "0"), "found '0', expected an integer from 1 to 3660"),
        (("--wind-kw", "-1"), "found '-1', expected a number from 0 to 1000000"),
        (("--days", "3", "--site", "none.toml"), "File 'none.toml' does not exist"),
        (("--days", "3", "--policy", "nobody"), "nobody"),
    ],
)
def test_bad_input_has_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    arguments: tuple[str, ...], message: str,
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert exit_code("year", *arguments) == 2
    told = capfd.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_the_script_ends_as_the_command_does(tmp_path: Path):
    done = run(RUN, "--start", "June", cwd=tmp_path)
    assert done.returncode == 2
    assert "found 'June', expected a day such as 2019-01-01" in done.stderr
