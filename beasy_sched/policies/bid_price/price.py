"""The price of energy: the energy of the dearest job that can be paid for, solved anew at each step.

Demand that is known or predicted is laid out over the cells of the horizon: running jobs, waiting ones as if
they started now, and those still to arrive. The price is the greatest energy of a job up to which all of them
can be served without taking the battery below its floor, or below its target at the end: the bid price of a
deterministic linear model that is re-solved (Talluri and van Ryzin, The Theory and Practice of Revenue
Management, ch. 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.policies.bid_price.horizon import BatteryAhead, Cells, Slack
from beasy_sched.policies.bid_price.jobs import Speed, TwoSpeedFleet

OVERHEAD: Final = 0.05
"""omega: idle servers and transitions, as a share of the jobs' energy."""
FREE_SHARE: Final = 0.1
"""Energy of which no more than this share is missing where it counts is free."""
LEVELS: Final = 32
"""Number of quantiles of the energies of arrived jobs that are tried as a price."""


@dataclass(frozen=True)
class WaitingJobs:
    """The waiting jobs that are sure to end in time, as columns."""

    energy_j: FloatArray
    hosts: FloatArray
    work: FloatArray
    """Expected flops on each host."""
    held_s: FloatArray = field(default_factory=lambda: np.empty(0))
    """How long those that do not compute (delay jobs) are expected to hold their hosts, s."""
    computes: BoolArray | None = None
    """Which of them compute; None: all."""


@dataclass(frozen=True)
class ToCome:
    """Jobs still to arrive: the work they bring, and how it is spread over jobs of different energies."""

    flops: FloatArray
    """Predicted work of each cell, flops/s of all servers, by all jobs that run then."""
    energy_j: FloatArray
    """Energies of jobs like those that have arrived, ascending."""
    share: FloatArray
    """Share of the work by jobs that are still to arrive, of up to that energy: [job + 1, cell]; 0 first."""

    def rate(self, price_j: float) -> FloatArray:
        """Work of the jobs still to arrive that cost up to ``price_j``, flops/s in each cell."""
        row = int(np.searchsorted(self.energy_j, price_j, side="right"))
        rate: FloatArray = self.flops * self.share[row]
        return rate


class Demand:
    """Power that all servers draw over the horizon, by price and speeds."""

    def __init__(
        self,
        cells: Cells,
        fleet: TwoSpeedFleet,
        running_w: Mapping[Speed, FloatArray],
        waiting: WaitingJobs,
        to_come: ToCome,
        overhead: float = OVERHEAD,
    ) -> None:
        """``running_w``: mean power of the running jobs at both speeds."""
        self._cells, self._fleet = cells, fleet
        self._running_w, self._waiting, self._to_come = running_w, waiting, to_come
        self._overhead = 1.0 + overhead

    def power_w(self, price_j: float, speed: Speed) -> FloatArray:
        """Mean power of each cell, W: jobs up to ``price_j``; later ones at the thriftiest speed."""
        fleet = self._fleet
        present_w = self._running_w[speed] + self._waiting_w(price_j, speed)
        future = self._to_come.rate(price_j) / fleet.flops[Speed.THRIFTY]
        busy_w = self._within(present_w, future, speed)
        power_w: FloatArray = fleet.rest_w + self._overhead * busy_w
        return power_w

    def _waiting_w(self, price_j: float, speed: Speed) -> FloatArray:
        """Power of the waiting jobs up to ``price_j`` above sleep, W by cell."""
        fleet, waiting = self._fleet, self._waiting
        chosen = waiting.energy_j <= price_j
        computing = chosen if waiting.computes is None else chosen & waiting.computes
        hosts = np.zeros(len(self._cells))
        if computing.any():
            ends_s = waiting.work[computing] / fleet.flops[speed]
            hosts = self._cells.filled(waiting.hosts[computing], ends_s)
        power_w: FloatArray = hosts * fleet.busy_w[speed]
        if waiting.computes is not None and (held := chosen & ~waiting.computes).any():
            idle = self._cells.filled(waiting.hosts[held], waiting.held_s[held])
            power_w = power_w + idle * fleet.mean_idle_w[speed]
        return power_w

    def _within(self, present_w: FloatArray, future: FloatArray, speed: Speed) -> FloatArray:
        """Add the power of the ``future`` servers, and move what exceeds the fleet to later cells."""
        fleet = self._fleet
        servers = present_w / fleet.busy_w[speed] + future
        power_w: FloatArray = present_w + future * fleet.busy_w[Speed.THRIFTY]
        if servers.max(initial=0.0) <= fleet.size:
            return power_w
        moved_servers = moved_j = 0.0  # server-seconds, and joules
        rows = zip(servers.tolist(), power_w.tolist(), self._cells.width_s.tolist(), strict=True)
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
    """lambda: the dearest job that may start, J; infinite where energy is enough, -1 where none may."""
    rationed: bool
    """Whether there is less energy than is asked for."""
    speed: Speed
    """The speed of all servers."""
    demand_w: FloatArray
    """Demand at this price and speed, W by cell."""
    slack: Slack
    """What it leaves."""
    everything_w: FloatArray
    """Demand of all jobs at the thriftiest speed, W by cell."""
    without: Slack
    """What all jobs together would leave."""
    margin_j: float = -np.inf
    """Energy of several jobs just above the price: together they leave no slack, but each may start that
    does."""

    @property
    def scarce(self) -> bool:
        """Whether there is less energy than is asked for, whether or not there is a price yet."""
        return self.without.slack_j < 0.0


