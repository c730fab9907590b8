"""Batsim's side of a cluster: what happens in a partition as events, the scheduler's decisions as actions.

No input or output: a `Bridge` is shown the cluster's jobs and nodes, makes messages for a scheduler, takes
its replies, and returns what the cluster is to be asked. Times are seconds since its epoch.
`acting.Acting` carries decisions out; `shadow.Shadow` only pretends to.
"""

from __future__ import annotations

import heapq
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Final

import msgspec
import numpy as np

from beasy_sched.arrays import BoolArray
from beasy_sched.errors import PeerError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import NO_HOSTS, HostSet
from beasy_sched.model.platform import Platform
from beasy_sched.protocol.notices import (
    JOB_WITHDRAWN,
    LEVELS_MEASURED,
    MACHINES_LEAVE,
    MACHINES_RETURN,
    notice,
)
from beasy_sched.slurm import actions as a
from beasy_sched.slurm.readings import Reading
from beasy_sched.slurm.records import SlurmJob, SlurmNode

WORKLOAD: Final = "slurm"
_PROFILE: Final = {"type": "parallel_homogeneous", "cpu": 1.0, "com": 0.0}
"""Profile of every job: the run time depends on the nodes, and is not known."""


class Phase(Enum):
    """How far a job is, for the scheduler."""

    WAITING = "waiting"
    STARTING = "starting"
    """It was told to start, and is not seen to run yet."""
    RUNNING = "running"


@dataclass
class Tracked:
    """A job that the scheduler knows."""

    job: SlurmJob
    """As it was seen last."""
    name: str
    """What the scheduler calls it."""
    phase: Phase = Phase.WAITING
    hosts: HostSet = NO_HOSTS
    began_s: float = 0.0
    """When the scheduler told it to start, s since the epoch."""
    killed: bool = False
    """Whether the scheduler has asked to end it."""


