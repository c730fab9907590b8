"""Choice of the nodes that are withheld from Slurm.

Slurm decides where jobs run; a policy offers a number of nodes of each kind, now and ahead. The nodes beyond
that number are withheld: reserved, and switched off when no job runs there. No input or output.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from msgspec import Struct


class Use(IntEnum):
    """Use of a node, in the order in which nodes are withheld."""

    ASLEEP = 0
    """Powered down, or powering down."""
    IDLE = 1
    BUSY = 2
    """A job is running, or about to run, or leaving."""


class NodeNow(Struct, frozen=True):
    """A node that can be offered: in service, and not reserved by others."""

    name: str
    kind: str
    """Name of its kind in the platform."""
    use: Use
    free_s: float = 0.0
    """Time by which its jobs have ended, by their limits, s since 1970; infinite without a limit."""


class OfferSpan(Struct, frozen=True):
    """A number of nodes of a kind that may be on from one time to another, s since 1970.

    The lowest number applies where spans of a kind overlap; a time without one is not limited.
    """

    kind: str
    count: int
    start_s: float
    end_s: float


class Withheld(Struct, frozen=True):
    """The nodes to withhold: now, and from the next fall of the offer."""

    now: frozenset[str] = frozenset()
    ahead: frozenset[str] = frozenset()
    fall_s: float | None = None
    """Time of the next fall, s since 1970; None if there is none."""


def counts_at(spans: Iterable[OfferSpan], at_s: float) -> dict[str, int]:
    """Return the number of nodes of each kind that may be on at a time; kinds without a limit are missing."""
    counts: dict[str, int] = {}
    for span in spans:
        if span.start_s <= at_s < span.end_s:
            counts[span.kind] = min(span.count, counts.get(span.kind, span.count))
    return counts


def next_fall(
    spans: Sequence[OfferSpan], available: Mapping[str, int], now_s: float, longest_s: float
) -> tuple[float, dict[str, int]] | None:
    """Return the time of the next fall, and the lowest number of nodes of each kind from then on.

    Numbers count until ``longest_s`` from now; the first fall counts even if it is later. ``available``:
    number of nodes of each kind. None if no number falls below the present one.
    """
    present = _within(available, counts_at(spans, now_s))
    lowest: dict[str, int] | None = None
    first_s = math.inf
    for at_s in sorted({span.start_s for span in spans if now_s < span.start_s < span.end_s}):
        if at_s > max(first_s, now_s + longest_s) and lowest is not None:
            break
        counts = _within(available, counts_at(spans, at_s))
        if any(counts[kind] < present[kind] for kind in counts):
            first_s = min(first_s, at_s)
            lowest = {kind: min(counts[kind], (lowest or present)[kind]) for kind in counts}
    return None if lowest is None else (first_s, lowest)


def _within(available: Mapping[str, int], counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of nodes of each kind that may be on, of those there are."""
    return {kind: min(counts.get(kind, most), most) for kind, most in available.items()}


def withheld(
    nodes: Sequence[NodeNow], spans: Sequence[OfferSpan], before: Withheld, now_s: float, longest_s: float
) -> Withheld:
    """Return the nodes to withhold for offers, as far as possible those withheld ``before``.

    ``longest_s``: the longest time limit among waiting jobs, s; 0 if none waits.
    """
    kinds: dict[str, list[NodeNow]] = defaultdict(list)
    for node in nodes:
        kinds[node.kind].append(node)
    available = {kind: len(same) for kind, same in kinds.items()}
    counts = _within(available, counts_at(spans, now_s))
    fall = next_fall(spans, available, now_s, longest_s)
    now: set[str] = set()
    ahead: set[str] = set()
    for kind, same in kinds.items():
        held = _chosen(same, len(same) - counts[kind], before.now, before.ahead, now_s)
        now |= held
        if fall is not None:
            more = counts[kind] - fall[1][kind]
            ahead |= held | _beyond(same, more, held, before.ahead, fall[0])
    return Withheld(frozenset(now), frozenset(ahead), None if fall is None else fall[0])


def _chosen(
    nodes: Sequence[NodeNow], count: int, before: frozenset[str], ahead: frozenset[str], now_s: float
) -> set[str]:
    """Return the names of ``count`` nodes to withhold now.

    Nodes without a job come first, so that a withheld node that is busy is exchanged for one that has become
    free: it may run on, and the other one can be switched off. Among those, the ones withheld before stay;
    then those that sleep, or will be withheld next; then those that are free soonest.
    """

    def order(at: int) -> tuple[bool, bool, bool, Use, float, int]:
        node = nodes[at]
        new = node.name not in before
        return (
            node.use is Use.BUSY,
            new,
            new and node.name not in ahead,
            node.use,
            max(node.free_s, now_s),
            -at,
        )

    return {nodes[at].name for at in sorted(range(len(nodes)), key=order)[:count]}


def _beyond(
    nodes: Sequence[NodeNow], count: int, held: set[str], before: frozenset[str], fall_s: float
) -> set[str]:
    """Return the names of ``count`` further nodes to withhold from a fall on: those free by then first."""

    def order(at: int) -> tuple[bool, bool, Use, float, int]:
        node = nodes[at]
        return node.free_s > fall_s, node.name not in before, node.use, node.free_s, -at

    left = [at for at in range(len(nodes)) if nodes[at].name not in held]
    return {nodes[at].name for at in sorted(left, key=order)[:count]}


def longest_limit_s(limits_s: Iterable[float | None]) -> float:
    """Return the longest of the time limits of waiting jobs, s; infinite if one has none, 0 without jobs."""
    return max((math.inf if limit_s is None else limit_s for limit_s in limits_s), default=0.0)
