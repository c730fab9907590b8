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
from typing import NamedTuple

import numpy as np
from msgspec import UNSET

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.energy.storage import HydrogenSpec, charge_power_limit, energy_after_step, level_after_step
from beasy_sched.planner.power_problem import TOLERANCE as LEVEL_TOLERANCE
from beasy_sched.planner.power_problem import PowerPlan, PowerProblem, Surplus, power_violations
from beasy_sched.planner.solver import (
    LinearModel,
    SearchEnd,
    Solution,
    Solver,
    SolverLimits,
    SolverOutcome,
    SolverStatus,
    Term,
)
from beasy_sched.units import SECONDS_PER_HOUR, j_to_kwh, w_to_kw


@dataclass(frozen=True)
class Exclusions:
    """Exclusions modelled with integer variables: those that the plain model violates."""

    battery: bool = False
    """Whether an integer variable makes charging exclude discharging."""
    electrolyzer: bool = False
    """Whether an integer variable keeps the electrolyzer off or at least at its minimum."""


NO_EXCLUSIONS = Exclusions()

TOLERANCE = 1e-9
"""Tolerance of the solver's rows, scaled: storage levels accumulate the errors of all previous steps."""


class HydrogenColumns(NamedTuple):
    """Hydrogen chain, and its columns in the model."""

    spec: HydrogenSpec
    hour_kg: float
    """Hydrogen from an hour of electrolysis at the model's unit of power, kg: the model's unit of
    hydrogen."""
    electrolyzer: IntArray
    fuel_cell: IntArray
    level: IntArray
    on: IntArray
    """Integer columns of whether the electrolyzer runs; empty if the model leaves it open."""


class TankMisses(NamedTuple):
    """Columns of the hydrogen lacking at the end, if the tank's target may be missed."""

    held: IntArray
    """Columns of the hydrogen lacking from the part of the target that was stored at the start."""
    wished: IntArray
    """Columns of the hydrogen lacking from the target."""


