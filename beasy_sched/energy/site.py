"""The site file: what the storage is, how long a step and a window are, how the guard acts.

The file is for people (kWh, kW, percent); everything here is already in joules, watts and seconds.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from beasy_sched.energy.storage import (
    BatterySpec,
    FieldError,
    Hold,
    HydrogenSpec,
    LossConvention,
    Storage,
    require,
)
from beasy_sched.errors import InputError
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, kw_to_w, kwh_to_j

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class GuardMode(str, Enum):
    """Which running jobs the storage guard kills when there is no energy for them."""

    SHED = "shed"
    """As few as keep the battery at SoC_min, those that have spent the least energy first."""
    KILL_ALL = "kill-all"
    """Every running job: the papers' wording."""


@dataclass(frozen=True)
class GuardSettings:
    """How the storage guard acts; named in every result, since it changes results much."""

    mode: GuardMode = GuardMode.SHED
    veto: bool = True
    """Whether starts and wakes must fit into what is left of the step's headroom."""


@dataclass(frozen=True)
class Site:
    """Everything a run needs to know about the place, in SI units."""

    storage: Storage
    step_s: float = 300.0
    window_s: float = 259_200.0
    guard: GuardSettings = GuardSettings()

    @property
    def steps(self) -> int:
        """T: steps in a window."""
        return round(self.window_s / self.step_s)


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the file's sections: a name nobody knows is refused."""


class _Battery(_Section, frozen=True, kw_only=True):
    capacity_kwh: float
    charge_limit_kw: float
    discharge_limit_kw: float
    soc_min_pct: float = 20.0
    soc_max_pct: float = 90.0
    soc_start_pct: float = 50.0
    soc_target_pct: float = 50.0
    charge_efficiency: float = 0.95
    discharge_efficiency: float = 0.95
    self_discharge_pct_per_day: float = 0.2
    loss: LossConvention = LossConvention.PHYSICAL


class _Hydrogen(_Section, frozen=True, kw_only=True):
    tank_kg: float
    level_start_kg: float
    level_target_kg: float
    electrolyzer_max_kw: float
    fuel_cell_max_kw: float
    electrolyzer_min_kw: float = 0.0
    electrolyzer_efficiency: float = 0.65
    fuel_cell_efficiency: float = 0.5
    hold: Hold = HydrogenSpec.hold


class _Time(_Section, frozen=True, kw_only=True):
    step_s: float = 300.0
    window_h: float = 72.0


class _Guard(_Section, frozen=True, kw_only=True):
    mode: GuardMode = GuardMode.SHED
    veto: bool = True


class _SiteFile(_Section, frozen=True, kw_only=True):
    battery: _Battery
    hydrogen: _Hydrogen | None = None
    time: _Time = _Time()
    guard: _Guard = _Guard()


_FILE_NAMES = {
    "capacity_j": "capacity_kwh",
    "charge_limit_w": "charge_limit_kw",
    "discharge_limit_w": "discharge_limit_kw",
    "self_discharge_per_day": "self_discharge_pct_per_day",
    "electrolyzer_max_w": "electrolyzer_max_kw",
    "electrolyzer_min_w": "electrolyzer_min_kw",
    "fuel_cell_max_w": "fuel_cell_max_kw",
}
"""Fields whose names differ between the code (SI) and the file (units for people)."""

_LARGEST_BATTERY_KWH = 1e6
_LARGEST_RATE_PER_H = 60.0
_LARGEST_TANK_KG = 1e6
_LARGEST_HYDROGEN_KW = 1e6


DEFAULT_SITE = "default"
"""What stands for the site file that comes with the package."""


def default_site_text() -> str:
    """The commented site file that comes with the package."""
    return resources.files("beasy_sched.energy").joinpath("default_site.toml").read_text("utf-8")


def default_site() -> Site:
    """The site of the file that comes with the package."""
    return parse_site(default_site_text(), "default_site.toml")


