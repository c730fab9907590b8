"""Upper bounds of what idle servers of BEASY's plan can save by sleeping."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, IndexArray, StateArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.planned.sleep_savings import SleepSavings

_ALL: Final = slice(None)
_FEW_ROWS: Final = 32
"""Energy for half of the jobs is found within so many rows."""
_FURTHER: Final = 4
"""Factor by which the number of rows grows that are looked at next."""
_CELLS_A_LOOK: Final = 1_000_000
"""Most cells that are looked at together, unless in the shortest look, so that arrays stay small."""
_ABOVE_ROUNDING: Final = 1.0 + 1e-9


class KeptOn(NamedTuple):
    """Servers that are never to sleep in rows ``first`` to ``end`` - 1."""

    hosts: BoolArray
    """Whether each server is kept on, [N]."""
    first: int
    end: int

    def leave_out(self, idle: BoolArray, begin: int, hosts: HostIds | slice) -> None:
        """Clear the cells of the servers in ``idle``: rows from ``begin`` on, columns of ``hosts``."""
        idle[max(self.first - begin, 0) : max(self.end - begin, 0), self.hosts[hosts]] = False


class SleepBound:
    """The most that idle servers can save by sleeping in some rows of a plan, for more and more rows.

    A cell saves at most what sleep saves of a whole step, a run of idle cells at most what its transitions
    add. Whole joules, so that sums are exact. It holds while the states of the rows stay the same.
    """

    def __init__(
        self,
        savings: SleepSavings,
        states: StateArray,
        first: IndexArray,
        step_s: float,
        kept: KeptOn | None = None,
    ) -> None:
        """Bound what servers save that are idle from rows ``first`` on ([N]), but for those ``kept`` on.

        ``states``: the plan from row 0 on, [L, N], in steps of ``step_s``.
        """
        self._savings, self._states, self._step_s = savings, states, step_s
        self._first, self._kept = first, kept
        self._most_j = np.zeros(1)
        """Upper bounds in no rows, in the first, in the first two and so on, as far as they are known."""
        self._under_way_j = np.zeros(0)
        """What the transitions can add of runs that are under way as each known row begins, J."""
        self._was_idle: BoolArray = np.zeros(len(first), dtype=np.bool_)

    def before_j(self, end: int, row: int = 0) -> float:
        """The most that is saved from ``row`` on before row ``end``, J."""
        if end <= row:
            return 0.0
        if len(self._most_j) <= end:
            self._look(end)
        since_j = self._most_j.item(row) - self._under_way_j.item(row)
        return (self._most_j.item(end) - since_j) * _ABOVE_ROUNDING

    def most_j(self, enough_j: float, limit: int, row: int = 0) -> float:
        """The most that is saved from ``row`` on before ``limit``, J; or less, but ``enough_j`` at least."""
        return self.before_j(self._rows_with(enough_j, limit, row), row)

    def rows_to(self, least_j: float, limit: int) -> int:
        """The least number of rows in which ``least_j`` may be saved; 0 if that is not before ``limit``."""
        if self.before_j(self._rows_with(least_j, limit, 0)) < least_j:
            return 0
        return int(self._most_j.searchsorted(least_j / _ABOVE_ROUNDING))

    def _rows_with(self, least_j: float, limit: int, row: int) -> int:
        """The end of rows from ``row`` on in which ``least_j`` may be saved, or ``limit``."""
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
