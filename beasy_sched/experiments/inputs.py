"""From a scenario's parts to what a run reads: forecasts of each tuple, and what really comes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError
from beasy_sched.experiments.scenario import (
    FileProduction,
    PlatformPart,
    ProductionPart,
    Scenario,
    SwfWorkload,
    SyntheticWorkload,
)
from beasy_sched.formats.timestamps import parse_moment
from beasy_sched.formats.weather_file import read_weather_file
from beasy_sched.generate.durations import parse_duration
from beasy_sched.generate.noise import noisy_workload, real_production
from beasy_sched.generate.power import (
    Production,
    Window,
    pv_production,
    shared_start,
    step_power,
    wind_production,
)
from beasy_sched.generate.server_spec import load_server
from beasy_sched.generate.synthetic_power import synthetic_series
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.generate.workload_options import SwfOptions
from beasy_sched.generate.workload_swf import workload_from_swf
from beasy_sched.generate.workload_synthetic import ARRIVAL_SHAPES, SyntheticOptions, synthetic_workload
from beasy_sched.units import SECONDS_PER_HOUR, kw_to_w

_EXECUTION_KEY = 1000
"""Spawn key of the noise of executions, beside those of `generate.random_streams`."""


def total_s(scenario: Scenario) -> float:
    """Length of a run: all windows, s."""
    return scenario.windows * scenario.parsed_site().window_s


def execution_seed(seed: int, number: int) -> int:
    """Return the seed of the noise that tuple ``number`` gets in the execution ``seed``.

    Tuples with one seed get independent noise; scenarios that share tuple number and seed share noise, so
    that best and worst cases are told apart by their production alone.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(_EXECUTION_KEY, number))
    return int(sequence.generate_state(1, np.uint64)[0])


def forecast_workload(scenario: Scenario, number: int) -> GeneratedWorkload:
    """Return the workload that tuple ``number`` foresees. Raises InputError and ConfigError."""
    part = scenario.tuples[number].workload
    if isinstance(part, SwfWorkload):
        return _trace(scenario, part)
    options = synthetic_options(scenario, part)
    drawn = synthetic_workload(options)
    wanted_s = total_s(scenario)
    submit_s = np.floor(drawn.submit_s * (wanted_s / drawn.window_s))
    return replace(drawn, submit_s=submit_s, window_s=wanted_s)


def forecast_production_w(scenario: Scenario, number: int) -> FloatArray:
    """Return the production (W a step) that tuple ``number`` foresees. Raises InputError and ConfigError."""
    part, site = scenario.tuples[number].production, scenario.parsed_site()
    steps = scenario.windows * site.steps
    start_s = None if part.start is None else parse_moment(part.start)
    plants = _plants(part, start_s, total_s(scenario))
    window = Window(steps, site.step_s, shared_start(plants) if start_s is None else start_s)
    powers = [_steps(part, plant, window) for plant in plants]
    total: FloatArray = np.sum([np.zeros(steps), *powers], axis=0)
    return total


def real_workload(
    scenario: Scenario, forecast: GeneratedWorkload, seed: int, number: int
) -> GeneratedWorkload:
    """Return the workload that comes in the execution ``seed`` of tuple ``number``."""
    noise = scenario.noise
    return noisy_workload(
        forecast,
        seed=execution_seed(seed, number),
        arrivals_sigma=noise.arrivals_sigma,
        run_sigma=noise.run_time_sigma,
        walltimes=noise.walltimes,
    )


def real_production_w(scenario: Scenario, forecast_w: FloatArray, seed: int, number: int) -> FloatArray:
    """Return the production (W a step) that comes in the execution ``seed`` of tuple ``number``."""
    site = scenario.parsed_site()
    return real_production(
        forecast_w,
        scenario.tuples[number].production.case,
        step_s=site.step_s,
        uncertainty=scenario.plan.uncertainty("renew"),
        window_steps=site.steps,
        seed=execution_seed(seed, number),
    )


def synthetic_options(scenario: Scenario, part: SyntheticWorkload) -> SyntheticOptions:
    """Return what to draw. Raises ConfigError."""
    return SyntheticOptions(
        reference_speed_flops=_reference_speed_flops(scenario.platform),
        jobs=part.jobs,
        hosts=scenario.servers,
        day_shares=ARRIVAL_SHAPES[part.shape],
        gap_log_sd=part.gap_log_sd,
        run_median_s=part.run_median_s,
        run_log_sd=part.run_log_sd,
        run_cap_s=part.run_cap_s,
        host_shares=part.host_shares,
        seed=part.seed,
    )


def start_in_trace_s(part: SwfWorkload) -> float:
    """Return where in the trace to begin, s. Raises ConfigError."""
    try:
        start_s = parse_duration(part.start) if isinstance(part.start, str) else part.start
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if not 0 <= start_s < math.inf:
        raise ConfigError(f"found {start_s!r}, expected 0 s or more")
    return start_s


def _reference_speed_flops(platform: PlatformPart) -> float:
    reference = platform.reference or next(iter(platform.servers))
    return load_server(reference).kind().reference_speed_flops


def _trace(scenario: Scenario, part: SwfWorkload) -> GeneratedWorkload:
    start_s = start_in_trace_s(part)
    return workload_from_swf(
        part.file,
        SwfOptions(
            reference_speed_flops=_reference_speed_flops(scenario.platform),
            start_s=start_s,
            end_s=start_s + total_s(scenario),
            hosts=scenario.servers,
            cores_per_host=part.cores_per_host,
            min_run_s=part.min_run_s,
            max_run_s=math.inf if part.max_run_s is None else part.max_run_s,
            walltimes="trace" if scenario.noise.walltimes == "keep" else "groups",
        ),
    )


def _plants(part: ProductionPart, start_s: int | None, length_s: float) -> list[Production]:
    pv_w, wind_w = kw_to_w(part.pv_kw), kw_to_w(part.wind_kw)
    plants = []
    if isinstance(part, FileProduction):
        if part.pv is not None:
            plants.append(pv_production(read_weather_file(part.pv), installed_w=pv_w, route=part.route))
        if part.wind is not None:
            series = read_weather_file(part.wind)
            plants.append(wind_production(series, installed_w=wind_w, route=part.route))
        return plants
    assert start_s is not None
    hours = math.ceil(length_s / SECONDS_PER_HOUR)
    sky = synthetic_series(part.weather(), seed=part.seed, start_s=start_s, hours=hours)
    if pv_w > 0:
        plants.append(pv_production(sky, installed_w=pv_w))
    if wind_w > 0:
        plants.append(wind_production(sky, installed_w=wind_w))
    return plants


def _steps(part: ProductionPart, plant: Production, window: Window) -> FloatArray:
    if isinstance(part, FileProduction):
        return step_power(plant, window, method=part.interpolation, gaps=part.gaps)
    return step_power(plant, window)
