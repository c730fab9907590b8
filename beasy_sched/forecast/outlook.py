"""Forecast interface of policies, and its sources.

The engine owns a `ForecastSource` and passes it past production (`observe`) and the production of the current
step (`announce`). A policy gets the source's `Outlook`. All times are seconds since time 0 of the run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime, timezone
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.energy.fields import require, require_not_negative, require_positive
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.accuracy import HORIZONS_H, error_quantiles
from beasy_sched.forecast.conditions import day_rows, running_most
from beasy_sched.forecast.production_history import LEVELS
from beasy_sched.forecast.quantiles import PowerBand, Quantiles
from beasy_sched.forecast.solar import SEASON_DAYS, SolarModel
from beasy_sched.forecast.uncertainty import Uncertainty
from beasy_sched.forecast.weather import IssuedTable, LocalHours, WeatherForecast
from beasy_sched.units import SECONDS_PER_HOUR, TIME_TOLERANCE_S

_ADJUSTED_SHARE: Final = 0.01
_LONGEST_UNREVISED_S: Final = 2 * SECONDS_PER_HOUR
_COMPARED_HOURS: Final = 48
_LEAST_OBSERVED_S: Final = SECONDS_PER_HOUR / 2
"""Minimum observed share of an hour that counts as observed."""


class Outlook:
    """Forecast available to a policy: predictions only, read-only."""

    __slots__ = ("_source",)

    def __init__(self, source: ForecastSource) -> None:
        """Provide the predictions of ``source``."""
        self._source = source

    @property
    def revision(self) -> int:
        """Counter of adjustments of the predictions: see `ForecastSource.revision`."""
        return self._source.revision

    def renewable_w(self, now_s: float, slot_s: float, slots: int) -> FloatArray:
        """Return the predicted mean production of each slot from ``now_s`` on, W, [slots].

        Slot 0 has its announced production, if any. Raises FieldError for a slot length that is not above 0
        s, or a negative number of slots.
        """
        return self._source.renewable_w(now_s, slot_s, slots)

    def quantiles(self, now_s: float, slot_s: float, slots: int) -> Quantiles:
        """Return the uncertainty of `renewable_w`: quantiles of each slot's mean production.

        Without quantiles, a forecast has bounds of 5 %, increasing to 30 % after 72 h.
        Raises FieldError.
        """
        return self._source.quantiles(now_s, slot_s, slots)

    def clear_sky_w(self, now_s: float, slot_s: float, slots: int) -> FloatArray:
        """Return the mean ideal production B of each slot, W, [slots]; 0 at night. Raises FieldError."""
        return self._source.clear_sky_w(now_s, slot_s, slots)


class ForecastSource(ABC):
    """Predictions updated with actual production. Subclasses return a piecewise constant curve."""

    name: ClassVar[str]
    """Name of the source in options and results."""
    notes: tuple[str, ...] = ()
    """Notes on the predictions for readers of the results."""
    band: ClassVar[Uncertainty] = Uncertainty()
    """Replacement for the quantiles of a source without them."""

    def __init__(self, hours: LocalHours, capacity_w: float) -> None:
        """``capacity_w`` (W) is the scale for adjustments."""
        require_not_negative("capacity_w", capacity_w)
        self.hours = hours
        self._capacity_w = capacity_w
        self._announced: tuple[float, float] | None = None
        self._version: tuple[int, int] | None = None
        self._revision = 0
        self._revised_s = 0.0
        self._revised_hour = 0
        self._revised_w: FloatArray = np.zeros(0)

    def hour_by_hour_w(self, hours: int) -> FloatArray:
        """Return the mean production of each hour from time 0 on, W, [hours], predicted at its start."""
        starts_s = SECONDS_PER_HOUR * np.arange(hours)
        return np.array([self.renewable_w(float(at), SECONDS_PER_HOUR, 1)[0] for at in starts_s])

    @property
    def outlook(self) -> Outlook:
        """Return the outlook for a policy."""
        return Outlook(self)

    def age_s(self, now_s: float) -> float | None:
        """Return the age of a forecast that is renewed during the run, s; None for the others."""
        return None

    def forget_later(self, now_s: float) -> None:  # noqa: B027 (most have none)
        """Forget the forecasts that are issued after ``now_s`` (s)."""

    def issued(self, now_s: float) -> IssuedTable | None:
        """Return the forecasts of power issued up to ``now_s`` (s); None for a source without issues."""
        return None

    def issue(self, later: IssuedTable) -> None:  # noqa: B027 (most have no issues)
        """Add forecasts, of the same quantiles, to be issued later than those so far."""

    def members_w(self, now_s: float, slot_s: float, slots: int) -> FloatArray | None:
        """Return the production of each member of an ensemble, W, [members, slots]; None without one."""
        return None

    def has_quantiles(self, now_s: float) -> bool:
        """Return whether the forecast at ``now_s`` (s) has quantiles, and not only bounds of the default."""
        return self._quantile_curves(now_s, now_s + SECONDS_PER_HOUR) is not None

    @property
    def revision(self) -> int:
        """Number of adjustments of the predictions (GreenSlot, Section 4.1).

        An adjustment occurs when the prediction of an hour within the next 48 h has changed by more than 1 %
        of the installed capacity since the last one, or when two hours have passed.
        """
        return self._revision

    def observe(self, start_s: float, end_s: float, mean_w: float) -> None:
        """Record the actual mean production (W) of a completed step. Raises FieldError."""
        require_not_negative("mean_w", mean_w)
        require(end_s > start_s, "end_s", end_s, f"a time after the step's start ({start_s:g} s)")
        self._take(start_s, end_s, mean_w)
        self._advance(end_s)

    def announce(self, now_s: float, power_w: float) -> None:
        """Record the production (W) of the step that begins now. Raises FieldError."""
        require_not_negative("power_w", power_w)
        self._announced = now_s, power_w
        self._advance(now_s)

    def renewable_w(self, now_s: float, slot_s: float, slots: int) -> FloatArray:
        """Return the predicted production; see `Outlook.renewable_w`."""
        edges = _slot_edges(now_s, slot_s, slots)
        means = slot_means_w(edges, *self._curve(now_s, now_s, float(edges[-1])))
        if slots and (announced_w := self._announced_w(now_s, slot_s)) is not None:
            means[0] = announced_w
        return means

    def quantiles(self, now_s: float, slot_s: float, slots: int) -> Quantiles:
        """Return the uncertainty of the prediction; see `Outlook.quantiles`."""
        edges = _slot_edges(now_s, slot_s, slots)
        curves = self._quantile_curves(now_s, float(edges[-1]))
        if curves is None:
            median_w = self.renewable_w(now_s, slot_s, slots)
            off_w = median_w * self.band.over(slots, slot_s)
            bounds = Quantiles.of_bounds(PowerBand(median_w - off_w, median_w, median_w + off_w))
            levels, power_w = bounds.levels, bounds.power_w
        else:
            levels, pieces_s, curves_w = curves
            power_w = np.array([slot_means_w(edges, pieces_s, curve_w) for curve_w in curves_w])
        if slots and (announced_w := self._announced_w(now_s, slot_s)) is not None:
            power_w[:, 0] = announced_w
        return Quantiles(levels, np.maximum.accumulate(power_w, axis=0))  # sums may differ in the last digit

    def _announced_w(self, now_s: float, slot_s: float) -> float | None:
        """Return the announced production of a slot from ``now_s`` on, W; None if there is none."""
        if self._announced is None:
            return None
        at_s, power_w = self._announced
        in_slot = at_s - TIME_TOLERANCE_S <= now_s < at_s + slot_s - TIME_TOLERANCE_S
        return power_w if in_slot else None

    def clear_sky_w(self, now_s: float, slot_s: float, slots: int) -> FloatArray:
        """Return the production on the best day; see `Outlook.clear_sky_w`."""
        edges = _slot_edges(now_s, slot_s, slots)
        first = self.hours.whole_hour(now_s)
        count = self.hours.whole_hour(float(edges[-1])) + 1 - first
        return slot_means_w(edges, self._hour_edges(first, count), self._ideal_w(first, count))

    @abstractmethod
    def _curve(self, now_s: float, from_s: float, until_s: float) -> tuple[FloatArray, FloatArray]:
        """Return edges (s, [n + 1]) and mean W ([n]) of pieces that cover a span, as predicted at ``now_s``.

        Times outside the pieces have no production. ``from_s`` is not before the current hour.
        """

    def _quantile_curves(
        self, now_s: float, until_s: float
    ) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Return levels ([k]), and edges and mean W ([k, n]) of pieces like `_curve`; None without any."""
        return None

    @abstractmethod
    def _ideal_w(self, first_hour: int, hours: int) -> FloatArray:
        """Return B of each hour, W, [hours]."""

    @abstractmethod
    def _take(self, start_s: float, end_s: float, mean_w: float) -> None:
        """Record a step's production, if the predictions depend on it."""

    def _issues_by(self, now_s: float) -> int:
        """Counter of possible changes of the predictions within an hour."""
        return 0

    def _hour_edges(self, first: int, hours: int) -> FloatArray:
        """Return the starts of these hours, s since time 0, and the end of the last, [hours + 1]."""
        return self.hours.time_s(first) + SECONDS_PER_HOUR * np.arange(hours + 1, dtype=np.float64)

    def _advance(self, now_s: float) -> None:
        """Count a revision if one is due."""
        first = self.hours.whole_hour(now_s)
        version = (first, self._issues_by(now_s))
        late = now_s - self._revised_s >= _LONGEST_UNREVISED_S - TIME_TOLERANCE_S
        if version == self._version and not late:
            return
        edges = self._hour_edges(first, _COMPARED_HOURS)
        fresh = slot_means_w(edges, *self._curve(now_s, float(edges[0]), float(edges[-1])))
        gone = first - self._revised_hour
        shared = max(min(_COMPARED_HOURS - gone, _COMPARED_HOURS), 0) if self._version is not None else 0
        moved = np.abs(fresh[:shared] - self._revised_w[_COMPARED_HOURS - shared :])
        is_first, self._version = self._version is None, version
        if is_first or late or bool(np.any(moved > _ADJUSTED_SHARE * self._capacity_w)):
            self._revision += not is_first
            self._revised_s, self._revised_hour, self._revised_w = now_s, first, fresh


