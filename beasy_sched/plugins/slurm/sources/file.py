"""A growing or rewritten file as a source of readings."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from typing import Final

from beasy_sched.formats.reading import open_file
from beasy_sched.plugins.slurm.readings import Damaged, Quantity
from beasy_sched.plugins.slurm.sources.base import Lines, Source

_AT_ONCE: Final = 1 << 18
"""Number of bytes read from a file at a time."""
_END: Final = 1 << 16
"""Number of bytes from before the run that are read at the end of a longer file."""
_SEEN: Final = 256
"""Number of bytes before the position in a file that identify its content."""


class FileSource(Source):
    """A file that grows, or that is rewritten for each reading.

    Readings without a time hold from the last modification of the file.
    """

    def __init__(self, path: str, quantity: Quantity, epoch_s: float | None) -> None:
        """Start without opening the file."""
        super().__init__(path, quantity, epoch_s)
        self._path = path
        self._file: io.BufferedReader | None = None
        self._lines = Lines()
        self._at = 0
        """Position in the file, in bytes."""
        self._seen = b""
        """The last bytes before it."""
        self._mark = (0, 0)
        """Size and modification time (ns) of the file at the last check."""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _look(self, now: float) -> None:
        there = self._status(now)
        if self._file is not None and self._read_on(self._file.fileno(), now):
            return  # more is available
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
        """Return the status of the file; None if it is not a regular file."""
        try:
            there = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            self._trouble(now, "missing", "does not exist: waiting for it")
            return None
        if stat.S_ISREG(there.st_mode):
            return there
        self._trouble(
            now, "no file", "is not a regular file: waiting for one (use command:cat PIPE for a pipe)"
        )
        return None

    def _begin(self, at: int) -> None:
        self._lines, self._at, self._seen, self._mark = Lines(), at, b"", (0, 0)
        self._reader.forget()

    def _skip_old(self, file: int, now: float) -> None:
        """Skip to the last lines of a long file, unless it has readings for later."""
        size = os.fstat(file).st_size
        if size <= _AT_ONCE:
            return
        head, ends = (Lines().feed(os.pread(file, _END, at)) for at in (0, size - _END))
        later = False
        for line in [*head, *ends[1:]]:  # the first of the last ones is truncated
            with contextlib.suppress(Damaged):
                reading = self._reader.read(line, now)
                later |= reading is not None and reading.at > now
        if ends and not later:
            self._at = size - _END + len(ends[0]) + 1

    def _read_on(self, file: int, now: float) -> bool:
        """Take the lines written since the last check; return whether there are more."""
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
        """Whether a file that was modified since the last check no longer has the content read from it."""
        seen = len(self._seen)
        if size < self._at or os.pread(file, seen, self._at - seen) != self._seen:
            return True
        return size == self._at == seen  # a short file of the same size: rewritten with the same values
