"""Batsim's side of a cluster: what happens in a partition as events, the scheduler's decisions as actions.

No input or output: a `Bridge` is shown the cluster's jobs and nodes, makes messages for a scheduler, takes
its replies, and returns what the cluster is to be asked. Times are seconds since its epoch.
`Acting` carries decisions out; `shadow.Shadow` only pretends to.
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
    JOB_RUNS,
    JOB_WITHDRAWN,
    LEVELS_MEASURED,
    MACHINES_LEAVE,
    MACHINES_RETURN,
    notice,
)
from beasy_sched.slurm import actions as a
from beasy_sched.slurm.records import FALLING, MARK, OFF, WAKING, SlurmJob, SlurmNode

REJECTED: Final = f"{MARK}: rejected"
"""Administrator's comment on jobs that the scheduler has rejected, and that stay held."""
WORKLOAD: Final = "slurm"
_PROFILE: Final = {"type": "parallel_homogeneous", "cpu": 1.0, "com": 0.0}
"""Profile of every job: the run time depends on the nodes, and is not known."""
_ASK_AGAIN_S: Final = 10.0
"""A node that has not begun to do what it was asked is asked again after this time."""
_SETTLED_S: Final = 5.0
"""What a node shows so soon after it was asked may be older."""
ENDS: Final[dict[str, e.JobEnd]] = {
    "COMPLETED": e.JobEnd.SUCCESS,
    "TIMEOUT": e.JobEnd.WALLTIME_REACHED,
    "DEADLINE": e.JobEnd.WALLTIME_REACHED,
    "CANCELLED": e.JobEnd.KILLED,
    "PREEMPTED": e.JobEnd.KILLED,
    **dict.fromkeys(("FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"), e.JobEnd.FAILED),
}
"""States of jobs that have ended, as Batsim names ends."""
_LOST_STATES: Final = frozenset({"DOWN", "ERROR", "FUTURE", "UNKNOWN"})
_LOST_FLAGS: Final = frozenset({"DRAIN", "FAIL", "MAINTENANCE", "RESERVED", "INVALID_REG"})
_SWITCHED: Final = WAKING | {OFF, FALLING}
"""Flags of nodes that power saving switches, or has switched off."""


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
        self._epoch_s, self._used_j = epoch_s, used_j
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
        asleep = self._asleep = self._start_asleep(nodes)
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

    def _start_asleep(self, nodes: Mapping[str, SlurmNode]) -> BoolArray:
        can_sleep = self.platform.sleep_pstate >= 0
        off = [name in nodes and is_off(nodes[name]) for name in self.platform.names]
        return np.asarray(off) & can_sleep

    def announce(self, now_s: float, reading: Mapping[str, Any]) -> None:
        """Tell what is produced from now on: the fields of a power event."""
        self._notify(now_s, "power", reading)

    def measured(self, now_s: float, reading: Mapping[str, Any]) -> None:
        """Tell what the storage really holds: ``soc_pct``, ``hydrogen_kg``."""
        self._notify(now_s, LEVELS_MEASURED, reading)

    def _notify(self, now_s: float, kind: str, fields: Mapping[str, Any]) -> None:
        data = {"timestamp": now_s, "type": kind, **fields}
        self._events.append(notice(now_s, kind, data))

    def end(self, now_s: float) -> e.Message:
        """Return the last message."""
        self._events.append(e.SimulationEnds(self._stamp(now_s)))
        return self._flush(now_s)

    def message(self, now_s: float) -> e.Message | None:
        """Return what the scheduler is to be told at ``now_s``; None if that is nothing."""
        while self._due and self._due[0][0] <= now_s:
            _, _, event = heapq.heappop(self._due)
            self._on_due(now_s, event)
        return self._flush(now_s) if self._events else None

    def _on_due(self, now_s: float, event: e.Event) -> None:
        self._events.append(_at(event, now_s))

    @property
    def next_due_s(self) -> float | None:
        """When something must be said at the latest, s; None if that is not known."""
        return self._due[0][0] if self._due else None

    def _later(self, at_s: float, event: e.Event) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), event))

    def _stamp(self, now_s: float) -> float:
        """The time of a message: never before the last one."""
        self._told_s = max(self._told_s, now_s)
        return self._told_s

    def _flush(self, now_s: float) -> e.Message:
        now_s = self._stamp(now_s)
        events, self._events = [_at(event, now_s) for event in self._events], []
        return e.Message(now_s, events)

    # --- jobs -----------------------------------------------------------------------------------------------

    def _may_start(self, now_s: float, job: SlurmJob) -> bool:
        """Whether a waiting job waits neither for another one nor for a time that its user has set."""
        begin_s = job.start_s if job.is_held else job.eligible_s  # of others, the start is Slurm's guess
        return not job.dependency and begin_s <= self._epoch_s + now_s

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

    def _complete(self, now_s: float, tracked: Tracked, end: e.JobEnd, code: int = 0) -> None:
        """Tell that a running job has ended, after a kill that it was killed."""
        self._forget(tracked)
        if tracked.killed and end is not e.JobEnd.SUCCESS:
            end = e.JobEnd.KILLED
        self._events.append(e.JobCompleted(now_s, tracked.name, end, tracked.hosts, code))
        if tracked.killed:
            self._events.append(e.JobsKilled(now_s, (tracked.name,)))

    # --- decisions ------------------------------------------------------------------------------------------

    def carry_out(self, reply: d.Reply, now_s: float) -> list[a.ClusterAction]:
        """Take a reply; return what the cluster is to be asked. Raises PeerError for what Slurm cannot do."""
        actions: list[a.ClusterAction] = []
        for decision in reply.decisions:
            actions += self._decided(decision, now_s)
        return actions

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


