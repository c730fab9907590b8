"""Site files (TOML): for people, in kWh, kW and percent; a `Site` is in joules, watts and fractions."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any, Final, TypeVar

import msgspec

from beasy_sched.energy.site import GuardMode, GuardSettings, Site
from beasy_sched.energy.storage import (
    BatterySpec,
    FieldError,
    Hold,
    HydrogenSpec,
    LossConvention,
    Storage,
    require,
)
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.formats.reading import as_type, in_file, parse_toml, read_text
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, kw_to_w, kwh_to_j

DEFAULT_SITE: Final = "default"
"""Name that selects the site file that comes with the package."""


def default_site_text() -> str:
    """The commented site file that comes with the package."""
    return resources.files("beasy_sched.formats").joinpath("default_site.toml").read_text("utf-8")


def default_site() -> Site:
    """The site of the file that comes with the package."""
    return parse_site(default_site_text(), "default_site.toml")


def read_site_text(name: PathLike) -> str:
    """Return the text of a site file; ``DEFAULT_SITE`` names the one that comes with the package.

    Raises InputError.
    """
    return default_site_text() if os.fspath(name) == DEFAULT_SITE else read_text(name)


def read_site(path: PathLike) -> Site:
    """Read a site file. Raises InputError that names file and field."""
    return parse_site(read_site_text(path), path)


def parse_site(text: str, path: PathLike = "site.toml") -> Site:
    """Read a site from TOML text; ``path`` is named in errors. Raises InputError."""
    values = parse_toml(text, path)
    with in_file(path):
        file = as_type(values, _SiteFile)
        with _named(file, "battery"):
            _check_battery(file.battery)
            battery = _spec(BatterySpec, file.battery)
        hydrogen = None
        if file.hydrogen is not None:
            with _named(file, "hydrogen"):
                _check_hydrogen(file.hydrogen)
                hydrogen = _spec(HydrogenSpec, file.hydrogen)
        with _named(file, "time"):
            _check_time(file.time)
    return Site(
        storage=Storage(battery, hydrogen),
        step_s=file.time.step_s,
        window_s=file.time.window_h * SECONDS_PER_HOUR,
        guard=GuardSettings(file.guard.mode, file.guard.veto),
    )


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the file's sections: unknown names are refused."""


class _Battery(_Section, frozen=True, kw_only=True):
    capacity_kwh: float
    charge_limit_kw: float
    discharge_limit_kw: float
    soc_min_pct: float = BatterySpec.soc_min_pct
    soc_max_pct: float = BatterySpec.soc_max_pct
    soc_start_pct: float = BatterySpec.soc_start_pct
    soc_target_pct: float = BatterySpec.soc_target_pct
    charge_efficiency: float = BatterySpec.charge_efficiency
    discharge_efficiency: float = BatterySpec.discharge_efficiency
    self_discharge_pct_per_day: float = 0.2
    loss: LossConvention = BatterySpec.loss


class _Hydrogen(_Section, frozen=True, kw_only=True):
    tank_kg: float
    level_start_kg: float
    level_target_kg: float
    electrolyzer_max_kw: float
    fuel_cell_max_kw: float
    electrolyzer_min_kw: float = 0.0
    electrolyzer_efficiency: float = HydrogenSpec.electrolyzer_efficiency
    fuel_cell_efficiency: float = HydrogenSpec.fuel_cell_efficiency
    hold: Hold = HydrogenSpec.hold


class _Time(_Section, frozen=True, kw_only=True):
    step_s: float = Site.step_s
    window_h: float = Site.window_s / SECONDS_PER_HOUR


class _Guard(_Section, frozen=True, kw_only=True):
    mode: GuardMode = GuardSettings.mode
    veto: bool = GuardSettings.veto


class _SiteFile(_Section, frozen=True, kw_only=True):
    battery: _Battery
    hydrogen: _Hydrogen | None = None
    time: _Time = _Time()
    guard: _Guard = _Guard()


_CONVERSIONS: Final[dict[str, tuple[str, Callable[[float], float]]]] = {
    "capacity_kwh": ("capacity_j", kwh_to_j),
    "charge_limit_kw": ("charge_limit_w", kw_to_w),
    "discharge_limit_kw": ("discharge_limit_w", kw_to_w),
    "self_discharge_pct_per_day": ("self_discharge_per_day", lambda percent: percent / 100.0),
    "electrolyzer_max_kw": ("electrolyzer_max_w", kw_to_w),
    "electrolyzer_min_kw": ("electrolyzer_min_w", kw_to_w),
    "fuel_cell_max_kw": ("fuel_cell_max_w", kw_to_w),
}
"""Fields in units for people: the field in SI units, and the conversion. All others are the same in both."""
_FILE_NAMES: Final = {name: field for field, (name, _) in _CONVERSIONS.items()}

Spec = TypeVar("Spec", BatterySpec, HydrogenSpec)


def _spec(kind: type[Spec], section: _Section) -> Spec:
    values: dict[str, Any] = {}
    for field, value in msgspec.structs.asdict(section).items():
        name, convert = _CONVERSIONS.get(field, (field, None))
        values[name] = value if convert is None else convert(value)
    return kind(**values)


@contextlib.contextmanager
def _named(file: _SiteFile, section: str) -> Iterator[None]:
    """Put the file's own name and value into an error about a field."""
    try:
        yield
    except FieldError as error:
        name = _FILE_NAMES.get(error.field, error.field)
        found = getattr(getattr(file, section), name, error.found)
        raise ConfigError(f"{section}.{name}: found {found:.15g}, expected {error.expected}") from error


_LARGEST_BATTERY_KWH: Final = 1e6
_LARGEST_RATE_PER_H: Final = 60.0
_LARGEST_TANK_KG: Final = 1e6
_LARGEST_HYDROGEN_KW: Final = 1e6


def _check_battery(section: _Battery) -> None:
    size = section.capacity_kwh
    require(
        not size > _LARGEST_BATTERY_KWH, "capacity_kwh", size, "at most 1e6 kWh (is the value in J or Wh?)"
    )
    for name in ("charge_limit_kw", "discharge_limit_kw"):
        value = getattr(section, name)
        require(value > 0, name, value, "> 0")
        most = _LARGEST_RATE_PER_H * size
        expected = f"at most {most:g} kW, {_LARGEST_RATE_PER_H:g} times the capacity an hour (is it in W?)"
        require(not (size > 0 and value > most), name, value, expected)
    rate = section.self_discharge_pct_per_day
    require(0 <= rate < 100, "self_discharge_pct_per_day", rate, "at least 0 and below 100")


def _check_hydrogen(section: _Hydrogen) -> None:
    tank = section.tank_kg
    require(not tank > _LARGEST_TANK_KG, "tank_kg", tank, "at most 1e6 kg (is the value in g?)")
    for name in ("electrolyzer_max_kw", "fuel_cell_max_kw"):
        value = getattr(section, name)
        require(not value > _LARGEST_HYDROGEN_KW, name, value, "at most 1e6 kW (is the value in W?)")


def _check_time(section: _Time) -> None:
    step, window = section.step_s, section.window_h
    require(1 <= step <= SECONDS_PER_DAY, "step_s", step, "between 1 and 86400 seconds")
    require(0 < window <= 24 * 366, "window_h", window, "above 0 and at most 8784 hours (is it in seconds?)")
    steps = window * SECONDS_PER_HOUR / step
    expected = f"a whole number of steps of {step:g} s"
    require(steps >= 1 and abs(steps - round(steps)) < 1e-9 * steps, "window_h", window, expected)
