"""One simulation from the scheduler's side: sans-I/O, a message in and a reply out.

A session applies a message's events, lets the power side and the policy decide, and carries their actions
out, in decisions that Batsim accepts.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from beasy_sched.energy.grid import Announced
from beasy_sched.energy.site import Site
from beasy_sched.engine.actions import (
    NO_FACTS,
    Action,
    CallAt,
    Compensate,
    DecisionLog,
    Facts,
    Kill,
    MeasureEnergy,
    Postpone,
    Reject,
    SetPState,
    Start,
)
from beasy_sched.engine.commands import Calls, Commander, Kills
from beasy_sched.engine.findings import (
    SHORT_RUN_SHARE,
    KnownInputs,
    look_at_start,
    missing_powers,
    plan_length,
    plan_start,
    short_runs,
    unknown_speeds,
    unused_power,
)
from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.policy import Policy, PolicyCaller, View
from beasy_sched.engine.power import Asking, EnergySource, Open, Over, PowerSide, SessionOptions
from beasy_sched.engine.rolling import PLAN_RULES, PlanAnswer, PlanOutcome, Replanning
from beasy_sched.errors import ConfigError, PeerError, PolicyError
from beasy_sched.limits import (
    LARGEST_ENERGY_J,
    LATEST_S,
    LONGEST_ID,
    LONGEST_JOB,
    MOST_BUSY_CALLS,
    MOST_JOBS,
    MOST_JOBS_AT_ONCE,
    MOST_KEPT,
    MOST_UNKNOWN,
    shortened,
)
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.cluster import SWITCHING_OFF, Cluster, PowerAccount
from beasy_sched.model.hosts import NO_HOSTS, HostSet
from beasy_sched.model.jobs import ENDS, NO_TERMS, Job, JobState, Outcomes, TermsError, read_terms
from beasy_sched.model.platform import Platform, old_name_note, platform_of, start_note
from beasy_sched.model.workflow import PHASE_CAME_LATE, Workflows
from beasy_sched.protocol.notices import MACHINES_LEAVE, MACHINES_RETURN
from beasy_sched.units import TIME_TOLERANCE_S

_OVER = "the run is over"
"""The rule by which the run's end kills and rejects jobs."""
_REASONED = (JobState.REJECTED, JobState.POSTPONED, JobState.KILLED)
_UNKNOWN = "unknown event types and fields"
_NO_NEWS = frozenset((e.RequestedCall, e.EnergyAnswer))
"""Events that only answer a request of the scheduler."""


