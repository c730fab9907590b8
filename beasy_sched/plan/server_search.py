"""Search for the best counts: small models to the end, others by rounding and improving.

The distance of the best plan to the least bound is the proven gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from beasy_sched.plan.server_improve import OneServerImprovement
from beasy_sched.plan.server_model import ServerModel
from beasy_sched.plan.server_problem import KindCounts, ServerProblem
from beasy_sched.plan.server_relaxation import Relaxation
from beasy_sched.plan.server_rounding import BestPlan
from beasy_sched.plan.solver import Ending, Solver, SolverLimits

SMALL_COLUMNS = 600
"""Models with at most so many columns in whole numbers are solved to the end."""
_PATHS = 400
"""Paths of single servers that are looked at when a plan is improved."""


@dataclass(frozen=True)
class Found:
    """The best plan found, and how good any plan can be at most."""

    counts: tuple[KindCounts, ...]
    objective: float
    """Flops less the cost of wake-ups."""
    bound: float
    """No plan has a higher objective."""
    ending: Ending
    """How the first optimization that was not finished ended."""

    @property
    def gap(self) -> float:
        """Proven relative distance to the best plan."""
        if math.isinf(self.bound):
            return math.inf
        return max(0.0, self.bound - self.objective) / max(abs(self.bound), 1.0)


def search(problem: ServerProblem, gap: float, limits: SolverLimits) -> Found:
    """Find a plan, if possible within ``gap`` of the best. All sleeping as soon as may be must fit."""
    best = BestPlan(problem)
    bound, ending = math.inf, Ending.DONE
    small = ServerModel(problem, integer=True)
    if small.linear.column_count <= SMALL_COLUMNS:
        bound, ending = _solve(small, best, replace(limits, relative_gap=0.0))
        if ending is Ending.DONE:
            return Found(best.counts, best.objective, bound, ending)
    relaxation = Relaxation(problem, limits)
    if relaxation.solved:
        relaxation.offer_plans(best, gap)
    bound = min(bound, relaxation.bound)
    ending = relaxation.ending if ending is Ending.DONE else ending
    if math.isfinite(bound) and best.objective < bound * (1.0 - gap):
        improvement = OneServerImprovement(problem, best.counts)
        improvement.run(_PATHS, bound * (1.0 - gap))
        best.offer(improvement.counts)
    return Found(best.counts, best.objective, bound, ending)


def _solve(model: ServerModel, best: BestPlan, limits: SolverLimits) -> tuple[float, Ending]:
    """Solve the model in whole numbers; offer its point, and return its bound."""
    solution = Solver(model.linear, limits).minimize(*model.costs())
    if solution.values is None:
        return math.inf, solution.ending
    best.offer(model.counts(solution.values))
    best.offer_switches(model, solution.values)
    return -solution.bound * model.flops_unit, solution.ending
