"""The grid connection of a site: limits of import and export, prices and carbon.

GreenSlot's model (Goiri et al., SC 2011, Section 3): the grid is the backup of solar and wind. Prices and
carbon intensities are quantities over simulated time, from a file or from a tariff of local hours.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.fields import require, require_not_negative
from beasy_sched.errors import ConfigError
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_DAY, TIME_TOLERANCE_S

if TYPE_CHECKING:
    from beasy_sched.energy.grid_charging import GridRules
    from beasy_sched.energy.grid_peak import PeakPrice

_PUBLISHED_HOUR: Final = 13
"""Local hour at which the prices of the next day are published, as on European day-ahead markets."""


class Rate(Protocol):
    """Piecewise constant quantity over simulated time: a price or a carbon intensity."""

    def means(self, edges_s: FloatArray) -> FloatArray:
        """Return the time-weighted mean between each two of ``edges_s`` (s, ascending): one value fewer."""
        ...

    def mean(self, start_s: float, end_s: float) -> float:
        """Return the time-weighted mean from ``start_s`` to ``end_s`` (s)."""
        return self.means(np.array([start_s, end_s])).item(0)

    @property
    def span_s(self) -> tuple[float, float]:
        """The time for which the quantity is given, s."""
        ...

    def covers(self, start_s: float, end_s: float) -> bool:
        """Return whether the quantity is given for the whole time from ``start_s`` to ``end_s``."""
        first_s, last_s = self.span_s
        return first_s <= start_s + TIME_TOLERANCE_S and end_s <= last_s + TIME_TOLERANCE_S


class Signal(Rate):
    """`Rate` given by its changes, for example hour by hour from a file."""

    def __init__(self, times_s: FloatArray, values: FloatArray) -> None:
        """Hold ``values[i]`` from ``times_s[i]`` to ``times_s[i + 1]`` (s): one time more than values.

        Raises ValueError unless the times ascend and the values are finite.
        """
        times, given = np.asarray(times_s, dtype=np.float64), np.asarray(values, dtype=np.float64)
        if times.shape != (len(given) + 1,) or not len(given) or not np.all(np.diff(times) > 0.0):
            raise ValueError("times_s: expected ascending times, one more than the values")
        if not np.all(np.isfinite(given)):
            raise ValueError("values: expected finite numbers")
        self.times_s, self.values = times, given
        self._integral = np.concatenate(([0.0], np.cumsum(given * np.diff(times))))

    def means(self, edges_s: FloatArray) -> FloatArray:
        """Return the means between ``edges_s``, exact where an interval does not change."""
        edges = np.asarray(edges_s, dtype=np.float64)
        first = self._place(edges[:-1] + TIME_TOLERANCE_S)
        last = self._place(edges[1:] - TIME_TOLERANCE_S)
        if (first == last).all():
            return self.values[first]
        integral = np.interp(edges, self.times_s, self._integral)
        mixed = np.diff(integral) / np.diff(edges)
        return np.where(first == last, self.values[first], mixed)

    def mean(self, start_s: float, end_s: float) -> float:
        """Return the mean from ``start_s`` to ``end_s``, as `means` does."""
        first, last = self._index(start_s + TIME_TOLERANCE_S), self._index(end_s - TIME_TOLERANCE_S)
        return self.values.item(first) if first == last else super().mean(start_s, end_s)

    @property
    def span_s(self) -> tuple[float, float]:
        """The first time and the last."""
        return float(self.times_s[0]), float(self.times_s[-1])

    def _place(self, times_s: FloatArray) -> IndexArray:
        places = np.searchsorted(self.times_s, times_s, side="right") - 1
        return np.clip(places, 0, len(self.values) - 1)

    def _index(self, time_s: float) -> int:
        return min(max(bisect_right(self._listed_s, time_s) - 1, 0), len(self.values) - 1)

    @cached_property
    def _listed_s(self) -> list[float]:
        """The times, for one at a time."""
        listed_s: list[float] = self.times_s.tolist()
        return listed_s


class Tariff(Rate):
    """Repeating `Rate`: a price for each local hour of each month, without end."""

    def __init__(self, per_kwh: FloatArray, calendar: Calendar) -> None:
        """``per_kwh`` is [month from 0, hour]; ``calendar`` defines time 0."""
        self.per_kwh = per_kwh
        self.calendar = calendar
        self._first_s, self._last_s = 0.0, 0.0
        self._signal: Signal | None = None

    def means(self, edges_s: FloatArray) -> FloatArray:
        """Return the means between ``edges_s``."""
        return self._covering(float(edges_s[0]), float(edges_s[-1])).means(edges_s)

    def mean(self, start_s: float, end_s: float) -> float:
        """Return the mean from ``start_s`` to ``end_s``."""
        return self._covering(start_s, end_s).mean(start_s, end_s)

    def _covering(self, first_s: float, last_s: float) -> Signal:
        if self._signal is None or first_s < self._first_s or last_s > self._last_s:
            span_s = max(last_s - first_s, 4.0 * SECONDS_PER_DAY)
            self._first_s = min(self._first_s, first_s)
            self._last_s = max(self._last_s, last_s) + span_s
            self._signal = self._expanded()
        return self._signal

    @property
    def span_s(self) -> tuple[float, float]:
        """End of the tariff, s: infinite."""
        return -math.inf, math.inf

    def _expanded(self) -> Signal:
        """Expand the hours from midnight before the first time to midnight after the last."""
        calendar = self.calendar
        day = calendar.midnight(calendar.local(self._first_s))
        times_s: list[float] = []
        values: list[float] = []
        while not times_s or times_s[-1] < self._last_s:
            for hour in range(24):
                start_s = calendar.seconds(day.replace(hour=hour))
                if times_s and start_s <= times_s[-1]:  # the hour before was skipped by the clocks
                    del times_s[-1], values[-1]
                times_s.append(start_s)
                values.append(float(self.per_kwh[day.month - 1, hour]))
            day = calendar.midnight(day + timedelta(days=1, hours=12))
        return Signal(np.array([*times_s, calendar.seconds(day)]), np.array(values))


def tariff_table(rows: Iterable[tuple[Iterable[int], tuple[int, int], float]]) -> FloatArray:
    """Return prices by [month from 0, local hour] of rows (months from 1, (from hour, to hour), per kWh).

    An hour's end is not included; a row whose hours begin after their end runs over midnight. Raises
    ConfigError that names an hour without a price, or with two.
    """
    table = np.full((12, 24), np.nan)
    for months, (first, last), per_kwh in rows:
        hours = [*range(first, last)] if first < last else [*range(first, 24), *range(last)]
        for month in months:
            for hour in hours:
                if not math.isnan(table[month - 1, hour]):
                    raise ConfigError(f"grid.tariff: month {month} has two prices from {hour}:00 on")
                table[month - 1, hour] = per_kwh
    if np.isnan(table).any():
        month, hour = (int(place[0]) for place in np.nonzero(np.isnan(table)))
        raise ConfigError(f"grid.tariff: month {month + 1} has no price from {hour}:00 on")
    return table


class Export(str, Enum):
    """Remuneration of exported energy."""

    NONE = "none"
    """Export is not allowed."""
    FEED_IN = "feed-in"
    """A fixed price per kWh."""
    NET = "net"
    """The current import price: net metering."""


class Known(str, Enum):
    """Look-ahead of a price or carbon intensity."""

    DAY_AHEAD = "day-ahead"
    """Known to the end of the local day; from 13:00 on, to the end of the next day."""
    DAY = "24h"
    """The coming 24 hours."""
    ALL = "all"
    """Everything the file holds: for studies, and for tariffs."""


@dataclass(frozen=True)
class Foreseen:
    """`Rate` with a limited look-ahead; beyond it, the same hours of the last known day are expected."""

    rate: Rate
    calendar: Calendar | None = None
    known: Known = Known.ALL

    def limit_to(self, now: float, until_s: float, step_s: float) -> None:
        """Let the rate be what is known or expected at ``now`` (s), up to ``until_s``, step by step.

        This changes the object: whoever has the grid has the expected rate from then on.
        """
        if self.known is Known.ALL:
            return
        first_s = math.floor(now / step_s) * step_s
        steps = math.ceil((until_s - first_s) / step_s)
        edges: FloatArray = first_s + step_s * np.arange(steps + 1, dtype=np.float64)
        before = np.arange(max(first_s - 2 * SECONDS_PER_DAY, self.rate.span_s[0]), first_s, step_s)
        past = self.rate.means(np.append(before, first_s)) if len(before) else np.zeros(0)
        values = np.concatenate((past, self.expected(now, edges)))
        object.__setattr__(self, "rate", Signal(np.concatenate((before, edges)), values))

    def known_until_s(self, now: float) -> float:
        """Return the time up to which the rate is known at ``now``, s."""
        if self.known is Known.DAY:
            return now + SECONDS_PER_DAY
        if self.known is Known.DAY_AHEAD and self.calendar is not None:
            published = self.calendar.local(now).hour >= _PUBLISHED_HOUR
            return self.calendar.day_end_s(now, days=1 if published else 0)
        return math.inf

    def expected(self, now: float, edges_s: FloatArray) -> FloatArray:
        """Return the means between ``edges_s`` (s) as known or expected at ``now``.

        Unknown times, or times after the end of the rate, use the values an integer number of days before.
        """
        return known_or_days_before(self.rate, self.known_until_s(now), edges_s)[0]


def known_or_days_before(rate: Rate, until_s: float, edges_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the means of a rate between ``edges_s`` (s), of which those up to ``until_s`` are known.

    Later times, and those after the end of the rate, have the values a whole number of days before: the
    second result, in seconds.
    """
    edges = np.asarray(edges_s, dtype=np.float64)
    until_s = min(until_s, rate.span_s[1])
    late_s = np.maximum(edges[1:] - until_s - TIME_TOLERANCE_S, 0.0)
    back_s = np.ceil(late_s / SECONDS_PER_DAY) * SECONDS_PER_DAY
    if not back_s.any():
        return rate.means(edges), back_s
    changes = np.flatnonzero(back_s[1:] != back_s[:-1]) + 1
    bounds = [0, *changes.tolist(), len(back_s)]
    runs = [rate.means(edges[first : end + 1] - back_s[first]) for first, end in pairwise(bounds)]
    return np.concatenate(runs), back_s


