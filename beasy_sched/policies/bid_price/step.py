"""What is worked out at the start of a step: the price, and what has been committed so far; the options."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.site import Site
from beasy_sched.engine.actions import FactDict
from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.policy import Options, View
from beasy_sched.errors import ConfigError
from beasy_sched.model.host_states import IDLE, SWITCHING_ON
from beasy_sched.policies.bid_price.estimators import ProductionError, demand_ratio, share_to_come
from beasy_sched.policies.bid_price.horizon import Backup, BatteryAhead, Cells, ForeseenSteps, Foresight
from beasy_sched.policies.bid_price.jobs import Expected, Speed, TwoSpeedFleet
from beasy_sched.policies.bid_price.price import Demand, Price, solve


class BidPriceOptions(Options, frozen=True):
    """Options of `bid-price`: most of them leave one part of the method out, for ablation studies."""

    patience: float = 1.0
    """How long a job waits for others' servers while energy is rationed, in expected run times."""
    price: bool = True
    """Whether there is a price; without it, a job may start if the battery stays above its floor."""
    predict_demand: bool = True
    """Whether jobs still to arrive count; without them, the price follows from the queue alone."""
    learn_run_times: bool = True
    """Whether run times are learned; if not, jobs are expected to need their whole walltimes."""
    production: Literal["plan", "forecast"] = "plan"
    """Which prediction of the production is used where there are both."""
    margins: bool = True
    """Whether there are margins above SoC_min and target, and for doubts of commitments."""
    most_per_kwh: float | None = None
    """Highest price at which energy from a grid is used, in the site's currency; None: any."""

    def check(self) -> None:
        """Raise ConfigError for values out of range."""
        if not 0.0 <= self.patience < math.inf:
            raise ConfigError(f"patience: found {self.patience!r}, expected a number of at least 0")


_RATIONING_SIGMAS: Final = 0.5
"""k_r: standard errors of the production that the price leaves out; it can be corrected at each step."""
_COMMITMENT_SIGMAS: Final = 2.0
"""k_c: the same for jobs that start, which cannot be taken back."""
_DEMAND_SIGMAS: Final = 1.0
"""k_d: standard deviations by which the running jobs may draw more than expected."""
_MARGIN: Final = 0.005
"""Share of the capacity to keep above SoC_min and target: about what a full site draws in a step."""
_FEW: Final = 10
"""Arrivals below which there is no price yet."""


@dataclass
class Step:
    """The price of a step, and the power that is spoken for; starts of jobs add to it."""

    start_s: float
    end_s: float
    """End of the horizon."""
    cells: Cells
    ahead: BatteryAhead
    price: Price
    supply_j: float
    """Supply that the price counts on."""
    careful_w: FloatArray
    """Supply that commitments count on."""
    committed_w: FloatArray
    """Power of running jobs and those that have started, with a margin."""
    goals_j: FloatArray
    """Levels at the ends of windows that commitments must leave."""
    short: set[str] = field(default_factory=set)
    """Jobs for which there is no energy ahead, by id."""
    payable: set[str] = field(default_factory=set)
    """Jobs that lack hosts and for which there was energy ahead, by id."""

    @property
    def bound(self) -> str:
        """What the price keeps: the ``target`` at a window's end, or the ``floor`` on the way."""
        return "target" if self.price.slack.at_target else "floor"

    @property
    def binding_s(self) -> float:
        """When least is left, s: until then the price will hardly fall."""
        return self.start_s + float(self.cells.edge_s[self.price.slack.edge])

    def left_s(self, now: float) -> float:
        """Time to the end of the horizon, s."""
        return self.end_s - now

    def facts(self) -> FactDict:
        """Return what the price is made of."""
        price = self.price
        facts: FactDict = {
            "window_end_s": self.end_s,
            "battery_j": self.ahead.level_j,
            "supply_j": self.supply_j,
            "demand_j": float((price.everything_w * self.cells.width_s).sum()),
            "binding_at_s": self.binding_s,
            "speed": price.speed.name.lower(),
        }
        if price.rationed:
            facts |= {"price_j": price.price_j, "missing_j": -price.without.slack_j}
            facts["bound"] = self.bound
        elif price.slack.slack_j < math.inf:
            facts["left_j"] = price.slack.slack_j
        return facts


