"""Input and output of the server planner in counts of servers by kind, state and step.

Servers of one kind are interchangeable, so only numbers matter; they are assigned to servers afterwards
(`server_search.states_by_rank`). Flops and energy of one server in a step come from `CellEnergies` (Eq.
3.18-3.22), whole or with a transition at its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, IntArray, StateArray
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.errors import ConfigError
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.platform import Platform


@dataclass(frozen=True)
class KindTable:
    """Energies (J) and flops of one server of a kind during one step.

    Only *useful* computing P-states are listed: those for which no other is better in both speed and power,
    from the least power (and speed) to the fastest.
    """

    step_s: float
    servers: int
    """Number of servers of this kind."""
    can_sleep: bool
    pstates: StateArray
    """Numbers of the useful P-states in the platform file."""
    on_j: FloatArray
    """Energy of a server that is busy for the whole step, by useful P-state, J."""
    on_flops: FloatArray
    waking_j: FloatArray
    """Energy of a server that wakes as the step begins and is busy for the rest, by useful P-state, J."""
    waking_flops: FloatArray
    asleep_j: float
    """Energy of a server that is asleep for the whole step, J (0 for servers that cannot sleep)."""
    falling_j: float
    """Energy of a server that falls asleep at the beginning of the step, J."""

    @property
    def rest_j(self) -> float:
        """Minimum energy of a server that is not on, J."""
        return min(self.asleep_j, self.falling_j)

    @cached_property
    def hull(self) -> IndexArray:
        """Indices of the useful P-states on the upper hull of speed over power.

        A mix of two neighbours on it is at least as good as any other mix in power and flops.
        """

        def slope(low: int, high: int) -> float:
            return float((self.on_flops[high] - self.on_flops[low]) / (self.on_j[high] - self.on_j[low]))

        kept: list[int] = []
        for point in range(len(self.pstates)):
            while len(kept) > 1 and slope(kept[-2], kept[-1]) <= slope(kept[-1], point):
                kept.pop()
            kept.append(point)
        return np.array(kept, dtype=np.intp)


def kind_tables(platform: Platform, step_s: float) -> tuple[KindTable, ...]:
    """Return the table of every kind of the platform, for steps of ``step_s`` seconds.

    Raises ConfigError when speeds or powers are unknown, or a transition takes longer than a step.
    """
    if not (platform.has_speeds and platform.has_powers):
        raise ConfigError("planning servers requires the speed and power of every P-state of every host")
    if not step_s > 0:
        raise ConfigError(f"step length: found {step_s:g} s, expected a number > 0")
    cells = CellEnergies(PowerModel(platform))
    counts = np.bincount(platform.kind_of, minlength=len(platform.kinds))
    return tuple(_table(cells, step_s, k, int(n)) for k, n in enumerate(counts))


def _table(cells: CellEnergies, step_s: float, k: int, servers: int) -> KindTable:
    power = cells.power
    kind = power.platform.kinds[k]
    on_s, off_s = float(power.on_s[k]), float(power.off_s[k])
    if max(on_s, off_s) > step_s:
        raise ConfigError(
            f"servers of kind {kind.name!r} take {on_s:g} s to switch on and {off_s:g} s to switch off, "
            f"longer than a step of {step_s:g} s: plan with steps of at least {max(on_s, off_s):g} s"
        )
    full_w, speeds = power.full_w[k], kind.speeds_flops
    pstates: list[int] = []  # without those that another one equals or exceeds in both power and speed
    for pstate in sorted(kind.computing, key=lambda p: (full_w[p], -speeds[p], p)):
        if not pstates or speeds[pstate] > speeds[pstates[-1]]:
            pstates.append(pstate)
    energy_j, flops = cells.table_j(step_s)[k, 0], cells.flops(step_s)[k]
    sleep = kind.sleep.pstate if kind.sleep else None
    return KindTable(
        step_s=step_s,
        servers=servers,
        can_sleep=sleep is not None,
        pstates=np.array(pstates, dtype=np.int8),
        on_j=energy_j[0, pstates],
        on_flops=flops[0, pstates],
        waking_j=energy_j[1, pstates],
        waking_flops=flops[1, pstates],
        asleep_j=0.0 if sleep is None else float(energy_j[1, sleep]),
        falling_j=0.0 if sleep is None else float(energy_j[0, sleep]),
    )


ENERGY_TOLERANCE = 1e-9
"""A plan may exceed the energy of a step by this share, to allow for rounding."""


class StepMove(NamedTuple):
    """Change of P-state, with the additional flops and energy of a server in a step."""

    flops: float
    energy_j: float
    kind: int
    waking: bool
    """Whether the server wakes in the step."""
    source: int
    target: int
    """P-states of the server before (``source``) and after the move: rows of `pstates.PstateNumbers`."""


class GainingMoves(NamedTuple):
    """All changes of P-state that gain flops, one value each, in the order in which they are tried."""

    source: IndexArray
    target: IndexArray
    energy_j: FloatArray


@dataclass(frozen=True)
class ServerProblem:
    """Maximum flops within the energy of every step, with a minimum on-time (Eq. 3.13-3.22 in counts)."""

    tables: tuple[KindTable, ...]
    budget_j: FloatArray
    """Energy that the servers may use in each step, J: [T]."""
    on_at_start: tuple[int, ...]
    """Servers of each kind that are on in the step before the first."""
    minimum_on_steps: int
    """Minimum number of steps that a woken server stays on, including the step of waking (1 or more)."""
    obliged: tuple[IntArray, ...]
    """Servers of each kind that are on at the start and must be on in each step: [T], decreasing."""
    switch_cost_flops: tuple[float, ...]
    """Cost of waking one server of each kind in the objective, flops, in addition to energy and time."""

    @property
    def steps(self) -> int:
        """T."""
        return len(self.budget_j)

    @cached_property
    def allowed_j(self) -> FloatArray:
        """The budget with its tolerance."""
        return self.budget_j * (1.0 + ENERGY_TOLERANCE)

    @cached_property
    def moves(self) -> tuple[list[StepMove], list[StepMove]]:
        """Changes of P-state: on the hulls, best flops per joule first; and all that gain, most flops first.

        Each kind has two groups of servers: on for the whole step, and waking.
        """
        on_hull, gaining = [], []
        for k, (table, first_row) in enumerate(zip(self.tables, self.first_rows, strict=False)):
            hull = set(pairwise(table.hull.tolist()))
            parts = (table.on_flops, table.on_j), (table.waking_flops, table.waking_j)
            for waking, (flops, energy_j) in enumerate(parts):
                row = first_row + waking * len(flops)
                for high in range(len(flops)):
                    for low in range(high):
                        more, more_j = float(flops[high] - flops[low]), float(energy_j[high] - energy_j[low])
                        move = StepMove(more, more_j, k, bool(waking), row + low, row + high)
                        on_hull += [move] * ((low, high) in hull)
                        gaining += [move] * (more > 0 and more_j > 0)
        on_hull.sort(key=lambda m: -m.flops / m.energy_j if m.energy_j > 0 else -np.inf)
        gaining.sort(key=lambda m: -m.flops)
        return on_hull, gaining

    @cached_property
    def gaining(self) -> GainingMoves:
        """All changes of P-state that gain, listed twice: the first pass may make others possible."""
        moves = 2 * self.moves[1]
        rows = np.array([(m.source, m.target) for m in moves], dtype=np.intp).reshape(-1, 2)
        return GainingMoves(rows[:, 0], rows[:, 1], np.array([m.energy_j for m in moves]))

    @cached_property
    def first_rows(self) -> list[int]:
        """Index at which each kind begins in `pstates.PstateNumbers.rows`, and the number of rows."""
        return [0, *accumulate(2 * len(table.pstates) for table in self.tables)]

    @cached_property
    def least_j(self) -> FloatArray:
        """Energy of each step when every server that can sleep falls asleep as soon as it may: [T].

        From the moment when no on-time obliges, no plan draws less (unless falling asleep draws more
        than staying on).
        """
        return least_energy_j(self, all_asleep(self))


Trajectory = IntArray
"""Numbers of servers of one kind by activity in each step: [3, T]; the others sleep.

