"""The power decisions (PDM, thesis Section 3.1.1): powers of sources and storages, step by step.

Least relax factor first (Eq. 3.12), then the least sum of shortfalls, then the least throughput of battery
and hydrogen. With a season's target, keeping the existing part of it in the tank has priority over all of
these, and filling the tank towards it over the last. The linear model (Eq. 3.1 to 3.11) is solved first;
integer variables are added only if its point charges and discharges at the same time, or runs the
electrolyzer below its minimum. If there is no plan, a message states the requirement that cannot be met, by
how much and when.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import UNSET, UnsetType

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.energy.devices.battery import (
    BatterySpec,
    charge_power_limit,
    charge_power_wanted,
    energy_after_step,
)
from beasy_sched.energy.devices.device import Device, Flows, Linear
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.grid_charging import GridCharge
from beasy_sched.model.choices import Surplus
from beasy_sched.planner.plan import FEASIBLE, INFEASIBLE, NO_PLAN, OPTIMAL, Solved
from beasy_sched.planner.power_problem import TOLERANCE as LEVEL_TOLERANCE
from beasy_sched.planner.power_problem import PowerPlan, PowerProblem, power_violations
from beasy_sched.planner.solver import LinearModel, SearchEnd, Solver, SolverOutcome, Term
from beasy_sched.planner.solver_limits import SolverLimits
from beasy_sched.units import SECONDS_PER_HOUR, j_to_kwh, w_to_kw

Exclusions: TypeAlias = frozenset[str]
"""Devices, by section, modelled with integer variables: those whose exclusion the plain model violates.

An exclusion is that power in excludes power out, or that power in is 0 or at least its minimum.
"""
NO_EXCLUSIONS: Final[Exclusions] = frozenset()
GRID_CHARGE: Final = "grid.charge"
"""Exclusion: a charge from the grid excludes levels and imports beyond those of its rule."""

TOLERANCE = 1e-9
"""Tolerance of the solver's rows, scaled: storage levels accumulate the errors of all previous steps."""


class DeviceColumns(NamedTuple):
    """A device, and its columns in the model."""

    device: Device
    linear: Linear
    into: IntArray
    out: IntArray
    level: IntArray
    on: IntArray
    """Integer columns of whether the device takes power; empty if the model leaves it open."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and largest level, in the model's unit."""
        bounds = self.device.bounds
        return bounds.least / self.linear.unit, bounds.most / self.linear.unit


class TankMisses(NamedTuple):
    """Columns of the hydrogen lacking at the end, if the tank's target may be missed."""

    held: IntArray
    """Columns of the hydrogen lacking from the part of the target that was stored at the start."""
    wished: IntArray
    """Columns of the hydrogen lacking from the target."""


