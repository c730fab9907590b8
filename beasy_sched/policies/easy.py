"""EASY backfilling: the scheduling pass shared by all policies, and the plain policies `easy` and `fcfs`.

A pass starts jobs in order P_R until one cannot start, reserves hosts for that one, and tries every other job
once, in order P_B. Policies differ in the two orders and in the hooks of `EasyPass`:
which jobs should start now, which hosts a job gets and whether it may start, when the first waiting job will
have its hosts, and what is reserved for it. Several of them put servers to sleep and wake them with the
functions below.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, any_of
from beasy_sched.engine.actions import NO_FACTS, Action, CallAt, FactDict, Facts, Postpone, Start
from beasy_sched.engine.policy import Options, Policy, View
from beasy_sched.engine.power_actions import sleep, spent_facts, wake
from beasy_sched.engine.session_words import Rule, Sentences, Words, words_of
from beasy_sched.model.choices import Placement
from beasy_sched.model.host_states import ASLEEP, IDLE
from beasy_sched.model.hosts import NO_HOSTS, HostIds, HostSet
from beasy_sched.model.jobs import Job, JobQueue, bounded_slowdown
from beasy_sched.model.platform import ServerKind
from beasy_sched.policies.offering import ALL_WORDS, offer_all
from beasy_sched.policies.words import FILLER, HEAD_TOLD, LACKS, STEP
from beasy_sched.units import TIME_TOLERANCE_S

# --- orders of the queue: P_R (who gets the reservation) and P_B (who is tried next) ------------------------

Places = npt.NDArray[np.intp]

Order = Callable[[JobQueue, Places, float], Places]
"""Sorts queue positions, given in order of submission, at a time (s); ties keep that order."""


def by_arrival(queue: JobQueue, places: Places, now: float) -> Places:
    """First come, first served."""
    return places


def smallest_size(queue: JobQueue, places: Places, now: float) -> Places:
    """Smallest walltime x hosts first."""
    return places[_sizes_host_s(queue, places, now).argsort(kind="stable")]


def largest_slowdown(queue: JobQueue, places: Places, now: float) -> Places:
    """Largest bounded slowdown first, by walltimes (Eq. 4 of the BEASY paper)."""
    return places[_minus_slowdowns(queue, places, now).argsort(kind="stable")]


def _sizes_host_s(queue: JobQueue, places: Places, now: float) -> FloatArray:
    return queue.walltime_s[places] * queue.res[places]


def _minus_slowdowns(queue: JobQueue, places: Places, now: float) -> FloatArray:
    """Return the negative bounded slowdown of each job by its walltime; -1 for jobs without one."""
    walltime_s = queue.walltime_s[places]
    wait_s = now - queue.subtime_s[places]
    endless = np.isinf(walltime_s)
    if not any_of(endless):
        return -bounded_slowdown(wait_s, walltime_s)
    duration_s = np.where(endless, 1.0, walltime_s)
    return -np.where(endless, 1.0, bounded_slowdown(wait_s, duration_s))


ORDERS: Final[dict[str, Order]] = {
    "arrival": by_arrival,
    "smallest": smallest_size,
    "slowdown": largest_slowdown,
}
OrderName = Literal["arrival", "smallest", "slowdown"]

_KEYS: Final = {smallest_size: _sizes_host_s, largest_slowdown: _minus_slowdowns}
_SEARCHED: Final = 4


def one_by_one(order: Order, queue: JobQueue, places: Places, now: float) -> Iterator[int]:
    """Yield positions in ``order``, the first few without sorting: most passes need at most two."""
    if len(places) < 2:
        yield from places.tolist()
        return
    yielded = 0
    if order in _KEYS and len(places) > _SEARCHED:
        key = _KEYS[order](queue, places, now)
        while yielded < _SEARCHED and math.isfinite(key[first := int(key.argmin())]):
            yield int(places[first])
            key[first] = np.inf
            yielded += 1
    yield from order(queue, places, now).tolist()[yielded:]


# --- the rules by which jobs start and wait -----------------------------------------------------------------

HEAD: Final = Rule("start", "head of the queue", Words(HEAD_TOLD + STEP))
BACKFILLED: Final = Rule("start", "backfilled", Words(FILLER + STEP))
RESERVED: Final = Rule(
    "postpone",
    "reserved",
    Words(
        LACKS + "; its hosts are reserved for {reserved_at_s}.",
        of_jobs="not enough free hosts (had a reservation)",
    ),
)
"""Not enough hosts are free, but the time when enough will be is known."""
NOT_RESERVED: Final = Rule(
    "postpone",
    "no reservation",
    Words(LACKS + "; when enough will be free is not yet known.", of_jobs="not enough free hosts"),
)
"""Not enough hosts are free, and the time when enough will be is unknown."""
NO_STEP_ENERGY: Final = Rule(
    "postpone",
    "no energy in this step",
    Words(
        "{hosts_asked:host} are free, but it may need {cost_j} until the end of the step, and only"
        " {headroom_j} is available above SoC_min (guard veto).[ Its hosts are reserved for"
        " {reserved_at_s}.]",
        of_jobs="not enough energy in the step",
    ),
)
"""The guard's veto: the remaining energy of the step does not suffice."""
WANTED: Final = Rule(
    "P-state",
    "waiting jobs want it",
    Words(
        "Waiting jobs need {hosts_wanted:host}; {hosts_awaited} are free or waking."
        "[ {hosts_left_asleep} more stay asleep: {cost_j} of the {headroom_j} available in the step are"
        " used.]"
    ),
)
"""Reason for waking servers."""
IDLE_LONG: Final = Rule(
    "P-state",
    "idle for T_wait",
    Words("Idle for {idle_s}; sleeping saves energy after {t_wait_s} (T_wait, Eq. 2.9)."),
)
"""Reason for putting unneeded servers to sleep."""