class PowerFlowModel:
    """The model and its columns, which hold scaled values, one per step.

    Powers are in units of the largest power of the forecasts, energies (and hydrogen, as the power that
    an hour of electrolysis needs) in that unit times an hour, so that numbers are near 1.
    """

    def __init__(self, problem: PowerProblem, switches: Exclusions) -> None:
        self.problem, self.switches = problem, switches
        largest = max(problem.load_w.max(), problem.renew_w.max(), problem.floors_w.max())
        self.power_w = max(1.0, float(largest))
        self.hours = problem.step_s / SECONDS_PER_HOUR
        self.energy_j = self.power_w * SECONDS_PER_HOUR
        self.load = problem.load_w / self.power_w
        self.renew = problem.renew_w / self.power_w
        hydrogen = problem.storage.hydrogen
        fuel_cell = hydrogen.fuel_cell_max_w / self.power_w if hydrogen else 0.0
        # The power available to a storage in a step after serving the floor, without another storage.
        floor_w = np.maximum(problem.floors_w + problem.base_w - problem.import_limit_w, 0.0)
        self.spare = np.maximum(self.renew + fuel_cell - floor_w / self.power_w, 0.0)
        self.model = LinearModel()
        self.relax = self.model.columns(1, 0.0, 1.0)
        self.produced = self.model.columns(problem.steps, problem.floors_w / self.power_w)
        self.short = self.model.columns(problem.steps)
        self.imported: IntArray | None = None
        if problem.import_limit_w:
            most_import_w = min(problem.import_limit_w, largest + problem.base_w)
            self.imported = self.model.columns(problem.steps, 0.0, most_import_w / self.power_w)
        self._add_battery(switches.battery)
        self.hydrogen = None if hydrogen is None else self._add_hydrogen(hydrogen, switches.electrolyzer)
        self.tank_misses = self._add_tank_misses() if problem.tank_from_surplus else None
        self._add_balance()

    def _add_battery(self, exclusive: bool) -> None:
        problem, model, steps = self.problem, self.model, self.problem.steps
        battery = problem.storage.battery
        kept = battery.kept_fraction(problem.step_s)
        span = (battery.max_j - kept * battery.min_j) / self.energy_j / self.hours
        fade = (battery.max_j * kept - battery.min_j) / self.energy_j / self.hours
        drawn = battery.drawn_per_delivered()
        limit_in = min(battery.charge_limit_w / self.power_w, span / battery.charge_efficiency)
        most_in = np.minimum(limit_in, self.spare)
        most_out = min(battery.discharge_limit_w / self.power_w, max(fade, 0.0) / drawn)
        self.most_discharge = most_out
        self.charge = model.columns(steps, 0.0, most_in)
        self.discharge = model.columns(steps, 0.0, most_out)
        levels = battery.min_j, battery.max_j, problem.target_j, problem.start_state.battery_j
        into, out = (self.charge, battery.charge_efficiency), (self.discharge, drawn)
        self.battery = self._add_storage(levels, self.energy_j, kept, into, out)
        if exclusive:
            charging = model.columns(steps, 0.0, 1.0, integer=True)
            model.rows(steps, -np.inf, 0.0, (self.charge, 1.0), (charging, -most_in))
            model.rows(steps, -np.inf, most_out, (self.discharge, 1.0), (charging, most_out))

    def _add_hydrogen(self, hydrogen: HydrogenSpec, exclusive: bool) -> HydrogenColumns:
        problem, model, steps = self.problem, self.model, self.problem.steps
        most_in = np.minimum(hydrogen.electrolyzer_max_w / self.power_w, self.spare + self.most_discharge)
        least_in = hydrogen.electrolyzer_min_w / self.power_w
        most_in[most_in < least_in] = 0.0
        hour_kg = hydrogen.produced_kg(self.power_w, SECONDS_PER_HOUR)
        drawn = hydrogen.used_kg(self.power_w, SECONDS_PER_HOUR) / hour_kg
        electrolyzer = model.columns(steps, 0.0, most_in)
        fuel_cell = model.columns(steps, 0.0, hydrogen.fuel_cell_max_w / self.power_w)
        levels = 0.0, hydrogen.tank_kg, problem.target_kg, problem.start_state.hydrogen_kg
        level = self._add_storage(levels, hour_kg, 1.0, (electrolyzer, 1.0), (fuel_cell, drawn))
        on = np.empty(0, dtype=np.intp)
        if exclusive:
            on = model.columns(steps, 0.0, 1.0, integer=True)
            model.rows(steps, -np.inf, 0.0, (electrolyzer, 1.0), (on, -most_in))
            model.rows(steps, 0.0, np.inf, (electrolyzer, 1.0), (on, -least_in))
        return HydrogenColumns(hydrogen, hour_kg, electrolyzer, fuel_cell, level, on)

    def _add_tank_misses(self) -> TankMisses | None:
        """Add columns for the shortfall of the tank's last level from the held and from the wished amount."""
        if self.hydrogen is None:
            return None
        misses = self.model.columns(1), self.model.columns(1)
        last = self.hydrogen.level[-1:], 1.0
        for miss, level_kg in zip(misses, (self.problem.held_kg, self.problem.wished_kg), strict=True):
            self.model.rows(1, level_kg / self.hydrogen.hour_kg, np.inf, last, (miss, 1.0))
        return TankMisses(*misses)

    def _add_storage(
        self, levels: tuple[float, ...], unit: float, kept: float, into: Term, out: Term
    ) -> IntArray:
        """Level after a step = kept share of the previous level + inflow - outflow.

        ``levels``: minimum, maximum, target and start, in the storage's unit.
        """
        steps = self.problem.steps
        least, most, target, start = (level / unit for level in levels)
        lower = np.full(steps, least)
        lower[-1] = max(least, target)
        level = self.model.columns(steps, lower, most)
        self.model.chain(level, kept, start, (into[0], into[1] * self.hours), (out[0], -out[1] * self.hours))
        return level

    def _add_balance(self) -> None:
        """Eq. 3.1 and 3.11, and the shortfall of each step; the grid supplies only servers and base load."""
        terms: list[Term] = [(self.produced, 1.0), (self.charge, 1.0), (self.discharge, -1.0)]
        if self.imported is not None:
            terms.append((self.imported, -1.0))
            least = np.full(self.problem.steps, -self.problem.base_w / self.power_w)
            self.model.rows(self.problem.steps, least, np.inf, (self.produced, 1.0), (self.imported, -1.0))
        if self.hydrogen is not None:
            terms += [(self.hydrogen.electrolyzer, 1.0), (self.hydrogen.fuel_cell, -1.0)]
        steps = self.problem.steps
        arriving = self.renew - self.problem.base_w / self.power_w if self.problem.base_w else self.renew
        self.model.rows(steps, arriving, arriving, *terms)
        self.model.rows(steps, self.load, np.inf, (self.produced, 1.0), (self.relax, self.load))
        self.model.rows(steps, self.load, np.inf, (self.produced, 1.0), (self.short, 1.0))


