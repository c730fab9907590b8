"""One scheduling pass of BEASY: Algorithm 1, with its orders, its reservation and its one backfilling.

BEASY's reservation for the first job that cannot start: when, and on which servers (Algorithm 1, line 9).

A server can take a job from the moment at which it is free, awake and planned on, until so long before
the end of that run of steps that the job's walltime still fits. Each run is one such interval; in the
order of their ends the first moment at which enough of them are open is found by counting, without a look
at single steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.engine.actions import NO_FACTS, Action, Facts, Postpone, Start
from beasy_sched.engine.policy import View
from beasy_sched.model.cluster import HostState
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.policies import easy
from beasy_sched.policies.beasy.plan import Change, Kept, LivePlan
from beasy_sched.policies.easy import Order, Places, largest_slowdown, one_by_one, smallest_size
from beasy_sched.units import TIME_TOLERANCE_S


@dataclass(frozen=True)
class Promise:
    """The reservation of the first job that cannot start: when, and on which servers."""

    job: Job
    start_s: float
    """Infinite where the plan never has its servers on for its whole walltime."""
    hosts: HostIds


def reserve(
    view: View, live: LivePlan, step: int, job: Job, free: BoolArray, earliest_s: float = -np.inf
) -> Promise:
    """Find when enough servers are free, and planned on for the job's whole walltime.

    ``free`` servers (N) are free in the present ``step``. Servers that are busy now are promised first.
    """
    opens_s, closes_s, hosts = _openings(view, live, step, job.walltime_s, _ready_s(view, live, step, free))
    opens_s = np.maximum(opens_s, earliest_s)
    fits = opens_s <= closes_s
    opens_s, closes_s, hosts = opens_s[fits], closes_s[fits], hosts[fits]
    times_s = np.sort(opens_s)
    count = np.searchsorted(times_s, times_s + TIME_TOLERANCE_S, side="right")
    count -= np.searchsorted(np.sort(closes_s), times_s)
    enough = np.flatnonzero(count >= job.res)
    if not len(enough):
        return Promise(job, np.inf, np.empty(0, dtype=np.intp))
    start_s = float(times_s[enough[0]])
    ids = hosts[(opens_s <= start_s + TIME_TOLERANCE_S) & (closes_s >= start_s)]
    speeds = live.ladder.speed_flops(ids, view.pstate[ids].astype(np.int8))
    order = np.lexsort((ids, -speeds, free[ids]))
    return Promise(job, start_s, np.sort(ids[order[: job.res]]))


def _openings(
    view: View, live: LivePlan, step: int, walltime_s: float, ready_s: FloatArray
) -> tuple[FloatArray, FloatArray, HostIds]:
    """From when and until when servers can take a job of this length, s: one entry a run of steps."""
    plan = live.plan
    host, begin, end = plan.runs_on(step)
    on_s: FloatArray = np.where(begin > step, view.power_model.on_s[view.platform.kind_of[host]], 0.0)
    opens_s = np.maximum(plan.start_s + begin * plan.step_s + on_s, ready_s[host])
    closes_s = plan.start_s + end * plan.step_s - walltime_s + TIME_TOLERANCE_S
    able = np.asarray(view.available[host])
    return np.asarray(opens_s[able]), np.asarray(closes_s[able]), host[able]


def _ready_s(view: View, live: LivePlan, step: int, free: BoolArray) -> FloatArray:
    """When each server can take a job at the earliest, were it planned on, s."""
    on_s = view.power_model.on_s[view.platform.kind_of]
    waking = view.host_state == HostState.SWITCHING_ON
    ready_s = np.where(waking, view.state_since_s + on_s, live.plan.start_of(step + 1) + on_s)
    ready_s[free] = view.now
    return np.where(np.isfinite(live.ends_s), np.maximum(live.ends_s, view.now), ready_s)


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
            if not self._start(job, easy.HEAD):
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
            self._postponed.append(Postpone(queue.at(place), easy.SET_ASIDE, why))

    def _start(self, job: Job, rule: str, barred: BoolArray | None = None) -> bool:
        """Start ``job`` if it can be started and finished on servers that are not ``barred``."""
        free = self._free if barred is None else self._free & ~barred
        ids = np.flatnonzero(free)
        if len(ids) < job.res:
            self._refused_by = easy.RESERVED
            return False
        end = self.live.end_step(self.view.now + job.walltime_s) - self.step
        hosts = self._select_servers(ids, job.res, end)
        change = self._test.check(hosts, end)
        if change is None:
            self._refused_by = easy.PLAN_CANNOT_PAY
            return False
        budget = self.view.budget
        headroom_j = 0.0 if budget is None else budget.headroom_j
        if budget is not None and not budget.grant_start(hosts, computes=job.computes):
            self._vetoed = True
            self._refused_by = easy.NO_STEP_ENERGY
            if self.promise is None:
                self._cost_j = budget.start_cost_j(hosts)
            return False
        self.live.start(self.view, self.step, job, self._test, change)
        paid = rule if change.asleep is None else rule + easy.SLEEPERS_PAY
        why = self._facts(job, len(ids), change, headroom_j) if self.view.wants_facts else NO_FACTS
        self._free[hosts] = False
        self._started.add(job)
        self.actions.append(Start(job, HostSet(hosts), paid, why))
        return True

    def _facts(self, job: Job, free: int, change: Change, headroom_j: float) -> Facts:
        """Why ``job`` could be started: its place in the queue, the plan, and the energy that it takes."""
        view, promise = self.view, self.promise
        if promise is None:
            why = easy.head_facts(view, job, free, self._priority)
        else:
            why = easy.filler_facts(view, job, free, promise.job, promise.start_s)
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
        if rule == easy.RESERVED:
            rule = easy.reservation_rule(promise.start_s)
        if not self.view.wants_reason(job, rule):
            return
        why = easy.reservation_facts(job, int(self._free.sum()), promise.start_s)
        if rule == easy.PLAN_CANNOT_PAY:
            why["needed_j"], why["found_j"] = self._test.short_j()
        elif rule == easy.NO_STEP_ENERGY and budget is not None:
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
            if self._start(job, easy.BACKFILLED, reserved if is_late else None):
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
