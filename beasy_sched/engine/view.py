"""What a policy sees: the site as it is now, and nothing of the future."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, IntArray
from beasy_sched.model.cluster import PowerModel
from beasy_sched.model.hosts import HostSet, read_only
from beasy_sched.model.jobs import Job, JobQueue
from beasy_sched.model.platform import Platform

if TYPE_CHECKING:
    from beasy_sched.energy.site import Site
    from beasy_sched.energy.storage import StorageState
    from beasy_sched.engine.budget import StepBudget
    from beasy_sched.model.cluster import Cluster
    from beasy_sched.plan.store import PlanStore


class Measurement(NamedTuple):
    """An answer of the simulator's energy meter."""

    at_s: float
    energy_j: float
    """Energy that all servers have used since time 0, J."""


class View:
    """The read-only face of the cluster and of the power side, handed to a policy."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        site: Site | None = None,
        plans: PlanStore | None = None,
        power_actions: bool = True,
        wants_facts: bool = True,
    ) -> None:
        """Look at ``cluster``."""
        self._cluster = cluster
        self.now = 0.0
        """Simulated time, s."""
        self.arrived: list[Job] = []
        """Jobs that this message brought."""
        self.ended: list[Job] = []
        """Jobs that have ended since the policy was last asked."""
        self.measured: Measurement | None = None
        """The energy used, as last measured; None until an answer to a `MeasureEnergy` has come."""
        self.budget: StepBudget | None = None
        """Power and energy of the present step; None without a site."""
        self.has_site = site is not None
        """Whether the run has a site: storage, production, steps."""
        self.site = site
        """The storage and how long a step and a window are; None without a site."""
        self.storage_state = None if site is None else site.storage.start()
        """What battery and tank truly held at the start of the present step; None without a site."""
        self.plans = None if site is None else plans
        """The offline plans of the run's windows; None without a plan."""
        self.power_actions_allowed = power_actions
        """Whether P-states may be changed at all."""
        self.wants_facts = wants_facts
        """Whether someone reads the facts of actions; where nobody does, they need not be gathered."""
        self.host_state = read_only(cluster.state)
        """`HostState` of each host."""
        self.pstate = read_only(cluster.pstate)
        """P-state of each host; the target while switching."""
        self.state_since_s = read_only(cluster.state_since_s)
        """When each host came into its present state, s."""
        self.available = read_only(cluster.available)
        """False for hosts that were taken out of service."""
        self._sleep_wished = read_only(cluster.held)
        self._waking_wished = read_only(cluster.to_wake)
        self._state_counts = read_only(cluster.state_counts)
        self._running = MappingProxyType(cluster.running)

    def show(self, now: float, arrived: list[Job], ended: list[Job], budget: StepBudget | None) -> None:
        """Show where things stand at ``now``, whatever a policy has made of what it was shown before."""
        self.now, self.arrived, self.ended, self.budget = now, arrived, ended, budget

    def show_step(self, budget: StepBudget, storage: StorageState) -> None:
        """Show a step that has just been opened, and what the storage holds at its start."""
        self.budget, self.storage_state = budget, storage

    def measure(self, at_s: float, energy_j: float) -> None:
        """Show an answer of the simulator's energy meter."""
        self.measured = Measurement(at_s, energy_j)

    def wants_reason(self, job: Job, rule: str) -> bool:
        """Tell whether it would be news that ``job`` waits by ``rule``."""
        return self.wants_facts and job.postponed_for != rule

    def sleep_wished(self) -> BoolArray:
        """Return the mask of hosts that are to sleep and have not begun to."""
        return self._sleep_wished

    def waking_wished(self) -> BoolArray:
        """Return the mask of sleeping hosts that are to wake and have not begun to."""
        return self._waking_wished

    @property
    def power_model(self) -> PowerModel:
        """Powers and transition times by kind."""
        return self._cluster.power

    @property
    def platform(self) -> Platform:
        """The servers and what they can do."""
        return self._cluster.platform

    @property
    def queue(self) -> JobQueue:
        """Waiting jobs by order of arrival; a policy only reads it."""
        return self._cluster.queue

    @property
    def running(self) -> Mapping[str, Job]:
        """Running jobs by id."""
        return self._running

    @property
    def ends(self) -> list[tuple[float, int, Job]]:
        """Running jobs sorted by their latest end: (s, order of start, job)."""
        return self._cluster.ends[:]

    def usable_hosts(self, job: Job) -> int:
        """Count the hosts that a running job will leave to others: those still in service."""
        if self._cluster.all_available:
            return job.res
        return int(np.count_nonzero(self.available[job.hosts.ids]))

    @property
    def wakes(self) -> list[tuple[float, int]]:
        """Hosts that are waking: (when ready in s, how many), sorted."""
        return self._cluster.wakes()

    @property
    def state_counts(self) -> IntArray:
        """How many hosts of each kind are in each `HostState`, [kind, state]; only read it."""
        return self._state_counts

    @property
    def all_available(self) -> bool:
        """Whether every host is in service."""
        return self._cluster.all_available

    @property
    def openings(self) -> int:
        """Unchanged as long as nothing has happened that could let a waiting job start."""
        return self._cluster.openings

    @property
    def free_count(self) -> int:
        """How many hosts are on, idle and in service."""
        return self._cluster.free_count

    def free_mask(self) -> BoolArray:
        """Return a copy of the mask of free hosts, the caller's to change."""
        return self._cluster.free.copy()

    def fastest(self, mask: BoolArray, count: int) -> HostSet:
        """Choose ``count`` hosts of ``mask``: the faster ones first, then the lower ids."""
        ids = np.flatnonzero(mask)
        if len(ids) > count:
            if not self._cluster.uniform_speed:
                speeds = self._cluster.speed_flops(ids)
                ids = np.sort(ids[np.argsort(-speeds, kind="stable")[:count]])
            else:
                ids = ids[:count]
        return HostSet(ids)
