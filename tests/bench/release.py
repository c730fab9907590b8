"""The last release beside this version: its package, and what both need for the same run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_UNRELEASED = "## [Unreleased]"
_DATED = re.compile(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", re.MULTILINE)

LAUNCHER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime)
sys.exit(code)
"""

PROFILER = """
import cProfile, pstats
import beasy_sched.run.in_process
from beasy_sched.cli import main
profile = cProfile.Profile()
try:
    profile.runcall(main)
except SystemExit as ended:
    if ended.code:
        raise
stats = pstats.Stats(profile)
asked = [calls for (file, _, name), (_, calls, *_) in stats.stats.items()
         if name == "step" and file.endswith("session.py")]
print(stats.total_calls, *asked)
"""


class NoRelease(Exception):
    """There is no release to compare with: the text states why, and what to do."""


def last_release(changelog: str) -> tuple[str, str]:
    """Return the last version that a changelog dates, and its heading. Raises NoRelease.

    Without unreleased changes, it is the one before: the last is the present one.
    """
    dated, own = [*_DATED.finditer(changelog)], _UNRELEASED not in changelog
    if len(dated) <= own:
        raise NoRelease("CHANGELOG.md dates no version, or only the present one")
    return dated[own][1], dated[own][0]


def release_package(wheel: Path | None, folder: Path, root: Path = ROOT) -> str:
    """Put the package of the last release into ``folder``; return its version.

    It comes from ``wheel``, or from the commit of the release in the clone ``root``: the one with the tag, or
    else the one that dated the version in the changelog. Raises NoRelease without either.
    """
    if wheel is not None:
        if not zipfile.is_zipfile(wheel):
            raise NoRelease(f"{wheel} is not a wheel")
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)
        return wheel.name.split("-")[1]
    version, heading = last_release((root / "CHANGELOG.md").read_text("utf-8"))
    commit = _git(root, "rev-parse", "--verify", "--quiet", f"v{version}^{{commit}}").decode().strip()
    if not commit:
        dated = _git(root, "log", "--format=%H", f"-S{heading}", "--", "CHANGELOG.md").decode().split()
        commit = dated[-1] if dated else ""
    packed = _git(root, "archive", "--format=zip", commit, "beasy_sched") if commit else b""
    if not packed:
        raise NoRelease(
            f"{root.name} has neither the tag v{version} nor the commit that dated {version}: fetch the tags,"
            " or give the release's wheel with --release FILE"
        )
    with zipfile.ZipFile(BytesIO(packed)) as archive:
        archive.extractall(folder)
    return version


def _git(root: Path, *arguments: str) -> bytes:
    """Return what git prints; nothing if it fails or is missing."""
    command = ["git", "-C", root, *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=False).stdout
    except FileNotFoundError:
        return b""


def run_package(package: Path, script: str, *arguments: object, cwd: Path) -> str:
    """Run a Python ``script`` with the package in a folder, and no other; return what it prints."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=cwd,
        env={**environment, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def user_s(package: Path, *arguments: object, cwd: Path) -> float:
    """Return the user CPU time of a command of the package, s."""
    return float(run_package(package, LAUNCHER, sys.executable, "-m", "beasy_sched", *arguments, cwd=cwd))


def calls_a_message(package: Path, *arguments: object, cwd: Path) -> float:
    """Return the calls that cProfile counts in a command of the package for each message of its run."""
    calls, *messages = map(int, run_package(package, PROFILER, *arguments, cwd=cwd).split())
    assert messages, "no function is called once for each message: has Session.step another name?"
    return calls / sum(messages)
