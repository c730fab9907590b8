"""docs/guides/battery-life.md is true: its commands run and print what it says, its table is the model's."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from project.shell import ROOT, run

from beasy_sched.energy.battery_life import CHEMISTRIES, LMO, LifeSection
from beasy_sched.structs import field_names

PAGE = (ROOT / "docs/guides/battery-life.md").read_text("utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


@pytest.mark.slow
def test_the_example(tmp_path: Path):
    assert len(block("bash").splitlines()) <= 10
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = run("bash", "-euc", block("bash"), cwd=tmp_path, variables={"PATH": path})
    assert done.returncode == 0, done.stderr
    printed = block("text")
    assert len(printed.splitlines()) == 4
    assert printed in done.stdout


def test_the_fields():
    table = PAGE.partition("## Fields")[2].partition("## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*field_names(LifeSection)]
    assert f'`"{" or ".join(CHEMISTRIES)}"`' in table


def test_the_coefficients():
    depth = LMO.depth
    assert f"| {LMO.k_t_per_s:.2e} / s |" in PAGE
    assert f"| k_sigma | {LMO.k_sigma:g} | 0 |" in PAGE
    assert f"| k_T | {LMO.k_temperature:g} | {LMO.k_temperature:g} |" in PAGE
    assert (depth.k_delta1, depth.k_delta2, depth.k_delta3) == (1.40e5, -0.501, -1.23e5)
    assert "| 1.40e5, -0.501, -1.23e5 |" in PAGE
    assert f"| {LMO.alpha_sei:g}, {LMO.beta_sei:g} | 0, 0 |" in PAGE
