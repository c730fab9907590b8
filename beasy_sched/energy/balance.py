"""The energy balance of one step: Eq. 3.32 of the thesis, with curtailed and unserved power.

(P_renew + P_dch + P_fc + P_unserved - P_ez - P_ch - P_curtailed + P_import - P_export - P_base) * dt = E_tot

Import and export are those of a grid, P_base is the base load; a site may have neither.

`settle_step` is called after a step, when E_tot, the energy that the servers used in it, is known, and
determines its sources. `step_headroom_j` is called before the step and returns the energy that the servers
may use. See docs/decisions/storage-and-energy.md#balance-of-a-step.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from beasy_sched.energy.grid import Grid
from beasy_sched.energy.storage import (
    NO_HYDROGEN,
    Hold,
    HydrogenPlan,
    HydrogenSpec,
    Storage,
    StorageState,
    charge_power_limit,
    charge_power_wanted,
    discharge_power_limit,
    electrolyzer_power,
    energy_after_step,
    fuel_cell_power,
    level_after_step,
)
from beasy_sched.units import j_to_kwh

_TOLERANCE = 1e-9
"""Relative difference below which powers are equal: rounding at a full or empty tank."""


class Deviation(str, Enum):
    """Deviation of a step's hydrogen from the plan, as text for logs."""

    TANK_EMPTY = "the tank is too empty for the planned fuel cell power"
    TANK_FULL = "the tank is too full for the planned electrolyzer power"
    OUT_OF_LIMITS = "planned hydrogen power exceeds the site's limits"
    NO_POWER = "electrolyzer reduced below plan to supply the servers first"
    HELD = "fuel cell reduced below plan: enough power without it"
    SURPLUS = "electrolyzer increased above plan to use surplus production"


class StepRecord(Struct, frozen=True, gc=False):
    """Balance of one step. Powers are means over the step, W; levels are at its start and end."""

    dt_s: float
    consumed_j: float
    """E_tot: energy that the servers used, J."""
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
    """Energy lost inside the battery in the step: a change of its level, not a power of the balance."""
    soc_before_pct: float
    soc_after_pct: float
    hydrogen_before_kg: float
    hydrogen_after_kg: float
    deviations: tuple[Deviation, ...] = ()
    """Deviations of the hydrogen from the plan; empty if it followed the plan."""
    base_w: float = 0.0
    """Power of the base load, W; not part of ``demand_w``."""
    import_w: float = 0.0
    export_w: float = 0.0

    @property
    def consumed_kwh(self) -> float:
        """Energy that the servers used, kWh."""
        return j_to_kwh(self.consumed_j)

    @property
    def residual_j(self) -> float:
        """Left side of Eq. 3.32, J: zero except for rounding."""
        use_w = self.electrolyzer_w + self.charge_w + self.curtailed_w + self.export_w + self.base_w
        return (self._supply_w - use_w) * self.dt_s - self.consumed_j

    @property
    def relative_residual(self) -> float:
        """|residual| relative to the energy supplied in the step; 0 if none was supplied."""
        scale_j = max(self._supply_w * self.dt_s, self.consumed_j)
        return abs(self.residual_j) / scale_j if scale_j > 0.0 else 0.0

    @property
    def green_w(self) -> float:
        """Power of solar, wind and storage that reached the servers and the base load, W.

        Energy stored in the battery or the tank counts when it is released, minus its losses.
        """
        return max(0.0, self.demand_w + self.base_w - self.import_w - self.unserved_w)

    @property
    def _supply_w(self) -> float:
        return self.renew_w + self.discharge_w + self.fuel_cell_w + self.unserved_w + self.import_w


class _Flows(NamedTuple):
    """Powers of one step, W."""

    charge_w: float = 0.0
    discharge_w: float = 0.0
    electrolyzer_w: float = 0.0
    fuel_cell_w: float = 0.0
    curtailed_w: float = 0.0
    unserved_w: float = 0.0
    import_w: float = 0.0
    export_w: float = 0.0


