"""The sun of GreenSlot's week "Average", and what was predicted of it, for runs of the paper's workloads.

Goiri et al., "GreenSlot: Scheduling Energy Consumption in Green Datacenters", SC 2011: ten panels of 2.3 kW
in New Jersey from Monday, 12 July 2010, 9:00 to Friday 17:00. The values are mean powers of hours, measured
in the paper's figures; `beasy_sched.generate.workflows` has the jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.units import SECONDS_PER_HOUR

ACTUAL_W: Final = np.array([
    884, 1020, 1533, 1761, 1583, 1549, 828, 683, 376, 122, 16, *[0] * 10,
    92, 173, 297, 358, 204, 55, 347, 1540, 1142, 837, 528, 469, 386, 68, *[0] * 11,
    118, 203, 464, 867, 1085, 700, 189, 374, 106, 209, 276, 214, 88, 11, *[0] * 9,
    17, 241, 422, 397, 731, 1008, 982, 854, 1147, 1236, 1076, 634, 325, 55, *[0] * 10,
    24, 250, 640, 1083, 1401, 1610, 1628, 1090, 1626, 1351, 769,
], dtype=np.float64)  # fmt: skip
""""Green actual" of Figure 6, W, [104]."""
PREDICTED_W: Final = np.array([
    884, 1176, 1152, 1537, 1536, 1470, 1302, 669, 449, 170, 44, 1, *[0] * 9,
    99, 263, 493, 475, 441, 230, 58, 347, 1475, 1012, 676, 347, 212, 116, 6, *[0] * 9,
    37, 209, 227, 348, 358, 980, 1157, 700, 181, 331, 85, 137, 125, 77, 7, *[0] * 9,
    59, 158, 616, 566, 731, 1046, 1370, 982, 817, 1015, 999, 707, 287, 117, 5, *[0] * 9,
    59, 250, 369, 566, 1336, 1517, 1619, 1618, 1043, 1372, 1092,
], dtype=np.float64)  # fmt: skip
""""Green predicted" of Figure 7, one hour ahead, which begins at 10:00; before, the actual. W, [104]."""


def step_power_w(hourly_w: FloatArray, step_s: float) -> FloatArray:
    """Return the power of steps of ``step_s``, a divisor of an hour."""
    return np.repeat(hourly_w, round(SECONDS_PER_HOUR / step_s))


def forecast_lines(hourly_w: FloatArray) -> Iterator[str]:
    """Yield the lines of a forecast file in which every hour is known from the start."""
    yield "issued,valid,W\n"
    for hour, power_w in enumerate(hourly_w.tolist()):
        yield f"0,{hour * SECONDS_PER_HOUR:g},{power_w:g}\n"
