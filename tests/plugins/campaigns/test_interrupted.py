"""Campaigns that are stopped, gently or not, and go on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_campaign import SMALL, run_campaign, scenario

COMMAND = [sys.executable, "-m", "beasy_sched", "campaign"]
PATIENCE_S = 120


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Begin the small campaign as a program of its own, in a process group of its own."""
    file = folder.parent / "small.toml"
    file.write_text(SMALL)
    arguments = ["run", str(file), "-o", str(folder), "-j", "2", "-q"]
    return subprocess.Popen(
        [*COMMAND, *arguments],
        start_new_session=True,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder.parent)},  # what the killed leave behind goes with the test
    )


def rows(folder: Path) -> int:
    return len([name for name in os.listdir(folder / "rows") if name.endswith(".json")])


def wait_for_rows(folder: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not (folder / "rows").is_dir() or rows(folder) < count:
        assert process.poll() is None, "the campaign ended before it could be interrupted"
        assert time.monotonic() < end
        time.sleep(0.01)


def is_gone(group: int) -> bool:
    """Whether nobody is left in a process group, after a moment."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The table of a campaign that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    run_campaign(folder)
    return (folder / "runs.parquet").read_bytes()


@pytest.mark.slow
def test_killed_at_random_moments_it_comes_to_the_same_bytes(expected, tmp_path):
    folder = tmp_path / "out"
    moments = random.Random(5)
    codes = []
    for count in (0, 1, 4, 8):
        process = start(folder)
        if count:
            wait_for_rows(folder, count, process)
        time.sleep(moments.uniform(0.0, 0.1))
        process.kill()  # the campaign alone: its runs are left to themselves
        codes.append(process.wait())
        process.stderr.close()
    assert codes[:2] == [-signal.SIGKILL] * 2
    done = rows(folder) if (folder / "rows").is_dir() else 0
    assert subprocess.run([*COMMAND, "resume", str(folder), "-q"], timeout=PATIENCE_S).returncode == 0
    assert rows(folder) == 12 >= done
    assert (folder / "runs.parquet").read_bytes() == expected
    assert not list(folder.rglob("*.part"))


@pytest.mark.slow
def test_what_has_ended_before_a_kill_is_not_run_again(expected, tmp_path):
    folder = tmp_path / "out"
    process = start(folder)
    wait_for_rows(folder, 3, process)
    process.kill()
    process.communicate()
    times = {path.name: path.stat().st_mtime_ns for path in (folder / "rows").glob("*.json")}
    assert run_campaign(folder, scenario()).executed == 12 - len(times)
    assert all((folder / "rows" / name).stat().st_mtime_ns == moment for name, moment in times.items())
    assert (folder / "runs.parquet").read_bytes() == expected


@pytest.mark.sampled
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_it_says_how_to_go_on_and_leaves_nothing_behind(number, code, tmp_path):
    folder = tmp_path / "out"
    process = start(folder)
    wait_for_rows(folder, 2, process)
    os.killpg(process.pid, number)  # as a terminal does, to all of its processes
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    text = said.decode()
    assert f"beasy-sched campaign resume {folder}" in text
    assert "Traceback" not in text
    assert not (folder / "runs.parquet").exists()
    assert is_gone(process.pid)
    assert run_campaign(folder, scenario()).failed == 0
