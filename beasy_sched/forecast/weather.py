"""Forecasts of conditions: issued ones (a file), or the actual conditions with or without noise.

Data with issued forecasts are rare. Without them, the actual conditions replace the forecast, and
`ForecastNoise` exchanges some of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.conditions import UNKNOWN, ConditionScheme
from beasy_sched.forecast.solar import SEASON_DAYS, SolarHistory
from beasy_sched.units import SECONDS_PER_HOUR

_HOUR_TOLERANCE: Final = 1e-8


@dataclass(frozen=True)
class LocalHours:
    """Times of a run (seconds since its time 0) as hours since 1970 in local standard time."""

    start: datetime
    """Date and time of time 0, with its UTC offset."""
    utc_offset_h: float = 0.0
    """Hours by which local standard time is ahead of UTC."""

    def __post_init__(self) -> None:
        if self.start.utcoffset() is None:
            raise ConfigError(
                f"start: found {self.start.isoformat()}, expected a time with its UTC offset, "
                "such as 2010-07-12T09:00:00-04:00"
            )

    @cached_property
    def at_start(self) -> float:
        """Return the hour (with a fraction) of time 0."""
        return self.start.timestamp() / SECONDS_PER_HOUR + self.utc_offset_h

    def hour(self, time_s: float) -> float:
        """Return the hour (with a fraction) of a time of the run."""
        return self.at_start + time_s / SECONDS_PER_HOUR

    def whole_hour(self, time_s: float) -> int:
        """Return the hour that contains a time; a time at its end by rounding belongs to the next."""
        return int(np.floor(self.hour(time_s) + _HOUR_TOLERANCE))

    def time_s(self, hour: float) -> float:
        """Return the start of an hour, s since time 0."""
        return (hour - self.at_start) * SECONDS_PER_HOUR


@dataclass(frozen=True, eq=False)
class IssuedTable:
    """Issued forecasts of classes or of power: at least one value, each 0 or more.

    Each is for an interval of ``interval_s`` from its valid time on. All times are seconds since time 0.
    """

    issued_s: FloatArray
    valid_s: FloatArray
    """Times from which the forecasts are valid, s: on a grid of ``interval_s``, and not before the issue."""
    values: FloatArray
    """Classes of ``scheme``, or W if that is None."""
    interval_s: float
    scheme: ConditionScheme | None = None
    levels: FloatArray | None = None
    """Probabilities of the quantiles, if any, [k]; ``values`` are then the medians."""
    by_level: FloatArray | None = None
    """The quantiles, W, [k, n]."""
    members_w: FloatArray | None = None
    """Power of each member of an ensemble, W, [members, n]; None without one."""

    @cached_property
    def _sorted(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Intervals, issued times and rows, by interval and then by time of issue."""
        intervals = self._interval(self.valid_s)
        order = np.lexsort((self.issued_s, intervals))
        return intervals[order], self.issued_s[order], order

    @cached_property
    def _issues(self) -> tuple[FloatArray, IntArray]:
        """Return the distinct times of issue, and the key of each forecast (see `_keys`)."""
        intervals, issued, _ = self._sorted
        times = np.unique(issued)
        return times, self._keys(intervals, np.searchsorted(times, issued), len(times))

    @staticmethod
    def _keys(intervals: IntArray, issue: IntArray, issues: int) -> IntArray:
        """Return a number that sorts by interval and then by issue; ``issue`` is -1 before the first."""
        return intervals * (issues + 1) + issue + 1

    @cached_property
    def _first_s(self) -> float:
        return float(self.valid_s.min())

    def _interval(self, times_s: FloatArray) -> IntArray:
        return np.floor((times_s - self._first_s) / self.interval_s + 1e-9).astype(np.int64)

    def issued_by(self, now_s: float) -> IssuedTable:
        """Return the table without the issues after ``now_s``; the times that they are for stay."""
        later = self.issued_s > now_s + 1e-6
        return replace(self, issued_s=np.where(later, np.inf, self.issued_s)) if later.any() else self

    def known_at(self, now_s: float) -> IssuedTable | None:
        """Return the table with only the issues up to ``now_s``; None if there is none."""
        is_known = self.issued_s <= now_s + 1e-6
        if not is_known.any():
            return None
        by_level, members_w = (
            None if rows is None else rows[:, is_known] for rows in (self.by_level, self.members_w)
        )
        return replace(
            self,
            issued_s=self.issued_s[is_known],
            valid_s=self.valid_s[is_known],
            values=self.values[is_known],
            by_level=by_level,
            members_w=members_w,
        )

    def with_later(self, later: IssuedTable) -> IssuedTable:
        """Return the table with more issues, of the same quantiles; those of ``later`` have no members."""
        by_level = None
        if self.by_level is not None and later.by_level is not None:
            by_level = np.concatenate((self.by_level, later.by_level), axis=1)
        return replace(
            self,
            issued_s=np.concatenate((self.issued_s, later.issued_s)),
            valid_s=np.concatenate((self.valid_s, later.valid_s)),
            values=np.concatenate((self.values, later.values)),
            by_level=by_level,
            members_w=None,
        )

    def start_of_interval_s(self, time_s: float) -> float:
        """Return the start of the interval that contains a time."""
        return self._first_s + float(self._interval(np.array([time_s]))[0]) * self.interval_s

    def issues_by(self, now_s: float) -> int:
        """Return the number of times of issue up to ``now_s``."""
        return int(np.searchsorted(self._issues[0], now_s + 1e-6, side="right"))

    def newest_issue_s(self, now_s: float) -> float | None:
        """Return the newest time of issue up to ``now_s``; None if there is none."""
        issues = self.issues_by(now_s)
        return float(self._issues[0][issues - 1]) if issues else None

    def latest(self, now_s: float, times_s: FloatArray) -> FloatArray:
        """Return the latest forecast issued by ``now_s`` for each time; NaN if there is none."""
        exists, rows = self._latest_rows(now_s, times_s)
        return np.where(exists, self.values[rows], np.nan)

    def latest_by_level(self, now_s: float, times_s: FloatArray) -> FloatArray | None:
        """Return its quantiles for each time, W, [k, times], 0 if missing; None without quantiles."""
        return self._latest_of(self.by_level, now_s, times_s)

    def latest_members_w(self, now_s: float, times_s: FloatArray) -> FloatArray | None:
        """Return its members for each time, W, [members, times], 0 if missing; None without an ensemble."""
        return self._latest_of(self.members_w, now_s, times_s)

    def _latest_of(self, columns: FloatArray | None, now_s: float, times_s: FloatArray) -> FloatArray | None:
        if columns is None:
            return None
        exists, rows = self._latest_rows(now_s, times_s)
        return np.where(exists, columns[:, rows], 0.0)

    def _latest_rows(self, now_s: float, times_s: FloatArray) -> tuple[BoolArray, IntArray]:
        """Return whether a forecast for each time was issued by ``now_s``, and the row of the latest one."""
        intervals, _, rows = self._sorted
        times, keys = self._issues
        wanted = self._interval(np.asarray(times_s, dtype=np.float64))
        newest = np.full(len(wanted), self.issues_by(now_s) - 1, dtype=np.int64)
        latest = np.searchsorted(keys, self._keys(wanted, newest, len(times)), side="right") - 1
        exists: BoolArray = (latest >= 0) & (intervals[np.maximum(latest, 0)] == wanted)
        return exists, rows[np.maximum(latest, 0)]


