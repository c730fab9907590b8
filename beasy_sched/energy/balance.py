"""The energy balance of one step: Eq. 3.32 of the thesis, with curtailed and unserved power.

(P_renew + P_dch + P_fc + P_unserved - P_ez - P_ch - P_curtailed + P_import - P_export - P_base - P_cool) * dt
    = E_tot

Import and export are those of a grid, P_base is the base load with services, P_cool the servers' cooling; a
site may have none of them. Other storage devices add their power out and subtract their power in.
`_share_out` is the order in which devices serve.

`settle_step` is called after a step, when E_tot, the energy that the servers used in it, is known, and
determines its sources. `step_headroom_j` is called before the step and returns the energy that the servers
may use. See docs/decisions/storage-and-energy.md#balance-of-a-step.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Final, NamedTuple

from msgspec import Struct

from beasy_sched.energy.devices.battery import (
    charge_power_limit,
    charge_power_wanted,
    discharge_power_limit,
    energy_after_step,
)
from beasy_sched.energy.devices.hydrogen import (
    NO_HYDROGEN,
    Hold,
    HydrogenPlan,
    HydrogenSpec,
    electrolyzer_power,
    fuel_cell_power,
    level_after_step,
)
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.grid_charging import AS_ALWAYS, GridUse
from beasy_sched.energy.site_load import StepLoad
from beasy_sched.energy.storage import Storage, StorageState
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


class DeviceStep(NamedTuple):
    """Powers (W) and levels of a device in one step."""

    in_w: float
    out_w: float
    before: float
    after: float
    shown: float
    """Level at the end as people read it."""


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
    """Power of base load and services, W; not part of ``demand_w``."""
    import_w: float = 0.0
    export_w: float = 0.0
    others: dict[str, DeviceStep] = {}
    """Devices other than battery and hydrogen, by section."""
    cooling_w: float = 0.0
    """Power of the servers' cooling, W; not part of ``demand_w``."""
    grid_charge_w: float = 0.0
    """Part of ``charge_w`` that was imported for it, W."""

    @property
    def consumed_kwh(self) -> float:
        """Energy that the servers used, kWh."""
        return j_to_kwh(self.consumed_j)

    @property
    def residual_j(self) -> float:
        """Left side of Eq. 3.32, J: zero except for rounding."""
        use_w = self.electrolyzer_w + self.charge_w + self.curtailed_w + self.export_w + self.base_w
        use_w += self.cooling_w
        for device in self.others.values():
            use_w += device.in_w
        return (self._supply_w - use_w) * self.dt_s - self.consumed_j

    @property
    def relative_residual(self) -> float:
        """|residual| relative to the energy supplied in the step; 0 if none was supplied."""
        scale_j = max(self._supply_w * self.dt_s, self.consumed_j)
        return abs(self.residual_j) / scale_j if scale_j > 0.0 else 0.0

    @property
    def green_w(self) -> float:
        """Power of solar, wind and storage that reached the servers, their cooling and the base load, W.

        Energy stored in the battery or the tank counts when it is released, minus its losses; that which the
        grid has charged is included: `BatteryContents` has its part.
        """
        imported_w = self.import_w - self.grid_charge_w
        return max(0.0, self.load_w - imported_w - self.unserved_w)

    @property
    def load_w(self) -> float:
        """Power of the servers, their cooling and the base load, W."""
        return self.demand_w + self.base_w + self.cooling_w

    @property
    def _supply_w(self) -> float:
        supply_w = self.renew_w + self.discharge_w + self.fuel_cell_w + self.unserved_w + self.import_w
        for device in self.others.values():
            supply_w += device.out_w
        return supply_w


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
    others_in_w: tuple[float, ...] = ()
    """Power of each other device; empty if none takes or delivers power."""
    others_out_w: tuple[float, ...] = ()
    grid_charge_w: float = 0.0


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
    pue: float = 1.0,
    grid: Grid | None = None,
    use: GridUse = AS_ALWAYS,
) -> tuple[StepRecord, StorageState]:
    """Balance a completed step.

    ``state`` is the storage at its start, ``consumed_j`` the energy (J) that the servers used,
    ``renew_w`` the mean production (W), ``planned`` the plan's hydrogen for the step, and ``reserve_w``
    the mean power (W) of the sleep floor and of transitions in the step: the only demand that may take
    the battery below SoC_min, if production and the battery above SoC_min do not cover it. ``base_w`` (W) is
    the base load with services, ``pue`` the power of servers and their cooling in units of the servers'. With
    a ``grid``, demand not covered by solar, wind and the battery above SoC_min is imported, up to its limit,
    and the battery never goes below SoC_min; the grid does not supply the electrolyzer, and the battery only
    as the grid's rules allow in this step (``use``). A surplus is exported, if allowed, before it is
    curtailed.

    Returns the step's record and the storage at its end. Raises ValueError for a negative or non-finite
    quantity, and ConfigError for planned hydrogen at a site without it.
    """
    _check(dt_s=dt_s, consumed_j=consumed_j, renew_w=renew_w, reserve_w=reserve_w, base_w=base_w)
    storage.check_plan(planned)
    demand_w = consumed_j / dt_s
    cooling_w = demand_w * pue - demand_w if pue > 1.0 else 0.0
    allowed = _allowed_powers(storage, state, planned, dt_s)
    floor_w = reserve_w * pue + base_w if grid is None else 0.0
    load_w = demand_w + cooling_w + base_w
    flows = _share_out(storage, state, dt_s, renew_w, load_w, allowed, floor_w, use.first_w)
    if grid is not None:
        flows = _with_grid(flows, grid)
        if use.charge_w > flows.import_w:
            flows = _charged_from_grid(storage, state, flows, use, dt_s)
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
        others=_other_steps(storage, state, flows, after) if state.others else _NO_OTHERS,
        cooling_w=cooling_w,
        grid_charge_w=flows.grid_charge_w,
    )
    return record, after


