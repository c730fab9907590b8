"""Safety margins of `bid-price`."""

from __future__ import annotations

from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray

LEVEL_MARGIN: Final = 0.005
"""Share of the capacity to keep above SoC_min and target: about the energy of a full site in a step."""
RATIONING_SIGMAS: Final = 0.5
"""Standard errors subtracted from the production for the price, which can be corrected at each step."""
COMMITMENT_SIGMAS: Final = 2.0
"""The same for starts of jobs, which cannot be undone."""
RATIONING_LEVEL: Final = 0.3
"""Minimum level of the forecast's quantile used for the price with a risk limit."""
RUNNING_SIGMAS: Final = 1.0
"""Standard deviations by which the running jobs together may draw more than expected."""
START_SIGMAS: Final = 0.5
"""The same for a job that starts."""
END_MARGIN_S: Final = 1.0
"""Time before the horizon's end by which a job must be certain to end, s."""


def careful_w(power_w: float, chance: FloatArray) -> FloatArray:
    """Return the power (W) assumed for a job that draws ``power_w`` with a ``chance`` in each cell."""
    return np.asarray(power_w * (chance + START_SIGMAS * np.sqrt(chance * (1.0 - chance))))
