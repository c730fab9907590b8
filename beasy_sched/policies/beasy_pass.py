"""One scheduling pass of BEASY: Algorithm 1, with its orders, its reservation and its one backfilling."""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import BoolArray
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.job import Job
from beasy_sched.policies import facts
from beasy_sched.policies.actions import NO_FACTS, Action, Facts, Postpone, Start
from beasy_sched.policies.beasy_plan import LivePlan
from beasy_sched.policies.beasy_reservation import Promise, reserve
from beasy_sched.policies.beasy_scheduling import Change, Kept
from beasy_sched.policies.orders import Order, Places, largest_slowdown, one_by_one, smallest_size
from beasy_sched.policies.view import View
from beasy_sched.units import TIME_TOLERANCE_S


class BeasyPass:
    """Starts jobs on servers that the plan keeps on, or can keep on, to their walltimes."""

    def __init__(
        self, view: View, live: LivePlan, step: int, *, dangerous: bool, last_pass_s: float = 0.0
    ) -> None:
        """Begin a pass in the present ``step``; ``dangerous`` says which P_R holds in it.

        ``last_pass_s`` is when the last one was.
        """
        self.view = view
        self.live = live
        self.step = step
        self.actions: list[Action] = []
        self.promise: Promise | None = None
        self._postponed: list[Postpone] = []
        self._last_pass_s = last_pass_s
        self._dangerous = dangerous
        self._priority: Order = smallest_size if dangerous else largest_slowdown
        self._free = view.free_mask()
        self._started: set[Job] = set()
        self._vetoed = False
        self._refused_by = ""
        """The rule that the last job that did not start failed."""
        self._cost_j = 0.0
        """What the first job that was vetoed would have added to the step, J."""
        self._test = live.test(view, step)

    def run(self) -> list[Action]:
        """Start heads while they can be started and finished; reserve for the next; backfill once."""
        queue, now = self.view.queue, self.view.now
        places = self._in_time(queue.places())
        for place in one_by_one(self._priority, queue, places, now):
            job = queue.at(place)
            if not self._start(job, facts.HEAD):
                earliest_s = now
                if self._vetoed and self.view.budget is not None:
                    earliest_s = self.view.budget.end_s
                self.promise = reserve(self.view, self.live, self.step, job, self._free, earliest_s)
                self._tell(self.promise)
                self._backfill(places)
                break
        return [*self._postponed, *self.actions]

    def _in_time(self, places: Places) -> Places:
        """Leave out jobs that cannot end inside the last known window: they are postponed."""
        ends_s = self.view.now + self.view.queue.walltime_s[places]
        in_time = ends_s <= self.live.plan.end_s + TIME_TOLERANCE_S
        if self.view.wants_facts and not in_time.all():
            self._set_aside(places[~in_time])
        return places[in_time]

    def _set_aside(self, late: Places) -> None:
        """Say of those jobs that are late since the last pass that they are."""
        queue, end_s, since_s = self.view.queue, self.live.plan.end_s, self._last_pass_s
        was_in_time = since_s + queue.walltime_s[late] <= end_s + TIME_TOLERANCE_S
        for place in late[was_in_time | (queue.subtime_s[late] >= since_s)].tolist():
            why = {"window_end_s": end_s, "waited_s": self.view.now - queue.at(place).subtime_s}
            self._postponed.append(Postpone(queue.at(place), facts.SET_ASIDE, why))

    def _start(self, job: Job, rule: str, barred: BoolArray | None = None) -> bool:
        """Start ``job`` if it can be started and finished on servers that are not ``barred``."""
        free = self._free if barred is None else self._free & ~barred
        ids = np.flatnonzero(free)
        if len(ids) < job.res:
            self._refused_by = facts.RESERVED
            return False
        end = self.live.end_step(self.view.now + job.walltime_s) - self.step
        hosts = self._select_servers(ids, job.res, end)
        change = self._test.check(hosts, end)
        if change is None:
            self._refused_by = facts.PLAN_CANNOT_PAY
            return False
        budget = self.view.budget
        headroom_j = 0.0 if budget is None else budget.headroom_j
        if budget is not None and not budget.grant_start(hosts, computes=job.computes):
            self._vetoed = True
            self._refused_by = facts.NO_STEP_ENERGY
            if self.promise is None:
                self._cost_j = budget.start_cost_j(hosts)
            return False
        self.live.start(self.view, self.step, job, self._test, change)
        paid = rule if change.asleep is None else rule + facts.SLEEPERS_PAY
        why = self._facts(job, len(ids), change, headroom_j) if self.view.wants_facts else NO_FACTS
        self._free[hosts] = False
        self._started.add(job)
        self.actions.append(Start(job, HostSet(hosts), paid, why))
        return True

    def _facts(self, job: Job, free: int, change: Change, headroom_j: float) -> Facts:
        """Why ``job`` could be started: its place in the queue, the plan, and the energy that it takes."""
        view, promise = self.view, self.promise
        if promise is None:
            why = facts.head_facts(view, job, free, self._priority)
        else:
            why = facts.filler_facts(view, job, free, promise.job, promise.start_s)
        why["planned_on_until_s"] = self.live.plan.start_of(self.step + change.end)
        if view.budget is not None:
            why |= {"headroom_j": headroom_j, "cost_j": headroom_j - view.budget.headroom_j}
        if self._dangerous:
            why["dangerous"] = 1
        if change.woken:
            why |= {"server_steps_changed": change.woken, "needed_j": change.needed_j}
        if change.asleep is not None:
            rows, hosts = change.asleep
            sleepers = {"server_steps_to_sleep": len(rows), "hosts_to_sleep": len(np.unique(hosts))}
            why |= {"found_j": change.saved_j, **sleepers}
        return why

    def _tell(self, promise: Promise) -> None:
        """Say why the first job that cannot start waits, and for when it has its reservation."""
        job, rule, budget = promise.job, self._refused_by, self.view.budget
        if rule == facts.RESERVED:
            rule = facts.reservation_rule(promise.start_s)
        if not self.view.wants_reason(job, rule):
            return
        why = facts.reservation_facts(job, int(self._free.sum()), promise.start_s)
        if rule == facts.PLAN_CANNOT_PAY:
            why["needed_j"], why["found_j"] = self._test.short_j()
        elif rule == facts.NO_STEP_ENERGY and budget is not None:
            why["cost_j"], why["headroom_j"] = self._cost_j, budget.headroom_j
        self._postponed.append(Postpone(job, rule, why))

    def _select_servers(self, ids: HostIds, count: int, end: int) -> HostIds:
        """Fewest changes to the plan over the walltime first, then the faster, then the lower id."""
        if len(ids) > count:
            speeds = self.live.ladder.speed_flops(ids, self.view.pstate[ids].astype(np.int8))
            changes = self.live.plan.asleep_steps(ids, self.step, self.step + end)
            order = np.lexsort((ids, -speeds, changes))
            ids = np.sort(ids[order[:count]])
        return ids

    # --- reservation and backfilling ----------------------------------------------------------------------

    def _backfill(self, places: Places) -> None:
        """Start every other job that fits without delaying the promise, in order P_B."""
        assert self.promise is not None
        queue, promise = self.view.queue, self.promise
        self._keep(promise)
        reserved = np.zeros(len(self._free), dtype=np.bool_)
        reserved[promise.hosts] = True
        free, open_to_all = self._counts(reserved)
        places = smallest_size(queue, places[queue.res[places] <= free], self.view.now)
        late = self.view.now + queue.walltime_s[places] > promise.start_s + TIME_TOLERANCE_S
        fillers = zip(places.tolist(), queue.res[places].tolist(), late.tolist(), strict=True)
        for place, res, is_late in fillers:
            if res > (open_to_all if is_late else free):
                continue
            job = queue.at(place)
            if job is promise.job or job in self._started:
                continue
            if self._start(job, facts.BACKFILLED, reserved if is_late else None):
                free, open_to_all = self._counts(reserved)

    def _counts(self, reserved: BoolArray) -> tuple[int, int]:
        """How many servers are free, and how many of them are not reserved."""
        return int(np.count_nonzero(self._free)), int(np.count_nonzero(self._free & ~reserved))

    def _keep(self, promise: Promise) -> None:
        """The promised servers are not put to sleep for others while they are promised."""
        if not len(promise.hosts):
            return
        hosts = np.zeros(len(self._free), dtype=np.bool_)
        hosts[promise.hosts] = True
        first = int((promise.start_s - self.live.plan.start_s + TIME_TOLERANCE_S) / self.live.plan.step_s)
        end = self.live.end_step(promise.start_s + promise.job.walltime_s)
        self._test.outlook.kept = Kept(hosts, max(first - self.step, 0), end - self.step)
        self._test.forget()
