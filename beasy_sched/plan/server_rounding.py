"""From a fractional plan to whole servers that keep every rule and the envelope.

The running totals of wake-ups and falls asleep are cut down to whole numbers after adding one and the
same offset in [0, 1) to all of them. Each row of the model that links them has the form
``a - b <= whole number``, which such a rounding keeps; so on-times stay served, whatever the offset. The
number of servers on moves by less than one a kind, which the P-states can mostly absorb.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.plan.server_fill import Trajectory, fill, least_energy_j
from beasy_sched.plan.server_model import ServerModel
from beasy_sched.plan.server_problem import KindCounts, ServerProblem, objective_flops, total_energy_j

_OFFSETS = (np.arange(24) + 0.5) / 24
_SNAP = 1e6
"""Totals are taken to the nearest millionth first: solver noise must not move a whole number."""


class BestPlan:
    """The best plan in whole numbers so far; at first the one in which all servers sleep when they may."""

    def __init__(self, problem: ServerProblem) -> None:
        """Begin with the plan of least energy, which must be within the budget."""
        self.problem = problem
        self.counts = fill(problem, _all_asleep(problem))
        self.objective = objective_flops(problem, self.counts)

    def offer(self, counts: tuple[KindCounts, ...]) -> None:
        """Keep these counts if they are within the budget and better than the best."""
        objective = objective_flops(self.problem, counts)
        within = (total_energy_j(self.problem, counts) <= self.problem.allowed_j).all()
        if within and objective > self.objective:
            self.counts, self.objective = counts, objective

    def offer_switches(self, model: ServerModel, point: FloatArray) -> None:
        """Keep a point's numbers of switches, with P-states chosen anew, if that is better."""
        paths = next(roundings(model, point))
        if (least_energy_j(self.problem, paths) <= self.problem.allowed_j).all():
            self.offer(fill(self.problem, paths))

    def offer_roundings(self, model: ServerModel, point: FloatArray) -> FloatArray:
        """Round a fractional point in several ways; return the steps' least excess over the budget, J: [T].

        The excess is that of the rounding that fits best; it is zero where a plan was found.
        """
        least = np.full(self.problem.steps, np.inf)
        for paths in roundings(model, point):
            excess_j = least_energy_j(self.problem, paths) - self.problem.allowed_j
            if (excess_j <= 0).all():
                self.offer(fill(self.problem, paths))
            if np.maximum(excess_j, 0.0).sum() < np.maximum(least, 0.0).sum():
                least = excess_j
        return np.asarray(np.maximum(least, 0.0))


def roundings(model: ServerModel, point: FloatArray) -> Iterator[tuple[Trajectory, ...]]:
    """Round the running totals of a point of the relaxed model with each offset."""
    seen = set()
    for offset in _OFFSETS:
        paths = tuple(
            Trajectory.from_switches(start, *(_rounded_steps(point[c], offset) for c in (k.woken, k.slept)))
            for k, start in zip(model.columns, model.problem.on_at_start, strict=True)
        )
        key = _key(paths)
        if key not in seen:
            seen.add(key)
            yield paths


def _all_asleep(problem: ServerProblem) -> tuple[Trajectory, ...]:
    paths = []
    for table, start, obliged in zip(problem.tables, problem.on_at_start, problem.obliged, strict=True):
        on = obliged if table.can_sleep else np.full(problem.steps, table.servers)
        paths.append(Trajectory(on, np.zeros_like(on), -np.diff(on, prepend=start)))
    return tuple(paths)


def _rounded_steps(totals: FloatArray, offset: float) -> IntArray:
    whole = np.floor(np.round(totals * _SNAP) / _SNAP + offset).astype(np.int64)
    return np.diff(whole, prepend=0)


def _key(paths: Sequence[Trajectory]) -> bytes:
    return b"".join(array.tobytes() for path in paths for array in (path.waking, path.falling))
