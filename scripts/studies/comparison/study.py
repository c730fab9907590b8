"""All policies on the same executions, as one campaign: the cases that they are compared in.

A case is one scenario or several: the four critical ones of the BEASY paper, or the average ones on days of
our choice. Its name is the prefix of their names, with a dot between. Days and noise are given by seeds, so
that a policy can be measured on other days than it was tuned on.

On real weather and a real trace, days are spread evenly over the files of the user. Plants keep the
scenario's proportions, and are scaled until production is as much over demand, on average, as in the
scenarios of the BEASY paper. Where there are files for only one of the two, the other is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec.structs import replace as replaced

from beasy_sched.errors import ConfigError
from beasy_sched.generate.workload_options import ARRIVAL_SHAPES
from beasy_sched.model.choices import ProductionCase
from beasy_sched.plugins.campaigns.own_days import OwnFiles, on_own_days
from beasy_sched.plugins.campaigns.scenario import (
    PAPER_GUARDS,
    GuardPart,
    PolicyPart,
    Scenario,
    SyntheticProduction,
    SyntheticWorkload,
    TuplePart,
    quick,
)
from beasy_sched.plugins.campaigns.scenario_file import check_scenario, find_scenario
from beasy_sched.run.building import read_options

QUICK_POLICY: Final = "bid-price-quick"
"""Name in the comparison of ``bid-price`` without patience: servers are woken for a job at once."""
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
"""Separator between the name of a case and that of a scenario."""
CRITICAL: Final = ("best-begin", "best-end", "worst-begin", "worst-end")
OTHER_JOBS: Final = 500_000
"""Number added to the seed of a day whose actual jobs differ from the forecast."""
_SHAPES: Final = tuple(ARRIVAL_SHAPES)
"""Shapes of a day's arrivals: the average cases take turns, as in the scenario file."""


@dataclass(frozen=True)
class Extent:
    """Extent of a comparison."""

    seeds: range
    """Seeds of the noise."""
    days: range
    """Seeds of the days: a pair of workload and sky each."""
    seeds_per_day: int = 3
    """Number of the noise's seeds that each pair of days gets."""
    guards: tuple[GuardPart, ...] = PAPER_GUARDS
    small: bool = False
    """Whether the scenarios' quick relatives are run."""

    @property
    def day_seeds(self) -> tuple[int, ...]:
        """Seeds of the noise that each pair of days gets."""
        return tuple(self.seeds[: self.seeds_per_day])


@dataclass(frozen=True)
class ComparisonCase:
    """Case in which the policies are compared."""

    name: str
    title: str
    scenarios: Callable[[Extent], list[Scenario]]


def policy_part(text: str) -> PolicyPart:
    """Return the policy that ``text`` names, with its options: ``bid-price+patience=0.5+production=plan``.

    Raises ConfigError for options that cannot be read.
    """
    if text == QUICK_POLICY:
        return PolicyPart(name="bid-price", label=text, options={"patience": 0.0})
    name, *options = text.split("+")
    label = text.replace("+", ".").replace("=", "-")
    return PolicyPart(name=name, label=label, options=read_options(single=options))


def comparison(
    cases: Sequence[ComparisonCase], policies: Sequence[str | PolicyPart], extent: Extent
) -> list[Scenario]:
    """Return the scenarios of some cases. Raises ConfigError for an unknown policy."""
    parts = tuple(policy_part(policy) if isinstance(policy, str) else policy for policy in policies)
    found = []
    for case in cases:
        for scenario in case.scenarios(extent):
            name = case.name if scenario.name == case.name else f"{case.name}{SEPARATOR}{scenario.name}"
            own = replaced(scenario, name=name, policies=parts)
            check_scenario(own)
            found.append(quick(own) if extent.small else own)
    return found


def case_of(scenario: str) -> tuple[str, str]:
    """Split the name of a scenario into those of its case and of the scenario within that ("" if alone)."""
    case, _, rest = scenario.partition(SEPARATOR)
    return case, rest


def critical_cases(extent: Extent) -> list[Scenario]:
    """Return the critical scenarios on their own days."""
    return [replaced(find_scenario(name), seeds=extent.day_seeds, guards=extent.guards) for name in CRITICAL]


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
        workload=replaced(part.workload, seed=day, **workload),
        production=replaced(part.production, seed=day),
    )


Change = Callable[[Scenario], Scenario]


def _surprising(name: str, title: str, change: Change) -> ComparisonCase:
    """The average cases, each pair of days with one noise seed and the first guard, with a wrong forecast."""

    def scenarios(extent: Extent) -> list[Scenario]:
        found = average_cases(replace(extent, seeds_per_day=1, guards=extent.guards[:1]))
        return [replaced(change(scenario), name=name) for scenario in found]

    return ComparisonCase(name, title, scenarios)


def _demand(factor: float) -> Change:
    """The plan is made for ``factor`` times the actual demand."""
    return lambda scenario: replaced(scenario, plan=replaced(scenario.plan, demand_factor=factor))


def _band(width: float, case: ProductionCase) -> Change:
    """Production leaves the band of its prediction: it lies in one ``width`` times as wide."""

    def change(scenario: Scenario) -> Scenario:
        tuples = tuple(
            replaced(part, production=replaced(part.production, case=case)) for part in scenario.tuples
        )
        noise = replaced(scenario.noise, production_band=width)
        return replaced(scenario, tuples=tuples, noise=noise)

    return change


def _sizes(factor: float) -> Change:
    """The jobs are not those forecast: ``factor`` times as long, and fewer in proportion."""
    return lambda scenario: replaced(
        scenario, tuples=tuple(_other_jobs(part, factor) for part in scenario.tuples)
    )


def _other_jobs(part: TuplePart, factor: float) -> TuplePart:
    workload = part.workload
    if not isinstance(workload, SyntheticWorkload):
        return part
    other = replaced(workload.stretched(factor), seed=workload.seed + OTHER_JOBS)
    return replaced(part, real_workload=other)


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
"""All cases, in the order of the tables; those with a wrong forecast are last."""
SURPRISES: Final = tuple(case.name for case in CASES[3:])


def find_cases(names: Sequence[str]) -> list[ComparisonCase]:
    """Return cases by name, in the order of the tables. Raises ConfigError."""
    known = {case.name: case for case in CASES}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"unknown case {unknown[0]!r}: choose some of {', '.join(known)}")
    return [case for case in CASES if case.name in names]


REAL: Final = "real"
"""Name of the case of the user's own files."""


def real_case(files: OwnFiles) -> ComparisonCase:
    """Return the case of own files; up to as many pairs of days as the extent has, with its noise seeds."""

    def scenarios(extent: Extent) -> list[Scenario]:
        return [replaced(on_own_days(each, files), name=REAL) for each in average_cases(extent)]

    return ComparisonCase(REAL, "real weather and jobs", scenarios)
