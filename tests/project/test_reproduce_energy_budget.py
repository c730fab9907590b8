"""scripts/reproduce_energy_budget, with all its real parts."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from project.shell import ROOT

from beasy_sched.formats.swf import FIELDS_A_ROW

SCRIPT = ROOT / "scripts" / "reproduce_energy_budget.py"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Some 40 jobs on 8 processors over a week."""
    lines = ["; MaxProcs: 8"]
    for number in range(40):
        run_s = 3600 * (1 + number % 9)
        fields = {1: number + 1, 2: 15_000 * number, 4: run_s, 5: 1 + number % 8, 9: 2 * run_s, 11: 1}
        lines.append(" ".join(str(fields.get(i, -1)) for i in range(1, FIELDS_A_ROW + 1)))
    path = tmp_path / "tiny.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


def command(trace: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, str(SCRIPT), "--week", str(trace), "--out", str(out), "--jobs", "2", *more]


@pytest.mark.slow
def test_a_week_interrupted_and_taken_up_again(tmp_path: Path, trace: Path) -> None:
    out = tmp_path / "out"
    first = subprocess.Popen(command(trace, out), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(list(out.glob("rows/*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    _, told = first.communicate(timeout=60)
    assert first.returncode == 130
    assert "the same command continues" in told
    assert "Traceback" not in told
    before = {path: path.stat().st_mtime_ns for path in out.glob("rows/*.json")}
    assert 0 < len(before) < 49
    done = subprocess.run(
        command(trace, out, "--markdown", str(tmp_path / "tables.md")),
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    assert all(path.stat().st_mtime_ns == changed for path, changed in before.items())
    assert len(list(out.glob("rows/*.json"))) == 49
    assert (out / "runs.parquet").exists()
    assert sorted(path.name for path in (out / "figures").glob("*.pdf")) == [
        f"figure-{n}.pdf" for n in (2, 3, 4, 5)
    ]
    for text in (done.stdout, (tmp_path / "tables.md").read_text()):
        assert "Table II" in text
        assert "the budget is strictly respected" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--quick --week a.swf", "--quick uses synthetic weeks"),
        ("--jobs 0", "expected a whole number of at least 1"),
        ("--week /no/such/week.swf --out {out}", "/no/such/week.swf: cannot be read"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, arguments: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments.format(out=tmp_path / "out").split()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert f"{tmp_path} is neither empty nor that of a study: choose another folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
