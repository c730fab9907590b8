"""The figures that runs of a campaign are compared by, with means and intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.report.comparison import Better, ComparedColumn


@dataclass(frozen=True)
class Figure:
    """A column of the table of runs that policies are compared by."""

    column: str
    title: str
    unit: str
    digits: int = 2
    better: Better = Better.NEITHER

    def text(self, value: float, half_width: float = np.nan) -> str:
        """A value as it is shown, without its unit, with its interval where that is known; ``-`` for none."""
        known = (f"{each:,.{self.digits}f}" for each in (value, half_width) if not np.isnan(each))
        return " ± ".join(known) or "-"

    @property
    def as_column(self) -> ComparedColumn:
        """Its column in a table of policies."""
        return ComparedColumn(self.title, self.unit, self.better, self.text)

    def mean_of(self, runs: Any, policy: str) -> tuple[float, float]:
        """The mean of a policy's runs, and half the width of its 95 % interval."""
        return mean_and_half_width(values_of(runs, policy, self.column))


FIGURES: Final = (
    Figure("finished_pct", "Finished jobs", "%", better=Better.HIGH),
    Figure("killed_as_in_paper_pct", "Killed, as the BEASY paper counts", "%", better=Better.LOW),
    Figure("postponed_pct", "Postponed jobs", "%", better=Better.LOW),
    Figure("soc_distance_points", "Final state of charge less target", "points", better=Better.NOT_NEGATIVE),
    Figure("soc_lowest_pct", "Lowest state of charge", "%", better=Better.HIGH),
    Figure("wasted_kwh", "Wasted energy", "kWh", better=Better.LOW),
    Figure("curtailed_kwh", "Curtailed energy", "kWh", better=Better.LOW),
    Figure("unserved_kwh", "Unserved energy", "kWh", better=Better.LOW),
    Figure("bounded_slowdown_mean", "Bounded slowdown, mean", "", better=Better.LOW),
    Figure("waiting_s_mean", "Waiting time, mean", "s", better=Better.LOW),
)

GRID_FIGURES: Final = (
    Figure("grid.green_share", "Green share of the load, 0 to 1", "", 3, Better.HIGH),
    Figure("grid.import_kwh", "Energy from the grid", "kWh", better=Better.LOW),
    Figure("grid.cost", "Cost of the imported energy", "", better=Better.LOW),
    Figure("grid.carbon_kg", "Carbon of the imported energy", "kg", better=Better.LOW),
)
"""The same of runs with a grid; costs are in the site's currency."""


def figures_of(runs: Any) -> tuple[Figure, ...]:
    """The figures that runs have, with those of the grid where one of them has a grid."""
    grid = "grid.import_kwh" in runs.columns and bool(runs["grid.import_kwh"].notna().any())
    return FIGURES + (GRID_FIGURES if grid else ())


_T975: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
                2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
                2.052, 2.048, 2.045, 2.042)  # fmt: skip
"""Student's t for 1, 2, ... degrees of freedom: 97.5 % of the distribution lies below."""


def mean_and_half_width(values: FloatArray) -> tuple[float, float]:
    """The mean of n runs, and half the width of its 95 % interval (Student's t); NaN for a single run."""
    if len(values) < 2:
        return (float(values.mean()) if len(values) else np.nan), np.nan
    freedom = len(values) - 1
    t = _T975[freedom - 1] if freedom <= len(_T975) else 1.96 + 2.46 / freedom
    return float(values.mean()), float(t * values.std(ddof=1) / np.sqrt(len(values)))


def values_of(runs: Any, policy: str, column: str) -> FloatArray:
    """The values of a policy's runs; those without a value are left out."""
    found = runs.loc[runs["policy"] == policy, column].to_numpy(np.float64, na_value=np.nan)
    return np.asarray(found[np.isfinite(found)], dtype=np.float64)
