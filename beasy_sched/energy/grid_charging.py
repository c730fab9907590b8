"""Rules for a battery with a grid: charge from the grid, rest, and the defence of a peak.

Without rules, the battery serves before the grid, and only production charges it. `grid_use` returns what the
rules allow in a step, from which `energy.balance` decides its powers; `uses_ahead` and `charging_ahead`
return the same for steps ahead, as expected from what is known of the rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.fields import require_positive
from beasy_sched.energy.grid import Announced, Foreseen, Tariff

if TYPE_CHECKING:
    from beasy_sched.energy.grid import Grid


class RateKind(str, Enum):
    """Quantity that a condition compares with its limit."""

    PRICE = "price"
    CARBON = "carbon"
    HOURS = "hours"


@dataclass(frozen=True)
class RateBelow:
    """Condition of a step: the mean of a rate over the step is below a limit."""

    rate: Foreseen
    limit: float
    kind: RateKind = RateKind.PRICE

    def holds(self, start_s: float, dt_s: float, announced: Announced) -> bool:
        """Return whether it holds in a step; announced values replace those of the rate."""
        return self.mean(start_s, dt_s, announced) < self.limit

    def mean(self, start_s: float, dt_s: float, announced: Announced) -> float:
        """Return the mean of the rate over a step; announced values replace it."""
        if self.kind is RateKind.PRICE and announced.price_per_kwh is not None:
            return announced.price_per_kwh
        if self.kind is RateKind.CARBON and announced.carbon_g_per_kwh is not None:
            return announced.carbon_g_per_kwh
        return self.rate.rate.mean(start_s, start_s + dt_s)

    def ahead(self, now: float, edges_s: FloatArray) -> BoolArray:
        """Return whether it is expected at ``now`` to hold between each two of ``edges_s`` (s)."""
        return self.rate.expected(now, edges_s) < self.limit


def within_hours(first: int, last: int, calendar: Calendar) -> RateBelow:
    """Return the condition that the greater part of a step is between two local hours.

    ``last`` is not included; hours that begin after their end run over midnight.
    """
    hours = [*range(first, last)] if first < last else [*range(first, 24), *range(last)]
    outside = np.ones((12, 24))
    outside[:, hours] = 0.0
    return RateBelow(Foreseen(Tariff(outside, calendar)), 0.5, RateKind.HOURS)


@dataclass(frozen=True)
class ChargeRule:
    """Condition in which the grid charges the battery, and the level up to which it does."""

    when: RateBelow
    up_to_soc_pct: float


@dataclass(frozen=True)
class GridRules:
    """The rules of a site; None for those that it does not have."""

    charge: ChargeRule | None = None
    rest: RateBelow | None = None
    """Steps in which the grid serves before the battery: those whose price is not above a limit."""
    peak_w: float | None = None
    """Import that the battery defends, W: the grid serves up to it, and the battery keeps its charge."""

    def __post_init__(self) -> None:
        if self.peak_w is not None:
            require_positive("peak_w", self.peak_w)


class GridUse(NamedTuple):
    """Use of the grid that the rules allow in one step."""

    first_w: float = 0.0
    """Import up to which the grid serves before the battery, W; 0: the battery serves first."""
    charge_w: float = 0.0
    """Import up to which the grid may also charge the battery, W; 0: it does not."""
    charge_soc_pct: float = 0.0
    """State of charge up to which it does."""


AS_ALWAYS: Final = GridUse()
"""The battery serves before the grid, and the grid does not charge it."""


def grid_use(grid: Grid | None, start_s: float, dt_s: float, announced: Announced) -> GridUse:
    """Return the use of the grid in the step from ``start_s`` of ``dt_s`` seconds."""
    if grid is None or grid.rules is None:
        return AS_ALWAYS
    rules = grid.rules
    charge, rest = rules.charge, rules.rest
    charges = rests = False
    if charge is not None:
        mean = charge.when.mean(start_s, dt_s, announced)
        charges = rests = mean < charge.when.limit
        if rest is not None and not rests and rest.rate is charge.when.rate and rest.kind is charge.when.kind:
            return _use(grid, rules, charges=False, rests=mean < rest.limit)
    if rest is not None and not rests:
        rests = rest.holds(start_s, dt_s, announced)
    return _use(grid, rules, charges=charges, rests=rests)


def _use(grid: Grid, rules: GridRules, *, charges: bool, rests: bool) -> GridUse:
    most_w = grid.import_limit_w
    if rules.peak_w is not None:
        most_w, rests = min(most_w, rules.peak_w), True
    if charges and rules.charge is not None:
        return GridUse(most_w, most_w, rules.charge.up_to_soc_pct)
    return GridUse(most_w) if rests else AS_ALWAYS


def uses_ahead(grid: Grid, now: float, edges_s: FloatArray) -> list[GridUse] | None:
    """Return the use expected at ``now`` between each two of ``edges_s`` (s); None without rules."""
    rules = grid.rules
    if rules is None:
        return None
    charging, resting = _conditions_ahead(rules, now, edges_s)
    kinds = {
        (charges, rests): _use(grid, rules, charges=charges, rests=rests)
        for charges in (False, True)
        for rests in (False, True)
    }
    return [kinds[each] for each in zip(charging.tolist(), resting.tolist(), strict=True)]


def _conditions_ahead(rules: GridRules, now: float, edges_s: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Return whether the grid is expected to charge, and to serve first, between each two of ``edges_s``."""
    charge, rest = rules.charge, rules.rest
    if charge is None:
        never = np.zeros(len(edges_s) - 1, dtype=np.bool_)
        return never, never if rest is None else rest.ahead(now, edges_s)
    means = charge.when.rate.expected(now, edges_s)
    charging = means < charge.when.limit
    if rest is None:
        return charging, charging
    is_same = rest.rate is charge.when.rate
    return charging, charging | (means < rest.limit if is_same else rest.ahead(now, edges_s))


def charging_ahead(grid: Grid, now: float, edges_s: FloatArray) -> BoolArray:
    """Return whether the grid is expected at ``now`` to charge between each two of ``edges_s`` (s)."""
    if grid.rules is None or grid.rules.charge is None:
        return np.zeros(len(edges_s) - 1, dtype=np.bool_)
    return grid.rules.charge.when.ahead(now, edges_s)


@dataclass(frozen=True)
class GridCharge:
    """The charge from the grid that is allowed in each step of a plan."""

    import_w: FloatArray
    """Import up to which the grid may charge the battery, W; 0 where the rule is not expected to hold."""
    most_j: float
    """Level up to which it may, J."""

    @classmethod
    def ahead(
        cls, grid: Grid | None, battery: BatterySpec, now: float, edges_s: FloatArray
    ) -> GridCharge | None:
        """Return what the rule is expected at ``now`` to allow between ``edges_s``; None without a rule."""
        if grid is None or grid.rules is None or grid.rules.charge is None:
            return None
        rules = grid.rules
        limit_w = min(grid.import_limit_w, math.inf if rules.peak_w is None else rules.peak_w)
        allowed = charging_ahead(grid, now, edges_s)
        return cls(np.where(allowed, limit_w, 0.0), battery.energy_j(grid.rules.charge.up_to_soc_pct))

    def during(self, steps: slice) -> GridCharge:
        """Return the part of some steps."""
        return GridCharge(self.import_w[steps], self.most_j)
