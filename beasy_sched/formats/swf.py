"""The Standard Workload Format, read as a stream, plain or gzip, damaged or not.

Format: Parallel Workloads Archive; ``;`` starts a comment, a job is 18 numbers, -1 means missing.
"""

from __future__ import annotations

import gzip
import io
import itertools
import os
import zlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.reading import is_number, opened
from beasy_sched.formats.swf_fields import FIELDS_A_ROW, SWF_FIELDS
from beasy_sched.limits import LARGEST_INT, LARGEST_NUMBER, LATEST_S, MOST_UNPACKED_BYTES
from beasy_sched.units import counted

Progress = Callable[[int, int], object]
"""Function called from time to time with the bytes read and the size of the file (0: not known)."""

LINE_COLUMN: Final = FIELDS_A_ROW
"""Column of a chunk, after those of the fields, that holds the row's line number."""

_MOST: Final = np.full(FIELDS_A_ROW + 1, LATEST_S)
"""No number of a row is larger: a workload has no later times, and no larger jobs (below)."""
_MOST[[SWF_FIELDS["allocated_processors"] - 1, SWF_FIELDS["requested_processors"] - 1]] = LARGEST_INT
_LONGEST_LINE: Final = 10_000
_ROWS_A_CHUNK: Final = 16_384
_EXAMPLES: Final = 5
_OTHER_FILES: Final = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass
class SwfFindings:
    """Findings of a reader about the trace's file."""

    rows: int = 0
    """Lines that are neither blank nor comments."""
    bad_rows: int = 0
    """Rows omitted because they cannot be read."""
    examples: list[str] = field(default_factory=list)
    """The first few bad rows, each with its line and what is wrong."""
    long_rows: int = 0
    """Rows with more than 18 fields; the first 18 were taken."""
    damage: str | None = None
    """Description of how a damaged gzip file ends, where it was accepted."""

    def bad(self, line: int, reason: str) -> None:
        """Count a row that cannot be read."""
        self.bad_rows += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"line {line}: {reason}")


class SwfReader:
    """One pass over a trace. `header` and `findings` are complete when `chunks` has reached its end."""

    def __init__(
        self, path: PathLike, *, accept_damaged: bool = False, progress: Progress | None = None
    ) -> None:
        """``accept_damaged`` takes what comes before the damage in a gzip file that is cut or corrupt."""
        self.path = path
        self.accept_damaged = accept_damaged
        self.progress = progress
        self.header: dict[str, str] = {}
        self.findings = SwfFindings()

    def header_number(self, *names: str) -> float | None:
        """Return the first positive number among header fields such as ``MaxProcs``, or None."""
        for name in names:
            try:
                value = float(self.header.get(name, "").split()[0])
            except (ValueError, IndexError):
                continue
            if 0 < value < LARGEST_NUMBER:
                return value
        return None

    def chunks(self) -> Iterator[FloatArray]:
        """Yield arrays of shape (rows, 19): column i is field i + 1, the last one the line number.

        Rows are in the file's order. Bad rows are omitted and counted in `findings`. Raises InputError
        for a file that cannot be read, is damaged (unless that is accepted), or has no readable row.
        """
        with opened(self.path) as raw:
            total = os.fstat(raw.fileno()).st_size
            # Kept here until the end: the wrapper closes the file when it is let go.
            text = io.TextIOWrapper(self._unpacked(raw), encoding="latin-1", newline=None)
            lines = self._lines(text)
            while batch := list(itertools.islice(lines, _ROWS_A_CHUNK)):
                values = array("d")
                for number, line in batch:
                    self._add_row(values, number, line)
                if values:
                    chunk = self._sane(np.frombuffer(values, dtype=np.float64).reshape(-1, FIELDS_A_ROW + 1))
                    if self.progress is not None:
                        self.progress(raw.tell() if raw.seekable() else 0, total)
                    yield chunk
        if self.findings.rows == 0:
            raise InputError(self.path, "contains no job: an SWF trace has one line of 18 numbers per job")
        if self.findings.rows == self.findings.bad_rows:
            raise InputError(self.path, f"not an SWF trace, no row can be read; {self.findings.examples[0]}")

    def _sane(self, chunk: FloatArray) -> FloatArray:
        """Omit rows with infinite or absurd values, and NaN."""
        sane = (np.abs(chunk) <= _MOST).all(axis=1)
        if sane.all():
            return chunk
        for row in chunk[~sane]:
            column = int(np.argmin(np.abs(row) <= _MOST))
            self.findings.bad(int(row[LINE_COLUMN]), f"field {column + 1} is {row[column]:g}")
        return chunk[sane]

    def _add_row(self, values: array[float], number: int, line: str) -> None:
        """Append the row's 18 numbers and its line number, or count it as bad."""
        fields = line.split()
        self.findings.rows += 1
        if len(fields) != FIELDS_A_ROW:
            if len(fields) < FIELDS_A_ROW:
                self.findings.bad(number, f"{counted(len(fields), 'field')}, expected {FIELDS_A_ROW}")
                return
            del fields[FIELDS_A_ROW:]
            self.findings.long_rows += 1
        try:
            row = list(map(float, fields))
            if "_" in line and any("_" in text for text in fields):
                raise ValueError
        except ValueError:
            wrong = next(i for i, text in enumerate(fields) if not is_number(text))
            self.findings.bad(number, f"field {wrong + 1} is {fields[wrong][:30]!r}, expected a number")
            return
        row.append(number)
        values.extend(row)

    def _lines(self, text: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
        """Yield (line number, text) of the rows; take in comments; pass over blank lines."""
        number = 0
        try:
            while line := text.readline(_LONGEST_LINE):
                number += 1
                whole = line
                while len(line) == _LONGEST_LINE and not line.endswith("\n"):
                    line = text.readline(_LONGEST_LINE)
                if number == 1:
                    whole = whole.removeprefix("\xef\xbb\xbf")
                start = whole.lstrip()[:1]
                if start in (";", "#"):
                    key, colon, value = whole.strip().lstrip(";#").partition(":")
                    if colon:
                        self.header.setdefault(key.strip(), value.strip())
                elif start:
                    yield number, whole
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            how = "is truncated" if isinstance(error, EOFError) else f"is corrupt ({error})"
            self.findings.damage = f"the gzip file {how} after line {number}"
            if not self.accept_damaged:
                hint = "download it again, or use the readable part with --accept-damaged"
                raise InputError(self.path, f"{self.findings.damage}: {hint}") from error

    def _unpacked(self, raw: io.BufferedReader) -> BinaryIO:
        magic = raw.peek(8)
        for start, name in _OTHER_FILES.items():
            if magic.startswith(start):
                raise InputError(self.path, f"is a {name} file: unpack it first (plain and gzip are read)")
        if magic.startswith(b"\x1f\x8b"):
            return io.BufferedReader(_Capped(self.path, gzip.GzipFile(fileobj=raw)), 1 << 17)
        return raw


class _Capped(io.RawIOBase):
    """Unpacked content of a gzip file, up to a cap."""

    def __init__(self, path: PathLike, file: gzip.GzipFile) -> None:
        self._path = path
        self._file = file
        self._left_bytes = MOST_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self._left_bytes -= count
        if self._left_bytes < 0:
            raise InputError(
                self._path, f"unpacks to more than {MOST_UNPACKED_BYTES >> 20} MiB: too much for a trace"
            )
        return count
