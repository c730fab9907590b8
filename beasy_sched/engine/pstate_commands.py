"""Requested P-states, calls and kills, sent only when Batsim can accept them.

A SET_RESOURCE_STATE for a host in transition is lost without an answer, and one that puts a busy
host to sleep aborts Batsim. So the cluster keeps a request per host, which is sent when its host is ready; a
newer request replaces an older one. Killing a job that has just ended also aborts Batsim, so kills are sent a
moment late.
"""

from __future__ import annotations

import math

import numpy as np

from beasy_sched.arrays import all_of, any_of, distinct
from beasy_sched.engine.agenda import Due
from beasy_sched.engine.call_lead import MOMENT_S, CallLead
from beasy_sched.errors import PeerError, PolicyError
from beasy_sched.limits import MOST_BUSY_CALLS
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.decisions import SetResourceState
from beasy_sched.model.events import EnergyAnswer, Message, RequestedCall, ResourceStateChanged
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE, SWITCHING_OFF, SWITCHING_ON
from beasy_sched.model.host_table import NOT_REQUESTED
from beasy_sched.model.hosts import NO_HOSTS, HostIds, HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.units import TIME_TOLERANCE_S


class Commander:
    """Sends the requests to one cluster's hosts as commands, when they may be sent."""

    def __init__(self, cluster: Cluster, *, others_switch: bool = False) -> None:
        """Begin with no command sent; ``others_switch``: hosts may also be switched without a command."""
        self.cluster = cluster
        self._others_switch = others_switch
        self.switches = 0
        """Number of times that hosts were sent to sleep or woken."""
        self.speed_changes = 0
        """Number of times that hosts changed to another computing P-state."""
        self._sent: dict[tuple[HostSet, int, bool], int] = {}
        """Number of unanswered commands of each kind: hosts, target, and whether it is a switch (not a change
        of speed)."""
        self._seen_version = -1
        """The cluster's ``hosts_version`` after the last look at the requests."""
        kinds = cluster.platform.kinds
        self._sleep_of = cluster.platform.sleep_of_kind
        self._computing = [frozenset(kind.computing) for kind in kinds]

    def check(self, hosts: HostSet, pstate: int) -> None:
        """Raise PolicyError if any host cannot be brought to ``pstate``."""
        for row in distinct(self.cluster.platform.kind_of[hosts.ids]):
            if pstate != self._sleep_of[row] and pstate not in self._computing[row]:
                kind = self.cluster.platform.kinds[row].name
                raise PolicyError(
                    f"P-state {pstate} is neither a computing nor the sleep state of {kind} hosts"
                )

    def directions(self, hosts: HostSet, pstate: int) -> dict[str, int]:
        """Count the hosts that ``pstate`` puts to sleep, wakes, or changes in speed only."""
        cluster = self.cluster
        sleep = self._sleep_of[cluster.platform.kind_of[hosts.ids]] == pstate
        state = cluster.state[hosts.ids]
        wake = ((state == ASLEEP) | (state == SWITCHING_OFF)) & ~sleep
        to_sleep, to_wake = int(np.count_nonzero(sleep)), int(np.count_nonzero(wake))
        counts = {
            "hosts_to_sleep": to_sleep,
            "hosts_to_wake": to_wake,
            "hosts_to_speed": len(hosts) - to_sleep - to_wake,
        }
        return {name: count for name, count in counts.items() if count}

    @property
    def busy(self) -> bool:
        """Whether any request has not been sent, or any command not been answered."""
        return bool(self.cluster.requests or self._sent)

    @property
    def unanswered(self) -> tuple[tuple[HostSet, int, bool], ...]:
        """Commands without an answer: hosts, target, and whether it is a switch."""
        return tuple(command for command, count in self._sent.items() for _ in range(count))

    def send(self, now: float) -> list[SetResourceState]:
        """Return the commands that go out now, and mark their hosts.

        Hosts that finish together are sent in one group, which gets one acknowledgement. Hosts out of
        service are not switched: Batsim would consider them back in service.
        """
        if not self.cluster.requests or self.cluster.hosts_version == self._seen_version:
            return []
        commands = self._ready(now)
        self._seen_version = self.cluster.hosts_version
        return commands

    def _ready(self, now: float) -> list[SetResourceState]:
        """Return the commands for hosts that are ready; drop requests for what hosts already are."""
        cluster = self.cluster
        hosts = (cluster.requested_pstate != NOT_REQUESTED).nonzero()[0]
        hosts = hosts[cluster.state[hosts] < SWITCHING_OFF]  # at rest: neither falling asleep nor waking
        pstate = cluster.requested_pstate[hosts]
        done = cluster.pstate[hosts] == pstate
        if any_of(done):
            cluster.drop_requests(hosts[done])
            hosts, pstate = hosts[~done], pstate[~done]
        if not len(hosts):
            return []
        kinds, state = cluster.platform.kind_of[hosts], cluster.state[hosts]
        to_sleep, asleep = pstate == self._sleep_of[kinds], state == ASLEEP
        ready = ~to_sleep | (state == IDLE)
        if not cluster.all_available:
            ready &= cluster.available[hosts] | ~(to_sleep | asleep)
        if not any_of(ready):
            return []
        alike = (pstate.astype(np.intp) * 2 + asleep) * len(self._computing) + kinds
        commands = []
        for number in distinct(alike[ready]):
            group = (ready & (alike == number)).nonzero()[0]
            first = group[0]
            commands.append(
                self._command(
                    hosts[group], int(pstate[first]), bool(asleep[first]), bool(to_sleep[first]), now
                )
            )
        return commands

    def _command(
        self, hosts: HostIds, pstate: int, waking: bool, to_sleep: bool, now: float
    ) -> SetResourceState:
        group = HostSet(hosts)
        command = (group, pstate, to_sleep or waking)
        self._sent[command] = self._sent.get(command, 0) + 1
        if to_sleep or waking:
            self.switches += len(hosts)
        else:
            self.speed_changes += len(hosts)
        if to_sleep:
            self.cluster.begin_switch(hosts, SWITCHING_OFF, pstate, now)
        elif waking:
            self.cluster.begin_switch(hosts, SWITCHING_ON, pstate, now)
        else:
            self.cluster.change_speed(hosts, pstate, now)
        return SetResourceState(now, group, pstate)

    def acknowledge(self, event: ResourceStateChanged) -> HostSet:
        """Process the answer to a command. Raises PeerError for an answer to a command that was not sent.

        A change of speed takes effect when it is requested: its acknowledgement changes nothing. Hosts that
        are being woken and are reported in their sleep P-state failed to wake: they are returned, and the
        answer to their command is that of its other hosts, if there are any.
        """
        for switch in (False, True) if event.switch is None else (event.switch,):
            command = (event.resources, event.state, switch)
            if unanswered := self._sent.pop(command, 0):
                if unanswered > 1:
                    self._sent[command] = unanswered - 1
                if switch:
                    self.cluster.end_switch(event.resources.ids, event.state, event.timestamp)
                return NO_HOSTS
        if event.switch is not False and self._report_asleep(event.resources, event.state):
            self._exclude(event.resources.ids)
            return event.resources
        if self._others_switch and self._take_over(event):
            return NO_HOSTS
        raise PeerError(
            f"the simulator reported that hosts {event.resources} reached P-state {event.state},"
            " which was not requested"
        )

    def _take_over(self, event: ResourceStateChanged) -> bool:
        """Take over what others have switched, or begin to wake; return whether that is possible."""
        cluster, hosts = self.cluster, event.resources
        if self._is_possible(hosts, event.state):
            cluster.take_over(hosts.ids, event.state, event.timestamp)
            return True
        if len(hosts) and hosts.ids.item(-1) < cluster.size and all_of(cluster.state[hosts.ids] == ASLEEP):
            waking = all_of(cluster.platform.on_pstate[hosts.ids] == event.state)
            if waking:
                awake = cluster.platform.initial_pstates[hosts.ids]
                cluster.begin_switch(hosts.ids, SWITCHING_ON, awake, event.timestamp)
            return waking
        return False

    def _report_asleep(self, hosts: HostSet, pstate: int) -> bool:
        """Whether hosts are all being woken, and ``pstate`` is that of their sleep."""
        cluster, ids = self.cluster, hosts.ids
        if not len(ids) or ids.item(-1) >= cluster.size:
            return False
        asleep = self._sleep_of[cluster.platform.kind_of[ids]] == pstate
        return all_of((cluster.state[ids] == SWITCHING_ON) & asleep)

    def _is_possible(self, hosts: HostSet, pstate: int) -> bool:
        """Whether hosts, none of which has a job, can be in ``pstate``, computing or asleep."""
        cluster, ids = self.cluster, hosts.ids
        if not len(ids) or ids.item(-1) >= cluster.size or any_of(cluster.state[ids] == BUSY):
            return False
        kinds = distinct(cluster.platform.kind_of[ids])
        return all(pstate == self._sleep_of[kind] or pstate in self._computing[kind] for kind in kinds)

    def _exclude(self, ids: HostIds) -> None:
        """Expect answers to switches without some hosts."""
        for command in [*self._sent]:
            hosts, pstate, switch = command
            rest = np.setdiff1d(hosts.ids, ids, assume_unique=True)
            if switch and len(rest) < len(hosts):
                del self._sent[command]
                if len(rest):
                    self._sent[HostSet(rest), pstate, switch] = 1


