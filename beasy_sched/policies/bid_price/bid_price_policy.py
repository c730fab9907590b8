"""`bid-price`: a price of energy decides which jobs may start; servers follow the queue.

Receding-horizon bid-price admission with EASY backfilling: bid prices of revenue management, re-solved at
each step, as certainty-equivalent model predictive control of the storage (docs/design/bid-price.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from beasy_sched.engine.actions import Action, CallAt, Compensate, FactDict, SetPState, Start
from beasy_sched.engine.policy import Options, Policy, View
from beasy_sched.engine.power_actions import by_target, wake
from beasy_sched.engine.run_findings import KnownInputs
from beasy_sched.errors import ConfigError
from beasy_sched.findings import Finding
from beasy_sched.model.choices import Placement
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE, SWITCHING_ON
from beasy_sched.model.hosts import HostSet
from beasy_sched.policies.bid_price.admission import BidPass
from beasy_sched.policies.bid_price.bid_price_jobs import Expected
from beasy_sched.policies.bid_price.bid_price_words import (
    ADMITTED,
    BID_PRICE_WORDS,
    ENOUGH,
    RATIONED,
    SPEED,
)
from beasy_sched.policies.bid_price.fleet import Speed, TwoSpeedFleet
from beasy_sched.policies.bid_price.horizon import Foresight
from beasy_sched.policies.bid_price.step import Step, StepMaker
from beasy_sched.policies.easy import WANTED, break_even_s, sleep_after
from beasy_sched.policies.long_jobs import never_started, planned_length_s
from beasy_sched.policies.offering import OFFERED_FOR_QUEUE, offer_demand
from beasy_sched.policies.risk import CalibratedRisk


class BidPriceOptions(Options, frozen=True):
    """Options of `bid-price`."""

    patience: float = 1.0
    """Time that a job waits for other jobs' servers while energy is rationed, in expected run times."""
    production: Literal["plan", "forecast"] = "plan"
    """Production forecast used if there are both."""
    most_per_kwh: float | None = None
    """Maximum price at which energy from a grid is used, in the site's currency; None: any."""
    most_wear_per_kwh: float | None = None
    """Maximum cost of battery wear at which it is discharged for starting jobs, in the site's currency per
    kWh; None: any. Requires ``[battery.life]`` with a price."""
    risk: str | float | None = None
    """Limit on the share of windows (``"5%"``) in which a job is killed for lack of energy, or the battery
    falls below SoC_min: supplies are quantiles of the forecast. None: no limit, and constant margins."""


