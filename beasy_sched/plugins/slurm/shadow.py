"""Shadow mode: simulates the scheduler's decisions without changing the cluster.

The shadow has the cluster's nodes and the jobs that its users submit. A job that the scheduler starts runs on
its hosts of the shadow for as long as it runs in Slurm; if that run has not ended yet, until it ends, or
until the time limit. Switching a host takes the time given in the platform.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import msgspec
import numpy as np

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.platform import Platform
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.bridge import Bridge, Phase, Tracked
from beasy_sched.plugins.slurm.records import MARK, SlurmJob, SlurmNode


@dataclass
class ShadowJob:
    """A job as run by Slurm, and in the shadow: times in s since the epoch, NaN if open."""

    job: str
    submit_s: float
    nodes_asked: int
    slurm_start_s: float = math.nan
    slurm_end_s: float = math.nan
    slurm_nodes: tuple[str, ...] = ()
    start_s: float = math.nan
    end_s: float = math.nan
    nodes: tuple[str, ...] = ()
    end: str = ""
    """End state in the shadow: a job state of Batsim, or ``REJECTED``."""


class Shadow(Bridge):
    """Bridge that simulates the scheduler's decisions."""

    acts = False

    def __init__(self, platform: Platform, partition: str, *, epoch_s: float) -> None:
        """Begin as `Bridge` does."""
        super().__init__(platform, partition, epoch_s=epoch_s)
        self.compared: dict[str, ShadowJob] = {}
        """Every job that was submitted, by Slurm's id."""
        self._looked = False
        self._foreign: set[str] = set()
        """Jobs that were running when the shadow began: their nodes are out of service until they end."""

    # --- observing the cluster ------------------------------------------------------------------------------

    def observe(
        self, now_s: float, jobs: Sequence[SlurmJob], nodes: Mapping[str, SlurmNode]
    ) -> list[a.ClusterAction]:
        """Process the state of the cluster: jobs submitted and ended. Returns no actions."""
        seen = {job.id: job for job in jobs if self.partition in job.partitions}
        if not self._looked:
            self._looked = True
            self._foreign = {job.id for job in jobs if job.has_nodes}
        for tracked in [*self.tracked.values()]:
            self._follow(now_s, tracked, seen.get(tracked.job.id))
        for job in sorted(seen.values(), key=lambda job: job.order):
            if job.id not in self.compared and job.id not in self._foreign and self._has_come(now_s, job):
                self.compared[job.id] = ShadowJob(job.id, job.submit_s - self.epoch_s, job.node_count)
                self._follow(now_s, self._submit(now_s, job), job)
        self._foreign &= {job.id for job in jobs if not job.end}
        taken = {name for job in jobs if job.id in self._foreign for name in job.nodes}
        lost = [name in taken or name not in nodes or nodes[name].is_lost for name in self.platform.names]
        self._tell_availability(now_s, np.array(lost, dtype=np.bool_))
        return []

    def _has_come(self, now_s: float, job: SlurmJob) -> bool:
        """Whether a job can be started, or has been since the shadow began; false while its user holds it."""
        if not job.waits:
            return not job.end or job.submit_s >= self.epoch_s
        return self._may_start(now_s, job) and (not job.is_held or job.admin_comment.startswith(MARK))

    def _follow(self, now_s: float, tracked: Tracked, job: SlurmJob | None) -> None:
        """Update the state of a job from Slurm."""
        if job is None:  # Slurm no longer lists it: it ended a while ago, in an unknown state
            job, ended_s = tracked.job, self.epoch_s + now_s
            if not job.end:
                job = msgspec.structs.replace(job, state="COMPLETED", end_s=ended_s)
        tracked.job, compared = job, self.compared[job.id]
        if job.start_s > 0 and not job.waits:
            compared.slurm_start_s, compared.slurm_nodes = job.start_s - self.epoch_s, job.nodes
        if not job.end or not math.isnan(compared.slurm_end_s):
            return
        compared.slurm_end_s = job.end_s - self.epoch_s
        if math.isnan(compared.slurm_start_s):  # it was cancelled by its user
            if tracked.phase is Phase.WAITING:
                self._withdraw(now_s, tracked, "cancelled")
            else:
                self._complete(now_s, tracked, e.JobEnd.KILLED)
        elif tracked.phase is Phase.RUNNING:
            self._will_end(tracked, now_s)

    def _will_end(self, tracked: Tracked, now_s: float) -> None:
        """End a job after its run time in Slurm."""
        compared = self.compared[tracked.job.id]
        end = tracked.job.end
        if end and not math.isnan(compared.slurm_end_s):
            at_s = max(tracked.began_s + compared.slurm_end_s - compared.slurm_start_s, now_s)
            self._later(at_s, e.JobCompleted(at_s, tracked.name, end, tracked.hosts))

    def _on_due(self, now_s: float, event: e.Event) -> None:
        if not isinstance(event, e.JobCompleted):
            super()._on_due(now_s, event)
            return
        tracked = self._by_name[event.job_id]
        if self.tracked.get(tracked.job.id) is tracked:
            self._complete(now_s, tracked, event.end)

    def _complete(self, now_s: float, tracked: Tracked, end: e.JobEnd) -> None:
        compared = self.compared[tracked.job.id]
        compared.end_s, compared.end = now_s, (e.JobEnd.KILLED if tracked.killed else end).value
        super()._complete(now_s, tracked, end)

    # --- decisions ------------------------------------------------------------------------------------------

    def _start(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        compared, limit_s = self.compared[tracked.job.id], tracked.job.time_limit_s
        tracked.phase, compared.start_s, compared.nodes = Phase.RUNNING, now_s, self.nodes_of(tracked.hosts)
        if limit_s is not None:
            at_s = now_s + limit_s
            end = e.JobEnd.WALLTIME_REACHED
            self._later(at_s, e.JobCompleted(at_s, tracked.name, end, tracked.hosts))
        self._will_end(tracked, now_s)
        return ()

    def _reject(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        self.compared[tracked.job.id].end = "REJECTED"
        self._forget(tracked)
        return ()

    def _kill(self, tracked: Tracked, now_s: float) -> Iterable[a.ClusterAction]:
        if self.tracked.get(tracked.job.id) is tracked and tracked.phase is Phase.RUNNING:
            tracked.killed = True
            self._complete(now_s, tracked, e.JobEnd.KILLED)
        return ()

    def _set_state(self, decision: d.SetResourceState, now_s: float) -> Iterable[a.ClusterAction]:
        ids = decision.resources.ids
        kinds = [self.platform.kinds[row] for row in np.unique(self.platform.kind_of[ids]).tolist()]
        falls = bool((self.platform.sleep_pstate[ids] == decision.state).any())
        rises = not falls and bool(self._asleep[ids].any())
        takes_s = 0.0
        if falls or rises:
            takes_s = max(kind.off_duration_s() if falls else kind.on_duration_s() for kind in kinds)
            self._asleep[ids] = falls
        answer = e.ResourceStateChanged(now_s + takes_s, decision.resources, decision.state)
        self._later(now_s + takes_s, answer)
        return ()


def shadow_csv(jobs: Iterable[ShadowJob]) -> str:
    """Jobs as run by Slurm and in the shadow, one row each; times in s, empty if open."""
    names = [each.name for each in fields(ShadowJob)]
    rows = (",".join(_cell(getattr(job, name)) for name in names) for job in jobs)
    return "".join(f"{line}\n" for line in (",".join(names), *rows))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else str(round(value, 3))
    return " ".join(value) if isinstance(value, tuple) else str(value)
