"""Keys of the section ``[grid]`` for a battery with a grid, and for the price of its peak."""

from __future__ import annotations

import math
from typing import Final, Literal

from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.devices.device import SiteSection
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.grid_charging import ChargeRule, GridRules, RateBelow, RateKind, within_hours
from beasy_sched.energy.grid_peak import PeakPeriod, PeakPrice
from beasy_sched.errors import ConfigError
from beasy_sched.formats.currencies import currency_named
from beasy_sched.units import kw_to_w

_START: Final = 'add [time] start, such as start = "2010-07-12T09:00:00-04:00"'
_MOST_G_PER_KWH: Final = 1e4
_MOST_KW: Final = 1e6
_MOST_FOR_PEAK: Final = 1e4
"""Largest price of a kW of the peak, in times the largest credible price of a kWh."""


class ChargeSection(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Value of ``charge``: one condition, and the state of charge at which it ends."""

    below_per_kwh: float | None = None
    below_g_per_kwh: float | None = None
    hours: tuple[int, int] | None = None
    up_to_soc_pct: float | None = None


class DischargeSection(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Value of ``discharge``."""

    above_per_kwh: float


class GridRulesSection(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys of the section for the battery and the peak."""

    charge: ChargeSection | None = None
    discharge: DischargeSection | None = None
    battery: Literal["serve", "shave"] = "serve"
    peak_kw: float | None = None
    peak_per_kw: float | None = None
    peak_period: PeakPeriod | None = None


def rules_of(
    section: GridRulesSection, grid: Grid, battery: BatterySpec, calendar: Calendar | None
) -> GridRules | None:
    """Return the rules for the battery; None if there are none. Raises ConfigError."""
    charge, discharge, shave = section.charge, section.discharge, section.battery == "shave"
    given = {"charge": charge, "discharge": discharge, "battery": shave or None}
    for name, value in given.items():
        if value is not None:
            _require_battery(name, battery, grid)
    peak_w = _peak_w(section, shave=shave)
    if discharge is not None and shave:
        raise ConfigError(
            'grid.discharge: contradicts battery = "shave", which keeps the battery\'s charge for imports'
            " above peak_kw: omit one of them"
        )
    rule = None if charge is None else _charge(charge, grid, battery, calendar)
    rest = None if discharge is None else _rest(discharge, charge, grid)
    if rule is None and rest is None and peak_w is None:
        return None
    return GridRules(rule, rest, peak_w)


def peak_price(section: GridRulesSection, grid: Grid, calendar: Calendar | None) -> PeakPrice | None:
    """Return the price of the highest import; None without one. Raises ConfigError."""
    if section.peak_per_kw is None:
        if section.peak_period is not None:
            raise ConfigError("grid.peak_period: requires a price: add peak_per_kw, or omit peak_period")
        return None
    most = _MOST_FOR_PEAK * currency_named(grid.currency).most_per_kwh
    if not 0 <= section.peak_per_kw <= most:
        raise ConfigError(
            f"grid.peak_per_kw: found {section.peak_per_kw:g}, expected at least 0 and at most {most:g}"
            f" {grid.currency} for a kW (is it in another unit?)"
        )
    _require_import("peak_per_kw", grid)
    period = section.peak_period
    if period is PeakPeriod.MONTH and calendar is None:
        raise ConfigError(f'grid.peak_period: "month" requires the site\'s clock: {_START}')
    if period is None:
        period = PeakPeriod.WINDOW if calendar is None else PeakPeriod.MONTH
    return PeakPrice(section.peak_per_kw, period, calendar)


def _require_battery(name: str, battery: BatterySpec, grid: Grid) -> None:
    if not battery.exists:
        raise ConfigError(f"grid.{name}: requires a battery: add a section [battery], or omit {name}")
    _require_import(name, grid)


def _require_import(name: str, grid: Grid) -> None:
    if grid.import_limit_w <= 0.0:
        raise ConfigError(
            f"grid.{name}: requires a grid that supplies power, but import_limit_kw is 0: raise it, or omit"
            f" {name}"
        )


def _peak_w(section: GridRulesSection, *, shave: bool) -> float | None:
    """Return the import that the battery defends, W; None if it defends none."""
    peak_kw = section.peak_kw
    if not shave:
        if peak_kw is not None:
            raise ConfigError('grid.peak_kw: requires battery = "shave": add it, or omit peak_kw')
        return None
    if peak_kw is None:
        raise ConfigError(
            'grid.battery: "shave" requires the import to defend: add peak_kw, such as peak_kw = 5.0'
        )
    if not 0 < peak_kw < _MOST_KW:
        raise ConfigError(f"grid.peak_kw: found {peak_kw:g}, expected above 0 and below 1e6 kW (is it in W?)")
    return kw_to_w(peak_kw)


def _charge(charge: ChargeSection, grid: Grid, battery: BatterySpec, calendar: Calendar | None) -> ChargeRule:
    conditions = [name for name in ("below_per_kwh", "below_g_per_kwh", "hours") if _has(charge, name)]
    if len(conditions) != 1:
        found = " and ".join(conditions) if conditions else "none"
        raise ConfigError(
            f"grid.charge: found {found}, expected one of below_per_kwh, below_g_per_kwh and hours"
        )
    up_to, low, high = charge.up_to_soc_pct, battery.soc_min_pct, battery.soc_max_pct
    if up_to is None:
        up_to = high
    if not low < up_to <= high:
        raise ConfigError(
            f"grid.charge.up_to_soc_pct: found {up_to:g}, expected above soc_min_pct ({low:g}) and at most"
            f" soc_max_pct ({high:g})"
        )
    return ChargeRule(_condition(charge, grid, calendar), up_to)


def _has(charge: ChargeSection, name: str) -> bool:
    return getattr(charge, name) is not None


def _condition(charge: ChargeSection, grid: Grid, calendar: Calendar | None) -> RateBelow:
    if charge.hours is not None:
        first, last = charge.hours
        if not (0 <= first < 24 and 0 <= last <= 24 and first != last):
            raise ConfigError(
                f"grid.charge.hours: found {[first, last]}, expected two different hours from 0 to 24, the"
                " first one before 24"
            )
        if calendar is None:
            raise ConfigError(f"grid.charge.hours: requires the site's clock: {_START}")
        return within_hours(first, last, calendar)
    if charge.below_g_per_kwh is not None:
        limit = charge.below_g_per_kwh
        if grid.carbon is None:
            raise ConfigError(
                "grid.charge.below_g_per_kwh: requires the grid's carbon intensity: add carbon = FILE"
            )
        if not 0 < limit <= _MOST_G_PER_KWH:
            raise ConfigError(
                f"grid.charge.below_g_per_kwh: found {limit:g}, expected above 0 and at most"
                f" {_MOST_G_PER_KWH:g} g/kWh"
            )
        return RateBelow(grid.carbon, limit, RateKind.CARBON)
    assert charge.below_per_kwh is not None
    return _priced("charge.below_per_kwh", charge.below_per_kwh, grid)


def _priced(name: str, limit: float, grid: Grid) -> RateBelow:
    """Return the condition that the import price is below a limit."""
    if grid.price is None:
        raise ConfigError(f"grid.{name}: requires the grid's price: add a tariff, or price = FILE")
    most = currency_named(grid.currency).most_per_kwh
    if not abs(limit) <= most:
        raise ConfigError(
            f"grid.{name}: found {limit:g}, expected at most {most:g} {grid.currency} per kWh (is it in"
            " another unit?)"
        )
    return RateBelow(grid.price, limit)


def _rest(discharge: DischargeSection, charge: ChargeSection | None, grid: Grid) -> RateBelow:
    above = discharge.above_per_kwh
    if charge is not None and charge.below_per_kwh is not None and above < charge.below_per_kwh:
        raise ConfigError(
            f"grid.discharge.above_per_kwh: found {above:g}, below charge.below_per_kwh"
            f" ({charge.below_per_kwh:g}): the battery would charge and serve at the same price; expected at"
            " least that price"
        )
    rest = _priced("discharge.above_per_kwh", above, grid)
    return RateBelow(rest.rate, math.nextafter(above, math.inf))
