"""What is left of a run that is killed: all windows that had ended."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from beasy_sched.cli import main
from beasy_sched.run.results import RunTables, find_prefix, find_runs, read_jobs, read_log, read_trace

WINDOW_H = 6


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    call("generate", "platform", "--servers", "gros:5", "-o", folder / "p.xml")
    jobs = (
        "--synthetic",
        "--seed",
        "1",
        "--hosts",
        "5",
        "--jobs",
        "200",
        "--day-shares",
        "1",
        "--run-median",
        "5m",
    )
    call("generate", "workload", *jobs, "-o", folder / "w.json", "-q")
    sky = ("--synthetic", "--seed", "1", "--days", "1", "--pv-kw", "2", "--wind-kw", "2")
    call("generate", "power", *sky, "-o", folder / "e.txt", "-q")
    (folder / "site.toml").write_text(
        "[battery]\ncapacity_kwh = 5\ncharge_limit_kw = 2\ndischarge_limit_kw = 2\n"
        f"[time]\nwindow_h = {WINDOW_H}\n"
    )
    return folder


def call(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code or 0


def simulation(inputs: Path, prefix: Path, *further: str) -> list[str]:
    given = {"-p": "p.xml", "-w": "w.json", "--events": "e.txt", "--site": "site.toml"}
    files = [part for option, name in given.items() for part in (option, str(inputs / name))]
    return ["simulate", *files, "--windows", "4", "--policy", "easy", "-q", "-e", str(prefix), *further]


def killed(inputs: Path, prefix: Path, *further: str) -> int:
    """Start a run, kill it after the end of its first window at the earliest, and return the exit code."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", SLOW, *simulation(inputs, prefix, *further)]
    process = subprocess.Popen(command)
    part = prefix.with_name(f".{prefix.name}_summary.json.part")
    while process.poll() is None and not (part.exists() and part.stat().st_size):
        time.sleep(0.005)
    process.kill()
    return process.wait()


SLOW = """
import sys, time
from beasy_sched.cli import main
from beasy_sched.outputs.files import RunFiles
keep = RunFiles.keep_so_far
def keep_and_wait(*arguments):
    keep(*arguments)
    time.sleep(60)
RunFiles.keep_so_far = keep_and_wait
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_killed_run_keeps_its_windows(inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert call(*simulation(inputs, tmp_path / "whole/run")) == 0
    assert killed(inputs, tmp_path / "cut/run") == -9
    prefix = str(tmp_path / "cut/run")
    for command in ("explain", "report"):
        assert call(command, prefix, *(["-o", tmp_path / "r.html"] if command == "report" else [])) == 2
        assert f"beasy-sched recover {prefix}" in capsys.readouterr().err
    assert call("recover", prefix) == 0
    assert not [path for path in (tmp_path / "cut").iterdir() if "failed" not in path.name]
    prefix = f"{prefix}_failed"
    cut, whole = Path(prefix), tmp_path / "whole" / "run"
    summary = RunTables(str(cut)).summary
    assert (summary["complete"], summary["error"]) == (False, "the run was killed after window 1")
    assert summary["windows"] == json.loads(Path(f"{whole}_summary.json").read_text())["windows"][:1]
    steps = [*read_trace(prefix)]
    assert len(steps) == WINDOW_H * 12
    assert steps == [*read_trace(str(whole))][: len(steps)]
    log = [*read_log(prefix)]
    assert log == [*read_log(str(whole))][: len(log)]
    rows = [*read_jobs(prefix)]
    assert rows == [*read_jobs(str(whole))][: len(rows)]
    assert summary["jobs"]["finished"] == len(rows) > 0
    assert not [*tmp_path.glob("cut/.*.part")]
    assert find_prefix(prefix) == prefix
    assert [*find_runs([prefix]).values()] == [prefix]


@pytest.mark.slow
def test_a_window_s_end_changes_no_byte_of_the_results(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert call(*simulation(inputs, tmp_path / "kept/run")) == 0
    monkeypatch.setattr("beasy_sched.outputs.files.RunFiles.keep_so_far", lambda *_: None)
    assert call(*simulation(inputs, tmp_path / "not/run")) == 0
    kept, not_kept = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir() if "schedule" not in path.name}
        for name in ("kept", "not")
    )  # the schedule file has real times
    assert kept == not_kept
    assert len(kept) == 8


def test_nothing_to_recover(inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    prefix = tmp_path / "run"
    assert call("recover", prefix) == 2
    assert "nothing can be recovered: no .part files with this prefix" in capsys.readouterr().err
    part = tmp_path / ".run_summary.json.part"
    part.touch()
    assert call("recover", prefix) == 2
    assert "nothing can be recovered: no window had ended" in capsys.readouterr().err
    part.write_text("{")
    assert call("recover", prefix) == 2
    assert "is damaged" in capsys.readouterr().err


def test_a_run_that_goes_on_is_left_alone(inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from beasy_sched.formats.atomic import PartFile

    with PartFile(tmp_path / "run_summary.json") as part:
        part.write("{}")
        part.keep()
        assert call("recover", tmp_path / "run") == 2
    assert "is still being written: the run has not ended" in capsys.readouterr().err


@pytest.mark.slow
def test_a_file_shorter_than_it_was_is_told(inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert killed(inputs, tmp_path / "cut/run") == -9
    (tmp_path / "cut/.run_jobs.csv.part").write_text("")
    assert call("recover", tmp_path / "cut/run") == 2
    assert "is shorter than the" in capsys.readouterr().err


@pytest.mark.slow
def test_plans_made_before_it_was_killed_are_recovered(inputs: Path, tmp_path: Path):
    """Until then they are hidden, and those of an earlier run stay; the next run removes what is left."""
    pytest.importorskip("highspy")
    prefix, old = tmp_path / "cut/run", tmp_path / "cut/run_plans/0000.msgpack"
    replan = ("--replan", "window", "--replan-workload", str(inputs / "w.json"))
    replan += ("--replan-production", str(inputs / "e.txt"))
    old.parent.mkdir(parents=True)
    old.write_text("old")
    assert killed(inputs, prefix, *replan) == -9
    assert old.read_text() == "old"
    assert call("recover", prefix) == 0
    assert old.read_text() == "old"
    assert (tmp_path / "cut/run_failed_plans/0000.msgpack").exists()
    assert (tmp_path / "cut/run_failed_plans.csv").exists()
    assert not [*(tmp_path / "cut").rglob(".*")]
    assert killed(inputs, prefix, *replan) == -9
    assert (tmp_path / "cut/.run_plans.part").is_dir()
    assert call(*simulation(inputs, prefix)) == 0
    assert not [path for path in (tmp_path / "cut").rglob("*") if "plans" in path.name or path.name[0] == "."]
