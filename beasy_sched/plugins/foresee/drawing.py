"""Draws possible futures from everything that is known at a moment: pure, and reproducible by a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from typing import Final

import numpy as np
from msgspec.structs import replace

from beasy_sched.arrays import FloatArray
from beasy_sched.forecast.weather import IssuedTable
from beasy_sched.formats.batsim_jobs import WorkloadJob
from beasy_sched.model.restarts import MEMBERS as RESTARTS
from beasy_sched.plugins.foresee.drawn_failures import draw_failures
from beasy_sched.plugins.foresee.drawn_production import draw_production
from beasy_sched.plugins.foresee.known import EndedJobs, PresentJob, PresentKnowledge
from beasy_sched.simulator.future import Arrival, Future
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

_OF_USER: Final = 10
"""Number of a user's ended jobs from which only these count."""
_OF_ALL: Final = 20
"""Number of ended jobs from which the prior is not used."""
_WEEK_S: Final = 7 * SECONDS_PER_DAY
_KEPT_FIELDS: Final = frozenset({"user", "power_w", "host_share", "estimate_s", *RESTARTS})
"""Fields of a past job that a drawn one has as well: the others name jobs or times of the past."""
_RATHER_SHORT_S: Final = 1.0
"""Shortest run time, s."""
_PRIOR_RUN_S: Final = SECONDS_PER_HOUR
"""Mean run time of a job without a walltime if none has ended, s."""


def _prior_shares() -> FloatArray:
    """Return quantiles of a distribution of shares with the mean 0.7 and a wide spread (Kumaraswamy's)."""
    levels: FloatArray = (np.arange(100, dtype=np.float64) + 0.5) / 100.0
    shares: FloatArray = (1.0 - (1.0 - levels) ** (1.0 / 0.6)) ** (1.0 / 1.5)
    return shares


PRIOR_SHARES: Final = _prior_shares()


@dataclass(frozen=True)
class DrawnFuture:
    """A future of the simulation, and of the site's own sources."""

    future: Future
    own_w: FloatArray | None
    """Power of the site's own sources in each step from ``first_s`` on, W; None if nothing is replaced."""
    first_s: float
    step_s: float
    issues: IssuedTable | None = None
    """Forecasts of the production that are issued in this future; None without any."""

    def mean_w(self, start_s: float, end_s: float) -> float:
        """Return the mean power of the own sources in the step from ``start_s`` to ``end_s``, W."""
        if self.own_w is None:
            return 0.0
        step = round((start_s - self.first_s) / self.step_s)
        return float(self.own_w[min(max(step, 0), len(self.own_w) - 1)])


def draw(known: PresentKnowledge, number: int, seed: int = 0) -> DrawnFuture:
    """Draw the future with a number; the same arguments give the same future."""
    rng = np.random.default_rng([seed, round(known.time_s * 1000.0), number])
    run_times = RunShares(known.ended)
    runs_s = {job.id: run_times.draw(job, rng) for job in known.present}
    arrivals = _arrivals(known, run_times, rng)
    drawn = _with_production(known, Future(runs_s, arrivals), number, seed, rng)
    if known.failures is None:
        return drawn
    failures = draw_failures(known.failures, known.in_service, known.time_s, known.until_s, rng)
    return replace_fields(drawn, future=replace_fields(drawn.future, failures=failures))


def _with_production(
    known: PresentKnowledge, future: Future, number: int | None, seed: int, rng: np.random.Generator
) -> DrawnFuture:
    drawn, production = draw_production(known, number, seed, rng), known.production
    first_s, step_s = (0.0, 1.0) if production is None else (production.first_s, production.step_s)
    future = replace_fields(future, events=drawn.events)
    return DrawnFuture(future, drawn.own_w, first_s, step_s, drawn.issues)


def by_walltimes(known: PresentKnowledge) -> DrawnFuture:
    """Return the future in which each job takes its walltime and none is submitted.

    The production is the forecast's median, or without a forecast that of drawn past days. A job
    without a walltime runs until the end.
    """
    long_s = known.until_s - known.time_s
    runs_s = {
        job.id: job.walltime_s if job.walltime_s < math.inf else max(job.used_s, 0.0) + 2 * long_s
        for job in known.present
    }
    return _with_production(known, Future(runs_s), None, 0, np.random.default_rng([0]))


# --- run times ------------------------------------------------------------------------------------------


