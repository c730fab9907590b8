"""The price of energy: the largest energy of a job that may start, recomputed at each step.

Known and predicted demand is distributed over the cells of the horizon: running jobs, waiting ones as if they
started now, and those still to arrive. The price is the least energy of a job such that all jobs up to it
take the battery below its floor, or below its target at the end of a window; some of those that need exactly
this energy may also start. It is the bid price of a deterministic linear model that is re-solved (Talluri and
van Ryzin, The Theory and Practice of Revenue Management, ch. 3).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.policies.bid_price.battery import BatteryAhead, Slack
from beasy_sched.policies.bid_price.bid_price_jobs import Jobs
from beasy_sched.policies.bid_price.fleet import Speed, TwoSpeedFleet
from beasy_sched.policies.bid_price.horizon import Cells

OVERHEAD: Final = 0.05
"""omega: idle servers and transitions, as a share of the jobs' energy."""


@dataclass(frozen=True)
class Demand:
    """Power that all servers draw over the horizon, by price and speed."""

    cells: Cells
    fleet: TwoSpeedFleet
    running_w: Mapping[Speed, FloatArray]
    """Mean power of the running jobs above sleep at both speeds, W by cell."""
    waiting: Jobs
    """Waiting jobs that are certain to end in time."""
    seen_j: FloatArray
    """Energies of the submitted jobs, used as a model of future ones, J, ascending."""
    coming: FloatArray
    """Servers for future jobs of up to that energy, at the most efficient speed: [job + 1, cell]; the first
    row is 0."""
    overhead: float = OVERHEAD

    def power_w(self, price_j: float, speed: Speed) -> FloatArray:
        """Mean power of each cell, W: jobs up to ``price_j``; later ones at the most efficient speed.

        Demand beyond the servers moves to later cells.
        """
        fleet, cells, jobs = self.fleet, self.cells, self.waiting
        chosen = jobs.energy_j <= price_j
        present = cells.filled(jobs.hosts[chosen], jobs.run_s[speed][chosen])
        coming = self.coming[np.searchsorted(self.seen_j, price_j, side="right")]
        busy_w = self.running_w[speed] + present * fleet.busy_w[speed] + coming * fleet.busy_w[Speed.THRIFTY]
        over_j = np.cumsum((busy_w - fleet.size * fleet.busy_w[speed]) * cells.width_s)
        moved_j = over_j - np.minimum(np.minimum.accumulate(over_j), 0.0)
        busy_w -= moved_j / cells.width_s
        busy_w[1:] += moved_j[:-1] / cells.width_s[1:]
        return np.asarray(fleet.rest_w + (1.0 + self.overhead) * busy_w)


@dataclass(frozen=True)
class Price:
    """Value of energy in a step."""

    price_j: float
    """lambda: maximum energy of a job that may start, J; infinite if there is enough energy."""
    speed: Speed
    """The speed of all servers."""
    slack: Slack
    """Slack if all jobs ran."""
    binding: Slack
    """Slack if all jobs up to the price ran."""
    everything_w: FloatArray
    """Demand of all jobs at the most efficient speed, W by cell."""
    by_value: bool = False
    """Whether the value of the energy left at the end limits the price, not the lack of energy."""

    @property
    def rationed(self) -> bool:
        """Whether there is less energy than demand, and a price."""
        return self.price_j < np.inf

    @property
    def scarce(self) -> bool:
        """Whether there is less energy than demand, with or without a price."""
        return self.slack.slack_j < 0.0


def limited_by_value(
    price: Price, demand: Demand, battery: BatteryAhead, supply_w: FloatArray, worth: float
) -> Price:
    """Return the price, but at most the energy of a job that is worth the charge it takes from the end.

    ``worth`` is the energy of jobs worth as much as a unit of energy left. All jobs are worth the same, so
    that one of mean energy is worth its energy, and a dearer one is worth less than its own. The jobs between
    the least possible limit and the price show which part of their energy the battery lacks at the end: the
    rest would not be stored.
    """
    if not worth or not len(demand.seen_j):
        return price
    mean_j = float(demand.seen_j.mean())
    least_j = mean_j / (worth * battery.battery.drawn_per_delivered())
    if least_j >= price.price_j:
        return price
    with_w, without_w = (demand.power_w(each_j, Speed.THRIFTY) for each_j in (price.price_j, least_j))
    spent_j = float((with_w - without_w) @ demand.cells.width_s)
    left_j, more_j = (battery.project(supply_w - each_w).ends_j[-1] for each_w in (with_w, without_w))
    lost_j = float(more_j - left_j)
    if spent_j <= 0.0 or lost_j <= 0.0:
        return price
    limit_j = mean_j / worth * spent_j / lost_j
    if limit_j >= price.price_j:
        return price
    binding = battery.slack(supply_w - demand.power_w(limit_j, Speed.THRIFTY))
    return replace(price, price_j=limit_j, speed=Speed.THRIFTY, binding=binding, by_value=True)


def solve(demand: Demand, battery: BatteryAhead, supply_w: FloatArray) -> Price:
    """Find the price, and the speed: the fastest if all jobs together leave slack at it."""

    def slack(price_j: float, speed: Speed = Speed.THRIFTY) -> Slack:
        return battery.slack(supply_w - demand.cells.cooled_w(demand.power_w(price_j, speed)))

    everything, everything_w = slack(np.inf), demand.power_w(np.inf, Speed.THRIFTY)
    if everything.slack_j >= 0.0 or not len(demand.seen_j):
        fast = slack(np.inf, Speed.FAST).slack_j >= 0.0
        return Price(np.inf, Speed.FAST if fast else Speed.THRIFTY, everything, everything, everything_w)
    levels_j = np.unique(demand.seen_j).tolist()
    first = bisect_left(levels_j[:-1], True, key=lambda level_j: slack(level_j).slack_j < 0.0)
    price_j = levels_j[first]
    return Price(price_j, Speed.THRIFTY, everything, slack(price_j), everything_w)
