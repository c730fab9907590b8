"""docs/guides/real-site.md is what scripts/real_site makes: its rows, and the whole site file."""

from __future__ import annotations

import re

import pytest
from project.shell import ROOT, run

PAGE = (ROOT / "docs/guides/real-site.md").read_text("utf-8")


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    lines = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


@pytest.mark.slow
def test_a_quick_table_has_the_rows_of_the_page() -> None:
    done = run(ROOT / "scripts/real_site", "--quick")
    assert done.returncode == 0, done.stderr
    found, shown = rows(done.stdout), rows(PAGE)
    assert [row[:2] for row in found] == [row[:2] for row in shown]
    assert len(found) >= 10
    plain, cooled = found[0], found[2]
    assert plain[4] == ""
    servers_kwh, cooling_kwh = float(cooled[3]), float(cooled[4].split()[0])
    assert cooled[4].endswith("(1.250)")
    assert cooling_kwh == pytest.approx(0.25 * servers_kwh, abs=0.1)


def test_the_page_has_the_file_with_all_rows() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for line in (
        "[cooling]",
        'temperature = "weather.csv"',
        "[load]",
        'series = "services.csv"',
        'battery = "shave"',
        "peak_per_kw = 12",
    ):
        assert line in text.splitlines()
    for row in rows(PAGE):
        assert all(re.fullmatch(r"[\d.]+", cell) for cell in (row[2], row[3], row[5], row[6], *row[8:])), row
    assert [row[7] != "" for row in rows(PAGE)] == [at >= 2 * 7 for at in range(2 * 10)]
