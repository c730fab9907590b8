"""The runs of scenarios: by tuple, seed, point of the sweep, guard and policy.

A scenario's section ``[sweep]`` gives several values for some of `AXES`, the sizes of a site; each
combination is a *point*, a separate scenario (`at_point`) that differs only in these sizes. Related values
change in proportion: a battery of twice the capacity has twice the power limits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from beasy_sched.energy.fields import require
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.plugins.campaigns.axes import AXES, Axis, Shaped
from beasy_sched.plugins.campaigns.scenario import (
    GuardPart,
    PolicyPart,
    Scenario,
)

Point = tuple[tuple[str, float], ...]
"""Names of axes, each with a value; empty for a scenario as in its file."""

MOST_POINTS: Final = 10_000


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
