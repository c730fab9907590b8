"""docs/guides/campaigns.md is true: its columns are those of the files, its Python runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_campaign import run_campaign

from beasy_sched.campaigns.scenario import Scenario
from beasy_sched.campaigns.scenario_file import SHORTHANDS
from beasy_sched.campaigns.sweep import AXES
from beasy_sched.campaigns.table import (
    COLUMNS,
    DEADLINE_COLUMNS,
    GRID_COLUMNS,
    LIFE_COLUMNS,
    SWEEP_COLUMNS,
    TIMING_COLUMNS,
)
from beasy_sched.structs import field_names

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "campaigns.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("runs", COLUMNS),
        ("grid", GRID_COLUMNS),
        ("life", LIFE_COLUMNS),
        ("deadlines", DEADLINE_COLUMNS),
        ("sweep", SWEEP_COLUMNS),
        ("timings", TIMING_COLUMNS),
    ],
)
def test_the_columns(name, columns):
    section = PAGE.partition(f"<!-- columns: {name} -->\n")[2].partition("<!-- end -->")[0]
    rows = [f"| `{c.name}` | {c.kind} | {c.unit} | {c.meaning} |" for c in columns]
    assert section.splitlines()[2:] == rows


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


def test_the_axes():
    section = PAGE.partition("<!-- axes -->\n")[2].partition("<!-- end -->")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [*AXES]


def test_the_fields_of_scenarios():
    table = PAGE.partition("## Scenario files")[2].partition("## Running")[0]
    for name in field_names(Scenario, SHORTHANDS):
        assert f"`{name}`" in table or f"`[{name}]`" in table or f"`[[{name}]]`" in table, name
