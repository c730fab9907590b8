"""An executor for tests: tasks are done here, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Here:
    """Does tasks one after the other, in this process; is interrupted after ``most``."""

    slots = 1

    def __init__(self, most: int = 10**6) -> None:
        self.most = most
        self.done: list[tuple[Any, Any]] = []

    @property
    def busy(self) -> int:
        return len(self.done)

    def submit(self, key: Any, function: Callable[[Any], Any], argument: Any) -> None:
        self.most -= 1
        if self.most < 0:
            raise KeyboardInterrupt
        self.done.append((key, function(argument)))

    def next_done(self) -> tuple[Any, Any]:
        return self.done.pop()

    def close(self) -> None:
        pass
