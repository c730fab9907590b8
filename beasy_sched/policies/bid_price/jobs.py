"""What jobs cost on the servers, and what is expected of them: how long they run, and whether they still run.

Servers run at two speeds, the fastest and the thriftiest of their kind. Before a job has hosts it is counted
on a mean server; afterwards, on its hosts.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray, StateArray
from beasy_sched.engine.policy import View
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.jobs import Job, JobQueue, JobState
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.model.power import PowerModel
from beasy_sched.policies.bid_price.estimators import ENOUGH_JOBS, RunTimes, SeenArrivals
from beasy_sched.policies.bid_price.horizon import Cells

_TELLING: Final = frozenset({JobState.FINISHED, JobState.WALLTIME_REACHED})
"""Ends from which follows how long jobs run, or would have run at least."""
_BEYOND: Final = 1.25
"""A job without a walltime that has outrun all others is expected to need this multiple of its work."""
_LEAST_BUSY_W: Final = 1e-6
"""A busy server counts as drawing at least this much above its sleep, W: some draw the same in all states."""
END_MARGIN_S: Final = 1.0
"""How long before the horizon's end a job must be sure to end, s."""


class Speed(IntEnum):
    """At which of its two speeds a server runs."""

    FAST = 0
    """Its highest speed."""
    THRIFTY = 1
    """The speed with the least energy above that of sleep for each flop."""


class TwoSpeedFleet:
    """Powers above those of sleep (W) and speeds (flops/s) of all servers at both speeds."""

    def __init__(self, platform: Platform, power: PowerModel) -> None:
        """Choose the two P-states of each kind."""
        kinds = platform.kinds
        self.size = platform.size
        self._kind_of = platform.kind_of
        rest_w = np.where(power.can_sleep, power.sleep_w, _idle_w(kinds))
        fast = [kind.fastest for kind in kinds]
        thrifty = [_thriftiest(kind, float(rest)) for kind, rest in zip(kinds, rest_w, strict=True)]
        self.pstate: StateArray = np.array([fast, thrifty], dtype=np.int8)
        """P-state of each kind: [speed, kind]."""
        rows = np.arange(len(kinds))
        self._busy_w = np.maximum(power.full_w[rows, self.pstate] - rest_w, _LEAST_BUSY_W)
        self._flops = np.array([[k.speeds_flops[p] for k, p in zip(kinds, row, strict=True)]
                                for row in self.pstate.tolist()])  # fmt: skip
        share = np.bincount(self._kind_of, minlength=len(kinds)) / max(self.size, 1)
        self.busy_w: FloatArray = self._busy_w @ share
        """Power of a mean busy server above its sleep, W: [speed]."""
        self.flops: FloatArray = self._flops @ share
        """Speed of a mean server, flops/s: [speed]."""
        self._idle_w = power.idle_w[rows, self.pstate] - rest_w
        self.rest_w = float(rest_w[self._kind_of].sum())
        """Power of all servers asleep, W; those that cannot sleep idle."""
        present = np.unique(self._kind_of).tolist()
        self.reference_flops = max((kinds[row].reference_speed_flops for row in present), default=1.0)
        """F_ref, the speed that walltimes refer to, flops/s."""
        self.most_share: float = max(float(self._flops[Speed.FAST, present].max(initial=0.0))
                                     / self.reference_flops, 1.0)  # fmt: skip
        """The largest share of its walltime at F_ref that a job can do before that is over."""

    def hosts_w(self, hosts: HostIds, speed: Speed) -> float:
        """Power of busy ``hosts`` above their sleep, W."""
        return float(self._busy_w[speed, self._kind_of[hosts]].sum())

    def hosts_idle_w(self, hosts: HostIds, speed: Speed) -> float:
        """Power of idle ``hosts`` above their sleep, W."""
        return float(self._idle_w[speed, self._kind_of[hosts]].sum())

    def hosts_flops(self, hosts: HostIds, speed: Speed) -> float:
        """Speed of a job on ``hosts``, flops/s on each: that of the slowest."""
        return float(self._flops[speed, self._kind_of[hosts]].min())

    def best(self, hosts: HostIds, count: int, speed: Speed) -> HostIds:
        """Choose ``count`` of ``hosts``, those with the least energy per flop first, then the lower ids."""
        per_flop_j = (self._busy_w[speed] / self._flops[speed])[self._kind_of[hosts]]
        return np.sort(hosts[np.argsort(per_flop_j, kind="stable")[:count]])


