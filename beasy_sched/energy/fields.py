"""Checks of numbers in specifications, with the field of the one out of range."""

from __future__ import annotations

import math

from beasy_sched.errors import ConfigError


class FieldError(ConfigError):
    """A number out of range, with its field, so that file readers can name it in their terms."""

    def __init__(self, field: str, found: object, expected: str) -> None:
        """``expected`` completes "expected ...", for example ``"> 0"``."""
        self.field = field
        self.found = found
        self.expected = expected
        super().__init__(f"{field}: found {shown(found)}, expected {expected}")


def shown(found: object) -> str:
    """Return a value of a field in the words of an error."""
    if found is None:
        return "nothing"
    return "[]" if isinstance(found, tuple) and not found else repr(found)


def require(ok: bool, field: str, found: object, expected: str) -> None:
    """Raise `FieldError` unless ``ok``; write ``ok`` so that a NaN makes it false."""
    if not ok:
        raise FieldError(field, found, expected)


def require_positive(field: str, value: float) -> None:
    """``value`` must be a finite number above zero."""
    require(0 < value < math.inf, field, value, "a finite number > 0")


def require_not_negative(field: str, value: float) -> None:
    """``value`` must be a finite number of zero or more."""
    require(0 <= value < math.inf, field, value, "a finite number >= 0")


def require_fraction(field: str, value: float) -> None:
    """``value`` must be an efficiency: above 0, at most 1."""
    require(0 < value <= 1, field, value, "a fraction above 0 and at most 1 (95 % is 0.95)")
