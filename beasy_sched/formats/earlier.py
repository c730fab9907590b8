"""Earlier results that a command is to replace: which of them it has kept when it fails.

Whatever writes files notes here what it is going to replace, and what it has replaced. `noting` collects that
for one command; without it, nothing is noted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from contextvars import ContextVar

from beasy_sched.errors import PathLike


class Earlier:
    """Files of earlier runs, and what has become of them."""

    def __init__(self) -> None:
        self._expected: dict[str, str] = {}
        """Files that are to be replaced, by their absolute paths, as the user names them."""
        self._replaced: set[str] = set()
        self.accounts: dict[str, None] = {}
        """Files with what a failed run had done."""

    def expect(self, path: PathLike) -> None:
        """Note that a file is to be replaced."""
        self._expected.setdefault(os.path.abspath(path), os.fspath(path))

    def replaced(self, path: PathLike) -> None:
        """Note that a file has been replaced, or removed since the new run has none."""
        self._replaced.add(os.path.abspath(path))

    def kept(self) -> list[str]:
        """Return the files that were to be replaced, and still are what they were."""
        return [
            path
            for place, path in self._expected.items()
            if place not in self._replaced and (os.path.isfile(place) or os.path.islink(place))
        ]


_current: ContextVar[Earlier | None] = ContextVar("earlier results", default=None)


@contextlib.contextmanager
def noting() -> Iterator[Earlier]:
    """Collect what is noted while the block runs."""
    earlier = Earlier()
    token = _current.set(earlier)
    try:
        yield earlier
    finally:
        _current.reset(token)


def will_replace(*paths: PathLike) -> None:
    """Note files that are to be replaced, whether they exist or not."""
    if (earlier := _current.get()) is not None:
        for path in paths:
            earlier.expect(path)


def has_replaced(path: PathLike) -> None:
    """Note a file that has been replaced, or removed."""
    if (earlier := _current.get()) is not None:
        earlier.replaced(path)


def has_left(paths: Iterable[PathLike]) -> None:
    """Note files with what a failed run had done."""
    if (earlier := _current.get()) is not None:
        earlier.accounts.update((os.fspath(path), None) for path in paths)
