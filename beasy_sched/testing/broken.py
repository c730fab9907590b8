"""How an invariant that does not hold is reported."""

from __future__ import annotations

from beasy_sched.errors import BeasyError


class BrokenInvariant(BeasyError, AssertionError):
    """Something that must hold in every run does not."""

    def __init__(self, invariant: str, found: object) -> None:
        """``invariant`` says what must hold, ``found`` what was found instead."""
        self.invariant = invariant
        self.found = str(found)
        super().__init__(f"{invariant}: found {self.found}")


def require(holds: object, invariant: str, found: object) -> None:
    """Raise BrokenInvariant unless ``holds`` is true."""
    if not holds:
        raise BrokenInvariant(invariant, found)
