"""Numbers from options and files: finite and within a range; anything else is an error."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any, Final

from beasy_sched.limits import LARGEST_NUMBER, LARGEST_WHOLE, shortened

_LONGEST: Final = 40
"""Number of characters of a value that a message quotes."""
_LONGEST_BITS: Final = 128
"""Messages state only the size of integers with more bits."""


def plain(text: str) -> str:
    """Return a string that may be a number in the usual notation. Raises ValueError.

    Python also reads ``1_000``, and digits of other scripts.
    """
    if "_" in text or not text.strip().isascii():
        raise ValueError(f"not a plain number: {shortened(text)!r}")
    return text


def number_in(text: str) -> float:
    """Return the number in a string. Raises ValueError."""
    return float(plain(text))


@dataclass(frozen=True)
class Range:
    """A range of numbers: finite, from ``least`` to ``most``."""

    least: float = -LARGEST_NUMBER
    most: float = LARGEST_NUMBER
    whole: bool = False
    """Whether only integers are in the range."""
    above: bool = False
    """Whether ``least`` itself lies outside the range."""

    def holds(self, value: object) -> bool:
        """Whether a value is a number in the range; true and false are not numbers."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            return False
        return self.least <= value <= self.most and not (self.above and value == self.least)

    def checked(self, value: Any) -> Any:
        """Return a value in the range. Raises ValueError with the value found and the expected range."""
        if self.holds(value):
            return value
        raise ValueError(f"found {found_text(value)}, expected {self.expected_not(value)}")

    def read(self, text: str) -> Any:
        """Return the number in a string. Raises ValueError with the value found and the expected range."""
        try:
            value = int(plain(text)) if self.whole else number_in(text)
        except ValueError:
            value = None
        if value is None or not self.holds(value):
            raise ValueError(f"found {shortened(text, _LONGEST)!r}, expected {self.expected_not(value)}")
        return value

    @property
    def expected(self) -> str:
        """The expected range, for messages."""
        what = "an integer" if self.whole else "a number"
        some = ANY_WHOLE if self.whole else ANY_NUMBER
        lowest, highest = self.least <= some.least, self.most >= some.most
        if not (lowest or highest or self.above):
            return f"{what} from {self.least:.15g} to {self.most:.15g}"
        if not lowest:
            what += f" above {self.least:.15g}" if self.above else f", {self.least:.15g} or more"
        return what if highest else f"{what}, at most {self.most:.15g}"

    def expected_not(self, value: object) -> str:
        """Return the expected range after ``value`` was found, with the bound that is otherwise implied."""
        expected = self.expected
        if not isinstance(value, (int, float)):
            return expected
        if value < self.least and self.least in (ANY_NUMBER.least, ANY_WHOLE.least):
            return f"{expected}, at least {'-2**63' if self.whole else f'{self.least:g}'}"
        if value > self.most and "at most" not in expected and " to " not in expected:
            return f"{expected}, at most {'2**63 - 1' if self.most == LARGEST_WHOLE else f'{self.most:g}'}"
        return expected


ANY_NUMBER: Final = Range()
"""Range of all finite numbers up to `LARGEST`."""
ANY_WHOLE: Final = Range(-LARGEST_WHOLE - 1, LARGEST_WHOLE, whole=True)
"""Range of the integers that fit into 64 bits."""


def wrong_number(value: object) -> str | None:
    """Return the error in a number of a field that allows any; None for a value that is not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    allowed = ANY_WHOLE if isinstance(value, int) else ANY_NUMBER
    return (
        None if allowed.holds(value) else f"found {found_text(value)}, expected {allowed.expected_not(value)}"
    )


def found_text(value: object) -> str:
    """Return a value as quoted in messages: shortened, and a huge integer by its size alone."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > _LONGEST_BITS:
        digits = math.floor(math.log10(abs(value)))
        return f"an integer of {digits + (abs(value) >= 10**digits)} digits"
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return shortened(repr(value), _LONGEST)
