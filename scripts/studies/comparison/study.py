"""All policies on the same executions, as one campaign: the cases that they are compared in.

A case is one scenario or several: the four critical ones of the BEASY paper, or the average ones on days of
our choice. Its name stands before theirs, with a dot between. Days and noises are given by their seeds, so
that a policy can be measured on others than it was tuned on.

On real weather and a real trace, days are spread evenly over the files of the user. Plants keep the
scenario's proportions, and are scaled until production is as much over demand, on average, as in the
scenarios of the BEASY paper. Where there are files for only one of the two, the other is drawn.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec.structs import replace as replaced

from beasy_sched.campaigns.inputs import forecast_production_w, forecast_workload, total_s
from beasy_sched.campaigns.scenario import (
    PAPER_GUARDS,
    FileProduction,
    GuardPart,
    PolicyPart,
    ProductionPart,
    Scenario,
    SwfWorkload,
    SyntheticProduction,
    SyntheticWorkload,
    TuplePart,
    WorkloadPart,
    quick,
)
from beasy_sched.campaigns.scenario_file import check_scenario, find_scenario
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.swf import SWF_FIELDS, SwfReader
from beasy_sched.formats.table import TimeSeries, time_text
from beasy_sched.generate.noise import ProductionCase
from beasy_sched.generate.platform import preset_platform
from beasy_sched.generate.workload import ARRIVAL_SHAPES
from beasy_sched.planner.forecast import demand_power_w, reference_speed_flops
from beasy_sched.run.settings import read_options
from beasy_sched.units import SECONDS_PER_DAY

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
"""Number added to the seed of a day where other jobs come than were forecast."""
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
    """Return the policy that ``text`` names, with its options: ``bid-price+price=false+margins=false``.

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
    """The average cases, each pair of days with one noise and the first guard, where a forecast is wrong."""

    def scenarios(extent: Extent) -> list[Scenario]:
        found = average_cases(replace(extent, seeds_per_day=1, guards=extent.guards[:1]))
        return [replaced(change(scenario), name=name) for scenario in found]

    return ComparisonCase(name, title, scenarios)


def _demand(factor: float) -> Change:
    """The plan is made for ``factor`` times the demand that comes."""
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
"""All cases, in the order of the tables; those where a forecast is wrong come last."""
SURPRISES: Final = tuple(case.name for case in CASES[3:])


def find_cases(names: Sequence[str]) -> list[ComparisonCase]:
    """Return cases by name, in the order of the tables. Raises ConfigError."""
    known = {case.name: case for case in CASES}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"unknown case {unknown[0]!r}: choose some of {', '.join(known)}")
    return [case for case in CASES if case.name in names]


REAL: Final = "real"
"""Name of the case of the user's own files."""
PRODUCTION_OVER_DEMAND: Final = 1.15
"""Mean production over demand of the scenarios' skies and workloads: see the scenario files."""


@dataclass(frozen=True)
class RealFiles:
    """Files of weather or power (of sun, wind or both), and a trace in the SWF."""

    weather: tuple[Path, ...] = ()
    trace: Path | None = None


def real_case(files: RealFiles) -> ComparisonCase:
    """Return the case; as many pairs of days as the extent has, with its noises."""
    return ComparisonCase(REAL, "real weather and jobs", lambda extent: [_scenario(files, extent)])


def _scenario(files: RealFiles, extent: Extent) -> Scenario:
    """Raises InputError for a file that cannot be read or is too short, and ConfigError."""
    (base,) = average_cases(extent)
    count, length_s = len(base.tuples), total_s(base)
    part = base.tuples[0]
    productions: Sequence[ProductionPart] = [each.production for each in base.tuples]
    workloads: Sequence[WorkloadPart] = [each.workload for each in base.tuples]
    if files.weather:
        productions = _productions(files.weather, part.production, count, length_s)
    if files.trace is not None:
        workloads = _workloads(files.trace, base.servers, count, length_s)
        base = replaced(base, noise=replaced(base.noise, walltimes="keep"))
    tuples = tuple(
        TuplePart(workload=workload, production=production)
        for workload, production in zip(workloads, productions, strict=True)
    )
    return _scaled(replaced(base, name=REAL, tuples=tuples))


