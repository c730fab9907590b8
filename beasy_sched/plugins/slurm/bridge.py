"""Batsim's side of a cluster: changes of a partition as events, the scheduler's decisions as actions.

No input or output: a `Bridge` gets the cluster's jobs and nodes, creates messages for a scheduler, takes
its replies, and returns the actions to request of the cluster. Times are seconds since its epoch.
`acting.Acting` carries decisions out; `shadow.Shadow` only simulates them.
"""

from __future__ import annotations

import heapq
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Final

import msgspec
import numpy as np

from beasy_sched.arrays import BoolArray
from beasy_sched.engine.lives import REQUEUES_JOBS
from beasy_sched.errors import PeerError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import NO_HOSTS, HostSet
from beasy_sched.model.platform import Platform
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.kills import ClusterKills, stopped_comment
from beasy_sched.plugins.slurm.readings import Reading
from beasy_sched.plugins.slurm.records import STOPPED, SlurmJob, SlurmNode
from beasy_sched.plugins.slurm.reservations import NodeReservation
from beasy_sched.protocol.notices import (
    JOB_WITHDRAWN,
    LEVELS_MEASURED,
    MACHINES_LEAVE,
    MACHINES_RETURN,
    notice,
)

WORKLOAD: Final = "slurm"
_PROFILE: Final = {"type": "parallel_homogeneous", "cpu": 1.0, "com": 0.0}
"""Profile of every job: the run time depends on the nodes, and is unknown."""


class Phase(Enum):
    """State of a job, for the scheduler."""

    WAITING = "waiting"
    STARTING = "starting"
    """Its start was requested, and it is not yet running."""
    RUNNING = "running"


@dataclass
class Tracked:
    """A job that was submitted to the scheduler."""

    job: SlurmJob
    """Its last observed state."""
    name: str
    """Its id for the scheduler."""
    phase: Phase = Phase.WAITING
    hosts: HostSet = NO_HOSTS
    began_s: float = 0.0
    """Time at which the scheduler started it, s since the epoch."""
    may_return: bool = False
    """Whether it comes back if the scheduler kills it."""
    killed: bool = False
    """Whether it was killed for the scheduler."""
    returns: bool = False
    """Whether the scheduler has killed it, and expects its next life."""
    pending_s: float = math.inf
    """Time at which it was first seen released and still waiting, s since the epoch; infinite if never."""


