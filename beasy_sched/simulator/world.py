"""The state that all parts of the simulator share: clock, hosts, jobs, and the next message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from beasy_sched.arrays import IndexArray
from beasy_sched.formats.batsim_profiles import Profile
from beasy_sched.formats.simgrid_network import Latency
from beasy_sched.model.events import Event, JobCompleted
from beasy_sched.model.platform import Platform
from beasy_sched.protocol.json_numbers import (
    FROM_FILES,
    FROM_SCHEDULERS,
    Forwarding,
    as_batsim_reads,
)
from beasy_sched.simulator.clock import StepClock
from beasy_sched.simulator.machines import NOBODY, STATES, UNAVAILABLE, Fallible, Machines, Meter, ModeTable
from beasy_sched.simulator.mailbox import Mailbox
from beasy_sched.simulator.outputs import Tally, Tracer
from beasy_sched.simulator.simulated_jobs import SimJob, powers


@dataclass(frozen=True)
class SimulationOptions:
    """Batsim's command-line options."""

    energy: bool = False
    """Meter energy and allow P-state changes (``-E``)."""
    forward_profiles: bool = False
    """Whether each submitted job has its profile attached (``--forward-profiles-on-submission``)."""
    dynamic_jobs: bool = False
    """Let the scheduler register jobs and profiles (``--enable-dynamic-jobs``)."""
    acknowledge_dynamic_jobs: bool = False
    """Answer a registration with JOB_SUBMITTED (``--acknowledge-dynamic-jobs``)."""
    profile_reuse: bool = False
    """Whether profiles are reused (``--enable-profile-reuse``): only sent to the scheduler, none is
    forgotten."""
    compute_sharing: bool = False
    """Allow several jobs on a host (``--enable-compute-sharing``)."""
    host_parts: bool = False
    """Allow several jobs on a host, each with a separate part, so that none slows another down; a host
    with jobs draws full power. Batsim has no such option."""
    storage_sharing: bool = True
    """Whether jobs share storage hosts: only sent to the scheduler."""
    forward_unknown_events: bool = False
    """Whether unknown events are forwarded: only sent to the scheduler, since the events file was read with
    it."""
    sched_config: str = ""
    """Text for the scheduler (``--sched-cfg``)."""


@dataclass(frozen=True)
class Dialect:
    """Differences between the versions of Batsim below decisions and events."""

    decimals: int = 6
    """Decimals of times in messages."""
    from_files: Forwarding = FROM_FILES
    """Numbers of workload files."""
    from_schedulers: Forwarding = FROM_SCHEDULERS
    """Numbers in registrations."""
    takes_time: Callable[[float], float] = as_batsim_reads
    """Function that returns the time that is used for one in a reply."""
    always_sleeps: bool = False
    """Whether hosts have sleep states, and can be switched, also without metering energy."""


class World:
    """The state of a simulation."""

    __slots__ = (
        "_energy_rows",
        "_states_rows",
        "before_time_passes",
        "calls",
        "clock",
        "decimals",
        "dialect",
        "energy",
        "fallible",
        "jobs",
        "machines",
        "mailbox",
        "meter",
        "now",
        "options",
        "outbox",
        "profiles",
        "slots",
        "stamp",
        "switching",
        "table",
        "tally",
        "tracer",
    )

    def __init__(
        self,
        platform: Platform,
        profiles: dict[str, dict[str, Profile]],
        options: SimulationOptions,
        tracer: Tracer | None,
        dialect: Dialect,
        compute_hosts: int,
        latency: Latency | None = None,
    ) -> None:
        """``platform`` has all hosts that are metered: ``compute_hosts``, then storage hosts."""
        self.options = options
        self.energy = options.energy
        self.dialect = dialect
        self.decimals = dialect.decimals
        self.tracer = tracer
        self._states_rows = None if tracer is None else tracer.states_rows
        self._energy_rows = None if tracer is None else tracer.energy_rows
        self.profiles = profiles
        """Profiles by workload and name."""
        self.table = ModeTable(
            platform.kinds, metered=options.energy, sleeps=options.energy or dialect.always_sleeps
        )
        self.machines = Machines(platform, self.table, compute_hosts)
        self.slots: list[SimJob | None] = []
        """Running jobs by slot."""
        modes = self.machines.mode
        stale = np.flatnonzero(self.table.pstates[modes] != 0)
        settle = partial(self._settle, stale, self.table.pstates[modes[stale]])
        self.meter = Meter(
            float(self.table.idle_w[modes].sum()),
            float(self.table.epsilon_w[modes].sum()),
            settle if options.energy and len(stale) else None,
        )
        self.tally = Tally()
        self.clock = StepClock()
        self.mailbox = Mailbox(self.clock, latency)
        self.now = 0.0
        self.stamp = 0.0
        """The clock as Batsim prints it."""
        self.jobs: dict[str, SimJob] = {}
        """Jobs that have been submitted, and whose end has not been reported."""
        self.outbox: list[Event] = []
        """Events of the next message."""
        self.switching = 0
        self.calls = 0
        self.fallible: Fallible | None = None
        """State of hosts that may fail; None where none ever does."""
        self.before_time_passes: Callable[[float], None] | None = None
        """Function called with each step's length (s), while all is as it was during the step."""

    def _settle(self, stale: IndexArray, initial: IndexArray, now: float) -> float:
        """Correct the jobs' energy at the first metering after time 0; return the total's correction, J.

        A quirk of SimGrid: hosts that do not start in P-state 0 (``stale``, in P-states ``initial``) are
        first charged by P-state 0's table. One whose P-state was changed at time 0 has been metered then,
        and is charged properly.
        """
        table, total_j = self.table, 0.0
        still = stale[table.pstates[self.machines.mode[stale]] == initial]
        for host, owner in zip(still.tolist(), self.machines.owner[still].tolist(), strict=True):
            mode = self.machines.mode[host : host + 1]
            used = np.zeros(1)
            job = self.slots[owner] if owner != NOBODY else None
            if job is not None and job.task is not None:
                place = int(np.searchsorted(job.alloc.ids, host))
                used = job.task.used_on(len(job.alloc))[place : place + 1]
            zero = mode - table.pstates[mode] * STATES
            wrong_j = float((powers(table, zero, used) - powers(table, mode, used))[0]) * now
            if job is not None:
                job.energy_j += wrong_j
            total_j += wrong_j
        return total_j

    def advance(self) -> None:
        """Take over the clock's time."""
        if self.before_time_passes is not None:
            self.before_time_passes(self.clock.now - self.now)
        self.now = now = self.clock.now
        self.stamp = round(now, self.decimals)

    def stop_tracing(self) -> None:
        """Write nothing to the files any more."""
        self.tracer = self._states_rows = self._energy_rows = None

    def meter_row(self, kind: str) -> None:
        """Meter all hosts, and write a row of the energy file."""
        if not self.energy:
            return
        meter = self.meter
        energy_j = meter.meter_all(self.now)
        if kind == "e":
            self.tally.energy_at_last_end_j = energy_j
        if self._energy_rows is not None:
            self._energy_rows.append((self.now, energy_j, kind, meter.wattmin_w))

    def states_row(self) -> None:
        """Write a row of the machine-states file."""
        if self._states_rows is not None:
            self._states_rows.append((self.now, *self.machines.counts[:UNAVAILABLE]))

    def tell_end(self, job: SimJob) -> None:
        """Write the row of a job that has ended, and report its end to the scheduler."""
        if self.tracer is not None:
            self.tracer.job(job)
        self.outbox.append(JobCompleted(self.stamp, job.request.id, job.end, job.alloc, job.return_code))
