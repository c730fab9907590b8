"""The demand charge of a grid: the highest mean import of any 15 minutes of a period costs.

Quarters of an hour are those of the site's clock, or of simulated time for a site without one. A step that
does not divide them adds to each quarter the energy that it imported in it, at its mean power. A quarter that
the run covers only in part counts with the energy imported in the run. A quarter belongs to the period in
which it begins. See docs/decisions/greenslot-and-grid.md#a-peak-that-costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.fields import require_not_negative
from beasy_sched.units import TIME_TOLERANCE_S, w_to_kw

QUARTER_S: Final = 900.0
"""Time over which the import is averaged, s."""

Period: TypeAlias = int
"""Number of a window, or of a month: 12 times the year, plus the month from 0."""


class PeakPeriod(str, Enum):
    """Time whose highest quarter of an hour costs once."""

    MONTH = "month"
    """Each month of the site's clock."""
    WINDOW = "window"
    """Each planning window."""


@dataclass(frozen=True)
class PeakPrice:
    """Price of the highest mean import of any 15 minutes. Raises `FieldError` for a price below 0."""

    per_kw: float
    """Price of a kW, in the site's currency, in each period."""
    period: PeakPeriod = PeakPeriod.WINDOW
    calendar: Calendar | None = None
    """Clock of the quarters; None: they count from time 0. Months require it."""

    def __post_init__(self) -> None:
        require_not_negative("per_kw", self.per_kw)
        if self.period is PeakPeriod.MONTH and self.calendar is None:
            raise ValueError("period: a month requires a calendar")


class PeakMeter:
    """Averages imports over quarters of an hour, and keeps the highest of each period."""

    def __init__(self, price: PeakPrice, window_s: float) -> None:
        """Begin with no import; ``window_s`` is the length of a window."""
        self.price = price
        self.window_s = window_s
        self._offset_s = 0.0
        if price.calendar is not None:
            local = price.calendar.local(0.0)
            self._offset_s = (60 * local.minute + local.second + local.microsecond / 1e6) % QUARTER_S
        self._peaks_w: dict[Period, float] = {}
        self._periods: dict[int, Period] = {}
        """Periods of quarters that were asked for."""
        self._quarter, self._end_s, self._period = -1, -math.inf, 0
        """The quarter under way, its end (s) and its period."""
        self._imported_j = 0.0

    def quarter_at(self, time_s: float) -> int:
        """Return the number of the quarter at ``time_s``; 0 is that of time 0."""
        return math.floor((time_s + self._offset_s) / QUARTER_S)

    def start_of(self, quarter: int) -> float:
        """Return the time at which a quarter begins, s."""
        return quarter * QUARTER_S - self._offset_s

    def period_at(self, time_s: float) -> Period:
        """Return the period to which the quarter at ``time_s`` belongs."""
        return self.period_of(self.quarter_at(time_s))

    def period_of(self, quarter: int) -> Period:
        """Return the period of a quarter."""
        period = self._periods.get(quarter)
        if period is None:
            period = self._periods[quarter] = self._found_period(quarter)
        return period

    def periods_at(self, times_s: FloatArray) -> IntArray:
        """Return the period of the quarter at each of ``times_s``, which ascend."""
        first, last = self.period_at(float(times_s[0])), self.period_at(float(times_s[-1]))
        if first == last:
            return np.full(len(times_s), first)
        return np.array([self.period_at(time_s) for time_s in times_s.tolist()])

    def _found_period(self, quarter: int) -> Period:
        start_s = max(self.start_of(quarter), 0.0)
        if self.price.period is PeakPeriod.WINDOW or self.price.calendar is None:
            return math.floor((start_s + TIME_TOLERANCE_S) / self.window_s)
        local = self.price.calendar.local(start_s)
        return 12 * local.year + local.month - 1

    def add(self, start_s: float, dt_s: float, import_w: float) -> None:
        """Count the mean import (W) of a step."""
        now_s, end_s = start_s, start_s + dt_s
        while now_s < end_s:
            if now_s >= self._end_s:
                self._open(now_s)
            until_s = min(end_s, self._end_s)
            self._imported_j += import_w * (until_s - now_s)
            now_s = until_s
        if import_w > 0.0:
            self._count()

    def _open(self, time_s: float) -> None:
        """Begin the quarter of ``time_s``."""
        self._count()
        quarter = self.quarter_at(time_s)
        if quarter == self._quarter:  # its end was reached, but for rounding
            quarter += 1
        self._quarter, self._imported_j = quarter, 0.0
        self._end_s, self._period = self.start_of(quarter + 1), self.period_of(quarter)

    def _count(self) -> None:
        mean_w = self._imported_j / QUARTER_S
        if mean_w > self._peaks_w.get(self._period, 0.0):
            self._peaks_w[self._period] = mean_w

    @property
    def peaks_w(self) -> Mapping[Period, float]:
        """Highest mean import of each period so far, W; a period without import has none."""
        return self._peaks_w

    @property
    def peak_w(self) -> float:
        """Highest mean import of all periods so far, W."""
        return max(self._peaks_w.values(), default=0.0)

    def peak_at_w(self, time_s: float) -> float:
        """Return the highest mean import so far (W) of the period of ``time_s``."""
        return self._peaks_w.get(self.period_at(time_s), 0.0)

    @property
    def cost(self) -> float:
        """Cost of the peaks so far, in the site's currency."""
        return math.fsum(self.price.per_kw * w_to_kw(peak_w) for peak_w in self._peaks_w.values())
