"""Sizing by energy alone: production against demand, hour by hour, with greedy storage and no scheduler.

As in Carbon Explorer (Acun et al., ASPLOS 2023): a surplus goes into the battery, then into hydrogen, and the
rest is lost; a deficit is taken from the battery, then from the fuel cell, and the rest is unserved. Jobs do
not wait and are not killed, and servers are not switched. Many storages are balanced together, so that sizes
can be compared in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.storage import Storage
from beasy_sched.errors import ConfigError

_NO_TANK: Final = HydrogenSpec(1e-9, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class HourlyBalance:
    """Energy flows per storage, J, and the lowest level of the battery."""

    unserved_j: FloatArray
    curtailed_j: FloatArray
    soc_lowest_pct: FloatArray
    """Lowest state of charge at the end of an hour, %; NaN without a battery."""


def balance_hours(
    production_w: npt.ArrayLike,
    demand_w: npt.ArrayLike,
    storages: Sequence[Storage],
    *,
    step_s: float = 3600.0,
    import_limit_w: npt.ArrayLike = 0.0,
) -> HourlyBalance:
    """Balance every hour (or other step) for each of several storages.

    ``production_w`` and ``demand_w`` are mean powers, of shape (hours, 1) or (hours, storages). A
    deficit is imported up to ``import_limit_w`` (W; one value or one per storage). Losses, limits of power
    and levels are those of the devices; the battery stays between SoC_min and SoC_max. Raises
    ValueError for shapes that do not match, and ConfigError for storages with devices other than these two.
    """
    for device in (device for storage in storages for device in storage.other_devices):
        raise ConfigError(
            f"sizing by energy alone does not model the device {device.section!r}: remove its section from"
            " the site, or compare sizes by runs"
        )
    shape = len(np.asarray(production_w)), len(storages)
    production, demand = (np.broadcast_to(powers, shape) for powers in (production_w, demand_w))
    battery, tank = _Batteries.of(storages, step_s), _Tanks.of(storages, step_s)
    level_j, level_kg = battery.start_j.copy(), tank.start_kg.copy()
    unserved_j, curtailed_j = np.zeros(len(storages)), np.zeros(len(storages))
    lowest_j = level_j.copy()
    for renew_w, need_w in zip(production, demand, strict=True):
        surplus_w, deficit_w = np.maximum(renew_w - need_w, 0.0), np.maximum(need_w - renew_w, 0.0)
        kept_j = level_j * battery.kept
        charge_w = np.minimum(surplus_w, battery.may_take_w(kept_j))
        discharge_w = np.minimum(deficit_w, battery.may_give_w(kept_j))
        level_j = kept_j + step_s * (battery.stored * charge_w - battery.drawn * discharge_w)
        into_w = tank.may_take_w(level_kg, surplus_w - charge_w)
        out_w = np.minimum(deficit_w - discharge_w, tank.may_give_w(level_kg))
        level_kg = np.clip(level_kg + tank.made_kg * into_w - tank.used_kg * out_w, 0.0, tank.most_kg)
        missing_w = np.maximum(deficit_w - discharge_w - out_w - import_limit_w, 0.0)
        unserved_j += step_s * missing_w
        curtailed_j += step_s * (surplus_w - charge_w - into_w)
        lowest_j = np.minimum(lowest_j, level_j)
    capacity_j = np.where(battery.capacity_j > 0, battery.capacity_j, np.nan)
    return HourlyBalance(unserved_j, curtailed_j, 100.0 * lowest_j / capacity_j)


@dataclass(frozen=True)
class _Batteries:
    """Arrays of batteries; see `BatterySpec`."""

    step_s: float
    capacity_j: FloatArray
    start_j: FloatArray
    min_j: FloatArray
    max_j: FloatArray
    charge_limit_w: FloatArray
    discharge_limit_w: FloatArray
    kept: FloatArray
    stored: FloatArray
    drawn: FloatArray

    @classmethod
    def of(cls, storages: Sequence[Storage], step_s: float) -> _Batteries:
        rows = [
            (b.capacity_j, b.start_j, b.min_j, b.max_j, b.charge_limit_w, b.discharge_limit_w,
             b.kept_fraction(step_s), b.charge_efficiency, b.drawn_per_delivered())
            for b in (storage.battery for storage in storages)
        ]  # fmt: skip
        return cls(step_s, *np.array(rows, dtype=np.float64).T)

    def may_take_w(self, kept_j: FloatArray) -> FloatArray:
        room_w = np.maximum(self.max_j - kept_j, 0.0) / (self.stored * self.step_s)
        return np.minimum(self.charge_limit_w, room_w)

    def may_give_w(self, kept_j: FloatArray) -> FloatArray:
        above_w = np.maximum(kept_j - self.min_j, 0.0) / (self.drawn * self.step_s)
        return np.minimum(self.discharge_limit_w, above_w)


@dataclass(frozen=True)
class _Tanks:
    """Arrays of hydrogen chains; see `HydrogenSpec`."""

    start_kg: FloatArray
    most_kg: FloatArray
    electrolyzer_min_w: FloatArray
    electrolyzer_max_w: FloatArray
    fuel_cell_max_w: FloatArray
    made_kg: FloatArray
    """Hydrogen that a watt of the electrolyzer makes in a step, kg."""
    used_kg: FloatArray

    @classmethod
    def of(cls, storages: Sequence[Storage], step_s: float) -> _Tanks:
        rows = [
            (h.level_start_kg, h.tank_kg, h.electrolyzer_min_w, h.electrolyzer_max_w, h.fuel_cell_max_w,
             h.produced_kg(1.0, step_s), h.used_kg(1.0, step_s))
            for h in (storage.hydrogen or _NO_TANK for storage in storages)
        ]  # fmt: skip
        return cls(*np.array(rows, dtype=np.float64).T)

    def may_take_w(self, level_kg: FloatArray, left_w: FloatArray) -> FloatArray:
        room_w = np.maximum(self.most_kg - level_kg, 0.0) / self.made_kg
        power_w = np.minimum(np.minimum(left_w, self.electrolyzer_max_w), room_w)
        return np.where(power_w >= self.electrolyzer_min_w, power_w, 0.0)

    def may_give_w(self, level_kg: FloatArray) -> FloatArray:
        return np.minimum(self.fuel_cell_max_w, level_kg / self.used_kg)
