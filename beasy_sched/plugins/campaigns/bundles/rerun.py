"""Rerun of the campaign of a bundle: in this environment, or a fresh one with the bundle's versions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from beasy_sched.errors import ConfigError
from beasy_sched.limits import shortened
from beasy_sched.plugins.campaigns.bundles import layout
from beasy_sched.plugins.campaigns.bundles.comparing import Verdict, compare
from beasy_sched.plugins.campaigns.campaign import Progress, begin, go_on
from beasy_sched.plugins.campaigns.scenario_file import read_scenario
from beasy_sched.plugins.campaigns.workers import Executor
from beasy_sched.policies.registry import check_named_in_data

PRESENT: Final = "use --environment present to run it with the installed packages"
_PATIENCE_S: Final = 10.0
"""Time limit for an interrupted rerun to end its runs, s."""
_AGAIN: Final = "campaign"
"""Folder of the campaign within the folder of a rerun, so that shared plans are not those of others."""


def check_allowed(bundle: layout.Bundle, allowed: Collection[str]) -> None:
    """Raise ConfigError for a policy of the bundle's own code that is not ``allowed``."""
    for name in bundle.description.policies:
        check_named_in_data(name, allowed, f"allow it by name with --allow-policy {shortened(name)}")


def run_again(
    bundle: layout.Bundle,
    out: Path,
    executor: Executor,
    *,
    progress: Progress | None = None,
    allowed: Collection[str] = (),
) -> Verdict:
    """Run a bundle's campaign in this environment, in the folder ``out``, and compare.

    ``allowed`` are the policies ``package.module:Class`` that may be imported. Raises ConfigError, InputError
    and MachineError.
    """
    if allowed:
        sys.path.insert(0, os.fspath((bundle.path / layout.POLICIES).absolute()))
    scenarios = [read_scenario(path, allowed=allowed) for path in bundle.scenarios]
    begin(scenarios, out / _AGAIN, keep=bundle.description.keep)
    go_on(out / _AGAIN, executor, progress=progress, allowed=allowed)
    return compare(bundle, out / _AGAIN, scenarios)


@contextmanager
def fresh_environment(bundle: layout.Bundle, python: str | None) -> Iterator[Path]:
    """Create a temporary virtual environment with the versions of the bundle; yields its Python.

    ``python`` is the program to create it with (None: search for the bundle's version). Raises ConfigError if
    it cannot be created.
    """
    made_with = _find_python(bundle, python)
    with tempfile.TemporaryDirectory(prefix="beasy-environment-", ignore_cleanup_errors=True) as name:
        place = Path(name, "venv")
        _done([made_with, "-m", "venv", place], f"{made_with} cannot create a virtual environment")
        inside = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        pip: list[str | Path] = [
            inside,
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        wanted = [bundle.path / layout.REQUIREMENTS, bundle.path / bundle.description.wheel]
        _done([*pip, "-r", *wanted], "the versions of the bundle cannot be installed")
        yield inside


def run_in(python: Path, arguments: Sequence[str]) -> int:
    """Run this program with another Python, in a folder without modules; return its exit code.

    An interrupt of this process also ends the other one, which gets time to stop its runs.
    """
    command: list[str | Path] = [python, "-m", "beasy_sched", *arguments]
    with (
        tempfile.TemporaryDirectory(prefix="beasy-rerun-") as empty,
        subprocess.Popen(command, cwd=empty, env=_clean_environment()) as other,
    ):
        try:
            code = other.wait()
        except BaseException:
            other.terminate()
            try:
                other.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                other.kill()
            raise
    return code if code >= 0 else 128 - code


def _find_python(bundle: layout.Bundle, given: str | None) -> str:
    """Return a Python of the bundle's version, up to its last number. Raises ConfigError."""
    wanted = bundle.description.python_minor
    names = [given] if given is not None else [sys.executable, f"python{wanted}", "python3"]
    for name in names:
        if (path := shutil.which(name)) is not None and _version_of(path) == wanted:
            return path
    problem = f"{given} is not that version" if given is not None else f"python{wanted} is not on the PATH"
    raise ConfigError(
        f"the bundle was made with Python {wanted}, and {problem}: name one with --python, or {PRESENT}"
    )


def _version_of(python: str) -> str:
    tell = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", tell], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _done(command: Sequence[str | Path], otherwise: str) -> None:
    """Run a command. Raises ConfigError, with the command's error output, if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=_clean_environment(), check=False)
    except OSError as error:
        raise ConfigError(f"{otherwise}: {error}") from None
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
        why = [f"exit code {done.returncode}", *lines[-1:], *errors[-1:]][-1]
        raise ConfigError(f"{otherwise}: {why}. Without it, {PRESENT}")


def _clean_environment() -> dict[str, str]:
    """Return the environment variables without those that make Python find other modules than its own."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
