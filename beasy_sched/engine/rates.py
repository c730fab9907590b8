"""Announced price and carbon intensity, and their comparison with those of the site's files."""

from __future__ import annotations

from typing import Final

import numpy as np

from beasy_sched.energy.grid import Announced, Foreseen
from beasy_sched.energy.site import Site
from beasy_sched.units import TIME_TOLERANCE_S

_SAME_RATE: Final = 2e-6
"""Prices that differ by less (relative above 1) are the same: Batsim forwards six decimals."""


class AnnouncedRates:
    """Rates announced for the present step and the next one; they replace the files' rates."""

    def __init__(self, site: Site) -> None:
        """Begin with nothing announced."""
        self.present = Announced()
        self.warnings: list[str] = []
        self._next = Announced()
        """Rates announced for the next step, before it was opened."""
        self._site = site
        self._differing: set[str] = set()
        """Rates that caused a warning because the announcement differed from the files."""

    def announce(self, announced: Announced, now: float, *, step_is_open: bool) -> None:
        """Note the rates of the step that ``now`` (s) belongs to: the present one where it is open."""
        if step_is_open:
            self.present = announced
        else:
            self._next = announced

    def begin_step(self) -> None:
        """Apply the rates announced for the next step."""
        self.present, self._next = self._next, Announced()

    def compare(self, announced: Announced, now: float) -> None:
        """Warn, once each, of rates announced for the step at ``now`` that differ from the site file."""
        grid = self._site.grid
        if grid is not None:
            self._compare("price", grid.price, announced.price_per_kwh, now)
            self._compare("carbon", grid.carbon, announced.carbon_g_per_kwh, now)

    def _compare(self, name: str, foreseen: Foreseen | None, announced: float | None, now: float) -> None:
        if foreseen is None or announced is None or name in self._differing:
            return
        step_s = self._site.step_s
        start_s = (now + TIME_TOLERANCE_S) // step_s * step_s
        expected = float(foreseen.rate.means(np.array([start_s, start_s + step_s]))[0])
        if abs(announced - expected) <= _SAME_RATE * max(1.0, abs(expected)):
            return
        self._differing.add(name)
        self.warnings.append(
            f"grid.{name}: at {now:g} s, {announced:g} per kWh was announced, but the site file has"
            f" {expected:g}: announced values take precedence, here and later"
        )
