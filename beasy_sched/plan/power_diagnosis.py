"""Why no power plan exists, in the words of the site file: which requirement, by how much, when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from beasy_sched.energy.storage import Storage
from beasy_sched.plan.power_model import NO_SWITCHES, TOLERANCE, PowerModel, Switches
from beasy_sched.plan.power_problem import PowerProblem
from beasy_sched.plan.solver import Solver, SolverLimits
from beasy_sched.units import SECONDS_PER_HOUR, j_to_kwh, w_to_kw

_NEGLIGIBLE = 1e-6


def explain_infeasible(problem: PowerProblem, switches: Switches, limits: SolverLimits) -> str:
    """The first requirement that cannot be met: the sleep floor, the SoC target, the LoH target, both.

    ``switches`` are those of the model that was infeasible. The linear model is asked first: what it
    cannot reach, no plan can.
    """
    floor = _floor_message(_without_targets(problem))
    if floor:
        return floor
    for asked in dict.fromkeys((NO_SWITCHES, switches)):
        message = _target_message(problem, _Reach(asked, limits))
        if message:
            return message
    return (
        "the targets cannot be met together with the sleep floor, the electrolyzer's minimum and one of "
        "charging and discharging at a time: lower soc_target_pct or level_target_kg"
    )


class _Reach:
    """How full storages can be at the end of a window."""

    def __init__(self, switches: Switches, limits: SolverLimits) -> None:
        self._switches = switches
        self._limits = limits

    def battery_j(self, problem: PowerProblem) -> float:
        """Most energy in the battery; infinite where that is not known."""
        model = PowerModel(problem, self._switches)
        return -self._least(model, model.battery) * model.energy_j

    def hydrogen_kg(self, problem: PowerProblem) -> float:
        """Most hydrogen; infinite where that is not known."""
        model = PowerModel(problem, self._switches)
        if problem.storage.hydrogen is None or model.hydrogen is None:
            return np.inf
        hour_kg = problem.storage.hydrogen.produced_kg(model.power_w, SECONDS_PER_HOUR)
        return -self._least(model, model.hydrogen) * hour_kg

    def _least(self, model: PowerModel, level: np.ndarray) -> float:
        """Bound on minus the last level."""
        solution = Solver(model.model, self._limits, tolerance=TOLERANCE).minimize((level[-1:], -1.0))
        return solution.bound if solution.values is not None else -np.inf


def _target_message(problem: PowerProblem, reach: _Reach) -> str:
    """Which target is out of reach, alone or with the other; "" if none is."""
    hours = problem.steps * problem.step_s / SECONDS_PER_HOUR
    battery = problem.storage.battery
    free = _without_targets(problem)
    least_j, least_kg = problem.target_j * (1 - _NEGLIGIBLE), problem.target_kg * (1 - _NEGLIGIBLE)
    stored_j = reach.battery_j(free)
    if stored_j < least_j:
        return (
            f"soc_target_pct: the battery cannot be at {battery.soc_pct(problem.target_j):.2f} % after "
            f"{hours:g} h: even without serving any load it reaches at most "
            f"{battery.soc_pct(stored_j):.2f} % ({j_to_kwh(problem.target_j - stored_j):.3g} kWh short)"
        )
    stored_kg = reach.hydrogen_kg(free)
    if stored_kg < least_kg:
        return (
            f"level_target_kg: the tank cannot hold {problem.target_kg:.3f} kg after {hours:g} h: even "
            f"without serving any load it reaches at most {stored_kg:.3f} kg "
            f"({problem.target_kg - stored_kg:.3g} kg short)"
        )
    stored_j = reach.battery_j(replace(problem, soc_target_pct=battery.soc_min_pct))
    if stored_j < least_j:
        return (
            f"soc_target_pct and level_target_kg cannot both be met: with {problem.target_kg:.3f} kg of "
            f"hydrogen after {hours:g} h the battery reaches at most {battery.soc_pct(stored_j):.2f} %, "
            f"below the {battery.soc_pct(problem.target_j):.2f} % wanted"
        )
    return ""


def _without_targets(problem: PowerProblem) -> PowerProblem:
    none_kg = None if problem.storage.hydrogen is None else 0.0
    return replace(problem, soc_target_pct=problem.storage.battery.soc_min_pct, hydrogen_target_kg=none_kg)


def _floor_message(problem: PowerProblem) -> str:
    """What is missing for the sleep floor and the self-discharge, "" if nothing is."""
    battery = problem.storage.battery
    model = PowerModel(_drainable(replace(problem, floor_w=0.0, load_w=problem.floors_w)), NO_SWITCHES)
    lost = model.model.columns(problem.steps)
    floor = battery.min_j / model.energy_j
    model.model.rows(problem.steps, floor, np.inf, (model.battery, 1.0), (lost, 1.0))
    solution = Solver(model.model, tolerance=TOLERANCE).minimize((model.short, 1.0), (lost, 1e-3))
    if solution.values is None:
        return ""
    short, gone = solution.values[model.short], solution.values[lost]
    if short.max() > _NEGLIGIBLE:
        step = int(np.argmax(short > _NEGLIGIBLE))
        missing_kwh = j_to_kwh(float(short.sum()) * model.power_w * problem.step_s)
        return (
            f"the sleeping servers alone need {w_to_kw(problem.floors_w[step]):.4g} kW, which production "
            f"and storage cannot give: {missing_kwh:.3g} kWh are missing, the first at hour "
            f"{problem.hour(step):.4g}"
        )
    if gone.max() > _NEGLIGIBLE:
        step = int(np.argmax(gone > _NEGLIGIBLE))
        return (
            f"soc_min_pct: even with every server asleep the battery falls below "
            f"{battery.soc_min_pct:g} %, first at hour {problem.hour(step):.4g} and by at most "
            f"{j_to_kwh(float(gone.max()) * model.energy_j):.3g} kWh"
        )
    return ""


def _drainable(problem: PowerProblem) -> PowerProblem:
    """The same with SoC_min at 0."""
    drained = replace(problem.storage.battery, soc_min_pct=0.0)
    return replace(problem, storage=Storage(drained, problem.storage.hydrogen), soc_target_pct=0.0)
