"""Inputs of a simulation from Python: platforms, workloads, and the power produced."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from beasy_sched.api.declared_parameters import generator
from beasy_sched.declared import OptionDoc
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.generate.job_deadlines import DEADLINES
from beasy_sched.generate.power_events import Production
from beasy_sched.generate.power_options import PowerOptions, SyntheticWeather
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.generate.workload_options import SwfOptions, SyntheticOptions

_STEP_S: Final = 300.0


def generate_platform(servers: Mapping[str, int], path: PathLike, *, one_pstate: bool = False) -> Path:
    """Write a SimGrid platform for Batsim, and return its path.

    Args:
        servers: number of servers of each preset or server file (TOML), such as ``{"gros": 50}``.
        path: the XML file to write.
        one_pstate: keep only the fastest P-state of each server, and its sleep state.

    Raises ConfigError and InputError.
    """
    from beasy_sched.generate.platform_file import preset_platform, write_platform

    write_platform(preset_platform(servers, one_pstate=one_pstate), path)
    return Path(path)


@dataclass(frozen=True, kw_only=True)
class _WorkloadOptions:
    """Options of a workload in addition to those of its kind."""

    swf: Annotated[
        PathLike | None,
        OptionDoc("a trace in the Standard Workload Format; without it, the workload is synthetic"),
    ] = None
    deadlines: Annotated[str, DEADLINES] = "none"


@dataclass(frozen=True, kw_only=True)
class _TraceOptions(SwfOptions, _WorkloadOptions):
    """Options of the workload of a trace."""

    swf: PathLike


@dataclass(frozen=True, kw_only=True)
class _SyntheticOptions(SyntheticOptions, _WorkloadOptions):
    """Options of a synthetic workload."""

    swf: None = None


@generator(
    from_files=_TraceOptions,
    synthetic=_SyntheticOptions,
    inputs=("swf",),
    only_from_files="traces: give swf",
    only_synthetic="synthetic workloads",
)
def generate_workload(path: PathLike, options: _TraceOptions | _SyntheticOptions) -> Path:
    """Write a Batsim workload, and return its path: from a trace, or a synthetic one.

    Args:
        path: the JSON file to write.
        {both}

    Of synthetic workloads only:

    Args:
        {synthetic}

    Of traces only:

    Args:
        {from_files}

    An argument that is None has the default. Issues a UserWarning for anything unusual in a trace. Raises
    ConfigError and InputError.
    """
    from beasy_sched.generate.workload import synthetic_workload
    from beasy_sched.generate.workload_swf import workload_from_swf

    made = (
        workload_from_swf(options.swf, options)
        if isinstance(options, _TraceOptions)
        else synthetic_workload(options)
    )
    for text in made.report.warnings:
        warnings.warn(text, stacklevel=3)
    _with_deadlines(made, options.deadlines, options.seed).write(path)
    return Path(path)


def _with_deadlines(workload: GeneratedWorkload, deadlines: str, seed: int) -> GeneratedWorkload:
    from beasy_sched.generate.job_deadlines import parse_deadlines, with_deadlines

    try:
        rule = parse_deadlines(deadlines)
    except ValueError as error:
        raise ConfigError(f"deadlines: {error}") from None
    return workload if rule is None else with_deadlines(workload, rule, seed=seed)


@dataclass(frozen=True, kw_only=True)
class _PowerSources:
    """Files of the power."""

    pv: Annotated[
        PathLike | None,
        OptionDoc(
            "solar: a Renewables.ninja, NASA POWER, ENTSO-E or CSV file; without any, weather is synthetic"
        ),
    ] = None
    wind: Annotated[PathLike | None, OptionDoc("wind: the same kinds of file")] = None


@dataclass(frozen=True, kw_only=True)
class _WeatherFileOptions(PowerOptions, _PowerSources):
    """Options of the power of files."""


@dataclass(frozen=True, kw_only=True)
class _SyntheticWeatherOptions(SyntheticWeather, PowerOptions, _PowerSources):
    """Options of the power of synthetic weather."""

    pv: None = None
    wind: None = None


@generator(
    from_files=_WeatherFileOptions,
    synthetic=_SyntheticWeatherOptions,
    inputs=("pv", "wind"),
    only_from_files="files: give pv or wind",
    only_synthetic="synthetic weather: omit pv and wind",
)
def generate_power(path: PathLike, options: _WeatherFileOptions | _SyntheticWeatherOptions) -> Path:
    """Write the power produced as Batsim's events, one per step of 300 s, and return the file's path.

    Args:
        path: the events file to write.
        {both}

    Of synthetic weather only:

    Args:
        {synthetic}

    An argument that is None has the default. Issues a UserWarning for anything unusual in a file. Raises
    ConfigError and InputError.
    """
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.formats.batsim_events import power_event_lines
    from beasy_sched.formats.table import parse_moment
    from beasy_sched.generate import power_events as power
    from beasy_sched.protocol.notices import SUN_FIELD
    from beasy_sched.units import SECONDS_PER_DAY

    begin_s = parse_moment(options.start or power.SYNTHETIC_START)
    if begin_s is None:
        raise ConfigError(f"start: found {options.start!r}, expected a date such as 2024-06-01")
    plants = _plants(options, begin_s)
    for plant in plants:
        for finding in plant.findings:
            warnings.warn(f"{plant.series.path}: {finding.text}", stacklevel=3)
    start_s = power.shared_start(plants) if options.start is None else begin_s
    window = power.Window(round(options.days * SECONDS_PER_DAY / _STEP_S), _STEP_S, start_s)
    made = power.site_power(plants, window)
    write_atomic(path, power_event_lines(made.total_w, _STEP_S, rates={SUN_FIELD: made.sun_w}))
    return Path(path)


def _plants(options: _WeatherFileOptions | _SyntheticWeatherOptions, begin_s: int) -> list[Production]:
    """Return the production of each plant, from its file or from synthetic weather from ``begin_s`` on."""
    from beasy_sched.formats.power_series import read_weather_file
    from beasy_sched.generate import power_events as power
    from beasy_sched.units import kw_to_w

    weather = None
    if isinstance(options, _SyntheticWeatherOptions):
        weather = power.synthetic_series(options, seed=options.seed, start_s=begin_s, hours=24 * options.days)
    plants = []
    for file, size_kw, production in (
        (options.pv, options.pv_kw, power.pv_production),
        (options.wind, options.wind_kw, power.wind_production),
    ):
        series = weather if file is None else read_weather_file(file)
        if series is not None and size_kw > 0:
            plants.append(production(series, installed_w=kw_to_w(size_kw)))
    return plants
