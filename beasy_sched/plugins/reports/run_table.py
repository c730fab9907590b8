"""Table of a run as columns, checked cell by cell; errors name the line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import InputError
from beasy_sched.formats.decoding import read_columns
from beasy_sched.limits import LATEST_S, shortened
from beasy_sched.model.hosts import HostSet
from beasy_sched.run.results import LARGEST

_HEAD_LINES: Final = 2
"""Line of the first row: the header is line 1."""


class RunTable:
    """Columns of equal length, by name: ``table[name]`` is a numeric column after `numbers` has read it.

    A missing number is NaN. A file that the run has not written is a table without rows.
    """

    def __init__(self, path: Path, numbers: Mapping[str, FloatArray] | None = None) -> None:
        """Make a table of ``numbers``, None for a missing file; `read` makes one of a file."""
        self.path = path
        self.is_there = numbers is not None
        """Whether the file exists."""
        self._numbers = dict(numbers or {})
        self._written: dict[str, Any] = {}
        """Unread columns of strings, as pyarrow arrays."""

    @classmethod
    def read(cls, path: Path, needed: Iterable[str]) -> RunTable:
        """Read the table at ``path``; an empty file, as left by a stopped Batsim, counts as missing.

        Raises InputError, also if a ``needed`` column is missing, and ConfigError without pyarrow.
        """
        if not path.is_file() or not path.stat().st_size:
            return cls(path)
        table = cls(path, {})
        table._written = read_columns(path)
        for name in needed:
            if name not in table:
                raise InputError(path, f"has no column {name!r}")
        return table

    def __len__(self) -> int:
        columns: list[Any] = [*self._numbers.values(), *self._written.values()]
        return len(columns[0]) if columns else 0

    def __contains__(self, name: str) -> bool:
        return name in self._numbers or name in self._written

    def __getitem__(self, name: str) -> FloatArray:
        return self._numbers[name]

    @property
    def unread(self) -> list[str]:
        """Names of the columns that are not read as numbers."""
        return [*self._written]

    def knows_all(self, name: str) -> bool:
        """Whether the table has this column, with a number in every row."""
        return name in self._numbers and not np.isnan(self._numbers[name]).any()

    def side_by_side(self, names: Iterable[str]) -> FloatArray:
        """Return some columns of numbers, [rows, columns]."""
        return np.stack([self._numbers[name] for name in names], axis=1)

    def plus(self, name: str, values: FloatArray) -> RunTable:
        """Return the table with this column of numbers added or replaced."""
        return RunTable(self.path, self._numbers | {name: values})

    # --- reading a column -----------------------------------------------------------------------------------

    def texts(self, name: str) -> list[str]:
        """Return a column of strings; empty strings for missing values."""
        texts: list[str] = self._written[name].to_pylist()
        return texts

    def numbers(
        self,
        name: str,
        *,
        least: float = -LARGEST,
        most: float = LARGEST,
        gaps: bool = False,
        whole: bool = False,
    ) -> FloatArray:
        """Read a column of numbers and return it; with ``gaps``, some rows may be empty.

        Raises InputError with the line of a value that is not a number from ``least`` to ``most``.
        """
        column = self._written[name]
        try:
            values = _as_numpy(column.cast("float64"))
        except ValueError:
            values = np.array([_number(text) for text in self.texts(name)])
        wrong = ~((values >= least) & (values <= most))
        if gaps:
            wrong &= ~np.isnan(values)
        if whole:
            wrong |= values != np.floor(values)
        if wrong.any():
            at = int(np.argmax(wrong))
            expected = "an integer" if whole else "a number"
            if least > -LARGEST:
                expected += f", {least:g} or more"
            raise self._unexpected(name, at, column[at].as_py(), expected)
        self._numbers[name] = values
        del self._written[name]
        return values

    def times(self, name: str, *, gaps: bool = False) -> FloatArray:
        """Read a column of times of the run, s, and return it."""
        return self.numbers(name, least=0, most=LATEST_S, gaps=gaps)

    def rising_times(self, name: str, *, strictly: bool = False) -> FloatArray:
        """Read a column of times that never decrease, or with ``strictly`` always increase, and return it."""
        values = self.times(name)
        steps = np.diff(values)
        falls = steps <= 0 if strictly else steps < 0
        if falls.any():
            at = int(np.argmax(falls)) + 1
            problem = f"{name}: found {values[at]:g} after {values[at - 1]:g}"
            raise InputError(self.path, problem, line=at + _HEAD_LINES)
        return values

    def host_sets(self, name: str, *, gaps: bool = False) -> list[str]:
        """Check that a column has hosts such as ``0-3 5``, and return it; empty for missing values.

        Raises InputError with the line of an invalid set of hosts; with ``gaps``, it may be empty.
        """
        texts = self.texts(name)
        fits = {text: (gaps and not text) or _names_hosts(text) for text in set(texts)}
        for at, text in enumerate(texts):
            if not fits[text]:
                raise self._unexpected(name, at, text, "hosts such as '0-3 5'")
        return texts

    def _unexpected(self, name: str, row: int, text: str, expected: str) -> InputError:
        found = shortened(text, 40) if text else "nothing"
        return InputError(self.path, f"{name}: found {found}, expected {expected}", line=row + _HEAD_LINES)


def _as_numpy(column: Any) -> FloatArray:
    """Convert a column of pyarrow to NumPy, without pyarrow's own conversion, which imports pandas."""
    if not len(column):
        return np.empty(0)
    whole = column.combine_chunks()
    return np.frombuffer(whole.buffers()[1], np.float64, len(whole), 8 * whole.offset)


def _number(text: str) -> float:
    """Parse the number of a cell: NaN if empty, infinity if not a number."""
    try:
        return float(text) if text else math.nan
    except ValueError:
        return math.inf


def _names_hosts(text: str) -> bool:
    """Whether a string is a non-empty set of hosts."""
    try:
        return len(HostSet.parse(text)) > 0
    except ValueError:
        return False
