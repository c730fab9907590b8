"""The help of every script: it is printed, and nothing else is done."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from project.shell import ROOT, run

SCRIPTS = [
    path for path in sorted((ROOT / "scripts").iterdir()) if path.is_file() and os.access(path, os.X_OK)
]


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_help_is_printed_and_nothing_written(script: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "docs").rglob("*")}
    python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = run(script, "--help", cwd=tmp_path, variables={"PATH": python})
    assert done.returncode == 0, done.stderr
    assert done.stdout.lower().startswith("usage: ")
    assert not done.stderr
    assert [*tmp_path.iterdir()] == []
    assert {path: path.stat().st_mtime_ns for path in (ROOT / "docs").rglob("*")} == before
