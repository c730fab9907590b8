"""Scenarios with the user's files: jobs of a trace and weather of an export, on days spread over them.

A scenario has several pairs of workload and production. Each pair gets different days of the files, which do
not overlap, so that comparisons can treat pairs as independent. The plants are sized so that production over
demand is that of the BEASY paper's scenarios (docs/decisions/workloads-and-platforms.md).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from msgspec.structs import replace as replaced

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.swf import SwfReader
from beasy_sched.formats.swf_fields import SWF_FIELDS
from beasy_sched.formats.table import TimeSeries, time_text
from beasy_sched.generate.platform_file import preset_platform
from beasy_sched.planner.forecast import demand_power_w, reference_speed_flops
from beasy_sched.plugins.campaigns.run_inputs import forecast_production, forecast_workload, total_s
from beasy_sched.plugins.campaigns.scenario import (
    FileProduction,
    ProductionPart,
    Scenario,
    SwfWorkload,
    TuplePart,
    WorkloadPart,
)
from beasy_sched.units import SECONDS_PER_DAY

PRODUCTION_OVER_DEMAND: Final = 1.15
"""Mean production over demand of the scenarios' weather and workloads: see the scenario files."""


@dataclass(frozen=True)
class OwnFiles:
    """Files of weather or power (solar, wind or both), and a trace in the SWF."""

    weather: tuple[Path, ...] = ()
    trace: Path | None = None
    cores_per_host: int | None = None
    """Processors of the trace per server; None for as many as make the servers as large as the trace's
    machine."""
    max_run_s: float | None = None
    """Jobs of the trace that ran for longer are omitted; None for no limit."""

    def __bool__(self) -> bool:
        return bool(self.weather) or self.trace is not None


def on_own_days(scenario: Scenario, files: OwnFiles) -> Scenario:
    """Return the scenario with the jobs of the trace, and the weather of the files, in its pairs of days.

    Walltimes are the trace's. The scenario has fewer pairs if a file has too few days for all of them.
    Raises InputError for a file that cannot be read or is too short, and ConfigError.
    """
    length_s, parts = total_s(scenario), scenario.tuples
    productions: Sequence[ProductionPart] = [part.production for part in parts]
    workloads: Sequence[WorkloadPart] = [part.workload for part in parts]
    noise = scenario.noise
    if files.trace is not None:
        workloads = _workloads(files, files.trace, scenario.servers, len(parts), length_s)
        noise = replaced(noise, walltimes="keep")
    if files.weather:
        productions = _productions(files.weather, productions[: len(workloads)], length_s)
    tuples = tuple(
        TuplePart(workload=workload, production=production)
        for workload, production in zip(workloads, productions, strict=False)
    )
    return _scaled(replaced(scenario, tuples=tuples, noise=noise))


def spread_s(available_s: float, length_s: float, count: int) -> list[float]:
    """Return up to ``count`` starts of spans of ``length_s`` that do not overlap, evenly over the whole.

    Starts are whole days from the first, which is 0; the last is as late as possible. There are fewer if
    there is no room for more. Raises ValueError if not even one span fits.
    """
    last = math.floor((available_s - length_s) / SECONDS_PER_DAY)
    if last < 0:
        raise ValueError(f"covers {available_s / 3600:.4g} h, expected {length_s / 3600:.4g} h or more")
    room = last // math.ceil(length_s / SECONDS_PER_DAY) + 1
    days = np.linspace(0.0, last, min(count, room))
    return [SECONDS_PER_DAY * math.floor(day) for day in days]


def _productions(
    paths: Sequence[Path], plants: Sequence[ProductionPart], length_s: float
) -> list[ProductionPart]:
    """Return the same plants in weather of other days."""
    files: dict[str, str] = {}
    spans_s: list[tuple[int, int]] = []
    for path in paths:
        series = read_weather_file(path)
        if series.start_s is None:
            raise InputError(path, "has no dates: the comparison needs them to find its days")
        spans_s.append((series.start_s, series.start_s + len(series) * series.interval_s))
        for kind in _plants_of(series):
            if kind in files:
                raise ConfigError(f"{files[kind]} and {path} are both for {kind}: pass only one of them")
            files[kind] = os.path.abspath(path)
    begin_s = max(begin_s for begin_s, _ in spans_s)
    first_s = int(SECONDS_PER_DAY * math.ceil(begin_s / SECONDS_PER_DAY))
    try:
        starts = spread_s(min(end_s for _, end_s in spans_s) - first_s, length_s, len(plants))
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
        for plant, start in zip(plants, starts, strict=False)
    ]


def _plants_of(series: TimeSeries) -> tuple[str, ...]:
    """Return the plants of a file; solar if it does not name any."""
    both = {"weather": ("pv", "wind"), "wind": ("wind",)}
    return both.get(series.technology or "", ("pv",))


def _workloads(files: OwnFiles, path: Path, servers: int, count: int, length_s: float) -> list[WorkloadPart]:
    """Return jobs of other days of the trace, on hosts with enough cores for its machine to fit."""
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
    cores = files.cores_per_host or max(math.ceil(machine / servers), 1)
    whole = SwfWorkload(file=os.path.abspath(path), cores_per_host=cores, max_run_s=files.max_run_s)
    return [replaced(whole, start=start_s) for start_s in starts]


def _scaled(scenario: Scenario) -> Scenario:
    """Return the scenario with plants sized for the paper's ratio of production over demand."""
    steps, step_s = scenario.windows * scenario.parsed_site().steps, scenario.parsed_site().step_s
    servers = preset_platform(scenario.platform.servers, one_pstate=scenario.platform.one_pstate)
    produced_w = demanded_w = 0.0
    for number in range(len(scenario.tuples)):
        jobs = forecast_workload(scenario, number)
        run_s = jobs.run_s * (jobs.reference_speed_flops / reference_speed_flops(servers))
        demand_w = demand_power_w(servers, jobs.submit_s, run_s, jobs.hosts, steps=steps, step_s=step_s)
        demanded_w += float(demand_w.sum())
        produced_w += float(forecast_production(scenario, number).total_w.sum())
    if produced_w <= 0.0:
        raise ConfigError("the files have no production on the selected days")
    factor = PRODUCTION_OVER_DEMAND * demanded_w / produced_w
    return replaced(scenario, tuples=tuple(_sized(part, factor) for part in scenario.tuples))


def _sized(part: TuplePart, factor: float) -> TuplePart:
    plants = part.production
    larger = replaced(
        plants, pv_kw=round(plants.pv_kw * factor, 3), wind_kw=round(plants.wind_kw * factor, 3)
    )
    return replaced(part, production=larger)
