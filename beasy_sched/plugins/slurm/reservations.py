"""Slurm's reservations: parsing of the controller's list, and the two that withhold nodes.

The text of ``scontrol show reservation --oneliner`` is read in all versions: 22.05 has no JSON of it.
No input or output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from beasy_sched.errors import InputError
from beasy_sched.limits import shortened
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.records import expanded

OWNER: Final = "root"
"""User of our reservations: Slurm requires one."""
FLAGS: Final = frozenset({"IGNORE_JOBS", "OVERLAP"})
"""Flags of our reservations: running jobs continue, and the two may cover the same nodes."""
_SOURCE: Final = "scontrol show reservation"
ROUNDING_S: Final = 2.0
"""Difference of times that counts as none, s: Slurm's are whole seconds."""


class NodeReservation(Struct, frozen=True):
    """A reservation of nodes. Times are s since 1970, as Slurm's own."""

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float
    users: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()

    def holds_at(self, at_s: float) -> bool:
        """Whether the nodes are reserved at a time."""
        return self.start_s <= at_s < self.end_s


def read_reservations(text: str) -> list[NodeReservation]:
    """Read the output of ``scontrol show reservation --oneliner``, with times in s since 1970.

    Raises InputError for output in another format.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and lines[0].startswith("No reservations"):
        return []
    return [_reservation(number, line) for number, line in enumerate(lines, 1)]


def _reservation(number: int, line: str) -> NodeReservation:
    fields = dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", line))
    try:
        return NodeReservation(
            fields["ReservationName"],
            expanded(fields["Nodes"]),
            float(fields["StartTime"]),
            float(fields["EndTime"]),
            tuple(_listed(fields.get("Users", ""))),
            frozenset(_listed(fields.get("Flags", ""))),
        )
    except (KeyError, ValueError):
        expected = "'ReservationName=.. StartTime=.. EndTime=.. Nodes=..' with times in s since 1970"
        raise InputError(
            _SOURCE, f"found {shortened(line.strip(), 120)!r}, expected {expected}", line=number
        ) from None


def _listed(text: str) -> Iterator[str]:
    return (part for part in text.split(",") if part and part != "(null)")


class Names(Struct, frozen=True):
    """Names of the two reservations of a partition."""

    now: str
    """The one on the nodes that may not be on now."""
    ahead: str
    """The one from the next fall of the offer."""

    @classmethod
    def of(cls, partition: str) -> Names:
        """Return the names for a partition."""
        return cls(f"beasy-now-{partition}", f"beasy-ahead-{partition}")

    def are_for(self, name: str) -> bool:
        """Whether a reservation is called like one of the two."""
        return name in (self.now, self.ahead)


def is_ours(found: NodeReservation, nodes: Iterable[str]) -> bool:
    """Whether a reservation with one of our names is one that we made for some of these ``nodes``."""
    return found.users == (OWNER,) and found.flags >= FLAGS and {*found.nodes} <= {*nodes}


class Wanted(Struct, frozen=True):
    """A reservation that should exist: its nodes, in order, and its times."""

    nodes: tuple[str, ...]
    start_s: float | None
    """Start, s since 1970; None: at once."""
    end_s: float


def changes(
    name: str, found: NodeReservation | None, wanted: Wanted | None, now_s: float
) -> list[a.ClusterAction]:
    """Return the actions that turn the reservation ``name`` as found into the wanted one, at ``now_s``.

    None: there is none, or there should be none. At most two actions: the start of a reservation that has
    begun cannot be changed.
    """
    if found is not None and found.end_s <= now_s:
        found = None  # Slurm removes it by itself
    if wanted is None:
        return [] if found is None else [a.DeleteReservation(name)]
    if found is None:
        return [a.MakeReservation(name, wanted.nodes, wanted.start_s, wanted.end_s)]
    has_begun = found.start_s <= now_s
    if wanted.start_s is None if has_begun else _same(found.start_s, wanted.start_s):
        nodes = None if {*found.nodes} == {*wanted.nodes} else wanted.nodes
        end_s = None if _same(found.end_s, wanted.end_s) else wanted.end_s
        return [] if nodes is None and end_s is None else [a.ChangeReservation(name, nodes, None, end_s)]
    if has_begun:
        make = a.MakeReservation(name, wanted.nodes, wanted.start_s, wanted.end_s)
        return [a.DeleteReservation(name), make]
    start_s = now_s if wanted.start_s is None else wanted.start_s
    return [a.ChangeReservation(name, wanted.nodes, start_s, wanted.end_s)]


def _same(one_s: float, other_s: float | None) -> bool:
    return other_s is not None and abs(one_s - other_s) < ROUNDING_S


def after(
    found: Mapping[str, NodeReservation], action: a.ReservationAction, now_s: float = 0.0
) -> dict[str, NodeReservation]:
    """Return the reservations, by name, after an action at ``now_s``."""
    left = {name: each for name, each in found.items() if name != action.name}
    match action:
        case a.MakeReservation(name, nodes, start_s, end_s):
            start_s = now_s if start_s is None else start_s
            left[name] = NodeReservation(name, nodes, start_s, end_s, (OWNER,), FLAGS)
        case a.ChangeReservation(name, nodes, start_s, end_s) if name in found:
            new = {"nodes": nodes, "start_s": start_s, "end_s": end_s}
            given = {field: value for field, value in new.items() if value is not None}
            left[name] = msgspec.structs.replace(found[name], **given)
    return left
