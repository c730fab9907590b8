"""What BEASY's compensation works on: how much (Section IV-C; Eq. 3.30, 3.31), which jobs, which rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, StateArray
from beasy_sched.energy.storage import BatterySpec, project_levels_j
from beasy_sched.engine.budget import energy_tolerance_j
from beasy_sched.model.hosts import HostIds


def compensation_j(battery: BatterySpec, diff_j: float) -> float:
    """E_comp of E_diff (both J): Eq. 3.31.

    A shortage counts by the loss convention: the thesis divides it by the discharge efficiency, which
    is what saving a joule of demand keeps in the cells if losses are counted as printed.
    """
    if diff_j > 0.0:
        return diff_j / battery.charge_efficiency
    return diff_j / battery.drawn_per_delivered()


@dataclass
class Rest:
    """What is left of a window: rows from the present step to its last one, N servers."""

    states: StateArray
    """Planned P-states, [L, N]; compensation writes its changes here."""
    now_asleep: BoolArray
    """Which servers were asleep in the step before, [N]."""
    reserved_until: IndexArray
    """Rows before this one are taken by running jobs, [N]."""
    dt_s: FloatArray
    """Length of each row, [L]."""
    supply_j: FloatArray
    """Production and hydrogen of each row, [L]."""
    demand_j: FloatArray
    """Planned energy of the servers in each row, [L]; kept up with the changes."""
    battery: BatterySpec
    start_j: float
    """The true level of the battery now."""

    @cached_property
    def tolerance_j(self) -> float:
        """Levels that derive from measured ones count as equal up to this difference, J."""
        return energy_tolerance_j(self.battery.capacity_j)

    def levels_j(self, extra_j: FloatArray | float = 0.0) -> FloatArray:
        """Battery energy at the end of each row (Eq. 1), with ``extra_j`` more demand by row."""
        net_w = (self.supply_j - self.demand_j - extra_j) / self.dt_s
        return project_levels_j(self.battery, self.start_j, net_w, float(self.dt_s[-1]))[1:]

    @property
    def diff_j(self) -> float:
        """E_diff: the estimated level at the end less the target, J (Eq. 3.30)."""
        return float(self.levels_j()[-1]) - self.battery.target_j

    def expected_rows(self, left_s: FloatArray, needed_s: FloatArray) -> IndexArray:
        """Rows until jobs that need this long are expected to end, at their walltimes at the latest."""
        ends_s = np.cumsum(self.dt_s)
        return np.searchsorted(ends_s, np.minimum(needed_s, left_s) - 1e-6) + 1


@dataclass(frozen=True)
class RunningJob:
    """A running job as compensation sees it."""

    hosts: HostIds
    left_s: float
    """Time to its walltime, s."""
    remaining_flops: float
    """Estimated remaining work of each host (Dfl' - Gfl of Eq. 3.28), never negative."""


class JobTable:
    """Running jobs as arrays: one entry per job, and one per host of all jobs."""

    def __init__(self, jobs: Sequence[RunningJob]) -> None:
        """Fill the arrays from at least one job."""
        counts = [len(job.hosts) for job in jobs]
        self.hosts = np.concatenate([job.hosts for job in jobs])
        self.first = np.concatenate([[0], np.cumsum(counts[:-1])]).astype(np.intp)
        """Where the hosts of each job begin."""
        self.job_of = np.repeat(np.arange(len(jobs)), counts)
        self.left_s = np.array([job.left_s for job in jobs])
        self.remaining_flops = np.array([job.remaining_flops for job in jobs])

    def least(self, values: FloatArray) -> FloatArray:
        """The least value among each job's hosts; ``values``' last axis is that of the hosts."""
        return np.minimum.reduceat(values, self.first, axis=-1)

    def total(self, values: FloatArray) -> FloatArray:
        """The sum over each job's hosts."""
        return np.add.reduceat(values, self.first, axis=-1)

    def needed_s(self, speeds_flops: FloatArray) -> FloatArray:
        """How long each job needs at the slowest of its hosts' speeds, s."""
        slowest = self.least(speeds_flops)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(slowest > 0.0, self.remaining_flops / slowest, np.inf)