class WeatherForecast(ABC):
    """Forecast of future conditions. Hours as in `forecast.solar`."""

    scheme: ConditionScheme

    @abstractmethod
    def classes(self, now_hour: float, first_hour: int, hours: int) -> IntArray:
        """Return the class forecast at ``now_hour`` for each hour, [hours]; the last one for past hours."""

    def issues_by(self, now_hour: float) -> int:
        """Counter of forecasts that are issued between two whole hours."""
        return 0

    def forget_later(self, now_s: float) -> None:  # noqa: B027 (most have none)
        """Forget the forecasts that are issued after ``now_s`` (s since time 0)."""

    def check_fits(self, history: SolarHistory) -> None:
        """Raise ConfigError if the training data has conditions of another kind."""
        if self.scheme != history.scheme:
            raise ConfigError(
                f"the training data has conditions by {history.scheme.name}, "
                f"the forecast by {self.scheme.name}: they must be the same"
            )


@dataclass(frozen=True)
class ForecastNoise:
    """Probability that a forecast condition is wrong: a straight line in the hours ahead, then constant."""

    chance_at_once: float = 0.1
    """Probability of a wrong condition in a prediction one hour ahead."""
    chance_at_horizon: float = 0.3
    horizon_h: float = 24.0
    seed: int = 0

    def chance(self, hours_ahead: FloatArray) -> FloatArray:
        """Return the probability of an exchange for each distance; 1 is the hour that begins now."""
        share = np.clip((hours_ahead - 1.0) / (self.horizon_h - 1.0), 0.0, 1.0)
        return self.chance_at_once + (self.chance_at_horizon - self.chance_at_once) * share


