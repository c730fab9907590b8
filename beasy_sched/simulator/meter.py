"""Energy of all compute hosts together, kept as one power and one integral.

Times in s, power in W, energy in J. Batsim meters hosts lazily, which shows in two cases: hosts that do not
start in P-state 0 (`settling`), and tasks that follow a delay within a composed job (`execution`).
"""

from __future__ import annotations

from collections.abc import Callable


class Meter:
    """Total power and energy, and when Batsim last metered every host."""

    __slots__ = ("_at", "_settle", "energy_j", "metered_at", "power_w", "wattmin_w")

    def __init__(self, power_w: float, wattmin_w: float, settle: Callable[[float], float] | None) -> None:
        """Start at time 0.

        ``settle``, if there is one, is called at the first metering after time 0, and returns energy to
        add: SimGrid charges a host by P-state 0's table until it is first metered.
        """
        self.power_w = power_w
        self.wattmin_w = wattmin_w
        """Sum of the powers at the least load above zero, in the present P-states."""
        self.energy_j = 0.0
        self.metered_at = 0.0
        self._at = 0.0
        self._settle = settle

    def accrue(self, now: float) -> None:
        """Charge for the time since the last change of power; call it before every change."""
        if now > self._at:
            self.energy_j += self.power_w * (now - self._at)
            self._at = now

    def meter_all(self, now: float) -> float:
        """Meter every host, as Batsim does at rows of its energy file and at queries; return the energy."""
        if now > self._at:
            self.energy_j += self.power_w * (now - self._at)
            self._at = now
        if now > self.metered_at:
            self.metered_at = now
            if self._settle is not None:
                settle, self._settle = self._settle, None
                self.energy_j += settle(now)
        return self.energy_j
