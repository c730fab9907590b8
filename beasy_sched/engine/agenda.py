"""The agenda of a run: everything that is timed, in one place, in one order.

Whatever is timed has an owner: held jobs, lost hosts, the clock of steps, kills, plans, and the calls that
the policy asks for. All that is due of one owner is done together, in one decision or one line of the log.
Each owner therefore has a single entry, which it moves to the time at which it is due next.

A message may be late for several entries. They are then done by turn, not by time: a step that ends is
settled before its kills are sent, for example, although these were due earlier.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum

from beasy_sched.units import TIME_TOLERANCE_S


class Turn(IntEnum):
    """Order of what is due in one message."""

    RELEASES = 0
    """Held jobs are queued or rejected."""
    HOSTS = 1
    """Lost hosts may be woken again."""
    STEP = 2
    """The present step is settled, and the next one opened."""
    KILLS = 3
    """Kills are sent."""
    PLAN = 4
    """A plan is requested, after the policy has acted."""
    CALL = 5
    """The policy is called, as with every message."""


class Due:
    """The entry of one owner: what it has to do next, and when."""

    __slots__ = ("_agenda", "act", "at_s", "needs_call", "turn")

    def __init__(self, agenda: Agenda, turn: Turn, act: Callable[[], object], needs_call: bool) -> None:
        """Begin with nothing to do; `Agenda.enter` makes entries."""
        self._agenda = agenda
        self.turn = turn
        self.act = act
        self.needs_call = needs_call
        """Whether the simulator is asked for a call at that time; otherwise the next message is early
        enough."""
        self.at_s = math.inf
        """Time at which it is due, s; infinite if there is nothing to do, minus infinity for at once."""

    def move(self, at_s: float) -> None:
        """Be due at ``at_s`` (s) instead."""
        before_s, agenda = self.at_s, self._agenda
        if at_s == before_s:
            return
        self.at_s = at_s
        if at_s < agenda.next_s:
            agenda.next_s = at_s
        elif before_s == agenda.next_s:
            agenda.look()

    def advance(self, at_s: float) -> None:
        """Be due at ``at_s`` (s) if that is earlier."""
        if at_s < self.at_s:
            self.move(at_s)


class Agenda:
    """The entries of all owners, by turn."""

    def __init__(self) -> None:
        """Begin without entries."""
        self._entries: list[Due] = []
        self.next_s = math.inf
        """Time at which the first entry is due, s; infinite if none is."""

    def enter(self, turn: Turn, act: Callable[[], object] = lambda: None, *, needs_call: bool = True) -> Due:
        """Return the entry of a new owner, which does ``act`` when it is due."""
        entry = Due(self, turn, act, needs_call)
        self._entries.append(entry)
        self._entries.sort(key=lambda each: each.turn)
        return entry

    def run(self, now: float, first: Turn, last: Turn) -> None:
        """Do what is due at ``now`` (s), from the first to the last of these turns.

        Who acts moves the entry, or is due again with the next message.
        """
        latest_s = now + TIME_TOLERANCE_S
        if self.next_s <= latest_s:
            for entry in self._entries:
                if entry.at_s <= latest_s and first <= entry.turn <= last:
                    entry.act()

    def next_call_s(self) -> float:
        """Return the time (s) of the first entry that needs a call; infinite if none does."""
        first_s = math.inf
        for entry in self._entries:
            if entry.at_s < first_s and entry.needs_call:
                first_s = entry.at_s
        return first_s

    def look(self) -> None:
        """Find the first entry again, after it has been moved."""
        first_s = math.inf
        for entry in self._entries:
            if entry.at_s < first_s:
                first_s = entry.at_s
        self.next_s = first_s