_ANSWERS = frozenset((RequestedCall, EnergyAnswer))
"""Events that only answer a request of the scheduler."""


class Calls:
    """Calls pending at the simulator.

    A pending call cannot be cancelled and delays the simulation's end, so a call is requested only
    if no pending one is early enough.
    """

    def __init__(self, lead: CallLead) -> None:
        """Begin with nothing pending; calls must be requested ``lead`` ahead."""
        self._lead = lead
        self._pending: list[float] = []
        self.first_s = math.inf
        """Time of the first pending call, s; infinite if none is pending."""

    @property
    def pending(self) -> int:
        """Number of calls that the simulator owes."""
        return len(self._pending)

    @property
    def times_s(self) -> tuple[float, ...]:
        """Times of the calls that the simulator owes, in order, s."""
        return (*self._pending,)

    def arrived(self, timestamp: float) -> None:
        """Note a call that has arrived."""
        if self._pending and self._pending[0] <= timestamp + TIME_TOLERANCE_S:
            self._lead.called(self._pending.pop(0), timestamp)
            self.first_s = self._pending[0] if self._pending else math.inf

    def ask(self, needed_s: float, now: float) -> float | None:
        """Return the time (s) of the call to request at ``now``, or None if a pending one is early enough.

        It is ``needed_s``, at the earliest one lead from now.
        """
        at = max(needed_s, now + self._lead.lead_s)
        if self.first_s <= at + TIME_TOLERANCE_S:
            return None
        self._pending.insert(0, at)
        self.first_s = at
        return at


