"""A whole simulation: messages to a scheduler and its replies, from SIMULATION_BEGINS to the end.

`simulation_from_files` reads its inputs as Batsim's command line names them.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace as replaced

from beasy_sched.checks import RunInputs, bad_power, bad_rate, look_at
from beasy_sched.energy.site import Site
from beasy_sched.engine.run_findings import ChecksInputs
from beasy_sched.errors import ConfigError, DecisionRefused, InputError, PathLike
from beasy_sched.formats.batsim_events import ExternalEvent, merge_events, read_external_events
from beasy_sched.formats.batsim_jobs import WorkloadJob
from beasy_sched.formats.batsim_profiles import Composed, Delay, Homogeneous, Profile
from beasy_sched.formats.batsim_workload import Workload, read_workload
from beasy_sched.formats.failures import HostFailure, HostFailureKind, read_failures
from beasy_sched.formats.simgrid_xml import SimGridPlatform, read_simgrid_platform
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.model.decisions import Decision, Reply
from beasy_sched.model.events import (
    Event,
    JobCompleted,
    Message,
    PowerAnnounced,
    RequestedCall,
    Resource,
    SimulationBegins,
    SimulationEnds,
)
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform
from beasy_sched.planner.plan import PlanStore
from beasy_sched.simulator.arrivals import Arrivals
from beasy_sched.simulator.clock import ARRIVAL, CALL, LEAF, PROBE, REPLY, ROUTE, SWITCH, TRANSFER, Action
from beasy_sched.simulator.decision_requests import PowerStates, Requests
from beasy_sched.simulator.execution import Execution
from beasy_sched.simulator.future import Future
from beasy_sched.simulator.machines import Fallible, Meter
from beasy_sched.simulator.mailbox import ANSWERED, AT_ONCE, LAST, SWITCHED, Item
from beasy_sched.simulator.outputs import Tracer, first_formula
from beasy_sched.simulator.simulated_jobs import RUNNING, SimJob
from beasy_sched.simulator.world import Dialect, SimulationOptions, World

_SHARED_UNEVENLY = (
    "jobs with different hosts or different work on them shared hosts: SimGrid may give such jobs other"
    " rates, and meters their hosts less often, so times and energies can differ from a real Batsim's"
)

_OWN = "'s"
"""End of the names of profiles that jobs of a drawn future have for themselves."""

Decide = Callable[[Message], Reply]
"""Scheduler as the simulation sees it."""


def _do_nothing() -> None:
    """Do nothing at a pause."""


class Ending(str, Enum):
    """Ending of a simulation."""

    FINISHED = "finished"
    DEADLOCK = "deadlock"
    """Nothing is left to happen, but jobs wait (or registration was never finished)."""


@dataclass(frozen=True)
class SimulationResult:
    """The results of a simulation."""

    ending: Ending
    end_s: float
    """The clock at the end, s."""
    energy_j: float
    """Energy of all hosts but the master from 0 to the end, J (0 without energy)."""
    messages: int
    jobs: int
    """Jobs that ended, rejected ones included."""
    succeeded: int
    rejected: int
    waiting: tuple[str, ...]
    """Ids of jobs that were submitted and had not ended, the first hundred."""
    makespan_s: float
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes for the user."""


