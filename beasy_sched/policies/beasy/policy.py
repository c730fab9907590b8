"""BEASY, the battery-aware EASY of the paper: energy tests before starts, and compensation at every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from beasy_sched.engine.actions import Action, Compensate
from beasy_sched.engine.policy import Options, Policy, View
from beasy_sched.model.cluster import HostState
from beasy_sched.plan.forecast import Predictions
from beasy_sched.policies.beasy.cells import compensation_j
from beasy_sched.policies.beasy.plan import LivePlan, battery_j
from beasy_sched.policies.beasy.speeds import Lowering, Spending
from beasy_sched.policies.beasy.starts import BeasyPass
from beasy_sched.policies.easy import largest_slowdown, smallest_size
from beasy_sched.policies.follow_plan import PlanFollower, offline_plans
from beasy_sched.policies.switching import sleep


class BeasyOptions(Options, frozen=True):
    """Options of `beasy`, for ablation studies."""

    idle_power: bool = False
    """Whether the energy test counts idle servers at idle power instead of the plan's worst case."""
    release: Literal["offer", "at-once"] = "offer"
    """Whether servers of a job that ends early are offered to the queue first, or go back to their planned
    states at once."""
    compensate: bool = True
    """Whether to compensate at every step."""
    user_error: float = 1.0
    """Share of its walltime that a job is assumed to need at the reference speed (epsilon_u, Eq. 3.29)."""


class CurrentWindow(NamedTuple):
    """The present window, with its nine curves."""

    number: int
    start_step: int
    predictions: Predictions

    def place(self, step: int) -> int:
        """Return the number of a step of the plan within the window."""
        return step - self.start_step

    def dangerous(self, step: int) -> bool:
        """Whether ``step`` of the plan is dangerous, so that small jobs go first."""
        return bool(self.predictions.dangerous[self.place(step)])


class Beasy(Policy):
    """BEASY (Section IV of the paper)."""

    name = "beasy"
    summary = "EASY that starts only jobs for which the plan has energy; compensates at every step"
    needs_power = True
    needs_plan = True
    needs_speeds = True
    options_type = BeasyOptions
    options: BeasyOptions

    def begin(self, view: View) -> None:
        """Copy the plan."""
        self.live = LivePlan(view, idle_power=self.options.idle_power, user_error=self.options.user_error)
        self._follower = PlanFollower(view, self.live.plan)
        self._window: CurrentWindow | None = None
        self._seen: tuple[int, int] = (-1, -1)
        self._last_pass_s = 0.0

    # --- every step ---------------------------------------------------------------------------------------

    def power_actions(self, view: View) -> Sequence[Action]:
        """Compensate, then bring the servers to their states in the changed plan."""
        step = None if view.budget is None else self.live.plan.step_at(view.budget.start_s)
        if view.budget is None or step is None:
            return ()
        window = self._enter_window(view, step)
        self.live.plan.set_production(step, view.budget.renew_w)
        self.live.settle_ends(view, step)
        self.live.count_work(view)
        self._seen = (-1, -1)
        if not view.power_actions_allowed:
            return ()
        told: list[Action] = []
        if self.options.compensate and window is not None:
            told.append(self._compensate(view, step, window))
        may_change = np.logical_and(view.available, self.live.plan.on[step] | (self.live.until <= step))
        return [*told, *self._follower.follow(view, step, may_change)]  # busy servers never sleep

    def _enter_window(self, view: View, step: int) -> CurrentWindow | None:
        """Compute the nine curves at the start of each window."""
        plans = offline_plans(view)
        place = plans.place(self.live.plan.start_of(step))
        if place is not None and (self._window is None or place.window != self._window.number):
            predictions = plans[place.window].predictions(battery_j(view))
            self._window = CurrentWindow(place.window, step - place.step, predictions)
        return self._window

    def _compensate(self, view: View, step: int, window: CurrentWindow) -> Compensate:
        """Spend a surplus or make up for a shortage, and report it."""
        live, predictions = self.live, window.predictions
        window_end = window.start_step + len(predictions.below)
        rest = live.rest(view, step, window_end)
        diff_j, planned_j = rest.diff_j, float(rest.demand_j.sum())
        dangerous = window.dangerous(step)
        why = {
            "diff_j": diff_j,
            "comp_j": compensation_j(rest.battery, diff_j),
            "window_end_s": live.plan.start_of(window_end),
            "dangerous": int(dangerous),
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
            spending.wake(self._wishes(view, dangerous), idle, asleep)
            why["spent_on_wakes_j"] = why["spendable_j"] - why["spent_on_jobs_j"] - spending.left_j
        else:
            present = window.place(step)
            violation = predictions.violation_step(present)
            Lowering(rest, live.cells, live.ladder, violation - present).lower(jobs)
            why["saved_j"] = planned_j - float(rest.demand_j.sum())
            why["violation_at_s"] = live.plan.start_of(window.start_step + violation)
            why["curves_below"] = int(predictions.below[violation])
        live.adopt(step, rest)
        return Compensate("surplus" if diff_j > 0.0 else "shortage", why)

    def _wishes(self, view: View, dangerous: bool) -> Iterable[tuple[int, int]]:
        """Return the waiting jobs in order P_R, with the steps that they take, including waking."""
        queue = view.queue
        if not len(queue):
            return []
        order = smallest_size if dangerous else largest_slowdown
        wake_s = float(view.power_model.on_s.max())
        places = order(queue, queue.places(), view.now)
        places = places[np.isfinite(queue.walltime_s[places])]
        rows = np.ceil((wake_s + queue.walltime_s[places]) / self.live.plan.step_s).astype(np.intp)
        res = queue.res[places]
        return zip(res.tolist(), rows.tolist(), strict=True)

    # --- every event --------------------------------------------------------------------------------------

    def schedule(self, view: View) -> Sequence[Action]:
        """Run Algorithm 1 if something has changed, and put idle servers to sleep that pay for starts."""
        step = self.live.plan.step_at(view.now)
        if step is None or self._window is None:
            return ()
        self.live.settle_ends(view, step)
        if self.options.release == "at-once":
            self.live.give_back(view, step)
        actions: list[Action] = []
        if len(view.queue) and (view.arrived or self._seen != (step, view.openings)):
            dangerous = self._window.dangerous(step)
            actions = BeasyPass(view, self.live, step, dangerous, self._last_pass_s).run()
            self._last_pass_s = view.now
        self._seen = (step, view.openings)
        self.live.give_back(view, step)
        return [*actions, *self._let_sleep(view, step)]

    def _let_sleep(self, view: View, step: int) -> list[Action]:
        """Put idle servers to sleep that are asleep in the changed plan in the present step."""
        if not view.power_actions_allowed:
            return []
        plan = self.live.plan
        done = np.logical_and(view.free_mask(), ~plan.on[step]) & (self.live.until <= step)
        hosts = np.flatnonzero(np.logical_and(done, view.host_state == HostState.IDLE))
        self._follower.asked[hosts] = plan.sleep[hosts]
        return sleep(view, hosts, "the plan has it asleep") if len(hosts) else []
