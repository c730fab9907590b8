"""The clockwork: steps of the clock, decisions at their times, and what the scheduler is told when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from beasy_sched.errors import DecisionRefused
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_workload import Workload
from beasy_sched.model.decisions import Decision, Reply
from beasy_sched.model.events import Event, RequestedCall
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform
from beasy_sched.simulator.arrivals import Arrivals
from beasy_sched.simulator.clock import Action
from beasy_sched.simulator.execution import Execution, Rates
from beasy_sched.simulator.mailbox import Item
from beasy_sched.simulator.outputs import Tracer
from beasy_sched.simulator.power_states import PowerStates
from beasy_sched.simulator.requests import Requests
from beasy_sched.simulator.world import ARRIVAL, CALL, LEAF, REPLY, SWITCH, SimulationOptions, World


class Engine:
    """A simulation without its scheduler: `begin`, then `answer` and `listen` in turn."""

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
        self._ready = False
        """Whether the scheduler has answered the last message, and the answer has been carried out."""
        self._reply_now = 0.0
        self._decisions: Iterator[Decision] = iter(())

    def begin(self) -> None:
        """Set everything going at time 0, while the scheduler is told that the simulation begins."""
        self.arrivals.begin()
        self.world.mailbox.turn()

    def answer(self, reply: Reply) -> None:
        """Take the scheduler's reply to the last message; `listen` carries it out.

        Each decision waits for its timestamp, if that is later than the clock, and the end of the reply for
        the time of the reply.
        """
        self._reply_now = reply.now
        self._decisions = iter(reply.decisions)
        mailbox = self.world.mailbox
        if reply.now <= self.world.now and mailbox.is_quiet():
            apply = self._requests.apply
            for decision in self._decisions:
                self._check(decision)
                apply[type(decision)](decision)
                if not mailbox.is_quiet():
                    break
            else:
                self._ready = True
                return
        self._go_on()
        mailbox.put_rest()

    def _check(self, decision: Decision) -> None:
        if decision.timestamp > self._reply_now:
            raise DecisionRefused(
                f"timestamp {decision.timestamp:g} should be lower than or equal to now={self._reply_now:g}."
            )

    def _go_on(self) -> None:
        """Put the reply's next decision, or its end, into the mailbox as soon as its time has come."""
        decision = next(self._decisions, None)
        at = self._reply_now
        if decision is not None:
            self._check(decision)
            at = decision.timestamp
        world = self.world
        if at > world.now:
            world.clock.wait(REPLY, decision, at - world.now)
        else:
            self._put(decision)

    def _put(self, decision: Decision | None) -> None:
        if decision is None:
            self.world.mailbox.put(Item(self._be_ready))
        else:
            handle = self._requests.apply[type(decision)]
            self.world.mailbox.put(Item(partial(handle, decision), self._go_on))

    def _be_ready(self) -> None:
        self._ready = True

    def listen(self) -> list[Event]:
        """Go on to the next message and return its events, or none where nothing is left to happen.

        Raises DecisionRefused where Batsim would abort.
        """
        world = self.world
        mailbox = world.mailbox
        while True:
            if mailbox:
                if mailbox.take(self._may_send, self._woken_by_zero_step):
                    return self._told()
            elif self._ready and world.outbox:
                return self._told()
            elif ended := world.clock.step():
                self._wave(ended)
            else:
                return []

    def _may_send(self) -> bool:
        return self._ready and bool(self.world.outbox)

    def _told(self) -> list[Event]:
        """Return what is told to the scheduler, and forget the jobs whose ends that tells."""
        self._ready = False
        world = self.world
        events, world.outbox = world.outbox, []
        for job in world.untold:
            del world.jobs[job.request.id]
        world.untold.clear()
        return events

    def _wave(self, ended: list[Action]) -> None:
        """Let happen what ends in one step of the clock.

        Those whose energy is measured when they end come later: transitions, and after them jobs.
        """
        world = self.world
        world.now = now = world.clock.now
        world.stamp = round(now, 6)
        if len(ended) == 1 and self._alone(ended[0]):
            return
        if len(ended) > 1:
            ended.sort(key=_rank if world.energy else _rank_without_energy)
        for action in ended:
            if action.kind == SWITCH:
                self._power_states.arrived(*action.subject)
        for action in ended:
            self._woken(action, world.mailbox.put)

    def _alone(self, action: Action) -> bool:
        """Let happen at once what the only end of a step brings, if the server would take it at once, too.

        That is the usual case, and cheaper than the way through the mailbox. Returns whether it was so.
        """
        kind, subject = action.kind, action.subject
        if not self.world.mailbox.is_quiet():
            return False
        if kind == LEAF:
            if self._execution.leaf_ended(subject, action):
                self.world.tell_end(subject)
        elif kind == ARRIVAL:
            subject.woken_alone()
        elif kind == REPLY and subject is None:
            self._ready = True
        else:
            return False
        return True

    def _woken_by_zero_step(self, action: Action) -> None:
        """Let happen what the end of an action without any length brings."""
        mailbox = self.world.mailbox
        late = action.kind == LEAF and self.world.energy
        self._woken(action, mailbox.put_late if late else mailbox.put)

    def _woken(self, action: Action, put: Callable[[Item], None]) -> None:
        """Let happen what an action's end brings."""
        world = self.world
        kind, subject = action.kind, action.subject
        if kind == LEAF:
            if (action is subject.run or action is subject.limit) and self._execution.leaf_ended(
                subject, action
            ):
                put(Item(partial(world.tell_end, subject)))
        elif kind == ARRIVAL:
            subject.woken()
        elif kind == CALL:
            world.calls -= 1
            put(Item(partial(self._tell, RequestedCall(world.stamp))))
        elif kind == SWITCH:
            self._power_states.tell(*subject)
        else:
            self._put(subject)

    def _tell(self, event: Event) -> None:
        self.world.outbox.append(event)

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


def _rank(action: Action) -> int:
    """Put transitions behind what is not measured, and jobs behind them; else the order stays."""
    kind: int = action.kind
    if kind == ARRIVAL and action.subject.measures:
        return 1
    return kind if kind >= SWITCH else 0


def _rank_without_energy(action: Action) -> int:
    return int(action.kind == REPLY)


def _initial_pstates(world: World, tracer: Tracer) -> None:
    """Write the first rows of the P-states file."""
    pstates = world.table.pstates[world.machines.mode]
    for pstate in sorted(set(pstates.tolist())):
        tracer.pstate(0.0, HostSet((pstates == pstate).nonzero()[0]), pstate)
