"""Price of the highest import in GreenSlot's slots: what each start of a job adds to it.

The import of a slot is its brown energy, times the PUE, and the charge that the grid is expected to give the
battery, up to the limit of its rule.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.energy.devices.battery import (
    charge_power_limit,
    charge_power_wanted,
    discharge_power_limit,
    energy_after_step,
)
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.grid_charging import uses_ahead
from beasy_sched.energy.storage import Storage, StorageState

ROUNDING: Final = 1e-9
"""Share of an energy that counts as zero."""


_FEW: Final = 12
"""Number of slots up to which a loop is faster than arrays."""

_ROWS: Final = 48
"""Number of values whose maximum one call finds faster than calls for each doubling."""


class GridCharges(Struct, frozen=True, eq=False):
    """Charge of the battery from the grid that is expected in each slot, W: [H]."""

    charge_w: FloatArray
    limit_w: FloatArray
    """Import up to which the grid charges the battery."""


def charges_ahead(
    grid: Grid, storage: Storage, state: StorageState, net_w: FloatArray, now_s: float, edges_s: FloatArray
) -> GridCharges | None:
    """Return the expected charges if the site has the net power ``net_w`` (W: [H]); None if there are none.

    They follow the site's rules and balance, slot by slot.
    """
    uses = uses_ahead(grid, now_s, edges_s) if grid.charges_battery else None
    if uses is None or not any(use.charge_w for use in uses):
        return None
    battery, level_j = storage.battery, state.battery_j
    slot_s, charges = float(edges_s[1] - edges_s[0]), np.zeros(len(net_w))
    last = max(number for number, use in enumerate(uses) if use.charge_w)
    most_j = battery.energy_j(max(use.charge_soc_pct for use in uses))
    for number, (power_w, use) in enumerate(zip(net_w.tolist()[: last + 1], uses, strict=False)):
        charge_w, discharge_w, import_w = 0.0, 0.0, 0.0
        if power_w >= 0.0:
            charge_w = min(power_w, charge_power_limit(battery, level_j, slot_s))
        else:
            import_w = min(use.first_w, -power_w)
            if import_w < -power_w:
                most_w = discharge_power_limit(battery, level_j, slot_s, battery.min_j)
                discharge_w = min(-power_w - import_w, most_w)
                import_w = min(-power_w - discharge_w, grid.import_limit_w)
        if use.charge_w > import_w and discharge_w <= 0.0:
            wanted_w = charge_power_wanted(battery, level_j, slot_s, most_j)
            more_w = min(use.charge_w - import_w, min(battery.charge_limit_w, wanted_w) - charge_w)
            if more_w > 0.0:
                charges[number] = more_w
                charge_w += more_w
        level_j = energy_after_step(battery, level_j, charge_w, discharge_w, slot_s)
    if not charges.any():
        return None
    return GridCharges(charges, np.array([use.charge_w for use in uses]))


class SlotPeaks(Struct, frozen=True, eq=False):
    """Price of the highest import, and the highest so far."""

    per_kw: float
    """Price of a kW of the highest mean import in a period."""
    so_far_w: FloatArray
    """Highest mean import so far in the period of each slot, W: [H]."""
    period: IntArray
    """Period of each slot: [H]."""
    pue: FloatArray | None = None
    """Power of servers and cooling, in units of the servers': [H]; None without cooling."""
    charges: GridCharges | None = None
    """Expected charges of the battery from the grid; None without any."""

    def import_w(self, brown_w: FloatArray) -> FloatArray:
        """Return the import of the site, W: [H], while servers and base load lack ``brown_w`` (W)."""
        load_w = brown_w if self.pue is None else brown_w * self.pue
        if self.charges is None:
            return load_w
        charged_w = np.maximum(load_w, self.charges.limit_w)
        return np.asarray(np.minimum(load_w + self.charges.charge_w, charged_w))

    def highest_w(self, import_w: FloatArray) -> FloatArray:
        """Return the highest import of each slot's period, so far or planned as ``import_w``, W: [H]."""
        if self.period[0] == self.period[-1]:
            return np.maximum(self.so_far_w, float(import_w.max()))
        highest_w = self.so_far_w.copy()
        for period in np.unique(self.period):
            own = self.period == period
            highest_w[own] = np.maximum(highest_w[own], import_w[own].max())
        return highest_w


