"""Search for the best server plan in counts: small models to the end, others by rounding and improving.

1. The relaxed model (fractions of servers) bounds every plan. Its running totals of wake-ups and falls
   asleep are cut down to whole numbers after adding one and the same offset in [0, 1) to all of them. Each
   row of the model that links them has the form ``a - b <= whole number``, which such a rounding keeps; so
   on-times stay served. The number of servers on moves by less than one a kind, which P-states can mostly
   absorb.
2. P-states are chosen for given numbers of servers, all steps at once: first along the hulls, best flops
   per joule first, as the relaxed optimum does; then what energy is left buys single faster P-states. A
   step loses at most one server's step on the hull.
3. The plan is improved one server at a time: the best path of one server while the others keep theirs,
   exact, by dynamic programming over the steps.
4. Numbers become single servers, which have ranks: the lowest that sleep are woken, and the highest that
   may sleep are put to sleep, so that the sets of servers that are on are nested as far as the least
   on-time allows. No server does more than the counts ask. Between windows the ranks are turned round.

The distance of the best plan to the least bound is the proven gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IntArray, StateArray
from beasy_sched.model.platform import Platform
from beasy_sched.plan.server_model import ServerModel, rows_for_whole_servers
from beasy_sched.plan.server_problem import (
    KindCounts,
    KindTable,
    ServerProblem,
    Trajectory,
    all_asleep,
    least_energy_j,
    objective_flops,
    total_energy_j,
)
from beasy_sched.plan.solver import SearchEnd, Solver, SolverLimits


@dataclass(frozen=True)
class _Group:
    """Servers of one kind that are all busy for the same part of the step."""

    counts: IntArray
    """[T, D], changed as they get faster."""
    energy_j: FloatArray
    flops: FloatArray
    hull: list[int]

    def moves(self, pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[float, float, int, int, _Group]]:
        """What a server gains and draws more by each change of P-state."""
        for low, high in pairs:
            flops, energy_j = self.flops[high] - self.flops[low], self.energy_j[high] - self.energy_j[low]
            yield float(flops), float(energy_j), low, high, self


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
    on_hull = [move for g in groups for move in g.moves(pairwise(g.hull))]
    on_hull.sort(key=lambda move: -move[0] / move[1] if move[1] > 0 else -np.inf)
    rounds = [on_hull]
    if thorough:
        pairs = [[(a, b) for b in range(g.counts.shape[1]) for a in range(b)] for g in groups]
        singles = [move for g, p in zip(groups, pairs, strict=True) for move in g.moves(p) if move[0] > 0]
        singles.sort(key=lambda move: -move[0])
        rounds += [singles, singles]
    for moves in rounds:
        for _, energy_j, low, high, group in moves:
            able = group.counts[:, low]
            number = able.copy()
            if energy_j > 0:
                number = np.minimum(able, np.maximum(0.0, spare_j / energy_j).astype(np.int64))
            group.counts[:, low] -= number
            group.counts[:, high] += number
            spare_j -= number * energy_j


_OFFSETS = (np.arange(24) + 0.5) / 24
_SNAP = 1e6
"""Totals are taken to the nearest millionth first: solver noise must not move a whole number."""


class BestPlan:
    """The best plan in whole numbers so far, and how good any plan can be at most.

    At first it is the plan in which all servers sleep when they may.
    """

    def __init__(self, problem: ServerProblem) -> None:
        """Begin with the plan of least energy, which must be within the budget."""
        self.problem = problem
        self.counts = fill(problem, all_asleep(problem))
        self.objective = objective_flops(problem, self.counts)
        """Flops less the cost of wake-ups."""
        self.bound = math.inf
        """No plan has a higher objective."""
        self.ending = SearchEnd.DONE
        """How the first optimization that was not finished ended."""

    @property
    def gap(self) -> float:
        """Proven relative distance to the best plan."""
        if math.isinf(self.bound):
            return math.inf
        return max(0.0, self.bound - self.objective) / max(abs(self.bound), 1.0)

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
            _rounded(point[k.woken], point[k.slept], start, offset)
            for k, start in zip(model.columns, model.problem.on_at_start, strict=True)
        )
        key = b"".join(array.tobytes() for path in paths for array in (path.waking, path.falling))
        if key not in seen:
            seen.add(key)
            yield paths


def _rounded(woken: FloatArray, slept: FloatArray, start: int, offset: float) -> Trajectory:
    totals = np.round(np.stack([woken, slept]) * _SNAP) / _SNAP
    waking, falling = np.diff(np.floor(totals + offset).astype(np.int64), prepend=0)
    return Trajectory(start + np.cumsum(waking - falling) - waking, waking, falling)


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
        self.ending = SearchEnd.DONE
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
        if self.ending is SearchEnd.DONE:
            self.ending = solution.ending
        if solution.values is None:
            return False
        self._point = solution.values
        if bounds:
            self.bound = min(self.bound, -solution.bound * self.model.flops_unit)
        return True

    def _tighten(self) -> None:
        """Add rows that only whole servers obey while they lower the bound."""
        rows = rows_for_whole_servers(self.model)
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


def _one_more_server_j(problem: ServerProblem) -> float:
    """What one more server of each kind, on or waking or falling asleep, adds to a step at most."""
    extras = (
        abs(t.on_j[0] - t.asleep_j) + max(0.0, t.waking_j[0] - t.on_j[0]) + max(0.0, t.falling_j - t.asleep_j)
        for t in problem.tables
        if t.can_sleep
    )
    return float(sum(extras))


_GOLDEN_SECTION = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class KindStart:
    """Servers of one kind in the step before the first, by rank."""

    states: StateArray
    """P-state numbers; the sleep state's number when asleep."""
    on: BoolArray
    obliged_steps: IntArray
    """Steps for which each must still stay on (0 for servers that may sleep at once)."""


