"""The axes of a sweep: the sizes and settings that it can vary."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from beasy_sched.errors import ConfigError

if TYPE_CHECKING:
    from beasy_sched.plugins.campaigns.scenario import ProductionPart, Scenario, TuplePart


Shaped = Literal["platform", "workload", "production"]


@dataclass(frozen=True)
class Axis:
    """A size that can be varied."""

    name: str
    unit: str
    meaning: str
    change: Callable[[Scenario, float], Scenario]
    """Return a scenario with another size along the axis. Raises ConfigError if it has no such size."""
    found: Callable[[Scenario], float]
    """Return the size along the axis in a scenario; NaN if it has none, or several."""
    shapes: frozenset[Shaped] = frozenset()
    """Inputs that depend on the axis, in addition to the site and the plan."""
    whole: bool = False
    """Whether a size along the axis is an integer."""
    most: float = 1e6

    @property
    def title(self) -> str:
        """Meaning of the axis, with its unit."""
        return f"{self.meaning} [{self.unit}]" if self.unit else self.meaning

    def check(self, value: float, field: str) -> None:
        """Raise ConfigError for an invalid size."""
        from beasy_sched.energy.fields import require

        kind = "an integer" if self.whole else "a number"
        fits = 0 <= value <= self.most and (not self.whole or (value >= 1 and value == int(value)))
        require(fits, field, value, f"{kind} from {1 if self.whole else 0} to {self.most:g}")


def _plant(name: Literal["pv", "wind"]) -> Axis:
    size = f"{name}_kw"

    def change(scenario: Scenario, value: float) -> Scenario:
        tuples = [_with_plant(part, name, value) for part in scenario.tuples]
        return msgspec.structs.replace(scenario, tuples=tuple(tuples))

    def found(scenario: Scenario) -> float:
        return _only({getattr(part.production, size) for part in scenario.tuples})

    meaning = f"installed {'solar' if name == 'pv' else 'wind'} power"
    return Axis(size, "kW", meaning, change, found, frozenset({"production"}))


def _with_plant(part: TuplePart, name: str, value: float) -> TuplePart:
    from beasy_sched.plugins.campaigns.scenario import FileProduction

    changes: dict[str, Any] = {f"{name}_kw": value}
    production: ProductionPart = part.production
    if isinstance(production, FileProduction):
        other = production.wind if name == "pv" else production.pv
        if getattr(production, name) is None and value > 0:
            raise ConfigError(f"the production has no file for {name}")
        if value == 0:
            if other is None or production.start is None:
                raise ConfigError(f"without {name}, the production must have a start and the other plant")
            changes[name] = None
    return msgspec.structs.replace(part, production=msgspec.structs.replace(production, **changes))


def _device(name: str, unit: str, meaning: str, place: str, along: Sequence[str] = ()) -> Axis:
    """A size in a section of the site; other fields, ``along``, keep their ratio to it.

    A size of 0 omits the section of a device that has no other size.
    """
    section, _, field = place.partition(".")

    def change(scenario: Scenario, value: float) -> Scenario:
        own = scenario.site.get(section)
        if own is None or field not in own:
            raise ConfigError(f"{name}: the site has no {place} to change")
        sections = {key: part for key, part in scenario.site.items() if key != section}
        if value > 0 or field not in _WHOLE_DEVICE:
            scaled = {
                other: own[other] * _ratio(value, own[field], name) for other in along if own.get(other)
            }
            sections[section] = {**own, field: value, **scaled}
        return msgspec.structs.replace(scenario, site=sections)

    def found(scenario: Scenario) -> float:
        return float(scenario.site.get(section, {}).get(field, math.nan))

    return Axis(name, unit, meaning, change, found)


_WHOLE_DEVICE: Final = ("capacity_kwh", "tank_kg")


def _ratio(value: float, own: float, name: str) -> float:
    if own <= 0:
        raise ConfigError(f"{name}: found {own:g} in the site, expected a size above 0")
    return value / own


def _of_battery(field: str, unit: str, meaning: str, most: float) -> Axis:
    """A setting of the battery, which the site need not have; it shares its name with the field."""

    def change(scenario: Scenario, value: float) -> Scenario:
        if "battery" not in scenario.site:
            raise ConfigError(f"{field}: the site has no battery")
        battery = {**scenario.site["battery"], field: value}
        return msgspec.structs.replace(scenario, site={**scenario.site, "battery": battery})

    def found(scenario: Scenario) -> float:
        return float(scenario.site.get("battery", {}).get(field, 0.0))

    return Axis(field, unit, meaning, change, found, most=most)


def _change_base(scenario: Scenario, value: float) -> Scenario:
    load = {**scenario.site.get("load", {}), "base_kw": value}
    return msgspec.structs.replace(scenario, site={**scenario.site, "load": load})


def _change_servers(scenario: Scenario, value: float) -> Scenario:
    """Return a scenario with ``value`` servers, shared among the kinds as before, by largest remainders."""
    own, total = scenario.platform.servers, scenario.servers
    exact = {kind: count * value / total for kind, count in own.items()}
    counts = {kind: int(share) for kind, share in exact.items()}
    for kind in sorted(own, key=lambda kind: counts[kind] - exact[kind])[: int(value) - sum(counts.values())]:
        counts[kind] += 1
    if gone := [kind for kind, count in counts.items() if count == 0]:
        raise ConfigError(f"servers: of {value:g} servers, none would be {gone[0]!r}")
    platform = msgspec.structs.replace(scenario.platform, servers=counts)
    return msgspec.structs.replace(scenario, platform=platform)


def _only(values: set[float]) -> float:
    return values.pop() if len(values) == 1 else math.nan


_CHARGING: Final = ("charge_limit_kw", "discharge_limit_kw")


_LEVELS: Final = ("level_start_kg", "level_target_kg")


AXES: Final[dict[str, Axis]] = {
    axis.name: axis
    for axis in (
        _plant("pv"),
        _plant("wind"),
        _device("battery_kwh", "kWh", "battery capacity", "battery.capacity_kwh", _CHARGING),
        _of_battery("target_band_pct", "points", "band of the battery's target", 100.0),
        _of_battery("end_value_per_kwh", "", "value of a kWh left in the battery", 1e6),
        _device("tank_kg", "kg", "hydrogen tank", "hydrogen.tank_kg", _LEVELS),
        _device(
            "electrolyzer_max_kw",
            "kW",
            "electrolyzer power",
            "hydrogen.electrolyzer_max_kw",
            ["electrolyzer_min_kw"],
        ),
        _device("fuel_cell_max_kw", "kW", "fuel cell power", "hydrogen.fuel_cell_max_kw"),
        _device("import_limit_kw", "kW", "import limit of the grid", "grid.import_limit_kw"),
        Axis(
            "base_kw",
            "kW",
            "base load",
            _change_base,
            lambda scenario: float(scenario.site.get("load", {}).get("base_kw", 0.0)),
        ),
        Axis(
            "servers",
            "",
            "number of servers",
            _change_servers,
            lambda scenario: float(scenario.servers),
            frozenset({"platform", "workload"}),
            whole=True,
        ),
    )
}
"""Sizes that a sweep can vary, by name."""
