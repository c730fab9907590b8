"""The production as it is announced, and its energy over the step under way."""

from __future__ import annotations

import math
from typing import NamedTuple


class Produced(NamedTuple):
    """The mean production of a step."""

    power_w: float
    sun_w: float | None
    """PV part of the production, W; None where it is unknown for part of the step."""


class ProductionMeter:
    """Meter of the production: each announcement holds until the next one."""

    def __init__(self) -> None:
        """Begin at time 0 with nothing produced and nothing announced."""
        self.power_w = 0.0
        """The present production, W."""
        self.since_s = 0.0
        """Time at which the production changed last, or up to which it was counted, s."""
        self.announced_s = -math.inf
        """Time at which production was announced last, s."""
        self.lasting_s = 0.0
        """Time between the last two announcements of production, s."""
        self.sun_told = False
        """Whether an announcement has stated the PV part."""
        self._energy_j = 0.0
        """Energy produced from the beginning of the step to `since_s`."""
        self._sun_w = self._sun_j = 0.0
        """PV power alone, W (and its energy in the step, J); NaN where it is unknown."""

    def announce(self, power_w: float, now: float, sun_w: float | None) -> None:
        """Note that ``power_w`` is produced from now on, ``sun_w`` of it by PV (None if unknown)."""
        self.count(now)
        self.power_w = power_w
        self.sun_told |= sun_w is not None
        self._sun_w = sun_w if sun_w is not None else math.nan if power_w > 0.0 else 0.0
        if now > self.announced_s:
            self.lasting_s = now - self.announced_s if self.announced_s > -math.inf else 0.0
        self.announced_s = now

    def count(self, now: float) -> None:
        """Count up to ``now`` (s)."""
        if now > self.since_s:
            self._energy_j += self.power_w * (now - self.since_s)
            self._sun_j += self._sun_w * (now - self.since_s)
            self.since_s = now

    def expected_j(self, end_s: float) -> float:
        """Energy of the step by ``end_s`` if the production stays constant, J."""
        return self._energy_j + self.power_w * (end_s - self.since_s)

    def mean(self, dt_s: float) -> Produced:
        """Return the mean production of the step, which has lasted ``dt_s``."""
        sun_w = None if math.isnan(self._sun_j) else self._sun_j / dt_s
        return Produced(self._energy_j / dt_s, sun_w)

    def begin_step(self) -> None:
        """Count from now on for the next step."""
        self._energy_j = self._sun_j = 0.0
