"""The commands of the page about results elsewhere, run in their order."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from project.played import blocks
from project.shell import ROOT, run

PAGE = (ROOT / "docs/guides/elsewhere.md").read_text("utf-8")


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = run("bash", "-euc", "\n".join(blocks(PAGE, "bash")), cwd=tmp_path, variables={"PATH": path})
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in (tmp_path / "run.swf").read_text().splitlines() if line[0] != ";"]
    again = json.loads((tmp_path / "again.json").read_text())
    on_gros_s = [again["profiles"][job["profile"]]["cpu"] / 35.2e9 for job in again["jobs"]]
    assert on_gros_s == pytest.approx([float(row[3]) for row in rows])  # as long as before
    (python,) = blocks(PAGE, "python")
    shown = run(sys.executable, "-c", python, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "COMPLETED_SUCCESSFULLY" in shown.stdout
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == ["easy.swf", "power-reactive.swf"]
