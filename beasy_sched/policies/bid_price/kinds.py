"""Jobs that ask for the same: as many hosts for as long. Those of the past tell about the next ones.

Users submit the same job again and again, and ask for the same each time: a template of historical run times
(Smith, Foster, Taylor, Predicting Application Run Times Using Historical Information, JSSPP 1998).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray

LAST: Final = 10
"""Jobs of a kind that are remembered."""
_MOST_SINGLE: Final = 10_000
"""Kinds with a single job that are remembered."""
_WALLTIMES: Final = 2.0**20
"""Weight of the walltime in a kind's key; there are fewer hosts than that."""


class JobKinds:
    """Which shares of their walltimes the last jobs of each kind needed, of kinds with two jobs or more."""

    def __init__(self) -> None:
        """Know none."""
        self._single: dict[float, float] = {}
        self._row: dict[float, int] = {}
        self._keys: FloatArray = np.empty(0)
        self._rows: IndexArray = np.empty(0, dtype=np.intp)
        self.shares: FloatArray = np.zeros((0, LAST))
        """The last shares of each kind, 0 where there are fewer: [kind, LAST]."""
        self.counts: FloatArray = np.zeros(0)
        """How many of them there are."""

    def __len__(self) -> int:
        return len(self._row)

    def add(self, hosts: int, walltime_s: float, share: float) -> None:
        """Learn from a job that has ended after ``share`` of its walltime."""
        key = walltime_s * _WALLTIMES + hosts
        row = self._row.get(key)
        if row is not None:
            self._append(row, share)
        elif key in self._single:
            row = self._new(key)
            self._append(row, self._single.pop(key))
            self._append(row, share)
        else:
            self._single[key] = share
            if len(self._single) > _MOST_SINGLE:
                for old in [*islice(self._single, _MOST_SINGLE // 2)]:
                    del self._single[old]

    def _new(self, key: float) -> int:
        """Add a kind; return its row."""
        row = self._row[key] = len(self._row)
        if row == len(self.shares):
            more = max(row, 16)
            self.shares = np.concatenate((self.shares, np.zeros((more, LAST))))
            self.counts = np.concatenate((self.counts, np.zeros(more)))
        place = int(np.searchsorted(self._keys, key))
        self._keys = np.insert(self._keys, place, key)
        self._rows = np.insert(self._rows, place, row)
        return row

    def _append(self, row: int, share: float) -> None:
        """Remember a share, in place of the oldest if need be."""
        count = int(self.counts[row])
        if count == LAST:
            self.shares[row, :-1] = self.shares[row, 1:]
            count -= 1
        self.shares[row, count] = share
        self.counts[row] = count + 1

    def rows(self, hosts: FloatArray, walltime_s: FloatArray) -> IndexArray:
        """Rows of the kinds of jobs; -1 for those of no kind that is known."""
        keys = walltime_s * _WALLTIMES + hosts
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._rows[place], -1)

    def row(self, hosts: int, walltime_s: float) -> int:
        """The same for one job."""
        return self._row.get(walltime_s * _WALLTIMES + hosts, -1)

    def each(self, rows: IndexArray) -> Iterator[FloatArray]:
        """Yield the last, the last but one ... share of kinds, a column each: [row, 1]."""
        shares = self.shares[rows]
        most = int(self.counts[rows].max(initial=0.0))
        for number in range(most):
            yield shares[:, number : number + 1]
