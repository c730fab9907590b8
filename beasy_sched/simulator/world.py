"""What all parts of the simulator share: the clock, the hosts, the jobs, what is to come, what to tell.

How a simulation is to be run.

A quirk of SimGrid: hosts that do not start in P-state 0 are first charged by P-state 0's table.

The figures of Batsim's schedule file, kept as the run goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from beasy_sched.formats.batsim_workload import Profile
from beasy_sched.model.events import Event, JobCompleted, JobEnd
from beasy_sched.model.platform import Platform
from beasy_sched.simulator.clock import StepClock
from beasy_sched.simulator.jobs import SimJob, powers, used_flops
from beasy_sched.simulator.machines import (
    COMPUTING,
    IDLE,
    NOBODY,
    SLEEPING,
    STATES,
    SWITCHING_OFF,
    SWITCHING_ON,
    UNAVAILABLE,
    Machines,
    Meter,
    ModeTable,
)
from beasy_sched.simulator.mailbox import Mailbox
from beasy_sched.simulator.outputs import Tracer


@dataclass(frozen=True)
class SimulationOptions:
    """What Batsim's command-line options say."""

    energy: bool = False
    """Meter energy and allow P-state changes (``-E``)."""
    forward_profiles: bool = False
    """Attach its profile to each submitted job (``--forward-profiles-on-submission``)."""
    dynamic_jobs: bool = False
    """Let the scheduler register jobs and profiles (``--enable-dynamic-jobs``)."""
    acknowledge_dynamic_jobs: bool = False
    """Answer a registration with JOB_SUBMITTED (``--acknowledge-dynamic-jobs``)."""
    profile_reuse: bool = False
    """Only told to the scheduler: profiles are never forgotten here (``--enable-profile-reuse``)."""
    compute_sharing: bool = False
    """Allow several jobs on a host (``--enable-compute-sharing``)."""
    storage_sharing: bool = True
    """Only told to the scheduler."""
    forward_unknown_events: bool = False
    """Only told to the scheduler; the events file was read with it."""
    sched_config: str = ""
    """Text for the scheduler (``--sched-cfg``)."""
    send_profiles: bool = True
    """Put the profiles into SIMULATION_BEGINS, as Batsim does; large workloads run leaner without."""


def first_settlement(
    table: ModeTable, machines: Machines, slots: list[SimJob | None]
) -> Callable[[float], float] | None:
    """Return what the first metering after time 0 has to do, or None if every host starts in P-state 0.

    The function corrects the energy of the jobs concerned, and returns the correction of the total, J.
    A host whose P-state was changed at time 0 has been metered then, and is charged properly.
    """
    stale = np.flatnonzero(table.pstates[machines.mode] != 0)
    if not len(stale):
        return None
    initial = table.pstates[machines.mode[stale]]

    def settle(now: float) -> float:
        still = stale[table.pstates[machines.mode[stale]] == initial]
        return sum(_correct(table, machines, slots, host, now) for host in still.tolist())

    return settle


def _correct(
    table: ModeTable, machines: Machines, slots: list[SimJob | None], host: int, now: float
) -> float:
    mode = machines.mode[host : host + 1]
    used = np.zeros(1)
    owner = int(machines.owner[host])
    job = slots[owner] if owner != NOBODY else None
    if job is not None and job.task is not None:
        place = int(np.searchsorted(job.alloc.ids, host))
        used = used_flops(job.task, job.task.rate, len(job.alloc))[place : place + 1]
    zero = mode - table.pstates[mode] * STATES
    wrong_j = float((powers(table, zero, used) - powers(table, mode, used))[0]) * now
    if job is not None:
        job.energy_j += wrong_j
    return wrong_j


NOT_YET = -1.0
"""Batsim's energy of something that never happened."""


