"""Concurrent tasks: in processes of this computer, or on a Dask cluster.

A task is a function that can be imported by name, and its argument. Campaigns, studies and comparisons pass
their tasks to `work_through` with an executor, which starts processes, limits the number that run at the same
time, and stops them all when the program is interrupted. The error of a task is its result, a `Failure`;
finished tasks stay finished.

On this computer, each task has a separate process, forked from a server that has imported everything. It
takes some milliseconds, and isolates the tasks: state of one does not affect others, and a crash ends only
one task.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import re
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from beasy_sched.errors import ConfigError, MachineError, machine_error, why
from beasy_sched.extras import load_optional
from beasy_sched.signals import ENDING_SIGNALS

Task = tuple[Any, Callable[[Any], Any], Any]
"""A key, a function that can be imported by name, and its argument."""
TIME_LIMIT_S: Final = 6 * 3600.0
"""Default time limit of a run (or plan)."""


def processors() -> int:
    """Return the number of processors available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Failure:
    """Result of a task that raised an exception, or whose process died."""

    error: str
    machine: bool = False
    """Whether resources are exhausted, so that other tasks would also fail."""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return the failure of a task that raised ``error``."""
        lack = machine_error(error)
        return cls(why(lack or error), machine=lack is not None)


class Executor(Protocol):
    """Executor of tasks, several at the same time."""

    @property
    def busy(self) -> int:
        """Number of running tasks."""

    @property
    def slots(self) -> int:
        """Largest number of running tasks."""

    def submit(self, key: Any, function: Callable[[Any], Any], argument: Any) -> None:
        """Begin a task."""

    def next_done(self) -> tuple[Any, Any]:
        """Wait for a task to end; return its key and its result, or a `Failure`."""

    def close(self) -> None:
        """Stop all running tasks."""


def work_through(executor: Executor, tasks: Iterable[Task], done: Callable[[Any, Any], None]) -> None:
    """Execute all tasks, concurrently but started in order; ``done`` receives each key and result.

    Tasks are taken from the iterable only when they can be started. Raises MachineError instead of passing
    it to ``done``.
    """

    def hand_on() -> None:
        key, result = executor.next_done()
        if isinstance(result, Failure) and result.machine:
            raise MachineError(result.error)
        done(key, result)

    for key, function, argument in tasks:
        while executor.busy >= executor.slots:
            hand_on()
        executor.submit(key, function, argument)
    while executor.busy:
        hand_on()


ONE_THREAD: Final = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "BLIS")
}
_SCRATCH: Final = "beasy-campaign-"
_ALIVE: Final = ".alive"
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
        _remove_dead_scratch()
        self._scratch = tempfile.TemporaryDirectory(prefix=_SCRATCH, ignore_cleanup_errors=True)
        self._alive = _mark_alive(self._scratch.name)
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
        with uninterrupted(), _one_thread_each(), _ignoring_sigint():
            process.start()
            theirs.close()
            self._running[ours] = _Task(key, process, time.monotonic() + self._limit_s)

    def next_done(self) -> tuple[Any, Any]:
        """Wait for a task to end; return its key and its result, or a `Failure`."""
        connection = self._first_done()
        if connection is None:
            overdue = min(self._running, key=lambda each: self._running[each].deadline_s)
            key = self._running[overdue].key
            self._end([overdue])
            return key, Failure(f"it exceeded the time limit of {self._limit_s:g} s and was stopped")
        task = self._running.pop(connection)
        try:
            result = connection.recv()
        except (EOFError, OSError):  # it died before sending its result
            result = None
        connection.close()
        task.process.join()
        if result is None:
            result = Failure(f"its process {how(task.process.exitcode)}")
        task.process.close()
        return task.key, result

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
        self._alive.close()
        self._scratch.cleanup()


def _needed_by_runs() -> list[str]:
    from beasy_sched.policies.registry import OURS

    policies = {target.partition(":")[0] for target in OURS.values()}
    return ["beasy_sched.campaigns.tasks", "beasy_sched.campaigns.run_inputs", *sorted(policies)]


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
def _ignoring_sigint() -> Iterator[None]:
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
def _one_thread_each() -> Iterator[None]:
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


def _work(connection: Connection, scratch: str, function: Callable[[Any], Any], argument: Any) -> None:
    """Execute a task, in its process, and send its result, or a `Failure`."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # the campaign stops this process
    signal.signal(signal.SIGTERM, _leave)
    alive = _mark_alive(scratch)
    tempfile.tempdir = scratch  # so that files of a dead process are removed later
    try:
        result = function(argument)
    except Exception as error:
        result = Failure.of(error)
    with contextlib.suppress(BrokenPipeError):
        connection.send(result)
    connection.close()
    alive.close()


def _leave(*_: object) -> None:
    """End regularly; further termination signals are ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def _mark_alive(scratch: str) -> BinaryIO:
    """Hold a folder for temporary files until the returned object is closed, or the process ends."""
    mark = (Path(scratch) / _ALIVE).open("ab")
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.flock(mark, fcntl.LOCK_SH)
    return mark


def _remove_dead_scratch() -> None:
    """Remove temporary folders that no process holds: those of killed campaigns."""
    if sys.platform == "win32":
        return
    import fcntl

    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
                continue
            with (folder / _ALIVE).open("rb") as mark:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def how(exitcode: int | None) -> str:
    """Return how a process ended, in words."""
    if exitcode is None or exitcode >= 0:
        return f"ended with exit code {exitcode}"
    try:
        return f"was ended by {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"was ended by signal {-exitcode}"


_CONNECT_S = 15
_ADDRESS = re.compile(r"([a-z]+://)?\S+:[0-9]+|inproc://\S+")


class DaskCluster:
    """The workers of a cluster, which need beasy-sched, but no access to this computer's files."""

    def __init__(self, address: str) -> None:
        """Connect. Raises ConfigError if there is no cluster, or no distributed."""
        if not _ADDRESS.fullmatch(address):
            raise ConfigError(f"--scheduler: found {address!r}, expected an address such as tcp://host:8786")
        distributed = load_optional("distributed", "beasy-sched[dask]", "--executor dask")
        try:
            self._client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise ConfigError(f"no Dask scheduler responds at {address}: {error}") from None
        self._done = distributed.as_completed(loop=self._client.loop)
        self._keys: dict[Any, Any] = {}

    @property
    def busy(self) -> int:
        """Number of running tasks."""
        return len(self._keys)

    @property
    def slots(self) -> int:
        """Largest number of running tasks: one per thread.

        Dask blames the death of a worker on all tasks that wait there.
        """
        return max(int(sum(self._client.nthreads().values())), 1)

    def submit(self, key: Any, function: Callable[[Any], Any], argument: Any) -> None:
        """Begin a task."""
        future = self._client.submit(function, argument, pure=False)
        self._keys[future] = key
        self._done.add(future)

    def next_done(self) -> tuple[Any, Any]:
        """Wait for a task to end; return its key and its result, or a `Failure`."""
        future = next(self._done)
        key = self._keys.pop(future)
        if future.status == "finished":
            return key, future.result()
        error = future.exception()
        told = isinstance(error, BaseException)
        return key, Failure.of(error) if told else Failure(f"the task was {future.status}")

    def close(self) -> None:
        """Stop all running tasks, and disconnect from the cluster."""
        if self._keys:
            self._client.cancel(list(self._keys))
        self._client.close()
