"""P-state wishes and the commands that carry them out without ever offending Batsim.

A SET_RESOURCE_STATE for a host in transition is lost without an answer, and one that puts a busy
host to sleep aborts Batsim. So a wish is kept per host and sent when its host is ready; a newer
wish replaces an older one.

The calls that the simulator is asked for: as few as possible, and always ahead of now.

Kills, a moment late: killing a job that has just ended, unannounced, would abort Batsim.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from beasy_sched.arrays import BoolArray, PStateArray, StateArray
from beasy_sched.errors import PeerError, PolicyError
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.decisions import SetResourceState
from beasy_sched.model.events import ResourceStateChanged
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.model.power import ASLEEP, IDLE, SWITCHING_OFF, SWITCHING_ON
from beasy_sched.units import TIME_TOLERANCE_S

_NO_WISH = -1


class Commander:
    """Holds the wishes of one cluster's hosts and sends them when they may be sent."""

    def __init__(self, cluster: Cluster) -> None:
        """No wishes yet."""
        self.cluster = cluster
        self._wish = np.full(cluster.size, _NO_WISH, dtype=np.int16)
        self._pending = 0
        self.switches = 0
        """Times that a host was sent to sleep or woken."""
        self.speed_changes = 0
        """Times that a host was given another computing P-state."""
        self._sent: Counter[tuple[HostSet, int, bool]] = Counter()
        """Commands without an answer yet: hosts, target, and whether it is a switch (not another speed)."""
        kinds = cluster.platform.kinds
        self._sleep_of = cluster.platform.sleep_of_kind
        self._computing = [frozenset(kind.computing) for kind in kinds]

    def check(self, hosts: HostSet, pstate: int) -> None:
        """Raise PolicyError where a host cannot be brought to ``pstate``."""
        for row in np.unique(self.cluster.platform.kind_of[hosts.ids]).tolist():
            if pstate != self._sleep_of[row] and pstate not in self._computing[row]:
                kind = self.cluster.platform.kinds[row].name
                raise PolicyError(
                    f"P-state {pstate} is neither a computing nor the sleep state of {kind} hosts"
                )

    def wish(self, hosts: HostSet, pstate: int) -> None:
        """Want ``hosts`` in ``pstate``, one that `check` allows."""
        self._wish[hosts.ids] = pstate
        self.cluster.hold(hosts.ids, self._sleep_of[self.cluster.platform.kind_of[hosts.ids]] == pstate)
        self.cluster.to_wake[hosts.ids] = ~self.cluster.held[hosts.ids] & (
            self.cluster.state[hosts.ids] == ASLEEP
        )
        self._pending = int(np.count_nonzero(self._wish != _NO_WISH))

    def cancel(self, hosts: HostIds) -> None:
        """Forget the wishes of some hosts."""
        self._wish[hosts] = _NO_WISH
        self.cluster.hold(hosts, False)
        self.cluster.to_wake[hosts] = False
        self._pending = int(np.count_nonzero(self._wish != _NO_WISH))

    def wished(self) -> PStateArray:
        """Return each host's wish: a P-state, or -1."""
        return self._wish

    @property
    def busy(self) -> bool:
        """Whether anything is wished or under way."""
        return bool(self._pending or self._sent)

    def send(self, now: float) -> Iterator[SetResourceState]:
        """Yield the commands that may go out now, and mark their hosts.

        Hosts that finish together go in one group: one acknowledgement comes for all of them. Hosts out
        of service are not switched: Batsim would take them for being back.
        """
        if not self._pending:
            return
        hosts = np.flatnonzero(self._wish != _NO_WISH)
        cluster = self.cluster
        done = (cluster.pstate[hosts] == self._wish[hosts]) & _at_rest(cluster.state[hosts])
        if done.any():
            self.cancel(hosts[done])
            hosts = hosts[~done]
        kinds = cluster.platform.kind_of[hosts]
        sleeping_wish = self._wish[hosts] == self._sleep_of[kinds]
        state = cluster.state[hosts]
        asleep = state == ASLEEP
        ready = np.where(sleeping_wish, state == IDLE, _at_rest(state))
        ready &= cluster.available[hosts] | ~(sleeping_wish | asleep)
        hosts = hosts[ready]
        if not len(hosts):
            return
        wish = self._wish[hosts].astype(np.intp)
        alike = (wish * 2 + asleep[ready]) * len(self._computing) + kinds[ready]
        for number in np.unique(alike).tolist():
            group = hosts[alike == number]
            pstate = int(self._wish[group[0]])
            to_sleep = bool(self._sleep_of[cluster.platform.kind_of[group[0]]] == pstate)
            waking = bool(cluster.state[group[0]] == ASLEEP)
            yield self._command(group, pstate, waking, to_sleep, now)

    def _command(
        self, hosts: HostIds, pstate: int, waking: bool, to_sleep: bool, now: float
    ) -> SetResourceState:
        group = HostSet(hosts)
        self.cancel(hosts)
        self._sent[group, pstate, to_sleep or waking] += 1
        if to_sleep or waking:
            self.switches += len(hosts)
        else:
            self.speed_changes += len(hosts)
        if to_sleep:
            self.cluster.begin_switch(hosts, SWITCHING_OFF, pstate, now)
        elif waking:
            self.cluster.begin_switch(hosts, SWITCHING_ON, pstate, now)
        else:
            self.cluster.change_speed(hosts, pstate, now)
        return SetResourceState(now, group, pstate)

    def acknowledge(self, event: ResourceStateChanged) -> None:
        """Take in the answer to a command. Raises PeerError for one that was never sent.

        Another speed holds from the moment it is asked for: its answer changes nothing.
        """
        for switch in (False, True):
            command = (event.resources, event.state, switch)
            if self._sent[command]:
                self._sent.subtract([command])
                if not self._sent[command]:
                    del self._sent[command]
                if switch:
                    self.cluster.end_switch(event.resources.ids, event.state, event.timestamp)
                return
        raise PeerError(
            f"the simulator says that hosts {event.resources} reached P-state {event.state},"
            " which was not asked for"
        )


