"""Run the project's scripts as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 600.0
"""Longest time that a command may take, s; on a busy machine, it takes many times as long as alone."""


def run(
    *command: str | Path,
    cwd: Path = ROOT,
    variables: Mapping[str, str] | None = None,
    timeout_s: float = PATIENCE_S,
) -> subprocess.CompletedProcess[str]:
    """Run a command in the environment of these tests, which the scripts are to use as it is."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "BEASY_VENV": sys.prefix, **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def study_command(name: str, *arguments: str | Path) -> list[str]:
    """scripts/reproduce_NAME in this environment."""
    return [sys.executable, str(ROOT / "scripts/run_study.py"), name, *map(str, arguments)]


def run_study(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run scripts/reproduce_NAME to its end."""
    return run(*study_command(name, *arguments))


def changed_at(folder: Path) -> dict[Path, int]:
    """When each run's file in a study's journal was written, ns."""
    return {path: path.stat().st_mtime_ns for path in folder.glob("rows/*.json")}