def read_site_text(name: str | os.PathLike[str]) -> str:
    """Return the text of a site file; ``DEFAULT_SITE`` names the one that comes with the package.

    Raises InputError.
    """
    if os.fspath(name) == DEFAULT_SITE:
        return default_site_text()
    try:
        return Path(name).read_text("utf-8")
    except OSError as error:
        raise InputError(name, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(name, f"is not UTF-8 text (byte {error.start})") from error


def read_site(path: str | os.PathLike[str]) -> Site:
    """Read a site file. Raises InputError that names file and field."""
    return parse_site(read_site_text(path), path)


def parse_site(text: str, path: str | os.PathLike[str] = "site.toml") -> Site:
    """Read a site from TOML text; ``path`` is named in errors. Raises InputError."""
    try:
        raw = tomllib.loads(text)
        contents = msgspec.convert(raw, _SiteFile, strict=True)
    except tomllib.TOMLDecodeError as error:
        raise InputError(path, f"is not valid TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise InputError(path, _reworded(str(error), raw)) from error
    section = ""
    try:
        section = "battery"
        battery = _battery(contents.battery)
        section = "hydrogen"
        hydrogen = _hydrogen(contents.hydrogen) if contents.hydrogen else None
        section = "time"
        _check_time(contents.time)
    except FieldError as error:
        name = _FILE_NAMES.get(error.field, error.field)
        found = getattr(getattr(contents, section), name, error.found)
        raise InputError(path, f"{section}.{name}: found {found:.15g}, expected {error.expected}") from error
    return Site(
        storage=Storage(battery, hydrogen),
        step_s=contents.time.step_s,
        window_s=contents.time.window_h * SECONDS_PER_HOUR,
        guard=GuardSettings(contents.guard.mode, contents.guard.veto),
    )


def _battery(section: _Battery) -> BatterySpec:
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
    return BatterySpec(
        capacity_j=kwh_to_j(size),
        soc_min_pct=section.soc_min_pct,
        soc_max_pct=section.soc_max_pct,
        soc_start_pct=section.soc_start_pct,
        soc_target_pct=section.soc_target_pct,
        charge_limit_w=kw_to_w(section.charge_limit_kw),
        discharge_limit_w=kw_to_w(section.discharge_limit_kw),
        charge_efficiency=section.charge_efficiency,
        discharge_efficiency=section.discharge_efficiency,
        self_discharge_per_day=rate / 100.0,
        loss=section.loss,
    )


def _hydrogen(section: _Hydrogen) -> HydrogenSpec:
    tank = section.tank_kg
    require(not tank > _LARGEST_TANK_KG, "tank_kg", tank, "at most 1e6 kg (is the value in g?)")
    for name in ("electrolyzer_max_kw", "fuel_cell_max_kw"):
        value = getattr(section, name)
        require(not value > _LARGEST_HYDROGEN_KW, name, value, "at most 1e6 kW (is the value in W?)")
    return HydrogenSpec(
        tank_kg=tank,
        level_start_kg=section.level_start_kg,
        level_target_kg=section.level_target_kg,
        electrolyzer_max_w=kw_to_w(section.electrolyzer_max_kw),
        electrolyzer_min_w=kw_to_w(section.electrolyzer_min_kw),
        fuel_cell_max_w=kw_to_w(section.fuel_cell_max_kw),
        electrolyzer_efficiency=section.electrolyzer_efficiency,
        fuel_cell_efficiency=section.fuel_cell_efficiency,
        hold=section.hold,
    )


def _check_time(section: _Time) -> None:
    step, window = section.step_s, section.window_h
    require(1 <= step <= SECONDS_PER_DAY, "step_s", step, "between 1 and 86400 seconds")
    require(0 < window <= 24 * 366, "window_h", window, "above 0 and at most 8784 hours (is it in seconds?)")
    steps = window * SECONDS_PER_HOUR / step
    expected = f"a whole number of steps of {step:g} s"
    require(steps >= 1 and abs(steps - round(steps)) < 1e-9 * steps, "window_h", window, expected)


_NAME = re.compile("`(.+?)`")
_CHOICES: dict[str, type[Enum]] = {
    "battery.loss": LossConvention,
    "hydrogen.hold": Hold,
    "guard.mode": GuardMode,
}
_SECTIONS: dict[str, type[_Section]] = {
    "": _SiteFile,
    "battery": _Battery,
    "hydrogen": _Hydrogen,
    "time": _Time,
    "guard": _Guard,
}


def _reworded(message: str, raw: dict[str, Any]) -> str:
    """msgspec's "... - at `$.battery.loss`" as "battery.loss: found ..., expected ..."."""
    what, _, place = message.partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    names = _NAME.findall(what)
    if "unknown field" in what:
        known = _SECTIONS[place].__struct_fields__
        kind = f"[{place}] has" if place else "there is"
        return (
            f"{place}.{names[0]}".lstrip(".") + f": {kind} no such field, expected one of {', '.join(known)}"
        )
    if "missing required field" in what:
        return f"{place}.{names[0]}".lstrip(".") + ": is missing"
    found: Any = raw
    for part in filter(None, place.split(".")):
        found = found[part]
    if place in _CHOICES:
        return f"{place}: found {found!r}, expected one of {', '.join(c.value for c in _CHOICES[place])}"
    kind = names[0] if names else "float"
    wanted = {"float": "a number", "bool": "true or false", "object": "a section"}.get(kind, kind)
    return f"{place}: found {found!r:.40}, expected {wanted}"


def as_dict(site: Site) -> dict[str, Any]:
    """The site in SI units as plain values, for results and logs."""
    built = msgspec.to_builtins(site)
    assert isinstance(built, dict)
    return built
