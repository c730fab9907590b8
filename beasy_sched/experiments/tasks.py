"""Who does the work of a campaign: the interface of local processes and of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from beasy_sched.errors import MachineError

Task = tuple[Any, Callable[[Any], Any], Any]
"""A key, a function that can be imported by name, and its argument."""


@dataclass(frozen=True)
class Failure:
    """In place of a result: the task raised an exception, or its process died."""

    error: str
    machine: bool = False
    """Whether it is the machine that lacks something, so that other tasks would fail, too."""


class Executor(Protocol):
    """Does tasks, several at a time."""

    @property
    def busy(self) -> int:
        """How many tasks are under way."""

    @property
    def slots(self) -> int:
        """How many tasks may be under way."""

    def submit(self, key: Any, function: Callable[[Any], Any], argument: Any) -> None:
        """Begin a task."""

    def next_done(self) -> tuple[Any, Any]:
        """Wait for a task to end; return its key and its result, or a `Failure`."""

    def close(self) -> None:
        """Stop what is still under way."""


def work_through(executor: Executor, tasks: Iterable[Task], done: Callable[[Any, Any], None]) -> None:
    """Do all tasks, in order but side by side; ``done`` is told each key and result, as they come.

    Tasks are taken from the iterable only when there is room for them. Raises MachineError, of which
    ``done`` is not told.
    """
    for key, function, argument in tasks:
        while executor.busy >= executor.slots:
            _hand_on(*executor.next_done(), done)
        executor.submit(key, function, argument)
    while executor.busy:
        _hand_on(*executor.next_done(), done)


def _hand_on(key: Any, result: Any, done: Callable[[Any, Any], None]) -> None:
    if isinstance(result, Failure) and result.machine:
        raise MachineError(result.error)
    done(key, result)