def _at(event: e.Event, now_s: float) -> e.Event:
    """The event with the time of its message, if it is another one."""
    return event if event.timestamp == now_s else msgspec.structs.replace(event, timestamp=now_s)


def is_off(node: SlurmNode) -> bool:
    """Whether a node is powered down, and stays so."""
    return OFF in node.flags and not node.flags & WAKING


def is_up(node: SlurmNode) -> bool:
    """Whether a node can run jobs, or does."""
    return not is_lost(node) and not node.flags & _SWITCHED


def is_lost(node: SlurmNode) -> bool:
    """Whether a node is out of service: broken, drained, or not heard of though it should be up."""
    if node.state in _LOST_STATES or node.flags & _LOST_FLAGS:
        return True
    return "NOT_RESPONDING" in node.flags and not node.flags & _SWITCHED


@dataclass
class _Group:
    """Hosts that were switched in one decision, and are answered together."""

    hosts: HostSet
    state: int
    left: set[int]
    """Hosts that have not reached the state yet."""


@dataclass(frozen=True)
class ActingRules:
    """What the bridge does with jobs that are not simply started."""

    requeue_killed: bool = False
    """Put killed jobs back into the queue, held, instead of cancelling them."""
    cancel_rejected: bool = False
    """Cancel rejected jobs instead of leaving them held."""


