"""scripts/reproduce_learning, with all its real parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from project.shell import run_study
from studies.learning.command import parse_arguments


def test_what_is_evaluated():
    evaluation = parse_arguments([]).evaluation
    extent = evaluation.extent
    assert (extent.seeds, extent.days, extent.seeds_per_day) == (range(9000, 9010), range(9000, 9010), 10)
    assert (evaluation.variation_noises, evaluation.episodes) == (2, 40)
    assert len(parse_arguments(["--noises", "1"]).evaluation.extent.seeds) == 1


def test_a_trial_has_seeds_of_its_own():
    chosen = parse_arguments(["--quick"])
    assert chosen.evaluation.extent.seeds == range(5000, 5001)
    assert chosen.out == Path("out/learning-quick")


def test_seeds_of_training_are_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        parse_arguments(["--first-seed", "10000"])
    assert stop.value.code == 2
    assert "choose seeds up to 9999" in capsys.readouterr().err


@pytest.mark.slow
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("mine")
    done = run_study("learning", "--quick", "--out", tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path} is not empty and does not contain an earlier evaluation" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.slow
def test_a_trial_from_end_to_end(tmp_path: Path):
    arguments = ("--quick", "--out", tmp_path / "out", "--jobs", "2")
    done = run_study("learning", *arguments)
    assert done.returncode == 0, done.stderr
    for text in (done.stdout, (tmp_path / "out/tables.md").read_text()):
        assert "Means: average cases" in text
        assert "Differences from full: variations" in text
        assert "Preferred actions" in text
    names = {path.stem for path in (tmp_path / "out" / "figures").glob("*.png")}
    assert {"learning-curves", "learning-average", "learning-critical", "learning-variations"} == names
    again = run_study("learning", *arguments)
    assert again.returncode == 0
    assert "0 executed" in again.stderr
