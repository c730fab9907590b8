"""Cooling and losses of a site, in proportion to the power of its servers.

The PUE (power usage effectiveness) is the power of servers and their cooling in units of the servers' power:
a constant, or a function of the outside temperature. Cooling power = (PUE - 1) * power of servers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.fields import FieldError, require
from beasy_sched.energy.site_load import Course, StepTable, step_of

_LARGEST_PUE = 5.0
"""Largest credible PUE; small old server rooms have about 3."""
COLDEST_C, HOTTEST_C = -90.0, 60.0
"""Credible outside temperatures, degrees Celsius."""


@dataclass(frozen=True)
class Cooling:
    """PUE of a site. Raises `FieldError` (a ConfigError) for values out of range."""

    pue: float | tuple[tuple[float, float], ...]
    """One value, or a table of outside temperatures (degrees Celsius, ascending) and the PUE at each."""
    temperature: Course | None = None
    """Outside temperature, degrees Celsius; None with a constant PUE."""
    _table: tuple[StepTable, list[float]] | None = field(default=None, init=False, repr=False, compare=False)
    """Temperatures by step for which the PUE has been calculated, and the PUE."""

    def __post_init__(self) -> None:
        if isinstance(self.pue, (int, float)):
            _require_pue("pue", self.pue)
            require(self.temperature is None, "temperature", self.temperature, "none with a constant pue")
            return
        if not self.pue:
            raise FieldError("pue", self.pue, "at least one row, such as [15, 1.1]")
        before = -math.inf
        for place, (temp_c, pue) in enumerate(self.pue):
            credible = COLDEST_C <= temp_c <= HOTTEST_C
            expected = f"between {COLDEST_C:g} and {HOTTEST_C:g} degrees Celsius"
            require(credible, f"pue[{place}]", temp_c, expected)
            expected = f"above {before:g}, the row before: rows are in rising order of temperature"
            require(temp_c > before, f"pue[{place}]", temp_c, expected)
            _require_pue(f"pue[{place}]", pue)
            before = temp_c
        if self.temperature is None:
            raise FieldError("temperature", None, 'a file of the outside temperature: temperature = "FILE"')

    def during(self, start_s: float, end_s: float, step_s: float) -> float:
        """Return the PUE of a step of ``step_s`` or a part of it: that at its mean temperature."""
        if self.temperature is None:
            return self._constant
        table, number = self.temperature.by_step(step_s), step_of(start_s, end_s, step_s)
        place = -1 if number is None else number - table.first
        if 0 <= place < len(table.listed):
            return self._by_step(table)[place]
        return float(np.interp(self.temperature.mean(start_s, end_s), *self._columns))

    def _by_step(self, table: StepTable) -> list[float]:
        """Return the PUE at each of the temperatures."""
        known = self._table
        if known is None or known[0] is not table:
            known = table, self._at(table.values).tolist()
            object.__setattr__(self, "_table", known)
        return known[1]

    def expected(self, now: float, step_s: float, edges_s: FloatArray) -> FloatArray:
        """Return the PUE between ``edges_s`` (s) at the temperatures known or expected at ``now``."""
        if self.temperature is None:
            return np.full(len(edges_s) - 1, self._constant)
        return self._at(self.temperature.expected(now, step_s, edges_s))

    @property
    def _constant(self) -> float:
        return self.pue if isinstance(self.pue, (int, float)) else self.pue[0][1]

    def _at(self, temperatures_c: FloatArray) -> FloatArray:
        """Return the PUE at temperatures: straight lines between the rows, and their ends beyond them."""
        return np.interp(temperatures_c, *self._columns)

    @cached_property
    def _columns(self) -> tuple[FloatArray, FloatArray]:
        rows = np.array(self.pue, dtype=np.float64)
        return rows[:, 0], rows[:, 1]


def _require_pue(field: str, pue: float) -> None:
    expected = f"a PUE from 1 to {_LARGEST_PUE:g}: power of servers and cooling, divided by that of servers"
    require(1.0 <= pue <= _LARGEST_PUE, field, pue, expected)