class PowerFlowModel:
    """The model and its columns, which hold scaled values, one per step.

    Powers are in units of the largest power of the forecasts, energies in that unit times an hour (hydrogen
    as the power that an hour of electrolysis needs), so that numbers are near 1.
    """

    def __init__(self, problem: PowerProblem, switches: Exclusions) -> None:
        self.problem, self.switches, self.site_load = problem, switches, problem.site_load
        largest = max(problem.load_w.max(), problem.renew_w.max(), problem.floors_w.max())
        self.power_w = max(1.0, float(largest))
        self.hours = problem.step_s / SECONDS_PER_HOUR
        self.load = problem.load_w / self.power_w
        self.renew = problem.renew_w / self.power_w
        self.model = LinearModel()
        self.relax = self.model.columns(1, 0.0, 1.0)
        self.produced = self.model.columns(problem.steps, problem.floors_w / self.power_w)
        self.short = self.model.columns(problem.steps)
        self.imported: IntArray | None = None
        if problem.import_limit_w:
            largest_w = self.site_load.cooled(np.full(problem.steps, largest)) + self.site_load.always_w
            most_import_w = np.minimum(problem.import_limit_w, largest_w)
            most_w = np.maximum(most_import_w, self._most_with_charge_w(largest_w))
            self.imported = self.model.columns(problem.steps, 0.0, most_w / self.power_w)
        self.grid_charge: IntArray | None = None
        """Columns of the charge from the grid; None without its rule."""
        self.devices: dict[str, DeviceColumns] = {}
        """Columns of each device by section, the battery's first."""
        self._add_devices()
        self.battery = self.devices[BatterySpec.section]
        self.hydrogen = self.devices.get(HydrogenSpec.section)
        self.tank_misses = self._add_tank_misses() if problem.tank_from_surplus else None
        if problem.grid_charge is not None and self.imported is not None:
            self.grid_charge = self._add_grid_charge(problem.grid_charge, self.imported)
        self._add_balance()

    def _most_with_charge_w(self, largest_w: FloatArray) -> float | FloatArray:
        """Return the largest import of each step in which the grid may charge the battery, W.

        ``largest_w`` is the largest load of the site in each step.
        """
        if self.problem.grid_charge is None:
            return 0.0
        return np.minimum(self.problem.grid_charge.import_w, largest_w + self._largest_charge_w)

    @property
    def _largest_charge_w(self) -> float:
        """Power into the battery that no plan exceeds, W."""
        linear = self.problem.storage.battery.linear(self.power_w, self.problem.step_s)
        return linear.in_most * self.power_w

    def _add_grid_charge(self, allowed: GridCharge, imported: IntArray) -> IntArray:
        """Add the part of the battery's charge that is imported for it.

        It is at most what the rule allows of the import, and of the battery's charge. With its exclusion, it
        is 0 where the level or the whole import exceeds those of the rule.
        """
        model, steps, battery = self.model, self.problem.steps, self.battery
        most = np.minimum(allowed.import_w, self._largest_charge_w) / self.power_w
        charge = model.columns(steps, 0.0, most)
        model.rows(steps, 0.0, np.inf, (battery.into, 1.0), (charge, -1.0))
        if GRID_CHARGE in self.switches:
            on = model.columns(steps, 0.0, (most > 0.0).astype(np.float64), integer=True)
            model.rows(steps, -np.inf, 0.0, (charge, 1.0), (on, -most))
            high, most_level = battery.bounds[1], allowed.most_j / battery.linear.unit
            model.rows(steps, -np.inf, high, (battery.level, 1.0), (on, max(high - most_level, 0.0)))
            highest = min(self.problem.import_limit_w, self._import_bound_w) / self.power_w
            beyond = np.maximum(highest - np.minimum(allowed.import_w / self.power_w, highest), 0.0)
            model.rows(steps, -np.inf, highest, (imported, 1.0), (on, beyond))
        return charge

    @property
    def _import_bound_w(self) -> float:
        """Import that no plan exceeds, W."""
        largest_w = self.site_load.cooled(np.full(self.problem.steps, self.power_w)) + self.site_load.always_w
        return float(np.max(largest_w)) + self._largest_charge_w

    def breaks_grid_charge(self, values: FloatArray) -> bool:
        """Whether a point charges from the grid where level or import exceed those of its rule."""
        allowed = self.problem.grid_charge
        if self.grid_charge is None or self.imported is None or allowed is None:
            return False
        charges = values[self.grid_charge] > _OVERLAP
        high = values[self.battery.level] > allowed.most_j / self.battery.linear.unit + _OVERLAP
        much = values[self.imported] > allowed.import_w / self.power_w + _OVERLAP
        return bool((charges & (high | much)).any())

    def _add_devices(self) -> None:
        """Add every device of the storage; each may take what production and the others leave of the floor.

        The battery's power out is not counted for itself; that of the others is, which the exclusion of
        power in and out (or the cost of throughput) makes harmless.
        """
        problem = self.problem
        linear = [(device, device.linear(self.power_w, problem.step_s)) for device in problem.storage.devices]
        least_w = self.site_load.cooled(problem.floors_w) + self.site_load.always_w
        floor_w = np.maximum(least_w - problem.import_limit_w, 0.0)
        others_out = sum(each.out_most for _, each in linear[1:])
        spare = np.maximum(self.renew + others_out - floor_w / self.power_w, 0.0)
        battery_out = linear[0][1].out_most
        charged = 0.0 if problem.grid_charge is None else problem.grid_charge.import_w / self.power_w
        for number, (device, each) in enumerate(linear):
            most_in = np.minimum(each.in_most, spare + (battery_out if number else charged))
            self.devices[device.section] = self._add_device(device, each, most_in)

    def _add_device(self, device: Device, linear: Linear, most_in: FloatArray) -> DeviceColumns:
        """Level after a step = kept share of the previous level + inflow - outflow, within its limits.

        ``most_in`` is the largest power in of each step.
        """
        model, steps, most_out, least_in = self.model, self.problem.steps, linear.out_most, linear.in_least
        most_in[most_in < least_in] = 0.0
        into, out = model.columns(steps, 0.0, most_in), model.columns(steps, 0.0, most_out)
        least, most = device.bounds.least / linear.unit, device.bounds.most / linear.unit
        lower = np.full(steps, least)
        lower[-1] = max(least, self.problem.target_of(device) / linear.unit)
        level = model.columns(steps, lower, most)
        inflow, outflow = (into, linear.stored * self.hours), (out, -linear.drawn * self.hours)
        model.chain(level, linear.kept, self.problem.start_of(device) / linear.unit, inflow, outflow)
        on = np.empty(0, dtype=np.intp)
        if device.section in self.switches:
            on = model.columns(steps, 0.0, 1.0, integer=True)
            model.rows(steps, -np.inf, 0.0, (into, 1.0), (on, -most_in))
            if linear.excludes:
                model.rows(steps, -np.inf, most_out, (out, 1.0), (on, most_out))
            if linear.in_least or not linear.excludes:
                model.rows(steps, 0.0, np.inf, (into, 1.0), (on, -least_in))
        return DeviceColumns(device, linear, into, out, level, on)

    def _add_tank_misses(self) -> TankMisses | None:
        """Add columns for the shortfall of the tank's last level from the held and from the wished amount."""
        if self.hydrogen is None:
            return None
        misses = self.model.columns(1), self.model.columns(1)
        last = self.hydrogen.level[-1:], 1.0
        for miss, level_kg in zip(misses, (self.problem.held_kg, self.problem.wished_kg), strict=True):
            self.model.rows(1, level_kg / self.hydrogen.linear.unit, np.inf, last, (miss, 1.0))
        return TankMisses(*misses)

    def _add_balance(self) -> None:
        """Eq. 3.1 and 3.11, and the shortfall of each step; the grid supplies only servers and base load."""
        cooled = self.site_load.cooled(np.ones(self.problem.steps))
        terms: list[Term] = [(self.produced, cooled)]
        for each in self.devices.values():
            terms += [(each.into, 1.0), (each.out, -1.0)]
        if self.imported is not None:
            terms.append((self.imported, -1.0))
            least = np.zeros(self.problem.steps) - self.site_load.always_w / self.power_w
            used: list[Term] = [(self.produced, cooled), (self.imported, -1.0)]
            if self.grid_charge is not None:
                used.append((self.grid_charge, 1.0))
            self.model.rows(self.problem.steps, least, np.inf, *used)
        steps = self.problem.steps
        arriving = self.renew - self.site_load.always_w / self.power_w
        self.model.rows(steps, arriving, arriving, *terms)
        self.model.rows(steps, self.load, np.inf, (self.produced, 1.0), (self.relax, self.load))
        self.model.rows(steps, self.load, np.inf, (self.produced, 1.0), (self.short, 1.0))


