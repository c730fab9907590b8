"""Run the scheduler and the simulator as two processes that talk over ZeroMQ, and end both together."""

from __future__ import annotations

import contextlib
import math
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import TextIO

LISTENING = "listening on "
START_LIMIT_S = 60.0
"""How long the scheduler may take to print its endpoint."""
FAREWELL_S = 15.0
"""How long a process may take to end once it has been asked to, and the scheduler without a simulator."""
ORPHAN_S = 2.0
"""How long a simulator may take to find that its scheduler has died."""
TICK_S = 0.05

Process = subprocess.Popen[str]


class RunFailed(Exception):
    """Something did not do its part; the text tells what and how."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code if exit_code > 0 else 1


class Stopped(Exception):
    """A signal asked to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class StopSignals:
    """Notes SIGINT and SIGTERM instead of raising at once: no process may be lost between two lines.

    ``number`` is that of the signal that has come, None before.
    """

    def __enter__(self) -> StopSignals:
        self.number: int | None = None
        self._old = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise Stopped where a signal has come. Any thread may ask; only the main one may enter."""
        if self.number is not None:
            raise Stopped(self.number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number


class Scheduler:
    """The scheduler's process; its standard error is passed on, its standard output kept for later."""

    def __init__(self, command: Sequence[str], log: TextIO | None = None) -> None:
        """Start it; ``log`` is where its standard error goes, ours without one."""
        self.process = start(command, subprocess.PIPE, subprocess.PIPE)
        self._log = log
        self._lines: queue.Queue[str] = queue.Queue()
        self._output: list[str] = []
        self._readers = [threading.Thread(target=f, daemon=True) for f in (self._pass_on, self._keep)]
        for reader in self._readers:
            reader.start()

    def endpoint(self, signals: StopSignals) -> str:
        """Wait for the line ``listening on ENDPOINT``. Raises RunFailed where it does not come."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            signals.check()
            code = self.process.poll()
            try:
                line = self._lines.get(timeout=TICK_S)
            except queue.Empty:
                if code is not None:
                    raise RunFailed(f"the scheduler {how(code)} before it listened", code) from None
                continue
            if line.startswith(LISTENING):
                return line.removeprefix(LISTENING).strip()
        raise RunFailed(f"the scheduler has told no endpoint within {START_LIMIT_S:g} s")

    def output(self) -> str:
        """Return what it has printed on its standard output, once it has ended."""
        for reader in self._readers:
            reader.join(FAREWELL_S)
        return "".join(self._output)

    def _pass_on(self) -> None:
        assert self.process.stderr is not None
        target = self._log or sys.stderr
        for line in self.process.stderr:
            self._lines.put(line)
            target.write(line)
            target.flush()

    def _keep(self) -> None:
        assert self.process.stdout is not None
        self._output.extend(self.process.stdout)


def run_both(
    scheduler_command: Sequence[str],
    simulator_command: Sequence[str],
    signals: StopSignals | None = None,
    log: TextIO | None = None,
) -> None:
    """Start the scheduler, then the simulator with ``-s ENDPOINT`` added, and wait for both.

    The scheduler's standard output is printed when both have ended. When one process dies, the other is
    ended too, and RunFailed is raised. SIGINT and SIGTERM end both, and raise Stopped.

    ``signals``: those of the main thread, to run this in another one. ``log``: a file, opened for
    appending, that takes all that both print.
    """
    scheduler = None
    processes: list[Process] = []
    with contextlib.nullcontext(signals) if signals is not None else StopSignals() as noted:
        try:
            noted.check()
            scheduler = Scheduler(scheduler_command, log)
            processes.append(scheduler.process)
            simulator = start([*simulator_command, "-s", scheduler.endpoint(noted)], log, log)
            processes.append(simulator)
            _wait_for_both(scheduler.process, simulator, noted)
        finally:
            for process in processes:
                _end(process)
            if scheduler is not None:
                print(scheduler.output(), end="", flush=True, file=log)


def start(
    command: Sequence[str], out: int | TextIO | None = None, err: int | TextIO | None = None
) -> Process:
    """Start a process in a session of its own: Ctrl-C reaches only us, who end it in order."""
    return subprocess.Popen(
        list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True, start_new_session=True
    )


def how(code: int) -> str:
    """Tell in words how a process ended."""
    return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


def _wait_for_both(scheduler: Process, simulator: Process, signals: StopSignals) -> None:
    while scheduler.poll() is None and simulator.poll() is None:
        signals.check()
        time.sleep(TICK_S)
    if scheduler.poll():  # it will never answer again
        _wait(simulator, ORPHAN_S, signals)
    elif scheduler.poll() == 0:  # the simulation is over, the simulator writes its files
        _wait(simulator, math.inf, signals)
    else:  # the scheduler notices, and writes what it has
        _wait(scheduler, FAREWELL_S, signals)
    codes = {"scheduler": scheduler.poll(), "simulator": simulator.poll()}
    failures = [f"the {name} {how(code)}" for name, code in codes.items() if code]
    if scheduler.poll() is None:
        failures.append("the scheduler goes on without a simulator")
    if failures:
        raise RunFailed("; ".join(failures), next((code for code in codes.values() if code), 1))


def _wait(process: Process, limit_s: float, signals: StopSignals) -> None:
    deadline = time.monotonic() + limit_s
    while process.poll() is None and time.monotonic() < deadline:
        signals.check()
        time.sleep(TICK_S)


def _end(process: Process) -> None:
    """End a process that still runs: asked politely first, so that it writes what it has."""
    for end in (process.terminate, process.kill):
        if process.poll() is None:
            end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(FAREWELL_S)
