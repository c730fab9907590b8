"""Storage of a site: a battery (Eq. 2.3, 2.4) and, optionally, a hydrogen chain (Eq. 2.5 to 2.7).

Each limit is one function. `beasy_sched.energy.balance` takes its powers from these functions; predictions
and checks of a step use the same ones.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_DAY


class FieldError(ConfigError):
    """A number out of range, with its field, so that file readers can name it in their terms."""

    def __init__(self, field: str, found: object, expected: str) -> None:
        """``expected`` completes "expected ...", for example ``"> 0"``."""
        self.field = field
        self.found = found
        self.expected = expected
        super().__init__(f"{field}: found {found!r}, expected {expected}")


def require(ok: bool, field: str, found: object, expected: str) -> None:
    """Raise `FieldError` unless ``ok``; write ``ok`` so that a NaN makes it false."""
    if not ok:
        raise FieldError(field, found, expected)


def require_positive(field: str, value: float) -> None:
    """``value`` must be a finite number above zero."""
    require(0 < value < math.inf, field, value, "a finite number > 0")


def require_not_negative(field: str, value: float) -> None:
    """``value`` must be a finite number of zero or more."""
    require(0 <= value < math.inf, field, value, "a finite number >= 0")


def require_fraction(field: str, value: float) -> None:
    """``value`` must be an efficiency: above 0, at most 1."""
    require(0 < value <= 1, field, value, "a fraction above 0 and at most 1 (95 % is 0.95)")


class LossConvention(str, Enum):
    """Power taken from the cells for a discharge power P."""

    PHYSICAL = "physical"
    """P / discharge_efficiency: no sequence of actions creates energy."""
    PRINTED = "printed"
    """P * discharge_efficiency, as Eq. 2.3 is printed. Creates energy below 1: for reproduction only."""


@dataclass(frozen=True)
class BatterySpec:
    """Size, limits and losses of a battery. Raises `FieldError` (a ConfigError) for values out of range.

    Powers are at the terminals: ``charge_limit_w`` limits the power taken from the site, and
    ``discharge_limit_w`` the power delivered to it. ``math.inf`` means no limit.
    """

    capacity_j: float
    soc_min_pct: float = 20.0
    soc_max_pct: float = 90.0
    soc_start_pct: float = 50.0
    soc_target_pct: float = 50.0
    charge_limit_w: float = math.inf
    discharge_limit_w: float = math.inf
    charge_efficiency: float = 0.95
    discharge_efficiency: float = 0.95
    self_discharge_per_day: float = 0.0
    """Fraction of the stored energy lost in a day without charge or discharge (0.2 % is 0.002)."""
    loss: LossConvention = LossConvention.PHYSICAL

    def __post_init__(self) -> None:
        low, high = self.soc_min_pct, self.soc_max_pct
        require_not_negative("capacity_j", self.capacity_j)
        require(0 <= low < 100, "soc_min_pct", low, "at least 0 and below 100")
        require(low < high <= 100, "soc_max_pct", high, f"above soc_min_pct ({low:g}) and at most 100")
        between = f"between soc_min_pct ({low:g}) and soc_max_pct ({high:g})"
        for field in ("soc_start_pct", "soc_target_pct"):
            value = getattr(self, field)
            require(low <= value <= high, field, value, between)
        for field in ("charge_limit_w", "discharge_limit_w"):
            require(getattr(self, field) > 0, field, getattr(self, field), "> 0")
        require_fraction("charge_efficiency", self.charge_efficiency)
        require_fraction("discharge_efficiency", self.discharge_efficiency)
        rate = self.self_discharge_per_day
        require(0 <= rate < 1, "self_discharge_per_day", rate, "a fraction of at least 0 and below 1")

    @property
    def exists(self) -> bool:
        """Whether there is a battery."""
        return self.capacity_j > 0.0

    @property
    def min_j(self) -> float:
        """Energy at SoC_min, J."""
        return self.energy_j(self.soc_min_pct)

    @property
    def max_j(self) -> float:
        """Energy at SoC_max, J."""
        return self.energy_j(self.soc_max_pct)

    @property
    def start_j(self) -> float:
        """Energy at the start of the first window, J."""
        return self.energy_j(self.soc_start_pct)

    @property
    def target_j(self) -> float:
        """Target energy at the end of a window, J."""
        return self.energy_j(self.soc_target_pct)

    def energy_j(self, soc_pct: float) -> float:
        """Return the energy (J) at a state of charge (%)."""
        return self.capacity_j * soc_pct / 100.0

    def soc_pct(self, energy_j: float) -> float:
        """Return the state of charge (%) at an energy (J), Eq. 2.4; NaN without a battery."""
        return 100.0 * energy_j / self.capacity_j if self.capacity_j else math.nan

    def kept_fraction(self, dt_s: float) -> float:
        """Return 1 - sigma: the share of stored energy left by self-discharge after ``dt_s`` seconds.

        sigma per step follows from the rate per day so that a day of steps of any length loses the same.
        """
        return _kept_fraction(self.self_discharge_per_day, dt_s)

    def drawn_per_delivered(self) -> float:
        """Joules taken from the cells per joule delivered, by the loss convention."""
        if self.loss is LossConvention.PRINTED:
            return self.discharge_efficiency
        return 1.0 / self.discharge_efficiency


@lru_cache(maxsize=64)
def _kept_fraction(loss_per_day: float, dt_s: float) -> float:
    """See `BatterySpec.kept_fraction`. Nearly all steps are of one length."""
    return 1.0 if loss_per_day == 0.0 else float((1.0 - loss_per_day) ** (dt_s / SECONDS_PER_DAY))


NO_BATTERY: Final = BatterySpec(0.0, soc_min_pct=0.0, soc_max_pct=100.0)
"""Battery of a site without one: neither charges nor discharges."""


def energy_after_step(
    battery: BatterySpec, energy_j: float, charge_w: float, discharge_w: float, dt_s: float
) -> float:
    """Energy (J) after a step of ``dt_s`` seconds at constant powers (W), Eq. 2.3.

    Plain arithmetic: energies and powers may be numpy arrays. Limits are not applied
    here; take the powers from `charge_power_limit` and `discharge_power_limit`.
    """
    kept_j = energy_j * battery.kept_fraction(dt_s)
    stored_j = battery.charge_efficiency * charge_w * dt_s
    return kept_j + stored_j - battery.drawn_per_delivered() * discharge_w * dt_s


def charge_power_limit(battery: BatterySpec, energy_j: float, dt_s: float) -> float:
    """Return the maximum charging power (W) over a whole step: its limit, or SoC_max at the end."""
    room_j = battery.max_j - energy_j * battery.kept_fraction(dt_s)
    return min(battery.charge_limit_w, max(0.0, room_j) / (battery.charge_efficiency * dt_s))


def charge_power_wanted(battery: BatterySpec, energy_j: float, dt_s: float, level_j: float) -> float:
    """Return the power (W) that brings the battery to ``level_j`` in a step; negative if it ends above it."""
    return (level_j - energy_j * battery.kept_fraction(dt_s)) / (battery.charge_efficiency * dt_s)


def discharge_power_limit(battery: BatterySpec, energy_j: float, dt_s: float, floor_j: float) -> float:
    """Return the maximum discharging power (W) over a whole step: its limit, or ``floor_j`` at the end.

    ``floor_j`` is ``battery.min_j`` for most uses, and 0 for demand that may draw below SoC_min.
    """
    above_j = energy_j * battery.kept_fraction(dt_s) - floor_j
    return min(battery.discharge_limit_w, max(0.0, above_j) / (battery.drawn_per_delivered() * dt_s))


def project_levels_j(battery: BatterySpec, level_j: float, net_w: FloatArray, step_s: float) -> FloatArray:
    """Return the battery energy (J) at the start and after each step with a surplus ``net_w``.

    A negative surplus is a deficit. Eq. 1 of the paper: levels are kept within [0, SoC_max] and the limits of
    charging and discharging. An initial level above SoC_max may only decrease.
    """
    return LevelProjection(battery, step_s).levels_j(0, level_j, net_w)


_ROWS_A_LOOK: Final = 96
"""Number of steps within which most batteries are at a limit again."""


class LevelProjection:
    """Repeated projection of a battery's levels, like `project_levels_j`, as time advances.

    Different initial levels lead to the same levels once the battery is full (or empty) in both. From there
    to the next step with a changed gain, they equal the previous projection.
    """

    def __init__(self, battery: BatterySpec, step_s: float) -> None:
        """Begin with steps of ``step_s`` seconds, without a projection."""
        self._battery, self._step_s = battery, step_s
        self._kept, self._most_j = battery.kept_fraction(step_s), battery.max_j
        self._first = 0
        self._gained_j = np.empty(0)
        self._levels_j = np.empty(1)

    def levels_j(self, first: int, level_j: float, net_w: FloatArray) -> FloatArray:
        """Return the energy (J) at the start of step ``first``, and after it and later steps of ``net_w``.

        Steps may be numbered in any consistent way. The array is read-only.
        """
        gained_j = self._step_s * gained_w(self._battery, net_w)
        known_j, changed = self._known(first, gained_j)
        levels_j = np.empty(len(gained_j) + 1)
        levels_j[: len(known_j)] = known_j
        row = changed[0] if len(known_j) and known_j[0] == level_j else 0
        levels_j[0] = level_j
        while row < len(gained_j):
            end = row + _ROWS_A_LOOK
            found_j, known = self._go_on(
                levels_j.item(row), gained_j[row:end].tolist(), known_j[row + 1 : end + 1]
            )
            row += len(found_j)
            levels_j[row - len(found_j) + 1 : row + 1] = found_j
            if known:
                row = changed[bisect_left(changed, row)]
        self._first, self._gained_j, self._levels_j = first, gained_j, levels_j
        return levels_j

    def _known(self, first: int, gained_j: FloatArray) -> tuple[FloatArray, list[int]]:
        """Return levels of the last projection from ``first`` on, and the rows with changed gains.

        These include the first row that was not projected, and the end.
        """
        over, count = first - self._first, len(gained_j)
        both = min(len(self._gained_j) - over, count)
        if over < 0 or both <= 0:
            return self._levels_j[:0], [0, count]
        differs = gained_j[:both] != self._gained_j[over : over + both]
        return self._levels_j[over : over + both + 1], [*differs.nonzero()[0].tolist(), both, count]

    def _go_on(self, level_j: float, gains_j: list[float], known_j: FloatArray) -> tuple[list[float], bool]:
        """Levels after each of ``gains_j``, and whether they end at one that is ``known_j``: at a limit."""
        kept, most_j, last = self._kept, self._most_j, len(known_j)
        levels_j: list[float] = []
        add = levels_j.append
        for row, gain_j in enumerate(gains_j):
            kept_j = level_j * kept
            level_j = kept_j + gain_j
            if 0.0 <= level_j <= most_j:
                add(level_j)
                continue
            if level_j < 0.0:
                level_j = 0.0
            elif gain_j > 0.0:
                level_j = max(kept_j, most_j)
            add(level_j)
            if row < last and known_j[row] == level_j:
                return levels_j, True
        return levels_j, False


def project_need_j(
    battery: BatterySpec, level_j: float, net_w: FloatArray, step_s: FloatArray, left: FloatArray
) -> FloatArray:
    """Like `project_levels_j`, but negative for missing energy, and for steps of different lengths.

    ``left``: share of energy stored at the start of the first step that self-discharge leaves at the end of
    each step: the product of the steps' `BatterySpec.kept_fraction`. In units of such energy a step only adds
    its gain, so that sums and running minima replace a loop. An initial level above SoC_max may stay there.
    """
    most_j = max(battery.max_j, level_j)
    gained_j = np.cumsum(step_s * gained_w(battery, net_w) / left)
    room_j = np.minimum.accumulate(most_j / left - gained_j)
    levels_j = left * (gained_j + np.minimum(room_j, level_j))
    return np.concatenate(([level_j], levels_j))


def gained_w(battery: BatterySpec, net_w: FloatArray) -> FloatArray:
    """Return the power (W) gained by the cells (negative: lost) with a surplus ``net_w``, within limits."""
    within_w = np.minimum(np.maximum(net_w, -battery.discharge_limit_w), battery.charge_limit_w)
    drawn_j = battery.drawn_per_delivered()
    return np.asarray(within_w * np.where(within_w > 0.0, battery.charge_efficiency, drawn_j))


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
class HydrogenSpec:
    """Sizes, limits and efficiencies. Raises `FieldError` (a ConfigError) for values out of range."""

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


@dataclass(frozen=True)
class StorageState:
    """Storage levels between two steps."""

    battery_j: float
    hydrogen_kg: float = 0.0


@dataclass(frozen=True)
class Storage:
    """A battery (`NO_BATTERY` where the site has none) and, where the site has one, a hydrogen chain."""

    battery: BatterySpec
    hydrogen: HydrogenSpec | None = None

    @property
    def tank_kg(self) -> float:
        """Size of the tank, kg; 0 without hydrogen."""
        return self.hydrogen.tank_kg if self.hydrogen else 0.0

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