_TINY = 1e-8
"""Scaled powers up to this are the solver's rounding."""
_OVERLAP = 1e-7
"""Scaled powers beyond which an exclusion is violated: integer values are exact to about this."""


def broken_exclusions(model: PowerFlowModel, values: FloatArray) -> Exclusions:
    """Return the model's exclusions plus those that the point violates."""
    broken = {name for name, each in model.devices.items() if _violates(each, values)}
    if model.breaks_grid_charge(values):
        broken.add(GRID_CHARGE)
    return model.switches.union(broken)


def _violates(columns: DeviceColumns, values: FloatArray) -> bool:
    """Whether a point violates the exclusion of a device."""
    into, least = values[columns.into], columns.linear.in_least
    low = bool(np.any((into > _OVERLAP) & (into < least - _OVERLAP)))
    if not columns.linear.excludes:
        return low
    return low or bool(np.minimum(into, values[columns.out]).max() > _OVERLAP)


def plan_of(model: PowerFlowModel, values: FloatArray) -> PowerPlan:
    """Return the plan of a point: exact levels, exact exclusions, every power within its limit."""
    problem, no_power_w = model.problem, np.zeros(model.problem.steps)
    flows = {name: _flows_of(model, each, values) for name, each in model.devices.items()}
    battery = flows.pop(BatterySpec.section)
    nothing = Flows(no_power_w, no_power_w, np.zeros(problem.steps + 1))
    hydrogen = flows.pop(HydrogenSpec.section, nothing)
    plan = PowerPlan(
        load_w=problem.load_w,
        renew_w=problem.renew_w,
        charge_w=battery.in_w,
        discharge_w=battery.out_w,
        electrolyzer_w=hydrogen.in_w,
        fuel_cell_w=hydrogen.out_w,
        curtailed_w=no_power_w,
        battery_j=battery.level,
        hydrogen_kg=hydrogen.level,
        import_w=UNSET if model.imported is None else _watts(model, values, model.imported),
        base_w=problem.base_w or UNSET,
        services_w=UNSET if problem.services_w is None else problem.services_w,
        pue=UNSET if problem.pue is None else problem.pue,
        others=flows or UNSET,
        grid_charge_w=_grid_charge_w(model, values, battery.in_w),
    )
    _put_on_bounds(plan, problem)
    return plan