def settle_step(
    storage: Storage,
    state: StorageState,
    *,
    dt_s: float,
    consumed_j: float,
    renew_w: float,
    planned: HydrogenPlan = NO_HYDROGEN,
    reserve_w: float = 0.0,
    base_w: float = 0.0,
    grid: Grid | None = None,
) -> tuple[StepRecord, StorageState]:
    """Balance a completed step.

    ``state`` is the storage at its start, ``consumed_j`` the energy (J) that the servers used,
    ``renew_w`` the mean production (W), ``planned`` the plan's hydrogen for the step, and ``reserve_w``
    the mean power (W) of the sleep floor and of transitions in the step: the only demand that may take
    the battery below SoC_min, if production and the battery above SoC_min do not cover it. ``base_w`` (W) is
    the base load. With a ``grid``, demand not covered by solar, wind and the battery above SoC_min is
    imported, up to its limit, and the battery never goes below SoC_min; the grid supplies
    neither the battery nor the electrolyzer. A surplus is exported, if allowed, before it is curtailed.

    Returns the step's record and the storage at its end. Raises ValueError for a negative or non-finite
    quantity, and ConfigError for planned hydrogen at a site without it.
    """
    _check(dt_s=dt_s, consumed_j=consumed_j, renew_w=renew_w, reserve_w=reserve_w, base_w=base_w)
    storage.check_plan(planned)
    demand_w = consumed_j / dt_s
    allowed = _allowed_powers(storage, state, planned, dt_s)
    floor_w = reserve_w + base_w if grid is None else 0.0
    flows = _share_out(storage, state, dt_s, renew_w, demand_w + base_w, allowed, floor_w)
    if grid is not None:
        flows = _with_grid(flows, grid)
    after = _advance(storage, state, flows, dt_s)
    record = StepRecord(
        dt_s=dt_s,
        consumed_j=consumed_j,
        renew_w=renew_w,
        demand_w=demand_w,
        charge_w=flows.charge_w,
        discharge_w=flows.discharge_w,
        electrolyzer_w=flows.electrolyzer_w,
        fuel_cell_w=flows.fuel_cell_w,
        curtailed_w=flows.curtailed_w,
        unserved_w=flows.unserved_w,
        planned_electrolyzer_w=planned.electrolyzer_w,
        planned_fuel_cell_w=planned.fuel_cell_w,
        battery_before_j=state.battery_j,
        battery_after_j=after.battery_j,
        self_discharge_j=state.battery_j * (1.0 - storage.battery.kept_fraction(dt_s)),
        soc_before_pct=storage.battery.soc_pct(state.battery_j),
        soc_after_pct=storage.battery.soc_pct(after.battery_j),
        hydrogen_before_kg=state.hydrogen_kg,
        hydrogen_after_kg=after.hydrogen_kg,
        deviations=_deviations(storage.hydrogen, planned, allowed, flows),
        base_w=base_w,
        import_w=flows.import_w,
        export_w=flows.export_w,
    )
    return record, after


def step_headroom_j(
    storage: Storage,
    state: StorageState,
    *,
    dt_s: float,
    renew_w: float,
    planned: HydrogenPlan = NO_HYDROGEN,
    floor_j: float | None = None,
    base_w: float = 0.0,
    grid: Grid | None = None,
) -> float:
    """Return the energy (J) that servers may use in the next step of ``dt_s`` seconds above the floor.

    It is the sum of production (W, known for the step), the planned hydrogen as far as the tank allows it,
    and the energy of the battery down to ``floor_j`` (default: SoC_min) within its discharge limit. A planned
    electrolyzer takes its share, unless the site allows reducing it. A grid adds its limit: infinite without
    one. Negative only if the base load needs more than available.
    """
    _check(dt_s=dt_s, renew_w=renew_w, base_w=base_w)
    storage.check_plan(planned)
    floor = storage.battery.min_j if floor_j is None else floor_j
    hydrogen = _allowed_powers(storage, state, planned, dt_s)
    battery_w = discharge_power_limit(storage.battery, state.battery_j, dt_s, floor)
    held = storage.hydrogen is not None and storage.hydrogen.hold is not Hold.NEVER
    electrolyzer_w = 0.0 if held else hydrogen.electrolyzer_w
    import_w = 0.0 if grid is None else grid.import_limit_w
    supply_w = max(0.0, renew_w + hydrogen.fuel_cell_w + battery_w - electrolyzer_w + import_w)
    return (supply_w - base_w) * dt_s if base_w else supply_w * dt_s


def _allowed_powers(
    storage: Storage, state: StorageState, planned: HydrogenPlan, dt_s: float
) -> HydrogenPlan:
    """Return the part of the planned hydrogen that tank and limits allow."""
    spec, level_kg = storage.hydrogen, state.hydrogen_kg
    if spec is None:
        return NO_HYDROGEN
    return HydrogenPlan(
        electrolyzer_power(spec, level_kg, planned.electrolyzer_w, dt_s),
        fuel_cell_power(spec, level_kg, planned.fuel_cell_w, dt_s),
        planned.battery_j,
    )


