"""Job submissions and external events, which come from the input files at known times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_jobs import WorkloadJob
from beasy_sched.formats.batsim_profiles import Profile
from beasy_sched.formats.batsim_workload import Workload
from beasy_sched.formats.failures import HostFailure
from beasy_sched.model.events import JobSubmitted
from beasy_sched.protocol.json_numbers import as_batsim_reads_all
from beasy_sched.protocol.notices import notice
from beasy_sched.simulator.clock import ARRIVAL, Action
from beasy_sched.simulator.execution import Execution
from beasy_sched.simulator.machines import COMPUTING, IDLE, UNAVAILABLE
from beasy_sched.simulator.mailbox import Item
from beasy_sched.simulator.outages import HostFailures
from beasy_sched.simulator.simulated_jobs import SimJob
from beasy_sched.simulator.world import World


@dataclass(eq=False)
class Sender:
    """One file's entries, sent in groups: those due by the clock that the sender has last seen.

    The comparison is Batsim's own: a clock that is one rounding short of the time of several entries
    splits them.
    """

    world: World
    times_s: Sequence[float]
    entries: Iterator[Any]
    """Entries that have not been sent, one for each time from `next` on."""
    handle: Callable[[Any], None]
    """Function by which the server takes an entry."""
    say_goodbye: Callable[[], None]
    """Function by which the server ends the sender."""
    say_hello: Callable[[], None] | None = None
    """Function by which the server first hears of the file; None where it does nothing."""
    meters: bool = False
    """Whether the sender, before its first group, has energy measured unless another sender has done so."""
    next: int = 0
    """Position of the first entry that has not been sent."""
    over: bool = False
    ends: bool = True
    """Whether the sender ends after its last entry; it waits for ever otherwise."""
    _seen_s: float = 0.0
    _wait: Action | None = None

    def begin(self) -> None:
        """Send the greeting, then what is due, and wait for the rest."""
        self.world.mailbox.put(Item(self.say_hello, self._greeted))

    def _greeted(self) -> None:
        self._seen_s = self.world.now
        self._go_on()

    def woken(self, *, alone: bool = False) -> None:
        """Send what is due at the time of the next entry; the server takes it at once if ``alone``."""
        world = self.world
        self._seen_s = world.now
        times_s, end = self.times_s, len(self.times_s)
        count = 1
        while self.next + count < end and times_s[self.next + count] <= self._seen_s:
            count += 1
        if self.meters:
            self._measure()
        self.next += count
        if alone and self.next < end:  # the end must follow the message that the last one makes
            self._send(count)
            self._go_on()
        else:
            world.mailbox.put(Item(partial(self._send, count), self._go_on))

    @property
    def measures(self) -> bool:
        """Whether energy is measured before the next group is sent, so that it is sent slightly later."""
        return self.meters and self.world.tally.energy_at_first_submission_j < 0.0

    def _measure(self) -> None:
        world = self.world
        if self.measures:
            world.tally.energy_at_first_submission_j = world.meter.meter_all(world.now)
        self.meters = False

    def _send(self, count: int) -> None:
        for entry in islice(self.entries, count):
            self.handle(entry)

    def _go_on(self) -> None:
        """Wait for the next entry, or send the end."""
        if self.next == len(self.times_s):
            if self.ends:
                self.world.mailbox.put(Item(self._goodbye))
        elif (wait_s := self.times_s[self.next] - self._seen_s) > 0.0:
            self._wait = self.world.clock.wait(ARRIVAL, self, wait_s)
        else:
            self.woken()

    def replace_rest(self, times_s: Sequence[float], entries: Iterable[Any]) -> None:
        """Send ``entries`` at ``times_s`` (s) instead of what has not been sent, and never end.

        A sender that is over stays over.
        """
        if self.over:
            return
        if self._wait is not None:
            self._wait.cancel()
        self.times_s, self.entries, self.next, self.ends = times_s, iter(entries), 0, False
        self._seen_s = self.world.now
        self._go_on()

    def _goodbye(self) -> None:
        self.over = True
        self.say_goodbye()


class Arrivals:
    """The senders: one for each workload and each events file; and what the server does with their items."""

    def __init__(
        self,
        world: World,
        execution: Execution,
        workloads: Sequence[Workload],
        events: Sequence[Sequence[ExternalEvent]],
    ) -> None:
        """``events`` has a list for each events file; without any, the end of events is not announced."""
        self.world = world
        self._execution = execution
        self._raw = {w.name: w.raw_profiles for w in workloads}
        self._ids = [workload.jobs.ids for workload in workloads]
        self._submitters = [
            Sender(
                world,
                as_batsim_reads_all(workload.jobs.subtime_s),
                iter(workload.jobs),
                partial(self.submit, workload.name),
                self._one_is_over,
                self._hello,
                meters=world.energy,
            )
            for workload in workloads
        ]
        self._players = [
            Sender(
                world,
                [event.timestamp for event in some],
                iter(self._entries(number, some)),
                self.play,
                self._one_list_is_over,
                self._hello,
            )
            for number, some in enumerate(events)
        ]
        self._senders = [*self._submitters, *self._players]
        self._failing: Sender | None = None
        self._workloads, self._events = workloads, events

    def past_jobs(self) -> dict[str, list[WorkloadJob]]:
        """Return the jobs that have been submitted, by workload."""
        return {
            workload.name: workload.jobs[: sender.next]
            for workload, sender in zip(self._workloads, self._submitters, strict=True)
        }

    def past_events(self) -> list[ExternalEvent]:
        """Return the external events that have been played, in the order of time."""
        played = (some[: sender.next] for some, sender in zip(self._events, self._players, strict=True))
        return sorted((event for some in played for event in some), key=lambda event: event.timestamp)

    def take_as_sent(self, *, expects_jobs: bool) -> None:
        """Take all jobs and events as sent, in a simulation that begins later; the senders wait for ever.

        Without ``expects_jobs`` their end has been announced.
        """
        for sender in self._senders:
            sender.next, sender.entries, sender.ends = len(sender.times_s), iter(()), False
            sender.meters = False
        for submitter in self._submitters:
            submitter.over = not expects_jobs

    def replace_rest(
        self,
        jobs: Mapping[str, Sequence[WorkloadJob]],
        profile_of: Callable[[WorkloadJob], Profile],
        events: Sequence[ExternalEvent],
        failures: Sequence[HostFailure],
    ) -> None:
        """Replace everything that has not been sent; senders of files that are over stay over.

        ``jobs`` are by workload, each with its profile, all in the order of time. Generic events that change
        machines are not possible.
        """
        for workload, sender in zip(self._workloads, self._submitters, strict=True):
            some = jobs.get(workload.name, ())
            sender.handle = partial(self._submit_with, workload.name, profile_of)
            sender.replace_rest([job.subtime for job in some], some)
        self.replace_events(events)
        if failures and (self._failing is None or self._failing.over):
            self.expect_failures(())
        if self._failing is not None:
            self._failing.replace_rest([failure.timestamp for failure in failures], failures)

    def replace_events(self, events: Sequence[ExternalEvent]) -> None:
        """Replace the external events that have not been played."""
        for player in self._players:
            if not player.over:
                player.replace_rest([event.timestamp for event in events], events)
                events = ()

    def play_failure(self, failure: HostFailure) -> None:
        """Let hosts break down, or be repaired, at once."""
        HostFailures(self.world, self._execution, self._notify).play(failure)

    def _submit_with(
        self, workload: str, profile_of: Callable[[WorkloadJob], Profile], job: WorkloadJob
    ) -> None:
        self.submit(workload, job, profile_of(job))

    def expect_failures(self, failures: Sequence[HostFailure]) -> None:
        """Also play failures of hosts, from a separate sender whose end is not announced."""
        play = HostFailures(self.world, self._execution, self._notify).play
        times_s = [failure.timestamp for failure in failures]
        self._failing = Sender(self.world, times_s, iter(failures), play, lambda: None)
        self._senders.append(self._failing)

    def _entries(self, number: int, events: Sequence[ExternalEvent]) -> Sequence[Any]:
        """Return what the sender of a list of events sends, for `play`; ``number`` is that of the list."""
        return events

    _hello: Callable[[], None] | None = None
    """Function by which the server hears from a sender for the first time."""

    def _one_is_over(self) -> None:
        if all(sender.over for sender in self._submitters):
            self._notify("no_more_static_job_to_submit")

    def _one_list_is_over(self) -> None:
        if all(sender.over for sender in self._players):
            self._notify("no_more_external_event_to_occur")

    def begin(self) -> None:
        """Start the senders."""
        for sender in self._senders:
            sender.begin()

    @property
    def over(self) -> bool:
        """Whether no jobs or events are left, and the scheduler has been notified."""
        return all(sender.over for sender in self._senders)

    @property
    def share_submitted(self) -> float:
        """The share of all jobs that has been submitted, 0 to 1."""
        submitted = sum(sender.next for sender in self._submitters)
        return submitted / max(1, sum(len(sender.times_s) for sender in self._submitters))

    def _notify(self, kind: str, **data: Any) -> None:
        self.world.outbox.append(notice(self.world.stamp, kind, {"type": kind, **data}))

    def play(self, event: Any) -> None:
        """Forward an external event, or let it act on machines. Raises InputError where Batsim aborts."""
        world, machines = self.world, self.world.machines
        if event.hosts is None:
            world.outbox.append(notice(world.stamp, event.kind, event.data))
            return
        ids = event.hosts.ids
        if ids.item(-1) >= machines.size:
            raise InputError(None, f"{event.where}: Cannot get machine {ids[-1]}: it does not exist")
        states = world.table.states[machines.mode[ids]]
        if event.kind == "machine_unavailable":
            if world.fallible is None and (states == UNAVAILABLE).any():  # one that is broken may be there
                host = int(ids[states == UNAVAILABLE][0])
                raise InputError(
                    None,
                    f"{event.where}: The making of machine {host} unavailable was requested but this machine"
                    " was already in UNAVAILABLE state",
                )
            machines.change_state(ids, UNAVAILABLE, world.now)
            for job in self._execution.jobs_on(ids):
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
        self._notify(f"event_{event.kind}", resources=str(event.hosts))

    def submit(self, workload: str, job: WorkloadJob, profile: Profile | None = None) -> None:
        """Submit a job of a workload, with another ``profile`` than its own if one is given."""
        world = self.world
        if profile is None:
            profile = world.profiles[workload][job.profile]
        submitted = world.jobs[job.id] = SimJob.submitted(workload, profile, job, world.dialect.from_files)
        raw = self.raw_profile(workload, job.profile) if world.options.forward_profiles else None
        world.outbox.append(JobSubmitted(world.stamp, submitted.request, raw))

    def raw_profile(self, workload: str, name: str) -> dict[str, Any] | None:
        """Return a profile of a file as an object; None if unknown."""
        return self._raw.get(workload, {}).get(name)

    # --- for refusals ---

    @cached_property
    def _positions(self) -> dict[str, tuple[Sender, int]]:
        return {
            job_id: (sender, position)
            for sender, ids in zip(self._submitters, self._ids, strict=True)
            for position, job_id in enumerate(ids)
        }

    def knows(self, job_id: str) -> bool:
        """Whether a workload has this job, submitted or not."""
        return job_id in self._positions

    def explain_absence(self, job_id: str) -> str:
        """Explain in Batsim's words why a job is not among the submitted ones."""
        workload, bang, local = job_id.partition("!")
        if not bang or "!" in local:
            return (
                f"Invalid string job identifier '{job_id}': should be formatted as two '!'-separated parts,"
                " the second one being any string without '!'. Example: 'some_text!42'."
            )
        if workload not in self.world.profiles:
            return f"Cannot get job '{job_id}': there is no workload '{workload}'"
        position = self._positions.get(job_id)
        if position is not None and position[1] >= position[0].next:
            return f"Cannot execute job '{job_id}': its state (NOT_SUBMITTED) is not JOB_STATE_SUBMITTED."
        return f"Cannot get job '{job_id}': it does not exist"
