"""Battery trajectory (Eq. 1): losses of storage, and the energy left above the levels to keep.

All losses of the storage, which make a joule from the battery more expensive than one of production, are
here.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.devices.battery import BatterySpec, gained_w, project_need_j
from beasy_sched.energy.fields import require_not_negative
from beasy_sched.energy.grid_charging import GridUse
from beasy_sched.energy.site import Site
from beasy_sched.errors import ConfigError
from beasy_sched.policies.bid_price.horizon import Cells
from beasy_sched.policies.bid_price.margins import LEVEL_MARGIN
from beasy_sched.units import SECONDS_PER_DAY


class Backup(NamedTuple):
    """Backup power (fuel cell, grid), by cell."""

    fuel_cell_w: FloatArray
    """Planned power of a fuel cell that is reduced while the battery is above its planned level."""
    planned_j: FloatArray
    """Planned level at the end of each cell."""
    import_w: FloatArray | None = None
    """Maximum power of a grid; None without a grid."""
    uses: list[GridUse] | None = None
    """Use of the grid by its rules, as far as they are known; None without rules."""


class Slack(NamedTuple):
    """Minimum energy above the constraint, J; negative if it is violated."""

    slack_j: float
    edge: int
    """Edge of the cells with the minimum."""
    at_target: bool
    """Whether the constraint is the target at a window's end, not the floor."""


class BatteryProjection(NamedTuple):
    """Battery trajectory under a given demand."""

    left_j: float
    """Minimum energy above the floor while the level falls."""
    edge: int
    """Edge of the cells with this minimum."""
    ends_j: FloatArray
    """Levels at the ends of windows."""