def _share_out(
    storage: Storage,
    state: StorageState,
    dt_s: float,
    renew_w: float,
    demand_w: float,
    hydrogen: HydrogenPlan,
    reserve_w: float,
) -> _Flows:
    """Decide every power of the step; ``hydrogen`` is the plan within the limits of tank and site."""
    battery, energy_j, spec = storage.battery, state.battery_j, storage.hydrogen
    above_min_w = discharge_power_limit(battery, energy_j, dt_s, battery.min_j)
    electrolyzer_w, fuel_cell_w = hydrogen.electrolyzer_w, hydrogen.fuel_cell_w
    arriving_w = renew_w + fuel_cell_w
    left_w = arriving_w + above_min_w - demand_w
    if spec is not None and electrolyzer_w > left_w:
        electrolyzer_w = left_w if 0.0 < left_w >= spec.electrolyzer_min_w else 0.0
    surplus_w = arriving_w - electrolyzer_w - demand_w
    most_w = _most_surplus(storage, energy_j, dt_s, hydrogen.battery_j)
    if fuel_cell_w > 0.0 and surplus_w > most_w:
        held_w = min(fuel_cell_w, surplus_w - most_w)
        surplus_w = most_w if held_w < fuel_cell_w else surplus_w - held_w
        fuel_cell_w, arriving_w = fuel_cell_w - held_w, arriving_w - held_w
    if surplus_w >= 0.0:
        charge_w = min(surplus_w, charge_power_limit(battery, energy_j, dt_s))
        rest_w, raised_w = surplus_w - charge_w, 0.0
        if hydrogen.electrolyzer_w > 0.0 and spec is not None:
            most_w = electrolyzer_power(spec, state.hydrogen_kg, electrolyzer_w + rest_w, dt_s)
            raised_w = min(rest_w, max(0.0, most_w - electrolyzer_w))
        return _Flows(charge_w, 0.0, electrolyzer_w + raised_w, fuel_cell_w, curtailed_w=rest_w - raised_w)
    deficit_w = discharge_w = -surplus_w
    if deficit_w > above_min_w:
        # Above SoC_min for any demand, below it only for sleep and transitions beyond production.
        discharge_w, floor_w = above_min_w, reserve_w - arriving_w
        if floor_w > above_min_w:
            discharge_w = min(deficit_w, floor_w, discharge_power_limit(battery, energy_j, dt_s, 0.0))
    return _Flows(0.0, discharge_w, electrolyzer_w, fuel_cell_w, unserved_w=deficit_w - discharge_w)


def _with_grid(flows: _Flows, grid: Grid) -> _Flows:
    """Import unserved and export curtailed power, up to the grid's limits."""
    import_w = min(flows.unserved_w, grid.import_limit_w)
    export_w = min(flows.curtailed_w, grid.may_export_w)
    return flows._replace(
        curtailed_w=flows.curtailed_w - export_w,
        unserved_w=flows.unserved_w - import_w,
        import_w=import_w,
        export_w=export_w,
    )


def _most_surplus(storage: Storage, energy_j: float, dt_s: float, planned_j: float) -> float:
    """Return the surplus (W; negative: a deficit) beyond which the fuel cell is reduced; infinite: never."""
    battery, hydrogen = storage.battery, storage.hydrogen
    if hydrogen is None or hydrogen.hold is Hold.NEVER:
        return math.inf
    most_w = charge_power_limit(battery, energy_j, dt_s)
    if hydrogen.hold is Hold.CURTAILMENT:
        return most_w
    wanted_w = charge_power_wanted(battery, energy_j, dt_s, planned_j)
    if wanted_w >= 0.0:
        return min(most_w, wanted_w)
    return -discharge_power_limit(battery, energy_j, dt_s, max(battery.min_j, planned_j))


def _advance(storage: Storage, state: StorageState, flows: _Flows, dt_s: float) -> StorageState:
    """Apply the powers; clamps only remove rounding errors, because every power is within its limit."""
    battery = storage.battery
    energy_j = energy_after_step(battery, state.battery_j, flows.charge_w, flows.discharge_w, dt_s)
    level_kg = state.hydrogen_kg
    if storage.hydrogen is not None:
        level_kg = level_after_step(storage.hydrogen, level_kg, flows.electrolyzer_w, flows.fuel_cell_w, dt_s)
        level_kg = min(max(level_kg, 0.0), storage.hydrogen.tank_kg)
    return StorageState(min(max(energy_j, 0.0), battery.capacity_j), level_kg)


def _deviations(
    spec: HydrogenSpec | None, planned: HydrogenPlan, allowed: HydrogenPlan, flows: _Flows
) -> tuple[Deviation, ...]:
    """Return the deviations of the hydrogen from the plan.

    ``allowed`` is the plan within the limits of tank and site; ``flows`` are the actual powers.
    """
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
    if _less(flows.electrolyzer_w, allowed.electrolyzer_w):
        found.append(Deviation.NO_POWER)
    if _less(flows.fuel_cell_w, allowed.fuel_cell_w):
        found.append(Deviation.HELD)
    if _less(allowed.electrolyzer_w, flows.electrolyzer_w):
        found.append(Deviation.SURPLUS)
    return tuple(found)


def _less(low: float, high: float) -> bool:
    return low < high * (1.0 - _TOLERANCE)


def _check(*, dt_s: float, **quantities: float) -> None:
    if not 0 < dt_s < math.inf:
        raise ValueError(f"dt_s: found {dt_s!r}, expected a finite number > 0")
    for name, value in quantities.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name}: found {value!r}, expected a finite number >= 0")
