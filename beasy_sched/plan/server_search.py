"""Search for the best counts: small models to the end, others by rounding the relaxed model.

The relaxed optimum bounds every plan; the distance of the best plan to it is the proven gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from beasy_sched.model.platform import FloatArray
from beasy_sched.plan.server_improve import OneServerImprovement
from beasy_sched.plan.server_model import ServerModel
from beasy_sched.plan.server_price_rows import PriceRows
from beasy_sched.plan.server_problem import KindCounts, ServerProblem
from beasy_sched.plan.server_rounding import BestPlan
from beasy_sched.plan.server_whole_rows import WholeServerRows
from beasy_sched.plan.solver import Ending, Solver, SolverLimits

SMALL_COLUMNS = 600
"""Models with at most so many columns in whole numbers are solved to the end."""
_CUT_ROUNDS = 8
_RESERVE_ROUNDS = 6
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
    """How the solver ended where it fell short of the gap."""

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
    relaxed_bound, relaxed_ending = _relax_and_round(problem, best, gap, limits)
    if ending is Ending.DONE:
        ending = relaxed_ending
    bound = min(bound, relaxed_bound)
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


def _relax_and_round(
    problem: ServerProblem, best: BestPlan, gap: float, limits: SolverLimits
) -> tuple[float, Ending]:
    """Offer roundings of the relaxed optimum; return its bound."""
    model = ServerModel(problem, integer=False)
    solver = Solver(model.linear, limits)
    relaxed = solver.minimize(*model.costs())
    if relaxed.values is None:
        return math.inf, relaxed.ending
    point, bound = relaxed.values, -relaxed.bound * model.flops_unit
    best.offer_roundings(model, point)
    if best.objective < bound * (1.0 - gap):
        point, bound = _tightened(model, solver, point, bound)
    if best.objective < bound * (1.0 - gap):
        _round_within_reserves(model, solver, point, best)
    return bound, Ending.DONE


def _tightened(
    model: ServerModel, solver: Solver, point: FloatArray, bound: float
) -> tuple[FloatArray, float]:
    """Add rows for whole servers while they lower the bound."""
    rows = _tightening(model)
    if rows is None:
        return point, bound
    for _ in range(_CUT_ROUNDS):
        if not rows.add_broken(solver, point):
            break
        solution = solver.minimize(*model.costs())
        if solution.values is None:
            break
        before, bound = bound, min(bound, -solution.bound * model.flops_unit)
        point = solution.values
        if bound > before * (1.0 - 1e-6):
            break
    return point, bound


def _tightening(model: ServerModel) -> WholeServerRows | PriceRows | None:
    if WholeServerRows.fit(model):
        return WholeServerRows(model)
    return PriceRows(model) if PriceRows.fit(model) else None


def _round_within_reserves(model: ServerModel, solver: Solver, point: FloatArray, best: BestPlan) -> None:
    """Round; while no rounding fits the budget, solve again with energy kept back where they exceed it.

    Keeping back what one more server of each kind could draw makes every rounding fit, which the last
    round does.
    """
    problem = model.problem
    most_j = np.clip(problem.allowed_j - problem.least_j, 0.0, _one_more_server_j(problem))
    reserve_j = np.zeros(problem.steps)
    for attempt in range(_RESERVE_ROUNDS):
        excess_j = best.offer_roundings(model, point)
        if not excess_j.any():
            return
        last = attempt == _RESERVE_ROUNDS - 2
        reserve_j = most_j if last else np.minimum(reserve_j + excess_j * 1.01, most_j)
        kept = reserve_j / model.energy_unit_j
        solver.set_bounds(model.reserve, kept, kept)
        solution = solver.minimize(*model.costs())
        if solution.values is None:
            return
        point = solution.values


def _one_more_server_j(problem: ServerProblem) -> float:
    """What one more server of each kind, on or waking or falling asleep, adds to a step at most."""
    extras = (
        abs(t.on_j[0] - t.asleep_j) + max(0.0, t.waking_j[0] - t.on_j[0]) + max(0.0, t.falling_j - t.asleep_j)
        for t in problem.tables
        if t.can_sleep
    )
    return float(sum(extras))
