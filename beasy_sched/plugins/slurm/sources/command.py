"""The output of a program as a source of readings."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from typing import Final

from beasy_sched.formats.source_names import command_words
from beasy_sched.limits import shortened
from beasy_sched.plugins.slurm.readings import Quantity
from beasy_sched.plugins.slurm.sources.base import Lines, Source
from beasy_sched.run.programs import (
    MOMENT_S,
    PIPEFUL,
    Pause,
    available,
    ended_words,
    kill_program,
    signal_program,
    start_program,
    words_of,
)

_STEADY_S: Final = 60.0
"""Run time of a program after which pauses are reset, s."""
_FAREWELL_S: Final = 1.0
"""Time limit for a program to end, s."""


class CommandSource(Source):
    """A program that prints a reading on each line. If it ends, it is started again.

    It may keep running, or print its reading and end without an error.
    """

    def __init__(self, command: str, quantity: Quantity, epoch_s: float | None, interval_s: float) -> None:
        """``command`` is split as by a shell, and run without one. Raises ConfigError."""
        self._command = command_words(command, f"{quantity.name} source")
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
            signal_program(self._process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_FAREWELL_S)
        self._kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            kill_program(process)

    def _look(self, now: float) -> None:
        if self._process is None and self._pause.is_over(now):
            self._start(now)
        process = self._process
        if process is None or process.stdout is None or process.stderr is None:
            return
        has_ended = process.poll() is not None  # before the rest of its output is read
        output, is_open = available(process.stdout)
        for line in self._lines.feed(output):
            self._said |= self._take(line, now)
        for line in self._errors.feed(available(process.stderr)[0]):
            self._last_error = line.decode(errors="replace").strip() or self._last_error
        if not is_open or (has_ended and len(output) < PIPEFUL):
            self._end(process, now)

    def _start(self, now: float) -> None:
        self._lines, self._errors, self._last_error, self._said = Lines(), Lines(), "", False
        self._reader.forget()
        self._started_s = now
        try:
            self._process = start_program(self._command)
        except (OSError, ValueError) as error:
            self._pause.begin_longer(now)
            self._trouble(now, "start", f"cannot be started: {words_of(error)}; retrying")

    def _end(self, process: subprocess.Popen[bytes], now: float) -> None:
        """Read the rest of the output of a program that has ended or closed its output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(MOMENT_S)
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
        words = self._errors.rest.decode(errors="replace").strip() or self._last_error
        told = f" ({shortened(words)})" if words else " without a reading" if code == 0 else ""
        retry = f"restarting in {pause_s:g} s, then after longer pauses"
        self._trouble(now, "end", f"{ended_words(code)}{told}: {retry}")