@dataclass(frozen=True)
class Grid:
    """Connection to the grid. Raises `FieldError` (a ConfigError) for values out of range."""

    import_limit_w: float = math.inf
    export: Export = Export.NONE
    export_limit_w: float = math.inf
    feed_in_per_kwh: float = 0.0
    currency: str = "USD"
    price: Foreseen | None = None
    """Import price per kWh; None if energy from the grid is free."""
    carbon: Foreseen | None = None
    """Carbon intensity of the grid, g/kWh; None if unknown."""
    rules: GridRules | None = None
    """Rules for the battery: when the grid charges it, and when it rests; None: it serves before the grid."""
    peak: PeakPrice | None = None
    """Price of the highest mean import; None without one."""

    def __post_init__(self) -> None:
        for field in ("import_limit_w", "export_limit_w"):
            value = getattr(self, field)
            require(value >= 0, field, value, ">= 0")
        require(math.isfinite(self.feed_in_per_kwh), "feed_in_per_kwh", self.feed_in_per_kwh, "a number")
        if self.export is Export.NET and self.price is None:
            raise ConfigError('grid.export: "net" requires a price: add a tariff, or price = FILE')

    @cached_property
    def may_export_w(self) -> float:
        """Maximum export power, W."""
        return 0.0 if self.export is Export.NONE else self.export_limit_w

    @property
    def charges_battery(self) -> bool:
        """Whether the grid may charge the battery."""
        return self.rules is not None and self.rules.charge is not None

    @property
    def unlimited(self) -> bool:
        """Whether the grid can always supply the servers, because it has no import limit."""
        return math.isinf(self.import_limit_w)