EASY_WORDS: Final[Sentences] = words_of(HEAD, BACKFILLED, RESERVED, NOT_RESERVED, NO_STEP_ENERGY, WANTED)
"""Words for the rules of the EASY pass."""
IDLE_WORDS: Final[Sentences] = words_of(IDLE_LONG)
"""Words for the rule of `sleep_after`."""


class Reservation(Struct):
    """Reservation for the first job that cannot start."""

    job: Job
    start_s: float
    """Time when it will have what it lacks, by walltimes, s; infinite if unknown."""
    extra: int = 0
    """Number of hosts that other jobs may hold beyond ``start_s``."""
    certain: bool = False
    """Whether specific hosts are reserved, which jobs that end after ``start_s`` do not get."""


class EasyPass:
    """One scheduling pass of EASY backfilling; policies override its hooks.

    `run` makes the pass and returns its actions. The hooks that most policies need: `wanted` (whether a job
    should start now), `start` (which hosts a job gets, and whether it may start), `reserve` (when the first
    job that cannot start will have its hosts), `fitting` (which jobs may be backfilled) and `candidates`
    (which jobs take part). They read ``view``, ``free``, ``reservation`` and ``started``, and may add
    to ``actions``.
    """

    __slots__ = (
        "_expensive_from",
        "_mask",
        "actions",
        "backfill",
        "begin_s",
        "free",
        "priority",
        "refused_by",
        "refused_hosts",
        "reservation",
        "started",
        "unwanted",
        "view",
    )

    tries_each: ClassVar[bool] = False
    """Whether backfilling asks `wanted` and `start` about every job that fits, also when the step has too
    little energy for it. True in subclasses, which may override these hooks; one that does not may set it."""

    def __init_subclass__(cls) -> None:
        """Try each job, unless the subclass sets `tries_each`."""
        super().__init_subclass__()
        if "tries_each" not in vars(cls):
            cls.tries_each = True

    def __init__(
        self, view: View, priority: Order = largest_slowdown, backfill: Order | None = smallest_size
    ) -> None:
        """Begin a pass with orders P_R and P_B; without P_B, no job overtakes another."""
        self.view = view
        self.priority, self.backfill = priority, backfill
        self.actions: list[Action] = []
        self.started: list[Job] = []
        """Jobs started in this pass."""
        self.unwanted: set[Job] = set()
        """Jobs that were not wanted in this pass."""
        self.free = view.free_count
        """Number of hosts still available to jobs."""
        self.reservation: Reservation | None = None
        self.refused_by = ""
        """Rule by which the last job could not start; empty if it lacked hosts."""
        self.refused_hosts = NO_HOSTS.ids
        """Hosts on which the last job could not start because the step lacks energy."""
        self.begin_s = view.now
        """Latest start of a job that gets its hosts now, s."""
        self._mask: BoolArray | None = None
        self._expensive_from: float = np.inf
        """Number of free hosts from which jobs need more energy than the step has left."""

    def run(self) -> list[Action]:
        """Start wanted jobs in order P_R while possible, reserve for the next one, and backfill once."""
        for job in self.heads():
            if (not self.tries_each or self._wants(job)) and not self.start(job):
                if not self.needs_reservation(job):
                    break
                promise = self.reservation = self.reserve(job)
                self.tell(promise)
                self.fill(promise)
                break
        return self.actions

    def free_mask(self) -> BoolArray:
        """Return the mask of hosts that are still free in this pass."""
        if self._mask is None:
            self._mask = self.view.free_mask()
        return self._mask

    # --- hooks ----------------------------------------------------------------------------------------------

    def heads(self) -> Iterable[Job]:
        """Waiting jobs in order P_R."""
        queue = self.view.queue
        if not queue.count:
            return ()
        if self.priority is by_arrival:
            return queue
        return map(queue.at, one_by_one(self.priority, queue, self.candidates(), self.view.now))

    def candidates(self) -> Places:
        """Return the positions of the jobs that `heads` may yield."""
        return self.view.queue.places()

    def wanted(self, job: Job) -> bool:
        """Return whether ``job`` should start now if it can, and get the reservation if it is the first
        that cannot.

        A job that is not wanted takes no part in the pass: others start as if it were not in the queue. A
        pass calls it once per job, before choosing the job's hosts: for heads in order P_R up to the one
        that gets the reservation, then, in order P_B, for jobs that can be backfilled. Jobs that arrays
        alone can identify are better excluded in `candidates` and `fitting`. A policy may add a `Postpone`
        with its reason to ``actions``.
        """
        return True

    def placed(self) -> set[Job]:
        """Return the jobs that have their hosts but are still in the queue."""
        return set(self.started)

    def start(self, job: Job, late: bool = False) -> bool:
        """Start ``job`` if there are enough free hosts and enough energy in the step.

        ``late``: the job would run past the reservation's start.
        """
        if job.res > self.free or (job.computes and job.res >= self._expensive_from):
            return False
        view, mask = self.view, self._mask
        if mask is None:
            mask = self._mask = view.free_mask()
        hosts = view.fastest(mask, job.res)
        spent: FactDict = {}
        if view.budget is not None:
            before_j = view.budget.headroom_j
            if not self.granted(job, hosts.ids):
                self._expensive_from = min(self._expensive_from, job.res)
                return False
            self._expensive_from = np.inf  # the remaining hosts may draw less
            spent = spent_facts(view, before_j)
        mask[hosts.index] = False
        rule = HEAD if self.reservation is None else BACKFILLED
        self.give(job, hosts, rule, self.facts(job) | spent if view.wants_facts else NO_FACTS)
        self.free -= job.res
        if late and self.reservation is not None:
            self.reservation.extra -= job.res
        return True

    def needs_reservation(self, job: Job) -> bool:
        """Whether anything depends on the time when ``job``, the first that cannot start, can start.

        If not, the pass ends without a reservation.
        """
        return True

    def reserve(self, job: Job) -> Reservation:
        """Reserve for the first job that cannot start, from when enough hosts are free, by walltimes."""
        need = job.res - self.free
        start_s = self.view.now if need <= 0 else np.inf
        for when, count in self._releases():
            if need <= 0 and when > start_s + TIME_TOLERANCE_S:
                break
            if need > 0:
                start_s = when
            need -= count
        return Reservation(job, start_s, -need) if need <= 0 else Reservation(job, np.inf, self.free)

    def _releases(self) -> Iterable[tuple[float, int]]:
        """Return the times at which hosts become free by walltimes, s, and their numbers."""
        view, wakes = self.view, self.view.wakes
        hosts_of = attrgetter("res") if view.all_available else view.usable_hosts
        ends = ((end_s, hosts_of(job)) for end_s, _, job in view.ends)
        if not self.started and not wakes:
            return ends
        new = sorted((view.now + job.walltime_s, job.res) for job in self.started)
        return heapq.merge(ends, new, wakes)

    def fitting(self, places: Places, promise: Reservation) -> Places:
        """Return the positions of jobs that fit now without delaying the reservation."""
        res = self.view.queue.res[places]
        return places[(res <= self.free) & (~self.late(places, promise) | (res <= promise.extra))]

    def lacks(self, promise: Reservation) -> FactDict:
        """Return what the first job that cannot start lacks, and when it will have it."""
        if self.refused_by != NO_STEP_ENERGY:
            return reservation_facts(promise, self.free)
        why = reservation_facts(Reservation(promise.job, np.inf), self.free)
        return why | self.unaffordable(self.refused_hosts)

    def is_told_and_alone(self, job: Job) -> bool:
        """Whether ``job``'s wait was reported, and all other jobs need more hosts than are free."""
        if not self.refused_by or self.view.wants_reason(job, self.refused_by):
            return False
        return self.is_alone(job)

    def is_alone(self, job: Job) -> bool:
        """Whether all other jobs need more hosts than are free."""
        if not self.free or self.view.queue.least_res > self.free:
            return True
        small = int(np.count_nonzero(self.view.queue.res <= self.free))
        return small == sum(one.res <= self.free for one in {job, *self.placed()})

    # --- helpers of the hooks -------------------------------------------------------------------------------

    def _wants(self, job: Job) -> bool:
        wanted = self.wanted(job)
        if not wanted:
            self.unwanted.add(job)
        return wanted

    def granted(self, job: Job, hosts: HostIds) -> bool:
        """Claim the energy that ``job`` on ``hosts`` adds to the step, if there is enough."""
        budget = self.view.budget
        if budget is None or budget.grant_start(hosts, computes=job.computes):
            return True
        self.refused_by, self.refused_hosts = NO_STEP_ENERGY, hosts
        return False

    @property
    def rule(self) -> str:
        """Rule by which jobs start now: as heads, or backfilled."""
        return HEAD if self.reservation is None else BACKFILLED

    def give(self, job: Job, hosts: HostSet, rule: str, facts: Facts) -> None:
        """Start ``job`` on its hosts."""
        self.actions.append(Start(job, hosts, rule, facts))
        self.started.append(job)

    def late(self, places: Places, promise: Reservation) -> BoolArray:
        """Whether each job would run past the reservation's start."""
        ends_s = self.begin_s + self.view.queue.walltime_s[places]
        return np.asarray(ends_s > promise.start_s + TIME_TOLERANCE_S)

    def postpone(self, job: Job, rule: str, facts: Facts = NO_FACTS) -> None:
        """Log why ``job`` waits, with the facts, unless that was its last reason."""
        if self.view.wants_reason(job, rule):
            self.actions.append(Postpone(job, rule, facts))

    def tell(self, promise: Reservation) -> None:
        """Report why the first job that cannot start waits."""
        rule = self.refused_by or (RESERVED if math.isfinite(promise.start_s) else NOT_RESERVED)
        if self.view.wants_reason(promise.job, rule):
            self.actions.append(Postpone(promise.job, rule, self.lacks(promise)))

    def fill(self, promise: Reservation) -> None:
        """Start all other jobs that fit without delaying the reservation, in order P_B."""
        queue = self.view.queue
        if self.backfill is None or queue.least_res > self.free:
            return
        places = (queue.res <= self.free).nonzero()[0]
        if len(places):
            places = self.fitting(places, promise)
        chosen = self._affordable(places)
        if len(places) > 1 and len(chosen):
            places = self.backfill(queue, places, self.view.now)
            chosen = self._affordable(places)
        barred = self.placed() | self.unwanted | {promise.job}
        tried, expensive_from = 0, self._expensive_from
        while tried < len(chosen):
            at = int(chosen[tried])
            job = queue.at(int(places[at]))
            tried += 1
            if job not in barred and self._wants(job) and self.start(job, self.is_late(job, promise)):
                places = self.fitting(places[at + 1 :], promise)
                chosen, tried = self._affordable(places), 0
            elif self._expensive_from < expensive_from:
                chosen, tried = at + 1 + self._affordable(places[at + 1 :]), 0
            expensive_from = self._expensive_from

    def _affordable(self, places: Places) -> IndexArray:
        """Return the indices of the ``places`` to try: not of those that `start` would reject for the energy.

        These are jobs similar to one that needs too much, until another one starts; see `tries_each`.
        """
        queue = self.view.queue
        if self.tries_each or self._expensive_from == np.inf:
            return np.arange(len(places))
        cheap = (queue.res[places] < self._expensive_from) | ~queue.computes[places]
        return cheap.nonzero()[0]

    def is_late(self, job: Job, promise: Reservation) -> bool:
        """Whether ``job`` would run past the reservation's start."""
        return self.begin_s + job.walltime_s > promise.start_s + TIME_TOLERANCE_S

    def resume(self, promise: Reservation, jobs: Iterable[Job]) -> None:
        """Start those of ``jobs`` that fit without delaying the reservation of an earlier pass."""
        self.reservation = promise
        for job in jobs:
            late = self.is_late(job, promise)
            if not (late and job.res > promise.extra) and (not self.tries_each or self._wants(job)):
                self.start(job, late)

    def facts(self, job: Job, free: int | None = None) -> FactDict:
        """Return why ``job`` may start now; ``free`` is the number of free hosts (default: all)."""
        view, promise = self.view, self.reservation
        wait_s = view.now - job.subtime_s
        facts: FactDict = {"hosts_free": self.free if free is None else free, "waited_s": wait_s}
        if promise is None:
            if self.priority is largest_slowdown:
                finite = math.isfinite(job.walltime_s)
                facts["slowdown"] = float(bounded_slowdown(wait_s, job.walltime_s)) if finite else 1.0
            elif self.priority is smallest_size and math.isfinite(job.walltime_s):
                facts["size_host_s"] = job.size
            return facts
        facts["reserved_for"] = promise.job.id
        if math.isfinite(promise.start_s):
            if promise.start_s > view.now:
                facts["reserved_at_s"] = promise.start_s
            else:
                facts["reserved_lacks"] = "energy"
            if view.now + job.walltime_s <= promise.start_s + TIME_TOLERANCE_S:
                facts["ends_by_s"] = view.now + job.walltime_s
            elif promise.certain:
                facts["hosts_left_alone"] = promise.job.res
            else:
                facts["hosts_extra"] = promise.extra
        return facts

    def unaffordable(self, hosts: HostIds) -> FactDict:
        """Return the energy that a job on ``hosts`` would add to the step, and the step's headroom."""
        budget = self.view.budget
        if budget is None:
            return {}
        return {"cost_j": budget.start_cost_j(hosts), "headroom_j": budget.headroom_j}


