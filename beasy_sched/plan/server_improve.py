"""Improve a plan one server at a time: the best path of one server while the others keep theirs.

The best path is exact, by dynamic programming over the steps; what a step is worth with the server on,
waking, falling asleep or asleep comes from the P-states that the energy then allows to all servers.
"""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.plan.assignment import KindStart, on_by_rank
from beasy_sched.plan.server_fill import Trajectory, fill, most_flops
from beasy_sched.plan.server_problem import KindCounts, ServerProblem, objective_flops

_WAKING = 1


class OneServerImprovement:
    """A plan as paths of single servers, improved server by server."""

    def __init__(self, problem: ServerProblem, counts: tuple[KindCounts, ...]) -> None:
        """Begin with a plan."""
        self.problem = problem
        self.counts = counts
        self.objective = objective_flops(problem, counts)
        self._starts = [kind_start(problem, k) for k in range(len(problem.tables))]
        self._on = [
            on_by_rank(c.waking.sum(axis=1), c.falling, start, problem.minimum_on_steps)
            for c, start in zip(counts, self._starts, strict=True)
        ]
        self._numbers = tuple(
            Trajectory(c.whole.sum(axis=1), c.waking.sum(axis=1), c.falling) for c in counts
        )

    def run(self, evaluations: int, enough: float) -> None:
        """Improve until no server does, the objective is ``enough``, or so many paths were looked at."""
        tried: set[tuple[int, bytes]] = set()
        while evaluations > 0 and self.objective < enough:
            todo = [p for p in self._different_paths() if p[:2] not in tried]
            if not todo:
                return
            improved = False
            for kind, path, server in todo[:evaluations]:
                evaluations -= 1
                tried.add((kind, path))
                improved |= self._improve(kind, server)
            if improved:
                tried.clear()

    def _different_paths(self) -> list[tuple[int, bytes, int]]:
        """One server for every kind, path and start that differ; those that switch most first."""
        found: dict[tuple[int, bytes], tuple[int, int]] = {}
        for kind, (on, start) in enumerate(zip(self._on, self._starts, strict=True)):
            if self.problem.tables[kind].can_sleep:
                switches = (on[1:] != on[:-1]).sum(axis=0)
                for server in range(on.shape[1]):
                    key = on[:, server].tobytes() + start.on[server].tobytes()
                    key += start.obliged_steps[server].tobytes()
                    found.setdefault((kind, key), (int(-switches[server]), server))
        order = sorted(found.items(), key=lambda item: (item[1][0], item[0][0], item[1][1]))
        return [(kind, path, server) for (kind, path), (_, server) in order]

    def _improve(self, kind: int, server: int) -> bool:
        start = self._starts[kind]
        was_on, old = bool(start.on[server]), self._on[kind][:, server]
        others = _combined(self._numbers[kind], _doing(old, was_on), -1)
        path = best_path(
            self._values(kind, others),
            was_on,
            int(start.obliged_steps[server]),
            self.problem.minimum_on_steps,
        )
        if (path == old).all():
            return False
        numbers = self._with(kind, _combined(others, _doing(path, was_on), 1))
        counts = fill(self.problem, numbers)
        objective = objective_flops(self.problem, counts)
        if objective <= self.objective * (1.0 + 1e-12):
            return False
        self.counts, self.objective, self._numbers = counts, objective, numbers
        self._on[kind][:, server] = path
        return True

    def _values(self, kind: int, others: Trajectory) -> FloatArray:
        """Flops of all servers, less the wake-up's cost, by what one does in the step: [4, T]."""
        values = np.empty((4, self.problem.steps))
        for row, (through, waking, falling) in enumerate(((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0))):
            joined = Trajectory(others.through + through, others.waking + waking, others.falling + falling)
            values[row] = most_flops(self.problem, self._with(kind, joined))
        values[_WAKING] -= self.problem.switch_cost_flops[kind]
        return values

    def _with(self, kind: int, numbers: Trajectory) -> tuple[Trajectory, ...]:
        return (*self._numbers[:kind], numbers, *self._numbers[kind + 1 :])


def _doing(on: BoolArray, was_on: bool) -> Trajectory:
    """What one server does, as numbers of servers."""
    before = np.concatenate(([was_on], on[:-1]))
    parts = (on & before, on & ~before, before & ~on)
    return Trajectory(*(part.astype(np.int64) for part in parts))


def _combined(numbers: Trajectory, one: Trajectory, sign: int) -> Trajectory:
    return Trajectory(
        numbers.through + sign * one.through,
        numbers.waking + sign * one.waking,
        numbers.falling + sign * one.falling,
    )


def kind_start(problem: ServerProblem, kind: int) -> KindStart:
    """Anonymous servers that start as the problem says: those that are on longest obliged first."""
    servers, on = problem.tables[kind].servers, problem.on_at_start[kind]
    obliged = problem.obliged[kind]
    steps = np.zeros(servers, dtype=np.int64)
    for rank in range(on):
        steps[rank] = np.count_nonzero(obliged > rank)
    return KindStart(np.zeros(servers, dtype=np.int8), np.arange(servers) < on, steps)


def best_path(values: FloatArray, on: bool, obliged_steps: int, least: int) -> BoolArray:
    """The path of highest total value of one server that starts on or asleep: [T], on or not.

    ``values``: [4, T], what a step is worth on through, waking, falling asleep, asleep; ``least``: steps
    that a server stays on once woken. States: 0 asleep, a = 1..least on for a steps (at least, at the last).
    """
    steps = values.shape[1]
    best = np.full(least + 1, -np.inf)
    best[max(1, least - obliged_steps) if on else 0] = 0.0
    slept_before = np.zeros(steps, dtype=np.bool_)
    aged_before = np.zeros(steps, dtype=np.bool_)
    for step in range(steps):
        through, waking, falling, asleep = values[:, step]
        new = np.empty_like(best)
        new[2:] = best[1:-1] + through
        new[1] = best[0] + waking
        oldest = best[-1] + through
        aged_before[step] = new[-1] > oldest
        slept_before[step] = best[0] + asleep >= best[-1] + falling
        new[0] = max(best[0] + asleep, best[-1] + falling)
        new[-1] = max(new[-1], oldest)
        best = new
    return _traced(int(np.argmax(best)), slept_before, aged_before, least)


def _traced(state: int, slept_before: BoolArray, aged_before: BoolArray, least: int) -> BoolArray:
    path = np.zeros(len(slept_before), dtype=np.bool_)
    for step in range(len(path) - 1, -1, -1):
        path[step] = state > 0
        if state == 0:
            state = 0 if slept_before[step] else least
        elif state == least:
            state = least - 1 if aged_before[step] else least
        else:
            state -= 1
    return path
