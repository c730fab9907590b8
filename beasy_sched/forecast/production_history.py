"""Forecasts with quantiles from the past production of a site alone, hour by hour.

The forecast of an hour is its climate, the mean of the same hour of the last 30 days, plus the current
anomaly from its climate, times the correlation of such anomalies over that time in the last 60 days. The
quantiles are those of the errors of the same forecasts: for the same look-ahead and hour of the day, on each
of the last 60 days that are known when the forecast is issued.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError

LEVELS: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
_CLIMATE_DAYS: Final = 30
_ERROR_DAYS: Final = 60
_EVERY_H: Final = 6
_PRESENT_H: Final = 3
"""Number of hours whose mean anomaly is the current one."""
_FARTHEST_DAYS: Final = 4
FIRST_ISSUE_H: Final = 24 * (_CLIMATE_DAYS + _ERROR_DAYS + 2 * _FARTHEST_DAYS)
"""Hours of the past required by a forecast: for its errors, and for their climate."""


@dataclass(frozen=True, eq=False)
class IssuedQuantiles:
    """Forecasts, one row for each issue and hour ahead. Hours count from the start of the past."""

    issued_h: IntArray
    valid_h: IntArray
    power_w: FloatArray
    """Quantiles of `LEVELS`, W, [k, n]."""


def issue_quantiles(hourly_w: FloatArray, first_h: int) -> IssuedQuantiles:
    """Forecast the production of each hour from ``first_h`` on, every six hours, at most four days ahead.

    ``hourly_w`` is the production, W; an issue at an hour uses only the hours before it. Raises ConfigError
    if the past before ``first_h`` is shorter than 98 days.
    """
    if first_h < FIRST_ISSUE_H:
        raise ConfigError(
            f"a forecast with quantiles requires {FIRST_ISSUE_H // 24} days of production before its start:"
            f" found {first_h / 24:.3g}"
        )
    until_h = len(hourly_w)
    climate_w = _climate_w(hourly_w)
    anomaly_w = hourly_w - climate_w
    present_w = np.full(until_h + 1, np.nan)
    present_w[_PRESENT_H:] = sliding_window_view(anomaly_w, _PRESENT_H).mean(axis=-1)
    most_w = np.maximum.accumulate(hourly_w)
    rows: list[tuple[IntArray, IntArray, FloatArray]] = []
    issues = np.arange(first_h, until_h, _EVERY_H)
    for ahead in range(24 * _FARTHEST_DAYS):
        issued = issues[issues + ahead < until_h]
        if not len(issued):
            break
        predicted_w, error_w = _predicted_w(climate_w, anomaly_w, present_w, ahead, issued)
        quantiles_w = predicted_w + np.quantile(error_w, LEVELS, axis=1)
        rows.append((issued, issued + ahead, np.clip(quantiles_w, 0.0, most_w[issued - 1])))
    issued_h, valid_h = (np.concatenate([row[i] for row in rows]) for i in (0, 1))
    power_w = np.concatenate([row[2] for row in rows], axis=1)
    order = np.lexsort((valid_h, issued_h))
    return IssuedQuantiles(issued_h[order], valid_h[order], power_w[:, order])


def _climate_w(hourly_w: FloatArray) -> FloatArray:
    """Return the mean of the same hour of the day in the last 30 days known four days before, W.

    NaN for the first hours. With the lag, the climate of an hour is the same for all issues.
    """
    lag = 24 * _FARTHEST_DAYS
    first = lag + 24 * (_CLIMATE_DAYS - 1)
    climate_w = np.full(len(hourly_w), np.nan)
    days = sliding_window_view(hourly_w, 24 * (_CLIMATE_DAYS - 1) + 1)[:, ::24]
    climate_w[first:] = days[: len(hourly_w) - first].mean(axis=1)
    return climate_w


def _predicted_w(
    climate_w: FloatArray, anomaly_w: FloatArray, present_w: FloatArray, ahead: int, issued: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return predictions ``ahead`` hours from each issue, W, [issues], and past errors, [issues, days].

    The past ones were for the same hour of the day, on the last days that are known at the issue.
    """
    valid = issued + ahead
    nearest = valid - 24 * (ahead // 24 + 1)
    past = nearest[:, None] - 24 * np.arange(_ERROR_DAYS)
    then_w, real_w = present_w[past - ahead], anomaly_w[past]
    share = np.clip((then_w * real_w).sum(axis=1) / np.maximum((then_w**2).sum(axis=1), 1e-9), 0.0, 1.0)
    error_w = real_w - share[:, None] * then_w
    return climate_w[valid] + share * present_w[issued], error_w
