"""The load of a site besides its servers, and the conversion between the servers' power and the site's.

A site must supply its servers, their cooling, which is proportional to their power, and what always runs: the
base load and services. Every comparison of a supply with servers uses a `StepLoad` (the present step) or a
`LoadAhead` (later steps, as known now), which `Site.load_during` and `Site.load_ahead` return.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.grid import Rate, Signal, known_or_days_before
from beasy_sched.units import SECONDS_PER_DAY, TIME_TOLERANCE_S


class LoadKnown(str, Enum):
    """Look-ahead of services and of the outside temperature, beyond the present step."""

    YESTERDAY = "yesterday"
    """Nothing: the same time of the last day that has passed is expected."""
    DAY = "24h"
    """The coming 24 hours, as by a forecast without errors."""
    ALL = "all"
    """Everything the file holds: for studies."""


class StepTable(NamedTuple):
    """Means of a quantity in the whole steps for which it is given."""

    first: int
    """Number of the first of these steps, counted from time 0."""
    values: FloatArray
    listed: list[float]
    """The same values."""


@dataclass(frozen=True)
class Course:
    """A quantity of the site over simulated time, with a limited look-ahead.

    The mean of the present step is known.
    """

    rate: Rate
    known: LoadKnown = LoadKnown.YESTERDAY
    dated: bool = True
    """Whether its times are dates; False: they count from time 0 of the run, whenever it is."""
    _tables: dict[float, StepTable] = field(default_factory=dict, init=False, repr=False, compare=False)

    def mean(self, start_s: float, end_s: float) -> float:
        """Return the mean between two times, s."""
        return self.rate.mean(start_s, end_s)

    def during(self, start_s: float, end_s: float, step_s: float) -> float:
        """Return the mean between two times (s), from the table of steps if they are those of one."""
        table, number = self.by_step(step_s), step_of(start_s, end_s, step_s)
        if number is None or not 0 <= number - table.first < len(table.listed):
            return self.mean(start_s, end_s)
        return table.listed[number - table.first]

    def by_step(self, step_s: float) -> StepTable:
        """Return the means of whole steps, s; empty for a rate without beginning or end."""
        table = self._tables.get(step_s)
        if table is None:
            table = self._tables[step_s] = _tabulated(self.rate, step_s)
        return table

    def expected(self, now: float, step_s: float, edges_s: FloatArray) -> FloatArray:
        """Return the means between ``edges_s`` (s) as known or expected at ``now``, in steps of ``step_s``.

        Unknown times have the values a whole number of days before, or those of the present step where the
        quantity is not given so early.
        """
        present = math.floor((now + TIME_TOLERANCE_S) / step_s)
        step_end_s = (present + 1) * step_s
        until_s = {
            LoadKnown.ALL: math.inf,
            LoadKnown.DAY: max(now + SECONDS_PER_DAY, step_end_s),
            LoadKnown.YESTERDAY: step_end_s,
        }[self.known]
        if (first := _first_of_steps(edges_s, step_s)) is not None:
            found = self._expected_steps(present, until_s, step_s, first, len(edges_s) - 1)
            if found is not None:
                return found
        means, back_s = known_or_days_before(self.rate, until_s, edges_s)
        early = edges_s[:-1] - back_s < self.rate.span_s[0] - TIME_TOLERANCE_S
        if early.any():
            means = np.where(early, self.mean(step_end_s - step_s, step_end_s), means)
        return means

    def limit_to(self, now: float, until_s: float, step_s: float) -> None:
        """Let the quantity be what is known or expected at ``now`` (s), up to ``until_s``, step by step.

        This changes the object: whoever has the site has the expected quantity from then on.
        """
        first = math.floor((now + TIME_TOLERANCE_S) / step_s)
        steps = max(math.ceil(until_s / step_s) - first, 1)
        edges_s: FloatArray = step_s * np.arange(first, first + steps + 1, dtype=np.float64)
        ahead = self.expected(now, step_s, edges_s)
        a_week = math.ceil(7 * SECONDS_PER_DAY / step_s)
        past_first = max(first - a_week, min(math.ceil(self.rate.span_s[0] / step_s - 1e-9), first))
        past_edges_s: FloatArray = step_s * np.arange(past_first, first + 1, dtype=np.float64)
        past = self.rate.means(past_edges_s) if past_first < first else np.zeros(0)
        rate = Signal(np.concatenate((past_edges_s[:-1], edges_s)), np.concatenate((past, ahead)))
        object.__setattr__(self, "rate", rate)
        self._tables.clear()

    def _expected_steps(
        self, present: int, until_s: float, step_s: float, first: int, steps: int
    ) -> FloatArray | None:
        """Return the expected means of steps from ``first`` on; None if these have no table."""
        table, a_day = self.by_step(step_s), round(SECONDS_PER_DAY / step_s)
        end = table.first + len(table.values)
        if abs(a_day * step_s - SECONDS_PER_DAY) > TIME_TOLERANCE_S or not table.first <= present < end:
            return None
        known_end = end if until_s == math.inf else min(math.floor(until_s / step_s + 1e-9), end)
        numbers = np.arange(first, first + steps)
        late = np.maximum(numbers + 1 - known_end, 0)
        places = numbers + late // -a_day * a_day - table.first
        places[places < 0] = present - table.first
        return np.asarray(table.values.take(places))


def _tabulated(rate: Rate, step_s: float) -> StepTable:
    begin_s, end_s = rate.span_s
    if not (math.isfinite(begin_s) and math.isfinite(end_s)):
        return StepTable(0, np.empty(0), [])
    first, end = math.ceil(begin_s / step_s - 1e-9), math.floor(end_s / step_s + 1e-9)
    if end <= first:
        return StepTable(0, np.empty(0), [])
    values = rate.means(step_s * np.arange(first, end + 1, dtype=np.float64))
    return StepTable(first, values, values.tolist())


def _first_of_steps(edges_s: FloatArray, step_s: float) -> int | None:
    """Return the number of the step that begins at the first edge; None if edges are not those of steps."""
    if len(edges_s) < 2:
        return None
    first_s, steps = edges_s.item(0), len(edges_s) - 1
    first = round(first_s / step_s)
    second_apart_s = abs(edges_s.item(1) - (first + 1) * step_s)
    last_apart_s = abs(edges_s.item(-1) - (first + steps) * step_s)
    apart_s = max(abs(first_s - first * step_s), second_apart_s, last_apart_s)
    return first if apart_s <= TIME_TOLERANCE_S else None


def step_of(start_s: float, end_s: float, step_s: float) -> int | None:
    """Return the number of the whole step between two times, s; None if they are not those of one."""
    number = round(start_s / step_s)
    is_one = abs(start_s - number * step_s) <= TIME_TOLERANCE_S
    return number if is_one and abs(end_s - (number + 1) * step_s) <= TIME_TOLERANCE_S else None


class StepLoad(NamedTuple):
    """Load of one step besides the servers."""

    base_w: float = 0.0
    """Power of the base load and of services, W."""
    pue: float = 1.0
    """Power of servers and their cooling, in units of the servers' power."""
    services_w: float = 0.0
    """The part of ``base_w`` that is services, W."""

    def site_w(self, servers_w: float) -> float:
        """Return the power that the site draws while its servers draw ``servers_w``, W."""
        return servers_w * self.pue + self.base_w

    def for_servers_w(self, site_w: float) -> float:
        """Return the power that servers may draw of a supply of the site, W; negative if it is too low."""
        return (site_w - self.base_w) / self.pue


@dataclass(frozen=True)
class LoadAhead:
    """Load besides the servers in some later steps, as known now."""

    base_w: float = 0.0
    """Constant base load, W."""
    services_w: FloatArray | None = None
    """Services, W by step; None for a site without any."""
    pue: FloatArray | None = None
    """Power of servers and their cooling, in units of the servers' power, by step; None without cooling."""

    @property
    def always_w(self) -> float | FloatArray:
        """Power of base load and services, W: one value, or one by step."""
        return self.base_w if self.services_w is None else self.base_w + self.services_w

    def cooled(self, servers: FloatArray) -> FloatArray:
        """Return power or energy of servers by step together with that of their cooling, in the same unit."""
        return servers if self.pue is None else servers * self.pue

    def for_servers_w(self, site_w: FloatArray) -> FloatArray:
        """Return the power that servers may draw of a supply of the site in each step, W."""
        left_w = site_w - self.always_w
        return left_w if self.pue is None else left_w / self.pue

    def during(self, steps: slice) -> LoadAhead:
        """Return the load in some of the steps."""
        return replace(
            self,
            services_w=None if self.services_w is None else self.services_w[steps],
            pue=None if self.pue is None else self.pue[steps],
        )
