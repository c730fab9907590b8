"""Termination signals during a command: the first one stops it with `Interrupted`."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from enum import Enum
from types import FrameType
from typing import Any, Final

from beasy_sched.errors import Interrupted
from beasy_sched.signals import termination_signals

_RAISE_AGAIN_AFTER_S: Final = 0.01


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Interrupted` on the first termination signal; a further SIGINT stops at once.

    Other signals after the first are ignored, so that the results can be written. Signals that are ignored
    from the start, such as SIGHUP under ``nohup``, stay ignored, except SIGINT.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    with _handling(_Stopping()):
        try:
            yield
        except Exception as error:
            interruption = _interruption_behind(error)
            if interruption is None:
                raise
            raise Interrupted(str(interruption), interruption.number) from error


class _State(Enum):
    """State of a command with regard to signals."""

    RUNNING = "running"
    """The first signal stops it."""
    STOPPING = "stopping"
    """`Interrupted` has been raised; the command writes its results."""
    ENDED = "ended"
    """Signals other than SIGINT have no effect."""


class _Stopping:
    """Handler of the termination signals of one command."""

    def __init__(self) -> None:
        self.state = _State.RUNNING

    def on_signal(self, number: int, frame: FrameType | None = None) -> None:
        """Raise `Interrupted` if the command runs; else KeyboardInterrupt for SIGINT."""
        if self.state is _State.RUNNING:
            self.state = _State.STOPPING
            raise self._interruption(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt

    def _interruption(self, number: int) -> Interrupted:
        """Return the exception to raise, which is raised again if it is dropped on its way.

        Finalizers, and C code that looks up an attribute, drop any exception raised in them. An exception
        that reaches `stoppable` is still referenced when the command ends.
        """
        error = Interrupted(f"stopped by {signal.Signals(number).name}", number)
        weakref.finalize(error, self._on_dropped, number).atexit = False
        return error

    def _on_dropped(self, number: int) -> None:
        """Raise the exception of signal ``number`` again, a moment later, unless the command has ended."""
        if self.state is _State.ENDED or not hasattr(signal, "setitimer"):
            return
        self.state = _State.RUNNING
        signal.signal(signal.SIGALRM, lambda alarm, frame: self._raise_again(number))
        signal.setitimer(signal.ITIMER_REAL, _RAISE_AGAIN_AFTER_S)

    def _raise_again(self, number: int) -> None:
        if self.state is not _State.ENDED:
            self.on_signal(number)


@contextlib.contextmanager
def _handling(stopping: _Stopping) -> Iterator[None]:
    """Let ``stopping`` handle the termination signals during the block, and restore the handlers after it.

    Python reports exceptions that it drops; no report is needed of `Interrupted`, which is raised again.
    """
    report_dropped = sys.unraisablehook

    def report_others(dropped: sys.UnraisableHookArgs) -> None:
        if not isinstance(dropped.exc_value, Interrupted):
            report_dropped(dropped)

    handlers_before: dict[int, Any] = {}
    sys.unraisablehook = report_others
    try:
        for number in termination_signals():
            handlers_before[number] = signal.signal(number, stopping.on_signal)
        yield
    finally:
        stopping.state = _State.ENDED
        for number, handler in handlers_before.items():
            signal.signal(number, handler)
        sys.unraisablehook = report_dropped


def _interruption_behind(error: BaseException) -> Interrupted | None:
    """Return the `Interrupted` that caused an error, None if there is none.

    A class body raises a RuntimeError from it, up to Python 3.11.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, Interrupted):
        cause = cause.__cause__
    return cause