class BidPrice(Policy):
    """Starts the jobs whose energy does not exceed a price, which is recomputed at each step."""

    name = "bid-price"
    summary = "an energy price, recomputed at each step, decides which jobs may start"
    words = BID_PRICE_WORDS
    needs_power = True
    needs_speeds = True
    can_offer = True
    options_type = BidPriceOptions
    options: BidPriceOptions

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        """Read the options. Raises ConfigError."""
        super().__init__(options)
        if not 0.0 <= self.options.patience < math.inf:
            raise ConfigError(f"patience: found {self.options.patience!r}, expected a number of at least 0")

    def check_inputs(self, inputs: KnownInputs) -> Sequence[Finding]:
        """Report jobs that cannot start."""
        return [*never_started(inputs, self.name, long_ones_start=True)]

    def begin(self, view: View) -> None:
        """Tabulate powers and speeds; no jobs are known yet."""
        if view.site is None:
            raise ConfigError("the policy requires a site: pass --site FILE")
        self._fleet = TwoSpeedFleet(view.platform, view.power_model)
        self._expected = Expected(self._fleet, planned_length_s(view))
        foresight = Foresight(view, view.site, self.options.production)
        options = self.options
        self._risk = None if options.risk is None else CalibratedRisk(options.risk, view)
        self._maker = StepMaker(
            view,
            view.site,
            foresight,
            self._expected,
            options.most_per_kwh,
            self._risk,
            options.most_wear_per_kwh,
        )
        self._step: Step | None = None
        self._lacking_s: dict[str, float] = {}
        self._committed: set[str] = set()
        """Ids of the running jobs whose energy the step has committed; used where others place jobs."""
        self._wait_s = np.array([break_even_s(kind) for kind in view.platform.kinds])[view.platform.kind_of]

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the results of the risk limit, if there is one."""
        return {} if self._risk is None else {"risk": self._risk.results()}

    def power_actions(self, view: View) -> Sequence[Action]:
        """At the beginning of each step: recompute the price and set the speed."""
        if view.budget is None or view.storage_state is None:
            return ()
        self._step = step = self._maker.make(view.budget, view.storage_state.battery_j)
        self._committed = {*view.running}
        actions: list[Action] = []
        if view.wants_facts:
            actions.append(Compensate(RATIONED if step.price.rationed else ENOUGH, step.facts()))
        if view.power_actions_allowed:
            actions += self._set_speed(view, step.price.speed)
        return actions

    def schedule(self, view: View) -> Sequence[Action]:
        """At every message: start admitted jobs, wake servers, put idle servers to sleep."""
        if self._risk is not None:
            self._risk.look()
        if self._step is None:
            return ()
        self._expected.learn(view)
        if view.placement is Placement.EXTERNAL:
            return self._offer(view, self._step)
        bids = BidPass(view, self._step, self._expected, self.options.patience, self._lacking_s)
        actions = bids.run()
        if view.power_actions_allowed:
            actions += self._wake(view, bids, self._step.price.speed)
            actions += sleep_after(view, bids, self._wait_s, spare=bids.free - bids.hosts_wanted)
            if math.isfinite(bids.due_s):
                actions.append(CallAt(bids.due_s))
        return actions

    def _offer(self, view: View, step: Step) -> Sequence[Action]:
        """Offer the servers with jobs, and those that the admitted jobs would take at the price.

        While energy is not rationed, also those that have been idle for less than T_wait.
        """
        for job in view.running.values():
            if job.id not in self._committed:
                self._committed.add(job.id)
                walltime_s = self._expected.assumed_walltime_s(job)
                edges_s = step.edges_from(view.now)
                draw_w = self._expected.draw_w(job, walltime_s, step.price.speed, edges_s)
                step.left_w = step.left_w - step.cells.cooled_w(draw_w)
                step.payable.clear()
        left_w = step.left_w  # of the jobs admitted now, whoever places jobs may start others, or none
        bids = BidPass(view, step, self._expected, self.options.patience, self._lacking_s)
        actions: list[Action] = [each for each in bids.run() if not isinstance(each, Start)]
        step.left_w = left_w
        wanted = bids.hosts_wanted + sum(job.res for job in bids.started)
        rule = ADMITTED if step.price.rationed else OFFERED_FOR_QUEUE
        actions += offer_demand(view, self._wait_s, wanted, rule, spare=not step.price.rationed)
        if math.isfinite(bids.due_s):
            actions.append(CallAt(bids.due_s))
        return actions

    def _set_speed(self, view: View, speed: Speed) -> list[Action]:
        """Set all servers that are on to the step's speed."""
        state, pstates = view.host_state, self._fleet.pstate[speed]
        on = (state == IDLE) | (state == BUSY) | (state == SWITCHING_ON)
        wrong = np.flatnonzero(on & view.available & (view.pstate != pstates[view.platform.kind_of]))
        facts: FactDict = {"speed": speed.name.lower()}
        return [
            SetPState(HostSet(hosts), pstate, SPEED, facts)
            for hosts, pstate in by_target(view, wrong, pstates)
        ]

    def _wake(self, view: View, bids: BidPass, speed: Speed) -> list[Action]:
        """Wake servers, directly to the step's speed, for jobs that have waited long enough."""
        if bids.hosts_wanted <= bids.free + bids.waking:
            return []
        requested = view.wake_requested()
        awaited = bids.free + bids.waking + int(np.count_nonzero(requested))
        asleep = np.flatnonzero((view.host_state == ASLEEP) & view.available & ~requested)
        why: FactDict = {"hosts_wanted": bids.hosts_wanted, "hosts_awaited": awaited}
        chosen = self._fleet.best(asleep, max(bids.hosts_wanted - awaited, 0), speed)
        return wake(view, chosen, WANTED, why, self._fleet.pstate[speed])
