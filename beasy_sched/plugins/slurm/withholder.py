"""Keeps the two reservations of a partition as the offers require: looks, notes, and actions of each step.

No input or output: it gets the reservations that Slurm lists, and returns the actions that change them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from beasy_sched.errors import ConfigError
from beasy_sched.limits import shortened
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.records import compressed
from beasy_sched.plugins.slurm.reservations import (
    ROUNDING_S,
    Names,
    NodeReservation,
    Wanted,
    after,
    changes,
    is_ours,
)
from beasy_sched.plugins.slurm.withheld_nodes import NodeNow, OfferSpan, Use, Withheld, counts_at, withheld
from beasy_sched.units import TIME_TOLERANCE_S

STEPS_HELD: Final = 2
"""Duration of a reservation in steps. If nobody moves its end on, its nodes return to Slurm after these."""
AHEAD_S: Final = 60.0
"""Duration of the reservation ahead, s, or a step if that is shorter.

No job that would run into its start begins before it, whatever its duration; from its start on, the nodes
belong to the other reservation.
"""
MOST_CALLS: Final = 5
"""Number of commands of a step after which nodes that become idle wait for the next one."""
_ASK_AGAIN_S: Final = 30.0
"""Time after which a node that has not begun to power down is asked again, s."""


def check_names(reservations: Iterable[NodeReservation], partition: str, nodes: Iterable[str]) -> None:
    """Raise ConfigError if a reservation with one of our names was made by others."""
    names, inside = Names.of(partition), {*nodes}
    for reservation in reservations:
        if names.are_for(reservation.name) and not is_ours(reservation, inside):
            raise ConfigError(
                f"reservation {reservation.name!r} (nodes {shortened(compressed(reservation.nodes), 60)},"
                f" users {', '.join(reservation.users) or 'none'}) was not made by beasy-sched, which needs"
                f" its name: delete it (scontrol delete ReservationName={reservation.name}), or give it"
                " another name"
            )


class Withholder:
    """The reservations of one partition, and the nodes that they hold."""

    def __init__(self, nodes: Sequence[str], partition: str, *, epoch_s: float, step_s: float) -> None:
        """``nodes``: all names, in order; steps of ``step_s`` begin at ``epoch_s`` (s since 1970)."""
        self._nodes, self._names = (*nodes,), Names.of(partition)
        self._inside = frozenset(nodes)
        self._epoch_s, self._step_s = epoch_s, step_s
        self._looked_at: int | None = None
        """The step in which the reservations were last read."""
        self._ours: dict[str, NodeReservation] = {}
        """Our reservations, by name, as last read or changed."""
        self._theirs: list[NodeReservation] = []
        """Reservations of others."""
        self._extended: dict[str, frozenset[str]] = {}
        """Nodes of those of ours that somebody has extended: theirs until the reservation ends."""
        self._is_fresh = False
        """Whether the reservations have been read since the last decision."""
        self._retried_in: int | None = None
        """The step in which a refused change was last tried again."""
        self._decided_for: tuple[object, ...] = ()
        """Numbers and nodes for which `chosen` was decided."""
        self._step_counted: int | None = None
        self._calls = 0
        """Number of commands for reservations and nodes in the present step, that of the look included."""
        self._asked_s: dict[str, float] = {}
        """Time of the last request to power down each node."""
        self.chosen = Withheld()
        """The nodes to withhold, as decided last."""
        self.notes: list[str] = []
        """Notes for the user; the reader clears the list."""

    # --- observing ------------------------------------------------------------------------------------------

    def needs_look(self, now_s: float) -> bool:
        """Whether the reservations should be read: once in each step, and before another change in it."""
        return self._step(now_s) != self._looked_at

    def _step(self, now_s: float) -> int:
        return math.floor((now_s - self._epoch_s + TIME_TOLERANCE_S) / self._step_s)

    def look(self, now_s: float, reservations: Iterable[NodeReservation]) -> None:
        """Take the reservations that Slurm lists at ``now_s`` (s since 1970)."""
        step = self._step(now_s)
        if step != self._step_counted:
            self._step_counted, self._calls = step, 0
        self._looked_at, self._is_fresh = step, True
        self._calls += 1
        theirs = {reservation.name for reservation in self._theirs}
        before, self._ours, self._theirs = self._ours, {}, []
        extended, self._extended = self._extended, {}
        for reservation in reservations:
            if reservation.end_s <= now_s:
                continue
            if not self._names.are_for(reservation.name):
                self._theirs.append(reservation)
            elif not is_ours(reservation, self._inside):
                if reservation.name not in theirs:
                    self.notes.append(
                        f"reservation {reservation.name!r} was replaced by somebody: it is left alone"
                    )
                self._theirs.append(reservation)
            else:
                self._ours[reservation.name] = reservation
                if reservation.end_s > self._latest_s(reservation, now_s):
                    if reservation.name not in extended:
                        self.notes.append(
                            f"reservation {reservation.name!r} was extended by somebody: it stays so"
                        )
                    self._extended[reservation.name] = extended.get(
                        reservation.name, frozenset(reservation.nodes)
                    )
        listed = {*self._ours, *(reservation.name for reservation in self._theirs)}
        for name, reservation in before.items():
            if name not in listed and reservation.end_s > now_s + ROUNDING_S:
                self.notes.append(f"reservation {name!r} was deleted by somebody: it is made again if needed")

    def _latest_s(self, reservation: NodeReservation, now_s: float) -> float:
        """Latest end that we have given a reservation, s since 1970."""
        start_s = max(reservation.start_s, self._end_s(now_s) - STEPS_HELD * self._step_s)
        return start_s + STEPS_HELD * self._step_s + ROUNDING_S

    def _end_s(self, now_s: float) -> float:
        """End of the reservation on the nodes that are withheld now, s since 1970."""
        return self._epoch_s + (self._step(now_s) + STEPS_HELD) * self._step_s

    def refused(self, now_s: float) -> None:
        """Have the reservations read again, once in a step: Slurm has refused a change of them."""
        if self._retried_in != self._step(now_s):
            self._retried_in, self._looked_at = self._step(now_s), None

    def held_by_others(self, now_s: float) -> frozenset[str]:
        """Return the nodes that reservations of others hold now, or ours for longer than we wanted."""
        theirs = frozenset(
            name for reservation in self._theirs if reservation.holds_at(now_s) for name in reservation.nodes
        )
        for name, nodes in self._extended.items():
            if self._ours[name].holds_at(now_s):
                theirs |= nodes
        return theirs

    def held(self, now_s: float) -> frozenset[str]:
        """Return the nodes that our reservations hold now, as last read or changed."""
        ours = self._ours.values()
        return frozenset(
            name for reservation in ours if reservation.holds_at(now_s) for name in reservation.nodes
        )

    def count(self, others: Sequence[a.ClusterAction]) -> None:
        """Count commands of the present step that somebody else decides on."""
        self._calls += len(others)

    # --- deciding -------------------------------------------------------------------------------------------

    def decide(
        self, now_s: float, nodes: Sequence[NodeNow], spans: Sequence[OfferSpan], longest_s: float
    ) -> list[a.ClusterAction]:
        """Return the actions for nodes that are in service, and reserved by nobody else.

        Within a step, other nodes are chosen only if the numbers or the nodes have changed, and only after
        the reservations have been read again. Idle nodes are powered down at a later poll than they were
        reserved, so that no job can have started there, and as long as the step's calls allow it. Times are s
        since 1970. ``longest_s``: the longest time limit among waiting jobs, s.
        """
        actions: list[a.ClusterAction] = []
        deciding_for = counts_at(spans, now_s), {node.name for node in nodes}
        if self._is_fresh:
            self._is_fresh, self._decided_for = False, deciding_for
            self.chosen = withheld(nodes, spans, self.chosen, now_s, longest_s)
            actions += self._changes(now_s)
        elif deciding_for != self._decided_for:
            self._looked_at = None
        elif self._calls < MOST_CALLS and (off := self._to_switch_off(now_s, nodes)):
            actions.append(a.SwitchOff(off))
        self._calls += len(actions)
        return actions

    def _changes(self, now_s: float) -> list[a.ClusterAction]:
        """Return the actions that bring our reservations to the chosen nodes."""
        actions: list[a.ClusterAction] = []
        for name, wanted in self._wanted(now_s, self.chosen).items():
            if all(name != found.name for found in self._theirs):
                actions += changes(name, self._ours.get(name), wanted, now_s)
        for action in actions:
            if isinstance(action, a.ReservationAction):
                self._ours = after(self._ours, action, now_s)
        return actions

    def _wanted(self, now_s: float, chosen: Withheld) -> Mapping[str, Wanted | None]:
        """Return the two reservations that should exist."""
        now, ahead = (
            tuple(name for name in self._nodes if name in names) for names in (chosen.now, chosen.ahead)
        )
        fall_s, held_s = chosen.fall_s, min(AHEAD_S, self._step_s)
        wanted = {
            self._names.now: Wanted(now, None, self._end_s(now_s)) if now else None,
            self._names.ahead: Wanted(ahead, fall_s, fall_s + held_s) if ahead and fall_s else None,
        }
        for name, theirs in self._extended.items():
            reservation = self._ours[name]
            more = now if name == self._names.now else ()
            nodes = tuple(node for node in self._nodes if node in theirs or node in more)
            start_s = None if reservation.start_s <= now_s else reservation.start_s
            wanted[name] = Wanted(nodes, start_s, reservation.end_s)
        return wanted

    def _to_switch_off(self, now_s: float, nodes: Sequence[NodeNow]) -> tuple[str, ...]:
        """Return the idle nodes to power down: no job can start there, since they were reserved before."""
        reserved = self.held(now_s) & self.chosen.now
        late = now_s - _ASK_AGAIN_S
        off = tuple(
            node.name
            for node in nodes
            if node.use is Use.IDLE
            and node.name in reserved
            and self._asked_s.get(node.name, -math.inf) <= late
        )
        self._asked_s.update(dict.fromkeys(off, now_s))
        return off
