"""scripts/target_band and scripts/budget_prices: their trial runs end with the tables that they promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from project.shell import run_study

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")


@pytest.mark.slow
def test_the_band_of_the_target(tmp_path: Path) -> None:
    out = tmp_path / "band"
    done = run_study("target_band", "--quick", "--out", out, "--jobs", "2")
    assert done.returncode == 0, done.stderr
    page = (out / "tables.md").read_text()
    rows = re.findall(r"^\| (best-\w+) \| ([\w-]+) \| (\d+) \| .* ([+-][\d.]+) \|$", page, re.MULTILINE)
    assert len(rows) == 2 * 2 * 3
    by_run = {(case, policy, int(band)): float(off) for case, policy, band, off in rows}
    assert all(abs(off) <= abs(by_run[case, policy, 0]) + 5.0 for (case, policy, _), off in by_run.items())
    assert "What the band buys" in page


@pytest.mark.slow
def test_budgets_that_follow_the_price(tmp_path: Path) -> None:
    out = tmp_path / "prices"
    done = run_study("budget_prices", "--quick", "--out", out)
    assert done.returncode == 0, done.stderr
    page = (out / "tables.md").read_text()
    assert len(re.findall(r"^\| synthetic-\d \| \d+ / \d+ \|", page, re.MULTILINE)) == 2
    assert "0 measurements found a debt" in page
    for path in out.glob("budget-*.csv"):
        rows = [list(map(float, line.split(","))) for line in path.read_text().splitlines()[1:]]
        assert len(rows) == 7 * 24
        dearest, cheapest = max(rows, key=lambda row: row[2]), min(rows, key=lambda row: row[2])
        assert dearest[1] == pytest.approx(min(row[1] for row in rows))
        assert cheapest[1] == pytest.approx(max(row[1] for row in rows))
    assert len([*out.glob("budget-*.csv")]) == 2
