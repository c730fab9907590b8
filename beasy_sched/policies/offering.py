"""Offers of servers to an external scheduler, from masks and plans of servers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.engine.actions import NO_FACTS, Action, CallAt, FactDict, Facts, Offer
from beasy_sched.engine.policy import View
from beasy_sched.engine.session_words import Rule, Sentences, Words, words_of
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE, SWITCHING_ON
from beasy_sched.model.jobs import NO_TERMS
from beasy_sched.model.platform import Platform
from beasy_sched.units import TIME_TOLERANCE_S

SHARE_TOLERANCE: Final = 1e-9
"""Rounding error of sums of shares of hosts."""

ALL_OFFERED: Final = Rule(
    "offer", "all servers", Words("The policy does not limit the servers that may be on.")
)
ALL_WORDS: Final[Sentences] = words_of(ALL_OFFERED)
"""Words for the rule of policies that offer all servers."""


OFFERED_FOR_QUEUE: Final = Rule(
    "offer",
    "wanted by jobs",
    Words(
        "{hosts_busy:server} with jobs, and {hosts_wanted} for waiting jobs"
        "[hosts_idle?; {hosts_idle} more have not been idle for T_wait yet]."
    ),
)


def demand_hosts(view: View) -> int:
    """Return the number of hosts that the waiting jobs need together; shares of hosts are added up."""
    shared = (job.res * (1.0 - job.terms.host_share) for job in view.queue if job.terms is not NO_TERMS)
    return math.ceil(view.queue.hosts_asked - sum(shared) - SHARE_TOLERANCE)


def offer_demand(
    view: View, wait_s: FloatArray, wanted: int, rule: str, *, spare: bool = True
) -> list[Action]:
    """Offer the servers with jobs and ``wanted`` others: those that are on first, then the fastest asleep.

    With ``spare``, also servers that have been idle for less than ``wait_s`` [N]; requests a call for the
    time at which the next one has been idle for this time.
    """
    state, now = view.host_state, view.now
    on = (state == BUSY) | ((state == SWITCHING_ON) & view.available)
    busy = int(np.count_nonzero(state == BUSY))
    idle = (state == IDLE) & view.available
    due_s = np.where(idle, view.state_since_s + wait_s, np.inf)
    kept = idle & (due_s > now + TIME_TOLERANCE_S) if spare else np.zeros_like(idle)
    missing = wanted - (int(np.count_nonzero(on)) - busy)
    asleep = (state >= ASLEEP) & (state != SWITCHING_ON) & view.available
    for more in (kept, idle & ~kept, asleep):
        chosen = view.fastest(more, max(missing, 0)).ids
        on[chosen] = True
        missing -= len(chosen)
    facts: FactDict = {"hosts_busy": busy, "hosts_wanted": wanted}
    if extra := int(np.count_nonzero(kept & ~on)):
        facts["hosts_idle"] = extra
    counts = counts_by_kind(view.platform, on | kept)
    actions: list[Action] = [*offer_counts(view.platform, counts, now, rule, facts)]
    if np.isfinite(next_s := float(due_s[kept].min(initial=np.inf))):
        actions.append(CallAt(next_s))
    return actions


def counts_by_kind(platform: Platform, on: BoolArray) -> IntArray:
    """Count the servers of each kind in a mask, or in each of several: (kinds) or (steps, kinds)."""
    kinds = np.arange(len(platform.kinds))
    return np.stack([np.count_nonzero(on[..., platform.kind_of == kind], axis=-1) for kind in kinds], axis=-1)


class SteadyCounts:
    """Numbers of servers to offer that fall at once, and rise only after a time, so that no server flaps.

    A server that is no longer offered is offered again only once sleeping has saved the energy of switching.
    """

    def __init__(self, wait_s: Sequence[float]) -> None:
        """``wait_s``: shortest time for which a server of each kind is not offered, s; infinite: none."""
        self._wait_s = [0.0 if each == math.inf else each for each in wait_s]
        self._withdrawn_s: list[list[float]] = [[] for _ in wait_s]
        """Time of the last fall below each number of servers, by kind, s."""
        self._last: IntArray | None = None

    def next(self, counts: IntArray, now: float) -> IntArray:
        """Return the numbers to offer now instead of ``counts``, those that the supply allows, by kind."""
        last, found = counts if self._last is None else self._last, counts.copy()
        for kind, (before, wanted) in enumerate(zip(last.tolist(), counts.tolist(), strict=True)):
            withdrawn_s = self._withdrawn_s[kind]
            withdrawn_s += [-math.inf] * (max(before, wanted) - len(withdrawn_s))
            withdrawn_s[wanted:before] = [now] * max(before - wanted, 0)
            late_s = now - self._wait_s[kind] + TIME_TOLERANCE_S
            rises = (place for place in range(before, wanted) if withdrawn_s[place] > late_s)
            found[kind] = next(rises, wanted)
        self._last = found
        return found


def offer_counts(
    platform: Platform, counts: IntArray, from_s: float, rule: str, facts: Facts = NO_FACTS
) -> list[Offer]:
    """Return the offers of ``counts`` servers of each kind from a time on, without an end."""
    return [
        Offer(kind.name, int(count), from_s, math.inf, rule, facts)
        for kind, count in zip(platform.kinds, counts.tolist(), strict=True)
    ]


def offer_all(view: View) -> list[Offer]:
    """Return offers of all servers."""
    every = np.ones(view.platform.size, dtype=np.bool_)
    return offer_counts(view.platform, counts_by_kind(view.platform, every), view.now, ALL_OFFERED)


def offer_steps(
    platform: Platform,
    counts: IntArray,
    starts_s: Sequence[float],
    end_s: float,
    rule: str,
    facts: Facts = NO_FACTS,
) -> list[Offer]:
    """Return the offers of steps ahead, equal neighbours as one: ``counts`` [steps, kinds] from ``starts_s``.

    The last one ends at ``end_s``.
    """
    offers = []
    for kind, row in zip(platform.kinds, counts.T, strict=True):
        first = np.concatenate(([0], np.flatnonzero(np.diff(row)) + 1))
        edges_s = [*(starts_s[step] for step in first.tolist()), end_s]
        for place, step in enumerate(first.tolist()):
            offers.append(Offer(kind.name, int(row[step]), edges_s[place], edges_s[place + 1], rule, facts))
    return offers
