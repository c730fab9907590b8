"""scripts/reproduce_greenslot, with all its real parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from project.shell import ROOT

SCRIPT = ROOT / "scripts" / "reproduce_greenslot.py"


@pytest.mark.slow
def test_a_quick_trial(tmp_path: Path) -> None:
    out, tables = tmp_path / "out", tmp_path / "tables.md"
    command = [sys.executable, str(SCRIPT), "--quick", "--out", str(out), "--markdown", str(tables)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert len(list(out.glob("rows/*.json"))) == 7
    assert (out / "runs.parquet").exists()
    names = [f"figure-{number:02}.pdf" for number in (5, 6, 7, 8, 9, 10, 11)]
    assert sorted(path.name for path in (out / "figures").glob("*.pdf")) == names
    for text in (done.stdout, tables.read_text()):
        assert "common-case peak power" in text
        assert "1765 W" in text
    before = {path: path.stat().st_mtime_ns for path in out.glob("rows/*.json")}
    again = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again.stderr
    assert all(path.stat().st_mtime_ns == changed for path, changed in before.items())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--quick --study sleep", "--quick runs the main figures only"),
        ("--study nonsense", "invalid choice: 'nonsense'"),
        ("--sun /no/such/year.csv --out {out}", "/no/such/year.csv: cannot be read"),
        ("--history /no/such/year.csv --out {out}", "/no/such/year.csv: cannot be read"),
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
    command = [sys.executable, str(SCRIPT), "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"{tmp_path} is neither empty nor that of a study: choose another folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
