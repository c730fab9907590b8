"""Limit on the share of violated windows, kept by adaptive conformal inference on the run's own past.

A window is violated if a job is killed for lack of energy, or the battery falls below SoC_min. Starts use the
production of a quantile of the forecast. Its level is initially the risk limit, and changes after each window
(Gibbs and Candès, NeurIPS 2021, Eq. 2): up by gamma * risk without a violation, down by gamma * (1 - risk)
after one. At level 0 and below, starts assume no future production. As long as no window is violated then,
the share of violated windows among T is at most risk + (1 + gamma) / (gamma * T). This does not depend on
assumptions about the weather or the forecast; a poor forecast only reduces the number of finished jobs.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.policy import View
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.quantiles import PowerBand, Quantiles
from beasy_sched.model.jobs import JobState
from beasy_sched.units import TIME_TOLERANCE_S

_GAMMA: Final = 0.25
"""Step size of the level's adaptation."""


def share_of(name: str, value: str | float) -> float:
    """Parse a share: 0.05, or ``"5%"``. Raises ConfigError unless it lies between 0 and 1."""
    try:
        share = float(value[:-1]) / 100.0 if isinstance(value, str) and value[-1:] == "%" else float(value)
    except ValueError:
        share = math.nan
    if not 0.0 < share < 1.0:
        raise ConfigError(f"{name}: found {value!r}, expected a share between 0 and 1, such as 0.05 or 5%")
    return share


class CalibratedRisk:
    """Production quantile used for starts, and outcomes of past windows."""

    def __init__(self, risk: str | float, view: View) -> None:
        """Limit the share of violated windows to ``risk``. Raises ConfigError."""
        if view.site is None:
            raise ConfigError("option risk requires a site: pass --site FILE")
        if view.outlook is None and view.plans is None:
            raise ConfigError("option risk requires a forecast of the production: pass --forecast FILE")
        self.risk = share_of("option risk", risk)
        self.level = self.risk
        """Level of the forecast's quantile used for starts in the current window."""
        self._view, self._site = view, view.site
        self.quantiles = self._forecast(0.0, 1)
        """Forecast of the steps from the current one on."""
        self.careful_w = np.zeros(1)
        """Production used for starts in these steps, W."""
        self.reserve_j = np.zeros(1)
        """Energy that sleeping servers take from the battery after each of these steps, until that
        production suffices for them, J."""
        self._asleep_w = float(view.power_model.sleep_w[view.platform.kind_of].sum())
        self._windows: list[dict[str, Any]] = []
        self._number = -1

    def open_step(self, budget: StepBudget, steps: int) -> None:
        """Update at the start of a step, with the storage and the forecast of ``steps`` steps."""
        view, battery = self._view, self._site.storage.battery
        number = math.floor((budget.start_s + TIME_TOLERANCE_S) / self._site.window_s)
        if number != self._number:
            if self._windows:
                self.level = min(self.level + _GAMMA * (self.risk - self._is_wrong(self._windows[-1])), 1.0)
            self._number = number
            self._windows.append({"start_s": budget.start_s, "level": self.level, "killed": 0, "below": 0})
        self.quantiles = self._forecast(budget.start_s, steps)
        self.careful_w = self.quantiles.at(self.level)
        self.careful_w[0] = budget.renew_w
        self.reserve_j = self._reserve_j(budget.start_s)
        if view.storage_state is not None and view.storage_state.battery_j < battery.min_j * (1.0 - 1e-9):
            self._windows[-1]["below"] += 1

    def _reserve_j(self, now: float) -> FloatArray:
        battery, steps = self._site.storage.battery, len(self.careful_w)
        site_load = self._site.load_ahead(now, now + self._site.step_s * np.arange(steps + 1.0))
        lacks_w = (site_load.cooled(np.full(steps, self._asleep_w)) + site_load.always_w) - self.careful_w
        factor = np.where(lacks_w > 0.0, battery.drawn_per_delivered(), battery.charge_efficiency)
        until_end_j = np.append((lacks_w * factor)[::-1].cumsum()[::-1] * self._site.step_s, 0.0)
        # The largest sum from a step on is that to the end minus the least one that begins later.
        reserve_j: FloatArray = until_end_j - np.minimum.accumulate(until_end_j[::-1])[::-1]
        return reserve_j[1:]

    def look(self) -> None:
        """Record the jobs that have ended; called in each pass."""
        if self._windows:
            self._windows[-1]["killed"] += sum(job.state is JobState.KILLED for job in self._view.ended)

    def results(self) -> dict[str, Any]:
        """The risk limit, and each window: its level, kills, and steps that began below SoC_min."""
        wrong = sum(map(self._is_wrong, self._windows))
        return {"promised": self.risk, "wrong": wrong, "windows": self._windows}

    @staticmethod
    def _is_wrong(window: dict[str, Any]) -> bool:
        return bool(window["killed"] or window["below"])

    def _forecast(self, now: float, steps: int) -> Quantiles:
        """Return the forecast available to policies, or else that of the plans, within its bounds."""
        step_s = self._site.step_s
        if self._view.outlook is not None:
            return self._view.outlook.quantiles(now, step_s, steps)
        bounds_w = np.zeros((3, steps))
        for plan in self._view.plans or ():
            first = round((plan.start_s - now) / step_s)
            rows = slice(max(first, 0), min(first + plan.steps, steps))
            if rows.start < rows.stop:
                forecast = plan.production
                of_plan: FloatArray = np.stack([forecast.low_w, forecast.value_w, forecast.high_w])
                bounds_w[:, rows] = of_plan[:, rows.start - first : rows.stop - first]
        return Quantiles.of_bounds(PowerBand(*bounds_w))
