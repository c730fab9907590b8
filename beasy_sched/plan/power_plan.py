"""The power plan: what every source and storage does in each step of a window (Section 3.1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beasy_sched.arrays import FloatArray

ROUNDING = 2e-7
"""Share of the largest power that is a solver's rounding."""


@dataclass(frozen=True)
class PowerPlan:
    """One window's powers (W, one value a step, T of them) and levels (T + 1, from start to end)."""

    load_w: FloatArray
    """P_load: the demand that was asked for."""
    renew_w: FloatArray
    """P_renew: the production that was expected."""
    charge_w: FloatArray
    discharge_w: FloatArray
    electrolyzer_w: FloatArray
    fuel_cell_w: FloatArray
    curtailed_w: FloatArray
    """What nobody can take."""
    battery_j: FloatArray
    """Energy in the battery at the start of each step, and at the end of the last."""
    hydrogen_kg: FloatArray
    """LoH at the start of each step, and at the end of the last."""

    @property
    def steps(self) -> int:
        """T."""
        return int(self.load_w.size)

    @cached_property
    def scale_w(self) -> float:
        """The largest power of demand and production (W, at least 1): what tolerances are relative to."""
        return max(1.0, float(self.load_w.max()), float(self.renew_w.max()))

    @cached_property
    def produced_w(self) -> FloatArray:
        """P_prod of Eq. 3.1, before curtailment."""
        arriving = self.renew_w + self.fuel_cell_w + self.discharge_w
        return arriving - self.electrolyzer_w - self.charge_w

    @cached_property
    def envelope_w(self) -> FloatArray:
        """What the servers may draw: P_prod less what is curtailed."""
        return self.produced_w - self.curtailed_w

    @cached_property
    def shortfall_w(self) -> FloatArray:
        """Demand that is not met."""
        return np.maximum(self.load_w - self.produced_w, 0.0)

    @cached_property
    def relax_factor(self) -> float:
        """rf: the largest share of a step's demand that is not met (Eq. 3.11); 0 without demand.

        What the solver's rounding leaves open does not count: it can be any share of a tiny demand.
        """
        missing_w = np.maximum(self.shortfall_w - ROUNDING * self.scale_w, 0.0)
        shares = np.divide(missing_w, self.load_w, out=np.zeros_like(missing_w), where=missing_w > 0.0)
        return float(shares.max(initial=0.0))
