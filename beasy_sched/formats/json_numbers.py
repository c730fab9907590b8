"""Numbers as Batsim reads and prints them."""

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


_EXACT_DIGITS = 15
_FAST_INTEGERS = 2**53 - 1
_SIGNIFICANT_DIGITS = 17


def as_batsim_reads(value: float) -> float:
    """Return what Batsim makes of a number's shortest decimal text.

    Batsim reads JSON by RapidJSON's fast parser, which is not correctly rounded: numbers of 16 digits and
    more can come out one unit in the last place away.
    """
    if value.__class__ is not float:
        return float(value)
    text = repr(value)
    if len(text) <= _EXACT_DIGITS + 1:
        return value
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    if fraction == "0":
        fraction = ""
    gathered, used = _gather(whole + fraction, -1 if whole != "0" else 0)
    power = int(exponent or 0) + len(whole) - used
    scale = float(f"1e{abs(power)}")
    read = gathered * scale if power >= 0 else gathered / scale
    return -read if value < 0 else read


def _gather(digits: str, significant: int) -> tuple[float, int]:
    """Return the number that a row of digits makes, and how many of them were used.

    ``significant`` is where the count of significant digits starts: the parser does not count the first
    one if it stands before the point.
    """
    integer = used = 0
    for digit in digits:
        if integer > _FAST_INTEGERS:
            break
        integer = integer * 10 + int(digit)
        used += 1
        significant += integer != 0
    gathered = float(integer)
    for digit in digits[used:]:
        if significant >= _SIGNIFICANT_DIGITS:
            break
        gathered = gathered * 10.0 + int(digit)
        used += 1
        significant += 1
    return gathered, used
