"""The Python interface: generate inputs, simulate, read results as data frames.

    import beasy_sched as bs

    platform = bs.generate_platform({"gros": 50}, "platform.xml")
    workload = bs.generate_workload("workload.json", seed=1)
    power = bs.generate_power("power.txt", pv_kw=10, wind_kw=7, seed=1)
    run = bs.simulate(platform, workload, power, policy="easy", site="default")
    run.jobs["waiting_time"].describe()

All functions work on files, the same as those of the command line and Batsim.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beasy_sched.errors import PathLike
from beasy_sched.results import Run, read_run

__all__ = ["Run", "generate_platform", "generate_power", "generate_workload", "read_run", "simulate"]

_STEP_S = 300.0


def generate_platform(servers: Mapping[str, int], path: PathLike, *, one_pstate: bool = False) -> Path:
    """Write a SimGrid platform of preset servers (or server files) and counts, as ``{"gros": 50}``."""
    from beasy_sched.generate.platform import preset_platform, write_platform

    write_platform(preset_platform(servers, one_pstate=one_pstate), path)
    return Path(path)


def generate_workload(
    path: PathLike,
    *,
    swf: PathLike | None = None,
    reference: str = "gros",
    deadlines: str = "none",
    **options: Any,
) -> Path:
    """Write a Batsim workload from the trace ``swf``, or a synthetic one.

    ``reference`` names the server whose median P-state's speed turns run times into flops; ``deadlines`` is
    a rule such as ``"factor:2..10"``; ``options`` are those of `SwfOptions` or `SyntheticOptions`
    (``seed``, ``hosts``, ``jobs`` ...). Raises ConfigError and InputError.
    """
    from beasy_sched.errors import ConfigError
    from beasy_sched.generate.deadlines import parse_deadlines, with_deadlines
    from beasy_sched.generate.platform import load_server
    from beasy_sched.generate.workload import SwfOptions, SyntheticOptions, synthetic_workload
    from beasy_sched.generate.workload_swf import workload_from_swf

    options.setdefault("reference_speed_flops", load_server(reference).kind().reference_speed_flops)
    if swf is None:
        workload = synthetic_workload(SyntheticOptions(**options))
    else:
        workload = workload_from_swf(swf, SwfOptions(**options))
    try:
        rule = parse_deadlines(deadlines)
    except ValueError as error:
        raise ConfigError(f"deadlines: {error}") from None
    if rule is not None:
        workload = with_deadlines(workload, rule, seed=options.get("seed", 0))
    workload.write(path)
    return Path(path)


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
    **weather: float,
) -> Path:
    """Write power events, one per step of 300 s, from ``start`` (UTC; default: the start of the files).

    ``pv`` and ``wind`` are exports of Renewables.ninja, NASA POWER or CSV files, scaled to ``pv_kw`` and
    ``wind_kw``; without files the weather is synthetic (``weather``: fields of `SyntheticWeather`). Issues a
    UserWarning for anything unusual in a file.
    """
    import numpy as np

    from beasy_sched.errors import ConfigError
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.formats.batsim_events import power_event_lines
    from beasy_sched.formats.power_series import read_weather_file
    from beasy_sched.formats.table import parse_moment
    from beasy_sched.generate import power
    from beasy_sched.units import SECONDS_PER_DAY, kw_to_w

    begin_s = parse_moment(power.SYNTHETIC_START if start is None else start)
    if begin_s is None:
        raise ConfigError(f"start: found {start!r}, expected a date such as 2024-06-01")
    sky = None
    if pv is None and wind is None:
        sky = power.synthetic_series(
            power.SyntheticWeather(**weather), seed=seed, start_s=begin_s, hours=24 * days
        )
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
    total_w = np.sum([np.zeros(window.steps), *(power.step_power(plant, window) for plant in plants)], axis=0)
    write_atomic(path, power_event_lines(total_w, _STEP_S))
    return Path(path)


def simulate(
    platform: PathLike,
    workload: PathLike,
    events: PathLike | None = None,
    *,
    policy: str = "easy",
    options: Mapping[str, Any] | None = None,
    site: PathLike | None = None,
    windows: int = 1,
    forecast: str | None = None,
    replan: str | None = None,
    export: PathLike | None = None,
) -> Run:
    """Run a policy on the embedded simulator and return its results.

    ``site`` is a site file or ``"default"``; ``forecast`` names where predictions of the production come
    from, as ``--forecast`` does (``"perfect"`` is the production of ``events``); ``replan`` (``"window"``, or
    a time such as ``"12h"``) makes plans during the run, which expect ``workload`` and the forecast, or else
    ``events``; ``export`` is the prefix of the output files (default: in a new temporary folder). Issues a
    UserWarning for unusual inputs and for an incomplete run. Raises ConfigError, InputError and whatever ends
    the run early.
    """
    from beasy_sched.formats.forecast_source import with_own_events
    from beasy_sched.formats.site_file import read_site_text
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.replan import with_own_inputs
    from beasy_sched.runner import run_in_process
    from beasy_sched.settings import ReplanSettings, RunSettings
    from beasy_sched.simulator import Inputs

    text = None if site is None else read_site_text(site)
    settings = RunSettings(
        policy=policy,
        options=dict(options or {}),
        site=text,
        site_name=str(site),
        forecast=with_own_events(forecast, [] if events is None else [events]),
        windows=windows,
        replan=None if replan is None else ReplanSettings(replan),
    )
    settings = with_own_inputs(settings, [workload], [] if events is None else [events])
    prefix = os.fspath(export) if export is not None else os.path.join(tempfile.mkdtemp("beasy-sched"), "run")
    inputs = Inputs(platform, [workload], [] if events is None else [events])
    summary = run_in_process(inputs, RunFiles(prefix, settings))
    for text in summary["warnings"]:
        warnings.warn(text, stacklevel=2)
    if not summary["complete"]:
        warnings.warn(f"the run is not complete: {summary['error'] or 'it ended early'}", stacklevel=2)
    return read_run(prefix)
