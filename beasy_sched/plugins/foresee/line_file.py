"""A file that grows by a line at a time, each of them whole, and that others may read meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
_CHUNK: Final = 1 << 20


class LineFile:
    """A file of lines; it replaces an earlier one with its first line."""

    def __init__(self, path: Path) -> None:
        """Begin without lines, and without touching the file."""
        self._path = path
        self._file: int | None = None
        self._size = 0

    def add(self, line: bytes) -> None:
        """Add a line without its end. Raises OSError; nothing of it is written then."""
        if self._file is None:
            self._file = self._open()
        whole = line + b"\n"
        try:
            written = os.write(self._file, whole)
            while written < len(whole):
                written += os.write(self._file, whole[written:])
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(whole)

    def _open(self) -> int:
        file = os.open(self._path, _FLAGS, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(f"{self._path} is not a file: remove it")
            os.ftruncate(file, 0)
        except OSError:
            os.close(file)
            raise
        return file

    def parts(self) -> Iterator[bytes]:
        """Yield everything written so far. Raises OSError."""
        at = 0
        while self._file is not None and at < self._size:
            part = os.pread(self._file, min(_CHUNK, self._size - at), at)
            if not part:
                return
            at += len(part)
            yield part

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
