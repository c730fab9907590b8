"""The price of energy: the energy of the dearest jobs that may start, solved anew at each step.

Demand that is known or predicted is laid out over the cells of the horizon: running jobs, waiting ones as if
they started now, and those still to arrive. The price is the greatest energy of a job up to which all of them
can be served without taking the battery below its floor, or below its target at the end; where several jobs
have the next energy, some of these may start, too. It is the bid price of a deterministic linear model that
is re-solved (Talluri and van Ryzin, The Theory and Practice of Revenue Management, ch. 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.policies.bid_price.horizon import BatteryAhead, Cells, Slack
from beasy_sched.policies.bid_price.jobs import Speed, TwoSpeedFleet

OVERHEAD: Final = 0.05
"""omega: idle servers and transitions, as a share of the jobs' energy."""


@dataclass(frozen=True)
class Demand:
    """Power that all servers draw over the horizon, by price and speed."""

    cells: Cells
    fleet: TwoSpeedFleet
    running_w: Mapping[Speed, FloatArray]
    """Mean power of the running jobs above sleep at both speeds, W by cell."""
    waiting_j: FloatArray
    """Energies of the waiting jobs that are sure to end in time, J."""
    waiting_hosts: FloatArray
    """Hosts that each of them asks for."""
    waiting_s: Mapping[Speed, FloatArray]
    """Their expected run times at both speeds, s."""
    coming_flops: FloatArray
    """Predicted work of each cell, flops/s of all servers, by all jobs that run then."""
    seen_j: FloatArray
    """Energies of the jobs that have arrived, like which those to come are, J, ascending."""
    coming_share: FloatArray
    """Share of the work by jobs that are still to arrive, of up to that energy: [job + 1, cell]; 0 first."""
    overhead: float = OVERHEAD

    def power_w(self, price_j: float, speed: Speed) -> FloatArray:
        """Mean power of each cell, W: jobs up to ``price_j``; later ones at the thriftiest speed."""
        fleet, chosen = self.fleet, self.waiting_j <= price_j
        hosts = self.cells.filled(self.waiting_hosts[chosen], self.waiting_s[speed][chosen])
        present_w = self.running_w[speed] + hosts * fleet.busy_w[speed]
        row = int(np.searchsorted(self.seen_j, price_j, side="right"))
        future = self.coming_flops * self.coming_share[row] / fleet.flops[Speed.THRIFTY]
        busy_w = self._within_fleet(present_w, future, speed)
        power_w: FloatArray = fleet.rest_w + (1.0 + self.overhead) * busy_w
        return power_w

    def _within_fleet(self, present_w: FloatArray, future: FloatArray, speed: Speed) -> FloatArray:
        """Add the power of the ``future`` servers, and move what exceeds the fleet to later cells."""
        fleet = self.fleet
        servers = present_w / fleet.busy_w[speed] + future
        power_w: FloatArray = present_w + future * fleet.busy_w[Speed.THRIFTY]
        if servers.max(initial=0.0) <= fleet.size:
            return power_w
        moved_servers = moved_j = 0.0  # server-seconds, and joules
        rows = zip(servers.tolist(), power_w.tolist(), self.cells.width_s.tolist(), strict=True)
        kept_w = []
        for count, watts, width_s in rows:
            wanted, wanted_j = count * width_s + moved_servers, watts * width_s + moved_j
            share = min(1.0, fleet.size * width_s / wanted) if wanted > 0.0 else 1.0
            kept_w.append(share * wanted_j / width_s)
            moved_servers, moved_j = (1.0 - share) * wanted, (1.0 - share) * wanted_j
        return np.array(kept_w)


@dataclass(frozen=True)
class Price:
    """What a step's energy is worth."""

    price_j: float
    """lambda: the energy of the dearest jobs that may start, J; infinite where energy is enough, 0 where none
    may."""
    speed: Speed
    """The speed of all servers."""
    slack: Slack
    """What the jobs leave that can all be served."""
    everything_w: FloatArray
    """Demand of all jobs at the thriftiest speed, W by cell."""
    without: Slack
    """What all jobs together would leave."""

    @property
    def rationed(self) -> bool:
        """Whether there is less energy than is asked for, and a price."""
        return self.price_j < np.inf

    @property
    def scarce(self) -> bool:
        """Whether there is less energy than is asked for, whether or not there is a price yet."""
        return self.without.slack_j < 0.0


def solve(demand: Demand, ahead: BatteryAhead, supply_w: FloatArray, energies_j: FloatArray) -> Price:
    """Find the price, and the speed: the fastest where all jobs together leave some slack at it.

    ``energies_j``: energies of jobs, one of which is the price; none: there is no price yet.
    """
    everything_w = demand.power_w(np.inf, Speed.THRIFTY)
    without = ahead.slack(supply_w - everything_w)
    if without.slack_j >= 0.0 or not len(energies_j):
        fast = ahead.slack(supply_w - demand.power_w(np.inf, Speed.FAST))
        if fast.slack_j >= 0.0:
            return Price(np.inf, Speed.FAST, fast, everything_w, without)
        return Price(np.inf, Speed.THRIFTY, without, everything_w, without)
    seen_j, counts = np.unique(energies_j, return_counts=True)
    levels_j = np.append(0.0, seen_j)
    low, high = 0, len(levels_j) - 1  # the dearest job stands for all of them, which leave nothing
    fits, lacks = ahead.slack(supply_w - demand.power_w(0.0, Speed.THRIFTY)), without
    while high - low > 1:
        middle = (low + high) // 2
        found = ahead.slack(supply_w - demand.power_w(float(levels_j[middle]), Speed.THRIFTY))
        if found.slack_j >= 0.0:
            low, fits = middle, found
        else:
            high, lacks = middle, found
    low_j, high_j = float(levels_j[low]), float(levels_j[high])
    if counts[high - 1] > 1:  # some of several jobs with the same energy, where not all can be paid
        return Price(high_j, Speed.THRIFTY, fits, everything_w, without)
    share = max(fits.slack_j, 0.0) / (max(fits.slack_j, 0.0) - lacks.slack_j)
    return Price(low_j + share * (high_j - low_j), Speed.THRIFTY, fits, everything_w, without)