class Session:
    """Applies a message's events, asks the policy once, and answers with legal decisions."""

    # With more than 30 attributes, calls of methods would take twice as long without.
    __slots__ = (
        "_account",
        "_answered",
        "_arrived",
        "_busy_calls",
        "_busy_until_s",
        "_calls",
        "_decisions",
        "_delays",
        "_ended",
        "_ended_in_step",
        "_handlers",
        "_ids",
        "_kept",
        "_kept_for_good",
        "_kill_rules",
        "_kills",
        "_log",
        "_no_more_jobs",
        "_policy",
        "_queries",
        "_switching_told",
        "_told",
        "_with_terms",
        "begun",
        "cluster",
        "commander",
        "ended",
        "now",
        "options",
        "outcomes",
        "policy",
        "power",
        "reasons",
        "replanning",
        "view",
        "warnings",
        "windows",
        "workflows",
    )

    def __init__(
        self,
        policy: Policy,
        options: SessionOptions | None = None,
        log: DecisionLog | None = None,
    ) -> None:
        """Wait for SIMULATION_BEGINS."""
        self.policy = policy
        self._policy = PolicyCaller(policy)
        self.options = options or SessionOptions()
        self.now = -math.inf
        self.begun = False
        """Whether SIMULATION_BEGINS has come; before it, the cluster has no hosts."""
        self.ended = False
        self.power: PowerSide | None = None
        self.replanning: Replanning | None = None
        """Plans made during the run; None where there are none."""
        self.outcomes = Outcomes()
        self.workflows = Workflows(self.outcomes)
        """Jobs that wait for others, and those with a deadline."""
        self.reasons: dict[JobState, Counter[str]] = {state: Counter() for state in _REASONED}
        """How many jobs were rejected, postponed and killed for each rule. For postponed ones it is the last
        rule why they waited: empty where others were before them, and known only with a decision log."""
        self.windows: list[dict[str, int]] = []
        """Outcomes so far at the end of each window but the last."""
        self.warnings: list[str] = []
        self._told: dict[str, set[str]] = {}
        """Those among them that may be many, by what they are about."""
        self._log = log
        self._decisions: list[d.Decision] = []
        self._arrived: list[Job] = []
        self._ended: list[Job] = []
        """Jobs that have ended since the policy's `schedule` was last called."""
        self._ended_in_step: list[Job] = []
        """The same for its `power_actions`."""
        self._busy_calls = 0
        """How often the policy has asked for an immediate call since anything happened."""
        self._busy_until_s = -math.inf
        self._switching_told = False
        """Whether it was said that hosts went out of service while they were switched."""
        self._ids: set[str] = set()
        self._kept = self._kept_for_good = 0
        """At most how many characters ids and members of jobs have; those of members that are kept to the
        end of the run."""
        self._with_terms = 0
        """How many jobs had terms: those are kept to the end."""
        self._no_more_jobs = False
        """Whether all jobs have been submitted."""
        self._calls = Calls()
        self._kills = Kills()
        self._kill_rules: dict[str, str] = {}
        """Why jobs are being killed, by id."""
        self._queries: deque[bool] = deque()
        """Unanswered energy queries; True if the power side sent the query."""
        self._account: PowerAccount | None = None
        """What answers the policy's measurements where the simulator answers no queries; else None."""
        self._answered = False
        """Whether it has, since the policy was last asked."""
        self._delays: dict[str, set[str]] = {}
        """Names of the profiles that load no host, by workload that has any."""
        self._set_up(Cluster(Platform((), np.empty(0, dtype=np.intp), ())))
        self._handlers: dict[type[e.Event], Callable[[Any], None]] = {
            e.SimulationBegins: self._on_begins,
            e.SimulationEnds: self._on_ends,
            e.JobSubmitted: self._on_submitted,
            e.JobCompleted: self._on_completed,
            e.JobsKilled: lambda event: None,  # each job's JobCompleted came before
            e.ResourceStateChanged: lambda event: self.commander.acknowledge(event),
            e.NoMoreJobs: self._on_no_more_jobs,
            e.MachinesChanged: self._on_machines,
            e.PowerAnnounced: self._on_power,
            e.UnreadableNotice: self._on_unreadable,
            e.Notify: lambda event: None,  # nothing that the scheduler acts on
            e.RequestedCall: lambda event: self._calls.arrived(event.timestamp),
            e.EnergyAnswer: self._on_answer,
            e.UnknownEvent: lambda event: self._warn_of_some(
                _UNKNOWN, f"unknown event type {shortened(event.type)!r} (ignored)"
            ),
        }

    def step(self, message: e.Message) -> d.Reply:
        """Answer one message.

        Raises PeerError if the simulator violates the protocol, PolicyError if the policy returns an
        illegal action; the session is then over.
        """
        now, before_s = message.now, max(self.now, 0.0)
        if now < before_s - TIME_TOLERANCE_S:
            raise PeerError(f"time runs backwards: a message for {now} s came after {before_s} s")
        if not now <= LATEST_S:
            raise PeerError(f"the message is for {now:g} s: no simulation lasts that long")
        self.now = now
        decisions = self._decisions = []
        if self.begun:
            if self.ended:
                raise PeerError(f"a message for {now} s came after SIMULATION_ENDS")
            self._arrived = []
        elif not message.events or type(message.events[0]) is not e.SimulationBegins:
            raise PeerError("the first event of a simulation must be SIMULATION_BEGINS")
        if self._busy_calls and (
            now > self._busy_until_s or not _NO_NEWS.issuperset(map(type, message.events))
        ):
            self._busy_calls = 0
        handlers = self._handlers
        earliest_s, latest_s = before_s - TIME_TOLERANCE_S, now + TIME_TOLERANCE_S
        for event in message.events:
            at_s = event.timestamp
            if not earliest_s <= at_s <= latest_s:
                raise PeerError(
                    f"an event's timestamp is {at_s} s, in a message for {now} s after events at {before_s} s"
                )
            if at_s > before_s:
                before_s, earliest_s = at_s, at_s - TIME_TOLERANCE_S
            handlers[type(event)](event)
        if self.ended and type(message.events[-1]) is not e.SimulationEnds:
            raise PeerError("no event may follow SIMULATION_ENDS in its message")
        for path in message.unknown_fields:
            self._warn_of_some(_UNKNOWN, f"unknown field {path.rpartition('].')[2]} (ignored)")
        if not self.ended:
            if self.workflows.held:
                self._release()
            self._decide()
        return d.Reply(now, decisions)

    def take_plan(self, answer: PlanAnswer) -> None:
        """Let the plan that was asked for take effect with the next step, or go on with the one there is."""
        if self.replanning is None:
            raise RuntimeError("a plan was given to a run that makes none")
        planning = self.replanning.take(answer)
        request, answer = planning.request, planning.answer
        rolled = request.rolled
        facts: dict[str, float | int | str] = {
            "number": rolled.number,
            "start_at_s": request.start_s,
            "asked_at_s": rolled.asked_s,
            "battery_j": rolled.battery_j,
            **({"hydrogen_kg": rolled.hydrogen_kg} if rolled.hydrogen_kg else {}),
            "jobs_running": rolled.jobs_running,
            "jobs_waiting": rolled.jobs_waiting,
        }
        if answer.outcome is not PlanOutcome.MADE:
            self._warn(
                f"no new plan from {request.start_s:g} s on: {answer.problem}; the one before stays in effect"
            )
        if self._log is not None:  # the message of that moment has not been applied yet
            self._log(request.start_s, "plan", "", "", PLAN_RULES[answer.outcome], facts)

    def results(self) -> Any:
        """Return the policy's own sections of the summary. Raises PolicyError if the policy fails."""
        return self._policy.results(self.now) if self._policy.begun else {}

    @property
    def submitted(self) -> int:
        """Number of jobs submitted so far."""
        return len(self._ids)

    def _show(self) -> None:
        """Update the policy's view, whatever the policy has written to it."""
        self.view.show(self.now, self._arrived, self._ended, self.power.budget if self.power else None)

    # --- events ---------------------------------------------------------------------------------

    def _on_begins(self, event: e.SimulationBegins) -> None:
        if self.begun:
            raise PeerError("a second SIMULATION_BEGINS came in the middle of a simulation")
        options = self.options
        platform = platform_of(event, options.platform)
        self._set_up(Cluster(platform))
        self.begun = True
        notes = (old_name_note(resource.name, resource.properties) for resource in event.resources)
        if note := next(filter(None, notes), None):
            self._warn(note)
        if options.platform is None and (note := start_note(event, platform)):
            self._warn(note)
        for workload, profiles in event.profiles.items():
            if names := {name for name, profile in profiles.items() if profile.get("type") == "delay"}:
                self._delays[workload] = names
        if options.site is not None:
            self.power = self._power_side(options.site, event.answers_queries)
            if options.replan is not None and options.plans is not None:
                rule, windows = options.replan, options.windows
                self.replanning = Replanning(rule, options.plans, options.site, platform, windows)
        if not event.answers_queries:
            self._account = self.cluster.open_account() if self.power is None else self.power.account
        if event.awaits_registration:  # no policy registers jobs
            self._decisions.append(d.FinishRegistration(self.now))
        self._show()
        self._check_speeds(platform)
        if not options.inputs_checked:
            self._look_at_start(platform)
        self._policy.begin(self.view, self.now)

    def _set_up(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.commander = Commander(cluster)
        self.view = View(cluster, self.options, workflows=self.workflows, wants_facts=self._log is not None)

    def _check_speeds(self, platform: Platform) -> None:
        if self.policy.needs_speeds and not platform.has_speeds:
            kind = next(index for index, kind in enumerate(platform.kinds) if not kind.speeds_flops)
            host = platform.names[int(np.argmax(platform.kind_of == kind))]
            raise ConfigError(
                f"policy {self._policy.name!r} requires the servers' speeds, but the simulator sent none"
                f" for host {host!r}: pass the platform file with -p/--platform, or use one made by"
                " 'beasy-sched generate platform'"
            )
        if not platform.has_speeds and (found := unknown_speeds(platform)):
            self._warn(found.text)

    def _look_at_start(self, platform: Platform) -> None:
        options = self.options
        known = KnownInputs(platform, site=options.site, windows=options.windows, policy=self._policy)
        for finding in look_at_start(known):
            self._warn(finding.text)

    def _power_side(self, site: Site, answers_queries: bool) -> PowerSide:
        options = self.options
        energy = options.energy if answers_queries else EnergySource.MODEL
        if not options.power_actions and energy is EnergySource.BATSIM:
            energy = EnergySource.MODEL
            self._warn(
                "energy queries are disabled without power actions: energy is computed from"
                " host states and powers"
            )
        if options.plans is not None:
            try:
                options.plans.check_fits(self.cluster.platform, site)
            except ConfigError as error:
                raise ConfigError(f"the plan does not fit this run: {error}") from None
            found = [plan_start(options.plans)] if options.replan or not options.inputs_checked else []
            if not (options.replan or options.inputs_checked):
                found.append(plan_length(options.plans, site, options.windows))
            for finding in filter(None, found):
                self._warn(finding.text)
        return PowerSide(site, self.cluster, replace(options, energy=energy))

    def _on_ends(self, event: e.SimulationEnds) -> None:
        self.ended = True
        if not self.options.inputs_checked:
            self._look_back()
        for job in [*self.cluster.running.values()]:
            self.outcomes.add(self.cluster.end(job.id, JobState.UNFINISHED, self.now))
        for job in self._waiting():
            self._drop(job, JobState.POSTPONED, _OVER)

    def _look_back(self) -> None:
        """Warn of inputs that could not be checked before the run."""
        if self.power is not None and (short := self.power.short_production()):
            self._warn(short.text)
        for finding in self._policy.check_inputs(KnownInputs(came=self.workflows.with_deadline)):
            self._warn(finding.text)
        if self._delays:
            return  # their run time does not depend on the hosts
        share = self.outcomes.median_run_share()
        if share is not None and share < SHORT_RUN_SHARE:
            self._warn(short_runs(share, "are the workload's flops meant for this platform?").text)

    def _on_submitted(self, event: e.JobSubmitted) -> None:
        request = event.job
        if request.id in self._ids:
            raise PeerError(f"job {request.id} was submitted twice")
        self._find_room(request)
        self._ids.add(request.id)
        job = Job(request)
        if request.extras is not None:
            try:
                job.terms = read_terms(job.id, request.extras, job.subtime_s)
            except TermsError as error:
                self._warn_of_some("refused jobs", f"job {job.id} was refused: {error}")
                wrong = {"member": str(error)}
                self._refuse(job, JobState.REJECTED, "one of its members cannot be read", wrong)
                return
        waits = False
        if job.terms is not NO_TERMS:
            self._with_terms += 1
            self._kept_for_good += len(repr(request.extras))
            waits = self._waits(job)
        if job.res < 1:
            self._refuse(job, JobState.REJECTED, "asks for no host", {"hosts_asked": job.res})
            return
        if job.res > self.cluster.size:
            facts = {"hosts_asked": job.res, "hosts_in_all": self.cluster.size}
            self._refuse(job, JobState.REJECTED, "asks for more hosts than there are", facts)
            return
        if event.profile or self._delays:
            job.computes = _computes(event, self._delays)
        if not waits:
            self._arrived.append(self.cluster.submit(job))

    def _find_room(self, request: e.JobRequest) -> None:
        """Raise PeerError for a job that is too large, or one too many, to be kept."""
        submitted, size = len(self._ids), len(request.id)
        if size > LONGEST_ID or len(request.profile) > LONGEST_ID:
            raise PeerError(
                f"job {shortened(request.id)}: its id or profile has more than {LONGEST_ID:,} characters"
            )
        if submitted >= MOST_JOBS:
            raise PeerError(f"more than {MOST_JOBS:,} jobs were submitted: no simulation has that many")
        if max(submitted - len(self.outcomes), self._with_terms) >= MOST_JOBS_AT_ONCE:
            raise PeerError(
                f"more than {MOST_JOBS_AT_ONCE:,} jobs wait, run or have terms: no simulation has that many"
            )
        if request.extras is not None:
            size += len(repr(request.extras))
            if size > LONGEST_JOB:
                raise PeerError(
                    f"job {shortened(request.id)} has more than {LONGEST_JOB:,} characters of members"
                )
        self._kept += size
        if self._kept > MOST_KEPT:
            self._count_kept()

    def _count_kept(self) -> None:
        """Count anew what is kept of jobs. Raises PeerError where it is too much."""
        kept = (job.request for job in (*self._waiting(), *self.cluster.running.values()))
        members = sum(len(repr(request.extras)) for request in kept if request.extras is not None)
        self._kept = self._kept_for_good + members + sum(map(len, self._ids))
        if self._kept > MOST_KEPT // 2:
            raise PeerError(
                f"the ids and members of jobs have more than {MOST_KEPT // 2:,} characters together: no"
                " simulation has that many"
            )

    def _waits(self, job: Job) -> bool:
        """Take a job into its workflow; return whether it has to wait for others."""
        workflows = self.workflows
        known = len(workflows.early)
        waits = not workflows.submit(job, self.now)
        if len(workflows.early) > known:
            for early in [*workflows.early.values()][known:]:
                self._note("queue", PHASE_CAME_LATE, {"lower_phase": job.terms.phase or 0}, early)
        return waits

    def _on_completed(self, event: e.JobCompleted) -> None:
        state = ENDS[event.end]
        if state is JobState.KILLED and self._over:
            state = JobState.UNFINISHED
        if self.power is not None:
            running = self.cluster.running.get(event.job_id)
            if running is not None and not self._kills.is_counted(running.id):
                self.power.release(running, self.now)
        if self._kills.jobs:
            self._kills.ended(event.job_id)
        job = self.cluster.end(event.job_id, state, event.timestamp)
        self._ended.append(job)
        if self.power is not None:
            self._ended_in_step.append(job)
        self.outcomes.add(job)
        rule = self._kill_rules.pop(job.id, "")
        if state is JobState.KILLED:
            self.reasons[state][rule] += 1
        if job.terms is not NO_TERMS or self.workflows.watches_all:
            self.workflows.end(job, event.timestamp, finished=state is JobState.FINISHED)

    def _on_no_more_jobs(self, event: e.NoMoreJobs) -> None:
        self._no_more_jobs = True

    def _on_machines(self, event: e.MachinesChanged) -> None:
        hosts = event.hosts
        if np.any(hosts.ids >= self.cluster.size):
            text = shortened(repr(event.data.get("resources")))
            raise PeerError(f"NOTIFY {event.kind}: found resources {text}, expected hosts such as '0-3'")
        if not event.available:
            self._tell_switching(hosts, event.timestamp)
        self.cluster.set_available(hosts.ids, event.available)

    def _on_power(self, event: e.PowerAnnounced) -> None:
        if self.power is None:
            self._warn_of_unused_power()
            return
        self.power.set_production(event.power_w, event.timestamp, event.sun_w)
        if event.price_per_kwh is not None or event.carbon_g_per_kwh is not None:
            self.power.set_rates(Announced(event.price_per_kwh, event.carbon_g_per_kwh), event.timestamp)

    def _on_unreadable(self, event: e.UnreadableNotice) -> None:
        """Refuse a notice that cannot be read, unless it announces power to a run without a site."""
        if self.power is not None or event.kind in (MACHINES_LEAVE, MACHINES_RETURN):
            raise PeerError(event.problem)
        self._warn_of_unused_power()

    def _warn_of_unused_power(self) -> None:
        if not self.options.inputs_checked:
            self._warn(unused_power().text)

    def _tell_switching(self, hosts: HostSet, now: float) -> None:
        """Warn, once, of hosts that go out of service while they are switched on or off."""
        switching = hosts.ids[self.cluster.state[hosts.ids] >= SWITCHING_OFF]
        if len(switching) and not self._switching_told:
            self._switching_told = True
            self._warn(
                f"hosts {HostSet(switching)} went out of service at {now:g} s while they were switched on or"
                " off: Batsim 4 aborts where such hosts come back into service after the end of the switch"
            )

    def _on_answer(self, event: e.EnergyAnswer) -> None:
        if not 0 <= event.consumed_energy_j <= LARGEST_ENERGY_J:
            raise PeerError(f"ANSWER: found consumed_energy {event.consumed_energy_j:g}, expected joules")
        self.view.measure(event.timestamp, event.consumed_energy_j)
        if self._queries and self._queries.popleft() and self.power is not None:
            self.power.answer(event.consumed_energy_j)

    # --- decisions --------------------------------------------------------------------------------

    def _release(self) -> None:
        """Queue the jobs whose predecessors have finished, and refuse those that can never start."""
        for job, lost in self.workflows.release(self.now):
            if lost:
                self._refuse(job, JobState.REJECTED, lost)
            else:
                self._arrived.append(self.cluster.submit(job))
        if not self._no_more_jobs:
            return
        idle = not self.cluster.running and not self.cluster.queue
        for job in self.workflows.hopeless(self._ids, nothing_else=idle):
            missing = ", ".join(map(shortened, job.terms.after[:5]))
            self._warn_of_some("waiting jobs", f"job {job.id} waits for jobs that never come: {missing}")
            self._refuse(job, JobState.POSTPONED, "waits for jobs that never come")

    def _decide(self) -> None:
        if self.power is not None:
            self._advance_power(self.power)
        kills = self._kills
        if kills.jobs and (due := kills.due(self.now)):
            self._decisions.append(d.KillJobs(self.now, due))
        if self.cluster.requests:
            self._send_requests()
        if not kills.jobs and (self.power is None or self.power.is_open(self.now)):
            self._schedule()
            while self._answered:  # where the simulator answers a query, another message brings the answer
                self._arrived = []
                self._schedule()
        self._ask_for_call()
        if self.replanning is not None and self.power is not None:
            self._show()
            self.replanning.look(self.power, self.view, self.outcomes.median_run_share)

    def _schedule(self) -> None:
        """Let the policy act."""
        self._answered = False
        self._show()
        for action in self._policy.ask("schedule", self.view, self.now):
            self._commit(action)
        self._ended = []
        if self.cluster.requests:
            self._send_requests()

    def _advance_power(self, power: PowerSide) -> None:
        """Settle and open steps as they fall due."""
        entered = power.advance(self.now)
        if type(entered) is Open:
            self._begin_step(power, entered.budget)
        elif type(entered) is Asking:
            self._query(for_power_side=True)
        elif type(power.phase) is Over:
            self._finish()

    def _begin_step(self, power: PowerSide, budget: StepBudget) -> None:
        """Let the policy act on the power of a step that has just been opened, then the guard."""
        self._show()
        self.view.show_step(budget, power.storage, self._ended_in_step)
        while budget.start_s >= (len(self.windows) + 1) * power.site.window_s - TIME_TOLERANCE_S:
            self.windows.append(self.outcomes.counts())
        actions = self._policy.ask("power_actions", self.view, self.now)
        for action in actions:
            self._commit(action)
        self._ended_in_step = []
        told_only = all(type(action) is Compensate for action in actions)
        for action in power.shed(budget, as_opened=told_only):
            self._commit(action)
        self._kills.count()

    def _send_requests(self) -> None:
        self._decisions.extend(self.commander.send(self.now))

    def _commit(self, action: Action) -> None:
        if type(action) is Start:
            job, now = action.job, self.now
            hosts = self.cluster.start(job, action.hosts, now)
            self._decisions.append(d.ExecuteJob(now, job.id, hosts))
            if self._log is not None:
                self._log(now, "start", job.id, str(hosts), action.rule, action.facts)
        elif type(action) is Reject:
            if action.job.state is not JobState.WAITING:
                raise PolicyError(f"job {action.job.id} is {action.job.state.value}: it cannot be rejected")
            if self.workflows.held.get(action.job.id) is not action.job:
                self.cluster.queue.check_holds(action.job)
            self._refuse(action.job, JobState.REJECTED, action.rule, action.facts)
        elif type(action) is SetPState:
            self._set_pstate(action)
        elif type(action) is Postpone:
            self._postpone(action)
        elif type(action) is Compensate:
            self._note("compensate", action.rule, action.facts)
        elif type(action) is CallAt:
            if action.at <= self.now:
                self._count_busy_call()
            self._calls.want(float(action.at), self.now)
        elif type(action) is MeasureEnergy:
            self._measure()
        elif type(action) is Kill:
            self._kill(action.job, action.rule, action.facts)

    def _set_pstate(self, action: SetPState) -> None:
        if not self.options.power_actions or not len(action.hosts):
            return
        self.cluster.check_hosts(action.hosts, f"P-state {action.pstate} is wanted of")
        self.commander.check(action.hosts, action.pstate)
        if self._log is not None:
            facts = {**self.commander.directions(action.hosts, action.pstate), **action.facts}
            self._note(f"P-state {action.pstate}", action.rule, facts, hosts=action.hosts)
        self.cluster.request(action.hosts.ids, action.pstate)

    def _postpone(self, action: Postpone) -> None:
        """Log why a job waits, if the reason has changed."""
        job = action.job
        if job.state is not JobState.WAITING:
            raise PolicyError(f"job {job.id} is {job.state.value}: it cannot be postponed")
        if self._log is not None and job.postponed_for != action.rule:
            job.postponed_for = action.rule
            self._note("postpone", action.rule, action.facts, job)

    def _measure(self) -> None:
        if not self.options.power_actions and self._account is None:
            raise ConfigError(
                f"policy {self._policy.name!r} measures energy, which requires Batsim's -E:"
                " run both with power actions enabled"
            )
        if not self.cluster.platform.has_powers and (found := missing_powers(self.cluster.platform)):
            self._warn(found.text)
        self._count_busy_call()
        if self._account is None:
            self._query(for_power_side=False)
            return
        self._account.advance(self.now)
        self.view.measure(self.now, float(self._account.energy_by_use_j.sum()))
        self._answered = True

    def _count_busy_call(self) -> None:
        """Raise PolicyError for a policy that keeps requesting calls while nothing happens."""
        if not self._busy_calls:
            self._busy_until_s = self.now + 60.0
        self._busy_calls += 1
        if self._busy_calls > MOST_BUSY_CALLS:
            raise PolicyError(
                f"policy {self._policy.name!r} asked {MOST_BUSY_CALLS:,} times to be called immediately or"
                f" measured energy, by {self.now:g} s, while nothing else happened: the run would never end"
            )

    def _query(self, *, for_power_side: bool) -> None:
        self._queries.append(for_power_side)
        self._decisions.append(d.QueryEnergy(self.now))

    def _ask_for_call(self) -> None:
        now, calls = self.now, self._calls
        if self._kills.jobs and (at := self._kills.next_call_s) is not None:
            calls.want(at, now)
        if self.power is not None and (at := self.power.next_call_s) is not None:
            calls.want(at, now)
        if self.workflows.held and (at := self.workflows.next_call_s) is not None:
            calls.want(at, now)
        if calls.wanted_s < math.inf and (at := calls.to_ask()) is not None:
            self._decisions.append(d.CallMeLater(now, at))

    # --- ends of jobs and of the run ------------------------------------------------------------------

    def _kill(self, job: Job, rule: str, facts: Facts = NO_FACTS) -> None:
        """Kill a job a moment later: it may have just ended, with the event still to come."""
        if job.id in self._kills.jobs or self.cluster.running.get(job.id) is not job:
            return
        self._kills.add(job, self.now)
        self.cluster.set_kill_pending(job)
        self._kill_rules[job.id] = rule
        self._note("kill", rule, facts, job, job.hosts)

    def _finish(self) -> None:
        """End the run: kill running jobs (counted as not completely finished) and reject waiting ones."""
        self._show()
        for job in [*self.cluster.running.values()]:
            self._kill(job, _OVER)
        for job in self._waiting():
            waited = {"waited_s": self.now - job.subtime_s}
            self._refuse(job, JobState.POSTPONED, _OVER, waited)

    def _refuse(self, job: Job, state: JobState, rule: str, facts: Facts = NO_FACTS) -> None:
        self._drop(job, state, rule)
        self._decisions.append(d.RejectJob(self.now, job.id))
        self._note("reject", rule, facts, job)

    def _drop(self, job: Job, state: JobState, rule: str) -> None:
        self.cluster.drop(job, state)
        self.reasons[state][job.postponed_for if rule == _OVER else rule] += 1
        self.outcomes.add(job)
        if job.terms is not NO_TERMS or self.workflows.watches_all:
            self.workflows.end(job, self.now, finished=False)

    def _waiting(self) -> list[Job]:
        """All jobs that have not started, queued or held for others."""
        return [*self.cluster.queue, *self.workflows.held.values()]

    # --- notes and warnings -------------------------------------------------------------------------------

    @property
    def _over(self) -> bool:
        """Whether the run's last window has ended."""
        return self.power is not None and isinstance(self.power.phase, Over)

    def _note(
        self, what: str, rule: str, facts: Facts, job: Job | None = None, hosts: HostSet = NO_HOSTS
    ) -> None:
        """Write a line to the decision log, if there is one."""
        if self._log is not None:
            self._log(self.now, what, "" if job is None else job.id, str(hosts), rule, facts)

    def _warn_of_some(self, what: str, text: str) -> None:
        """Warn of one of many, once each, up to a limit; ``what`` says of all what they are about."""
        told = self._told.setdefault(what, set())
        if len(told) > MOST_UNKNOWN or text in told:
            return
        told.add(text)
        if len(told) > MOST_UNKNOWN:
            text = f"more than {MOST_UNKNOWN} {what}: the rest are not listed"
        self.warnings.append(text)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def _computes(event: e.JobSubmitted, delays: Mapping[str, set[str]]) -> bool:
    """Tell whether a job loads its hosts; only the type of its profile is read."""
    if event.profile:
        return event.profile.get("type") != "delay"
    workload, _, _ = event.job.id.partition("!")
    return event.job.profile not in delays.get(workload, ())
