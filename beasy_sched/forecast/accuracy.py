"""Errors of the predictor by look-ahead (GreenSlot, Section 5.2 and Table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.solar import SolarModel
from beasy_sched.forecast.weather import WeatherForecast

HORIZONS_H: Final = (1, 3, 6, 12, 24, 48)
"""The horizons of Table 1."""


@dataclass(frozen=True, eq=False)
class AccuracyTable:
    """Errors of whole days: the sum over 24 hours of |E_p - E|, in percent of the sum of B."""

    days: IntArray
    """Numbers of the days since 1970, [days]."""
    errors_pct: FloatArray
    """[days, horizons]; see `HORIZONS_H`."""

    @property
    def median_pct(self) -> FloatArray:
        """Median over the days, one per horizon."""
        return np.asarray(np.median(self.errors_pct, axis=0), dtype=np.float64)

    @property
    def p90_pct(self) -> FloatArray:
        """90th percentile over the days, one per horizon."""
        return np.asarray(np.percentile(self.errors_pct, 90, axis=0), dtype=np.float64)


def accuracy(model: SolarModel, weather: WeatherForecast) -> AccuracyTable:
    """Predict the model's own history hour by hour, and compare.

    x hours ahead means: at the start of hour t - x + 1, so that 1 is "the next hour". Days with
    a gap, without sun, or too close to the start of the history for the largest horizon are excluded. Raises
    ConfigError if no day remains.
    """
    history = model.history
    weather.check_fits(history)
    judged = _judged(model, "accuracy")
    predicted = _predictions(model, weather, judged)
    real = history.by_day_w[judged - history.first_day]
    ideal = np.array([model.day(day, day).ideal_w.sum() for day in judged.tolist()])
    errors = np.abs(predicted - real[:, None, :]).sum(axis=2) / ideal[:, None] * 100.0
    return AccuracyTable(judged, errors)


def error_quantiles(model: SolarModel, weather: WeatherForecast, levels: Sequence[float]) -> FloatArray:
    """Quantiles of E - E_p for hours of the model's own history, as shares of B, [levels, horizons].

    For hours with at least a twentieth of the day's largest B. Raises ConfigError like `accuracy`.
    """
    judged = _judged(model, "errors")
    ideal_w = np.array([model.day(day, day).ideal_w for day in judged.tolist()])
    error_w = model.history.by_day_w[judged - model.history.first_day][:, None] - _predictions(
        model, weather, judged
    )
    sunny = ideal_w > 0.05 * ideal_w.max(axis=1, keepdims=True)
    shares = error_w.transpose(0, 2, 1)[sunny] / ideal_w[sunny][:, None]
    return np.asarray(np.quantile(shares, levels, axis=0))


def _judged(model: SolarModel, what: str) -> IntArray:
    """Return the days for which every prediction can be compared. Raises ConfigError if there are none.

    ``what`` names the requested result in errors.
    """
    history = model.history
    rows = np.arange(len(history.by_day_w))
    if model.leave_out is None:
        rows = rows[350 - -(max(HORIZONS_H) - 1) // 24 :]  # H in the year before the prediction
    days = history.days[rows]
    complete = ~np.isnan(history.by_day_w[rows]).any(axis=1)
    sunny = np.array([model.day(day, day).ideal_w.any() for day in days.tolist()], dtype=np.bool_)
    judged = days[complete & sunny]
    if not len(judged):
        raise ConfigError(
            f"the predictor's {what}: no complete day with sun has enough training data before it"
        )
    return judged


def _predictions(model: SolarModel, weather: WeatherForecast, days: IntArray) -> FloatArray:
    """Predicted W, [days, horizons, 24]."""
    history = model.history
    farthest = max(HORIZONS_H)
    row_of = {day: row for row, day in enumerate(days.tolist())}
    predicted = np.full((len(days), len(HORIZONS_H), 24), np.nan)
    moments = (days[:, None] * 24 + np.arange(-farthest + 1, 24)).ravel()
    unknown = np.full(24, np.nan)
    for now in np.unique(moments).tolist():
        today, hour = divmod(now, 24)
        row = today - history.first_day
        seen = history.by_day_w[row].copy() if 0 <= row < len(history.by_day_w) else unknown.copy()
        seen[hour:] = np.nan
        classes = weather.classes(now, today * 24, hour + farthest)
        ahead = model.predict_w(now, seen, classes)
        for column, horizon in enumerate(HORIZONS_H):
            day, hour_of_day = divmod(now + horizon - 1, 24)
            if day in row_of:
                predicted[row_of[day], column, hour_of_day] = ahead[horizon - 1]
    return predicted
