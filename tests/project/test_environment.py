"""scripts/environment.sh: which Python, when to install. Pythons are played by small shell scripts."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from project.shell import ROOT

FAKE_PYTHON = """#!/bin/sh
echo "$0 $*" >>"$LOG"
case "$*" in
  *version_info*"(3, 10)"*) exit {exit_code} ;;
  *'%d.%d'*) echo {version} ;;
  "--version") echo "Python {version}" ;;
  *"-m venv"*) {venv}; for folder; do :; done; mkdir -p "$folder/bin"; cp "$0" "$folder/bin/python" ;;
  *"pip install"*) exit ${{PIP_EXIT_CODE:-0}} ;;
esac
"""


NO_ENSUREPIP = "echo 'ensurepip is not available'; exit 1"
"""What a Debian says without python3-venv."""


def make_python(path: Path, version: str, *, works: bool = True, venv: bool = True) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    exit_code, venv_first = 0 if works else 1, ":" if venv else NO_ENSUREPIP
    path.write_text(FAKE_PYTHON.format(version=version, exit_code=exit_code, venv=venv_first))
    path.chmod(0o755)


class Project:
    """A folder with the scripts, and a machine with few programs."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "my project"
        self.programs = folder / "programs"
        self.log = folder / "log"
        self.programs.mkdir()
        for name in ("sh", "bash", "basename", "cat", "cksum", "cp", "mkdir", "dirname"):
            (self.programs / name).symlink_to(shutil.which(name) or name)
        (self.root / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/environment.sh", self.root / "scripts")
        (self.root / "pyproject.toml").write_text("[project]\n")
        (self.root / "scripts/constraints.txt").write_text("numpy==2.0\n")

    def use(self, extra: str = "dev", python: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """Make the environment; print the folder of its programs."""
        self.log.write_text("")
        script = (
            f'ROOT=$1; . "$ROOT/scripts/environment.sh"; use_environment "{extra}" "{python}"; echo "$BIN"'
        )
        return subprocess.run(
            [self.programs / "bash", "-euo", "pipefail", "-c", script, "scripts/test", self.root],
            env={"PATH": str(self.programs), "HOME": str(self.root.parent), "LOG": str(self.log)} | variables,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def installs(self) -> list[str]:
        """Return what pip was asked to install."""
        lines = self.log.read_text().splitlines()
        return [line.rpartition(" ")[2] for line in lines if "pip install" in line]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    make_python(made.programs / "python3", "3.11")
    return made


def test_installs_once_and_again_when_the_project_file_changes(project: Project):
    done = project.use()
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{project.root}/.venv/bin"
    assert project.installs() == ["project[dev]"]
    assert project.use().returncode == 0
    assert project.installs() == []
    (project.root / "pyproject.toml").write_text("[project]\ndependencies = ['numpy']\n")
    assert project.use().returncode == 0
    assert project.installs() == ["project[dev]"]


def test_the_versions_are_those_of_the_constraints_and_installed_anew_when_they_change(project: Project):
    def constraints() -> list[str]:
        return re.findall(r"-c (.*) -e ", project.log.read_text())

    file = project.root / "scripts/constraints.txt"
    project.use()
    assert constraints() == [str(file)]
    file.write_text("numpy==2.1\n")
    project.use()
    assert constraints() == [str(file)]
    project.use()
    assert project.installs() == []
    project.use(BEASY_CONSTRAINTS="")
    assert (constraints(), project.installs()) == ([], ["project[dev]"])
    missing = project.use(BEASY_CONSTRAINTS="nowhere.txt")
    assert missing.returncode == 1
    assert missing.stderr == "test: BEASY_CONSTRAINTS=nowhere.txt is not a file\n"


def test_the_tools_are_added_and_stay(project: Project):
    asked = []
    for extra in ("", "", "dev", ""):
        assert project.use(extra).returncode == 0
        asked.append(project.installs())
    assert asked == [["project"], [], ["project[dev]"], []]
    (project.root / "pyproject.toml").write_text("[project]\n\n")
    project.use("")
    assert project.installs() == ["project[dev]"]


def test_the_packages_of_the_table_are_a_part_of_all(project: Project):
    """scripts/run installs them alone, and none again where another script has installed all."""
    asked = []
    for extra in ("plan", "plan", "data,plan,plot,report", "plan"):
        assert project.use(extra).returncode == 0
        asked.append(project.installs())
    assert asked == [["project[plan]"], [], ["project[data,plan,plot,report]"], []]
    (project.root / "pyproject.toml").write_text("[project]\n\n")
    project.use("plan")
    assert project.installs() == ["project[data,plan,plot,report]"]


def test_each_package_is_a_line_from_the_beginning(project: Project):
    said = (
        "Obtaining file:///p", "  Installing build dependencies: started", "Collecting numpy>=1.24",
        "  Downloading https://a.org/numpy-2.4.0-cp311-cp311-linux.whl.metadata (62 kB)",
        "  Downloading https://a.org/numpy-2.4.0-cp311-cp311-linux.whl (16.8 MB)",
        "  Using cached click-8.3.1-py3-none-any.whl (108 kB)", "Installing collected packages: numpy, click",
    )  # fmt: skip
    text = (project.programs / "python3").read_text()
    lines = "; ".join(f"echo '{line}'" for line in said)
    text = text.replace('*"pip install"*) exit', f'*"pip install"*) {lines}; exit')
    (project.programs / "python3").write_text(text)
    done = project.use("plan")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{project.root}/.venv/bin"
    making, installing, *packages, end = done.stderr.splitlines()
    assert making.startswith("Making ")
    assert installing.startswith("Installing ")
    assert packages == [
        "  reading the project ...", "  numpy 2.4.0 (16.8 MB)", "  click 8.3.1 (108 kB)",
        "  writing the packages ...",
    ]  # fmt: skip
    assert re.fullmatch(r"Installed in \d+ s\.", end)


def test_a_moved_project_is_installed_anew(project: Project):
    project.use()
    project.root = project.root.rename(project.root.with_name("moved project"))
    assert project.use().returncode == 0
    assert project.installs() == ["project[dev]"]


def test_a_failed_installation_is_told_and_tried_again(project: Project):
    failed = project.use(PIP_EXIT_CODE="1")
    assert failed.returncode == 1
    told = " ".join(failed.stderr.splitlines()[-3:])
    assert told.startswith("test: installation failed, see pip's message above. If the package index")
    assert "install the newest versions with BEASY_CONSTRAINTS= (empty)" in told
    assert "use an existing environment with BEASY_VENV=DIR" in told
    assert project.use().returncode == 0
    assert project.installs() == ["project[dev]"]


def test_each_named_python_has_an_environment_of_its_own(project: Project):
    make_python(project.programs / "python3.12", "3.12")
    for name in ("3.12", "python3.12", str(project.programs / "python3.12")):
        assert project.use(python=name).stdout.strip() == f"{project.root}/.venv-3.12/bin"


def test_pyenv_is_searched_and_shims_that_do_not_work_are_passed_over(project: Project):
    make_python(project.programs / "python3.13", "none", works=False)
    pyenv = project.root.parent / ".pyenv/versions/3.13.0/bin/python3.13"
    make_python(pyenv, "3.13")
    assert project.use(python="3.13").stdout.strip() == f"{project.root}/.venv-3.13/bin"
    assert f"{pyenv} -m venv" in project.log.read_text()


def test_an_old_default_python_gives_way_to_a_newer_one(project: Project):
    make_python(project.programs / "python3", "3.9", works=False)
    make_python(project.programs / "python3.10", "3.10")
    assert project.use().returncode == 0
    assert f"{project.programs}/python3.10 -m venv" in project.log.read_text()


def test_a_python_that_cannot_make_an_environment_gives_way_to_the_next(project: Project):
    make_python(project.programs / "python3", "3.11", venv=False)
    make_python(project.programs / "python3.12", "3.12")
    done = project.use()
    assert done.returncode == 0, done.stderr
    assert f"{project.programs}/python3.12 -m venv" in project.log.read_text()
    assert project.installs() == ["project[dev]"]
    assert "ensurepip" not in done.stderr
    assert "python3-venv" not in done.stderr
    assert project.use().stderr == ""


@pytest.mark.parametrize("python", ["", "3.12"])
def test_where_no_python_can_make_an_environment_all_are_named(project: Project, python: str):
    make_python(project.programs / "python3", "3.11", venv=False)
    make_python(project.programs / "python3.12", "3.12", venv=False)
    pyenv = project.root.parent / ".pyenv/versions/3.12.1/bin/python3.12"
    make_python(pyenv, "3.12", venv=False)
    done = project.use(python=python)
    assert done.returncode == 1
    assert "ensurepip is not available" in done.stderr
    first = [] if python else [f"{project.programs}/python3"]
    tried = " ".join([*first, f"{project.programs}/python3.12", str(pyenv)])
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"test: {tried}: cannot make a virtual environment (on Debian")
    assert project.installs() == []


def test_of_a_named_version_the_one_that_can_make_an_environment_is_taken(project: Project):
    make_python(project.programs / "python3.12", "3.12", venv=False)
    make_python(project.root.parent / ".pyenv/versions/3.12.1/bin/python3.12", "3.12")
    assert project.use(python="3.12").stdout.strip() == f"{project.root}/.venv-3.12/bin"


def test_a_broken_environment_is_made_anew(project: Project):
    project.use()
    make_python(project.root / ".venv/bin/python", "3.11", works=False)
    done = project.use()
    assert done.returncode == 0
    assert "Making" in done.stderr


def test_no_python_at_all(project: Project):
    make_python(project.programs / "python3", "3.9", works=False)
    done = project.use()
    assert done.returncode == 1
    assert "no Python 3.10 or newer" in done.stderr
    assert "nonsense" in project.use(python="nonsense").stderr


def test_a_ready_environment_is_taken_as_it_is(project: Project, tmp_path: Path):
    make_python(tmp_path / "ready/bin/python", "3.11")
    done = project.use(BEASY_VENV=str(tmp_path / "ready"))
    assert done.stdout.strip() == f"{tmp_path}/ready/bin"
    assert project.installs() == []
    assert not os.path.exists(project.root / ".venv")
    assert project.use(BEASY_VENV=str(tmp_path / "none")).returncode == 1
