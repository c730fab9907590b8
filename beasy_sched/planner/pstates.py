"""P-states for given numbers of servers: nearly the most flops for the energy of each step.

Steps are independent, so all steps of any number of trajectories are processed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.planner.server_problem import KindCounts, ServerProblem, Trajectory, least_energy_j


def fill(problem: ServerProblem, trajectories: Sequence[Trajectory]) -> tuple[KindCounts, ...]:
    """Choose the P-states. The least energy of the trajectories must be within the budget."""
    numbers = PstateNumbers(problem, trajectories)
    numbers.speed_up_along_hulls()
    numbers.spend_what_is_left()
    return numbers.counts()


def most_flops(problem: ServerProblem, trajectories: Sequence[Trajectory]) -> FloatArray:
    """Flops of each step, nearly the most: [..., T]; minus infinity if the least energy is too much."""
    numbers = PstateNumbers(problem, trajectories)
    enough = numbers.spare_j >= 0.0
    numbers.speed_up_along_hulls()
    flops = np.zeros(problem.steps)
    for table, mine in zip(problem.tables, numbers.counts(), strict=True):
        flops = flops + mine.whole @ table.on_flops
        flops += mine.waking @ table.waking_flops
    return np.where(enough, flops, -np.inf)


class PstateNumbers:
    """Numbers of servers by P-state in each step; at first, all are at their P-state of least power."""

    def __init__(self, problem: ServerProblem, trajectories: Sequence[Trajectory]) -> None:
        """Take the numbers of servers from the trajectories, one for each kind: [3, ..., T]."""
        self._problem, self._trajectories = problem, trajectories
        self.spare_j = problem.allowed_j - least_energy_j(problem, trajectories)
        """Remaining energy of the budget: [..., T]."""
        *starts, count = problem.first_rows
        self.rows: IntArray = np.zeros((count, *self.spare_j.shape), dtype=np.int64)
        """Number of servers by P-state, for each kind a row for each useful P-state of servers that are on
        for the whole step, then of those that wake: [rows, ..., T]."""
        for table, first, path in zip(problem.tables, starts, trajectories, strict=True):
            self.rows[first], self.rows[first + len(table.pstates)] = path[0], path[1]

    def speed_up_along_hulls(self) -> None:
        """Spend the spare energy on faster P-states on the hulls, best flops per joule first."""
        for move in self._problem.moves[0]:
            source, more_j = self.rows[move.source], move.energy_j
            if not source.any():
                continue
            number = source.copy()
            if more_j > 0:
                number = np.minimum(number, np.maximum(0.0, self.spare_j / more_j).astype(np.int64))
            source -= number
            self.rows[move.target] += number
            self.spare_j -= number * more_j

    def spend_what_is_left(self) -> None:
        """Spend the remainder on every affordable change of P-state that gains flops, most flops first."""
        source, target, energy_j = self._problem.gaining
        cheapest_j = np.full(len(self.rows), np.inf)
        np.minimum.at(cheapest_j, source, energy_j)
        rows, spare_j = self.rows.reshape(len(self.rows), -1), self.spare_j.reshape(-1)
        steps = np.flatnonzero(((rows > 0) & (cheapest_j[:, None] <= spare_j)).any(axis=0))
        next_move = np.zeros(len(steps), dtype=np.intp)
        while steps.size:  # in every round, each of these steps makes its next move
            possible = (rows[:, steps].T > 0)[:, source]
            possible &= energy_j <= spare_j[steps, None]
            possible &= np.arange(len(source)) >= next_move[:, None]
            move = possible.argmax(axis=1)
            affordable = possible[np.arange(len(steps)), move]
            steps, move = steps[affordable], move[affordable]
            low, more_j = source[move], energy_j[move]
            number = np.minimum(rows[low, steps], (spare_j[steps] / more_j).astype(np.int64))
            rows[low, steps] -= number
            rows[target[move], steps] += number
            spare_j[steps] -= number * more_j
            next_move = move + 1

    def counts(self) -> tuple[KindCounts, ...]:
        """Return the numbers by kind: [..., T, D]."""
        counts, shape = [], self.spare_j.shape
        for (first, end), path in zip(pairwise(self._problem.first_rows), self._trajectories, strict=True):
            parts = self.rows[first:end].reshape(2, -1, *shape)
            whole, waking = np.ascontiguousarray(np.moveaxis(parts, 1, -1))
            counts.append(KindCounts(whole, waking, np.broadcast_to(path[2], shape)))
        return tuple(counts)
