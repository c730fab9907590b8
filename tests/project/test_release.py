"""What is released: a wheel and a source distribution that install and work in new environments."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from project.shell import ROOT

from beasy_sched._version import __version__

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        shutil.which("git") is None or not (ROOT / ".git").exists(), reason="this is no clone of git"
    ),
]
PIP = ("-m", "pip", "install", "-q", "--disable-pip-version-check", "--use-pep517", "--no-compile")
CLEAN = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def done(*command: str | Path, cwd: Path) -> str:
    """Run a command that must succeed; return what it printed."""
    ended = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=CLEAN,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def environment(folder: Path) -> Path:
    """A new virtual environment; returns its Python."""
    done(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution of a fresh clone, and the wheel that is built from that."""
    place = tmp_path_factory.mktemp("release")
    done("git", "clone", "-q", ROOT, place / "clone", cwd=place)
    python = environment(place / "tools")
    done(python, *PIP, "build", cwd=place)
    done(python, "-m", "build", "--outdir", place / "dist", place / "clone", cwd=place)
    return place / "dist"


def test_the_wheel_has_the_package_and_nothing_else(built: Path):
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"beasy_sched-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        about = email.message_from_bytes(packed.read(f"beasy_sched-{__version__}.dist-info/METADATA"))
    listed = done("git", "ls-files", "beasy_sched", cwd=ROOT).split("\n")
    own = {name for name in listed if name}
    assert {name for name in names if not name.startswith(f"beasy_sched-{__version__}.dist-info/")} == own
    assert "beasy_sched/py.typed" in own
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert about["Version"] == __version__
    assert len(about.get_all("Project-URL")) >= 4
    assert about["Description-Content-Type"] == "text/markdown"


def test_the_source_distribution_has_what_is_needed_to_test_it(built: Path):
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {name.partition("/")[0] for name in names if name} == {
        *("PKG-INFO", ".gitignore", ".pre-commit-config.yaml", ".github"),
        *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"),
        *("beasy_sched", "docs", "docker", "platforms", "workloads", "scripts", "tests"),
    }
    assert {"scripts/test", "scripts/constraints.txt", "tests/conftest.py", "docs/index.md"} <= names
    assert not [name for name in names if name.endswith(".pyc")]


@pytest.mark.parametrize(("ending", "extras"), [("*.whl", ""), ("*.tar.gz", "data,plan,plot,report,bundle")])
def test_it_installs_and_works(built: Path, tmp_path: Path, ending: str, extras: str):
    """The wheel without extras, the source distribution with those that the README names."""
    (file,) = built.glob(ending)
    python = environment(tmp_path / "venv")
    what = f"beasy-sched{f'[{extras}]' if extras else ''} @ {file.as_uri()}"
    done(python, *PIP, "-c", ROOT / "scripts/constraints.txt", what, cwd=tmp_path)
    done(python, "-m", "pip", "check", "--disable-pip-version-check", cwd=tmp_path)
    told = done(python.with_name("beasy-sched"), "--version", cwd=tmp_path)
    assert told.split()[-1] == __version__
    done(python, ROOT / "scripts/extras_smoke.py", *extras.split(",") if extras else [], cwd=tmp_path)
