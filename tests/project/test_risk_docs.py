"""docs/guides/risk.md is true: its commands run and print what it says, its table is that of the results."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from project.shell import ROOT, run

PAGE = (ROOT / "docs/guides/risk.md").read_text("utf-8")
RESULTS = (ROOT / "docs/results/risk.md").read_text("utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


@pytest.mark.slow
def test_the_example(tmp_path: Path) -> None:
    assert len(block("bash").splitlines()) <= 10
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = run("bash", "-euc", block("bash"), cwd=tmp_path, variables={"PATH": path})
    assert done.returncode == 0, done.stderr
    what, _, seen = block("text").strip().partition("  ")
    assert re.search(rf"^{what} +{re.escape(seen.strip())}$", done.stdout, re.MULTILINE)


def test_the_table_is_that_of_the_results() -> None:
    told = re.findall(
        r"^\|[^|]*\| (?:none|\d+ %) \| (\d+) \|[^|]*\| ([\d.]+) % \| (\d+) \|$", PAGE, re.MULTILINE
    )
    whole = RESULTS.partition("all sites")[2].partition("###")[0]
    found = re.findall(
        r"^\| \S+ \| \S+ \| (\d+) of 60 \|.*\| ([\d.]+) \| (\d+) \| [\d.]+ \|$", whole, re.MULTILINE
    )
    assert len(told) == 10
    assert told == found