class Tally:
    """Counts, sums and maxima over the jobs that have ended."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.finished = self.success = self.rejected = 0
        self.makespan_s = 0.0
        self.sum_waiting_s = self.sum_turnaround_s = self.sum_slowdown = 0.0
        self.max_waiting_s = self.max_turnaround_s = self.max_slowdown = 0.0
        self.grouped_switches = self.machine_switches = 0
        self.energy_at_first_submission_j = NOT_YET
        self.energy_at_last_end_j = NOT_YET

    def add(self, subtime: float, start: float, runtime: float, end: JobEnd) -> None:
        """Count a job that ran."""
        self.finished += 1
        if end is JobEnd.SUCCESS:
            self.success += 1
        waiting = start - subtime
        turnaround = start + runtime - subtime
        slowdown = turnaround / runtime
        self.sum_waiting_s += waiting
        self.sum_turnaround_s += turnaround
        self.sum_slowdown += slowdown
        if start + runtime > self.makespan_s:
            self.makespan_s = start + runtime
        if waiting > self.max_waiting_s:
            self.max_waiting_s = waiting
        if turnaround > self.max_turnaround_s:
            self.max_turnaround_s = turnaround
        if slowdown > self.max_slowdown:
            self.max_slowdown = slowdown

    @property
    def jobs(self) -> int:
        """Jobs that ended in any way, rejected ones included."""
        return self.finished + self.rejected

    def row(
        self, version: str, machines: int, time_in: Sequence[float], seconds: tuple[float, float]
    ) -> dict[str, str]:
        """Return the columns of the schedule file; ``seconds``: in the scheduler, and altogether."""

        def mean(total: float) -> str:
            return f"{total / self.jobs:.6f}" if self.jobs else "-nan"

        energy_j = self.energy_at_last_end_j - self.energy_at_first_submission_j
        columns = {
            "batsim_version": version,
            "consumed_joules": f"{energy_j:.6f}",
            "makespan": f"{self.makespan_s:.6f}",
            "max_slowdown": f"{self.max_slowdown:.6f}",
            "max_turnaround_time": f"{self.max_turnaround_s:.6f}",
            "max_waiting_time": f"{self.max_waiting_s:.6f}",
            "mean_slowdown": mean(self.sum_slowdown),
            "mean_turnaround_time": mean(self.sum_turnaround_s),
            "mean_waiting_time": mean(self.sum_waiting_s),
            "nb_computing_machines": str(machines),
            "nb_grouped_switches": str(self.grouped_switches),
            "nb_jobs": str(self.jobs),
            "nb_jobs_finished": str(self.finished),
            "nb_jobs_killed": str(self.finished - self.success),
            "nb_jobs_rejected": str(self.rejected),
            "nb_jobs_success": str(self.success),
            "nb_machine_switches": str(self.machine_switches),
            "scheduling_time": f"{seconds[0]:.6f}",
            "simulation_time": f"{seconds[1]:.6f}",
            "success_rate": mean(self.success),
        }
        columns |= {name: f"{time_in[state]:.6f}" for name, state in _TIMES.items()}
        return columns


_TIMES = {
    "time_computing": COMPUTING,
    "time_idle": IDLE,
    "time_sleeping": SLEEPING,
    "time_switching_off": SWITCHING_OFF,
    "time_switching_on": SWITCHING_ON,
    "time_unavailable": UNAVAILABLE,
}


CALL, ARRIVAL, SWITCH, LEAF, REPLY = range(5)
"""What an action of the clock is: a requested call, the wait of a file's sender, a transition, a job's leaf
or its walltime, the wait of the scheduler's reply."""


class World:
    """The state of a simulation."""

    __slots__ = (
        "calls",
        "clock",
        "energy",
        "jobs",
        "machines",
        "mailbox",
        "meter",
        "now",
        "options",
        "outbox",
        "profiles",
        "running",
        "slots",
        "stamp",
        "switching",
        "table",
        "tally",
        "tracer",
        "untold",
    )

    def __init__(
        self,
        platform: Platform,
        profiles: dict[str, dict[str, Profile]],
        options: SimulationOptions,
        tracer: Tracer | None,
    ) -> None:
        """Lay everything out at time 0."""
        self.options = options
        self.energy = options.energy
        self.tracer = tracer
        self.profiles = profiles
        """By workload and name."""
        self.table = ModeTable(platform.kinds, options.energy)
        self.machines = Machines(platform, self.table)
        self.slots: list[SimJob | None] = []
        """Running jobs by slot."""
        modes = self.machines.mode
        settle = first_settlement(self.table, self.machines, self.slots) if options.energy else None
        self.meter = Meter(
            float(self.table.idle_w[modes].sum()), float(self.table.epsilon_w[modes].sum()), settle
        )
        self.tally = Tally()
        self.clock = StepClock()
        self.mailbox = Mailbox(self.clock)
        self.now = 0.0
        self.stamp = 0.0
        """The clock as Batsim prints it."""
        self.jobs: dict[str, SimJob] = {}
        """Jobs that have been submitted, and whose end has not been told."""
        self.untold: list[SimJob] = []
        """Jobs whose ends are in the outbox."""
        self.outbox: list[Event] = []
        """What the next message will tell."""
        self.running = 0
        self.switching = 0
        self.calls = 0

    def meter_row(self, kind: str) -> None:
        """Meter all hosts, and write a row of the energy file."""
        if not self.energy:
            return
        meter = self.meter
        energy_j = meter.meter_all(self.now)
        if kind == "e":
            self.tally.energy_at_last_end_j = energy_j
        if self.tracer is not None:
            self.tracer.energy(self.now, energy_j, kind, meter.wattmin_w)

    def states_row(self) -> None:
        """Write a row of the machine-states file."""
        if self.tracer is not None:
            self.tracer.machine_states(self.now, self.machines.counts)

    def tell_end(self, job: SimJob) -> None:
        """Tell the scheduler that a job has ended."""
        assert job.end is not None
        self.untold.append(job)
        self.outbox.append(JobCompleted(self.stamp, job.request.id, job.end, job.alloc, job.return_code))
