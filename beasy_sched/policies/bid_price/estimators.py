"""What `bid-price` learns while it runs: run times, the error of the production forecast, the arrivals."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, IntArray

_BINS: Final = 2048
"""Resolution of the table of survival, as a share of the walltime."""
_ENOUGH: Final = 20
"""Run times after which the longest is trusted: the next is longer with a probability of 1 in 21."""
_LIKE_ALL: Final = 2.0
"""Jobs that are like all others, which count with the last ones of a kind."""
_RECENT_S: Final = 6 * 3600.0
_KEPT: Final = 4000
"""Run times that are kept; with more, every other one is forgotten."""


LAST: Final = 10
"""Jobs of a kind that are remembered."""
_MOST_SINGLE: Final = 10_000
"""Kinds with a single job that are remembered."""
_WALLTIMES: Final = 2.0**20
"""Weight of the walltime in a kind's key; there are fewer hosts than that."""


class JobKinds:
    """Which shares of their walltimes the last jobs of each kind needed, of kinds with two jobs or more.

    Jobs of a kind ask for the same: as many hosts for as long. Users submit the same job again and again, and
    ask for the same each time: a template of historical run times (Smith, Foster, Taylor, Predicting
    Application Run Times Using Historical Information, JSSPP 1998).
    """

    def __init__(self) -> None:
        """Know none."""
        self._single: dict[float, float] = {}
        self._row: dict[float, int] = {}
        self._keys: FloatArray = np.empty(0)
        self._rows: IndexArray = np.empty(0, dtype=np.intp)
        self.shares: FloatArray = np.zeros((0, LAST))
        """The last shares of each kind, 0 where there are fewer: [kind, LAST]."""
        self.counts: FloatArray = np.zeros(0)
        """How many of them there are."""

    def __len__(self) -> int:
        return len(self._row)

    def add(self, hosts: int, walltime_s: float, share: float) -> None:
        """Learn from a job that has ended after ``share`` of its walltime."""
        key = walltime_s * _WALLTIMES + hosts
        row = self._row.get(key)
        if row is not None:
            self._append(row, share)
        elif key in self._single:
            row = self._new(key)
            self._append(row, self._single.pop(key))
            self._append(row, share)
        else:
            self._single[key] = share
            if len(self._single) > _MOST_SINGLE:
                for old in [*islice(self._single, _MOST_SINGLE // 2)]:
                    del self._single[old]

    def _new(self, key: float) -> int:
        """Add a kind; return its row."""
        row = self._row[key] = len(self._row)
        if row == len(self.shares):
            more = max(row, 16)
            self.shares = np.concatenate((self.shares, np.zeros((more, LAST))))
            self.counts = np.concatenate((self.counts, np.zeros(more)))
        place = int(np.searchsorted(self._keys, key))
        self._keys = np.insert(self._keys, place, key)
        self._rows = np.insert(self._rows, place, row)
        return row

    def _append(self, row: int, share: float) -> None:
        """Remember a share, in place of the oldest if need be."""
        count = int(self.counts[row])
        if count == LAST:
            self.shares[row, :-1] = self.shares[row, 1:]
            count -= 1
        self.shares[row, count] = share
        self.counts[row] = count + 1

    def rows(self, hosts: FloatArray, walltime_s: FloatArray) -> IndexArray:
        """Rows of the kinds of jobs; -1 for jobs of an unknown kind."""
        keys = walltime_s * _WALLTIMES + hosts
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._rows[place], -1)

    def row(self, hosts: int, walltime_s: float) -> int:
        """The same for one job."""
        return self._row.get(walltime_s * _WALLTIMES + hosts, -1)

    def each(self, rows: IndexArray) -> Iterator[FloatArray]:
        """Yield the last, the last but one ... share of kinds, a column each: [row, 1]."""
        shares = self.shares[rows]
        most = int(self.counts[rows].max(initial=0.0))
        for number in range(most):
            yield shares[:, number : number + 1]


class RunTimes:
    """The share of its walltime that a job needs at the reference speed (eps_u, Eq. 3.29), learned.

    It may be above 1: a job that runs faster than at the reference speed may do more before it is ended at
    its walltime. Such a job counts with what it has done by then. Of jobs of which others asked for the same,
    those tell, together with two more that are like all jobs.
    """

    def __init__(self, *, learns: bool = True, most: float = 1.0) -> None:
        """Know nothing but that jobs are not expected to need more than their walltimes.

        ``most``: the largest share that can be done within a walltime, at full speed.
        """
        self._learns, self._most = learns, most
        self._bins = math.ceil(most * _BINS)
        self._shares: list[float] = []
        self._sum = 0.0
        self._longer: IntArray = np.zeros(self._bins + 1, dtype=np.int64)
        """How many of the jobs need more than each multiple of 1 / _BINS."""
        self._table: _Survival | None = None
        self.kinds = JobKinds()
        """What is known of jobs that ask for the same."""

    def add(self, share: float, hosts: int, walltime_s: float) -> None:
        """Learn from a job that has finished, or reached its walltime, after ``share`` of it."""
        if not self._learns:
            return
        share = min(max(share, 1.0 / _BINS), self._most)
        self.kinds.add(hosts, walltime_s, share)
        insort(self._shares, share)
        self._sum += share
        self._longer[: math.ceil(share * _BINS)] += 1
        if len(self._shares) > _KEPT:
            self._forget()
        self._table = None

    def _forget(self) -> None:
        """Drop every other job."""
        del self._shares[::2]
        self._sum = math.fsum(self._shares)
        edges = np.arange(self._bins + 1) / _BINS
        self._longer = len(self._shares) - np.searchsorted(np.array(self._shares), edges, side="right")

    @property
    def mean(self) -> float:
        """eps_m: the mean, with three jobs of 0.7 before anything is known; 1 without learning."""
        return (self._sum + 3 * 0.7) / (len(self._shares) + 3) if self._learns else 1.0

    def means(self, hosts: FloatArray, walltime_s: FloatArray) -> FloatArray | float:
        """Return the mean for each job, by its kind; one number while no kind is known."""
        if not len(self.kinds):
            return self.mean
        return self.means_of(self.kinds.rows(hosts, walltime_s))

    def means_of(self, rows: IndexArray) -> FloatArray:
        """Return the same by the rows of their kinds, -1 for no kind that is known."""
        known = rows >= 0
        count = np.where(known, self.kinds.counts[rows], 0.0)
        total = np.where(known, self.kinds.shares[rows].sum(axis=1), 0.0)
        mixed: FloatArray = np.where(known, (total + _LIKE_ALL * self.mean) / (count + _LIKE_ALL), self.mean)
        return mixed

    @property
    def surest(self) -> float:
        """eps_ub: what the next job will hardly exceed: the largest seen, 1 until 20 have been."""
        return min(self._shares[-1], 1.0) if len(self._shares) >= _ENOUGH else 1.0

    def _tabled(self) -> _Survival:
        """Which share of the jobs needs more than some share of its walltime."""
        if self._table is None:
            longer, known = self._longer, len(self._shares)
            if known < _ENOUGH:  # one more job, which needs all of its walltime
                longer, known = longer + (np.arange(self._bins + 1) < _BINS), known + 1
            above = longer / known
            below = np.concatenate(([0.0], np.cumsum(above[:-1]))) / _BINS
            self._table = _Survival(above, below)
        return self._table

    def survival(
        self, done: FloatArray, edges: FloatArray, widths: FloatArray, limit: FloatArray, rows: IndexArray
    ) -> FloatArray:
        """Part of each interval in which a job is expected to run that has done share ``done``.

        ``edges``: shares of the walltime done at the bounds of the intervals, [..., n + 1]; ``widths``: those
        done in a whole interval, [..., n] (the first may have begun before the job); ``limit``: share done
        when the walltime is over, [..., 1]; ``rows``: those of the jobs' kinds. A job that has outlived all
        others is expected to need its whole walltime: at the reference speed, if it has not done that yet.
        """
        table = self._tabled()
        still = table.above[np.minimum(done * _BINS, float(self._bins)).astype(np.intp)]
        ends = np.minimum(edges, limit)
        area = table.area(ends)
        if len(of_kind := np.flatnonzero(rows >= 0)):
            kinds = rows[of_kind]
            still[of_kind] *= _LIKE_ALL
            area[of_kind] *= _LIKE_ALL
            for share in self.kinds.each(kinds):
                still[of_kind] += share > done[of_kind]
                area[of_kind] += np.minimum(share, ends[of_kind])
            still[of_kind] /= self.kinds.counts[kinds, None] + _LIKE_ALL
            area[of_kind] /= self.kinds.counts[kinds, None] + _LIKE_ALL
        outlived = still <= 0.0
        part: FloatArray = (area[..., 1:] - area[..., :-1]) / np.where(outlived, 1.0, still)
        if outlived.any():
            last = np.where(done < 1.0, 1.0, limit)
            part = np.where(outlived, np.diff(np.minimum(edges, last)), part)
        return np.minimum(np.maximum(part / widths, 0.0), 1.0)

    def presence(self, edges: FloatArray, widths: FloatArray, limit: float, row: int = -1) -> FloatArray:
        """Return the same for one job that has yet to start: no job ends at once."""
        ends = np.minimum(edges, limit)
        area = self._tabled().area(ends)
        if row >= 0:
            area *= _LIKE_ALL
            for share in self.kinds.each(np.array([row])):
                area += np.minimum(share[0], ends)
            area /= self.kinds.counts[row] + _LIKE_ALL
        return np.minimum(np.maximum((area[1:] - area[:-1]) / widths, 0.0), 1.0)


class _Survival(NamedTuple):
    """What is known of run times, at the multiples of 1 / _BINS of the walltime."""

    above: FloatArray
    """Share of jobs that need more."""
    below: FloatArray
    """Its integral from 0."""

    def area(self, share: FloatArray) -> FloatArray:
        """Integral of `above` up to ``share``, between the bins as well."""
        place = np.minimum(share * _BINS, float(len(self.above) - 1))
        whole = place.astype(np.intp)
        area: FloatArray = self.below[whole] + (place - whole) / _BINS * self.above[whole]
        return area


class ProductionError:
    """The error of the production forecast, in units of its uncertainty: mean, spread, how well known."""

    N0: Final = 3.0
    """Weight of the prior, in observations."""
    SPREAD: Final = 1.0 / 3.0
    """Second moment of the prior: errors spread evenly over the band."""
    KEPT: Final = 0.5 ** (1.0 / 144.0)
    """Weight that observations keep in a step: half of it in 144."""

    def __init__(self) -> None:
        """Start with the prior."""
        self._count = self._sum = self._squares = 0.0

    def add(self, actual_w: float, forecast_w: float, uncertainty: float) -> None:
        """Learn from a step with a forecast of more than nothing."""
        if forecast_w <= 0.0 or uncertainty <= 0.0:
            return
        error = min(max((actual_w - forecast_w) / (uncertainty * forecast_w), -2.0), 2.0)
        self._count = self._count * self.KEPT + 1.0
        self._sum = self._sum * self.KEPT + error
        self._squares = self._squares * self.KEPT + error * error

    @property
    def mean(self) -> float:
        """z_m."""
        return self._sum / (self._count + self.N0)

    @property
    def variance(self) -> float:
        """v, of the error of one step."""
        known = self._count + self.N0
        return max((self._squares + self.SPREAD * self.N0) / known - self.mean**2, 0.0)

    def expected_w(
        self, forecast_w: FloatArray, uncertainty: FloatArray, ahead: FloatArray, sigmas: float
    ) -> FloatArray:
        """Production to count on, W: the mean over ``ahead`` steps, less ``sigmas`` standard errors.

        Below the band only as far as production has been there.
        """
        known = self._count + self.N0
        doubt = self.variance / known + self.SPREAD * (self.N0 / known) ** 2
        low = self.mean - sigmas * np.sqrt(doubt + self.variance / ahead)
        low = np.maximum(low, min(self.mean, -1.0))
        expected_w: FloatArray = np.maximum(forecast_w * (1.0 + low * uncertainty), 0.0)
        return expected_w


class SeenArrivals:
    """The last jobs that have arrived: their sizes, and how often they come."""

    def __init__(self) -> None:
        """Remember none yet, and the last 400 later."""
        self._jobs: deque[tuple[float, int, float]] = deque(maxlen=400)
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
        self._jobs.append((time_s, hosts, walltime_s))
        self._recent.append((time_s, hosts))
        self._asked += hosts
        self._asked_squared += hosts * hosts
        self.work += hosts * walltime_s
        self.first_s = min(self.first_s, time_s)

    @property
    def mean_work(self) -> float:
        """Mean walltime x hosts, host-seconds."""
        return float(self.hosts @ self.walltime_s) / len(self._jobs)

    def mean_share(self, run_times: RunTimes) -> float:
        """Mean share of their walltimes that the jobs are expected to need, weighted by walltime x hosts."""
        if not len(run_times.kinds) or not self._jobs:
            return run_times.mean
        hosts, walltime_s = self.hosts, self.walltime_s
        return float(np.average(run_times.means(hosts, walltime_s), weights=hosts * walltime_s))

    @property
    def residual_s(self) -> float:
        """Mean walltime that is left to jobs met at any time, weighted by their hosts, s."""
        hosts, walltime_s = self.hosts, self.walltime_s
        return float(hosts @ walltime_s**2) / (2.0 * float(hosts @ walltime_s))

    @property
    def hosts(self) -> FloatArray:
        """Hosts requested by each."""
        return np.array([job[1] for job in self._jobs], dtype=np.float64)

    @property
    def walltime_s(self) -> FloatArray:
        """Walltime of each, s."""
        return np.array([job[2] for job in self._jobs])

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
    prior = 50.0 * job
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