def _idle_w(kinds: tuple[ServerKind, ...]) -> FloatArray:
    return np.array([min(kind.idle_w[p] for p in kind.computing) for kind in kinds])


def _thriftiest(kind: ServerKind, rest_w: float) -> int:
    """The P-state with the least energy per flop, among those at which no job outlives its walltime."""
    fast_enough = [p for p in kind.computing if kind.speeds_flops[p] >= kind.reference_speed_flops]
    return min(fast_enough, key=lambda p: ((kind.full_w[p] - rest_w) / kind.speeds_flops[p], p))


class Expected:
    """Run times and energies of jobs, as learned from those that have ended.

    A job without a walltime gets one: the longest run of such jobs, or the rest of the horizon until 20 of
    them have ended. A job that only holds its hosts (a delay job) takes as long at every speed; it counts as
    if they computed, so that its energy is overestimated.
    """

    def __init__(self, fleet: TwoSpeedFleet, run_times: RunTimes) -> None:
        """Expect of jobs on ``fleet`` what is known of ``run_times``."""
        self.fleet, self._run_times = fleet, run_times
        self.arrivals = SeenArrivals()
        self._slowness: list[float] = (fleet.reference_flops / fleet.flops).tolist()
        """Run times at each speed, of those at the reference speed."""
        self._endless_flops: list[float] = []

    # --- learning -----------------------------------------------------------------------------------------

    def learn(self, view: View) -> None:
        """Learn from jobs that have finished or reached their walltimes.

        Call it in `schedule` only, which sees each of them once.
        """
        ended = [job for job in view.ended if job.state in _TELLING]
        if not ended:
            return
        for job, flops in zip(ended, self._done_flops(view, ended).tolist(), strict=True):
            if job.walltime_s < math.inf:
                self._run_times.add(flops / (job.walltime_s * self.fleet.reference_flops))
            else:
                self._endless_flops.append(flops)

    def _done_flops(self, view: View, jobs: list[Job]) -> FloatArray:
        """Work that jobs have done on each host; of delay jobs, what would take as long at F_ref."""
        progress = view.progress(jobs)
        held = progress.run_s * self.fleet.reference_flops
        return np.where([job.computes for job in jobs], progress.work_flops, held)

    def arrive(self, view: View, left_s: float) -> None:
        """Note the jobs that have arrived in this message; call it once for each."""
        for job in view.arrived:
            self.arrivals.add(view.now, job.res, self.walltime_of_s(job, left_s))

    # --- before a job runs --------------------------------------------------------------------------------

    @property
    def mean_share(self) -> float:
        """eps_m: run times that are expected at the reference speed, in walltimes."""
        return self._run_times.mean

    def slowness(self, computes: BoolArray | bool, speed: Speed) -> FloatArray:
        """Run times of jobs at ``speed``, of those at the reference speed."""
        return np.where(computes, self._slowness[speed], 1.0)

    def surest_share(self, computes: BoolArray | bool = True) -> FloatArray:
        """Run times at the thriftiest speed that will hardly be exceeded, in walltimes (1 at most)."""
        return np.minimum(self._run_times.surest * self.slowness(computes, Speed.THRIFTY), 1.0)

    def run_s(
        self, walltime_s: FloatArray | float, speed: Speed, computes: BoolArray | bool = True
    ) -> FloatArray:
        """Expected run times of jobs at ``speed``, s."""
        return np.asarray(walltime_s * (self.mean_share * self.slowness(computes, speed)))

    def energy_j(
        self,
        hosts: FloatArray | IntArray | int,
        walltime_s: FloatArray | float,
        computes: BoolArray | bool = True,
    ) -> FloatArray:
        """Expected energy of jobs above sleep at the thriftiest speed, J."""
        share = self.mean_share * self.slowness(computes, Speed.THRIFTY)
        return np.asarray(hosts * walltime_s * (share * self.fleet.busy_w[Speed.THRIFTY]))

    def chance(
        self, job: Job, walltime_s: float, speed: Speed, edges_s: FloatArray, width_s: FloatArray
    ) -> FloatArray:
        """Part of each cell in which ``job`` is expected to run if it starts now.

        ``edges_s``: bounds of the cells from now, not below 0; ``width_s``: their lengths.
        """
        slowness = float(self.slowness(job.computes, speed))
        per_second = 1.0 / (walltime_s * slowness)
        return self._run_times.survival(
            np.zeros(1), edges_s * per_second, width_s * per_second, 1.0 / slowness
        )

    def walltime_s(self, walltime_s: FloatArray, left_s: float) -> FloatArray:
        """Walltimes, s, with expected ones for jobs that have none; ``left_s`` of the horizon is left."""
        if len(self._endless_flops) >= ENOUGH_JOBS:
            longest_s = max(self._endless_flops) / self.fleet.reference_flops
        else:
            longest_s = max(left_s - 2.0 * END_MARGIN_S, 1.0) / float(self.surest_share())
        return np.where(np.isinf(walltime_s), longest_s, walltime_s)

    def walltime_of_s(self, job: Job, left_s: float) -> float:
        """The same for one job."""
        if job.walltime_s < math.inf:
            return job.walltime_s
        return float(self.walltime_s(np.array([math.inf]), left_s)[0])

    def in_time(self, queue: JobQueue, places: IndexArray, left_s: float) -> BoolArray:
        """Whether the jobs at ``places`` are sure to end within ``left_s`` at the thriftiest speed."""
        walltime_s = self.walltime_s(queue.walltime_s[places], left_s)
        return np.asarray(walltime_s * self.surest_share(queue.computes[places]) <= left_s - END_MARGIN_S)

    # --- while jobs run -----------------------------------------------------------------------------------

    def running_w(
        self, view: View, speed: Speed, cells: Cells, left_s: float
    ) -> tuple[FloatArray, FloatArray]:
        """Power above sleep of the running jobs at ``speed``, by cell: mean (W) and variance (W2).

        Each runs on with the probability that follows from the work it has done.
        """
        fleet, jobs = self.fleet, [*view.running.values()]
        if not jobs:
            return np.zeros(len(cells)), np.zeros(len(cells))
        done_flops = self._done_flops(view, jobs)
        endless = np.array([job.walltime_s == math.inf for job in jobs])
        walltime_s = self.walltime_s(np.array([job.walltime_s for job in jobs]), left_s)
        whole_flops = walltime_s * fleet.reference_flops
        whole_flops = np.where(endless, np.maximum(whole_flops, _BEYOND * done_flops), whole_flops)
        host_w = np.array([fleet.hosts_w(job.hosts.ids, speed) for job in jobs])
        flops = np.where(
            [job.computes for job in jobs],
            [fleet.hosts_flops(job.hosts.ids, speed) for job in jobs],
            fleet.reference_flops,
        )
        rate, done = (flops / whole_flops)[:, None], (done_flops / whole_flops)[:, None]
        edges, widths = done + rate * cells.edge_s, rate * cells.width_s
        limit = done + rate * np.maximum(walltime_s - view.progress(jobs).run_s, 0.0)[:, None]
        limit[endless] = 1.0
        chance = self._run_times.survival(done, edges, widths, limit)
        return host_w @ chance, np.asarray((host_w * host_w) @ (chance * (1.0 - chance)))
