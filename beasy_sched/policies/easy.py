"""EASY backfilling and plain FCFS: the core that other policies share.

Orders of the queue: P_R (who gets the reservation) and P_B (who is tried next).

The numbers behind starts and postponements, gathered the same way for every policy.

All of them are at hand where they are asked for: none takes more than constant time.

Putting servers to sleep and waking them: the parts that policies share.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from beasy_sched.arrays import BoolArray, FloatArray, StateArray
from beasy_sched.engine.actions import NO_FACTS, Action, Facts, Postpone, SetPState, Start
from beasy_sched.engine.policy import Options, Policy, View
from beasy_sched.model.cluster import ASLEEP
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job, JobQueue, bounded_slowdown
from beasy_sched.model.platform import ServerKind
from beasy_sched.units import TIME_TOLERANCE_S

Places = npt.NDArray[np.intp]

_SEARCHED: Final = 4

Order = Callable[[JobQueue, Places, float], Places]
"""Sorts places of the queue (given in order of arrival) at a time (s); ties stay by arrival."""


def by_arrival(queue: JobQueue, places: Places, now: float) -> Places:
    """First come, first served."""
    return places


def smallest_size(queue: JobQueue, places: Places, now: float) -> Places:
    """Smallest walltime x hosts first."""
    return places[np.argsort(size_host_s(queue, places, now), kind="stable")]


def largest_slowdown(queue: JobQueue, places: Places, now: float) -> Places:
    """Largest bounded slowdown first, by walltimes (Eq. 4 of the BEASY paper)."""
    return places[np.argsort(-slowdown(queue, places, now), kind="stable")]


def size_host_s(queue: JobQueue, places: Places, now: float) -> FloatArray:
    """Walltime x hosts of each job, s."""
    sizes: FloatArray = queue.walltime_s[places] * queue.res[places]
    return sizes


def slowdown(queue: JobQueue, places: Places, now: float) -> FloatArray:
    """Bounded slowdown of each job, by its walltime; 1 without one."""
    walltime_s = queue.walltime_s[places]
    endless = np.isinf(walltime_s)
    duration_s = np.where(endless, 1.0, walltime_s)
    wait_s = now - queue.subtime_s[places]
    return np.where(endless, 1.0, bounded_slowdown(wait_s, duration_s))


def one_by_one(order: Order, queue: JobQueue, places: Places, now: float) -> Iterator[int]:
    """Places in ``order``; the first ones are searched for, as most passes ask for no more than two."""
    if order is by_arrival or len(places) <= _SEARCHED:
        yield from order(queue, places, now).tolist()
        return
    by_size = order is smallest_size
    key = size_host_s(queue, places, now) if by_size else -slowdown(queue, places, now)
    for _ in range(_SEARCHED):
        first = int(key.argmin())
        yield int(places[first])
        key[first] = np.inf
    yield from order(queue, places, now).tolist()[_SEARCHED:]


ORDERS: Final[dict[str, Order]] = {
    "arrival": by_arrival,
    "smallest": smallest_size,
    "slowdown": largest_slowdown,
}


FactDict = dict[str, float | int | str]

HEAD: Final = "head of the queue"
BACKFILLED: Final = "backfilled"
SLEEPERS_PAY: Final = "; idle servers sleep for it"
"""Added to the two above where BEASY lets idle servers sleep, so that the job can be paid for."""
RESERVED: Final = "reserved"
"""Not enough hosts are free; enough will be at a time that is known."""
NOT_RESERVED: Final = "no reservation"
"""Not enough hosts are free, and when enough will be is not known."""
NO_STEP_ENERGY: Final = "no energy in this step"
"""The guard's veto: what is left of the step's energy does not suffice."""
PLAN_CANNOT_PAY: Final = "plan cannot pay"
"""The energy test of BEASY fails."""
SET_ASIDE: Final = "ends after the last window"


def head_facts(view: View, job: Job, free: int, order: Order) -> FactDict:
    """Why a job was the first of the queue: how long it waited, and by what it was ranked.

    ``free`` hosts were free before it started.
    """
    wait_s = view.now - job.subtime_s
    facts: FactDict = {"hosts_free": free, "waited_s": wait_s}
    finite = math.isfinite(job.walltime_s)
    if order is largest_slowdown:
        facts["slowdown"] = float(bounded_slowdown(wait_s, job.walltime_s)) if finite else 1.0
    elif order is smallest_size and finite:
        facts["size_host_s"] = job.size
    return facts


def filler_facts(
    view: View, job: Job, free: int, reserved: Job, reserved_s: float, extra: int | None = None
) -> FactDict:
    """Why a job may go before the ``reserved`` one: it ends in time, or leaves it the hosts that it needs.

    ``free`` hosts were free before it started; the reservation is for ``reserved_s``, infinite where
    there is none. Beside the reserved job, ``extra`` hosts will be free then; without ``extra`` the
    reservation is for certain hosts, which the job leaves alone.
    """
    facts: FactDict = {"hosts_free": free, "waited_s": view.now - job.subtime_s, "reserved_for": reserved.id}
    if math.isfinite(reserved_s):
        if reserved_s > view.now:
            facts["reserved_at_s"] = reserved_s
        else:
            facts["reserved_lacks"] = "energy"
        if view.now + job.walltime_s <= reserved_s + TIME_TOLERANCE_S:
            facts["ends_by_s"] = view.now + job.walltime_s
        elif extra is None:
            facts["hosts_left_alone"] = reserved.res
        else:
            facts["hosts_extra"] = extra
    return facts


def reservation_rule(reserved_s: float) -> str:
    """The rule by which the first job that lacks hosts waits, with a reservation or without one."""
    return RESERVED if math.isfinite(reserved_s) else NOT_RESERVED


def reservation_facts(job: Job, free: int, reserved_s: float) -> FactDict:
    """What a job lacks, and when it is promised that: nothing of the latter if never."""
    facts: FactDict = {"hosts_asked": job.res, "hosts_free": free}
    if math.isfinite(reserved_s):
        facts["reserved_at_s"] = reserved_s
    return facts


def break_even_s(kind: ServerKind) -> float:
    """T_wait (Eq. 2.9 of the thesis): idle longer than this, and sleeping would have used less, s.

    Infinite for servers that cannot sleep or use no less asleep than idle.
    """
    if kind.sleep is None or not kind.idle_w or not kind.speeds_flops:
        return np.inf
    off_s, on_s = kind.off_duration_s(), kind.on_duration_s()
    sleep_w, idle_w = kind.idle_w[kind.sleep.pstate], kind.idle_w[kind.fastest]
    if idle_w <= sleep_w:
        return np.inf
    switching_j = kind.full_w[kind.sleep.off_pstate] * off_s + kind.full_w[kind.sleep.on_pstate] * on_s
    return max((switching_j - sleep_w * (off_s + on_s)) / (idle_w - sleep_w), off_s + on_s)


def hosts_wanted(view: View, started: int) -> int:
    """Hosts that the waiting jobs ask for in all, less those that have just been ``started``."""
    queue = view.queue
    wanted = int(queue.res[queue.places()].sum()) if len(queue) else 0
    return min(wanted - started, view.platform.size)


def wake_for_queue(view: View, wanted: int, free: int) -> list[Action]:
    """Wake sleeping servers, at full speed, until the waiting jobs have the hosts they ask for.

    ``free`` hosts are idle and untaken. As many are woken as the step's energy allows.
    """
    awaited = free + sum(count for _, count in view.wakes)
    asleep = np.flatnonzero((view.host_state == ASLEEP) & view.available)
    missing = wanted - awaited
    if missing <= 0 or not len(asleep) or not view.power_actions_allowed:
        return []
    facts: FactDict = {"hosts_wanted": wanted, "hosts_awaited": awaited}
    return wake(view, asleep[:missing], "waiting jobs want it", facts)


def wake(view: View, hosts: HostIds, rule: str, facts: Facts = NO_FACTS) -> list[Action]:
    """Wake ``hosts`` at their full speed, as many as the step's energy allows."""
    actions: list[Action] = []
    budget = view.budget
    for group, pstate in by_target(view, hosts, view.platform.fastest_of_kind):
        headroom_j = 0.0 if budget is None else budget.headroom_j
        granted = len(group) if budget is None else budget.grant_wakes(group, pstate)
        if granted:
            why = {**facts, "hosts_to_wake": granted}
            if granted < len(group):
                why["hosts_left_asleep"] = len(group) - granted
            if budget is not None:
                why |= {"headroom_j": headroom_j, "cost_j": headroom_j - budget.headroom_j}
            actions.append(SetPState(HostSet(group[:granted]), pstate, rule, why))
    return actions


