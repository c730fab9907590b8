"""The hydrogen chain (Eq. 2.5 to 2.7): its limits and losses, and its place in plans, files and words.

An electrolyzer fills a tank, from which a fuel cell delivers power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.devices.device import (
    RUNNING,
    Columns,
    Device,
    DeviceBounds,
    DeviceSection,
    Excess,
    Fields,
    Flows,
    Labelled,
    Linear,
    Row,
)
from beasy_sched.energy.fields import require, require_fraction, require_not_negative, require_positive
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_HOUR, kw_to_w, power_text

HIGHER_HEATING_VALUE_J_PER_KG: Final = 39.4 * JOULES_PER_KWH
"""HHV: energy input of the electrolyzer at efficiency 1."""
LOWER_HEATING_VALUE_J_PER_KG: Final = 33.3 * JOULES_PER_KWH
"""LHV: energy output of the fuel cell at efficiency 1."""


class Hold(str, Enum):
    """Deviation from planned hydrogen powers when actual values differ from the forecast."""

    NEVER = "never"
    """The hydrogen follows the plan as far as the tank and the servers' demand allow."""
    CURTAILMENT = "curtailment"
    """The fuel cell is reduced by power that would be curtailed; servers may use the electrolyzer's power."""
    SURPLUS = "surplus"
    """The fuel cell is reduced as with ``curtailment``, and also while the battery is above its planned
    level, which is used first."""