def reservation_facts(promise: Reservation, free: int) -> FactDict:
    """Return the hosts needed by the first job that cannot start, and its reserved start if known."""
    facts: FactDict = {"hosts_asked": promise.job.res, "hosts_free": free}
    if math.isfinite(promise.start_s):
        facts["reserved_at_s"] = promise.start_s
    return facts


# --- waking servers and putting them to sleep ---------------------------------------------------------------


def sleep_after(view: View, easy: EasyPass, wait_s: FloatArray, spare: int) -> list[Action]:
    """Put up to ``spare`` hosts to sleep that have been idle for their ``wait_s``, the highest ids first.

    Hosts of jobs that ``easy`` has started are not idle. Also requests a call when the next ones are due.
    """
    idle = np.flatnonzero(easy.free_mask() & (view.host_state == IDLE))
    if spare <= 0 or not len(idle):
        return []
    due_s = view.state_since_s[idle] + wait_s[idle]
    ripe = idle[due_s <= view.now + TIME_TOLERANCE_S]
    chosen = ripe[::-1][:spare][::-1]
    actions: list[Action] = []
    if len(chosen):
        idle_s = view.now - float(np.max(view.state_since_s[chosen]))
        why: FactDict = {"idle_s": idle_s, "t_wait_s": float(wait_s[chosen].max())}
        actions = sleep(view, chosen, IDLE_LONG, why)
    later = due_s[due_s > view.now + TIME_TOLERANCE_S]
    if np.isfinite(next_s := float(later.min(initial=np.inf))):
        actions.append(CallAt(next_s))
    return actions


