"""ITDM: states of all servers in every step, with maximum flops within the power envelope.

Numbers of servers by kind are planned first (`server_search.search`), then assigned to single servers
(`server_search.states_by_rank`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray, StateArray
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.errors import ConfigError
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.platform import Platform
from beasy_sched.planner.plan import FEASIBLE, INFEASIBLE, OPTIMAL, Solved
from beasy_sched.planner.requests import ServerStart
from beasy_sched.planner.server_problem import KindCounts, KindTable, ServerProblem, kind_tables
from beasy_sched.planner.server_rules import ServerRules
from beasy_sched.planner.server_search import (
    BestPlan,
    KindStart,
    ranked_hosts,
    search,
    sketch,
    states_by_rank,
)
from beasy_sched.planner.solver import SearchEnd
from beasy_sched.planner.solver_limits import SolverLimits
from beasy_sched.units import SECONDS_PER_HOUR

_NAME = "servers"
"""Name of this optimization in a plan's provenance."""
_NODES = 2000
"""Branch-and-bound nodes of a small model: some seconds."""
_SAME_ENVELOPE = 1e-6
"""An envelope short by at most this share of the least draw counts as sufficient (solver rounding)."""
_DROPPED = "minimum on-times from the previous window do not fit the envelope and were dropped"


@dataclass(frozen=True)
class ServerSetup:
    """Servers of a platform by kind and rank, at the start of a window."""

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
        """Sort the servers. Raises ConfigError for input that cannot be used in planning."""
        start.check(platform)
        tables = kind_tables(platform, step_s)
        hosts = tuple(ranked_hosts(platform, kind, window) for kind in range(len(tables)))
        least_steps = max(1, math.ceil(rules.minimum_on_s / step_s - 1e-9))
        on = start.states != platform.sleep_pstate
        bound = on & np.array([table.can_sleep for table in tables])[platform.kind_of]
        steps = np.ceil(start.obliged_s / step_s - 1e-9).clip(0, least_steps - 1)
        obliged = np.where(bound, steps, 0).astype(np.int64)
        starts = tuple(KindStart(start.states[ids], on[ids], obliged[ids]) for ids in hosts)
        return cls(platform, tables, hosts, starts, least_steps)

    def free(self) -> ServerSetup:
        """Return the setup without the on-times that still run."""
        starts = tuple(replace(s, obliged_steps=np.zeros_like(s.obliged_steps)) for s in self.starts)
        return replace(self, starts=starts)

    def problem(self, budget_j: FloatArray, switch_cost_s: float = 0.0) -> ServerProblem:
        """Return the problem of maximum flops within the energy of each step, J: [T]."""
        # A budget beyond the servers' maximum has no effect.
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
        """Assign the counts to the servers: P-state numbers, [T, N]."""
        asleep = self.platform.sleep_pstate
        states = np.empty((len(counts[0].falling), self.platform.size), dtype=np.int8)
        for table, ids, start, mine in zip(self.tables, self.hosts, self.starts, counts, strict=True):
            if ids.size:
                states[:, ids] = states_by_rank(table, mine, start, self.least_steps, int(asleep[ids[0]]))
        return states


def least_power_w(
    platform: Platform, steps: int, step_s: float, start: ServerStart | None = None
) -> FloatArray:
    """The sleep floor: mean power of each step if all servers fall asleep in the first one, W: [T].

    No plan fits an envelope below it. ``start``: the servers before the first step (default: all on).
    Raises ConfigError for input that cannot be used in planning.
    """
    setup = ServerSetup.of(platform, start or ServerStart.all_on(platform), ServerRules(), step_s, 0)
    return setup.free().problem(np.zeros(steps)).least_j / step_s


def envelope_j(envelope_w: FloatArray, step_s: float) -> FloatArray:
    """Return the energy of each step of an envelope. Raises ConfigError for negative powers or NaN."""
    envelope = np.asarray(envelope_w, dtype=np.float64)
    if envelope.ndim != 1 or not envelope.size:
        raise ConfigError("power envelope: expected one value per step and at least one step")
    wrong = np.flatnonzero(~(envelope >= 0.0))
    if wrong.size:
        raise ConfigError(f"power envelope, step {wrong[0]}: {envelope[wrong[0]]:g} W, expected 0 W or more")
    return envelope * step_s


