"""Energy put into, or taken out of, steps of the working plan: their servers are refitted to it."""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.model.platform import Platform
from beasy_sched.policies.envelope_greedy import GreedyMoves
from beasy_sched.policies.envelope_moves import TOLERANCE_J, MoveTables
from beasy_sched.policies.working_plan import WorkingPlan


class EnvelopeRefit:
    """Moves single servers of single steps to faster or slower states, or to sleep and back.

    While it is used, nobody else changes the plan's states.
    """

    def __init__(self, plan: WorkingPlan, platform: Platform) -> None:
        """Lay out what every server can do in every step."""
        self.plan = plan
        self._tables = MoveTables(platform, plan.step_s)
        self._situations = np.zeros(plan.states.shape, dtype=np.int64)
        self._least_j = {True: np.full(plan.steps, np.inf), False: np.full(plan.steps, np.inf)}
        """Least energy of any move up (True) or down in each step."""
        self._look_at(0, plan.steps)

    def can_change(self, steps: IntArray, energy_j: float) -> BoolArray:
        """Tell for each of ``steps`` whether some server has a move in it that is not beyond ``energy_j``."""
        return np.asarray(self._least_j[energy_j > 0][steps] <= abs(energy_j))

    def spread(self, steps: IntArray, energy_j: float, busy_until_s: FloatArray) -> tuple[float, int]:
        """Put ``energy_j`` into ``steps`` in this order, each as far as it can take it.

        Where it is negative, take it out of them. ``busy_until_s`` (N): when the servers are idle at the
        latest. Returns what is left, and how many steps have changed.
        """
        left_j, place, changed = energy_j, 0, 0
        while abs(left_j) > TOLERANCE_J and place < len(steps):
            can_change = self.can_change(steps[place:], left_j)
            place += int(can_change.argmax())
            if not can_change.any():
                break
            step = int(steps[place])
            left_j -= self.change(step, left_j, busy_until_s <= self.plan.start_of(step))
            place, changed = place + 1, changed + 1
        return left_j, changed

    def change(self, step: int, energy_j: float, idle: BoolArray) -> float:
        """Let the servers draw up to ``energy_j`` more in ``step``, or that much less where it is negative.

        More: the most speed for the energy first. Less: servers that are ``idle`` (N) first, the least
        speed for the energy first. Of equals, the fewest switches, then the lower id. Never goes beyond
        ``energy_j``; returns by how much planned energy has changed, transitions of the step after included.
        """
        plan, up, left_j = self.plan, energy_j > 0, abs(energy_j)
        situations = self._situations[step]
        moves = GreedyMoves(self._tables, plan.states[step], situations, up)
        can_move = self._tables.least_j(situations, up) <= left_j
        for group in (can_move,) if up else (can_move & idle, can_move & ~idle):
            left_j = moves.spend(np.flatnonzero(group), left_j)
        changed = np.flatnonzero(moves.states != plan.states[step])
        if len(changed):
            plan.set_states(changed, step, step + 1, moves.states[changed])
            self._look_at(max(step - 1, 0), min(step + 2, plan.steps))
        return energy_j - left_j if up else energy_j + left_j

    def _look_at(self, first_step: int, end_step: int) -> None:
        """Learn what servers can do in these steps, as they are planned now."""
        plan, rows = self.plan, slice(first_step, end_step)
        last = end_step == plan.steps
        slept = np.logical_not([plan.on_before(first_step), *plan.on[first_step : end_step - 1]])
        after = plan.states[first_step + 1 : end_step + 1].astype(np.int64)
        if last:
            after = np.concatenate([after, np.full((1, after.shape[1]), self._tables.no_state)])
        self._situations[rows] = self._tables.situations(slept, plan.states[rows], after)
        for up, least_j in self._least_j.items():
            least_j[rows] = self._tables.least_j(self._situations[rows], up).min(axis=1, initial=np.inf)
