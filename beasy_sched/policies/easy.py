"""EASY backfilling and plain FCFS: the core that other policies share."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import BoolArray
from beasy_sched.model.job import Job
from beasy_sched.policies import facts
from beasy_sched.policies.actions import NO_FACTS, Action, Postpone, Start
from beasy_sched.policies.base import Options, Policy
from beasy_sched.policies.orders import ORDERS, Order, Places, by_arrival
from beasy_sched.policies.switching import hosts_wanted, wake_for_queue
from beasy_sched.policies.view import View
from beasy_sched.units import TIME_TOLERANCE_S

OrderName = Literal["arrival", "smallest", "slowdown"]


class Reservation(Struct, frozen=True):
    """The promise to the first job that cannot start."""

    job: Job
    start_s: float
    """When enough hosts come free, by walltimes; infinite if they never do."""
    extra: int
    """Hosts that will be free then and that the job does not need."""

    def less(self, hosts: int) -> Reservation:
        """Return the promise after ``hosts`` of the extra ones went to a job that ends later."""
        return Reservation(self.job, self.start_s, self.extra - hosts)


def reserve(view: View, job: Job, free: int, started: Sequence[Job] = ()) -> Reservation:
    """Find the earliest time at which ``job`` has its hosts, by walltimes.

    ``free`` hosts are left now, after the jobs ``started`` in this pass took theirs.
    """
    need = job.res - free
    start_s = view.now if need <= 0 else np.inf
    for when, count in _releases(view, started):
        if need <= 0 and when > start_s + TIME_TOLERANCE_S:
            break
        if need > 0:
            start_s = when
        need -= count
    return Reservation(job, start_s, -need) if need <= 0 else Reservation(job, np.inf, free)


def _releases(view: View, started: Sequence[Job]) -> Iterable[tuple[float, int]]:
    ends = ((end_s, view.usable_hosts(job)) for end_s, _, job in view.ends)
    if not started and not view.wakes:
        return ends
    new = sorted((view.now + job.walltime_s, job.res) for job in started)
    return heapq.merge(ends, new, view.wakes)


class EasyPass:
    """One scheduling pass: start heads while they fit, reserve for the next, backfill once."""

    def __init__(self, view: View) -> None:
        """Begin a pass at the view's present time."""
        self.view = view
        self.actions: list[Action] = []
        self.started: list[Job] = []
        self.free = view.free_count
        self.reservation: Reservation | None = None
        self._order: Order = by_arrival
        self._mask: BoolArray | None = None
        self._dear_from: float = np.inf
        """So many of the free hosts, or more, need more energy than the step has left."""

    def start(self, job: Job, rule: str) -> bool:
        """Start ``job`` if it fits on the free hosts and into the step's energy."""
        if job.res > self.free or (job.computes and job.res >= self._dear_from):
            return False
        mask = self.free_mask()
        hosts = self.view.fastest(mask, job.res)
        budget = self.view.budget
        headroom_j = 0.0 if budget is None else budget.headroom_j
        if budget is not None and not budget.grant_start(hosts.ids, computes=job.computes):
            self._dear_from = min(self._dear_from, job.res)
            return False
        self._dear_from = np.inf  # what is left are other hosts: slower ones may be enough
        mask[hosts.ids] = False
        why = self._facts(job, headroom_j) if self.view.wants_facts else NO_FACTS
        self.free -= job.res
        self.started.append(job)
        self.actions.append(Start(job, hosts, rule, why))
        return True

    def _facts(self, job: Job, headroom_j: float) -> facts.FactDict:
        """Why ``job`` may start now; the step had ``headroom_j`` before."""
        view, promise = self.view, self.reservation
        if promise is None:
            why = facts.head_facts(view, job, self.free, self._order)
        else:
            why = facts.filler_facts(view, job, self.free, promise.job, promise.start_s, promise.extra)
        if view.budget is not None:
            why |= {"headroom_j": headroom_j, "cost_j": headroom_j - view.budget.headroom_j}
        return why

    def free_mask(self) -> BoolArray:
        """Return the mask of the hosts that are still free in this pass."""
        if self._mask is None:
            self._mask = self.view.free_mask()
        return self._mask

    def run_heads(self, priority: Order) -> None:
        """Start jobs in order P_R until one does not fit; reserve for that one."""
        queue = self.view.queue
        self._order = priority
        if not queue:
            return
        heads = (
            iter(queue)
            if priority is by_arrival
            else map(queue.at, priority(queue, queue.places(), self.view.now).tolist())
        )
        for job in heads:
            if not self.start(job, facts.HEAD):
                self.reservation = self.reserve(job)
                self._tell(self.reservation)
                return

    def _tell(self, promise: Reservation) -> None:
        """Say why the first job that cannot start waits."""
        job, budget = promise.job, self.view.budget
        vetoed = job.res <= self.free
        rule = facts.NO_STEP_ENERGY if vetoed else facts.reservation_rule(promise.start_s)
        if not self.view.wants_reason(job, rule):
            return
        why = facts.reservation_facts(job, self.free, np.inf if vetoed else promise.start_s)
        if vetoed and budget is not None:
            hosts = self.view.fastest(self.free_mask(), job.res)
            why |= {"cost_j": budget.start_cost_j(hosts.ids), "headroom_j": budget.headroom_j}
        self.actions.append(Postpone(job, rule, why))

    def reserve(self, job: Job) -> Reservation:
        """Promise hosts to the first job that does not start, by walltimes."""
        return reserve(self.view, job, self.free, self.started)

    def backfill(self, order: Order) -> None:
        """Start every other job that fits without delaying the reservation, in order P_B."""
        if self.reservation is None or not self.free:
            return
        queue = self.view.queue
        places = order(queue, self._fitting(np.flatnonzero(queue.res <= self.free)), self.view.now)
        barred = {self.reservation.job, *self.started}
        tried = 0
        while tried < len(places):
            job = queue.at(int(places[tried]))
            tried += 1
            if job not in barred and self.try_backfilling(job):
                places, tried = self._fitting(places[tried:]), 0

    def try_backfilling(self, job: Job) -> bool:
        """Start ``job`` if it fits without delaying the reservation."""
        assert self.reservation is not None
        late = self.view.now + job.walltime_s > self.reservation.start_s + TIME_TOLERANCE_S
        if (late and job.res > self.reservation.extra) or not self.start(job, facts.BACKFILLED):
            return False
        if late:
            self.reservation = self.reservation.less(job.res)
        return True

    def _fitting(self, places: Places) -> Places:
        """Return those places whose job fits now and does not delay the reservation."""
        assert self.reservation is not None
        res, walltime_s = self.view.queue.res[places], self.view.queue.walltime_s[places]
        in_time = self.view.now + walltime_s <= self.reservation.start_s + TIME_TOLERANCE_S
        return places[(res <= self.free) & (in_time | (res <= self.reservation.extra))]


