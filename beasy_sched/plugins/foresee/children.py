"""Copies of this process that each compute one result: few at once, at low priority, for a limited time."""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from beasy_sched.errors import ConfigError

LIMIT_S: Final = 600.0
"""Wall-clock time after which a child is late, s."""
_NICENESS: Final = 10
_CHUNK: Final = 1 << 16


@dataclass(frozen=True)
class Lost:
    """A child without a result, and why: its problem completes "a continuation ..."."""

    problem: str


def check_platform() -> None:
    """Raise ConfigError where processes cannot be copied."""
    if not hasattr(os, "fork"):
        raise ConfigError(
            "forecasts need processes that can be copied (fork), which this system does not have"
        )


def default_at_once() -> int:
    """Return the number of children at once by default: one for each processor that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Child:
    """A running child: its pipe, and what it has written."""

    def __init__(self, number: int, task: Callable[[], bytes], limit_s: float, pipes: Sequence[int]) -> None:
        self.number = number
        self.written = bytearray()
        self.late_s = time.monotonic() + limit_s
        self.read_end, write_end = os.pipe()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which children do not use
                self.pid = os.fork()
        except OSError:
            os.close(self.read_end)
            os.close(write_end)
            raise
        if self.pid == 0:
            _work(task, write_end, (*pipes, self.read_end))
        os.close(write_end)

    def read(self) -> bool:
        """Read what there is; return whether the child has closed its pipe."""
        piece = os.read(self.read_end, _CHUNK)
        self.written += piece
        return not piece

    def end(self, *, kill: bool = False) -> int:
        """Wait for the child, killed first if ``kill``; return its status."""
        if kill:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
        os.close(self.read_end)
        with contextlib.suppress(ChildProcessError):
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return -1


def _work(task: Callable[[], bytes], write_end: int, pipes: Sequence[int]) -> NoReturn:
    """Do a child's work and end the process, whatever happens."""
    status = 1
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
        for pipe in pipes:
            os.close(pipe)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        os.nice(_NICENESS)
        result = memoryview(task())
        while result:
            result = result[os.write(write_end, result) :]
        status = 0
    finally:
        os._exit(status)


def run_children(
    tasks: Sequence[Callable[[], bytes]], at_once: int, limit_s: float = LIMIT_S
) -> list[bytes | Lost]:
    """Run each task in a copy of this process; return their results in order."""
    results: list[bytes | Lost] = [Lost("was not begun")] * len(tasks)
    left = list(enumerate(tasks))[::-1]
    running: dict[int, _Child] = {}
    gc.freeze()  # collections in children would copy all memory
    try:
        with selectors.DefaultSelector() as selector:
            while left or running:
                while left and len(running) < at_once:
                    number, task = left.pop()
                    try:
                        child = _Child(number, task, limit_s, [*running])
                    except OSError as error:
                        results[number] = Lost(f"could not be begun: {error.strerror or error}")
                        continue
                    running[child.read_end] = child
                    selector.register(child.read_end, selectors.EVENT_READ, child)
                if running:
                    _collect(selector, running, results, limit_s)
    finally:
        for child in running.values():
            child.end(kill=True)
        gc.unfreeze()
    return results


def _collect(
    selector: selectors.BaseSelector, running: dict[int, _Child], results: list[bytes | Lost], limit_s: float
) -> None:
    """Wait until a child has written something, has ended, or is late."""
    wait_s = min(child.late_s for child in running.values()) - time.monotonic()
    for key, _ in selector.select(max(wait_s, 0.0)):
        child: _Child = key.data
        if child.read():
            selector.unregister(child.read_end)
            del running[child.read_end]
            status = child.end()
            results[child.number] = bytes(child.written) if status == 0 else Lost(_ended(status))
    for child in [child for child in running.values() if child.late_s <= time.monotonic()]:
        selector.unregister(child.read_end)
        del running[child.read_end]
        child.end(kill=True)
        results[child.number] = Lost(f"took longer than {limit_s:g} s")


def _ended(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else "failed"
