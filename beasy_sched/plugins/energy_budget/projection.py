"""Future energy (or power) of the budget, and the jobs that may start without exceeding it.

Walltimes bound the time during which running jobs draw power (`Commitments`). Rule 2 of the paper tests the
balance C(t) of available energy (`Projection`): the value of the counter at a future time t if every running
job ran to its walltime and no other job started. It is piecewise linear, since the power changes only when
jobs end. A power limit (`Ceiling`) tests the power instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.engine.actions import FactDict
from beasy_sched.engine.guard import ENERGY_TOLERANCE
from beasy_sched.plugins.energy_budget.budget_rate import BudgetRate
from beasy_sched.plugins.energy_budget.energy_budget_options import BudgetPeriod
from beasy_sched.plugins.energy_budget.energy_budget_words import ABOVE_LIMIT, NO_BUDGET

Numbers = TypeVar("Numbers", float, FloatArray)
"""One number, or one per job."""


class Commitments:
    """Jobs that have hosts, sorted by their latest ends."""

    end_s: FloatArray
    """Latest ends in ascending order, s."""
    extra_w: FloatArray
    """Power that each job adds to its hosts at rest, W."""
    hosts: FloatArray
    """Number of hosts of each job."""

    def __init__(self) -> None:
        """Start without jobs."""
        self._ids: list[str] = []
        self._end_of: dict[str, float] = {}
        self._set_rows(np.empty((3, 0)))

    def _set_rows(self, rows: FloatArray) -> None:
        self._rows = rows
        self.end_s, self.extra_w, self.hosts = rows
        self._drawn: tuple[float, float] | None = None
        self._running: tuple[float, FloatArray, FloatArray] | None = None

    def add(self, job_id: str, end_s: float, extra_w: float, hosts: int) -> None:
        """Add a job that runs until ``end_s`` at the latest, or replace it if it is known."""
        self.remove(job_id)
        place = int(self.end_s.searchsorted(end_s, side="right"))
        self._ids.insert(place, job_id)
        self._end_of[job_id] = end_s
        rows = self._resized(place, place, 1)
        rows[:, place] = end_s, extra_w, hosts
        self._set_rows(rows)

    def remove(self, job_id: str) -> None:
        """Forget a job, if it is known."""
        if job_id in self._end_of:
            place = self._place(job_id)
            del self._ids[place], self._end_of[job_id]
            self._set_rows(self._resized(place, place + 1, -1))

    def _resized(self, before: int, after: int, more: int) -> FloatArray:
        """Return a copy of the rows up to index ``before`` and from ``after`` on (faster than np.insert)."""
        rows = np.empty((3, len(self._ids)))
        rows[:, :before], rows[:, after + more :] = self._rows[:, :before], self._rows[:, after:]
        return rows

    def recount(self, job_id: str, hosts: int) -> None:
        """Correct the number of hosts that become free when a job ends."""
        self.hosts[self._place(job_id)] = hosts

    def drawn_w(self, at_s: float) -> float:
        """Return the power currently added by the jobs that end after ``at_s``, W."""
        if self._drawn is None or self._drawn[0] != at_s:
            first = int(self.end_s.searchsorted(at_s, side="right"))
            self._drawn = at_s, float(self.extra_w[first:].sum())
        return self._drawn[1]

    def running(self, at_s: float) -> tuple[FloatArray, FloatArray]:
        """Return the latest ends of the jobs that run after ``at_s`` (s), and the power of ended ones, W.

        The first power is that of no job, the next one that after each end.
        """
        if self._running is None or self._running[0] != at_s:
            first = int(self.end_s.searchsorted(at_s, side="right"))
            ended_w = np.zeros(len(self.end_s) - first + 1)
            self.extra_w[first:].cumsum(out=ended_w[1:])
            self._running = at_s, self.end_s[first:], ended_w
        return self._running[1:]

    def _place(self, job_id: str) -> int:
        return self._ids.index(job_id, int(self.end_s.searchsorted(self._end_of[job_id])))


_PROMISE_S = 0.1
"""Precision of the start of reservations that wait for energy."""


def first_moment(enough: Callable[[float], bool], low_s: float, high_s: float) -> float:
    """Find the time between two from which there is ``enough``, or else the later one."""
    while high_s - low_s > _PROMISE_S:
        middle_s = (low_s + high_s) / 2
        if enough(middle_s):
            high_s = middle_s
        else:
            low_s = middle_s
    return high_s


class IdleShutdownCost:
    """Cost of switching off the idle hosts: energy (J), or power for a short time (W)."""

    def __init__(self, total: float, hosts: int) -> None:
        """``total``: cost of all idle ``hosts``."""
        self._total, self._hosts = total, hosts

    def left(self, idle: Numbers) -> Numbers:
        """Return the remaining cost if ``idle`` of the hosts get a job instead."""
        left: Numbers = self._total * (1 - np.minimum(idle, self._hosts) / max(self._hosts, 1))
        return left

    def take(self, idle: int) -> None:
        """Give ``idle`` of the hosts a job instead."""
        self._total = float(self.left(idle))
        self._hosts -= min(idle, self._hosts)


class Lookahead(ABC):
    """Future power of the running jobs within the period: base class of all budget tests."""

    _t: FloatArray
    """Breakpoints, from now or the period's start."""
    _y: FloatArray
    """Balance (J) or power (W) at each breakpoint."""

    def __init__(
        self, period: BudgetPeriod, now: float, jobs: Commitments, passing: IdleShutdownCost
    ) -> None:
        """Use the running ``jobs``; subclasses set up the breakpoints."""
        self._passing = passing
        self._start_s, self._end_s = max(now, period.start_s), period.end_s
        self._ends_s, ended_w = jobs.running(self._start_s)
        self._inside = int(self._ends_s.searchsorted(self._end_s))
        self._running_w = jobs.drawn_w(self._start_s) - ended_w[: self._inside + 1]
        """Return the power of the running jobs, now and after each end within the period, W."""

    def start(self, extra_w: float, end_s: float, idle: int) -> None:
        """Account for a job that has started."""
        self._passing.take(idle)
        self._add(self._start_s, extra_w, end_s)

    def _add(self, from_s: float, extra_w: float, end_s: float) -> None:
        """Account for a job's power from ``from_s`` to ``end_s``."""
        from_s, until_s = max(from_s, self._start_s), min(end_s, self._end_s)
        if until_s <= from_s:
            return
        for at_s in (from_s, until_s):
            place = int(self._t.searchsorted(at_s))
            if place == len(self._t) or self._t[place] != at_s:
                self._y = np.insert(self._y, place, self._value(at_s, place))
                self._t = np.insert(self._t, place, at_s)
        self._draw(from_s, until_s, extra_w)

    @abstractmethod
    def _value(self, at_s: float, place: int) -> float:
        """Return the value at ``at_s``, which is just before breakpoint ``place``."""

    @abstractmethod
    def _draw(self, from_s: float, until_s: float, extra_w: float) -> None:
        """Adjust the values for power drawn between two breakpoints."""


