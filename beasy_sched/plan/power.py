"""The power decisions (PDM, thesis Section 3.1.1): which source gives and which storage takes, step by step.

Least relax factor first (Eq. 3.12), then the least sum of shortfalls, then the least throughput of
battery and hydrogen. The linear model is solved first; whole numbers come in only where its point
charges and discharges at once, or runs the electrolyzer below its minimum.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from beasy_sched.plan.outcome import SolverOutcome, SolverStatus
from beasy_sched.plan.power_check import power_violations
from beasy_sched.plan.power_diagnosis import explain_infeasible
from beasy_sched.plan.power_model import NO_SWITCHES, TOLERANCE, PowerModel, Switches
from beasy_sched.plan.power_plan import FloatArray, PowerPlan
from beasy_sched.plan.power_point import broken_exclusions, plan_of, store_surplus
from beasy_sched.plan.power_problem import PowerProblem, Surplus
from beasy_sched.plan.solver import Ending, Solution, Solver, SolverLimits

_TILT = 1e-3
"""How much more a watt of throughput costs at the end of a window than at its start (twice that for
hydrogen): of plans of equal throughput, the one that acts earlier, and the battery before hydrogen."""

_SLACK = 1e-7
"""By how much a later stage may miss what an earlier one reached, scaled: above the solver's tolerance."""


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
    while True:
        model = PowerModel(problem, switches)
        run = _Stages(model, replace(limits, time_s=deadline_s - time.monotonic()))
        ending = run.solve()
        if run.values is None:
            return PowerDecision(
                _without_point(problem, ending, switches, limits), None, whole_numbers=switches
            )
        needed = broken_exclusions(model, run.values, switches)
        if needed == switches:
            break
        switches = needed
    plan = plan_of(model, run.values)
    if problem.surplus is Surplus.STORE:
        plan = store_surplus(problem, plan)
    broken = power_violations(plan, problem)
    if broken:
        raise RuntimeError("the plan breaks a constraint: " + "; ".join(map(str, broken)))
    return PowerDecision(_with_point(plan, run, ending), plan, tuple(run.stages), switches)


class _Stages:
    """Runs the stages on one model and keeps the point of the last that gave one."""

    def __init__(self, model: PowerModel, limits: SolverLimits) -> None:
        self.model = model
        self.solver = Solver(model.model, limits, tolerance=TOLERANCE)
        self.values: FloatArray | None = None
        self.stages: list[Stage] = []

    def solve(self) -> Ending:
        """Run all stages. Returns how the last one that ran ended; `INFEASIBLE` only for the first."""
        model = self.model
        worst = Ending.DONE
        first = self._run("relax factor", 1.0, (model.relax, 1.0))
        if first.values is None:
            return first.ending
        if first.ending is not Ending.DONE:
            worst = first.ending
        relax = max(first.objective, 0.0)
        most = relax + _SLACK if relax > _SLACK else 0.0
        self.solver.set_bounds(model.relax, 0.0, most)
        energy_j = model.power_w * model.problem.step_s
        second = self._run("shortfall", energy_j, (model.short, 1.0))
        if second.values is None:
            return second.ending
        if second.ending is not Ending.DONE:
            worst = second.ending
        self.solver.add_row(model.short, 1.0, upper=max(second.objective, 0.0) * (1 + _SLACK) + 10 * _SLACK)
        third = self._run("throughput", energy_j, *self._throughput())
        return third.ending if third.ending is not Ending.DONE else worst

    def _throughput(self) -> list[tuple[np.ndarray, FloatArray]]:
        model, steps = self.model, self.model.problem.steps
        tilt = _TILT * np.arange(steps) / steps
        costs = [(model.charge, 1.0 + tilt), (model.discharge, 1.0 + tilt)]
        if model.electrolyzer is not None and model.fuel_cell is not None:
            costs += [(model.electrolyzer, 1.0 + 2 * tilt), (model.fuel_cell, 1.0 + 2 * tilt)]
        return costs

    def _run(self, name: str, unit: float, *costs: tuple[np.ndarray, FloatArray | float]) -> Solution:
        solution = self.solver.minimize(*costs)
        if self.stages and solution.ending is Ending.INFEASIBLE:
            # The point of the stage before is feasible: only rounding can say otherwise.
            solution = replace(solution, ending=Ending.FAILED)
        if solution.values is not None:
            self.values = solution.values
            self.stages.append(Stage(name, solution.objective * unit, solution.gap))
        return solution


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