Rows: on in the step before and in this one, waking, falling asleep. Several at once: [3, how many, T].
"""


def all_asleep(problem: ServerProblem) -> tuple[Trajectory, ...]:
    """Return the plan in which all servers that can sleep fall asleep as soon as allowed."""
    paths = []
    for table, start, obliged in zip(problem.tables, problem.on_at_start, problem.obliged, strict=True):
        on = obliged if table.can_sleep else np.full(problem.steps, table.servers)
        paths.append(np.array([on, np.zeros_like(on), -np.diff(on, prepend=start)]))
    return tuple(paths)


@dataclass(frozen=True)
class KindCounts:
    """Plan of one kind, in numbers of servers."""

    whole: IntArray
    """Busy for the whole step, by useful P-state: [T, D]."""
    waking: IntArray
    """Waking at the beginning of the step, by the useful P-state they then have: [T, D]."""
    falling: IntArray
    """Falling asleep at the beginning of the step: [T]."""

    @cached_property
    def trajectory(self) -> Trajectory:
        """Number of servers by activity, without P-states: [3, T]."""
        return np.array([self.whole.sum(axis=1), self.waking.sum(axis=1), self.falling])

    def at(self, number: int) -> KindCounts:
        """Return the counts of one of several plans at once, whose arrays have one more axis, the first."""
        return KindCounts(self.whole[number], self.waking[number], self.falling[number])


def least_energy_j(problem: ServerProblem, trajectories: Sequence[Trajectory]) -> FloatArray:
    """Energy of each step with every server that is on at its P-state of least power, J: [..., T]."""
    total_j = np.zeros(problem.steps)
    for table, path in zip(problem.tables, trajectories, strict=True):
        through, waking, falling = path
        sleeping = table.servers - path.sum(axis=0)
        total_j = total_j + (through * table.on_j[0] + waking * table.waking_j[0])
        total_j += sleeping * table.asleep_j + falling * table.falling_j
    return total_j


def energy_j(problem: ServerProblem, counts: tuple[KindCounts, ...]) -> FloatArray:
    """Energy of each step over all kinds, J: [T]."""
    total_j = np.zeros(problem.steps)
    for table, mine in zip(problem.tables, counts, strict=True):
        sleeping = table.servers - mine.trajectory.sum(axis=0)
        total_j += mine.whole @ table.on_j + mine.waking @ table.waking_j
        total_j += sleeping * table.asleep_j + mine.falling * table.falling_j
    return total_j


def objective_flops(problem: ServerProblem, counts: tuple[KindCounts, ...]) -> float:
    """Flops of the plan minus the cost of its wake-ups."""
    return sum(
        float((c.whole @ t.on_flops + c.waking @ t.waking_flops).sum()) - cost * float(c.waking.sum())
        for c, t, cost in zip(counts, problem.tables, problem.switch_cost_flops, strict=True)
    )
