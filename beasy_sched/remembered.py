"""The last value of something that costs time to find, kept while what it follows from stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """Finds a value again only for another key."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._known: tuple[Key, Value] | None = None

    def get(self, key: Key, find: Callable[[], Value]) -> Value:
        """Return what ``find`` returns, or has returned for the same ``key``."""
        if self._known is None or self._known[0] != key:
            self._known = key, find()
        return self._known[1]
