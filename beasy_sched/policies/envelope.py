"""Energy put into, or taken out of, a step of the working plan: its servers refitted to what it then has."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beasy_sched.model.platform import FloatArray, IntArray, Platform
from beasy_sched.model.power import PowerModel
from beasy_sched.policies.working_plan import WorkingPlan

TOLERANCE_J = 1e-3
"""Less than this is neither spent nor saved."""

BoolArray = npt.NDArray[np.bool_]


class EnvelopeRefit:
    """Moves single servers of single steps to faster or slower states, or to sleep and back."""

    def __init__(self, plan: WorkingPlan, platform: Platform) -> None:
        """Lay out what every server can do."""
        self.plan = plan
        self._power = PowerModel(platform)
        kinds = platform.kinds
        states = [[*kind.computing, *([kind.sleep.pstate] if kind.sleep else [])] for kind in kinds]
        widest = max(map(len, states), default=1)
        padded = [row + row[:1] * (widest - len(row)) for row in states]
        self._kind_of = platform.kind_of
        self._choices = np.array(padded, dtype=np.int8).T[:, platform.kind_of]
        """States of each server, of shape (choices, N); a server with few has one of them again."""
        self._asleep = self._choices == plan.sleep
        rates = np.zeros_like(self._power.full_w)
        for row, kind in enumerate(kinds):
            computing = list(kind.computing)
            rates[row, computing] = np.array(kind.speeds_flops)[computing] * kind.cores
        self._rates = rates
        """Speed of a whole server by kind and P-state, flops/s; 0 asleep."""
        longest_s = float(max(self._power.on_s.max(initial=0.0), self._power.off_s.max(initial=0.0)))
        self._computing_s = max(plan.step_s - longest_s, 0.0)
        """What a transition leaves of a step at least."""
        self._up_w, self._down_w = self._least_moves_w(states)

    def worth_trying(self, first_step: int, end_step: int, energy_j: float) -> IntArray:
        """Steps of the range in which some server may have a move that is not beyond ``energy_j``."""
        table = self._up_w if energy_j > 0 else self._down_w
        least_w = table[self._kind_of, self.plan.states[first_step:end_step]].min(axis=1)
        return first_step + np.flatnonzero(least_w * self._computing_s <= abs(energy_j))

    def change(self, step: int, energy_j: float, idle: BoolArray) -> float:
        """Let the servers draw up to ``energy_j`` more in ``step``, or that much less where it is negative.

        More: the most speed for the energy first. Less: servers that are ``idle`` (N) first, the least
        speed for the energy first. Of equals, the fewest switches, then the lower id. Never goes beyond
        ``energy_j``; returns by how much planned energy has changed, transitions of the step after included.
        """
        plan, hosts = self.plan, np.arange(self._choices.shape[1])
        costs_j, flops = plan.choice_energy_j(step, self._choices), self._flops(step)
        switches = self._switches(step)
        at = np.argmax(self._choices == plan.states[step], axis=0)
        first, left_j = at.copy(), energy_j
        sign = 1.0 if energy_j > 0 else -1.0
        while True:
            more_j = sign * (costs_j - costs_j[at, hosts])
            better = sign * (flops - flops[at, hosts])
            fits = (more_j > TOLERANCE_J) & (more_j <= sign * left_j)
            if sign > 0:
                fits &= better > 0
            elif (fits & idle).any():
                fits &= idle
            if not fits.any():
                break
            worth = np.where(fits, sign * better / np.where(fits, more_j, 1.0), -np.inf)
            row, host = self._best(worth, switches)
            left_j -= sign * more_j[row, host]
            at[host] = row
        changed = np.flatnonzero(at != first)
        if len(changed):
            plan.set_states(changed, step, step + 1, self._choices[at[changed], changed])
        return energy_j - left_j

    @staticmethod
    def _best(worth: FloatArray, switches: IntArray) -> tuple[int, int]:
        """The move of most worth; of equals, the one of fewest switches, then the first."""
        most = worth.max()
        equals = np.flatnonzero(worth >= most - 1e-9 * abs(most))
        row, host = np.unravel_index(equals[np.argmin(switches.ravel()[equals])], worth.shape)
        return int(row), int(host)

    def _flops(self, step: int) -> FloatArray:
        """Flops of each server in ``step`` and the one after it by its choice in ``step``: (choices, N)."""
        plan, on_s = self.plan, self._power.on_s[self._kind_of]
        woken = ~self._asleep & ~self.plan.on_before(step)
        flops = self._rates[self._kind_of, self._choices] * (plan.step_s - np.where(woken, on_s, 0.0))
        if step + 1 < plan.steps:
            after = self._rates[self._kind_of, plan.states[step + 1]]
            flops -= np.where(self._asleep & plan.on[step + 1], after * on_s, 0.0)
        return flops

    def _switches(self, step: int) -> IntArray:
        """Times that each server falls asleep or wakes at ``step`` or after it, by its choice."""
        after = self.plan.on[step + 1] if step + 1 < self.plan.steps else ~self._asleep
        falls_or_wakes: IntArray = (self._asleep == self.plan.on_before(step)).astype(np.intp) + (
            self._asleep == after
        )
        return falls_or_wakes

    def _least_moves_w(self, states: list[list[int]]) -> tuple[FloatArray, FloatArray]:
        """By kind and P-state: power that any move up costs at least, and that any move down saves at least.

        Infinite where there is no such move. A server may draw a transition's power for a while instead.
        """
        power = self._power
        up_w = np.full_like(power.full_w, np.inf)
        down_w = up_w.copy()
        for row, choices in enumerate(states):
            for here in choices:
                draw_w = power.full_w[row, here]
                for there in choices:
                    to_w = power.full_w[row, there]
                    if to_w > draw_w:
                        costs_w = min(to_w, power.on_w[row]) if self._rates[row, here] == 0.0 else to_w
                        up_w[row, here] = min(up_w[row, here], max(costs_w - draw_w, 0.0))
                    elif to_w < draw_w:
                        leaves_w = max(to_w, power.off_w[row]) if self._rates[row, there] == 0.0 else to_w
                        down_w[row, here] = min(down_w[row, here], max(draw_w - leaves_w, 0.0))
        return up_w, down_w
