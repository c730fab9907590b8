"""Concurrent tasks in processes of this computer.

Each task has a separate process, forked from a server that has imported everything. It takes some
milliseconds, and isolates the tasks: state of one does not affect others, and a crash ends only one task.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

from beasy_sched.plugins.campaigns.child_processes import (
    how_it_ended,
    ignoring_sigint,
    one_thread_each,
    uninterrupted,
)
from beasy_sched.plugins.campaigns.scratch_folder import hold, new_scratch_folder
from beasy_sched.plugins.campaigns.workers import Failure
from beasy_sched.signals import ENDING_SIGNALS

_PATIENCE_S: Final = 3.0
_LONGEST_WAIT_S: Final = 86_400.0


@dataclass(frozen=True)
class _Task:
    """A running task."""

    key: Any
    process: BaseProcess
    deadline_s: float
    """Time at which the task is stopped, by the monotonic clock, s."""


class Processes:
    """Up to ``jobs`` tasks at a time."""

    def __init__(
        self,
        jobs: int,
        limit_s: float = math.inf,
        *,
        patience_s: float = _PATIENCE_S,
        preload: Sequence[str] | None = None,
    ) -> None:
        """Start the server that forks processes; it imports ``preload`` (None: the modules for runs).

        A task that takes longer than ``limit_s`` is ended, and its result is a `Failure`. A process that does
        not end on request is killed after ``patience_s``.
        """
        self.slots, self._limit_s, self._patience_s = jobs, limit_s, patience_s
        self._scratch, self._scratch_hold = new_scratch_folder()
        self._running: dict[Connection, _Task] = {}
        forks = "forkserver" in multiprocessing.get_all_start_methods()
        self._context = multiprocessing.get_context("forkserver" if forks else "spawn")
        if forks:
            needed = _needed_by_runs() if preload is None else preload
            self._context.set_forkserver_preload(["__main__", *needed])

    @property
    def busy(self) -> int:
        """Number of running tasks."""
        return len(self._running)

    def submit(self, key: Any, function: Callable[[Any], Any], argument: Any) -> None:
        """Start a task."""
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(  # type: ignore[attr-defined]
            target=_work, args=(theirs, self._scratch.name, function, argument), daemon=True
        )
        with uninterrupted(), one_thread_each(), ignoring_sigint():
            process.start()
            theirs.close()
            self._running[ours] = _Task(key, process, time.monotonic() + self._limit_s)

    def next_done(self) -> tuple[Any, Any]:
        """Wait for a task to end; return its key and its result, or a `Failure`."""
        connection = self._first_done()
        return self._stop_overdue() if connection is None else self._result(connection)

    def _first_done(self) -> Connection | None:
        """Wait for a task that has ended or died; None if one is overdue."""
        while True:
            now_s = time.monotonic()
            overdue = [connection for connection, task in self._running.items() if task.deadline_s <= now_s]
            left_s = min(task.deadline_s for task in self._running.values()) - now_s
            timeout_s = None if left_s == math.inf else min(max(left_s, 0.0), _LONGEST_WAIT_S)
            ready = wait(overdue or list(self._running), timeout_s)
            for connection in self._running:
                if connection in ready:
                    return connection
            if overdue:
                return None

    def _result(self, connection: Connection) -> tuple[Any, Any]:
        """Return the key and the result of a task that has ended or died."""
        task = self._running.pop(connection)
        try:
            result = connection.recv()
        except (EOFError, OSError):  # it died before sending its result
            result = None
        connection.close()
        task.process.join()
        if result is None:
            result = Failure(f"its process {how_it_ended(task.process.exitcode)}")
        task.process.close()
        return task.key, result

    def _stop_overdue(self) -> tuple[Any, Failure]:
        """Stop the task that is overdue longest; return its key and its failure."""
        connection = min(self._running, key=lambda each: self._running[each].deadline_s)
        key = self._running[connection].key
        self._end([connection])
        return key, Failure(f"it exceeded the time limit of {self._limit_s:g} s and was stopped")

    def _end(self, connections: Sequence[Connection]) -> None:
        """Request tasks to end, and kill those that do not."""
        for connection in connections:
            self._running[connection].process.terminate()
        for connection in connections:
            process = self._running[connection].process
            process.join(self._patience_s)
            if process.exitcode is None:
                process.kill()
                process.join()
            del self._running[connection]
            connection.close()
            process.close()

    def close(self) -> None:
        """Stop all running tasks."""
        self._end(list(self._running))
        self._scratch_hold.close()
        self._scratch.cleanup()


def _needed_by_runs() -> list[str]:
    """Return the modules that runs import."""
    from beasy_sched.policies.registry import built_in

    policies = {target.partition(":")[0] for target in built_in().values()}
    return [
        "beasy_sched.plugins.campaigns.tasks",
        "beasy_sched.plugins.campaigns.run_inputs",
        *sorted(policies),
    ]


def _work(connection: Connection, scratch: str, function: Callable[[Any], Any], argument: Any) -> None:
    """Execute a task, in its process, and send its result, or a `Failure`."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # the campaign stops this process
    signal.signal(signal.SIGTERM, _leave)
    scratch_hold = hold(scratch)
    tempfile.tempdir = scratch  # so that files of a dead process are removed later
    try:
        result = function(argument)
    except Exception as error:
        result = Failure.of(error)
    with contextlib.suppress(BrokenPipeError):
        connection.send(result)
    connection.close()
    scratch_hold.close()


def _leave(*_: object) -> None:
    """End regularly; further termination signals are ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)
