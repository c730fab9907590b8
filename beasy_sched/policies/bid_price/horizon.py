"""Planning horizon in cells, with its predictions.

Production and demand are predicted step by step: from the offline plans if there are any, otherwise from
the production forecast available to policies, or else from past production.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray
from beasy_sched.energy.devices.hydrogen import Hold
from beasy_sched.energy.site import Site
from beasy_sched.engine.policy import View
from beasy_sched.forecast.uncertainty import Uncertainty
from beasy_sched.planner.forecast import draw_by_busy_w
from beasy_sched.policies.bid_price.estimators import ProductionError
from beasy_sched.units import SECONDS_PER_DAY, TIME_TOLERANCE_S

_FINE: Final = 24
_COARSE: Final = 6
_MIDDLE: Final = 144
"""Number of steps that are separate cells, and number of the following cells of six steps each."""
_FAR: Final = 96
"""Approximate number of cells of the rest."""
_UNSEEN_UNCERTAINTY: Final = 0.3
"""Relative uncertainty of production predicted as that of the previous day."""


class Cells:
    """Cells of whole steps from the current step to the end of the horizon, short ones first."""

    def __init__(self, steps: int, step_s: float, ends: Sequence[int] = ()) -> None:
        """``ends``: steps (from now) at which windows end, and so do cells; ``steps`` is the last one."""
        middle = min(_FINE + _MIDDLE * _COARSE, steps)
        far = max(_COARSE, -(-(steps - middle) // _FAR))
        parts = range(min(_FINE, steps)), range(_FINE, middle, _COARSE), range(middle, steps, far)
        goals = np.array([*ends, steps], dtype=np.intp)
        self.bounds: IndexArray = np.unique(np.concatenate([*map(np.array, parts), goals]).astype(np.intp))
        """First step of each cell, and the end of the last, [n + 1]."""
        self.edge_s: FloatArray = self.bounds.astype(np.float64) * step_s
        """Begin of each cell from now, and the end of the last, s, [n + 1]."""
        self.width_s: FloatArray = np.diff(self.edge_s)
        self.middle_s: FloatArray = self.edge_s[:-1] + 0.5 * self.width_s
        self.goals: IndexArray = np.searchsorted(self.bounds, goals)
        """Indices of the edges that are ends of windows."""
        self.pue: FloatArray | None = None
        """Power of servers and their cooling in each cell, in units of the servers' power; None without."""

    def __len__(self) -> int:
        return len(self.width_s)

    def cooled_w(self, servers_w: FloatArray) -> FloatArray:
        """Return powers of servers by cell with those of their cooling, W."""
        return servers_w if self.pue is None else servers_w * self.pue

    def means(self, per_step: FloatArray) -> FloatArray:
        """Mean of each cell of a quantity by step."""
        sums: FloatArray = np.add.reduceat(per_step, self.bounds[:-1])
        return sums / np.diff(self.bounds)

    def filled(self, counts: FloatArray, until_s: FloatArray) -> FloatArray:
        """Return the sum of ``counts``, each present from now ``until_s``, as the mean of every cell."""
        edge, size = np.searchsorted(self.edge_s, until_s), len(self.edge_s) + 1
        gone = np.cumsum(np.bincount(edge, counts, size))[:-1]
        gone_s = np.cumsum(np.bincount(edge, counts * until_s, size))[:-1]
        until_edge_s = gone_s + self.edge_s * (counts.sum() - gone)
        return np.asarray(np.diff(until_edge_s) / self.width_s)


class ForeseenSteps(NamedTuple):
    """Predictions from the current step on, one value per step."""

    renew_w: FloatArray
    uncertainty: FloatArray
    given_w: FloatArray
    """Hydrogen power in addition to the production, minus the base load and services; negative for a net
    use."""
    held_w: FloatArray
    """Further power of a fuel cell, as long as the battery is not above its planned level."""
    planned_j: FloatArray
    """Planned level at the end of each step, J."""
    flops: FloatArray | None
    """Work of all jobs that run then, flops/s; None without a demand forecast."""
    pue: FloatArray | None = None
    """Power of servers and their cooling, in units of the servers' power; None without cooling."""


