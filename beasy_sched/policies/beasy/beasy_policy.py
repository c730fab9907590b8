"""BEASY (Section IV of the paper): energy tests before starts, and compensation at every step.

Its scheduling pass is Algorithm 1: EASY with an energy test before each start. The reservation for the first
job that cannot start (line 9) has specific servers. Each run of steps in which a server is planned on is an
interval in which it can take the job: from when it is free and awake, until the job's walltime no longer fits
before the end of the run. The first time at which enough intervals are open is found by counting their
openings and closings, without examining single steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, all_of
from beasy_sched.engine.actions import NO_FACTS, Action, Compensate, FactDict, Postpone, Start
from beasy_sched.engine.policy import Options, Policy, View
from beasy_sched.engine.power_actions import headroom_j, sleep, spent_facts
from beasy_sched.engine.run_findings import KnownInputs
from beasy_sched.findings import Finding
from beasy_sched.model.host_states import IDLE
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.planner.plan import BOUNDS_LEVEL
from beasy_sched.policies.beasy.beasy_words import BEASY_WORDS, NO_WALLTIME, TOO_RISKY
from beasy_sched.policies.beasy.compensation import CoverShortage, Shortage, SpendSurplus
from beasy_sched.policies.beasy.live_plan import (
    EnergyTest,
    LivePlan,
    LongJobsRule,
    Placement,
    Promise,
    WindowEnd,
)
from beasy_sched.policies.easy import (
    NO_STEP_ENERGY,
    PLAN_CANNOT_PAY,
    RESERVED,
    SET_ASIDE,
    SLEEPERS_PAY,
    EasyPass,
    Places,
    Reservation,
    largest_slowdown,
    one_by_one,
    reservation_facts,
    smallest_size,
)
from beasy_sched.policies.long_jobs import never_started
from beasy_sched.policies.planned.follower import CurrentWindow, PlanFollower, enter_window, ready_s
from beasy_sched.policies.planned.rest_of_window import compensation_j
from beasy_sched.policies.risk import CalibratedRisk
from beasy_sched.units import TIME_TOLERANCE_S

_LOOKS_AHEAD = 24
"""Number of steps from now, or from the last reserved start, in which runs are examined first for a
reservation: most are found there."""

_MANY: Final = 4
"""Number of jobs from which excluding those without enough energy is faster than trying each."""


class BeasyPass(EasyPass):
    """Starts jobs on servers that the plan has on, or can have on, up to their walltimes."""

    def __init__(
        self,
        view: View,
        live: LivePlan,
        step: int,
        dangerous: bool,
        last_pass_s: float,
        risk: CalibratedRisk | None = None,
    ) -> None:
        """Begin a pass in the current ``step``, whose P_R depends on whether it is ``dangerous``.

        ``last_pass_s``: time of the last pass; ``risk``: the risk limit, if any.
        """
        super().__init__(view, smallest_size if dangerous else largest_slowdown)
        self.live = live
        self.step = step
        self._dangerous = dangerous
        self._last_pass_s = last_pass_s
        self._risk = risk
        self._reserved = live.no_servers
        """Whether each server is reserved, [N]."""
        self._promised: tuple[int, int] | None = None
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
        rule = SET_ASIDE if math.isfinite(job.walltime_s) else NO_WALLTIME
        if self.view.wants_reason(job, rule):
            self.actions.append(Postpone(job, rule, self._late_facts(job)))
        return False

    def _is_hurried(self, job: Job) -> bool:
        """Whether ``job``, started now, could reach its walltime only after the last known window."""
        return self.view.now + self._walltime_of_s(job) > self.live.plan.end_s + TIME_TOLERANCE_S

    @cached_property
    def _walltime_s(self) -> FloatArray:
        """Walltimes used in the plan for the waiting jobs, by queue position, s."""
        return self.live.counted_s(self.view, self.step, self.view.queue.walltime_s)

    def _walltime_of_s(self, job: Job) -> float:
        """Return the walltime used in the plan for ``job``, s."""
        return self.live.counted_of(self.view, self.step, job)

    def _end_from(self, job: Job, start_s: float) -> int:
        """Return the step up to which ``job`` is planned if it starts at ``start_s``."""
        open_end = self.live.open_end(self.view, self.step, job)
        return self.live.end_step(start_s + self._walltime_of_s(job)) if open_end is None else open_end

    def _late_facts(self, job: Job) -> FactDict:
        why: FactDict = {"window_end_s": self.live.plan.end_s, "waited_s": self.view.now - job.subtime_s}
        longest_s = float(self.live.most_s(self.view, self.step, np.array([job.walltime_s]))[0])
        return why | ({"longest_s": longest_s} if job.computes and longest_s < job.walltime_s else {})

    @cached_property
    def _all_in_time(self) -> bool:
        """Whether every waiting job would reach its walltime before the last known window ends."""
        return self.view.now + self.view.queue.longest_walltime_s <= self.live.plan.end_s + TIME_TOLERANCE_S

    def _those_in_time(self, places: Places) -> Places:
        return places if self._all_in_time else places[self._in_time(places)]

    def _in_time(self, places: Places) -> BoolArray:
        most_s = self.live.most_s(self.view, self.step, self._walltime_s[places])
        return np.asarray(self.view.now + most_s <= self.live.plan.end_s + TIME_TOLERANCE_S)

    def _set_aside(self, late: Places) -> None:
        """Report jobs that have become late since the last pass."""
        queue, end_s, since_s = self.view.queue, self.live.plan.end_s, self._last_pass_s
        most_s = self.live.most_s(self.view, self.step, self._walltime_s[late])
        was_in_time = since_s + most_s <= end_s + TIME_TOLERANCE_S
        for place in late[was_in_time | (queue.subtime_s[late] >= since_s)].tolist():
            job = queue.at(place)
            rule = SET_ASIDE if math.isfinite(job.walltime_s) else NO_WALLTIME
            self.actions.append(Postpone(job, rule, self._late_facts(job)))

    # --- starts -------------------------------------------------------------------------------------------

    @cached_property
    def _energy_test(self) -> EnergyTest:
        """Energy test of the plan, created at its first use: most passes do not need it."""
        return self.live.test(self.view, self.step)

    @property
    def _test(self) -> EnergyTest:
        """Energy test, updated with the reservations since its creation."""
        test = self._energy_test
        if self._promised is not None:
            test.keep(self._reserved, *self._promised)
            self._promised = None
        return test

    def start(self, job: Job, late: bool = False) -> bool:
        """Start ``job`` if it can be started and finished; a ``late`` one gets no reserved servers."""
        if job.res > self.free:
            return False
        free = self.free_mask()
        ids = (free & ~self._reserved if late else free).nonzero()[0]
        if len(ids) < job.res:
            return False
        plan = self.live.plan
        end = min(self._end_from(job, self.view.now), plan.steps) - self.step
        if self._risk is not None and job.computes:
            left_j = self.live.least_left_j(self.view, self.step, self._risk)
            if left_j[min(end, len(left_j)) - 1] < 0.0:
                self.refused_by = TOO_RISKY
                return False
        hosts, test = ids, self._test
        if len(ids) > job.res:
            changes = plan.asleep_steps(ids, self.step, self.step + end)
            if self.reservation is not None:
                asleep = np.add.reduce(np.sort(changes)[: job.res], keepdims=True)
                if not self._payable(asleep, np.array([job.res]))[0]:
                    self.refused_by = PLAN_CANNOT_PAY
                    return False
            hosts = np.sort(self._best(ids, changes, job.res))
        speed = self.live.fastest[hosts] if self._is_hurried(job) else None
        placement = test.check(hosts, end, speed)
        if placement is None:
            self.refused_by = PLAN_CANNOT_PAY
            return False
        before_j = headroom_j(self.view)
        if not self.granted(job, hosts):
            return False
        self.live.start(self.view, self.step, job, test, placement)
        why = self._start_facts(job, len(ids), placement, before_j) if self.view.wants_facts else NO_FACTS
        rule = self.rule if placement.asleep is None else self.rule + SLEEPERS_PAY
        self.give(job, HostSet(hosts), rule, why)
        free[hosts] = False
        self._count(self.reservation)
        return True

    def _best(self, ids: HostIds, first_by: npt.NDArray[np.generic], count: int) -> HostIds:
        """Choose servers by ``first_by`` (such as changes to the plan), then by speed, then by lower id."""
        speeds = self.live.ladder.speed_flops(ids, self.view.pstate[ids])
        return ids[np.lexsort((ids, -speeds, first_by))[:count]]

    def _count(self, promise: Reservation | None) -> None:
        """Update the numbers of free servers, and of free servers that are not reserved."""
        self.free = int(np.count_nonzero(self.free_mask()))
        if promise is not None:
            promise.extra = int(np.count_nonzero(self.free_mask() & ~self._reserved))

    def _start_facts(self, job: Job, free: int, placement: Placement, before_j: float) -> FactDict:
        """Return why ``job`` can start: its queue position, the plan, and the energy that it needs."""
        why = self.facts(job, free)
        why["planned_on_until_s"] = self.live.plan.start_of(self.step + placement.end)
        why |= spent_facts(self.view, before_j)
        if self._dangerous:
            why["dangerous"] = 1
        if self.live.long_jobs.includes(job):
            why["long_job"] = 1
        if placement.woken:
            why |= {"server_steps_changed": placement.woken, "needed_j": placement.needed_j}
        if placement.asleep is not None:
            rows, hosts = placement.asleep
            sleepers = {"server_steps_to_sleep": len(rows), "hosts_to_sleep": len(np.unique(hosts))}
            why |= {"found_j": placement.saved_j, **sleepers}
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
        ends = np.minimum(self.live.end_steps(self.view.now + self._walltime_s[places]), plan.steps)
        asleep = np.sort(plan.asleep_steps(ids, self.step, ends[:, None]), axis=1).cumsum(axis=1)
        res = queue.res[places]
        payable = self._payable(asleep[np.arange(len(places)), res - 1], res)
        return np.asarray(payable | ~queue.computes[places])

    def _payable(self, asleep: npt.NDArray[np.integer], count: npt.NDArray[np.integer]) -> BoolArray:
        """Whether the plan may have energy for jobs on ``count`` servers in ``asleep`` steps of sleep."""
        needed_j = self._test.least_needed_j(asleep, count)
        most_j = float(np.maximum.reduce(needed_j, initial=0.0))
        return needed_j <= (self._test.most_payable_j(most_j) if most_j > 0.0 else 0.0)

    def _until(self, job: Job) -> int:
        """Return the step up to which the plan is searched for servers for ``job``."""
        plan = self.live.plan
        if (open_end := self.live.open_end(self.view, self.step, job)) is not None:
            return open_end
        return min(plan.horizon(self.step) + self.live.rows_of(self._walltime_of_s(job)), plan.steps)

    def _is_still_promised(self, job: Job) -> bool:
        """Whether the servers last reserved for ``job`` can still take it at the reserved time.

        If so, it has a reservation, although an earlier one may exist now.
        """
        live, plan, last = self.live, self.live.plan, self.live.promised
        if last is None or last.job is not job:
            return False
        start_s = last.start_s + TIME_TOLERANCE_S
        awake_s = start_s - live.longest_wake_s  # servers planned on then are awake by ``start_s``
        first = math.floor((awake_s - plan.start_s) / plan.step_s)
        end = math.ceil((start_s + self._walltime_of_s(job) - plan.start_s) / plan.step_s)
        if (open_end := live.open_end(self.view, self.step, job)) is not None:
            end = open_end
        if not (self.step < first and end <= self._until(job)) or not live.has_on(last.hosts, first, end):
            return False
        free = live.ends_s[last.hosts] <= start_s
        if not self.view.all_available:
            free &= self.view.available[last.hosts]
        return all_of(free)

    def reserve(self, job: Job) -> Reservation:
        """Reserve for ``job`` from when enough servers are free and planned on for its whole walltime.

        Servers that are busy now are preferred. A job that lacks energy in this step waits for the next one.
        """
        view, live, plan, free = self.view, self.live, self.live.plan, self.free_mask()
        promise = Reservation(job, np.inf, certain=True)
        prospect = job, plan.changes, live.job_changes, view.availability_version, self._until(job)
        if prospect == live.hopeless:
            self._count(promise)
            return promise
        earliest_s = ready_s(view, plan, self.step, free, live.ends_s)
        next_s = view.now
        if self.refused_by in (NO_STEP_ENERGY, TOO_RISKY) and view.budget is not None:
            next_s = view.budget.end_s
        earliest_s = np.maximum(earliest_s, next_s)
        for before in (self._near(job), None):
            intervals = self._intervals(job, earliest_s, before)
            if intervals is None:
                continue
            opens_s, closes_s, hosts = intervals
            times_s = np.sort(opens_s)
            count = times_s.searchsorted(times_s + TIME_TOLERANCE_S, side="right")
            count -= np.sort(closes_s).searchsorted(times_s)
            enough = (count >= job.res).nonzero()[0]
            if not len(enough):
                continue
            start_s = float(times_s[enough[0]])
            if before is None or start_s < plan.start_of(before) - 2 * TIME_TOLERANCE_S:
                promise.start_s = start_s
                ids = hosts[(opens_s <= start_s + TIME_TOLERANCE_S) & (closes_s >= start_s)]
                promised = self._best(ids, free[ids], job.res)
                self._reserved = np.zeros_like(free)
                self._reserved[promised] = True
                live.promised = Promise(job, start_s, promised)
                break
        else:
            live.hopeless = prospect if next_s == view.now and not live.by_work else None
        self._count(promise)
        return promise

    def _near(self, job: Job) -> int:
        """Return the step before which runs are examined first: some time after the last reserved start."""
        last = self.live.promised
        soon = self.step if last is None or last.job is not job else self.live.end_step(last.start_s)
        return max(soon, self.step) + _LOOKS_AHEAD

    def _intervals(
        self, job: Job, earliest_s: FloatArray, first_before: int | None
    ) -> tuple[FloatArray, FloatArray, HostIds] | None:
        """Return when servers can take ``job``, from when to when, s, and which: one entry per run of steps.

        ``earliest_s`` (N) is when each server is ready; ``first_before`` excludes runs that begin later.
        Returns None if there are fewer hosts than ``job`` needs.
        """
        view, live, plan = self.view, self.live, self.live.plan
        host, begin, end = plan.runs_on(self.step, self._until(job), first_before)
        walltime_s = self._walltime_of_s(job)
        most_s = live.most_s(view, self.step, np.array([walltime_s]))[0]
        long = (end - begin) * plan.step_s >= most_s - 2.0 * TIME_TOLERANCE_S
        if (open_end := live.open_end(view, self.step, job)) is not None:  # from any step on
            walltime_s = most_s = plan.step_s
            long = end >= open_end
        if np.count_nonzero(long) < job.res:
            return None
        host, begin, end = host[long], begin[long], end[long]
        on_s = np.where(begin > self.step, live.on_s[host], 0.0)
        opens_s = np.maximum(plan.start_s + begin * plan.step_s + on_s, earliest_s[host])
        needed_s = np.where(end == plan.steps, most_s, walltime_s)
        closes_s = plan.start_s + end * plan.step_s - needed_s + TIME_TOLERANCE_S
        fits = opens_s <= closes_s
        if not view.all_available:
            fits &= view.available[host]
        if np.count_nonzero(fits) < job.res:
            return None
        return opens_s[fits], closes_s[fits], host[fits]

    def lacks(self, promise: Reservation) -> FactDict:
        """Return why the first job that cannot start waits: for hosts, or energy of the plan or the step."""
        why = reservation_facts(promise, self.free)
        if self.refused_by == PLAN_CANNOT_PAY:
            why["needed_j"], why["found_j"] = self._test.short_j()
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
            self._promised = max(first - self.step, 0), end - self.step
        super().fill(promise)


class BeasyOptions(Options, frozen=True):
    """Options of `beasy`, for ablation studies."""

    idle_power: bool = False
    """Whether the energy test counts idle servers at idle power instead of the plan's worst case."""
    release: Literal["offer", "at-once"] = "offer"
    """Whether servers of a job that ends early are offered to the queue first, or return to their planned
    states immediately."""
    compensate: bool = True
    """Whether to compensate at every step."""
    user_error: float = 1.0
    """Share of its walltime that a job is assumed to need at the reference speed (epsilon_u, Eq. 3.29)."""
    spend: Literal["bounded", "all"] = "bounded"
    """Limit of the surplus that compensation may spend: E_comp, but not more than the battery can lose before
    the window's end without falling below SoC_min; or all of E_comp, as printed."""
    shortage: Shortage = "speed-first"
    """First action of compensation in a shortage: give all servers slower P-states, idle ones and then those
    of running jobs, before any falls asleep; or put idle servers to sleep."""
    risk: str | float | None = None
    """Limit on the share of windows (``"5%"``) in which a job is killed for lack of energy, or the battery
    falls below SoC_min. A job starts only if the battery stays above SoC_min up to its walltime with the
    production of a quantile of the forecast; the nine curves use the quantiles of the forecast, and of the
    demand if the plan has any. None: no limit."""
    window_end: WindowEnd = "walltime"
    """Whether a job must be able to end within the known windows by its walltime, or by its work: the work
    that fits into its walltime at the reference speed (Eq. 3.29), done at full speed (Eq. 3.28)."""
    long_jobs: LongJobsRule = "plan"
    """Handling of a job without a walltime, or with one longer than the planned horizon: ``plan`` it up to
    the end of the window and, after 20 such jobs have ended, for their longest run; or ``set-aside``, so that
    it never starts."""


