"""A policy's run: scheduler and simulator in one process, or in two that communicate over ZeroMQ."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from beasy_sched.errors import BeasyError

PROGRAM = [sys.executable, "-m", "beasy_sched"]
LOG_NAME = "run_log.txt"


class RunFailed(BeasyError):
    """A step of scripts/run failed; the text says which, and how."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code if exit_code > 0 else 1


@dataclass(frozen=True)
class PolicyRun:
    """The commands of a policy's run, without the program's name, and its output folder."""

    folder: Path
    commands: tuple[list[str], ...]
    """`simulate`; or the scheduler's (`serve`) and the simulator's (`batsim`)."""
    logged: bool
    """Whether their output goes to a file in the folder."""


@dataclass(frozen=True)
class Ended:
    """How a run ended; ``failure`` and ``exit_code`` describe what went wrong, if anything."""

    duration_s: float
    failure: str | None = None
    exit_code: int = 0


def run_policy(run: PolicyRun) -> Ended:
    """Execute a run, in a process of its own, and report how it ended.

    Results of an earlier run are removed first.
    """
    begin = time.monotonic()
    try:
        run.folder.mkdir(parents=True, exist_ok=True)
        for path in run.folder.glob("run_*"):
            path.unlink()
        log = (run.folder / LOG_NAME).open("a", encoding="utf-8") if run.logged else None
        with log or contextlib.nullcontext():
            _execute(run.commands, log)
    except RunFailed as error:
        cause = _cause(run.folder) if run.logged else None
        return Ended(time.monotonic() - begin, cause or str(error), error.exit_code)
    except OSError as error:
        return Ended(time.monotonic() - begin, f"{error.filename}: {error.strerror}", 1)
    return Ended(time.monotonic() - begin)


def _execute(commands: Sequence[list[str]], log: TextIO | None) -> None:
    """Execute one command here, or two in processes of their own. Raises RunFailed."""
    if len(commands) == 2:
        from two_processes import run_both

        run_both(*([*PROGRAM, *command] for command in commands), log)
        return
    from beasy_sched.cli import main

    if code := _exit_code(lambda: main(commands[0]), log):
        raise RunFailed(f"'beasy-sched {commands[0][0]}' ended with exit code {code}", code)


def _exit_code(work: Callable[[], None], log: TextIO | None) -> int:
    """Return the exit code with which ``work`` leaves; what it prints goes to ``log``, if there is one."""
    with contextlib.ExitStack() as stack:
        if log is not None:
            stack.enter_context(contextlib.redirect_stdout(log))
            stack.enter_context(contextlib.redirect_stderr(log))
        try:
            work()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def summary_in(folder: Path) -> dict[str, Any] | None:
    """Return the summary of a run; None if it has left none."""
    try:
        found = json.loads((folder / "run_summary.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _cause(folder: Path) -> str | None:
    """Return the first error that the run printed, or the summary's; a lost partner does not count."""
    log = (folder / LOG_NAME).read_text("utf-8", errors="replace")
    complaints = re.findall(r"^(?:beasy-sched|Error): (.*)", log, re.MULTILINE)
    told = (summary_in(folder) or {}).get("error")
    return next((found for found in complaints if "has gone away" not in found), told)