_NO_OTHERS: Final[dict[str, DeviceStep]] = {}


def _other_steps(
    storage: Storage, state: StorageState, flows: _Flows, after: StorageState
) -> dict[str, DeviceStep]:
    """Return the records of the other devices."""
    none_w = (0.0,) * len(storage.other_devices)
    in_w, out_w = flows.others_in_w or none_w, flows.others_out_w or none_w
    steps = zip(storage.other_devices, in_w, out_w, state.others, after.others, strict=True)
    return {
        device.section: DeviceStep(in_w, out_w, before, after, device.shown(after))
        for device, in_w, out_w, before, after in steps
    }


def step_headroom_j(
    storage: Storage,
    state: StorageState,
    *,
    dt_s: float,
    renew_w: float,
    planned: HydrogenPlan = NO_HYDROGEN,
    floor_j: float | None = None,
    base_w: float = 0.0,
    pue: float = 1.0,
    grid: Grid | None = None,
) -> float:
    """Return the energy (J) that servers may use in the next step of ``dt_s`` seconds above the floor.

    It is the sum of production (W, known for the step), the planned hydrogen as far as the tank allows it,
    the energy of the battery down to ``floor_j`` (default: SoC_min) within its discharge limit, and that of
    the other devices. A planned
    electrolyzer takes its share, unless the site allows reducing it. A grid adds its limit: infinite without
    one. The base load with services (``base_w``) is subtracted first, and the rest divided by ``pue``: the
    cooling of the servers takes its part. Negative only if the base load needs more than available.
    """
    _check(dt_s=dt_s, renew_w=renew_w, base_w=base_w)
    storage.check_plan(planned)
    floor = storage.battery.min_j if floor_j is None else floor_j
    hydrogen = _allowed_powers(storage, state, planned, dt_s)
    battery_w = discharge_power_limit(storage.battery, state.battery_j, dt_s, floor)
    held = storage.hydrogen is not None and storage.hydrogen.hold is not Hold.NEVER
    electrolyzer_w = 0.0 if held else hydrogen.electrolyzer_w
    import_w = 0.0 if grid is None else grid.import_limit_w
    if state.others:
        battery_w += sum(_others_most_w(storage, state, dt_s))
    supply_w = max(0.0, renew_w + hydrogen.fuel_cell_w + battery_w - electrolyzer_w + import_w)
    return StepLoad(base_w, pue).for_servers_w(supply_w) * dt_s


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
    grid_first_w: float,
) -> _Flows:
    """Decide every power of the step: the order in which the devices serve.

    A deficit is covered by the fuel cell as planned, the grid up to ``grid_first_w``, the battery above
    SoC_min, the other devices in the storage's order and, for sleep and transitions, the battery below
    SoC_min; the grid covers the rest (`_with_grid`). A surplus goes into the planned electrolyzer, the
    battery, the other devices in the same order, and more into a running electrolyzer; the grid charges the
    battery after it (`_charged_from_grid`). ``hydrogen`` is the plan within the limits of tank and site.
    """
    battery, energy_j, spec = storage.battery, state.battery_j, storage.hydrogen
    above_min_w = discharge_power_limit(battery, energy_j, dt_s, battery.min_j)
    others_most_w = _others_most_w(storage, state, dt_s) if state.others else ()
    electrolyzer_w, fuel_cell_w = hydrogen.electrolyzer_w, hydrogen.fuel_cell_w
    arriving_w = renew_w + fuel_cell_w
    left_w = arriving_w + above_min_w - demand_w
    if others_most_w:
        left_w += sum(others_most_w)
    if spec is not None and electrolyzer_w > left_w:
        electrolyzer_w = left_w if 0.0 < left_w >= spec.electrolyzer_min_w else 0.0
    surplus_w = arriving_w - electrolyzer_w - demand_w
    most_w = _most_surplus(storage, state, dt_s, hydrogen.battery_j)
    if fuel_cell_w > 0.0 and surplus_w > most_w:
        held_w = min(fuel_cell_w, surplus_w - most_w)
        surplus_w = most_w if held_w < fuel_cell_w else surplus_w - held_w
        fuel_cell_w, arriving_w = fuel_cell_w - held_w, arriving_w - held_w
    if surplus_w >= 0.0:
        charge_w = min(surplus_w, charge_power_limit(battery, energy_j, dt_s))
        rest_w, raised_w = surplus_w - charge_w, 0.0
        others_in_w: tuple[float, ...] = ()
        if others_most_w and rest_w > 0.0:
            others_in_w, rest_w = _others_take(storage, state, dt_s, rest_w)
        if hydrogen.electrolyzer_w > 0.0 and spec is not None:
            most_w = electrolyzer_power(spec, state.hydrogen_kg, electrolyzer_w + rest_w, dt_s)
            raised_w = min(rest_w, max(0.0, most_w - electrolyzer_w))
        flows = _Flows(charge_w, 0.0, electrolyzer_w + raised_w, fuel_cell_w, curtailed_w=rest_w - raised_w)
        return flows._replace(others_in_w=others_in_w) if others_in_w else flows
    deficit_w, import_w = -surplus_w, 0.0
    if grid_first_w > 0.0:  # for servers and base load, not for the electrolyzer
        import_w = min(grid_first_w, max(0.0, demand_w - arriving_w), deficit_w)
        deficit_w -= import_w
    discharge_w = deficit_w
    others_out_w: tuple[float, ...] = ()
    if deficit_w > above_min_w:
        if others_most_w:
            others_out_w, left_w = _in_order(others_most_w, deficit_w - above_min_w)
            arriving_w, deficit_w = arriving_w + sum(others_out_w), above_min_w + left_w
        # Above SoC_min for any demand, below it only for sleep and transitions beyond production.
        discharge_w, floor_w = above_min_w, reserve_w - arriving_w
        if floor_w > above_min_w:
            discharge_w = min(deficit_w, floor_w, discharge_power_limit(battery, energy_j, dt_s, 0.0))
    unserved_w = deficit_w - discharge_w
    flows = _Flows(0.0, discharge_w, electrolyzer_w, fuel_cell_w, 0.0, unserved_w, import_w)
    return flows._replace(others_out_w=others_out_w) if others_out_w else flows


