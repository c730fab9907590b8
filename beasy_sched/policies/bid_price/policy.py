"""`bid-price`: a price of energy decides which jobs may start; servers follow the queue.

Receding-horizon bid-price admission with EASY backfilling: bid prices of revenue management, re-solved at
each step, as certainty-equivalent model predictive control of the storage. docs/bid-price.md describes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.energy.site import GuardMode
from beasy_sched.engine.actions import Action, CallAt, Compensate, FactDict, Kill, SetPState
from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.policy import Policy, View
from beasy_sched.errors import ConfigError
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE, SWITCHING_ON
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.policies.bid_price.admission import BidPass, LackingHosts
from beasy_sched.policies.bid_price.estimators import RunTimes
from beasy_sched.policies.bid_price.jobs import Expected, Speed, TwoSpeedFleet
from beasy_sched.policies.bid_price.step import BidPriceOptions, Step, StepMaker
from beasy_sched.policies.bid_price.words import BID_PRICE_WORDS
from beasy_sched.policies.easy import break_even_s, sleep, wake
from beasy_sched.units import TIME_TOLERANCE_S

RATIONED: Final = "energy is rationed"
ENOUGH: Final = "energy is enough"
SPEED: Final = "speed of the step"
SAVED: Final = "no energy for it in the step"
SPARED: Final = "ended before the guard ends all jobs"
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
        learns = self.options.learn_run_times
        run_times = RunTimes(learns=learns, most=self._fleet.most_share)
        self._expected = Expected(self._fleet, run_times, RunTimes(learns=learns))
        self._maker = StepMaker(view, view.site, self._fleet, self._expected, self.options)
        self._step: Step | None = None
        self._told = True
        self._last: BidPass | None = None
        self._openings = -1
        self._lacking = LackingHosts()
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
        return actions + self._spare(view, view.budget)

    def _spare(self, view: View, budget: StepBudget) -> list[Action]:
        """End jobs for which there is no energy in the step, as few as suffice, before a guard ends them all.

        Those that have done least work go first. A guard that sheds does as much itself, and puts idle
        servers to sleep before.
        """
        site = view.site
        if site is None or site.guard.mode is not GuardMode.KILL_ALL or budget.headroom_j >= 0.0:
            return []
        idle = np.flatnonzero((view.host_state == IDLE) & view.available)
        saves_j = self._sleep_saves_j(view, budget.remaining_s)
        idle = idle[saves_j[idle] > 0.0]
        missing_j = -budget.headroom_j - float(saves_j[idle].sum())
        jobs = [*view.running.values()]
        done = view.progress(jobs).work_flops * [job.res for job in jobs]
        actions: list[Action] = sleep(view, idle, SAVED, {"missing_j": -budget.headroom_j})
        for row in np.argsort(done, kind="stable").tolist():
            if missing_j <= 0.0:
                break
            hosts = jobs[row].hosts.ids
            saved_j = float(saves_j[hosts].sum())
            if jobs[row].computes:
                saved_j += budget.start_cost_j(hosts)
            missing_j -= saved_j
            actions.append(Kill(jobs[row], SPARED, {"missing_j": -budget.headroom_j, "saves_j": saved_j}))
            actions += sleep(view, hosts, SAVED, {"missing_j": -budget.headroom_j})
        return actions

    def _sleep_saves_j(self, view: View, dt_s: float) -> FloatArray:
        """What each server saves over ``dt_s`` if it falls asleep instead of idling, J."""
        power, kinds = view.power_model, view.platform.kind_of
        off_s = np.minimum(power.off_s[kinds], dt_s)
        rests_j = power.sleep_w[kinds] * (dt_s - off_s) + power.off_w[kinds] * off_s
        saves_j: FloatArray = power.idle_w[kinds, view.pstate] * dt_s - rests_j
        return np.where(power.can_sleep[kinds], saves_j, 0.0)

    def _set_speed(self, view: View, speed: Speed) -> list[Action]:
        """Set all servers that are on to the step's speed, except those of urgent jobs."""
        state, targets = view.host_state, self._fleet.targets(speed)
        on: BoolArray = (state == IDLE) | (state == BUSY) | (state == SWITCHING_ON)
        for job in self._expected.urgent_of([*view.running.values()]):
            on[job.hosts.ids] = False
        wrong = np.flatnonzero(on & view.available & (view.pstate != targets))
        return _speeds(wrong, targets[wrong], SPEED, {"speed": speed.name.lower()})

    # --- every event --------------------------------------------------------------------------------------

    def schedule(self, view: View) -> Sequence[Action]:
        """Start what may start, wake servers for jobs that have waited enough, let idle servers sleep."""
        step = self._step
        if step is None:
            return ()
        self._expected.learn(view)
        self._expected.arrive(view, step.left_s(view.now))
        tells, self._told = not self._told and view.wants_facts, True
        easy = BidPass(view, step, self._expected, self.options, self._lacking, tells=tells)
        last, self._last = self._last, easy
        if last is not None and last.still_holds(easy, self._openings):
            actions = easy.go_on(last)
        else:
            actions = easy.run()
        self._openings = view.availability_version
        if not view.power_actions_allowed:
            return actions
        due_s = [easy.due_s]
        actions += self._wake(view, easy, step)
        actions += self._let_sleep(view, easy, step, due_s)
        if math.isfinite(next_s := min(due_s)):
            actions.append(CallAt(next_s))
        return actions

    def _wake(self, view: View, easy: BidPass, step: Step) -> list[Action]:
        """Wake servers, straight to the step's speed, for jobs that have waited for long enough."""
        if easy.hosts_wanted <= easy.free + easy.waking:
            return []
        requested = view.wake_requested()
        awaited = easy.free + easy.waking + int(np.count_nonzero(requested))
        asleep = np.flatnonzero((view.host_state == ASLEEP) & view.available & ~requested)
        missing = easy.hosts_wanted - awaited
        if missing <= 0 or not len(asleep):
            return []
        why: FactDict = {"hosts_wanted": easy.hosts_wanted, "hosts_awaited": awaited}
        pstates = self._fleet.pstate[step.price.speed]
        chosen = self._fleet.best(asleep, missing, step.price.speed)
        return wake(view, chosen, "waiting jobs want it", why, pstates)

    def _let_sleep(self, view: View, easy: BidPass, step: Step, due_s: list[float]) -> list[Action]:
        """Put idle servers to sleep that no job wants: those of the highest ids first.

        At once those that new jobs will hardly ask for before sleep pays, the others when it has paid; so do
        those that a job will want when running ones have ended. Adds to ``due_s`` when the next are due.
        """
        spare = easy.free - easy.hosts_wanted
        idle = np.flatnonzero(easy.free_mask() & (view.host_state == IDLE))[::-1]
        share = _RATIONED_REST if step.price.rationed else 1.0
        rest_s = share * self._break_even_s[view.platform.kind_of[idle]]
        idle, rest_s = idle[np.isfinite(rest_s)], rest_s[np.isfinite(rest_s)]
        if spare <= 0 or not len(idle):
            return []
        soon = math.ceil(self._expected.arrivals.hosts_soon(view.now, float(rest_s.max())))
        ends_s = view.state_since_s[idle] + rest_s
        ripe = ends_s <= view.now + TIME_TOLERANCE_S
        due_s.append(float(ends_s[~ripe].min(initial=math.inf)))
        at_once = np.arange(len(idle)) < spare - easy.hosts_held - soon
        chosen = np.sort(idle[ripe | at_once][:spare])
        why: FactDict = {"hosts_soon": soon, "t_wait_s": float(rest_s.max())}
        return sleep(view, chosen, NOT_NEEDED, why) if len(chosen) else []


def _speeds(hosts: HostIds, pstates: np.ndarray[Any, Any], rule: str, facts: FactDict) -> list[Action]:
    """Set each of ``hosts`` to its P-state."""
    return [
        SetPState(HostSet(hosts[pstates == pstate]), pstate, rule, facts)
        for pstate in np.unique(pstates).tolist()
    ]