def _at_rest(state: StateArray) -> BoolArray:
    """Which hosts are not in transition."""
    return np.asarray((state != SWITCHING_OFF) & (state != SWITCHING_ON))


MOMENT_S = 1e-3
"""The shortest time ahead that is asked for, and how long a kill waits: a job may just have ended."""


class Calls:
    """What calls are pending at the simulator, and when the next one is wanted.

    A pending call cannot be taken back and delays the simulation's end, so a call is asked for only
    where none comes early enough.
    """

    def __init__(self) -> None:
        """Nothing pending, nothing wanted."""
        self._pending: list[float] = []
        self._wanted_s = math.inf

    def want(self, at: float, now: float) -> None:
        """Want a call at a time (s); one that is not ahead is wanted a moment from now."""
        self._wanted_s = min(self._wanted_s, max(at, now + MOMENT_S))

    def arrived(self, timestamp: float) -> None:
        """Take in a call that has come."""
        if self._pending and self._pending[0] <= timestamp + TIME_TOLERANCE_S:
            self._pending.pop(0)

    def to_ask(self) -> float | None:
        """Return the time (s) to ask for, or None where a pending call is early enough."""
        at = self._wanted_s
        self._wanted_s = math.inf
        if math.isinf(at) or (self._pending and self._pending[0] <= at + TIME_TOLERANCE_S):
            return None
        self._pending.insert(0, at)
        return at


class Kills:
    """The jobs that are to be killed, from the decision until the simulator says that they have ended."""

    def __init__(self) -> None:
        """None."""
        self._jobs: dict[str, Job] = {}
        self._sent: set[str] = set()
        self._counted: set[str] = set()
        self._at_s = math.inf

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._jobs

    def add(self, job: Job, now: float) -> None:
        """Kill ``job`` a moment after ``now`` (s), unless it ends before."""
        self._jobs[job.id] = job
        self._at_s = now + MOMENT_S

    def count(self) -> None:
        """Note that a step's budget takes it as given that the jobs added so far are gone."""
        self._counted.update(self._jobs)

    def is_counted(self, job_id: str) -> bool:
        """Whether a step's budget already has what the job's end saves."""
        return job_id in self._counted

    def ended(self, job_id: str) -> None:
        """Forget a job that has ended, in whatever way."""
        self._jobs.pop(job_id, None)
        self._sent.discard(job_id)
        self._counted.discard(job_id)

    def due(self, now: float) -> tuple[str, ...]:
        """Return the jobs to kill at ``now`` (s): not those that are just reaching their walltime."""
        if now < self._at_s - TIME_TOLERANCE_S:
            return ()
        waiting = self._waiting()
        ids = tuple(job.id for job in waiting if abs(job.expected_end_s - now) > 2 * MOMENT_S)
        self._sent.update(ids)
        self._at_s = now + MOMENT_S if len(ids) < len(waiting) else math.inf
        return ids

    @property
    def next_call_s(self) -> float | None:
        """When a call is needed for the next kill, s."""
        return self._at_s if self._waiting() else None

    def _waiting(self) -> list[Job]:
        return [job for job in self._jobs.values() if job.id not in self._sent]
