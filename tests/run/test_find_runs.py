"""Which runs are meant, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from beasy_sched.errors import InputError
from beasy_sched.run.results import find_prefix, find_runs


def made(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")


def found(folder: Path, *places: str) -> dict[str, str]:
    runs = find_runs([folder / place for place in places])
    return {name: str(Path(prefix).relative_to(folder)) for name, prefix in runs.items()}


def test_prefix_file_and_folder_mean_the_same(tmp_path: Path) -> None:
    made(tmp_path, "out/a_summary.json", "out/a_jobs.csv")
    for place in ("out/a", "out/a_jobs.csv", "out"):
        assert found(tmp_path, place) == {"a": "out/a"}


def test_no_run_is_taken_twice(tmp_path: Path) -> None:
    made(tmp_path, "out/a_summary.json", "out/b_summary.json")
    assert found(tmp_path, "out/b", "out") == {"b": "out/b", "a": "out/a"}


def test_names_tell_runs_apart(tmp_path: Path) -> None:
    made(tmp_path, "x/a_summary.json", "y/a_summary.json", "y/b_summary.json")
    assert found(tmp_path, "x/a", "y") == {"x/a": "x/a", "y/a": "y/a", "y/b": "y/b"}


def test_what_ends_all_names_is_left_out(tmp_path: Path) -> None:
    made(tmp_path, "out/easy/run_summary.json", "out/beasy/run_summary.json")
    assert found(tmp_path, "out") == {"beasy": "out/beasy/run", "easy": "out/easy/run"}


def test_other_files_make_runs_only_where_none_has_a_summary(tmp_path: Path) -> None:
    made(tmp_path, "a/x_jobs.csv", "a/x_schedule.csv", "b/x_summary.json", "b/y_jobs.csv")
    assert found(tmp_path, "a") == {"x": "a/x"}
    assert found(tmp_path, "b") == {"x": "b/x"}


@pytest.mark.parametrize("place", ["nothing", "empty"])
def test_no_run(tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"contains no run|is not a run: found neither nothing_summary.json"):
        find_runs([tmp_path / place])


def test_what_a_failed_run_had_done_is_no_further_run_of_a_folder(tmp_path: Path) -> None:
    made(tmp_path, "out/a_summary.json", "out/a_failed_summary.json", "out/b_failed_summary.json")
    assert found(tmp_path, "out") == {"a": "out/a", "b_failed": "out/b_failed"}
    assert found(tmp_path, "out/a_failed") == {"a_failed": "out/a_failed"}
    made(tmp_path, "log/a_decisions.jsonl", "log/a_failed_decisions.jsonl")
    assert find_prefix(tmp_path / "log") == str(tmp_path / "log" / "a")
    for find in (lambda place: find_runs([place]), find_prefix):
        with pytest.raises(
            InputError, match=r"because the run failed: its files up to the failure are \S*b_failed"
        ):
            find(tmp_path / "out" / "b")
