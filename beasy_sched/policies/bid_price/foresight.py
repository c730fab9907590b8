"""What is predicted of production and demand, step by step to the end of the horizon.

From the offline plans where there are any, otherwise from the predictions of the production that a policy
may see, or else from what has been seen so far.
"""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Hold
from beasy_sched.engine.policy import View
from beasy_sched.plan.forecast import Uncertainty, draw_by_busy_w
from beasy_sched.units import SECONDS_PER_DAY, TIME_TOLERANCE_S

_UNSEEN_UNCERTAINTY: Final = 0.3
"""Uncertainty of production that is only expected to be as it was a day before."""


class ForeseenSteps(NamedTuple):
    """Predictions from the present step on, one value a step."""

    renew_w: FloatArray
    uncertainty: FloatArray
    given_w: FloatArray
    """What hydrogen gives beside the production, less the base load; below 0 where it takes more."""
    held_w: FloatArray
    """What a fuel cell gives, too, as far as the battery is not above its planned level."""
    planned_j: FloatArray
    """That level at the end of each step, J."""
    flops: FloatArray | None
    """Work of all jobs that run then, flops/s; None where no demand is predicted."""


class Foresight:
    """Looks ahead, and remembers what it saw."""

    def __init__(self, view: View, site: Site, production: Literal["plan", "forecast"] = "plan") -> None:
        """Look through ``view``; ``production``: what counts where there are both."""
        self._view, self._site = view, site
        self._from_plan = production == "plan" or view.outlook is None
        self._seen_w: list[float] = []
        self._next: tuple[float, float] = (0.0, 0.0)
        self.present: tuple[float, float] = (0.0, 0.0)
        """Production (W) predicted for the present step, and its uncertainty; 0 where none was."""
        hydrogen = site.storage.hydrogen
        self._holds = hydrogen is not None and hydrogen.hold is Hold.SURPLUS
        self._draw_w = draw_by_busy_w(view.platform)
        platform = view.platform
        speeds = np.array([max(kind.speeds_flops[p] for p in kind.computing) for kind in platform.kinds])
        by_speed = np.sort(speeds[platform.kind_of])[::-1]
        self._flops = np.concatenate(([0.0], np.cumsum(by_speed)))

    def end_s(self, now: float) -> float:
        """End of the horizon: of the last planned window, or else of the present one, s."""
        if now < self._view.planned_until_s - TIME_TOLERANCE_S:
            return self._view.planned_until_s
        window_s = self._site.window_s
        return min((math.floor((now + TIME_TOLERANCE_S) / window_s) + 1) * window_s, self._view.end_s)

    def window_ends_s(self, now: float) -> list[float]:
        """Ends of windows within the horizon but for its own end, s."""
        first_s, until_s = now + TIME_TOLERANCE_S, self._view.planned_until_s - TIME_TOLERANCE_S
        return [plan.end_s for plan in self._view.plans or () if first_s < plan.end_s < until_s]

    def look(self, now: float, steps: int, actual_w: float) -> ForeseenSteps:
        """Predict ``steps`` steps from the one that begins at ``now``, which has ``actual_w``."""
        self._seen_w.append(actual_w)
        foreseen = self._foreseen(now, steps)
        renew_w, uncertainty = foreseen.renew_w, foreseen.uncertainty
        self.present = self._next
        if self._from_plan and self._is_planned(now):
            self.present = float(renew_w[0]), float(uncertainty[0])
        self._next = (float(renew_w[1]), float(uncertainty[1])) if steps > 1 else (0.0, 0.0)
        return foreseen

    def _is_planned(self, now: float) -> bool:
        plans = self._view.plans
        starts = plans is not None and plans.start_s - TIME_TOLERANCE_S <= now
        return starts and now < self._view.planned_until_s - TIME_TOLERANCE_S

    def _foreseen(self, now: float, steps: int) -> ForeseenSteps:
        planned = self._planned(now, steps) if self._is_planned(now) else None
        if planned is not None and self._from_plan:
            return planned
        step_s = self._site.step_s
        if self._view.outlook is not None:
            renew_w = self._view.outlook.renewable_w(now, step_s, steps)
            uncertainty = Uncertainty().over(steps, step_s)
        else:
            renew_w, uncertainty = self._as_before(steps), np.full(steps, _UNSEEN_UNCERTAINTY)
        if planned is not None:
            return planned._replace(renew_w=renew_w, uncertainty=uncertainty)
        nothing_w = np.zeros(steps)
        return ForeseenSteps(renew_w, uncertainty, nothing_w - self._site.base_w, nothing_w, nothing_w, None)

    def _planned(self, now: float, steps: int) -> ForeseenSteps:
        columns: list[list[FloatArray]] = [[], [], [], [], [], []]
        for plan in self._view.plans or ():
            first = max(round((now - plan.start_s) / plan.step_s), 0)
            if first >= plan.steps:
                continue
            power = plan.power
            held_w = power.fuel_cell_w if self._holds else np.zeros(plan.steps)
            given_w = power.fuel_cell_w - held_w - power.electrolyzer_w - self._site.base_w
            busy = np.interp(power.load_w[first:], self._draw_w, np.arange(len(self._draw_w)))
            flops = np.interp(busy, np.arange(len(self._flops)), self._flops)
            of_plan = power.renew_w, plan.renew_uncertainty, given_w, held_w, power.battery_j[1:]
            parts = [*(values[first:] for values in of_plan), flops]
            for column, part in zip(columns, parts, strict=True):
                column.append(part)
        return ForeseenSteps(*(np.concatenate(column)[:steps] for column in columns))

    def _as_before(self, steps: int) -> FloatArray:
        """Production of the same time a day before, or the mean so far."""
        seen = np.array(self._seen_w)
        day = round(SECONDS_PER_DAY / self._site.step_s)
        if len(seen) <= day:
            return np.full(steps, float(seen.mean()))
        return np.resize(seen[-day - 1 : -1], steps)
