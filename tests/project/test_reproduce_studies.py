"""scripts/reproduce_energy_budget and scripts/reproduce_greenslot: what is refused, and how that is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from project.shell import run_study


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("study", "arguments", "told"),
    [
        ("energy_budget", "--quick --week /dev/null", "--quick uses synthetic weeks"),
        ("energy_budget", "--jobs 0", "expected an integer from 1 to 1000000"),
        (
            "energy_budget",
            "--week /no/such/week.swf --out {out}",
            "found '/no/such/week.swf', expected a file that exists",
        ),
        ("greenslot", "--quick --study sleep", "--quick runs the main figures only"),
        ("greenslot", "--study nonsense", "invalid choice: 'nonsense'"),
        (
            "greenslot",
            "--sun /no/such/year.csv --out {out}",
            "found '/no/such/year.csv', expected a file that exists",
        ),
        ("greenslot", "--swf /no/such/trace.swf", "expected a file that exists"),
        ("greenslot", "--prices /no/such/prices.csv --out {out}", "/no/such/prices.csv: cannot be read"),
        ("greenslot", "--deadlines factor:3", "are for the jobs of a trace: add --swf FILE"),
        (
            "greenslot",
            "--history /no/such/year.csv --out {out}",
            "found '/no/such/year.csv', expected a file that exists",
        ),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, study: str, arguments: str, told: str) -> None:
    done = run_study(study, *arguments.format(out=tmp_path / "out").split())
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.sampled
@pytest.mark.parametrize("study", ["energy_budget", "greenslot"])
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, study: str) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    done = run_study(study, "--quick", "--out", tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path} is not empty and does not contain a study: choose another folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