class Foresight:
    """Predicts production and demand, and learns the error of its production forecast."""

    def __init__(self, view: View, site: Site, production: Literal["plan", "forecast"] = "plan") -> None:
        """Use ``view``; ``production``: the preferred forecast if there are both."""
        self._view, self._site = view, site
        self._from_plan = production == "plan" or view.outlook is None
        self._errors = ProductionError()
        self._seen_w: list[float] = []
        self._next = (0.0, 0.0)
        """Production (W) and uncertainty predicted for the next step."""
        hydrogen = site.storage.hydrogen
        self._holds = hydrogen is not None and hydrogen.hold is Hold.SURPLUS
        platform = view.platform
        speeds = np.array([max(kind.speeds_flops[p] for p in kind.computing) for kind in platform.kinds])
        by_speed = np.sort(speeds[platform.kind_of])[::-1]
        self._draw_w, self._flops = draw_by_busy_w(platform), np.concatenate(([0.0], np.cumsum(by_speed)))
        """Power and work of 0, 1, ... busy servers."""

    def end_s(self, now: float) -> float:
        """End of the horizon: of the last planned window, or else of the current one, s."""
        if now < self._view.planned_until_s - TIME_TOLERANCE_S:
            return self._view.planned_until_s
        window_s = self._site.window_s
        return min((math.floor((now + TIME_TOLERANCE_S) / window_s) + 1) * window_s, self._view.end_s)

    def cells(self, now: float) -> Cells:
        """Divide the horizon; cells end where planned windows do."""
        first_s, until_s, step_s = now + TIME_TOLERANCE_S, self.end_s(now), self._site.step_s
        ends_s = [plan.end_s for plan in self._view.plans or ()]
        inside_s = [end_s for end_s in ends_s if first_s < end_s < until_s - TIME_TOLERANCE_S]
        steps = max(round((until_s - now) / step_s), 1)
        return Cells(steps, step_s, [round((end_s - now) / step_s) for end_s in inside_s])

    def look(self, now: float, steps: int, present_w: float) -> ForeseenSteps:
        """Predict ``steps`` steps from the one that begins at ``now``, which has ``present_w``."""
        self._errors.add(present_w, *self._next)
        self._seen_w.append(present_w)
        foreseen = self._foreseen(now, steps)
        follows = steps > 1
        self._next = (float(foreseen.renew_w[1]), float(foreseen.uncertainty[1])) if follows else (0.0, 0.0)
        return foreseen

    def supply_w(self, foreseen: ForeseenSteps, cells: Cells, sigmas: float) -> FloatArray:
        """Return production minus a number of standard errors, plus hydrogen power, W by cell."""
        renew_w = self._errors.expected_w(foreseen.renew_w, foreseen.uncertainty, sigmas)
        renew_w[0] = self._seen_w[-1]
        return cells.means(renew_w + foreseen.given_w)

    def _foreseen(self, now: float, steps: int) -> ForeseenSteps:
        foreseen = self._without_load(now, steps)
        edges_s = now + self._site.step_s * np.arange(len(foreseen.renew_w) + 1, dtype=np.float64)
        site_load = self._site.load_ahead(now, edges_s)
        return foreseen._replace(given_w=foreseen.given_w - site_load.always_w, pue=site_load.pue)

    def _without_load(self, now: float, steps: int) -> ForeseenSteps:
        """Predict all but the load besides the servers."""
        plans, step_s = self._view.plans, self._site.step_s
        started = plans is not None and plans.start_s - TIME_TOLERANCE_S <= now
        is_planned = started and now < self._view.planned_until_s - TIME_TOLERANCE_S
        planned = self._planned(now, steps) if is_planned else None
        if planned is not None and self._from_plan:
            return planned
        if self._view.outlook is not None:
            renew_w = self._view.outlook.renewable_w(now, step_s, steps)
            uncertainty = Uncertainty().over(steps, step_s)
        else:
            renew_w, uncertainty = self._as_before(steps), np.full(steps, _UNSEEN_UNCERTAINTY)
        if planned is not None:
            return planned._replace(renew_w=renew_w, uncertainty=uncertainty)
        nothing_w = np.zeros(steps)
        return ForeseenSteps(renew_w, uncertainty, nothing_w, nothing_w, nothing_w, None)

    def _planned(self, now: float, steps: int) -> ForeseenSteps:
        columns = []
        for plan in self._view.plans or ():
            first = max(round((now - plan.start_s) / plan.step_s), 0)
            if first >= plan.steps:
                continue
            power = plan.power
            held_w = power.fuel_cell_w if self._holds else np.zeros(plan.steps)
            given_w = power.with_others(power.fuel_cell_w - held_w - power.electrolyzer_w)
            flops = np.interp(power.load_w, self._draw_w, self._flops)
            column = power.renew_w, plan.renew_uncertainty, given_w, held_w, power.battery_j[1:], flops
            columns.append([values[first:] for values in column])
        return ForeseenSteps(*(np.concatenate(parts)[:steps] for parts in zip(*columns, strict=True)))

    def _as_before(self, steps: int) -> FloatArray:
        """Return the production at the same time of the previous day, or the mean so far."""
        seen = np.array(self._seen_w)
        day = round(SECONDS_PER_DAY / self._site.step_s)
        if len(seen) <= day:
            return np.full(steps, float(seen.mean()))
        return np.resize(seen[-day - 1 : -1], steps)
