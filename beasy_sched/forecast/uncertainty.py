"""Uncertainty of forecasts: a share of the value that grows with the time ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from beasy_sched.errors import ConfigError
from beasy_sched.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from beasy_sched.arrays import FloatArray


@dataclass(frozen=True)
class Uncertainty:
    """Uncertainty that grows with the horizon: a straight line, then constant. Raises ConfigError."""

    at_once: float = 0.05
    """u in the first step: a share of the value (0.05 is 5 %)."""
    at_horizon: float = 0.30
    horizon_s: float = 72 * SECONDS_PER_HOUR

    def __post_init__(self) -> None:
        for name in ("at_once", "at_horizon"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ConfigError(f"uncertainty {name}: found {value!r}, expected a share from 0 to 1")
        if not 0 < self.horizon_s < math.inf:
            raise ConfigError(f"uncertainty horizon_s: found {self.horizon_s!r}, expected a number > 0")

    def over(self, steps: int, step_s: float) -> FloatArray:
        """u of each step, taken at its start."""
        import numpy as np

        share: FloatArray = np.minimum(np.arange(steps) * step_s / self.horizon_s, 1.0)
        return self.at_once + (self.at_horizon - self.at_once) * share
