"""A clone, and nothing else: the scripts make all they need. Needs git and pip's index."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from project.shell import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        shutil.which("git") is None or not (ROOT / ".git").exists(), reason="this is no clone of git"
    ),
]


def test_run_and_test_in_a_fresh_clone(tmp_path: Path):
    clone = tmp_path / "a clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    clean = {k: v for k, v in os.environ.items() if k not in ("BEASY_VENV", "PYTHON", "VIRTUAL_ENV")}
    clean["PIP_COMPILE"] = "0"  # saves a minute: most of what is installed is never imported
    for command in (
        [clone / "scripts/run"],
        [clone / "scripts/run", "--quick", "--no-plan", "--policy", "easy", "--out", "again"],
        [clone / "scripts/test", "--only-tests", "tests/model"],
    ):
        done = subprocess.run(
            command, cwd=tmp_path, env=clean, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    for run, jobs in (("out/run/beasy", 900), ("out/run/peak", 900), ("again/easy", 300)):
        summary = json.loads((tmp_path / run / "run_summary.json").read_text())
        assert summary["complete"]
        assert summary["jobs"]["submitted"] == jobs
    assert " passed" in done.stdout
    left = subprocess.run(
        ["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True
    )
    assert left.stdout == ""
