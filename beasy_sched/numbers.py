"""Numbers from people and files: finite, and within a range; whatever else stands there is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from beasy_sched.limits import LARGEST_NUMBER, LARGEST_WHOLE, shortened

_LONGEST: Final = 40
"""Characters of what was found that a message repeats."""
_LONGEST_BITS: Final = 128
"""Whole numbers of more bits are told by their size alone."""


@dataclass(frozen=True)
class Range:
    """The numbers that one place may have: finite, from ``least`` to ``most``."""

    least: float = -LARGEST_NUMBER
    most: float = LARGEST_NUMBER
    whole: bool = False
    """Whether only whole numbers are meant."""
    above: bool = False
    """Whether ``least`` itself is too little."""

    def holds(self, value: object) -> bool:
        """Whether a value is such a number; true and false are none."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            return False
        return self.least <= value <= self.most and not (self.above and value == self.least)

    def checked(self, value: Any) -> Any:
        """Return a value that is such a number. Raises ValueError that says what was found and expected."""
        if self.holds(value):
            return value
        raise ValueError(f"found {found_text(value)}, expected {self.expected}")

    def read(self, text: str) -> Any:
        """Return the number that a text holds. Raises ValueError that says what was found and expected."""
        try:
            value = int(text) if self.whole else float(text)
        except ValueError:
            value = None
        if value is None or not self.holds(value):
            raise ValueError(f"found {shortened(text, _LONGEST)!r}, expected {self.expected}")
        return value

    @property
    def expected(self) -> str:
        """What is expected, for messages."""
        what = "a whole number" if self.whole else "a number"
        least, most = self.least, self.most
        if self.above:
            return f"{what} above {_plain(least)} and at most {_plain(most)}"
        return f"{what} from {_plain(least)} to {_plain(most)}"


ANY_NUMBER: Final = Range()
"""Whatever is finite, and not absurd."""
ANY_WHOLE: Final = Range(-LARGEST_WHOLE - 1, LARGEST_WHOLE, whole=True)
"""Whatever fits into 64 bits."""


def wrong_number(value: object) -> str | None:
    """What is wrong with a value as a number of a file whose field allows any; None for what is no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    allowed = ANY_WHOLE if isinstance(value, int) else ANY_NUMBER
    return None if allowed.holds(value) else f"found {found_text(value)}, expected {allowed.expected}"


def found_text(value: object) -> str:
    """A value as messages repeat it: shortened, and a huge whole number by its size alone."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > _LONGEST_BITS:
        return f"a whole number of {math.floor(math.log10(abs(value))) + 1} digits"
    return shortened(repr(value), _LONGEST)


def _plain(value: float) -> str:
    """A bound of a range, as short as can be."""
    if abs(value) >= LARGEST_WHOLE:
        return f"{'-' if value < 0 else ''}2**63" + (" - 1" if value > 0 else "")
    return f"{value:.15g}"
