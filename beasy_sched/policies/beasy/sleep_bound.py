"""Upper bounds of the energy that idle servers of BEASY's plan can save by sleeping."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, IndexArray, StateArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.planned.sleep_savings import SleepSavings

_ALL: Final = slice(None)
_FEW_ROWS: Final = 32
"""Number of rows that suffice for half of the jobs."""
_FURTHER: Final = 4
"""Growth factor of the number of rows examined next."""
_CELLS_A_LOOK: Final = 1_000_000
"""Maximum number of cells examined together, except in the shortest search, so that arrays stay small."""
_ABOVE_ROUNDING: Final = 1.0 + 1e-9


class KeptOn(NamedTuple):
    """Servers that must not sleep in rows ``first`` to ``end`` - 1."""

    hosts: BoolArray
    """Whether each server is kept on, [N]."""
    first: int
    end: int

    def leave_out(self, idle: BoolArray, begin: int, hosts: HostIds | slice) -> None:
        """Clear the cells of the servers in ``idle``: rows from ``begin`` on, columns of ``hosts``."""
        idle[max(self.first - begin, 0) : max(self.end - begin, 0), self.hosts[hosts]] = False


class SleepBound:
    """Upper bound of the savings of idle servers in some rows of a plan, extended row by row.

    A cell saves at most the savings of a whole step, and a run of idle cells at most the amount that its
    transitions add. Values are whole joules, so that sums are exact. They hold while the states of the rows
    stay the same.
    """

    def __init__(
        self,
        savings: SleepSavings,
        states: StateArray,
        first: IndexArray,
        step_s: float,
        kept: KeptOn | None = None,
    ) -> None:
        """Bound the savings of servers that are idle from rows ``first`` on ([N]), except those ``kept`` on.

        ``states``: the plan from row 0 on, [L, N], in steps of ``step_s``.
        """
        self._savings, self._states, self._step_s = savings, states, step_s
        self._first, self._kept = first, kept
        self._most_j = np.zeros(1)
        """Upper bounds in 0, 1, 2, ... rows, as far as computed."""
        self._under_way_j = np.zeros(0)
        """Maximum contribution of the transitions of runs that contain the start of each known row, J."""
        self._was_idle: BoolArray = np.zeros(len(first), dtype=np.bool_)

    def before_j(self, end: int, row: int = 0) -> float:
        """Return the most that is saved from ``row`` on before row ``end``, J."""
        if end <= row:
            return 0.0
        if len(self._most_j) <= end:
            self._look(end)
        since_j = self._most_j.item(row) - self._under_way_j.item(row)
        return (self._most_j.item(end) - since_j) * _ABOVE_ROUNDING

    def most_j(self, enough_j: float, limit: int, row: int = 0) -> float:
        """Return the most that is saved from ``row`` on before ``limit``, J; it may stop at ``enough_j``."""
        return self.before_j(self._rows_with(enough_j, limit, row), row)

    def rows_to(self, least_j: float, limit: int) -> int:
        """Return the minimum number of rows in which ``least_j`` may be saved; 0 if not before ``limit``."""
        if self.before_j(self._rows_with(least_j, limit, 0)) < least_j:
            return 0
        return int(self._most_j.searchsorted(least_j / _ABOVE_ROUNDING))

    def _rows_with(self, least_j: float, limit: int, row: int) -> int:
        """Return the end of rows from ``row`` on in which ``least_j`` may be saved, or ``limit``."""
        end, at_once = min(row + _FEW_ROWS, limit), max(_FEW_ROWS, _CELLS_A_LOOK // len(self._first))
        while end < limit and self.before_j(end, row) < least_j:
            end = min(row + _FURTHER * (end - row), end + at_once, limit)
        return end

    def _look(self, end: int) -> None:
        """Add the rows up to ``end``."""
        begin = len(self._most_j) - 1
        states = self._states[begin:end]
        idle = ~self._savings.cells.asleep(states, _ALL)
        idle &= np.arange(begin, end)[:, None] >= self._first
        if self._kept is not None:
            self._kept.leave_out(idle, begin, _ALL)
        goes_on = idle.copy()
        goes_on[1:] &= idle[:-1]
        goes_on[0] &= self._was_idle
        self._was_idle = idle[-1]
        saved_j = self._savings.most_saved_j(states, self._step_s)
        saved_j *= idle
        under_way_j = goes_on @ self._savings.most_added_j
        by_row_j = np.add.reduce(saved_j, axis=1) + (idle @ self._savings.most_added_j - under_way_j)
        self._most_j = np.concatenate((self._most_j, self._most_j[-1] + by_row_j.cumsum()))
        self._under_way_j = np.concatenate((self._under_way_j, under_way_j))
