"""The nodes-only bridge: Slurm places jobs, and the policy offers the number of nodes that may be on.

Waiting jobs are reported as demand and started jobs as running; nodes that Slurm has put to sleep are asleep,
and those that it wakes are waking until they are up. A job whose nodes are not ready yet does not run.
The nodes beyond the policy's offer are reserved, so that no further job starts there, and powered down when
idle.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray
from beasy_sched.engine.actions import Offer
from beasy_sched.errors import PeerError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.platform import Platform
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.bridge import Bridge, Phase, Tracked
from beasy_sched.plugins.slurm.kills import ClusterKills
from beasy_sched.plugins.slurm.low_partition import LowPartition
from beasy_sched.plugins.slurm.records import FALLING, OFF, STOPPED, SlurmJob, SlurmNode
from beasy_sched.plugins.slurm.reservations import NodeReservation
from beasy_sched.plugins.slurm.withheld_nodes import NodeNow, OfferSpan, Use, counts_at, longest_limit_s
from beasy_sched.plugins.slurm.withholder import Withholder
from beasy_sched.policies.offering import SHARE_TOLERANCE
from beasy_sched.protocol.notices import JOB_RUNS
from beasy_sched.units import TIME_TOLERANCE_S

SHARE_FIELD: Final = "host_share"
"""Field of a job with the share that it takes of each of its nodes."""
_LEARNED: Final = 0.1
"""Weight of a new observation in the learned share."""
_RESERVED: Final = "RESERVED"
_FALLS: Final = frozenset({OFF, FALLING, "POWER_DOWN"})
"""Flags of nodes that sleep or are about to."""


@dataclass(frozen=True)
class OfferRow:
    """The nodes at one moment, for the file of offers."""

    time_s: float
    offered: int
    """Number of nodes in service that may be on."""
    on: int
    """Number of nodes in service that are not powered down."""
    draining: int
    """Number of withheld nodes that still have a job, or are switching off."""
    withheld: str
    """Hosts withheld now."""
    fall_s: float
    """Time of the next fall; NaN if there is none."""
    withheld_then: str
    low_partition: str
    """State of the partition of low-class jobs; empty without one."""


class NodesOnly(Bridge):
    """Bridge that reports what Slurm does, and withholds nodes from it."""

    acts = True

    def __init__(
        self,
        platform: Platform,
        partition: str,
        *,
        epoch_s: float,
        step_s: float,
        used_j: Callable[[float], float] | None = None,
        kills: ClusterKills | None = None,
        low: LowPartition | None = None,
    ) -> None:
        """Begin as `Bridge` does; ``step_s``: duration of the site's steps, s.

        ``kills``: treatment of jobs that are killed for lack of energy. None: none is. ``low``: partition
        whose jobs do not start while energy is scarce.
        """
        super().__init__(platform, partition, epoch_s=epoch_s, used_j=used_j, kills=kills)
        self._step_s, self._kills_jobs, self.low = step_s, kills is not None, low
        self.offers: Callable[[], Sequence[Offer]] = tuple
        """Returns the policy's offers; empty before the first ones."""
        self.withholder = Withholder(platform.names, partition, epoch_s=epoch_s, step_s=step_s)
        self.rows: list[OfferRow] = []
        """Changes of offers and nodes, in order of time."""
        self._kind_names = [platform.kinds[row].name for row in platform.kind_of.tolist()]
        self._share = 1.0
        """Learned share that a job takes of each of its nodes."""
        self._refused: set[str] = set()
        """Jobs that the scheduler does not want to know while they wait, such as those that are too large."""
        self._guarded: list[OfferSpan] = []
        """Numbers of nodes that the guard leaves on in the present step."""
        self._seen_s = -math.inf
        """Time of the last observation, s."""
        self._nodes: list[NodeNow] = []
        self._here: list[SlurmNode | None] = [None] * platform.size
        self._limits_s: list[float | None] = []
        """Time limits of the waiting jobs, s."""
        self._wanted_by_others = 0
        """Number of nodes that the waiting jobs outside of the low partition would take."""
        self._jobs_on: dict[str, list[SlurmJob]] = {}
        """Slurm's jobs on each node."""
        self._waking = np.zeros(platform.size, dtype=np.bool_)
        """Hosts that are reported as waking."""

    # --- observing the cluster ------------------------------------------------------------------------------

    def needs_reservations(self, now_s: float) -> bool:
        """Extend `Bridge.needs_reservations`: they are read once in each step."""
        return self.withholder.needs_look(self.epoch_s + now_s)

    def see_reservations(self, now_s: float, reservations: Sequence[NodeReservation]) -> None:
        """Process the cluster's reservations."""
        self.withholder.look(self.epoch_s + now_s, reservations)
        self._take_notes()

    def _take_notes(self) -> None:
        self.notes += self.withholder.notes
        self.withholder.notes.clear()

    def observe(
        self, now_s: float, jobs: Sequence[SlurmJob], nodes: Mapping[str, SlurmNode]
    ) -> list[a.ClusterAction]:
        """Process the state of the cluster: jobs started and ended, nodes switched."""
        self._seen_s = now_s
        self._here = [nodes.get(name) for name in self.platform.names]
        self._jobs_on = {}
        for job in jobs:
            if job.has_nodes:
                for name in job.nodes:
                    self._jobs_on.setdefault(name, []).append(job)
        known = {job.id: job for job in jobs}
        for tracked in [*self.tracked.values()]:
            self._follow(now_s, tracked, known.get(tracked.job.id))
        self._learn()
        unavailable = self._unavailable_nodes(now_s)
        off = self._off_nodes()
        waking = self._waking_nodes() & ~off
        self._tell_states(now_s, waking & self._asleep, self.platform.on_pstate)
        up = ~waking & (self._waking | (self._asleep & ~off))
        self._tell_states(now_s, up, self.platform.initial_pstates)
        partitions = self._own_partitions(nodes.values())
        waiting = []
        for job in sorted(jobs, key=lambda job: job.order):
            if job.has_nodes:
                if not job.is_configuring:
                    self._meet_running(now_s, job)
            elif partitions & {*job.partitions} and self._is_demand(now_s, job):
                waiting.append(job)
                if job.id not in self.tracked and job.id not in self._refused:
                    self._submit(now_s, job, extras=self._extras)
        self._limits_s = [job.time_limit_s for job in waiting]
        low = None if self.low is None else (self.low.name,)
        others = sum(job.node_count for job in waiting if job.partitions != low)
        self._wanted_by_others = math.ceil(others * self._share - SHARE_TOLERANCE)
        self._tell_states(now_s, off & ~self._asleep & ~self._taken(), self.platform.sleep_pstate)
        self._tell_availability(now_s, unavailable)
        self._nodes = [*self._nodes_now(now_s, unavailable)]
        self._miss(now_s, known)
        return self._after_signals(jobs)

    def _after_signals(self, jobs: Iterable[SlurmJob]) -> list[a.ClusterAction]:
        """Return what is due for jobs that were signalled: requeues, and the end of the mark if they wait."""
        if not self.kills.signals:
            return []
        unmarked = (
            a.MarkJob(job.id, job.admin_comment.removesuffix(STOPPED).rstrip())
            for job in jobs
            if job.is_stopped and job.waits
        )
        return [*self._revived(job for job in jobs if self.hosts_of(job.nodes)), *unmarked]

    def _own_partitions(self, nodes: Iterable[SlurmNode]) -> set[str]:
        """Return our partition, and those whose nodes are all ours."""
        own = {name for node in self._here if node is not None for name in node.partitions}
        own -= {name for node in nodes if node.name not in self._host_of for name in node.partitions}
        return own | {self.partition}

    def _is_demand(self, now_s: float, job: SlurmJob) -> bool:
        return job.waits and not job.is_held and self._may_start(now_s, job)

    @property
    def _extras(self) -> dict[str, Any] | None:
        return {SHARE_FIELD: self._share} if self._share < 1.0 else None

    def _learn(self) -> None:
        """Learn the share of a node that a job takes from the jobs that run on ours."""
        counts = [len(self._jobs_on[name]) for name in self.platform.names if name in self._jobs_on]
        if counts:
            self._share += _LEARNED * (len(counts) / sum(counts) - self._share)

    def _follow(self, now_s: float, tracked: Tracked, job: SlurmJob | None) -> None:
        """Update a job that the scheduler knows."""
        before = tracked.job
        tracked.job = before if job is None else job
        if tracked.phase is Phase.WAITING:
            if job is None or job.end:
                self._withdraw(now_s, tracked, "cancelled")
        elif job is None:  # it ended a while ago
            self._complete(now_s, tracked, e.JobEnd.SUCCESS)
        elif job.end:
            self._complete(now_s, tracked, job.end)
        elif job.waits or job.restarts > before.restarts:
            self._complete(now_s, tracked, e.JobEnd.FAILED)

    def _meet_running(self, now_s: float, job: SlurmJob) -> None:
        """Report a job that has its nodes as running, if the scheduler does not know that yet."""
        tracked = self.tracked.get(job.id)
        if job.is_leaving if tracked is None else tracked.phase is Phase.RUNNING:
            return
        hosts = HostSet(np.array(sorted(self.hosts_of(job.nodes)), dtype=np.intp))
        if not len(hosts):
            if tracked is not None:
                self._withdraw(now_s, tracked, "started elsewhere")
            return
        if tracked is None:
            past_s = max(self.epoch_s + now_s - job.start_s, 0.0)
            job = msgspec.structs.replace(job, node_count=len(hosts))
            tracked = self._submit(now_s, job, past_s=past_s, extras=self._extras)
        self._refused.discard(job.id)
        tracked.phase, tracked.hosts, tracked.began_s = Phase.RUNNING, hosts, now_s
        self._notify(now_s, JOB_RUNS, {"job_id": tracked.name, "resources": str(hosts)})
        if self.kills.signals and job.is_stopped:  # by an earlier bridge
            self.kills.announce(job.id, now_s)

    def _taken(self) -> BoolArray:
        """Return the hosts of the jobs that were reported as running."""
        taken = np.zeros(self.platform.size, dtype=np.bool_)
        for tracked in self.tracked.values():
            taken[tracked.hosts.ids] = True
        return taken

    # --- nodes ----------------------------------------------------------------------------------------------

    def _unavailable_nodes(self, now_s: float) -> BoolArray:
        """Return the nodes that are not ours to offer: out of service, or in reservations of others.

        The flag RESERVED is ignored: it does not name the reservation, and Slurm updates it late.
        """
        others = self.withholder.held_by_others(self.epoch_s + now_s)
        unavailable = [
            node is None or node.name in others or (node.is_lost and _unreserved(node).is_lost)
            for node in self._here
        ]
        return np.array(unavailable, dtype=np.bool_)

    def _off_nodes(self) -> BoolArray:
        """Return the hosts that Slurm has put to sleep, and that no job has been given."""
        off = [node is not None and node.is_off and node.name not in self._jobs_on for node in self._here]
        return np.array(off, dtype=np.bool_) & (self.platform.sleep_pstate >= 0)

    def _waking_nodes(self) -> BoolArray:
        """Return the hosts that Slurm wakes, for a job or otherwise."""
        waking = [node is not None and node.wakes for node in self._here]
        return np.array(waking, dtype=np.bool_) & (self.platform.sleep_pstate >= 0)

    def _tell_states(self, now_s: float, changed: BoolArray, states: npt.NDArray[np.integer]) -> None:
        """Report the new P-states, one per host of the platform, of hosts that Slurm has switched."""
        hosts: HostIds = changed.nonzero()[0]
        if not len(hosts):
            return
        self._asleep[hosts] = states[hosts] == self.platform.sleep_pstate[hosts]
        self._waking[hosts] = states[hosts] == self.platform.on_pstate[hosts]
        for state in np.unique(states[hosts]).tolist():
            alike = HostSet(hosts[states[hosts] == state])
            self._events.append(e.ResourceStateChanged(now_s, alike, state))

    def _nodes_now(self, now_s: float, unavailable: BoolArray) -> Iterable[NodeNow]:
        """Yield the nodes that are ours to offer."""
        at_s = self.epoch_s + now_s
        for host, node in enumerate(self._here):
            if node is None or unavailable[host]:
                continue
            jobs, use, free_s = self._jobs_on.get(node.name), Use.IDLE, at_s
            if jobs is not None or node.state in ("ALLOCATED", "MIXED") or "COMPLETING" in node.flags:
                use, free_s = Use.BUSY, max(map(_latest_end_s, jobs or ()), default=at_s)
            elif node.flags & _FALLS and not node.flags & {"POWERING_UP"}:
                use = Use.ASLEEP
            yield NodeNow(node.name, self._kind_names[host], use, free_s)

    # --- offers ---------------------------------------------------------------------------------------------

    def after_decisions(self, now_s: float) -> list[a.ClusterAction]:
        """Return what the present offers require: of reservations, and of idle nodes; and requeues."""
        due = super().after_decisions(now_s)
        offers = self.offers()
        if not offers or self._seen_s != now_s:  # the controller does not respond
            return due
        spans = [
            OfferSpan(offer.kind, int(offer.count), self.epoch_s + offer.from_s, self.epoch_s + offer.until_s)
            for offer in offers
        ]
        self._guarded = [span for span in self._guarded if span.end_s > self.epoch_s + now_s]
        spans += self._guarded
        at_s = self.epoch_s + now_s
        switch = [] if self.low is None else self._switch_low(self.low, now_s, self._offered_of(spans, at_s))
        self.withholder.count(switch)
        actions = self.withholder.decide(at_s, self._nodes, spans, longest_limit_s(self._limits_s))
        self._note_row(now_s, spans)
        return [*due, *switch, *actions]

    def _offered_of(self, spans: Sequence[OfferSpan], at_s: float) -> int:
        """Return the number of nodes in service that may be on at a time, s since 1970."""
        counts = counts_at(spans, at_s)
        most = Counter(node.kind for node in self._nodes)
        return sum(min(counts.get(kind, count), count) for kind, count in most.items())

    def _switch_low(self, low: LowPartition, now_s: float, offered: int) -> list[a.ClusterAction]:
        """Decide whether jobs of the low partition may start.

        They may not while nodes are withheld, and those offered do not suffice for the running jobs and the
        waiting ones of the other partitions.
        """
        busy = sum(node.use is Use.BUSY for node in self._nodes)
        is_scarce = offered < len(self._nodes) and offered < busy + self._wanted_by_others
        return low.decide(math.floor(now_s / self._step_s + TIME_TOLERANCE_S), is_scarce=is_scarce)

    def _note_row(self, now_s: float, spans: Sequence[OfferSpan]) -> None:
        """Add a row to the file of offers, if anything has changed."""
        chosen = self.withholder.chosen
        on = draining = 0
        for node in self._nodes:
            seen = self._here[self._host_of[node.name]]
            is_on = seen is None or not seen.is_off
            on += is_on
            draining += is_on and node.name in chosen.now
        row = OfferRow(
            now_s,
            self._offered_of(spans, self.epoch_s + now_s),
            on,
            draining,
            self._shown(chosen.now),
            math.nan if chosen.fall_s is None else chosen.fall_s - self.epoch_s,
            self._shown(chosen.ahead),
            "" if self.low is None else self.low.state,
        )
        if not self.rows or _without_time(self.rows[-1]) != _without_time(row):
            self.rows.append(row)

    def _shown(self, names: Iterable[str]) -> str:
        return str(HostSet(np.array(sorted(self.hosts_of(names)), dtype=np.intp)))

    def failed(self, now_s: float, action: a.ClusterAction, why: str) -> None:
        """Extend `Bridge.failed`: after a refused change, the reservations are read again."""
        super().failed(now_s, action, why)
        if isinstance(action, a.ReservationAction):
            self.withholder.refused(self.epoch_s + now_s)
        elif isinstance(action, a.SwitchPartition) and self.low is not None:
            self.low.refused(action)

    # --- decisions ------------------------------------------------------------------------------------------

    def _start(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        raise PeerError(f"the scheduler starts job {tracked.name!r}, but Slurm places the jobs of this run")

    def _reject(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        self._refused.add(tracked.job.id)
        self._forget(tracked)
        return ()

    def _kill(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        """End a job, and those that have no other nodes than its own: otherwise its nodes would stay on."""
        if self.tracked.get(tracked.job.id) is not tracked or not self._kills_jobs:
            return []
        tracked.killed = True
        tracked.returns = tracked.may_return
        nodes = {*tracked.job.nodes}
        beside = [job for name in nodes for job in self._jobs_on.get(name, ()) if nodes.issuperset(job.nodes)]
        victims = {job.id: job for job in (tracked.job, *beside)}
        for job_id in victims:
            if job_id in self.tracked:
                self.tracked[job_id].killed = True
        return [
            action
            for job in victims.values()
            for action in self._stop(now_s, job, may_return=self._may_return(job))
        ]

    def _may_return(self, job: SlurmJob) -> bool:
        tracked = self.tracked.get(job.id)
        return self.kills.may_return(job) if tracked is None else tracked.may_return

    def _requeue(self, job: SlurmJob) -> a.JobAction:
        return a.RestartJob(job.id)

    def _set_state(self, decision: d.SetResourceState, now_s: float) -> Iterable[a.ClusterAction]:
        """Withhold the hosts that the guard puts to sleep until the end of the step.

        They are reported as asleep at once, since a job may still start there; `observe` reports their actual
        state.
        """
        hosts = decision.resources.ids
        asleep = self.platform.sleep_pstate[hosts] == decision.state
        self._asleep[hosts], self._waking[hosts] = asleep, False
        self._events.append(e.ResourceStateChanged(now_s, decision.resources, decision.state))
        at_s = self.epoch_s + now_s
        step_end_s = self.epoch_s + (math.floor(now_s / self._step_s) + 1) * self._step_s
        off = {self.platform.names[host] for host in hosts[asleep].tolist()}
        on = [node for node in self._nodes if node.use is not Use.ASLEEP]
        for kind in {node.kind for node in on if node.name in off}:
            left = sum(node.kind == kind and node.name not in off for node in on)
            self._guarded.append(OfferSpan(kind, left, at_s, step_end_s))
        return ()


def _unreserved(node: SlurmNode) -> SlurmNode:
    return msgspec.structs.replace(node, flags=node.flags - {_RESERVED})


def _latest_end_s(job: SlurmJob) -> float:
    """Return the time by which a running job has ended, by its limit, s since 1970."""
    return math.inf if job.time_limit_s is None else job.start_s + job.time_limit_s


def _without_time(row: OfferRow) -> tuple[object, ...]:
    """Return the content of a row, as strings since NaN differs from itself."""
    return tuple(str(getattr(row, each.name)) for each in fields(row)[1:])


def offers_csv(rows: Iterable[OfferRow]) -> str:
    """Return changes of offers and nodes as CSV; times in s, empty if there is none."""
    names = [each.name for each in fields(OfferRow)]
    lines = (",".join(_cell(getattr(row, name)) for name in names) for row in rows)
    return "".join(f"{line}\n" for line in (",".join(names), *lines))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else str(round(value, 3))
    return str(value).replace(",", " ")
