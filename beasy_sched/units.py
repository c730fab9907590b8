"""Units, durations and the sign convention.

The code uses seconds, watts, joules, flops, flops per second, kilograms of hydrogen. Files for users
have kW, kWh and percent, which are converted only here.

Sign convention: every power is a non-negative magnitude that carries its direction in its name
(``charge_w``, ``discharge_w``, ``electrolyzer_w``, ``fuel_cell_w``, ``curtailed_w``, ``unserved_w``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from beasy_sched.limits import LATEST_S, shortened
from beasy_sched.numbers import number_in

JOULES_PER_KWH: Final = 3.6e6
WATTS_PER_KW: Final = 1e3
SECONDS_PER_MINUTE: Final = 60.0
SECONDS_PER_HOUR: Final = 3600.0
SECONDS_PER_DAY: Final = 86_400.0
SECONDS_PER_YEAR: Final = 365.25 * SECONDS_PER_DAY
TIME_TOLERANCE_S: Final = 1e-6
"""Batsim prints times with six decimals: two times closer than this are the same time."""


def kwh_to_j(energy_kwh: float) -> float:
    """Convert kilowatt-hours to joules."""
    return energy_kwh * JOULES_PER_KWH


def j_to_kwh(energy_j: float) -> float:
    """Convert joules to kilowatt-hours."""
    return energy_j / JOULES_PER_KWH


def kw_to_w(power_kw: float) -> float:
    """Convert kilowatts to watts."""
    return power_kw * WATTS_PER_KW


def w_to_kw(power_w: float) -> float:
    """Convert watts to kilowatts."""
    return power_w / WATTS_PER_KW


_UNITS_S: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART: Final = re.compile(r"([0-9]*\.?[0-9]+)\s*(min|[smhdw])\s*")


def parse_duration(text: str) -> float:
    """Read ``3d``, ``12h``, ``1d12h``, ``90m``, ``0.5h`` or plain seconds; returns seconds, 0 or more.

    Raises ValueError.
    """
    try:
        value = number_in(text)
    except ValueError:
        parts = _PART.findall(text)
        whole = "".join(match.group() for match in _PART.finditer(text.strip()))
        value = math.fsum(float(count) * _UNITS_S[unit] for count, unit in parts)
        if not parts or whole != text.strip():
            value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(
            f"{shortened(text, 40)!r} is not a duration: expected seconds, or a time such as 3d, 12h, 1d12h"
        )
    if value > LATEST_S:
        raise ValueError(f"{shortened(text, 40)!r} is too long: expected at most {LATEST_S:g} s")
    return value


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 row``, ``2,000 rows``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first ``most`` names, and the number of the others: ``a, b and 3 more``."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def format_duration(seconds: float) -> str:
    """Return a duration in the largest fitting unit: ``2.5 d``."""
    for unit in ("d", "h", "min"):
        if seconds >= _UNITS_S[unit]:
            return f"{seconds / _UNITS_S[unit]:.4g} {unit}"
    return f"{seconds:g} s"


def energy_text(energy_j: float) -> str:
    """Format an energy with three digits: ``1.25 kWh``, ``109 Wh``."""
    kwh = j_to_kwh(energy_j)
    return f"{_digits(kwh)} kWh" if abs(kwh) >= 1 else f"{_digits(1000 * kwh)} Wh"


def power_text(power_w: float) -> str:
    """Format a power with three digits: ``970 W``, ``1.25 kW``."""
    return f"{_digits(w_to_kw(power_w))} kW" if abs(power_w) >= 1000 else f"{_digits(power_w)} W"


def percent_text(value: float) -> str:
    """Format a percentage with two decimals: ``19.98 %``."""
    return f"{value:.2f} %"


def _digits(value: float) -> str:
    """Format a number with three digits but no exponent: all digits before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return "0" if float(text) == 0 or "e" in text else text
