"""The clockwork: instants in order, decisions at their times, and what the scheduler is told."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop

from beasy_sched.errors import DecisionRefused
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_workload import Workload
from beasy_sched.model.decisions import Decision
from beasy_sched.model.events import Event, RequestedCall
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform
from beasy_sched.simulator.arrivals import NEVER, Arrivals
from beasy_sched.simulator.execution import Execution
from beasy_sched.simulator.instant import SAME_INSTANT_S
from beasy_sched.simulator.job import SimJob
from beasy_sched.simulator.modes import IntArray
from beasy_sched.simulator.options import SimulationOptions
from beasy_sched.simulator.outputs import Tracer
from beasy_sched.simulator.power_states import PowerStates
from beasy_sched.simulator.rates import Rates
from beasy_sched.simulator.requests import Requests
from beasy_sched.simulator.world import LEAF_END, SWITCH, World


class Engine:
    """A simulation without its scheduler: `advance` it, `apply` decisions, `take` what happened."""

    def __init__(
        self,
        platform: Platform,
        workloads: Sequence[Workload],
        events: Sequence[ExternalEvent] | None = None,
        options: SimulationOptions | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """Set everything up at time 0; ``events`` is None where there is no events file."""
        profiles = {workload.name: dict(workload.profiles) for workload in workloads}
        self.world = World(platform, profiles, options or SimulationOptions(), tracer)
        if tracer is not None and self.world.options.energy:
            _initial_pstates(self.world, tracer)
        rates = Rates(self.world)
        self._execution = Execution(self.world, rates)
        self._power_states = PowerStates(self.world, rates)
        self.arrivals = Arrivals(self.world, rates, workloads, events)
        self._requests = Requests(self.world, rates, self._execution, self._power_states, self.arrivals)

    @property
    def now(self) -> float:
        """The clock, s; not rounded."""
        return self.world.now

    def next_time(self) -> float:
        """Return when the next thing happens (infinity: never)."""
        world = self.world
        heap = world.heap
        while heap and heap[0][2] == LEAF_END and heap[0][4] != heap[0][3].version:
            heappop(heap)
        at = self.arrivals.next_s
        if heap and heap[0][0] < at:
            return heap[0][0]
        return at if at > world.now else world.now

    def advance(self, until: float) -> None:
        """Let everything happen that is due up to ``until``; the clock stops at the last of it."""
        while (at := self.next_time()) <= until and at != NEVER:
            self.instant(at)

    def instant(self, at: float) -> None:
        """Let everything of one instant happen; ``at`` is what `next_time` gave."""
        world = self.world
        world.set_clock(at)
        until = world.now + SAME_INSTANT_S
        heap = world.heap
        ended: list[tuple[SimJob, int]] = []
        arrived: list[tuple[IntArray, int]] = []
        while heap and heap[0][0] <= until:
            _, _, what, subject, detail = heappop(heap)
            if what == LEAF_END:
                ended.append((subject, detail))
            elif what == SWITCH:
                arrived.append((subject, detail))
            else:
                world.calls -= 1
                world.outbox.append(RequestedCall(world.stamp))
        for hosts, pstate in arrived:
            self._power_states.arrived(hosts, pstate)
        if self.arrivals.next_s <= until:
            self.arrivals.play(until)
        for job, version in ended:
            if job.version == version:
                self._execution.leaf_ended(job)
        for hosts, pstate in arrived:
            self._power_states.tell(hosts, pstate)

    def apply(self, decision: Decision, reply_now: float) -> None:
        """Carry out a decision at its timestamp, or now if that is past.

        Raises DecisionRefused where Batsim would abort.
        """
        at = decision.timestamp
        if at > reply_now:
            raise DecisionRefused(f"timestamp {at:g} should be lower than or equal to now={reply_now:g}.")
        if at > self.world.now:
            self.advance(at)
            self.world.set_clock(at)
        self._requests.apply[type(decision)](decision)

    def take(self) -> list[Event]:
        """Return what is to be told to the scheduler, and forget the jobs whose ends that tells."""
        world = self.world
        events, world.outbox = world.outbox, []
        for job in world.untold:
            del world.jobs[job.request.id]
        world.untold.clear()
        return events

    @property
    def finished(self) -> bool:
        """Whether nothing is left to happen or to be decided, so that the simulation may end."""
        world = self.world
        return (
            self.arrivals.over
            and not world.jobs
            and not world.switching
            and not world.calls
            and not world.outbox
            and not self._requests.dynamic_open
        )


def _initial_pstates(world: World, tracer: Tracer) -> None:
    """Write the first rows of the P-states file."""
    pstates = world.table.pstates[world.machines.mode]
    for pstate in sorted(set(pstates.tolist())):
        tracer.pstate(0.0, HostSet((pstates == pstate).nonzero()[0]), pstate)