class BusyLoop:
    """Counts how often a policy asks to be called immediately, or measures energy, while nothing happens."""

    def __init__(self, policy_name: str) -> None:
        """``policy_name`` is named in errors."""
        self._policy_name = policy_name
        self.calls = 0
        """Number of requests since something has happened."""
        self._until_s = -math.inf

    def hear(self, message: Message) -> None:
        """Start counting again if something has happened, or a minute has passed."""
        if message.now > self._until_s or not _ANSWERS.issuperset(map(type, message.events)):
            self.calls = 0

    def count(self, now: float) -> None:
        """Count one request at ``now`` (s). Raises PolicyError where the run would never end."""
        if not self.calls:
            self._until_s = now + 60.0
        self.calls += 1
        if self.calls > MOST_BUSY_CALLS:
            raise PolicyError(
                f"policy {self._policy_name!r} asked {MOST_BUSY_CALLS:,} times to be called immediately or"
                f" measured energy, by {now:g} s, without any other event: aborting to avoid an endless loop"
            )


class Kills:
    """Jobs with a kill pending: from the decision until the simulator reports their end."""

    def __init__(self, due: Due) -> None:
        """Begin with no kill pending. Kills are sent when ``due`` is."""
        self.jobs: dict[str, Job] = {}
        """Jobs with a kill pending, by id."""
        self.imminent: dict[str, Job] = {}
        """Jobs among them that are killed in a moment, or have been; without those with a notice."""
        self._at_s: dict[str, float] = {}
        """Times of the kills with a notice, by job, s."""
        self._rules: dict[str, str] = {}
        self._unsent: dict[str, Job] = {}
        """Jobs whose kill has not been sent."""
        self._counted: set[str] = set()
        self._due = due

    def add(self, job: Job, rule: str, now: float, notice_s: float = 0.0) -> None:
        """Kill ``job`` a moment after ``now`` (s), unless it ends before; ``rule`` is the reason.

        ``notice_s``: time for which the job continues before, s.
        """
        self.jobs[job.id] = self._unsent[job.id] = job
        self._rules[job.id] = rule
        if notice_s:
            self._at_s[job.id] = now + notice_s
            self._due.advance(now + notice_s)
        else:
            self.imminent[job.id] = job
            self._due.move(now + MOMENT_S)

    def hasten(self, now: float, rule: str) -> None:
        """Kill the jobs with a notice a moment after ``now`` (s), for ``rule``."""
        for job_id in self._at_s:
            self._rules[job_id] = rule
            self.imminent[job_id] = self.jobs[job_id]
            self._due.advance(now + MOMENT_S)
        self._at_s.clear()

    def count(self) -> None:
        """Note that the step's budget already assumes the jobs added so far to be gone."""
        self._counted.update(self.jobs)

    def is_counted(self, job_id: str) -> bool:
        """Whether the step's budget already includes what the job's end saves."""
        return job_id in self._counted

    def ended(self, job_id: str) -> str:
        """Forget a job that has ended for any reason; return the rule by which it was to be killed."""
        self.jobs.pop(job_id, None)
        self.imminent.pop(job_id, None)
        self._at_s.pop(job_id, None)
        self._counted.discard(job_id)
        if self._unsent.pop(job_id, None) is not None and not self._unsent:
            self._due.move(math.inf)
        return self._rules.pop(job_id, "")

    @property
    def sent(self) -> tuple[str, ...]:
        """Jobs whose kill was sent, and which have not ended."""
        return tuple(job_id for job_id in self.jobs if job_id not in self._unsent)

    def due(self, now: float) -> tuple[str, ...]:
        """Return the jobs to kill at ``now`` (s), except those that are about to reach their walltime."""
        unsent = self._unsent
        if self._at_s:
            self._end_notices(now)
        ids = tuple(
            job.id
            for job in unsent.values()
            if job.id not in self._at_s and abs(job.expected_end_s - now) > 2 * MOMENT_S
        )
        for job_id in ids:
            del unsent[job_id]
        soon = len(unsent) > len(self._at_s)
        self._due.move(now + MOMENT_S if soon else min(self._at_s.values(), default=math.inf))
        return ids

    def _end_notices(self, now: float) -> None:
        """Let the kills whose notice ends at ``now`` (s) be imminent."""
        for job_id, at_s in [*self._at_s.items()]:
            if at_s <= now + TIME_TOLERANCE_S:
                del self._at_s[job_id]
                self.imminent[job_id] = self.jobs[job_id]
