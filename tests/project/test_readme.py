"""The README and its examples are true: their commands run, their tables are complete."""

import json
import os
import re
import shutil
import socket
import sys
from pathlib import Path

import pytest
from project.shell import ROOT, run

README = (ROOT / "README.md").read_text("utf-8")
EXAMPLES = (ROOT / "docs/guides/examples.md").read_text("utf-8")
NOT_RUN = {
    "scripts/test\n": "these tests are what it runs",
    "scripts/reproduce_critical --quick\nscripts/reproduce_average --quick\n": "test_reproduce.py runs them",
    ". .venv/bin/activate      # or: pip install '.[plan,plot]'\n": "the tests have an environment",
}
"""Commands that are not run here, and why."""


def blocks(language: str) -> list[str]:
    """Those of the README, then those of the examples."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README + EXAMPLES, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scripts, a trace and exports of the weather, and a `batsim` on the PATH."""
    place = tmp_path_factory.mktemp("user")
    shutil.copytree(ROOT / "scripts", place / "scripts")
    rows = [f"{n} {n * 900} 5 {300 + n} 32 -1 -1 32 900 -1 1 1 1 -1 1 -1 -1 -1" for n in range(1, 500)]
    (place / "trace.swf").write_text("; MaxProcs: 800\n" + "\n".join(rows) + "\n")
    sky = ["generate", "power", "--synthetic", "--pv-kw", "10", "--wind-kw", "7", "--write-ninja", "ninja"]
    sky += ["--start", "2019-05-31", "--days", "5", "-o", "own.txt"]
    assert run(sys.executable, "-m", "beasy_sched", *sky, cwd=place).returncode == 0
    (place / "bin").mkdir()
    for name, command in (("beasy-sched", ""), ("batsim", " batsim")):
        (place / "bin" / name).write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m beasy_sched{command} "$@"\n'
        )
        (place / "bin" / name).chmod(0o755)
    save_slurm(place)
    (place / "bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (place / "bin/python").chmod(0o755)
    return place


def save_slurm(place: Path) -> None:
    """Programs in the place of Slurm's: a month of jobs on 16 nodes."""
    start_s, rows = 1_767_222_000, []
    for n in range(400):
        submit_s, run_s, nodes = start_s + n * 6600, 600 + n * 37 % 9000, (1, 1, 2, 4)[n % 4]
        first = 1 + n * 5 % (17 - nodes)
        times = f"{submit_s}|{submit_s + n % 600}|{submit_s + n % 600 + run_s}"
        names = f"n[{first}-{first + nodes - 1}]"
        rows.append(f"{4000 + n}|main|COMPLETED|{times}|{run_s}|04:00:00|{nodes}|{names}")
    head = "JobID|Partition|State|Submit|Start|End|ElapsedRaw|Timelimit|NNodes|NodeList"
    (place / "saved_jobs").write_text("\n".join([head, *rows, ""]))
    known = [{"name": f"n{n}", "state": ["IDLE"], "partitions": ["main"]} for n in range(1, 17)]
    (place / "saved_nodes").write_text(json.dumps({"nodes": known}))
    for name, file in (("sacct", "saved_jobs"), ("scontrol", "saved_nodes")):
        (place / "bin" / name).write_text(f"#!/bin/sh\nexec cat '{place / file}'\n")
        (place / "bin" / name).chmod(0o755)


def play(place: Path, code: str) -> None:
    """Run a block of the README in bash; port 28000 may be taken, so another one stands for it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    # "wait" alone forgets how the daemon in the background ended; "wait $!" does not
    code = re.sub(r"^wait$", "wait $!", code.replace("28000", port), flags=re.MULTILINE)
    done = run("bash", "-euc", code, cwd=place, variables={"PATH": path}, timeout_s=250)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.timeout(900)
def test_every_command_runs(place: Path):
    played = [block for block in blocks("bash") if block not in NOT_RUN]
    assert len(blocks("bash")) == len(played) + len(NOT_RUN)
    for block in played:
        play(place, block)
    for name in ("run/beasy/run", "run/peak/run", "mine/power-reactive/run", "month", "easy", "batsim"):
        for written in ("jobs.csv", "energy_trace.csv", "decisions.jsonl", "summary.json"):
            assert (place / f"out/{name}_{written}").stat().st_size > 100


def test_greenslot_prints_what_the_page_shows(place: Path):
    """The figures may differ in their last digits: another processor may round another way."""
    shown = (
        EXAMPLES.partition("## Grid, prices and deadlines")[2].partition("```text\n")[2].partition("```")[0]
    )
    labels = {"energy imported": "import_kwh", "  cost": "cost", "green energy used": "green_kwh"}
    for column, policy in enumerate(("conventional", "greenslot")):
        summary = json.loads((place / f"out/{policy}_summary.json").read_text("utf-8"))
        assert summary["deadlines"]["jobs_met"] == summary["jobs"]["finished"] == 352
        assert shown.count("352 of 352") == 2
        for label, field in labels.items():
            (line,) = re.findall(rf"^{label} .*", shown, re.MULTILINE)
            printed = re.findall(r"(\d+\.\d+) (?:kWh|USD)", line)
            assert float(printed[column]) == pytest.approx(summary["grid"][field], rel=0.02)


def test_the_python_lines_run(place: Path):
    pytest.importorskip("pandas")
    (code,) = blocks("python")
    done = run(sys.executable, "-c", code, cwd=place)
    assert done.returncode == 0, done.stderr
    finished, lowest = done.stdout.split()
    assert 500 < int(finished) <= 900
    assert 19 <= float(lowest) <= 50  # below SoC_min by sleep and transitions only


def test_the_policies_that_are_shown_exist():
    shown = re.findall(r"^\| `([\w-]+)` \|", README.partition("## Policies")[2].partition("\n## ")[0], re.M)
    done = run(sys.executable, "-m", "beasy_sched", "policies")
    assert len(shown) == 5
    assert {*shown} < {line.split()[0] for line in done.stdout.splitlines()}


def test_the_story_of_a_job_is_what_is_told(place: Path):
    command, told = re.findall(r"`beasy-sched (explain [^`]+)` tells.*?```text\n(.*?)```", README, re.DOTALL)[
        0
    ]
    done = run(sys.executable, "-m", "beasy_sched", *command.split(), cwd=place)
    assert " ".join(told.split()) in " ".join(done.stdout.split())  # lines break as wide as the terminal is


def test_all_outputs_are_listed(place: Path):
    table = r"\w+\.(?:csv|jsonl?)"
    named = set(re.findall(f"`({table})`", EXAMPLES.partition("## What a run writes")[2]))
    paths = [path for run in ("easy", "greenslot", "year/beasy/run") for path in place.glob(f"out/{run}_*")]
    played = {name for path in paths if re.fullmatch(table, name := path.name.partition("_")[2])}
    assert played, "the commands have not been run"
    assert named == played
