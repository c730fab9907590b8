"""Forecasts: a value for each step, and how far off it may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError
from beasy_sched.plan.power_problem import checked_powers
from beasy_sched.units import SECONDS_PER_HOUR


@dataclass(frozen=True)
class Uncertainty:
    """An uncertainty that grows with the horizon: a straight line, then constant. Raises ConfigError."""

    at_once: float = 0.05
    """u in the first step: a share of the value (0.05 is 5 %)."""
    at_horizon: float = 0.30
    horizon_s: float = 72 * SECONDS_PER_HOUR

    def __post_init__(self) -> None:
        for name in ("at_once", "at_horizon"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ConfigError(f"uncertainty {name}: found {value!r}, expected a share from 0 to 1")
        if not 0 < self.horizon_s < np.inf:
            raise ConfigError(f"uncertainty horizon_s: found {self.horizon_s!r}, expected a number > 0")

    def over(self, steps: int, step_s: float) -> FloatArray:
        """u of each step, taken at its start."""
        share: FloatArray = np.minimum(np.arange(steps) * step_s / self.horizon_s, 1.0)
        return self.at_once + (self.at_horizon - self.at_once) * share


@dataclass(frozen=True)
class Forecast:
    """Powers (W) and their uncertainties, one of each a step. Raises ConfigError, naming the step."""

    value_w: FloatArray
    uncertainty: FloatArray
    """u: the real value lies in value * (1 - u) .. value * (1 + u), what Eq. 3.23 and 3.24 mean."""

    def __post_init__(self) -> None:
        values = checked_powers("forecast", self.value_w)
        shares = np.asarray(self.uncertainty, dtype=np.float64)
        if shares.shape != values.shape:
            raise ConfigError(f"{len(values)} forecast values, but uncertainties of shape {shares.shape}")
        wrong = ~((shares >= 0.0) & (shares <= 1.0))
        if wrong.any():
            step = int(np.argmax(wrong))
            raise ConfigError(
                f"the uncertainty is {shares[step]} at step {step}, expected a share from 0 to 1"
            )
        object.__setattr__(self, "value_w", values)
        object.__setattr__(self, "uncertainty", shares)

    @property
    def low_w(self) -> FloatArray:
        """The least that the real value may be."""
        return self.value_w * (1.0 - self.uncertainty)

    @property
    def high_w(self) -> FloatArray:
        """The most that the real value may be."""
        return self.value_w * (1.0 + self.uncertainty)
