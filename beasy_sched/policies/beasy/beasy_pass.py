"""BEASY's scheduling pass, Algorithm 1 of the paper: EASY with an energy test before each start.

The reservation for the first job that cannot start (line 9) has specific servers. Each run of steps in which
a server is planned on is an interval in which it can take the job: from when it is free and awake, until the
job's walltime no longer fits before the end of the run. The first time at which enough intervals are open is
found by counting their openings and closings, without examining single steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, StateArray, all_of
from beasy_sched.engine.actions import NO_FACTS, Action, FactDict, Postpone, Start
from beasy_sched.engine.policy import View
from beasy_sched.engine.power_actions import headroom_j, spent_facts
from beasy_sched.engine.session_words import Rule
from beasy_sched.model.hosts import NO_HOSTS, HostIds, HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.policies.beasy.beasy_words import NO_WALLTIME, PAID, PLAN_CANNOT_PAY, TOO_RISKY
from beasy_sched.policies.beasy.energy_test import EnergyTest, JobPlacement
from beasy_sched.policies.beasy.live_plan import LivePlan
from beasy_sched.policies.easy import (
    NO_STEP_ENERGY,
    RESERVED,
    EasyPass,
    Places,
    Reservation,
    largest_slowdown,
    reservation_facts,
    smallest_size,
)
from beasy_sched.policies.follow_plan import SET_ASIDE
from beasy_sched.policies.planned.follower import ready_s
from beasy_sched.policies.risk import CalibratedRisk
from beasy_sched.units import TIME_TOLERANCE_S

_LOOKS_AHEAD = 24
"""Number of steps from now, or from the last reserved start, in which runs are examined first for a
reservation: most are found there."""

_MANY: Final = 4
"""Number of jobs from which excluding those without enough energy is faster than trying each."""


class Promise(NamedTuple):
    """Time at which a waiting job will have its hosts, s, and these hosts."""

    job: Job
    start_s: float
    hosts: HostIds


class SearchSituation(NamedTuple):
    """Inputs of a search for servers, except the time."""

    job: Job
    plan_changes: int
    job_changes: int
    availability_version: int
    until: int
    """Step up to which the plan is searched."""


@dataclass
class ServerSearch:
    """Outcome of the last search for servers that take a job later."""

    found: Promise | None = None
    """Last reservation found."""
    failed: SearchSituation | None = None
    """Situation in which the last search found none. While it is the same, later searches fail as well,
    because servers become ready later and the plan's runs of steps become shorter."""


class Openings(NamedTuple):
    """Intervals in which servers can take a job, one entry each."""

    host: HostIds
    opens_s: FloatArray
    """First time at which the host can start the job, s."""
    closes_s: FloatArray
    """Last time at which it can, s."""

    def first_with_s(self, count: int) -> float:
        """Return the first time at which at least ``count`` of the intervals are open, s; else infinite."""
        times_s = np.sort(self.opens_s)
        opened = times_s.searchsorted(times_s + TIME_TOLERANCE_S, side="right")
        closed = np.sort(self.closes_s).searchsorted(times_s)
        enough = (opened - closed >= count).nonzero()[0]
        return float(times_s[enough[0]]) if len(enough) else math.inf

    def open_at(self, time_s: float) -> HostIds:
        """Return the hosts that can start the job at ``time_s``."""
        return self.host[(self.opens_s <= time_s + TIME_TOLERANCE_S) & (self.closes_s >= time_s)]


NO_OPENINGS: Final = Openings(NO_HOSTS.ids, np.zeros(0), np.zeros(0))


class _Rows(NamedTuple):
    """Rows of the plan, counted from the current step."""

    first: int
    end: int
    """Row after the last one."""


