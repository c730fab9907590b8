"""What single servers can do in a step of a plan: every move to another state, and what it brings and costs.

Servers of one situation are alike: of one kind, in the same planned state in the step, on or asleep in the
step before, and in the same state in the step after. All of them have the same moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, IntArray, StateArray
from beasy_sched.model.platform import Platform
from beasy_sched.model.power import PowerModel
from beasy_sched.plan.server_energy import server_step_energy_j

TOLERANCE_J = 1e-3
"""Less than this is neither spent nor saved."""

_AWAKE = -2
"""A state in which no server sleeps."""

Situations = npt.NDArray[np.int64]
"""Numbers of situations."""


class Move(NamedTuple):
    """A change of one server's state in one step."""

    worth: float
    """Flops gained for each joule spent; flops lost for each joule saved, negative."""
    energy_j: float
    """What it costs where it moves up, what it saves where it moves down; with the step after."""
    switches: int
    """Times that the server falls asleep or wakes at the step or after it, once moved."""
    row: int
    """Place of the new state among those of its kind: computing states first, then sleep."""
    pstate: int
    """The new state."""
    situation: int
    """The server's situation once moved."""


class MoveTables:
    """Numbers the situations of a platform's servers, and knows the moves of each."""

    def __init__(self, platform: Platform, step_s: float) -> None:
        """Lay out energy and flops by situation."""
        self._power = PowerModel(platform)
        self._kind_of = platform.kind_of
        self._choices = [
            [*kind.computing, *([kind.sleep.pstate] if kind.sleep else [])] for kind in platform.kinds
        ]
        self.no_state = self._power.full_w.shape[1]
        """Stands for a state where there is none."""
        self._sleep_of = [kind.sleep.pstate if kind.sleep else -1 for kind in platform.kinds]
        self._rates = np.zeros_like(self._power.full_w)
        for row, kind in enumerate(platform.kinds):
            computing = list(kind.computing)
            self._rates[row, computing] = np.array(kind.speeds_flops)[computing] * kind.cores
        self._energy_j, self._flops = self._outcomes(step_s)
        self._costs_j, self._saves_j = self._least_j(up=True), self._least_j(up=False)
        self._moves: dict[tuple[int, bool], list[Move]] = {}

    def situations(self, slept: BoolArray, now: StateArray, after: IntArray) -> Situations:
        """Situation of each server (last axis: N).

        ``slept``: whether it is asleep in the step before; ``now`` and ``after``: its states in the step and
        in the one after it, ``no_state`` where the plan ends.
        """
        here = (self._kind_of * 2 + slept) * self.no_state + now
        numbers: Situations = here * (self.no_state + 1) + after
        return numbers

    def least_j(self, situations: Situations, up: bool) -> FloatArray:
        """Least energy of any move up (or down) of servers in these situations; infinite where none is."""
        least_j: FloatArray = (self._costs_j if up else self._saves_j)[situations]
        return least_j

    def moves(self, situation: int, up: bool) -> list[Move]:
        """The moves up (or down) of a server in this situation, those of most worth first."""
        known = self._moves.get((situation, up))
        if known is None:
            known = self._moves[situation, up] = sorted(self._moves_of(situation, up), key=_by_worth)
        return known

    def _moves_of(self, situation: int, up: bool) -> list[Move]:
        rest, after = divmod(situation, self.no_state + 1)
        rest, here = divmod(rest, self.no_state)
        kind, slept = divmod(rest, 2)
        energy_j, flops = self._energy_j[kind, slept, after], self._flops[kind, slept, after]
        sign = 1.0 if up else -1.0
        sleep = self._sleep_of[kind]
        found = []
        for row, there in enumerate(self._choices[kind]):
            asleep = there == sleep
            switches = (asleep != slept) + (after != self.no_state and asleep != (after == sleep))
            spent_j = sign * float(energy_j[there] - energy_j[here])
            gained = float(flops[there] - flops[here])
            if spent_j > TOLERANCE_J and (gained > 0.0 or not up):
                moved = situation + (there - here) * (self.no_state + 1)
                found.append(Move(gained / spent_j, spent_j, switches, row, there, moved))
        return found

    def _outcomes(self, step_s: float) -> tuple[FloatArray, FloatArray]:
        """Energy (J) and flops of a step and the one after it: [kind, asleep before, state after, state]."""
        power, count = self._power, self.no_state
        kind = np.arange(len(power.full_w))[:, None]
        states = np.arange(count, dtype=np.int8)
        sleep = np.array(self._sleep_of, dtype=np.int8)[:, None]
        asleep, on_s = states == sleep, power.on_s[:, None]
        step_j = np.empty((len(kind), 2, count))
        for slept, before in enumerate((np.full_like(sleep, _AWAKE), sleep)):
            step_j[:, slept] = server_step_energy_j(power, kind, states, before, sleep, step_s)
        flops = self._rates * np.stack([np.full(asleep.shape, step_s), step_s - np.where(asleep, 0.0, on_s)])
        later = (slice(None), slice(None), slice(count))
        energy_j = np.repeat(step_j[:, :, None], count + 1, axis=2)
        energy_j[later] += step_j[kind[..., None], asleep[:, None].astype(np.intp), states[:, None]][:, None]
        flops = np.repeat(flops.swapaxes(0, 1)[:, :, None], count + 1, axis=2)
        woken = asleep[:, None, :] & ~asleep[:, :, None]
        flops[later] -= np.where(woken, (self._rates * on_s)[:, :, None], 0.0)[:, None]
        return energy_j, flops

    def _least_j(self, *, up: bool) -> FloatArray:
        """Least energy of a move by situation."""
        table = np.full((len(self._choices), 2, self.no_state, self.no_state + 1), np.inf)
        for kind, choices in enumerate(self._choices):
            energy_j, flops = self._energy_j[kind][..., choices], self._flops[kind][..., choices]
            for column, here in enumerate(choices):
                spent_j = energy_j - energy_j[..., column : column + 1]
                moves = flops > flops[..., column : column + 1] if up else True
                spent_j = spent_j if up else -spent_j
                fits = (spent_j > TOLERANCE_J) & moves
                table[kind, :, here] = np.where(fits, spent_j, np.inf).min(axis=-1)
        return table.ravel()


def _by_worth(move: Move) -> tuple[float, int]:
    return -move.worth, move.row
