"""A policy's run: scheduler and simulator in one process, or in two over ZeroMQ that end together."""

from __future__ import annotations

import contextlib
import math
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from beasy_sched.campaigns.workers import how, uninterrupted
from beasy_sched.errors import BeasyError, InputError
from beasy_sched.formats.run_summary import RunSummary, found_summary

PROGRAM = [sys.executable, "-m", "beasy_sched"]
LOG_NAME = "run_log.txt"
LISTENING = "listening on "
START_LIMIT_S = 60.0
"""Limit for the scheduler to print its endpoint."""
FAREWELL_S = 15.0
"""Limit for a process to end after it was asked to, and for the scheduler to end without a simulator."""
ORPHAN_S = 2.0
"""Limit for a simulator to notice that its scheduler has died."""
TICK_S = 0.05

Process = subprocess.Popen[str]


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


def summary_in(folder: Path) -> RunSummary | None:
    """Return the summary of a run; None if it has left none that can be read."""
    try:
        return found_summary(str(folder / "run"))
    except InputError:
        return None


def _cause(folder: Path) -> str | None:
    """Return the first error that the run printed, or the summary's; a lost partner does not count."""
    log = (folder / LOG_NAME).read_text("utf-8", errors="replace")
    complaints = re.findall(r"^(?:beasy-sched|Error): (.*)", log, re.MULTILINE)
    summary = summary_in(folder)
    told = None if summary is None else summary.error
    return next((found for found in complaints if "has gone away" not in found), told)


def run_both(
    scheduler_command: Sequence[str], simulator_command: Sequence[str], log: TextIO | None = None
) -> None:
    """Start the scheduler, then the simulator with ``-s ENDPOINT`` added, and wait for both.

    The scheduler's standard output is printed when both have ended. When one process dies, the other is
    ended too, and RunFailed is raised; whatever interrupts this ends both. ``log`` is a file, opened for
    appending, that takes all that both print.
    """
    scheduler = None
    processes: list[Process] = []
    try:
        with uninterrupted():
            scheduler = Scheduler(scheduler_command, log)
            processes.append(scheduler.process)
        command = [*simulator_command, "-s", scheduler.endpoint()]
        with uninterrupted():
            processes.append(start(command, log, log))
        _wait_for_both(*processes)
    finally:
        for process in processes:
            _end(process)
        if scheduler is not None:
            print(scheduler.output(), end="", flush=True, file=log)


class Scheduler:
    """The scheduler's process; its standard error is passed on, its standard output is kept for the end."""

    def __init__(self, command: Sequence[str], log: TextIO | None = None) -> None:
        """Start it; ``log`` is where its standard error goes, ours without one."""
        self.process = start(command, subprocess.PIPE, subprocess.PIPE)
        self._log = log
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._output: list[str] = []
        self._readers = [threading.Thread(target=f, daemon=True) for f in (self._pass_on, self._keep)]
        for reader in self._readers:
            reader.start()

    def endpoint(self) -> str:
        """Wait for the line ``listening on ENDPOINT``. Raises RunFailed where it does not come."""
        deadline = time.monotonic() + START_LIMIT_S
        with contextlib.suppress(queue.Empty):
            while line := self._lines.get(timeout=max(deadline - time.monotonic(), 0.0)):
                if line.startswith(LISTENING):
                    return line.removeprefix(LISTENING).strip()
            code = self.process.wait(FAREWELL_S)
            raise RunFailed(f"the scheduler {how(code)} before it listened", code)
        raise RunFailed(f"the scheduler printed no endpoint within {START_LIMIT_S:g} s")

    def output(self) -> str:
        """Return what it has printed on its standard output, once it has ended."""
        for reader in self._readers:
            reader.join(FAREWELL_S)
        return "".join(self._output)

    def _pass_on(self) -> None:
        target = self._log or sys.stderr
        for line in self.process.stderr:
            self._lines.put(line)
            target.write(line)
            target.flush()
        self._lines.put(None)

    def _keep(self) -> None:
        self._output.extend(self.process.stdout)


def start(
    command: Sequence[str], out: int | TextIO | None = None, err: int | TextIO | None = None
) -> Process:
    """Start a process in its own session: Ctrl-C reaches only this process, which then stops it in order."""
    return subprocess.Popen(
        list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True, start_new_session=True
    )


def _wait_for_both(scheduler: Process, simulator: Process) -> None:
    while scheduler.poll() is None and simulator.poll() is None:
        time.sleep(TICK_S)
    if scheduler.poll():  # it will never answer again
        _wait(simulator, ORPHAN_S)
    elif scheduler.poll() == 0:  # the simulation is over, the simulator writes its files
        _wait(simulator, math.inf)
    else:  # the scheduler notices, and writes what it has
        _wait(scheduler, FAREWELL_S)
    codes = {"scheduler": scheduler.poll(), "simulator": simulator.poll()}
    failures = [f"the {name} {how(code)}" for name, code in codes.items() if code]
    if scheduler.poll() is None:
        failures.append("the scheduler kept running without a simulator")
    if failures:
        raise RunFailed("; ".join(failures), next((code for code in codes.values() if code), 1))


def _wait(process: Process, limit_s: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(None if limit_s == math.inf else limit_s)


def _end(process: Process) -> None:
    """End a process that still runs: asked politely first, so that it writes what it has."""
    for end in (process.terminate, process.kill):
        if process.poll() is None:
            end()
            _wait(process, FAREWELL_S)
