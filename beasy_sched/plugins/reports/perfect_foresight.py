"""Perfect foresight as a yardstick for a run: what the best use of its battery and grid would have cost.

Rates and net load are those of the run's energy trace, the rest is in its summary (`GridTerms`), which only
sites with rules for the battery or a price of peaks have. See `planner.perfect_foresight`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.grid_peak import PeakMeter, PeakPeriod, PeakPrice
from beasy_sched.errors import ConfigError
from beasy_sched.formats.run_summary import GridPart, GridTerms
from beasy_sched.planner.perfect_foresight import (
    BatteryTerms,
    ForesightProblem,
    cost_without_battery,
    perfect_foresight,
)
from beasy_sched.plugins.reports.run_data import RunData

MOST_STEPS: Final = 40_000
"""Largest number of steps for which the yardstick is computed: it then takes minutes."""
_NOTHING: Final = 5e-3
"""Saving below which no share of it is shown, in the site's currency."""


@dataclass(frozen=True)
class Yardstick:
    """Cost of a run, minus the revenue of its exports, and the cost with perfect foresight."""

    currency: str
    cost: float
    """Cost of the run."""
    foresight_cost: float | None = None
    """Cost with perfect foresight; None if it could not be computed."""
    idle_cost: float | None = None
    """Cost if the battery did nothing; None if the import limit does not allow this."""
    problem: str = ""
    """Reason why there is no cost with perfect foresight."""

    @property
    def reached_pct(self) -> float | None:
        """Share of the saving with perfect foresight that the run reached, %; None without such a saving."""
        if self.foresight_cost is None or self.idle_cost is None:
            return None
        most = self.idle_cost - self.foresight_cost
        return None if most < _NOTHING else 100.0 * (self.idle_cost - self.cost) / most

    @property
    def text(self) -> str:
        """Cost with perfect foresight, and the share of its saving that the run reached, in words."""
        if self.foresight_cost is None:
            return self.problem
        return f"{self.foresight_cost:,.2f} {self.currency}; {self.detail}"

    @property
    def detail(self) -> str:
        """`text` without the cost itself."""
        if self.foresight_cost is None:
            return self.problem
        if self.reached_pct is not None and self.reached_pct < 0.0:
            more = self.cost - (self.idle_cost or 0.0)
            return f"rules cost {more:,.2f} {self.currency} more than a battery that does nothing"
        if self.reached_pct is not None:
            return f"rules reach {self.reached_pct:.0f} % of what perfect foresight would have saved"
        return f"{self.cost - self.foresight_cost:,.2f} {self.currency} less than the run"


def yardstick(run: RunData) -> Yardstick | None:
    """Return the yardstick of a run; None without a battery, or without rules for it and a price of peaks."""
    grid = run.grid
    if grid is None or grid.terms is None or not grid.terms.capacity_j or not len(run.trace):
        return None
    cost = grid.cost - grid.export_revenue
    if len(run.trace) > MOST_STEPS:
        why = f"not computed for more than {MOST_STEPS:,} steps"
        return Yardstick(grid.currency, cost, problem=why)
    problem = problem_of(run, grid, grid.terms)
    try:
        found = perfect_foresight(problem)
    except ConfigError as error:
        return Yardstick(grid.currency, cost, problem=f"not computed: {error}")
    if found is None:
        return Yardstick(grid.currency, cost, problem="not computed: the solver found no solution")
    return Yardstick(grid.currency, cost, found.cost, cost_without_battery(problem))


def problem_of(run: RunData, grid: GridPart, terms: GridTerms) -> ForesightProblem:
    """Return the problem of a run: its rates, its net load, its battery, and the level at its end."""
    trace = run.trace
    import_w, export_w = trace["grid_import_w"], trace["grid_export_w"]
    from_battery_w = trace["discharge_w"] - trace["charge_w"]
    levels_j = trace["soc_pct"] / 100.0 * terms.capacity_j
    jumps_j = np.nan_to_num(trace["correction_j"]) if "correction_j" in trace else np.zeros(len(trace))
    price = np.nan_to_num(trace["import_price_per_kwh"])
    return ForesightProblem(
        start_s=trace["start_s"],
        dt_s=trace["duration_s"],
        net_w=import_w - export_w - trace["curtailed_w"] + from_battery_w,
        price_per_kwh=price,
        earned_per_kwh=price if terms.net else np.full(len(trace), terms.feed_in_per_kwh),
        battery=BatteryTerms(
            terms.min_j,
            terms.max_j,
            terms.start_j,
            float(levels_j[-1] + jumps_j[-1]),
            terms.charge_efficiency,
            terms.drawn_per_delivered,
            terms.self_discharge_per_day,
            _limit(terms.charge_limit_w),
            _limit(terms.discharge_limit_w),
        ),
        import_limit_w=_limit(grid.import_limit_w),
        may_export_w=_limit(terms.may_export_w),
        peak=_peak(run, terms),
        levels_j=levels_j + jumps_j,
        jumps_j=jumps_j,
    )


def _limit(power_w: float | None) -> float:
    return math.inf if power_w is None else power_w


def _peak(run: RunData, terms: GridTerms) -> PeakMeter | None:
    """Return the meter of the run's peaks; None if they have no price."""
    if terms.peak_period is None:
        return None
    calendar = None
    if run.site is not None and run.site.start is not None:
        zone = None if terms.peak_zone is None else ZoneInfo(terms.peak_zone)
        calendar = Calendar(datetime.fromisoformat(run.site.start), zone)
    return PeakMeter(PeakPrice(terms.peak_per_kw, PeakPeriod(terms.peak_period), calendar), terms.window_s)
