"""What jobs cost on the servers, and what is expected of them: how long they run, and whether they still run.

Servers run at two speeds, the fastest and the thriftiest of their kind. Before a job has hosts it is counted
on a mean server; afterwards, on its hosts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, StateArray
from beasy_sched.engine.policy import View
from beasy_sched.model.cluster import Progress
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.jobs import Job, JobQueue, JobState
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.model.power import PowerModel
from beasy_sched.policies.bid_price.estimators import RunTimes, SeenArrivals
from beasy_sched.policies.bid_price.horizon import Cells

_ENOUGH: Final = 20
"""Jobs without a walltime that must have ended before the longest of them is expected of the next ones."""
_TELLING: Final = frozenset({JobState.FINISHED, JobState.WALLTIME_REACHED})
"""Ends from which follows how long jobs run, or would have run at least."""
_BEYOND: Final = 1.25
"""A job without a walltime that has outrun all others is expected to need this multiple of its work."""


_LEAST_BUSY_W: Final = 1e-6
"""A busy server counts as drawing at least this much above its sleep, W: some draw the same in all states."""


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
        self.rest_w = float(rest_w[self._kind_of].sum())
        """Power of all servers asleep, W; those that cannot sleep idle."""
        present = np.unique(self._kind_of).tolist()
        self.reference_flops = max((kinds[row].reference_speed_flops for row in present), default=1.0)
        """F_ref, the speed that walltimes refer to, flops/s."""
        self.most_share: float = max(float(self._flops[Speed.FAST, present].max(initial=0.0))
                                     / self.reference_flops, 1.0)  # fmt: skip
        """The largest share of its walltime at F_ref that a job can do before that is over."""
        self.idle_w: FloatArray = power.idle_w[rows, self.pstate] - rest_w
        """Power of an idle server above its sleep, W: [speed, kind]."""
        self.mean_idle_w: FloatArray = self.idle_w @ share
        """The same of a mean server, W: [speed]."""
        self.one_kind = len(kinds) == 1

    def hosts_w(self, hosts: HostIds, speed: Speed) -> float:
        """Power of busy ``hosts`` above their sleep, W."""
        if self.one_kind:
            return float(self._busy_w[speed, 0]) * len(hosts)
        return float(self._busy_w[speed, self._kind_of[hosts]].sum())

    def hosts_idle_w(self, hosts: HostIds, speed: Speed) -> float:
        """Power of idle ``hosts`` above their sleep, W."""
        return float(self.idle_w[speed, self._kind_of[hosts]].sum())

    def hosts_flops(self, hosts: HostIds, speed: Speed) -> float:
        """Speed of a job on ``hosts``, flops/s on each: that of the slowest."""
        if self.one_kind:
            return float(self._flops[speed, 0])
        return float(self._flops[speed, self._kind_of[hosts]].min())

    def best(self, hosts: HostIds, count: int, speed: Speed) -> HostIds:
        """Choose ``count`` of ``hosts``, those with the least energy per flop first, then the lower ids."""
        if self.one_kind or len(hosts) <= count:
            return hosts[:count]
        per_flop_j = (self._busy_w[speed] / self._flops[speed])[self._kind_of[hosts]]
        return np.sort(hosts[np.argsort(per_flop_j, kind="stable")[:count]])

    def targets(self, speed: Speed) -> StateArray:
        """P-state of each server at ``speed``."""
        targets: StateArray = self.pstate[speed, self._kind_of]
        return targets


def _idle_w(kinds: tuple[ServerKind, ...]) -> FloatArray:
    return np.array([min(kind.idle_w[p] for p in kind.computing) for kind in kinds])


def _thriftiest(kind: ServerKind, rest_w: float) -> int:
    """The P-state with the least energy per flop, among those at which no job outlives its walltime."""
    fast_enough = [p for p in kind.computing if kind.speeds_flops[p] >= kind.reference_speed_flops]
    return min(fast_enough, key=lambda p: ((kind.full_w[p] - rest_w) / kind.speeds_flops[p], p))


class JobLoad:
    """What jobs do to their hosts: those that compute, or those that only hold them (delay jobs).

    A delay job leaves its hosts idle, and takes as long at every speed.
    """

    def __init__(self, run_times: RunTimes, slowness: FloatArray, host_w: FloatArray) -> None:
        """``slowness``: run times at each speed, of those at the reference speed; ``host_w``: power at each.

        The power is that of a mean host above its sleep, W.
        """
        self.run_times = run_times
        self._slowness: list[float] = slowness.tolist()
        self.host_w: list[float] = host_w.tolist()

    def mean_share(self, speed: Speed) -> float:
        """Expected run times, in walltimes."""
        return self.run_times.mean * self._slowness[speed]

    def mean_shares(self, speed: Speed, hosts: FloatArray, walltime_s: FloatArray) -> FloatArray | float:
        """The same for each of some jobs; one number if their requests make no difference."""
        return self.run_times.means(hosts, walltime_s) * self._slowness[speed]

    def surest_share(self, speed: Speed) -> float:
        """Run times that will hardly be exceeded, in walltimes, at which jobs are ended at the latest."""
        return min(self.run_times.surest * self._slowness[speed], 1.0)

    @property
    def host_second_j(self) -> float:
        """Expected energy above sleep at the thriftiest speed for each host and second of walltime, J."""
        return self.mean_share(Speed.THRIFTY) * self.host_w[Speed.THRIFTY]

    def mean_share_of(self, speed: Speed, hosts: int, walltime_s: float) -> float:
        """Expected run time of one job, in walltimes."""
        row = self.run_times.kinds.row(hosts, walltime_s)
        mean = self.run_times.mean if row < 0 else float(self.run_times.means_of(np.array([row]))[0])
        return mean * self._slowness[speed]

    def host_seconds_j(self, hosts: FloatArray, walltime_s: FloatArray) -> FloatArray | float:
        """The same for each of some jobs; one number if their requests make no difference, J."""
        return self.mean_shares(Speed.THRIFTY, hosts, walltime_s) * self.host_w[Speed.THRIFTY]

    def chance(
        self, hosts: int, walltime_s: float, speed: Speed, edges_s: FloatArray, width_s: FloatArray
    ) -> FloatArray:
        """Part of each cell in which a job is expected to run that starts now.

        ``edges_s``: bounds of the cells from now, not below 0; ``width_s``: their lengths.
        """
        slowness = self._slowness[speed]
        per_second = 1.0 / (walltime_s * slowness)
        row = self.run_times.kinds.row(hosts, walltime_s)
        return self.run_times.presence(edges_s * per_second, width_s * per_second, 1.0 / slowness, row)


class Expected:
    """Run times and energies of jobs before they run, as learned from those that have ended.

    A job without a walltime gets one: the longest run of such jobs, or the rest of the horizon until 20 of
    them have ended.
    """

    def __init__(self, fleet: TwoSpeedFleet, run_times: RunTimes, delays: RunTimes) -> None:
        """Expect of jobs on ``fleet`` what is known of ``run_times``, and of delay jobs, of ``delays``."""
        self.fleet = fleet
        self.computing = JobLoad(run_times, fleet.reference_flops / fleet.flops, fleet.busy_w)
        self.delaying = JobLoad(delays, np.ones(len(Speed)), fleet.mean_idle_w)
        self._waiting_delays: dict[str, Job] = {}
        self.arrivals = SeenArrivals()
        self._urgent: set[str] = set()
        self._endless_flops: list[float] = []

    # --- learning -----------------------------------------------------------------------------------------

    def learn(self, view: View) -> None:
        """Learn from jobs that have finished or reached their walltimes.

        Call it in `schedule` only, which sees each of them once.
        """
        ended = [job for job in view.ended if job.state in _TELLING]
        self._urgent.difference_update(job.id for job in view.ended)
        if not ended:
            return
        for job, flops in zip(ended, self._done_flops(view.progress(ended), ended).tolist(), strict=True):
            if job.walltime_s < math.inf:
                share = flops / (job.walltime_s * self.fleet.reference_flops)
                self.load_of(job).run_times.add(share, job.res, job.walltime_s)
            else:
                self._endless_flops.append(flops)

    def _done_flops(self, progress: Progress, jobs: list[Job]) -> FloatArray:
        """Work that jobs have done on each host; of delay jobs, what would take as long at F_ref."""
        held = progress.run_s * self.fleet.reference_flops
        return np.where([job.computes for job in jobs], progress.work_flops, held)

    def arrive(self, view: View, left_s: float) -> None:
        """Note the jobs that have arrived in this message; call it once for each.

        A delay job counts as one that computes for less time, with the same energy.
        """
        for job in view.arrived:
            walltime_s = float(self.walltime_s(np.array([job.walltime_s]), left_s)[0])
            if not job.computes:
                self._waiting_delays[job.id] = job
                walltime_s *= self.delaying.host_second_j / self.computing.host_second_j
            self.arrivals.add(view.now, job.res, walltime_s)

    def hurry(self, job: Job) -> None:
        """Note that a job must run at full speed until it ends."""
        self._urgent.add(job.id)

    def urgent_of(self, running: Sequence[Job]) -> list[Job]:
        """Return those of ``running`` that must run at full speed."""
        return [job for job in running if job.id in self._urgent] if self._urgent else []

    # --- before a job runs --------------------------------------------------------------------------------

    def load_of(self, job: Job) -> JobLoad:
        """Whether it computes or only holds its hosts."""
        return self.computing if job.computes else self.delaying

    def computes(self, queue: JobQueue, places: IndexArray) -> BoolArray | None:
        """Which of the jobs at ``places`` compute; None if all of them do."""
        waiting, first = self._waiting_delays, queue.first
        for left in [key for key, job in waiting.items() if job.state is not JobState.WAITING]:
            del waiting[left]
        if not waiting or first is None:
            return None
        found = [job.place - first.place for job in waiting.values() if job.place >= 0]
        return ~np.isin(places, np.array(found, dtype=np.intp))

    def host_second_j(self, queue: JobQueue, places: IndexArray) -> FloatArray | float:
        """Expected energy of the jobs at ``places`` for each host and second of walltime, J."""
        computes = self.computes(queue, places)
        hosts, walltime_s = queue.res[places].astype(np.float64), queue.walltime_s[places]
        computing_j = self.computing.host_seconds_j(hosts, walltime_s)
        if computes is None:
            return computing_j
        return np.where(computes, computing_j, self.delaying.host_seconds_j(hosts, walltime_s))

    def energy_of_j(self, job: Job, walltime_s: float) -> float:
        """Expected energy of a job above sleep, J; ``walltime_s``: as `walltime_of_s` has it."""
        load = self.load_of(job)
        share = load.mean_share_of(Speed.THRIFTY, job.res, walltime_s)
        return job.res * walltime_s * (share * load.host_w[Speed.THRIFTY])

    def run_of_s(self, job: Job, walltime_s: float, speed: Speed) -> float:
        """Expected run time of a job at ``speed``, s."""
        return walltime_s * self.load_of(job).mean_share_of(speed, job.res, walltime_s)

    def walltime_s(self, walltime_s: FloatArray, left_s: float) -> FloatArray:
        """Walltimes, s, with expected ones for jobs that have none; ``left_s`` of the horizon is left."""
        endless = np.isinf(walltime_s)
        if not endless.any():
            return walltime_s
        if len(self._endless_flops) >= _ENOUGH:
            longest_s = max(self._endless_flops) / self.fleet.reference_flops
        else:
            longest_s = max(left_s - 2.0, 1.0) / self.computing.surest_share(Speed.FAST)
        return np.where(endless, longest_s, walltime_s)

    def walltime_of_s(self, job: Job, left_s: float) -> float:
        """The same for one job."""
        if job.walltime_s < math.inf:
            return job.walltime_s
        return float(self.walltime_s(np.array([math.inf]), left_s)[0])

    def in_time(self, queue: JobQueue, places: IndexArray, left_s: float) -> BoolArray:
        """Whether the jobs at ``places`` are sure to end within ``left_s`` if they start at full speed."""
        walltime_s = self.walltime_s(queue.walltime_s[places], left_s)
        computes, share = self.computes(queue, places), self.computing.surest_share(Speed.FAST)
        shares = (
            share if computes is None else np.where(computes, share, self.delaying.surest_share(Speed.FAST))
        )
        return np.asarray(walltime_s * shares <= left_s - 1.0)

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
        done = self._done_flops(progress, jobs)
        walltime_s = self.walltime_s(np.array([job.walltime_s for job in jobs]), left_s)
        whole_flops = walltime_s * fleet.reference_flops
        endless = np.array([job.walltime_s == math.inf for job in jobs])
        whole_flops = np.where(endless, np.maximum(whole_flops, _BEYOND * done), whole_flops)
        host_w, flops = map(np.array, zip(*(self._draw(job, speed) for job in jobs), strict=True))
        rate, done = (flops / whole_flops)[:, None], (done / whole_flops)[:, None]
        edges, widths = done + rate * cells.edge_s, rate * cells.width_s
        limit = done + rate * np.maximum(walltime_s - progress.run_s, 0.0)[:, None]
        limit[endless] = 1.0
        kind_rows = (self.load_of(job).run_times.kinds.row(job.res, job.walltime_s) for job in jobs)
        rows = np.array([*kind_rows], dtype=np.intp)
        computes = np.array([job.computes for job in jobs])
        chance = np.empty_like(widths)
        for load, those in ((self.computing, computes), (self.delaying, ~computes)):
            if len(mine := np.flatnonzero(those)):
                chance[mine] = load.run_times.survival(
                    done[mine], edges[mine], widths[mine], limit[mine], rows[mine]
                )
        kinds = np.where(computes | (rows < 0), rows, rows + len(self.computing.run_times.kinds))
        return host_w @ chance, _variance_w2(host_w, chance, kinds)

    def _draw(self, job: Job, speed: Speed) -> tuple[float, float]:
        """Power of a running job's hosts above their sleep (W), and how fast it proceeds (flops/s)."""
        fleet, hosts = self.fleet, job.hosts.ids
        if not job.computes:
            return fleet.hosts_idle_w(hosts, speed), fleet.reference_flops
        pace = Speed.FAST if job.id in self._urgent else speed
        return fleet.hosts_w(hosts, pace), fleet.hosts_flops(hosts, pace)


def _variance_w2(host_w: FloatArray, chance: FloatArray, rows: IndexArray) -> FloatArray:
    """Variance of the power of running jobs by cell, W2: those of a known kind end soon or late together."""
    spread = chance * (1.0 - chance)
    if not (alike := rows >= 0).any():
        return np.asarray((host_w * host_w) @ spread)
    alone = np.where(alike, 0.0, host_w)
    _, group = np.unique(rows[alike], return_inverse=True)
    together_w = np.zeros((int(group.max()) + 1, chance.shape[1]))
    np.add.at(together_w, group, host_w[alike, None] * np.sqrt(spread[alike]))
    return np.asarray((alone * alone) @ spread + (together_w * together_w).sum(axis=0))
