"""JSON text as Batsim writes it: every real number with exactly six decimals, integers as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

_encode_text = msgspec.json.encode


def dump(value: Any) -> str:
    """Write a JSON value in Batsim's way.

    Raises ValueError for NaN and infinities, which JSON cannot carry.
    """
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return _encode_text(value).decode()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} cannot be written as JSON")
        return f"{value:.6f}"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_encode_text(str(k)).decode()}:{dump(v)}" for k, v in value.items()) + "}"
    return "[" + ",".join(map(dump, value)) + "]"
