"""What the battery may do in a window: the nine curves of BEASY (Section IV-A of the paper).

Made once, at the start of a window, from {low, median, high} demand x {low, median, high} production.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray
from beasy_sched.energy.storage import BatterySpec, project_levels_j
from beasy_sched.plan.forecast import Forecast
from beasy_sched.plan.plan import Plan

CURVES: Final = tuple(
    (demand, production) for demand in ("low", "median", "high") for production in ("low", "median", "high")
)
"""Which demand and which production each of the nine curves is for, in the order of the rows."""


@dataclass(frozen=True)
class Predictions:
    """Nine possible trajectories of the battery over the T steps of a window."""

    energy_j: FloatArray
    """Battery energy at the end of each step, of shape (9, T); rows in the order of `CURVES`."""
    below: IndexArray
    """How many of the curves are below SoC_min at the end of each step."""

    @property
    def dangerous(self) -> BoolArray:
        """Steps in which more than half of the curves are below SoC_min."""
        return self.below > len(CURVES) / 2

    def violation_step(self, present: int = 0) -> int:
        """The step after ``present`` with the most curves below SoC_min (the earliest of equals).

        The last step of the window where no curve is below in any of them.
        """
        future = self.below[present + 1 :]
        if not future.any():
            return len(self.below) - 1
        return present + 1 + int(np.argmax(future))


def predict(
    battery: BatterySpec,
    start_j: float,
    demand: Forecast,
    production: Forecast,
    step_s: float,
    *,
    electrolyzer_w: FloatArray | float = 0.0,
    fuel_cell_w: FloatArray | float = 0.0,
) -> Predictions:
    """Run the battery through the nine combinations (Eq. 1 to 3), with the planned hydrogen (W).

    ``start_j`` is the level at the start of the window.
    """
    needs_w = np.stack([demand.low_w, demand.value_w, demand.high_w]) + electrolyzer_w
    gives_w = np.stack([production.low_w, production.value_w, production.high_w]) + fuel_cell_w
    net_w = (gives_w[None, :, :] - needs_w[:, None, :]).reshape(len(CURVES), -1)
    energy_j = np.array([project_levels_j(battery, start_j, curve_w, step_s)[1:] for curve_w in net_w])
    return Predictions(energy_j, (energy_j < battery.min_j * (1.0 - 1e-9)).sum(axis=0))


def predict_window(plan: Plan, start_j: float | None = None) -> Predictions:
    """The predictions of a plan's window, from the planned level at its start or the real one (J)."""
    return predict(
        plan.storage.battery,
        plan.level_at(0).battery_j if start_j is None else start_j,
        plan.demand,
        plan.production,
        plan.step_s,
        electrolyzer_w=plan.power.electrolyzer_w,
        fuel_cell_w=plan.power.fuel_cell_w,
    )
