"""The power decisions (PDM, thesis Section 3.1.1): which source gives and which storage takes, step by step.

Least relax factor first (Eq. 3.12), then the least sum of shortfalls, then the least throughput of
battery and hydrogen. The linear model is solved first; whole numbers come in only where its point
charges and discharges at once, or runs the electrolyzer below its minimum.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.plan.outcome import SolverOutcome, SolverStatus
from beasy_sched.plan.power_check import power_violations
from beasy_sched.plan.power_diagnosis import explain_infeasible
from beasy_sched.plan.power_model import NO_SWITCHES, TOLERANCE, PowerModel, Switches
from beasy_sched.plan.power_plan import PowerPlan
from beasy_sched.plan.power_point import broken_exclusions, plan_of, store_surplus
from beasy_sched.plan.power_problem import PowerProblem, Surplus
from beasy_sched.plan.solver import Ending, Solution, Solver, SolverLimits

_TILT = 1e-3
"""How much more a watt of throughput costs at the end of a window than at its start (twice that for
hydrogen): of plans of equal throughput, the one that acts earlier, and the battery before hydrogen."""

_SLACK = 1e-7
"""By how much a later stage may miss what an earlier one reached, scaled: above the solver's tolerance."""


Costs = list[tuple[IntArray, "FloatArray | float"]]
"""Columns and what they cost."""

CostsOf = Callable[[PowerModel], Costs]


@dataclass(frozen=True)
class Stage:
    """One optimization of the sequence."""

    name: str
    objective: float
    """rf (a share), shortfall or throughput (J)."""
    gap: float
    """Proven relative distance to the best."""


@dataclass(frozen=True)
class PowerDecision:
    """The power decisions of a window, or why there are none."""

    outcome: SolverOutcome
    """Its objective is rf; its gap the largest of the stages."""
    plan: PowerPlan | None
    stages: tuple[Stage, ...] = ()
    whole_numbers: Switches = NO_SWITCHES
    """Which exclusions had to be branched on."""


def plan_power(problem: PowerProblem, limits: SolverLimits | None = None) -> PowerDecision:
    """Find the best power plan of a window.

    A plan that is returned meets every constraint (`power_violations` finds none). Without one, the
    outcome says why: no point, or infeasible and what cannot be met. Raises ConfigError where the
    solver is not installed, and RuntimeError where a returned point would break a constraint.
    """
    limits = limits or SolverLimits()
    deadline_s = time.monotonic() + limits.time_s
    switches = NO_SWITCHES
    plain: _Stages | None = None
    while True:
        model = PowerModel(problem, switches)
        ending = None
        if plain is not None and switches == Switches(electrolyzer=True):
            exact = replace(limits, relative_gap=1e-5, time_s=deadline_s - time.monotonic())
            run = _Stages(model, exact, plain.model)
            ending = run.solve()
        if ending is not Ending.DONE:
            run = _Stages(model, replace(limits, time_s=deadline_s - time.monotonic()))
            ending = run.solve()
        assert run is not None
        if run.values is None:
            return PowerDecision(
                _without_point(problem, ending, switches, limits), None, whole_numbers=switches
            )
        needed = broken_exclusions(model, run.values, switches)
        if needed == switches:
            break
        plain = run if switches == NO_SWITCHES else None
        switches = needed
    plan = plan_of(model, run.values)
    if problem.surplus is Surplus.STORE:
        plan = store_surplus(problem, plan)
    broken = power_violations(plan, problem)
    if broken:
        raise RuntimeError("the plan breaks a constraint: " + "; ".join(map(str, broken)))
    return PowerDecision(_with_point(plan, run, ending), plan, tuple(run.stages), switches)


_NEAR = 5
"""Steps around one that breaks an exclusion in which whole numbers are sought first."""

_NEAR_GAP = 1e-4
"""A result of that search is taken where no stage can be farther than this from its best."""