class Acting(Bridge):
    """Starts the jobs of a partition that were held for it, and switches its nodes; touches nothing else."""

    acts = True

    def __init__(
        self,
        platform: Platform,
        partition: str,
        rules: ActingRules | None = None,
        *,
        epoch_s: float,
        used_j: Callable[[float], float] | None = None,
        adopts: bool = True,
    ) -> None:
        """As `Bridge`; ``rules`` say what becomes of rejected and killed jobs.

        ``adopts``: the scheduler is told of jobs that an earlier bridge has started; otherwise, as Batsim has
        no message for it, their hosts are out of service until they end.
        """
        super().__init__(platform, partition, epoch_s=epoch_s, used_j=used_j)
        self._rules = rules or ActingRules()
        self._adopts = adopts
        """Whether such jobs are still looked for: at the first look alone."""
        self._groups: list[_Group] = []
        self._asked_s = np.full(platform.size, -np.inf)
        """When each node was last asked to switch on or off, s."""
        self._left_alone: set[str] = set()
        """Jobs that are not the bridge's to start; each is told of once."""

    # --- what is seen ---------------------------------------------------------------------------------------

    def observe(
        self, now_s: float, jobs: Sequence[SlurmJob], nodes: Mapping[str, SlurmNode]
    ) -> list[a.ClusterAction]:
        """Look at a cluster; note what is new, and return what must be asked of it at once."""
        actions: list[a.ClusterAction] = []
        seen = {job.id: job for job in jobs if self.partition in job.partitions}
        for tracked in [*self.tracked.values()]:
            job = seen.get(tracked.job.id)
            if job is None:
                self._gone(now_s, tracked)
            else:
                actions += self._follow(now_s, tracked, job)
        for job in sorted(seen.values(), key=lambda job: (job.submit_s, by_number(job.id))):
            if job.id not in self.tracked and not self._adopt(now_s, job):
                actions += self._meet(now_s, job)
        self._adopts = False
        actions += self._look_at_nodes(now_s, jobs, nodes)
        return actions

    def _adopt(self, now_s: float, job: SlurmJob) -> bool:
        """Tell of a job that runs already, or was told where to start; return whether it is one."""
        waits = job.state == "PENDING"
        nodes = job.required_nodes if waits else job.nodes
        hosts = HostSet(np.array(sorted(self.hosts_of(nodes)), dtype=np.intp))
        ours = job.admin_comment == MARK and not job.lacks
        if not self._adopts or not ours or job.state in ENDS or job.is_held or job.dependency:
            return False
        if not len(hosts) == len(nodes) == job.node_count or (self._asleep | self._taken())[hosts.ids].any():
            return False
        tracked = self._submit(now_s, job, past_s=0.0 if waits else self._epoch_s + now_s - job.start_s)
        tracked.phase, tracked.hosts = Phase.STARTING if waits else Phase.RUNNING, hosts
        self._notify(now_s, JOB_RUNS, {"job_id": tracked.name, "resources": str(hosts)})
        return True

    def _taken(self) -> BoolArray:
        """Hosts of the jobs that run, or were told to."""
        taken = np.zeros(self.platform.size, dtype=np.bool_)
        for tracked in self.tracked.values():
            taken[tracked.hosts.ids] = True
        return taken

    def _meet(self, now_s: float, job: SlurmJob) -> Iterable[a.ClusterAction]:
        """Look at a job that the scheduler does not know."""
        if job.state != "PENDING" or not job.admin_comment.startswith(MARK):
            return ()
        if job.admin_comment.startswith(REJECTED):
            return ()
        if not job.is_held:
            requeued = job.restarts > self._restarts.get(job.id, job.restarts)
            return [a.HoldJob(job.id)] if requeued else ()  # else somebody has released it
        if job.lacks:
            if job.id not in self._left_alone:
                self._left_alone.add(job.id)
                self.notes.append(f"job {job.id} asks for more than nodes ({job.lacks}): left to Slurm")
            return [a.ReleaseJob(job.id)]
        if self._may_start(now_s, job):
            self._submit(now_s, job)
        return ()

    def _follow(self, now_s: float, tracked: Tracked, job: SlurmJob) -> Iterable[a.ClusterAction]:
        before, tracked.job = tracked.job, job
        if tracked.phase is Phase.WAITING:
            if job.state != "PENDING":
                gone = job.state in ENDS
                self._withdraw(now_s, tracked, "cancelled" if gone else "started by somebody else")
            elif not job.is_held:
                self._withdraw(now_s, tracked, "released by somebody else")
            return ()
        if job.state in ENDS:
            self._complete(now_s, tracked, ENDS[job.state])
        elif job.restarts > before.restarts or (job.state == "PENDING" and tracked.phase is Phase.RUNNING):
            self._complete(now_s, tracked, e.JobEnd.FAILED)
            return self._meet(now_s, job)
        elif job.state == "PENDING":
            if job.is_held:  # somebody, or Slurm, has taken the release back
                self._complete(now_s, tracked, e.JobEnd.KILLED)
                return self._meet(now_s, job)
        elif tracked.phase is Phase.STARTING:
            tracked.phase = Phase.RUNNING
            found = self.hosts_of(job.nodes)
            if sorted(found) != tracked.hosts.ids.tolist():
                self.notes.append(
                    f"job {job.id} runs on {', '.join(job.nodes)} instead of "
                    f"{', '.join(self.nodes_of(tracked.hosts))}"
                )
        return ()

    def _gone(self, now_s: float, tracked: Tracked) -> None:
        """A job that Slurm does not know any more has ended a while ago."""
        if tracked.phase is Phase.WAITING:
            self._withdraw(now_s, tracked, "cancelled")
        else:
            self._complete(now_s, tracked, e.JobEnd.SUCCESS)

    def _look_at_nodes(
        self, now_s: float, jobs: Sequence[SlurmJob], nodes: Mapping[str, SlurmNode]
    ) -> list[a.ClusterAction]:
        """Note which hosts are out of service, and which have been switched; ask again where need be."""
        size = self.platform.size
        lost, up, off = (np.zeros(size, dtype=np.bool_) for _ in range(3))
        for host, name in enumerate(self.platform.names):
            node = nodes.get(name)
            lost[host] = node is None or is_lost(node)
            if node is not None:
                up[host], off[host] = is_up(node), is_off(node)
        foreign = np.zeros(size, dtype=np.bool_)
        for job in jobs:
            if job.id not in self.tracked or self.tracked[job.id].phase is Phase.WAITING:
                taken = job.nodes if job.state not in ENDS and job.state != "PENDING" else ()
                if job.state == "PENDING" and not job.is_held and self.partition in job.partitions:
                    taken = job.required_nodes  # an earlier bridge has told it to start there
                foreign[self.hosts_of(taken)] = True
        switching = self._answer_switches(now_s, lost, up, off)
        at_rest = ~(self._asleep | switching | self._taken())
        unavailable = (lost & ~self._asleep) | foreign | (at_rest & ~up)
        self._tell_availability(now_s, unavailable)
        late = now_s - self._asked_s >= _ASK_AGAIN_S
        rise = switching & ~self._asleep & off & late
        fall = self._asleep & up & ~foreign & late
        return [*self._ask(now_s, a.SwitchOn, rise), *self._ask(now_s, a.SwitchOff, fall)]

    def _answer_switches(self, now_s: float, lost: BoolArray, up: BoolArray, off: BoolArray) -> BoolArray:
        """Answer the groups that are there, first the hosts that did not come; return which still switch.

        A host that was to be woken and is down is said to be asleep: it counts as lost.
        """
        switching = np.zeros(self.platform.size, dtype=np.bool_)
        for group in [*self._groups]:
            there = {host for host in group.left if (off if self._asleep[host] else up)[host]}
            waited = {host for host in group.left if now_s - self._asked_s[host] >= _SETTLED_S}
            failed = {host for host in waited if lost[host] and not self._asleep[host]}
            if failed:
                self._fail(now_s, group, sorted(failed))
            group.left -= there
            if not group.left:
                self._groups.remove(group)
                if len(group.hosts):
                    self._events.append(e.ResourceStateChanged(now_s, group.hosts, group.state))
            switching[[*group.left]] = True
        return switching

    def _fail(self, now_s: float, group: _Group, failed: list[int]) -> None:
        """Take hosts that do not come out of their group, and say that they are asleep."""
        group.left -= {*failed}
        group.hosts = HostSet(np.setdiff1d(group.hosts.ids, failed))
        self._asleep[failed] = True
        for pstate in np.unique(self.platform.sleep_pstate[failed]).tolist():
            hosts = [host for host in failed if self.platform.sleep_pstate[host] == pstate]
            self._events.append(e.ResourceStateChanged(now_s, HostSet(np.array(hosts)), pstate))
        self.notes.append(f"{', '.join(self.platform.names[host] for host in failed)} did not come")

    def _ask(
        self, now_s: float, kind: type[a.SwitchOn | a.SwitchOff], mask: BoolArray
    ) -> list[a.ClusterAction]:
        if not mask.any():
            return []
        self._asked_s[mask] = now_s
        return [kind(self.nodes_of(HostSet(mask.nonzero()[0])))]

    # --- decisions ------------------------------------------------------------------------------------------

    def _start(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        return [a.StartJob(tracked.job.id, self.nodes_of(tracked.hosts))]

    def _reject(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        self._forget(tracked)
        if self._rules.cancel_rejected:
            return [a.CancelJob(tracked.job.id)]
        return [a.MarkJob(tracked.job.id, REJECTED)]

    def _kill(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        if tracked.job.id not in self.tracked or tracked.phase is Phase.WAITING:
            return ()  # it has ended meanwhile
        tracked.killed = True
        again = self._rules.requeue_killed and tracked.phase is Phase.RUNNING and tracked.job.can_requeue
        return [a.RequeueJob(tracked.job.id) if again else a.CancelJob(tracked.job.id)]

    def _set_state(self, decision: d.SetResourceState, now_s: float) -> Iterable[a.ClusterAction]:
        hosts = decision.resources
        falls = self.platform.sleep_pstate[hosts.ids] == decision.state
        mask = np.zeros(self.platform.size, dtype=np.bool_)
        mask[hosts.ids] = True
        if not falls.any() and not self._asleep[hosts.ids].any():
            self._events.append(e.ResourceStateChanged(now_s, hosts, decision.state))
            return [a.SetFrequency(self.nodes_of(hosts), decision.state)]
        self._asleep[hosts.ids] = falls
        self._groups.append(_Group(hosts, decision.state, set(hosts.ids.tolist())))
        return self._ask(now_s, a.SwitchOff if falls.all() else a.SwitchOn, mask)

    def failed(self, now_s: float, action: a.ClusterAction, why: str) -> None:
        """As `Bridge.failed`: a job that cannot be started is no longer the scheduler's."""
        super().failed(now_s, action, why)
        if isinstance(action, a.StartJob):
            tracked = self.tracked.get(action.job)
            if tracked is not None and tracked.phase is Phase.STARTING:
                self._complete(now_s, tracked, e.JobEnd.KILLED)


def by_number(job: str) -> tuple[int, ...]:
    """A job's id as numbers, to sort by."""
    return tuple(int(part) for part in job.split("_") if part.isdigit())
