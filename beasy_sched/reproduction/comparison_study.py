"""All policies on the same executions, as one campaign: the cases that they are compared in.

A case is one scenario or several: the four critical ones of the BEASY paper, or the average ones on days of
our choice. Its name stands before theirs, with a dot between. Days and noises are given by their seeds, so
that a policy can be measured on others than it was tuned on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from beasy_sched.campaign.scenario import (
    PAPER_GUARDS,
    GuardPart,
    PolicyPart,
    Scenario,
    SyntheticProduction,
    SyntheticWorkload,
    TuplePart,
    quick,
)
from beasy_sched.campaign.scenario_file import check_scenario, find_scenario
from beasy_sched.errors import ConfigError
from beasy_sched.generate.noise import ProductionCase

QUICK_POLICY: Final = "bid-price-quick"
"""What the comparison calls ``bid-price`` with the option ``quick``."""
COMPARED_POLICIES: Final = (
    "bid-price",
    QUICK_POLICY,
    "beasy",
    "workload-reactive",
    "power-reactive",
    "peak",
    "next",
    "last",
    "workload",
    "follow-plan",
)
TUNING_BELOW: Final = 3000
"""Seeds below this one may have been used to tune policies."""
SEPARATOR: Final = "."
"""Between the name of a case and that of a scenario."""
CRITICAL: Final = ("best-begin", "best-end", "worst-begin", "worst-end")
OTHER_JOBS: Final = 500_000
"""What is added to the seed of a day where other jobs come than were forecast."""
_SHAPES: Final = ("begin", "end", "uniform")
"""When the jobs of a day arrive: the average cases take turns, as in the scenario file."""


@dataclass(frozen=True)
class Extent:
    """How much is run."""

    seeds: range
    """Of the noise."""
    days: range
    """Of the days: a pair of workload and sky each."""
    seeds_per_day: int = 3
    """How many of the noise's seeds each pair of days gets in cases with several."""
    guards: tuple[GuardPart, ...] = PAPER_GUARDS
    small: bool = False
    """Take the scenarios' quick relatives."""

    @property
    def day_seeds(self) -> tuple[int, ...]:
        """Seeds of the noise in cases with several pairs of days."""
        return tuple(self.seeds[: self.seeds_per_day])


@dataclass(frozen=True)
class ComparisonCase:
    """What the policies are compared in."""

    name: str
    title: str
    scenarios: Callable[[Extent], list[Scenario]]


def policy_part(label: str) -> PolicyPart:
    """Return the policy that a table calls ``label``."""
    if label == QUICK_POLICY:
        return PolicyPart(name="bid-price", label=label, options={"quick": True})
    return PolicyPart(name=label, label=label)


def comparison(
    cases: Sequence[ComparisonCase], policies: Sequence[str | PolicyPart], extent: Extent
) -> list[Scenario]:
    """Return the scenarios of some cases. Raises ConfigError for a policy that is not there."""
    parts = tuple(policy_part(policy) if isinstance(policy, str) else policy for policy in policies)
    found = []
    for case in cases:
        for scenario in case.scenarios(extent):
            name = case.name if scenario.name == case.name else f"{case.name}{SEPARATOR}{scenario.name}"
            own = replaced(scenario, name=name, policies=parts)
            check_scenario(own)
            found.append(quick(own) if extent.small else own)
    return found


def replaced(scenario: Scenario, **values: Any) -> Scenario:
    """Return a scenario with some fields changed."""
    return msgspec.structs.replace(scenario, **values)


def case_of(scenario: str) -> tuple[str, str]:
    """Split the name of a scenario into those of its case and of the scenario within that ("" if alone)."""
    case, _, rest = scenario.partition(SEPARATOR)
    return case, rest


def critical_cases(extent: Extent) -> list[Scenario]:
    """Return the critical scenarios as they come: one pair of days each, and many noises."""
    seeds = tuple(extent.seeds)
    return [replaced(find_scenario(name), seeds=seeds, guards=extent.guards) for name in CRITICAL]


def critical_days(extent: Extent) -> list[Scenario]:
    """Return the critical scenarios on other days: each has all pairs of them."""
    found = []
    for name in CRITICAL:
        scenario = find_scenario(name)
        tuples = tuple(_days(scenario.tuples[0], day) for day in extent.days)
        found.append(replaced(scenario, tuples=tuples, seeds=extent.day_seeds, guards=extent.guards))
    return found