class Projection(Lookahead):
    """Balance within the period, from now (or the period's start) to its end."""

    def __init__(
        self,
        period: BudgetPeriod,
        rate: BudgetRate,
        now: float,
        available_j: float,
        rest_w: float,
        jobs: Commitments,
        passing: IdleShutdownCost,
        tolerance_j: float,
    ) -> None:
        """``available_j``: the counter; ``rest_w``: power of all hosts without their jobs.

        ``tolerance_j``: maximum amount by which the balance may fall below zero.
        """
        super().__init__(period, now, jobs, passing)
        self._rate, self._rest_w, self._stock_j = rate, rest_w, available_j
        self._jobs = jobs
        """Jobs that have hosts, including those that start in this decision."""
        self._tolerance_j = tolerance_j
        self._t = np.concatenate(([self._start_s], self._ends_s[: self._inside], [self._end_s]))
        running_w = self._running_w
        if len(rate.changes_s):
            ends_s, self._t = self._t, self._with_changes(rate.changes_s)
            last = len(running_w) - 1
            running_w = running_w[np.minimum(ends_s.searchsorted(self._t[:-1], side="right") - 1, last)]
        gained_j = np.zeros(len(self._t))
        rate_w = rate.mean_w(self._t[:-1], self._t[1:])
        gains_j = (rate_w - rest_w - running_w) * (self._t[1:] - self._t[:-1])
        gains_j.cumsum(out=gained_j[1:])
        self._y = available_j + gained_j
        self._last_s = min(float(self._ends_s[-1]), self._end_s) if len(self._ends_s) else self._start_s
        self._ready = False

    def _with_changes(self, changes_s: FloatArray) -> FloatArray:
        """Return the breakpoints with the times at which the rate changes."""
        inside_s = changes_s[(changes_s > self._start_s) & (changes_s < self._end_s)]
        return np.sort(np.concatenate((self._t, inside_s)), kind="stable")

    def facts(self, reserved: float) -> FactDict:
        """Return the available and the ``reserved`` energy, the facts of a decision."""
        return {"available_j": float(self._y[0]), "reserved_j": reserved}

    def admits(self, extra_w: FloatArray, end_s: FloatArray, hosts: FloatArray) -> BoolArray:
        """Whether the balance stays positive with each job on ``hosts`` hosts, up to the last job's end.

        This estimates the hosts that stay idle, using idle ones first: `allows` would also reject every job
        that it rejects.
        """
        self._prepare()
        switching_j = self._passing.left(hosts)
        until_s = np.minimum(end_s, self._end_s)
        span_s = until_s - self._start_s
        need_j = extra_w * span_s + switching_j - self._tolerance_j
        place = self._t.searchsorted(until_s)
        passed: BoolArray = (
            (self._y[0] >= switching_j - self._tolerance_j)
            & (self._steepest_w[place] >= extra_w)
            & (np.interp(until_s, self._t, self._y) >= need_j)
            & (self._lowest_j[place] >= need_j)
        )
        return passed | (span_s <= 0) | (extra_w <= 0)

    def _prepare(self) -> None:
        """Compute the maximum extra power up to each breakpoint, and the minimum balance from there on."""
        if self._ready:
            return
        slope_w = np.full(len(self._t) + 1, np.inf)  # first entry: no breakpoint
        later = self._t > self._start_s
        np.divide(self._y + self._tolerance_j, self._t - self._start_s, out=slope_w[1:], where=later)
        self._steepest_w = np.minimum.accumulate(slope_w)
        counted_j = np.full(len(self._t) + 1, np.inf)  # last entry: no breakpoint
        np.copyto(counted_j[:-1], self._y, where=self._t <= self._last_s)
        self._lowest_j = np.minimum.accumulate(counted_j[::-1])[::-1]
        self._ready = True

    def allows(self, extra_w: float, end_s: float, idle: int) -> bool:
        """Whether a job that takes ``idle`` of the hosts that would be switched off may start now."""
        left_j = float(self._passing.left(idle))
        return self._suffices(self._start_s, extra_w, end_s - self._start_s, left_j)

    def refusal(self, extra_w: float, end_s: float, idle: int) -> tuple[str, FactDict]:
        """Return the rule by which a job may not start, and the energy that it lacks."""
        left_j = float(self._passing.left(idle))
        lacks_j = left_j - self._least_j(self._start_s, extra_w, end_s - self._start_s)
        return NO_BUDGET, {"lacks_j": max(0.0, lacks_j)}

    def earliest(self, from_s: float, extra_w: float, lasts_s: float) -> float:
        """Find the earliest time from which the balance stays positive, or else the period's end."""
        if from_s >= self._end_s or self._suffices(from_s, extra_w, lasts_s):
            return from_s
        return first_moment(lambda at_s: self._suffices(at_s, extra_w, lasts_s), from_s, self._end_s)

    def _suffices(self, from_s: float, extra_w: float, lasts_s: float, less_j: float = 0.0) -> bool:
        return self._least_j(from_s, extra_w, lasts_s) - less_j >= -self._tolerance_j

    def _least_j(self, from_s: float, extra_w: float, lasts_s: float) -> float:
        """Return the minimum balance from ``from_s`` on with a job; infinite if the job does not use any."""
        from_s, until_s = max(from_s, self._start_s), min(from_s + lasts_s, self._end_s)
        if until_s <= from_s or extra_w <= 0:
            return np.inf
        first, last = self._t.searchsorted((from_s, max(self._last_s, until_s)), side="right")
        t, c = self._t[first:last], self._y[first:last]
        ends_j = np.interp((from_s, until_s), self._t, self._y) - (0.0, extra_w * (until_s - from_s))
        balance_j = c - extra_w * np.minimum(t - from_s, until_s - from_s)
        return float(min(ends_j.min(), balance_j.min(initial=np.inf)))

    def promise(self, at_s: float, extra_w: float, lasts_s: float) -> float:
        """Reserve the energy of a job from ``at_s`` on; return the required value of the counter then, J."""
        if at_s >= self._end_s or at_s + lasts_s <= self._start_s:
            return 0.0
        before_j = float(np.interp(at_s, self._t, self._y))
        self._add(at_s, extra_w, at_s + lasts_s)
        later = (self._t >= at_s) & (self._t <= self._last_s)
        return max(0.0, before_j - float(self._y[later].min(initial=before_j)))

    def _value(self, at_s: float, place: int) -> float:
        return float(np.interp(at_s, self._t, self._y))

    def _draw(self, from_s: float, until_s: float, extra_w: float) -> None:
        self._y = self._y - extra_w * np.clip(self._t - from_s, 0.0, until_s - from_s)
        self._last_s = max(self._last_s, until_s)
        self._ready = False


