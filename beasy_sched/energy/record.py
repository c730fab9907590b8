"""What one step of the storage came to: the record that results and logs are made of."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from beasy_sched.energy.storage import HydrogenPlan, Storage


class Deviation(str, Enum):
    """How the hydrogen of a step differed from the plan, in words for logs."""

    TANK_EMPTY = "the tank is too empty for the planned fuel cell power"
    TANK_FULL = "the tank is too full for the planned electrolyzer power"
    OUT_OF_LIMITS = "the planned hydrogen power is outside the limits of the site"
    NO_POWER = "the electrolyzer was held below its plan, to serve the servers first"
    HELD = "the fuel cell was held below its plan, since there was enough without it"
    SURPLUS = "the electrolyzer took surplus production above its plan"


class StepRecord(Struct, frozen=True, gc=False):
    """The balance of one step. Powers are means over the step, W; the levels are at its two ends."""

    dt_s: float
    consumed_j: float
    """E_tot: what the servers used."""
    renew_w: float
    demand_w: float
    """``consumed_j / dt_s``."""
    charge_w: float
    discharge_w: float
    electrolyzer_w: float
    fuel_cell_w: float
    curtailed_w: float
    unserved_w: float
    planned_electrolyzer_w: float
    planned_fuel_cell_w: float
    battery_before_j: float
    battery_after_j: float
    self_discharge_j: float
    """Lost inside the battery in the step: a change of its level, not a power of the balance."""
    soc_before_pct: float
    soc_after_pct: float
    hydrogen_before_kg: float
    hydrogen_after_kg: float
    deviations: tuple[Deviation, ...] = ()
    """Empty where the hydrogen followed the plan."""

    @property
    def residual_j(self) -> float:
        """Left side of Eq. 3.32, J: zero but for rounding."""
        supply_w = self.renew_w + self.discharge_w + self.fuel_cell_w + self.unserved_w
        use_w = self.electrolyzer_w + self.charge_w + self.curtailed_w
        return (supply_w - use_w) * self.dt_s - self.consumed_j

    @property
    def relative_residual(self) -> float:
        """|residual| relative to all the energy that was supplied in the step; 0 where none was."""
        supply_w = self.renew_w + self.discharge_w + self.fuel_cell_w + self.unserved_w
        scale_j = max(supply_w * self.dt_s, self.consumed_j)
        return abs(self.residual_j) / scale_j if scale_j > 0.0 else 0.0


_TOLERANCE = 1e-9
"""Powers that differ relatively by less than this are the same: rounding at a full or empty tank."""


def deviations(
    storage: Storage,
    planned: HydrogenPlan,
    allowed: HydrogenPlan,
    electrolyzer_w: float,
    fuel_cell_w: float,
) -> tuple[Deviation, ...]:
    """Name each way in which the hydrogen left the plan.

    ``allowed`` is what tank and limits let the plan have; ``electrolyzer_w`` and ``fuel_cell_w`` (W)
    are what ran.
    """
    spec = storage.hydrogen
    if spec is None:
        return ()
    found = []
    wanted_w = min(planned.electrolyzer_w, spec.electrolyzer_max_w)
    too_low = 0.0 < wanted_w < spec.electrolyzer_min_w
    if too_low or wanted_w < planned.electrolyzer_w or planned.fuel_cell_w > spec.fuel_cell_max_w:
        found.append(Deviation.OUT_OF_LIMITS)
    if _less(allowed.fuel_cell_w, min(planned.fuel_cell_w, spec.fuel_cell_max_w)):
        found.append(Deviation.TANK_EMPTY)
    if not too_low and _less(allowed.electrolyzer_w, wanted_w):
        found.append(Deviation.TANK_FULL)
    if _less(electrolyzer_w, allowed.electrolyzer_w):
        found.append(Deviation.NO_POWER)
    if _less(fuel_cell_w, allowed.fuel_cell_w):
        found.append(Deviation.HELD)
    if _less(allowed.electrolyzer_w, electrolyzer_w):
        found.append(Deviation.SURPLUS)
    return tuple(found)


def _less(low: float, high: float) -> bool:
    return low < high * (1.0 - _TOLERANCE)
