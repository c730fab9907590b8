"""Programs whose output a run reads: start, end, and pauses between attempts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import IO, Final

PIPEFUL: Final = 1 << 16
"""Number of bytes read from a pipe at a time."""
MOMENT_S: Final = 0.05
"""Time limit for a program to end after it has closed its output, s."""
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 300.0
"""Longest pause between starts of a program that fails, s."""


def start_program(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a program in a separate session; its outputs can be read without waiting.

    Raises OSError and ValueError.
    """
    process = subprocess.Popen(
        command,
        bufsize=0,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
    return process


def kill_program(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its child processes, and close its outputs."""
    signal_program(process, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def signal_program(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a program and its child processes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def ended_words(code: int | None) -> str:
    """Return how a program ended, by its exit status; None: it has closed its output."""
    if code is None:
        return "has closed its output"
    return f"was ended by signal {-code}" if code < 0 else f"has ended with exit code {code}"


def available(pipe: IO[bytes]) -> tuple[bytes, bool]:
    """Return the bytes available in a pipe without waiting, and whether more may follow."""
    taken = b""
    while len(taken) < PIPEFUL:
        try:
            part = os.read(pipe.fileno(), PIPEFUL - len(taken))
        except BlockingIOError:
            break
        if not part:
            return taken, False
        taken += part
    return taken, True


def words_of(error: BaseException | str) -> str:
    """Return the system's message for an error."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


class Pause:
    """Timer for retries."""

    def __init__(self, first_s: float = _FIRST_PAUSE_S, longest_s: float = _LONGEST_PAUSE_S) -> None:
        """``first_s`` and ``longest_s`` are those of pauses that double."""
        self._set_s = self._until_s = 0.0
        self._first_s, self._longest_s = first_s, longest_s
        self._doubled_s = first_s

    def is_over(self, now: float) -> bool:
        """Whether the time is over, or the clock has been set back."""
        return not self._set_s <= now < self._until_s

    def comes_round(self, now: float, interval_s: float) -> bool:
        """Whether the time is over; if so, the next pause begins."""
        over = self.is_over(now)
        if over:
            self.begin(now, interval_s)
        return over

    def begin(self, now: float, pause_s: float) -> None:
        """Wait for a time."""
        self._set_s, self._until_s, self._doubled_s = now, now + pause_s, self._first_s

    def begin_longer(self, now: float) -> float:
        """Wait twice as long as the last time, and return how long (s)."""
        pause_s = self._doubled_s
        self.begin(now, pause_s)
        self._doubled_s = min(2.0 * pause_s, self._longest_s)
        return pause_s
