"""Single-entry cache of an expensive value, invalidated when its inputs change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class LastValueCache(Generic[Key, Value]):
    """Cache of one value, computed again only for another key."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._known: tuple[Key, Value] | None = None

    def get(self, key: Key, find: Callable[[], Value]) -> Value:
        """Return the result of ``find``, or its earlier result for the same ``key``."""
        if self._known is None or self._known[0] != key:
            self._known = key, find()
        return self._known[1]
