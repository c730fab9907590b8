"""The storage as one thing: what it is, what it holds, and what the plan wants of its hydrogen."""

from __future__ import annotations

import math
from dataclasses import dataclass

from beasy_sched.energy.battery import BatterySpec
from beasy_sched.energy.hydrogen import HydrogenSpec
from beasy_sched.errors import ConfigError


@dataclass(frozen=True)
class HydrogenPlan:
    """Hydrogen powers (W) that the offline plan sets for one step."""

    electrolyzer_w: float = 0.0
    fuel_cell_w: float = 0.0
    battery_j: float = math.inf
    """Planned level of the battery at the end of the step, J; infinite where none is."""


NO_HYDROGEN = HydrogenPlan()


@dataclass(frozen=True)
class StorageState:
    """What the storage holds between two steps."""

    battery_j: float
    hydrogen_kg: float = 0.0


@dataclass(frozen=True)
class Storage:
    """A battery and, where the site has one, a hydrogen chain."""

    battery: BatterySpec
    hydrogen: HydrogenSpec | None = None

    def start(self) -> StorageState:
        """The state at the start of the first window."""
        level_kg = self.hydrogen.level_start_kg if self.hydrogen else 0.0
        return StorageState(self.battery.start_j, level_kg)

    def check_plan(self, planned: HydrogenPlan) -> None:
        """Raise ConfigError if the plan uses hydrogen and the site has none, or asks for less than 0."""
        if not (planned.electrolyzer_w >= 0 and planned.fuel_cell_w >= 0):
            raise ConfigError(
                f"planned hydrogen powers must not be negative: electrolyzer {planned.electrolyzer_w} W, "
                f"fuel cell {planned.fuel_cell_w} W"
            )
        if self.hydrogen is None and (planned.electrolyzer_w or planned.fuel_cell_w):
            raise ConfigError(
                "the plan uses hydrogen but the site has none: add a [hydrogen] section to the site file, "
                "or use a plan that was made for this site"
            )
