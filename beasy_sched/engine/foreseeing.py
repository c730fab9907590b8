"""One-hour-ahead predictions, and feedback of the actual production to the forecast."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from beasy_sched.energy.balance import StepRecord
from beasy_sched.units import SECONDS_PER_HOUR, TIME_TOLERANCE_S

if TYPE_CHECKING:
    from beasy_sched.forecast.outlook import ForecastSource


class ForecastRecord:
    """Predictions, kept until their steps have ended; empty without a forecast."""

    def __init__(self, forecast: ForecastSource | None, step_s: float) -> None:
        """Record ``forecast`` in steps of ``step_s``."""
        self._forecast, self._step_s = forecast, step_s
        self._hour_ahead_w: deque[tuple[float, float, float]] = deque()
        """Each future step: its start (s), its predicted production, and that of an ideal day (W)."""

    def predict(self, start_s: float, power_w: float) -> None:
        """Record the present prediction for the step that begins an hour after ``start_s``.

        ``power_w`` is the production at ``start_s``, which the forecast receives.
        """
        if self._forecast is None:
            return
        self._forecast.announce(start_s, power_w)
        steps = max(round(SECONDS_PER_HOUR / self._step_s), 1)
        ahead_s = start_s + steps * self._step_s
        predicted_w = float(self._forecast.renewable_w(start_s, self._step_s, steps + 1)[-1])
        clear_sky_w = float(self._forecast.clear_sky_w(ahead_s, self._step_s, 1)[0])
        self._hour_ahead_w.append((ahead_s, predicted_w, clear_sky_w))

    def observe(self, start_s: float, end_s: float, record: StepRecord) -> tuple[float | None, float | None]:
        """Pass the production of a step to the forecast; return the predicted and ideal ones, W."""
        if self._forecast is None:
            return None, None
        self._forecast.observe(start_s, end_s, record.renew_w)
        latest_s = start_s + TIME_TOLERANCE_S
        while self._hour_ahead_w and self._hour_ahead_w[0][0] <= latest_s:
            ahead_s, predicted_w, clear_sky_w = self._hour_ahead_w.popleft()
            if ahead_s > latest_s - self._step_s:  # of this step, which may begin late
                return predicted_w, clear_sky_w
        return None, float(self._forecast.clear_sky_w(start_s, record.dt_s, 1)[0])