def ranked_hosts(platform: Platform, kind: int, window: int) -> IntArray:
    """Host ids of a kind by rank in the window of this number (0 for the first).

    Each window begins its ranks about 0.618 of the way round from where the window before did, which
    spreads any number of windows evenly over the servers.
    """
    hosts = np.flatnonzero(platform.kind_of == kind)
    return np.roll(hosts, -(int(window * _GOLDEN_SECTION * len(hosts)) % max(1, len(hosts))))


def on_by_rank(waking: IntArray, falling: IntArray, start: KindStart, minimum_on_steps: int) -> BoolArray:
    """Which server is on in which step, waking included: [T, servers of the kind].

    Raises ValueError where the counts ask more servers to wake or sleep than can.
    """
    on, may_sleep_from = start.on.copy(), start.obliged_steps.astype(np.int64)
    result = np.empty((len(waking), len(on)), dtype=np.bool_)
    for step, (wake, fall) in enumerate(zip(waking.tolist(), falling.tolist(), strict=True)):
        if wake or fall:
            asleep = np.flatnonzero(~on)
            ready = np.flatnonzero(on & (may_sleep_from <= step))
            if wake > len(asleep) or fall > len(ready):
                raise ValueError(
                    f"step {step}: {wake} of {len(asleep)} to wake, {fall} of {len(ready)} to sleep"
                )
            on[asleep[:wake]] = True
            may_sleep_from[asleep[:wake]] = step + minimum_on_steps
            on[ready[len(ready) - fall :]] = False
        result[step] = on
    return result


def states_by_rank(
    table: KindTable, counts: KindCounts, start: KindStart, minimum_on_steps: int, sleep_pstate: int
) -> StateArray:
    """P-state number of every server of a kind in every step: [T, servers of the kind], by rank.

    In each step as many servers as can be keep the P-state that they had.
    """
    on = on_by_rank(counts.waking.sum(axis=1), counts.falling, start, minimum_on_steps)
    states = np.full(on.shape, sleep_pstate, dtype=np.int8)
    useful = {int(number): index for index, number in enumerate(table.pstates)}
    had = np.array([useful.get(int(state), -1) for state in start.states], dtype=np.int8)
    was_on = start.on
    for step, now_on in enumerate(on):
        staying, waking = np.flatnonzero(now_on & was_on), np.flatnonzero(now_on & ~was_on)
        had[staying] = _kept(had[staying], counts.whole[step])
        had[waking] = np.repeat(np.arange(len(table.pstates), dtype=np.int8), counts.waking[step])
        states[step, now_on] = table.pstates[had[now_on]]
        was_on = now_on
    return states


