"""docs/guides/campaigns.md is true: its tables are those of the program, its Python runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_campaign import run_campaign

from beasy_sched.plugins.campaigns.axes import AXES
from beasy_sched.plugins.campaigns.campaign_table import COLUMNS
from beasy_sched.plugins.campaigns.scenario import Scenario
from beasy_sched.plugins.campaigns.scenario_file import SHORTHANDS, parse_scenario
from beasy_sched.structs import field_names

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guides" / "campaigns.md").read_text("utf-8")


@pytest.mark.slow
def test_the_columns():
    """They are put in when the site is built; every table has a place."""
    done = subprocess.run(
        [sys.executable, ROOT / "docs/tables.py", "columns"], capture_output=True, text=True, check=True
    )
    rows = [f"| `{c.name}` | {c.kind} | {c.unit} | {c.meaning} |" for c in COLUMNS]
    assert done.stdout.splitlines()[2:] == rows
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md"))
    places = re.findall(r"^<!-- table: ([a-z-]+) -->$", pages, re.MULTILINE)
    made = re.findall(r'^    "([a-z-]+)": ', (ROOT / "docs/tables.py").read_text("utf-8"), re.MULTILINE)
    assert sorted(places) == sorted(made)


def test_the_python(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    run_campaign(tmp_path / "out" / "begin", keep="trace")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    code = code.replace('"beasy"', '"easy"')
    names: dict = {}
    exec(code, names)
    assert len(names["papers"]) == 6
    assert names["name"] == "small.t0.s1.kill-all.easy"


def test_the_scenario_of_a_trace(tmp_path):
    (tmp_path / "trace.swf").write_text("1 0 0 60 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    for name in ("ninja_pv.csv", "ninja_wind.csv"):
        (tmp_path / name).touch()
    (text,) = re.findall(r'^```toml\n(name = "mine".*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    found = parse_scenario(text, tmp_path / "mine.toml")
    assert (len(found.seeds), found.noise.walltimes) == (10, "keep")


def test_the_axes():
    section = PAGE.partition("<!-- axes -->\n")[2].partition("<!-- end -->")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [*AXES]


def test_the_fields_of_scenarios():
    table = PAGE.partition("## Scenario files")[2].partition("## Sweeps")[0]
    for name in field_names(Scenario, SHORTHANDS):
        assert f"`{name}`" in table or f"`[{name}]`" in table or f"`[[{name}]]`" in table, name