class SolarForecast(ForecastSource):
    """The predictor of GreenSlot: `SolarModel`, fed with the production of the day."""

    name = "predictor"

    def __init__(self, model: SolarModel, weather: WeatherForecast, start: datetime) -> None:
        """``start`` is time 0.

        Raises ConfigError if the conditions of the forecast and of the training data are of different kinds.
        """
        history = model.history
        weather.check_fits(history)
        self._weather = weather
        super().__init__(LocalHours(start, history.utc_offset_h), history.capacity_w)
        self.model = model
        self.notes = (*history.notes, *model.notes)
        self._seen: dict[int, tuple[float, float]] = {}
        self._hours_ended = 0
        self._predicted: tuple[tuple[int, int], FloatArray] | None = None
        today = int(self.hours.at_start // 24)
        model.day(today, today)  # raise now, not during the run, if there is no training data

    def _take(self, start_s: float, end_s: float, mean_w: float) -> None:
        first = self.hours.whole_hour(start_s)
        count = self.hours.whole_hour(end_s) + 1 - first
        edges = self._hour_edges(first, count)
        inside = np.diff(np.clip(edges, start_s, end_s)).tolist()
        for hour, seconds in zip(range(first, first + count), inside, strict=True):
            if seconds > TIME_TOLERANCE_S:
                energy, length = self._seen.get(hour, (0.0, 0.0))
                self._seen[hour] = energy + mean_w * seconds, length + seconds
        oldest = first - 48
        if min(self._seen, default=oldest) < oldest:
            self._seen = {hour: value for hour, value in self._seen.items() if hour >= oldest}
        self._hours_ended += count > 1

    def forget_later(self, now_s: float) -> None:
        """Forget the conditions that are issued after ``now_s`` (s)."""
        self._weather.forget_later(now_s)

    def _seen_today(self, now_hour: int) -> FloatArray:
        """Mean W of today's past hours, [24]; NaN if too little was observed."""
        seen = np.full(24, np.nan)
        midnight = now_hour - now_hour % 24
        for hour in range(midnight, now_hour):
            energy, length = self._seen.get(hour, (0.0, 0.0))
            if length >= _LEAST_OBSERVED_S - TIME_TOLERANCE_S:
                seen[hour - midnight] = energy / length
        return seen

    def _issues_by(self, now_s: float) -> int:
        return self._weather.issues_by(self.hours.hour(now_s)) + self._hours_ended

    def _curve(self, now_s: float, from_s: float, until_s: float) -> tuple[FloatArray, FloatArray]:
        now_hour = self.hours.whole_hour(now_s)
        count = self.hours.whole_hour(until_s) + 1 - now_hour
        key = now_hour, self._issues_by(now_s)
        if self._predicted is None or self._predicted[0] != key or len(self._predicted[1]) < count:
            midnight = now_hour - now_hour % 24
            until = now_hour - midnight + max(count, _COMPARED_HOURS + 2)
            classes = self._weather.classes(self.hours.hour(now_s), midnight, until)
            self._predicted = key, self.model.predict_w(now_hour, self._seen_today(now_hour), classes)
        return self._hour_edges(now_hour, count), self._predicted[1][:count]

    def _quantile_curves(
        self, now_s: float, until_s: float
    ) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Return the prediction plus quantiles of its errors in the training data, by look-ahead."""
        edges, power_w = self._curve(now_s, now_s, until_s)
        ideal_w = self._ideal_w(self.hours.whole_hour(now_s), len(power_w))
        ahead = np.minimum(np.searchsorted(HORIZONS_H, np.arange(1, len(power_w) + 1)), len(HORIZONS_H) - 1)
        curves_w = power_w + self._errors[:, ahead] * ideal_w
        return np.array(LEVELS), edges, np.clip(curves_w, 0.0, ideal_w)

    @cached_property
    def _errors(self) -> FloatArray:
        return error_quantiles(self.model, self._weather, LEVELS)

    def _ideal_w(self, first_hour: int, hours: int) -> FloatArray:
        return self.model.ideal_w(first_hour, hours)


class _WithoutPredictor(ForecastSource):
    """Source whose predictions do not depend on actual production."""

    def __init__(self, start: datetime | None, capacity_w: float) -> None:
        """Without ``start``, time 0 is midnight."""
        start = start or datetime(1970, 1, 1, tzinfo=timezone.utc)
        offset = start.utcoffset()
        offset_h = offset.total_seconds() / SECONDS_PER_HOUR if offset is not None else 0.0
        super().__init__(LocalHours(start, offset_h), capacity_w)
        self._most: tuple[int, FloatArray] | None = None

    def _take(self, start_s: float, end_s: float, mean_w: float) -> None:
        """Ignore actual production."""

    def _learn_ideal(self, times_s: FloatArray, interval_s: float, values_w: FloatArray) -> None:
        """Set B to the maximum of the values at each hour of the day within 15 days."""
        parts = np.arange(0.0, interval_s, SECONDS_PER_HOUR)
        moments = times_s[:, None] + parts
        hours = np.floor(moments / SECONDS_PER_HOUR + self.hours.at_start + 1e-8).astype(np.int64).ravel()
        first = int(hours.min())
        hourly = np.zeros(int(hours.max()) - first + 1)
        np.maximum.at(hourly, hours - first, np.repeat(values_w, len(parts)))
        self._most = first // 24, running_most(day_rows(hourly, first, 0.0)[0], SEASON_DAYS)

    def _ideal_w(self, first_hour: int, hours: int) -> FloatArray:
        if self._most is None:
            return np.zeros(hours)
        first_day, most = self._most
        moments = first_hour + np.arange(hours)
        rows: IntArray = np.clip(moments // 24 - first_day, 0, len(most) - 1)
        return most[rows, moments % 24]


class FileForecast(_WithoutPredictor):
    """File of forecast powers: the latest issue is used; hours without a forecast have no production.

    B is the maximum in the file for the hour of the day within 15 days.
    """

    name = "file"

    def __init__(self, table: IssuedTable, start: datetime | None = None) -> None:
        """The capacity is the largest value of the table. Raises ConfigError."""
        if table.scheme is not None:
            raise ConfigError("forecast: found conditions, expected power (W): add a predictor")
        super().__init__(start, float(table.values.max()))
        self._table = table
        self._issues_before = 0
        """Number of issues of the tables before this one."""
        self._is_renewed = False
        self._learn_ideal(table.valid_s, table.interval_s, table.values)

    def renew(self, table: IssuedTable) -> None:
        """Use ``table``, which is of power, from now on."""
        self._issues_before += len(self._table.issued_s)
        self._table = table
        self._capacity_w = max(self._capacity_w, float(table.values.max()))
        self._learn_ideal(table.valid_s, table.interval_s, table.values)
        self.follow()

    def follow(self) -> None:
        """Count as a forecast that is renewed during the run."""
        self._is_renewed = True

    def age_s(self, now_s: float) -> float | None:
        """Return the time since the newest issue, s; None unless the forecast is renewed during the run."""
        if not self._is_renewed:
            return None
        issued_s = self._table.newest_issue_s(now_s)
        return None if issued_s is None else max(now_s - issued_s, 0.0)

    def forget_later(self, now_s: float) -> None:
        """Forget the issues after ``now_s`` (s)."""
        self._table = self._table.issued_by(now_s)

    def issued(self, now_s: float) -> IssuedTable | None:
        """Return the forecasts issued up to ``now_s`` (s)."""
        return self._table.known_at(now_s)

    def issue(self, later: IssuedTable) -> None:
        """Add forecasts, on the same grid of times, to be issued later than those so far."""
        self._table = self._table.with_later(later)

    def members_w(self, now_s: float, slot_s: float, slots: int) -> FloatArray | None:
        """Return the production of each member, without what is announced."""
        edges = _slot_edges(now_s, slot_s, slots)
        pieces_s, middles_s = self._intervals(now_s, float(edges[-1]))
        members_w = self._table.latest_members_w(now_s, middles_s)
        if members_w is None:
            return None
        return np.array([slot_means_w(edges, pieces_s, member_w) for member_w in members_w])

    def _issues_by(self, now_s: float) -> int:
        return self._issues_before + self._table.issues_by(now_s)

    def _curve(self, now_s: float, from_s: float, until_s: float) -> tuple[FloatArray, FloatArray]:
        edges, middles_s = self._intervals(from_s, until_s)
        return edges, np.nan_to_num(self._table.latest(now_s, middles_s), nan=0.0)

    def _quantile_curves(
        self, now_s: float, until_s: float
    ) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        edges, middles_s = self._intervals(now_s, until_s)
        curves_w = self._table.latest_by_level(now_s, middles_s)
        if self._table.levels is None or curves_w is None:
            return None
        return self._table.levels, edges, curves_w

    def _intervals(self, from_s: float, until_s: float) -> tuple[FloatArray, FloatArray]:
        """Return edges and middles of the table's intervals that cover a span, s."""
        interval_s = self._table.interval_s
        first_s = self._table.start_of_interval_s(from_s)
        pieces = int((until_s - first_s) / interval_s) + 1
        edges = first_s + interval_s * np.arange(pieces + 1, dtype=np.float64)
        return edges, edges[:-1] + interval_s / 2


class PerfectForecast(_WithoutPredictor):
    """Actual production, known in advance: for studies only, and noted in every result."""

    name = "perfect"
    band = Uncertainty(0.0, 0.0)
    notes = ("the production was known in advance: for studies only",)

    def __init__(self, production_w: FloatArray, step_s: float, start: datetime | None = None) -> None:
        """``production_w`` is the mean of each step from time 0 on, then there is none. Raises FieldError."""
        require_positive("step_s", step_s)
        values = np.asarray(production_w, dtype=np.float64)
        fine = values.ndim == 1 and len(values) > 0 and bool(np.all(np.isfinite(values) & (values >= 0)))
        require(fine, "production_w", "other values", "one finite power of 0 or more for each step")
        super().__init__(start, float(values.max()))
        self._edges_s = step_s * np.arange(len(values) + 1, dtype=np.float64)
        self._values_w = values
        self._learn_ideal(self._edges_s[:-1], step_s, values)

    def _curve(self, now_s: float, from_s: float, until_s: float) -> tuple[FloatArray, FloatArray]:
        first = max(int(np.searchsorted(self._edges_s, from_s, side="right")) - 1, 0)
        end = int(np.searchsorted(self._edges_s, until_s, side="left")) + 1
        first = min(first, len(self._values_w) - 1)
        return self._edges_s[first : end + 1], self._values_w[first:end]


class NoForecast(_WithoutPredictor):
    """Forecast without production; B is 0."""

    name = "none"

    def __init__(self, start: datetime | None = None) -> None:
        """Without ``start``, time 0 is midnight."""
        super().__init__(start, 0.0)

    def _curve(self, now_s: float, from_s: float, until_s: float) -> tuple[FloatArray, FloatArray]:
        return np.array([from_s, max(until_s, from_s + 1.0)]), np.zeros(1)


def slot_means_w(edges_s: FloatArray, pieces_s: FloatArray, power_w: FloatArray) -> FloatArray:
    """Return the mean of a piecewise constant curve over each slot, W; 0 outside the pieces.

    ``edges_s`` are those of the slots, [slots + 1], ``pieces_s`` those of the pieces, [n + 1]; a slot within
    one piece gets its power exactly.
    """
    total = np.concatenate(([0.0], np.cumsum(power_w * np.diff(pieces_s))))
    means = np.diff(np.interp(edges_s, pieces_s, total)) / np.diff(edges_s)
    first = np.searchsorted(pieces_s, edges_s[:-1] + TIME_TOLERANCE_S, side="right") - 1
    last = np.searchsorted(pieces_s, edges_s[1:] - TIME_TOLERANCE_S, side="left") - 1
    within = (first == last) & (first >= 0) & (first < len(power_w))
    exact = power_w[np.clip(first, 0, len(power_w) - 1)]
    return np.where(within, exact, np.maximum(means, 0.0))


def _slot_edges(now_s: float, slot_s: float, slots: int) -> FloatArray:
    require_positive("slot_s", slot_s)
    require(slots >= 0, "slots", slots, "a number of 0 or more")
    return now_s + slot_s * np.arange(slots + 1, dtype=np.float64)
