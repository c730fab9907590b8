"""One simulation from the scheduler's side: sans-I/O, a message in and a reply out.

A session applies a message's events, lets the power side and the policy decide, and carries their actions
out, in decisions that Batsim accepts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET

from beasy_sched.arrays import all_of
from beasy_sched.energy.grid import Announced
from beasy_sched.engine import setup
from beasy_sched.engine.account import LostServers, SessionAccount
from beasy_sched.engine.actions import (
    NO_FACTS,
    Action,
    CallAt,
    Compensate,
    DecisionLog,
    FactDict,
    Facts,
    Kill,
    MeasureEnergy,
    Offer,
    Postpone,
    Reject,
    SetPState,
    Start,
)
from beasy_sched.engine.agenda import Agenda, Turn
from beasy_sched.engine.call_lead import CallLead
from beasy_sched.engine.energy_queries import EnergyQueries
from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.intake import Intake
from beasy_sched.engine.lives import DrawnWork, Lives, Return
from beasy_sched.engine.lost import HostLogLine, LostHosts
from beasy_sched.engine.notes import Notes
from beasy_sched.engine.placement import Offers, guards_offers, offer_facts
from beasy_sched.engine.policy import Policy, PolicyCaller, View
from beasy_sched.engine.power_side import Asking, Open, Over, PowerSide, SessionOptions
from beasy_sched.engine.pstate_commands import BusyLoop, Calls, Commander, Kills
from beasy_sched.engine.run_findings import (
    SHORT_RUN_SHARE,
    KnownInputs,
    missing_powers,
    short_runs,
    unused_power,
)
from beasy_sched.engine.session_words import (
    INVALID_FIELDS,
    LOWER_PHASE_LATE,
    NEVER_FREE,
    NO_HOST_ASKED,
    NOT_STARTED,
    PREDECESSOR_UNFINISHED,
    RUN_OVER,
    RUN_OVER_KILLED,
    RUNS,
    STARTED_BY_OTHERS,
    STILL_WAITING,
    SUBMITTED_AGAIN,
    TOO_MANY_HOSTS_ASKED,
    WITHDRAWN,
    Rule,
)
from beasy_sched.engine.under_way import UnderWay
from beasy_sched.errors import ConfigError, PeerError, PolicyError
from beasy_sched.limits import LATEST_S, shortened
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.choices import Placement
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.host_states import SWITCHING_OFF
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import ENDS, NO_TERMS, Job, JobState, Outcomes, TermsError
from beasy_sched.model.platform import Platform, platform_of
from beasy_sched.model.restarts import NO_RESTART_SECTION
from beasy_sched.model.shared_cluster import SharedCluster
from beasy_sched.model.workflow import Workflows
from beasy_sched.protocol.notices import JOB_RUNS, MACHINES_LEAVE, MACHINES_RETURN
from beasy_sched.units import TIME_TOLERANCE_S

if TYPE_CHECKING:
    from beasy_sched.engine.replanning import Replanning
    from beasy_sched.planner.requests import PlanAnswer

_REASONED = (JobState.REJECTED, JobState.POSTPONED, JobState.KILLED)
_UNKNOWN = "unknown event types and fields"


class Session:
    """Applies a message's events, asks the policy once, and answers with legal decisions."""

    def __init__(
        self,
        policy: Policy,
        options: SessionOptions | None = None,
        log: DecisionLog | None = None,
    ) -> None:
        """Wait for SIMULATION_BEGINS.

        Raises ConfigError for a policy that cannot offer servers where others place jobs.
        """
        self.policy = policy
        self.options = options or SessionOptions()
        self._is_external = self.options.placement is Placement.EXTERNAL
        self.now = -math.inf
        self.begun = False
        """Whether SIMULATION_BEGINS has arrived; before it, the cluster has no hosts."""
        self.ended = False
        self.power: PowerSide | None = None
        self.replanning: Replanning | None = None
        """Plans made during the run; None where there are none."""
        self.outcomes = Outcomes()
        self.workflows = Workflows(self.outcomes)
        """Jobs that wait for others, and those with a deadline."""
        self.reasons: dict[JobState, Counter[str]] = {state: Counter() for state in _REASONED}
        """Number of jobs rejected, postponed and killed for each rule. A postponed job counts for the last
        rule for which it waited: empty if other jobs were before it; available only with a decision log."""
        self.windows: list[dict[str, int]] = []
        """Outcomes so far at the end of each window but the last."""
        self._notes = Notes(log)
        self._policy = PolicyCaller(policy)
        setup.check_placement(self.options.placement, policy, self._policy.name)
        self._intake = Intake(self.outcomes, lambda: (*self.waiting_jobs(), *self.cluster.running.values()))
        self._lead = CallLead(0.0)
        self._calls = Calls(self._lead)
        site = self.options.site
        restarts = NO_RESTART_SECTION if site is None else site.restarts
        self.lives = Lives(self.options.on_kill, restarts, lambda: self.now)
        """Jobs that come back after a kill."""
        self._lose = self.lives.lost_flops
        self._busy_loop = BusyLoop(self._policy.name)
        self._measuring = EnergyQueries()
        self._is_new = False
        """Whether the policy replaces another, and has not begun."""
        self._measured = False
        """Whether the daemon's own account has answered since the policy was last asked."""
        self._switching_reported = False
        """Whether a warning was given of hosts that went out of service while they were switched."""
        self._decisions: list[d.Decision] = []
        self._arrived: list[Job] = []
        self._ended: list[Job] = []
        """Jobs that have ended since the policy's `schedule` was last called."""
        self._ended_in_step: list[Job] = []
        """Jobs that have ended since the policy's `power_actions` was last called."""
        self._apply_event, self._carry_out = self._handlers(), self._action_handlers()
        self._set_up(Cluster(Platform((), np.empty(0, dtype=np.intp), ())))

    def _handlers(self) -> dict[type[e.Event], Callable[[Any], None]]:
        """Return the handler of each event type."""
        return {
            e.SimulationBegins: self._on_begins,
            e.SimulationEnds: self._on_ends,
            e.JobSubmitted: self._on_submitted,
            e.JobCompleted: self._on_completed,
            e.JobsKilled: self._on_killed,
            e.ResourceStateChanged: self._on_switched,
            e.NoMoreJobs: self._on_no_more_jobs,
            e.MachinesChanged: self._on_machines,
            e.JobWithdrawn: self._on_withdrawn,
            e.JobRuns: self._on_runs,
            e.JobNotStarted: self._on_not_started,
            e.QueueOrdered: self._on_ordered,
            e.LevelsMeasured: self._on_levels,
            e.PowerAnnounced: self._on_power,
            e.UnreadableNotice: self._on_unreadable,
            e.Notify: lambda event: None,  # nothing that the scheduler acts on
            e.RequestedCall: lambda event: self._calls.arrived(event.timestamp),
            e.EnergyAnswer: self._on_answer,
            e.UnknownEvent: lambda event: self._notes.warn_of_some(
                _UNKNOWN, f"unknown event type {shortened(event.type)!r} (ignored)"
            ),
        }

    def _action_handlers(self) -> dict[type[Action], Callable[[Any], None]]:
        """Return the handler of each action type."""
        return {
            Start: self._reject_start if self._is_external else self._start,
            Kill: lambda action: self._kill(action.job, action.rule, action.facts),
            Reject: self._reject,
            Postpone: self._postpone,
            SetPState: self._set_pstate,
            Compensate: lambda action: self._notes.log(self.now, "compensate", action.rule, action.facts),
            CallAt: self._call_at,
            MeasureEnergy: self._measure,
            Offer: self._offer,
        }

    def _set_up(self, cluster: Cluster) -> None:
        """Begin with ``cluster``, and with nothing on the agenda."""
        self.agenda = agenda = Agenda()
        self.cluster = cluster
        self.commander = Commander(cluster, others_switch=self._is_external)
        self._offers = Offers([kind.name for kind in cluster.platform.kinds])
        self._releases = agenda.enter(Turn.RELEASES, self._release)
        self._lost_due = agenda.enter(Turn.HOSTS, self._retry_hosts)
        self.lost = LostHosts(cluster, self.options.retry_s, self._lost_due)
        self._kills = Kills(agenda.enter(Turn.KILLS, self._send_kills))
        self._policys_call = agenda.enter(Turn.CALL)
        self.view = View(cluster, self.options, workflows=self.workflows, wants_facts=self._notes.has_log)

    def check_platform(self) -> None:
        """Check before the run what the options' platform allows, if there is one. Raises ConfigError."""
        setup.check_platform(self.options, self.policy, self._policy.name)

    # --- a message: apply its events, decide, commit ----------------------------------------------

    def step(self, message: e.Message) -> d.Reply:
        """Answer one message.

        Raises PeerError if the simulator violates the protocol, PolicyError if the policy returns an
        illegal action; the session is then over.
        """
        self._decisions, self._arrived = [], []
        self._apply(message)
        agenda, now = self.agenda, message.now
        if not self.ended:
            if self._lead.is_needed:
                self._lead.count(self._parts())
            if self.power is not None:
                self.power.hear(now)
            if self.workflows.held:  # any event may have released them
                self._releases.move(now)
            if self._policys_call.at_s < math.inf:
                self._policys_call.move(math.inf)
            if self._is_new:
                self._begin_new_policy()
            if agenda.next_s <= now + TIME_TOLERANCE_S:
                agenda.run(now, Turn.RELEASES, Turn.KILLS)
            if self.cluster.requests:
                self._decisions += self.commander.send(now)
            if not self._kills.imminent and (self.power is None or self.power.is_open(now)):
                self._schedule()
            if agenda.next_s <= now + TIME_TOLERANCE_S:
                agenda.run(now, Turn.PLAN, Turn.PLAN)
            if agenda.next_s < self._calls.first_s - TIME_TOLERANCE_S:
                self._ask_for_call()
            if self.lives.is_open and self.lives.close(nothing_left=self._has_nothing_left()):
                self._decisions.append(d.FinishRegistration(now))
        if self._lead.is_needed:
            self._lead.replied(now, len(self._decisions))
        return d.Reply(now, self._decisions)

    def _apply(self, message: e.Message) -> None:
        """Apply all events of a message, in their order."""
        now, before_s = message.now, self.now if self.now > 0.0 else 0.0
        if not (self.begun and before_s - TIME_TOLERANCE_S <= now <= LATEST_S) or self.ended:
            before_s = self._check(message)
        self.now = now
        if self._lead.is_needed:
            self._lead.heard(now)
        if self._busy_loop.calls:
            self._busy_loop.hear(message)
        apply_event = self._apply_event
        earliest_s, latest_s = before_s - TIME_TOLERANCE_S, now + TIME_TOLERANCE_S
        for event in message.events:
            at_s = event.timestamp
            if not earliest_s <= at_s <= latest_s:
                raise PeerError(
                    f"an event's timestamp is {at_s} s, in a message for {now} s after events at {before_s} s"
                )
            if at_s > before_s:
                before_s, earliest_s = at_s, at_s - TIME_TOLERANCE_S
            apply_event[type(event)](event)
        if self.ended and type(message.events[-1]) is not e.SimulationEnds:
            raise PeerError("no event may follow SIMULATION_ENDS in its message")
        for path in message.unknown_fields:
            self._notes.warn_of_some(_UNKNOWN, f"unknown field {path.rpartition('].')[2]} (ignored)")

    def _commit(self, actions: Iterable[Action]) -> None:
        """Carry out checked actions, in their order."""
        carry_out = self._carry_out
        for action in actions:
            carry_out[type(action)](action)

    def _commit_policys(self, actions: Iterable[Action]) -> None:
        """Carry out the policy's actions; its offers replace the earlier ones."""
        self._commit(actions)
        if self._is_external:
            self._offers.apply()

    def _check(self, message: e.Message) -> float:
        """Return the earliest time of the message's events, s. Raises PeerError for an illegal message."""
        now, before_s = message.now, max(self.now, 0.0)
        if now < before_s - TIME_TOLERANCE_S:
            raise PeerError(f"simulated time decreased: message at {now} s after {before_s} s")
        if not now <= LATEST_S:
            raise PeerError(f"the message is for {now:g} s: no simulation lasts that long")
        if self.ended:
            raise PeerError(f"a message at {now} s follows SIMULATION_ENDS")
        first = type(message.events[0]) if message.events else None
        if not self.begun and first is not e.SimulationBegins:
            raise PeerError("the first event of a simulation must be SIMULATION_BEGINS")
        return before_s

    # --- a run that is continued into a drawn future, in a copy of its process --------------------

    def replace_work(self, work: Mapping[str, DrawnWork]) -> None:
        """Replace the work of jobs that run or wait, or will be submitted, by drawn ``work``, by id."""
        for job_id, drawn in work.items():
            self._intake.learn_profile(job_id.partition("!")[0], drawn.name, drawn.profile)
        self.lives.replace_work([*self.cluster.running.values(), *self.waiting_jobs()], work)

    # --- queries of others ----------------------------------------------------------------------

    def under_way(self) -> UnderWay:
        """Return what was asked of the simulator, and has not been answered."""
        return UnderWay(
            self._calls.times_s,
            self.commander.unanswered,
            self._kills.sent,
            self._measuring.unanswered,
            not self._intake.is_complete,
        )

    def take_plan(self, answer: PlanAnswer) -> None:
        """Let the requested plan take effect with the next step, or continue with the present one."""
        from beasy_sched.engine.replanning import PLAN_RULES

        if self.replanning is None:
            raise RuntimeError("a plan was given to a run that requests none")
        answer = self.replanning.take(answer)
        request, rolled = answer.request, answer.request.rolled
        facts: dict[str, float | int | str] = {
            "number": rolled.number,
            "start_at_s": request.start_s,
            "asked_at_s": rolled.asked_s,
            "battery_j": rolled.battery_j,
            **({"hydrogen_kg": rolled.hydrogen_kg} if rolled.hydrogen_kg else {}),
            "jobs_running": rolled.jobs_running,
            "jobs_waiting": rolled.jobs_waiting,
        }
        if rolled.forecast_age_s is not UNSET:
            facts["forecast_age_s"] = rolled.forecast_age_s
        if not answer.plans:
            self._notes.warn(
                f"no new plan from {request.start_s:g} s: {answer.problem}; the previous one stays in effect"
            )
        # the message of that moment has not been applied yet
        self._notes.log(request.start_s, "plan", PLAN_RULES[answer.outcome], facts)

    def log_forecast(self, time_s: float, rule: Rule, facts: Facts) -> None:
        """Write an event of a forecast that is renewed during the run to the decision log."""
        self._notes.log(time_s, "forecast", rule, facts)

    def replace_policy(self, policy: Policy) -> None:
        """Let another policy decide from the next message on: it begins with the state that it can see.

        All waiting jobs are new to it. In a step under way, it acts on the step's power before it schedules.
        Raises ConfigError for a policy that cannot offer servers where others place jobs.
        """
        caller = PolicyCaller(policy)
        setup.check_placement(self.options.placement, policy, caller.name)
        self.policy, self._policy = policy, caller
        self._is_new = True

    def _begin_new_policy(self) -> None:
        """Let a policy that replaces another begin, and act on the step under way."""
        self._is_new, self._arrived = False, [*self.cluster.queue]
        self._policys_call.move(math.inf)
        self._show()
        self._policy.begin(self.view, self.now)
        power = self.power
        if power is not None and isinstance(power.phase, Open) and power.is_open(self.now):
            self.view.show_step(power.phase.budget, power.storage, [])
            self._commit_policys(self._policy.power_actions(self.view, self.now))

    def close_log(self) -> None:
        """Write nothing to the decision log any more."""
        self._notes.close_log()
        self.view.wants_facts = False

    def profile_computes(self, workload: str, profile: str) -> bool:
        """Return whether a profile of a workload loads the hosts of its jobs, as far as is known."""
        return self._intake.profile_computes(workload, profile)

    @property
    def storage_w(self) -> float:
        """Power of the storage hosts, which the simulator's answers to queries include, W."""
        return self._measuring.storage_w

    def warn(self, text: str) -> None:
        """Add a warning to those of the run, once."""
        self._notes.warn(text)

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The policy's last offers, then the guard's for the present step; the lowest count applies.

        Empty before the first, and if the policy starts jobs.
        """
        return self._offers.last

    @property
    def warnings(self) -> list[str]:
        """All warnings of the run so far: the session's, those about workflows and about power."""
        power = [] if self.power is None else self.power.warnings
        return [*self._notes.warnings, *self.workflows.warnings, *power]

    def account(self) -> SessionAccount:
        """Return everything that the run's results are made from."""
        cluster, lost = self.cluster, self.lost
        missing = int(np.count_nonzero(~cluster.available))
        return SessionAccount(
            begun=self.begun,
            ended=self.ended,
            now_s=self.now,
            hosts=cluster.size,
            submitted=self.submitted,
            waiting=len(cluster.queue) + len(self.workflows.held),
            running=(*cluster.running,),
            outcomes=self.outcomes,
            reasons=self.reasons,
            windows=(*self.windows,),
            with_deadline=self.workflows.with_deadline,
            server_switches=self.commander.switches,
            speed_changes=self.commander.speed_changes,
            lost=LostServers(lost.hosts, lost.failed_wakes, lost.breakdowns, missing),
            lives=self.lives,
            power=self.power,
            replanning=self.replanning,
            warnings=self.warnings,
        )

    def results(self) -> Any:
        """Return the policy's own sections of the summary. Raises PolicyError if the policy fails."""
        return self._policy.results(self.now) if self._policy.begun else {}

    @property
    def submitted(self) -> int:
        """Number of jobs submitted so far; one that came back counts once."""
        return len(self._intake.ids) - self.lives.count

    # --- events: the run --------------------------------------------------------------------------

    def _on_begins(self, event: e.SimulationBegins) -> None:
        if self.begun:
            raise PeerError("unexpected second SIMULATION_BEGINS")
        self._measuring.storage_w = storage_w = setup.storage_power_w(event)
        self.options = options = setup.with_base_load(self.options, storage_w)
        warn = self._notes.warn
        platform = platform_of(event, options.platform)
        self._set_up(SharedCluster(platform) if self._is_external else Cluster(platform))
        self._lead = CallLead(platform.message_delay_s, len(event.workloads))
        self._calls = Calls(self._lead)
        self.begun = True
        for note in setup.hosts_notes(event, platform, options):
            warn(note)
        self._intake.learn_profiles(event.profiles)
        if options.site is not None:
            source = setup.energy_source(options, event.answers_queries)
            due = self.agenda.enter(Turn.STEP, self._advance_power)
            self.power = setup.power_side(options.site, self.cluster, options, source, self._lead, due)
            for note in setup.power_notes(options.site, options, event.answers_queries):
                warn(note)
            if options.replan is not None and options.plans is not None:
                from beasy_sched.engine.replanning import Replanning

                rule, windows = options.replan, options.windows
                due = self.agenda.enter(Turn.PLAN, self._request_plan, needs_call=False)
                self.replanning = Replanning(rule, options.plans, options.site, platform, windows, due)
        if not event.answers_queries:
            self._measuring.account = (
                self.cluster.open_account() if self.power is None else self.power.account
            )
        self.lives.begin(event, self.cluster)
        if self.power is not None and self.lives.is_on:
            self.power.guard.restarts = self.lives
        if event.awaits_registration and not self.lives.is_open:  # no policy registers jobs
            self._decisions.append(d.FinishRegistration(self.now))
        self._show()
        for note in setup.speeds_notes(self.policy, self._policy.name, platform):
            warn(note)
        for note in setup.inputs_notes(platform, options, self._policy):
            warn(note)
        self._policy.begin(self.view, self.now)

    def _on_ends(self, event: e.SimulationEnds) -> None:
        self.ended = True
        if not self.options.inputs_checked:
            self._look_back()
        for job in [*self.cluster.running.values()]:
            self.lives.end(job, finished=False)
            self.outcomes.add(self.cluster.end(job.id, JobState.UNFINISHED, self.now))
        for job in self.waiting_jobs():
            self._drop(job, JobState.POSTPONED, RUN_OVER)

    def _look_back(self) -> None:
        """Warn of inputs that could not be checked before the run."""
        if self.power is not None and (short := self.power.short_production()):
            self._notes.warn(short.text)
        for finding in self._policy.check_inputs(KnownInputs(came=self.workflows.with_deadline)):
            self._notes.warn(finding.text)
        if self._intake.has_delays:
            return  # their run time does not depend on the hosts
        share = self.outcomes.median_run_share()
        if share is not None and share < SHORT_RUN_SHARE:
            self._notes.warn(short_runs(share, "was the workload generated for this platform?").text)

    # --- events: jobs -------------------------------------------------------------------------------

    def _on_submitted(self, event: e.JobSubmitted) -> None:
        intake = self._intake
        job = intake.admit(event.job)
        job.lose = self._lose
        if self.lives.is_on:
            if self.lives.is_life(job.id):
                self._take_back(job)
                return
            if not self._meet(job):
                return
        waits = False
        if event.job.extras is not None:
            try:
                intake.give_terms(job, event.job.extras)
            except TermsError as error:
                self._refuse_invalid(job, error)
                return
            waits = job.terms is not NO_TERMS and self._waits(job)
        if job.res < 1:
            self._refuse(job, JobState.REJECTED, NO_HOST_ASKED, {"hosts_asked": job.res})
            return
        if job.res > self.cluster.size:
            facts = {"hosts_asked": job.res, "hosts_in_all": self.cluster.size}
            self._refuse(job, JobState.REJECTED, TOO_MANY_HOSTS_ASKED, facts)
            return
        if event.profile or intake.has_delays:
            job.computes = intake.computes(event)
        if not waits:
            self.cluster.submit(job)
            self._arrived.append(job)

    def _meet(self, job: Job) -> bool:
        """Note what a job states about its restarts; return whether it can be read."""
        try:
            self.lives.meet(job)
        except TermsError as error:
            self._refuse_invalid(job, error)
            return False
        return True

    def _refuse_invalid(self, job: Job, error: TermsError) -> None:
        """Reject a job with a field that cannot be read."""
        self._notes.warn_of_some("rejected jobs", f"job {job.id} was rejected: {error}")
        self._refuse(job, JobState.REJECTED, INVALID_FIELDS, {"member": str(error)})

    def _take_back(self, job: Job) -> None:
        """Queue the next life of a job that came back."""
        job.lose = self._lose
        self.workflows.replace(self.lives.take_back(job), job)
        self.cluster.queue.append(job)
        self._arrived.append(job)

    def _waits(self, job: Job) -> bool:
        """Take a job into its workflow; return whether it has to wait for others."""
        workflows = self.workflows
        known = len(workflows.early)
        waits = not workflows.submit(job, self.now)
        if len(workflows.early) > known:
            for early in [*workflows.early.values()][known:]:
                self._notes.log(
                    self.now, "queue", LOWER_PHASE_LATE, {"lower_phase": job.terms.phase or 0}, early
                )
        return waits

    def _on_completed(self, event: e.JobCompleted) -> None:
        state = ENDS[event.end]
        if state is JobState.KILLED and self.over:
            state = JobState.UNFINISHED
        if self.power is not None:
            running = self.cluster.running.get(event.job_id)
            if running is not None and not self._kills.is_counted(running.id):
                self.power.release(running, self.now)
        rule = self._kills.ended(event.job_id) if self._kills.jobs else ""
        returns = self.lives.is_open and self._comes_back(event.job_id, state, rule)
        job = self.cluster.end(event.job_id, JobState.CAME_BACK if returns else state, event.timestamp)
        self._ended.append(job)
        if self.power is not None:
            self._ended_in_step.append(job)
        if returns:
            self.lives.leave(job)
            if state is not JobState.KILLED:
                self._submit_again(self.lives.returns_from(job))
            return
        if self.lives.is_on:
            is_done = state is JobState.FINISHED or (state is JobState.FAILED and not self._is_broken(job))
            self.lives.end(job, finished=is_done)
        self.outcomes.add(job)
        if state is JobState.KILLED:
            self.reasons[state][str(rule)] += 1
        if job.terms is not NO_TERMS or self.workflows.watches_all:
            self.workflows.end(job, event.timestamp, finished=state is JobState.FINISHED)

    def _comes_back(self, job_id: str, state: JobState, rule: str) -> bool:
        """Return whether a job that ends so comes back: guard, policy or a broken host has ended it."""
        job = self.cluster.running.get(job_id)
        if job is None or not self.lives.can_come_back(job):
            return False
        if state is JobState.FAILED:
            return self._is_broken(job)
        return state is JobState.KILLED and bool(rule) and rule != RUN_OVER_KILLED

    def _is_broken(self, job: Job) -> bool:
        """Return whether a host of a job is out of service."""
        return not all_of(self.cluster.in_service[job.hosts.ids])

    def _on_killed(self, event: e.JobsKilled) -> None:
        """Submit killed jobs again that come back; each job's JobCompleted was before it."""
        if self.lives.is_on:
            for back in self.lives.returns(event):
                self._submit_again(back)

    def _submit_again(self, back: Return) -> None:
        """Register the next life of a job."""
        self.outcomes.add(back.before)
        self._decisions += back.decisions
        facts: FactDict = {
            "life": back.request.id,
            "saved_s": back.saved_s,
            "redone_s": back.redone_s,
            "checkpoints": back.checkpoints,
        }
        self._notes.log(self.now, "restart", SUBMITTED_AGAIN, facts, back.before, back.before.hosts)
        if not back.acknowledged:
            self._take_back(self._intake.admit(back.request))

    def _has_nothing_left(self) -> bool:
        """Return whether no job waits, runs or will be submitted, or the run is over."""
        cluster = self.cluster
        is_done = self._intake.is_complete and not (cluster.running or cluster.queue or self.workflows.held)
        return is_done or self.over

    def _on_withdrawn(self, event: e.JobWithdrawn) -> None:
        """Drop a job that was cancelled or started by someone else; one that does not wait is left alone."""
        job = next((job for job in self.waiting_jobs() if job.id == event.job_id), None)
        if job is not None:
            self._drop(job, JobState.REJECTED, WITHDRAWN)
            self._notes.log(self.now, "reject", WITHDRAWN, {"waited_s": self.now - job.subtime_s}, job)

    def _on_runs(self, event: e.JobRuns) -> None:
        """Take over a job that runs: it was started before the run, or by whoever places jobs."""
        waiting = self.cluster.queue if self._is_external else self._arrived
        job = next((job for job in waiting if job.id == event.job_id), None)
        if job is None:
            lacks = "does not wait" if self._is_external else "was not submitted with it"
            raise PeerError(f"NOTIFY {event.kind}: job {shortened(event.job_id)} {lacks}")
        is_new = job in self._arrived
        try:
            if isinstance(self.cluster, SharedCluster):
                hosts = self.cluster.take(job, event.hosts, self.now)
            else:
                hosts = self.cluster.start(job, event.hosts, self.now)
        except PolicyError as error:
            raise PeerError(f"NOTIFY {event.kind}: {error}") from None
        if is_new:
            self._arrived.remove(job)
        if not self._is_external:
            self._notes.log(self.now, "start", RUNS, job=job, hosts=hosts)
            return
        waited = {"waited_s": self.now - job.subtime_s}
        self._notes.log(self.now, "start", STARTED_BY_OTHERS, waited, job, hosts)

    def _on_not_started(self, event: e.JobNotStarted) -> None:
        """Log the reason of a completion that follows."""
        job = self.cluster.running.get(event.job_id)
        if job is not None:
            self._notes.log(self.now, "kill", NOT_STARTED, {"reason": event.reason}, job, job.hosts)

    def _on_ordered(self, event: e.QueueOrdered) -> None:
        """Move waiting jobs to the end of the queue, in the order of the event."""
        waiting = {job.id: job for job in self.cluster.queue}
        self.cluster.reorder(waiting[job_id] for job_id in event.job_ids if job_id in waiting)

    def _on_no_more_jobs(self, event: e.NoMoreJobs) -> None:
        self._intake.is_complete = True

    # --- events: hosts, power, energy ---------------------------------------------------------------

    def _on_machines(self, event: e.MachinesChanged) -> None:
        hosts = event.hosts
        if np.any(hosts.ids >= self.cluster.size):
            text = shortened(repr(event.data.get("resources")))
            raise PeerError(f"NOTIFY {event.kind}: found resources {text}, expected hosts such as '0-3'")
        if event.available:
            self._log_hosts("back", self.lost.enter(hosts))
        else:
            self._warn_of_switching(hosts, event.timestamp)
            self._log_hosts("lost", self.lost.leave(hosts))

    def _on_switched(self, event: e.ResourceStateChanged) -> None:
        failed = self.commander.acknowledge(event)
        if len(failed):
            for line in self.lost.fail(failed, event.timestamp):
                self._log_hosts("lost", line)
        elif self.lost.failed_wakes:
            self.lost.came(event.resources)

    def _log_hosts(self, what: str, line: HostLogLine | None) -> None:
        """Log that hosts are lost, or back."""
        if line is not None:
            self._notes.log(self.now, what, line.rule, line.facts, hosts=line.hosts)

    def _warn_of_switching(self, hosts: HostSet, now: float) -> None:
        """Warn, once, of hosts that go out of service while they are switched on or off."""
        switching = hosts.ids[self.cluster.state[hosts.ids] >= SWITCHING_OFF]
        if len(switching) and not self._switching_reported:
            self._switching_reported = True
            self._notes.warn(
                f"hosts {HostSet(switching)} went out of service at {now:g} s while they were switched on or"
                " off: Batsim 4 aborts where such hosts return to service after the end of the switch"
            )

    def _on_power(self, event: e.PowerAnnounced) -> None:
        if self.power is None:
            self._warn_of_unused_power()
            return
        self.power.set_production(event.power_w, event.timestamp, event.parts_w)
        if event.price_per_kwh is not None or event.carbon_g_per_kwh is not None:
            self.power.set_rates(Announced(event.price_per_kwh, event.carbon_g_per_kwh), event.timestamp)

    def _on_levels(self, event: e.LevelsMeasured) -> None:
        if self.power is not None:
            self.power.inputs.measure_levels(event.soc_pct, event.hydrogen_kg)

    def _on_unreadable(self, event: e.UnreadableNotice) -> None:
        """Reject a notice that cannot be read, unless it announces power to a run without a site."""
        if self.power is not None or event.kind in (MACHINES_LEAVE, MACHINES_RETURN, JOB_RUNS):
            raise PeerError(event.problem)
        self._warn_of_unused_power()

    def _warn_of_unused_power(self) -> None:
        if not self.options.inputs_checked:
            self._notes.warn(unused_power().text)

    def _on_answer(self, event: e.EnergyAnswer) -> None:
        for_power_side, servers_j = self._measuring.hear(event)
        self.view.measure(event.timestamp, servers_j)
        if for_power_side and self.power is not None:
            self.power.answer(servers_j)

    # --- decisions ----------------------------------------------------------------------------------

    def _release(self) -> None:
        """Queue the jobs whose predecessors have finished, and reject those that can never start."""
        for job, lost in self.workflows.release(self.now):
            if lost:
                self._refuse(job, JobState.REJECTED, PREDECESSOR_UNFINISHED)
            else:
                self._arrived.append(self.cluster.submit(job))
        if self._intake.is_complete:
            self._refuse_hopeless()
        self._releases.move(self.workflows.next_s)

    def _refuse_hopeless(self) -> None:
        """Reject the held jobs that can never start."""
        idle = not self.cluster.running and not self.cluster.queue
        for job in self.workflows.hopeless(self._intake.ids, nothing_else=idle):
            missing = ", ".join(map(shortened, job.terms.after[:5]))
            self._notes.warn_of_some(
                "waiting jobs", f"job {job.id} depends on jobs that were never submitted: {missing}"
            )
            self._refuse(job, JobState.POSTPONED, NEVER_FREE)

    def _retry_hosts(self) -> None:
        """Let lost hosts be woken again."""
        self._log_hosts("back", self.lost.retry(self.now))

    def _send_kills(self) -> None:
        """Send the kills that are due."""
        if due := self._kills.due(self.now):
            self._decisions.append(d.KillJobs(self.now, due))

    def _request_plan(self) -> None:
        """Request the next plan, if its step is the next one."""
        if self.replanning is not None and self.power is not None:
            self._show()
            self.replanning.look(self.power, self.view, self.outcomes.median_run_share)

    def _advance_power(self) -> None:
        """Settle the step that has ended and open the next, or end the run after the last one."""
        if (power := self.power) is None:
            return
        entered = power.advance(self.now)
        if isinstance(entered, Open):
            self._begin_step(power, entered.budget)
        elif isinstance(entered, Asking):
            self._query(for_power_side=True)
        elif isinstance(entered, Over):
            self._finish()

    def _begin_step(self, power: PowerSide, budget: StepBudget) -> None:
        """Let the policy act on the power of a step that has just been opened, then the guard."""
        self._show()
        self.view.show_step(budget, power.storage, self._ended_in_step, power.peak)
        while budget.start_s >= (len(self.windows) + 1) * power.site.window_s - TIME_TOLERANCE_S:
            self.windows.append(self.outcomes.counts())
        actions = self._policy.power_actions(self.view, self.now)
        self._commit_policys(actions)
        self._ended_in_step = []
        logged_only = all(type(action) is Compensate for action in actions)
        self._commit(power.shed(budget, as_opened=logged_only))
        if self._is_external:
            for offer in self._offers.limit(guards_offers(budget)):
                self._notes.log(self.now, "offer", offer.rule, {**offer_facts(offer), **offer.facts})
        self._kills.count()

    def _schedule(self) -> None:
        """Let the policy act, again after each measurement that the daemon's own account has answered."""
        while True:  # where the simulator answers a query, another message brings the answer
            self._measured = False
            self._show()
            if actions := self._policy.schedule(self.view, self.now):
                self._commit_policys(actions)
            self._ended = []
            if self._is_external:
                self._place()
            if self.cluster.requests:
                self._decisions += self.commander.send(self.now)
            if not self._measured:
                return
            self._arrived = []

    def _place(self) -> None:
        """Log changes of the offer, and let the placer of this process act, if there is one."""
        for rule, facts in self._offers.changes(self.now):
            self._notes.log(self.now, "offer", rule, facts)
        if self.options.placer is None:
            return
        for action in self.options.placer.place(self.view, self.offers):
            if type(action) is Start:
                self._start(action)
            else:
                self._carry_out[type(action)](action)

    def _show(self) -> None:
        """Update the policy's view, whatever the policy has written to it."""
        self.view.show(self.now, self._arrived, self._ended, self.power.budget if self.power else None)

    def _ask_for_call(self) -> None:
        """Request a call for what is due next, unless one that is early enough is pending."""
        self._lost_due.needs_call = bool(self.cluster.queue)  # otherwise nobody waits for them
        next_s = self.agenda.next_call_s()
        if next_s < math.inf and (at := self._calls.ask(next_s, self.now)) is not None:
            first = 0 if self._lead.is_needed else len(self._decisions)
            self._decisions.insert(first, d.CallMeLater(self.now, at))

    def _parts(self) -> int:
        """Return the number of jobs, switches, calls and kills under way in the simulator."""
        switching = int(np.count_nonzero(self.cluster.state >= SWITCHING_OFF))
        return len(self.cluster.running) + switching + self._calls.pending + len(self._kills.jobs)

    # --- actions ------------------------------------------------------------------------------------

    def _start(self, action: Start) -> None:
        job = action.job
        hosts = self.cluster.start(job, action.hosts, self.now)
        self._decisions.append(d.ExecuteJob(self.now, job.id, hosts))
        if self._notes.has_log:
            self._notes.log(self.now, "start", action.rule, action.facts, job, hosts)

    def _reject_start(self, action: Start) -> None:
        raise PolicyError(
            f"policy {self._policy.name!r} starts job {action.job.id}, but others place the jobs of this run"
            " (external placement): it may only return offers"
        )

    def _offer(self, action: Offer) -> None:
        if not self._is_external:
            raise PolicyError(
                f"policy {self._policy.name!r} offers servers, but it starts the jobs of this run itself:"
                " offers require external placement"
            )
        self._offers.add(action)

    def _reject(self, action: Reject) -> None:
        job = action.job
        if job.state is not JobState.WAITING:
            raise PolicyError(f"job {job.id} is {job.state.value}: it cannot be rejected")
        if self.workflows.held.get(job.id) is not job:
            self.cluster.queue.check_holds(job)
        self._refuse(job, JobState.REJECTED, action.rule, action.facts)

    def _postpone(self, action: Postpone) -> None:
        """Log why a job waits, if the reason has changed."""
        job = action.job
        if job.state is not JobState.WAITING:
            raise PolicyError(f"job {job.id} is {job.state.value}: it cannot be postponed")
        if self._notes.has_log and job.postponed_for != action.rule:
            job.postponed_for = action.rule
            self._notes.log(self.now, "postpone", action.rule, action.facts, job)

    def _set_pstate(self, action: SetPState) -> None:
        if not self.options.power_actions or not len(action.hosts):
            return
        self.cluster.check_hosts(action.hosts, f"P-state {action.pstate} is wanted of")
        self.commander.check(action.hosts, action.pstate)
        if self._notes.has_log:
            facts = {**self.commander.directions(action.hosts, action.pstate), **action.facts}
            self._notes.log(self.now, f"P-state {action.pstate}", action.rule, facts, hosts=action.hosts)
        self.cluster.request(action.hosts.ids, action.pstate)

    def _call_at(self, action: CallAt) -> None:
        if action.at <= self.now:
            self._busy_loop.count(self.now)
        self._policys_call.advance(float(action.at))

    def _measure(self, action: MeasureEnergy) -> None:
        if not self.options.power_actions and self._measuring.account is None:
            raise ConfigError(
                f"policy {self._policy.name!r} measures energy, which requires Batsim's -E:"
                " run both with power actions enabled"
            )
        if not self.cluster.platform.has_powers and (found := missing_powers(self.cluster.platform)):
            self._notes.warn(found.text)
        self._busy_loop.count(self.now)
        energy_j = self._measuring.own_answer_j(self.now)
        if energy_j is None:
            self._query(for_power_side=False)
            return
        self.view.measure(self.now, energy_j)
        self._measured = True

    def _query(self, *, for_power_side: bool) -> None:
        self._measuring.ask(for_power_side=for_power_side)
        self._decisions.append(d.QueryEnergy(self.now))

    def _kill(self, job: Job, rule: str, facts: Facts = NO_FACTS) -> None:
        """Kill a job a moment later: it may have just ended, and its event has not arrived yet."""
        if job.id in self._kills.jobs or self.cluster.running.get(job.id) is not job:
            return
        self._kills.add(job, rule, self.now, self.lives.announce(job, rule) if self.lives.is_on else 0.0)
        self.cluster.set_kill_pending(job)
        self._notes.log(self.now, "kill", rule, facts, job, job.hosts)

    def _refuse(self, job: Job, state: JobState, rule: str, facts: Facts = NO_FACTS) -> None:
        self._drop(job, state, rule)
        self._decisions.append(d.RejectJob(self.now, job.id))
        self._notes.log(self.now, "reject", rule, facts, job)

    def _drop(self, job: Job, state: JobState, rule: str) -> None:
        if job.past is not None and (state is JobState.POSTPONED or rule == WITHDRAWN):
            state = JobState.UNFINISHED  # it has started before
        self.cluster.drop(job, state)
        if self.lives.is_on:
            self.lives.end(job, finished=False)
        if state in self.reasons:
            self.reasons[state][str(job.postponed_for if rule == RUN_OVER else rule)] += 1
        self.outcomes.add(job)
        if job.terms is not NO_TERMS or self.workflows.watches_all:
            self.workflows.end(job, self.now, finished=False)
            self._releases.move(self.workflows.next_s)

    # --- the end of the run -------------------------------------------------------------------------

    def _finish(self) -> None:
        """End the run: kill running jobs (counted as not completely finished) and reject waiting ones."""
        self._show()
        self._kills.hasten(self.now, RUN_OVER_KILLED)
        for job in [*self.cluster.running.values()]:
            self._kill(job, RUN_OVER_KILLED)
        for job in self.waiting_jobs():
            waited = {"waited_s": self.now - job.subtime_s}
            self._refuse(job, JobState.POSTPONED, RUN_OVER, waited)

    def log_still_waiting(self) -> None:
        """Log the jobs that still wait when a run ends early: nothing else has a record of them."""
        for job in self.waiting_jobs():
            facts: FactDict = {"waited_s": self.now - job.subtime_s, "hosts_asked": job.res}
            if job.walltime_s < math.inf:
                facts["walltime_s"] = job.walltime_s
            self._notes.log(self.now, "waiting", STILL_WAITING, facts, job)

    def waiting_jobs(self) -> list[Job]:
        """Return all jobs that have not started, queued or held for others."""
        return [*self.cluster.queue, *self.workflows.held.values()]

    @property
    def over(self) -> bool:
        """Whether the run's last window has ended."""
        return self.power is not None and isinstance(self.power.phase, Over)