class BatteryAhead:
    """The battery over the cells, with a floor at all times and a target at the ends of windows.

    The target is the lower edge of its band, if it has one.

    With a grid there is neither. The grid takes over at SoC_min, and power beyond its limit counts as
    missing. Without rules, the battery serves before the grid does, and the grid does not charge the battery,
    so energy for the target would be paid for by waiting jobs, regardless of the grid's price. With rules,
    the grid serves first and charges the battery where they are expected to hold.
    """

    def __init__(
        self,
        battery: BatterySpec,
        level_j: float,
        cells: Cells,
        backup: Backup | None = None,
        margin: float = LEVEL_MARGIN,
        least_j: float = 0.0,
    ) -> None:
        """``backup``: backup power; ``margin``: share of the capacity to keep above both levels.

        ``least_j``: a level above SoC_min that jobs must leave.
        """
        self.battery, self.level_j, self.cells = battery, level_j, cells
        spare_j = margin * battery.capacity_j
        has_grid = backup is not None and backup.import_w is not None
        self.floor_j = -np.inf if has_grid else max(battery.min_j, least_j) + spare_j
        self.target_j = -np.inf if has_grid else battery.least_end_j
        self.goal_j = min(self.target_j + spare_j, battery.max_j)
        self._left = (1.0 - battery.self_discharge_per_day) ** (cells.edge_s[1:] / SECONDS_PER_DAY)
        self._kept = [battery.kept_fraction(width_s) for width_s in cells.width_s.tolist()]
        self._backup = backup
        uses = None if backup is None else backup.uses
        if uses is not None:
            self._first_w, self._charge_w = (np.array([use[part] for use in uses]) for part in (0, 1))
            self._most_j = battery.energy_j(max(use.charge_soc_pct for use in uses))

    def slack(self, net_w: FloatArray) -> Slack:
        """Least energy left above the floor, where the level falls, and above the target."""
        left_j, edge, ends_j = self.project(net_w)
        worst = int(ends_j.argmin())
        above_j = float(ends_j[worst]) - self.goal_j
        if above_j < left_j:
            return Slack(above_j, int(self.cells.goals[worst]), True)
        return Slack(left_j, edge, False)

    def project(self, net_w: FloatArray) -> BatteryProjection:
        """Follow the battery through a surplus of ``net_w`` (below 0: a deficit) in each cell."""
        if self._backup is None:
            levels_j, spare_j = self._alone(net_w)
        else:
            levels_j, spare_j = self._with_backup(net_w, self._backup)
        falls = levels_j[1:] < levels_j[:-1]
        above_j = np.where(falls, levels_j[1:] - self.floor_j, np.inf)
        above_j = np.where(spare_j < 0.0, np.minimum(above_j, spare_j), above_j)
        edge = int(above_j.argmin()) + 1
        return BatteryProjection(float(above_j[edge - 1]), edge, levels_j[self.cells.goals])

    def _alone(self, net_w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Levels at the edges, J, and spare power in each cell; negative: power is missing."""
        levels_j = project_need_j(self.battery, self.level_j, net_w, self.cells.width_s, self._left)
        return levels_j, (net_w + self.battery.discharge_limit_w) * self.cells.width_s

    def _with_backup(self, net_w: FloatArray, backup: Backup) -> tuple[FloatArray, FloatArray]:
        """The same, cell by cell, with a fuel cell that may be reduced or a grid as backup."""
        battery, width_s, has_grid = self.battery, self.cells.width_s, backup.import_w is not None
        if backup.uses is not None and backup.import_w is not None:
            return self._with_rules(net_w + backup.fuel_cell_w, backup.import_w)
        served_w = net_w + backup.fuel_cell_w
        held_j, served_j = (width_s * gained_w(battery, each_w) for each_w in (net_w, served_w))
        min_j, max_j = battery.min_j, battery.max_j
        levels_j, bought_j = [self.level_j], []
        columns = map(np.ndarray.tolist, (held_j, served_j, backup.planned_j))
        for kept, held, served, planned in zip(self._kept, *columns, strict=True):
            before_j = levels_j[-1]
            kept_j = before_j * kept
            level_j = max(kept_j + held, min(kept_j + served, planned))
            level_j = min(level_j, max(max_j, before_j))
            if has_grid:
                bought_j.append(max(min(min_j, before_j) - level_j, 0.0))
                level_j += bought_j[-1]
            levels_j.append(level_j)
        lacks_j = np.maximum(-served_w - battery.discharge_limit_w, 0.0) * width_s
        if backup.import_w is None:
            return np.array(levels_j), -lacks_j
        lacks_j += np.array(bought_j) / battery.drawn_per_delivered()
        return np.array(levels_j), backup.import_w * width_s - lacks_j

    def _with_rules(self, net_w: FloatArray, import_w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The same with a grid's rules: the order of service of `energy.balance`, without hydrogen."""
        battery, width_s = self.battery, self.cells.width_s
        rates_w = battery.charge_limit_w, battery.discharge_limit_w
        first_w = np.minimum(np.minimum(self._first_w, import_w), np.maximum(-net_w, 0.0))
        deficit_w = np.maximum(-net_w, 0.0) - first_w
        stored_w = np.minimum(np.maximum(net_w, 0.0), rates_w[0])
        bought_w = first_w + deficit_w  # at SoC_min; above it, a battery in a deficit is not charged
        more_w = np.minimum(np.minimum(self._charge_w, import_w) - bought_w, rates_w[0] - stored_w)
        more_w = np.maximum(more_w, 0.0)
        drawn, min_j, max_j, most_j = (
            battery.drawn_per_delivered(),
            battery.min_j,
            battery.max_j,
            self._most_j,
        )
        asked_j = drawn * np.minimum(deficit_w, rates_w[1]) * width_s
        into_j, grid_j = (battery.charge_efficiency * width_s * each_w for each_w in (stored_w, more_w))
        level_j, levels_j, taken_j = self.level_j, [self.level_j], []
        columns = map(np.ndarray.tolist, (asked_j, into_j, grid_j))
        for kept, asked, into, of_grid in zip(self._kept, *columns, strict=True):
            level_j *= kept
            taken = 0.0
            if asked > 0.0 and level_j > min_j:
                taken = min(asked, level_j - min_j)
                level_j -= taken
            elif level_j < max_j:
                level_j = min(level_j + into, max_j)
                if of_grid > 0.0 and level_j < most_j:
                    level_j = min(level_j + of_grid, most_j)
            levels_j.append(level_j)
            taken_j.append(taken)
        missing_j = deficit_w * width_s - np.array(taken_j) / drawn
        return np.array(levels_j), (import_w - first_w) * width_s - missing_j


_CYCLE_S: Final = SECONDS_PER_DAY
"""Time over which the highest level begins a cycle."""


class WearFloor:
    """Battery level below which the energy of a deeper cycle costs too much wear."""

    def __init__(self, site: Site, most_per_kwh: float) -> None:
        """``most_per_kwh``: maximum cost of wear, in the site's currency. Raises ConfigError."""
        life = site.battery_life
        if life is None or life.price_per_kwh is None:
            raise ConfigError(
                "option most_wear_per_kwh requires the battery's price: add [battery.life] with price_per_kwh"
                " to the site file"
            )
        require_not_negative("option most_wear_per_kwh", most_per_kwh)
        self._depth_j = life.depth_worth(most_per_kwh) * site.storage.battery.capacity_j
        self._levels: deque[tuple[float, float]] = deque()
        """Times and levels of which none is both older and lower than another."""

    def floor_j(self, now: float, level_j: float) -> float:
        """Return the minimum level for a step that begins with ``level_j`` in the battery, J."""
        while self._levels and self._levels[-1][1] <= level_j:
            self._levels.pop()
        self._levels.append((now, level_j))
        while self._levels[0][0] < now - _CYCLE_S:
            self._levels.popleft()
        return self._levels[0][1] - self._depth_j
