"""scripts/reproduce_greenslot, with all its real parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from project.shell import changed_at, run_study


@pytest.mark.slow
def test_a_quick_trial(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("--quick", "--out", out)
    done = run_study("greenslot", *arguments)
    assert done.returncode == 0, done.stderr
    assert len(changed_at(out)) == 7
    assert (out / "runs.parquet").exists()
    names = [f"figure-{number:02}.pdf" for number in (5, 6, 7, 8, 9, 10, 11)]
    assert sorted(path.name for path in (out / "figures").glob("*.pdf")) == names
    for text in (done.stdout, (out / "tables.md").read_text()):
        assert "common-case peak power" in text
        assert "1765 W" in text
    before = changed_at(out)
    again = run_study("greenslot", *arguments)
    assert again.returncode == 0, again.stderr
    assert changed_at(out) == before
