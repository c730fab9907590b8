"""A file that grows, or that is written anew, as a source of readings."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from typing import Final

from beasy_sched.formats.reading import open_file
from beasy_sched.slurm.readings import Damaged, Quantity
from beasy_sched.slurm.sources.base import Lines, Source

_AT_ONCE: Final = 1 << 18
"""Bytes that are taken of a file at a time."""
_END: Final = 1 << 16
"""Bytes at the end of a longer file that are read of what was written before the run."""
_SEEN: Final = 256
"""Bytes before the place in a file that show whether it is still the same."""


class FileSource(Source):
    """A file that grows, or that is written anew for each reading.

    What is said on lines without a time holds from when the file was last written.
    """

    def __init__(self, path: str, quantity: Quantity, epoch_s: float | None) -> None:
        """Nothing is opened yet."""
        super().__init__(path, quantity, epoch_s)
        self._path = path
        self._file: io.BufferedReader | None = None
        self._lines = Lines()
        self._at = 0
        """The byte from which the file is read on."""
        self._seen = b""
        """The last bytes before it."""
        self._mark = (0, 0)
        """Size of the file, and when it was written (ns), as of the last look."""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _look(self, now: float) -> None:
        there = self._status(now)
        if self._file is not None and self._read_on(self._file.fileno(), now):
            return  # there is more of it
        if there is None:
            return
        if self._file is not None:
            own = os.fstat(self._file.fileno())
            if (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino):
                return
            self.close()
        self._file = open_file(self._path)
        self._begin(0)
        self._skip_old(self._file.fileno(), now)
        self._read_on(self._file.fileno(), now)

    def _status(self, now: float) -> os.stat_result | None:
        """Return what the path leads to; None if that is no plain file."""
        try:
            there = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            self._trouble(now, "missing", "is not there: waiting for it")
            return None
        if stat.S_ISREG(there.st_mode):
            return there
        self._trouble(now, "no file", "is no plain file: waiting for one (command:cat PIPE reads a pipe)")
        return None

    def _begin(self, at: int) -> None:
        self._lines, self._at, self._seen, self._mark = Lines(), at, b"", (0, 0)
        self._reader.forget()

    def _skip_old(self, file: int, now: float) -> None:
        """Go to the last lines of a long file, unless it says something for later."""
        size = os.fstat(file).st_size
        if size <= _AT_ONCE:
            return
        head, ends = (Lines().feed(os.pread(file, _END, at)) for at in (0, size - _END))
        later = False
        for line in [*head, *ends[1:]]:  # the first of the last ones is cut off
            with contextlib.suppress(Damaged):
                reading = self._reader.read(line, now)
                later |= reading is not None and reading.at > now
        if ends and not later:
            self._at = size - _END + len(ends[0]) + 1

    def _read_on(self, file: int, now: float) -> bool:
        """Take the lines that have been written since the last look; return whether there are more."""
        status = os.fstat(file)
        size, mark = status.st_size, (status.st_size, status.st_mtime_ns)
        if mark != self._mark and self._is_another(file, size):
            self._begin(0)
        self._mark = mark
        data = os.pread(file, min(size - self._at, _AT_ONCE), self._at)
        self._at += len(data)
        self._seen = (self._seen + data)[-_SEEN:]
        written = min(now, status.st_mtime)
        for line in self._lines.feed(data):
            self._take(line, now, written)
        return bool(data) and self._at < size

    def _is_another(self, file: int, size: int) -> bool:
        """Whether a file that has been written to since the last look is no longer what was read of it."""
        seen = len(self._seen)
        if size < self._at or os.pread(file, seen, self._at - seen) != self._seen:
            return True
        return size == self._at == seen  # a short file, as long as before: written anew with the same values
