"""One scheduling pass of BEASY: Algorithm 1, which is EASY with an energy test before each start.

The reservation for the first job that cannot start (line 9) names certain servers. Each run of steps in which
a server is planned on is an interval in which it can take the job: from when it is free and awake, until the
job's walltime no longer fits before the end of the run. The first moment at which enough intervals are open
is found by counting their openings and closings, without looking at single steps.
"""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import BoolArray
from beasy_sched.engine.actions import NO_FACTS, Action, FactDict, Postpone, Start
from beasy_sched.engine.policy import View
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.policies.beasy.plan import LivePlan, Placement
from beasy_sched.policies.easy import (
    NO_STEP_ENERGY,
    PLAN_CANNOT_PAY,
    SET_ASIDE,
    SLEEPERS_PAY,
    EasyPass,
    Places,
    Reservation,
    largest_slowdown,
    reservation_facts,
    smallest_size,
)
from beasy_sched.policies.follow_plan import ready_s
from beasy_sched.policies.switching import headroom_j, spent_facts
from beasy_sched.units import TIME_TOLERANCE_S


class BeasyPass(EasyPass):
    """Starts jobs on servers that the plan has on, or can have on, up to their walltimes."""

    def __init__(self, view: View, live: LivePlan, step: int, dangerous: bool, last_pass_s: float) -> None:
        """Begin a pass in the present ``step``, whose P_R depends on whether it is ``dangerous``.

        ``last_pass_s``: time of the last pass.
        """
        super().__init__(view, smallest_size if dangerous else largest_slowdown)
        self.live = live
        self.step = step
        self._dangerous = dangerous
        self._last_pass_s = last_pass_s
        self._reserved: BoolArray = np.zeros(view.platform.size, dtype=np.bool_)
        self._test = live.test(view, step)

    def run(self) -> list[Action]:
        """Run the pass and return its actions, the reasons why jobs wait first."""
        return sorted(super().run(), key=lambda action: isinstance(action, Start))

    # --- which jobs ---------------------------------------------------------------------------------------

    def candidates(self) -> Places:
        """Leave out and postpone jobs that cannot end before the last known window does."""
        places = super().candidates()
        in_time = self._in_time(places)
        if self.view.wants_facts and not in_time.all():
            self._set_aside(places[~in_time])
        return places[in_time]

    def fitting(self, places: Places, promise: Reservation) -> Places:
        """Leave out jobs that cannot end before the last known window does."""
        return super().fitting(places[self._in_time(places)], promise)

    def _in_time(self, places: Places) -> BoolArray:
        ends_s = self.view.now + self.view.queue.walltime_s[places]
        return np.asarray(ends_s <= self.live.plan.end_s + TIME_TOLERANCE_S)

    def _set_aside(self, late: Places) -> None:
        """Report jobs that have become late since the last pass."""
        queue, end_s, since_s = self.view.queue, self.live.plan.end_s, self._last_pass_s
        was_in_time = since_s + queue.walltime_s[late] <= end_s + TIME_TOLERANCE_S
        for place in late[was_in_time | (queue.subtime_s[late] >= since_s)].tolist():
            job = queue.at(place)
            why = {"window_end_s": end_s, "waited_s": self.view.now - job.subtime_s}
            self.actions.append(Postpone(job, SET_ASIDE, why))

    # --- starts -------------------------------------------------------------------------------------------

    def start(self, job: Job, late: bool = False) -> bool:
        """Start ``job`` if it can be started and finished; a ``late`` one gets no reserved servers."""
        free = self.free_mask()
        ids = np.flatnonzero(free & ~self._reserved if late else free)
        if len(ids) < job.res:
            return False
        end = self.live.end_step(self.view.now + job.walltime_s) - self.step
        hosts = self._select_servers(ids, job.res, end)
        placement = self._test.check(hosts, end)
        if placement is None:
            self.refused_by = PLAN_CANNOT_PAY
            return False
        before_j = headroom_j(self.view)
        if not self.granted(job, hosts):
            return False
        self.live.start(self.view, self.step, job, self._test, placement)
        why = self._start_facts(job, len(ids), placement, before_j) if self.view.wants_facts else NO_FACTS
        rule = self.rule if placement.asleep is None else self.rule + SLEEPERS_PAY
        self.give(job, HostSet(hosts), rule, why)
        free[hosts] = False
        self._count(self.reservation)
        return True

    def _select_servers(self, ids: HostIds, count: int, end: int) -> HostIds:
        """Choose servers by fewest changes to the plan over the walltime, then speed, then lower id."""
        if len(ids) > count:
            speeds = self.live.ladder.speed_flops(ids, self.view.pstate[ids].astype(np.int8))
            changes = self.live.plan.asleep_steps(ids, self.step, self.step + end)
            order = np.lexsort((ids, -speeds, changes))
            ids = np.sort(ids[order[:count]])
        return ids

    def _count(self, promise: Reservation | None) -> None:
        """Update the numbers of free servers, and of free servers that are not reserved."""
        self.free = int(np.count_nonzero(self.free_mask()))
        if promise is not None:
            promise.extra = int(np.count_nonzero(self.free_mask() & ~self._reserved))

    def _start_facts(self, job: Job, free: int, placement: Placement, before_j: float) -> FactDict:
        """Return why ``job`` can start: its place in the queue, the plan, and the energy that it takes."""
        why = self.facts(job, free)
        why["planned_on_until_s"] = self.live.plan.start_of(self.step + placement.end)
        why |= spent_facts(self.view, before_j)
        if self._dangerous:
            why["dangerous"] = 1
        if placement.woken:
            why |= {"server_steps_changed": placement.woken, "needed_j": placement.needed_j}
        if placement.asleep is not None:
            rows, hosts = placement.asleep
            sleepers = {"server_steps_to_sleep": len(rows), "hosts_to_sleep": len(np.unique(hosts))}
            why |= {"found_j": placement.saved_j, **sleepers}
        return why

    # --- the reservation ----------------------------------------------------------------------------------

    def reserve(self, job: Job) -> Reservation:
        """Reserve for ``job`` from when enough servers are free and planned on for its whole walltime.

        Servers that are busy now are preferred. A job that lacks energy in this step waits for the next one.
        """
        view, live, plan, free = self.view, self.live, self.live.plan, self.free_mask()
        host, begin, end = plan.runs_on(self.step)
        on_s = np.where(begin > self.step, view.power_model.on_s[view.platform.kind_of[host]], 0.0)
        opens_s = plan.start_s + begin * plan.step_s + on_s
        opens_s = np.maximum(opens_s, ready_s(view, plan, self.step, free, live.ends_s)[host])
        earliest_s = view.now
        if self.refused_by == NO_STEP_ENERGY and view.budget is not None:
            earliest_s = view.budget.end_s
        opens_s = np.maximum(opens_s, earliest_s)
        closes_s = plan.start_s + end * plan.step_s - job.walltime_s + TIME_TOLERANCE_S
        fits = np.logical_and(view.available[host], opens_s <= closes_s)
        opens_s, closes_s, hosts = opens_s[fits], closes_s[fits], host[fits]
        times_s = np.sort(opens_s)
        count = np.searchsorted(times_s, times_s + TIME_TOLERANCE_S, side="right")
        count -= np.searchsorted(np.sort(closes_s), times_s)
        enough = np.flatnonzero(count >= job.res)
        promise = Reservation(job, np.inf, certain=True)
        if len(enough):
            promise.start_s = start_s = float(times_s[enough[0]])
            ids = hosts[(opens_s <= start_s + TIME_TOLERANCE_S) & (closes_s >= start_s)]
            speeds = live.ladder.speed_flops(ids, view.pstate[ids].astype(np.int8))
            order = np.lexsort((ids, -speeds, free[ids]))
            self._reserved[ids[order[: job.res]]] = True
        self._count(promise)
        return promise

    def lacks(self, promise: Reservation) -> FactDict:
        """Return what the first job that cannot start lacks: hosts, or energy in the plan or the step."""
        why = reservation_facts(promise, self.free)
        if self.refused_by == PLAN_CANNOT_PAY:
            why["needed_j"], why["found_j"] = self._test.short_j()
        elif self.refused_by == NO_STEP_ENERGY:
            why |= self.unaffordable(self.refused_hosts)
        return why

    def fill(self, promise: Reservation) -> None:
        """Backfill without putting promised servers to sleep while they are promised."""
        if np.isfinite(promise.start_s):
            plan = self.live.plan
            first = int((promise.start_s - plan.start_s + TIME_TOLERANCE_S) / plan.step_s)
            end = self.live.end_step(promise.start_s + promise.job.walltime_s)
            self._test.keep(self._reserved, max(first - self.step, 0), end - self.step)
        super().fill(promise)