class EasyOptions(Options, frozen=True):
    """Options of `easy`."""

    priority: OrderName | None = None
    """P_R: by arrival without a site, by largest bounded slowdown with one."""
    backfill: OrderName | None = None
    """P_B: by arrival without a site, by smallest size with one."""


class Easy(Policy):
    """EASY backfilling on all servers (Section IV-B of the BEASY paper without its energy test).

    With a site, servers that the guard put to sleep wake again when waiting jobs want them.
    """

    name = "easy"
    summary = "EASY backfilling: the first waiting job gets a reservation, others fill the gaps"
    options_type = EasyOptions
    options: EasyOptions

    def begin(self, view: View) -> None:
        """Choose the orders: FCFS where power is no concern, the BEASY paper's where it is."""
        paper = view.has_site
        self._priority = ORDERS[self.options.priority or ("slowdown" if paper else "arrival")]
        self._backfill = ORDERS[self.options.backfill or ("smallest" if paper else "arrival")]
        self._seen_openings = -1
        self._blocked: Reservation | None = None

    def schedule(self, view: View) -> Sequence[Action]:
        """Start what EASY starts now."""
        easy = EasyPass(view)
        if self._nothing_but_arrivals(view):
            easy.reservation = self._blocked
            for job in view.arrived:
                easy.try_backfilling(job)
        else:
            easy.run_heads(self._priority)
            easy.backfill(self._backfill)
        self._blocked = easy.reservation
        self._seen_openings = view.openings
        if view.has_site and view.queue:
            wanted = hosts_wanted(view, sum(job.res for job in easy.started))
            return [*easy.actions, *wake_for_queue(view, wanted, easy.free)]
        return easy.actions

    def _nothing_but_arrivals(self, view: View) -> bool:
        """Tell whether the last pass's reservation still stands and only new jobs can be started.

        As time goes by, fewer jobs end before the reservation: what did not start then does not now.
        """
        return (
            self._blocked is not None
            and (self._backfill is by_arrival or len(view.arrived) < 2)
            and self._seen_openings == view.openings
            and view.budget is None
            and self._priority is by_arrival
        )


class Fcfs(Policy):
    """First come, first served: EASY without backfilling."""

    name = "fcfs"
    summary = "first come, first served: no job overtakes another"

    def begin(self, view: View) -> None:
        """Start with nothing known."""
        self._seen_openings = -1
        self._blocked = False

    def schedule(self, view: View) -> Sequence[Action]:
        """Start jobs in order of arrival until one does not fit."""
        if self._blocked and self._seen_openings == view.openings and view.budget is None:
            return ()
        easy = EasyPass(view)
        easy.run_heads(by_arrival)
        self._blocked = easy.reservation is not None
        self._seen_openings = view.openings
        return easy.actions
