"""BEASY, the battery-aware EASY of the paper: energy-tested starts, and compensation at every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from beasy_sched.engine.actions import Action, Compensate
from beasy_sched.engine.policy import Options, Policy, View
from beasy_sched.model.cluster import HostState
from beasy_sched.plan.forecast import Predictions
from beasy_sched.policies.beasy.cells import compensation_j
from beasy_sched.policies.beasy.plan import LivePlan
from beasy_sched.policies.beasy.speeds import Lowering, Spending
from beasy_sched.policies.beasy.starts import BeasyPass
from beasy_sched.policies.easy import largest_slowdown, sleep, smallest_size
from beasy_sched.policies.follow_plan import planned_states


class BeasyOptions(Options, frozen=True):
    """Options of `beasy`, for ablation."""

    idle_power: bool = False
    """In the energy test, count servers without a job at idle power, not at the plan's worst case."""
    release: Literal["offer", "at-once"] = "offer"
    """When a job ends early, offer the rest of its servers' steps to the queue before they go back to
    what the plan had, or give them back at once."""
    compensate: bool = True
    """Whether to compensate at every step."""
    user_error: float = 1.0
    """How much of its walltime a job is taken to need at the reference speed (epsilon_u, Eq. 3.29)."""


class Beasy(Policy):
    """BEASY (Section IV of the paper)."""

    name = "beasy"
    summary = "EASY whose starts the plan must be able to pay for; compensates at every step"
    needs_power = True
    needs_plan = True
    needs_speeds = True
    options_type = BeasyOptions
    options: BeasyOptions

    def begin(self, view: View) -> None:
        """Copy the plan."""
        self.live = LivePlan(view, idle_power=self.options.idle_power, user_error=self.options.user_error)
        self._window = -1
        self._window_start = 0
        self._predictions: Predictions | None = None
        self._asked = view.pstate.copy()
        self._seen: tuple[int, int] = (-1, -1)
        self._last_pass_s = 0.0

    # --- every step ---------------------------------------------------------------------------------------

    def power_actions(self, view: View) -> Sequence[Action]:
        """Compensate, then bring the servers to the states that the changed plan has for this step."""
        assert view.budget is not None
        step = self.live.plan.step_at(view.budget.start_s)
        if step is None:
            return ()
        self._predict(view, step)
        self.live.plan.set_production(step, view.budget.renew_w)
        self.live.settle_ends(view, step)
        self.live.count_work(view)
        self._seen = (-1, -1)
        if not view.power_actions_allowed:
            return ()
        told = [self._compensate(view, step)] if self.options.compensate else []
        return [*told, *self._follow(view, step)]

    def _predict(self, view: View, step: int) -> None:
        """Make the nine curves once a window, at its start."""
        assert view.plans is not None
        assert view.storage_state is not None
        place = view.plans.place(self.live.plan.start_of(step))
        if place is not None and place.window != self._window:
            self._window, self._window_start = place.window, step - place.step
            self._predictions = view.plans[place.window].predictions(view.storage_state.battery_j)

    def _compensate(self, view: View, step: int) -> Compensate:
        """Spend a surplus or make up for a shortage, and say so."""
        assert self._predictions is not None
        live, present = self.live, step - self._window_start
        window_end = self._window_start + len(self._predictions.below)
        rest = live.rest(view, step, window_end)
        diff_j, planned_j = rest.diff_j, float(rest.demand_j.sum())
        why = {
            "diff_j": diff_j,
            "comp_j": compensation_j(rest.battery, diff_j),
            "window_end_s": live.plan.start_of(window_end),
            "dangerous": int(self._dangerous(present)),
        }
        jobs = live.running_jobs(view)
        if diff_j > 0.0:
            spending = Spending(rest, live.cells, live.ladder)
            why["spendable_j"] = spending.left_j
            spending.speed_up(jobs)
            why["spent_on_jobs_j"] = why["spendable_j"] - spending.left_j
            free = np.logical_and(live.until <= step, view.available)
            idle = int(np.count_nonzero(free & live.plan.on[step]))
            asleep = np.flatnonzero(free & ~live.plan.on[step])
            spending.wake(self._wishes(view, present), idle, asleep)
            why["spent_on_wakes_j"] = why["spendable_j"] - why["spent_on_jobs_j"] - spending.left_j
        else:
            violation = self._predictions.violation_step(present)
            Lowering(rest, live.cells, live.ladder, violation - present).lower(jobs)
            why["saved_j"] = planned_j - float(rest.demand_j.sum())
            why["violation_at_s"] = live.plan.start_of(self._window_start + violation)
            why["curves_below"] = int(self._predictions.below[violation])
        live.adopt(step, rest)
        return Compensate("surplus" if diff_j > 0.0 else "shortage", why)

    def _wishes(self, view: View, present: int) -> Iterable[tuple[int, int]]:
        """The waiting jobs in order P_R, with the steps that they take, the waking included."""
        queue = view.queue
        if not len(queue):
            return []
        order = smallest_size if self._dangerous(present) else largest_slowdown
        wake_s = float(view.power_model.on_s.max())
        places = order(queue, queue.places(), view.now)
        places = places[np.isfinite(queue.walltime_s[places])]
        rows = np.ceil((wake_s + queue.walltime_s[places]) / self.live.plan.step_s).astype(np.intp)
        res = queue.res[places]
        return zip(res.tolist(), rows.tolist(), strict=True)

    def _dangerous(self, present: int) -> bool:
        assert self._predictions is not None
        return bool(self._predictions.dangerous[present])

    def _follow(self, view: View, step: int) -> list[Action]:
        """P-states that bring every server to its planned state; one with a job never sleeps."""
        planned, on = self.live.plan.states[step], self.live.plan.on[step]
        pending = np.where(on, view.sleep_wished(), view.waking_wished())
        differs = (view.pstate != planned) | (self._asked != planned) | pending
        may = np.logical_and(view.available, on | (self.live.until <= step))
        hosts = np.flatnonzero(np.logical_and(differs, may))
        self._asked[hosts] = planned[hosts]
        return planned_states(view, self.live.plan, step, hosts)

    # --- every event --------------------------------------------------------------------------------------

    def schedule(self, view: View) -> Sequence[Action]:
        """Run Algorithm 1 where something has changed, and let idle servers sleep that pay for it."""
        step = self.live.plan.step_at(view.now)
        if step is None or self._predictions is None:
            return ()
        self.live.settle_ends(view, step)
        if self.options.release == "at-once":
            self.live.give_back(view, step)
        actions: list[Action] = []
        if len(view.queue) and (view.arrived or self._seen != (step, view.openings)):
            dangerous = self._dangerous(step - self._window_start)
            one = BeasyPass(view, self.live, step, dangerous=dangerous, last_pass_s=self._last_pass_s)
            actions = one.run()
            self._last_pass_s = view.now
        self._seen = (step, view.openings)
        self.live.give_back(view, step)
        return [*actions, *self._let_sleep(view, step)]

    def _let_sleep(self, view: View, step: int) -> list[Action]:
        """Put idle servers to sleep that the changed plan has asleep in the present step."""
        if not view.power_actions_allowed:
            return []
        plan = self.live.plan
        done = np.logical_and(view.free_mask(), ~plan.on[step]) & (self.live.until <= step)
        hosts = np.flatnonzero(np.logical_and(done, view.host_state == HostState.IDLE))
        self._asked[hosts] = plan.sleep[hosts]
        return sleep(view, hosts, "the plan has it asleep") if len(hosts) else []