def _watts(model: PowerFlowModel, values: FloatArray, column: IntArray) -> FloatArray:
    scaled = values[column]
    return np.where(scaled > _TINY, scaled, 0.0) * model.power_w


def _grid_charge_w(model: PowerFlowModel, values: FloatArray, charge_w: FloatArray) -> FloatArray | UnsetType:
    """Return the charge from the grid at a point, at most the whole charge."""
    if model.grid_charge is None:
        return UNSET
    return np.minimum(_watts(model, values, model.grid_charge), charge_w)


def _flows_of(model: PowerFlowModel, columns: DeviceColumns, values: FloatArray) -> Flows:
    """Return the powers and levels of a device at a point."""
    device, bounds = columns.device, columns.device.bounds
    into_w, out_w = _watts(model, values, columns.into), _watts(model, values, columns.out)
    if columns.linear.excludes:
        flow_w = into_w - out_w
        into_w, out_w = np.maximum(flow_w, 0.0), np.maximum(-flow_w, 0.0)
    into_w, out_w = np.minimum(into_w, bounds.in_w), np.minimum(out_w, bounds.out_w)
    if bounds.least_in_w:
        # Values between off and the minimum are rounding errors of the integer variable.
        off = into_w < 0.5 * bounds.least_in_w
        into_w = np.where(off | (into_w == 0.0), 0.0, np.maximum(into_w, bounds.least_in_w))
    return device.exact(model.problem.start_of(device), into_w, out_w, model.problem.step_s)


def _put_on_bounds(plan: PowerPlan, problem: PowerProblem) -> None:
    """Set levels that miss a bound only by rounding to the bound."""
    for device in problem.storage.devices:
        levels, size = plan.flows_of(device).level, device.level_scale(plan.scale_w, problem.step_s)
        nearest = np.clip(levels, device.bounds.least, device.bounds.most)
        np.copyto(levels, nearest, where=np.abs(levels - nearest) <= LEVEL_TOLERANCE * size)


def store_surplus(problem: PowerProblem, plan: PowerPlan) -> PowerPlan:
    """Charge power beyond the demand (or the sleep floor), as far as the battery can take it.

    This is `Surplus.STORE`. The battery is never below the plan's own level at any step, so that every
    discharge stays possible and no shortfall grows. Energy stored so replaces a planned charge from the grid.
    """
    served_w = np.minimum(np.maximum(problem.load_w, problem.floors_w), plan.produced_w)
    cooled = problem.site_load.cooled
    surplus_w = cooled(plan.produced_w) + plan.charge_w - plan.discharge_w - cooled(served_w)
    discharge_w = np.where(surplus_w > 0.0, 0.0, -surplus_w)
    wanted_w = np.where(surplus_w < 0.0, 0.0, surplus_w)
    battery, start_j = problem.storage.battery, problem.start_state.battery_j
    if plan.grid_charge_w is not UNSET and plan.import_w is not UNSET:
        produced_w = wanted_w - plan.grid_charge_w
        spare_w = plan.with_others(plan.renew_w + plan.fuel_cell_w - plan.electrolyzer_w)
        produced_w = np.clip(np.minimum(produced_w, spare_w), 0.0, None)
        wanted_w, charged_w = _least_grid_charge(problem, plan, plan.grid_charge_w, produced_w, discharge_w)
        import_w = plan.import_w - (plan.grid_charge_w - charged_w)
        plan = replace(plan, grid_charge_w=charged_w, import_w=np.maximum(import_w, 0.0))
    charge_w, discharge_w, battery_j = battery.exact(start_j, wanted_w, discharge_w, problem.step_s)
    stored = replace(plan, charge_w=charge_w, discharge_w=discharge_w, battery_j=battery_j)
    _put_on_bounds(stored, problem)
    return stored


