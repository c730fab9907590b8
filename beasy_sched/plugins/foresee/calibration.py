"""Intervals that keep their promise: adaptive conformal inference (Gibbs and Candès, NeurIPS 2021, Eq. 2).

As with ``--risk``, the level of an interval is adapted when its truth is known: up by gamma times the
promised share of misses after a hit, down by gamma times the rest after a miss. Below the level that the
continuations can express, the interval grows beyond them. Each class of horizons has its own level; the less
that of a class of starts or ends has learned, the more it is that of all classes together.

Intervals are those of starts and ends of jobs (80 %), and of levels of storages (90 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray

MISSES: Final = 0.2
"""Promised share of misses of starts and ends: intervals of 80 %."""
_FIRST_MISSES: Final = 0.15
"""Share of misses for which their first intervals are made: the futures of real runs are too much alike."""
FAN_MISSES: Final = 0.1
"""Promised share of misses of levels: fans of 90 %."""
FANS: Final = ("soc", "hydrogen")
"""Kinds of intervals that are fans of levels."""
_GAMMA: Final = 0.02
"""Step size of the level's adaptation, for each job."""
_FAN_GAMMA: Final = 0.05
"""Step size for each level that is learned: these are few."""
_ENOUGH: Final = 20
"""Number of truths from which the level of a class counts more than that of all classes."""
_LEAST_LEVEL: Final = -1.0
CLASS_ENDS_S: Final = (3600.0, 6 * 3600.0, 24 * 3600.0)
_NARROWEST: Final = 0.05
"""Half width of an interval that is to grow though all continuations agree, as a share of the time ahead."""

_INNER: Final = 0.25
"""Share of values below the inner part of a fan, and above it."""

CLASSES: Final = ("up to 1 h", "1 to 6 h", "6 to 24 h", "more than 24 h")
"""Classes of horizons, by the median of the time ahead."""


@dataclass
class Calibration:
    """Levels by kind of interval and class of horizon."""

    levels: dict[tuple[str, int], float] = field(default_factory=dict)
    counts: dict[tuple[str, int], int] = field(default_factory=dict)
    """Numbers of truths that each has learned."""
    pooled: dict[str, float] = field(default_factory=dict)
    """Levels of all classes together, by kind; not of fans."""

    def interval(self, kind: str, now: float, times_s: Sequence[float]) -> tuple[float, float, float]:
        """Return the calibrated interval of times, with the median in the middle, s."""
        values = np.sort(np.array(times_s, dtype=np.float64))
        middle = float(np.median(values))
        level = self.level(kind, class_of(now, middle))
        low, high = _bounds(values, level / 2.0, middle, max(middle - now, 0.0))
        return max(low, min(now, float(values[0]))), middle, high

    def fan(self, kind: str, ahead_s: float, levels: Sequence[float]) -> list[float]:
        """Return the calibrated fan of the levels of a storage: 5, 25, 50, 75 and 95 % quantiles."""
        values = np.sort(np.array(levels, dtype=np.float64))
        middle = float(np.median(values))
        level = self.level(kind, class_of(0.0, ahead_s))
        low, high = _bounds(values, level / 2.0, middle, 0.0)
        inner_low, inner_high = _bounds(values, _INNER, middle, 0.0)
        return [low, max(low, inner_low), middle, min(high, inner_high), high]

    def level(self, kind: str, horizon: int) -> float:
        """Return the share of misses for which an interval of a class is made."""
        if kind in FANS:
            return self.levels.get((kind, horizon), FAN_MISSES)
        count, pooled = self.counts.get((kind, horizon), 0), self.pooled.get(kind, _FIRST_MISSES)
        return (count * self.levels.get((kind, horizon), pooled) + _ENOUGH * pooled) / (count + _ENOUGH)

    def learn(self, kind: str, horizon: int, hit: bool) -> None:
        """Adapt the level of a class after a hit or a miss."""
        if kind in FANS:
            before, misses, gamma = FAN_MISSES, FAN_MISSES, _FAN_GAMMA
        else:
            before, misses, gamma = self.pooled.get(kind, _FIRST_MISSES), MISSES, _GAMMA
            self.pooled[kind] = _adapted(before, misses, gamma, hit)
        key = kind, horizon
        self.levels[key] = _adapted(self.levels.get(key, before), misses, gamma, hit)
        self.counts[key] = self.counts.get(key, 0) + 1


def _adapted(level: float, misses: float, gamma: float, hit: bool) -> float:
    return min(max(level + gamma * (misses - (not hit)), _LEAST_LEVEL), 1.0)


def class_of(now: float, time_s: float) -> int:
    """Return the number of the class of a time foreseen at ``now``, both s."""
    return int(np.searchsorted(CLASS_ENDS_S, time_s - now))


def _bounds(values: FloatArray, tail: float, middle: float, ahead_s: float) -> tuple[float, float]:
    """Return the quantiles of ``tail`` and 1 - ``tail``, which may be beyond the values."""
    count = len(values)
    place = max(tail * (count + 1) - 1.0, 0.0)
    least = min(1.0 / (count + 1), _FIRST_MISSES / 2.0)
    places = np.arange(count)
    low, high = float(np.interp(place, places, values)), float(np.interp(count - 1 - place, places, values))
    if tail < least:
        more = (least - tail) / least
        narrowest = _NARROWEST * ahead_s
        low -= more * max(middle - low, narrowest)
        high += more * max(high - middle, narrowest)
    return low, high
