"""Search for the best server plan in counts: small models to the end, others by rounding and improving.

1. The relaxed model (fractions of servers) bounds every plan. Its running totals of wake-ups and falls
   asleep are rounded down to integers after adding the same offset in [0, 1) to all of them. Each
   row of the model that links them has the form ``a - b <= integer``, which such a rounding preserves, so
   on-times are kept. The number of servers on moves by less than one a kind, which P-states can mostly
   absorb.
2. P-states are chosen for given numbers of servers (`pstates`), all steps at once: along the hulls, best
   flops per joule first, as the relaxed optimum does; then the remaining energy is spent on single faster
   P-states. A step loses at most one server's step on the hull.
3. The plan is improved one server at a time: the best path of one server while the others keep theirs,
   exact, by dynamic programming over the steps.
4. Numbers become single servers, which have ranks: the lowest that sleep are woken, and the highest that
   may sleep are put to sleep, so that the sets of servers that are on are nested as far as the least
   on-time allows. No server does more than the counts require. Between windows the ranks are rotated.

The distance of the best plan to the least bound is the proven gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IntArray, StateArray
from beasy_sched.model.platform import Platform
from beasy_sched.planner.pstates import fill, most_flops
from beasy_sched.planner.server_model import KindColumns, ServerModel, rows_for_whole_servers
from beasy_sched.planner.server_path import best_path
from beasy_sched.planner.server_problem import (
    KindCounts,
    KindTable,
    ServerProblem,
    Trajectory,
    all_asleep,
    energy_j,
    least_energy_j,
    objective_flops,
)
from beasy_sched.planner.solver import SearchEnd, Solver
from beasy_sched.planner.solver_limits import SolverLimits

_OFFSETS = (np.arange(24) + 0.5) / 24
_SNAP = 1e6
"""Totals are first rounded to a millionth, because solver noise must not change an integer."""


class BestPlan:
    """Best integer plan so far, and the bound of any plan.

    Initially it is the plan in which all servers sleep when allowed.
    """

    def __init__(self, problem: ServerProblem) -> None:
        """Begin with the plan of least energy, which must be within the budget."""
        self.problem = problem
        self.counts = fill(problem, all_asleep(problem))
        self.objective = objective_flops(problem, self.counts)
        """Flops of the plan minus the cost of its wake-ups."""
        self.bound = math.inf
        """Upper bound of every plan's objective."""
        self.ending = SearchEnd.DONE
        """End of the first unfinished optimization."""

    @property
    def gap(self) -> float:
        """Proven relative distance to the best plan."""
        if math.isinf(self.bound):
            return math.inf
        return max(0.0, self.bound - self.objective) / max(abs(self.bound), 1.0)

    def offer(self, counts: tuple[KindCounts, ...]) -> None:
        """Keep these counts if they are within the budget and better than the best."""
        objective = objective_flops(self.problem, counts)
        if objective > self.objective and (energy_j(self.problem, counts) <= self.problem.allowed_j).all():
            self.counts, self.objective = counts, objective

    def offer_roundings(
        self, model: ServerModel, point: FloatArray, offsets: FloatArray = _OFFSETS
    ) -> FloatArray:
        """Round a point with each offset; return the steps' least excess over the budget, J: [T].

        P-states are chosen again. The excess is that of the best rounding; it is zero if a plan was found.
        """
        paths = roundings(model, point, offsets)
        excess_j = np.maximum(least_energy_j(self.problem, paths) - self.problem.allowed_j, 0.0)
        fitting = np.flatnonzero(~excess_j.any(axis=1))
        if fitting.size:
            counts = fill(self.problem, [path[:, fitting] for path in paths])
            for number in range(fitting.size):
                self.offer(tuple(mine.at(number) for mine in counts))
        return np.asarray(excess_j[np.argmin(excess_j.sum(axis=1))])


def roundings(model: ServerModel, point: FloatArray, offsets: FloatArray) -> list[Trajectory]:
    """Round the running totals of a point of the relaxed model with each offset: [3, how many differ, T]."""
    starts = model.problem.on_at_start
    paths = [_rounded(point, k, start, offsets) for k, start in zip(model.columns, starts, strict=True)]
    first: dict[bytes, int] = {}
    for number in range(len(offsets)):
        first.setdefault(b"".join(path[:, number].tobytes() for path in paths), number)
    return [path[:, [*first.values()]] for path in paths]


