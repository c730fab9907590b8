"""Finding policies: ours, one's own, those of installed packages; and what is said when there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from beasy_sched.engine.policy import Policy
from beasy_sched.errors import ConfigError, Interrupted, PolicyError
from beasy_sched.policies.registry import (
    built_in,
    check_named_in_data,
    make_policy,
    policy_class,
    policy_names,
)

MODULE = """
from beasy_sched.policies import Options, Policy

class Mine(Policy):
    name = "mine"
    def schedule(self, view):
        return ()

class Idle(Policy):
    pass

class Unmade(Mine):
    def __init__(self, options=None):
        raise KeyError("oops")

class NotOne:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, with a package and a distribution that announces its policy."""
    package = tmp_path / "their_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "policies.py").write_text(MODULE)
    (package / "broken.py").write_text("raise RuntimeError('half done')")
    (package / "unwritten.py").write_text("def (:")
    (package / "leaving.py").write_text("import sys; sys.exit(0)")
    (package / "lacking.py").write_text("import no_such_module_at_all")
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[beasy_sched.policies]\ntheirs = their_package.policies:Mine\neasy = their_package.policies:Mine\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", built_in())
def test_ours_go_by_their_names_and_say_what_they_do(name: str) -> None:
    found = policy_class(name)
    assert found.name == name
    assert found.summary
    assert isinstance(make_policy(name), Policy)


@pytest.mark.usefixtures("folder")
def test_one_by_module_and_class() -> None:
    assert policy_class("their_package.policies:Mine").name == "mine"


@pytest.mark.usefixtures("folder")
def test_one_by_entry_point() -> None:
    assert policy_class("theirs").name == "mine"
    assert policy_names()[-1] == "theirs"


@pytest.mark.usefixtures("folder")
def test_nobody_can_take_the_name_of_ours() -> None:
    assert policy_class("easy").__module__.startswith("beasy_sched.")
    assert policy_names().count("easy") == 1


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["esay", "", "Easy", "their_package.policies"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError) as found:
        policy_class(name)
    assert f"unknown policy {name!r}" in str(found.value)
    assert all(known in str(found.value) for known in (*built_in(), "theirs", "package.module:Class"))


def test_a_name_with_options_says_how_they_are_given() -> None:
    with pytest.raises(ConfigError, match=r"'easy', with --option priority=slowdown --option backfill=none$"):
        policy_class("easy priority=slowdown backfill=none")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no_such_package.policies:Mine", "cannot import 'no_such_package.policies': No module named"),
        ("their_package.policies:Yours", "has no 'Yours'"),
        ("their_package.policies:", "has no ''"),
        ("their_package.policies:NotOne", "is not a subclass of"),
        ("their_package.policies:Options", "is not a subclass of"),
        ("their_package.broken:Mine", "RuntimeError: half done"),
        ("their_package.unwritten:Mine", "SyntaxError"),
        ("their_package.leaving:Mine", "SystemExit: 0"),
        ("their_package.policies:Idle", "has no method 'schedule'"),
        ("their_package.lacking:Mine", "No module named 'no_such_module_at_all'"),
        (":Mine", "cannot import ''"),
        (".policies:Mine", "cannot import '.policies'"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_one_message(name: str, told: str) -> None:
    with pytest.raises(ConfigError) as found:
        policy_class(name)
    assert told in str(found.value)
    assert name in str(found.value)


@pytest.mark.plugins("greenslot")
@pytest.mark.parametrize(
    ("policy", "options", "told"),
    [
        (
            "easy",
            {"polcy": 1},
            "options of policy 'easy': polcy: no such field, expected one of priority, backfill",
        ),
        (
            "easy",
            {"priority": "fast"},
            "options of policy 'easy': priority: found 'fast', expected one of arrival, smallest, slowdown",
        ),
        ("greenslot", {"objective": "cost"}, "objective: found 'cost', expected one of price, carbon"),
        (
            "greenslot",
            {"objective": {"cost": 1}},
            r"objective\.cost: no such field, expected one of",
        ),
        ("easy", {"priority": 3}, "priority"),
        ("fcfs", {"priority": "arrival"}, r"priority: no such field, expected no fields"),
    ],
)
def test_bad_options_name_the_option_and_the_known_ones(
    policy: str, options: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        make_policy(policy, options)


@pytest.mark.usefixtures("folder")
def test_one_that_fails_while_it_is_made() -> None:
    with pytest.raises(PolicyError, match=r"'their_package.policies:Unmade' failed.*KeyError: 'oops' \(.*:"):
        make_policy("their_package.policies:Unmade")


@pytest.mark.parametrize("name", ["their_package.policies:Mine", "a:b"])
def test_a_file_alone_names_no_code(name: str) -> None:
    with pytest.raises(ConfigError, match="which must not import code: if you trust the file, say so"):
        check_named_in_data(name, ("c:d",), "say so")
    check_named_in_data(name, (name,), "say so")


@pytest.mark.parametrize("name", ["easy", "theirs"])
def test_names_are_no_code(name: str) -> None:
    check_named_in_data(name, (), "say so")


# --- what was meant ---------------------------------------------------------------------------------------

SOC = MODULE[: MODULE.index("class Idle")].replace("Mine", "Soc") + "class Helper:\n    pass\n"


@pytest.fixture
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with files of policies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "more").mkdir()
    for name in ("soc_by_file.py", "more/soc_below.py", "my-soc.py"):
        (tmp_path / name).write_text(SOC)
    (tmp_path / "torn.py").write_text("class (")
    return tmp_path


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("./soc_by_file.py", "soc_by_file:Soc"),
        ("soc_by_file.py", "soc_by_file:Soc"),
        ("soc_by_file", "soc_by_file:Soc"),
        ("soc_by_file.Soc", "soc_by_file:Soc"),
        ("soc_by_file.py:Soc", "soc_by_file:Soc"),
        ("./soc_by_file.py:Soc", "soc_by_file:Soc"),
        ("soc_by_file:Sox", "soc_by_file:Soc"),
        ("more/soc_below.py", "more.soc_below:Soc"),
        ("more/soc_below:Soc", "more.soc_below:Soc"),
    ],
)
def test_a_file_in_the_place_of_a_class(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"module and class: did you mean '{meant}'\\?$"):
        policy_class(name)
    assert policy_class(meant).__name__ == "Soc"


def test_a_file_elsewhere(working: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(working / "more")
    with pytest.raises(ConfigError, match=f"'soc_by_file:Soc', with the command run in {working}"):
        policy_class("../soc_by_file.py")
    with pytest.raises(ConfigError, match=f"in the working directory, {working / 'more'}, the"):
        policy_class("soc_nowhere:Soc")


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize("name", ["torn.py", "my-soc.py", "nowhere.py", "more"])
def test_no_advice_that_would_not_work(name: str) -> None:
    with pytest.raises(ConfigError, match="choose one of fcfs"):
        policy_class(name)


@pytest.mark.parametrize(("name", "meant"), [("beasi", "beasy"), ("bidprice", "bid-price"), ("nxt", "next")])
def test_a_name_that_is_nearly_right(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {meant}\\? The policies are fcfs, easy"):
        policy_class(name)


def test_a_signal_during_an_import_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from beasy_sched.errors import Interrupted\nraise Interrupted('stopped by SIGTERM')\n"
    (tmp_path / "struck_policy.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Interrupted, match="stopped by SIGTERM"):
        policy_class("struck_policy:Mine")