class Bridge(ABC):
    """Base of both modes: the clock of events, calls, power, and the names of nodes and jobs."""

    acts: ClassVar[bool]
    """Whether decisions are carried out."""

    def __init__(
        self,
        platform: Platform,
        partition: str,
        *,
        epoch_s: float,
        used_j: Callable[[float], float] | None = None,
        kills: ClusterKills | None = None,
    ) -> None:
        """Bridge ``partition``, whose nodes are the hosts of ``platform``; ``kills``: treatment of kills.

        ``epoch_s``: time 0 of the bridge, s since 1970, as for Slurm's own times. ``used_j`` answers
        queries: the energy that the nodes have used up to a time, J. None: the scheduler has to compute it.
        """
        self.platform, self.partition = platform, partition
        self.epoch_s, self._used_j = epoch_s, used_j
        self._host_of = {name: host for host, name in enumerate(platform.names)}
        self._events: list[e.Event] = []
        """Events of the next message."""
        self._due: list[tuple[float, int, e.Event]] = []
        """Later events, by time."""
        self._order = itertools.count()
        self._told_s = 0.0
        """Time of the last message."""
        self.tracked: dict[str, Tracked] = {}
        """Jobs that are waiting or running for the scheduler, by Slurm's id."""
        self._by_name: dict[str, Tracked] = {}
        self._attempts: dict[str, int] = {}
        """Number of resubmissions of each job to the scheduler."""
        self.kills = ClusterKills() if kills is None else kills
        self._next_lives: dict[str, tuple[str, SlurmJob]] = {}
        """Names of the lives that the scheduler expects, and the jobs, by Slurm's id."""
        self._restarts: dict[str, int] = {}
        """Slurm's count of requeues of each job at that time."""
        self._asleep = np.zeros(platform.size, dtype=np.bool_)
        """Hosts that the scheduler has put to sleep, or is putting to sleep."""
        self._unavailable = np.zeros(platform.size, dtype=np.bool_)
        """Hosts that were reported out of service."""
        self.notes: list[str] = []
        """Notes for the user, in order; the reader clears the list."""
        self._refusals: set[str] = set()
        """Actions that the cluster has rejected; each is reported once."""

    @abstractmethod
    def observe(
        self, now_s: float, jobs: Sequence[SlurmJob], nodes: Mapping[str, SlurmNode]
    ) -> list[a.ClusterAction]:
        """Process the state of the cluster, and return the actions that are due at once."""

    def failed(self, now_s: float, action: a.ClusterAction, why: str) -> None:
        """Record that the cluster has rejected an action, once for each reason."""
        if why not in self._refusals:
            self._refusals.add(why)
            self.notes.append(why)

    def needs_reservations(self, now_s: float) -> bool:
        """Whether `see_reservations` has to be called before `observe`."""
        return False

    def see_reservations(self, now_s: float, reservations: Sequence[NodeReservation]) -> None:
        """Process the cluster's reservations; most bridges have none."""
        return

    def after_decisions(self, now_s: float) -> list[a.ClusterAction]:
        """Return the actions that are due once the scheduler has decided on all events."""
        due = self.kills.take_due(now_s)
        running = [self.tracked[job_id].job for job_id in due if job_id in self.tracked]
        return [self._requeue(job) for job in running if job.has_nodes]

    def _requeue(self, job: SlurmJob) -> a.JobAction:
        """Return the action that ends a job and puts it back into the queue."""
        return a.RequeueJob(job.id)

    def _stop(self, now_s: float, job: SlurmJob, *, may_return: bool) -> Iterable[a.JobAction]:
        """Return the actions that kill a running job now: the signal before a requeue, if there is one."""
        if self.kills.is_announced(job.id):
            return ()
        if not may_return:
            return [a.CancelJob(job.id)]
        if not self.kills.signals:
            return [self._requeue(job)]
        self.kills.announce(job.id, now_s)
        return [a.SignalJob(job.id, stopped_comment(job.admin_comment.removesuffix(STOPPED).rstrip()))]

    def _revived(self, jobs: Iterable[SlurmJob]) -> list[a.ClusterAction]:
        """Return the requeues of jobs that have ended when they were signalled."""
        return [self._requeue(job) for job in jobs if self.kills.revives(job)]

    def _miss(self, now_s: float, jobs: Mapping[str, SlurmJob]) -> None:
        """Withdraw the expected lives of jobs that have ended for good, such as cancelled ones."""
        for job_id, (_, job) in [*self._next_lives.items()]:
            if self.kills.is_over(jobs.get(job_id)):
                self._withdraw(now_s, self._submit(now_s, job), "did not come back")

    # --- messages -------------------------------------------------------------------------------------------

    def begin(self, nodes: Mapping[str, SlurmNode]) -> None:
        """Add the first event, with the hosts; those that are powered down are asleep."""
        off = [name in nodes and nodes[name].is_off for name in self.platform.names]
        asleep = self._asleep = np.asarray(off) & (self.platform.sleep_pstate >= 0)
        starts = np.where(asleep, self.platform.sleep_pstate, self.platform.initial_pstates)
        hosts_event = replace(self.platform, initial_pstates=starts).telling_hosts()
        hosts = zip(hosts_event.names, hosts_event.properties, hosts_event.zone_properties, strict=True)
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
                config={REQUEUES_JOBS: True} if self.kills.names_lives else {},
                answers_queries=self._used_j is not None,
            )
        )

    def announce(self, now_s: float, reading: Reading) -> None:
        """Send the production from now on: the fields of a power event."""
        self._notify(now_s, "power", reading.fields)

    def measured(self, now_s: float, reading: Reading) -> None:
        """Send the measured storage levels: ``soc_pct``, ``hydrogen_kg``."""
        self._notify(now_s, LEVELS_MEASURED, reading.fields)

    def _notify(self, now_s: float, kind: str, fields: Mapping[str, Any]) -> None:
        data = {"timestamp": now_s, "type": kind, **fields}
        self._events.append(notice(now_s, kind, data))

    def end(self, now_s: float) -> e.Message:
        """Return the last message."""
        for _, job in [*self._next_lives.values()]:
            self._submit(now_s, job)
        self._events.append(e.SimulationEnds(now_s))
        return self._flush(now_s)

    def message(self, now_s: float) -> e.Message | None:
        """Return the message for the scheduler at ``now_s``; None if there are no events."""
        while self._due and self._due[0][0] <= now_s:
            _, _, event = heapq.heappop(self._due)
            self._on_due(now_s, event)
        return self._flush(now_s) if self._events else None

    def _on_due(self, now_s: float, event: e.Event) -> None:
        self._events.append(event)

    @property
    def next_due_s(self) -> float | None:
        """Time at which the next message or action is due, s; None if unknown."""
        next_s = min(self._due[0][0] if self._due else math.inf, self.kills.next_s)
        return None if math.isinf(next_s) else next_s

    def _later(self, at_s: float, event: e.Event) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), event))

    def _flush(self, now_s: float) -> e.Message:
        """Return a message of all events, at a time that is never before that of the last message."""
        told_s = self._told_s = max(self._told_s, now_s)
        events = [msgspec.structs.replace(event, timestamp=told_s) for event in self._events]
        self._events.clear()
        return e.Message(told_s, events)

    # --- jobs -----------------------------------------------------------------------------------------------

    def _may_start(self, now_s: float, job: SlurmJob) -> bool:
        """Whether a waiting job depends neither on another job nor on a begin time set by its user."""
        begin_s = job.start_s if job.is_held else job.eligible_s  # for others, the start is Slurm's estimate
        return not job.dependency and begin_s <= self.epoch_s + now_s

    def _submit(
        self, now_s: float, job: SlurmJob, *, past_s: float = 0.0, extras: dict[str, Any] | None = None
    ) -> Tracked:
        """Submit a job to the scheduler, with ``past_s`` of its time limit already elapsed."""
        attempt = self._attempts.get(job.id, -1) + 1
        self._attempts[job.id], self._restarts[job.id] = attempt, job.restarts
        usual = f"{WORKLOAD}!{job.id}" + (f"+{attempt}" if attempt else "")
        name, _ = self._next_lives.pop(job.id, (usual, job))
        may_return = self.kills.may_return(job)
        tracked = self.tracked[job.id] = self._by_name[name] = Tracked(job, name, may_return=may_return)
        if self.kills.names_lives and not may_return:
            extras = {**(extras or {}), "requeue": False}
        left_s = None if job.time_limit_s is None else max(job.time_limit_s - past_s, 1.0)
        asked = e.JobRequest(name, now_s, job.node_count, "job", left_s, extras)
        self._events.append(e.JobSubmitted(now_s, asked))
        return tracked

    def _forget(self, tracked: Tracked) -> None:
        self.tracked.pop(tracked.job.id, None)
        self.kills.forget(tracked.job.id)

    def _withdraw(self, now_s: float, tracked: Tracked, why: str) -> None:
        """Withdraw a waiting job from the scheduler."""
        self._forget(tracked)
        self._notify(now_s, JOB_WITHDRAWN, {"job_id": tracked.name, "reason": why})

    def _complete(self, now_s: float, tracked: Tracked, end: e.JobEnd) -> None:
        """Report that a running job has ended; after a kill, that it was killed."""
        self._forget(tracked)
        if tracked.killed and end is not e.JobEnd.SUCCESS:
            end = e.JobEnd.KILLED
            if tracked.may_return:
                self.kills.count(tracked.job.id)
            if tracked.returns and self.kills.names_lives:
                self._next_lives[tracked.job.id] = self.kills.next_name(tracked.name), tracked.job
        self._events.append(e.JobCompleted(now_s, tracked.name, end, tracked.hosts))
        if tracked.killed:
            self._events.append(e.JobsKilled(now_s, (tracked.name,)))

    # --- decisions ------------------------------------------------------------------------------------------

    def carry_out(self, reply: d.Reply, now_s: float) -> list[a.ClusterAction]:
        """Process a reply; return the actions for the cluster. Raises PeerError for unsupported decisions."""
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
                raise PeerError("the scheduler queries the energy used, which is not measured: pass --meter")
            case d.FinishRegistration() | d.SetJobMetadata():
                return ()
        raise PeerError(f"a cluster cannot carry out {type(decision).__name__}")

    def _named(self, name: str) -> Tracked:
        if name not in self._by_name:
            raise PeerError(f"the scheduler refers to job {name!r}, which it never received")
        return self._by_name[name]

    def user_of(self, name: str) -> str | None:
        """Return the user of a job by its id for the scheduler; None if unknown."""
        tracked = self._by_name.get(name)
        return None if tracked is None else tracked.job.user or None

    def _waiting(self, name: str) -> Tracked:
        tracked = self._named(name)
        if tracked.phase is not Phase.WAITING:
            raise PeerError(f"the scheduler starts or rejects job {name!r}, which is not waiting")
        return tracked

    def _execute(self, tracked: Tracked, decision: d.ExecuteJob, now_s: float) -> Iterable[a.ClusterAction]:
        tracked.phase, tracked.hosts, tracked.began_s = Phase.STARTING, decision.alloc, now_s
        if tracked.job.id not in self.tracked:  # withdrawn in the meantime, unknown to the scheduler
            self._complete(now_s, tracked, e.JobEnd.KILLED)
            return ()
        return self._start(tracked, now_s)

    @abstractmethod
    def _start(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        """Start a waiting job on its hosts."""

    @abstractmethod
    def _reject(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        """Reject a waiting job."""

    @abstractmethod
    def _kill(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        """End a running job."""

    @abstractmethod
    def _set_state(self, decision: d.SetResourceState, now_s: float) -> Iterable[a.ClusterAction]:
        """Switch hosts, or change their speed."""

    # --- nodes ----------------------------------------------------------------------------------------------

    def nodes_of(self, hosts: HostSet) -> tuple[str, ...]:
        """Return the names of the nodes of ``hosts``."""
        return tuple(self.platform.names[host] for host in hosts.ids.tolist())

    def hosts_of(self, nodes: Iterable[str]) -> list[int]:
        """Return the hosts of those ``nodes`` that are in the platform."""
        return [self._host_of[name] for name in nodes if name in self._host_of]

    def _tell_availability(self, now_s: float, unavailable: BoolArray) -> None:
        """Report hosts that have gone out of service, or are back in service."""
        for kind, changed in (
            (MACHINES_LEAVE, unavailable & ~self._unavailable),
            (MACHINES_RETURN, ~unavailable & self._unavailable),
        ):
            if changed.any():
                hosts = HostSet(changed.nonzero()[0])
                self._notify(now_s, kind, {"resources": str(hosts)})
        self._unavailable = unavailable
