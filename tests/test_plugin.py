"""Plug-ins: what they declare is there, nothing else is imported, and other packages may add some."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from command_line import exit_code

import beasy_sched
from beasy_sched import plugin
from beasy_sched.errors import ConfigError
from beasy_sched.plugin import load, own_plugins
from beasy_sched.policies.registry import policy_names

ROOT = Path(beasy_sched.__file__).parent
OWN = {each.name: each for each in own_plugins()}
HEADINGS = {"Make inputs", "Run", "Compare", "Understand", "generate"}


def imported(folder: Path) -> set[str]:
    """The plug-ins that the modules of a folder import, not only for type checks."""
    names = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.startswith("beasy_sched.plugins."):
                names.add(module.split(".")[2])
    return names


@pytest.mark.parametrize("name", OWN)
def test_what_a_plugin_declares_is_there(name: str) -> None:
    declared = OWN[name]
    assert (ROOT / "plugins" / name / "__init__.py").is_file()
    assert declared.commands.keys() <= HEADINGS
    commands = [targets for heading in declared.commands.values() for targets in heading.items()]
    others = [*declared.policies.items(), *declared.interface.items()]
    others += [*declared.drawings.items(), *declared.pages.items()]
    for called, target in commands + others:
        assert target.startswith(f"beasy_sched.plugins.{name}."), target
        assert callable(load(target)), called


@pytest.mark.parametrize("name", OWN)
def test_a_plugin_imports_what_it_needs_and_no_other(name: str) -> None:
    assert imported(ROOT / "plugins" / name) - {name} == set(OWN[name].needs)


def test_a_declaration_imports_nothing_but_the_core() -> None:
    """Every command reads the declarations: they are to cost nothing."""
    code = "import sys; from beasy_sched.plugin import own_plugins; own_plugins(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("beasy_sched.plugins")}
    assert loaded == {"beasy_sched.plugins", *(f"beasy_sched.plugins.{name}" for name in OWN)} - (
        set() if OWN else {"beasy_sched.plugins"}
    )
    assert not {"numpy", "click", "msgspec", "importlib.metadata"} & set(done.stdout.split())


def test_a_drawing_of_a_missing_plugin_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "own_plugins", lambda: ())
    monkeypatch.setattr(plugin, "installed_plugins", lambda: ())
    with pytest.raises(ConfigError, match=r"cannot draw a seasonal plan: install .* plug-in reports"):
        plugin.drawing("seasonal plan")


# --- plug-ins of other packages -------------------------------------------------------------------------

THEIRS = '''
import click
from beasy_sched.plugin import Plugin

@click.command()
def shout():
    """Say it loud."""
    print("LOUD")

PLUGIN = Plugin(
    "theirs",
    commands={"Run": {"shout": "theirs:shout"}},
    policies={"mine": "beasy_sched.policies.easy:Easy"},
    pages={"mine.json": "theirs:page"},
)

def page(folder, title):
    yield f"the page of {title}"
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """The entry points that are installed, in a list to be changed."""
    entries: list[EntryPoint] = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        return [entry for entry in entries if entry.group == group]

    (tmp_path / "theirs.py").write_text(THEIRS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    plugin.installed_plugins.cache_clear()
    yield entries
    plugin.installed_plugins.cache_clear()
    sys.modules.pop("theirs", None)


def test_a_plugin_of_another_package(installed: list[EntryPoint], capsys: pytest.CaptureFixture[str]) -> None:
    installed.append(EntryPoint("theirs", "theirs:PLUGIN", plugin.ENTRY_POINTS))
    assert exit_code("shout") == 0
    assert capsys.readouterr().out == "LOUD\n"
    assert exit_code("--help") == 0
    assert "  shout " in capsys.readouterr().out
    assert "mine" in policy_names()


@pytest.mark.plugins("reports")
def test_a_page_of_another_package(installed: list[EntryPoint], tmp_path: Path) -> None:
    installed.append(EntryPoint("theirs", "theirs:PLUGIN", plugin.ENTRY_POINTS))
    (tmp_path / "mine.json").write_text("{}")
    assert exit_code("report", str(tmp_path), "--title", "ours", "-o", str(tmp_path / "r.html"), "-q") == 0
    assert (tmp_path / "r.html").read_text() == "the page of ours"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("nowhere:PLUGIN", "cannot be imported: ModuleNotFoundError"),
        ("theirs:THEIRS", "cannot be imported: AttributeError"),
        ("theirs:shout", "found a Command, expected a beasy_sched.plugin.Plugin"),
    ],
)
def test_one_that_is_broken_is_one_message(
    installed: list[EntryPoint], capsys: pytest.CaptureFixture[str], value: str, told: str
) -> None:
    installed.append(EntryPoint("broken", value, plugin.ENTRY_POINTS))
    assert exit_code("simulate", "--help") == 0  # it does not disturb what does not need it
    assert exit_code("shout") == 2
    found = capsys.readouterr().err
    assert found.startswith("beasy-sched: plug-in 'broken'")
    assert told in found
