"""The README is true: its commands run, its tables are complete."""

import re
import sys
from pathlib import Path

import pytest
from project.played import OWN_DATA, README, blocks, make_place, play
from project.shell import run

NOT_RUN = {"scripts/test\n": "these tests are what it runs"}
"""Commands that are not run here, and why."""
SHORTER = {"scripts/run\n": "scripts/run --policy beasy --policy peak\n"}
"""Commands that run with two of their policies only; `test_fresh_clone.py` gives them as they are."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_place(tmp_path_factory.mktemp("user"))


@pytest.fixture(scope="module")
def played(place: Path) -> Path:
    """The folder after all commands: tests that need it may run in another process than the first."""
    known = [block for block in blocks(README, "bash") if block not in NOT_RUN]
    assert len(blocks(README, "bash")) == len(known) + len(NOT_RUN)
    assert {*SHORTER} <= {*known}
    (code,) = blocks(README, "python")
    play(place, f"python - <<'END'\n{code}END\n")  # makes files for the others
    for block in known:
        play(place, SHORTER.get(block, block))
    return place


def test_every_command_runs(played: Path):
    for name in ("run/beasy/run", "run/peak/run", "batsim"):
        for written in ("jobs.csv", "energy_trace.csv", "decisions.jsonl", "summary.json"):
            assert (played / f"out/{name}_{written}").stat().st_size > 100


@pytest.mark.slow
def test_own_data_are_compared_with_one_command(place: Path):
    (command,) = blocks(OWN_DATA, "bash")
    play(place, command)
    assert (place / "out/mine/power-reactive/run_summary.json").stat().st_size > 100


@pytest.mark.slow
def test_the_python_lines_run(place: Path):
    pytest.importorskip("pandas")
    (code,) = blocks(README, "python")
    done = run(sys.executable, "-c", code, cwd=place)
    assert done.returncode == 0, done.stderr
    finished, lowest = done.stdout.split()
    assert 500 < int(finished) <= 900
    assert 19 <= float(lowest) <= 50  # below SoC_min by sleep and transitions only


@pytest.mark.slow
def test_the_policies_that_are_shown_exist():
    shown = re.findall(r"^\| `([\w-]+)` \|", README.partition("## Policies")[2].partition("\n## ")[0], re.M)
    done = run(sys.executable, "-m", "beasy_sched", "policies")
    compared = re.findall(r"^([a-z-]+) +\d+\.\d ", README.partition("## Inspecting a run")[0], re.M)
    assert len(compared) == 9
    assert {*shown} >= {*compared, "easy", "greenslot"}
    assert {*shown} < {line.split()[0] for line in done.stdout.splitlines()}


@pytest.mark.slow
def test_the_story_of_a_job_is_what_is_told(played: Path):
    command, told = re.findall(r"`beasy-sched (explain [^`]+)` shows.*?```text\n(.*?)```", README, re.DOTALL)[
        0
    ]
    done = run(sys.executable, "-m", "beasy_sched", *command.split(), cwd=played)
    assert " ".join(told.split()) in " ".join(done.stdout.split())  # lines break as wide as the terminal is
