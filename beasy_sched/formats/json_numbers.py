"""Numbers as they come out of Batsim: reals with six decimals, integers as in the file."""

from __future__ import annotations

from typing import Any


def rounded(value: Any) -> Any:
    """Return a JSON value whose reals, at any depth, are what they are after printing."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return value
