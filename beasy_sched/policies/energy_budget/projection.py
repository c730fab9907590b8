"""Rule 2: the balance of available energy as it will be, and which jobs may start without a debt.

The balance C(t) is what the counter would show at a future time t if every running job ran to its
walltime and no other one started: a line between breakpoints, since powers change only when jobs end.

Running jobs as the policies look ahead on them: until when, on how many hosts, at what power.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.policies.energy_budget.options import BudgetPeriod

_END, _KEY, _EXTRA_W, _HOSTS = range(4)


class Commitments:
    """Rows (latest end, extra power, hosts), sorted by end."""

    def __init__(self) -> None:
        """None yet."""
        self._rows: FloatArray = np.empty((4, 0))
        self._at: dict[str, tuple[float, float]] = {}
        self._keys = 0.0

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._at

    def add(self, job_id: str, end_s: float, extra_w: float, hosts: int) -> None:
        """Add a job that runs until ``end_s`` at the latest; it replaces what was known of it."""
        if job_id in self._at:
            self.remove(job_id)
        self._keys += 1
        self._at[job_id] = (end_s, self._keys)
        place = int(self.end_s.searchsorted(end_s, side="right"))
        self._rows = np.insert(self._rows, place, (end_s, self._keys, extra_w, hosts), axis=1)

    def remove(self, job_id: str) -> None:
        """Forget a job, if it is known."""
        end_s, key = self._at.pop(job_id, (0.0, 0.0))
        if not key:
            return
        first = int(self.end_s.searchsorted(end_s))
        place = first + int(np.flatnonzero(self._rows[_KEY, first:] == key)[0])
        self._rows = np.delete(self._rows, place, axis=1)

    def recount(self, job_id: str, hosts: int) -> None:
        """Correct how many hosts a job will leave to others."""
        end_s, key = self._at[job_id]
        first = int(self.end_s.searchsorted(end_s))
        self._rows[_HOSTS, first + int(np.flatnonzero(self._rows[_KEY, first:] == key)[0])] = hosts

    @property
    def end_s(self) -> FloatArray:
        """Latest ends, rising, s."""
        ends: FloatArray = self._rows[_END]
        return ends

    @property
    def extra_w(self) -> FloatArray:
        """What each job adds to its hosts' power at rest, W."""
        powers: FloatArray = self._rows[_EXTRA_W]
        return powers

    @property
    def hosts(self) -> FloatArray:
        """How many hosts each job has."""
        hosts: FloatArray = self._rows[_HOSTS]
        return hosts


_PROMISE_S = 0.1
"""To this are reservations found that wait for energy."""


class Passing:
    """What hosts that are idle now take until they are off: energy (J), or power for a moment (W)."""

    def __init__(self, total: float, hosts: int) -> None:
        """``total`` of so many ``hosts``."""
        self._total, self._hosts = total, hosts

    def left(self, idle: FloatArray) -> FloatArray:
        """What is left of it when ``idle`` of the hosts get a job instead; one value for each number."""
        left: FloatArray = self._total * (1 - np.minimum(idle, self._hosts) / max(self._hosts, 1))
        return left

    def take(self, idle: int) -> None:
        """Give hosts a job instead."""
        self._total = float(self.left(np.array([idle]))[0])
        self._hosts -= min(idle, self._hosts)


class EnergyTest(Protocol):
    """Whether jobs may start as far as energy is concerned. Powers in W, times in s.

    A job is told by the power that it adds and by its latest end (or how long it lasts at most).
    """

    @property
    def present(self) -> float:
        """What there is now, or at the period's start: available energy (J), or power drawn (W)."""

    def admits(self, extra_w: FloatArray, end_s: FloatArray, hosts: FloatArray) -> BoolArray:
        """Tell for each job whether it may start now on so many hosts, idle ones first.

        Hosts that stay idle are reckoned with roughly: what this refuses, `allows` does, too.
        """

    def allows(self, extra_w: float, end_s: float, idle: int) -> bool:
        """Tell whether a job may start now that takes ``idle`` hosts of those that would be switched off."""

    def start(self, extra_w: float, end_s: float, idle: int) -> None:
        """Take in that such a job has started."""

    def earliest(self, from_s: float, extra_w: float, lasts_s: float) -> float:
        """Return when a job may start, not before ``from_s``."""

    def promise(self, at_s: float, extra_w: float, lasts_s: float) -> float:
        """Keep free what a job will need that starts at a time; return that need (J, or W)."""


