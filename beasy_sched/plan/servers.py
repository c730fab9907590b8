"""ITDM: the state of every server in every step, the most flops within the power envelope.

Numbers of servers by kind are planned first (`server_search`), then handed to single servers
(`assignment`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from beasy_sched.errors import ConfigError
from beasy_sched.model.platform import FloatArray, IntArray, Platform
from beasy_sched.plan.assignment import KindStart, ranked_hosts, states_by_rank
from beasy_sched.plan.outcome import SolverOutcome, SolverStatus
from beasy_sched.plan.server_energy import (
    StateArray,
    server_plan_energy_j,
    server_plan_flops,
    sleep_pstates,
)
from beasy_sched.plan.server_problem import ServerProblem, minimum_on_steps
from beasy_sched.plan.server_search import Found, search
from beasy_sched.plan.server_start import ServerStart
from beasy_sched.plan.server_table import KindTable, kind_tables
from beasy_sched.plan.solver import Ending, SolverLimits
from beasy_sched.units import SECONDS_PER_HOUR

_NODES = 2000
"""Branch-and-bound nodes of a small model: some seconds."""
_SAME_ENVELOPE = 1e-6
"""An envelope that lacks no more than this share of the least draw is taken as enough (solver rounding)."""


@dataclass(frozen=True)
class ServerRules:
    """What keeps a server plan from following every spike of the envelope, and how good it must be."""

    minimum_on_s: float = 3600.0
    """A server that wakes stays on at least so long, its waking included."""
    switch_cost_s: float = 300.0
    """A wake-up must bring as many flops as this time at the kind's highest speed, beside what it costs."""
    gap: float = 0.005
    """Proven relative distance to the best plan at which the search may stop."""
    time_s: float = math.inf
    """Last resort: time for each optimization, s. A plan that it ended says so."""

    def __post_init__(self) -> None:
        for name in ("minimum_on_s", "switch_cost_s", "gap"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name}: {value!r} must be a number of 0 or more")


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
    """How often a server is woken."""
    shortfall_w: FloatArray
    """[T] what the envelope lacks, W: above zero only where the outcome is infeasible."""
    outcome: SolverOutcome
    """Its objective is in flops, less the cost of wake-ups. Where it is infeasible, the states are those
    of a plan within the envelope raised by ``shortfall_w``."""
    end: ServerStart
    """How the servers stand after the last step: the start of the next window."""


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

    ``start`` is how they stand before the first step (default: all on); ``window`` numbers the window,
    and turns round which servers stay on longest. Always returns a plan; see its outcome. Raises
    ConfigError for figures that cannot be planned with, such as a transition longer than a step.
    """
    rules = rules or ServerRules()
    start = start or ServerStart.all_on(platform)
    start.check(platform)
    tables = kind_tables(platform, step_s)
    hosts = [ranked_hosts(platform, kind, window) for kind in range(len(tables))]
    least_steps = minimum_on_steps(rules.minimum_on_s, step_s)
    starts = [
        _kind_start(platform, table, ids, start, least_steps, step_s)
        for table, ids in zip(tables, hosts, strict=True)
    ]
    problem = _problem(tables, starts, _envelope_j(envelope_w, step_s), rules, least_steps)
    shortfall_j, note = _shortfall_j(problem), ""
    if shortfall_j.any() and any(part.any() for part in problem.obliged):
        note = "least on-times carried over from the window before do not fit the envelope and were dropped"
        starts = [replace(s, obliged_steps=np.zeros_like(s.obliged_steps)) for s in starts]
        problem = _problem(tables, starts, problem.budget_j, rules, least_steps)
        shortfall_j = _shortfall_j(problem)
    problem = replace(problem, budget_j=problem.budget_j + shortfall_j)
    found = search(problem, rules.gap, SolverLimits(nodes=_NODES, time_s=rules.time_s))
    states = np.empty((problem.steps, platform.size), dtype=np.int8)
    for k, ids in enumerate(hosts):
        asleep = int(sleep_pstates(platform)[ids[0]]) if ids.size else -1
        states[:, ids] = states_by_rank(tables[k], found.counts[k], starts[k], least_steps, asleep)
    missing_w = np.where(shortfall_j > _SAME_ENVELOPE * problem.least_j, shortfall_j / step_s, 0.0)
    return ServerPlan(
        states=states,
        energy_j=server_plan_energy_j(platform, states, step_s, start.states),
        flops=server_plan_flops(platform, states, step_s, start.states),
        wakeups=sum(int(counts.waking.sum()) for counts in found.counts),
        shortfall_w=missing_w,
        outcome=_outcome(found, rules, missing_w, problem.least_j / step_s, step_s, note),
        end=ServerStart.after(platform, states, step_s, rules.minimum_on_s, start),
    )


def least_power_w(
    platform: Platform, steps: int, step_s: float, start: ServerStart | None = None
) -> FloatArray:
    """The sleep floor: mean power of each step if all servers fall asleep in the first one, W: [T].

    No plan fits an envelope below it.
    """
    envelope_w = np.zeros(steps)
    start = start or ServerStart.all_on(platform)
    start.check(platform)
    tables = kind_tables(platform, step_s)
    hosts = [ranked_hosts(platform, kind, 0) for kind in range(len(tables))]
    free = replace(start, obliged_s=np.zeros(platform.size))
    starts = [_kind_start(platform, t, ids, free, 1, step_s) for t, ids in zip(tables, hosts, strict=True)]
    return _problem(tables, starts, envelope_w, ServerRules(), 1).least_j / step_s


def _envelope_j(envelope_w: FloatArray, step_s: float) -> FloatArray:
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
    platform: Platform, table: KindTable, hosts: IntArray, start: ServerStart, least_steps: int, step_s: float
) -> KindStart:
    """The start of the servers of one kind, by rank."""
    states = start.states[hosts]
    on = states != sleep_pstates(platform)[hosts]
    steps = np.ceil(start.obliged_s[hosts] / step_s - 1e-9).clip(0, least_steps - 1).astype(np.int64)
    return KindStart(states, on, np.where(on & table.can_sleep, steps, 0))


def _problem(
    tables: Sequence[KindTable],
    starts: Sequence[KindStart],
    budget_j: FloatArray,
    rules: ServerRules,
    least_steps: int,
) -> ServerProblem:
    most_j = sum(
        t.servers * max(float(t.on_j[-1]), float(t.waking_j[-1]), t.falling_j, t.asleep_j) for t in tables
    )
    steps = np.arange(len(budget_j))
    return ServerProblem(
        tables=tuple(tables),
        budget_j=np.minimum(budget_j, most_j),
        on_at_start=tuple(int(s.on.sum()) for s in starts),
        minimum_on_steps=least_steps,
        obliged=tuple((s.obliged_steps[None, :] > steps[:, None]).sum(axis=1) for s in starts),
        switch_cost_flops=tuple(
            rules.switch_cost_s * float(t.on_flops[-1]) / float(t.step_s) for t in tables
        ),
    )


def _shortfall_j(problem: ServerProblem) -> FloatArray:
    """What the budget lacks in each step even if all servers sleep as soon as they may, J: [T]."""
    return np.where(problem.least_j > problem.allowed_j, problem.least_j - problem.budget_j, 0.0)


def _outcome(
    found: Found, rules: ServerRules, missing_w: FloatArray, least_w: FloatArray, step_s: float, note: str
) -> SolverOutcome:
    if missing_w.any():
        return SolverOutcome(SolverStatus.INFEASIBLE, _shortfall_text(missing_w, least_w, step_s))
    if found.gap <= rules.gap:
        return SolverOutcome(SolverStatus.OPTIMAL, note, found.objective, found.gap)
    why = "" if found.ending is Ending.DONE else f", ended by {found.ending.value}"
    text = f"server plan within {found.gap:.2%} of the best possible (asked: {rules.gap:.2%}){why}"
    return SolverOutcome(
        SolverStatus.FEASIBLE, "; ".join(filter(None, (text, note))), found.objective, found.gap
    )


def _shortfall_text(missing_w: FloatArray, least_w: npt.NDArray[np.float64], step_s: float) -> str:
    short = np.flatnonzero(missing_w)
    worst = int(short[np.argmax(missing_w[short])])
    first = int(short[0])

    def told(step: int) -> str:
        return (
            f"step {step} (hour {step * step_s / SECONDS_PER_HOUR:.2f}): the servers draw "
            f"{least_w[step]:.1f} W at least, {missing_w[step]:.1f} W more than the envelope"
        )

    text = (
        f"the power envelope is below what sleeping servers draw in {len(short)} steps; first {told(first)}"
    )
    if worst != first:
        text += f"; most {told(worst)}"
    if first == 0 and missing_w[0] > 0:
        text += "; in step 0 the energy of switching servers off counts too"
    return text