@dataclass(frozen=True)
class HydrogenSpec(Device):
    """Sizes, limits and efficiencies. Raises `FieldError` (a ConfigError) for values out of range."""

    section = "hydrogen"
    title = "hydrogen"
    level_name = "kg"
    level_words = "hydrogen in the tank"
    varies = frozenset({"level_start_kg", "level_target_kg", "hold"})
    columns = Columns("electrolyzer_w", "fuel_cell_w", "hydrogen_kg", "correction_kg")
    fields = Fields("hydrogen_kg", "hydrogen_after_kg", "power.hydrogen_kg", "correction_kg", planned=True)

    tank_kg: float
    """LoH_max: size of the tank, kg."""
    level_start_kg: float
    level_target_kg: float
    electrolyzer_max_w: float
    fuel_cell_max_w: float
    electrolyzer_min_w: float = 0.0
    """Minimum power of a running electrolyzer, W: it is off, or between this and ``electrolyzer_max_w``."""
    electrolyzer_efficiency: float = 0.65
    fuel_cell_efficiency: float = 0.5
    hold: Hold = Hold.SURPLUS
    """Rule for reducing the plan's hydrogen powers in surplus and shortage."""

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

    # --- as a device: levels in kg --------------------------------------------------------------------

    @property
    def bounds(self) -> DeviceBounds:
        """The tank, and the limits of electrolyzer and fuel cell."""
        return DeviceBounds(
            0.0, self.tank_kg, self.electrolyzer_max_w, self.fuel_cell_max_w, self.electrolyzer_min_w
        )

    @property
    def start(self) -> float:
        """Hydrogen at the start of the first window, kg."""
        return self.level_start_kg

    @property
    def target(self) -> float:
        """Least hydrogen at the end of a window, kg."""
        return self.level_target_kg

    def takes_w(self, level: float, offered_w: float, dt_s: float) -> float:
        """Return the power of the electrolyzer (W); see `electrolyzer_power`."""
        return electrolyzer_power(self, level, offered_w, dt_s)

    def gives_w(self, level: float, wanted_w: float, dt_s: float) -> float:
        """Return the power of the fuel cell (W); see `fuel_cell_power`."""
        return fuel_cell_power(self, level, wanted_w, dt_s)

    def after(self, level: float, in_w: float, out_w: float, dt_s: float) -> float:
        """Return the hydrogen (kg) after a step; see `level_after_step`."""
        return level_after_step(self, level, in_w, out_w, dt_s)

    def with_target(self, level: float) -> HydrogenSpec:
        """Return the chain with a target of ``level`` (kg)."""
        return replace(self, level_target_kg=level)

    def linear(self, power_w: float, step_s: float) -> Linear:
        """Describe the chain in a plan's problem.

        The unit of hydrogen is that of an hour of electrolysis at ``power_w``. The order of use is after the
        battery.
        """
        bounds, hour_kg = self.bounds, self.produced_kg(power_w, SECONDS_PER_HOUR)
        return Linear(
            hour_kg,
            kept=1.0,
            stored=1.0,
            drawn=self.used_kg(power_w, SECONDS_PER_HOUR) / hour_kg,
            in_most=bounds.in_w / power_w,
            out_most=bounds.out_w / power_w,
            in_least=bounds.least_in_w / power_w,
            rank=2.0,
        )

    def level_scale(self, power_w: float, step_s: float) -> float:
        """Return the size of the tank, and a step of the electrolyzer at ``power_w``, kg."""
        return self.tank_kg + self.produced_kg(power_w, step_s)

    def exact(self, start: float, in_w: FloatArray, out_w: FloatArray, step_s: float) -> Flows:
        """Return the levels that follow from the powers, which the tank does not limit."""
        gains_kg = level_after_step(self, 0.0, in_w, out_w, step_s)  # type: ignore[arg-type]
        return Flows(in_w, out_w, start + np.concatenate(([0.0], np.cumsum(gains_kg))))

    def violations(self, flows: Flows, step_s: float, power_w: float) -> Iterator[Excess]:
        """Yield Eq. 2.7, 3.4, 3.7 and 3.8."""
        stored, ez, fc = flows.level, flows.in_w, flows.out_w
        bounds, size_kg = self.bounds, self.level_scale(power_w, step_s)
        yield Excess("P_fc <= P_fc_max (3.7)", fc - bounds.out_w, power_w)
        yield Excess("P_ez <= P_ez_max (3.8)", ez - bounds.in_w, power_w)
        below = np.where(ez > RUNNING * power_w, bounds.least_in_w - ez, 0.0)
        yield Excess("P_ez = 0 or P_ez >= P_ez_min (3.8)", below, power_w)
        following = level_after_step(self, stored[:-1], ez, fc, step_s)  # type: ignore[arg-type]
        yield Excess("hydrogen development (2.7)", np.abs(stored[1:] - following), size_kg)
        yield Excess("LoH >= 0 (3.4)", bounds.least - stored, size_kg)
        yield Excess("LoH <= LoH_max (3.4)", stored - bounds.most, size_kg)

    # --- words ----------------------------------------------------------------------------------------

    def shown(self, level: Any) -> Any:
        """Return the level itself, kg."""
        return level

    @classmethod
    def level_text(cls, shown: float) -> str:
        """Format a level."""
        return f"{shown:.3f} kg"

    def figures(self, level: float, lowest: float) -> dict[str, Any]:
        """Return the rule of holding, and the level at the end."""
        return {
            "hydrogen_hold": self.hold.value,
            "hydrogen_final_kg": level,
            "hydrogen_distance_kg": level - self.level_target_kg,
        }

    @classmethod
    def summary_rows(cls, figures: Mapping[str, Any]) -> Iterator[Labelled]:
        """Yield the level at the end, and its distance from the target."""
        final_kg, apart_kg = figures["hydrogen_final_kg"], figures["hydrogen_distance_kg"]
        text = f"{final_kg:.3f} kg ({round(apart_kg, 3) + 0.0:+.3f})"
        yield f"{cls.title}, final (off target)", text

    @classmethod
    def size_words(cls, figures: Mapping[str, Any]) -> str:
        """Name it: the summary does not have the size of the tank."""
        return cls.title

    @classmethod
    def step_words(cls, row: Row, before: Row | None) -> str:
        """Describe electrolyzer and fuel cell if one runs, or should; empty otherwise."""
        names = {cls.columns.into: "electrolyzer", cls.columns.out: "fuel cell"}
        parts = [
            f"{what} {power_text(row[name])}, {power_text(row.get(f'planned_{name}', 0.0))} planned"
            for name, what in names.items()
            if row.get(name) or row.get(f"planned_{name}")
        ]
        if not parts:
            return ""
        return f"Hydrogen: {'; '.join(parts)}; {row[cls.columns.level]:.3g} kg in the tank at the end"


