"""Power and energy of the present step, and how much of it is left for starts and wakes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.server_energy import stretch_energy_j
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.hosts import HostIds

ENERGY_TOLERANCE: Final = 1e-9
"""Energies that differ by this share of the largest of them are the same.

The last digits of measured energies are rounding: Batsim prints six decimals, adds host by host and
interval by interval, and its clock differs by up to half a microsecond from the times that it prints. Over a
week that is 1e-13 of the energy used since time 0, or 1e-3 J of an energy computed from printed times.
Decisions at the limit are common and must not depend on it: a budget that is used up exactly, or a supply
that equals the demand.
"""
_LEAST_TOLERANCE_J: Final = 1e-6
"""The resolution of Batsim's six decimals, however small the energies are."""


def energy_tolerance_j(*energies_j: float) -> float:
    """Return the difference (J) up to which energies of the size of ``energies_j`` count as equal.

    Infinite energies are ignored.
    """
    largest_j = max((abs(energy_j) for energy_j in energies_j if math.isfinite(energy_j)), default=0.0)
    return ENERGY_TOLERANCE * largest_j + _LEAST_TOLERANCE_J


@dataclass
class StepBudget:
    """The energy that the guard left for a step. Without ``veto``, it is counted but never refused."""

    cluster: Cluster
    step: int
    """Number of the step since the start of the run."""
    start_s: float
    end_s: float
    renew_w: float
    """Production of the step, as known now."""
    soc_pct: float
    """State of charge at the start of the step."""
    supply_j: float
    """What may be drawn in the whole step without taking the battery below SoC_min."""
    headroom_j: float
    """What is left of the supply after the servers' present use and everything granted since.

    Negative if even sleeping servers need more than the supply.
    """
    veto: bool
    now: float = 0.0

    @property
    def remaining_s(self) -> float:
        """Seconds to the end of the step."""
        return max(self.end_s - self.now, 0.0)

    def grant_start(self, hosts: HostIds, *, computes: bool = True) -> bool:
        """Take the energy that a job on idle ``hosts`` adds to this step, if there is enough."""
        return not computes or self._take(self.start_cost_j(hosts))

    def grant_wakes(self, hosts: HostIds, pstate: int) -> int:
        """Take the energy that waking sleeping ``hosts`` adds to this step, for as many as it suffices."""
        total_j = np.cumsum(self.wake_cost_j(hosts, pstate))
        count = len(hosts)
        if self.veto:
            fits = total_j <= self.headroom_j + self._tolerance_j
            count = len(hosts) if fits.all() else int(fits.argmin())
        if count:
            self.headroom_j -= float(total_j[count - 1])
        return count

    @property
    def _tolerance_j(self) -> float:
        return energy_tolerance_j(self.supply_j)

    def start_cost_j(self, hosts: HostIds) -> float:
        """Energy that a job on idle ``hosts`` adds until the end of the step at most, J."""
        return self.cluster.power.job_w(hosts, self.cluster.pstate[hosts]) * self.remaining_s

    def wake_cost_j(self, hosts: HostIds, pstate: int) -> FloatArray:
        """Energy that waking each of ``hosts`` adds in this step, J: the transition, then idling."""
        power, kinds = self.cluster.power, self.cluster.platform.kind_of[hosts]
        waking_s, idle_w = power.on_s[kinds].clip(max=self.remaining_s), power.idle_w[kinds, pstate]
        awake_j = stretch_energy_j(power, kinds, idle_w, self.remaining_s, on_s=waking_s)
        cost_j: FloatArray = awake_j - power.sleep_w[kinds] * self.remaining_s
        return cost_j

    def release(self, hosts: HostIds) -> None:
        """Give back what the job that is leaving ``hosts`` will not use. Call it before they become idle."""
        cluster = self.cluster
        job_w = cluster.power.job_w(hosts, cluster.pstate[hosts], cluster.load[hosts])
        self.headroom_j += job_w * self.remaining_s

    def _take(self, cost_j: float) -> bool:
        if self.veto and cost_j > self.headroom_j + self._tolerance_j:
            return False
        self.headroom_j -= cost_j
        return True
