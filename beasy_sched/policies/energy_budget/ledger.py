"""The books of a budget: the counter, the estimated powers, and what follows for the tests.

The power limit of `powercap`: which jobs may start below it.

C_ea, the counter of available energy (Section IV-C-1 of the paper).

Algorithm 2 of the paper: EASY backfilling that also asks whether the energy suffices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.engine.guard import ENERGY_TOLERANCE, energy_tolerance_j
from beasy_sched.engine.policy import View
from beasy_sched.model.cluster import BUSY, IDLE
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.jobs import Job
from beasy_sched.policies.easy import Places
from beasy_sched.policies.energy_budget.choice import Choice
from beasy_sched.policies.energy_budget.options import BudgetPeriod, EstimatedPowers
from beasy_sched.policies.energy_budget.projection import Commitments, EnergyTest, Passing, Projection
from beasy_sched.units import TIME_TOLERANCE_S


class Ceiling:
    """The estimated power as it will be within the period, and the limit that it must not exceed."""

    def __init__(
        self,
        period: BudgetPeriod,
        limit_w: float,
        now: float,
        rest_w: float,
        jobs: Commitments,
        passing: Passing,
    ) -> None:
        """``rest_w``: power of all hosts without their jobs."""
        self._passing = passing
        self._start_s, self._end_s = max(now, period.start_s), period.end_s
        self._limit_w = limit_w * (1 + ENERGY_TOLERANCE)
        first = int(jobs.end_s.searchsorted(self._start_s, side="right"))
        ends_s, extra_w = jobs.end_s[first:], jobs.extra_w[first:]
        inside = int(ends_s.searchsorted(self._end_s))
        self._t = np.concatenate(([self._start_s], ends_s[:inside]))
        self._p = rest_w + extra_w.sum() - np.concatenate(([0.0], np.cumsum(extra_w[:inside])))

    @property
    def present(self) -> float:
        """Estimated power now, or at the period's start, W."""
        return float(self._p[0])

    def admits(self, extra_w: FloatArray, end_s: FloatArray, hosts: FloatArray) -> BoolArray:
        """Tell for each job whether it stays below the limit to its end."""
        until_s = np.minimum(end_s, self._end_s)
        highest_w = np.maximum.accumulate(self._p)
        place = np.maximum(self._t.searchsorted(until_s) - 1, 0)
        highest_w = np.maximum(highest_w[place], self._p[0] + self._passing.left(hosts))
        fits: BoolArray = highest_w + extra_w <= self._limit_w
        return fits | (until_s <= self._start_s) | (extra_w <= 0)

    def allows(self, extra_w: float, end_s: float, idle: int) -> bool:
        """Tell whether one job may start now; the hosts that stay idle switch off."""
        return bool(self.admits(np.array([extra_w]), np.array([end_s]), np.array([float(idle)]))[0])

    def start(self, extra_w: float, end_s: float, idle: int) -> None:
        """A job starts now."""
        self._passing.take(idle)
        self._add(self._start_s, extra_w, end_s)

    def _add(self, from_s: float, extra_w: float, end_s: float) -> None:
        from_s, until_s = max(from_s, self._start_s), min(end_s, self._end_s)
        if until_s <= from_s:
            return
        for at_s in (from_s, until_s):
            place = int(self._t.searchsorted(at_s))
            if place == len(self._t) or self._t[place] != at_s:
                self._t, self._p = (
                    np.insert(self._t, place, at_s),
                    np.insert(self._p, place, self._p[place - 1]),
                )
        self._p = self._p + np.where((self._t >= from_s) & (self._t < until_s), extra_w, 0.0)

    def earliest(self, from_s: float, extra_w: float, lasts_s: float) -> float:
        """Find when enough running jobs have ended; at the latest the period's end."""
        if extra_w <= 0 or from_s >= self._end_s or from_s + lasts_s <= self._start_s:
            return from_s
        low = np.flatnonzero(self._p + extra_w <= self._limit_w)
        return max(from_s, float(self._t[low[0]])) if len(low) else self._end_s

    def promise(self, at_s: float, extra_w: float, lasts_s: float) -> float:
        """Set aside the power that a job will add; return it, W."""
        if at_s >= self._end_s:
            return 0.0
        self._add(at_s, extra_w, at_s + lasts_s)
        return extra_w