class _Stages:
    """Runs the stages on one model and keeps the point of the last that gave one.

    With a ``bound_model``, the same without whole numbers, whole numbers are sought only near the steps
    where that one's point breaks the electrolyzer's exclusion; elsewhere it stays on or off as there. No
    plan can beat that point: a stage that ends too far from it gives no point.
    """

    def __init__(
        self, model: PowerModel, limits: SolverLimits, bound_model: PowerModel | None = None
    ) -> None:
        self.model = model
        self.solver = Solver(model.model, limits, tolerance=TOLERANCE)
        self.bound_model = bound_model
        self.bounds = None if bound_model is None else Solver(bound_model.model, limits, tolerance=TOLERANCE)
        self._free = np.zeros(model.problem.steps, dtype=np.bool_)
        self.values: FloatArray | None = None
        self.stages: list[Stage] = []

    def solve(self) -> Ending:
        """Run all stages. Returns how the last one that ran ended; `INFEASIBLE` only for the first."""
        model = self.model
        worst = Ending.DONE
        first = self._run("relax factor", 1.0, lambda m: [(m.relax, 1.0)])
        if first.values is None:
            return first.ending
        if first.ending is not Ending.DONE:
            worst = first.ending
        relax = max(first.objective, 0.0)
        most = relax + _SLACK if relax > _SLACK else 0.0
        for solver, at in self._solvers():
            solver.set_bounds(at.relax, 0.0, most)
        energy_j = model.power_w * model.problem.step_s
        second = self._run("shortfall", energy_j, lambda m: [(m.short, 1.0)])
        if second.values is None:
            return second.ending
        if second.ending is not Ending.DONE:
            worst = second.ending
        for solver, at in self._solvers():
            most = max(second.objective, 0.0) * (1 + _SLACK) + 10 * _SLACK
            solver.add_row(at.short, 1.0, upper=most)
        third = self._run("throughput", energy_j, _throughput)
        if third.values is None and self.bounds is not None:
            self.values = None
        return third.ending if third.ending is not Ending.DONE else worst

    def _solvers(self) -> list[tuple[Solver, PowerModel]]:
        """Every solver at work, with its model."""
        pairs = [(self.solver, self.model)]
        if self.bounds is not None and self.bound_model is not None:
            pairs.append((self.bounds, self.bound_model))
        return pairs

    def _focus(self, point: FloatArray) -> None:
        """Open the electrolyzer's switches near where ``point`` breaks them or parts from the last."""
        hydrogen = self.model.problem.storage.hydrogen
        assert hydrogen is not None
        assert self.bound_model is not None
        assert self.model.electrolyzer_on is not None
        power = point[self.bound_model.electrolyzer]
        on = power >= hydrogen.electrolyzer_min_w / self.model.power_w - TOLERANCE
        broken = (power > TOLERANCE) & ~on
        around = np.convolve(broken, np.ones(2 * _NEAR + 1))[_NEAR : _NEAR + len(broken)]
        free = self._free = self._free | (around > 0.5)
        if self.values is not None:
            free = free | (on != (self.values[self.model.electrolyzer_on] > 0.5))
        lower, upper = np.where(free, 0.0, on), np.where(free, 1.0, on)
        self.solver.set_bounds(self.model.electrolyzer_on, lower, upper)

    def _minimize(self, costs: CostsOf) -> Solution:
        """Minimize; with a bound model, near its point, and no point where that is too far away."""
        if self.bounds is None or self.bound_model is None:
            return self.solver.minimize(*costs(self.model))
        best = self.bounds.minimize(*costs(self.bound_model))
        if best.values is None:
            return replace(best, ending=Ending.FAILED)
        self._focus(best.values)
        solution = replace(self.solver.minimize(*costs(self.model)), bound=best.objective)
        if solution.values is not None and solution.gap > _NEAR_GAP:
            return replace(solution, ending=Ending.FAILED, values=None)
        return solution

    def _run(self, name: str, unit: float, costs: CostsOf) -> Solution:
        solution = self._minimize(costs)
        if self.stages and solution.ending is Ending.INFEASIBLE:
            # The point of the stage before is feasible: only rounding can say otherwise.
            solution = replace(solution, ending=Ending.FAILED)
        if solution.values is not None:
            self.values = solution.values
            self.stages.append(Stage(name, solution.objective * unit, solution.gap))
        return solution


def _throughput(model: PowerModel) -> Costs:
    tilt = _TILT * np.arange(model.problem.steps) / model.problem.steps
    costs: Costs = [(model.charge, 1.0 + tilt), (model.discharge, 1.0 + tilt)]
    if model.electrolyzer is not None and model.fuel_cell is not None:
        costs += [(model.electrolyzer, 1.0 + 2 * tilt), (model.fuel_cell, 1.0 + 2 * tilt)]
    return costs


def _with_point(plan: PowerPlan, run: _Stages, ending: Ending) -> SolverOutcome:
    gap = max(stage.gap for stage in run.stages)
    if ending is Ending.DONE and len(run.stages) == 3:
        return SolverOutcome(SolverStatus.OPTIMAL, "", plan.relax_factor, gap)
    last = run.stages[-1].name
    message = (
        f"{ending.value} ended the search while it lowered the {last}: the plan can be used, "
        "but a better one may exist"
    )
    return SolverOutcome(
        SolverStatus.FEASIBLE, message, plan.relax_factor, gap if len(run.stages) == 3 else math.inf
    )


def _without_point(
    problem: PowerProblem, ending: Ending, switches: Switches, limits: SolverLimits
) -> SolverOutcome:
    if ending is Ending.INFEASIBLE:
        return SolverOutcome(SolverStatus.INFEASIBLE, explain_infeasible(problem, switches, limits))
    return SolverOutcome(
        SolverStatus.NO_POINT,
        f"{ending.value} ended the search before any plan was found: allow more, or a shorter window",
    )