class Simulation:
    """The simulator, ready to run once."""

    def __init__(
        self,
        platform: SimGridPlatform,
        workloads: Sequence[Workload],
        events: Sequence[Sequence[ExternalEvent]] = (),
        options: SimulationOptions | None = None,
        tracer: Tracer | None = None,
        failures: Sequence[HostFailure] = (),
    ) -> None:
        """Set everything up at time 0, from what has been read from the input files.

        ``events`` has a list for each events file; ``tracer`` (or none) writes Batsim's files; ``failures``
        are those of hosts, in the order of time.
        """
        self._platform = platform
        self.workloads = workloads
        self._messages = 0
        self._in_scheduler_s = 0.0
        profiles = {workload.name: dict(workload.profiles) for workload in workloads}
        world = self.world = World(
            self._machines(),
            profiles,
            options or SimulationOptions(),
            tracer,
            self.dialect,
            platform.platform.size,
            platform.latency,
        )
        if tracer is not None:
            pstates = world.table.pstates[world.machines.mode]
            for pstate in np.unique(pstates).tolist():
                tracer.pstate(0.0, HostSet((pstates == pstate).nonzero()[0]), pstate)
        self._execution = Execution(world)
        self.arrivals = self._make_arrivals(events)
        if failures:
            world.fallible = Fallible(world.machines.size)
            self.arrivals.expect_failures(failures)
        self._requests = self._make_requests()
        self._power_states = self._requests.power_states
        self._ready = False
        """Whether the scheduler has answered the last message, and the answer has been carried out."""
        self._reply_now = 0.0
        self._decisions: Iterator[Decision] = iter(())
        self._step: Callable[[], list[Action]] = world.clock.step
        """Advances the clock to what ends next."""
        self._pause_s, self._at_pause = math.inf, _do_nothing

    dialect = Dialect()

    def _machines(self) -> Platform:
        """Return the hosts that are metered and can be named in decisions."""
        return self._platform.machines

    def _make_arrivals(self, events: Sequence[Sequence[ExternalEvent]]) -> Arrivals:
        return Arrivals(self.world, self._execution, self.workloads, events)

    def _make_requests(self) -> Requests:
        return Requests(self.world, self._execution, self.arrivals)

    def run(
        self,
        decide: Decide,
        progress: Callable[[float], None] | None = None,
        ignores_power: Callable[[], bool] = lambda: False,
    ) -> SimulationResult:
        """Run to the end.

        ``decide`` gets each message and returns the reply; ``progress``, if given, is called now and
        then with the share of jobs that have been submitted. While ``ignores_power`` is true and nothing is
        under way, messages that only announce power are not passed to ``decide``: it has nothing to answer.
        Raises DecisionRefused where Batsim would abort, and whatever ``decide`` raises; no output file is
        left then.
        """
        started = time.perf_counter()
        try:
            events = self.start()
            while events:
                self._pass_on(decide, events, ignores_power)
                if progress is not None and self._messages % 256 == 0:
                    progress(self.arrivals.share_submitted)
                events = self.listen()
            ending = self._end(decide)
            return self._result(ending, time.perf_counter() - started)
        finally:
            self.discard()

    def _pass_on(
        self, decide: Decide, events: list[Event], ignores_power: Callable[[], bool] = lambda: False
    ) -> None:
        """Pass events to the scheduler, unless they only announce power that it ignores."""
        world = self.world
        if not world.jobs and self._tells_power_only(events) and ignores_power():
            self._messages += 1
            self.answer(Reply(world.stamp, []))
        else:
            self.answer(self._ask(decide, events))

    def _end(self, decide: Decide) -> Ending:
        """Notify the scheduler of the end, unless it is a deadlock."""
        ending = Ending.FINISHED if self.finished else Ending.DEADLOCK
        if ending is Ending.FINISHED:
            self._ask(decide, [SimulationEnds(self.world.stamp)])
        return ending

    # --- a simulation that is continued several times from one moment ---

    def pause_at(self, time_s: float, act: Callable[[], None]) -> None:
        """Call ``act`` when all that happens by ``time_s`` (s) has happened, before the clock advances.

        Nothing is called if the simulation is at rest before that time. ``act`` may set the next pause.
        """
        self._pause_s, self._at_pause = time_s, act
        self._step = self._step_or_pause

    def _step_or_pause(self) -> list[Action]:
        clock = self.world.clock
        while self._pause_s < clock.next_s() < math.inf:
            act, self._pause_s, self._step = self._at_pause, math.inf, clock.step
            act()
        return clock.step()

    def resume(
        self,
        decide: Decide,
        goes_on: Callable[[], bool] = lambda: True,
        ignores_power: Callable[[], bool] = lambda: False,
    ) -> Ending | None:
        """Continue from within a pause, without files, as long as ``goes_on`` is true before a message.

        Returns None if it was not. The simulation that paused cannot be continued in this process afterwards.
        """
        self._pause_s, self._step = math.inf, self.world.clock.step
        while goes_on():
            if not (events := self.listen()):
                return self._end(decide)
            self._pass_on(decide, events, ignores_power)
        return None

    def replace_future(self, future: Future) -> None:
        """Replace everything that the scheduler has not received yet; call it in a pause."""
        if future.own_profiles:
            future = self._with_own_profiles(future)
        jobs = self.world.jobs
        for job_id, run_s in future.runs_s.items():
            job = jobs[job_id]
            self._execution.set_run_time(job, self._lasting(job.profile, run_s), run_s)
        by_workload: dict[str, list[WorkloadJob]] = {}
        runs_s: dict[str, float] = {}
        for arrival in future.arrivals:
            by_workload.setdefault(arrival.workload, []).append(arrival.job)
            runs_s[arrival.job.id] = arrival.run_s
        if future.failures and self.world.fallible is None:
            self.world.fallible = Fallible(self.world.machines.size)
        self.arrivals.replace_rest(
            by_workload, partial(self._drawn_profile, runs_s), future.events, future.failures
        )
        if self.world.fallible is not None:
            self.world.fallible.expect_none()

    # --- a simulation that begins in the midst of a run (`from_session`) ---

    def begin_at(self, time_s: float) -> None:
        """Begin at a time (s) instead of 0, before anything has happened."""
        self.world.clock.now = time_s
        self.world.advance()
        self.world.meter = Meter(0.0, 0.0, None)
        self.world.meter.accrue(time_s)
        self.world.meter.metered_at = time_s
        self._reply_now = time_s

    def resume_job(self, job: SimJob, hosts: HostSet, start_s: float) -> None:
        """Let a job run that was started at ``start_s`` (s)."""
        self._execution.resume(job, hosts, start_s)

    def share_hosts(self) -> None:
        """Let several jobs be on a host."""
        self._execution.share_hosts()

    def decided(self, decision: Decision) -> None:
        """Carry out a decision that was made before."""
        self._requests.apply[type(decision)](decision)

    @property
    def power_states(self) -> PowerStates:
        """The switches of hosts under way."""
        return self._power_states

    def await_message(self) -> None:
        """Let the server wait for what happens next; the scheduler has answered."""
        self.world.mailbox.turn()
        self.world.mailbox.put_rest()
        self._ready = True

    def break_hosts(self, hosts: HostSet) -> None:
        """Let hosts break down now, in a pause: jobs on them fail. Raises InputError for unknown hosts."""
        if self.world.fallible is None:
            self.world.fallible = Fallible(self.world.machines.size)
        self.arrivals.play_failure(HostFailure(self.world.now, HostFailureKind.BREAKS, hosts))

    def repair_hosts(self, hosts: HostSet) -> None:
        """Put hosts back into service now, in a pause. Raises InputError for unknown hosts."""
        if self.world.fallible is None:
            self.world.fallible = Fallible(self.world.machines.size)
        self.arrivals.play_failure(HostFailure(self.world.now, HostFailureKind.REPAIRED, hosts))

    def own_profile(self, job_id: str) -> tuple[str, dict[str, Any]]:
        """Return the profile that a future has given to a job (`Future.own_profiles`): name, and object."""
        name = f"{job_id}{_OWN}"
        profile = self.world.profiles[job_id.partition("!")[0]][name]
        if isinstance(profile, Delay):
            return name, {"type": "delay", "delay": profile.delay_s}
        if isinstance(profile, Homogeneous):
            return name, {"type": "parallel_homogeneous", "cpu": profile.flops, "com": 0}
        raise RuntimeError(f"job {job_id} has no drawn profile")

    def _with_own_profiles(self, future: Future) -> Future:
        """Give each job of a future its own profile; return the future with them."""
        profiles, jobs = self.world.profiles, self.world.jobs
        for job_id, run_s in future.runs_s.items():
            job = jobs[job_id]
            name = f"{job_id}{_OWN}"
            lasting = self._lasting(job.profile, run_s)
            if job.state == RUNNING and isinstance(lasting, Homogeneous):
                speed_flops = self.world.table.speeds[self.world.machines.mode[job.alloc.ids]].min()
                lasting = replace(lasting, flops=run_s * float(speed_flops))
            profiles[job.workload][name] = replace(lasting, name=name)
        arrivals = []
        for arrival in future.arrivals:
            job_id = arrival.job.id
            given = profiles[arrival.workload][arrival.job.profile]
            own = replace(self._lasting(given, arrival.run_s), name=f"{job_id}{_OWN}")
            profiles[arrival.workload][own.name] = own
            arrivals.append(replace(arrival, job=replaced(arrival.job, profile=own.name)))
        return replace(future, arrivals=arrivals)

    def _drawn_profile(self, runs_s: Mapping[str, float], job: WorkloadJob) -> Homogeneous | Delay:
        workload = job.id.partition("!")[0]
        return self._lasting(self.world.profiles[workload][job.profile], runs_s[job.id])

    def _lasting(self, profile: Profile, run_s: float) -> Homogeneous | Delay:
        """Return a profile that takes ``run_s`` (s) at full speed, and computes if ``profile`` does."""
        if not self._computes(profile):
            return Delay(profile.name, 0, run_s)
        return Homogeneous(profile.name, 0, run_s * self.full_speed_flops)

    def _computes(self, profile: Profile) -> bool:
        """Whether a profile, or any part of it, loads its hosts."""
        if not isinstance(profile, Composed):
            return not isinstance(profile, Delay)
        workload = next(some for some in self.world.profiles.values() if profile.sequence[0] in some)
        return any(self._computes(workload[name]) for name in profile.sequence)

    @cached_property
    def full_speed_flops(self) -> float:
        """Mean speed of the hosts in P-state 0, flops/s."""
        platform = self._platform.machines
        speeds = np.array([kind.speeds_flops[0] for kind in platform.kinds])
        return float(speeds[platform.kind_of].mean())

    def discard(self) -> None:
        """Remove the output files that have been begun, if the simulation is not run to its end."""
        if self.world.tracer is not None:
            self.world.tracer.discard()

    def _tells_power_only(self, events: list[Event]) -> bool:
        """Whether, without jobs, nothing is under way except announcements of power."""
        world = self.world
        under_way = world.switching or world.calls or self._requests.dynamic_open
        return not under_way and all(type(event) is PowerAnnounced for event in events)

    def _ask(self, decide: Decide, events: list[Event]) -> Reply:
        self._messages += 1
        before = time.perf_counter()
        reply = decide(Message(self.world.stamp, events))
        self._in_scheduler_s += time.perf_counter() - before
        return reply

    # --- a simulation without its scheduler: `start`, then `answer` and `listen` in turn ---

    def start(self) -> list[Event]:
        """Start everything at time 0, and return the events of the first message."""
        self.arrivals.begin()
        self.world.mailbox.turn()
        return [self.begins()]

    def begins(self) -> SimulationBegins:
        """Return the first event."""
        options, machines, size = self.world.options, self._platform.machines, self._platform.platform.size
        hosts = zip(machines.names, machines.properties, machines.zone_properties, strict=True)
        resources = tuple(
            Resource(index, name, "idle", dict(properties), dict(zone))
            for index, (name, properties, zone) in enumerate(hosts)
        )
        return SimulationBegins(
            0.0,
            resources=resources[:size],
            storage_resources=resources[size:],
            config={
                "redis-enabled": False,
                "redis-hostname": "127.0.0.1",
                "redis-port": 6379,
                "redis-prefix": "default",
                "profiles-forwarded-on-submission": options.forward_profiles,
                "dynamic-jobs-enabled": options.dynamic_jobs,
                "dynamic-jobs-acknowledged": options.acknowledge_dynamic_jobs,
                "profile-reuse-enabled": options.profile_reuse,
                "sched-config": options.sched_config,
                "forward-unknown-events": options.forward_unknown_events,
            },
            workloads={w.name: w.path for w in self.workloads},
            profiles={w.name: w.raw_profiles for w in self.workloads},
            allow_compute_sharing=options.compute_sharing,
            allow_storage_sharing=options.storage_sharing,
        )

    def answer(self, reply: Reply) -> None:
        """Take the scheduler's reply to the last message; `listen` carries it out.

        Each decision waits for its timestamp, if that is later than the clock, and the end of the reply for
        the time of the reply.
        """
        self._reply_now = reply.now
        self._decisions = iter(reply.decisions)
        world, mailbox = self.world, self.world.mailbox
        if mailbox.is_quiet() and reply.now <= world.now:
            for decision in self._decisions:
                if decision.timestamp > reply.now:
                    raise _late(decision, reply.now)
                self._requests.apply[type(decision)](decision)
                if not mailbox.is_quiet():
                    break
            else:
                self._ready = True
                return
        self._go_on()
        mailbox.put_rest()

    def _go_on(self) -> None:
        """Put the reply's next decision, or its end, into the mailbox at its time."""
        decision = next(self._decisions, None)
        at = self._reply_now
        if decision is not None:
            if decision.timestamp > at:
                raise _late(decision, at)
            at = decision.timestamp
        world = self.world
        if at > world.now and (wait_s := self.dialect.takes_time(at) - world.now) > 0.0:
            world.clock.wait(REPLY, decision, wait_s)
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
        """Advance to the next message and return its events, or none if nothing is left to happen.

        Raises DecisionRefused where Batsim would abort.
        """
        world = self.world
        mailbox = world.mailbox
        if mailbox.has_latency:
            return self._listen_from_afar()
        while True:
            if mailbox.items:
                sends = mailbox.take(self._may_send, self._woken_by_zero_step)
                if self._execution.late:
                    self._execution.charge_late_metering()
                if sends:
                    return self._told()
            elif self._ready and world.outbox:
                return self._told()
            elif ended := self._step():
                world.advance()
                first, *others = ended
                if others or world.clock.short or not self._alone(first):
                    self._wave(ended)
            else:
                return []

    def _listen_from_afar(self) -> list[Event]:
        """Advance to the next message where Batsim's own messages take time."""
        clock = self.world.clock
        while ended := self._step():
            clock.short.clear()  # steps end them here
            if self._wave_from_afar(ended):
                return self._told()
        return []

    def _wave_from_afar(self, ended: Sequence[Action]) -> bool:
        """Handle what ends in one step of the clock; return whether a message goes out."""
        world, mailbox = self.world, self.world.mailbox
        world.advance()
        others, arrives = [], False
        for action in ended:
            if action.kind == ROUTE:
                mailbox.begin_transfer(action.subject)
            elif action.kind == TRANSFER:
                arrives = True
            else:
                others.append(action)
        at_once, later = self._by_round(others)
        held = self._end_later(later)
        woken, sends, number = partial(self._woken, put=mailbox.put), False, 0
        if arrives:
            number = mailbox.items[0].number
            sends = mailbox.receive(at_once, self._may_send, woken)
        else:
            for action in at_once:
                woken(action)
        self._send_later(later, held, number)
        if not sends:
            mailbox.put_rest()
        if self._execution.late:
            self._execution.charge_late_metering()
        return sends

    def _may_send(self) -> bool:
        return self._ready and bool(self.world.outbox)

    def _told(self) -> list[Event]:
        """Return the events for the scheduler, and forget the jobs whose ends are among them."""
        self._ready = False
        world = self.world
        events, world.outbox = world.outbox, []
        for event in events:
            if type(event) is JobCompleted:
                del world.jobs[event.job_id]
        return events

    def _wave(self, ended: list[Action]) -> None:
        """Handle what ends in one step of the clock."""
        at_once, later = self._by_round(ended)
        for action in at_once:
            self._woken(action, self.world.mailbox.put)
        if later:
            self._send_later(later, self._end_later(later))
        if self._execution.late:
            self._execution.charge_late_metering()

    def _by_round(self, ended: Sequence[Action]) -> tuple[list[Action], list[tuple[int, Action]]]:
        """Divide ended actions into those sent at once, and the others with the rounds of their sending.

        SimGrid lets all who wake run in rounds, and in each of them they do one thing that concerns others.
        A host that was switched changes its P-state in the first, its state in the second. The end of a job
        frees hosts in the first; before it is sent, it has the hosts metered that have not been metered at
        this time, one in each round.
        """
        world = self.world
        if not world.energy:
            for action in ended:
                if action.kind == SWITCH:
                    self._power_states.arrived(*action.subject)
            return list(ended), []
        unmetered = self._unmetered(ended)
        rounds = [(_round(action, unmetered), action) for action in ended]
        return (
            [action for number, action in rounds if number == AT_ONCE],
            [(number, action) for number, action in rounds if number > AT_ONCE],
        )

    def _unmetered(self, ended: Sequence[Action]) -> int:
        """Return how many hosts SimGrid has not metered yet when these actions have ended.

        The end of a task has all its hosts metered; that of a delay or a walltime, the first of the job.
        """
        world = self.world
        if world.meter.metered_at == world.now:
            return 0
        metered = set[int]()
        for action in ended:
            if action.kind == SWITCH:
                metered.update(action.subject[0].tolist())
            elif action.kind == LEAF:
                job: SimJob = action.subject
                is_task = job.task is not None and action is job.run
                metered.update((job.alloc.ids if is_task else job.alloc.ids[:1]).tolist())
        return world.machines.size - len(metered)

    def _end_later(self, later: Sequence[tuple[int, Action]]) -> dict[int, list[Item]]:
        """Handle the ends of actions that are sent in later rounds; return the items of jobs, by action."""
        held: dict[int, list[Item]] = {}
        for _, action in later:
            if action.kind == SWITCH:
                self._power_states.leave_transition(*action.subject)
        for _, action in later:
            if action.kind == LEAF:
                self._woken(action, held.setdefault(action.number, []).append)
        for _, action in later:
            if action.kind == SWITCH:
                self._power_states.arrived(*action.subject)
        return held

    def _send_later(
        self, later: Sequence[tuple[int, Action]], held: dict[int, list[Item]], received: int = 0
    ) -> None:
        """Send what `_end_later` has handled, in the order of the rounds.

        ``received`` is the number of the item that the server has received in the same step. An answer that
        follows is sent after what has ended in its round by a lower number.
        """
        mailbox = self.world.mailbox
        for number, action in sorted(later, key=itemgetter(0)):
            put = mailbox.put
            if mailbox.has_latency and (number, action.number) > (ANSWERED, received):
                put = partial(mailbox.put_late, number=number)
            if action.kind != LEAF:
                self._woken(action, put)
            for item in held.get(action.number, ()):
                put(item)

    def _alone(self, action: Action) -> bool:
        """Handle the only end of a step at once, as the server would take it: the mailbox is quiet.

        This is the usual case, and cheaper than going through the mailbox. Returns whether it was handled.
        """
        kind, subject = action.kind, action.subject
        if kind == LEAF:
            if self._execution.leaf_ended(subject, action):
                self.world.tell_end(subject)
            if self._execution.late:
                self._execution.charge_late_metering()
        elif kind == ARRIVAL:
            subject.woken(alone=True)
        elif kind == CALL:
            self._tell_call(subject)
        elif kind == SWITCH:
            self._power_states.arrived(*subject)
            self._power_states.complete(*subject)
        elif kind == REPLY and subject is None:
            self._ready = True
        else:
            return False
        return True

    def _woken_by_zero_step(self, action: Action) -> None:
        """Handle the end of an action of zero length."""
        mailbox = self.world.mailbox
        late = action.kind == LEAF and self.world.energy
        self._woken(action, partial(mailbox.put_late, number=LAST) if late else mailbox.put)

    def _woken(self, action: Action, put: Callable[[Item], None]) -> None:
        """Handle the end of an action."""
        world = self.world
        kind, subject = action.kind, action.subject
        if kind == LEAF:
            if subject.lingering_w:
                self._execution.stop_lingering(subject)
            elif (action is subject.run or action is subject.limit) and self._execution.leaf_ended(
                subject, action
            ):
                then = partial(self._execution.stop_lingering, subject) if subject.lingering_w else None
                put(Item(partial(world.tell_end, subject), then, host=subject.alloc.ids.item(0)))
        elif kind == ARRIVAL:
            subject.woken()
        elif kind == CALL:
            put(Item(partial(self._tell_call, subject)))
        elif kind == SWITCH:
            self._power_states.tell(*subject)
        else:
            self._put(subject)

    def _tell_call(self, asked: Any) -> None:
        self.world.calls -= 1
        self.world.outbox.append(RequestedCall(self.world.stamp))

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

    # --- the end ---

    def _result(self, ending: Ending, elapsed_s: float) -> SimulationResult:
        world = self.world
        world.meter.accrue(world.now)
        files: list[Path] = []
        if world.tracer is not None:
            row = world.tally.row(world.machines, (self._in_scheduler_s, elapsed_s))
            files = world.tracer.commit(row)
        notes = []
        if self._execution.shared_unevenly:
            notes.append(_SHARED_UNEVENLY)
        return SimulationResult(
            ending=ending,
            end_s=world.now,
            energy_j=world.meter.energy_j,
            messages=self._messages,
            jobs=world.tally.jobs,
            succeeded=world.tally.success,
            rejected=world.tally.rejected,
            waiting=tuple(itertools.islice(world.jobs, 100)),
            makespan_s=world.tally.makespan_s,
            files=tuple(files),
            notes=tuple(notes),
        )


