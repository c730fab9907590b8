"""The solar predictor of GreenSlot (Section 4.2): E_p(t) = f(w(t)) * B(t), hour by hour.

Hours are integers counted from 1970-01-01 00:00 in the local standard time of the training data, whose offset
from UTC is a whole number of hours and never changes: hour % 24 is the hour of the day, hour // 24 the day.

For a predicted day, H is the set of training days within 15 days of it in the season. B(t) is the largest
production of the same hour on any day in H; f(c) is the median of E/B over the hours in H with condition c.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray
from beasy_sched.energy.fields import require_positive
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.conditions import UNKNOWN, ConditionScheme, day_rows
from beasy_sched.units import SECONDS_PER_HOUR

SEASON_DAYS: Final = 15
"""H reaches this far to both sides of the predicted day: "the month centered on t"."""
_YEAR_DAYS: Final = 365.2425
_LEAST_DAYS: Final = 28
_FEW_DAYS: Final = 7
"""Number of days in H below which the nearest days in the season are taken instead."""
_FEW_VALUES: Final = 5
"""A factor of the middle of the day, or of the rest, needs this many values; else one is used for both."""
_MIDDAY: Final = slice(10, 16)
_DAWN_SHARE: Final = 0.05
"""Method 2 needs an ideal production above this share of the day's largest."""
_STICKY_HOURS: Final = (9, 16)


@dataclass(frozen=True, eq=False)
class SolarHistory:
    """Hourly production and conditions of the past: what the predictor learns from. Raises ConfigError."""

    first_hour: int
    """Number of the first hour (see the module)."""
    production_w: FloatArray
    """Mean power of each hour, W; NaN where it is unknown."""
    classes: IntArray
    """Class of each hour's condition in ``scheme``, or `UNKNOWN`."""
    scheme: ConditionScheme
    capacity_w: float
    """Nominal power of the panels: the scale for what counts as an adjustment."""
    utc_offset_h: int = 0
    """Hours by which local standard time is ahead of UTC."""
    notes: tuple[str, ...] = ()
    """Repairs and assumptions of the reader."""

    def __post_init__(self) -> None:
        is_known = ~np.isnan(self.production_w)
        if is_known.sum() < _LEAST_DAYS * 24:
            raise ConfigError(
                f"training data: found {is_known.sum() / 24:.3g} days of production, "
                f"expected at least a month ({_LEAST_DAYS} days), better a year"
            )
        if not np.any(self.production_w[is_known] > 0):
            raise ConfigError("training data: found no production above 0: is it the right column?")

    def __len__(self) -> int:
        return len(self.production_w)

    def scaled_to(self, capacity_w: float) -> SolarHistory:
        """Return the history for panels of another nominal power (W)."""
        require_positive("capacity_w", capacity_w)
        factor = capacity_w / self.capacity_w
        return replace(self, production_w=self.production_w * factor, capacity_w=capacity_w)

    @property
    def first_day(self) -> int:
        """Number of the first day, complete or not."""
        return self.first_hour // 24

    @cached_property
    def by_day_w(self) -> FloatArray:
        """Production by day and hour of the day, [days, 24]."""
        return day_rows(self.production_w, self.first_hour)[0]

    @cached_property
    def classes_by_day(self) -> IntArray:
        """Classes by day and hour of the day, [days, 24]."""
        return day_rows(self.classes, self.first_hour, UNKNOWN)[0].astype(np.int64)

    @cached_property
    def days(self) -> IntArray:
        """Numbers of all days."""
        return self.first_day + np.arange(len(self.by_day_w))

    def season_distance(self, day: int) -> IntArray:
        """Days between each training day and the nearest anniversary of ``day``."""
        apart = day - self.days
        return np.rint(np.abs(apart - _YEAR_DAYS * np.round(apart / _YEAR_DAYS))).astype(np.int64)


@dataclass(frozen=True)
class DayFactors:
    """Training result of one day: B, and f for each hour of the day and class."""

    ideal_w: FloatArray
    """B: ideal production of each hour of the day, W, [24]."""
    factors: FloatArray
    """f, [24, classes + 1]; NaN for a class not seen in H. The last column (`UNKNOWN`) is over all."""
    sunniest: FloatArray
    """f of the sunniest class seen in H, [24]."""


