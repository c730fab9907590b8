"""Tasks in processes of this machine: one process a task, forked from a server that has all imported.

A process of its own costs some milliseconds, and keeps each run to itself: what one leaves behind touches
no other, and one that dies is one task that died.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, Final

from beasy_sched.errors import why
from beasy_sched.experiments.tasks import Failure
from beasy_sched.policies.registry import OURS

ONE_THREAD: Final = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "BLIS")
}
_PRELOADED: Final = (
    "beasy_sched.experiments.execute",
    "beasy_sched.experiments.planning",
    *sorted({target.partition(":")[0] for target in OURS.values()}),
)
_PATIENCE_S: Final = 3.0


class Processes:
    """Up to ``jobs`` tasks at a time."""

    def __init__(self, jobs: int) -> None:
        """Start the server that processes are forked from."""
        self.slots = jobs
        self._scratch = tempfile.TemporaryDirectory(prefix="beasy-campaign-", ignore_cleanup_errors=True)
        self._running: dict[Connection, tuple[Any, BaseProcess]] = {}
        self._context = _context()

    @property
    def busy(self) -> int:
        """How many tasks are under way."""
        return len(self._running)

    def submit(self, key: Any, function: Callable[[Any], Any], argument: Any) -> None:
        """Start a task."""
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(  # type: ignore[attr-defined]
            target=_work, args=(theirs, self._scratch.name, function, argument), daemon=True
        )
        with _one_thread_each():
            process.start()
        theirs.close()
        self._running[ours] = (key, process)

    def next_done(self) -> tuple[Any, Any]:
        """Wait for a task to end; return its key and its result, or a `Failure`."""
        connection = wait(list(self._running))[0]
        assert isinstance(connection, Connection)
        key, process = self._running.pop(connection)
        try:
            result = connection.recv()
        except (EOFError, OSError):  # it died before it had told all
            result = None
        connection.close()
        process.join()
        if result is None:
            result = Failure(_how(process.exitcode))
        process.close()
        return key, result

    def close(self) -> None:
        """Stop what still runs."""
        for _, process in self._running.values():
            process.terminate()
        for connection, (_, process) in self._running.items():
            process.join(_PATIENCE_S)
            if process.exitcode is None:
                process.kill()
                process.join()
            connection.close()
        self._running.clear()
        self._scratch.cleanup()


def _context() -> BaseContext:
    methods = multiprocessing.get_all_start_methods()
    if "forkserver" not in methods:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", *_PRELOADED])
    return context


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """What is started now uses one thread for linear algebra and optimization."""
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


def _work(connection: Connection, scratch: str, function: Callable[[Any], Any], argument: Any) -> None:
    """In the process: do the task and send its result, or a `Failure`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the campaign stops us
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tempfile.tempdir = scratch  # what a process that dies leaves behind goes in the end
    try:
        result = function(argument)
    except Exception as error:
        result = Failure(why(error))
    with contextlib.suppress(BrokenPipeError):
        connection.send(result)
    connection.close()


def _how(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        try:
            return f"its process was ended by {signal.Signals(-exitcode).name}"
        except ValueError:
            return f"its process was ended by signal {-exitcode}"
    return f"its process ended with exit code {exitcode}"