def _least_grid_charge(
    problem: PowerProblem,
    plan: PowerPlan,
    planned_w: FloatArray,
    produced_w: FloatArray,
    discharge_w: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the charge in all, and its part from the grid, W by step, that keep the plan's levels.

    The battery takes ``produced_w`` (W) of production first, as far as it can. The grid then charges it only
    up to the plan's own level, and at most by ``planned_w`` (W), its charge in the plan.
    """
    battery, level_j, step_s = problem.storage.battery, problem.start_state.battery_j, problem.step_s
    charge_w, charged_w = np.zeros(problem.steps), np.zeros(problem.steps)
    steps = zip(planned_w.tolist(), produced_w.tolist(), discharge_w.tolist(), strict=True)
    for step, (from_grid_w, offered_w, drawn_w) in enumerate(steps):
        most_w = charge_power_limit(battery, level_j, step_s)
        taken_w = min(offered_w, most_w)
        if from_grid_w > 0.0:
            wanted_w = charge_power_wanted(battery, level_j, step_s, float(plan.battery_j[step + 1]))
            charged_w[step] = max(0.0, min(from_grid_w, wanted_w - taken_w, most_w - taken_w))
        charge_w[step] = taken_w + charged_w[step]
        level_j = energy_after_step(battery, level_j, float(charge_w[step]), drawn_w, step_s)
    return charge_w, charged_w


_NEGLIGIBLE = 1e-6


def explain_infeasible(problem: PowerProblem, switches: Exclusions, limits: SolverLimits) -> str:
    """Name the first requirement that cannot be met: the sleep floor, the SoC or LoH target, or both.

    ``switches`` are those of the infeasible model. The linear model is tried first: a target that it
    cannot reach is unreachable for every plan.
    """
    message = sleep_shortage(problem)
    for asked in dict.fromkeys((NO_EXCLUSIONS, switches)):
        message = message or _target_message(problem, asked, limits)
    return message or (
        "the targets cannot be met while also serving the sleep floor, respecting the electrolyzer's minimum "
        "and never charging and discharging at once: lower soc_target_pct or level_target_kg"
    )


def _without_targets(model: PowerFlowModel, limits: SolverLimits | None, *, tank: bool = True) -> Solver:
    """Return the model in the solver, without its targets; with that of the tank unless ``tank``."""
    solver = Solver(model.model, limits, tolerance=TOLERANCE)
    for each in model.devices.values():
        if tank or each is not model.hydrogen:
            solver.set_bounds(each.level[-1:], *each.bounds)
    return solver


def _target_message(problem: PowerProblem, switches: Exclusions, limits: SolverLimits) -> str:
    """Return which target is unreachable, alone or together with the other; "" if none."""
    model = PowerFlowModel(problem, switches)

    def most(each: DeviceColumns, *, tank: bool = True) -> float:
        """Return the maximum that can be stored at the end; infinite if unknown."""
        outcome = _without_targets(model, limits, tank=tank).minimize((each.level[-1:], -1.0))
        return -outcome.bound * each.linear.unit if outcome.incumbent is not None else np.inf

    battery = problem.storage.battery
    hours = problem.steps * problem.step_s / SECONDS_PER_HOUR
    least_j, least_kg = problem.target_j * (1 - _NEGLIGIBLE), problem.target_kg * (1 - _NEGLIGIBLE)
    stored_j = most(model.battery)
    if stored_j < least_j:
        return (
            f"soc_target_pct: the battery cannot reach {battery.soc_pct(problem.target_j):.2f} % after "
            f"{hours:g} h: even without serving any load, it reaches at most "
            f"{battery.soc_pct(stored_j):.2f} % ({j_to_kwh(problem.target_j - stored_j):.3g} kWh short)"
        )
    stored_kg = most(model.hydrogen) if model.hydrogen else np.inf
    if stored_kg < least_kg:
        return (
            f"level_target_kg: the tank cannot reach {problem.target_kg:.3f} kg after {hours:g} h: even "
            f"without serving any load, it reaches at most {stored_kg:.3f} kg "
            f"({problem.target_kg - stored_kg:.3g} kg short)"
        )
    stored_j = most(model.battery, tank=False)
    if stored_j < least_j:
        return (
            f"soc_target_pct and level_target_kg cannot both be met: with {problem.target_kg:.3f} kg of "
            f"hydrogen after {hours:g} h, the battery reaches at most {battery.soc_pct(stored_j):.2f} %, "
            f"below the target of {battery.soc_pct(problem.target_j):.2f} %"
        )
    for device in problem.storage.other_devices:
        stored = most(model.devices[device.section])
        if stored < device.least_end * (1 - _NEGLIGIBLE):
            target, reached = (device.level_text(device.shown(level)) for level in (device.least_end, stored))
            return f"{device.section}: cannot reach {target} after {hours:g} h: it reaches at most {reached}"
    return ""


def sleep_shortage(problem: PowerProblem) -> str:
    """Describe the energy missing for the sleep floor and the self-discharge, "" if none.

    This is the only test of whether a site can stay above SoC_min with all servers asleep: for plans made
    before a run or during it, and for ``beasy-sched check``. Raises ConfigError if the solver cannot be
    imported.
    """
    battery = problem.storage.battery
    drainable = replace(problem.storage, battery=battery.without_levels())
    serving = replace(problem, storage=drainable, floor_w=0.0, load_w=problem.floors_w)
    model = PowerFlowModel(serving, NO_EXCLUSIONS)
    lost = model.model.columns(problem.steps)
    unit_j = model.battery.linear.unit
    floor = battery.min_j / unit_j
    model.model.rows(problem.steps, floor, np.inf, (model.battery.level, 1.0), (lost, 1.0))
    outcome = _without_targets(model, None).minimize((model.short, 1.0), (lost, 1e-3))
    if outcome.incumbent is None:
        return ""
    short, gone = outcome.incumbent[model.short], outcome.incumbent[lost]
    if short.max() > _NEGLIGIBLE:
        step = int(np.argmax(short > _NEGLIGIBLE))
        missing_kwh = j_to_kwh(float(problem.site_load.cooled(short).sum()) * model.power_w * problem.step_s)
        backup = "storage" if model.imported is None else "storage and grid"
        return (
            f"the sleeping servers alone need {w_to_kw(problem.floors_w[step]):.4g} kW, more than production "
            f"and {backup} can supply: {missing_kwh:.3g} kWh are missing, starting at hour "
            f"{problem.hour(step):.4g}"
        )
    if gone.max() > _NEGLIGIBLE:
        step = int(np.argmax(gone > _NEGLIGIBLE))
        return (
            f"soc_min_pct: even with all servers asleep, the battery falls below "
            f"{battery.soc_min_pct:g} %, first at hour {problem.hour(step):.4g}, by up to "
            f"{j_to_kwh(float(gone.max()) * unit_j):.3g} kWh"
        )
    return ""


_TILT = 1e-3
"""Cost of a watt of throughput at the end of a window beyond that at its start, times the rank of the device:
of plans of equal throughput, the one that acts earlier, and the battery before hydrogen."""

_IMPORT = 10.0
"""Cost of a watt from the grid in watts of throughput: import serves demand that the storage cannot cover."""

_CHEAPER = 1e-3
"""Share by which a joule from the grid costs less than one of demand, so that demand is served."""

_SLACK = 1e-7
"""Maximum scaled deviation of a stage from an earlier one's result: above the solver's tolerance."""


_NAME = "power"
"""Name of this optimization in a plan's provenance."""

CostsOf = Callable[[PowerFlowModel], list[Term]]
"""Function that returns columns and their costs."""


@dataclass(frozen=True)
class PowerDecision:
    """Power decisions of a window, or the reason why there are none."""

    solved: Solved
    """Result of the solver: its gap is the largest of the stages."""
    plan: PowerPlan | None
    whole_numbers: Exclusions = NO_EXCLUSIONS
    """Exclusions that required branching."""


def plan_power(
    problem: PowerProblem, limits: SolverLimits | None = None, *, explain: bool = True
) -> PowerDecision:
    """Find the best power plan of a window.

    A plan that is returned meets every constraint (`power_violations` finds none). Without a plan,
    ``solved`` has the reason: the end of the search, or (with ``explain``) the unreachable requirement.
    Raises ConfigError if the solver is not installed, and RuntimeError if a point violates a constraint.
    """
    limits = limits or SolverLimits()
    deadline_s = time.monotonic() + limits.time_s
    switches, plain = NO_EXCLUSIONS, None
    while True:
        run = _run_stages(PowerFlowModel(problem, switches), plain, limits, deadline_s)
        if run.incumbent is None:
            return PowerDecision(_unsolved(run, limits, explain), None, switches)
        needed = broken_exclusions(run.model, run.incumbent)
        if needed == switches:
            break
        plain = run.model if switches == NO_EXCLUSIONS else None
        switches = needed
    plan = plan_of(run.model, run.incumbent)
    if problem.surplus is Surplus.STORE:
        plan = store_surplus(problem, plan)
    too_much_w = np.maximum(plan.produced_w - problem.most_w, 0.0)
    plan = replace(plan, curtailed_w=problem.site_load.cooled(too_much_w))
    broken = power_violations(plan, problem)
    if broken:
        raise RuntimeError("the plan violates a constraint: " + "; ".join(map(str, broken)))
    return PowerDecision(_solved_by(run), plan, switches)


def _run_stages(
    model: PowerFlowModel, plain: PowerFlowModel | None, limits: SolverLimits, deadline_s: float
) -> _Stages:
    """Run the stages; first near the ``plain`` model's point if only the electrolyzer switches."""
    if plain is not None and model.switches == {HydrogenSpec.section}:
        exact = replace(limits, relative_gap=1e-5, time_s=deadline_s - time.monotonic())
        near = _StagesNear(model, exact, plain)
        if near.run() is SearchEnd.DONE:
            return near
    stages = _Stages(model, replace(limits, time_s=deadline_s - time.monotonic()))
    stages.run()
    return stages


_NEAR = 5
"""Number of steps around a violated exclusion in which integer variables are used first."""

_NEAR_GAP = 1e-4
"""Maximum distance of any stage from its optimum at which the result of that search is accepted."""


class _Stages:
    """Runs the stages on one model and keeps the point of the last successful one."""

    def __init__(self, model: PowerFlowModel, limits: SolverLimits) -> None:
        self.model = model
        self.solver = Solver(model.model, limits, tolerance=TOLERANCE)
        self.solvers = [(self.solver, model)]
        """Active solvers, each with its model."""
        self.incumbent: FloatArray | None = None
        self.gaps: dict[str, float] = {}
        """Proven relative distance to the optimum, by stage."""
        self.end = SearchEnd.DONE

    def run(self) -> SearchEnd:
        """Run all stages. Returns the end of the last unfinished one."""
        if self.model.tank_misses is not None and not self._least_miss("hydrogen held", 0):
            return self.end
        if self.model.problem.end_worth and not self._fix_missing():
            return self.end
        relax = self._stage("relax factor", lambda m: [(m.relax, 1.0)])
        if relax is None:
            return self.end
        for solver, at in self.solvers:
            solver.set_bounds(at.relax, 0.0, relax + _SLACK if relax > _SLACK else 0.0)
        short = self._stage("shortfall", lambda m: [(m.short, 1.0)])
        if short is None:
            return self.end
        for solver, at in self.solvers:
            solver.add_row(at.short, 1.0, upper=max(short, 0.0) * (1 + _SLACK) + 10 * _SLACK)
        if self.model.tank_misses is not None and not self._least_miss("hydrogen filled", 1):
            return self.end
        self._stage("throughput", _throughput)
        return self.end

    def _fix_missing(self) -> bool:
        """Find the least unmet demand minus the value of the energy left, and fix it.

        Later stages then choose among plans of the same value. Returns whether there is a point.
        """
        least = self._stage("demand and energy left", _unmet_less_left)
        if least is None:
            return False
        for solver, at in self.solvers:
            terms = _unmet_less_left(at)
            columns = np.concatenate([column for column, _ in terms])
            costs = np.concatenate([np.broadcast_to(cost, len(column)) for column, cost in terms])
            solver.add_row(columns, costs, upper=least + _SLACK * (abs(least) + 10.0))
        return True

    def _least_miss(self, name: str, which: int) -> bool:
        """Find the minimum shortfall of the tank and fix it. Returns whether there is a point.

        The tank is not filled from the battery, because the battery's final level has a slightly higher
        weight.
        """

        def column(model: PowerFlowModel) -> IntArray:
            return model.tank_misses[which] if model.tank_misses is not None else np.empty(0, dtype=np.intp)

        stored = -1.01 if which else 0.0
        least = self._stage(name, lambda model: [(column(model), 1.0), (model.battery.level[-1:], stored)])
        if least is None or self.incumbent is None:
            return False
        missed = self.incumbent[column(self.model)]
        for solver, at in self.solvers:
            solver.set_bounds(column(at), 0.0, np.maximum(missed, 0.0) + _SLACK)
        return True

    def _stage(self, name: str, costs: CostsOf) -> float | None:
        """Run one stage and return its objective, None without a point."""
        outcome = self._minimize(costs)
        if outcome.ending is not SearchEnd.DONE:
            # The point of the previous stage is feasible: only rounding can make this one infeasible.
            failed = self.gaps and outcome.ending is SearchEnd.INFEASIBLE
            self.end = SearchEnd.FAILED if failed else outcome.ending
        if outcome.incumbent is None:
            return None
        self.incumbent = outcome.incumbent
        self.gaps[name] = outcome.gap
        return outcome.objective

    def _minimize(self, costs: CostsOf) -> SolverOutcome:
        return self.solver.minimize(*costs(self.model))


class _StagesNear(_Stages):
    """Uses integer variables only near the steps in which the plain model's point violates the exclusion.

    ``plain`` is the same model without integer variables; elsewhere the electrolyzer stays on or off as
    there. No plan is better than that point: a stage that ends too far from it returns no point.
    """

    def __init__(self, model: PowerFlowModel, limits: SolverLimits, plain: PowerFlowModel) -> None:
        super().__init__(model, limits)
        self.plain, self.bounds = plain, Solver(plain.model, limits, tolerance=TOLERANCE)
        self.solvers.append((self.bounds, plain))
        self._free = np.zeros(model.problem.steps, dtype=np.bool_)

    def _focus(self, point: FloatArray) -> None:
        """Free the electrolyzer's switches near steps where ``point`` violates or changes them."""
        columns, plain = self.model.hydrogen, self.plain.hydrogen
        if columns is None or plain is None:
            return
        power = point[plain.into]
        on = power >= columns.linear.in_least - TOLERANCE
        broken = (power > TOLERANCE) & ~on
        around = np.convolve(broken, np.ones(2 * _NEAR + 1))[_NEAR : _NEAR + len(broken)]
        free = self._free = self._free | (around > 0.5)
        if self.incumbent is not None:
            free = free | (on != (self.incumbent[columns.on] > 0.5))
        self.solver.set_bounds(columns.on, np.where(free, 0.0, on), np.where(free, 1.0, on))

    def _minimize(self, costs: CostsOf) -> SolverOutcome:
        best = self.bounds.minimize(*costs(self.plain))
        if best.incumbent is None:
            return replace(best, ending=SearchEnd.FAILED)
        self._focus(best.incumbent)
        outcome = replace(super()._minimize(costs), bound=best.objective)
        if outcome.incumbent is not None and outcome.gap > _NEAR_GAP:
            return replace(outcome, ending=SearchEnd.FAILED, incumbent=None)
        return outcome


def _unmet_less_left(model: PowerFlowModel) -> list[Term]:
    """Unmet demand minus the value of the energy left.

    With a grid, unmet demand includes its cooling, and energy from the grid costs hardly less.
    """
    left: Term = (model.battery.level[-1:], -model.problem.end_worth)
    if model.imported is None:
        return [(model.short, model.hours), left]
    hours = np.full(model.problem.steps, model.hours)
    return [(model.short, model.site_load.cooled(hours)), (model.imported, (1.0 - _CHEAPER) * hours), left]


def _throughput(model: PowerFlowModel) -> list[Term]:
    tilt = _TILT * np.arange(model.problem.steps) / model.problem.steps
    costs: list[Term] = []
    for each in model.devices.values():
        cost = 1.0 + each.linear.rank * tilt
        costs += [(each.into, cost), (each.out, cost)]
    if model.imported is not None:
        costs.append((model.imported, _IMPORT))
    return costs


def _solved_by(run: _Stages) -> Solved:
    stages = 4 if run.model.problem.end_worth else 3
    gap = max(run.gaps.values()) if len(run.gaps) == stages else math.inf
    if run.end is SearchEnd.DONE:
        return Solved(_NAME, OPTIMAL, gap)
    message = (
        f"{run.end.value} ended the search while minimizing the {[*run.gaps][-1]}: the plan is valid, "
        "but a better one may exist"
    )
    return Solved(_NAME, FEASIBLE, gap, message)


def _unsolved(run: _Stages, limits: SolverLimits, explain: bool) -> Solved:
    if run.end is SearchEnd.INFEASIBLE:
        why = "no plan meets all requirements"
        if explain:
            why = explain_infeasible(run.model.problem, run.model.switches, limits)
        return Solved(_NAME, INFEASIBLE, message=why)
    advice = "raise the limit or plan a shorter window"
    why = f"{run.end.value} ended the search before a plan was found: {advice}"
    return Solved(_NAME, NO_PLAN, message=why)
