"""Value of energy left in the battery at the end, ``[battery] end_value_per_kwh``, in energy of jobs.

Without a grid the value is in that unit already: kWh of finished jobs for a kWh left. With a grid it is
money, and a kWh of jobs is worth what it costs from the grid. Hydrogen has no such value: its tank has a
target.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from beasy_sched.energy.site import Site

MOST_WORTH: Final = 100.0
"""Largest value of energy left, in energy of jobs: above the losses of storage, nothing changes any more."""


def worth_at_price(value_per_kwh: float, price_per_kwh: float) -> float:
    """Return the energy of jobs worth as much as a unit of energy left; both arguments in money.

    At a price of 0 or below, where energy of jobs costs nothing, it is `MOST_WORTH`.
    """
    if value_per_kwh == 0.0:
        return 0.0
    return min(value_per_kwh / price_per_kwh, MOST_WORTH) if price_per_kwh > 0.0 else MOST_WORTH


def planned_worth(site: Site, start_s: float, end_s: float) -> float:
    """Return the energy of jobs worth as much as a unit of energy left at ``end_s``, as known at ``start_s``.

    With a grid, at the mean import price between the two times (s).
    """
    value, grid = site.storage.battery.end_value, site.grid
    if not value or grid is None or grid.price is None:
        return value if grid is None else 0.0
    steps = max(round((end_s - start_s) / site.step_s), 1)
    prices = grid.price.expected(start_s, np.linspace(start_s, end_s, steps + 1))
    return worth_at_price(value, float(prices.mean()))