_LARGEST_TANK_KG: Final = 1e6
_LARGEST_KW: Final = 1e6


class HydrogenSection(DeviceSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Section ``[hydrogen]`` of a site file."""

    conversions: ClassVar[Mapping[str, tuple[str, Callable[[float], float]]]] = {
        "electrolyzer_max_kw": ("electrolyzer_max_w", kw_to_w),
        "electrolyzer_min_kw": ("electrolyzer_min_w", kw_to_w),
        "fuel_cell_max_kw": ("fuel_cell_max_w", kw_to_w),
    }

    tank_kg: float
    """Size of the tank."""
    level_start_kg: float
    level_target_kg: float
    """Hydrogen with which a window should end."""
    electrolyzer_max_kw: float
    fuel_cell_max_kw: float
    electrolyzer_min_kw: float = 0.0
    """Least power of a running electrolyzer."""
    electrolyzer_efficiency: float = HydrogenSpec.electrolyzer_efficiency
    """Fraction of the higher heating value."""
    fuel_cell_efficiency: float = HydrogenSpec.fuel_cell_efficiency
    """Fraction of the lower heating value."""
    hold: Hold = HydrogenSpec.hold
    """Rule for reducing the planned powers."""

    def check(self) -> None:
        """Raise `FieldError` for a size or a power that suggests a wrong unit."""
        tank = self.tank_kg
        require(not tank > _LARGEST_TANK_KG, "tank_kg", tank, "at most 1e6 kg (is the value in g?)")
        for name in ("electrolyzer_max_kw", "fuel_cell_max_kw"):
            value = getattr(self, name)
            require(not value > _LARGEST_KW, name, value, "at most 1e6 kW (is the value in W?)")


HydrogenSpec.file = HydrogenSection


def level_after_step(
    hydrogen: HydrogenSpec, level_kg: float, electrolyzer_w: float, fuel_cell_w: float, dt_s: float
) -> float:
    """LoH (kg) after a step, Eq. 2.7. Limits are not applied here."""
    return level_kg + hydrogen.produced_kg(electrolyzer_w, dt_s) - hydrogen.used_kg(fuel_cell_w, dt_s)


def electrolyzer_power(hydrogen: HydrogenSpec, level_kg: float, wanted_w: float, dt_s: float) -> float:
    """Return the largest power (W) that the electrolyzer can sustain through a step, at most ``wanted_w``.

    Bounded by its maximum and by the free capacity of the tank; 0 if that is less than its minimum.
    """
    room_kg = max(0.0, hydrogen.tank_kg - level_kg)
    power_w = min(wanted_w, hydrogen.electrolyzer_max_w, room_kg / hydrogen.produced_kg(1.0, dt_s))
    return power_w if power_w > 0.0 and power_w >= hydrogen.electrolyzer_min_w else 0.0


def fuel_cell_power(hydrogen: HydrogenSpec, level_kg: float, wanted_w: float, dt_s: float) -> float:
    """Return the largest power (W) that the fuel cell can sustain through a step, at most ``wanted_w``.

    Bounded by its maximum and by the hydrogen in the tank at the start of the step.
    """
    return max(0.0, min(wanted_w, hydrogen.fuel_cell_max_w, level_kg / hydrogen.used_kg(1.0, dt_s)))


@dataclass(frozen=True)
class HydrogenPlan:
    """Hydrogen powers (W) that the offline plan sets for one step."""

    electrolyzer_w: float = 0.0
    fuel_cell_w: float = 0.0
    battery_j: float = math.inf
    """Planned battery level at the end of the step, J; infinite if there is none."""


NO_HYDROGEN = HydrogenPlan()
