"""Change of a site at a moment of its run: limits of the grid and the battery, prices and carbon intensity.

The change is made in the objects of the run's site, which session, policy and rules share.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, Final

from beasy_sched.energy.grid import Foreseen, Grid
from beasy_sched.energy.site import Site
from beasy_sched.errors import ConfigError

_LIMITS: Final = ("charge_limit_w", "discharge_limit_w")
_GRID: Final = ("import_limit_w", "export", "export_limit_w", "feed_in_per_kwh")
_RATES: Final = ("price", "carbon")


def check_change(site: Site, new: Site, name: str) -> None:
    """Raise ConfigError unless ``site`` can become ``new``, of the file ``name``, during a run."""
    for field in ("step_s", "window_s", "base_w"):
        _require_same(name, field, getattr(site, field), getattr(new, field))
    battery, other = site.storage.battery, new.storage.battery
    for each in fields(battery):
        if each.name not in _LIMITS and each.name not in battery.varies:
            _require_same(
                name, f"battery.{each.name}", getattr(battery, each.name), getattr(other, each.name)
            )
    _require_same(name, "hydrogen", site.storage.hydrogen, new.storage.hydrogen)
    grid, other_grid = site.grid, new.grid
    _require_same(name, "grid", grid is not None, other_grid is not None)
    if grid is not None and other_grid is not None:
        for rate in _RATES:
            has = getattr(grid, rate) is not None, getattr(other_grid, rate) is not None
            _require_same(name, f"grid.{rate}", *has)


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


def _require_same(name: str, field: str, value: Any, other: Any) -> None:
    if value == other or (isinstance(value, float) and math.isclose(value, other)):
        return
    raise ConfigError(
        f"--site {name}: {field} is not that of the run: only limits of grid and battery, prices and carbon"
        " intensity can change during a run"
    )