@dataclass(frozen=True)
class SolarModel:
    """The two methods of the predictor, and the choice between them."""

    history: SolarHistory
    leave_out: int | None = None
    """Days excluded from H around the predicted day. None: H has only days before the day of the prediction
    (the paper's: the year before). k: the days of all years but those from k days before the day of the
    prediction to k days after the predicted one: for data of one year."""
    sticky: bool = False
    """Whether method 2, once chosen (from 9:00 to 16:00), stays until night, as in the authors' code."""
    _known: dict[tuple[int, int], DayFactors] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.leave_out is not None and self.leave_out < 0:
            raise ConfigError(f"leave_out: found {self.leave_out}, expected a number of days, 0 or more")

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for users of the predictions about the training of the model."""
        if self.leave_out is None:
            return ()
        return (
            "the predictor is trained with days of the predicted year itself, without those from "
            f"{self.leave_out} before to {self.leave_out} after the predicted day",
        )

    def day(self, day: int, today: int) -> DayFactors:
        """Return B and f of ``day`` as known on ``today``. Raises ConfigError without a training day."""
        key = (day, today)
        if key not in self._known:
            chosen = self.training_days(day, today)
            history = self.history
            self._known[key] = _learn(
                history.by_day_w[chosen], history.classes_by_day[chosen], len(history.scheme.labels)
            )
        return self._known[key]

    def training_days(self, day: int, today: int) -> IndexArray:
        """Return the rows of the history that form H for ``day`` as of ``today``. Raises ConfigError."""
        history = self.history
        days = history.days
        if self.leave_out is None:
            allowed = days < today
        else:
            allowed = (days < min(today, day) - self.leave_out) | (days > day + self.leave_out)
        distance = np.where(allowed, history.season_distance(day), np.iinfo(np.int64).max)
        near = np.flatnonzero(distance <= SEASON_DAYS)
        if len(near) >= _FEW_DAYS:
            return near
        nearest = np.argsort(distance, kind="stable")[: 2 * SEASON_DAYS + 1]
        nearest = nearest[allowed[nearest]]
        if not len(nearest):
            raise ConfigError(
                "the predictor has no training data from before the predicted day: "
                "give data of the previous year, or leave_out = 1"
            )
        return np.sort(nearest)

    def ideal_w(self, first_hour: int, hours: int) -> FloatArray:
        """Return B of ``hours`` hours from ``first_hour`` on, W, as known on the first day; 0 at night."""
        today, before = divmod(first_hour, 24)
        days = -(-(before + hours) // 24)
        ideal = np.concatenate([self.day(today + k, today).ideal_w for k in range(days)])
        return ideal[before : before + hours]

    def predict_w(self, now_hour: int, seen_w: FloatArray, classes: IntArray) -> FloatArray:
        """Return the mean production of each hour from ``now_hour`` on, W, predicted at its start.

        ``seen_w`` is the actual production of today's hours, [24], NaN if unknown; hours from the current one
        on are ignored. ``classes`` are the forecast conditions from 0:00 of today on; their length determines
        the number of predicted hours.
        """
        today, hour = divmod(now_hour, 24)
        count = len(classes)
        days = [self.day(today + k, today) for k in range(-(-count // 24))]
        ideal = np.concatenate([day.ideal_w for day in days])[:count]
        sunniest = np.concatenate([day.sunniest for day in days])[:count]
        factors = np.concatenate([day.factors for day in days])[np.arange(count), classes]
        said = _from_hour_before(factors, sunniest[0]) * ideal
        predicted: FloatArray = said[hour:]
        if self._recent_is_better(hour, seen_w, said, ideal, sunniest):
            rest = slice(hour, 24)
            share = seen_w[hour - 1] / ideal[hour - 1]
            predicted[: 24 - hour] = (np.minimum(share, sunniest[rest]) * ideal[rest])[: len(predicted)]
        return predicted

    def _recent_is_better(
        self, hour: int, seen: FloatArray, said: FloatArray, ideal: FloatArray, sunniest: FloatArray
    ) -> bool:
        """Whether method 2 is used for the rest of the day: possible, and better for the previous hour."""
        ideal_day = ideal[:24]
        usable = (ideal_day > _DAWN_SHARE * ideal_day.max()) & ~np.isnan(seen[: len(ideal_day)])
        if hour < 2 or not usable[hour - 1]:
            return False
        judged = np.arange(_STICKY_HOURS[0], _STICKY_HOURS[1] + 1) if self.sticky else np.array([hour])
        judged = judged[(judged >= 2) & (judged <= hour)]
        last, base = judged - 1, judged - 2
        last, base = last[usable[base]], base[usable[base]]
        recent = np.minimum(seen[base] / ideal[base], sunniest[last]) * ideal[last]
        tie = 1e-9 * ideal_day.max()
        return bool(np.any(np.abs(seen[last] - recent) < np.abs(seen[last] - said[last]) - tie))


def choose_leave_out(history: SolarHistory, start: datetime) -> int | None:
    """Return None if the history covers a year before the run's ``start``, else 1: see `SolarModel`.

    Half of the season suffices: a history of 350 days.
    """
    start_day = (start.timestamp() / SECONDS_PER_HOUR + history.utc_offset_h) // 24
    return None if history.first_day <= start_day - int(_YEAR_DAYS) + SEASON_DAYS else 1


def _learn(production_w: FloatArray, classes: IntArray, count: int) -> DayFactors:
    """Return B and f from the training days, [days, 24] each."""
    known_w = np.nan_to_num(production_w, nan=0.0)
    ideal = known_w.max(axis=0)
    lit = known_w > 0  # implies B > 0, and a known production
    share = np.divide(known_w, ideal, out=np.zeros_like(known_w), where=ideal > 0)
    midday = np.zeros(24, dtype=np.bool_)
    midday[_MIDDAY] = True
    factors = np.empty((24, count + 1))
    for code in range(count + 1):
        chosen = lit if code == count else lit & (classes == code)
        whole = _median(share[chosen])
        for part in (midday, ~midday):
            values = share[chosen & part]
            factors[part, code] = whole if len(values) < _FEW_VALUES else _median(values)
    seen = np.flatnonzero(~np.isnan(factors[0, :count]))
    sunniest = factors[:, seen[0]].copy() if len(seen) else np.ones(24)
    factors[:, count] = np.nan_to_num(factors[:, count], nan=0.0)
    return DayFactors(ideal, factors, sunniest)


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if len(values) else np.nan


def _from_hour_before(factors: FloatArray, first: float) -> FloatArray:
    """Return the factors, with those of unseen classes replaced by the factor of the previous hour."""
    is_known: BoolArray = ~np.isnan(factors)
    latest = np.maximum.accumulate(np.where(is_known, np.arange(len(factors)), -1))
    return np.where(latest >= 0, factors[latest], first)
