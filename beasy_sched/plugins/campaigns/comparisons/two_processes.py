"""Scheduler and simulator as two processes that communicate over ZeroMQ, and end together."""

from __future__ import annotations

import contextlib
import math
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final, TextIO

from beasy_sched.plugins.campaigns.child_processes import how_it_ended, uninterrupted
from beasy_sched.plugins.campaigns.comparisons.repeated_command import StepFailed

LISTENING: Final = "listening on "
START_LIMIT_S = 60.0
"""Limit for the scheduler to print its endpoint, s."""
FAREWELL_S = 15.0
"""Limit for a process to end on request, and for the scheduler to end without a simulator, s."""
ORPHAN_S = 2.0
"""Limit for a simulator to notice that its scheduler has died, s."""
_TICK_S: Final = 0.05

Process = subprocess.Popen[str]


def run_both(
    scheduler_command: Sequence[str], simulator_command: Sequence[str], log: TextIO | None = None
) -> None:
    """Start the scheduler, then the simulator with ``-s ENDPOINT`` added, and wait for both.

    The scheduler's standard output is printed when both have ended. When one process dies, the other is
    also ended, and StepFailed is raised; an interrupt ends both. ``log`` is a file, opened for appending,
    that receives all output.
    """
    scheduler = None
    processes: list[Process] = []
    try:
        with uninterrupted():
            scheduler = SchedulerProcess(scheduler_command, log)
            processes.append(scheduler.process)
        command = [*simulator_command, "-s", scheduler.endpoint()]
        with uninterrupted():
            processes.append(_start(command, log, log))
        _wait_for_both(*processes)
    finally:
        for process in processes:
            _end(process)
        if scheduler is not None:
            print(scheduler.output(), end="", flush=True, file=log)


class SchedulerProcess:
    """The scheduler's process; its standard error is passed on, its standard output is kept for the end."""

    def __init__(self, command: Sequence[str], log: TextIO | None = None) -> None:
        """Start the scheduler; ``log`` receives its standard error (None: this process's)."""
        self.process = _start(command, subprocess.PIPE, subprocess.PIPE)
        self._log = log
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._output: list[str] = []
        self._readers = [threading.Thread(target=f, daemon=True) for f in (self._pass_on, self._keep)]
        for reader in self._readers:
            reader.start()

    def endpoint(self) -> str:
        """Wait for the line ``listening on ENDPOINT``. Raises StepFailed if it is missing."""
        deadline = time.monotonic() + START_LIMIT_S
        with contextlib.suppress(queue.Empty):
            while line := self._lines.get(timeout=max(deadline - time.monotonic(), 0.0)):
                if line.startswith(LISTENING):
                    return line.removeprefix(LISTENING).strip()
            code = self.process.wait(FAREWELL_S)
            raise StepFailed(f"the scheduler {how_it_ended(code)} before it listened", code)
        raise StepFailed(f"the scheduler printed no endpoint within {START_LIMIT_S:g} s")

    def output(self) -> str:
        """Return the standard output of the scheduler, after it has ended."""
        for reader in self._readers:
            reader.join(FAREWELL_S)
        return "".join(self._output)

    def _pass_on(self) -> None:
        target = self._log or sys.stderr
        for line in self.process.stderr or ():
            self._lines.put(line)
            target.write(line)
            target.flush()
        self._lines.put(None)

    def _keep(self) -> None:
        self._output.extend(self.process.stdout or ())


def _start(
    command: Sequence[str], out: int | TextIO | None = None, err: int | TextIO | None = None
) -> Process:
    """Start a process in its own session: Ctrl-C reaches only this process, which then stops it regularly."""
    return subprocess.Popen(
        list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True, start_new_session=True
    )


def _wait_for_both(scheduler: Process, simulator: Process) -> None:
    while scheduler.poll() is None and simulator.poll() is None:
        time.sleep(_TICK_S)
    if scheduler.poll():  # it will not reply again
        _wait(simulator, ORPHAN_S)
    elif scheduler.poll() == 0:  # the simulation is over, the simulator writes its files
        _wait(simulator, math.inf)
    else:  # the scheduler notices, and writes its results so far
        _wait(scheduler, FAREWELL_S)
    codes = {"scheduler": scheduler.poll(), "simulator": simulator.poll()}
    failures = [f"the {name} {how_it_ended(code)}" for name, code in codes.items() if code]
    if scheduler.poll() is None:
        failures.append("the scheduler kept running without a simulator")
    if failures:
        raise StepFailed("; ".join(failures), next((code for code in codes.values() if code), 1))


def _wait(process: Process, limit_s: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(None if limit_s == math.inf else limit_s)


def _end(process: Process) -> None:
    """End a running process: first with SIGTERM, so that it writes its results so far."""
    for end in (process.terminate, process.kill):
        if process.poll() is None:
            end()
            _wait(process, FAREWELL_S)
