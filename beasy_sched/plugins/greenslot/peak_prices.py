"""Price of the highest import in GreenSlot's slots: what each start of a job adds to it.

The import of a slot is its brown energy, times the PUE, and the charge that the grid is expected to give the
battery, up to the limit of its rule.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.energy.balance import settle_step
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.grid_charging import uses_ahead
from beasy_sched.energy.storage import Storage, StorageState

ROUNDING: Final = 1e-9
"""Share of an energy that counts as zero."""


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
    battery, level = Storage(storage.battery), StorageState(state.battery_j)
    slot_s, charges = float(edges_s[1] - edges_s[0]), np.zeros(len(net_w))
    last = max(number for number, use in enumerate(uses) if use.charge_w)
    for number, (power_w, use) in enumerate(zip(net_w.tolist()[: last + 1], uses, strict=False)):
        record, level = settle_step(
            battery,
            level,
            dt_s=slot_s,
            consumed_j=max(-power_w, 0.0) * slot_s,
            renew_w=max(power_w, 0.0),
            grid=grid,
            use=use,
        )
        charges[number] = record.grid_charge_w
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
    """Costs of a higher peak, while jobs take energy from the slots.

    ``_room_j`` is the energy that the servers may take in each slot before the peak rises.
    """

    def __init__(self, peaks: SlotPeaks, net_j: FloatArray, slot_s: float) -> None:
        """``net_j`` is that of `Reservations`, which changes it."""
        self._peaks, self._net_j, self._slot_s = peaks, net_j, slot_s
        self._per_j = peaks.per_kw / 1e3 / slot_s
        self._stale = True

    def taken(self, span: slice, energy_j: float) -> None:
        """Note that jobs have taken ``energy_j`` in each slot of ``span``; negative: they have given it."""
        if self._stale:
            return
        if energy_j < 0.0:
            self._stale = True
            return
        room_j = self._room_j[span] = self._net_j[span] + self._over_j[span]
        if room_j.size:
            least_j = float(room_j.min())
            if least_j < -self._slack_j:
                self._stale = True
            elif least_j < self._least_j:
                self._least_j = least_j

    def of_starts(self, energy_j: float, length: int) -> FloatArray | None:
        """Return what each start of a job adds to the cost of the peak; None: no start raises it.

        It is the largest rise of all slots of a start, also if they belong to two periods.
        """
        if self._stale:
            self._find_room()
        slack_j = self._slack_j + ROUNDING * energy_j
        if energy_j - self._least_j <= slack_j:
            return None
        raised_j = energy_j - self._room_j
        raised_j[raised_j <= slack_j] = 0.0
        peaks = self._peaks
        if peaks.pue is not None:
            raised_j *= peaks.pue
        if self._limit_j is not None:  # a battery that is charged up to the limit gives way to jobs
            raised_j = np.minimum(raised_j, np.maximum(raised_j - self._charge_j, self._limit_j))
        return _window_maxima(raised_j, length) * self._per_j

    def _find_room(self) -> None:
        peaks, slot_s = self._peaks, self._slot_s
        import_w = peaks.import_w(np.maximum(-self._net_j, 0.0) / slot_s)
        highest_w = peaks.highest_w(import_w)
        over_w, self._limit_j = highest_w, None
        if peaks.charges is not None:
            charges = peaks.charges
            charge_w = np.where(import_w < charges.limit_w * (1.0 - ROUNDING), charges.charge_w, 0.0)
            if charge_w.any():
                over_w = highest_w - charge_w
                self._charge_j: FloatArray = charge_w * slot_s
                self._limit_j = np.maximum(charges.limit_w - highest_w, 0.0) * slot_s
        self._over_j: FloatArray = (over_w if peaks.pue is None else over_w / peaks.pue) * slot_s
        self._room_j: FloatArray = self._net_j + self._over_j
        self._least_j = float(self._room_j.min())
        self._slack_j = ROUNDING * float(highest_w.max()) * slot_s
        self._stale = False


def _window_maxima(values: FloatArray, length: int) -> FloatArray:
    """Return the maxima of ``length`` values from each index on: [H - length + 1]."""
    covered = 1
    while covered < length:
        step = min(covered, length - covered)
        values = np.maximum(values[: len(values) - step], values[step:])
        covered += step
    return values
