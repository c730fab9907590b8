"""SimGrid's units of computing speed."""

from __future__ import annotations

import math
import re

_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}
_SPEED = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(?:([kMGTPEZY]?)(?:f|flops|Flops))?")


def parse_speed(text: str) -> float:
    """Read a speed such as ``100Mf``, ``1e-9Mf`` or ``2.5E9flops``; a plain number is flops/s.

    Raises ValueError.
    """
    match = _SPEED.fullmatch(text.strip())
    try:
        value = float(match[1]) * _PREFIXES[match[2] or ""] if match else math.nan
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"speed {text.strip()!r}: expected flops/s such as '100Mf', '3.2Gf' or '0.5f'")
    return value
