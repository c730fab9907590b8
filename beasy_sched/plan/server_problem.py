"""The question to the server planner, in counts: how many servers of each kind, at what start.

Servers of one kind are interchangeable, so that only numbers matter; which server does what is decided
afterwards (`assignment`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.plan.server_table import KindTable

ENERGY_TOLERANCE = 1e-9
"""A plan may exceed the energy of a step by this share, which is rounding of sums."""


@dataclass(frozen=True)
class ServerProblem:
    """Most flops within the energy of every step, with a least on-time (Eq. 3.13-3.22 in counts)."""

    tables: tuple[KindTable, ...]
    budget_j: FloatArray
    """Energy that the servers may use in each step, J: [T]."""
    on_at_start: tuple[int, ...]
    """Servers of each kind that are on in the step before the first."""
    minimum_on_steps: int
    """Steps for which a server that wakes stays on at least, that of its waking included (1 or more)."""
    obliged: tuple[IntArray, ...]
    """Servers of each kind that are on at the start and must be on in each step: [T], falling."""
    switch_cost_flops: tuple[float, ...]
    """What waking one server of each kind costs the objective, beside its energy and time."""

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
        total_j = np.zeros(self.steps)
        for table, on, obliged in zip(self.tables, self.on_at_start, self.obliged, strict=True):
            awake = obliged if table.can_sleep else np.full(self.steps, table.servers)
            falling = -np.diff(awake, prepend=on)
            total_j += awake * table.on_j[0]
            if table.can_sleep:
                total_j += (table.servers - awake - falling) * table.asleep_j + falling * table.falling_j
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
        energy_j = self.whole @ table.on_j + self.waking @ table.waking_j
        if table.can_sleep:
            energy_j = energy_j + sleeping * table.asleep_j + self.falling * table.falling_j
        return np.asarray(energy_j)

    def flops(self, table: KindTable) -> float:
        """Flops of all steps."""
        return float((self.whole @ table.on_flops + self.waking @ table.waking_flops).sum())


def minimum_on_steps(minimum_on_s: float, step_s: float) -> int:
    """Steps that cover the least on-time; at least 1."""
    return max(1, math.ceil(minimum_on_s / step_s - 1e-9))


def total_energy_j(problem: ServerProblem, counts: tuple[KindCounts, ...]) -> FloatArray:
    """Energy of each step over all kinds, J: [T]."""
    parts = [c.energy_j(table) for c, table in zip(counts, problem.tables, strict=True)]
    return np.asarray(np.sum(parts, axis=0))


def objective_flops(problem: ServerProblem, counts: tuple[KindCounts, ...]) -> float:
    """Flops of the plan less the cost of its wake-ups."""
    pairs = zip(counts, problem.tables, problem.switch_cost_flops, strict=True)
    return sum(c.flops(table) - cost * float(c.waking.sum()) for c, table, cost in pairs)
