"""Why no power plan exists, in the words of the site file: which requirement, by how much, when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from beasy_sched.energy.storage import Storage
from beasy_sched.plan.power_model import NO_SWITCHES, PowerModel
from beasy_sched.plan.power_problem import PowerProblem
from beasy_sched.plan.solver import Solver
from beasy_sched.units import SECONDS_PER_HOUR, j_to_kwh, w_to_kw

_NEGLIGIBLE = 1e-6


def explain_infeasible(problem: PowerProblem) -> str:
    """The first requirement that cannot be met: the sleep floor, the SoC target, the LoH target, both.

    With electrolyzer minimum and exclusions left out, so that "at most" is an upper bound.
    """
    hours = problem.steps * problem.step_s / SECONDS_PER_HOUR
    free = _without_targets(problem)
    floor = _floor_message(free)
    if floor:
        return floor
    reachable_j = _most_stored_j(free)
    battery = problem.storage.battery
    if reachable_j is not None and reachable_j < problem.target_j * (1 - _NEGLIGIBLE):
        return (
            f"soc_target_pct: the battery cannot be at {battery.soc_pct(problem.target_j):.2f} % after "
            f"{hours:g} h: even without serving any load it reaches at most "
            f"{battery.soc_pct(reachable_j):.2f} % ({j_to_kwh(problem.target_j - reachable_j):.3g} kWh short)"
        )
    reachable_kg = _most_hydrogen_kg(free)
    if reachable_kg is not None and reachable_kg < problem.target_kg * (1 - _NEGLIGIBLE):
        return (
            f"level_target_kg: the tank cannot hold {problem.target_kg:.3f} kg after {hours:g} h: even "
            f"without serving any load it reaches at most {reachable_kg:.3f} kg "
            f"({problem.target_kg - reachable_kg:.3g} kg short)"
        )
    return _joint_message(problem, hours)


def _without_targets(problem: PowerProblem) -> PowerProblem:
    return replace(
        problem, soc_target_pct=problem.storage.battery.soc_min_pct, hydrogen_target_kg=_least_kg(problem)
    )


def _least_kg(problem: PowerProblem) -> float | None:
    return None if problem.storage.hydrogen is None else 0.0


def _floor_message(problem: PowerProblem) -> str:
    """What is missing for the sleep floor and the self-discharge, "" if nothing is."""
    battery = problem.storage.battery
    model = PowerModel(_drainable(replace(problem, floor_w=0.0, load_w=problem.floors_w)), NO_SWITCHES)
    lost = model.model.columns(problem.steps)
    floor = battery.min_j / model.energy_j
    model.model.rows(problem.steps, floor, np.inf, (model.battery, 1.0), (lost, 1.0))
    solution = Solver(model.model).minimize((model.short, 1.0), (lost, 1e-3))
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
    battery = problem.storage.battery
    drained = replace(battery, soc_min_pct=0.0)
    return replace(problem, storage=Storage(drained, problem.storage.hydrogen), soc_target_pct=0.0)


def _most_stored_j(problem: PowerProblem) -> float | None:
    model = PowerModel(problem, NO_SWITCHES)
    solution = Solver(model.model).minimize((model.battery[-1:], -1.0))
    return None if solution.values is None else float(solution.values[model.battery[-1]]) * model.energy_j


def _most_hydrogen_kg(problem: PowerProblem) -> float | None:
    model = PowerModel(problem, NO_SWITCHES)
    hydrogen = problem.storage.hydrogen
    if hydrogen is None or model.hydrogen is None:
        return None
    solution = Solver(model.model).minimize((model.hydrogen[-1:], -1.0))
    if solution.values is None:
        return None
    hour_kg = hydrogen.produced_kg(model.power_w, SECONDS_PER_HOUR)
    return float(solution.values[model.hydrogen[-1]]) * hour_kg


def _joint_message(problem: PowerProblem, hours: float) -> str:
    """Both targets can be met, but not together, or only without the electrolyzer's minimum."""
    battery = problem.storage.battery
    reachable_j = _most_stored_j(replace(problem, soc_target_pct=battery.soc_min_pct))
    if reachable_j is not None and reachable_j < problem.target_j * (1 - _NEGLIGIBLE):
        return (
            f"soc_target_pct and level_target_kg cannot both be met: with {problem.target_kg:.3f} kg of "
            f"hydrogen after {hours:g} h the battery reaches at most {battery.soc_pct(reachable_j):.2f} %, "
            f"below the {battery.soc_pct(problem.target_j):.2f} % wanted"
        )
    return (
        "the targets can be met only by an electrolyzer below electrolyzer_min_kw, or by charging and "
        f"discharging at once: lower soc_target_pct ({battery.soc_pct(problem.target_j):g} %) or "
        f"level_target_kg ({problem.target_kg:g} kg)"
    )