@dataclass(frozen=True)
class Inputs:
    """The files of a simulation, and how to read them."""

    platform: PathLike
    workloads: Sequence[PathLike] = ()
    """Workload files, named w0, w1, ... in this order."""
    events: Sequence[PathLike] = ()
    master: str = "master_host"
    roles: Mapping[str, str] = field(default_factory=dict)
    """Further roles of hosts, by name."""
    limit: int = 0
    """Number of the first hosts that are used (0: all)."""
    limit_by_workload: bool = False
    """Use only as many hosts as the largest ``nb_res`` of the workloads."""
    failures: PathLike | None = None
    """File of failures of hosts (`formats.failures`), which no real Batsim has."""
    strict: BatsimFormat | None = None
    """Version of Batsim; whatever it aborts on is rejected, even if the meaning is clear."""

    def read(
        self, options: SimulationOptions
    ) -> tuple[SimGridPlatform, list[Workload], list[list[ExternalEvent]]]:
        """Read everything; the events by file. Raises InputError."""
        workloads = [
            read_workload(os.path.abspath(path), f"w{number}") for number, path in enumerate(self.workloads)
        ]
        new = self.strict is BatsimFormat.BATSIM5
        wanted = max((w.nb_res for w in workloads), default=0) if self.limit_by_workload else 0
        platform = read_simgrid_platform(
            self.platform,
            master=self.master,
            roles=self.roles,
            limit=min(filter(None, (self.limit, wanted)), default=0),
            energy=options.energy or new,  # Batsim 5 also switches hosts without metering energy
            strict=self.strict is not None,
            needs_powers=self.strict is BatsimFormat.BATSIM4,
            natural_order=new,
        )
        events = [
            read_external_events(
                path,
                forward_unknown=options.forward_unknown_events or new,
                translate=self.strict is not BatsimFormat.BATSIM4,
            )
            for path in self.events
        ]
        if self.strict is not None:
            self._refuse_others(self.strict, workloads, events)
        return platform, workloads, events

    def _refuse_others(
        self, form: BatsimFormat, workloads: Sequence[Workload], events: Sequence[Sequence[ExternalEvent]]
    ) -> None:
        """Reject files of another version of Batsim. Raises InputError."""
        strange = [w.path for w in workloads if w.profiles and w.form is not form]
        if form is BatsimFormat.BATSIM5:  # the other forwards what it does not know
            strange += [event.where for one in events for event in one if event.text is None]
        if strange:
            raise InputError(
                strange[0],
                f"is not for {form.label}: convert it with 'beasy-sched convert --format {form.value}'",
            )


