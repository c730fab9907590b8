"""Concurrent tasks: in processes of this computer, or on a Dask cluster.

A task is a function that can be imported by name, and its argument. Campaigns, studies and comparisons pass
their tasks to `work_through` with an executor, which starts processes, limits the number that run at the same
time, and stops them all when the program is interrupted. The error of a task is its result, a `Failure`;
finished tasks stay finished.

Executors are `processes.Processes` on this computer and `dask_cluster.DaskCluster`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from beasy_sched.errors import MachineError, machine_error, why

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