def average_cases(extent: Extent) -> list[Scenario]:
    """Return the average cases on the days of the extent."""
    scenario = find_scenario("average")
    tuples = tuple(
        _days(scenario.tuples[0], day, shape=_SHAPES[number % len(_SHAPES)])
        for number, day in enumerate(extent.days)
    )
    return [replaced(scenario, tuples=tuples, seeds=extent.day_seeds, guards=extent.guards)]


def _days(part: TuplePart, day: int, **workload: Any) -> TuplePart:
    """The pair with jobs and sky of other days."""
    if not (
        isinstance(part.workload, SyntheticWorkload) and isinstance(part.production, SyntheticProduction)
    ):
        raise ConfigError("days can only be drawn for scenarios with synthetic jobs and weather")
    return TuplePart(
        workload=msgspec.structs.replace(part.workload, seed=day, **workload),
        production=msgspec.structs.replace(part.production, seed=day),
    )


Change = Callable[[Scenario], Scenario]


def _surprising(name: str, title: str, change: Change) -> ComparisonCase:
    """The average cases, each pair of days with one noise and the first guard, where a forecast is wrong."""

    def scenarios(extent: Extent) -> list[Scenario]:
        found = average_cases(replace(extent, seeds_per_day=1, guards=extent.guards[:1]))
        return [replaced(change(scenario), name=name) for scenario in found]

    return ComparisonCase(name, title, scenarios)


def _demand(factor: float) -> Change:
    """The plan is made for so much more demand than comes."""
    return lambda scenario: replaced(
        scenario, plan=msgspec.structs.replace(scenario.plan, demand_factor=factor)
    )


def _band(width: float, case: ProductionCase) -> Change:
    """Production leaves the band of its prediction: it lies in one so many times as wide."""

    def change(scenario: Scenario) -> Scenario:
        tuples = tuple(
            msgspec.structs.replace(part, production=msgspec.structs.replace(part.production, case=case))
            for part in scenario.tuples
        )
        noise = msgspec.structs.replace(scenario.noise, production_band=width)
        return replaced(scenario, tuples=tuples, noise=noise)

    return change


def _sizes(factor: float) -> Change:
    """Other jobs come than were forecast: so many times as long, and fewer in proportion."""

    def change(scenario: Scenario) -> Scenario:
        return replaced(scenario, tuples=tuple(_other_jobs(part, factor) for part in scenario.tuples))

    return change


def _other_jobs(part: TuplePart, factor: float) -> TuplePart:
    workload = part.workload
    if not isinstance(workload, SyntheticWorkload):
        return part
    other = msgspec.structs.replace(
        workload,
        seed=workload.seed + OTHER_JOBS,
        run_median_s=workload.run_median_s * factor,
        run_cap_s=workload.run_cap_s * factor,
        jobs=max(round(workload.jobs / factor), 1),
    )
    return msgspec.structs.replace(part, real_workload=other)


CASES: Final[tuple[ComparisonCase, ...]] = (
    ComparisonCase("critical", "critical cases", critical_cases),
    ComparisonCase("critical-days", "critical cases on other days", critical_days),
    ComparisonCase("average", "average cases", average_cases),
    _surprising("demand-high", "demand forecast 30 % too high", _demand(1.3)),
    _surprising("demand-low", "demand forecast 30 % too low", _demand(0.7)),
    _surprising("weather-wild", "production up to twice as far off", _band(2.0, ProductionCase.BETWEEN)),
    _surprising("weather-below", "production always below its band", _band(1.5, ProductionCase.WORST)),
    _surprising("weather-above", "production always above its band", _band(1.5, ProductionCase.BEST)),
    _surprising("short-jobs", "jobs a third as long as forecast, three times as many", _sizes(1 / 3)),
    _surprising("long-jobs", "jobs three times as long as forecast, a third as many", _sizes(3.0)),
)
"""All of them, in the order of the tables; those where a forecast is wrong come last."""
SURPRISES: Final = tuple(case.name for case in CASES[3:])


def find_cases(names: Sequence[str]) -> list[ComparisonCase]:
    """Return cases by name, in the order of the tables. Raises ConfigError."""
    known = {case.name: case for case in CASES}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"unknown case {unknown[0]!r}: choose some of {', '.join(known)}")
    return [case for case in CASES if case.name in names]
