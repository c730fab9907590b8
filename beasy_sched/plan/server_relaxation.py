"""The relaxed model: fractions of servers. Its optimum bounds every plan, its roundings are plans."""

from __future__ import annotations

import math

import numpy as np

from beasy_sched.plan.server_model import ServerModel
from beasy_sched.plan.server_price_rows import PriceRows
from beasy_sched.plan.server_problem import ServerProblem
from beasy_sched.plan.server_rounding import BestPlan
from beasy_sched.plan.server_whole_rows import WholeServerRows
from beasy_sched.plan.solver import Ending, Solver, SolverLimits

_ROW_ROUNDS = 8
_RESERVE_ROUNDS = 6
_LITTLE = 1e-6


class Relaxation:
    """The relaxed model in the solver, its latest point, and the least bound so far."""

    def __init__(self, problem: ServerProblem, limits: SolverLimits) -> None:
        """Solve it once."""
        self.model = ServerModel(problem, integer=False)
        self.bound = math.inf
        """No plan has a higher objective, flops."""
        self.ending = Ending.DONE
        """How the first optimization that was not finished ended."""
        self._solver = Solver(self.model.linear, limits)
        self._point = np.zeros(self.model.linear.column_count)
        self.solved = self._solve(bounds=True)

    def offer_plans(self, best: BestPlan, gap: float) -> None:
        """Round in several ways, tightening the model where the best plan is not within ``gap``."""
        best.offer_roundings(self.model, self._point)
        if best.objective < self.bound * (1.0 - gap):
            self._tighten()
        if best.objective < self.bound * (1.0 - gap):
            self._round_within_reserves(best)

    def _solve(self, *, bounds: bool) -> bool:
        solution = self._solver.minimize(*self.model.costs())
        if self.ending is Ending.DONE:
            self.ending = solution.ending
        if solution.values is None:
            return False
        self._point = solution.values
        if bounds:
            self.bound = min(self.bound, -solution.bound * self.model.flops_unit)
        return True

    def _tighten(self) -> None:
        """Add rows that only whole servers obey while they lower the bound."""
        rows = _rows(self.model)
        for _ in range(_ROW_ROUNDS if rows else 0):
            before = self.bound
            if not (rows and rows.add_broken(self._solver, self._point) and self._solve(bounds=True)):
                break
            if self.bound > before * (1.0 - _LITTLE):
                break

    def _round_within_reserves(self, best: BestPlan) -> None:
        """Round; while no rounding fits the budget, solve again with energy kept back where they exceed it.

        Keeping back what one more server of each kind could draw makes every rounding fit, which the
        last round does.
        """
        problem = best.problem
        most_j = np.clip(problem.allowed_j - problem.least_j, 0.0, _one_more_server_j(problem))
        reserve_j = np.zeros(problem.steps)
        for attempt in range(_RESERVE_ROUNDS):
            excess_j = best.offer_roundings(self.model, self._point)
            if not excess_j.any():
                return
            last = attempt == _RESERVE_ROUNDS - 2
            reserve_j = most_j if last else np.minimum(reserve_j + excess_j * 1.01, most_j)
            kept = reserve_j / self.model.energy_unit_j
            self._solver.set_bounds(self.model.reserve, kept, kept)
            if not self._solve(bounds=False):
                return


def _rows(model: ServerModel) -> WholeServerRows | PriceRows | None:
    """The rows for whole servers that fit the model, if any do."""
    if WholeServerRows.fit(model):
        return WholeServerRows(model)
    return PriceRows(model) if PriceRows.fit(model) else None


def _one_more_server_j(problem: ServerProblem) -> float:
    """What one more server of each kind, on or waking or falling asleep, adds to a step at most."""
    extras = (
        abs(t.on_j[0] - t.asleep_j) + max(0.0, t.waking_j[0] - t.on_j[0]) + max(0.0, t.falling_j - t.asleep_j)
        for t in problem.tables
        if t.can_sleep
    )
    return float(sum(extras))
