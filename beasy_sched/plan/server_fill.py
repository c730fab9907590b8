"""P-states for given numbers of servers: the most flops within the energy of each step.

All steps at once. First along the hulls, best flops per joule first, as the relaxed optimum does; then
what energy is left buys single faster P-states. A step loses at most one server's step on the hull.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.plan.server_problem import KindCounts, ServerProblem


@dataclass(frozen=True)
class Trajectory:
    """What the servers of one kind do in each step, in numbers: [T] each; the others sleep."""

    through: IntArray
    """On in the step before and in this one."""
    waking: IntArray
    falling: IntArray

    @classmethod
    def from_switches(cls, start: int, waking: IntArray, falling: IntArray) -> Trajectory:
        """Begin with ``start`` servers on."""
        return cls(start + np.cumsum(waking - falling) - waking, waking, falling)


@dataclass(frozen=True)
class _Group:
    """Servers of one kind that are all busy for the same part of the step."""

    counts: IntArray
    """[T, D], changed as they get faster."""
    energy_j: FloatArray
    flops: FloatArray
    hull: list[int]

    def moves(self, pairs: list[tuple[int, int]]) -> list[tuple[float, float, int, int, _Group]]:
        return [
            (
                float(self.flops[high] - self.flops[low]),
                float(self.energy_j[high] - self.energy_j[low]),
                low,
                high,
                self,
            )
            for low, high in pairs
        ]


def least_energy_j(problem: ServerProblem, trajectories: tuple[Trajectory, ...]) -> FloatArray:
    """Energy of each step with every server that is on at its P-state of least power, J: [T]."""
    total_j = np.zeros(problem.steps)
    for table, path in zip(problem.tables, trajectories, strict=True):
        total_j += path.through * table.on_j[0] + path.waking * table.waking_j[0]
        if table.can_sleep:
            sleeping = table.servers - path.through - path.waking - path.falling
            total_j += sleeping * table.asleep_j + path.falling * table.falling_j
    return total_j


def fill(problem: ServerProblem, trajectories: tuple[Trajectory, ...]) -> tuple[KindCounts, ...]:
    """Choose the P-states. The least energy of the trajectories must be within the budget."""
    groups, spare_j = _slowest(problem, trajectories)
    speed_up(groups, spare_j, thorough=True)
    pairs = zip(groups[::2], groups[1::2], trajectories, strict=True)
    return tuple(KindCounts(whole.counts, waking.counts, path.falling) for whole, waking, path in pairs)


def most_flops(problem: ServerProblem, trajectories: tuple[Trajectory, ...]) -> FloatArray:
    """Flops of each step, nearly the most: [T]; minus infinity where the least energy is too much."""
    groups, spare_j = _slowest(problem, trajectories)
    enough = spare_j >= 0.0
    speed_up(groups, spare_j, thorough=False)
    return np.where(enough, sum(group.counts @ group.flops for group in groups), -np.inf)


def _slowest(problem: ServerProblem, trajectories: tuple[Trajectory, ...]) -> tuple[list[_Group], FloatArray]:
    """All servers at their P-state of least power: two groups a kind, and the energy to spare, J: [T]."""
    groups: list[_Group] = []
    for table, path in zip(problem.tables, trajectories, strict=True):
        for number, energy_j, flops in (
            (path.through, table.on_j, table.on_flops),
            (path.waking, table.waking_j, table.waking_flops),
        ):
            counts = np.zeros((problem.steps, len(table.pstates)), dtype=np.int64)
            counts[:, 0] = number
            groups.append(_Group(counts, energy_j, flops, table.hull.tolist()))
    return groups, problem.allowed_j - least_energy_j(problem, trajectories)


def speed_up(groups: list[_Group], spare_j: FloatArray, *, thorough: bool) -> None:
    """Spend the spare energy on faster P-states, changing the groups' counts and ``spare_j``.

    First along the hulls only; ``thorough`` then tries every change of P-state that the rest pays for.
    """
    on_hull = [move for g in groups for move in g.moves(list(zip(g.hull[:-1], g.hull[1:], strict=True)))]
    on_hull.sort(key=lambda move: -move[0] / move[1] if move[1] > 0 else -np.inf)
    singles = [
        move
        for g in groups
        for move in g.moves([(a, b) for b in range(g.counts.shape[1]) for a in range(b)])
        if move[0] > 0
    ]
    singles.sort(key=lambda move: -move[0])
    for moves in (on_hull, singles, singles) if thorough else (on_hull,):
        for _, energy_j, low, high, group in moves:
            able = group.counts[:, low]
            number = able.copy()
            if energy_j > 0:
                number = np.minimum(able, np.maximum(0.0, spare_j / energy_j).astype(np.int64))
            group.counts[:, low] -= number
            group.counts[:, high] += number
            spare_j -= number * energy_j
