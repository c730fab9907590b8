"""Distribution of a total energy over the parts of a period, inversely to a price or a carbon intensity."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError
from beasy_sched.units import counted

LOWEST_SHARE: Final = 0.1
"""Share of the mean of the positive rates as which lower ones count, also those of 0 and below."""


def spread(
    total_kwh: float, rates: FloatArray, *, least_kwh: float = 0.0, most_kwh: float = math.inf
) -> FloatArray:
    """Return the energy of each part, kWh: inversely proportional to its rate, within the limits.

    ``rates`` are the prices or carbon intensities of the parts; ``least_kwh`` and ``most_kwh`` are the limits
    of each part. The sum is the total up to rounding. Raises ConfigError if the limits or the rates make that
    impossible.
    """
    count = len(rates)
    parts = counted(count, "part")
    if not 0.0 <= least_kwh <= most_kwh:
        raise ConfigError(f"--least-kwh: found {least_kwh:g}, expected 0 to --most-kwh ({most_kwh:g})")
    if not count * least_kwh <= total_kwh <= count * most_kwh:
        raise ConfigError(
            f"--kwh: found {total_kwh:g}, expected {count * least_kwh:g} to {count * most_kwh:g} kWh: {parts}"
            f" of --least-kwh ({least_kwh:g}) to --most-kwh ({most_kwh:g}) each"
        )
    weights = 1.0 / counted_rates(rates)
    energies_kwh = _filled(total_kwh, weights / weights.max(), least_kwh, most_kwh)
    inside = (energies_kwh > least_kwh) & (energies_kwh < most_kwh)
    if inside.any():  # the sum is exact up to the rounding of a single part
        largest = int(np.argmax(np.where(inside, energies_kwh, -1.0)))
        rest_kwh = math.fsum(energies_kwh) - float(energies_kwh[largest])
        energies_kwh[largest] = total_kwh - rest_kwh
    return energies_kwh


def counted_rates(rates: FloatArray) -> FloatArray:
    """Return the rates as they count: at least a tenth of the mean of the positive ones.

    Raises ConfigError if none is positive.
    """
    positive = rates[rates > 0.0]
    if not len(positive):
        raise ConfigError("found no value above 0 in the whole period: an even budget costs the same")
    return np.maximum(rates, LOWEST_SHARE * float(positive.mean()))


def _filled(total_kwh: float, weights: FloatArray, least_kwh: float, most_kwh: float) -> FloatArray:
    """Find the factor of the weights at which the parts, within their limits, have the total."""

    def parts(factor: float) -> FloatArray:
        return np.clip(factor * weights, least_kwh, most_kwh)

    low, high = 0.0, total_kwh / float(weights.min()) if total_kwh else 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if math.fsum(parts(middle)) < total_kwh:
            low = middle
        else:
            high = middle
    return parts(high)
