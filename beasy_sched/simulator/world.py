"""What all parts of the simulator share: the clock, the hosts, the jobs, what is to come, what to tell."""

from __future__ import annotations

from beasy_sched.formats.batsim_profiles import Profile
from beasy_sched.model.events import Event, JobCompleted
from beasy_sched.model.platform import Platform
from beasy_sched.simulator.clock import StepClock
from beasy_sched.simulator.job import SimJob
from beasy_sched.simulator.machines import Machines
from beasy_sched.simulator.mailbox import Mailbox
from beasy_sched.simulator.meter import Meter
from beasy_sched.simulator.modes import ModeTable
from beasy_sched.simulator.options import SimulationOptions
from beasy_sched.simulator.outputs import Tracer
from beasy_sched.simulator.settling import first_settlement
from beasy_sched.simulator.tally import Tally

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
