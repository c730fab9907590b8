"""The server planner's question and answer in counts: how many servers of each kind do what in each step.

Servers of one kind are interchangeable, so that only numbers matter; which server does what is decided
afterwards (`server_search.states_by_rank`). What one server computes and draws in a step comes from
`ServerSteps` (Eq. 3.18-3.22), whole or with a transition at its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, IntArray, StateArray
from beasy_sched.energy.server_energy import ServerSteps
from beasy_sched.errors import ConfigError
from beasy_sched.model.platform import Platform


@dataclass(frozen=True)
class KindTable:
    """Energies (J) and flops of one server of a kind during one step.

    Only *useful* computing P-states are listed: those that no other beats in both speed and power,
    from the least power (and speed) to the fastest.
    """

    step_s: float
    servers: int
    """How many servers there are of this kind."""
    can_sleep: bool
    pstates: StateArray
    """Numbers of the useful P-states in the platform file."""
    on_j: FloatArray
    """Busy for the whole step, by useful P-state."""
    on_flops: FloatArray
    waking_j: FloatArray
    """Wakes at the beginning of the step and is busy for the rest, by useful P-state."""
    waking_flops: FloatArray
    asleep_j: float
    """Asleep for the whole step (0 for servers that cannot sleep)."""
    falling_j: float
    """Falls asleep at the beginning of the step."""

    @property
    def rest_j(self) -> float:
        """The least that a server that is not on draws."""
        return min(self.asleep_j, self.falling_j)

    @cached_property
    def hull(self) -> IndexArray:
        """Indices of the useful P-states on the upper hull of speed over power.

        A mix of two neighbours on it draws no more and computes no less than any other mix.
        """
        kept: list[int] = []
        for point in range(len(self.pstates)):
            while len(kept) > 1 and self._slope(kept[-2], kept[-1]) <= self._slope(kept[-1], point):
                kept.pop()
            kept.append(point)
        return np.array(kept, dtype=np.intp)

    def _slope(self, low: int, high: int) -> float:
        return float((self.on_flops[high] - self.on_flops[low]) / (self.on_j[high] - self.on_j[low]))


def kind_tables(platform: Platform, step_s: float) -> tuple[KindTable, ...]:
    """Return the table of every kind of the platform, for steps of ``step_s`` seconds.

    Raises ConfigError when speeds or powers are unknown, or a transition takes longer than a step.
    """
    if not (platform.has_speeds and platform.has_powers):
        raise ConfigError("planning servers needs the speed and power of every P-state of every host")
    if not step_s > 0:
        raise ConfigError(f"step length: found {step_s:g} s, expected a number > 0")
    steps = ServerSteps(platform, step_s)
    counts = np.bincount(platform.kind_of, minlength=len(platform.kinds))
    return tuple(_table(steps, k, int(n)) for k, n in enumerate(counts))


def _table(steps: ServerSteps, k: int, servers: int) -> KindTable:
    kind, power, step_s = steps.platform.kinds[k], steps.power, steps.step_s
    on_s, off_s = float(power.on_s[k]), float(power.off_s[k])
    if max(on_s, off_s) > step_s:
        raise ConfigError(
            f"servers of kind {kind.name!r} take {on_s:g} s to switch on and {off_s:g} s to switch off, "
            f"longer than a step of {step_s:g} s: plan with steps of at least {max(on_s, off_s):g} s"
        )
    pstates = _useful(kind.computing, power.full_w[k], np.array(kind.speeds_flops))
    sleep = kind.sleep.pstate if kind.sleep else None
    return KindTable(
        step_s=step_s,
        servers=servers,
        can_sleep=sleep is not None,
        pstates=pstates.astype(np.int8),
        on_j=steps.energy_j[k, 0, pstates],
        on_flops=steps.flops[k, 0, pstates],
        waking_j=steps.energy_j[k, 1, pstates],
        waking_flops=steps.flops[k, 1, pstates],
        asleep_j=0.0 if sleep is None else float(steps.energy_j[k, 1, sleep]),
        falling_j=0.0 if sleep is None else float(steps.energy_j[k, 0, sleep]),
    )


def _useful(computing: tuple[int, ...], full_w: FloatArray, speeds: FloatArray) -> IndexArray:
    """Leave out the P-states that another one equals or beats in both power and speed."""
    useful: list[int] = []
    for pstate in sorted(computing, key=lambda p: (full_w[p], -speeds[p], p)):
        if not useful or speeds[pstate] > speeds[useful[-1]]:
            useful.append(pstate)
    return np.array(useful, dtype=np.intp)


ENERGY_TOLERANCE = 1e-9
"""A plan may exceed the energy of a step by this share, to allow for rounding."""


@dataclass(frozen=True)
class ServerProblem:
    """Most flops within the energy of every step, with a least on-time (Eq. 3.13-3.22 in counts)."""

    tables: tuple[KindTable, ...]
    budget_j: FloatArray
    """Energy that the servers may use in each step, J: [T]."""
    on_at_start: tuple[int, ...]
    """Servers of each kind that are on in the step before the first."""
    minimum_on_steps: int
    """Least number of steps that a server stays on once it wakes, counting the step of waking (1 or more)."""
    obliged: tuple[IntArray, ...]
    """Servers of each kind that are on at the start and must be on in each step: [T], falling."""
    switch_cost_flops: tuple[float, ...]
    """What waking one server of each kind costs the objective, in addition to its energy and time."""

    @property
    def steps(self) -> int:
        """T."""
        return len(self.budget_j)

    @cached_property
    def allowed_j(self) -> FloatArray:
        """The budget with its tolerance."""
        return self.budget_j * (1.0 + ENERGY_TOLERANCE)

    @cached_property
    def least_j(self) -> FloatArray:
        """Energy of each step when every server that can sleep falls asleep as soon as it may: [T].

        From the moment when no on-time obliges, no plan draws less (unless falling asleep draws more
        than staying on).
        """
        return least_energy_j(self, all_asleep(self))


@dataclass(frozen=True)
class Trajectory:
    """What the servers of one kind do in each step, in numbers: [T] each; the others sleep."""

    through: IntArray
    """On in the step before and in this one."""
    waking: IntArray
    falling: IntArray

    def plus(self, through: IntArray | int, waking: IntArray | int, falling: IntArray | int) -> Trajectory:
        """Return these numbers with others added."""
        return Trajectory(self.through + through, self.waking + waking, self.falling + falling)


def all_asleep(problem: ServerProblem) -> tuple[Trajectory, ...]:
    """All servers that can sleep fall asleep as soon as they may."""
    paths = []
    for table, start, obliged in zip(problem.tables, problem.on_at_start, problem.obliged, strict=True):
        on = obliged if table.can_sleep else np.full(problem.steps, table.servers)
        paths.append(Trajectory(on, np.zeros_like(on), -np.diff(on, prepend=start)))
    return tuple(paths)


def least_energy_j(problem: ServerProblem, trajectories: tuple[Trajectory, ...]) -> FloatArray:
    """Energy of each step with every server that is on at its P-state of least power, J: [T]."""
    total_j = np.zeros(problem.steps)
    for table, path in zip(problem.tables, trajectories, strict=True):
        sleeping = table.servers - path.through - path.waking - path.falling
        total_j += path.through * table.on_j[0] + path.waking * table.waking_j[0]
        total_j += sleeping * table.asleep_j + path.falling * table.falling_j
    return total_j


@dataclass(frozen=True)
class KindCounts:
    """The plan of one kind, in numbers of servers."""

    whole: IntArray
    """Busy for the whole step, by useful P-state: [T, D]."""
    waking: IntArray
    """Waking at the beginning of the step, by the useful P-state they then have: [T, D]."""
    falling: IntArray
    """Falling asleep at the beginning of the step: [T]."""

    @cached_property
    def on(self) -> IntArray:
        """Servers that are on, waking ones included: [T]."""
        return np.asarray(self.whole.sum(axis=1) + self.waking.sum(axis=1))

    def energy_j(self, table: KindTable) -> FloatArray:
        """Energy of each step, J: [T]."""
        sleeping = table.servers - self.on - self.falling
        awake_j = self.whole @ table.on_j + self.waking @ table.waking_j
        return np.asarray(awake_j + sleeping * table.asleep_j + self.falling * table.falling_j)

    def flops(self, table: KindTable) -> float:
        """Flops of all steps."""
        return float((self.whole @ table.on_flops + self.waking @ table.waking_flops).sum())


def total_energy_j(problem: ServerProblem, counts: tuple[KindCounts, ...]) -> FloatArray:
    """Energy of each step over all kinds, J: [T]."""
    parts = [c.energy_j(table) for c, table in zip(counts, problem.tables, strict=True)]
    return np.asarray(np.sum(parts, axis=0))


def objective_flops(problem: ServerProblem, counts: tuple[KindCounts, ...]) -> float:
    """Flops of the plan less the cost of its wake-ups."""
    pairs = zip(counts, problem.tables, problem.switch_cost_flops, strict=True)
    return sum(c.flops(table) - cost * float(c.waking.sum()) for c, table, cost in pairs)
