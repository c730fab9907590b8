"""How careful `bid-price` is: all that it keeps in hand against doubt, in one place."""

from __future__ import annotations

from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray

LEVEL_MARGIN: Final = 0.005
"""Share of the capacity to keep above SoC_min and target: about what a full site draws in a step."""
RATIONING_SIGMAS: Final = 0.5
"""Standard errors of the production that the price leaves out; it can be corrected at each step."""
COMMITMENT_SIGMAS: Final = 2.0
"""The same for jobs that start, which cannot be taken back."""
RATIONING_LEVEL: Final = 0.3
"""Level of the forecast's quantile that the price counts on at least, where a risk is promised."""
RUNNING_SIGMAS: Final = 1.0
"""Standard deviations by which the running jobs together may draw more than expected."""
START_SIGMAS: Final = 0.5
"""The same for a job that starts."""
END_MARGIN_S: Final = 1.0
"""How long before the horizon's end a job must be sure to end, s."""


def careful_w(power_w: float, chance: FloatArray) -> FloatArray:
    """Power (W) to count on for a job that starts, which draws ``power_w`` with a ``chance`` in each cell."""
    return np.asarray(power_w * (chance + START_SIGMAS * np.sqrt(chance * (1.0 - chance))))
