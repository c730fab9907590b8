"""scripts/constraints.txt: versions for all that pyproject.toml asks for, on every supported Python."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from project.shell import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LINES = [
    line
    for line in (ROOT / "scripts/constraints.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def applying(requirements: list[str], python: str) -> list[Requirement]:
    """The requirements that hold for a Python of the system that the tests run on."""
    here = {"python_version": python, "python_full_version": f"{python}.9", "extra": ""}
    found = map(Requirement, requirements)
    return [each for each in found if each.marker is None or each.marker.evaluate(here)]


def test_every_line_is_a_version_and_none_an_option_or_an_address():
    assert len(LINES) > 50
    for line in LINES:
        assert re.fullmatch(r"[a-z0-9._-]+==[0-9][^ @]*( ; .+)?", line), line
        assert "://" not in line


@pytest.mark.parametrize("python", PYTHONS)
def test_what_the_project_asks_for_has_one_version_that_it_allows(python: str):
    """Where this fails, pyproject.toml has changed: run scripts/renew_constraints --keep."""
    pinned: dict[str, Requirement] = {}
    for each in applying(LINES, python):
        assert canonicalize_name(each.name) not in pinned, f"{each.name} has two versions"
        pinned[canonicalize_name(each.name)] = each
    asked = [
        *PROJECT["dependencies"],
        *(one for many in PROJECT["optional-dependencies"].values() for one in many),
    ]
    for each in applying(asked, python):
        name = canonicalize_name(each.name)
        if name != "beasy-sched":
            (version,) = pinned[name].specifier
            assert each.specifier.contains(version.version, prereleases=True), each


def test_the_script_refuses_what_it_does_not_know():
    script = ROOT / "scripts/renew_constraints"
    done = subprocess.run([script, "--new"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown argument '--new'" in done.stderr
    assert subprocess.run([script, "--help"], capture_output=True, check=False).returncode == 0