def _rounded(point: FloatArray, columns: KindColumns, start: int, offsets: FloatArray) -> Trajectory:
    totals = np.round(point[np.stack([columns.woken, columns.slept])] * _SNAP) / _SNAP
    whole = np.floor(totals[:, None] + offsets[:, None]).astype(np.int64)
    waking, falling = np.diff(whole, prepend=0)
    return np.array([start + np.cumsum(waking - falling, axis=-1) - waking, waking, falling])


_ROW_ROUNDS = 8
_RESERVE_ROUNDS = 6
_LITTLE = 1e-6


class Relaxation:
    """Relaxed model in the solver, its latest point, and the least bound so far."""

    def __init__(self, best: BestPlan, limits: SolverLimits) -> None:
        """Begin; plans from the relaxation are offered to ``best``."""
        self.best = best
        self.model = ServerModel(best.problem, integer=False)
        self.bound = math.inf
        """Upper bound of every plan's objective, flops."""
        self._solver = Solver(self.model.linear, limits)
        self._point = np.zeros(self.model.linear.column_count)

    def offer_plans(self, gap: float) -> None:
        """Solve and round in several ways, tightening the model if the best plan is not within ``gap``."""
        if not self._solve():
            return
        self.best.offer_roundings(self.model, self._point)
        if self.best.objective < self.bound * (1.0 - gap):
            self._tighten()
        if self.best.objective < self.bound * (1.0 - gap):
            self._round_within_reserves()

    def _solve(self, *, bounds: bool = True) -> bool:
        outcome = self._solver.minimize(*self.model.costs())
        if self.best.ending is SearchEnd.DONE:
            self.best.ending = outcome.ending
        if outcome.incumbent is None:
            return False
        self._point = outcome.incumbent
        if bounds:
            self.bound = min(self.bound, -outcome.bound * self.model.flops_unit)
        return True

    def _tighten(self) -> None:
        """Add rows that hold for whole servers only, while they lower the bound."""
        rows = rows_for_whole_servers(self.model)
        for _ in range(_ROW_ROUNDS):
            before = self.bound
            added = rows and rows.add_broken(self._solver, self._point)
            if not (added and self._solve() and self.bound <= before * (1.0 - _LITTLE)):
                break

    def _round_within_reserves(self) -> None:
        """Round; while no rounding fits the budget, solve again with reserved energy in the exceeding steps.

        Reserving the energy of one more server of each kind (on, waking or falling asleep) makes every
        rounding fit; the last round does this.
        """
        problem = self.best.problem
        one_more_j = sum(
            abs(t.on_j[0] - t.asleep_j)
            + max(0.0, t.waking_j[0] - t.on_j[0])
            + max(0.0, t.falling_j - t.asleep_j)
            for t in problem.tables
            if t.can_sleep
        )
        most_j = np.clip(problem.allowed_j - problem.least_j, 0.0, one_more_j)
        reserve_j = np.zeros(problem.steps)
        for attempt in range(_RESERVE_ROUNDS):
            excess_j = self.best.offer_roundings(self.model, self._point)
            if not excess_j.any():
                return
            last = attempt == _RESERVE_ROUNDS - 2
            reserve_j = most_j if last else np.minimum(reserve_j + excess_j * 1.01, most_j)
            kept = reserve_j / self.model.energy_unit_j
            self._solver.set_bounds(self.model.reserve, kept, kept)
            if not self._solve(bounds=False):
                return


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

    Each window rotates its ranks by about 0.618 of a turn relative to the previous one, which spreads any
    number of windows evenly over the servers.
    """
    hosts = np.flatnonzero(platform.kind_of == kind)
    return np.roll(hosts, -(int(window * _GOLDEN_SECTION * len(hosts)) % max(1, len(hosts))))


def on_by_rank(waking: IntArray, falling: IntArray, start: KindStart, minimum_on_steps: int) -> BoolArray:
    """Return which servers are on in each step, including waking: [T, servers of the kind].

    Raises ValueError if the counts require more servers to wake or sleep than possible.
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
    """Return the P-state of every server of a kind in every step: [T, servers of the kind], by rank.

    In each step as many servers as possible keep their P-state.
    """
    on = on_by_rank(counts.waking.sum(axis=1), counts.falling, start, minimum_on_steps)
    useful = {int(number): index for index, number in enumerate(table.pstates)}
    now = np.array([useful.get(int(state), -1) for state in start.states], dtype=np.int8)
    pstates, was_on = np.empty(on.shape, dtype=np.int8), start.on
    changes = (counts.falling > 0) | counts.waking.any(axis=1)
    changes[1:] |= (counts.whole[1:] != counts.whole[:-1] + counts.waking[:-1]).any(axis=1)
    changes[0] = True
    for step, (now_on, change) in enumerate(zip(on, changes.tolist(), strict=True)):
        if change:
            staying, waking = (now_on & was_on).nonzero()[0], (now_on & ~was_on).nonzero()[0]
            now[staying] = _kept(now[staying], counts.whole[step])
            now[waking] = np.repeat(np.arange(len(table.pstates), dtype=np.int8), counts.waking[step])
            was_on = now_on
        pstates[step] = now
    return np.where(on, table.pstates[pstates], np.int8(sleep_pstate))


