"""What a repository's host and contributors read: workflows, templates, hooks, citation, addresses."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from project.shell import ROOT

from beasy_sched._version import __version__
from beasy_sched.plugins.campaigns.bundles.crate import REPOSITORY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILES = [
    *sorted((ROOT / ".github").rglob("*.yml")),
    ROOT / ".pre-commit-config.yaml",
    ROOT / "CITATION.cff",
]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_address_of_the_repository_is_one(path: Path):
    assert isinstance(read(path), dict)
    for address in re.findall(r"https://github\.com/[\w./-]+", path.read_text("utf-8")):
        assert address.startswith(REPOSITORY), address


def test_the_addresses_of_the_package():
    assert {*PROJECT["urls"]} >= {"Homepage", "Documentation", "Issues", "Changelog"}
    for address in PROJECT["urls"].values():
        assert address.startswith(REPOSITORY)
        place = address.partition("/main/")[2]
        assert (ROOT / place).exists()


def test_the_workflows_run_scripts_that_there_are():
    called = set()
    for path in WORKFLOWS:
        for job in read(path)["jobs"].values():
            assert 0 < job.get("timeout-minutes", 1) <= 100
            for step in job["steps"]:
                called |= set(re.findall(r"(?:^|\s)((?:scripts|\.ci)/\S+)", step.get("run", "")))
    assert called == {".ci/run", "scripts/test", "scripts/docs", "scripts/dist"}
    if (ROOT / ".ci").exists():  # which a source distribution has not
        assert all((ROOT / name).exists() for name in called)


def test_every_supported_python_is_tried():
    named = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)}
    assert {
        *read(ROOT / ".github/workflows/checks.yml")["jobs"]["python"]["strategy"]["matrix"]["python"]
    } == named
    assert PROJECT["requires-python"] == f">={min(named, key=lambda text: int(text[2:]))}"


def test_the_hooks_are_checks_of_the_test_script():
    script = (ROOT / "scripts/test").read_text("utf-8")
    hooks = [hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert len(hooks) == 4
    for hook in hooks:
        program, *rest = hook["entry"].removeprefix(".venv/bin/").split()
        command = " ".join([program, *(word for word in rest if not word.startswith("-"))])
        assert re.search(rf"^  step \w+ {command}", script, re.MULTILINE), command


def test_the_citation():
    found = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= found.keys()
    assert found["license"] == PROJECT["license"]["text"]
    assert found["version"] == __version__
    assert f"\n## [{__version__}] - {found['date-released']}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    for paper in found["references"]:
        assert paper["doi"] in readme


def test_the_templates_have_what_the_host_requires():
    for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")):
        form = read(path)
        if path.name == "config.yml":
            assert form["contact_links"]
            continue
        assert {"name", "description", "body"} <= form.keys()
        ids = [part["id"] for part in form["body"]]
        assert len(ids) == len({*ids})
        assert all(part["attributes"]["label"] for part in form["body"])


def test_the_changelog_tells_version_1_in_fifteen_lines():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = text.partition("\n## [1.0.0]")[2].partition("\n[1.1.0]: ")[0].splitlines()[1:]
    assert (
        len([line for line in newest if line.startswith("- ")])
        == len([line for line in newest if line])
        == 15
    )
