"""Inputs of a simulation from Python: platforms, workloads, and the power produced."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from beasy_sched.errors import ConfigError, PathLike

if TYPE_CHECKING:
    from beasy_sched.generate.workload import Chains, GeneratedWorkload, ProfileType

_STEP_S = 300.0


def generate_platform(servers: Mapping[str, int], path: PathLike, *, one_pstate: bool = False) -> Path:
    """Write a SimGrid platform for Batsim, and return its path.

    Args:
        servers: presets or server files (TOML), and how many of each, as ``{"gros": 50}``.
        path: the XML file to write.
        one_pstate: keep only the fastest P-state of each server, and its sleep state.

    Raises ConfigError and InputError.
    """
    from beasy_sched.generate.platform import preset_platform, write_platform

    write_platform(preset_platform(servers, one_pstate=one_pstate), path)
    return Path(path)


def generate_workload(
    path: PathLike,
    *,
    swf: PathLike | None = None,
    reference: str = "gros",
    reference_speed_flops: float | None = None,
    deadlines: str = "none",
    seed: int = 0,
    hosts: int | None = None,
    walltimes: bool | Literal["trace", "groups", "none"] | None = None,
    profile_type: ProfileType | None = None,
    # synthetic workloads
    jobs: int | None = None,
    day_shares: Sequence[float] | None = None,
    night_ratio: float | None = None,
    quiet_end_h: float | None = None,
    gap_log_sd: float | None = None,
    run_median_s: float | None = None,
    run_log_sd: float | None = None,
    run_cap_s: float | None = None,
    host_shares: Mapping[int, float] | None = None,
    # traces
    start_s: float | None = None,
    end_s: float | None = None,
    absolute: bool | None = None,
    carry_over: bool | None = None,
    cores_per_host: int | None = None,
    keep_oversize: bool | None = None,
    processors: Literal["allocated", "requested"] | None = None,
    requested_time_field: int | None = None,
    keep: Mapping[str, Collection[int]] | None = None,
    min_run_s: float | None = None,
    max_run_s: float | None = None,
    max_hosts: int | None = None,
    zero_run_time_s: float | None = None,
    missing_walltime: float | Literal["drop", "none"] | None = None,
    clip_run_time: bool | None = None,
    chains: Chains | None = None,
    extras: Sequence[str] | None = None,
    accept_damaged: bool | None = None,
) -> Path:
    """Write a Batsim workload, and return its path: from a trace, or a synthetic one.

    Args:
        path: the JSON file to write.
        swf: a trace in the Standard Workload Format; without it, the workload is synthetic.
        reference: server (preset or file) whose median P-state's speed turns run times into flops.
        reference_speed_flops: that speed itself, flops/s per host.
        deadlines: a rule such as ``"factor:2..10"``, ``"hours:24"`` or ``"clock:09:00"``; ``"none"``.
        seed: seed of everything that is drawn.
        hosts: hosts of the site (synthetic: 50; trace: as its header says, or its largest job needs).
        walltimes: synthetic: whether jobs have walltimes, from five groups of overestimation (True). Trace:
            ``"trace"`` (the requested time), ``"groups"`` or ``"none"``.
        profile_type: ``"parallel_homogeneous"`` (run times depend on the speed) or ``"delay"``.

    Of synthetic workloads only:

    Args:
        jobs: number of jobs (900).
        day_shares: relative number of arrivals of each day (75, 17, 8); as many days as numbers.
        night_ratio: arrival rate at the quietest time of day over that at the busiest (1: no cycle).
        quiet_end_h: hours at the end of the last day in which no job arrives (0).
        gap_log_sd: standard deviation of the logarithm of the gaps between arrivals (1).
        run_median_s: median run time, s (1800).
        run_log_sd: standard deviation of the logarithm of the run times (1.3).
        run_cap_s: longest run time, s (21600).
        host_shares: relative number of jobs by the hosts that they ask for ({1: 70, 2: 15, 4: 15}).

    Of traces only:

    Args:
        start_s, end_s: the part of the trace, s after its first submission (all).
        absolute: ``start_s`` and ``end_s`` are in the trace's own time (False).
        carry_over: take along the jobs that run or wait when the part starts (False).
        cores_per_host: processors of the trace per host (1).
        keep_oversize: keep jobs that need more hosts than the site has (False).
        processors: which count to take, ``"allocated"`` or ``"requested"``.
        requested_time_field: number of the field that has the requested time (9).
        keep: values to keep of fields such as status, as ``{"status": {1}}``.
        min_run_s, max_run_s: limits of the run times, s.
        max_hosts: most hosts of a job.
        zero_run_time_s: run time, s, for jobs whose run time is 0 (None: leave them out).
        missing_walltime: without a requested time: a multiple of the run time (2), ``"none"`` or ``"drop"``.
        clip_run_time: shorten run times to the walltimes (False).
        chains: what becomes of preceding jobs and think times: ``"none"``, ``"keep"`` or ``"wait"``.
        extras: fields of the trace that travel with the jobs.
        accept_damaged: take what comes before the damage in a gzip file that is cut (False).

    An argument that is None has the default. Issues a UserWarning for anything unusual in a trace. Raises
    ConfigError and InputError.
    """
    options = {name: value for name, value in locals().items() if value is not None}
    for name in ("path", "swf", "reference", "deadlines"):
        options.pop(name, None)
    workload = _workload(swf, options, reference)
    for text in workload.report.warnings:
        warnings.warn(text, stacklevel=2)
    _with_deadlines(workload, deadlines, seed).write(path)
    return Path(path)


def _workload(swf: PathLike | None, options: dict[str, Any], reference: str) -> GeneratedWorkload:
    """Make a workload. Raises ConfigError, also for options of the other kind, and InputError."""
    from beasy_sched.generate.platform import load_server
    from beasy_sched.generate.workload import SwfOptions, SyntheticOptions, synthetic_workload
    from beasy_sched.generate.workload_swf import workload_from_swf

    types, others = get_type_hints(SyntheticOptions), "traces: give swf"
    if swf is not None:
        types, others = get_type_hints(SwfOptions), "synthetic workloads"
    if wrong := sorted(options.keys() - types.keys()):
        raise ConfigError(f"{', '.join(wrong)}: only for {others}")
    for name, value in options.items():
        choices = (True, False) if types[name] is bool else get_args(types[name])
        if (types[name] is bool or get_origin(types[name]) is Literal) and value not in choices:
            raise ConfigError(f"{name}: found {value!r}, expected one of {', '.join(map(str, choices))}")
        if get_origin(types[name]) is tuple:
            options[name] = tuple(value)
    if "keep" in options:
        options["keep"] = {field: frozenset(values) for field, values in options["keep"].items()}
    if "reference_speed_flops" not in options:
        options["reference_speed_flops"] = load_server(reference).kind().reference_speed_flops
    if swf is None:
        return synthetic_workload(SyntheticOptions(**options))
    return workload_from_swf(swf, SwfOptions(**options))


def _with_deadlines(workload: GeneratedWorkload, deadlines: str, seed: int) -> GeneratedWorkload:
    from beasy_sched.generate.deadlines import parse_deadlines, with_deadlines

    try:
        rule = parse_deadlines(deadlines)
    except ValueError as error:
        raise ConfigError(f"deadlines: {error}") from None
    return workload if rule is None else with_deadlines(workload, rule, seed=seed)


def generate_power(
    path: PathLike,
    *,
    pv: PathLike | None = None,
    wind: PathLike | None = None,
    pv_kw: float = 0.0,
    wind_kw: float = 0.0,
    start: str | None = None,
    days: float = 3.0,
    seed: int = 0,
    latitude_deg: float | None = None,
    cloudiness: float | None = None,
    cloud_memory_h: float | None = None,
    wind_mean_m_s: float | None = None,
    wind_shape: float | None = None,
    wind_memory_h: float | None = None,
) -> Path:
    """Write the power produced as Batsim's events, one per step of 300 s, and return the file's path.

    Args:
        path: the events file to write.
        pv, wind: exports of Renewables.ninja, NASA POWER, ENTSO-E, or CSV files; without either, the weather
            is synthetic.
        pv_kw, wind_kw: the size of the panels and of the turbines, kW; 0: none.
        start: when the power begins, such as ``"2024-06-01"``, UTC (default: the start of the files).
        days: for how long, days.
        seed: seed of the synthetic weather.

    Of synthetic weather only:

    Args:
        latitude_deg: latitude of the place, degrees (43.6).
        cloudiness: mean cloud cover, 0 to 1 (0.5).
        cloud_memory_h: hours after which the clouds' correlation has fallen to 1/e (6).
        wind_mean_m_s: mean wind speed at the hub, m/s (4).
        wind_shape: shape of the Weibull distribution of wind speeds (2).
        wind_memory_h: hours after which the wind's correlation has fallen to 1/e (8).

    An argument that is None has the default. Issues a UserWarning for anything unusual in a file. Raises
    ConfigError and InputError.
    """
    given = dict(locals())
    import numpy as np

    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.formats.batsim_events import power_event_lines
    from beasy_sched.formats.power_series import read_weather_file
    from beasy_sched.formats.table import parse_moment
    from beasy_sched.generate import power
    from beasy_sched.protocol.notices import SUN_FIELD
    from beasy_sched.units import SECONDS_PER_DAY, kw_to_w

    climate = {field.name for field in fields(power.SyntheticWeather)}
    weather = {name: value for name, value in given.items() if name in climate and value is not None}
    begin_s = parse_moment(power.SYNTHETIC_START if start is None else start)
    if begin_s is None:
        raise ConfigError(f"start: found {start!r}, expected a date such as 2024-06-01")
    sky = None
    if pv is None and wind is None:
        sky = power.synthetic_series(
            power.SyntheticWeather(**weather), seed=seed, start_s=begin_s, hours=24 * days
        )
    elif weather:
        raise ConfigError(f"{', '.join(weather)}: only for synthetic weather: leave out pv and wind")
    plants = []
    for file, size_kw, make in ((pv, pv_kw, power.pv_production), (wind, wind_kw, power.wind_production)):
        series = read_weather_file(file) if file is not None else sky
        if series is not None and size_kw > 0:
            plants.append(make(series, installed_w=kw_to_w(size_kw)))
    for plant in plants:
        for finding in plant.findings:
            warnings.warn(f"{plant.series.path}: {finding.text}", stacklevel=2)
    start_s = power.shared_start(plants) if start is None else begin_s
    window = power.Window(round(days * SECONDS_PER_DAY / _STEP_S), _STEP_S, start_s)
    powers_w = [power.step_power(plant, window) for plant in plants]
    total_w = np.sum([np.zeros(window.steps), *powers_w], axis=0)
    sun_w = power.sun_part_w(plants, powers_w, total_w)
    write_atomic(path, power_event_lines(total_w, _STEP_S, rates={SUN_FIELD: sun_w}))
    return Path(path)
