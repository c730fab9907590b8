"""Change of a site at a moment of its run: limits of the grid and the battery, prices and carbon intensity.

The change is made in the objects of the run's site, which session, policy and rules share.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np

from beasy_sched.energy.grid import Foreseen, Grid, Signal, Tariff
from beasy_sched.energy.grid_charging import GridRules, RateBelow, RateKind
from beasy_sched.energy.services import Line
from beasy_sched.energy.site import Site
from beasy_sched.errors import ConfigError

_SAME: Final = {
    "time.step_s": "step_s",
    "time.window_h": "window_s",
    "time.start": "calendar",
    "guard": "guard",
    "load.base_kw": "base_w",
    "load.series": "services",
    "cooling": "cooling",
    "restart": "restarts",
}
"""Keys and sections of site files that cannot change, with their fields of a site."""
_LIMITS: Final = ("charge_limit_w", "discharge_limit_w")
_GRID: Final = ("import_limit_w", "export", "export_limit_w", "feed_in_per_kwh")
_RATES: Final = ("price", "carbon")


def check_change(site: Site, new: Site, name: str) -> None:
    """Raise ConfigError unless ``site`` can become ``new``, of the file ``name``, during a run."""
    for key, field in _SAME.items():
        _require_same(name, key, getattr(site, field), getattr(new, field))
    battery, other = site.storage.battery, new.storage.battery
    for each in fields(battery):
        if each.name not in _LIMITS:
            _require_same(
                name, f"battery.{each.name}", getattr(battery, each.name), getattr(other, each.name)
            )
    devices, others = ({each.section: each for each in it.storage.devices[1:]} for it in (site, new))
    for section in sorted({*devices, *others}):
        _require_same(name, section, devices.get(section), others.get(section))
    sources, other_sources = ([(each.name, each.kind.name) for each in it.sources] for it in (site, new))
    _require_same(name, "source", sources, other_sources)
    grid, other_grid = site.grid, new.grid
    _require_same(name, "grid", grid is not None, other_grid is not None)
    if grid is not None and other_grid is not None:
        for rate in _RATES:
            has = getattr(grid, rate) is not None, getattr(other_grid, rate) is not None
            _require_same(name, f"grid.{rate}", *has)
        _require_same(name, "grid.currency", grid.currency, other_grid.currency)
        _require_same(name, "the price of the grid's peak", grid.peak, other_grid.peak)
        _require_same(name, "the rule of grid and battery", _rules(grid.rules), _rules(other_grid.rules))


def _rules(rules: GridRules | None) -> tuple[Any, ...]:
    """Return the rules of a site without the rates that they refer to."""
    if rules is None:
        return ()
    charge = rules.charge and (_condition(rules.charge.when), rules.charge.up_to_soc_pct)
    return charge, rules.rest and _condition(rules.rest), rules.peak_w


def _condition(when: RateBelow) -> tuple[Any, ...]:
    return when.kind, when.limit, when.rate if when.kind is RateKind.HOURS else None


def change_site(site: Site, new: Site) -> None:
    """Give a site the limits and rates of ``new``. Existing plans are unchanged."""
    for limit in _LIMITS:
        object.__setattr__(site.storage.battery, limit, getattr(new.storage.battery, limit))
    if site.grid is None or new.grid is None:
        return
    _change_grid(site.grid, new.grid)


def _change_grid(grid: Grid, new: Grid) -> None:
    for field in _GRID:
        object.__setattr__(grid, field, getattr(new, field))
    grid.__dict__.pop("may_export_w", None)
    for rate in _RATES:
        foreseen: Foreseen | None = getattr(grid, rate)
        if foreseen is not None:
            for each in fields(foreseen):
                object.__setattr__(foreseen, each.name, getattr(getattr(new, rate), each.name))


def _require_same(name: str, key: str, value: Any, other: Any) -> None:
    if _is_same(value, other):
        return
    raise ConfigError(
        f"--site {name}: {key} is not that of the run: only limits of grid and battery, prices and carbon"
        " intensity can change during a run"
    )


def _is_same(value: Any, other: Any) -> bool:
    """Whether two parts of sites are equal, also if they contain quantities over time."""
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other)
    if type(value) is not type(other):
        return False
    if isinstance(value, np.ndarray):
        return np.array_equal(value, other)
    if isinstance(value, tuple):
        return len(value) == len(other) and all(map(_is_same, value, other))
    if is_dataclass(value):
        names = [each.name for each in fields(value) if each.compare]
    elif isinstance(value, (Signal, Tariff, Line)):
        names = [each for each in vars(value) if not each.startswith("_")]
    else:
        return bool(value == other)
    return all(_is_same(getattr(value, each), getattr(other, each)) for each in names)
