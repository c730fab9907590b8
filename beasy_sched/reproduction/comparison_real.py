"""The comparison on real weather and a real trace: days spread evenly over the files of the user.

Plants keep the scenario's proportions, and are scaled until production is as much over demand, on average, as
in the scenarios of the BEASY paper. Where there are files for only one of the two, the other is drawn.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from beasy_sched.campaign.inputs import forecast_production_w, forecast_workload, total_s
from beasy_sched.campaign.scenario import (
    FileProduction,
    ProductionPart,
    Scenario,
    SwfWorkload,
    TuplePart,
    WorkloadPart,
)
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.swf import SWF_FIELDS, SwfReader
from beasy_sched.formats.time_series import TimeSeries, time_text
from beasy_sched.generate.platform import preset_platform
from beasy_sched.plan.forecast import demand_power_w, reference_speed_flops
from beasy_sched.reproduction.comparison_study import ComparisonCase, Extent, average_cases, replaced
from beasy_sched.units import SECONDS_PER_DAY

REAL: Final = "real"
"""Name of the case."""
PRODUCTION_OVER_DEMAND: Final = 1.15
"""Of the scenarios' skies and workloads, on average: see the scenario files."""


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
        base = replaced(base, noise=msgspec.structs.replace(base.noise, walltimes="keep"))
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
    """What a file is for; sun, where it does not tell."""
    both = {"weather": ("pv", "wind"), "wind": ("wind",)}
    return both.get(series.technology or "", ("pv",))


def _workloads(path: Path, servers: int, count: int, length_s: float) -> list[WorkloadPart]:
    """Jobs of other days of the trace, on hosts with so many cores that the machine fits on the servers."""
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
    larger = msgspec.structs.replace(
        plants, pv_kw=round(plants.pv_kw * factor, 3), wind_kw=round(plants.wind_kw * factor, 3)
    )
    return msgspec.structs.replace(part, production=larger)