class BeasyPass(EasyPass):
    """Starts jobs on servers that the plan has on, or can have on, up to their walltimes."""

    def __init__(
        self,
        view: View,
        live: LivePlan,
        search: ServerSearch,
        step: int,
        dangerous: bool,
        last_pass_s: float,
        risk: CalibratedRisk | None = None,
    ) -> None:
        """Begin a pass in the current ``step``, whose P_R depends on whether it is ``dangerous``.

        ``search``: outcome of earlier searches for a reservation; ``last_pass_s``: time of the last pass;
        ``risk``: the risk limit, if any.
        """
        super().__init__(view, smallest_size if dangerous else largest_slowdown)
        self.live, self._lengths = live, live.lengths
        self._search = search
        self.step = step
        self._dangerous = dangerous
        self._last_pass_s = last_pass_s
        self._risk = risk
        self._reserved = live.no_servers
        """Whether each server is reserved, [N]."""
        self._reserved_rows: _Rows | None = None
        """Rows in which the reserved servers must stay on, if the test does not yet include them."""

    def run(self) -> list[Action]:
        """Run the pass and return its actions, the reasons why jobs wait first."""
        actions = super().run()
        if len(actions) > 1:
            actions.sort(key=lambda action: isinstance(action, Start))
        return actions

    # --- candidates ---------------------------------------------------------------------------------------

    def candidates(self) -> Places:
        """Exclude and postpone jobs that cannot end before the last known window does."""
        places = super().candidates()
        if self._all_in_time:
            return places
        in_time = self._in_time(places)
        if self.view.wants_facts and not all_of(in_time):
            self._set_aside(places[~in_time])
        return places[in_time]

    def fitting(self, places: Places, promise: Reservation) -> Places:
        """Exclude jobs that cannot end before the last known window does, or that lack energy in the plan."""
        places = super().fitting(self._those_in_time(places), promise)
        if len(places) >= (1 if self.refused_by == PLAN_CANNOT_PAY else _MANY):
            places = places[self._perhaps_payable(places)]
        return places

    def wanted(self, job: Job) -> bool:
        """Exclude a job that can only end in time with speed, but whose run time does not depend on it."""
        if job.computes or not self._is_hurried(job):
            return True
        if self.view.wants_reason(job, _late_rule(job)):
            self.actions.append(Postpone(job, _late_rule(job), self._late_facts(job)))
        return False

    def _is_hurried(self, job: Job) -> bool:
        """Whether ``job``, started now, could reach its walltime only after the last known window."""
        return self.view.now + self._walltime_of_s(job) > self.live.plan.end_s + TIME_TOLERANCE_S

    @cached_property
    def _walltime_s(self) -> FloatArray:
        """Walltimes used in the plan for the waiting jobs, by queue position, s."""
        return self._lengths.counted_s(self.view, self.step, self.view.queue.walltime_s)

    def _walltime_of_s(self, job: Job) -> float:
        """Return the walltime used in the plan for ``job``, s."""
        return self._lengths.counted_of(self.view, self.step, job)

    def _end_from(self, job: Job, start_s: float) -> int:
        """Return the step up to which ``job`` is planned if it starts at ``start_s``."""
        open_end = self._lengths.open_end(self.view, self.step, job)
        return self.live.plan.end_step(start_s + self._walltime_of_s(job)) if open_end is None else open_end

    def _late_facts(self, job: Job) -> FactDict:
        why: FactDict = {"window_end_s": self.live.plan.end_s, "waited_s": self.view.now - job.subtime_s}
        longest_s = float(self._lengths.most_s(self.view, self.step, np.array([job.walltime_s]))[0])
        return why | ({"longest_s": longest_s} if job.computes and longest_s < job.walltime_s else {})

    @cached_property
    def _all_in_time(self) -> bool:
        """Whether every waiting job would reach its walltime before the last known window ends."""
        return self.view.now + self.view.queue.longest_walltime_s <= self.live.plan.end_s + TIME_TOLERANCE_S

    def _those_in_time(self, places: Places) -> Places:
        return places if self._all_in_time else places[self._in_time(places)]

    def _in_time(self, places: Places) -> BoolArray:
        most_s = self._lengths.most_s(self.view, self.step, self._walltime_s[places])
        return np.asarray(self.view.now + most_s <= self.live.plan.end_s + TIME_TOLERANCE_S)

    def _set_aside(self, late: Places) -> None:
        """Report jobs that have become late since the last pass."""
        queue, end_s, since_s = self.view.queue, self.live.plan.end_s, self._last_pass_s
        most_s = self._lengths.most_s(self.view, self.step, self._walltime_s[late])
        was_in_time = since_s + most_s <= end_s + TIME_TOLERANCE_S
        for place in late[was_in_time | (queue.subtime_s[late] >= since_s)].tolist():
            job = queue.at(place)
            self.actions.append(Postpone(job, _late_rule(job), self._late_facts(job)))

    # --- starts -------------------------------------------------------------------------------------------

    @cached_property
    def _energy_test(self) -> EnergyTest:
        """Energy test of the plan, created at its first use: most passes do not need it."""
        return self.live.test(self.view, self.step)

    @property
    def _test(self) -> EnergyTest:
        """Energy test, updated with the reservations since its creation."""
        test = self._energy_test
        if self._reserved_rows is not None:
            test.keep(self._reserved, self._reserved_rows.first, self._reserved_rows.end)
            self._reserved_rows = None
        return test

    def start(self, job: Job, late: bool = False) -> bool:
        """Start ``job`` if it can be started and finished; a ``late`` one gets no reserved servers."""
        if job.res > self.free:
            return False
        free = self.free_mask()
        able = (free & ~self._reserved if late else free).nonzero()[0]
        if len(able) < job.res:
            return False
        rows = min(self._end_from(job, self.view.now), self.live.plan.steps) - self.step
        if self._is_too_risky(job, rows):
            self.refused_by = TOO_RISKY
            return False
        hosts = self._choose(job, able, rows)
        placement = None if hosts is None else self._test.check(hosts, rows, self._needed_pstates(job, hosts))
        if placement is None:
            self.refused_by = PLAN_CANNOT_PAY
            return False
        before_j = headroom_j(self.view)
        if not self.granted(job, placement.hosts):
            return False
        self.live.held.start(self.view, self.step, job, self._test, placement)
        why = self._start_facts(job, len(able), placement, before_j) if self.view.wants_facts else NO_FACTS
        rule = self.rule if placement.asleep is None else PAID[self.rule]
        self.give(job, HostSet(placement.hosts), rule, why)
        free[placement.hosts] = False
        self._count(self.reservation)
        return True

    def _is_too_risky(self, job: Job, rows: int) -> bool:
        """Whether the battery might fall below SoC_min while ``job`` holds servers, for ``rows`` from now."""
        if self._risk is None or not job.computes:
            return False
        least_left_j = self.live.levels.least_left_j(self.view, self.step, self._risk)
        return bool(least_left_j[min(rows, len(least_left_j)) - 1] < 0.0)

    def _choose(self, job: Job, able: HostIds, rows: int) -> HostIds | None:
        """Return those of the ``able`` servers that are planned asleep least in the next ``rows``.

        None if even these sleep so much that the plan has no energy for them.
        """
        test = self._test
        if len(able) == job.res:
            return able
        asleep_rows = self.live.plan.asleep_steps(able, self.step, self.step + rows)
        if self.reservation is not None:  # the first of the queue is tested in any case
            fewest = np.add.reduce(np.sort(asleep_rows)[: job.res], keepdims=True)
            if not self._payable(test, fewest, np.array([job.res]))[0]:
                return None
        return np.sort(self._best(able, asleep_rows, job.res))

    def _needed_pstates(self, job: Job, hosts: HostIds) -> StateArray | None:
        """Return the P-states that ``job`` needs from the next step on to end in time; None for any."""
        return self._lengths.fastest[hosts] if self._is_hurried(job) else None

    def _best(self, ids: HostIds, first_by: npt.NDArray[np.generic], count: int) -> HostIds:
        """Choose servers by ``first_by`` (such as changes to the plan), then by speed, then by lower id."""
        speeds = self.live.pstates.speed_flops(ids, self.view.pstate[ids])
        return ids[np.lexsort((ids, -speeds, first_by))[:count]]

    def _count(self, promise: Reservation | None) -> None:
        """Update the numbers of free servers, and of free servers that are not reserved."""
        self.free = int(np.count_nonzero(self.free_mask()))
        if promise is not None:
            promise.extra = int(np.count_nonzero(self.free_mask() & ~self._reserved))

    def _start_facts(self, job: Job, free: int, placement: JobPlacement, before_j: float) -> FactDict:
        """Return why ``job`` can start: its queue position, the plan, and the energy that it needs."""
        why = self.facts(job, free)
        why["planned_on_until_s"] = self.live.plan.start_of(self.step + placement.end)
        why |= spent_facts(self.view, before_j)
        if self._dangerous:
            why["dangerous"] = 1
        if self._lengths.long_jobs.includes(job):
            why["long_job"] = 1
        if placement.woken:
            why |= {"server_steps_changed": placement.woken, "needed_j": placement.needed_j}
        if placement.asleep is not None:
            cells = placement.asleep
            why["found_j"] = placement.saved_j
            why["server_steps_to_sleep"] = len(cells.rows)
            why["hosts_to_sleep"] = len(np.unique(cells.hosts))
        return why

    # --- the reservation ----------------------------------------------------------------------------------

    def needs_reservation(self, job: Job) -> bool:
        """Whether to reserve for ``job``: not if no job could be backfilled, and its wait was reported."""
        if not self.is_alone(job) and self._some_payable(job):
            return True
        if self.refused_by:
            return self.view.wants_reason(job, self.refused_by)
        # The same holds for the plan, whether this is searched or not.
        self.live.plan.cover(self.step, self._until(job))
        return self.view.wants_facts and not (job.postponed_for == RESERVED and self._is_still_promised(job))

    def _some_payable(self, head: Job) -> bool:
        """Whether the plan may have energy for any other waiting job than ``head``.

        This is examined only if the plan lacks energy for ``head``.
        """
        queue = self.view.queue
        places = self._those_in_time((queue.res <= self.free).nonzero()[0])
        if not len(places):
            return False
        if self.refused_by != PLAN_CANNOT_PAY:
            return True
        payable = self._perhaps_payable(places)
        barred = {head, *self.placed()}
        return any(queue.at(place) not in barred for place in places[payable].tolist())

    def _perhaps_payable(self, places: Places) -> BoolArray:
        """Return the jobs that may have enough energy on the free hosts, and all jobs that do not compute.

        The policy is asked about the latter regardless of the plan's energy.
        """
        queue, plan = self.view.queue, self.live.plan
        ids = self.free_mask().nonzero()[0]
        ends = np.minimum(self.live.plan.end_steps(self.view.now + self._walltime_s[places]), plan.steps)
        asleep = plan.asleep_steps(ids, self.step, ends[:, None])  # [jobs, hosts]
        fewest = np.sort(asleep, axis=1).cumsum(axis=1)
        """Cells asleep of each job's best 1, 2, ... hosts: [jobs, hosts]."""
        res = queue.res[places]
        payable = self._payable(self._test, fewest[np.arange(len(places)), res - 1], res)
        return np.asarray(payable | ~queue.computes[places])

    @staticmethod
    def _payable(
        test: EnergyTest, asleep: npt.NDArray[np.integer], count: npt.NDArray[np.integer]
    ) -> BoolArray:
        """Whether the plan may have energy for each of some jobs.

        ``count``: number of servers that each needs; ``asleep``: number of their cells planned asleep.
        """
        needed_j = test.least_needed_j(asleep, count)
        most_j = float(np.maximum.reduce(needed_j, initial=0.0))
        return needed_j <= (test.most_payable_j(most_j) if most_j > 0.0 else 0.0)

    def _until(self, job: Job) -> int:
        """Return the step up to which the plan is searched for servers for ``job``."""
        plan = self.live.plan
        if (open_end := self._lengths.open_end(self.view, self.step, job)) is not None:
            return open_end
        return min(plan.horizon(self.step) + plan.steps_of(self._walltime_of_s(job)), plan.steps)

    def _is_still_promised(self, job: Job) -> bool:
        """Whether the servers last reserved for ``job`` can still take it at the reserved time.

        If so, it has a reservation, although an earlier one may exist now.
        """
        live, plan, last = self.live, self.live.plan, self._search.found
        if last is None or last.job is not job:
            return False
        start_s = last.start_s + TIME_TOLERANCE_S
        awake_s = start_s - live.longest_wake_s  # servers planned on then are awake by ``start_s``
        first = math.floor((awake_s - plan.start_s) / plan.step_s)
        end = math.ceil((start_s + self._walltime_of_s(job) - plan.start_s) / plan.step_s)
        if (open_end := self._lengths.open_end(self.view, self.step, job)) is not None:
            end = open_end
        if not (self.step < first and end <= self._until(job)) or not plan.has_on(last.hosts, first, end):
            return False
        free = live.held.ends_s[last.hosts] <= start_s
        if not self.view.all_available:
            free &= self.view.available[last.hosts]
        return all_of(free)

    def reserve(self, job: Job) -> Reservation:
        """Reserve for ``job`` from when enough servers are free and planned on for its whole walltime.

        Servers that are free now are preferred. A job that lacks energy in this step waits for the next one.
        """
        promise = Reservation(job, np.inf, certain=True)
        situation = self._situation(job)
        if situation != self._search.failed:
            servers = self._find_servers(job)
            if servers is not None:
                self._search.found = servers
                promise.start_s = servers.start_s
                self._reserved = np.zeros_like(self._reserved)
                self._reserved[servers.hosts] = True
            else:
                # With a later first start, or by work, a later search may find what this one did not.
                lasts = self._first_start_s() == self.view.now and not self._lengths.by_work
                self._search.failed = situation if lasts else None
        self._count(promise)
        return promise

    def _situation(self, job: Job) -> SearchSituation:
        plan, held = self.live.plan, self.live.held
        return SearchSituation(
            job, plan.changes, held.changes, self.view.availability_version, self._until(job)
        )

    def _first_start_s(self) -> float:
        """Return the time from which the job that cannot start might start, s: now, or the next step."""
        if self.refused_by in (NO_STEP_ENERGY, TOO_RISKY) and self.view.budget is not None:
            return self.view.budget.end_s
        return self.view.now

    def _find_servers(self, job: Job) -> Promise | None:
        """Find the first time at which enough servers can take ``job``, and the best of them; None if never.

        Runs of steps that begin soon are examined first: most reservations are found there.
        """
        plan, free = self.live.plan, self.free_mask()
        servers_s = ready_s(self.view, plan, self.step, free, self.live.held.ends_s)
        servers_s = np.maximum(servers_s, self._first_start_s())
        for before in (self._near(job), None):
            openings = self._openings(job, servers_s, before)
            start_s = openings.first_with_s(job.res)
            # A run that begins in step ``before``, which is excluded, may open earlier than a later start.
            if start_s < math.inf and (
                before is None or start_s < plan.start_of(before) - 2 * TIME_TOLERANCE_S
            ):
                able = openings.open_at(start_s)
                return Promise(job, start_s, self._best(able, free[able], job.res))
        return None

    def _near(self, job: Job) -> int:
        """Return the step before which runs are examined first: some time after the last reserved start."""
        last = self._search.found
        soon = self.step if last is None or last.job is not job else self.live.plan.end_step(last.start_s)
        return max(soon, self.step) + _LOOKS_AHEAD

    def _openings(self, job: Job, servers_s: FloatArray, first_before: int | None) -> Openings:
        """Return when servers can take ``job``: an opening for each run of steps that is long enough.

        ``servers_s`` is when each server is ready, s, [N]; ``first_before`` excludes runs that begin later.
        There are none if fewer hosts have one than ``job`` needs.
        """
        view, plan = self.view, self.live.plan
        run_host, run_begin, run_end = plan.runs_on(self.step, self._until(job), first_before)
        walltime_s = self._walltime_of_s(job)
        most_s = self._lengths.most_s(view, self.step, np.array([walltime_s]))[0]
        is_long = (run_end - run_begin) * plan.step_s >= most_s - 2.0 * TIME_TOLERANCE_S
        open_end = self._lengths.open_end(view, self.step, job)
        if open_end is not None:  # such a job may start in any step of a run up to its open end
            walltime_s = most_s = plan.step_s
            is_long = run_end >= open_end
        if np.count_nonzero(is_long) < job.res:
            return NO_OPENINGS
        host, begin, end = run_host[is_long], run_begin[is_long], run_end[is_long]
        wake_s = np.where(begin > self.step, self.live.on_s[host], 0.0)
        opens_s = np.maximum(plan.start_s + begin * plan.step_s + wake_s, servers_s[host])
        # Beyond the last known step, only the time that the job needs at most counts.
        needed_s = np.where(end == plan.steps, most_s, walltime_s)
        closes_s = plan.start_s + end * plan.step_s - needed_s + TIME_TOLERANCE_S
        fits = opens_s <= closes_s
        if not view.all_available:
            fits &= view.available[host]
        if np.count_nonzero(fits) < job.res:
            return NO_OPENINGS
        return Openings(host[fits], opens_s[fits], closes_s[fits])

    def lacks(self, promise: Reservation) -> FactDict:
        """Return why the first job that cannot start waits: for hosts, or energy of the plan or the step."""
        why = reservation_facts(promise, self.free)
        if self.refused_by == PLAN_CANNOT_PAY:
            short = self._test.shortfall()
            why["needed_j"], why["found_j"] = short.needed_j, short.found_j
            if self._is_hurried(promise.job):
                why["full_speed"] = 1
        elif self.refused_by == NO_STEP_ENERGY:
            why |= self.unaffordable(self.refused_hosts)
        return why

    def fill(self, promise: Reservation) -> None:
        """Backfill without putting reserved servers to sleep during their reservation."""
        if math.isfinite(promise.start_s):
            plan = self.live.plan
            first = int((promise.start_s - plan.start_s + TIME_TOLERANCE_S) / plan.step_s)
            end = self._end_from(promise.job, promise.start_s)
            self._reserved_rows = _Rows(max(first - self.step, 0), end - self.step)
        super().fill(promise)


def _late_rule(job: Job) -> Rule:
    """Return the rule by which a job that might not end within the known windows waits."""
    return SET_ASIDE if math.isfinite(job.walltime_s) else NO_WALLTIME
