"""Quantile forecasts of power."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError


class PowerBand(NamedTuple):
    """Median between bounds, W for each step."""

    low_w: FloatArray
    value_w: FloatArray
    high_w: FloatArray


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Quantiles of a power. Raises ConfigError for levels that do not increase, or crossing quantiles."""

    levels: FloatArray
    """Probabilities, rising, from 0 to 1, [k]."""
    power_w: FloatArray
    """Power that the actual one does not exceed with each probability, W, [k, T]."""

    def __post_init__(self) -> None:
        if not len(self.levels) or len(self.levels) != len(self.power_w):
            raise ConfigError("quantiles: expected one row of powers for each level, and at least one")
        if np.any(np.diff(self.levels) <= 0.0) or self.levels[0] < 0.0 or self.levels[-1] > 1.0:
            raise ConfigError(
                f"levels of quantiles: found {self.levels}, expected increasing shares from 0 to 1"
            )
        if np.any(np.diff(self.power_w, axis=0) < 0.0):
            raise ConfigError("quantiles cross: found less power at a higher level")

    @classmethod
    def of_bounds(cls, bounds: PowerBand) -> Quantiles:
        """Return quantiles of a median between strict bounds, uniformly distributed between them."""
        return cls(np.array([0.0, 0.5, 1.0]), np.stack(bounds))

    def at(self, level: float) -> FloatArray:
        """Return the power of a level, W, [T], by linear interpolation.

        Below the lowest level, the line goes to 0 W at level 0, which also applies to lower levels; above the
        highest, the power is constant.
        """
        if level <= 0.0:
            return np.zeros(self.power_w.shape[1])
        above = int(np.searchsorted(self.levels, level))
        if above == len(self.levels):
            return np.array(self.power_w[-1])
        low, low_w = (self.levels[above - 1], self.power_w[above - 1]) if above else (0.0, 0.0)
        share = (level - low) / (self.levels[above] - low)
        power_w: FloatArray = low_w + share * (self.power_w[above] - low_w)
        return power_w

    def during(self, steps: slice) -> Quantiles:
        """Return the quantiles of some of the steps."""
        return Quantiles(self.levels, self.power_w[:, steps])

    def mapped(self, change: Callable[[FloatArray], FloatArray]) -> Quantiles:
        """Return the quantiles of a monotone function of the power (W, [T])."""
        power_w = np.stack([change(row) for row in self.power_w])
        return Quantiles(self.levels, np.maximum.accumulate(power_w, axis=0))  # against rounding

    def bounds(self, level: float) -> PowerBand:
        """Return the quantiles of a level up to 0.5, of 0.5, and of 1 minus the level."""
        low = min(level, 0.5)
        return PowerBand(self.at(low), self.at(0.5), self.at(1.0 - low))