class ActualWeather(WeatherForecast):
    """Conditions of a history used as forecasts; with ``noise``, some of them wrong.

    An exchanged class is that of the same hour of another day of the season. The exchange of an hour's class
    is drawn once for that hour, so a wrong forecast was also wrong further ahead.
    """

    def __init__(self, history: SolarHistory, noise: ForecastNoise | None = None) -> None:
        """``history`` must include the conditions of future days."""
        self.scheme = history.scheme
        self.history = history
        self.noise = noise
        self._drawn: dict[int, tuple[FloatArray, IntArray]] = {}

    def classes(self, now_hour: float, first_hour: int, hours: int) -> IntArray:
        """Return the history's classes, `UNKNOWN` outside of it, with the exchanges of the noise."""
        moments = first_hour + np.arange(hours)
        real = self._real(moments)
        if self.noise is None:
            return real
        days = np.arange(first_hour // 24, (first_hour + hours - 1) // 24 + 1)
        pairs = [self._draw(day) for day in days.tolist()]
        inside = slice(first_hour % 24, first_hour % 24 + hours)
        luck = np.concatenate([pair[0] for pair in pairs])[inside]
        other = np.concatenate([pair[1] for pair in pairs])[inside]
        ahead = np.maximum(moments - np.floor(now_hour + 1e-6), 0.0) + 1.0
        return np.where((luck < self.noise.chance(ahead)) & (real != UNKNOWN), other, real)

    def _real(self, moments: IntArray) -> IntArray:
        at = moments - self.history.first_hour
        inside = (at >= 0) & (at < len(self.history))
        return np.where(inside, self.history.classes[np.clip(at, 0, len(self.history) - 1)], UNKNOWN)

    def _draw(self, day: int) -> tuple[FloatArray, IntArray]:
        """Return a reproducible number from 0 to 1 and another class for each hour of a day."""
        if day not in self._drawn:
            history = self.history
            random = np.random.default_rng([self.noise.seed if self.noise else 0, day % 2**32])
            others = np.flatnonzero((history.season_distance(day) <= SEASON_DAYS) & (history.days != day))
            luck = random.random(24)
            if len(others):
                rows = others[random.integers(0, len(others), 24)]
                classes = history.classes_by_day[rows, np.arange(24)]
            else:
                classes = np.full(24, UNKNOWN, dtype=np.int64)
            self._drawn[day] = luck, classes
        return self._drawn[day]


class IssuedWeather(WeatherForecast):
    """Conditions from a table of issued forecasts."""

    def __init__(self, table: IssuedTable, hours: LocalHours) -> None:
        """``hours`` must have the UTC offset of the predictor's history. Raises ConfigError."""
        if table.scheme is None:
            raise ConfigError("forecast: found power, expected conditions")
        self.scheme = table.scheme
        self._table = table
        self._hours = hours

    def classes(self, now_hour: float, first_hour: int, hours: int) -> IntArray:
        """Return the latest class issued for each hour, `UNKNOWN` if there is none."""
        moments = self._hours.time_s(first_hour) + SECONDS_PER_HOUR * np.arange(hours, dtype=np.float64)
        values = self._table.latest(self._hours.time_s(now_hour), moments)
        return np.where(np.isnan(values), UNKNOWN, values).astype(np.int64)

    def forget_later(self, now_s: float) -> None:
        """Forget the issues after ``now_s`` (s)."""
        self._table = self._table.issued_by(now_s)

    def issues_by(self, now_hour: float) -> int:
        """Number of times of issue so far."""
        return self._table.issues_by(self._hours.time_s(now_hour))
