"""Follow-plan: EASY on servers kept in the states of the offline plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, all_of, any_of
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.engine.actions import Action, FactDict, Kill, Start
from beasy_sched.engine.policy import Policy, View
from beasy_sched.engine.session_words import Rule, Sentences, Words, words_of
from beasy_sched.model.choices import Placement
from beasy_sched.model.host_states import BUSY
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.jobs import Job
from beasy_sched.policies.easy import EASY_WORDS, RESERVED, EasyPass, Reservation
from beasy_sched.policies.planned.follower import PLANNED, PlanFollower, offline_plans, ready_s
from beasy_sched.policies.planned.offered_plan import (
    OFFERED_AS_PLANNED,
    exchange_servers,
    follow_speeds,
    offer_plan,
)
from beasy_sched.policies.planned.working_plan import Runs, WorkingPlan
from beasy_sched.units import TIME_TOLERANCE_S

_LOOKS_AHEAD = (24, 192)
"""Numbers of steps searched first for a reservation, because most reservations are near."""
_A_WHILE_S = 1.0
"""Time for which servers must stay on to be reserved without a search, s: more than one instant."""

KILLED_BY_PLAN: Final = Rule(
    "kill",
    "its server is planned to sleep",
    Words(
        "The plan puts {hosts_to_sleep} of its servers to sleep[, {walltime_left_s} before its walltime].",
        of_jobs="because the plan put their servers to sleep",
    ),
)
SET_ASIDE: Final = Rule(
    "postpone",
    "ends after the last window",
    Words(
        "It is skipped: its walltime does not fit into the last planned window, which ends at"
        " {window_end_s}[; even at full speed, its work may take {longest_s}].",
        of_jobs="walltime exceeds the planned horizon",
    ),
)
PLAN_WORDS: Final[Sentences] = {
    **EASY_WORDS,
    **words_of(KILLED_BY_PLAN, PLANNED, SET_ASIDE, OFFERED_AS_PLANNED),
}
"""Words for the rules of policies that follow a plan."""


class _PlannedRuns(NamedTuple):
    """Runs of consecutive steps planned on that begin before some step, one entry each."""

    host: HostIds
    opens_s: FloatArray
    """Time at which the server is awake for the run, s."""
    closes_s: FloatArray
    """Time at which the server falls asleep, s; infinite if the run reaches the step."""
    under_way: IndexArray
    """Indices of the runs that contain the current step."""


class PlannedRuns:
    """Cache of the runs of steps planned on; updated when the plan or the step has changed."""

    def __init__(self, view: View, plan: WorkingPlan) -> None:
        """Use ``plan``, which may change later."""
        self._plan = plan
        self.on_s = view.power_model.on_s[view.platform.kind_of]
        """Waking time of each server, s."""
        self.longest_on_s = float(self.on_s.max(initial=0.0))
        """Waking time of the slowest server, s."""
        self._seen = (-1, -1)
        self._known: dict[int, _PlannedRuns] = {}
        self.promised: Reservation | None = None
        """Last reservation found."""
        self._reserved: Reservation | None = None
        """Last reservation made in a pass that had started no job before."""
        self._reserved_in: tuple[int, ...] = ()
        """Result of `_situation` when `_reserved` was made."""

    def reserved(self, view: View, job: Job, step: int) -> Reservation | None:
        """Return the last reservation of ``job`` if it still holds: nothing has changed except the time."""
        last = self._reserved
        if last is None or last.job is not job or last.start_s <= view.now + TIME_TOLERANCE_S:
            return None
        return last if self._situation(view, step) == self._reserved_in else None

    def remember(self, view: View, promise: Reservation, step: int) -> None:
        """Store the reservation of a pass that has not started a job."""
        self._reserved, self._reserved_in = promise, self._situation(view, step)

    def _situation(self, view: View, step: int) -> tuple[int, ...]:
        """Return a key that changes with the plan, the free servers and the servers of running jobs."""
        return self._plan.version, step, view.availability_version, len(view.running)

    def before(self, step: int, end_step: int) -> _PlannedRuns:
        """Return the runs from ``step`` up to ``end_step`` (exclusive)."""
        plan, seen = self._plan, (self._plan.version, step)
        if seen != self._seen:
            self._seen = seen
            self._known.clear()
        runs = self._known.get(end_step)
        if runs is None:
            host, begin, end = Runs.of(plan.on[step:end_step])
            start_s = plan.start_of(step)
            opens_s = start_s + begin * plan.step_s + self.on_s[host]
            closes_s = np.where(end == end_step - step, np.inf, start_s + end * plan.step_s)
            runs = self._known[end_step] = _PlannedRuns(host, opens_s, closes_s, (begin == 0).nonzero()[0])
        return runs


class PlannedEasyPass(EasyPass):
    """EASY pass that considers when servers are planned to wake and to sleep."""

    tries_each = False

    def __init__(self, view: View, plan: WorkingPlan, runs: PlannedRuns) -> None:
        """Begin a pass at the view's current time; ``runs`` are those of ``plan``."""
        super().__init__(view)
        self.plan, self._runs = plan, runs

    def needs_reservation(self, job: Job) -> bool:
        """Whether to reserve for ``job``: not if no job could be backfilled, and its wait was reported."""
        if self.refused_by or not self.is_alone(job):
            return not self.is_told_and_alone(job)
        return self.view.wants_facts and not (job.postponed_for == RESERVED and self._is_still_promised(job))

    def _is_still_promised(self, job: Job) -> bool:
        """Whether enough servers are free and planned on at the start of the last reservation of ``job``.

        If so, there is a reservation, possibly an earlier one.
        """
        last, plan, step = self._runs.promised, self.plan, self.plan.step_at(self.view.now)
        if last is None or last.job is not job or step is None:
            return False
        awake_s = last.start_s - self._runs.longest_on_s  # servers that are on then are awake at the start
        first = math.floor((awake_s - plan.start_s) / plan.step_s)
        end = math.floor((last.start_s + _A_WHILE_S - plan.start_s) / plan.step_s) + 1
        if not step < first < end < plan.horizon(step):
            return False
        hosts = np.logical_and.reduce(plan.on[first:end]) & self.view.available
        for end_s, _, other in reversed(self.view.ends):
            if end_s <= last.start_s:
                break
            hosts[other.hosts.ids] = False
        for action in self.actions:
            if isinstance(action, Start) and self.view.now + action.job.walltime_s > last.start_s:
                hosts[action.hosts.ids] = False
        return int(np.count_nonzero(hosts)) >= job.res

    def reserve(self, job: Job) -> Reservation:
        """Reserve for ``job`` from the earliest time at which enough servers are free and planned on.

        They need not stay on for the job's whole walltime. There is no reservation beyond the plan's horizon.
        """
        step = self.plan.step_at(self.view.now)
        if step is None:
            return super().reserve(job)
        runs, view = self._runs, self.view
        if self.started:
            return self._search(job, step)
        promise = runs.reserved(view, job, step)
        if promise is None:
            promise = self._search(job, step)
            runs.remember(view, promise, step)
        return promise

    def _search(self, job: Job, step: int) -> Reservation:
        """Return the reservation, from ``step`` on, that begins earliest."""
        ready = self._ready_s(step)
        horizon = self.plan.horizon(step)
        for end_step in sorted({min(step + steps, horizon) for steps in _LOOKS_AHEAD} | {horizon}):
            promise = self._earliest(job, step, end_step, ready)
            if promise is not None:
                self._runs.promised = promise
                return promise
        return Reservation(job, np.inf, self.free)

    def _ready_s(self, step: int) -> FloatArray:
        """Return the earliest time at which each server could take a job if it is planned on, s."""
        ends_s = latest_ends_s(self.view)
        for action in self.actions:
            if isinstance(action, Start):
                ends_s[action.hosts.ids] = self.view.now + action.job.walltime_s
        return ready_s(self.view, self.plan, step, self.free_mask(), ends_s)

    def _earliest(self, job: Job, step: int, end_step: int, ready: FloatArray) -> Reservation | None:
        """Return the reservation if it starts before ``end_step``."""
        plan = self.plan
        end_s = plan.start_of(end_step) - 2 * TIME_TOLERANCE_S if end_step < plan.steps else np.inf
        opens_s, closes_s = self._free_from_until(step, end_step, ready)
        if np.count_nonzero(opens_s < end_s) < job.res:
            return None
        times_s = np.concatenate([opens_s, closes_s])
        change = np.ones(len(times_s), dtype=np.intp)
        change[len(opens_s) :] = -1
        order = times_s.argsort()  # the order of simultaneous changes does not matter
        times_s, count = times_s[order], change[order].cumsum()
        last = len(times_s) - 1
        for place in (count >= job.res).nonzero()[0].tolist():
            start_s = times_s.item(place)
            if start_s >= end_s:
                break
            if place == last or times_s.item(place + 1) - start_s > TIME_TOLERANCE_S:  # all have changed
                return Reservation(job, start_s, count.item(place) - job.res)
        return None

    def _free_from_until(self, step: int, end_step: int, ready: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return when servers are free and planned on, from and until, s: one entry per run of steps.

        Excludes ``end_step`` and later steps: runs that reach it do not close.
        """
        runs = self._runs.before(step, end_step)
        opens_s, closes_s = runs.opens_s.copy(), runs.closes_s
        opens_s[runs.under_way] = ready[runs.host[runs.under_way]]
        counts = opens_s < closes_s - TIME_TOLERANCE_S
        if not self.view.all_available:
            counts &= self.view.available[runs.host]
        if not all_of(counts):
            opens_s, closes_s = opens_s[counts], closes_s[counts]
        return opens_s, closes_s[closes_s < np.inf]


def latest_ends_s(view: View) -> FloatArray:
    """Return the latest end of the job of each server, s; minus infinity without a job."""
    ends_s = np.full(view.platform.size, -np.inf)
    for end_s, _, job in view.ends:
        ends_s[job.hosts.ids] = end_s
    return ends_s


class FollowPlan(Policy):
    """EASY on the planned servers; jobs on servers that the plan puts to sleep are killed.

    Servers keep their states after the last planned window. Subclasses change ``plan`` and follow it. Where
    others place jobs, the numbers of servers planned on are offered, for all steps ahead, and no job is
    killed: servers that are in use are exchanged in the plan with others of their kind.
    """

    name = "follow-plan"
    summary = "EASY on exactly the servers that the offline plan has on"
    words = PLAN_WORDS
    needs_power = True
    needs_plan = True
    can_offer = True

    def begin(self, view: View) -> None:
        """Copy the plan."""
        self.plan = WorkingPlan(offline_plans(view), CellEnergies(view.power_model), view.pstate)
        self._follower = PlanFollower(view, self.plan)
        self._runs = PlannedRuns(view, self.plan)

    def power_actions(self, view: View) -> Sequence[Action]:
        """Kill jobs on servers that are to sleep, and bring every server to its planned state."""
        if view.budget is not None and self.plan.renew(view.budget.start_s):
            self.plan_renewed()
        step = None if view.budget is None else self.plan.step_at(view.budget.start_s)
        if view.budget is None or step is None:
            return ()
        if view.placement is Placement.EXTERNAL:
            return self._offer(view, step, view.budget.renew_w)
        if not view.power_actions_allowed:
            return ()
        actions = [*self.compensate(view, step, view.budget.renew_w)]
        actions += self._kills(view, step)
        return actions + self._follower.follow(view, step, view.available)

    def _offer(self, view: View, step: int, renew_w: float) -> Sequence[Action]:
        """Offer the planned servers to whoever places jobs, and set the speeds of those that are on."""
        every = np.ones(view.platform.size, dtype=np.bool_)
        if exchange_servers(view, self.plan, step, every):
            self.plan_renewed()
        notes = self.compensate(view, step, renew_w)
        return [*notes, *follow_speeds(view, self._follower, step), *offer_plan(view, self.plan, step)]

    def _kills(self, view: View, step: int) -> Iterator[Kill]:
        """Kill jobs on servers that are to sleep in ``step``."""
        to_sleep = view.available & ~self.plan.on[step]
        if not any_of(to_sleep & (view.host_state == BUSY)):
            return
        for job in view.running.values():
            count = int(np.count_nonzero(to_sleep[job.hosts.ids]))
            if count:
                why: FactDict = {"hosts_to_sleep": count}
                if np.isfinite(job.expected_end_s):
                    why["walltime_left_s"] = job.expected_end_s - view.now
                yield Kill(job, KILLED_BY_PLAN, why)

    def plan_renewed(self) -> None:
        """Hook called after the plan was replaced or exchanged; does nothing by default."""

    def compensate(self, view: View, step: int, renew_w: float) -> Sequence[Action]:
        """Hook to change the plan from ``step`` on, whose production is now known; unchanged by default."""
        return ()

    def schedule(self, view: View) -> Sequence[Action]:
        """Run EASY on the servers that are on."""
        if not len(view.queue) or view.placement is Placement.EXTERNAL:
            return ()
        return PlannedEasyPass(view, self.plan, self._runs).run()
