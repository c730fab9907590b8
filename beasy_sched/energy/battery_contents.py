"""The contents of a battery that a grid charges: the share from the grid, its price and its carbon.

The contents are one mixture: each joule that leaves the battery has its mean price, carbon and share of grid
energy. Production is stored at no price and no carbon. Losses of charging and self-discharge raise the price
and the carbon of what is left, so that everything paid leaves with the energy discharged, or is still stored.
"""

from __future__ import annotations

from typing import NamedTuple

from beasy_sched.energy.balance import StepRecord
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.grid import Metered
from beasy_sched.units import JOULES_PER_KWH


class Released(NamedTuple):
    """Part of a step's discharge that came from the grid."""

    grid_w: float
    """Its power, W."""
    cost: float
    """Its price when it was charged, in the site's currency."""
    carbon_g: float | None
    """Its carbon when it was charged; None if unknown."""


class BatteryContents:
    """Follows the grid's energy in a battery from step to step."""

    def __init__(self, battery: BatterySpec) -> None:
        """Begin with contents that the grid has not charged."""
        self._battery = battery
        self.grid_j = 0.0
        """Energy from the grid in the battery, J."""
        self.cost = 0.0
        """Price paid for the contents."""
        self.carbon_g: float | None = 0.0
        """Carbon of the contents; None if the intensity is unknown."""

    def settle(self, record: StepRecord, metered: Metered) -> Released:
        """Count a completed step; return what it discharged of the grid's energy."""
        battery, dt_s = self._battery, record.dt_s
        self._charge(record, metered)
        if record.discharge_w <= 0.0:
            return Released(0.0, 0.0, None if self.carbon_g is None else 0.0)
        kept_j = record.battery_before_j * battery.kept_fraction(dt_s)
        held_j = kept_j + battery.charge_efficiency * record.charge_w * dt_s
        drawn_j = battery.drawn_per_delivered() * record.discharge_w * dt_s
        share = min(drawn_j / held_j, 1.0) if held_j > 0.0 else 1.0
        of_grid = min(self.grid_j / held_j, 1.0) if held_j > 0.0 else 0.0
        carbon_g = None if self.carbon_g is None else self.carbon_g * share
        released = Released(record.discharge_w * of_grid, self.cost * share, carbon_g)
        self.grid_j *= 1.0 - share
        self.cost *= 1.0 - share
        if self.carbon_g is not None:
            self.carbon_g *= 1.0 - share
        return released

    def _charge(self, record: StepRecord, metered: Metered) -> None:
        """Lose what self-discharge takes, and add what the grid has charged."""
        battery, charge_w = self._battery, record.grid_charge_w
        self.grid_j *= battery.kept_fraction(record.dt_s)
        if charge_w <= 0.0:
            return
        self.grid_j += battery.charge_efficiency * charge_w * record.dt_s
        self.cost += charge_w * record.dt_s / JOULES_PER_KWH * metered.price_per_kwh
        if metered.carbon_g is None or self.carbon_g is None:
            self.carbon_g = None
        else:
            self.carbon_g += metered.carbon_g * charge_w / record.import_w