class RunShares:
    """Run times, as shares of walltimes, of the jobs that have ended."""

    def __init__(self, ended: EndedJobs) -> None:
        """Learn from jobs that have ended."""
        limited = np.isfinite(ended.walltime_s)
        self._shares = np.minimum(ended.run_s[limited] / ended.walltime_s[limited], 1.0)
        users = (
            np.array(ended.users, dtype=object)[limited] if len(ended.users) else np.zeros(0, dtype=object)
        )
        self._of_user: dict[str, FloatArray] = {}
        for user in dict.fromkeys(users.tolist()):
            self._of_user[user] = self._shares[users == user]
        self._run_s = ended.run_s[~limited] if (~limited).any() else ended.run_s

    def shares(self, user: str) -> FloatArray:
        """Return the shares that a job of a user may need."""
        own = self._of_user.get(user, ())
        if len(own) >= _OF_USER:
            return np.asarray(own)
        return self._shares if len(self._shares) >= _OF_ALL else PRIOR_SHARES

    def draw(self, job: PresentJob, rng: np.random.Generator) -> float:
        """Draw the run time of a job that runs or waits, s: longer than it has run."""
        if job.walltime_s == math.inf:
            return self._draw_unlimited(max(job.used_s, 0.0), rng)
        shares = self.shares(job.user)
        if job.used_s >= 0.0:
            longer = shares[shares > job.used_s / job.walltime_s]
            shares = np.append(longer, 1.0)
        return max(float(shares[rng.integers(len(shares))]) * job.walltime_s, _RATHER_SHORT_S)

    def draw_new(self, user: str, walltime_s: float, rng: np.random.Generator) -> float:
        """Draw the run time of a job that will be submitted, s."""
        return self.draw(PresentJob("", user, walltime_s, -1.0), rng)

    def _draw_unlimited(self, used_s: float, rng: np.random.Generator) -> float:
        longer = self._run_s[self._run_s > used_s]
        if len(longer):
            return max(float(longer[rng.integers(len(longer))]), _RATHER_SHORT_S)
        return used_s + max(float(rng.exponential(max(used_s, _PRIOR_RUN_S))), _RATHER_SHORT_S)


# --- arrivals -------------------------------------------------------------------------------------------


def _arrivals(known: PresentKnowledge, run_times: RunShares, rng: np.random.Generator) -> list[Arrival]:
    """Draw the jobs that will be submitted until the end, in the order of time.

    The past days are a sample: each of their jobs has a random weight in a future, and is repeated as often
    as drawn from a Poisson distribution with this mean (a Bayesian bootstrap; D. B. Rubin 1981).
    """
    if known.time_s < SECONDS_PER_DAY:
        return _poisson(known, run_times, rng)
    weights = rng.exponential(size=len(known.submitted))
    times_s = np.array([job.subtime for _, job in known.submitted])
    arrivals: list[Arrival] = []
    day_s = known.time_s
    while day_s < known.until_s:
        back_s = _days_back_s(known.time_s, day_s, rng)
        first, end = np.searchsorted(
            times_s, [day_s - back_s, day_s - back_s + SECONDS_PER_DAY], side="right"
        )
        repeats = _repeats(weights[int(first) : int(end)], rng)
        for (workload, job), often in zip(known.submitted[int(first) : int(end)], repeats, strict=True):
            if job.subtime + back_s < known.until_s:
                for _ in range(often):
                    arrivals.append(_copy(workload, job, job.subtime + back_s, len(arrivals), run_times, rng))
        day_s += SECONDS_PER_DAY
    return arrivals


def _repeats(weights: FloatArray, rng: np.random.Generator) -> list[int]:
    return [int(often) for often in rng.poisson(weights)]


def _days_back_s(now: float, day_s: float, rng: np.random.Generator) -> float:
    """Choose how long before a day from ``day_s`` on the day is that it repeats: weeks, or the last one."""
    ahead_s = day_s - now
    yesterday_s = ahead_s + SECONDS_PER_DAY
    weeks_s = (math.floor(ahead_s / _WEEK_S) + 1) * _WEEK_S
    possible = [back_s for back_s in dict.fromkeys((yesterday_s, weeks_s)) if day_s - back_s >= 0.0]
    return possible[int(rng.integers(len(possible)))]


def _poisson(known: PresentKnowledge, run_times: RunShares, rng: np.random.Generator) -> list[Arrival]:
    """Draw jobs like those so far, at their mean rate; those of time 0 do not count: they waited before."""
    past = [pair for pair in known.submitted if pair[1].subtime > 1.0]
    if not past or known.time_s <= 0.0:
        return []
    count = int(rng.poisson(len(past) / known.time_s * (known.until_s - known.time_s)))
    times_s = np.sort(rng.uniform(known.time_s, known.until_s, count)).tolist()
    chosen = rng.integers(len(past), size=count).tolist()
    arrivals = []
    for number, (time_s, place) in enumerate(zip(times_s, chosen, strict=True)):
        workload, job = past[place]
        arrivals.append(_copy(workload, job, time_s, number, run_times, rng))
    return arrivals


def _copy(
    workload: str,
    job: WorkloadJob,
    time_s: float,
    number: int,
    run_times: RunShares,
    rng: np.random.Generator,
) -> Arrival:
    extras = {name: value for name, value in (job.extras or {}).items() if name in _KEPT_FIELDS} or None
    user = f"{workload}!" if extras is None or "user" not in extras else f"{workload}!{extras['user']}"
    walltime_s = math.inf if job.walltime is None else float(job.walltime)
    drawn = replace(job, id=f"{workload}!drawn{number}", subtime=time_s, extras=extras)
    return Arrival(workload, drawn, run_times.draw_new(user, walltime_s, rng))
