"""Unavailable hosts: those that failed to wake and those out of service.

A host that failed to wake is *lost*: asleep, and out of use. After a while, which is longer after each
failure in a row, it may be woken again; after the last of `MOST_FAILURES` only once the peer reports
it in service. A host that the peer takes out of service is out of use until the peer puts it back.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import any_of, distinct
from beasy_sched.engine.actions import FactDict
from beasy_sched.engine.agenda import Due
from beasy_sched.engine.session_words import (
    GIVEN_UP,
    IN_SERVICE,
    MAY_BE_ASKED,
    NOT_COME,
    OUT_OF_SERVICE,
    Rule,
)
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.host_states import BUSY, IDLE
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.units import TIME_TOLERANCE_S

RETRY_S: Final = 300.0
"""Time for which a host is left alone after its first failure, s."""
LONGEST_RETRY: Final = 12
"""Longest time for which a host is left alone, as a multiple of the first."""
MOST_FAILURES: Final = 10
"""Number of failures in a row after which a host is not woken again: they take 7 h with the default wait."""


def retry_after_s(first_s: float, failures: int) -> float:
    """Return the time for which a host is left alone after ``failures`` in a row, s: it doubles each time."""
    if failures >= MOST_FAILURES:
        return math.inf
    return first_s * min(2.0 ** (failures - 1), LONGEST_RETRY)


class HostLogLine(Struct, frozen=True):
    """Line to be logged of some hosts."""

    rule: Rule
    hosts: HostSet
    facts: FactDict


class LostHosts:
    """The hosts of one cluster that failed to wake or are out of service."""

    def __init__(self, cluster: Cluster, retry_s: float, due: Due) -> None:
        """``retry_s`` is the time for which a host is left alone after its first failure, s.

        The first lost host may be woken again when ``due`` is.
        """
        self._cluster = cluster
        self._retry_s = retry_s
        self.failed_wakes = 0
        """Number of times that a host failed to wake."""
        self.breakdowns = 0
        """Number of times that a host went out of service."""
        self._ever_lost = np.zeros(cluster.size, dtype=np.bool_)
        self._failures = np.zeros(cluster.size, dtype=np.intp)
        """Number of failures of each host in a row."""
        self._again_s = np.full(cluster.size, np.inf)
        """Time at which each lost host may be woken again, s."""
        self._due = due

    @property
    def hosts(self) -> int:
        """Number of hosts that have been lost, or out of service, at least once."""
        return int(np.count_nonzero(self._ever_lost))

    def fail(self, hosts: HostSet, now: float) -> list[HostLogLine]:
        """Mark hosts that were being woken as lost; return the lines to log, by failures in a row."""
        ids = hosts.ids
        woken_s = now - self._cluster.state_since_s[ids]
        self._cluster.fail_wake(ids, now)
        self._ever_lost[ids] = True
        self.failed_wakes += len(ids)
        self._failures[ids] += 1
        lines = []
        for failures in distinct(self._failures[ids]):
            alike = self._failures[ids] == failures
            wait_s = retry_after_s(self._retry_s, failures)
            self._again_s[ids[alike]] = now + wait_s
            facts: FactDict = {"failures": failures, "waited_s": float(woken_s[alike].max())}
            if wait_s < math.inf:
                facts["retry_after_s"] = wait_s
            lines.append(HostLogLine(NOT_COME if wait_s < math.inf else GIVEN_UP, HostSet(ids[alike]), facts))
        self._look()
        return lines

    def came(self, hosts: HostSet) -> None:
        """Forget the failures of hosts that are on."""
        ids = hosts.ids
        state = self._cluster.state[ids]
        self._failures[ids[(state == IDLE) | (state == BUSY)]] = 0

    def leave(self, hosts: HostSet) -> HostLogLine | None:
        """Take hosts out of service; return the line to log, None if they were out of it before."""
        cluster, ids = self._cluster, hosts.ids
        left = ids[cluster.in_service[ids]]
        cluster.set_in_service(ids, False)
        if not len(left):
            return None
        self._ever_lost[left] = True
        self.breakdowns += len(left)
        busy = int(np.count_nonzero(cluster.state[left] == BUSY))
        return HostLogLine(OUT_OF_SERVICE, HostSet(left), {"hosts_busy": busy})

    def enter(self, hosts: HostSet) -> HostLogLine | None:
        """Put hosts, also lost ones, back into service; return the line to log."""
        cluster, ids = self._cluster, hosts.ids
        back = ids[~cluster.available[ids]]
        cluster.set_in_service(ids, True)
        self._failures[ids] = 0
        self._find(ids)
        return HostLogLine(IN_SERVICE, HostSet(back), {}) if len(back) else None

    def retry(self, now: float) -> HostLogLine | None:
        """Find the hosts that may be woken again at ``now`` (s); return the line to log."""
        due = (self._again_s <= now + TIME_TOLERANCE_S).nonzero()[0]
        self._find(due)
        back = due[self._cluster.available[due]]
        return HostLogLine(MAY_BE_ASKED, HostSet(back), {}) if len(back) else None

    def _find(self, ids: HostIds) -> None:
        if any_of(self._cluster.lost[ids]):
            self._cluster.find(ids)
            self._again_s[ids] = np.inf
            self._look()

    def _look(self) -> None:
        self._due.move(float(self._again_s.min(initial=np.inf)))
