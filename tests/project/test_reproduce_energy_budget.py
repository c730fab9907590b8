"""scripts/reproduce_energy_budget, with all its real parts."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from project.shell import changed_at, run_study, study_command

from beasy_sched.formats.swf_fields import FIELDS_A_ROW


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


@pytest.mark.slow
def test_a_week_interrupted_and_taken_up_again(tmp_path: Path, trace: Path) -> None:
    out = tmp_path / "out"
    arguments = ("--week", trace, "--out", out, "--jobs", "2")
    command = study_command("energy_budget", *arguments)
    first = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(changed_at(out)) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    _, told = first.communicate(timeout=600)
    assert first.returncode == 130
    assert "the same command continues" in told
    assert "Traceback" not in told
    before = changed_at(out)
    assert 0 < len(before) < 49
    done = run_study("energy_budget", *arguments)
    assert done.returncode == 0, done.stderr
    after = changed_at(out)
    assert before.items() <= after.items()
    assert len(after) == 49
    assert (out / "runs.parquet").exists()
    assert sorted(path.name for path in (out / "figures").glob("*.pdf")) == [
        f"figure-{n}.pdf" for n in (2, 3, 4, 5)
    ]
    for text in (done.stdout, (out / "tables.md").read_text()):
        assert "Table II" in text
        assert "the budget is strictly respected" in text
