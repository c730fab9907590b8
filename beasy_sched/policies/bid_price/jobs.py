"""What is expected of jobs: how long they run, what they cost, with what probability they still run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.engine.policy import View
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.policies.bid_price.estimators import RunTimes, SeenArrivals
from beasy_sched.policies.bid_price.fleet import Speed, TwoSpeedFleet
from beasy_sched.policies.bid_price.horizon import Cells
from beasy_sched.units import SECONDS_PER_HOUR

_ENOUGH: Final = 20
"""Jobs without a walltime that must have ended for the longest of them to stand for the next ones."""
_BEYOND: Final = 1.25
"""A job without a walltime that has outrun all others is expected to need so many times what it has done."""


class Expected:
    """Run times and energies of jobs before they run, as learned from those that have ended.

    A job without a walltime gets one: the longest run of such jobs, or the rest of the horizon until 20 of
    them have ended.
    """

    def __init__(self, fleet: TwoSpeedFleet, run_times: RunTimes) -> None:
        """Expect of jobs on ``fleet`` what is known of ``run_times``."""
        self.fleet, self.run_times = fleet, run_times
        self._slowness: list[float] = (fleet.reference_flops / fleet.flops).tolist()
        self._thrifty_w = float(fleet.busy_w[Speed.THRIFTY])
        self.arrivals = SeenArrivals()
        self._urgent: set[str] = set()
        self._endless_flops: list[float] = []

    # --- learning -----------------------------------------------------------------------------------------

    def learn(self, view: View) -> None:
        """Learn from jobs that have finished; call it in `schedule` only, which sees each of them once."""
        finished = [job for job in view.ended if job.state is JobState.FINISHED and job.computes]
        self._urgent.difference_update(job.id for job in view.ended)
        if not finished:
            return
        for job, flops in zip(finished, view.progress(finished).work_flops.tolist(), strict=True):
            if job.walltime_s < math.inf:
                self.run_times.add(flops / (job.walltime_s * self.fleet.reference_flops))
            else:
                self._endless_flops.append(flops)

    def arrive(self, view: View, left_s: float) -> None:
        """Note the jobs that have arrived in this message; call it once for each."""
        for job in view.arrived:
            walltime_s = float(self.walltime_s(np.array([job.walltime_s]), left_s)[0])
            self.arrivals.add(view.now, job.res, walltime_s)

    def hurry(self, job: Job) -> None:
        """Note that a job must run at full speed until it ends."""
        self._urgent.add(job.id)

    def urgent_of(self, running: Sequence[Job]) -> list[Job]:
        """Return those of ``running`` that must run at full speed."""
        return [job for job in running if job.id in self._urgent] if self._urgent else []

    # --- before a job runs --------------------------------------------------------------------------------

    def walltime_s(self, walltime_s: FloatArray, left_s: float) -> FloatArray:
        """Walltimes, s, with expected ones for jobs that have none; ``left_s`` of the horizon is left."""
        endless = np.isinf(walltime_s)
        if not endless.any():
            return walltime_s
        if len(self._endless_flops) >= _ENOUGH:
            longest_s = max(self._endless_flops) / self.fleet.reference_flops
        else:
            longest_s = max(left_s - 2.0, 1.0) / self.surest_share(Speed.FAST)
        return np.where(endless, longest_s, walltime_s)

    def walltime_of_s(self, job: Job, left_s: float) -> float:
        """The same for one job."""
        if job.walltime_s < math.inf:
            return job.walltime_s
        return float(self.walltime_s(np.array([math.inf]), left_s)[0])

    def mean_share(self, speed: Speed) -> float:
        """Expected run times, in walltimes."""
        return self.run_times.mean * self._slowness[speed]

    def surest_share(self, speed: Speed) -> float:
        """Run times that will hardly be exceeded, in walltimes."""
        return self.run_times.surest * self._slowness[speed]

    @property
    def host_second_j(self) -> float:
        """Expected energy above sleep at the thriftiest speed for each host and second of walltime, J."""
        return self.mean_share(Speed.THRIFTY) * self._thrifty_w

    def in_time(self, walltime_s: FloatArray, left_s: float) -> BoolArray:
        """Whether jobs that start now at full speed are sure to end within ``left_s``."""
        return np.asarray(walltime_s * self.surest_share(Speed.FAST) <= left_s - 1.0)

    def chance(self, walltime_s: float, speed: Speed, edges_s: FloatArray, width_s: FloatArray) -> FloatArray:
        """Part of each cell in which a job is expected to run that starts now.

        ``edges_s``: bounds of the cells from now, not below 0; ``width_s``: their lengths.
        """
        per_second = 1.0 / (walltime_s * self._slowness[speed])
        return self.run_times.presence(edges_s * per_second, width_s * per_second)

    # --- while jobs run -----------------------------------------------------------------------------------

    def running_w(
        self, view: View, speed: Speed, cells: Cells, left_s: float
    ) -> tuple[FloatArray, FloatArray]:
        """Power above sleep of the running jobs at ``speed``, by cell: mean (W) and variance (W2).

        Each runs on with the probability that follows from the work it has done.
        """
        fleet, jobs = self.fleet, list(view.running.values())
        if not jobs:
            return np.zeros(len(cells)), np.zeros(len(cells))
        progress = view.progress(jobs)
        walltime_s = self.walltime_s(np.array([job.walltime_s for job in jobs]), left_s)
        whole_flops = walltime_s * fleet.reference_flops
        computes = np.array([job.computes for job in jobs])
        done = np.where(computes, progress.work_flops, progress.run_s * fleet.reference_flops)
        endless = np.array([job.walltime_s == math.inf for job in jobs])
        whole_flops = np.where(endless, np.maximum(whole_flops, _BEYOND * done), whole_flops)
        speeds = [Speed.FAST if job.id in self._urgent else speed for job in jobs]
        hosts = [job.hosts.ids for job in jobs]
        busy_w = np.array([fleet.hosts_w(some, pace) for some, pace in zip(hosts, speeds, strict=True)])
        flops = np.array([fleet.hosts_flops(some, pace) for some, pace in zip(hosts, speeds, strict=True)])
        rate, done = (flops / whole_flops)[:, None], (done / whole_flops)[:, None]
        chance = self.run_times.survival(done, done + rate * cells.edge_s, rate * cells.width_s)
        return busy_w @ chance, (busy_w * busy_w) @ (chance * (1.0 - chance))


_Time = TypeVar("_Time", float, FloatArray)


def aged(energy_j: _Time, wait_s: _Time, ageing_h: float | None) -> _Time:
    """Energy of jobs as it counts while they wait: half of it after ``ageing_h``, a third after twice."""
    return energy_j if ageing_h is None else energy_j / (1.0 + wait_s / (ageing_h * SECONDS_PER_HOUR))
