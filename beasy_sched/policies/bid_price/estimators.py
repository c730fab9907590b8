"""Estimators of `bid-price`, updated during a run: run times, error of the production forecast, arrivals."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.policies.long_jobs import ENOUGH_JOBS

_BINS: Final = 2048
"""Resolution of the table of survival, as a share of the walltime."""
_PRIOR_JOBS, _PRIOR_SHARE = 3, 0.7
"""Number of prior jobs added to those that have ended, and the share of their walltimes that they need."""
_ARRIVALS_KEPT: Final = 400
"""Number of jobs that represent those still to arrive."""
_FORECAST_JOBS: Final = 50.0
"""Weight of the demand forecast against the work that has arrived, in jobs."""
_ERROR_PRIOR: Final = 3.0
"""Weight of the prior of the production's error, in steps."""
_BAND_VARIANCE: Final = 1.0 / 3.0
"""Second moment of errors distributed uniformly over the band of the forecast."""
_ERROR_KEPT: Final = 0.5 ** (1.0 / 144.0)
"""Decay of the weight of errors per step: half in 144 steps."""


class RunTimes:
    """The share of its walltime that a job needs at the reference speed (eps_u, Eq. 3.29), learned.

    It may be above 1: a job that runs faster than at the reference speed may do more before it is ended at
    its walltime. Such a job counts with the work done by then.
    """

    def __init__(self, most: float = 1.0) -> None:
        """``most``: maximum share that can be done within a walltime, at full speed.

        One prior job that needs this share is added to the ended jobs for survival.
        """
        self._most = most
        self._count, self._sum, self._largest = 0, 0.0, 0.0
        bins = math.ceil(most * _BINS)
        self._shares: FloatArray = np.arange(bins + 1) / _BINS
        self._longer: FloatArray = np.ones(bins + 1)
        """Number of jobs that need more than each of the shares."""
        self._area: FloatArray = self._shares
        """The integral of that."""

    def add(self, share: float) -> None:
        """Record a job that finished, or reached its walltime, after ``share`` of it."""
        share = min(max(share, 1.0 / _BINS), self._most)
        self._count += 1
        self._sum += share
        self._largest = max(self._largest, share)
        self._longer[: math.ceil(share * _BINS)] += 1.0
        self._area = np.concatenate(([0.0], np.cumsum(self._longer[:-1]))) / _BINS

    @property
    def mean(self) -> float:
        """eps_m: the mean, including three prior jobs of 0.7."""
        return (self._sum + _PRIOR_JOBS * _PRIOR_SHARE) / (self._count + _PRIOR_JOBS)

    @property
    def surest(self) -> float:
        """eps_ub: probable upper limit of the next job: the largest seen, 1 until 20 have ended."""
        return min(self._largest, 1.0) if self._count >= ENOUGH_JOBS else 1.0

    def survival(
        self, done: FloatArray, edges: FloatArray, widths: FloatArray, limit: FloatArray | float
    ) -> FloatArray:
        """Return the fraction of each interval in which a job that has done ``done`` is expected to run.

        ``done``: [..., 1]; ``edges``: shares of the walltime done at the bounds of the intervals,
        [..., n + 1]; ``widths``: shares done in a whole interval, [..., n] (the first may have begun before
        the job); ``limit``: share done when the walltime is over, [..., 1].
        """
        bins = np.minimum(done * _BINS, len(self._longer) - 2).astype(np.intp)
        area = np.interp(np.minimum(edges, limit), self._shares, self._area)
        part: FloatArray = np.diff(area) / self._longer[bins]
        return np.minimum(np.maximum(part / widths, 0.0), 1.0)