@dataclass(frozen=True)
class Metered:
    """Cost of a step's import and export."""

    price_per_kwh: float
    """Mean import price of the step."""
    cost: float
    """Import times price, in the site's currency; negative for a negative price."""
    revenue: float
    """Revenue of the export."""
    carbon_g: float | None
    """Carbon of the import; None if the intensity is unknown."""


@dataclass(frozen=True)
class Announced:
    """Price and carbon intensity published for the current step; they replace those of the files."""

    price_per_kwh: float | None = None
    carbon_g_per_kwh: float | None = None


def meter(
    grid: Grid, start_s: float, dt_s: float, import_w: float, export_w: float, announced: Announced
) -> Metered:
    """Return the cost of a step from ``start_s`` of ``dt_s`` seconds at mean powers (W)."""
    require_not_negative("import_w", import_w)
    end_s = start_s + dt_s
    price = announced.price_per_kwh
    if price is None:
        price = 0.0 if grid.price is None else grid.price.rate.mean(start_s, end_s)
    carbon = announced.carbon_g_per_kwh
    if carbon is None and grid.carbon is not None:
        carbon = grid.carbon.rate.mean(start_s, end_s)
    import_kwh, export_kwh = (power_w * dt_s / JOULES_PER_KWH for power_w in (import_w, export_w))
    earned = price if grid.export is Export.NET else grid.feed_in_per_kwh
    return Metered(
        price, import_kwh * price, export_kwh * earned, None if carbon is None else import_kwh * carbon
    )
