"""The time to plan for, in cells: short steps first, longer ones later; and the battery over it (Eq. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray
from beasy_sched.energy.storage import BatterySpec, project_levels_j

_FINE: Final = 24
_COARSE: Final = 6
_MIDDLE: Final = 144
"""So many steps are cells of their own, then so many cells have six steps each."""
_FAR: Final = 96
"""What is left is divided into about so many."""


class Cells:
    """Cells of whole steps from the present step to the end of the horizon."""

    def __init__(self, steps: int, step_s: float, ends: Sequence[int] = ()) -> None:
        """``ends``: steps (from now) at which windows end: cells end there, too. ``steps`` is the last one."""
        middle = min(_FINE + _MIDDLE * _COARSE, steps)
        far = max(_COARSE, -(-(steps - middle) // _FAR))
        bounds = np.unique(
            np.concatenate(
                [
                    np.arange(min(_FINE, steps)),
                    np.arange(_FINE, middle, _COARSE),
                    np.arange(middle, steps, far),
                    np.array([*ends, steps], dtype=np.intp),
                ]
            ).astype(np.intp)
        )
        self.bounds: IndexArray = bounds
        """First step of each cell, and the end of the last, [n + 1]."""
        self.steps = steps
        self.edge_s: FloatArray = bounds * step_s
        """Begin of each cell from now, and the end of the last, s, [n + 1]."""
        self.width_s: FloatArray = np.diff(self.edge_s)
        self.middle_s: FloatArray = self.edge_s[:-1] + 0.5 * self.width_s
        self.goals: IndexArray = np.searchsorted(bounds, np.array([*ends, steps], dtype=np.intp))
        """Which edges are ends of windows."""
        self._counts = np.diff(bounds)

    def __len__(self) -> int:
        return len(self.width_s)

    def means(self, per_step: FloatArray) -> FloatArray:
        """Mean of each cell of a quantity by step."""
        sums: FloatArray = np.add.reduceat(per_step, self.bounds[:-1])
        return sums / self._counts

    def filled(self, counts: FloatArray, until_s: FloatArray) -> FloatArray:
        """Sum of ``counts`` that are there from now ``until_s`` each, mean of every cell."""
        total = len(self)
        cell = np.searchsorted(self.edge_s, until_s, side="right") - 1
        inside = cell < total
        part = np.where(inside, until_s - self.edge_s[np.minimum(cell, total)], 0.0)
        ending = np.bincount(cell, weights=counts, minlength=total + 1)[: total + 1]
        parts = np.bincount(cell[inside], weights=(counts * part)[inside], minlength=total)[:total]
        beyond = np.cumsum(ending[::-1])[::-1][1:]
        filled: FloatArray = beyond + parts / self.width_s
        return filled


class Slack(NamedTuple):
    """What is left above what must not be crossed, J; below 0 where it is crossed."""

    slack_j: float
    edge: int
    """The edge of the cells at which least is left."""
    at_target: bool
    """Whether that is the target at a window's end, and not the floor."""


class BatteryAhead:
    """Where the battery goes: the floor to stay above on the way, the target at the ends of windows."""

    def __init__(
        self, battery: BatterySpec, level_j: float, cells: Cells, margin: float, *, target: bool = True
    ) -> None:
        """``margin``: share of the capacity to keep above SoC_min and target; ``target``: whether to reach it."""
        self.battery, self.level_j, self.cells = battery, level_j, cells
        spare_j = margin * battery.capacity_j
        self.floor_j = battery.min_j + spare_j
        self.goal_j = min(battery.target_j + spare_j, battery.max_j)
        self.target_j = battery.target_j
        self._target = target

    def levels_j(self, net_w: FloatArray) -> FloatArray:
        """Level at each edge of the cells with a surplus of ``net_w``; below 0 by what is missing."""
        return project_levels_j(self.battery, self.level_j, net_w, self.cells.width_s, least_j=-np.inf)

    def _unmet_j(self, net_w: FloatArray) -> FloatArray | None:
        """What is missing in each cell because the battery cannot give more at a time."""
        over_w = -net_w - self.battery.discharge_limit_w
        return over_w * self.cells.width_s if over_w.max(initial=0.0) > 0.0 else None

    def slack(self, net_w: FloatArray) -> Slack:
        """Least energy left above the floor, where the level falls, and above the target."""
        levels_j = self.levels_j(net_w)
        falls: BoolArray = levels_j[1:] < levels_j[:-1]
        above_j = np.where(falls, levels_j[1:] - self.floor_j, np.inf)
        if (unmet_j := self._unmet_j(net_w)) is not None:
            above_j = np.where(unmet_j > 0.0, np.minimum(above_j, -unmet_j), above_j)
        edge = int(above_j.argmin()) + 1
        least = Slack(float(above_j[edge - 1]), edge, False)
        if self._target:
            ends_j = levels_j[self.cells.goals] - self.goal_j
            worst = int(ends_j.argmin())
            if ends_j[worst] < least.slack_j:
                return Slack(float(ends_j[worst]), int(self.cells.goals[worst]), True)
        return least

    def stays_up(self, net_w: FloatArray) -> tuple[bool, FloatArray]:
        """Whether the level never falls below the floor, and the levels at the ends of windows, J."""
        levels_j = self.levels_j(net_w)
        fits = bool(levels_j[1:].min() >= self.floor_j) and self._unmet_j(net_w) is None
        return fits, levels_j[self.cells.goals]
