"""`bid-price`: a price of energy decides which jobs may start; servers follow the queue.

Receding-horizon bid-price admission with EASY backfilling: bid prices of revenue management, re-solved at
each step, as certainty-equivalent model predictive control of the storage (docs/design/bid-price.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from beasy_sched.engine.actions import Action, CallAt, Compensate, FactDict, SetPState
from beasy_sched.engine.policy import Policy, View
from beasy_sched.engine.power_actions import by_target, sleep, wake
from beasy_sched.errors import ConfigError
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE, SWITCHING_ON
from beasy_sched.model.hosts import HostSet
from beasy_sched.policies.bid_price.admission import BidPass
from beasy_sched.policies.bid_price.estimators import RunTimes
from beasy_sched.policies.bid_price.jobs import Expected, Speed, TwoSpeedFleet
from beasy_sched.policies.bid_price.step import BidPriceOptions, Step, StepMaker
from beasy_sched.policies.bid_price.words import BID_PRICE_WORDS
from beasy_sched.policies.easy import WANTED, break_even_s
from beasy_sched.units import TIME_TOLERANCE_S

RATIONED: Final = "energy is rationed"
ENOUGH: Final = "energy is enough"
SPEED: Final = "speed of the step"
NOT_NEEDED: Final = "idle, and not needed soon"
_RATIONED_REST: Final = 0.5
"""Share of the break-even time after which idle servers sleep while energy is rationed."""


class BidPrice(Policy):
    """Starts the jobs whose energy costs no more than a price, which is solved again at each step."""

    name = "bid-price"
    summary = "a price of energy, solved anew at each step, decides which jobs may start"
    words = BID_PRICE_WORDS
    needs_power = True
    needs_speeds = True
    options_type = BidPriceOptions
    options: BidPriceOptions

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        """Read the options. Raises ConfigError."""
        super().__init__(options)
        self.options.check()

    def begin(self, view: View) -> None:
        """Lay out powers and speeds; nothing is known of the jobs yet."""
        if view.site is None:
            raise ConfigError("the policy requires a site: pass --site FILE")
        self._fleet = TwoSpeedFleet(view.platform, view.power_model)
        run_times = RunTimes(learns=self.options.learn_run_times, most=self._fleet.most_share)
        self._expected = Expected(self._fleet, run_times)
        self._maker = StepMaker(view, view.site, self._fleet, self._expected, self.options)
        self._step: Step | None = None
        self._told = True
        self._last: BidPass | None = None
        self._openings = -1
        self._lacking_s: dict[str, float] = {}
        self._break_even_s = np.array([break_even_s(kind) for kind in view.platform.kinds])

    # --- every step ---------------------------------------------------------------------------------------

    def power_actions(self, view: View) -> Sequence[Action]:
        """Solve the price again and set the speed."""
        if view.budget is None or view.storage_state is None:
            return ()
        step = self._step = self._maker.make(view.budget, view.storage_state.battery_j)
        self._told = False
        actions: list[Action] = []
        if view.wants_facts:
            actions.append(Compensate(RATIONED if step.price.rationed else ENOUGH, step.facts()))
        if view.power_actions_allowed:
            actions += self._set_speed(view, step.price.speed)
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

    # --- every event --------------------------------------------------------------------------------------

    def schedule(self, view: View) -> Sequence[Action]:
        """Start what may start, wake servers for jobs that have waited enough, let idle servers sleep."""
        step = self._step
        if step is None:
            return ()
        self._expected.learn(view)
        self._expected.arrive(view, step.left_s(view.now))
        tells, self._told = not self._told and view.wants_facts, True
        easy = BidPass(view, step, self._expected, self.options, self._lacking_s, tells=tells)
        last, self._last = self._last, easy
        if last is not None and last.still_holds(easy, self._openings):
            actions = easy.go_on(last)
        else:
            actions = easy.run()
        self._openings = view.availability_version
        if not view.power_actions_allowed:
            return actions
        actions += self._wake(view, easy, step.price.speed)
        asleep, due_s = self._let_sleep(view, easy, step)
        actions += asleep
        if math.isfinite(next_s := min(due_s, easy.due_s)):
            actions.append(CallAt(next_s))
        return actions

    def _wake(self, view: View, easy: BidPass, speed: Speed) -> list[Action]:
        """Wake servers, straight to the step's speed, for jobs that have waited for long enough."""
        if easy.hosts_wanted <= easy.free + easy.waking:
            return []
        requested = view.wake_requested()
        awaited = easy.free + easy.waking + int(np.count_nonzero(requested))
        asleep = np.flatnonzero((view.host_state == ASLEEP) & view.available & ~requested)
        why: FactDict = {"hosts_wanted": easy.hosts_wanted, "hosts_awaited": awaited}
        chosen = self._fleet.best(asleep, max(easy.hosts_wanted - awaited, 0), speed)
        return wake(view, chosen, WANTED, why, self._fleet.pstate[speed])

    def _let_sleep(self, view: View, easy: BidPass, step: Step) -> tuple[list[Action], float]:
        """Put idle servers to sleep that no job wants: those of the highest ids first.

        At once those that new jobs will hardly ask for before sleep pays, the others when it has paid; so do
        those that a job will want when running ones have ended. Returns also when the next are due, s.
        """
        spare = easy.free - easy.hosts_wanted
        idle = np.flatnonzero(easy.free_mask() & (view.host_state == IDLE))[::-1]
        share = _RATIONED_REST if step.price.rationed else 1.0
        rest_s = share * self._break_even_s[view.platform.kind_of[idle]]
        idle, rest_s = idle[np.isfinite(rest_s)], rest_s[np.isfinite(rest_s)]
        if spare <= 0 or not len(idle):
            return [], math.inf
        soon = math.ceil(self._expected.arrivals.hosts_soon(view.now, float(rest_s.max())))
        ends_s = view.state_since_s[idle] + rest_s
        ripe = ends_s <= view.now + TIME_TOLERANCE_S
        at_once = np.arange(len(idle)) < spare - easy.hosts_held - soon
        chosen = np.sort(idle[ripe | at_once][:spare])
        why: FactDict = {"hosts_soon": soon, "t_wait_s": float(rest_s.max())}
        return sleep(view, chosen, NOT_NEEDED, why), float(ends_s[~ripe].min(initial=math.inf))