def spread_s(available_s: float, length_s: float, count: int) -> list[float]:
    """Return ``count`` starts of spans of ``length_s``, whole days from the first one, evenly over the whole.

    The first is 0, the last as late as it may be. Raises ValueError where not one span fits.
    """
    last = (available_s - length_s) / SECONDS_PER_DAY
    if last < 0.0:
        raise ValueError(f"covers {available_s / 3600:.4g} h, expected {length_s / 3600:.4g} h or more")
    days = np.linspace(0.0, math.floor(last), count)
    return [SECONDS_PER_DAY * math.floor(day) for day in days]


def _productions(
    paths: Sequence[Path], plant: ProductionPart, count: int, length_s: float
) -> list[ProductionPart]:
    """The same plants in weather of other days."""
    files: dict[str, str] = {}
    spans_s: list[tuple[int, int]] = []
    for path in paths:
        series = read_weather_file(path)
        if series.start_s is None:
            raise InputError(path, "has no dates: the comparison needs them to find its days")
        spans_s.append((series.start_s, series.start_s + len(series) * series.interval_s))
        for kind in _plants_of(series):
            if kind in files:
                raise ConfigError(f"--weather: {files[kind]} and {path} are both for {kind}")
            files[kind] = os.path.abspath(path)
    begin_s = max(begin_s for begin_s, _ in spans_s)
    first_s = int(SECONDS_PER_DAY * math.ceil(begin_s / SECONDS_PER_DAY))
    try:
        starts = spread_s(min(end_s for _, end_s in spans_s) - first_s, length_s, count)
    except ValueError as error:
        raise InputError(paths[0], str(error)) from None
    return [
        FileProduction(
            case=plant.case,
            pv_kw=plant.pv_kw if "pv" in files else 0.0,
            wind_kw=plant.wind_kw if "wind" in files else 0.0,
            pv=files.get("pv"),
            wind=files.get("wind"),
            start=time_text(first_s, start),
        )
        for start in starts
    ]


def _plants_of(series: TimeSeries) -> tuple[str, ...]:
    """The plants that a file is for; sun if it does not say."""
    both = {"weather": ("pv", "wind"), "wind": ("wind",)}
    return both.get(series.technology or "", ("pv",))


def _workloads(path: Path, servers: int, count: int, length_s: float) -> list[WorkloadPart]:
    """Jobs of other days of the trace, on hosts with enough cores for the machine to fit on the servers."""
    reader = SwfReader(path)
    column = SWF_FIELDS["submit_s"] - 1
    first, last, widest = math.inf, -math.inf, 1.0
    for chunk in reader.chunks():
        submits = chunk[:, column][chunk[:, column] >= 0]
        first, last = min(first, submits.min(initial=first)), max(last, submits.max(initial=last))
        widest = max(widest, float(chunk[:, SWF_FIELDS["allocated_processors"] - 1].max()))
    machine = reader.header_number("MaxProcs", "MaxNodes") or widest
    try:
        starts = spread_s(last - first, length_s, count)
    except ValueError as error:
        raise InputError(path, str(error)) from None
    cores = max(math.ceil(machine / servers), 1)
    return [SwfWorkload(file=os.path.abspath(path), start=float(s), cores_per_host=cores) for s in starts]


def _scaled(scenario: Scenario) -> Scenario:
    """The scenario with plants of such sizes that production over demand is as in the paper's scenarios."""
    steps, step_s = scenario.windows * scenario.parsed_site().steps, scenario.parsed_site().step_s
    servers = preset_platform(scenario.platform.servers, one_pstate=scenario.platform.one_pstate)
    produced_w = demanded_w = 0.0
    for number in range(len(scenario.tuples)):
        jobs = forecast_workload(scenario, number)
        run_s = jobs.run_s * (jobs.reference_speed_flops / reference_speed_flops(servers))
        demand_w = demand_power_w(servers, jobs.submit_s, run_s, jobs.hosts, steps=steps, step_s=step_s)
        demanded_w += float(demand_w.sum())
        produced_w += float(forecast_production_w(scenario, number).sum())
    if produced_w <= 0.0:
        raise ConfigError("--weather: found no production on the days that were chosen")
    factor = PRODUCTION_OVER_DEMAND * demanded_w / produced_w
    return replaced(scenario, tuples=tuple(_sized(part, factor) for part in scenario.tuples))


def _sized(part: TuplePart, factor: float) -> TuplePart:
    plants = part.production
    larger = replaced(
        plants, pv_kw=round(plants.pv_kw * factor, 3), wind_kw=round(plants.wind_kw * factor, 3)
    )
    return replaced(part, production=larger)
