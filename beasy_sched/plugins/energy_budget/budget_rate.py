"""The rate at which a budget's energy becomes available: constant, or one for each part of its period."""

from __future__ import annotations

from typing import Any

import numpy as np

from beasy_sched.arrays import FloatArray


class BudgetRate:
    """Constant rate: a budget divided by its period."""

    def __init__(self, rate_w: float) -> None:
        """``rate_w``: energy made available per second, W."""
        self.rate_w = rate_w
        self.changes_s: FloatArray = np.empty(0)
        """Times at which the rate changes, s, ascending."""

    def mean_w(self, from_s: Any, until_s: Any) -> Any:
        """Return the mean rate (W) between two times (s, numbers or arrays); of no time, the rate then."""
        return self.rate_w

    def divided(self, pue: float) -> BudgetRate:
        """Return the part of the rate that is left to the servers: the rest is for their cooling."""
        return self if pue == 1.0 else BudgetRate(self.rate_w / pue)


class SteppedRate(BudgetRate):
    """A rate for each of several periods of equal length."""

    def __init__(self, start_s: float, end_s: float, energies_j: FloatArray) -> None:
        """``energies_j``: energy of each period from ``start_s`` to ``end_s``, J."""
        super().__init__(float(energies_j.sum()) / (end_s - start_s))
        self._edges_s = np.linspace(start_s, end_s, len(energies_j) + 1)
        self._gained_j = np.concatenate(([0.0], energies_j.cumsum()))
        self._rates_w = energies_j / np.diff(self._edges_s)
        self.changes_s = self._edges_s[1:-1]

    def mean_w(self, from_s: Any, until_s: Any) -> Any:
        """Return the mean rate between two times; of no time, the rate at that time."""
        first_s, last_s = np.asarray(from_s, dtype=np.float64), np.asarray(until_s, dtype=np.float64)
        place = np.clip(self._edges_s.searchsorted(first_s, side="right") - 1, 0, len(self._rates_w) - 1)
        lasts_s = last_s - first_s
        gained_j = np.interp(last_s, self._edges_s, self._gained_j)
        gained_j = gained_j - np.interp(first_s, self._edges_s, self._gained_j)
        some = lasts_s > 0.0
        mean_w = np.where(some, gained_j / np.where(some, lasts_s, 1.0), self._rates_w[place])
        return mean_w if mean_w.ndim else float(mean_w)

    def divided(self, pue: float) -> BudgetRate:
        """Return the part of each rate that is left to the servers."""
        if pue == 1.0:
            return self
        energies_j = self._rates_w * np.diff(self._edges_s) / pue
        return SteppedRate(float(self._edges_s[0]), float(self._edges_s[-1]), energies_j)
