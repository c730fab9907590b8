"""A file that is written while a run goes on, and appears under its name when the run is over."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from pathlib import Path

from beasy_sched.errors import InputError
from beasy_sched.formats.atomic import atomic_file


class GrowingFile:
    """Bytes that come one after the other; either `close` or `discard` must be called in the end."""

    def __init__(self, path: Path) -> None:
        """Begin to write beside ``path``. Raises InputError where that cannot be."""
        self.path = path
        self._open = ExitStack()
        self._file = self._open.enter_context(atomic_file(path))

    def write(self, data: bytes | bytearray) -> None:
        """Add ``data``. Raises InputError where it cannot be written (a full disk)."""
        try:
            self._file.write(data)
        except OSError as error:
            raise InputError(self.path, f"cannot be written: {error.strerror or error}") from None

    def close(self) -> Path:
        """Finish the file, give it its name, and return that. Raises InputError."""
        self._open.close()
        return self.path

    def discard(self) -> None:
        """Throw away what has been written, unless it is finished."""
        with contextlib.suppress(InputError):
            self._open.__exit__(_Discarded, _Discarded(), None)


class _Discarded(Exception):
    """Tells the file that it shall not get its name."""