class StepMaker:
    """Works out the price at the start of each step."""

    def __init__(
        self, view: View, site: Site, fleet: TwoSpeedFleet, expected: Expected, options: BidPriceOptions
    ):
        """See through ``view``; expect of jobs what ``expected`` does."""
        self._view, self._site, self._fleet = view, site, fleet
        self._expected, self._options = expected, options
        self._foresight = Foresight(view, site, options.production)
        self._errors = ProductionError()
        self._foreseen_work = 0.0
        """Work that was foreseen to be done by now, flops."""

    def make(self, budget: StepBudget, battery_j: float) -> Step:
        """Solve the price of the step that has just begun with ``battery_j`` in the battery."""
        start_s, site, careful = budget.start_s, self._site, self._options.margins
        end_s = self._foresight.end_s(start_s)
        steps = max(round((end_s - start_s) / site.step_s), 1)
        ends = [round((at_s - start_s) / site.step_s) for at_s in self._foresight.window_ends_s(start_s)]
        cells = Cells(steps, site.step_s, ends)
        foreseen = self._foresight.look(start_s, steps, budget.renew_w)
        self._errors.add(budget.renew_w, *self._foresight.present)
        hopeful_w = self._supply_w(foreseen, cells, _RATIONING_SIGMAS, budget.renew_w)
        careful_w = self._supply_w(foreseen, cells, _COMMITMENT_SIGMAS if careful else 0.0, budget.renew_w)
        ahead = self._battery(start_s, battery_j, cells, foreseen)
        left_s = end_s - start_s
        running = {speed: self._expected.running_w(self._view, speed, cells, left_s) for speed in Speed}
        running_w = {speed: mean_w for speed, (mean_w, _) in running.items()}
        demand = self._demand(cells, foreseen, start_s, end_s, running_w)
        price = solve(demand, ahead, hopeful_w, self._levels_j(demand))
        mean_w, variance = running[price.speed]
        committed_w = self._fleet.rest_w + mean_w
        if careful:
            committed_w += _DEMAND_SIGMAS * np.sqrt(variance)
        state = self._view.host_state
        idle = np.flatnonzero((state == IDLE) | (state == SWITCHING_ON))
        committed_w[0] += self._fleet.hosts_idle_w(idle, price.speed)
        return Step(
            start_s=start_s,
            end_s=end_s,
            cells=cells,
            ahead=ahead,
            price=price,
            supply_j=float((hopeful_w * cells.width_s).sum()),
            careful_w=careful_w,
            committed_w=committed_w,
            goals_j=np.minimum(ahead.target_j, ahead.stays_up(careful_w - self._fleet.rest_w).ends_j),
        )

    def _levels_j(self, demand: Demand) -> FloatArray:
        """Energies of jobs, one of which is the price, J; none if there is to be no price."""
        if not self._options.price or len(self._expected.arrivals) < _FEW:
            return np.empty(0)
        return demand.seen_j if self._options.predict_demand else demand.waiting_j

    def _battery(
        self, start_s: float, battery_j: float, cells: Cells, foreseen: ForeseenSteps
    ) -> BatteryAhead:
        """The battery, with a fuel cell that may be held and a grid behind it."""
        site, grid, backup = self._site, self._site.grid, None
        import_w = None
        if grid is not None:
            import_w = np.full(len(cells), grid.import_limit_w)
            if grid.price is not None and self._options.most_per_kwh is not None:
                prices = grid.price.expected(start_s, start_s + cells.edge_s)
                import_w[prices > self._options.most_per_kwh] = 0.0
        if import_w is not None or foreseen.held_w.any():
            backup = Backup(cells.means(foreseen.held_w), foreseen.planned_j[cells.bounds[1:] - 1], import_w)
        margin = _MARGIN if self._options.margins else 0.0
        return BatteryAhead(site.storage.battery, battery_j, cells, margin, backup)

    def _supply_w(self, foreseen: ForeseenSteps, cells: Cells, sigmas: float, present_w: float) -> FloatArray:
        """Production to count on, with as many standard errors less, and what hydrogen gives: W by cell."""
        ahead = np.maximum(np.arange(cells.steps), 1.0)
        renew_w = self._errors.expected_w(foreseen.renew_w, foreseen.uncertainty, ahead, sigmas)
        renew_w[0] = present_w
        return cells.means(renew_w + foreseen.given_w)

    def _demand(
        self,
        cells: Cells,
        foreseen: ForeseenSteps,
        start_s: float,
        end_s: float,
        running_w: dict[Speed, FloatArray],
    ) -> Demand:
        """The running jobs, the waiting ones that are sure to end in time, and those to come."""
        queue, expected, fleet, known = self._view.queue, self._expected, self._fleet, self._expected.arrivals
        left_s = end_s - start_s
        places = queue.places()
        places = places[expected.in_time(queue, places, left_s)]
        hosts = queue.res[places].astype(np.float64)
        walltime_s = expected.walltime_s(queue.walltime_s[places], left_s)
        computes = queue.computes[places]
        seen_j, share, flops = np.empty(0), np.ones((1, len(cells))), np.zeros(len(cells))
        if self._options.predict_demand:
            flops = cells.means(self._demand_flops(foreseen, start_s))
        if len(known) >= _FEW:
            seen_j = expected.energy_j(known.hosts, known.walltime_s)
            order = np.argsort(seen_j, kind="stable")
            seen_j, seen_s = seen_j[order], known.walltime_s[order]
            of_each = share_to_come(
                known.hosts[order],
                expected.run_s(seen_s, Speed.THRIFTY),
                seen_s * expected.surest_share(),
                cells.middle_s,
                left_s - cells.middle_s,
            )
            share = np.concatenate((np.zeros((1, len(cells))), np.cumsum(of_each, axis=0)))
        return Demand(
            cells=cells,
            fleet=fleet,
            running_w=running_w,
            waiting_j=expected.energy_j(hosts, walltime_s, computes),
            waiting_hosts=hosts,
            waiting_s={speed: expected.run_s(walltime_s, speed, computes) for speed in Speed},
            coming_flops=flops,
            seen_j=seen_j,
            coming_share=share,
        )

    def _demand_flops(self, foreseen: ForeseenSteps, start_s: float) -> FloatArray:
        """Predicted work of all jobs in each step, flops/s; without a prediction, as much as has arrived."""
        known = self._expected.arrivals
        per_second = self._expected.mean_share * self._fleet.reference_flops
        if foreseen.flops is None:
            since_s = max(start_s - known.first_s, self._site.step_s)
            return np.full(len(foreseen.renew_w), known.work * per_second / since_s)
        self._foreseen_work += float(foreseen.flops[0]) * self._site.step_s
        if len(known) < _FEW:
            return foreseen.flops
        residual_s = known.residual_s * per_second / float(self._fleet.flops[Speed.FAST])
        foreseen_work = self._foreseen_work + float(foreseen.flops[0]) * residual_s
        ratio = demand_ratio(known.work * per_second, foreseen_work, known.mean_work * per_second)
        return foreseen.flops * ratio
