"""Follow-plan: EASY on servers that are kept in the states of the offline plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, all_of, any_of
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.engine.actions import Action, FactDict, Kill, Start
from beasy_sched.engine.policy import Policy, View
from beasy_sched.engine.words import Sentences, Words
from beasy_sched.model.host_states import BUSY
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.jobs import Job
from beasy_sched.policies.easy import EASY_WORDS, RESERVED, SET_ASIDE, EasyPass, Reservation
from beasy_sched.policies.planned.follower import PlanFollower, offline_plans, ready_s
from beasy_sched.policies.planned.working_plan import Runs, WorkingPlan
from beasy_sched.units import TIME_TOLERANCE_S

_LOOKS_AHEAD = (24, 192)
"""Numbers of steps that are searched for a reservation first, as most reservations are near."""
_A_WHILE_S = 1.0
"""Time for which servers must stay on to be promised without a search, s: more than one moment."""

PLAN_WORDS: Final[Sentences] = {
    **EASY_WORDS,
    ("kill", "its server is planned to sleep"): Words(
        "The plan puts {hosts_to_sleep} of its servers to sleep[, {walltime_left_s} before its walltime].",
        of_jobs="since the plan put their servers to sleep",
    ),
    ("P-state", "planned"): Words(
        "As planned[, changed online for {hosts_replanned} of them]"
        "[: all servers draw up to {planned_w} in the step].",
    ),
    ("postpone", SET_ASIDE): Words(
        "It is set aside: by its walltime it cannot end within the last planned window, which ends at"
        " {window_end_s}[, and at full speed, its work may take {longest_s}].",
        of_jobs="would outlast the plan",
    ),
}
"""Words for the rules of policies that follow a plan."""


class _PlannedRuns(NamedTuple):
    """Runs of steps planned on that begin before some step: one entry each."""

    host: HostIds
    opens_s: FloatArray
    """Time at which the server has woken for the run, s."""
    closes_s: FloatArray
    """Time at which the server falls asleep, s; infinite where the run reaches the step."""
    under_way: IndexArray
    """Places of the runs that the present step belongs to."""


class PlannedRuns:
    """When servers are planned on; found again only when the plan or the step has changed."""

    def __init__(self, view: View, plan: WorkingPlan) -> None:
        """Look at ``plan``, which may change."""
        self._plan = plan
        self.on_s = view.power_model.on_s[view.platform.kind_of]
        """Time that each server takes to wake, s."""
        self.longest_on_s = float(self.on_s.max(initial=0.0))
        """Time that the slowest server takes to wake, s."""
        self._seen = (-1, -1)
        self._known: dict[int, _PlannedRuns] = {}
        self.promised: Reservation | None = None
        """The last reservation that was found."""
        self._reserved: Reservation | None = None
        """Last reservation made in a pass that had started no job before."""
        self._reserved_in: tuple[int, ...] = ()
        """Situation in which `_reserved` was made, as `_situation` returns it."""

    def reserved(self, view: View, job: Job, step: int) -> Reservation | None:
        """What was last reserved for ``job``, if it still holds: nothing has changed but the time."""
        last = self._reserved
        if last is None or last.job is not job or last.start_s <= view.now + TIME_TOLERANCE_S:
            return None
        return last if self._situation(view, step) == self._reserved_in else None

    def remember(self, view: View, promise: Reservation, step: int) -> None:
        """Remember what is reserved in a pass that has started no job."""
        self._reserved, self._reserved_in = promise, self._situation(view, step)

    def _situation(self, view: View, step: int) -> tuple[int, ...]:
        """What changes with the plan, and with the servers that are free and those of running jobs."""
        return self._plan.version, step, view.availability_version, len(view.running)

    def before(self, step: int, end_step: int) -> _PlannedRuns:
        """The runs from ``step`` up to ``end_step``, which is not included."""
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
    """An EASY pass that considers when servers are planned to wake and to sleep."""

    def __init__(self, view: View, plan: WorkingPlan, runs: PlannedRuns) -> None:
        """Begin a pass at the view's present time; ``runs`` are those of ``plan``."""
        super().__init__(view)
        self.plan, self._runs = plan, runs

    def needs_reservation(self, job: Job) -> bool:
        """Whether to reserve for ``job``: not if none could be backfilled, and why it waits was told."""
        if self.refused_by or not self.is_alone(job):
            return not self.is_told_and_alone(job)
        return self.view.wants_facts and not (job.postponed_for == RESERVED and self._is_still_promised(job))

    def _is_still_promised(self, job: Job) -> bool:
        """Whether enough servers are free and planned on at the start of the last reservation for ``job``.

        So there is one, if perhaps earlier.
        """
        last, plan, step = self._runs.promised, self.plan, self.plan.step_at(self.view.now)
        if last is None or last.job is not job or step is None:
            return False
        awake_s = last.start_s - self._runs.longest_on_s  # whoever is on then has woken by the start
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
            found = self._earliest(job, step, end_step, ready)
            if found is not None:
                self._runs.promised = found
                return found
        return Reservation(job, np.inf, self.free)

    def _ready_s(self, step: int) -> FloatArray:
        """When each server could take a job at the earliest if it is planned on, s."""
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
        order = times_s.argsort()  # the order of changes at one moment does not matter
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
        """Return from when and until when servers are free and planned on, s: one entry per run of steps.

        Leaves out what is planned for ``end_step`` and later: runs that reach it do not close.
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
    """When the job of each server ends at the latest, s; minus infinity without a job."""
    ends_s = np.full(view.platform.size, -np.inf)
    for end_s, _, job in view.ends:
        ends_s[job.hosts.ids] = end_s
    return ends_s


class FollowPlan(Policy):
    """EASY on the planned servers; jobs on servers that the plan puts to sleep are killed.

    Servers keep their states after the last planned window. Subclasses change ``plan`` and follow it.
    """

    name = "follow-plan"
    summary = "EASY on exactly the servers that the offline plan has on"
    words = PLAN_WORDS
    needs_power = True
    needs_plan = True

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
        if view.budget is None or step is None or not view.power_actions_allowed:
            return ()
        actions = [*self.compensate(view, step, view.budget.renew_w)]
        actions += self._kills(view, step)
        return actions + self._follower.follow(view, step, view.available)

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
                yield Kill(job, "its server is planned to sleep", why)

    def plan_renewed(self) -> None:
        """Do what is to be done when the plan has been made anew; here, nothing."""

    def compensate(self, view: View, step: int, renew_w: float) -> Sequence[Action]:
        """Change the plan from ``step`` on, whose production is known now; here, it is followed as it is."""
        return ()

    def schedule(self, view: View) -> Sequence[Action]:
        """Run EASY on the servers that are on."""
        if not len(view.queue):
            return ()
        return PlannedEasyPass(view, self.plan, self._runs).run()
