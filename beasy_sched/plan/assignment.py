"""From numbers of servers to single servers: few switches, few changes of P-state, wear spread out.

Servers of a kind have ranks. The lowest ranks that sleep are woken, and the highest ranks that may
sleep are put to sleep, so that the sets of servers that are on are nested as far as the least on-time
allows and the lowest ranks stay on longest. No server does more than the counts ask: a wake-up of the
counts is one wake-up of one server. Between windows the ranks are turned round (`ranked_hosts`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import BoolArray, IntArray, StateArray
from beasy_sched.model.platform import Platform
from beasy_sched.plan.server_problem import KindCounts
from beasy_sched.plan.server_table import KindTable

_GOLDEN_SECTION = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class KindStart:
    """Servers of one kind in the step before the first, by rank."""

    states: StateArray
    """P-state numbers; the sleep state's number when asleep."""
    on: BoolArray
    obliged_steps: IntArray
    """Steps for which each must still stay on (0 for servers that may sleep at once)."""


def ranked_hosts(platform: Platform, kind: int, window: int) -> IntArray:
    """Host ids of a kind by rank in the window of this number (0 for the first).

    Each window begins its ranks about 0.618 of the way round from where the window before did, which
    spreads any number of windows evenly over the servers.
    """
    hosts = np.flatnonzero(platform.kind_of == kind)
    return np.roll(hosts, -(int(window * _GOLDEN_SECTION * len(hosts)) % max(1, len(hosts))))


def on_by_rank(waking: IntArray, falling: IntArray, start: KindStart, minimum_on_steps: int) -> BoolArray:
    """Which server is on in which step, waking included: [T, servers of the kind].

    Raises ValueError where the counts ask more servers to wake or sleep than can.
    """
    on, may_sleep_from = start.on.copy(), start.obliged_steps.astype(np.int64)
    result = np.empty((len(waking), len(on)), dtype=np.bool_)
    for step, (wake, fall) in enumerate(zip(waking.tolist(), falling.tolist(), strict=True)):
        if wake or fall:
            asleep = np.flatnonzero(~on)
            ready = np.flatnonzero(on & (may_sleep_from <= step))
            if wake > len(asleep) or fall > len(ready):
                raise ValueError(
                    f"step {step}: {wake} of {len(asleep)} to wake, {fall} of {len(ready)} to sleep"
                )
            on[asleep[:wake]] = True
            may_sleep_from[asleep[:wake]] = step + minimum_on_steps
            on[ready[len(ready) - fall :]] = False
        result[step] = on
    return result


def states_by_rank(
    table: KindTable, counts: KindCounts, start: KindStart, minimum_on_steps: int, sleep_pstate: int
) -> StateArray:
    """P-state number of every server of a kind in every step: [T, servers of the kind], by rank.

    In each step as many servers as can be keep the P-state that they had.
    """
    on = on_by_rank(counts.waking.sum(axis=1), counts.falling, start, minimum_on_steps)
    states = np.full(on.shape, sleep_pstate, dtype=np.int8)
    useful = {int(number): index for index, number in enumerate(table.pstates)}
    had = np.array([useful.get(int(state), -1) for state in start.states], dtype=np.int8)
    was_on = start.on
    for step, now_on in enumerate(on):
        staying, waking = np.flatnonzero(now_on & was_on), np.flatnonzero(now_on & ~was_on)
        had[staying] = _kept(had[staying], counts.whole[step])
        had[waking] = np.repeat(np.arange(len(table.pstates), dtype=np.int8), counts.waking[step])
        states[step, now_on] = table.pstates[had[now_on]]
        was_on = now_on
    return states


def _kept(had: StateArray, wanted: IntArray) -> StateArray:
    """Give out ``wanted[d]`` times each P-state so that most keep what they had; the others move little."""
    order = np.argsort(had, kind="stable")
    sorted_had = had[order]
    present = np.bincount(had[had >= 0], minlength=len(wanted))
    first = np.searchsorted(sorted_had, np.arange(len(wanted)))
    place = np.arange(len(had)) - first[np.maximum(sorted_had, 0)]
    keeps = (sorted_had >= 0) & (place < wanted[np.maximum(sorted_had, 0)])
    missing = np.maximum(wanted - present, 0)
    result = had.copy()
    result[order[~keeps]] = np.repeat(np.arange(len(wanted), dtype=np.int8), missing)
    return result
