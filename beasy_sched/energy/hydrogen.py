"""The hydrogen chain: electrolyzer, tank and fuel cell (Eq. 2.5 to 2.7 of the thesis)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from beasy_sched.energy.checks import require, require_fraction, require_not_negative, require_positive
from beasy_sched.units import JOULES_PER_KWH

HIGHER_HEATING_VALUE_J_PER_KG: Final = 39.4 * JOULES_PER_KWH
"""HHV: what the electrolyzer must put in, at efficiency 1."""
LOWER_HEATING_VALUE_J_PER_KG: Final = 33.3 * JOULES_PER_KWH
"""LHV: what the fuel cell gets out, at efficiency 1."""


class Hold(str, Enum):
    """When the planned hydrogen is held, since the days are not those that were planned for."""

    NEVER = "never"
    """It follows the plan, as far as the tank allows and the servers leave energy for the electrolyzer."""
    CURTAILMENT = "curtailment"
    """The fuel cell is lowered by what would be curtailed; servers may count on the electrolyzer's power."""
    SURPLUS = "surplus"
    """The same, and as long as the battery is above its planned level, which is used up first."""


@dataclass(frozen=True)
class HydrogenSpec:
    """Sizes, limits and efficiencies. Raises `FieldError` (a ConfigError) when out of range."""

    tank_kg: float
    """LoH_max."""
    level_start_kg: float
    level_target_kg: float
    electrolyzer_max_w: float
    fuel_cell_max_w: float
    electrolyzer_min_w: float = 0.0
    """The electrolyzer is off, or between this and ``electrolyzer_max_w``."""
    electrolyzer_efficiency: float = 0.65
    fuel_cell_efficiency: float = 0.5
    hold: Hold = Hold.SURPLUS
    """When the plan's powers are held, against surplus and shortage."""

    def __post_init__(self) -> None:
        require_positive("tank_kg", self.tank_kg)
        for field in ("level_start_kg", "level_target_kg"):
            value = getattr(self, field)
            require(0 <= value <= self.tank_kg, field, value, f"between 0 and tank_kg ({self.tank_kg:g})")
        for field in ("electrolyzer_max_w", "electrolyzer_min_w", "fuel_cell_max_w"):
            require_not_negative(field, getattr(self, field))
        least, most = self.electrolyzer_min_w, self.electrolyzer_max_w
        require(least <= most, "electrolyzer_min_w", least, "at most the electrolyzer's maximum")
        require_fraction("electrolyzer_efficiency", self.electrolyzer_efficiency)
        require_fraction("fuel_cell_efficiency", self.fuel_cell_efficiency)

    def produced_kg(self, electrolyzer_w: float, dt_s: float) -> float:
        """Q_ez, Eq. 2.5: hydrogen (kg) made from ``electrolyzer_w`` over ``dt_s``."""
        return electrolyzer_w * dt_s * self.electrolyzer_efficiency / HIGHER_HEATING_VALUE_J_PER_KG

    def used_kg(self, fuel_cell_w: float, dt_s: float) -> float:
        """Q_fc, Eq. 2.6: hydrogen (kg) used to deliver ``fuel_cell_w`` over ``dt_s``."""
        return fuel_cell_w * dt_s / (LOWER_HEATING_VALUE_J_PER_KG * self.fuel_cell_efficiency)


def level_after_step(
    hydrogen: HydrogenSpec, level_kg: float, electrolyzer_w: float, fuel_cell_w: float, dt_s: float
) -> float:
    """LoH (kg) after a step, Eq. 2.7. Limits are not applied here."""
    return level_kg + hydrogen.produced_kg(electrolyzer_w, dt_s) - hydrogen.used_kg(fuel_cell_w, dt_s)


def electrolyzer_power(hydrogen: HydrogenSpec, level_kg: float, wanted_w: float, dt_s: float) -> float:
    """Largest power (W) the electrolyzer can hold through a step, at most ``wanted_w``.

    Bounded by its maximum and by the room in the tank; 0 where that is less than its minimum.
    """
    room_kg = max(0.0, hydrogen.tank_kg - level_kg)
    power_w = min(wanted_w, hydrogen.electrolyzer_max_w, room_kg / hydrogen.produced_kg(1.0, dt_s))
    return power_w if power_w > 0.0 and power_w >= hydrogen.electrolyzer_min_w else 0.0


def fuel_cell_power(hydrogen: HydrogenSpec, level_kg: float, wanted_w: float, dt_s: float) -> float:
    """Largest power (W) the fuel cell can hold through a step, at most ``wanted_w``.

    Bounded by its maximum and by the hydrogen in the tank at the start of the step.
    """
    return max(0.0, min(wanted_w, hydrogen.fuel_cell_max_w, level_kg / hydrogen.used_kg(1.0, dt_s)))