def hosts_wanted(view: View, started: int) -> int:
    """Return the number of hosts that waiting jobs need, without the ``started`` ones."""
    return min(view.queue.hosts_asked - started, view.platform.size)


def wake_for_queue(view: View, wanted: int, free: int) -> list[Action]:
    """Wake sleeping servers until ``wanted`` hosts are on or waking, as far as the step's energy allows.

    ``free`` hosts are idle and have no job.
    """
    awaited = free + sum(count for _, count in view.wakes)
    missing = wanted - awaited
    if missing <= 0 or not view.power_actions_allowed:
        return []
    asleep = ((view.host_state == ASLEEP) & view.available).nonzero()[0]
    if not len(asleep):
        return []
    facts: FactDict = {"hosts_wanted": wanted, "hosts_awaited": awaited}
    return wake(view, asleep[:missing], WANTED, facts)


def break_even_s(kind: ServerKind) -> float:
    """Return T_wait (Eq. 2.9 of the thesis): the idle time beyond which sleeping would use less energy, s.

    Infinite for servers that cannot sleep, or that do not use less asleep than idle.
    """
    if kind.sleep is None or not kind.idle_w or not kind.speeds_flops:
        return np.inf
    off_s, on_s = kind.off_duration_s(), kind.on_duration_s()
    sleep_w, idle_w = kind.idle_w[kind.sleep.pstate], kind.idle_w[kind.fastest]
    if idle_w <= sleep_w:
        return np.inf
    switching_j = kind.full_w[kind.sleep.off_pstate] * off_s + kind.full_w[kind.sleep.on_pstate] * on_s
    return max((switching_j - sleep_w * (off_s + on_s)) / (idle_w - sleep_w), off_s + on_s)


