"""Expected run times and powers of jobs, learned from those that have ended.

A job without hosts is assumed to run on a mean server, otherwise on its hosts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray
from beasy_sched.engine.policy import View
from beasy_sched.limits import LARGEST_NUMBER
from beasy_sched.model.jobs import Job, JobQueue
from beasy_sched.policies.bid_price.estimators import RunTimes, SeenArrivals
from beasy_sched.policies.bid_price.fleet import Speed, TwoSpeedFleet
from beasy_sched.policies.bid_price.horizon import Cells
from beasy_sched.policies.bid_price.margins import END_MARGIN_S, careful_w
from beasy_sched.policies.long_jobs import BEYOND, ENDS_THAT_TELL, LongJobs


class Jobs(NamedTuple):
    """Expected values of jobs that are not running yet, one value each."""

    hosts: FloatArray
    walltime_s: FloatArray
    """Walltimes, and expected ones for long jobs."""
    run_s: FloatArray
    """Expected run times at each speed, s: [speed, job]."""
    surest_s: FloatArray
    """Run times at the most efficient speed that will hardly be exceeded."""
    energy_j: FloatArray
    """Expected energies above sleep at the most efficient speed."""

    def end_within(self, left_s: float) -> BoolArray:
        """Whether each is certain to end within ``left_s`` at the most efficient speed if it starts now."""
        return np.asarray(self.surest_s <= left_s - END_MARGIN_S)

    def at(self, places: IndexArray | BoolArray) -> Jobs:
        """Return the selected jobs."""
        return Jobs(*(values[..., places] for values in self))


class Expected:
    """Run times and energies of jobs, learned from those that have ended.

    A long job, without a walltime or with one beyond the planned horizon, gets one: the longest run of such
    jobs, or the rest of the horizon until 20 of them have ended. A job that only holds its hosts (a delay
    job) takes as long at every speed; it counts as if its hosts computed, so that its energy is
    overestimated.
    """

    def __init__(self, fleet: TwoSpeedFleet, planned_s: float = math.inf) -> None:
        """Begin without knowledge of the jobs on ``fleet``.

        ``planned_s``: longest walltime that can end within the planned horizon, s.
        """
        self.fleet = fleet
        self.arrivals = SeenArrivals()
        self._run_times = RunTimes(fleet.most_share)
        self._slowness: FloatArray = fleet.reference_flops / fleet.flops
        """Run times at each speed, derived from those at the reference speed."""
        self._long = LongJobs(min(planned_s, LARGEST_NUMBER))
        """Long jobs, and their run times at the reference speed."""
        self._rest_s = math.inf

    def begin_step(self, rest_s: float) -> None:
        """Set the length of the horizon after the current step, s."""
        self._rest_s = rest_s

    def learn(self, view: View) -> None:
        """Learn from the jobs that have ended, and record those submitted.

        Must be called in `schedule` only, which receives each of them once.
        """
        ended = [job for job in view.ended if job.state in ENDS_THAT_TELL]
        for job, done_s in zip(ended, self._done_s(view, ended).tolist(), strict=True):
            if self._long.includes(job):
                self._long.add(done_s)
            else:
                self._run_times.add(done_s / job.walltime_s)
        for job in view.arrived:
            self.arrivals.add(view.now, job.res, min(job.walltime_s, self._longest_s))

    def _done_s(self, view: View, jobs: list[Job]) -> FloatArray:
        """Return the time that past work takes at the reference speed; for delay jobs, their run so far."""
        if not jobs:
            return np.empty(0)
        progress = view.progress(jobs)
        done_s = progress.work_flops / self.fleet.reference_flops
        return np.where([job.computes for job in jobs], done_s, progress.run_s)

    # --- before a job runs --------------------------------------------------------------------------------

    @property
    def mean_share(self) -> float:
        """eps_m: expected run times at the reference speed, in walltimes."""
        return self._run_times.mean

    @property
    def _longest_s(self) -> float:
        """Assumed walltime of a long job, s."""
        if self._long.expected_s < math.inf:
            return self._long.expected_s
        surest = min(self._run_times.surest * self._slowness.item(Speed.THRIFTY), 1.0)
        return max(self._rest_s - END_MARGIN_S, 1.0) / surest

    def of(
        self, hosts: FloatArray | IntArray, walltime_s: FloatArray, computes: BoolArray | bool = True
    ) -> Jobs:
        """Return the expected values of jobs that need ``hosts`` for up to ``walltime_s``."""
        walltime_s = np.where(self._long.among(walltime_s), self._longest_s, walltime_s)
        slowness = np.where(computes, self._slowness[:, None], 1.0)
        run_s = walltime_s * (self._run_times.mean * slowness)
        surest_s = walltime_s * np.minimum(self._run_times.surest * slowness[Speed.THRIFTY], 1.0)
        energy_j = hosts * run_s[Speed.THRIFTY] * self.fleet.busy_w[Speed.THRIFTY]
        return Jobs(hosts.astype(np.float64), walltime_s, run_s, surest_s, energy_j)

    def waiting(self, queue: JobQueue) -> Jobs:
        """Return the expected values of the waiting jobs, by queue position."""
        return self.of(queue.res, queue.walltime_s, queue.computes)

    def seen(self) -> Jobs:
        """Return the expected values of jobs like the last submitted ones, in ascending order of energy."""
        hosts, walltime_s = self.arrivals.columns()
        seen = self.of(hosts, walltime_s)
        return seen.at(np.argsort(seen.energy_j, kind="stable"))

    def chance(self, job: Job, walltime_s: float, speed: Speed, edges_s: FloatArray) -> FloatArray:
        """Return the fraction of each cell in which ``job`` is expected to run if it starts now.

        ``edges_s``: bounds of the cells from now, the first not above 0.
        """
        slowness = self._slowness.item(speed) if job.computes else 1.0
        edges = edges_s / (walltime_s * slowness)
        return self._run_times.survival(np.zeros(1), np.maximum(edges, 0.0), np.diff(edges), 1.0 / slowness)

    def assumed_walltime_s(self, job: Job) -> float:
        """Return the walltime of ``job``; of a long job, an expected one, s."""
        return self._longest_s if self._long.includes(job) else job.walltime_s

    def draw_w(self, job: Job, walltime_s: float, speed: Speed, edges_s: FloatArray) -> FloatArray:
        """Return the power above sleep assumed for ``job`` if it starts now, W by cell; see `chance`."""
        chance = self.chance(job, walltime_s, speed, edges_s)
        return careful_w(job.res * self.fleet.busy_w.item(speed), chance)

    # --- while jobs run -----------------------------------------------------------------------------------

    def running_w(self, view: View, speed: Speed, cells: Cells) -> tuple[FloatArray, FloatArray]:
        """Power above sleep of the running jobs at ``speed``, by cell: mean (W) and variance (W2).

        Each continues with a probability that follows from the work it has done.
        """
        fleet, jobs = self.fleet, [*view.running.values()]
        if not jobs:
            return np.zeros(len(cells)), np.zeros(len(cells))
        done_s, run_s = self._done_s(view, jobs), view.now - np.array([job.start_s for job in jobs])
        walltime_s = np.array([job.walltime_s for job in jobs])
        longest_s = np.maximum(self._longest_s, BEYOND * done_s)
        walltime_s = np.where(self._long.among(walltime_s), np.minimum(longest_s, walltime_s), walltime_s)
        pace = [fleet.hosts_flops(job.hosts.ids, speed) / fleet.reference_flops if job.computes else 1.0
                for job in jobs]  # fmt: skip
        rate, done = (np.array(pace) / walltime_s)[:, None], (done_s / walltime_s)[:, None]
        limit = done + rate * np.maximum(walltime_s - run_s, 0.0)[:, None]
        chance = self._run_times.survival(done, done + rate * cells.edge_s, rate * cells.width_s, limit)
        host_w = np.array([fleet.hosts_w(job.hosts.ids, speed) for job in jobs])
        return host_w @ chance, np.asarray((host_w * host_w) @ (chance * (1.0 - chance)))
