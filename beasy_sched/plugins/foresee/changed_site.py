"""Change of a site at a moment of its run: limits of the grid and the battery, prices and carbon intensity.

The change is made in the objects of the run's site, which session, policy and rules share.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isclose
from typing import Any, Final

from beasy_sched.energy.grid import Foreseen, Grid
from beasy_sched.energy.site import Site
from beasy_sched.engine.power_side import PowerSide
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.formats.site_file import parse_site, read_site_text, site_fields

_LIMITS: Final = ("charge_limit_w", "discharge_limit_w")
_GRID: Final = ("import_limit_w", "export", "export_limit_w", "feed_in_per_kwh")
_RATES: Final = {"price": ("grid.price", "grid.tariff"), "carbon": ("grid.carbon",)}
"""Rates of a grid, and the fields of a site file that give them."""
_MAY_CHANGE: Final = frozenset(
    (
        "battery.charge_limit_kw",
        "battery.discharge_limit_kw",
        "grid.import_limit_kw",
        "grid.export",
        "grid.export_limit_kw",
        "grid.feed_in_per_kwh",
        "grid.currency",  # compared as that of the prices
        "grid.price",
        "grid.tariff",
        "grid.carbon",
    )
)
"""Fields of a site file that may change during a run."""


@dataclass(frozen=True)
class ChangedSite:
    """A site from a moment on."""

    site: Site
    rates: frozenset[str]
    """Rates of the grid that are not those before."""


def read_changed_site(path: PathLike, text: str, name: PathLike) -> ChangedSite:
    """Read a site that another one, of the file ``name`` with ``text``, becomes during a run.

    Raises InputError, and ConfigError for fields that cannot change.
    """
    new_text = read_site_text(path)
    old, new = parse_site(text, name), parse_site(new_text, path)
    before, after = site_fields(text, name), site_fields(new_text, path)
    for field in dict.fromkeys((*before, *after)):
        if field not in _MAY_CHANGE:
            _require_same(path, field, before.get(field), after.get(field))
    grid, other = old.grid, new.grid
    _require_same(path, "grid", grid is not None, other is not None)
    if grid is not None and other is not None:
        _require_same(path, "grid.currency", grid.currency, other.currency)
        for rate in _RATES:
            has = getattr(grid, rate) is not None, getattr(other, rate) is not None
            _require_same(path, f"grid.{rate}", *has)
    rates = {rate for rate, names in _RATES.items() if any(before.get(f) != after.get(f) for f in names)}
    return ChangedSite(new, frozenset(rates))


def change_site(power: PowerSide, changed: ChangedSite) -> None:
    """Give a run's site the limits and rates of ``changed``. Existing plans are unchanged.

    Changed rates take precedence over those that power events announce.
    """
    site, new = power.site, changed.site
    for limit in _LIMITS:
        object.__setattr__(site.storage.battery, limit, getattr(new.storage.battery, limit))
    if site.grid is not None and new.grid is not None:
        _change_grid(site.grid, new.grid)
        power.inputs.ignore_rates(changed.rates)


def _change_grid(grid: Grid, new: Grid) -> None:
    for field in _GRID:
        object.__setattr__(grid, field, getattr(new, field))
    grid.__dict__.pop("may_export_w", None)
    for rate in _RATES:
        foreseen: Foreseen | None = getattr(grid, rate)
        if foreseen is not None:
            for each in fields(foreseen):
                object.__setattr__(foreseen, each.name, getattr(getattr(new, rate), each.name))


def _require_same(path: PathLike, field: str, value: Any, other: Any) -> None:
    if value == other or (isinstance(value, float) and isinstance(other, float) and isclose(value, other)):
        return
    raise ConfigError(
        f"--site {path}: {field} is not that of the run: only limits of grid and battery, prices and carbon"
        " intensity can change during a run"
    )