class Projection:
    """The balance within the period, from now (or the period's start) to its end."""

    def __init__(
        self,
        period: BudgetPeriod,
        rate_w: float,
        now: float,
        available_j: float,
        rest_w: float,
        jobs: Commitments,
        passing: Passing,
        tolerance_j: float,
    ) -> None:
        """``available_j``: the counter; ``rest_w``: power of all hosts without their jobs.

        ``tolerance_j``: a balance that is below zero by no more is none.
        """
        self._passing = passing
        self._start_s = max(now, period.start_s)
        self._end_s = period.end_s
        self._tolerance_j = tolerance_j
        first = int(jobs.end_s.searchsorted(self._start_s, side="right"))
        ends_s, extra_w = jobs.end_s[first:], jobs.extra_w[first:]
        inside = int(ends_s.searchsorted(self._end_s))
        times_s = np.concatenate(([self._start_s], ends_s[:inside], [self._end_s]))
        running_w = extra_w.sum() - np.concatenate(([0.0], np.cumsum(extra_w[:inside])))
        gains_j = (rate_w - rest_w - running_w) * np.diff(times_s)
        self._t = times_s
        self._c = available_j + np.concatenate(([0.0], np.cumsum(gains_j)))
        self._last_s = min(float(ends_s[-1]), self._end_s) if len(ends_s) else self._start_s
        self._ready = False

    @property
    def present(self) -> float:
        """The balance now, or at the period's start, J."""
        return float(self._c[0])

    def admits(self, extra_w: FloatArray, end_s: FloatArray, hosts: FloatArray) -> BoolArray:
        """Tell for each job whether the balance stays positive with it, to the last job's end."""
        self._prepare()
        switching_j = self._passing.left(hosts)
        until_s = np.minimum(end_s, self._end_s)
        span_s = until_s - self._start_s
        need_j = extra_w * span_s + switching_j - self._tolerance_j
        place = self._t.searchsorted(until_s)
        passed: BoolArray = (
            (self._c[0] >= switching_j - self._tolerance_j)
            & (self._steepest_w[place] >= extra_w)
            & (np.interp(until_s, self._t, self._c) >= need_j)
            & (self._lowest_j[place] >= need_j)
        )
        return passed | (span_s <= 0) | (extra_w <= 0)

    def _prepare(self) -> None:
        """Lay out the largest extra power up to each breakpoint, and the least balance from there on."""
        if self._ready:
            return
        with np.errstate(divide="ignore", invalid="ignore"):
            slope_w = (self._c + self._tolerance_j) / (self._t - self._start_s)
        slope_w[self._t <= self._start_s] = np.inf
        self._steepest_w = np.concatenate(([np.inf], np.minimum.accumulate(slope_w)))
        counted_j = np.where(self._t <= self._last_s, self._c, np.inf)
        self._lowest_j = np.append(np.minimum.accumulate(counted_j[::-1])[::-1], np.inf)
        self._ready = True

    def allows(self, extra_w: float, end_s: float, idle: int) -> bool:
        """Tell whether one job may start now; the hosts that stay idle switch off."""
        left_j = float(self._passing.left(np.array([idle]))[0])
        return self._suffices(self._start_s, extra_w, end_s - self._start_s, left_j)

    def start(self, extra_w: float, end_s: float, idle: int) -> None:
        """A job starts now."""
        self._passing.take(idle)
        self._spend(self._start_s, extra_w, end_s)

    def _spend(self, from_s: float, extra_w: float, end_s: float) -> None:
        from_s, until_s = max(from_s, self._start_s), min(end_s, self._end_s)
        if until_s <= from_s:
            return
        for at_s in (from_s, until_s):
            place = int(self._t.searchsorted(at_s))
            if self._t[place] != at_s:
                self._c = np.insert(self._c, place, np.interp(at_s, self._t, self._c))
                self._t = np.insert(self._t, place, at_s)
        self._c = self._c - extra_w * np.clip(self._t - from_s, 0.0, until_s - from_s)
        self._last_s = max(self._last_s, until_s)
        self._ready = False

    def earliest(self, from_s: float, extra_w: float, lasts_s: float) -> float:
        """Find the earliest time from which the balance stays positive; at the latest the period's end."""
        if from_s >= self._end_s or self._suffices(from_s, extra_w, lasts_s):
            return from_s
        low_s, high_s = from_s, self._end_s
        while high_s - low_s > _PROMISE_S:
            middle_s = (low_s + high_s) / 2
            if self._suffices(middle_s, extra_w, lasts_s):
                high_s = middle_s
            else:
                low_s = middle_s
        return high_s

    def _suffices(self, from_s: float, extra_w: float, lasts_s: float, less_j: float = 0.0) -> bool:
        from_s, until_s = max(from_s, self._start_s), min(from_s + lasts_s, self._end_s)
        if until_s <= from_s or extra_w <= 0:
            return True
        first, last = self._t.searchsorted((from_s, max(self._last_s, until_s)), side="right")
        t, c = self._t[first:last], self._c[first:last]
        ends_j = np.interp((from_s, until_s), self._t, self._c) - (0.0, extra_w * (until_s - from_s))
        balance_j = c - extra_w * np.minimum(t - from_s, until_s - from_s)
        return bool(min(ends_j.min(), balance_j.min(initial=np.inf)) - less_j >= -self._tolerance_j)

    def promise(self, at_s: float, extra_w: float, lasts_s: float) -> float:
        """Set aside what a job will draw from ``at_s`` on; return what the counter must hold then, J."""
        if at_s >= self._end_s or at_s + lasts_s <= self._start_s:
            return 0.0
        before_j = float(np.interp(at_s, self._t, self._c))
        self._spend(at_s, extra_w, at_s + lasts_s)
        later = (self._t >= at_s) & (self._t <= self._last_s)
        return max(0.0, before_j - float(self._c[later].min(initial=before_j)))

    def lower_rate(self, until_s: float, saved_j: float) -> None:
        """Make less energy available from now to ``until_s``: ``saved_j`` less by then, evenly."""
        if saved_j <= 0 or until_s <= self._start_s:
            return
        earlier = self._t <= until_s
        self._c[earlier] -= saved_j * (self._t[earlier] - self._start_s) / (until_s - self._start_s)
        self._ready = False
