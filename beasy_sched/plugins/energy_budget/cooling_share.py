"""The share of a budget that the servers' cooling takes.

A budget is for the servers and their cooling. Measurements and estimated powers are those of the servers, so
that past energies are multiplied by the PUE, and what is left of the budget is divided by the PUE expected.
"""

from __future__ import annotations

import math

import numpy as np

from beasy_sched.energy.site import Site
from beasy_sched.units import SECONDS_PER_HOUR, TIME_TOLERANCE_S


class CoolingShare:
    """PUE of a site in the past, and as expected for the rest of a period; 1 for a site without cooling."""

    def __init__(self, site: Site | None, end_s: float) -> None:
        """``end_s``: end of the budget's period, s."""
        self._site = None if site is None or site.cooling is None else site
        self._end_s = end_s
        self._measured = (0.0, 0.0)
        """Time (s) and energy of the servers (J) of the last measurement."""
        self._cooled_j = 0.0
        """Energy of servers and their cooling up to it, J."""
        self._step, self._ahead = -1, 1.0

    def now(self, now: float) -> float:
        """Return the present PUE."""
        return 1.0 if self._site is None else self._site.load_during(now, now + self._site.step_s).pue

    def measured_j(self, at_s: float, energy_j: float) -> float:
        """Return the energy of servers and cooling since time 0, for a measurement of that of the servers."""
        if self._site is None:
            return energy_j
        since_s, before_j = self._measured
        if at_s > since_s:
            pue = self._site.load_during(since_s, at_s).pue
            self._cooled_j += (energy_j - before_j) * pue
            self._measured = (at_s, energy_j)
        return self._cooled_j

    def ahead(self, now: float) -> float:
        """Return the mean PUE expected from ``now`` to the end of the period; renewed with each step."""
        site = self._site
        if site is None or now >= self._end_s - TIME_TOLERANCE_S:
            return 1.0
        step = int((now + TIME_TOLERANCE_S) // site.step_s)
        if step != self._step:
            hours = max(math.ceil((self._end_s - now) / SECONDS_PER_HOUR), 1)
            pue = site.load_ahead(now, np.linspace(now, self._end_s, hours + 1)).pue
            self._step, self._ahead = step, 1.0 if pue is None else float(pue.mean())
        return self._ahead