@dataclass(frozen=True)
class ServerPlan:
    """States of all servers in all steps of a window."""

    states: StateArray
    """[T, N] P-state numbers of the platform file; the sleep state's number when asleep. A server that
    changes between computing and asleep spends the transition at the beginning of the step."""
    energy_j: FloatArray
    """[T] worst-case energy of each step, J (Eq. 3.17)."""
    flops: FloatArray
    """[T] flops that the servers can compute in each step (Eq. 3.22)."""
    wakeups: int
    """Number of times that a server is woken."""
    shortfall_w: FloatArray
    """[T] shortfall of the envelope, W: above zero only if the status is infeasible."""
    objective_flops: float
    """Flops of the plan minus the cost of its wake-ups: the objective that the search maximizes."""
    solved: Solved
    """Result of the search. If it is infeasible, the states are those of a plan within the envelope raised
    by ``shortfall_w``."""
    end: ServerStart
    """The servers after the last step: the start of the next window."""


def plan_servers(
    platform: Platform,
    envelope_w: FloatArray,
    step_s: float,
    *,
    rules: ServerRules | None = None,
    start: ServerStart | None = None,
    window: int = 0,
) -> ServerPlan:
    """Plan the servers within ``envelope_w`` ([T] W, constant inside a step of ``step_s`` seconds).

    ``start`` describes them before the first step (default: all on); ``window`` is the number of the
    window, which rotates the servers that stay on longest. Always returns a plan; see ``solved``. Raises
    ConfigError for input that cannot be planned with, such as a transition longer than a step.
    """
    rules = rules or ServerRules()
    start = start or ServerStart.all_on(platform)
    setup = ServerSetup.of(platform, start, rules, step_s, window)
    problem = setup.problem(envelope_j(envelope_w, step_s), rules.switch_cost_s)
    note = ""
    if _shortfall_j(problem).any() and any(obliged.any() for obliged in problem.obliged):
        note, setup = _DROPPED, setup.free()
        problem = setup.problem(problem.budget_j, rules.switch_cost_s)
    shortfall_j = _shortfall_j(problem)
    raised = replace(problem, budget_j=problem.budget_j + shortfall_j)
    if rules.sketch:
        best = sketch(raised)
    else:
        best = search(raised, rules.gap, SolverLimits(nodes=_NODES, time_s=rules.time_s))
    states = setup.states(best.counts)
    cells = CellEnergies(PowerModel(platform))
    missing_w = np.where(shortfall_j > _SAME_ENVELOPE * problem.least_j, shortfall_j / step_s, 0.0)
    return ServerPlan(
        states=states,
        energy_j=cells.plan_energy_j(states, start.states, step_s),
        flops=cells.plan_flops(states, start.states, step_s),
        wakeups=sum(int(counts.waking.sum()) for counts in best.counts),
        shortfall_w=missing_w,
        objective_flops=best.objective,
        solved=_solved(best, rules.gap, missing_w, problem.least_j / step_s, step_s, note),
        end=ServerStart.after(platform, states, step_s, rules.minimum_on_s, start),
    )


def _shortfall_j(problem: ServerProblem) -> FloatArray:
    """Return the shortfall of the budget in each step if all servers sleep as soon as allowed, J: [T]."""
    return np.where(problem.least_j > problem.allowed_j, problem.least_j - problem.budget_j, 0.0)


def _solved(
    best: BestPlan, gap: float, missing_w: FloatArray, least_w: FloatArray, step_s: float, note: str
) -> Solved:
    if missing_w.any():
        return Solved(_NAME, INFEASIBLE, message=_shortfall_text(missing_w, least_w, step_s))
    optimal, parts = best.gap <= gap, [note] if note else []
    if best.ending is not SearchEnd.DONE and not (optimal and best.ending is SearchEnd.NODES):
        parts.append(f"the search was stopped by {best.ending.value}")
    if not optimal:
        distance = f"within {best.gap:.2%}" if math.isfinite(best.gap) else "at an unknown distance"
        parts.insert(0, f"server plan {distance} of the best possible (asked: {gap:.2%})")
    return Solved(_NAME, OPTIMAL if optimal else FEASIBLE, best.gap, "; ".join(parts))


def _shortfall_text(missing_w: FloatArray, least_w: FloatArray, step_s: float) -> str:
    def described(step: int) -> str:
        return (
            f"step {step} (hour {step * step_s / SECONDS_PER_HOUR:.2f}): the servers draw "
            f"at least {least_w[step]:.1f} W, {missing_w[step]:.1f} W more than the envelope"
        )

    short = np.flatnonzero(missing_w).tolist()
    first, worst = short[0], int(np.argmax(missing_w))
    steps = "1 step" if len(short) == 1 else f"{len(short)} steps; first"
    text = f"the power envelope is below the power of sleeping servers in {steps}: {described(first)}"
    if worst != first:
        text += f"; the worst is {described(worst)}"
    if first == 0:
        text += "; in step 0, this includes the energy of switching servers off"
    return text
