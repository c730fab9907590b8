"""Real numbers as Batsim 4 reads and writes them: its JSON library is RapidJSON, with the fast parser.

That parser does not round correctly: a number with 16 digits or more can be read one or two units in the last
place away from the nearest double. Batsim reads forwarded data (profiles, jobs, events), writes them as text,
reads them again, and prints them with six decimals, so that a large number can change in its last digit.

A number is assumed to have the fewest digits in a file that give its double, as most programs write it;
texts with more digits are read correctly here.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray

DECIMALS: Final = 6
"""Decimals of the reals in Batsim 4's messages."""


def rounded(value: Any, decimals: int = DECIMALS) -> Any:
    """Return a JSON value with all reals, at any depth, rounded as when written."""
    if isinstance(value, float):
        return round(value, decimals)
    if not isinstance(value, (dict, list)):
        return value
    if isinstance(value, dict):
        return {name: rounded(item, decimals) for name, item in value.items()}
    return [rounded(item, decimals) for item in value]


# --- reading ---

_EXACT_DIGITS: Final = 15
_FAST_INTEGERS: Final = 2**53 - 1
_SIGNIFICANT_DIGITS: Final = 17
_LARGEST_INTEGER: Final = 2**64 - 1
_LARGEST_NEGATED: Final = 2**63
_POWERS: Final = tuple(float(f"1e{exponent}") for exponent in range(309))


def as_batsim_reads(value: float) -> float:
    """Return the number that Batsim reads from ``value``'s shortest decimal text."""
    if value.__class__ is not float:
        return float(value)
    text = repr(value)
    if len(text) <= _EXACT_DIGITS + 1:
        return value
    return read_real(text)


def as_batsim_reads_all(values: FloatArray) -> array[float]:
    """Return what `as_batsim_reads` returns for each of ``values``.

    An integer number of millionths below 1e15 is a decimal of at most 15 digits, which Batsim reads exactly.
    """
    read = array("d", values.tobytes())
    millionths = np.rint(values * 1e6)
    short = (values >= 0.0) & (millionths < 1e15) & (millionths / 1e6 == values)
    for place in np.flatnonzero(~short).tolist():
        read[place] = as_batsim_reads(read[place])
    return read


def read_real(text: str) -> float:
    """Return the number that RapidJSON's fast parser reads from the JSON text of a real."""
    negative = text[0] == "-"
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    number = _whole_part(whole, _LARGEST_NEGATED if negative else _LARGEST_INTEGER)
    if isinstance(number, float):  # too long for an integer: the fraction no longer counts
        gathered, used = number, 0
    else:
        gathered, used = _gather(number, len(whole) - 1 if number else 0, fraction)
    read = _scaled(gathered, int(exponent or 0) - used)
    return -read if negative else read


def _whole_part(digits: str, largest: int) -> int | float:
    """Read the digits before the decimal point; from where they exceed ``largest`` on, in floating point."""
    number = int(digits)
    if number <= largest:
        return number
    used = next(n for n in range(len(digits), 0, -1) if int(digits[:n]) <= largest)
    real = float(int(digits[:used]))
    for digit in digits[used:]:
        real = real * 10.0 + int(digit)
    return real


def _gather(integer: int, significant: int, fraction: str) -> tuple[float, int]:
    """Append digits of the fraction to an integer; return that, and how many of them were used.

    ``significant`` is the number of digits so far as the parser counts them, without the first one.
    """
    used = 0
    for digit in fraction:
        if integer > _FAST_INTEGERS:
            break
        integer = integer * 10 + int(digit)
        used += 1
        significant += integer != 0
    gathered = float(integer)
    for digit in fraction[used:]:
        if significant >= _SIGNIFICANT_DIGITS:
            break
        gathered = gathered * 10.0 + int(digit)
        used += 1
        significant += 1
    return gathered, used


def _scaled(number: float, power: int) -> float:
    """Return a number times a power of ten."""
    if power >= 0:
        return number * _POWERS[power]
    if power < -308:
        number, power = number / _POWERS[308], power + 308
    return number / _POWERS[-power] if power >= -308 else 0.0


# --- forwarding ---

CLOSE: Final = 2.0**-47
"""More than what two readings can move a number, as a share of it."""
_HALF_UNIT: Final = 0.5 * 10.0**-DECIMALS
_LARGEST_EXACT: Final = 10.0 ** (_EXACT_DIGITS - DECIMALS)
"""Below it, a number with six decimals has at most as many digits as are read exactly."""


def as_batsim_tells(value: Any) -> Any:
    """Return a JSON value of a file with all reals, at any depth, as Batsim prints them when forwarding."""
    kind = value.__class__
    if kind is float:
        sent = round(value, DECIMALS)
        if abs(value - sent) + abs(value) * CLOSE < _HALF_UNIT:  # nothing moves it to another decimal
            return sent
        return told_again(as_batsim_reads(value))
    if kind is int:
        in_range = -_LARGEST_NEGATED <= value <= _LARGEST_INTEGER
        return value if in_range else told_again(read_real(f"{value}.0"))
    if kind is str:
        return value
    return _mapped(as_batsim_tells, value)


def told_again(value: Any) -> Any:
    """Return a JSON value that Batsim has read with all reals, at any depth, as it prints them later."""
    if value.__class__ is float:
        sent = round(value, DECIMALS)
        if abs(value - sent) + abs(value) * CLOSE < _HALF_UNIT:
            return sent
        return round(read_real(written_real(value)), DECIMALS)
    return _mapped(told_again, value)


