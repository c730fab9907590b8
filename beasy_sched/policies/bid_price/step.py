"""Computations at the start of a step: forecast, price, and energy that can still be committed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.end_value import worth_at_price
from beasy_sched.energy.grid_charging import uses_ahead
from beasy_sched.energy.site import Site
from beasy_sched.engine.actions import FactDict
from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.policy import View
from beasy_sched.model.host_states import IDLE, SWITCHING_ON
from beasy_sched.policies.bid_price.battery import Backup, BatteryAhead, WearFloor
from beasy_sched.policies.bid_price.bid_price_jobs import Expected
from beasy_sched.policies.bid_price.estimators import share_to_come
from beasy_sched.policies.bid_price.fleet import Speed
from beasy_sched.policies.bid_price.horizon import Cells, ForeseenSteps, Foresight
from beasy_sched.policies.bid_price.margins import (
    COMMITMENT_SIGMAS,
    RATIONING_LEVEL,
    RATIONING_SIGMAS,
    RUNNING_SIGMAS,
)
from beasy_sched.policies.bid_price.price import Demand, Price, limited_by_value, solve
from beasy_sched.policies.risk import CalibratedRisk


@dataclass
class Step:
    """Price of a step, and the power still available to jobs, reduced by each start."""

    start_s: float
    end_s: float
    """End of the horizon."""
    cells: Cells
    battery: BatteryAhead
    price: Price
    supply_j: float
    """Supply assumed for the price."""
    left_w: FloatArray
    """Supply assumed for commitments, minus commitments."""
    goals_j: FloatArray
    """Minimum levels at the ends of windows after commitments: the target, or the level of a sleeping site;
    none if there is enough energy for all."""
    payable: dict[str, bool] = field(default_factory=dict)
    """Whether there was enough energy for a job when it was last tested, by id."""

    def edges_from(self, now: float) -> FloatArray:
        """Return the bounds of the cells, counted from ``now``, s."""
        return self.cells.edge_s - (now - self.start_s)

    def facts(self) -> FactDict:
        """Return the facts behind the price."""
        price = self.price
        facts: FactDict = {
            "window_end_s": self.end_s,
            "battery_j": self.battery.level_j,
            "supply_j": self.supply_j,
            "demand_j": float(self.cells.cooled_w(price.everything_w) @ self.cells.width_s),
            "speed": price.speed.name.lower(),
        }
        if price.rationed:
            facts |= self.bound() | {"price_j": price.price_j}
            return facts | ({} if price.by_value else {"missing_j": -price.slack.slack_j})
        if price.slack.slack_j < math.inf:
            facts["left_j"] = price.slack.slack_j
        return facts

    def bound(self) -> FactDict:
        """Return the price's constraint, and the time until which it will hardly fall.

        The constraint is the target, the floor, or the value of the energy left.
        """
        if self.price.by_value:
            return {"bound": "value", "window_end_s": self.end_s}
        binding = self.price.binding
        at_s = self.start_s + float(self.cells.edge_s[binding.edge])
        bound: FactDict = {"bound": "target" if binding.at_target else "floor", "binding_at_s": at_s}
        return bound | (self.battery.battery.band_facts() if binding.at_target else {})


class StepMaker:
    """Computes the price at the start of each step."""

    def __init__(
        self,
        view: View,
        site: Site,
        foresight: Foresight,
        expected: Expected,
        most_per_kwh: float | None,
        risk: CalibratedRisk | None,
        most_wear_per_kwh: float | None,
    ) -> None:
        """``expected``: expected values of jobs.

        ``most_per_kwh``: maximum price of a grid's energy; ``risk``: the risk limit, if any;
        ``most_wear_per_kwh``: maximum cost of battery wear. Raises ConfigError.
        """
        self._view, self._site, self._risk = view, site, risk
        self._foresight, self._expected = foresight, expected
        self._foreseen_work = 0.0
        """Work predicted to be done by now, flops."""
        self._most_per_kwh = math.inf if most_per_kwh is None else most_per_kwh
        self._worth = self._end_worth()
        """Energy of jobs worth as much as a unit of energy left."""
        self._wear = None if most_wear_per_kwh is None else WearFloor(site, most_wear_per_kwh)

    def make(self, budget: StepBudget, battery_j: float) -> Step:
        """Compute the price of the step that has just begun with ``battery_j`` in the battery."""
        start_s, site, foresight, expected = budget.start_s, self._site, self._foresight, self._expected
        fleet, end_s, cells = expected.fleet, foresight.end_s(start_s), foresight.cells(start_s)
        expected.begin_step(end_s - start_s - site.step_s)
        foreseen = foresight.look(start_s, int(cells.bounds[-1]), budget.renew_w)
        cells.pue = None if foreseen.pue is None else cells.means(foreseen.pue)
        hopeful_w, careful_w = self._supplies_w(budget, foreseen, cells)
        least_j = 0.0 if self._wear is None else self._wear.floor_j(start_s, battery_j)
        backup = self._backup(start_s, cells, foreseen)
        battery = BatteryAhead(site.storage.battery, battery_j, cells, backup, least_j=least_j)
        running = {speed: expected.running_w(self._view, speed, cells) for speed in Speed}
        running_w = {speed: mean_w for speed, (mean_w, _) in running.items()}
        demand = self._demand(cells, foreseen, start_s, running_w)
        price = solve(demand, battery, hopeful_w)
        price = limited_by_value(price, demand, battery, hopeful_w, self._worth)
        mean_w, variance = running[price.speed]
        if cells.pue is None:
            left_w = careful_w - fleet.rest_w - mean_w - RUNNING_SIGMAS * np.sqrt(variance)
        else:
            left_w = careful_w - cells.cooled_w(fleet.rest_w + mean_w + RUNNING_SIGMAS * np.sqrt(variance))
        state = self._view.host_state
        idle = np.flatnonzero((state == IDLE) | (state == SWITCHING_ON))
        left_w[0] -= fleet.hosts_idle_w(idle, price.speed) * (1.0 if cells.pue is None else cells.pue[0])
        asleep_j = battery.project(careful_w - cells.cooled_w(np.full(len(cells), fleet.rest_w))).ends_j
        return Step(
            start_s=start_s,
            end_s=end_s,
            cells=cells,
            battery=battery,
            price=price,
            supply_j=float(hopeful_w @ cells.width_s),
            left_w=left_w,
            goals_j=np.minimum(battery.target_j if price.scarce else -np.inf, asleep_j),
        )

    def _end_worth(self) -> float:
        """Return the energy of jobs worth as much as a unit of energy left.

        With a grid, a kWh of jobs is worth ``most_per_kwh``; without that option, any price.
        """
        value = self._site.storage.battery.end_value
        if self._site.grid is None:
            return value
        return 0.0 if math.isinf(self._most_per_kwh) else worth_at_price(value, self._most_per_kwh)

    def _supplies_w(
        self, budget: StepBudget, foreseen: ForeseenSteps, cells: Cells
    ) -> tuple[FloatArray, FloatArray]:
        """Return the supplies assumed for the price and for starting jobs, W by cell."""
        foresight, risk = self._foresight, self._risk
        if risk is None:
            hopeful_w = foresight.supply_w(foreseen, cells, RATIONING_SIGMAS)
            return hopeful_w, foresight.supply_w(foreseen, cells, COMMITMENT_SIGMAS)
        risk.open_step(budget, len(foreseen.renew_w))
        hopeful_w = risk.quantiles.at(max(risk.level, RATIONING_LEVEL))
        hopeful_w[0] = budget.renew_w
        return cells.means(hopeful_w + foreseen.given_w), cells.means(risk.careful_w + foreseen.given_w)

    def _backup(self, start_s: float, cells: Cells, foreseen: ForeseenSteps) -> Backup | None:
        """Return the backup of a reducible fuel cell and a grid; None without either."""
        grid, import_w = self._site.grid, None
        if grid is not None:
            import_w = np.full(len(cells), grid.import_limit_w)
            if grid.price is not None:
                import_w[grid.price.expected(start_s, start_s + cells.edge_s) > self._most_per_kwh] = 0.0
        if import_w is None and not foreseen.held_w.any():
            return None
        uses = None if grid is None else uses_ahead(grid, start_s, start_s + cells.edge_s)
        planned_j = foreseen.planned_j[cells.bounds[1:] - 1]
        return Backup(cells.means(foreseen.held_w), planned_j, import_w, uses)

    def _demand(
        self, cells: Cells, foreseen: ForeseenSteps, start_s: float, running_w: dict[Speed, FloatArray]
    ) -> Demand:
        """Return the running jobs, the waiting ones that are certain to end in time, and future ones."""
        queue, expected, left_s = self._view.queue, self._expected, float(cells.edge_s[-1])
        waiting, seen = expected.waiting(queue).at(queue.places()), expected.seen()
        servers = cells.means(self._demand_flops(foreseen, start_s)) / expected.fleet.flops[Speed.THRIFTY]
        share = share_to_come(
            seen.hosts, seen.run_s[Speed.THRIFTY], seen.surest_s, cells.middle_s, left_s - cells.middle_s
        )
        return Demand(
            cells=cells,
            fleet=expected.fleet,
            running_w=running_w,
            waiting=waiting.at(waiting.end_within(left_s)),
            seen_j=seen.energy_j,
            coming=servers * np.vstack((np.zeros(len(cells)), np.cumsum(share, axis=0))),
        )

    def _demand_flops(self, foreseen: ForeseenSteps, start_s: float) -> FloatArray:
        """Return the predicted work of all jobs in each step, flops/s, scaled by the submitted work.

        Without a prediction, the past rate of submissions is assumed.
        """
        arrivals, step_s = self._expected.arrivals, self._site.step_s
        host_flops = self._expected.mean_share * self._expected.fleet.reference_flops
        if foreseen.flops is None:
            return np.full(len(foreseen.renew_w), arrivals.mean_hosts(start_s, step_s) * host_flops)
        present_flops, fast_flops = foreseen.flops.item(0), self._expected.fleet.flops.item(Speed.FAST)
        self._foreseen_work += present_flops * step_s
        under_way = present_flops * arrivals.residual_s() * host_flops / fast_flops
        return foreseen.flops * arrivals.ratio((self._foreseen_work + under_way) / host_flops)