# --- the policies -------------------------------------------------------------------------------------------


class EasyOptions(Options, frozen=True):
    """Options of `easy`."""

    priority: OrderName | None = None
    """P_R, the order in which jobs get the reservation; null: by submission without a site, by largest
    bounded slowdown with one."""
    backfill: OrderName | None = None
    """P_B, the order in which other jobs are tried; null: by submission without a site, by smallest size
    with one."""


class Easy(Policy):
    """EASY backfilling on all servers (Section IV-B of the BEASY paper without its energy test).

    With a site, servers that the guard put to sleep are woken when waiting jobs need them.
    """

    name = "easy"
    summary = "EASY backfilling: the first waiting job gets a reservation, others fill the gaps"
    words: ClassVar[Sentences] = {**EASY_WORDS, **ALL_WORDS}
    options_type = EasyOptions
    options: EasyOptions

    can_offer = True

    def begin(self, view: View) -> None:
        """Choose the orders: by submission without a site, those of the BEASY paper with one."""
        paper = view.has_site
        self._priority = ORDERS[self.options.priority or ("slowdown" if paper else "arrival")]
        self._backfill = ORDERS[self.options.backfill or ("smallest" if paper else "arrival")]
        self._seen_version = -1
        self._blocked: Reservation | None = None

    def schedule(self, view: View) -> Sequence[Action]:
        """Start the jobs that EASY starts now; offer all servers where others place jobs."""
        if view.placement is Placement.EXTERNAL:
            return offer_all(view)
        before, self._seen_version = self._seen_version, view.availability_version
        if not view.queue.count:
            self._blocked = None
            return ()
        easy = EasyPass(view, self._priority, self._backfill)
        if self._blocked is not None and before == self._seen_version and self._only_arrivals_count(view):
            easy.resume(self._blocked, view.arrived)
        else:
            easy.run()
        self._blocked = easy.reservation
        return _with_wakes(view, easy)

    def _only_arrivals_count(self, view: View) -> bool:
        """Whether only new jobs can start while no host has become free since the last pass.

        Its reservation then still holds, and jobs that could not be backfilled cannot be now: as time passes,
        fewer jobs end in time.
        """
        return (
            view.budget is None
            and self._priority is by_arrival
            and (self._backfill is by_arrival or len(view.arrived) < 2)
        )


