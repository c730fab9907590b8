"""Job submissions and external events, which come from the input files at known times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_workload import Workload, WorkloadJob
from beasy_sched.model.events import JobRequest, JobSubmitted, Notify
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol.wire import as_batsim_reads
from beasy_sched.simulator.clock import Item
from beasy_sched.simulator.execution import Rates
from beasy_sched.simulator.jobs import SimJob
from beasy_sched.simulator.machines import COMPUTING, IDLE, UNAVAILABLE
from beasy_sched.simulator.world import ARRIVAL, World

_NO_MORE_JOBS, _NO_MORE_EVENTS = "no_more_static_job_to_submit", "no_more_external_event_to_occur"
"""The NOTIFYs that tell that nothing more comes."""


class Sender:
    """One file's entries, sent in groups: those due by the clock that the sender has last seen.

    The comparison is Batsim's own: a clock that is one rounding short of the time of several entries
    splits them.
    """

    def __init__(
        self,
        world: World,
        times_s: Sequence[float],
        handle: Callable[[int, int], None],
        goodbye: Callable[[], None],
        *,
        meters: bool,
    ) -> None:
        """The server does ``handle(first, after)`` with a group of entries, and ``goodbye`` in the end.

        With ``meters``, energy is measured before the first group is sent.
        """
        self._world = world
        self._times_s = times_s
        self._handle = handle
        self._say_goodbye = goodbye
        self._meters = meters
        self._seen_s = 0.0
        self.total = len(times_s)
        self.next = 0
        """Position of the first entry that has not been sent."""
        self.over = False

    def begin(self) -> None:
        """Say hello, then send what is due at time 0, and wait for the rest."""
        self._world.mailbox.put(Item(None, self._go_on))

    def woken(self) -> None:
        """The time of the next entry has come: send what is due."""
        self._world.mailbox.put(Item(self._due(), self._go_on))

    def woken_alone(self) -> None:
        """Do the same where the server would take it at once."""
        handle = self._due()
        if self.next < self.total:
            handle()
            self._go_on()
        else:  # the goodbye has to come after the message that this makes
            self._world.mailbox.put(Item(handle, self._go_on))

    @property
    def measures(self) -> bool:
        """Whether energy is measured before the next group is sent, so that it comes a little later."""
        return self._meters and self.next == 0

    def _due(self) -> Callable[[], None]:
        """Gather what is due by the clock; return what the server does with it."""
        world = self._world
        self._seen_s = world.now
        times_s, first = self._times_s, self.next
        after = first + 1
        while after < self.total and times_s[after] <= self._seen_s:
            after += 1
        if first == 0 and self._meters:
            world.tally.energy_at_first_submission_j = world.meter.meter_all(world.now)
        self.next = after
        return partial(self._handle, first, after)

    def _go_on(self) -> None:
        """Wait for the next entry, or say goodbye."""
        if self.next == self.total:
            self._world.mailbox.put(Item(self._goodbye))
        elif (wait_s := self._times_s[self.next] - self._seen_s) > 0.0:
            self._world.clock.wait(ARRIVAL, self, wait_s)
        else:
            self.woken()

    def _goodbye(self) -> None:
        self.over = True
        self._say_goodbye()


class Arrivals:
    """The senders: one for each workload, one for the events; and what the server does with their items."""

    def __init__(
        self,
        world: World,
        rates: Rates,
        workloads: Sequence[Workload],
        events: Sequence[ExternalEvent] | None,
    ) -> None:
        """``events`` is None where no events file was given: its end is not announced then."""
        self.world = world
        self._rates = rates
        self._workloads = workloads
        self._raw = {w.name: w.raw_profiles for w in workloads} if world.options.forward_profiles else {}
        self._submitters = [self._submitter(workload) for workload in workloads]
        self._players = [] if events is None else [self._player(events)]

    def _submitter(self, workload: Workload) -> Sender:
        def handle(first: int, after: int) -> None:
            for position in range(first, after):
                self.submit(workload.jobs[position])

        def goodbye() -> None:
            if all(sender.over for sender in self._submitters):
                self._notify(_NO_MORE_JOBS)

        times_s = [as_batsim_reads(job.subtime) for job in workload.jobs]
        return Sender(self.world, times_s, handle, goodbye, meters=self.world.energy)

    def _player(self, events: Sequence[ExternalEvent]) -> Sender:
        def handle(first: int, after: int) -> None:
            for event in events[first:after]:
                self.play(event)

        times_s = [event.timestamp for event in events]
        return Sender(self.world, times_s, handle, partial(self._notify, _NO_MORE_EVENTS), meters=False)

    def begin(self) -> None:
        """Start the senders."""
        for sender in (*self._submitters, *self._players):
            sender.begin()

    @property
    def over(self) -> bool:
        """Whether nothing more will come, and the scheduler has been told."""
        return all(sender.over for sender in (*self._submitters, *self._players))

    @property
    def share_submitted(self) -> float:
        """The share of all jobs that has been submitted, 0 to 1."""
        submitted = sum(sender.next for sender in self._submitters)
        return submitted / max(1, sum(sender.total for sender in self._submitters))

    def _notify(self, kind: str, **data: Any) -> None:
        self.world.outbox.append(Notify(self.world.stamp, kind, {"type": kind, **data}))

    def play(self, event: ExternalEvent) -> None:
        """Forward an external event, or let it act on machines. Raises InputError where Batsim aborts."""
        if event.hosts is None:
            self.world.outbox.append(Notify(self.world.stamp, event.kind, event.data))
        else:
            self._change_availability(event, event.hosts)

    def _change_availability(self, event: ExternalEvent, hosts: HostSet) -> None:
        world, machines, ids = self.world, self.world.machines, hosts.ids
        if ids.item(-1) >= machines.size:
            raise InputError(None, f"{event.where}: Cannot get machine {ids[-1]}: it does not exist")
        states = world.table.states[machines.mode[ids]]
        if event.kind == "machine_unavailable":
            machines.change_state(ids, UNAVAILABLE, world.now)
            for job in self._rates.jobs_on(ids):
                job.moved = True
        else:
            if (states != UNAVAILABLE).any():
                host = int(ids[states != UNAVAILABLE][0])
                raise InputError(
                    None,
                    f"{event.where}: The making of machine {host} available was requested but this machine"
                    f" was not in UNAVAILABLE state (current state: {machines.state_name(host)})",
                )
            busy = machines.owner[ids] >= 0
            machines.change_state(ids[busy], COMPUTING, world.now)
            machines.change_state(ids[~busy], IDLE, world.now)
        self._notify(f"event_{event.kind}", resources=str(hosts))

    def submit(self, job: WorkloadJob) -> None:
        """Submit a job."""
        world = self.world
        workload = job.id.partition("!")[0]
        subtime, walltime = job.subtime, job.walltime
        if subtime.__class__ is float:
            subtime = round(subtime, 6)
        if walltime.__class__ is float:
            walltime = round(walltime, 6)
        request = JobRequest(job.id, subtime, job.res, job.profile, walltime, job.extras)
        world.jobs[job.id] = SimJob(workload, request, world.profiles[workload][job.profile], job)
        raw = self._raw[workload][job.profile] if self._raw else None
        world.outbox.append(JobSubmitted(world.stamp, request, raw))

    # --- for refusals ---

    @cached_property
    def _positions(self) -> dict[str, tuple[Sender, int]]:
        return {
            job.id: (sender, position)
            for sender, workload in zip(self._submitters, self._workloads, strict=True)
            for position, job in enumerate(workload.jobs)
        }

    def knows(self, job_id: str) -> bool:
        """Whether a workload has this job, submitted or not."""
        return job_id in self._positions

    def explain_absence(self, job_id: str) -> str:
        """Say in Batsim's words why a job is not among the submitted ones."""
        workload, bang, local = job_id.partition("!")
        if not bang or "!" in local:
            return (
                f"Invalid string job identifier '{job_id}': should be formatted as two '!'-separated parts,"
                " the second one being any string without '!'. Example: 'some_text!42'."
            )
        if workload not in self.world.profiles:
            return f"Cannot get job '{job_id}': there is no workload '{workload}'"
        found = self._positions.get(job_id)
        if found is not None and found[1] >= found[0].next:
            return f"Cannot execute job '{job_id}': its state (NOT_SUBMITTED) is not JOB_STATE_SUBMITTED."
        return f"Cannot get job '{job_id}': it does not exist"
