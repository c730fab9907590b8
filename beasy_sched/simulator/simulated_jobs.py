"""Jobs inside the simulator, and the parallel tasks that they run.

SimGrid's model of parallel tasks, without communication: a task advances on all its hosts at once, at the
pace of the slowest. Its rate (fraction of the task per second) is limited on each host by one core's speed
over the largest amount of one executor, and by all cores' speed over the amounts of all executors there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import FloatArray, IndexArray, IntArray
from beasy_sched.errors import DecisionRefused
from beasy_sched.formats.batsim_jobs import WorkloadJob
from beasy_sched.formats.batsim_profiles import Homogeneous, Parallel, Profile
from beasy_sched.model.events import JobEnd, JobRequest
from beasy_sched.model.hosts import NO_HOSTS, HostSet
from beasy_sched.protocol.json_numbers import Forwarding
from beasy_sched.simulator.clock import Action
from beasy_sched.simulator.machines import ModeTable

SUBMITTED, RUNNING, BY_HAND, ENDED = range(4)
"""States in the life of a job; BY_HAND: the scheduler has set it to running (CHANGE_JOB_STATE)."""

STATE_WORDS = ("SUBMITTED", "RUNNING", "RUNNING", "COMPLETED")


@dataclass(slots=True, eq=False)
class SimJob:
    """A submitted job: its request, its hosts, and its progress.

    A job is one *leaf* (a delay or a parallel task) at a time; only composed jobs have several.
    """

    workload: str
    profile: Profile
    request: JobRequest
    subtime: float
    walltime: float
    """Walltime of the job, s; below 0: none."""
    leaf: Profile
    """The present leaf, once it runs."""
    state: int = SUBMITTED
    end: JobEnd = JobEnd.SUCCESS
    """End of the job, once it has run."""
    return_code: int = -1
    kill_asked: bool = False
    metadata: str = ""
    moved: bool = False
    """Whether some of the job's hosts became unavailable under it."""
    alloc: HostSet = NO_HOSTS
    executors: IndexArray | None = None
    """Position in the allocation of each executor's host, with a custom mapping."""
    start: float = -1.0
    runtime: float = 0.0
    """Time that the job ran, once it has ended, s."""
    wall_left: float = -1.0
    """Seconds that the walltime leaves at the start of the present leaf; below 0: no limit."""
    stack: list[list[Any]] | None = None
    """Composed profiles around the present leaf, each with the index of its part that runs."""
    leaf_start: float = 0.0
    task: Task | None = None
    """The present leaf's computation, or None in a delay."""
    run: Action | None = None
    """Action of the present leaf on the clock."""
    limit: Action | None = None
    """Action of the present leaf's walltime, if the leaf is a task."""
    size: int = 0
    """Number of the job's hosts."""
    rest_scale: float = 1.0
    """Ratio of the share left of the job's drawn run time to the share left of its leaf."""
    slot: int = -1
    uniform_mode: int = -1
    """Mode of the job's hosts if all have the same, else -1."""
    idle_w: float = 0.0
    power_w: float = 0.0
    lingering_w: float = 0.0
    """Power above idle that the job's hosts draw after its end, until Batsim's server receives it, W."""
    energy_j: float = 0.0
    powered_at: float = 0.0
    owned_metering: float = 0.0

    @classmethod
    def submitted(cls, workload: str, profile: Profile, exact: WorkloadJob, numbers: Forwarding) -> SimJob:
        """Return a job that has just been submitted, from where Batsim takes ``numbers`` so."""
        subtime, limit = exact.subtime, exact.walltime
        request = JobRequest(
            exact.id, numbers.tells(subtime), exact.res, exact.profile, numbers.tells(limit), exact.extras
        )
        walltime = -1.0 if limit is None else numbers.takes(limit)
        return cls(workload, profile, request, numbers.takes(subtime), walltime, profile)

    def accrue(self, now: float) -> None:
        """Charge the job for the time since its power last changed."""
        self.energy_j += self.power_w * (now - self.powered_at)
        self.powered_at = now


_NO_FLOPS = 1e-10


