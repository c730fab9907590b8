"""`generate policy`: what it writes works, and overwrites nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beasy_sched.errors import ConfigError
from beasy_sched.generate.policy_template import check_module_name, class_name, write_policy


def beasy(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "beasy_sched", *arguments]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_template_runs_and_passes_its_test(tmp_path: Path) -> None:
    done = beasy(tmp_path, "generate", "policy", "shortest_first")
    assert done.returncode == 0, done.stderr
    assert "--policy shortest_first:ShortestFirst" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shortest_first.py", "shortest_first_test.py"]
    assert "@" not in "".join(path.read_text("utf-8") for path in tmp_path.iterdir())
    beasy(tmp_path, "generate", "platform", "--servers", "gros:4", "-o", "p.xml")
    beasy(tmp_path, "generate", "workload", "--synthetic", "--jobs", "40", "--hosts", "4", "-o", "w.json")
    done = beasy(
        tmp_path, "simulate", "-p", "p.xml", "-w", "w.json", "--policy", "shortest_first:ShortestFirst"
    )
    assert done.returncode == 0, done.stderr
    assert "shortest_first:ShortestFirst" in done.stdout
    test = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "shortest_first_test.py",
    ]
    ran = subprocess.run(test, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine_test.py").write_text("precious")
    done = beasy(tmp_path, "generate", "policy", "mine")
    assert done.returncode == 2
    assert "mine_test.py already there: choose another name" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine_test.py"]
    assert (tmp_path / "mine_test.py").read_text() == "precious"


@pytest.mark.parametrize("name", ["", "a-b", "2nd", "_", "a b", "../a", "größe", "a.b"])
def test_a_name_must_be_a_modules(name: str) -> None:
    with pytest.raises(ConfigError, match="expected the name of a Python module"):
        check_module_name(name)


@pytest.mark.parametrize("name", ["class", "none", "random", "numpy", "beasy_sched"])
def test_names_that_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="choose another"):
        check_module_name(name)


def test_the_folder_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a directory"):
        write_policy("mine", tmp_path / "nowhere")


def test_classes_are_in_camel_case() -> None:
    assert class_name("shortest_first") == "ShortestFirst"
    assert class_name("easy2") == "Easy2"
    assert class_name("_own") == "Own"