class Bridge(ABC):
    """What both modes share: the clock of events, calls, power, and the names of nodes and jobs."""

    acts: ClassVar[bool]
    """Whether decisions are carried out."""

    def __init__(
        self,
        platform: Platform,
        partition: str,
        *,
        epoch_s: float,
        used_j: Callable[[float], float] | None = None,
    ) -> None:
        """Bridge ``partition``, whose nodes are the hosts of ``platform``.

        ``epoch_s``: time 0 of the bridge, s since 1970, as Slurm's own times count. ``used_j`` answers
        queries: the energy that the nodes have used up to a time, J. None: the scheduler has to reckon it.
        """
        self.platform, self.partition = platform, partition
        self.epoch_s, self._used_j = epoch_s, used_j
        self._host_of = {name: host for host, name in enumerate(platform.names)}
        self._events: list[e.Event] = []
        """What the next message will say."""
        self._due: list[tuple[float, int, e.Event]] = []
        """What will be said later, by time."""
        self._order = itertools.count()
        self._told_s = 0.0
        """Time of the last message."""
        self.tracked: dict[str, Tracked] = {}
        """Jobs that wait or run for the scheduler, by Slurm's id."""
        self._by_name: dict[str, Tracked] = {}
        self._attempts: dict[str, int] = {}
        """How often a job was submitted to the scheduler, but for the first time."""
        self._restarts: dict[str, int] = {}
        """How often Slurm had requeued a job by then."""
        self._asleep = np.zeros(platform.size, dtype=np.bool_)
        """Which hosts the scheduler has put to sleep, or is putting to sleep."""
        self._unavailable = np.zeros(platform.size, dtype=np.bool_)
        """Which hosts were told to be out of service."""
        self.notes: list[str] = []
        """What the user should know, in order; whoever shows them clears the list."""
        self._refusals: set[str] = set()
        """What the cluster has refused; each refusal is told once."""

    @abstractmethod
    def observe(
        self, now_s: float, jobs: Sequence[SlurmJob], nodes: Mapping[str, SlurmNode]
    ) -> list[a.ClusterAction]:
        """Look at a cluster; note what is new, and return what must be asked of it at once."""

    def failed(self, now_s: float, action: a.ClusterAction, why: str) -> None:
        """Note that the cluster has refused an action, once for each reason."""
        if why not in self._refusals:
            self._refusals.add(why)
            self.notes.append(why)

    # --- messages -------------------------------------------------------------------------------------------

    def begin(self, nodes: Mapping[str, SlurmNode]) -> None:
        """Begin the talk: the first event names the hosts, asleep where they are powered down."""
        off = [name in nodes and nodes[name].is_off for name in self.platform.names]
        asleep = self._asleep = np.asarray(off) & (self.platform.sleep_pstate >= 0)
        starts = np.where(asleep, self.platform.sleep_pstate, self.platform.initial_pstates)
        told = replace(self.platform, initial_pstates=starts).telling_hosts()
        hosts = zip(told.names, told.properties, told.zone_properties, strict=True)
        resources = tuple(
            e.Resource(host, name, "idle", dict(properties), dict(zone), pstate=int(starts[host]))
            for host, (name, properties, zone) in enumerate(hosts)
        )
        self._events.append(
            e.SimulationBegins(
                0.0,
                resources=resources,
                workloads={WORKLOAD: self.partition},
                profiles={WORKLOAD: {"job": _PROFILE}},
                answers_queries=self._used_j is not None,
            )
        )

    def announce(self, now_s: float, reading: Reading) -> None:
        """Tell what is produced from now on: the fields of a power event."""
        self._notify(now_s, "power", reading.fields)

    def measured(self, now_s: float, reading: Reading) -> None:
        """Tell what the storage really holds: ``soc_pct``, ``hydrogen_kg``."""
        self._notify(now_s, LEVELS_MEASURED, reading.fields)

    def _notify(self, now_s: float, kind: str, fields: Mapping[str, Any]) -> None:
        data = {"timestamp": now_s, "type": kind, **fields}
        self._events.append(notice(now_s, kind, data))

    def end(self, now_s: float) -> e.Message:
        """Return the last message."""
        self._events.append(e.SimulationEnds(now_s))
        return self._flush(now_s)

    def message(self, now_s: float) -> e.Message | None:
        """Return what the scheduler is to be told at ``now_s``; None if that is nothing."""
        while self._due and self._due[0][0] <= now_s:
            _, _, event = heapq.heappop(self._due)
            self._on_due(now_s, event)
        return self._flush(now_s) if self._events else None

    def _on_due(self, now_s: float, event: e.Event) -> None:
        self._events.append(event)

    @property
    def next_due_s(self) -> float | None:
        """When something must be said at the latest, s; None if that is not known."""
        return self._due[0][0] if self._due else None

    def _later(self, at_s: float, event: e.Event) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), event))

    def _flush(self, now_s: float) -> e.Message:
        """A message of all events, at its time, which is never before the last one's."""
        told_s = self._told_s = max(self._told_s, now_s)
        events = [msgspec.structs.replace(event, timestamp=told_s) for event in self._events]
        self._events.clear()
        return e.Message(told_s, events)

    # --- jobs -----------------------------------------------------------------------------------------------

    def _may_start(self, now_s: float, job: SlurmJob) -> bool:
        """Whether a waiting job waits neither for another one nor for a time that its user has set."""
        begin_s = job.start_s if job.is_held else job.eligible_s  # of others, the start is Slurm's guess
        return not job.dependency and begin_s <= self.epoch_s + now_s

    def _submit(self, now_s: float, job: SlurmJob, *, past_s: float = 0.0) -> Tracked:
        """Tell the scheduler of a job, of whose time limit ``past_s`` are over."""
        attempt = self._attempts.get(job.id, -1) + 1
        self._attempts[job.id], self._restarts[job.id] = attempt, job.restarts
        name = f"{WORKLOAD}!{job.id}" + (f"+{attempt}" if attempt else "")
        tracked = self.tracked[job.id] = self._by_name[name] = Tracked(job, name)
        left_s = None if job.time_limit_s is None else max(job.time_limit_s - past_s, 1.0)
        asked = e.JobRequest(name, now_s, job.node_count, "job", left_s)
        self._events.append(e.JobSubmitted(now_s, asked))
        return tracked

    def _forget(self, tracked: Tracked) -> None:
        self.tracked.pop(tracked.job.id, None)

    def _withdraw(self, now_s: float, tracked: Tracked, why: str) -> None:
        """A waiting job is no longer the scheduler's to start."""
        self._forget(tracked)
        self._notify(now_s, JOB_WITHDRAWN, {"job_id": tracked.name, "reason": why})

    def _complete(self, now_s: float, tracked: Tracked, end: e.JobEnd) -> None:
        """Tell that a running job has ended, after a kill that it was killed."""
        self._forget(tracked)
        if tracked.killed and end is not e.JobEnd.SUCCESS:
            end = e.JobEnd.KILLED
        self._events.append(e.JobCompleted(now_s, tracked.name, end, tracked.hosts))
        if tracked.killed:
            self._events.append(e.JobsKilled(now_s, (tracked.name,)))

    # --- decisions ------------------------------------------------------------------------------------------

    def carry_out(self, reply: d.Reply, now_s: float) -> list[a.ClusterAction]:
        """Take a reply; return what the cluster is to be asked. Raises PeerError for what Slurm cannot do."""
        return [action for decision in reply.decisions for action in self._decided(decision, now_s)]

    def _decided(self, decision: d.Decision, now_s: float) -> Iterable[a.ClusterAction]:
        match decision:
            case d.ExecuteJob():
                return self._execute(self._waiting(decision.job_id), decision, now_s)
            case d.RejectJob():
                return self._reject(self._waiting(decision.job_id), now_s)
            case d.KillJobs():
                return [
                    action for name in decision.job_ids for action in self._kill(self._named(name), now_s)
                ]
            case d.SetResourceState():
                return self._set_state(decision, now_s)
            case d.CallMeLater():
                self._later(decision.at, e.RequestedCall(decision.at, decision.id))
                return ()
            case d.QueryEnergy() if self._used_j is not None:
                self._events.append(e.EnergyAnswer(now_s, self._used_j(now_s)))
                return ()
            case d.QueryEnergy():
                raise PeerError(
                    "the scheduler asks for the energy used, which nothing measures: pass --meter"
                )
            case d.FinishRegistration() | d.SetJobMetadata():
                return ()
        raise PeerError(f"a cluster cannot carry out {type(decision).__name__}")

    def _named(self, name: str) -> Tracked:
        if name not in self._by_name:
            raise PeerError(f"the scheduler names job {name!r}, which it was never told of")
        return self._by_name[name]

    def _waiting(self, name: str) -> Tracked:
        tracked = self._named(name)
        if tracked.phase is not Phase.WAITING:
            raise PeerError(f"the scheduler starts or rejects job {name!r}, which does not wait")
        return tracked

    def _execute(self, tracked: Tracked, decision: d.ExecuteJob, now_s: float) -> Iterable[a.ClusterAction]:
        tracked.phase, tracked.hosts, tracked.began_s = Phase.STARTING, decision.alloc, now_s
        if tracked.job.id not in self.tracked:  # withdrawn meanwhile, and the scheduler had not heard of it
            self._complete(now_s, tracked, e.JobEnd.KILLED)
            return ()
        return self._start(tracked, now_s)

    @abstractmethod
    def _start(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        """Start a waiting job on its hosts."""

    @abstractmethod
    def _reject(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        """Leave a waiting job alone for good."""

    @abstractmethod
    def _kill(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        """End a running job."""

    @abstractmethod
    def _set_state(self, decision: d.SetResourceState, now_s: float) -> Iterable[a.ClusterAction]:
        """Switch hosts, or change their speed."""

    # --- nodes ----------------------------------------------------------------------------------------------

    def nodes_of(self, hosts: HostSet) -> tuple[str, ...]:
        """Names of the nodes of ``hosts``."""
        return tuple(self.platform.names[host] for host in hosts.ids.tolist())

    def hosts_of(self, nodes: Iterable[str]) -> list[int]:
        """Hosts of those of ``nodes`` that the platform has."""
        return [self._host_of[name] for name in nodes if name in self._host_of]

    def _tell_availability(self, now_s: float, unavailable: BoolArray) -> None:
        """Tell of hosts that have gone out of service, or come back."""
        for kind, changed in (
            (MACHINES_LEAVE, unavailable & ~self._unavailable),
            (MACHINES_RETURN, ~unavailable & self._unavailable),
        ):
            if changed.any():
                hosts = HostSet(changed.nonzero()[0])
                self._notify(now_s, kind, {"resources": str(hosts)})
        self._unavailable = unavailable