def _others_most_w(storage: Storage, state: StorageState, dt_s: float) -> tuple[float, ...]:
    """Return the largest power (W) that each other device can deliver over the step."""
    pairs = zip(storage.other_devices, state.others, strict=True)
    return tuple(device.gives_w(level, math.inf, dt_s) for device, level in pairs)


def _in_order(most_w: tuple[float, ...], wanted_w: float) -> tuple[tuple[float, ...], float]:
    """Divide a power (W) among devices, the first ones first; return the parts, and what is left."""
    parts_w = []
    for device_w in most_w:
        parts_w.append(min(wanted_w, device_w))
        wanted_w -= parts_w[-1]
    return tuple(parts_w), wanted_w


def _others_take(
    storage: Storage, state: StorageState, dt_s: float, offered_w: float
) -> tuple[tuple[float, ...], float]:
    """Divide a surplus (W) among the other devices in their order; return the parts, and what is left."""
    parts_w = []
    for device, level in zip(storage.other_devices, state.others, strict=True):
        parts_w.append(device.takes_w(level, offered_w, dt_s))
        offered_w -= parts_w[-1]
    return tuple(parts_w), offered_w


def _with_grid(flows: _Flows, grid: Grid) -> _Flows:
    """Import unserved and export curtailed power, up to the grid's limits."""
    more_w = min(flows.unserved_w, max(0.0, grid.import_limit_w - flows.import_w))
    export_w = min(flows.curtailed_w, grid.may_export_w)
    return flows._replace(
        curtailed_w=flows.curtailed_w - export_w,
        unserved_w=flows.unserved_w - more_w,
        import_w=min(flows.import_w + more_w, grid.import_limit_w),
        export_w=export_w,
    )