_TINY = 1e-8
"""Scaled powers up to this are the solver's rounding."""
_OVERLAP = 1e-7
"""Scaled powers beyond which an exclusion is violated: integer values are exact to about this."""


def broken_exclusions(model: PowerFlowModel, values: FloatArray) -> Exclusions:
    """Return the model's exclusions plus those that the point violates."""
    both = np.minimum(values[model.charge], values[model.discharge]).max()
    low = False
    if model.hydrogen is not None:
        power = values[model.hydrogen.electrolyzer]
        least = model.hydrogen.spec.electrolyzer_min_w / model.power_w
        low = bool(np.any((power > _OVERLAP) & (power < least - _OVERLAP)))
    had = model.switches
    return Exclusions(had.battery or bool(both > _OVERLAP), had.electrolyzer or low)


def plan_of(model: PowerFlowModel, values: FloatArray) -> PowerPlan:
    """Return the plan of a point: exact levels, exact exclusions, every power within its limit."""
    problem, battery, columns = model.problem, model.problem.storage.battery, model.hydrogen

    def watts(column: IntArray) -> FloatArray:
        scaled = values[column]
        return np.where(scaled > _TINY, scaled, 0.0) * model.power_w

    flow_w = watts(model.charge) - watts(model.discharge)
    charge_w = np.minimum(np.maximum(flow_w, 0.0), battery.charge_limit_w)
    discharge_w = np.minimum(np.maximum(-flow_w, 0.0), battery.discharge_limit_w)
    charge_w, battery_j = _charged(problem, charge_w, discharge_w)
    into_w, out_w, levels_kg = np.zeros(problem.steps), np.zeros(problem.steps), np.zeros(problem.steps + 1)
    if columns is not None:
        spec = columns.spec
        into_w = np.minimum(watts(columns.electrolyzer), spec.electrolyzer_max_w)
        # Values between off and the minimum are rounding errors of the integer variable.
        off = into_w < 0.5 * spec.electrolyzer_min_w
        into_w = np.where(off | (into_w == 0.0), 0.0, np.maximum(into_w, spec.electrolyzer_min_w))
        out_w = np.minimum(watts(columns.fuel_cell), spec.fuel_cell_max_w)
        gains_kg = level_after_step(spec, 0.0, into_w, out_w, problem.step_s)  # type: ignore[arg-type]
        levels_kg = problem.start_state.hydrogen_kg + np.concatenate(([0.0], np.cumsum(gains_kg)))
    plan = PowerPlan(
        load_w=problem.load_w,
        renew_w=problem.renew_w,
        charge_w=charge_w,
        discharge_w=discharge_w,
        electrolyzer_w=into_w,
        fuel_cell_w=out_w,
        curtailed_w=np.zeros(problem.steps),
        battery_j=battery_j,
        hydrogen_kg=levels_kg,
        import_w=UNSET if model.imported is None else watts(model.imported),
        base_w=problem.base_w or UNSET,
    )
    _put_on_bounds(plan, problem)
    return plan


def _put_on_bounds(plan: PowerPlan, problem: PowerProblem) -> None:
    """Set levels that miss a bound only by rounding to the bound."""
    battery = problem.storage.battery
    size_j, size_kg = plan.level_scales(problem.storage, problem.step_s)
    bounds_j, bounds_kg = (battery.min_j, battery.max_j), (0.0, problem.storage.tank_kg)
    for levels, bounds, size in ((plan.battery_j, bounds_j, size_j), (plan.hydrogen_kg, bounds_kg, size_kg)):
        nearest = np.clip(levels, *bounds)
        np.copyto(levels, nearest, where=np.abs(levels - nearest) <= LEVEL_TOLERANCE * size)


