"""--traceback shows the calls that led to an error; without it there is one line, with a hint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

POLICIES = """\
import json
from beasy_sched.policies import Policy

class Broken(Policy):
    def schedule(self, view):
        return json.loads("{")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traceback")
    (folder / "broken.py").write_text(POLICIES)
    made = [["platform", "--servers", "gros:4", "-o", "p.xml"]]
    made.append(["workload", "--synthetic", "--jobs", "3", "--hosts", "4", "-o", "w.json"])
    for arguments in made:
        done = beasy(folder, "generate", *arguments)
        assert done.returncode == 0, done.stderr
    return folder


def beasy(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "beasy_sched", *arguments]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)


RUN = ("simulate", "-p", "p.xml", "-w", "w.json", "--policy", "broken:Broken")


@pytest.mark.slow
def test_one_line_names_the_place_in_the_authors_file(folder: Path) -> None:
    done = beasy(folder, *RUN)
    assert done.returncode == 1
    line, hint = done.stderr.splitlines()
    assert line.endswith(f"({folder / 'broken.py'}:6)")  # not a line of json's
    assert hint == "beasy-sched: add --traceback to see the full Python traceback"


@pytest.mark.sampled
@pytest.mark.parametrize("arguments", [(*RUN, "--traceback"), ("--traceback", *RUN)])
def test_the_calls_are_shown_before_the_line(folder: Path, arguments: tuple[str, ...]) -> None:
    done = beasy(folder, *arguments)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert f'  File "{folder / "broken.py"}", line 6, in schedule' in lines
    assert lines[-1].startswith(
        "beasy-sched: policy 'broken:Broken' failed at 0 s, in schedule: JSONDecodeError"
    )
    assert not any("add --traceback" in line for line in lines)


@pytest.mark.slow
def test_other_errors_have_no_hint(folder: Path) -> None:
    done = beasy(folder, "simulate", "-p", "nothing.xml", "-w", "w.json")
    assert done.returncode == 2
    assert "--traceback" not in done.stderr
    assert "Traceback" in beasy(folder, "simulate", "-p", "nothing.xml", "-w", "w.json", "--traceback").stderr


@pytest.mark.sampled
@pytest.mark.parametrize(
    "command", ["serve", "campaign run", "plan", "plan show", "generate platform", "policies"]
)
def test_every_command_takes_it(folder: Path, command: str) -> None:
    assert "--traceback" in beasy(folder, *command.split(), "--help").stdout