def as_batsim_registers(value: Any) -> Any:
    """Return a JSON value of a registration with all reals, at any depth, as Batsim takes them.

    What a scheduler registers, Batsim prints with six decimals before it reads it once more.
    """
    if value.__class__ is float:
        if abs(value) < _LARGEST_EXACT and round(value, DECIMALS) == value:
            return value
        return read_real(f"{as_batsim_reads(value):.{DECIMALS}f}")
    return _mapped(as_batsim_registers, value)


class Forwarding(NamedTuple):
    """Batsim's reading of the numbers of jobs and profiles, and its later printing of them."""

    takes: Callable[[float], float]
    """Function that returns the number that is used."""
    tells: Callable[[Any], Any]
    """Function that returns a JSON value with its reals as they are printed."""


def _tells_registered(value: Any) -> Any:
    return told_again(as_batsim_registers(value))


def _takes_registered(value: float) -> float:
    return float(as_batsim_registers(value))


FROM_FILES: Final = Forwarding(as_batsim_reads, as_batsim_tells)
FROM_SCHEDULERS: Final = Forwarding(_takes_registered, _tells_registered)


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to the parts of a JSON value."""
    if isinstance(value, dict):
        return {name: function(item) for name, item in value.items()}
    return [function(item) for item in value] if isinstance(value, list) else value


# --- writing: Grisu2, which finds the shortest text in 99.9 % of all cases ---

_MASK: Final = 2**64 - 1
_LEAST_EXPONENT: Final = -1074
_LONGEST_WHOLE: Final = 21
"""Maximum number of digits before the decimal point without exponent."""
_LEAST_POWER: Final = -348
_POWER_STEP: Final = 8


def written_real(value: float) -> str:
    """Return the text that RapidJSON writes for a real."""
    if value < 0.0 or (value == 0.0 and str(value)[0] == "-"):
        return "-" + written_real(-value)
    if value == 0.0:
        return "0.0"
    digits, exponent = _shortest_digits(value)
    point = len(digits) + exponent
    if exponent >= 0 and point <= _LONGEST_WHOLE:
        return f"{digits}{'0' * exponent}.0"
    if 0 < point <= _LONGEST_WHOLE:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1}"


@lru_cache(maxsize=128)
def _cached_power(exponent: int) -> tuple[int, int]:
    """Return 10 to the ``exponent`` as 64 bits, rounded, and the power of two that goes with them."""
    top, bottom = (10**exponent, 1) if exponent >= 0 else (1, 10**-exponent)
    shift = 63 - (top.bit_length() - bottom.bit_length())
    for _ in range(2):
        scaled = (top << shift, bottom) if shift >= 0 else (top, bottom << -shift)
        bits = (2 * scaled[0] + scaled[1]) // (2 * scaled[1])
        if bits >> 63:
            break
        shift += 1
    return bits, -shift


def _product(bits: int, power: int) -> int:
    """Multiply two numbers of 64 bits; return the upper half, rounded."""
    return (bits * power + (1 << 63)) >> 64


def _shortest_digits(value: float) -> tuple[str, int]:
    """Return the decimal digits of a number above zero, and the power of ten that goes with them."""
    exponent = max(math.frexp(value)[1] - 53, _LEAST_EXPONENT)
    bits = int(math.ldexp(value, -exponent))
    # between the middles to the neighbours, all with the exponent of the upper one
    upper = 2 * bits + 1
    shift = 64 - upper.bit_length()
    lower, below = (4 * bits - 1, shift - 1) if bits == 1 << 52 else (2 * bits - 1, shift)
    power10 = _power_for(exponent - 1 - shift)
    factor, factor_exponent = _cached_power(power10)
    middle = _product(bits << (64 - bits.bit_length()), factor)
    most = _product(upper << shift, factor) - 1
    least = _product(lower << below, factor) + 1
    one = -(exponent - 1 - shift + factor_exponent + 64)
    return _generate(middle, most, most - least, one, -power10)


def _power_for(exponent: int) -> int:
    """Return the power of ten that brings numbers of this binary exponent into the range of `_generate`."""
    estimate = (-61 - exponent) * 0.30102999566398114 + 347
    whole = int(estimate) + (estimate > int(estimate))
    return _LEAST_POWER + _POWER_STEP * ((whole >> 3) + 1)


def _generate(middle: int, most: int, delta: int, one: int, power: int) -> tuple[str, int]:
    """Write digits of ``most`` until what is left is below ``delta``; then step towards ``middle``.

    All are fixed-point numbers with ``one`` bits after the point.
    """
    fraction_mask = (1 << one) - 1
    whole, fraction, away = most >> one, most & fraction_mask, most - middle
    text = str(whole)
    for place in range(len(text)):
        kappa = len(text) - place - 1
        unit = 10**kappa << one
        rest = ((whole % 10**kappa) << one) + fraction
        if rest <= delta:
            return _stepped(int(text[: place + 1]), delta, rest, unit, away), power + kappa
    digits, kappa = whole, 0
    while True:
        fraction, delta = fraction * 10 & _MASK, delta * 10 & _MASK
        digits = digits * 10 + (fraction >> one)
        fraction &= fraction_mask
        kappa -= 1
        if fraction < delta:
            away = away * 10**-kappa & _MASK if -kappa < 9 else 0
            return _stepped(digits, delta, fraction, 1 << one, away), power + kappa


def _stepped(digits: int, delta: int, rest: int, unit: int, away: int) -> str:
    while rest < away and delta - rest >= unit and (rest + unit < away or away - rest > rest + unit - away):
        digits -= 1
        rest += unit
    return str(digits)
