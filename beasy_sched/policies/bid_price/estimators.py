"""What `bid-price` learns while it runs: run times, the error of the production forecast, the arrivals."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray

_BINS: Final = 2048
"""Resolution of the table of survival, as a share of the walltime."""
ENOUGH_JOBS: Final = 20
"""Run times after which the longest is trusted: the next is longer with a probability of 1 in 21."""
_PRIOR_JOBS, _PRIOR_SHARE = 3, 0.7
"""Jobs that count beside those that have ended, and the share of their walltimes that they need."""
_ARRIVALS_KEPT: Final = 400
"""Jobs that stand for those still to arrive."""
_RECENT_S: Final = 6 * 3600.0
"""Time over which arrivals are counted to tell how many hosts will be asked for soon, s."""
_FORECAST_JOBS: Final = 50.0
"""Jobs' worth of work that the demand forecast counts as, against the work that has arrived."""
_ERROR_PRIOR: Final = 3.0
"""Steps that the prior of the production's error counts as."""
_BAND_VARIANCE: Final = 1.0 / 3.0
"""Second moment of errors that are spread evenly over the band of the forecast."""
_ERROR_KEPT: Final = 0.5 ** (1.0 / 144.0)
"""Weight that errors keep in a step: half of it in 144."""


class RunTimes:
    """The share of its walltime that a job needs at the reference speed (eps_u, Eq. 3.29), learned.

    It may be above 1: a job that runs faster than at the reference speed may do more before it is ended at
    its walltime. Such a job counts with what it has done by then.
    """

    def __init__(self, *, learns: bool = True, most: float = 1.0) -> None:
        """Know nothing but that jobs are not expected to need more than their walltimes.

        ``most``: the largest share that can be done within a walltime, at full speed.
        """
        self._learns, self._most = learns, most
        self._count, self._sum, self._largest = 0, 0.0, 0.0
        self._longer: IntArray = np.zeros(math.ceil(most * _BINS) + 1, dtype=np.int64)
        """How many of the jobs need more than each multiple of 1 / _BINS."""
        self._tabulate()

    def add(self, share: float) -> None:
        """Learn from a job that has finished, or reached its walltime, after ``share`` of it."""
        if not self._learns:
            return
        share = min(max(share, 1.0 / _BINS), self._most)
        self._count += 1
        self._sum += share
        self._largest = max(self._largest, share)
        self._longer[: math.ceil(share * _BINS)] += 1
        self._tabulate()

    @property
    def mean(self) -> float:
        """eps_m: the mean, with three jobs of 0.7 before anything is known; 1 without learning."""
        if not self._learns:
            return 1.0
        return (self._sum + _PRIOR_JOBS * _PRIOR_SHARE) / (self._count + _PRIOR_JOBS)

    @property
    def surest(self) -> float:
        """eps_ub: what the next job will hardly exceed: the largest seen, 1 until 20 have been."""
        return min(self._largest, 1.0) if self._count >= ENOUGH_JOBS else 1.0

    def _tabulate(self) -> None:
        """Find which share of the jobs needs more than each multiple of 1 / _BINS, and its integral."""
        longer, known = self._longer, self._count
        if known < ENOUGH_JOBS:  # one more job, which needs all of its walltime
            longer, known = longer + (np.arange(len(longer)) < _BINS), known + 1
        self._above: FloatArray = longer / known
        self._below: FloatArray = np.concatenate(([0.0], np.cumsum(self._above[:-1]))) / _BINS

    def _area(self, share: FloatArray) -> FloatArray:
        """Integral up to ``share`` of the share of jobs that need more, between the bins as well."""
        place = np.minimum(share * _BINS, float(len(self._above) - 1))
        whole = place.astype(np.intp)
        area: FloatArray = self._below[whole] + (place - whole) / _BINS * self._above[whole]
        return area

    def survival(
        self, done: FloatArray, edges: FloatArray, widths: FloatArray, limit: FloatArray | float
    ) -> FloatArray:
        """Part of each interval in which a job is expected to run that has done share ``done``.

        ``done``: [..., 1]; ``edges``: shares of the walltime done at the bounds of the intervals,
        [..., n + 1]; ``widths``: those done in a whole interval, [..., n] (the first may have begun before
        the job); ``limit``: share done when the walltime is over, [..., 1]. A job that has outlived all
        others is expected to need its whole walltime: at the reference speed, if it has not done that yet.
        """
        still = self._above[np.minimum(done * _BINS, float(len(self._above) - 1)).astype(np.intp)]
        outlived = still <= 0.0
        part: FloatArray = np.diff(self._area(np.minimum(edges, limit))) / np.where(outlived, 1.0, still)
        if outlived.any():
            last = np.where(done < 1.0, 1.0, limit)
            part = np.where(outlived, np.diff(np.minimum(edges, last)), part)
        return np.minimum(np.maximum(part / widths, 0.0), 1.0)