def simulation_from_files(
    inputs: Inputs,
    options: SimulationOptions,
    prefix: PathLike | None = None,
    *,
    machine_states: bool = True,
    tell_hosts: bool = False,
    note: Callable[[str], None] | None = None,
    site: Site | None = None,
    plans: PlanStore | None = None,
    windows: int = 1,
    policy: ChecksInputs | None = None,
) -> Simulation:
    """Read ``inputs``; with a ``prefix``, Batsim's CSV files will be written there.

    ``tell_hosts`` adds to the first message, as properties, what Batsim does not send about its hosts: their
    initial P-states and their cores. ``note`` is called with each notice on the files; they are checked
    together with the ``site``, its ``plans``, the ``windows`` of the run and its ``policy``, if these are
    available. Raises InputError.
    """
    platform, workloads, events = inputs.read(options)
    failures = [] if inputs.failures is None else read_failures(inputs.failures)
    if tell_hosts:
        platform = replace(platform, platform=platform.platform.telling_hosts())
    if note is not None:
        merged = merge_events(events) if events else None
        given = RunInputs(
            platform.platform,
            options.energy,
            site,
            windows,
            policy,
            workloads=workloads,
            events=merged,
            plans=plans,
        )
        note_findings(platform, given, note)
    tracer = None
    if prefix is not None:
        refuse_formulas(workloads)
        tracer = Tracer(prefix, energy=options.energy, machine_states=machine_states)
    return Simulation(platform, workloads, events, options, tracer, failures)


