"""The errors of the predictor by how far ahead it predicts (GreenSlot, Section 5.2 and Table 1)."""

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

    horizons_h: tuple[int, ...]
    days: IntArray
    """Numbers of the days since 1970, [days]."""
    errors_pct: FloatArray
    """[days, horizons]."""

    @property
    def median_pct(self) -> FloatArray:
        """The median over the days, one a horizon."""
        return np.asarray(np.median(self.errors_pct, axis=0), dtype=np.float64)

    @property
    def p90_pct(self) -> FloatArray:
        """The 90th percentile over the days, one a horizon."""
        return np.asarray(np.percentile(self.errors_pct, 90, axis=0), dtype=np.float64)

    def lines(self) -> list[str]:
        """The table as text, with the rows of the paper's."""
        rows = [
            ("hours ahead", [f"{horizon:6d}" for horizon in self.horizons_h]),
            ("median %", [f"{value:6.1f}" for value in self.median_pct]),
            ("90th %", [f"{value:6.1f}" for value in self.p90_pct]),
        ]
        return [f"{name:<12}" + "".join(cells) for name, cells in rows]


def accuracy(
    model: SolarModel,
    weather: WeatherForecast,
    *,
    horizons_h: Sequence[int] = HORIZONS_H,
    days: IntArray | None = None,
) -> AccuracyTable:
    """Predict the model's own history hour by hour, and compare.

    x hours ahead means: at the start of hour t - x + 1, so that 1 is "the next hour". ``days`` are numbers of
    days since 1970 (default: all that can be judged); left out are days with a gap, without sun, or
    too near to the start of the history for the largest horizon. Raises ConfigError where none is left.
    """
    horizons = tuple(horizons_h)
    if not horizons or min(horizons) < 1:
        raise ConfigError(f"horizons_h: found {list(horizons)}, expected numbers of hours, 1 or more")
    if model.history.scheme != weather.scheme:
        raise ConfigError(
            f"the training data has conditions by {model.history.scheme.name}, "
            f"the forecast by {weather.scheme.name}: they must be the same"
        )
    history = model.history
    wanted = history.days if days is None else np.asarray(days, dtype=np.int64)
    judged = _judged(model, wanted, max(horizons))
    if not len(judged):
        raise ConfigError(
            "the predictor's accuracy: no complete day with sun has enough training data before it"
        )
    predicted = _predictions(model, weather, judged, horizons)
    real = history.by_day_w[judged - history.first_day]
    ideal = np.array([model.day(day, day).ideal_w.sum() for day in judged.tolist()])
    errors = np.abs(predicted - real[:, None, :]).sum(axis=2) / ideal[:, None] * 100.0
    return AccuracyTable(horizons, judged, errors)


def _judged(model: SolarModel, wanted: IntArray, farthest_h: int) -> IntArray:
    """Those days for which every prediction can be made and compared."""
    history = model.history
    rows = wanted - history.first_day
    lead = -(-(farthest_h - 1) // 24)
    inside = (rows >= 0) & (rows < len(history.by_day_w))
    if model.leave_out is None:
        inside &= rows >= lead + 350  # H in the year before
    wanted, rows = wanted[inside], rows[inside]
    complete = ~np.isnan(history.by_day_w[rows]).any(axis=1)
    sunny = np.array([model.day(day, day).ideal_w.any() for day in wanted.tolist()], dtype=np.bool_)
    return wanted[complete & sunny]


def _predictions(
    model: SolarModel, weather: WeatherForecast, days: IntArray, horizons: tuple[int, ...]
) -> FloatArray:
    """Predicted W, [days, horizons, 24]."""
    history = model.history
    farthest = max(horizons)
    row_of = {day: row for row, day in enumerate(days.tolist())}
    predicted = np.full((len(days), len(horizons), 24), np.nan)
    moments = (days[:, None] * 24 + np.arange(-farthest + 1, 24)).ravel()
    unknown = np.full(24, np.nan)
    for now in np.unique(moments).tolist():
        today, hour = divmod(now, 24)
        row = today - history.first_day
        seen = history.by_day_w[row].copy() if 0 <= row < len(history.by_day_w) else unknown.copy()
        seen[hour:] = np.nan
        classes = weather.classes(now, today * 24, hour + farthest)
        ahead = model.predict_w(now, seen, classes)
        for column, horizon in enumerate(horizons):
            day, hour_of_day = divmod(now + horizon - 1, 24)
            if day in row_of:
                predicted[row_of[day], column, hour_of_day] = ahead[horizon - 1]
    return predicted
