"""What every command does when the machine, not the user, is the cause."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import exit_code
from plugins.reports.story_files import write_run

from beasy_sched.limits import LONGEST_ERROR

FULL = Path("/dev/full")


def test_more_than_the_memory_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "w.json"
    jobs = str(10**15)
    assert exit_code("generate", "workload", "--synthetic", "--jobs", jobs, "-o", str(out)) == 1
    told = capsys.readouterr().err
    assert told.startswith("beasy-sched: not enough memory: reduce the size of the problem")
    assert told.count("\n") == 1
    assert not out.exists()


@pytest.mark.sampled
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_the_standard_output(tmp_path: Path, unbuffered: str) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "beasy_sched", "explain", write_run(tmp_path), "--job", "a"]
    with FULL.open("w") as full:
        ended = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env=environment, text=True, timeout=600
        )
    assert ended.returncode == 1
    assert ended.stderr == "beasy-sched: the output cannot be written: No space left on device\n"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("closed", "code", "told"),
    [
        (">&-", 1, "beasy-sched: the output cannot be written: it is closed\n"),
        (">/dev/null 2>&-", 0, ""),
    ],
)
@pytest.mark.parametrize(
    "command", ["explain {run} --job a", "generate workload --synthetic --jobs 3 --hosts 4 -o -"]
)
def test_a_stream_that_the_shell_has_closed(
    tmp_path: Path, command: str, closed: str, code: int, told: str
) -> None:
    arguments = command.format(run=write_run(tmp_path))
    shell = ["sh", "-c", f"{sys.executable} -m beasy_sched {arguments} {closed}"]
    ended = subprocess.run(shell, stderr=subprocess.PIPE, text=True, timeout=600)
    assert ended.returncode == code
    assert ended.stderr.endswith(told)
    assert "Traceback" not in ended.stderr


LONG = "a" * 5000


@pytest.mark.skipif(sys.platform == "win32", reason="names as POSIX has them")
@pytest.mark.parametrize(
    "command",
    [
        ("report", LONG, "-o", "page.html"),
        ("explain", LONG),
        ("campaign", "status", LONG),
        ("simulate", "-p", "p.xml", "-w", "w.json", "--site", LONG),
        ("convert", LONG, "-o", "w5.json"),
        ("replay", LONG),
        ("policies", LONG),
    ],
)
def test_a_name_that_no_file_can_have(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*command) == 2
    message = capsys.readouterr().err
    assert message.startswith("beasy-sched: ")
    assert message.count("\n") == 1
    assert len(message) < LONGEST_ERROR + 100
    assert ("File name too long" in message) != (command[0] == "policies")
