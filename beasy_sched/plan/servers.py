"""ITDM: the state of every server in every step, the most flops within the power envelope.

Numbers of servers by kind are planned first (`server_search`), then handed to single servers
(`assignment`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from beasy_sched.arrays import FloatArray, StateArray
from beasy_sched.model.platform import Platform
from beasy_sched.plan.outcome import SolverOutcome, SolverStatus
from beasy_sched.plan.server_energy import server_plan_energy_j, server_plan_flops
from beasy_sched.plan.server_problem import ServerProblem
from beasy_sched.plan.server_rules import ServerRules
from beasy_sched.plan.server_search import Found, search
from beasy_sched.plan.server_setup import ServerSetup, envelope_j, least_power_w
from beasy_sched.plan.server_start import ServerStart
from beasy_sched.plan.solver import Ending, SolverLimits
from beasy_sched.units import SECONDS_PER_HOUR

__all__ = ["ServerPlan", "ServerRules", "ServerStart", "least_power_w", "plan_servers"]

_NODES = 2000
"""Branch-and-bound nodes of a small model: some seconds."""
_SAME_ENVELOPE = 1e-6
"""An envelope that lacks no more than this share of the least draw is taken as enough (solver rounding)."""
_DROPPED = "least on-times carried over from the window before do not fit the envelope and were dropped"


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
    setup = ServerSetup.of(platform, start, rules, step_s, window)
    problem = setup.problem(envelope_j(envelope_w, step_s), rules.switch_cost_s)
    note = ""
    if _shortfall_j(problem).any() and any(obliged.any() for obliged in problem.obliged):
        note, setup = _DROPPED, setup.free()
        problem = setup.problem(problem.budget_j, rules.switch_cost_s)
    shortfall_j = _shortfall_j(problem)
    raised = replace(problem, budget_j=problem.budget_j + shortfall_j)
    found = search(raised, rules.gap, SolverLimits(nodes=_NODES, time_s=rules.time_s))
    states = setup.states(found.counts)
    missing_w = np.where(shortfall_j > _SAME_ENVELOPE * problem.least_j, shortfall_j / step_s, 0.0)
    return ServerPlan(
        states=states,
        energy_j=server_plan_energy_j(platform, states, step_s, start.states),
        flops=server_plan_flops(platform, states, step_s, start.states),
        wakeups=sum(int(counts.waking.sum()) for counts in found.counts),
        shortfall_w=missing_w,
        outcome=_outcome(found, rules.gap, missing_w, problem.least_j / step_s, step_s, note),
        end=ServerStart.after(platform, states, step_s, rules.minimum_on_s, start),
    )


def _shortfall_j(problem: ServerProblem) -> FloatArray:
    """What the budget lacks in each step even if all servers sleep as soon as they may, J: [T]."""
    return np.where(problem.least_j > problem.allowed_j, problem.least_j - problem.budget_j, 0.0)


def _outcome(
    found: Found, gap: float, missing_w: FloatArray, least_w: FloatArray, step_s: float, note: str
) -> SolverOutcome:
    if missing_w.any():
        return SolverOutcome(SolverStatus.INFEASIBLE, _shortfall_text(missing_w, least_w, step_s))
    parts = [note] if note else []
    status = SolverStatus.OPTIMAL if found.gap <= gap else SolverStatus.FEASIBLE
    harmless = (Ending.DONE, Ending.NODES) if status is SolverStatus.OPTIMAL else (Ending.DONE,)
    if found.ending not in harmless:
        parts.append(f"the search was cut short by {found.ending.value}")
    if status is SolverStatus.FEASIBLE:
        distance = f"within {found.gap:.2%}" if math.isfinite(found.gap) else "at an unknown distance"
        parts.insert(0, f"server plan {distance} of the best possible (asked: {gap:.2%})")
    return SolverOutcome(status, "; ".join(parts), found.objective, found.gap)


def _shortfall_text(missing_w: FloatArray, least_w: FloatArray, step_s: float) -> str:
    short = np.flatnonzero(missing_w).tolist()
    first, worst = short[0], int(np.argmax(missing_w))

    def told(step: int) -> str:
        return (
            f"step {step} (hour {step * step_s / SECONDS_PER_HOUR:.2f}): the servers draw "
            f"{least_w[step]:.1f} W at least, {missing_w[step]:.1f} W more than the envelope"
        )

    steps = "1 step" if len(short) == 1 else f"{len(short)} steps; first"
    text = f"the power envelope is below what sleeping servers draw in {steps}: {told(first)}"
    if worst != first:
        text += f"; most in {told(worst)}"
    if first == 0:
        text += "; in step 0 the energy of switching servers off counts too"
    return text