class EnergyCounter:
    """Energy made available since the period's start (rule 1) less what was used since, J.

    Between two measurements the use is estimated; a measurement replaces the estimate. Outside the
    period nothing is counted.
    """

    def __init__(self, period: BudgetPeriod, budget_j: float) -> None:
        """Nothing is available before the period."""
        self.period = period
        self.budget_j = budget_j
        self.rate_w = budget_j / period.length_s
        """Energy made available each second, W."""
        self.available_j = 0.0
        self.used_j: float | None = None
        """Energy used in the period, up to the last measurement; None before the first."""
        self.stages = 0
        """Measurements taken within the period, its start and end included."""
        self.stages_in_debt = 0
        self.largest_debt_j = 0.0
        """Largest debt found by a measurement."""
        self.overestimated_j = 0.0
        """How much more was estimated to be used than measurements found, in all."""
        self.due_s = period.start_s
        """When the next measurement is due; infinite after the last."""
        self._now_s = 0.0
        self._at_start_j = 0.0
        self._last_j = 0.0
        if period.start_s == 0:
            self.measured(0.0, 0.0)

    @property
    def tolerance_j(self) -> float:
        """How far from zero a balance is still zero, by the budget and by all the energy measured, J."""
        return energy_tolerance_j(self.budget_j, self._last_j)

    def advance(self, now: float, draw_w: float) -> None:
        """Let time pass to ``now`` (s) at an estimated power."""
        period = self.period
        since_s, until_s = max(self._now_s, period.start_s), min(now, period.end_s)
        if until_s > since_s:
            self.available_j += (self.rate_w - draw_w) * (until_s - since_s)
        self._now_s = now

    def is_due(self, now: float) -> bool:
        """Whether a measurement should be taken by now."""
        return now >= self.due_s - TIME_TOLERANCE_S

    def measured(self, at_s: float, energy_j: float) -> None:
        """Take in a measurement: energy used since time 0, at a time."""
        period = self.period
        if at_s < period.start_s - TIME_TOLERANCE_S or math.isinf(self.due_s):
            return
        if self.used_j is None:
            self._at_start_j = energy_j
        self._last_j = energy_j
        self.stages += 1
        self.used_j = energy_j - self._at_start_j
        passed_s = min(at_s, period.end_s) - period.start_s
        estimated_j = self.available_j
        self.available_j = self.rate_w * passed_s - self.used_j if passed_s else 0.0
        if math.isfinite(self.budget_j):
            self.overestimated_j += self.available_j - estimated_j
        if self.available_j < -self.tolerance_j:
            self.stages_in_debt += 1
            self.largest_debt_j = max(self.largest_debt_j, -self.available_j)
        self._set_due(at_s)

    def _set_due(self, now: float) -> None:
        period = self.period
        if now >= period.end_s - TIME_TOLERANCE_S:
            self.due_s = math.inf
            return
        stage = int((now - period.start_s + TIME_TOLERANCE_S) // period.monitoring_s) + 1
        self.due_s = min(period.start_s + stage * period.monitoring_s, period.end_s)


class JobCost(Struct, frozen=True):
    """What one more host costs a job, at most, whichever host that is."""

    power_w: float
    """What a job adds to a resting host's power."""
    switching_j: float
    """Energy of switching the host off again."""
    lead_s: float
    """How long a host may need to wake."""

    def extra_w(self, res: FloatArray, lasts_s: FloatArray) -> FloatArray:
        """Power that jobs add; the switching is spread over their time."""
        extra: FloatArray = res * (self.power_w + self.switching_j / np.maximum(lasts_s, TIME_TOLERANCE_S))
        return extra


FREE = JobCost(0.0, 0.0, 0.0)
"""Where there is no budget."""


def admitted(
    energy: EnergyTest, cost: JobCost, now: float, res: IntArray, walltime_s: FloatArray
) -> BoolArray:
    """Tell for which jobs the energy suffices now, whatever hosts are free."""
    lasts_s, hosts = walltime_s + cost.lead_s, res.astype(np.float64)
    return energy.admits(cost.extra_w(hosts, lasts_s), now + lasts_s, hosts)


def suffices(energy: EnergyTest | None, cost: JobCost, now: float, job: Job) -> bool:
    """Tell whether the energy suffices for one job."""
    if energy is None:
        return True
    return bool(admitted(energy, cost, now, np.array([job.res]), np.array([job.walltime_s]))[0])


class Blocked(Struct, frozen=True):
    """The first job that cannot start, and what it is promised."""

    job: Job
    lacks_energy: bool
    """Whether it has hosts, but no energy."""
    refused: bool = False
    """Whether it was refused only when its hosts were known: by the guard, or for what the others draw."""
    ready_s: float = np.inf
    """When it will have its hosts, by walltimes."""
    begin_s: float = np.inf
    """When it will have its energy, too: from then on hosts wake for it."""
    start_s: float = np.inf
    """When it starts at the latest; infinite if that is not known."""
    reserved: float = 0.0
    """What is reserved for it, J (or W under a power limit)."""


class Round:
    """One pass over the queue."""

    def __init__(
        self,
        view: View,
        choice: Choice,
        energy: EnergyTest | None,
        cost: JobCost,
        grant: Callable[[Job, HostIds, int, Blocked | None], bool],
        barred: set[str],
    ) -> None:
        """``grant`` starts a job on hosts of so many free ones, or refuses; ``barred`` jobs have theirs."""
        self._view, self._choice, self._energy, self._cost = view, choice, energy, cost
        self._grant = grant
        self._barred = barred
        self.blocked: Blocked | None = None

    def run_heads(self) -> None:
        """Start jobs in order of arrival, until one lacks hosts or energy."""
        for job in self._view.queue:
            if job.id in self._barred:
                continue
            fits = self._choice.fits(job)
            if not fits or not suffices(self._energy, self._cost, self._view.now, job):
                self.blocked = Blocked(job, lacks_energy=fits)
                return
            if not self._start(job, late=False):
                self.blocked = Blocked(job, lacks_energy=self._energy is not None, refused=True)
                return

    def _start(self, job: Job, *, late: bool) -> bool:
        free = self._choice.free
        hosts = self._choice.take(job, late)
        if not self._grant(job, hosts, free, self.blocked):
            self._choice.give_back(hosts, late)
            return False
        self._barred.add(job.id)
        return True

    def reserve(self, keep: Callable[[float, float, float], float]) -> None:
        """Promise hosts and energy to the first job that cannot start.

        ``keep`` sets energy aside for a job: it is told from when, the power added, and for how long, and
        returns how much that is.
        """
        assert self.blocked is not None
        job, now, lead_s = self.blocked.job, self._view.now, self._cost.lead_s
        ready_s = self._choice.earliest(job)
        begin_s = max(now, ready_s - lead_s)
        reserved = 0.0
        start_s = ready_s
        if self._energy is not None and np.isfinite(ready_s):
            lasts_s = job.walltime_s + lead_s
            extra_w = float(self._cost.extra_w(np.array([float(job.res)]), np.array([lasts_s]))[0])
            begin_s = self._energy.earliest(begin_s, extra_w, lasts_s)
            start_s = max(ready_s, begin_s + lead_s)
            reserved = keep(begin_s, extra_w, start_s - begin_s + job.walltime_s)
        self._choice.reserve(job, start_s)
        lacks_energy, refused = self.blocked.lacks_energy, self.blocked.refused
        self.blocked = Blocked(job, lacks_energy, refused, ready_s, begin_s, start_s, reserved)

    def backfill(self) -> None:
        """Start every other job that does not delay the reservation, in order of arrival."""
        if self.blocked is None or not self._choice.free:
            return
        self._barred.add(self.blocked.job.id)
        queue = self._view.queue
        places = self._fitting(np.flatnonzero(queue.res <= self._choice.free))
        tried = 0
        while tried < len(places):
            job = queue.at(int(places[tried]))
            tried += 1
            late = bool(self._late(np.array([job.walltime_s]))[0])
            if job.id not in self._barred and self._start(job, late=late):
                places, tried = self._fitting(places[tried:]), 0

    def _late(self, walltime_s: FloatArray) -> BoolArray:
        """Tell which jobs would run past the reservation's start."""
        assert self.blocked is not None
        ends_s = self._view.now + self._cost.lead_s + walltime_s
        late: BoolArray = ends_s > self.blocked.start_s + TIME_TOLERANCE_S
        return late

    def _fitting(self, places: Places) -> Places:
        """Return those places whose job fits now: its hosts, its energy, the reservation."""
        queue = self._view.queue
        res, walltime_s = queue.res[places], queue.walltime_s[places]
        fits = self._choice.fitting(res, self._late(walltime_s))
        places = places[fits]
        if self._energy is None or not len(places):
            return places
        return places[admitted(self._energy, self._cost, self._view.now, res[fits], walltime_s[fits])]


class Ledger:
    """Keeps the counter up to date and makes the tests of a moment."""

    def __init__(
        self,
        period: BudgetPeriod,
        powers: EstimatedPowers,
        jobs: Commitments,
        view: View,
        *,
        switches: bool,
        energies: bool = True,
    ) -> None:
        """``switches``: whether idle hosts are switched off within the period.

        ``energies``: whether jobs are charged with switching off their hosts; a limit on power leaves it out.
        """
        self.period = period
        self.counter = EnergyCounter(period, period.budget_j(powers.all_computing_w))
        self._powers, self._jobs, self._switches = powers, jobs, switches
        self._kind_of = view.platform.kind_of
        self._rest_w, self._peak_w = powers.rest_w(switches), powers.peak_w(switches)
        self._settling_j = powers.settling_j(switches)
        self._job_w, self._off_again_j = powers.job_w(switches), powers.off_again_j(switches) * energies
        self._counts = view.state_counts.copy()
        self._draw_w = powers.draw_w(self._counts)
        self._measured_s = -math.inf
        self._asked_s = -math.inf

    # --- time ---------------------------------------------------------------------------------------

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return math.isfinite(self.counter.budget_j)

    def is_over(self, now: float) -> bool:
        """Whether the period has ended."""
        return now >= self.period.end_s - TIME_TOLERANCE_S

    def is_on(self, now: float) -> bool:
        """Whether the period is under way."""
        return now >= self.period.start_s - TIME_TOLERANCE_S and not self.is_over(now)

    def catch_up(self, view: View) -> None:
        """Bring the counter up to the present, by a measurement where there is a new one."""
        self.counter.advance(view.now, self._draw_w)
        measured = view.measured
        if measured is not None and measured.at_s > self._measured_s:
            self._measured_s = measured.at_s
            self.counter.measured(measured.at_s, measured.energy_j)
        self._counts = view.state_counts.copy()

    def moved(self, hosts: HostIds, before: int, after: int) -> None:
        """Take in that hosts will change their state by a decision of this moment."""
        counts = self._counts
        by_kind = np.bincount(self._kind_of[hosts], minlength=len(counts)) if len(counts) > 1 else len(hosts)
        counts[:, before] -= by_kind
        counts[:, after] += by_kind

    def settle(self) -> None:
        """Reckon what will be drawn from now on."""
        self._draw_w = self._powers.draw_w(self._counts)

    def wants_measurement(self, now: float) -> bool:
        """Tell whether to measure now; told once for a moment."""
        wanted = self.counter.is_due(now) and now > self._asked_s
        if wanted:
            self._asked_s = now
        return wanted

    # --- tests --------------------------------------------------------------------------------------

    def projection(self, now: float) -> Projection:
        """Return the balance of available energy to come."""
        settling_j = self._settling_j * self._counts
        rest_w = float((self._rest_w * self._counts).sum())
        idle_j, available_j = float(settling_j[:, IDLE].sum()), self.counter.available_j
        if now < self.period.start_s:  # hosts that come free by then are still on
            idle_j += float((self._off_again_j * self._counts[:, BUSY]).sum())
        available_j -= float(settling_j.sum()) - float(settling_j[:, IDLE].sum())
        passing = Passing(idle_j, self._idle)
        rate_w, tolerance_j = self.counter.rate_w, self.counter.tolerance_j
        return Projection(self.period, rate_w, now, available_j, rest_w, self._jobs, passing, tolerance_j)

    def ceiling(self, now: float) -> Ceiling:
        """Return the power to come, under the limit."""
        peak_w = self._peak_w * self._counts
        rest_w = self._rest_w[:, IDLE] * self._counts[:, IDLE]
        idle_w = float((peak_w[:, IDLE] - rest_w).sum())
        passing = Passing(idle_w, self._idle)
        floor_w = float(peak_w.sum()) - idle_w
        return Ceiling(self.period, self.counter.rate_w, now, floor_w, self._jobs, passing)

    @property
    def _idle(self) -> int:
        return int(self._counts[:, IDLE].sum())

    def cost(self, lead_s: float) -> JobCost:
        """Return what one host costs a job at most."""
        most = self._powers.most
        return JobCost(most(self._job_w), most(self._off_again_j), lead_s)

    def extra_w(self, hosts: HostIds, lasts_s: float) -> float:
        """Return what a job adds to the power of ``hosts`` at rest, switching them off again included."""
        total = self._powers.total
        lasts_s = max(lasts_s, TIME_TOLERANCE_S)
        return total(self._job_w, hosts) + total(self._off_again_j, hosts) / lasts_s

    # --- results ------------------------------------------------------------------------------------

    def results(self) -> dict[str, Any]:
        """Return the budget and what was used of it; energies in J, times in s."""
        counter, period = self.counter, self.period
        limited, used_j = self.is_limited, counter.used_j
        known = limited and used_j is not None
        return {
            "budget_j": counter.budget_j if limited else None,
            "share": counter.budget_j / (self._powers.all_computing_w * period.length_s) if limited else None,
            "period_start_s": period.start_s,
            "period_end_s": period.end_s,
            "measured_to_the_end": math.isinf(counter.due_s),
            "measurements": counter.stages,
            "used_j": used_j,
            "excess_j": max(0.0, used_j - counter.budget_j) if known and used_j is not None else None,
            "overestimated_j": counter.overestimated_j if limited else None,
            "measurements_in_debt": counter.stages_in_debt,
            "largest_debt_j": counter.largest_debt_j,
        }
