"""From the solver's point to a power plan: units, rounding, exclusions, and surplus into the battery."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.energy.battery import charge_power_limit, energy_after_step
from beasy_sched.energy.hydrogen import level_after_step
from beasy_sched.plan.power_check import TOLERANCE as LEVEL_TOLERANCE
from beasy_sched.plan.power_check import level_scale_j, level_scale_kg
from beasy_sched.plan.power_model import PowerModel, Switches
from beasy_sched.plan.power_plan import PowerPlan
from beasy_sched.plan.power_problem import PowerProblem

_TINY = 1e-8
"""Scaled powers up to this are the solver's rounding."""
_OVERLAP = 1e-7
"""Scaled powers beyond which an exclusion is broken: whole numbers are exact to about this."""


def broken_exclusions(model: PowerModel, values: FloatArray, switches: Switches) -> Switches:
    """``switches``, and those whose exclusion the point breaks."""
    both = np.minimum(values[model.charge], values[model.discharge]).max()
    hydrogen, low = model.problem.storage.hydrogen, False
    if hydrogen is not None and model.electrolyzer is not None:
        power = values[model.electrolyzer]
        least = hydrogen.electrolyzer_min_w / model.power_w
        low = bool(np.any((power > _OVERLAP) & (power < least - _OVERLAP)))
    return Switches(switches.battery or bool(both > _OVERLAP), switches.electrolyzer or low)


def plan_of(model: PowerModel, values: FloatArray) -> PowerPlan:
    """The plan of a point: exact levels, exact exclusions, every power within its limit."""
    problem = model.problem
    charge, discharge = _net(model, values)
    electrolyzer, fuel_cell, hydrogen = _hydrogen(model, values)
    battery = _levels_j(problem, charge, discharge)
    plan = PowerPlan(
        load_w=problem.load_w,
        renew_w=problem.renew_w,
        charge_w=charge,
        discharge_w=discharge,
        electrolyzer_w=electrolyzer,
        fuel_cell_w=fuel_cell,
        curtailed_w=np.zeros(problem.steps),
        battery_j=battery,
        hydrogen_kg=hydrogen,
    )
    return _curtailed(problem, plan)


def store_surplus(problem: PowerProblem, plan: PowerPlan) -> PowerPlan:
    """Charge what exceeds the demand (or the sleep floor), as far as the battery takes it.

    This is `Surplus.STORE`. The battery is never below the plan's own level at any step, so that every
    discharge stays possible and no shortfall grows.
    """
    battery, step_s = problem.storage.battery, problem.step_s
    served_w = np.minimum(np.maximum(problem.load_w, problem.floors_w), plan.produced_w)
    net_w = (plan.produced_w + plan.charge_w - plan.discharge_w - served_w).tolist()
    energy_j = problem.start_state.battery_j
    levels, charges, discharges = [energy_j], [], []
    for surplus_w in net_w:
        charge_w = min(max(surplus_w, 0.0), charge_power_limit(battery, energy_j, step_s))
        discharge_w = max(-surplus_w, 0.0)
        energy_j = energy_after_step(battery, energy_j, charge_w, discharge_w, step_s)
        levels.append(energy_j)
        charges.append(charge_w)
        discharges.append(discharge_w)
    stored = replace(
        plan,
        charge_w=np.array(charges),
        discharge_w=np.array(discharges),
        battery_j=np.array(levels),
        curtailed_w=np.zeros(problem.steps),
    )
    return _curtailed(problem, stored)


def _net(model: PowerModel, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Charge and discharge (W) of which at most one is above 0, within their limits."""
    flow = _watts(model, values, model.charge) - _watts(model, values, model.discharge)
    battery = model.problem.storage.battery
    charge = np.minimum(np.maximum(flow, 0.0), battery.charge_limit_w)
    return charge, np.minimum(np.maximum(-flow, 0.0), battery.discharge_limit_w)


def _levels_j(problem: PowerProblem, charge_w: FloatArray, discharge_w: FloatArray) -> FloatArray:
    """Battery levels (J); ``charge_w`` is lowered in place where it would pass SoC_max.

    The exclusion of charge and discharge can only have raised the levels.
    """
    battery, step_s = problem.storage.battery, problem.step_s
    levels = [problem.start_state.battery_j]
    for step in range(problem.steps):
        charge_w[step] = min(charge_w[step], charge_power_limit(battery, levels[-1], step_s))
        levels.append(energy_after_step(battery, levels[-1], charge_w[step], discharge_w[step], step_s))
    slack_j = LEVEL_TOLERANCE * level_scale_j(problem.storage, _scale_w(problem), step_s)
    return _inside(np.array(levels), battery.min_j, battery.max_j, slack_j)


def _inside(levels: FloatArray, least: float, most: float, slack: float) -> FloatArray:
    """Levels that miss a bound by rounding only, put on it."""
    nearest = np.clip(levels, least, most)
    return np.where(np.abs(levels - nearest) <= slack, nearest, levels)


def _scale_w(problem: PowerProblem) -> float:
    return max(1.0, float(problem.load_w.max()), float(problem.renew_w.max()))


def _hydrogen(model: PowerModel, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Powers of electrolyzer and fuel cell (W), and levels (kg)."""
    problem = model.problem
    spec = problem.storage.hydrogen
    if spec is None or model.electrolyzer is None or model.fuel_cell is None:
        nothing = np.zeros(problem.steps)
        return nothing, nothing.copy(), np.zeros(problem.steps + 1)
    into = np.minimum(_watts(model, values, model.electrolyzer), spec.electrolyzer_max_w)
    # What lies between off and the minimum is rounding of the whole number behind it.
    off = into < 0.5 * spec.electrolyzer_min_w
    into = np.where(off | (into == 0.0), 0.0, np.maximum(into, spec.electrolyzer_min_w))
    out = np.minimum(_watts(model, values, model.fuel_cell), spec.fuel_cell_max_w)
    gains: FloatArray = np.asarray(
        level_after_step(spec, 0.0, into, out, problem.step_s)  # type: ignore[arg-type]
    )
    levels = problem.start_state.hydrogen_kg + np.concatenate(([0.0], np.cumsum(gains)))
    slack_kg = LEVEL_TOLERANCE * level_scale_kg(problem.storage, _scale_w(problem), problem.step_s)
    return into, out, _inside(levels, 0.0, spec.tank_kg, slack_kg)


def _watts(model: PowerModel, values: FloatArray, columns: IntArray) -> FloatArray:
    scaled = values[columns]
    return np.where(scaled > _TINY, scaled, 0.0) * model.power_w


def _curtailed(problem: PowerProblem, plan: PowerPlan) -> PowerPlan:
    """The plan with everything beyond the servers' most curtailed."""
    return replace(plan, curtailed_w=np.maximum(plan.produced_w - problem.most_w, 0.0))