class ProductionError:
    """The error of the production forecast, in units of its uncertainty: mean, spread, how well known."""

    def __init__(self) -> None:
        """Start with the prior."""
        self._count = self._sum = self._squares = 0.0

    def add(self, actual_w: float, forecast_w: float, uncertainty: float) -> None:
        """Learn from a step with a forecast of more than nothing."""
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
        known = self._count + _ERROR_PRIOR
        return max((self._squares + _BAND_VARIANCE * _ERROR_PRIOR) / known - self.mean**2, 0.0)

    def expected_w(
        self, forecast_w: FloatArray, uncertainty: FloatArray, ahead: FloatArray, sigmas: float
    ) -> FloatArray:
        """Production to count on, W: the mean over ``ahead`` steps, less ``sigmas`` standard errors.

        Below the band only as far as production has been there.
        """
        known = self._count + _ERROR_PRIOR
        doubt = self.variance / known + _BAND_VARIANCE * (_ERROR_PRIOR / known) ** 2
        low = self.mean - sigmas * np.sqrt(doubt + self.variance / ahead)
        low = np.maximum(low, min(self.mean, -1.0))
        expected_w: FloatArray = np.maximum(forecast_w * (1.0 + low * uncertainty), 0.0)
        return expected_w


class SeenArrivals:
    """The last jobs that have arrived: their sizes, and how often they come."""

    def __init__(self) -> None:
        """Remember none yet, and the last 400 later."""
        self._jobs: deque[tuple[int, float]] = deque(maxlen=_ARRIVALS_KEPT)
        self._recent: deque[tuple[float, int]] = deque()
        self._asked = 0.0
        self._asked_squared = 0.0
        self.work = 0.0
        """Walltime x hosts of all jobs that have arrived, host-seconds."""
        self.first_s = math.inf
        """When the first job arrived, s."""

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, time_s: float, hosts: int, walltime_s: float) -> None:
        """Note a job that has arrived."""
        self._jobs.append((hosts, walltime_s))
        self._recent.append((time_s, hosts))
        self._asked += hosts
        self._asked_squared += hosts * hosts
        self.work += hosts * walltime_s
        self.first_s = min(self.first_s, time_s)

    @property
    def mean_work(self) -> float:
        """Mean walltime x hosts, host-seconds."""
        return float(self.hosts @ self.walltime_s) / len(self._jobs)

    @property
    def residual_s(self) -> float:
        """Mean walltime that is left to jobs met at any time, weighted by their hosts, s."""
        hosts, walltime_s = self.hosts, self.walltime_s
        return float(hosts @ walltime_s**2) / (2.0 * float(hosts @ walltime_s))

    @property
    def hosts(self) -> FloatArray:
        """Hosts requested by each."""
        return np.array([hosts for hosts, _ in self._jobs], dtype=np.float64)

    @property
    def walltime_s(self) -> FloatArray:
        """Walltime of each, s."""
        return np.array([walltime_s for _, walltime_s in self._jobs])

    def hosts_soon(self, now: float, within_s: float) -> float:
        """Hosts that new jobs will hardly exceed ``within_s``: mean and one standard deviation.

        A compound Poisson process with the arrivals of the last six hours.
        """
        recent = self._recent
        while recent and recent[0][0] < now - _RECENT_S:
            _, hosts = recent.popleft()
            self._asked -= hosts
            self._asked_squared -= hosts * hosts
        share = within_s / _RECENT_S
        return self._asked * share + math.sqrt(max(self._asked_squared, 0.0) * share)


def demand_ratio(arrived: float, foreseen: float, job: float) -> float:
    """Ratio of the work that has arrived to the work that was foreseen, shrunk towards 1.

    ``job``: mean work of a job. The work of n jobs is off by 2 / sqrt(n) or so, for sizes that spread as
    those of the synthetic workloads do; 50 jobs' worth is added to both, so that it counts as much as a
    forecast that is good to 30 %.
    """
    prior = _FORECAST_JOBS * job
    return (arrived + prior) / (foreseen + prior)


def share_to_come(
    hosts: FloatArray, mean_s: FloatArray, surest_s: FloatArray, age_s: FloatArray, left_s: FloatArray
) -> FloatArray:
    """Share of the demand of a time that comes from jobs that have not arrived yet: [job, time].

    For stationary arrivals of jobs with mean runs ``mean_s``: at ``age_s`` from now, jobs that came after now
    are at most so old; those that may not end (they take up to ``surest_s``) in the ``left_s`` are not
    started.
    """
    young = np.minimum(mean_s[:, None], age_s) - np.maximum(surest_s[:, None] - left_s, 0.0)
    share: FloatArray = hosts[:, None] * np.maximum(young, 0.0) / float(hosts @ mean_s)
    return share
