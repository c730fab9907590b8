"""Order of the tests, for several workers."""

from __future__ import annotations

import pytest


def long_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Let half of the workers begin with tests that take minutes, which mostly wait, and half with others.

    At first, each worker has an equal part of the list (``worksteal`` of pytest-xdist).
    """
    long = [item for item in items if item.get_closest_marker("long")]
    others = [item for item in items if not item.get_closest_marker("long")]
    waiting = (workers + 1) // 2
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        part = long[worker::waiting] if worker < waiting else []
        room = max((len(items) - len(ordered)) // (workers - worker) - len(part), 0)
        ordered += part + others[:room]
        del others[:room]
    return ordered + others
