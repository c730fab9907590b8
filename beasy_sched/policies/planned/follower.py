"""Following a plan: the current window, and bringing the servers into their planned states."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import (
    BoolArray,
    FloatArray,
    distinct,
)
from beasy_sched.engine.actions import Action, FactDict, SetPState
from beasy_sched.engine.policy import View
from beasy_sched.engine.session_words import Rule, Words
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.quantiles import PowerBand
from beasy_sched.model.host_states import SWITCHING_ON
from beasy_sched.model.hosts import HostSet
from beasy_sched.planner.forecast import Predictions
from beasy_sched.planner.plan import BOUNDS_LEVEL, PlanStore
from beasy_sched.policies.planned.working_plan import WorkingPlan

PLANNED: Final = Rule(
    "P-state",
    "planned",
    Words(
        "As planned[, changed online for {hosts_replanned} of them]"
        "[: all servers draw up to {planned_w} in the step]."
    ),
)


def offline_plans(view: View) -> PlanStore:
    """Return the offline plans of the run's windows. Raises ConfigError if there are none."""
    if view.plans is None:
        raise ConfigError("the policy requires an offline plan: pass --plan FILE")
    return view.plans


def battery_j(view: View) -> float:
    """Return the actual battery level at the start of the step, J. Raises ConfigError without a site."""
    if view.storage_state is None:
        raise ConfigError("the policy requires a site: pass --site FILE")
    return view.storage_state.battery_j


class CurrentWindow(NamedTuple):
    """Current window, with its nine curves."""

    number: int
    start_step: int
    predictions: Predictions

    def dangerous(self, step: int) -> bool:
        """Whether ``step`` of the plan is dangerous: more than half of the curves are below SoC_min."""
        return bool(self.predictions.dangerous[step - self.start_step])


def enter_window(
    view: View,
    plan: WorkingPlan,
    step: int,
    known: CurrentWindow | None,
    production: PowerBand | None = None,
    level: float = BOUNDS_LEVEL,
) -> CurrentWindow | None:
    """Return the window of ``step``: ``known`` if it is still current, else a new one from the current level.

    Outside all windows, ``known``. ``production``: expected production from ``step`` on, if it differs from
    the plan's; ``level``: quantile level of the low demand, if the demand has quantiles.
    """
    plans = offline_plans(view)
    place = plans.place(plan.start_of(step))
    if place is None or (known is not None and place.window == known.number):
        return known
    expected = None if place.step else production
    predictions = plans[place.window].predictions(battery_j(view), expected, level)
    return CurrentWindow(place.window, step - place.step, predictions)


def know_step(view: View, plan: WorkingPlan, step: int) -> None:
    """Put into ``plan`` what is known in ``step``: its production, and the load besides the servers ahead."""
    if view.budget is not None:
        plan.set_production(step, view.budget.renew_w)
    if view.site is not None and view.site.has_load_ahead:
        steps = plan.horizon(step) - step
        edges_s = plan.start_of(step) + plan.step_s * np.arange(steps + 1, dtype=np.float64)
        plan.set_beside(step, view.site.load_ahead(view.now, edges_s))


class PlanFollower:
    """Brings servers into the states of a working plan."""

    def __init__(self, view: View, plan: WorkingPlan) -> None:
        """Follow ``plan``, a copy of the offline plan that others may change."""
        self.plan = plan
        self.asked = view.pstate.copy()
        """State last requested, by host."""

    def follow(self, view: View, step: int, may_change: BoolArray) -> list[Action]:
        """Bring servers that ``may_change`` to their states in ``step``: one action per P-state.

        Its facts have the number of them that differ from the offline plan.
        """
        plan = self.plan
        planned, on = plan.states[step], plan.on[step]
        pending = np.where(on, view.sleep_requested(), view.wake_requested())
        differs = (view.pstate != planned) | (self.asked != planned) | pending
        differs &= may_change
        hosts = differs.nonzero()[0]
        if not len(hosts):
            return []
        states = planned[hosts]
        self.asked[hosts] = states
        replanned = states != plan.offline(step)[hosts]
        planned_w = float(plan.energy_j[step]) / plan.step_s
        actions: list[Action] = []
        for pstate in distinct(states):
            mine = states == pstate
            why: FactDict = {"planned_w": planned_w}
            changed = int(np.count_nonzero(replanned & mine))
            if changed:
                why["hosts_replanned"] = changed
            actions.append(SetPState(HostSet(hosts[mine]), pstate, PLANNED, why))
        return actions


def ready_s(view: View, plan: WorkingPlan, step: int, free: BoolArray, ends_s: FloatArray) -> FloatArray:
    """Return the earliest time at which each server could take a job if it is planned on, s.

    ``free`` servers (N) can now, others when their jobs end (``ends_s``, minus infinity without a job). A
    server that is asleep for lack of energy wakes at the next step at the earliest.
    """
    on_s = view.power_model.on_s[view.platform.kind_of]
    times_s = plan.start_of(step + 1) + on_s
    if np.count_nonzero(view.state_counts[:, SWITCHING_ON]):
        times_s = np.where(view.host_state == SWITCHING_ON, view.state_since_s + on_s, times_s)
    times_s[free] = view.now
    return np.where(ends_s > -np.inf, np.maximum(ends_s, view.now), times_s)