def _charged_from_grid(
    storage: Storage, state: StorageState, flows: _Flows, use: GridUse, dt_s: float
) -> _Flows:
    """Charge the battery from what the import limit leaves, up to the state of charge of the rule."""
    battery = storage.battery
    most_j = battery.energy_j(use.charge_soc_pct)
    most_w = min(battery.charge_limit_w, charge_power_wanted(battery, state.battery_j, dt_s, most_j))
    charge_w = min(use.charge_w - flows.import_w, most_w - flows.charge_w)
    if charge_w <= 0.0 or flows.discharge_w > 0.0:
        return flows
    return flows._replace(
        charge_w=min(flows.charge_w + charge_w, most_w),
        import_w=min(flows.import_w + charge_w, use.charge_w),
        grid_charge_w=charge_w,
    )


def _most_surplus(storage: Storage, state: StorageState, dt_s: float, planned_j: float) -> float:
    """Return the surplus (W; negative: a deficit) beyond which the fuel cell is reduced; infinite: never."""
    battery, hydrogen, energy_j = storage.battery, storage.hydrogen, state.battery_j
    if hydrogen is None or hydrogen.hold is Hold.NEVER:
        return math.inf
    most_w = charge_power_limit(battery, energy_j, dt_s)
    if state.others:
        devices = zip(storage.other_devices, state.others, strict=True)
        most_w += sum(device.takes_w(level, math.inf, dt_s) for device, level in devices)
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
    battery_j = min(max(energy_j, 0.0), battery.capacity_j)
    if not state.others:
        return StorageState(battery_j, level_kg)
    none_w = (0.0,) * len(storage.other_devices)
    powers = zip(flows.others_in_w or none_w, flows.others_out_w or none_w, strict=True)
    steps = zip(storage.other_devices, state.others, powers, strict=True)
    others = (device.after(level, *power, dt_s) for device, level, power in steps)
    return StorageState(battery_j, level_kg, tuple(others))


def _deviations(
    spec: HydrogenSpec | None, planned: HydrogenPlan, allowed: HydrogenPlan, flows: _Flows
) -> tuple[Deviation, ...]:
    """Return the deviations of the hydrogen from the plan.

    ``allowed`` is the plan within the limits of tank and site; ``flows`` are the actual powers.
    """
    if spec is None:
        return ()
    deviations = []
    wanted_w = min(planned.electrolyzer_w, spec.electrolyzer_max_w)
    too_low = 0.0 < wanted_w < spec.electrolyzer_min_w
    if too_low or wanted_w < planned.electrolyzer_w or planned.fuel_cell_w > spec.fuel_cell_max_w:
        deviations.append(Deviation.OUT_OF_LIMITS)
    if _less(allowed.fuel_cell_w, min(planned.fuel_cell_w, spec.fuel_cell_max_w)):
        deviations.append(Deviation.TANK_EMPTY)
    if not too_low and _less(allowed.electrolyzer_w, wanted_w):
        deviations.append(Deviation.TANK_FULL)
    if _less(flows.electrolyzer_w, allowed.electrolyzer_w):
        deviations.append(Deviation.NO_POWER)
    if _less(flows.fuel_cell_w, allowed.fuel_cell_w):
        deviations.append(Deviation.HELD)
    if _less(allowed.electrolyzer_w, flows.electrolyzer_w):
        deviations.append(Deviation.SURPLUS)
    return tuple(deviations)


def _less(low: float, high: float) -> bool:
    return low < high * (1.0 - _TOLERANCE)


def _check(*, dt_s: float, **quantities: float) -> None:
    if not 0 < dt_s < math.inf:
        raise ValueError(f"dt_s: found {dt_s!r}, expected a finite number > 0")
    for name, value in quantities.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name}: found {value!r}, expected a finite number >= 0")
