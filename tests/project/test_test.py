"""scripts/test: its steps, played by programs that only note that they were called."""

import os
from pathlib import Path

import parts
import pytest
from long_first import long_first
from project.shell import ROOT, run

STEPS = [
    "ruff check", "ruff format --check", "mypy", "lint-imports", "python -m pytest -n auto --dist worksteal"
]  # fmt: skip
TWICE = 2 * os.sysconf("SC_NPROCESSORS_ONLN")
SLOW = f"python -m pytest -m slow --timeout 900 -n {TWICE} --dist worksteal"
FAKE = """#!/bin/sh
call="{name}${{*:+ $*}}${{PYTHONDONTWRITEBYTECODE:+ without bytecode}}"
case "$call" in python\\ -c*|python\\ --version) exit 0 ;; esac
echo "$call" >>"$LOG"
[ "$call" != "$FAIL_AT" ]
"""


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "ruff", "mypy", "lint-imports"):
        (programs / name).write_text(FAKE.format(name=name))
        (programs / name).chmod(0o755)
    return programs.parent


def check(venv: Path, *arguments: str, fail_at: str = "") -> tuple[int, str, list[str]]:
    """Run scripts/test; return its exit code, its last line, and the programs called."""
    log = venv / "log"
    log.write_text("")
    variables = {"BEASY_VENV": str(venv), "LOG": str(log), "FAIL_AT": fail_at, "PYTHONDONTWRITEBYTECODE": "1"}
    done = run(ROOT / "scripts/test", *arguments, cwd=venv, variables=variables)
    return done.returncode, (done.stdout + done.stderr).splitlines()[-1], log.read_text().splitlines()


def test_all_steps_in_order(venv: Path):
    assert check(venv) == (0, "test: all passed", STEPS)


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_ends_at_the_first_step_that_fails(venv: Path, number: int):
    exit_code, last, called = check(venv, fail_at=STEPS[number])
    assert exit_code == 1
    assert last.startswith("test: FAILED at ")
    assert called == STEPS[: number + 1]


def test_options(venv: Path):
    assert check(venv, "--only-tests")[2] == STEPS[-1:]
    assert check(venv, "--slow")[2] == [*STEPS, SLOW]
    assert check(venv, "--slow", fail_at=SLOW)[0] == 1


def test_other_arguments_go_to_pytest(venv: Path):
    assert check(venv, "--only-tests", "-k", "a b")[2] == ["python -m pytest -k a b"]
    assert check(venv, "--", "--slow")[2][-1] == "python -m pytest --slow"


def test_help_and_misuse(venv: Path):
    assert run(ROOT / "scripts/test", "--help").stdout.startswith("Usage: scripts/test")
    assert check(venv, "--python") == (2, "test: --python needs a program or a version, such as 3.12", [])


# --- what a change concerns -----------------------------------------------------------------------------

NEEDS = {
    "campaigns": {"reports"},
    "learning": {"campaigns", "reports"},
    "reports": set[str](),
    "slurm": set[str](),
}
WHOLE = ["tests/api", "tests/project", "tests/studies", "tests/whole"]


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ([], []),
        (["LICENSE"], []),
        (["docs/start.md"], WHOLE),
        (["beasy_sched/plugins/slurm/live.py"], ["tests/plugins/slurm", *WHOLE]),
        (["tests/plugins/learning/test_training.py"], ["tests/plugins/learning", *WHOLE]),
        (
            ["beasy_sched/plugins/reports/html.py", "README.md"],
            ["tests/plugins/campaigns", "tests/plugins/learning", "tests/plugins/reports", *WHOLE],
        ),
        (["beasy_sched/plugins/slurm/live.py", "beasy_sched/units.py"], ["tests"]),
        (["beasy_sched/plugins/__init__.py"], ["tests"]),
        (["tests/engine/test_guard.py"], ["tests"]),
    ],
)
def test_the_tests_that_a_change_concerns(changed: list[str], tests: list[str]):
    assert parts.tests_of(changed, NEEDS) == tests


def test_every_folder_of_tests_belongs_to_a_part():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    core = {name.removeprefix("tests/") for name in parts.core_tests(ROOT)}
    assert folders <= core | {*parts.WHOLE}


def test_changed_runs_what_git_names(venv: Path):
    status, last, called = check(venv, "--only-tests", "--changed=no-such-commit")
    assert (status, last) == (0, "test: nothing has changed since no-such-commit that a test concerns")
    assert called == ["python scripts/parts.py changed no-such-commit"]


def test_apart_runs_all_parts(venv: Path):
    assert check(venv, "--only-tests", "--apart", "-x")[2] == ["python scripts/parts.py apart -x"]


class Item:
    """A test that may be marked as long."""

    def __init__(self, *, is_long: bool) -> None:
        self.is_long = is_long

    def get_closest_marker(self, name: str) -> str | None:
        return name if self.is_long else None


@pytest.mark.parametrize("count", [0, 3, 20])
def test_half_of_the_workers_begin_with_long_tests(count: int):
    items = [Item(is_long=number >= 20 - count) for number in range(20)]
    for workers in range(1, 6):
        assert sorted(map(id, long_first(items, workers))) == sorted(map(id, items))
    begun = [item.is_long for item in long_first(items, 4)]
    if count == 3:
        assert [n for n, is_long in enumerate(begun) if is_long] == [0, 1, 5]