def store_surplus(problem: PowerProblem, plan: PowerPlan) -> PowerPlan:
    """Charge power beyond the demand (or the sleep floor), as far as the battery can take it.

    This is `Surplus.STORE`. The battery is never below the plan's own level at any step, so that every
    discharge stays possible and no shortfall grows.
    """
    served_w = np.minimum(np.maximum(problem.load_w, problem.floors_w), plan.produced_w)
    surplus_w = plan.produced_w + plan.charge_w - plan.discharge_w - served_w
    discharge_w = np.where(surplus_w > 0.0, 0.0, -surplus_w)
    charge_w, battery_j = _charged(problem, np.where(surplus_w < 0.0, 0.0, surplus_w), discharge_w)
    stored = replace(plan, charge_w=charge_w, discharge_w=discharge_w, battery_j=battery_j)
    _put_on_bounds(stored, problem)
    return stored


def _charged(
    problem: PowerProblem, wanted_w: FloatArray, discharge_w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the charging power (W), limited by SoC_max, and the resulting battery levels (J)."""
    battery, step_s = problem.storage.battery, problem.step_s
    levels_j, charge_w = [problem.start_state.battery_j], []
    for into_w, out_w in zip(wanted_w.tolist(), discharge_w.tolist(), strict=True):
        charge_w.append(min(into_w, charge_power_limit(battery, levels_j[-1], step_s)))
        levels_j.append(energy_after_step(battery, levels_j[-1], charge_w[-1], out_w, step_s))
    return np.array(charge_w), np.array(levels_j)


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
    """Return the model in the solver, without the battery's target and, with ``tank``, the tank's."""
    battery, hydrogen = model.problem.storage.battery, model.hydrogen
    solver = Solver(model.model, limits, tolerance=TOLERANCE)
    solver.set_bounds(model.battery[-1:], battery.min_j / model.energy_j, battery.max_j / model.energy_j)
    if hydrogen is not None and tank:
        solver.set_bounds(hydrogen.level[-1:], 0.0, hydrogen.spec.tank_kg / hydrogen.hour_kg)
    return solver


def _target_message(problem: PowerProblem, switches: Exclusions, limits: SolverLimits) -> str:
    """Return which target is unreachable, alone or together with the other; "" if none."""
    model = PowerFlowModel(problem, switches)

    def most(level: IntArray, unit: float, *, tank: bool = True) -> float:
        """Return the maximum that can be stored at the end; infinite if unknown."""
        solution = _without_targets(model, limits, tank=tank).minimize((level[-1:], -1.0))
        return -solution.bound * unit if solution.values is not None else np.inf

    battery = problem.storage.battery
    hours = problem.steps * problem.step_s / SECONDS_PER_HOUR
    least_j, least_kg = problem.target_j * (1 - _NEGLIGIBLE), problem.target_kg * (1 - _NEGLIGIBLE)
    stored_j = most(model.battery, model.energy_j)
    if stored_j < least_j:
        return (
            f"soc_target_pct: the battery cannot reach {battery.soc_pct(problem.target_j):.2f} % after "
            f"{hours:g} h: even without serving any load, it reaches at most "
            f"{battery.soc_pct(stored_j):.2f} % ({j_to_kwh(problem.target_j - stored_j):.3g} kWh short)"
        )
    stored_kg = most(model.hydrogen.level, model.hydrogen.hour_kg) if model.hydrogen else np.inf
    if stored_kg < least_kg:
        return (
            f"level_target_kg: the tank cannot reach {problem.target_kg:.3f} kg after {hours:g} h: even "
            f"without serving any load, it reaches at most {stored_kg:.3f} kg "
            f"({problem.target_kg - stored_kg:.3g} kg short)"
        )
    stored_j = most(model.battery, model.energy_j, tank=False)
    if stored_j < least_j:
        return (
            f"soc_target_pct and level_target_kg cannot both be met: with {problem.target_kg:.3f} kg of "
            f"hydrogen after {hours:g} h, the battery reaches at most {battery.soc_pct(stored_j):.2f} %, "
            f"below the target of {battery.soc_pct(problem.target_j):.2f} %"
        )
    return ""


def sleep_shortage(problem: PowerProblem) -> str:
    """Describe the energy missing for the sleep floor and the self-discharge, "" if none.

    This is the only test of whether a site can stay above SoC_min with all servers asleep: for plans made
    before a run or during it, and for ``beasy-sched check``. Raises ConfigError if the solver cannot be
    imported.
    """
    battery = problem.storage.battery
    drainable = replace(problem.storage, battery=replace(battery, soc_min_pct=0.0, soc_target_pct=0.0))
    serving = replace(problem, storage=drainable, floor_w=0.0, load_w=problem.floors_w)
    model = PowerFlowModel(serving, NO_EXCLUSIONS)
    lost = model.model.columns(problem.steps)
    floor = battery.min_j / model.energy_j
    model.model.rows(problem.steps, floor, np.inf, (model.battery, 1.0), (lost, 1.0))
    solution = _without_targets(model, None).minimize((model.short, 1.0), (lost, 1e-3))
    if solution.values is None:
        return ""
    short, gone = solution.values[model.short], solution.values[lost]
    if short.max() > _NEGLIGIBLE:
        step = int(np.argmax(short > _NEGLIGIBLE))
        missing_kwh = j_to_kwh(float(short.sum()) * model.power_w * problem.step_s)
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
            f"{j_to_kwh(float(gone.max()) * model.energy_j):.3g} kWh"
        )
    return ""


_TILT = 1e-3
"""Cost of a watt of throughput at the end of a window beyond that at its start (twice that for hydrogen): of
plans of equal throughput, the one that acts earlier, and the battery before hydrogen."""

_IMPORT = 10.0
"""Cost of a watt from the grid in watts of throughput: import serves demand that the storage cannot cover."""

_SLACK = 1e-7
"""Maximum scaled deviation of a stage from an earlier one's result: above the solver's tolerance."""


CostsOf = Callable[[PowerFlowModel], list[Term]]
"""Function that returns columns and their costs."""


@dataclass(frozen=True)
class PowerDecision:
    """Power decisions of a window, or the reason why there are none."""

    outcome: SolverOutcome
    """Outcome of the solver: its objective is rf, its gap the largest of the stages."""
    plan: PowerPlan | None
    whole_numbers: Exclusions = NO_EXCLUSIONS
    """Exclusions that required branching."""


def plan_power(
    problem: PowerProblem, limits: SolverLimits | None = None, *, explain: bool = True
) -> PowerDecision:
    """Find the best power plan of a window.

    A plan that is returned meets every constraint (`power_violations` finds none). Without a plan,
    the outcome has the reason: no point, or infeasible and (with ``explain``) the unreachable requirement.
    Raises ConfigError if the solver is not installed, and RuntimeError if a point violates a constraint.
    """
    limits = limits or SolverLimits()
    deadline_s = time.monotonic() + limits.time_s
    switches, plain = NO_EXCLUSIONS, None
    while True:
        run = _solved(PowerFlowModel(problem, switches), plain, limits, deadline_s)
        if run.values is None:
            return PowerDecision(_without_point(run, limits, explain), None, switches)
        needed = broken_exclusions(run.model, run.values)
        if needed == switches:
            break
        plain = run.model if switches == NO_EXCLUSIONS else None
        switches = needed
    plan = plan_of(run.model, run.values)
    if problem.surplus is Surplus.STORE:
        plan = store_surplus(problem, plan)
    plan = replace(plan, curtailed_w=np.maximum(plan.produced_w - problem.most_w, 0.0))
    broken = power_violations(plan, problem)
    if broken:
        raise RuntimeError("the plan violates a constraint: " + "; ".join(map(str, broken)))
    return PowerDecision(_with_point(plan, run), plan, switches)


def _solved(
    model: PowerFlowModel, plain: PowerFlowModel | None, limits: SolverLimits, deadline_s: float
) -> _Stages:
    """Run the stages; first near the ``plain`` model's point if only the electrolyzer switches."""
    if plain is not None and model.switches == Exclusions(electrolyzer=True):
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
        self.values: FloatArray | None = None
        self.gaps: dict[str, float] = {}
        """Proven relative distance to the optimum, by stage."""
        self.end = SearchEnd.DONE

    def run(self) -> SearchEnd:
        """Run all stages. Returns the end of the last unfinished one."""
        if self.model.tank_misses is not None and not self._least_miss("hydrogen held", 0):
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

    def _least_miss(self, name: str, which: int) -> bool:
        """Find the minimum shortfall of the tank and fix it. Returns whether there is a point.

        The tank is not filled from the battery, because the battery's final level has a slightly higher
        weight.
        """

        def column(model: PowerFlowModel) -> IntArray:
            return model.tank_misses[which] if model.tank_misses is not None else np.empty(0, dtype=np.intp)

        stored = -1.01 if which else 0.0
        found = self._stage(name, lambda model: [(column(model), 1.0), (model.battery[-1:], stored)])
        if found is None or self.values is None:
            return False
        missed = self.values[column(self.model)]
        for solver, at in self.solvers:
            solver.set_bounds(column(at), 0.0, np.maximum(missed, 0.0) + _SLACK)
        return True

    def _stage(self, name: str, costs: CostsOf) -> float | None:
        """Run one stage and return its objective, None without a point."""
        solution = self._minimize(costs)
        if solution.ending is not SearchEnd.DONE:
            # The point of the previous stage is feasible: only rounding can make this one infeasible.
            failed = self.gaps and solution.ending is SearchEnd.INFEASIBLE
            self.end = SearchEnd.FAILED if failed else solution.ending
        if solution.values is None:
            return None
        self.values = solution.values
        self.gaps[name] = solution.gap
        return solution.objective

    def _minimize(self, costs: CostsOf) -> Solution:
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
        power = point[plain.electrolyzer]
        on = power >= columns.spec.electrolyzer_min_w / self.model.power_w - TOLERANCE
        broken = (power > TOLERANCE) & ~on
        around = np.convolve(broken, np.ones(2 * _NEAR + 1))[_NEAR : _NEAR + len(broken)]
        free = self._free = self._free | (around > 0.5)
        if self.values is not None:
            free = free | (on != (self.values[columns.on] > 0.5))
        self.solver.set_bounds(columns.on, np.where(free, 0.0, on), np.where(free, 1.0, on))

    def _minimize(self, costs: CostsOf) -> Solution:
        best = self.bounds.minimize(*costs(self.plain))
        if best.values is None:
            return replace(best, ending=SearchEnd.FAILED)
        self._focus(best.values)
        solution = replace(super()._minimize(costs), bound=best.objective)
        if solution.values is not None and solution.gap > _NEAR_GAP:
            return replace(solution, ending=SearchEnd.FAILED, values=None)
        return solution


def _throughput(model: PowerFlowModel) -> list[Term]:
    tilt = _TILT * np.arange(model.problem.steps) / model.problem.steps
    costs: list[Term] = [(model.charge, 1.0 + tilt), (model.discharge, 1.0 + tilt)]
    if model.hydrogen is not None:
        costs += [(model.hydrogen.electrolyzer, 1.0 + 2 * tilt), (model.hydrogen.fuel_cell, 1.0 + 2 * tilt)]
    if model.imported is not None:
        costs.append((model.imported, _IMPORT))
    return costs


def _with_point(plan: PowerPlan, run: _Stages) -> SolverOutcome:
    gap = max(run.gaps.values()) if len(run.gaps) == 3 else math.inf
    if run.end is SearchEnd.DONE:
        return SolverOutcome(SolverStatus.OPTIMAL, "", plan.relax_factor, gap)
    message = (
        f"{run.end.value} ended the search while minimizing the {[*run.gaps][-1]}: the plan is valid, "
        "but a better one may exist"
    )
    return SolverOutcome(SolverStatus.FEASIBLE, message, plan.relax_factor, gap)


def _without_point(run: _Stages, limits: SolverLimits, explain: bool) -> SolverOutcome:
    if run.end is SearchEnd.INFEASIBLE:
        why = "no plan meets all requirements"
        if explain:
            why = explain_infeasible(run.model.problem, run.model.switches, limits)
        return SolverOutcome(SolverStatus.INFEASIBLE, why)
    advice = "raise the limit or plan a shorter window"
    why = f"{run.end.value} ended the search before a plan was found: {advice}"
    return SolverOutcome(SolverStatus.NO_POINT, why)
