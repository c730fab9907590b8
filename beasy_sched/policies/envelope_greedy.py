"""The best moves of a step's servers, one after the other, as far as an amount of energy goes."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import NamedTuple

from beasy_sched.arrays import StateArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.envelope_moves import Move, MoveTables, Situations

WORTH_TOLERANCE = 1e-9
"""Moves whose worth differs by this share are equals."""


class Choice(NamedTuple):
    """The next move, and how long it stays the next one."""

    situation: int
    """Of the servers that make it, the lowest id first."""
    move: Move
    while_j: float
    """It stays the best as long as this much energy is left and servers of the situation are."""
    once: bool
    """Whether to choose again after a single server."""


class GreedyMoves:
    """Servers of one step, in groups of the same situation: whoever is in one has the same moves."""

    def __init__(self, tables: MoveTables, states: StateArray, situations: Situations, up: bool) -> None:
        """Begin with the step's planned ``states`` (N) and ``situations`` (N); moves go up or down."""
        self.states = states.copy()
        """Planned states (N), with the moves made."""
        self._tables, self._situations, self._up = tables, situations, up
        self._groups: defaultdict[int, list[int]] = defaultdict(list)

    def spend(self, hosts: HostIds, energy_j: float) -> float:
        """Move ``hosts`` (ids in order) as far as ``energy_j`` goes; return what is left of it.

        The most worth first; of equals, the fewest switches, then the earlier state of its kind, then the
        lower id.
        """
        self._groups.clear()
        for host, situation in zip(hosts.tolist(), self._situations[hosts].tolist(), strict=True):
            self._groups[situation].append(host)
        while (choice := self._choose(energy_j)) is not None:
            energy_j = self._make(choice, energy_j)
        return energy_j

    def _make(self, choice: Choice, energy_j: float) -> float:
        """Make the chosen move with one server, or with one after the other while nothing comes first."""
        move, group, goal = choice.move, self._groups[choice.situation], self._groups[choice.move.situation]
        moved: list[int] = []
        while group and choice.while_j <= energy_j and not (moved and choice.once):
            energy_j -= move.energy_j
            moved.append(heapq.heappop(group))
        for host in moved:
            heapq.heappush(goal, host)
        self.states[moved] = move.pstate
        if not group:
            del self._groups[choice.situation]
        return energy_j

    def _choose(self, energy_j: float) -> Choice | None:
        """Find the best move that is not beyond ``energy_j``."""
        tops = {situation: self._top(situation, energy_j) for situation in self._groups}
        best = max((top for top in tops.values() if top is not None), key=_worth, default=None)
        if best is None:
            return None
        least = best.worth - WORTH_TOLERANCE * abs(best.worth)
        equals = [
            (move.switches, move.row, self._groups[situation][0], situation, move)
            for situation, top in tops.items()
            if top is not None and top.worth >= least
            for move in self._tables.moves(situation, self._up)
            if move.worth >= least and move.energy_j <= energy_j
        ]
        first = min(equals)
        rivals = sum(equal[:2] == first[:2] for equal in equals) > 1
        move = first[-1]
        ahead = self._top(move.situation, energy_j)
        overtakes = ahead is not None and ahead.worth >= least
        return Choice(first[3], move, max(move.energy_j, best.energy_j), rivals or overtakes)

    def _top(self, situation: int, energy_j: float) -> Move | None:
        """The move of most worth in a situation that is not beyond ``energy_j``."""
        for move in self._tables.moves(situation, self._up):
            if move.energy_j <= energy_j:
                return move
        return None


def _worth(move: Move) -> float:
    return move.worth