def _kept(had: StateArray, wanted: IntArray) -> StateArray:
    """Give out ``wanted[d]`` times each P-state so that most keep what they had; the others move little."""
    order = np.argsort(had, kind="stable")
    sorted_had = had[order]
    present = np.bincount(had[had >= 0], minlength=len(wanted))
    first = np.searchsorted(sorted_had, np.arange(len(wanted)))
    place = np.arange(len(had)) - first[np.maximum(sorted_had, 0)]
    keeps = (sorted_had >= 0) & (place < wanted[np.maximum(sorted_had, 0)])
    missing = np.maximum(wanted - present, 0)
    result = had.copy()
    result[order[~keeps]] = np.repeat(np.arange(len(wanted), dtype=np.int8), missing)
    return result


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
        others = self._numbers[kind].plus(*(-part for part in _doing(old, was_on)))
        path = best_path(
            self._values(kind, others),
            was_on,
            int(start.obliged_steps[server]),
            self.problem.minimum_on_steps,
        )
        if (path == old).all():
            return False
        numbers = self._with(kind, others.plus(*_doing(path, was_on)))
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
        for row, one in enumerate(((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0))):
            values[row] = most_flops(self.problem, self._with(kind, others.plus(*one)))
        values[_WAKING] -= self.problem.switch_cost_flops[kind]
        return values

    def _with(self, kind: int, numbers: Trajectory) -> tuple[Trajectory, ...]:
        return (*self._numbers[:kind], numbers, *self._numbers[kind + 1 :])


def _doing(on: BoolArray, was_on: bool) -> tuple[IntArray, IntArray, IntArray]:
    """What one server does in each step, as numbers: on through it, waking, falling asleep."""
    before = np.concatenate(([was_on], on[:-1]))
    through, waking, falling = on & before, on & ~before, before & ~on
    return through.astype(np.int64), waking.astype(np.int64), falling.astype(np.int64)


def kind_start(problem: ServerProblem, kind: int) -> KindStart:
    """Anonymous servers that start as the problem says: those that are on longest obliged first."""
    servers, on, obliged = problem.tables[kind].servers, problem.on_at_start[kind], problem.obliged[kind]
    ranks = np.arange(servers)
    steps = np.where(ranks < on, (obliged[:, None] > ranks).sum(axis=0), 0)
    return KindStart(np.zeros(servers, dtype=np.int8), ranks < on, steps)


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


SMALL_COLUMNS = 600
"""Models with at most so many columns in whole numbers are solved to the end."""
_PATHS = 400
"""Paths of single servers that are looked at when a plan is improved."""


def search(problem: ServerProblem, gap: float, limits: SolverLimits) -> BestPlan:
    """Find a plan, if possible within ``gap`` of the best. All sleeping as soon as may be must fit."""
    best = BestPlan(problem)
    small = ServerModel(problem, integer=True)
    if small.linear.column_count <= SMALL_COLUMNS:
        best.bound, best.ending = _solve(small, best, replace(limits, relative_gap=0.0))
        if best.ending is SearchEnd.DONE:
            return best
    relaxation = Relaxation(problem, limits)
    if relaxation.solved:
        relaxation.offer_plans(best, gap)
    best.bound = min(best.bound, relaxation.bound)
    best.ending = relaxation.ending if best.ending is SearchEnd.DONE else best.ending
    if math.isfinite(best.bound) and best.objective < best.bound * (1.0 - gap):
        improvement = OneServerImprovement(problem, best.counts)
        improvement.run(_PATHS, best.bound * (1.0 - gap))
        best.offer(improvement.counts)
    return best


def _solve(model: ServerModel, best: BestPlan, limits: SolverLimits) -> tuple[float, SearchEnd]:
    """Solve the model in whole numbers; offer its point, and return its bound."""
    solution = Solver(model.linear, limits).minimize(*model.costs())
    if solution.values is None:
        return math.inf, solution.ending
    best.offer(model.counts(solution.values))
    best.offer_switches(model, solution.values)
    return -solution.bound * model.flops_unit, solution.ending
