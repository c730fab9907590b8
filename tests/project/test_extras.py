"""Packages that not every installation has: what is told without them, and which extras there are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from project.shell import ROOT

from beasy_sched.errors import ConfigError
from beasy_sched.extras import load_optional, pip_words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
TOOLS = {"dev", "docs"}
"""Extras for work on the project itself, which no command needs."""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to import from."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "a_solver"]:
        del sys.modules[name]


def told_of(module: str = "a_solver") -> str:
    with pytest.raises(ConfigError) as caught:
        load_optional(module, "beasy-sched[plan]", "planning")
    return str(caught.value)


def test_a_package_is_returned(packages: Path):
    (packages / "a_solver.py").write_text("answer = 42")
    assert load_optional("a_solver", "beasy-sched[plan]", "planning").answer == 42


def test_a_missing_package_is_named_with_its_extra():
    how = "pip install '.[plan]' in a clone of beasy-sched, or pip install 'FILE.whl[plan]' with its wheel"
    assert told_of() == told_of("a_solver.part") == f"planning needs a_solver: {how}"
    with pytest.raises(ConfigError, match="reports need a_solver: pip"):
        load_optional("a_solver", "beasy-sched[report]", "reports")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import a_thing_it_lacks", "No module named 'a_thing_it_lacks'"),
        ("raise ImportError('libgomp.so.1 is missing')", "libgomp.so.1 is missing"),
        ("raise ValueError('numpy.dtype size changed')", "ValueError: numpy.dtype size changed"),
    ],
)
def test_a_broken_package_is_not_said_to_be_missing(packages: Path, code: str, error: str):
    (packages / "a_solver.py").write_text(code)
    assert told_of() == (
        f"planning needs a_solver, which is installed but cannot be imported ({error}): "
        "pip install --force-reinstall '.[plan]' in a clone of beasy-sched, or "
        "pip install --force-reinstall 'FILE.whl[plan]' with its wheel"
    )


def test_a_part_that_an_old_version_lacks_is_not_the_package(packages: Path):
    (packages / "a_solver").mkdir()
    (packages / "a_solver" / "__init__.py").write_text("")
    assert "cannot be imported (No module named 'a_solver.part')" in told_of("a_solver.part")


def test_every_optional_import_names_an_extra_that_there_is():
    """And no import of such a package is guarded in another way."""
    named = set()
    for path in (ROOT / "beasy_sched").rglob("*.py"):
        text = path.read_text("utf-8")
        if path.name != "extras.py":
            assert "except ImportError" not in text, path
            assert "find_spec" not in text, path
        named |= set(re.findall(r"beasy-sched\[(\w+)\]", text))
    assert named <= {*EXTRAS} - TOOLS
    assert {*EXTRAS} - TOOLS <= named


def test_the_project_is_installed_from_a_clone_or_a_wheel():
    """No message and no page says to install it by its bare name."""
    places = ("beasy_sched", "docs", "scripts")
    files = [path for place in places for path in (ROOT / place).rglob("*") if path.is_file()]
    texts = [(path, path.read_bytes()) for path in [*files, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]]
    found = re.compile(rb"pip install[^\n|]*?['\" ]beasy-sched\b")
    assert [str(path) for path, text in texts if path.suffix != ".pyc" and found.search(text)] == []


def test_other_packages_come_from_where_they_are():
    assert pip_words("their-package") == "pip install 'their-package'"


def test_what_highspy_imports_is_installed_on_old_pythons():
    assert any(re.match("typing_extensions.*python_version < '3.11'", one) for one in EXTRAS["plan"])


def test_the_script_tries_every_extra():
    done = subprocess.run(
        [ROOT / "scripts/test_extras", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    listed = re.search(r"of ([\w, ]+) \(default: all\)", " ".join(done.stdout.split()))
    assert listed is not None
    assert {*listed[1].split(", ")} == {*EXTRAS, "none"} - TOOLS


def test_an_unknown_extra_or_python_is_refused():
    for arguments, told in ((("plann",), "unknown extra 'plann'"), (("--python", "3.9"), "named '3.9'")):
        done = subprocess.run(
            [ROOT / "scripts/test_extras", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert told in done.stderr
