"""The acting bridge: starts held jobs on the hosts that the scheduler chooses, and switches nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.platform import Platform
from beasy_sched.protocol.notices import JOB_RUNS
from beasy_sched.slurm import cluster_actions as a
from beasy_sched.slurm.bridge import Bridge, Phase, Tracked
from beasy_sched.slurm.live_settings import OnKill, OnReject
from beasy_sched.slurm.records import MARK, SlurmJob, SlurmNode

REJECTED: Final = f"{MARK}: rejected"
"""Administrator's comment on jobs that the scheduler has rejected and that remain held."""
_ASK_AGAIN_S: Final = 10.0
"""Time after which a request is repeated if the node has not begun to carry it out, s."""
_SETTLED_S: Final = 5.0
"""Time after a request during which the state of a node may be outdated, s."""


@dataclass
class _Group:
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
        on_kill: OnKill = "cancel",
        on_reject: OnReject = "hold",
    ) -> None:
        """Begin as `Bridge`; ``on_kill`` and ``on_reject`` are the treatment of killed and rejected jobs.

        ``adopts``: jobs that an earlier bridge started are announced to the scheduler; otherwise, because
        Batsim has no message for it, their hosts are out of service until they end.
        """
        super().__init__(platform, partition, epoch_s=epoch_s, used_j=used_j)
        self._on_kill, self._on_reject = on_kill, on_reject
        self._adopts = adopts
        """Whether such jobs are still searched for, which is done only at the first poll."""
        self._groups: list[_Group] = []
        self._asked_s = np.full(platform.size, -np.inf)
        """Time of the last request to switch each node on or off, s."""
        self._left_alone: set[str] = set()
        """Jobs that the bridge must not start; each is reported once."""

    # --- observing the cluster ------------------------------------------------------------------------------

    def observe(
        self, now_s: float, jobs: Sequence[SlurmJob], nodes: Mapping[str, SlurmNode]
    ) -> list[a.ClusterAction]:
        """Process the state of the cluster, and return the actions that are due at once."""
        actions: list[a.ClusterAction] = []
        seen = {job.id: job for job in jobs if self.partition in job.partitions}
        for tracked in [*self.tracked.values()]:
            job = seen.get(tracked.job.id)
            if job is None:
                self._gone(now_s, tracked)
            else:
                actions += self._follow(now_s, tracked, job)
        for job in sorted(seen.values(), key=lambda job: job.order):
            if job.id not in self.tracked and not self._adopt(now_s, job):
                actions += self._meet(now_s, job)
        self._adopts = False
        actions += self._look_at_nodes(now_s, jobs, nodes)
        return actions

    def _adopt(self, now_s: float, job: SlurmJob) -> bool:
        """Announce a job that is running, or has been given its nodes; return whether it is one."""
        nodes = job.required_nodes if job.waits else job.nodes
        hosts = HostSet(np.array(sorted(self.hosts_of(nodes)), dtype=np.intp))
        ours = job.admin_comment == MARK and not job.lacks
        if not self._adopts or not ours or job.end or job.is_held or job.dependency:
            return False
        if not len(hosts) == len(nodes) == job.node_count or (self._asleep | self._taken())[hosts.ids].any():
            return False
        tracked = self._submit(now_s, job, past_s=0.0 if job.waits else self.epoch_s + now_s - job.start_s)
        tracked.phase, tracked.hosts = Phase.STARTING if job.waits else Phase.RUNNING, hosts
        self._notify(now_s, JOB_RUNS, {"job_id": tracked.name, "resources": str(hosts)})
        return True

    def _taken(self) -> BoolArray:
        """Return the hosts of jobs that are running, or about to start."""
        taken = np.zeros(self.platform.size, dtype=np.bool_)
        for tracked in self.tracked.values():
            taken[tracked.hosts.ids] = True
        return taken

    def _meet(self, now_s: float, job: SlurmJob) -> Iterable[a.ClusterAction]:
        """Process a job that is unknown to the scheduler."""
        ours = job.admin_comment.startswith(MARK) and not job.admin_comment.startswith(REJECTED)
        if not job.waits or not ours:
            return ()
        if not job.is_held:
            requeued = job.restarts > self._restarts.get(job.id, job.restarts)
            return [a.HoldJob(job.id)] if requeued else ()  # else it was released outside of beasy-sched
        if job.lacks:
            if job.id not in self._left_alone:
                self._left_alone.add(job.id)
                self.notes.append(f"job {job.id} requests more than nodes ({job.lacks}): left to Slurm")
            return [a.ReleaseJob(job.id)]
        if self._may_start(now_s, job):
            self._submit(now_s, job)
        return ()

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
            return self._meet(now_s, job)
        elif job.waits:
            if job.is_held:  # Slurm, or another user, has held it again
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
        foreign = np.zeros(self.platform.size, dtype=np.bool_)
        for job in jobs:
            if job.id not in self.tracked or self.tracked[job.id].phase is Phase.WAITING:
                taken = job.nodes if job.has_nodes else ()
                if job.waits and not job.is_held and self.partition in job.partitions:
                    taken = job.required_nodes  # an earlier bridge has requested its start there
                foreign[self.hosts_of(taken)] = True
        switching = self._answer_switches(now_s, lost, up, off)
        at_rest = ~(self._asleep | switching | self._taken())
        unavailable = (lost & ~self._asleep) | foreign | (at_rest & ~up)
        self._tell_availability(now_s, unavailable)
        late = now_s - self._asked_s >= _ASK_AGAIN_S
        rise = (switching & ~self._asleep & off & late).nonzero()[0]
        fall = (self._asleep & up & ~foreign & late).nonzero()[0]
        return [*self._ask(now_s, a.SwitchOn, rise), *self._ask(now_s, a.SwitchOff, fall)]

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

    def _fail(self, now_s: float, group: _Group, failed: list[int]) -> None:
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
        return [a.StartJob(tracked.job.id, self.nodes_of(tracked.hosts))]

    def _reject(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        self._forget(tracked)
        if self._on_reject == "cancel":
            return [a.CancelJob(tracked.job.id)]
        return [a.MarkJob(tracked.job.id, REJECTED)]

    def _kill(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        if tracked.job.id not in self.tracked or tracked.phase is Phase.WAITING:
            return ()  # it has ended in the meantime
        tracked.killed = True
        again = self._on_kill == "requeue" and tracked.phase is Phase.RUNNING and tracked.job.can_requeue
        return [a.RequeueJob(tracked.job.id) if again else a.CancelJob(tracked.job.id)]

    def _set_state(self, decision: d.SetResourceState, now_s: float) -> Iterable[a.ClusterAction]:
        hosts = decision.resources
        falls = self.platform.sleep_pstate[hosts.ids] == decision.state
        if not falls.any() and not self._asleep[hosts.ids].any():
            self._events.append(e.ResourceStateChanged(now_s, hosts, decision.state))
            return [a.SetFrequency(self.nodes_of(hosts), decision.state)]
        self._asleep[hosts.ids] = falls
        self._groups.append(_Group(hosts, decision.state, set(hosts.ids.tolist())))
        return self._ask(now_s, a.SwitchOff if falls.all() else a.SwitchOn, hosts.ids)

    def failed(self, now_s: float, action: a.ClusterAction, why: str) -> None:
        """Extend `Bridge.failed`: a job that cannot be started is withdrawn from the scheduler."""
        super().failed(now_s, action, why)
        if isinstance(action, a.StartJob):
            tracked = self.tracked.get(action.job)
            if tracked is not None and tracked.phase is Phase.STARTING:
                self._complete(now_s, tracked, e.JobEnd.KILLED)
