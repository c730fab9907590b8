"""What lies ahead: the time to plan for, what is predicted of it, and the battery over it (Eq. 1).

Time is divided into cells: short steps first, longer ones later. Production and demand are predicted step by
step: from the offline plans where there are any, otherwise from the predictions of the production that a
policy may see, or else from what has been seen so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import BatterySpec, Hold, project_need_j
from beasy_sched.engine.policy import View
from beasy_sched.planner.forecast import Uncertainty, draw_by_busy_w
from beasy_sched.units import SECONDS_PER_DAY, TIME_TOLERANCE_S

_FINE: Final = 24
_COARSE: Final = 6
_MIDDLE: Final = 144
"""So many steps are cells of their own, then so many cells have six steps each."""
_FAR: Final = 96
"""Number of cells, about, that the rest is divided into."""


class Cells:
    """Cells of whole steps from the present step to the end of the horizon."""

    def __init__(self, steps: int, step_s: float, ends: Sequence[int] = ()) -> None:
        """``ends``: steps (from now) at which windows end, and so do cells; ``steps`` is the last one."""
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
        self.edge_s: FloatArray = bounds.astype(np.float64) * step_s
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


class Commitment(NamedTuple):
    """The battery with everything that is committed."""

    fits: bool
    """Whether it never falls below the floor."""
    edge: int
    """The edge of the cells at which it is lowest."""
    ends_j: FloatArray
    """Its level at the ends of windows, J."""


class Backup(NamedTuple):
    """What stands behind the battery, by cell."""

    fuel_cell_w: FloatArray
    """Planned power of a fuel cell that is held while the battery is above its planned level."""
    planned_j: FloatArray
    """That level at the end of each cell."""
    import_w: FloatArray | None = None
    """What a grid may give; None without a grid."""


class BatteryAhead:
    """Where the battery goes: the floor to stay above on the way, the target at the ends of windows.

    With a grid, the floor is where the grid takes over, and what the grid cannot give counts as missing. The
    target is none then: the battery serves before the grid does, and the grid charges no battery, so that
    energy for the target is bought by jobs that wait, at whatever the price of the grid is.
    """

    def __init__(
        self,
        battery: BatterySpec,
        level_j: float,
        cells: Cells,
        margin: float,
        backup: Backup | None = None,
    ) -> None:
        """``margin``: share of the capacity to keep above both levels; ``backup``: what stands behind it."""
        self.battery, self.level_j, self.cells = battery, level_j, cells
        spare_j = margin * battery.capacity_j
        self.floor_j = battery.min_j + spare_j
        self.goal_j = min(battery.target_j + spare_j, battery.max_j)
        self._has_target = backup is None or backup.import_w is None
        self.target_j = battery.target_j if self._has_target else -np.inf
        self._left = (1.0 - battery.self_discharge_per_day) ** (cells.edge_s[1:] / SECONDS_PER_DAY)
        self._backup = backup

    def slack(self, net_w: FloatArray) -> Slack:
        """Least energy left above the floor, where the level falls, and above the target."""
        levels_j, above_j = self._above_j(net_w)
        edge = int(above_j.argmin()) + 1
        least = Slack(float(above_j[edge - 1]), edge, False)
        if self._has_target:
            ends_j = levels_j[self.cells.goals] - self.goal_j
            worst = int(ends_j.argmin())
            if ends_j[worst] < least.slack_j:
                return Slack(float(ends_j[worst]), int(self.cells.goals[worst]), True)
        return least

    def stays_up(self, net_w: FloatArray) -> Commitment:
        """Whether the level never falls below the floor, and where it ends."""
        levels_j, above_j = self._above_j(net_w, rising=True)
        edge = int(above_j.argmin()) + 1
        return Commitment(bool(above_j[edge - 1] >= 0.0), edge, levels_j[self.cells.goals])

    def _above_j(self, net_w: FloatArray, *, rising: bool = False) -> tuple[FloatArray, FloatArray]:
        """Levels (J) at the edges, and what is left above the floor after each cell.

        Cells in which the level does not fall have infinitely much left unless ``rising`` counts, too.
        """
        if self._backup is not None:
            return self._above_with_backup_j(net_w, self._backup, rising)
        battery, width_s = self.battery, self.cells.width_s
        levels_j = project_need_j(battery, self.level_j, net_w, width_s, self._left)
        above_j = levels_j[1:] - self.floor_j
        if not rising:
            above_j = np.where(levels_j[1:] < levels_j[:-1], above_j, np.inf)
        over_w = -net_w - battery.discharge_limit_w
        if over_w.max(initial=0.0) > 0.0:  # the battery cannot give so much at a time
            above_j = np.where(over_w > 0.0, np.minimum(above_j, -over_w * width_s), above_j)
        return levels_j, above_j

    def _above_with_backup_j(
        self, net_w: FloatArray, backup: Backup, rising: bool
    ) -> tuple[FloatArray, FloatArray]:
        """The same, cell by cell, where a fuel cell that may be held or a grid stands behind the battery."""
        battery, most_j, grid = self.battery, self.battery.max_j, backup.import_w is not None
        import_w = np.zeros(len(net_w)) if backup.import_w is None else backup.import_w
        charged, drawn = battery.charge_efficiency, battery.drawn_per_delivered()
        kept = self._left / np.append(1.0, self._left[:-1])
        level_j = self.level_j
        levels_j, above_j = [level_j], []
        columns = net_w, import_w, backup.fuel_cell_w, backup.planned_j, self.cells.width_s, kept
        for surplus_w, limit_w, cell_w, planned_j, dt_s, left in zip(
            *map(np.ndarray.tolist, columns), strict=True
        ):
            before_j, levels = level_j, []
            for power_w in (surplus_w, surplus_w + cell_w):
                stored_w = charged * min(max(power_w, 0.0), battery.charge_limit_w)
                drawn_w = drawn * min(max(-power_w, 0.0), battery.discharge_limit_w)
                levels.append(before_j * left + dt_s * (stored_w - drawn_w))
            level_j = min(max(levels[0], min(levels[1], planned_j)), max(most_j, before_j))
            over_j = max(-surplus_w - cell_w - battery.discharge_limit_w, 0.0) * dt_s
            if grid:
                short_j = max(min(battery.min_j, before_j) - level_j, 0.0)
                level_j += short_j
                above_j.append(limit_w * dt_s - over_j - short_j / drawn)
            elif over_j > 0.0:
                above_j.append(min(level_j - self.floor_j, -over_j))
            else:
                above_j.append(level_j - self.floor_j if rising or level_j < before_j else np.inf)
            levels_j.append(level_j)
        return np.array(levels_j), np.array(above_j)


_UNSEEN_UNCERTAINTY: Final = 0.3
"""Uncertainty of production that is only expected to be as it was a day before."""


class ForeseenSteps(NamedTuple):
    """Predictions from the present step on, one value a step."""

    renew_w: FloatArray
    uncertainty: FloatArray
    given_w: FloatArray
    """What hydrogen gives in addition to the production, less the base load; below 0 where it takes more."""
    held_w: FloatArray
    """What a fuel cell gives, too, as far as the battery is not above its planned level."""
    planned_j: FloatArray
    """That level at the end of each step, J."""
    flops: FloatArray | None
    """Work of all jobs that run then, flops/s; None where no demand is predicted."""


class Foresight:
    """Looks ahead, and remembers what it saw."""

    def __init__(self, view: View, site: Site, production: Literal["plan", "forecast"] = "plan") -> None:
        """Look through ``view``; ``production``: what counts where there are both."""
        self._view, self._site = view, site
        self._from_plan = production == "plan" or view.outlook is None
        self._seen_w: list[float] = []
        self._next: tuple[float, float] = (0.0, 0.0)
        self.present: tuple[float, float] = (0.0, 0.0)
        """Production (W) predicted for the present step, and its uncertainty; 0 where none was."""
        hydrogen = site.storage.hydrogen
        self._holds = hydrogen is not None and hydrogen.hold is Hold.SURPLUS
        self._draw_w = draw_by_busy_w(view.platform)
        platform = view.platform
        speeds = np.array([max(kind.speeds_flops[p] for p in kind.computing) for kind in platform.kinds])
        by_speed = np.sort(speeds[platform.kind_of])[::-1]
        self._flops = np.concatenate(([0.0], np.cumsum(by_speed)))

    def end_s(self, now: float) -> float:
        """End of the horizon: of the last planned window, or else of the present one, s."""
        if now < self._view.planned_until_s - TIME_TOLERANCE_S:
            return self._view.planned_until_s
        window_s = self._site.window_s
        return min((math.floor((now + TIME_TOLERANCE_S) / window_s) + 1) * window_s, self._view.end_s)

    def window_ends_s(self, now: float) -> list[float]:
        """Ends of windows within the horizon, except its own end, s."""
        first_s, until_s = now + TIME_TOLERANCE_S, self._view.planned_until_s - TIME_TOLERANCE_S
        return [plan.end_s for plan in self._view.plans or () if first_s < plan.end_s < until_s]

    def look(self, now: float, steps: int, actual_w: float) -> ForeseenSteps:
        """Predict ``steps`` steps from the one that begins at ``now``, which has ``actual_w``."""
        self._seen_w.append(actual_w)
        foreseen = self._foreseen(now, steps)
        renew_w, uncertainty = foreseen.renew_w, foreseen.uncertainty
        self.present = self._next
        if self._from_plan and self._is_planned(now):
            self.present = float(renew_w[0]), float(uncertainty[0])
        self._next = (float(renew_w[1]), float(uncertainty[1])) if steps > 1 else (0.0, 0.0)
        return foreseen

    def _is_planned(self, now: float) -> bool:
        plans = self._view.plans
        starts = plans is not None and plans.start_s - TIME_TOLERANCE_S <= now
        return starts and now < self._view.planned_until_s - TIME_TOLERANCE_S

    def _foreseen(self, now: float, steps: int) -> ForeseenSteps:
        planned = self._planned(now, steps) if self._is_planned(now) else None
        if planned is not None and self._from_plan:
            return planned
        step_s = self._site.step_s
        if self._view.outlook is not None:
            renew_w = self._view.outlook.renewable_w(now, step_s, steps)
            uncertainty = Uncertainty().over(steps, step_s)
        else:
            renew_w, uncertainty = self._as_before(steps), np.full(steps, _UNSEEN_UNCERTAINTY)
        if planned is not None:
            return planned._replace(renew_w=renew_w, uncertainty=uncertainty)
        nothing_w = np.zeros(steps)
        return ForeseenSteps(renew_w, uncertainty, nothing_w - self._site.base_w, nothing_w, nothing_w, None)

    def _planned(self, now: float, steps: int) -> ForeseenSteps:
        columns: list[list[FloatArray]] = [[], [], [], [], [], []]
        for plan in self._view.plans or ():
            first = max(round((now - plan.start_s) / plan.step_s), 0)
            if first >= plan.steps:
                continue
            power = plan.power
            held_w = power.fuel_cell_w if self._holds else np.zeros(plan.steps)
            given_w = power.fuel_cell_w - held_w - power.electrolyzer_w - self._site.base_w
            busy = np.interp(power.load_w[first:], self._draw_w, np.arange(len(self._draw_w)))
            flops = np.interp(busy, np.arange(len(self._flops)), self._flops)
            of_plan = power.renew_w, plan.renew_uncertainty, given_w, held_w, power.battery_j[1:]
            parts = [*(values[first:] for values in of_plan), flops]
            for column, part in zip(columns, parts, strict=True):
                column.append(part)
        return ForeseenSteps(*(np.concatenate(column)[:steps] for column in columns))

    def _as_before(self, steps: int) -> FloatArray:
        """Production of the same time a day before, or the mean so far."""
        seen = np.array(self._seen_w)
        day = round(SECONDS_PER_DAY / self._site.step_s)
        if len(seen) <= day:
            return np.full(steps, float(seen.mean()))
        return np.resize(seen[-day - 1 : -1], steps)