class EvenProjection(Projection):
    """`Projection` that reserves energy at a constant rate from now until it is needed."""

    def promise(self, at_s: float, extra_w: float, lasts_s: float) -> float:
        """Lower the rate of available energy until ``at_s``, so that the job's need is saved by then."""
        reserved_j = super().promise(at_s, extra_w, lasts_s)
        if reserved_j > 0 and at_s > self._start_s:
            earlier = self._t <= at_s
            self._y[earlier] -= reserved_j * (self._t[earlier] - self._start_s) / (at_s - self._start_s)
            self._ready = False
        return reserved_j


class Ceiling(Lookahead):
    """Estimated power within the period, and its limit."""

    def __init__(
        self,
        period: BudgetPeriod,
        limit_w: float,
        now: float,
        rest_w: float,
        jobs: Commitments,
        passing: IdleShutdownCost,
    ) -> None:
        """``rest_w``: power of all hosts without their jobs."""
        super().__init__(period, now, jobs, passing)
        self.limit_w = limit_w
        self._most_w = limit_w * (1 + ENERGY_TOLERANCE)
        self._t = np.concatenate(([self._start_s], self._ends_s[: self._inside]))
        self._y = rest_w + self._running_w

    def facts(self, reserved: float) -> FactDict:
        """Return the drawn and the ``reserved`` power and the limit, the facts of a decision."""
        return {"drawn_w": float(self._y[0]), "limit_w": self.limit_w, "reserved_w": reserved}

    def admits(self, extra_w: FloatArray, end_s: FloatArray, hosts: FloatArray) -> BoolArray:
        """Whether the power stays below the limit with each job, up to its end."""
        until_s = np.minimum(end_s, self._end_s)
        highest_w = np.maximum.accumulate(self._y)
        place = np.maximum(self._t.searchsorted(until_s) - 1, 0)
        highest_w = np.maximum(highest_w[place], self._y[0] + self._passing.left(hosts))
        fits: BoolArray = highest_w + extra_w <= self._most_w
        return fits | (until_s <= self._start_s) | (extra_w <= 0)

    def allows(self, extra_w: float, end_s: float, idle: int) -> bool:
        """Whether a job that takes ``idle`` of the hosts that would be switched off may start now."""
        return bool(self.admits(np.array([extra_w]), np.array([end_s]), np.array([float(idle)]))[0])

    def refusal(self, extra_w: float, end_s: float, idle: int) -> tuple[str, FactDict]:
        """Return the rule by which a job may not start, and the power that it would draw above the limit."""
        until_s = min(end_s, self._end_s)
        inside_w = self._y[: max(1, int(self._t.searchsorted(until_s)))]
        above_w = float(inside_w.max()) + float(self._passing.left(idle))
        excess_j = (above_w + extra_w - self.limit_w) * (until_s - self._start_s)
        return ABOVE_LIMIT, {"job_w": extra_w, "lacks_j": max(0.0, excess_j)}

    def earliest(self, from_s: float, extra_w: float, lasts_s: float) -> float:
        """Find when enough running jobs have ended, or else the period's end."""
        if extra_w <= 0 or from_s >= self._end_s or from_s + lasts_s <= self._start_s:
            return from_s
        low = np.flatnonzero(self._y + extra_w <= self._most_w)
        return max(from_s, float(self._t[low[0]])) if len(low) else self._end_s

    def promise(self, at_s: float, extra_w: float, lasts_s: float) -> float:
        """Reserve the power that a job will add, and return it, W."""
        if at_s >= self._end_s:
            return 0.0
        self._add(at_s, extra_w, at_s + lasts_s)
        return extra_w

    def _value(self, at_s: float, place: int) -> float:
        return float(self._y[place - 1])

    def _draw(self, from_s: float, until_s: float, extra_w: float) -> None:
        self._y = self._y + np.where((self._t >= from_s) & (self._t < until_s), extra_w, 0.0)


BudgetTest = Projection | Ceiling
"""Test whether the budget allows jobs to start. Powers in W, times in s.

A job is described by the power that it adds and its latest end (or its maximum duration).
"""