class PeakCosts:
    """Costs of a higher peak, while jobs take energy from the slots."""

    def __init__(self, peaks: SlotPeaks, net_j: FloatArray, slot_s: float) -> None:
        """``net_j`` is that of `Reservations`, which changes it."""
        self._peaks, self._net_j, self._slot_s = peaks, net_j, slot_s
        per_j = peaks.per_kw / 1e3 / slot_s
        self._per_j = per_j
        self._per_server_j: float | FloatArray = per_j if peaks.pue is None else per_j * peaks.pue
        self._yielding: list[tuple[int, float, float]] = []
        """Slots whose charge is below the limit of the rule, the cost of a peak as high as the charge, and
        the cost of one as high as the limit."""
        self._left_j: FloatArray | None = None
        """Energy that servers may add in each slot before the peak rises, J; None: not known."""

    def reserved(self, span: slice, energy_j: float, *, may_raise: bool) -> None:
        """Note that a job took ``energy_j`` in each slot of ``span``, and whether this may raise the peak."""
        if may_raise:
            self._left_j = None
        elif self._left_j is not None:
            self._left_j[span] -= energy_j

    def of_starts(self, energy_j: float, length: int) -> FloatArray:
        """Return what each start of a job adds to the cost of the peak.

        It is the largest rise of all slots of a start, also if they belong to two periods.
        """
        if self._left_j is None:
            self._left_j = self._find_left()
        cost = energy_j * (1.0 - ROUNDING) - self._left_j
        np.maximum(cost, 0.0, out=cost)
        cost *= self._per_server_j
        # A battery that is charged up to the limit gives way to jobs.
        if len(self._yielding) > _FEW:
            without = cost - self._charge_cost
            np.maximum(without, self._limit_cost, out=without)
            np.minimum(cost, without, out=cost)
        else:
            for slot, charge_cost, limit_cost in self._yielding:
                if (found := cost.item(slot)) > limit_cost:
                    cost[slot] = max(found - charge_cost, limit_cost)
        return _window_maxima(cost, length)

    def _find_left(self) -> FloatArray:
        peaks, slot_s = self._peaks, self._slot_s
        import_w = peaks.import_w(np.maximum(-self._net_j, 0.0) / slot_s)
        highest_w = peaks.highest_w(import_w)
        over_w, self._yielding = highest_w, []
        if peaks.charges is not None:
            charges = peaks.charges
            charge_w = np.where(import_w < charges.limit_w * (1.0 - ROUNDING), charges.charge_w, 0.0)
            if charge_w.any():
                over_w = highest_w - charge_w
                per_w = slot_s * self._per_j
                self._charge_cost: FloatArray = charge_w * per_w
                self._limit_cost: FloatArray = np.maximum(charges.limit_w - highest_w, 0.0) * per_w
                slots = np.flatnonzero(charge_w)
                costs = self._charge_cost[slots].tolist(), self._limit_cost[slots].tolist()
                self._yielding = list(zip(slots.tolist(), *costs, strict=True))
        slack_j = ROUNDING * float(highest_w.max()) * slot_s
        return (over_w if peaks.pue is None else over_w / peaks.pue) * slot_s + self._net_j + slack_j


def _window_maxima(values: FloatArray, length: int) -> FloatArray:
    """Return the maxima of ``length`` values from each index on: [H - length + 1].

    ``values`` is contiguous.
    """
    if length == 1:
        return values
    covered = min(length, _ROWS)
    shape = covered, len(values) - covered + 1
    shifted: FloatArray = np.ndarray(shape, np.float64, values, 0, 2 * values.strides)
    values = np.maximum.reduce(shifted, axis=0)
    while covered < length:
        step = min(covered, length - covered)
        values = np.maximum(values[: len(values) - step], values[step:])
        covered += step
    return values