def sleep(view: View, hosts: HostIds, rule: str, facts: Facts = NO_FACTS) -> list[Action]:
    """Put idle ``hosts`` to sleep; those that cannot sleep stay on."""
    groups = by_target(view, hosts, view.platform.sleep_of_kind)
    return [SetPState(HostSet(group), pstate, rule, facts) for group, pstate in groups if pstate >= 0]


def by_target(view: View, hosts: HostIds, targets: StateArray) -> list[tuple[HostIds, int]]:
    """Group ``hosts`` by the P-state that ``targets`` gives for their kind."""
    wanted = targets[view.platform.kind_of[hosts]]
    return [(hosts[wanted == pstate], pstate) for pstate in np.unique(wanted).tolist()]


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

    def _facts(self, job: Job, headroom_j: float) -> FactDict:
        """Why ``job`` may start now; the step had ``headroom_j`` before."""
        view, promise = self.view, self.reservation
        if promise is None:
            why = head_facts(view, job, self.free, self._order)
        else:
            why = filler_facts(view, job, self.free, promise.job, promise.start_s, promise.extra)
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
            if not self.start(job, HEAD):
                self.reservation = self.reserve(job)
                self._tell(self.reservation)
                return

    def _tell(self, promise: Reservation) -> None:
        """Say why the first job that cannot start waits."""
        job, budget = promise.job, self.view.budget
        vetoed = job.res <= self.free
        rule = NO_STEP_ENERGY if vetoed else reservation_rule(promise.start_s)
        if not self.view.wants_reason(job, rule):
            return
        why = reservation_facts(job, self.free, np.inf if vetoed else promise.start_s)
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
        if (late and job.res > self.reservation.extra) or not self.start(job, BACKFILLED):
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