class Beasy(Policy):
    """BEASY (Section IV of the paper)."""

    name = "beasy"
    summary = "EASY that starts only jobs for which the plan has energy; compensates at every step"
    words = BEASY_WORDS
    needs_power = True
    needs_plan = True
    needs_speeds = True
    options_type = BeasyOptions
    options: BeasyOptions

    def check_inputs(self, inputs: KnownInputs) -> Sequence[Finding]:
        """Report jobs that cannot start."""
        return [*never_started(inputs, self.name, self.options.long_jobs == "plan")]

    def begin(self, view: View) -> None:
        """Copy the plan."""
        options = self.options
        self.live = LivePlan(
            view,
            idle_power=options.idle_power,
            user_error=options.user_error,
            window_end=options.window_end,
            long_jobs=options.long_jobs,
        )
        self._follower = PlanFollower(view, self.live.plan)
        self._window: CurrentWindow | None = None
        self._seen: tuple[int, int] = (-1, -1)
        self._settled: tuple[int, int, int, int] | None = None
        """Result of `_situation` at the last message without changes."""
        self._last_pass_s = 0.0
        self._risk = None if options.risk is None else CalibratedRisk(options.risk, view)

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the results of the risk limit, if there is one."""
        return {} if self._risk is None else {"risk": self._risk.results()}

    # --- every step ---------------------------------------------------------------------------------------

    def power_actions(self, view: View) -> Sequence[Action]:
        """Compensate, then bring the servers to their states in the changed plan."""
        if view.budget is not None and self.live.renew(view.budget.start_s):
            self._window = None
        step = None if view.budget is None else self.live.plan.step_at(view.budget.start_s)
        if view.budget is None or step is None:
            return ()
        expected, level = None, BOUNDS_LEVEL
        if (risk := self._risk) is not None:
            risk.open_step(view.budget, self.live.plan.horizon(step) - step)
            expected, level = risk.quantiles.bounds(risk.level), risk.level
        window = self._window = enter_window(view, self.live.plan, step, self._window, expected, level)
        self.live.plan.set_production(step, view.budget.renew_w)
        self.live.settle_ends(view, step)
        self.live.keep_long_jobs(step)
        self._seen = (-1, -1)
        if not view.power_actions_allowed:
            return ()
        told: list[Action] = []
        if self.options.compensate and window is not None:
            told.append(self._compensate(view, step, window))
        may_change = np.logical_and(view.available, self.live.plan.on[step] | (self.live.until <= step))
        return [*told, *self._follower.follow(view, step, may_change)]  # busy servers never sleep

    def _compensate(self, view: View, step: int, window: CurrentWindow) -> Compensate:
        """Spend a surplus or save for a shortage, and report it."""
        live, predictions = self.live, window.predictions
        window_end = window.start_step + len(predictions.below)
        rest = live.rest(view, step, window_end)
        levels_j = rest.levels_j()
        diff_j = levels_j.item(-1) - rest.battery.target_j
        planned_j = float(np.add.reduce(rest.demand_j))
        dangerous = window.dangerous(step)
        why = {
            "diff_j": diff_j,
            "comp_j": compensation_j(rest.battery, diff_j),
            "window_end_s": live.plan.start_of(window_end),
            "dangerous": int(dangerous),
        }
        if diff_j > 0.0:
            bounded = self.options.spend == "bounded"
            spending = SpendSurplus(rest, live.savings, live.ladder, levels_j, bounded=bounded)
            why["spendable_j"] = spending.left_j
            if spending.has_left():
                spending.speed_up(live.faster_jobs(view, step, window_end, spending.left_j))
            why["spent_on_jobs_j"] = why["spendable_j"] - spending.left_j
            free = np.logical_and(live.until <= step, view.available)
            idle = int(np.count_nonzero(free & live.plan.on[step]))
            asleep = (free & ~live.plan.on[step]).nonzero()[0]
            if spending.may_wake(asleep):
                asked = self._asked_for(view, dangerous, step, window_end - step, idle + len(asleep))
                spending.wake(asked, idle, asleep)
            why["spent_on_wakes_j"] = why["spendable_j"] - why["spent_on_jobs_j"] - spending.left_j
        else:
            present = step - window.start_step
            violation = predictions.violation_step(present)
            if not live.is_lowest(step, window_end):
                shortage = self.options.shortage
                lowering = CoverShortage(
                    rest, live.cells, live.ladder, violation - present, shortage=shortage
                )
                lowering.lower(live.running_jobs(view), diff_j)
            why["saved_j"] = planned_j - float(rest.demand_j.sum())
            why["violation_at_s"] = live.plan.start_of(window.start_step + violation)
            why["curves_below"] = int(predictions.below[violation])
        if rest.changed:
            live.adopt(step, rest)
        return Compensate("surplus" if diff_j > 0.0 else "shortage", why)

    def _asked_for(
        self, view: View, dangerous: bool, step: int, steps_left: int, most_hosts: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the waiting jobs in order P_R, with the number of steps that they need, including waking.

        A job that can end in the ``steps_left`` of the window needs at most these; jobs that cannot, or that
        need more than ``most_hosts`` hosts, are excluded.
        """
        queue, live, step_s = view.queue, self.live, self.live.plan.step_s
        places = (queue.res <= most_hosts).nonzero()[0]
        own_s = queue.walltime_s[places]
        walltime_s = live.counted_s(view, step, own_s)
        most_s = live.most_s(view, step, walltime_s)
        in_time = np.ceil((live.longest_wake_s + most_s) / step_s) <= steps_left
        in_time &= walltime_s < np.inf
        in_time |= live.long_jobs.among(own_s)
        places, walltime_s = places[in_time], walltime_s[in_time]
        if not len(places):
            return
        rows = np.minimum(np.ceil((live.longest_wake_s + walltime_s) / step_s), steps_left)
        rows_of = dict(zip(places.tolist(), rows.tolist(), strict=True))
        order = smallest_size if dangerous else largest_slowdown
        for place in one_by_one(order, queue, places, view.now):
            yield queue.at(place).res, int(rows_of[place])

    # --- every event --------------------------------------------------------------------------------------

    def schedule(self, view: View) -> Sequence[Action]:
        """Run Algorithm 1 if something has changed, and put idle servers to sleep for starts."""
        if self._risk is not None:
            self._risk.look()
        self.live.long_jobs.learn(view.ended)
        step = self.live.plan.step_at(view.now)
        if step is None or self._window is None:
            return ()
        self.live.settle_ends(view, step)
        has_news = len(view.queue) and (view.arrived or self._seen != (step, view.availability_version))
        if not has_news and self._settled == self._situation(view, step):
            return ()
        if self.options.release == "at-once":
            self.live.give_back(view, step)
        actions: list[Action] = []
        if has_news:
            dangerous = self._window.dangerous(step)
            actions = BeasyPass(view, self.live, step, dangerous, self._last_pass_s, self._risk).run()
            self._last_pass_s = view.now
        self._seen = (step, view.availability_version)
        self.live.give_back(view, step)
        actions += self._let_sleep(view, step)
        self._settled = None if actions else self._situation(view, step)
        return actions

    def _situation(self, view: View, step: int) -> tuple[int, int, int, int]:
        """Return a key that changes with the step, the free servers, the plan, and the jobs in it."""
        return step, view.availability_version, self.live.plan.changes, self.live.job_changes

    def _let_sleep(self, view: View, step: int) -> list[Action]:
        """Put idle servers to sleep that are asleep in the changed plan in the current step."""
        if not view.power_actions_allowed:
            return []
        if not view.free_count:
            return []
        plan = self.live.plan
        done = view.free_mask() > plan.on[step]
        done &= self.live.until <= step
        done &= view.host_state == IDLE
        hosts = done.nonzero()[0]
        if not len(hosts):
            return []
        self._follower.asked[hosts] = plan.sleep[hosts]
        return sleep(view, hosts, "the plan has it asleep")
