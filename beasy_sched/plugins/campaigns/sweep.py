"""The runs of scenarios: by tuple, seed, point of the sweep, guard and policy.

A scenario's section ``[sweep]`` gives several values for some of `AXES`, the sizes of a site; each
combination is a *point*, a separate scenario (`at_point`) that differs only in these sizes. Related values
change in proportion: a battery of twice the capacity has twice the power limits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from beasy_sched.energy.fields import require
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.plugins.campaigns.scenario import (
    FileProduction,
    GuardPart,
    PolicyPart,
    ProductionPart,
    Scenario,
    TuplePart,
)

Point = tuple[tuple[str, float], ...]
"""Names of axes, each with a value; empty for a scenario as in its file."""
Shaped = Literal["platform", "workload", "production"]

MOST_POINTS: Final = 10_000


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
        kind = "an integer" if self.whole else "a number"
        fits = 0 <= value <= self.most and (not self.whole or (value >= 1 and value == int(value)))
        require(fits, field, value, f"{kind} from {1 if self.whole else 0} to {self.most:g}")


def at_point(scenario: Scenario, point: Point) -> Scenario:
    """Return the scenario of a point, without a sweep. Raises ConfigError."""
    for name, value in point:
        scenario = axis_of(name).change(scenario, value)
    return msgspec.structs.replace(scenario, sweep={})


def axis_of(name: str, field: str = "sweep") -> Axis:
    """Return an axis by its name. Raises ConfigError that lists them all."""
    if name not in AXES:
        raise ConfigError(f"{field}.{name}: no such axis, expected one of {', '.join(AXES)}")
    return AXES[name]


def points_of(scenario: Scenario) -> Iterator[Point]:
    """Yield the points of a scenario's sweep, the last axis fastest; one empty point without a sweep."""
    for values in itertools.product(*scenario.sweep.values()):
        yield tuple(zip(scenario.sweep, values, strict=True))


def label_of(point: Point) -> str:
    """Return the name of a point, valid in file names: ``battery_kwh-50.pv_kw-2.5``."""
    return ".".join(f"{name}-{value:.12g}" for name, value in point)


def shaping(point: Point, *kinds: Shaped) -> Point:
    """Return the part of a point on which inputs of these ``kinds`` depend."""
    return tuple((name, value) for name, value in point if AXES[name].shapes.intersection(kinds))


def check_sweep(scenario: Scenario) -> None:
    """Raise ConfigError, naming the field, for invalid axes and values; see `AXES`."""
    for name, values in scenario.sweep.items():
        axis = axis_of(name)
        require(len(values) > 0, f"sweep.{name}", list(values), "at least one value")
        seen = set[float]()
        for index, value in enumerate(values):
            axis.check(value, f"sweep.{name}[{index}]")
            require(value not in seen, f"sweep.{name}[{index}]", value, "each value only once")
            seen.add(value)
    count = math.prod(map(len, scenario.sweep.values()))
    require(count <= MOST_POINTS, "sweep", count, f"at most {MOST_POINTS:,} combinations")
    for point in points_of(scenario) if scenario.sweep else ():
        try:
            at_point(scenario, point).parsed_site()
        except BeasyError as error:
            raise ConfigError(f"sweep, at {label_of(point)}: {error}") from None


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


@dataclass(frozen=True)
class RunSpec:
    """One run."""

    scenario: Scenario
    """Scenario at the run's point, without a sweep."""
    tuple_number: int
    seed: int
    guard: GuardPart
    policy: PolicyPart
    point: Point = ()
    mark: str = ""
    """Mark that distinguishes the run from others of the same name, in folders that may have several."""

    @property
    def key(self) -> str:
        """Name of the run, unique in a campaign and valid in file names."""
        parts = [self.scenario.name, f"t{self.tuple_number}", f"s{self.seed}", label_of(self.point),
                 self.guard.label, self.policy.label, self.mark]  # fmt: skip
        return ".".join(part for part in parts if part)


def expand(scenarios: Sequence[Scenario]) -> list[RunSpec]:
    """Return all runs in the order of result tables. Raises ConfigError for scenarios of one name."""
    names = [scenario.name for scenario in scenarios]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"two scenarios are called {twice[0]!r}: rename one")
    places = {
        scenario.name: [(point, at_point(scenario, point)) for point in points_of(scenario)]
        for scenario in scenarios
    }
    return [
        RunSpec(sized, number, seed, guard, policy, point)
        for scenario in scenarios
        for number in range(len(scenario.tuples))
        for seed in scenario.seeds
        for point, sized in places[scenario.name]
        for guard in scenario.guards
        for policy in scenario.policies
    ]
