"""Every constraint of the power decisions, evaluated on a plan as the equations are printed.

Nothing here knows the solver or its model: a plan is judged by its numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.battery import energy_after_step
from beasy_sched.energy.hydrogen import level_after_step
from beasy_sched.energy.storage import Storage
from beasy_sched.plan.power_plan import PowerPlan
from beasy_sched.plan.power_problem import PowerProblem

TOLERANCE = 1e-6
"""Share of the size of a quantity by which a bound or balance may be missed: rounding, not a choice."""


class Violation(NamedTuple):
    """A constraint that a plan breaks: which, at which step, by how much."""

    constraint: str
    step: int
    """The last of the T + 1 levels is step T."""
    amount: float
    """In the constraint's unit (W, J or kg)."""

    def __str__(self) -> str:
        return f"{self.constraint}: broken by {self.amount:.6g} at step {self.step}"


def storage_violations(plan: PowerPlan, storage: Storage, step_s: float) -> tuple[Violation, ...]:
    """What the storage itself cannot do: limits, levels and their development; the worst step of each."""
    return tuple(_storage_checks(plan, storage, step_s))


def power_violations(plan: PowerPlan, problem: PowerProblem) -> tuple[Violation, ...]:
    """Every constraint of Eq. 3.1 to 3.11 that the plan breaks for this problem; the worst step of each."""
    return (*storage_violations(plan, problem.storage, problem.step_s), *_problem_checks(plan, problem))


def level_scale_j(storage: Storage, scale_w: float, step_s: float) -> float:
    """What tolerances of battery levels are relative to: its capacity, and a step at the largest power."""
    return storage.battery.capacity_j + scale_w * step_s


def level_scale_kg(storage: Storage, scale_w: float, step_s: float) -> float:
    """The same for hydrogen; 0 for a site without."""
    if storage.hydrogen is None:
        return 0.0
    return storage.hydrogen.tank_kg + storage.hydrogen.produced_kg(scale_w, step_s)


def _storage_checks(plan: PowerPlan, storage: Storage, step_s: float) -> Iterator[Violation]:
    power_w = plan.scale_w
    battery, level = storage.battery, plan.battery_j
    size_j = level_scale_j(storage, power_w, step_s)
    for name in ("charge", "discharge", "electrolyzer", "fuel_cell", "curtailed"):
        yield from _worst(f"{name}_w >= 0", -getattr(plan, f"{name}_w"), power_w)
    yield from _worst("P_ch <= P_ch_max (3.6)", plan.charge_w - battery.charge_limit_w, power_w)
    yield from _worst("P_dch <= P_dch_max (3.5)", plan.discharge_w - battery.discharge_limit_w, power_w)
    both = np.minimum(plan.charge_w, plan.discharge_w)
    yield from _worst("charging excludes discharging (2.3)", both, power_w)
    expected = energy_after_step(battery, level[:-1], plan.charge_w, plan.discharge_w, step_s)  # type: ignore[arg-type]
    yield from _worst("battery development (2.3)", np.abs(level[1:] - expected), size_j)
    yield from _worst("SoC >= SoC_min (3.3)", battery.min_j - level, size_j)
    yield from _worst("SoC <= SoC_max (3.3)", level - battery.max_j, size_j)
    hydrogen = storage.hydrogen
    if hydrogen is None:
        used = plan.electrolyzer_w + plan.fuel_cell_w + plan.hydrogen_kg[:-1] + plan.hydrogen_kg[1:]
        yield from _worst("no hydrogen at this site", used, 0.0)
        return
    tank, stored = hydrogen.tank_kg, plan.hydrogen_kg
    size_kg = level_scale_kg(storage, power_w, step_s)
    ez, fc = plan.electrolyzer_w, plan.fuel_cell_w
    yield from _worst("P_fc <= P_fc_max (3.7)", fc - hydrogen.fuel_cell_max_w, power_w)
    yield from _worst("P_ez <= P_ez_max (3.8)", ez - hydrogen.electrolyzer_max_w, power_w)
    below = np.where(ez > TOLERANCE * power_w, hydrogen.electrolyzer_min_w - ez, 0.0)
    yield from _worst("P_ez = 0 or P_ez >= P_ez_min (3.8)", below, power_w)
    following = level_after_step(hydrogen, stored[:-1], ez, fc, step_s)  # type: ignore[arg-type]
    yield from _worst("hydrogen development (2.7)", np.abs(stored[1:] - following), size_kg)
    yield from _worst("LoH >= 0 (3.4)", -stored, size_kg)
    yield from _worst("LoH <= LoH_max (3.4)", stored - tank, size_kg)


def _problem_checks(plan: PowerPlan, problem: PowerProblem) -> Iterator[Violation]:
    power_w = plan.scale_w
    size_j = level_scale_j(problem.storage, power_w, problem.step_s)
    start = problem.start_state
    yield from _worst("starts at the level given", np.abs(plan.battery_j[:1] - start.battery_j), size_j)
    yield from _worst("keeps the production given", np.abs(plan.renew_w - problem.renew_w), power_w)
    yield from _worst("keeps the demand given", np.abs(plan.load_w - problem.load_w), power_w)
    yield from _worst("SoC(T) >= SoC_target (3.9)", _at_end(problem.target_j - plan.battery_j), size_j)
    if problem.storage.hydrogen is not None:
        size_kg = level_scale_kg(problem.storage, power_w, problem.step_s)
        yield from _worst(
            "starts with the hydrogen given", np.abs(plan.hydrogen_kg[:1] - start.hydrogen_kg), size_kg
        )
        yield from _worst(
            "LoH(T) >= LoH_target (3.10)", _at_end(problem.target_kg - plan.hydrogen_kg), size_kg
        )
    least = np.maximum(problem.floors_w, (1.0 - plan.relax_factor) * problem.load_w)
    yield from _worst("P_prod >= max((1 - rf) * P_load, floor) (3.11)", least - plan.produced_w, power_w)
    yield from _worst("the servers' most", plan.envelope_w - problem.most_w, power_w)
    under = np.minimum(plan.produced_w, problem.most_w) - plan.envelope_w
    yield from _worst("curtailed only beyond the servers' most", under, power_w)


def _at_end(excess: FloatArray) -> FloatArray:
    """The same array with only its last value able to be a violation."""
    last = np.full_like(excess, -np.inf)
    last[-1] = excess[-1]
    return last


def _worst(constraint: str, excess: FloatArray, scale: float) -> Iterator[Violation]:
    """The step where ``excess`` is largest, if it is beyond the tolerance (or not a number)."""
    broken = ~(excess <= TOLERANCE * scale)
    if broken.any():
        step = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
        yield Violation(constraint, step, float(excess[step]))
