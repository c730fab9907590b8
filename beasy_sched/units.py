"""Units and the sign convention, once.

Inside the code: seconds, watts, joules, flops, flops per second, kilograms of hydrogen. Files for
people use kW, kWh and percent; they are converted here, at the edge, and nowhere else.

Sign convention: every power is a non-negative magnitude that carries its direction in its name
(``charge_w``, ``discharge_w``, ``electrolyzer_w``, ``fuel_cell_w``, ``curtailed_w``, ``unserved_w``).
"""

from __future__ import annotations

from typing import Final

JOULES_PER_KWH: Final = 3.6e6
WATTS_PER_KW: Final = 1e3
SECONDS_PER_HOUR: Final = 3600.0
SECONDS_PER_DAY: Final = 86_400.0
TIME_TOLERANCE_S: Final = 1e-6
"""Batsim prints times with six decimals: two times closer than this are the same instant."""


def kwh_to_j(energy_kwh: float) -> float:
    """Kilowatt-hours to joules."""
    return energy_kwh * JOULES_PER_KWH


def j_to_kwh(energy_j: float) -> float:
    """Joules to kilowatt-hours."""
    return energy_j / JOULES_PER_KWH


def kw_to_w(power_kw: float) -> float:
    """Kilowatts to watts."""
    return power_kw * WATTS_PER_KW


def w_to_kw(power_w: float) -> float:
    """Watts to kilowatts."""
    return power_w / WATTS_PER_KW
