"""Start of child processes: signals and environment while they start, and how they ended."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from typing import Final

from beasy_sched.signals import ENDING_SIGNALS

ONE_THREAD: Final = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "BLIS")
}
"""Environment of a process in which libraries for linear algebra use one thread."""


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay termination signals while the block starts a process.

    A process that has received only half of its task would end in a traceback, and one that is not yet
    registered would be lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    before = {number: signal.signal(number, lambda came, _: noted.append(came)) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for came in noted[:1]:
            signal.raise_signal(came)


@contextlib.contextmanager
def ignoring_sigint() -> Iterator[None]:
    """Let processes started in the block ignore SIGINT, which Ctrl-C sends to all, to avoid their tracebacks.

    This includes the server during its imports. This process receives the signal a little later.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which unblocks the signal itself
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Let processes started in the block use one thread for linear algebra and optimization."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def how_it_ended(exitcode: int | None) -> str:
    """Return how a process ended, in words."""
    if exitcode is None or exitcode >= 0:
        return f"ended with exit code {exitcode}"
    try:
        return f"was ended by {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"was ended by signal {-exitcode}"
