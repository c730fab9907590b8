"""Plans that campaigns beside each other share: found by all that they depend on, and by nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from small_campaign import Here, scenario

from beasy_sched.formats.plan_file import read_plans
from beasy_sched.plugins.campaigns import campaign, shared_plans
from beasy_sched.plugins.campaigns.campaign import begin, go_on
from beasy_sched.plugins.campaigns.folder import Folder
from beasy_sched.plugins.campaigns.run_inputs import PlanTask, make_forecast
from beasy_sched.plugins.campaigns.scenario import PlanPart
from beasy_sched.plugins.campaigns.shared_plans import STORE, MadePlan, SharedPlans, planner_hash, solve

ONE = (("seeds = [1, 2]", "seeds = [1]"), ('"easy", "follow-plan", "workload-reactive"', '"follow-plan"'))


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Recipes of the plans that have been solved."""
    recipes: list[str] = []

    def solving(task: PlanTask) -> MadePlan:
        recipes.append(task.recipe)
        return solve(task)

    monkeypatch.setattr(campaign, "solve", solving)
    return recipes


def run(folder: Path, *changes: tuple[str, str]) -> None:
    begin([scenario(*ONE, *changes)], folder)
    assert go_on(folder, Here()).failed == 0


def entries(folder: Path) -> list[Path]:
    return sorted((folder / STORE).iterdir())


def test_a_campaign_takes_the_plans_of_one_beside_it(tmp_path: Path, solved: list[str]) -> None:
    run(tmp_path / "one")
    run(tmp_path / "two", ("[platform]", '[[guards]]\nmode = "shed"\nveto = true\n\n[platform]'))
    assert len(solved) == len(entries(tmp_path)) == 1
    ours = [Folder(tmp_path / name).input_path("plan", solved[0]).read_bytes() for name in ("one", "two")]
    assert ours[0] == ours[1] == entries(tmp_path)[0].read_bytes()


def test_campaigns_elsewhere_share_nothing(tmp_path: Path, solved: list[str]) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        run(tmp_path / name / "one")
    assert len(solved) == 2


def test_a_campaign_goes_on_without_the_store(tmp_path: Path, solved: list[str]) -> None:
    run(tmp_path / "one")
    entries(tmp_path)[0].unlink()
    (tmp_path / STORE).rmdir()
    assert go_on(tmp_path / "one", Here()).executed == 0
    run(tmp_path / "two")
    assert len(solved) == 2


SIZES = {"windows": 2, "season_windows": 3}


@pytest.mark.parametrize("name", [field.name for field in fields(PlanTask)])
def test_another_ingredient_is_another_plan(name: str, tmp_path: Path) -> None:
    task = make_forecast(scenario(), 0).plan
    store = SharedPlans.beside(tmp_path / "campaign")
    store.add(task.recipe, MadePlan(b"plan", planner_hash()))
    assert store.find(task.recipe) == b"plan"
    found = getattr(task, name)
    other: Any = SIZES.get(name)
    if isinstance(found, str):
        other = found + "\n"
    elif isinstance(found, bytes):
        other = found + b"\n"
    elif isinstance(found, PlanPart):
        other = msgspec.structs.replace(found, demand_factor=1.5)
    assert other != found
    assert store.find(replace(task, **{name: other}).recipe) is None


def test_another_planner_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SharedPlans.beside(tmp_path / "campaign")
    store.add("recipe", MadePlan(b"elsewhere", "another planner"))
    assert store.find("recipe") is None
    store.add("recipe", MadePlan(b"ours", planner_hash()))
    assert store.find("recipe") == b"ours"
    monkeypatch.setattr(shared_plans, "planner_hash", lambda: "another planner")
    assert store.find("recipe") == b"elsewhere"


@pytest.mark.parametrize("package", ["highspy", "numpy"])
def test_another_version_is_another_planner(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version = shared_plans.metadata.version
    planner_hash.cache_clear()
    before = planner_hash()
    monkeypatch.setattr(
        shared_plans.metadata, "version", lambda name: "99.0" if name == package else version(name)
    )
    planner_hash.cache_clear()
    assert planner_hash() != before
    monkeypatch.undo()
    planner_hash.cache_clear()
    assert planner_hash() == before


def test_another_source_is_another_planner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_plans._version, "__file__", str(tmp_path / "__init__.py"))
    hashes = set()
    for name, text in (("a.py", "1"), ("a.py", "2"), ("inner.py", "2")):
        (tmp_path / name).write_text(text)
        planner_hash.cache_clear()
        hashes.add(planner_hash())
    planner_hash.cache_clear()
    assert len(hashes) == 3


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[:-100],
    "a changed byte": lambda content: content[:-50] + bytes([content[-50] ^ 1]) + content[-49:],
    "no plan": lambda content: b"plan",
}


@pytest.mark.sampled
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_plan_is_solved_again(damage: str, tmp_path: Path, solved: list[str]) -> None:
    run(tmp_path / "one")
    entry = entries(tmp_path)[0]
    whole = entry.read_bytes()
    entry.write_bytes(DAMAGES[damage](whole))
    run(tmp_path / "two")
    assert len(solved) == 2
    assert entry.read_bytes() == whole
    assert Folder(tmp_path / "two").has_plan(solved[0])


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["a file", "a link", "anybody's"])
def test_a_store_that_is_not_ours_is_left_alone(kind: str, tmp_path: Path, solved: list[str]) -> None:
    run(tmp_path / "other" / "one")
    theirs = tmp_path / "other" / STORE
    if kind == "a file":
        (tmp_path / STORE).write_text("mine")
    elif kind == "a link":
        (tmp_path / STORE).symlink_to(theirs)
    else:
        theirs.rename(tmp_path / STORE).chmod(0o777)
        theirs = tmp_path / STORE
    before = {path: path.read_bytes() for path in theirs.iterdir()}
    run(tmp_path / "two")
    assert len(solved) == 2
    assert {path: path.read_bytes() for path in theirs.iterdir()} == before


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path, solved: list[str]) -> None:
    (tmp_path / "one").mkdir()
    tmp_path.chmod(0o555)
    try:
        run(tmp_path / "one")
    finally:
        tmp_path.chmod(0o755)
    assert len(solved) == 1


WRITER = """
import sys
from pathlib import Path
from beasy_sched.plugins.campaigns.shared_plans import MadePlan, SharedPlans, planner_hash
store, content = SharedPlans.beside(Path(sys.argv[1])), sys.argv[2].encode() * 100_000
for _ in range(30):
    store.add("recipe", MadePlan(content, planner_hash()))
    found = store.find("recipe")
    assert found and len(found) == 100_000 and len(set(found)) == 1, found[:20]
"""


@pytest.mark.slow
def test_two_processes_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "campaign")]
    both = [subprocess.Popen([*command, letter]) for letter in "ab"]
    assert [process.wait(120) for process in both] == [0, 0]
    assert len(entries(tmp_path)) == 1


def test_what_lies_there_are_plans(tmp_path: Path, solved: list[str]) -> None:
    run(tmp_path / "one")
    assert [len([*read_plans(path)]) for path in entries(tmp_path)] == [1]