class Pricing:
    """Finds the price."""

    def __init__(
        self, demand: Demand, ahead: BatteryAhead, supply_w: FloatArray, energies_j: FloatArray
    ) -> None:
        """``energies_j``: energies of jobs, from which the levels of the price are; none: no price yet."""
        self._demand, self._ahead, self._supply_w = demand, ahead, supply_w
        self._energies_j = energies_j

    def demand_w(self, price_j: float, speed: Speed = Speed.THRIFTY) -> FloatArray:
        """Demand of jobs up to a price, W by cell."""
        return self._demand.power_w(price_j, speed)

    def slack(self, demand_w: FloatArray) -> Slack:
        """What ``demand_w`` leaves."""
        return self._ahead.slack(self._supply_w - demand_w)

    def solve(self) -> Price:
        """Find the price, and then the speed: the fastest where that costs nothing that counts."""
        everything_w = self.demand_w(np.inf)
        without = self.slack(everything_w)
        found = Price(np.inf, False, Speed.THRIFTY, everything_w, without, everything_w, without)
        if without.slack_j < 0.0 and len(self._energies_j):
            price_j, margin_j = self._bisected(without)
            demand_w = self.demand_w(price_j)
            slack = self.slack(demand_w)
            found = replace(
                found, price_j=price_j, margin_j=margin_j, rationed=True, demand_w=demand_w, slack=slack
            )
        return self._faster(found)

    def _bisected(self, without: Slack) -> tuple[float, float]:
        """The greatest price that leaves something, interpolated between two levels, and its margin."""
        levels_j = self.levels_j()
        slacks_j: dict[int, float] = {len(levels_j) - 1: without.slack_j}
        low, high = -1, len(levels_j) - 1
        while high - low > 1:
            middle = (low + high) // 2
            slacks_j[middle] = self.slack(self.demand_w(float(levels_j[middle]))).slack_j
            low, high = (middle, high) if slacks_j[middle] >= 0.0 else (low, middle)
        if low < 0:
            return -1.0, -np.inf
        return self._between(*((float(levels_j[at]), slacks_j[at]) for at in (low, high)))

    def _between(self, low: tuple[float, float], high: tuple[float, float]) -> tuple[float, float]:
        """The price between two levels (each with its slack), and its margin.

        Where several jobs have the same energy, the slack jumps: they are no longer served all or none.
        """
        energies_j, counts = np.unique(self._energies_j, return_counts=True)
        steps_j = energies_j[(counts > 1) & (energies_j > low[0]) & (energies_j <= high[0])]
        for step_j in steps_j.tolist():
            below_j = float(np.nextafter(step_j, 0.0))
            if (slack_j := self.slack(self.demand_w(below_j)).slack_j) < 0.0:
                high = below_j, slack_j
                break
            low = below_j, slack_j
            if (slack_j := self.slack(self.demand_w(step_j)).slack_j) < 0.0:
                return below_j, step_j
            low = step_j, slack_j
        share = low[1] / (low[1] - high[1])
        return low[0] + share * (high[0] - low[0]), -np.inf

    def levels_j(self) -> FloatArray:
        """Prices to try, ascending: 0, quantiles, and the dearest job (which stands for infinity)."""
        quantiles = np.quantile(self._energies_j, np.arange(1, LEVELS) / LEVELS)
        return np.concatenate(([0.0], quantiles, [self._energies_j.max()]))

    def _faster(self, found: Price) -> Price:
        """Run jobs at full speed where it is free: where it costs little of what is binding."""
        demand_w = self.demand_w(found.price_j, Speed.FAST)
        slack = self.slack(demand_w)
        if found.rationed:
            more_j = float(((demand_w - found.demand_w) * self._ahead.cells.width_s).sum())
            free = found.slack.slack_j - slack.slack_j <= FREE_SHARE * more_j
        else:
            free = slack.slack_j >= 0.0
        return replace(found, speed=Speed.FAST, demand_w=demand_w, slack=slack) if free else found
