"""A policy's run within a comparison: scheduler and simulator in one process, or in two over ZeroMQ."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from beasy_sched.comparisons.commands import Program, StepFailed, exit_code_of
from beasy_sched.comparisons.two_processes import run_both
from beasy_sched.errors import InputError
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.run_summary import RunSummary, found_summary

PROGRAM: Final = (sys.executable, "-m", "beasy_sched")
LOG_NAME: Final = "run_log.txt"


@dataclass(frozen=True)
class PolicyRun:
    """The commands of a policy's run, without the program's name, and its output folder."""

    program: Program
    folder: Path
    commands: tuple[list[str], ...]
    """`simulate`; or the scheduler's (`serve`) and the simulator's (`batsim`)."""
    logged: bool
    """Whether the output of the commands goes to a file in the folder."""


@dataclass(frozen=True)
class RunEnd:
    """How a run ended; ``failure`` and ``exit_code`` describe what went wrong, if anything."""

    duration_s: float
    failure: str | None = None
    exit_code: int = 0


def run_policy(run: PolicyRun) -> RunEnd:
    """Execute a run, in a process of its own, and report how it ended.

    Results of an earlier run are removed first.
    """
    begin_s = time.monotonic()
    failure, exit_code = None, 0
    try:
        run.folder.mkdir(parents=True, exist_ok=True)
        for path in run.folder.glob("run_*"):
            path.unlink()
        log = (run.folder / LOG_NAME).open("a", encoding="utf-8") if run.logged else None
        with log or contextlib.nullcontext():
            _execute(run.program, run.commands, log)
    except StepFailed as error:
        cause = _cause(run.folder) if run.logged else None
        failure, exit_code = cause or str(error), error.exit_code
    except OSError as error:
        failure, exit_code = f"{error.filename}: {error.strerror}", 1
    return RunEnd(time.monotonic() - begin_s, failure, exit_code)


def _execute(program: Program, commands: Sequence[list[str]], log: TextIO | None) -> None:
    """Execute one command here, or two in processes of their own. Raises StepFailed."""
    if len(commands) == 2:
        scheduler, simulator = ([*PROGRAM, *command] for command in commands)
        run_both(scheduler, simulator, log)
    elif code := exit_code_of(program, commands[0], log):
        raise StepFailed(f"'beasy-sched {commands[0][0]}' ended with exit code {code}", code)


def summary_in(folder: Path) -> RunSummary | None:
    """Return the summary of a run; None if it has left none that can be read."""
    try:
        return found_summary(str(folder / "run"))
    except InputError:
        return None


def _cause(folder: Path) -> str | None:
    """Return the first error that the run printed, or the summary's; a lost partner does not count."""
    log = read_bytes(folder / LOG_NAME).decode("utf-8", errors="replace")
    complaints = re.findall(r"^(?:beasy-sched|Error): (.*)", log, re.MULTILINE)
    summary = summary_in(folder)
    told = None if summary is None else summary.error
    return next((found for found in complaints if "has gone away" not in found), told)