def note_findings(platform: SimGridPlatform, given: RunInputs, note: Callable[[str], None]) -> None:
    """Call ``note`` with each notice on the files.

    Raises ConfigError for a rate that is not a number and, if the policy is known, for a production that
    is not a power: to a scheduler elsewhere, Batsim forwards any value.
    """
    for text in platform.notes:
        note(text)
    events = given.events or ()
    wrong = bad_rate(events)
    if wrong is None and given.policy is not None:
        wrong = bad_power(events)
    if wrong is not None:
        raise ConfigError(wrong.text)
    for finding in look_at(given):
        note(finding.text)


def refuse_formulas(workloads: Sequence[Workload]) -> None:
    """Reject names that a spreadsheet would run when it opens ``jobs.csv``. Raises InputError."""
    for workload in workloads:
        ids = (job_id.partition("!")[2] for job_id in workload.jobs.ids)
        for kind, texts in (("job id", ids), ("profile", workload.profiles)):
            if (text := first_formula(texts)) is not None:
                raise InputError(
                    workload.path,
                    f"found the {kind} {text!r}, which a spreadsheet would run as a formula when it opens the"
                    " CSV files: choose another name, or run without -e",
                )


def _late(decision: Decision, now: float) -> DecisionRefused:
    return DecisionRefused(f"timestamp {decision.timestamp:g} should be lower than or equal to now={now:g}.")


def _round(action: Action, unmetered: int) -> int:
    """Return the round in which the end of an action is sent.

    Metering takes a round for each host.
    """
    if action.kind == SWITCH:
        return SWITCHED
    if action.kind == LEAF:
        return AT_ONCE + unmetered
    if action.kind == ARRIVAL and action.subject.measures:
        return AT_ONCE + unmetered
    return LAST if action.kind == PROBE else AT_ONCE
