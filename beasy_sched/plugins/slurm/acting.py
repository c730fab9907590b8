"""The acting bridge: starts held jobs on the hosts that the scheduler chooses, and switches nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.platform import Platform
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.bridge import Bridge, Phase, Tracked
from beasy_sched.plugins.slurm.kills import ClusterKills
from beasy_sched.plugins.slurm.live_settings import OnReject
from beasy_sched.plugins.slurm.node_sizes import NodeSize, beyond_size, smallest_size
from beasy_sched.plugins.slurm.priority_order import PriorityOrder
from beasy_sched.plugins.slurm.records import REJECTED, SlurmJob, SlurmNode
from beasy_sched.plugins.slurm.told_starts import ToldStarts
from beasy_sched.protocol.notices import JOB_NOT_STARTED, JOB_RUNS, QUEUE_ORDER

_IMPOSSIBLE: Final = frozenset({"BadConstraints"})
"""Reasons of Slurm for jobs that can never start on the nodes that they require."""
_NO_REASON: Final = frozenset({"", "None"})
_PATIENCE_S: Final = 30.0
"""Time after which a released job that still waits is held again, s."""
_PATIENCE_WITHOUT_REASON_S: Final = 120.0
"""The same for a job that Slurm has not considered yet, s."""
_RETRY_S: Final = 60.0
"""Time until such a job is submitted again, s; it doubles each time, up to the longest one."""
_LONGEST_RETRY_S: Final = 3600.0
_ASK_AGAIN_S: Final = 10.0
"""Time after which a request is repeated if the node has not begun to carry it out, s."""
_SETTLED_S: Final = 5.0
"""Time after a request during which the state of a node may be outdated, s."""


@dataclass
class _SwitchedGroup:
    """Hosts that were switched in one decision, and are reported together."""

    hosts: HostSet
    state: int
    left: set[int]
    """Hosts that have not yet reached the state."""


class Acting(Bridge):
    """Bridge that starts the held jobs of a partition and switches its nodes; it changes nothing else."""

    acts = True

    def __init__(
        self,
        platform: Platform,
        partition: str,
        *,
        epoch_s: float,
        used_j: Callable[[float], float] | None = None,
        adopts: bool = True,
        kills: ClusterKills | None = None,
        on_reject: OnReject = "hold",
        order: PriorityOrder | None = None,
    ) -> None:
        """Begin as `Bridge`; ``on_reject``: treatment of rejected jobs.

        ``adopts``: jobs that already run on the bridge's nodes are announced to the scheduler; otherwise,
        because Batsim has no message for it, their hosts are out of service until they end. ``order``: the
        order of waiting jobs; None: that of their submission.
        """
        super().__init__(platform, partition, epoch_s=epoch_s, used_j=used_j, kills=kills)
        self._on_reject = on_reject
        self._adopts, self._priorities = adopts, order
        self._is_first_look = True
        """Whether jobs that an earlier bridge has placed are still searched for."""
        self._groups: list[_SwitchedGroup] = []
        self._asked_s = np.full(platform.size, -np.inf)
        """Time of the last request to switch each node on or off, s."""
        self._left_alone: set[str] = set()
        """Jobs that the bridge must not start; each is reported once."""
        self._requeued: set[str] = set()
        """Jobs that ran, and wait again."""
        self._failures: dict[str, int] = {}
        """Number of starts of each job that Slurm has not carried out."""
        self._retry_s: dict[str, float] = {}
        """Time at which such a job is submitted again, s."""
        self._taken_back: set[str] = set()
        """Jobs whose node list is removed in this look."""
        self._order_told: list[str] = []
        """Waiting jobs by name, in the scheduler's order."""
        self._size = NodeSize()
        """Size of the smallest node."""
        self._told: set[str] = set()
        """Notes that are given once."""
        self.told_starts: ToldStarts | None = None
        """Expected starts for the users of held jobs; None if they are not reported."""

    # --- observing the cluster ------------------------------------------------------------------------------

    def observe(
        self, now_s: float, jobs: Sequence[SlurmJob], nodes: Mapping[str, SlurmNode]
    ) -> list[a.ClusterAction]:
        """Process the state of the cluster, and return the actions that are due at once."""
        actions: list[a.ClusterAction] = []
        seen = {job.id: job for job in jobs if self.partition in job.partitions}
        self._size = smallest_size(nodes[name] for name in self.platform.names if name in nodes)
        self._taken_back.clear()
        for tracked in [*self.tracked.values()]:
            job = seen.get(tracked.job.id)
            if job is None:
                self._gone(now_s, tracked)
            else:
                actions += self._follow(now_s, tracked, job)
        for job in sorted(seen.values(), key=lambda job: job.order):
            if job.id not in self.tracked and not self._adopt(now_s, job):
                actions += self._meet(now_s, job)
        self._miss(now_s, seen)
        actions += self._revived(seen.values())
        self._is_first_look = False
        if self._priorities is not None:
            self._tell_order(now_s, self._priorities)
        actions += self._look_at_nodes(now_s, jobs, nodes)
        return actions

    def after_decisions(self, now_s: float) -> list[a.ClusterAction]:
        """Extend `Bridge.after_decisions` by the comments of held jobs that are due."""
        due = super().after_decisions(now_s)
        if self.told_starts is not None:
            due += self.told_starts.due(now_s, self.tracked.values())
        return due

    def _adopt(self, now_s: float, job: SlurmJob) -> bool:
        """Announce a job that is running, or has been given its nodes; return whether it is one."""
        ours = job.is_ours and not job.lacks and not job.end and not job.is_held and not job.dependency
        placed_now = job.is_placed and not job.waits and job.id in self._attempts
        if not self._adopts or not ours or job.is_leaving or not (self._is_first_look or placed_now):
            return False
        nodes = job.nodes if not job.waits else job.required_nodes if job.is_placed else ()
        hosts = HostSet(np.array(sorted(self.hosts_of(nodes)), dtype=np.intp))
        if not len(hosts) == len(nodes) == job.node_count or (self._asleep | self._taken())[hosts.ids].any():
            return False
        tracked = self._submit(now_s, job, past_s=0.0 if job.waits else self.epoch_s + now_s - job.start_s)
        tracked.phase, tracked.hosts = Phase.STARTING if job.waits else Phase.RUNNING, hosts
        self._notify(now_s, JOB_RUNS, {"job_id": tracked.name, "resources": str(hosts)})
        if self.kills.signals and job.is_stopped and not job.waits:  # by an earlier bridge
            self.kills.announce(job.id, now_s)
        return True

    def _taken(self) -> BoolArray:
        """Return the hosts of jobs that are running, or about to start."""
        taken = np.zeros(self.platform.size, dtype=np.bool_)
        for tracked in self.tracked.values():
            taken[tracked.hosts.ids] = True
        return taken

    def _meet(self, now_s: float, job: SlurmJob) -> Iterable[a.ClusterAction]:
        """Process a job that is unknown to the scheduler."""
        if not job.waits or not job.is_ours:
            return ()
        if job.id in self._left_alone:
            if job.is_held and job.id not in self._taken_back:
                self._note_once(f"job {job.id} is held again ({job.reason}): left to Slurm and its user")
            return ()
        if not job.is_held:
            requeued = job.id in self._requeued or job.restarts > self._restarts.get(job.id, job.restarts)
            return [a.HoldJob(job.id)] if requeued else ()  # else it was released outside of beasy-sched
        lacks = job.lacks or beyond_size(job, self._size)
        if lacks:
            return self._leave(job, f"requests more than nodes ({lacks})")
        if job.reason in _IMPOSSIBLE:
            return self._leave(job, f"could not start ({job.reason})")
        if now_s >= self._retry_s.get(job.id, -math.inf) and self._may_start(now_s, job):
            self._requeued.discard(job.id)
            self._submit(now_s, job)
        return ()

    def _leave(self, job: SlurmJob, why: str) -> list[a.ClusterAction]:
        """Let Slurm start a held job, on any nodes that its user allows."""
        self._left_alone.add(job.id)
        self._taken_back.add(job.id)
        self.notes.append(f"job {job.id} {why}: left to Slurm")
        own = [a.UnplaceJob(job.id, job.node_range)] if job.is_placed else []
        return [*own, a.ReleaseJob(job.id)]

    def _note_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.notes.append(text)

    def _tell_order(self, now_s: float, order: PriorityOrder) -> None:
        """Report the order of the waiting jobs, from the first one that is not where it was."""
        waiting = [tracked for tracked in self.tracked.values() if tracked.phase is Phase.WAITING]
        names = {tracked.name for tracked in waiting}
        listed = {*self._order_told}
        still_listed = [name for name in self._order_told if name in names]
        still_listed += [tracked.name for tracked in waiting if tracked.name not in listed]
        now = self.epoch_s + now_s
        wanted = [
            tracked.name for tracked in sorted(waiting, key=lambda tracked: order.key(tracked.job, now))
        ]
        at = next(
            (at for at, pair in enumerate(zip(still_listed, wanted, strict=True)) if pair[0] != pair[1]), None
        )
        if at is not None:
            self._notify(now_s, QUEUE_ORDER, {"jobs": wanted[at:]})
        self._order_told = wanted

    def _follow(self, now_s: float, tracked: Tracked, job: SlurmJob) -> Iterable[a.ClusterAction]:
        before, tracked.job = tracked.job, job
        if tracked.phase is Phase.WAITING:
            if not job.waits:
                self._withdraw(now_s, tracked, "cancelled" if job.end else "started outside of beasy-sched")
            elif not job.is_held:
                self._withdraw(now_s, tracked, "released outside of beasy-sched")
            return ()
        if job.end:
            self._complete(now_s, tracked, job.end)
        elif job.restarts > before.restarts or (job.waits and tracked.phase is Phase.RUNNING):
            self._complete(now_s, tracked, e.JobEnd.FAILED)
            if job.is_held and not (tracked.killed or job.is_stopped):
                return self._leave_to_holder(job)
            self._requeued.add(job.id)
        elif job.waits:
            return self._follow_start(now_s, tracked, job)
        elif tracked.phase is Phase.STARTING:
            tracked.phase = Phase.RUNNING
            self._failures.pop(job.id, None)
            self._retry_s.pop(job.id, None)
            hosts = self.hosts_of(job.nodes)
            if sorted(hosts) != tracked.hosts.ids.tolist():
                self.notes.append(
                    f"job {job.id} runs on {', '.join(job.nodes)} instead of "
                    f"{', '.join(self.nodes_of(tracked.hosts))}"
                )
        return ()

    def _follow_start(self, now_s: float, tracked: Tracked, job: SlurmJob) -> Iterable[a.ClusterAction]:
        """Process a job that still waits although it was released."""
        if job.is_held:
            self._fail_start(now_s, tracked, job.reason)
            if job.reason in _IMPOSSIBLE:
                return self._leave(job, f"could not start on {', '.join(job.required_nodes)} ({job.reason})")
            return self._leave_to_holder(job)
        tracked.pending_s = min(tracked.pending_s, now_s)
        waits_s = _PATIENCE_WITHOUT_REASON_S if job.reason in _NO_REASON else _PATIENCE_S
        if now_s - tracked.pending_s < waits_s or job.reason == "BeginTime":
            return ()
        self._fail_start(now_s, tracked, job.reason)
        self._note_once(
            f"job {job.id} was not started on {', '.join(job.required_nodes)} ({job.reason}): it is held, and"
            " submitted again later"
        )
        self._taken_back.add(job.id)
        return [a.HoldJob(job.id), a.UnplaceJob(job.id, job.node_range)]

    def _fail_start(self, now_s: float, tracked: Tracked, reason: str) -> None:
        """End a start that Slurm has not carried out; the job may be submitted again later."""
        job_id = tracked.job.id
        failures = self._failures[job_id] = self._failures.get(job_id, 0) + 1
        self._retry_s[job_id] = now_s + min(_RETRY_S * 2.0 ** min(failures - 1, 32), _LONGEST_RETRY_S)
        self._notify(now_s, JOB_NOT_STARTED, {"job_id": tracked.name, "reason": reason})
        self._complete(now_s, tracked, e.JobEnd.KILLED)

    def _leave_to_holder(self, job: SlurmJob) -> list[a.ClusterAction]:
        """Remove the mark of a job that its user, an administrator or Slurm has held: it is theirs."""
        self._left_alone.add(job.id)
        self._taken_back.add(job.id)
        self.notes.append(f"job {job.id} was held by others ({job.reason}): left to them")
        return [a.UnplaceJob(job.id, job.node_range, comment="")]

    def _gone(self, now_s: float, tracked: Tracked) -> None:
        """Process a job that Slurm no longer lists, because it ended a while ago."""
        if tracked.phase is Phase.WAITING:
            self._withdraw(now_s, tracked, "cancelled")
        else:
            self._complete(now_s, tracked, e.JobEnd.SUCCESS)

    def _look_at_nodes(
        self, now_s: float, jobs: Sequence[SlurmJob], nodes: Mapping[str, SlurmNode]
    ) -> list[a.ClusterAction]:
        """Process hosts that are out of service or have been switched; repeat requests if necessary."""
        here = [nodes.get(name) for name in self.platform.names]
        lost = np.array([node is None or node.is_lost for node in here])
        up = np.array([node is not None and node.is_up for node in here])
        off = np.array([node is not None and node.is_off for node in here])
        wakes = np.array([node is not None and node.wakes for node in here])
        foreign = self._foreign(jobs)
        switching = self._answer_switches(now_s, lost, up, off)
        at_rest = ~(self._asleep | switching | self._taken())
        if (at_rest & off & ~foreign).any():
            self._note_once(
                "Slurm puts idle nodes to sleep (SuspendTime), and wakes them for jobs: the energy of hosts"
                " that the scheduler left on is overestimated"
            )
        unavailable = (lost & ~self._asleep) | foreign | (at_rest & ~up & ~wakes)
        self._tell_availability(now_s, unavailable)
        late = now_s - self._asked_s >= _ASK_AGAIN_S
        rise = (switching & ~self._asleep & off & late).nonzero()[0]
        fall = (self._asleep & up & ~foreign & late).nonzero()[0]
        return [*self._ask(now_s, a.SwitchOn, rise), *self._ask(now_s, a.SwitchOff, fall)]

    def _foreign(self, jobs: Sequence[SlurmJob]) -> BoolArray:
        """Return the hosts of jobs that the bridge has not started, or has started elsewhere."""
        foreign = np.zeros(self.platform.size, dtype=np.bool_)
        required = np.zeros_like(foreign)
        for job in jobs:
            tracked = self.tracked.get(job.id)
            hosts = self.hosts_of(job.nodes if job.has_nodes else ())
            if tracked is None or tracked.phase is Phase.WAITING:
                foreign[hosts] = True
                released = job.waits and not job.is_held and self.partition in job.partitions
                if released and job.id not in self._taken_back:  # it waits for exactly these nodes
                    required[self.hosts_of(job.required_nodes)] = True
            elif hosts:
                own = {*tracked.hosts.ids.tolist()}
                foreign[[host for host in hosts if host not in own]] = True
        return foreign | (required & ~self._taken())

    def _answer_switches(self, now_s: float, lost: BoolArray, up: BoolArray, off: BoolArray) -> BoolArray:
        """Report the groups that are complete, after hosts that failed to wake; return those still switching.

        A host that should wake and is down is reported as asleep: it counts as lost.
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

    def _fail(self, now_s: float, group: _SwitchedGroup, failed: list[int]) -> None:
        """Remove hosts that fail to wake from their group, and report them as asleep."""
        group.left -= {*failed}
        group.hosts = HostSet(np.setdiff1d(group.hosts.ids, failed))
        self._asleep[failed] = True
        for pstate in np.unique(self.platform.sleep_pstate[failed]).tolist():
            hosts = [host for host in failed if self.platform.sleep_pstate[host] == pstate]
            self._events.append(e.ResourceStateChanged(now_s, HostSet(np.array(hosts)), pstate))
        self.notes.append(f"{', '.join(self.platform.names[host] for host in failed)} failed to wake")

    def _ask(
        self, now_s: float, kind: type[a.SwitchOn | a.SwitchOff], hosts: HostIds
    ) -> list[a.ClusterAction]:
        self._asked_s[hosts] = now_s
        return [kind(self.nodes_of(HostSet(hosts)))] if len(hosts) else []

    # --- decisions ------------------------------------------------------------------------------------------

    def _start(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        job = tracked.job
        return [a.StartJob(job.id, self.nodes_of(tracked.hosts), job.node_range)]

    def _reject(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        self._forget(tracked)
        if self._on_reject == "cancel":
            return [a.CancelJob(tracked.job.id)]
        return [a.MarkJob(tracked.job.id, REJECTED)]

    def _kill(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        job = tracked.job
        if job.id not in self.tracked or tracked.phase is Phase.WAITING:
            return ()  # it has ended in the meantime
        tracked.killed = True
        tracked.returns = tracked.may_return
        if tracked.may_return and job.waits:  # Slurm has not started it yet
            self._complete(now_s, tracked, e.JobEnd.KILLED)
            self._requeued.add(job.id)
            self._taken_back.add(job.id)
            return [a.HoldJob(job.id), a.UnplaceJob(job.id, job.node_range)]
        return self._stop(now_s, job, may_return=tracked.may_return)

    def _set_state(self, decision: d.SetResourceState, now_s: float) -> Iterable[a.ClusterAction]:
        hosts = decision.resources
        falls = self.platform.sleep_pstate[hosts.ids] == decision.state
        if not falls.any() and not self._asleep[hosts.ids].any():
            self._events.append(e.ResourceStateChanged(now_s, hosts, decision.state))
            return [a.SetFrequency(self.nodes_of(hosts), decision.state)]
        self._asleep[hosts.ids] = falls
        self._groups.append(_SwitchedGroup(hosts, decision.state, set(hosts.ids.tolist())))
        return self._ask(now_s, a.SwitchOff if falls.all() else a.SwitchOn, hosts.ids)

    def failed(self, now_s: float, action: a.ClusterAction, why: str) -> None:
        """Extend `Bridge.failed`: a job that cannot be started is withdrawn from the scheduler."""
        super().failed(now_s, action, why)
        if isinstance(action, a.StartJob):
            tracked = self.tracked.get(action.job)
            if tracked is not None and tracked.phase is Phase.STARTING:
                self._fail_start(now_s, tracked, why)
