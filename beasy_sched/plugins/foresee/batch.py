"""A process next to a live run that computes a forecast at the lowest priority and is never waited for."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import stat
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import IO, NoReturn

from beasy_sched.plugins.foresee.children import Lost

_NICENESS = 19
_NOT_THE_RUN = b"1000"
"""Score by which the kernel ends this process, and not the run, if memory is short (Linux)."""


class Batch:
    """A copy of this process that does some work, with all processes that it begins itself."""

    def __init__(self, work: Callable[[], bytes], limit_s: float) -> None:
        """Begin ``work``, which is late after ``limit_s`` (s). Raises OSError."""
        self._limit_s, self._late_s = limit_s, time.monotonic() + limit_s
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115, the result closes it
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the copy does not use
                self.pid = os.fork()
        except OSError:
            self._file.close()
            raise
        if self.pid == 0:
            _work(work, self._file.fileno())
        self._is_killed = False

    def result(self) -> bytes | Lost | None:
        """Return the result if the work has ended, or what is lost if it is late; None if it is under way."""
        status = self._ended()
        if status is None:
            if time.monotonic() < self._late_s:
                return None
            self.drop()
            return Lost(f"took longer than {self._limit_s:g} s")
        if status != 0:
            self._file.close()
            return Lost(f"was killed by signal {-status}" if status < 0 else "failed")
        with self._file as file:
            file.seek(0)
            return file.read()

    def _ended(self) -> int | None:
        """Return the exit status of the process once it has ended."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return 1
        return os.waitstatus_to_exitcode(status) if pid else None

    def drop(self) -> None:
        """Kill the process and those that it has begun; `is_gone` has to be called until it is true."""
        self._file.close()
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                kill(self.pid, signal.SIGKILL)

    def is_gone(self) -> bool:
        """Whether a process that was killed has ended."""
        return self._ended() is not None


def _work(work: Callable[[], bytes], output: int) -> NoReturn:
    """Do the work and end the process, whatever happens."""
    status = 1
    try:
        os.setsid()  # Ctrl-C is not for it, and all its processes can be killed together
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        _close_sockets()
        os.nice(_NICENESS)
        _offer_to_the_kernel()
        gc.disable()  # a collection would copy all memory
        result = memoryview(work())
        while result:
            result = result[os.write(output, result) :]
        status = 0
    finally:
        os._exit(status)


def _close_sockets() -> None:
    """Close the sockets of the run, whose ports it would keep. Libraries like Arrow require their pipes."""
    try:
        files = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        files = list(range(3, 1024))
    for file in files:
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(file).st_mode):
                os.close(file)


def _offer_to_the_kernel() -> None:
    with contextlib.suppress(OSError):
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(score, _NOT_THE_RUN)
        os.close(score)
