"""The output of a program as a source of readings."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from typing import IO, Final

from beasy_sched.errors import ConfigError
from beasy_sched.limits import shortened
from beasy_sched.slurm.readings import Quantity
from beasy_sched.slurm.sources.base import Lines, Pause, Source, words_of

_PIPEFUL: Final = 1 << 16
"""Number of bytes read from a pipe at a time."""
_STEADY_S: Final = 60.0
"""Run time of a program after which pauses are reset, s."""
_MOMENT_S: Final = 0.05
"""Time limit for a program to end after it has closed its output, s."""
_FAREWELL_S: Final = 1.0
"""Time limit for a program to end, s."""


class CommandSource(Source):
    """A program that prints a reading on each line. If it ends, it is started again.

    It may keep running, or print its reading and end without an error.
    """

    def __init__(self, command: str, quantity: Quantity, epoch_s: float | None, interval_s: float) -> None:
        """``command`` is split as by a shell, and run without one. Raises ConfigError."""
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise ConfigError(
                f"the {quantity.name} source command:{command} cannot be read: {str(error).lower()}"
            ) from None
        if not self._command or not self._command[0]:
            raise ConfigError(
                f"the {quantity.name} source does not name a program: expected command:PROGRAM ARGS"
            )
        super().__init__(f"command:{self._command[0]}", quantity, epoch_s)
        self._interval_s = interval_s
        self._pause = Pause()
        self._process: subprocess.Popen[bytes] | None = None
        self._lines, self._errors = Lines(), Lines()
        self._last_error = ""
        self._started_s = 0.0
        self._said = False
        """Whether the process has given a reading."""

    def close(self) -> None:
        """End the program and its child processes."""
        if self._process is not None:
            _signal(self._process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_FAREWELL_S)
        self._kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _signal(process, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def _look(self, now: float) -> None:
        if self._process is None and self._pause.is_over(now):
            self._start(now)
        process = self._process
        if process is None or process.stdout is None or process.stderr is None:
            return
        has_ended = process.poll() is not None  # before the rest of its output is read
        output, is_open = _available(process.stdout)
        for line in self._lines.feed(output):
            self._said |= self._take(line, now)
        for line in self._errors.feed(_available(process.stderr)[0]):
            self._last_error = line.decode(errors="replace").strip() or self._last_error
        if not is_open or (has_ended and len(output) < _PIPEFUL):
            self._end(process, now)

    def _start(self, now: float) -> None:
        self._lines, self._errors, self._last_error, self._said = Lines(), Lines(), "", False
        self._reader.forget()
        self._started_s = now
        try:
            self._process = subprocess.Popen(
                self._command,
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._pause.begin_longer(now)
            self._trouble(now, "start", f"cannot be started: {words_of(error)}; retrying")
            return
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)

    def _end(self, process: subprocess.Popen[bytes], now: float) -> None:
        """Read the rest of the output of a program that has ended or closed its output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_MOMENT_S)
        code = process.poll()
        self._kill()
        if code == 0 and self._lines.rest:
            self._said |= self._take(self._lines.rest, now)
        if code == 0 and self._said:
            self._pause.begin(now, self._interval_s)
            return
        if now - self._started_s >= _STEADY_S:
            self._pause = Pause()
        pause_s = self._pause.begin_longer(now)
        if code == 0 and self.damaged:
            return  # its output without a reading was reported
        if code is None:
            how = "has closed its output"
        else:
            how = f"was ended by signal {-code}" if code < 0 else f"has ended with exit code {code}"
        words = self._errors.rest.decode(errors="replace").strip() or self._last_error
        told = f" ({shortened(words)})" if words else " without a reading" if code == 0 else ""
        self._trouble(now, "end", f"{how}{told}: restarting in {pause_s:g} s, then after longer pauses")


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a program and its child processes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _available(pipe: IO[bytes]) -> tuple[bytes, bool]:
    """Return the bytes available in a pipe without waiting, and whether more may follow."""
    taken = b""
    while len(taken) < _PIPEFUL:
        try:
            part = os.read(pipe.fileno(), _PIPEFUL - len(taken))
        except BlockingIOError:
            break
        if not part:
            return taken, False
        taken += part
    return taken, True
