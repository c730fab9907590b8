"""A table of a run as columns, checked cell by cell: what is wrong is told with its line."""

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
"""The line of the first row: the header is line 1."""


class RunTable:
    """Columns of one length, by name: ``table[name]`` is one of numbers, once `numbers` has read it.

    A number that there is not is NaN. A file that the run has not written is a table without rows.
    """

    def __init__(self, path: Path, numbers: Mapping[str, FloatArray] | None = None) -> None:
        """Make a table of ``numbers``, None for a file that is not there; `read` makes one of a file."""
        self.path = path
        self.is_there = numbers is not None
        """Whether there is a file."""
        self._numbers = dict(numbers or {})
        self._written: dict[str, Any] = {}
        """Columns of texts that are not read yet, as pyarrow has them."""

    @classmethod
    def read(cls, path: Path, needed: Iterable[str]) -> RunTable:
        """Read the table at ``path``; a file of no length, such as a stopped Batsim leaves, counts as none.

        Raises InputError, also where a ``needed`` column is missing, and ConfigError without pyarrow.
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
        """The names of the columns that are not read as numbers."""
        return [*self._written]

    def knows_all(self, name: str) -> bool:
        """Whether the table has this column, with a number in every row."""
        return name in self._numbers and not np.isnan(self._numbers[name]).any()

    def side_by_side(self, names: Iterable[str]) -> FloatArray:
        """Return some columns of numbers, [rows, columns]."""
        return np.stack([self._numbers[name] for name in names], axis=1)

    def plus(self, name: str, values: FloatArray) -> RunTable:
        """Return the table with one more column of numbers, or another one of this name."""
        return RunTable(self.path, self._numbers | {name: values})

    # --- reading a column -----------------------------------------------------------------------------------

    def texts(self, name: str) -> list[str]:
        """Return a column as texts; an empty one where there is nothing."""
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
        """Read a column of numbers and return it; with ``gaps``, it may have nothing in some rows.

        Raises InputError that names the line of what is no number, or not from ``least`` to ``most``.
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
            expected = "a whole number" if whole else "a number"
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
        """Read a column of times that never fall, or with ``strictly`` always rise, and return it."""
        values = self.times(name)
        steps = np.diff(values)
        falls = steps <= 0 if strictly else steps < 0
        if falls.any():
            at = int(np.argmax(falls)) + 1
            found = f"{name}: found {values[at]:g} after {values[at - 1]:g}"
            raise InputError(self.path, found, line=at + _HEAD_LINES)
        return values

    def host_sets(self, name: str, *, gaps: bool = False) -> list[str]:
        """Check that a column names hosts such as ``0-3 5``, and return it; empty where there is nothing.

        Raises InputError that names the line of what is no set of hosts; only with ``gaps`` is nothing one.
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
    """The numbers of a column of pyarrow's, whose own way to NumPy imports pandas."""
    if not len(column):
        return np.empty(0)
    whole = column.combine_chunks()
    return np.frombuffer(whole.buffers()[1], np.float64, len(whole), 8 * whole.offset)


def _number(text: str) -> float:
    """The number of a cell: NaN where there is nothing, infinity for what is no number."""
    try:
        return float(text) if text else math.nan
    except ValueError:
        return math.inf


def _names_hosts(text: str) -> bool:
    """Whether a text is a set of hosts, with one at least."""
    try:
        return len(HostSet.parse(text)) > 0
    except ValueError:
        return False
