"""Names of power and irradiance units, as files and users write them."""

from __future__ import annotations

import re

POWER_UNITS = {"w": 1.0, "kw": 1e3, "mw": 1e6, "gw": 1e9}
"""Watts in one of each; the names in lower case."""
PER_UNIT = "per-unit"
"""Power as a fraction of the capacity: in watts, the power of 1 W of capacity."""
IRRADIANCE_UNITS = {
    "w/m2": 1.0,
    "wh/m2": 1.0,
    "w-hr/m2": 1.0,
    "kw/m2": 1e3,
    "kwh/m2": 1e3,
    "kw-hr/m2": 1e3,
    "mj/hr": 1e6 / 3600.0,
    "mj/m2": 1e6 / 3600.0,
}
"""W/m2 in one of each, over an hour; the names as `plain_unit` makes them."""

_BRACKETED = re.compile(r"[\[(]\s*([kMG]?W)\s*[\])]", re.IGNORECASE)
_SUFFIX = re.compile(r"[_ ]([kMG]?W)$", re.IGNORECASE)


def plain_unit(text: str) -> str:
    """A unit in lower case and without decoration: ``kW/m²`` (or ``kW/m^2``, ``kW/m??``) to ``kw/m2``."""
    unit = text.strip().lower().replace("^", "").replace("²", "2").replace("â2", "2")
    return re.sub(r"/m(\?+|\ufffd+)?$", "/m2", unit).replace("/m2/hour", "/m2").replace("/m2/hr", "/m2")


def unit_in_name(column: str) -> str | None:
    """The power unit that a column's name tells: ``Solar [MW]``, ``power (W)``, ``pv_kw``."""
    match = _BRACKETED.search(column) or _SUFFIX.search(column)
    return match[1].lower() if match else None


def power_factor(unit: str) -> float | None:
    """Watts in one ``unit`` (`PER_UNIT` counts as 1); None for a unit nobody knows."""
    if unit.strip().lower() in (PER_UNIT, "pu", "p.u."):
        return 1.0
    return POWER_UNITS.get(unit.strip().lower())
