"""scripts/dist builds a wheel that works in an empty environment; the workflow that publishes it is off."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from project.shell import ROOT, run

DIST = ROOT / "scripts" / "dist"


def test_help_and_options_that_do_not_exist():
    done = run(DIST, "--help")
    assert done.returncode == 0
    assert "Builds the project's wheel" in done.stdout
    for wrong in (["--upload"], ["one", "two"]):
        done = run(DIST, *wrong)
        assert done.returncode == 2
        assert done.stderr.startswith(f"dist: {'unknown option' if wrong[0][0] == '-' else 'found a second'}")
        assert "see scripts/dist --help" in done.stderr
    done = run(DIST, "--python", "no-such-python")
    assert done.returncode == 1
    assert done.stderr == "dist: found no Python named 'no-such-python' of version 3.10 or newer\n"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_wheel_works_in_an_empty_environment(tmp_path: Path):
    done = run(DIST, tmp_path / "wheels", timeout_s=1700)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert done.stdout == f"{wheel}\n"
    assert "all of it works" in done.stderr


def test_nothing_is_published_before_a_variable_says_so():
    text = (ROOT / ".github/workflows/publish.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["build"]["if"] == "vars.PUBLISH == 'yes'"
    assert jobs["publish"]["needs"] == "build"
    assert text.startswith("# Publishes a release on PyPI. It is switched off: to switch it on, ")
