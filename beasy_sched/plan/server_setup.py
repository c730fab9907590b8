"""From platform, envelope and start to the planner's question in counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray, StateArray
from beasy_sched.errors import ConfigError
from beasy_sched.model.platform import Platform
from beasy_sched.plan.assignment import KindStart, ranked_hosts, states_by_rank
from beasy_sched.plan.server_energy import sleep_pstates
from beasy_sched.plan.server_problem import KindCounts, ServerProblem, minimum_on_steps
from beasy_sched.plan.server_rules import ServerRules
from beasy_sched.plan.server_start import ServerStart
from beasy_sched.plan.server_table import KindTable, kind_tables


@dataclass(frozen=True)
class ServerSetup:
    """The servers of a platform by kind and rank, as a window begins."""

    platform: Platform
    tables: tuple[KindTable, ...]
    hosts: tuple[IntArray, ...]
    """Host ids of each kind by rank."""
    starts: tuple[KindStart, ...]
    least_steps: int
    """The least on-time in steps."""

    @classmethod
    def of(
        cls, platform: Platform, start: ServerStart, rules: ServerRules, step_s: float, window: int
    ) -> ServerSetup:
        """Sort the servers. Raises ConfigError for what cannot be planned with."""
        start.check(platform)
        tables = kind_tables(platform, step_s)
        hosts = tuple(ranked_hosts(platform, kind, window) for kind in range(len(tables)))
        least_steps = minimum_on_steps(rules.minimum_on_s, step_s)
        starts = tuple(
            _kind_start(platform, table, ids, start, least_steps)
            for table, ids in zip(tables, hosts, strict=True)
        )
        return cls(platform, tables, hosts, starts, least_steps)

    def free(self) -> ServerSetup:
        """The same without the on-times that still run."""
        starts = tuple(replace(s, obliged_steps=np.zeros_like(s.obliged_steps)) for s in self.starts)
        return replace(self, starts=starts)

    def problem(self, budget_j: FloatArray, switch_cost_s: float = 0.0) -> ServerProblem:
        """Ask for the most flops within the energy of each step, J: [T]."""
        # More than the servers can draw is as good as that.
        most_j = sum(
            t.servers * max(float(t.on_j[-1]), float(t.waking_j[-1]), t.falling_j, t.asleep_j)
            for t in self.tables
        )
        steps = np.arange(len(budget_j))
        return ServerProblem(
            tables=self.tables,
            budget_j=np.minimum(budget_j, most_j),
            on_at_start=tuple(int(s.on.sum()) for s in self.starts),
            minimum_on_steps=self.least_steps,
            obliged=tuple((s.obliged_steps[None, :] > steps[:, None]).sum(axis=1) for s in self.starts),
            switch_cost_flops=tuple(switch_cost_s * float(t.on_flops[-1]) / t.step_s for t in self.tables),
        )

    def states(self, counts: tuple[KindCounts, ...]) -> StateArray:
        """Hand the counts to the servers: P-state numbers, [T, N]."""
        asleep = sleep_pstates(self.platform)
        states = np.empty((len(counts[0].falling), self.platform.size), dtype=np.int8)
        for table, ids, start, mine in zip(self.tables, self.hosts, self.starts, counts, strict=True):
            if ids.size:
                states[:, ids] = states_by_rank(table, mine, start, self.least_steps, int(asleep[ids[0]]))
        return states


def least_power_w(
    platform: Platform, steps: int, step_s: float, start: ServerStart | None = None
) -> FloatArray:
    """The sleep floor: mean power of each step if all servers fall asleep in the first one, W: [T].

    No plan fits an envelope below it. ``start``: how they stand before the first step (default: all on).
    Raises ConfigError for figures that cannot be planned with.
    """
    setup = ServerSetup.of(platform, start or ServerStart.all_on(platform), ServerRules(), step_s, 0)
    return setup.free().problem(np.zeros(steps)).least_j / step_s


def envelope_j(envelope_w: FloatArray, step_s: float) -> FloatArray:
    """The energy of each step of an envelope. Raises ConfigError where a power is no power."""
    envelope = np.asarray(envelope_w, dtype=np.float64)
    if envelope.ndim != 1 or not envelope.size:
        raise ConfigError("the power envelope must have one value a step, and at least one step")
    wrong = np.flatnonzero(~(envelope >= 0.0))
    if wrong.size:
        raise ConfigError(
            f"power envelope, step {wrong[0]}: {envelope[wrong[0]]:g} W, expected a power of 0 W or more"
        )
    return envelope * step_s


def _kind_start(
    platform: Platform, table: KindTable, hosts: IntArray, start: ServerStart, least_steps: int
) -> KindStart:
    """The start of the servers of one kind, by rank."""
    states = start.states[hosts]
    on = states != sleep_pstates(platform)[hosts]
    steps = np.ceil(start.obliged_s[hosts] / table.step_s - 1e-9).clip(0, least_steps - 1)
    return KindStart(states, on, np.where(on & table.can_sleep, steps, 0).astype(np.int64))
