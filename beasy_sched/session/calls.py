"""The calls that the simulator is asked for: as few as possible, and always ahead of now."""

from __future__ import annotations

import math

from beasy_sched.units import TIME_TOLERANCE_S

MOMENT_S = 1e-3
"""The shortest time ahead that is asked for, and how long a kill waits: a job may just have ended."""


class Calls:
    """What calls are pending at the simulator, and when the next one is wanted.

    A pending call cannot be taken back and delays the simulation's end, so a call is asked for only
    where none comes early enough.
    """

    def __init__(self) -> None:
        """Nothing pending, nothing wanted."""
        self._pending: list[float] = []
        self._wanted_s = math.inf

    def want(self, at: float, now: float) -> None:
        """Want a call at a time (s); one that is not ahead is wanted a moment from now."""
        self._wanted_s = min(self._wanted_s, max(at, now + MOMENT_S))

    def arrived(self, timestamp: float) -> None:
        """Take in a call that has come."""
        if self._pending and self._pending[0] <= timestamp + TIME_TOLERANCE_S:
            self._pending.pop(0)

    def to_ask(self) -> float | None:
        """Return the time (s) to ask for, or None where a pending call is early enough."""
        at = self._wanted_s
        self._wanted_s = math.inf
        if math.isinf(at) or (self._pending and self._pending[0] <= at + TIME_TOLERANCE_S):
            return None
        self._pending.insert(0, at)
        return at
