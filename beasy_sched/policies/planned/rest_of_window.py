"""Rest of a window, on which compensation works, and the energy to compensate (Section IV-C)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from beasy_sched.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    StateArray,
)
from beasy_sched.energy.devices.battery import BatterySpec, LevelProjection
from beasy_sched.engine.guard import energy_tolerance_j


def compensation_j(battery: BatterySpec, diff_j: float) -> float:
    """Return E_comp of E_diff (both J): Eq. 3.31.

    A shortage counts by the loss convention: the thesis divides it by the discharge efficiency, the
    energy that saving a joule of demand keeps in the cells if losses are counted as printed.
    """
    if diff_j > 0.0:
        return diff_j / battery.charge_efficiency
    return diff_j / battery.drawn_per_delivered()


@dataclass
class RestOfWindow:
    """Rest of a window: rows from the current step to its last one, N servers."""

    states: StateArray
    """Planned P-states, [L, N]: the plan's own array until `put` changes them."""
    now_asleep: BoolArray
    """Whether each server was asleep in the previous step, [N]."""
    reserved_until: IndexArray
    """Row up to which each server is taken by running jobs, [N]."""
    dt_s: FloatArray
    """Length of each row, [L]."""
    supply_j: FloatArray
    """Production and hydrogen of each row, [L]."""
    demand_j: FloatArray
    """Planned energy of the servers and their cooling in each row, [L]: the plan's own array until states are
    changed, then an updated copy."""
    battery: BatterySpec
    start_j: float
    """Actual battery level now."""
    changed: bool = False
    """Whether compensation has changed states."""
    first_step: int = 0
    """Number of the current step: row 0."""
    projection: LevelProjection | None = None
    """Projection with the levels of previous steps; None if there is none."""
    weights: FloatArray | None = None
    """Energy of servers and their cooling per energy of servers in each row, [L]; None without cooling."""

    @cached_property
    def tolerance_j(self) -> float:
        """Difference up to which levels derived from measured ones count as equal, J."""
        return energy_tolerance_j(self.battery.capacity_j)

    def put(self, places: Any, states: StateArray) -> None:
        """Plan ``states`` at these indices of `states`, which becomes a copy, like `demand_j`."""
        if not self.changed:
            self.states, self.demand_j, self.changed = self.states.copy(), self.demand_j.copy(), True
        self.states[places] = states

    def cooled_j(self, servers_j: FloatArray) -> FloatArray:
        """Return energies of servers in the first rows with those of their cooling, J."""
        return servers_j if self.weights is None else servers_j * self.weights[: len(servers_j)]

    @cached_property
    def least_weight(self) -> float:
        """Least of `weights`; 1 without cooling."""
        return 1.0 if self.weights is None else float(self.weights.min())

    def levels_j(self, extra_j: FloatArray | None = None) -> FloatArray:
        """Battery energy at the end of each row (Eq. 1), with ``extra_j`` more demand of the site by row."""
        net_j = self.supply_j - self.demand_j
        net_w = (net_j if extra_j is None else net_j - extra_j) / self.dt_s
        if self.projection is None:
            self.projection = LevelProjection(self.battery, float(self.dt_s[-1]))
        return self.projection.levels_j(self.first_step, self.start_j, net_w)[1:]

    @property
    def diff_j(self) -> float:
        """E_diff: the estimated level at the end minus the target, J (Eq. 3.30).

        With a band, minus its lower edge.
        ."""
        return float(self.levels_j()[-1]) - self.battery.least_end_j
