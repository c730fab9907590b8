"""The battery: Eq. 2.3 and 2.4 of the thesis, and its limits.

Each limit is one function. `beasy_sched.energy.balance` takes its powers from these functions, and
whoever predicts or checks a step calls the same ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from beasy_sched.energy.checks import require, require_fraction, require_positive
from beasy_sched.units import SECONDS_PER_DAY


class LossConvention(str, Enum):
    """What delivering a discharge power P takes out of the cells."""

    PHYSICAL = "physical"
    """P / discharge_efficiency: no sequence of actions creates energy."""
    PRINTED = "printed"
    """P * discharge_efficiency, as Eq. 2.3 is printed. Creates energy below 1: for reproduction only."""


@dataclass(frozen=True)
class BatterySpec:
    """A battery's size, limits and losses. Raises `FieldError` (a ConfigError) when out of range.

    Powers are at the terminals: ``charge_limit_w`` is what the battery may take from the site, and
    ``discharge_limit_w`` what it may give to it. ``math.inf`` means no limit.
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
        require_positive("capacity_j", self.capacity_j)
        require(0 <= low < 100, "soc_min_pct", low, "at least 0 and below 100")
        require(low < high <= 100, "soc_max_pct", high, f"above soc_min_pct ({low:g}) and at most 100")
        for field in ("soc_start_pct", "soc_target_pct"):
            value = getattr(self, field)
            require(
                low <= value <= high,
                field,
                value,
                f"between soc_min_pct ({low:g}) and soc_max_pct ({high:g})",
            )
        for field in ("charge_limit_w", "discharge_limit_w"):
            require(getattr(self, field) > 0, field, getattr(self, field), "> 0")
        require_fraction("charge_efficiency", self.charge_efficiency)
        require_fraction("discharge_efficiency", self.discharge_efficiency)
        rate = self.self_discharge_per_day
        require(0 <= rate < 1, "self_discharge_per_day", rate, "a fraction of at least 0 and below 1")

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
        """Energy wished for at the end of a window, J."""
        return self.energy_j(self.soc_target_pct)

    def energy_j(self, soc_pct: float) -> float:
        """Energy (J) at a state of charge (%)."""
        return self.capacity_j * soc_pct / 100.0

    def soc_pct(self, energy_j: float) -> float:
        """State of charge (%) at an energy (J), Eq. 2.4."""
        return 100.0 * energy_j / self.capacity_j

    def kept_fraction(self, dt_s: float) -> float:
        """1 - sigma: what self-discharge leaves of the stored energy after ``dt_s`` seconds.

        sigma per step follows from the rate per day so that a day of steps of any length loses the same.
        """
        if self.self_discharge_per_day == 0.0:
            return 1.0
        return float((1.0 - self.self_discharge_per_day) ** (dt_s / SECONDS_PER_DAY))

    def drawn_per_delivered(self) -> float:
        """Joules that leave the cells for each joule delivered, by the loss convention."""
        if self.loss is LossConvention.PRINTED:
            return self.discharge_efficiency
        return 1.0 / self.discharge_efficiency


def energy_after_step(
    battery: BatterySpec, energy_j: float, charge_w: float, discharge_w: float, dt_s: float
) -> float:
    """Energy (J) after a step of ``dt_s`` seconds at constant powers (W), Eq. 2.3.

    Plain arithmetic: numpy arrays work in place of the energies and powers. Limits are not applied
    here; take the powers from `charge_power_limit` and `discharge_power_limit`.
    """
    kept_j = energy_j * battery.kept_fraction(dt_s)
    stored_j = battery.charge_efficiency * charge_w * dt_s
    return kept_j + stored_j - battery.drawn_per_delivered() * discharge_w * dt_s


def charge_power_limit(battery: BatterySpec, energy_j: float, dt_s: float) -> float:
    """Most power (W) that the battery can take through a whole step: its limit, or SoC_max at the end."""
    room_j = battery.max_j - energy_j * battery.kept_fraction(dt_s)
    return min(battery.charge_limit_w, max(0.0, room_j) / (battery.charge_efficiency * dt_s))


def charge_power_wanted(battery: BatterySpec, energy_j: float, dt_s: float, level_j: float) -> float:
    """Power (W) that brings the battery to ``level_j`` in a step; below 0 where it ends above it anyway."""
    return (level_j - energy_j * battery.kept_fraction(dt_s)) / (battery.charge_efficiency * dt_s)


def discharge_power_limit(battery: BatterySpec, energy_j: float, dt_s: float, floor_j: float) -> float:
    """Most power (W) that the battery can give through a whole step: its limit, or ``floor_j`` at the end.

    ``floor_j`` is ``battery.min_j`` for most uses, and 0 for what may draw below SoC_min.
    """
    above_j = energy_j * battery.kept_fraction(dt_s) - floor_j
    return min(battery.discharge_limit_w, max(0.0, above_j) / (battery.drawn_per_delivered() * dt_s))