def check_storage(job: SimJob, leaf: Homogeneous | Parallel, compute_hosts: int) -> None:
    """Raise DecisionRefused where a task would compute on a storage host; their ids follow all others.

    Batsim takes the first executor to be on the first host and so on, regardless of the mapping.
    """
    if job.alloc.ids.item(-1) < compute_hosts:
        return
    executors = job.size if job.executors is None else len(job.executors)
    for place, host in enumerate(job.alloc.ids[:executors].tolist()):
        if isinstance(leaf, Parallel):
            flops = leaf.flops[place]
        else:
            flops = leaf.flops / executors if leaf.total else leaf.flops
        if host >= compute_hosts and flops > _NO_FLOPS:
            raise DecisionRefused(f"Some computation ({flops:g}) is assigned to storage node (id={host})")


NEVER = float("inf")
"""Rate of a task without flops."""


class Task(Struct, eq=False, gc=False):
    """A parallel task in execution."""

    amount: float
    """Flops on each host, or 0 where `flops` has them."""
    flops: FloatArray | None = None
    """Flops on each host, added up over the executors."""
    largest: FloatArray | None = None
    """Flops of the largest executor on each host."""
    sharers: FloatArray | None = None
    """Number of executors on each host, where all have the same amount of flops."""
    rate: float = 0.0
    """Fraction of the task done per second."""

    def flops_on(self, size: int) -> FloatArray:
        """Return the flops of the task on each of its ``size`` hosts."""
        return np.full(size, self.amount) if self.flops is None else self.flops

    def used_on(self, size: int) -> FloatArray:
        """Return the flops/s that the task uses on each of its ``size`` hosts."""
        return np.zeros(size) if self.rate == NEVER else self.flops_on(size) * self.rate


def start_task(job: SimJob, leaf: Homogeneous | Parallel) -> Task:
    """Lay a leaf's flops out over the job's hosts."""
    size = job.size
    executors = size if job.executors is None else len(job.executors)
    if isinstance(leaf, Homogeneous):
        amount = leaf.flops / executors if leaf.total else leaf.flops
        if job.executors is None:
            return Task(amount)
        each = np.full(executors, amount)
    else:
        if len(leaf.flops) != executors:
            raise DecisionRefused(
                f"Job {job.request.id!r}: the number of executors ({executors}) differs from the number"
                f" that profile {leaf.name!r} describes ({len(leaf.flops)})"
            )
        each = np.array(leaf.flops)
        if job.executors is None:
            return Task(0.0, each, each)
    flops, largest, sharers = np.zeros(size), np.zeros(size), np.zeros(size)
    np.add.at(flops, job.executors, each)
    np.maximum.at(largest, job.executors, each)
    np.add.at(sharers, job.executors, 1.0)
    return Task(0.0, flops, largest, sharers if isinstance(leaf, Homogeneous) else None)


def speed_limit(task: Task, table: ModeTable, modes: IntArray) -> float:
    """Return the largest rate that the hosts allow."""
    speeds = table.speeds[modes]
    if task.flops is None or task.largest is None:
        return float(speeds.min()) / task.amount if task.amount > 0.0 else NEVER
    busy = task.flops > 0.0
    if not busy.any():
        return NEVER
    speeds = speeds[busy]
    one_core = (speeds / task.largest[busy]).min()
    capacity = speeds * table.cores[modes][busy]
    if task.sharers is None:
        all_cores = (capacity / task.flops[busy]).min()
    else:  # in this order of operations, as SimGrid has it
        all_cores = (capacity / task.sharers[busy] / task.largest[busy]).min()
    return float(min(one_core, all_cores))


def powers(table: ModeTable, modes: IntArray, used: FloatArray) -> FloatArray:
    """Return each host's power, W, at the flops/s it computes (SimGrid's host_energy plugin)."""
    capacity = table.speeds[modes] * table.cores[modes]
    load = np.minimum(np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0), 1.0)
    epsilon = table.epsilon_w[modes]
    return np.where(used > 0.0, epsilon + load * (table.full_w[modes] - epsilon), table.idle_w[modes])