def _kept(had: StateArray, wanted: IntArray) -> StateArray:
    """Assign each P-state ``wanted[d]`` times so that most servers keep theirs; others change little."""
    unknown, *numbers = np.bincount(had + 1, minlength=len(wanted) + 1).tolist()
    missing = [most - number for most, number in zip(wanted.tolist(), numbers, strict=True)]
    if not any(missing):
        return had
    moving = [np.flatnonzero(had < 0)] if unknown else []
    moving += [
        (had == pstate).nonzero()[0][wanted[pstate] :] for pstate, less in enumerate(missing) if less < 0
    ]
    result = had.copy()
    result[np.concatenate(moving)] = [pstate for pstate, more in enumerate(missing) for _ in range(more)]
    return result


class _Path(NamedTuple):
    """Path of a server, as far as an improvement depends on it."""

    kind: int
    path: bytes
    """Whether the server is on in each step, and its start."""


class _ServerPath(NamedTuple):
    """Path of one server, in the order in which servers are tried."""

    minus_switches: int
    kind: int
    server: int
    path: bytes


class OneServerImprovement:
    """Plan as paths of single servers, improved server by server."""

    def __init__(self, problem: ServerProblem, counts: tuple[KindCounts, ...]) -> None:
        self.problem = problem
        self.counts = counts
        self.objective = objective_flops(problem, counts)
        self._numbers = tuple(mine.trajectory for mine in counts)
        self._starts = [_anonymous(problem, k) for k in range(len(counts))]
        self._on = [
            on_by_rank(waking, falling, start, problem.minimum_on_steps)
            for (_, waking, falling), start in zip(self._numbers, self._starts, strict=True)
        ]

    def run(self, evaluations: int, enough: float) -> None:
        """Improve until no server can, the objective is ``enough``, or all ``evaluations`` are used."""
        tried: set[_Path] = set()
        while evaluations > 0 and self.objective < enough:
            todo = [item for item in self._different_paths().items() if item[0] not in tried]
            if not todo:
                return
            improved = False
            for path, server in todo[:evaluations]:
                evaluations -= 1
                tried.add(path)
                improved |= self._improve(path.kind, server)
            if improved:
                tried.clear()

    def _different_paths(self) -> dict[_Path, int]:
        """One server for every kind, and path and start that differ; those that switch most first."""
        servers = []
        for kind, (on, start) in enumerate(zip(self._on, self._starts, strict=True)):
            switches = (on[1:] != on[:-1]).sum(axis=0)
            for server in range(on.shape[1] if self.problem.tables[kind].can_sleep else 0):
                parts = on[:, server], start.on[server], start.obliged_steps[server]
                path = b"".join(part.tobytes() for part in parts)
                servers.append(_ServerPath(-int(switches[server]), kind, server, path))
        server_of_path: dict[_Path, int] = {}
        for each in sorted(servers):
            server_of_path.setdefault(_Path(each.kind, each.path), each.server)
        return server_of_path

    def _improve(self, kind: int, server: int) -> bool:
        start = self._starts[kind]
        was_on, old = bool(start.on[server]), self._on[kind][:, server]
        others = self._numbers[kind] - _doing(old, was_on)
        doing = np.eye(3, 4, dtype=np.int64)[:, :, None]  # on through, waking, falling asleep, asleep
        values = most_flops(self.problem, self._with(kind, others[:, None] + doing))
        values[1] -= self.problem.switch_cost_flops[kind]
        path = best_path(values, was_on, int(start.obliged_steps[server]), self.problem.minimum_on_steps)
        if (path == old).all():
            return False
        numbers = self._with(kind, others + _doing(path, was_on))
        counts = fill(self.problem, numbers)
        objective = objective_flops(self.problem, counts)
        if objective <= self.objective * (1.0 + 1e-12):
            return False
        self.counts, self.objective, self._numbers = counts, objective, numbers
        self._on[kind][:, server] = path
        return True

    def _with(self, kind: int, numbers: Trajectory) -> tuple[Trajectory, ...]:
        return (*self._numbers[:kind], numbers, *self._numbers[kind + 1 :])


