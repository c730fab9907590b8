"""What all parts of the simulator share: the clock, the hosts, the jobs, what is to come, what to tell."""

from __future__ import annotations

from heapq import heappush
from typing import Any

from beasy_sched.formats.batsim_profiles import Profile
from beasy_sched.model.events import Event
from beasy_sched.model.platform import Platform
from beasy_sched.simulator.job import SimJob
from beasy_sched.simulator.machines import Machines
from beasy_sched.simulator.meter import Meter
from beasy_sched.simulator.modes import ModeTable
from beasy_sched.simulator.options import SimulationOptions
from beasy_sched.simulator.outputs import Tracer
from beasy_sched.simulator.settling import first_settlement
from beasy_sched.simulator.tally import Tally

LEAF_END, CALL, SWITCH = range(3)
"""What a timed entry is about: the end of a job's leaf, a requested call, a transition's end."""


class World:
    """The state of a simulation."""

    __slots__ = (
        "calls",
        "energy",
        "heap",
        "jobs",
        "machines",
        "meter",
        "now",
        "options",
        "outbox",
        "profiles",
        "running",
        "sequence",
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
        self.now = 0.0
        self.stamp = 0.0
        """The clock as Batsim prints it."""
        self.jobs: dict[str, SimJob] = {}
        """Jobs that have been submitted, and whose end has not been told."""
        self.untold: list[SimJob] = []
        """Jobs that have ended since the last message."""
        self.outbox: list[Event] = []
        self.heap: list[tuple[float, int, int, Any, Any]] = []
        self.sequence = 0
        self.running = 0
        self.switching = 0
        self.calls = 0

    def schedule(self, at: float, what: int, subject: Any, detail: Any) -> None:
        """Enter something that will happen at ``at``."""
        self.sequence += 1
        heappush(self.heap, (at, self.sequence, what, subject, detail))

    def set_clock(self, now: float) -> None:
        """Move the clock forward (never back)."""
        if now > self.now:
            self.now = now
            self.stamp = round(now, 6)

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