def _with_wakes(view: View, easy: EasyPass) -> Sequence[Action]:
    """Return the actions of a pass, and with a site the wakes of servers that waiting jobs need."""
    if not (view.has_site and view.queue):
        return easy.actions
    wanted = hosts_wanted(view, sum(job.res for job in easy.started))
    return [*easy.actions, *wake_for_queue(view, wanted, easy.free)]


class Fcfs(Policy):
    """First come, first served: EASY without backfilling.

    With a site, servers that the guard put to sleep are woken when waiting jobs need them.
    """

    name = "fcfs"
    summary = "first come, first served: no job overtakes another"
    words: ClassVar[Sentences] = {**EASY_WORDS, **ALL_WORDS}
    can_offer = True

    def begin(self, view: View) -> None:
        """Begin without a blocked job."""
        self._seen_version = -1
        self._blocked = False

    def schedule(self, view: View) -> Sequence[Action]:
        """Start jobs in order of submission until one does not fit, or offer all servers, as `Easy`."""
        if view.placement is Placement.EXTERNAL:
            return offer_all(view)
        if self._blocked and self._seen_version == view.availability_version and view.budget is None:
            return ()
        easy = EasyPass(view, by_arrival, backfill=None)
        easy.run()
        self._blocked = easy.reservation is not None
        self._seen_version = view.availability_version
        return _with_wakes(view, easy)