class ProductionError:
    """Error of the production forecast, in units of its uncertainty: mean, spread, and their precision."""

    def __init__(self) -> None:
        """Start with the prior."""
        self._count = self._sum = self._squares = 0.0

    def add(self, actual_w: float, forecast_w: float, uncertainty: float) -> None:
        """Record a step with a forecast above zero."""
        if forecast_w <= 0.0 or uncertainty <= 0.0:
            return
        error = min(max((actual_w - forecast_w) / (uncertainty * forecast_w), -2.0), 2.0)
        self._count = self._count * _ERROR_KEPT + 1.0
        self._sum = self._sum * _ERROR_KEPT + error
        self._squares = self._squares * _ERROR_KEPT + error * error

    @property
    def mean(self) -> float:
        """z_m."""
        return self._sum / (self._count + _ERROR_PRIOR)

    @property
    def variance(self) -> float:
        """v, of the error of one step."""
        count = self._count + _ERROR_PRIOR
        return max((self._squares + _BAND_VARIANCE * _ERROR_PRIOR) / count - self.mean**2, 0.0)

    def expected_w(self, forecast_w: FloatArray, uncertainty: FloatArray, sigmas: float) -> FloatArray:
        """Return a cautious production for the steps from the current one, W.

        In each step it is the mean over the steps so far minus ``sigmas`` standard errors, and below the band
        only as far as production has been.
        """
        count = self._count + _ERROR_PRIOR
        doubt = self.variance / count + _BAND_VARIANCE * (_ERROR_PRIOR / count) ** 2
        ahead = np.maximum(np.arange(len(forecast_w)), 1.0)
        low = self.mean - sigmas * np.sqrt(doubt + self.variance / ahead)
        low = np.maximum(low, min(self.mean, -1.0))
        expected_w: FloatArray = np.maximum(forecast_w * (1.0 + low * uncertainty), 0.0)
        return expected_w


class SeenArrivals:
    """The last 400 submitted jobs, used as a model of future ones; and the total work."""

    def __init__(self) -> None:
        """Begin without jobs."""
        self._last: deque[tuple[int, float]] = deque(maxlen=_ARRIVALS_KEPT)
        self._count, self._work_host_s, self._first_s = 0, 0.0, math.inf

    def add(self, now: float, hosts: int, walltime_s: float) -> None:
        """Record a submitted job."""
        self._last.append((hosts, walltime_s))
        self._count += 1
        self._work_host_s += hosts * walltime_s
        self._first_s = min(self._first_s, now)

    def columns(self) -> FloatArray:
        """Hosts and walltimes (s) of the last 400: two rows."""
        return np.array(self._last, dtype=np.float64).reshape(-1, 2).T

    def residual_s(self) -> float:
        """Mean remaining walltime of jobs at a random time, weighted by their hosts, s; 0 without jobs."""
        hosts, walltime_s = self.columns()
        return float(hosts @ walltime_s**2 / (2.0 * hosts @ walltime_s)) if self._count else 0.0

    def mean_hosts(self, now: float, least_s: float) -> float:
        """Mean number of hosts occupied by all jobs for their walltimes, over at least ``least_s``."""
        return self._work_host_s / max(now - self._first_s, least_s)

    def ratio(self, foreseen_host_s: float) -> float:
        """Return the ratio of submitted to forecast work until now, shrunk towards 1.

        The relative error of the work of n jobs is about 2 / sqrt(n) for sizes distributed as in the
        synthetic workloads; the work of 50 jobs is added to both, which corresponds to a forecast with an
        error of 30 %.
        """
        if not self._count:
            return 1.0
        prior_host_s = _FORECAST_JOBS * self._work_host_s / self._count
        return (self._work_host_s + prior_host_s) / (foreseen_host_s + prior_host_s)


def share_to_come(
    hosts: FloatArray, mean_s: FloatArray, surest_s: FloatArray, age_s: FloatArray, left_s: FloatArray
) -> FloatArray:
    """Return the share of the demand at a time that comes from jobs not yet submitted: [job, time].

    For stationary arrivals of jobs with mean runs ``mean_s``: at ``age_s`` from now, jobs submitted after now
    have at most this age; jobs that may not end (they take up to ``surest_s``) within ``left_s`` are not
    started.
    """
    young = np.minimum(mean_s[:, None], age_s) - np.maximum(surest_s[:, None] - left_s, 0.0)
    share: FloatArray = hosts[:, None] * np.maximum(young, 0.0) / float(hosts @ mean_s)
    return share
