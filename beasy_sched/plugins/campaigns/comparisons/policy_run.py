"""A policy's run within a comparison: scheduler and simulator in one process, or in two over ZeroMQ."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from beasy_sched.errors import InputError
from beasy_sched.formats.atomic import remove_old, write_atomic
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.run_files import failed_prefix
from beasy_sched.formats.run_summary import found_summary
from beasy_sched.outputs.tables import Contender
from beasy_sched.plugins.campaigns.comparisons.repeated_command import Program, StepFailed, exit_code_of
from beasy_sched.plugins.campaigns.comparisons.two_processes import run_both

PROGRAM: Final = (sys.executable, "-m", "beasy_sched")
LOG_NAME: Final = "run_log.txt"
FAILED_LOG_NAME: Final = "run_failed_log.txt"
_LOST_SCHEDULER: Final = re.compile(r"the scheduler at \S+ disconnected")
"""Error of a simulator whose scheduler has ended, which is not the cause of a failure."""


@dataclass(frozen=True)
class PolicyRun:
    """The commands of a policy's run, without the program's name, and its output folder."""

    program: Program
    folder: Path
    commands: tuple[list[str], ...]
    """`simulate`; or the scheduler's (`serve`) and the simulator's (`batsim`)."""
    logged: bool
    """Whether the output of the commands is written to a file in the folder."""


@dataclass(frozen=True)
class RunEnd:
    """Outcome of a run; ``failure`` and ``exit_code`` describe the error, if any."""

    duration_s: float
    failure: str | None = None
    exit_code: int = 0


def run_policy(run: PolicyRun) -> RunEnd:
    """Execute a run, in a separate process, and return its outcome.

    Its files, and the log, replace those of an earlier run if it reaches its end; if it fails, they have the
    names of a failed run.
    """
    begin_s = time.monotonic()
    failure, exit_code = None, 0
    try:
        run.folder.mkdir(parents=True, exist_ok=True)
        with _logging(run) as log:
            _execute(run.program, run.commands, log)
    except StepFailed as error:
        cause = _cause(run.folder) if run.logged else None
        failure, exit_code = cause or str(error), error.exit_code
    except OSError as error:
        failure, exit_code = f"{error.filename}: {error.strerror}", 1
    return RunEnd(time.monotonic() - begin_s, failure, exit_code)


@contextlib.contextmanager
def _logging(run: PolicyRun) -> Iterator[TextIO | None]:
    """Open the log of a run for a block, if it has one; if the block raises, it is a failed run's log."""
    if not run.logged:
        yield None
        return
    with tempfile.TemporaryFile("a+", encoding="utf-8") as log:
        place = FAILED_LOG_NAME
        try:
            yield log
            place = LOG_NAME
        finally:
            log.seek(0)
            write_atomic(run.folder / place, log.read())
    remove_old([run.folder / FAILED_LOG_NAME])


def _execute(program: Program, commands: Sequence[list[str]], log: TextIO | None) -> None:
    """Execute one command here, or two in separate processes. Raises StepFailed."""
    if len(commands) == 2:
        scheduler, simulator = ([*PROGRAM, *command] for command in commands)
        run_both(scheduler, simulator, log)
    elif code := exit_code_of(program, commands[0], log):
        raise StepFailed(f"'beasy-sched {commands[0][0]}' ended with exit code {code}", code)


def contender(label: str, folder: Path, problem: str | None = None) -> Contender:
    """Return a policy's row of a comparison, with the summary of its run, or of its failed run.

    The summary of an earlier run is not used.
    """
    prefix, summary = str(folder / "run"), None
    with contextlib.suppress(InputError):
        summary = found_summary(prefix if problem is None else failed_prefix(prefix))
        if (
            problem is not None and summary is None
        ):  # after a deadlock, files have the names of a finished run
            whole = found_summary(prefix)
            summary = whole if whole is not None and whole.error and whole.error in problem else None
    return Contender(label, summary, problem)


def _cause(folder: Path) -> str | None:
    """Return the first error that a failed run printed, other than a lost scheduler, or its summary's."""
    log = read_bytes(folder / FAILED_LOG_NAME).decode("utf-8", errors="replace")
    complaints = re.findall(r"^(?:beasy-sched|Error): (.*)", log, re.MULTILINE)
    summary = contender("", folder, "failed").summary
    otherwise = None if summary is None else summary.error
    return next((complaint for complaint in complaints if not _LOST_SCHEDULER.match(complaint)), otherwise)
