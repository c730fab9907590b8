"""P-state requests that wait for their hosts, with Batsim's book-keeping, quirk included.

A request that Batsim loses (for a host in transition) stays in its books, and is answered by mistake
when a later request for the same P-state completes on that host.
"""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import IntArray
from beasy_sched.model.hosts import HostSet


class Switch:
    """One SET_RESOURCE_STATE."""

    __slots__ = ("hosts", "pstate", "waiting")

    def __init__(self, hosts: HostSet, pstate: int) -> None:
        """``hosts`` are to come to ``pstate``."""
        self.hosts = hosts
        self.pstate = pstate
        self.waiting: IntArray = hosts.ids
        """Those that are not there yet."""


class Switches:
    """All requests that have not been answered."""

    def __init__(self) -> None:
        """Start with none."""
        self._by_pstate: dict[int, list[Switch]] = {}

    def add(self, hosts: HostSet, pstate: int) -> None:
        """Enter a request."""
        self._by_pstate.setdefault(pstate, []).append(Switch(hosts, pstate))

    def done(self, ids: IntArray, pstate: int) -> list[Switch]:
        """Mark hosts as arrived; return the requests that this completes."""
        finished: list[Switch] = []
        requests = self._by_pstate[pstate]
        for switch in list(requests):
            if not len(ids):
                break
            if len(switch.waiting) == len(ids) and np.array_equal(switch.waiting, ids):
                left = rest = ids[:0]
            else:
                left = np.setdiff1d(switch.waiting, ids, assume_unique=True)
                rest = np.setdiff1d(ids, switch.waiting, assume_unique=True)
            switch.waiting, ids = left, rest
            if not len(left):
                requests.remove(switch)
                finished.append(switch)
        return finished