def _anonymous(problem: ServerProblem, kind: int) -> KindStart:
    """Return the initial servers of the problem, those obliged to stay on longest first."""
    servers, on, obliged = problem.tables[kind].servers, problem.on_at_start[kind], problem.obliged[kind]
    ranks = np.arange(servers)
    steps = np.where(ranks < on, (obliged[:, None] > ranks).sum(axis=0), 0)
    return KindStart(np.zeros(servers, dtype=np.int8), ranks < on, steps)


def _doing(on: BoolArray, was_on: bool) -> Trajectory:
    """Activity of one server in each step."""
    before = np.concatenate(([was_on], on[:-1]))
    return np.array([on & before, on & ~before, before & ~on], dtype=np.int64)


SMALL_COLUMNS = 600
"""Models with at most this number of integer columns are solved to optimality."""
_PATHS = 400
"""Number of paths of single servers examined to improve a plan."""


def sketch(problem: ServerProblem) -> BestPlan:
    """Find a plan quickly, without a bound: numbers change at most once per minimum on-time.

    In each such period as many servers are on, at the P-state with most flops per energy, as its steps can
    supply; kinds of server one after the other. If that does not fit, all sleep as soon as allowed.
    """
    best = BestPlan(problem)
    left_j = problem.allowed_j - sum(table.servers * table.rest_j for table in problem.tables)
    paths = []
    for table, started, obliged in zip(problem.tables, problem.on_at_start, problem.obliged, strict=True):
        path = all_asleep(replace(problem, tables=(table,), on_at_start=(started,), obliged=(obliged,)))[0]
        if table.can_sleep:
            above_j = table.on_j[table.hull] - table.rest_j
            chosen = table.hull[np.argmax(table.on_flops[table.hull] / np.maximum(above_j, 1e-9))]
            most_j = max(table.on_j[chosen], table.waking_j[0], table.falling_j) - table.rest_j
            path = _in_stretches(left_j / most_j, table.servers, started, obliged, problem.minimum_on_steps)
            left_j = left_j - path.sum(axis=0) * most_j
        paths.append(path)
    if (least_energy_j(problem, paths) <= problem.allowed_j).all():
        best.offer(fill(problem, tuple(paths)))
    return best


def _in_stretches(fed: FloatArray, servers: int, started: int, obliged: IntArray, length: int) -> Trajectory:
    """Return the servers of a kind that all steps of a period of ``length`` can supply.

    In the first period none wake. One that falls asleep at the end of a period is not supplied in that step.
    """
    edges = np.arange(0, len(fed), length)
    before = np.concatenate((fed[1:], fed[-1:]))  # a step's number also includes the energy of falling asleep
    numbers = np.clip(np.floor(np.minimum.reduceat(np.minimum(fed, before), edges)), 0, servers)
    numbers[0] = min(numbers[0], started)
    on = np.maximum(np.repeat(numbers, length)[: len(fed)].astype(np.int64), obliged)
    change = np.diff(on, prepend=started)
    waking, falling = np.maximum(change, 0), np.maximum(-change, 0)
    return np.array([on - waking, waking, falling])


def search(problem: ServerProblem, gap: float, limits: SolverLimits) -> BestPlan:
    """Find a plan, if possible within ``gap`` of the best. All sleeping as soon as allowed must fit."""
    best = BestPlan(problem)
    small = ServerModel(problem, integer=True)
    if small.linear.column_count <= SMALL_COLUMNS:
        outcome = Solver(small.linear, replace(limits, relative_gap=0.0)).minimize(*small.costs())
        best.ending = outcome.ending
        if outcome.incumbent is not None:
            best.bound = -outcome.bound * small.flops_unit
            best.offer(small.counts(outcome.incumbent))
            best.offer_roundings(small, outcome.incumbent, _OFFSETS[:1])
        if best.ending is SearchEnd.DONE:
            return best
    relaxation = Relaxation(best, limits)
    relaxation.offer_plans(gap)
    best.bound = min(best.bound, relaxation.bound)
    if math.isfinite(best.bound) and best.objective < best.bound * (1.0 - gap):
        improvement = OneServerImprovement(problem, best.counts)
        improvement.run(_PATHS, best.bound * (1.0 - gap))
        best.offer(improvement.counts)
    return best
