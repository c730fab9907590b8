"""Input files of a scenario's runs: forecasts, plan, and actual workload and production."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from beasy_sched._version import __version__
from beasy_sched.arrays import FloatArray
from beasy_sched.declared import made_of
from beasy_sched.energy.site import Site
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.formats.batsim_workload import workload_demand_w
from beasy_sched.formats.file_set import together
from beasy_sched.formats.plan_file import plan_bytes
from beasy_sched.formats.power_series import read_power_series, read_weather_file
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import parse_site
from beasy_sched.formats.table import parse_moment
from beasy_sched.generate.job_deadlines import parse_deadlines, with_deadlines
from beasy_sched.generate.noise import noisy_workload, real_production
from beasy_sched.generate.platform_file import platform_xml, preset_platform
from beasy_sched.generate.power_events import (
    Production,
    SitePower,
    Window,
    part_of_real_w,
    pv_production,
    shared_start,
    site_power,
    synthetic_series,
    wind_production,
)
from beasy_sched.generate.workload import GeneratedWorkload, synthetic_workload
from beasy_sched.generate.workload_options import ARRIVAL_SHAPES, SwfOptions, SyntheticOptions
from beasy_sched.generate.workload_swf import workload_from_swf
from beasy_sched.model.platform import Platform
from beasy_sched.planner.forecast import demand_power_w
from beasy_sched.planner.plan import Provenance
from beasy_sched.planner.requests import PLANNED_AHEAD
from beasy_sched.planner.season import SeasonProblem, plan_season
from beasy_sched.planner.windows import plan_windows
from beasy_sched.plugins.campaigns.scenario import (
    FileProduction,
    PlanPart,
    PlatformPart,
    ProductionPart,
    Scenario,
    SwfWorkload,
    SyntheticWorkload,
    WorkloadPart,
)
from beasy_sched.protocol.notices import SUN_FIELD
from beasy_sched.units import SECONDS_PER_HOUR, kw_to_w, parse_duration

_EXECUTION_KEY = 1000
"""Spawn key of the noise of executions, in addition to those of `generate.random_streams`."""


@dataclass(frozen=True)
class ForecastInputs:
    """The forecasts of a tuple."""

    workload: GeneratedWorkload
    production: SitePower
    plan: PlanTask
    """All inputs of the tuple's plan, including the platform file."""


@dataclass(frozen=True)
class RealInputs:
    """Actual workload and production of an execution."""

    workload: bytes
    power: bytes


def make_folder(folder: Path) -> None:
    """Create a folder if it does not exist. Raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror or error}") from None


def materialize(scenario: Scenario, folder: Path, *, seed: int, number: int = 0) -> list[Path]:
    """Write the input files of the execution ``seed`` of tuple ``number``; return the files.

    ``platform.xml``, ``workload.json`` and ``power.txt`` have the actual values;
    ``forecast_workload.json`` and ``forecast_power.txt`` are the forecasts, ``plan.msgpack`` is the plan made
    from them, and ``site.toml`` the site with the scenario's first guard. The bytes are those of a campaign's
    run. Raises ConfigError, InputError and NoPlan.
    """
    if not 0 <= number < len(scenario.tuples):
        raise ConfigError(f"tuple: found {number}, expected 0 to {len(scenario.tuples) - 1}")
    forecast = make_forecast(scenario, number)
    execution = make_real(scenario, forecast, number, seed)
    files = {
        "platform.xml": forecast.plan.platform,
        "workload.json": execution.workload,
        "power.txt": execution.power,
        "forecast_workload.json": forecast.plan.workload,
        "forecast_power.txt": forecast.plan.production,
        "site.toml": scenario.site_text(scenario.guards[0]).encode(),
    }
    if scenario.plan.make:
        files["plan.msgpack"] = make_plan(forecast.plan)
    if scenario.forecast is not None and scenario.forecast.source == "plan":
        files["forecast.csv"] = forecast_csv(forecast.production.total_w, scenario)
    make_folder(folder)
    with together():
        for name, content in files.items():
            write_atomic(folder / name, content)
    return [folder / name for name in files]


def make_forecast(scenario: Scenario, number: int) -> ForecastInputs:
    """Create the forecasts of tuple ``number``. Raises InputError and ConfigError."""
    workload = forecast_workload(scenario, number)
    production = forecast_production(scenario, number)
    return forecast_inputs(scenario, workload, b"".join(workload.json_pieces()), production)


def forecast_inputs(
    scenario: Scenario, workload: GeneratedWorkload, workload_json: bytes, production: SitePower
) -> ForecastInputs:
    """Return the forecasts of a tuple from its workload and production (W per step)."""
    servers = preset_platform(scenario.platform.servers, one_pstate=scenario.platform.one_pstate)
    wet = scenario.parsed_site().storage.hydrogen is not None  # a sweep may omit it
    plan = PlanTask(
        site=scenario.site_text(),
        windows=min(scenario.windows, PLANNED_AHEAD) if scenario.plan.replan else scenario.windows,
        season_windows=scenario.windows if scenario.plan.season and wet else 0,
        platform="".join(platform_xml(servers)).encode(),
        workload=workload_json,
        production=power_text(production.total_w, production.sun_w, scenario),
        options=scenario.plan,
    )
    return ForecastInputs(workload, production, plan)


def make_real(scenario: Scenario, forecast: ForecastInputs, number: int, seed: int) -> RealInputs:
    """Create the actual inputs of the execution ``seed`` of tuple ``number``."""
    workload = make_real_workload(scenario, forecast.workload, number, seed)
    return RealInputs(workload, make_real_power(scenario, forecast.production, number, seed))


def make_real_power(scenario: Scenario, forecast: SitePower, number: int, seed: int) -> bytes:
    """Return the file of the actual production."""
    power_w = real_production_w(scenario, forecast.total_w, seed, number)
    return power_text(power_w, part_of_real_w(forecast.sun_w, forecast.total_w, power_w), scenario)


def make_real_workload(scenario: Scenario, forecast: GeneratedWorkload, number: int, seed: int) -> bytes:
    """Return the file of the actual jobs. Raises InputError and ConfigError."""
    part = scenario.tuples[number].real_workload
    foreseen = forecast if part is None else noiseless_workload(scenario, part)
    return b"".join(real_workload(scenario, foreseen, seed, number).json_pieces())


def power_text(power_w: FloatArray, sun_w: FloatArray, scenario: Scenario) -> bytes:
    """Return a power file, which includes the solar part of each step's power."""
    lines = power_event_lines(power_w, scenario.parsed_site().step_s, rates={SUN_FIELD: sun_w})
    return "".join(lines).encode()


def forecast_csv(power_w: FloatArray, scenario: Scenario) -> bytes:
    """Return the forecast for plans as a forecast file, issued at time 0."""
    step_s = scenario.parsed_site().step_s
    rows = (f"0,{step * step_s:.15g},{power!r}\n" for step, power in enumerate(power_w.tolist()))
    return ("issued,valid,W\n" + "".join(rows)).encode()


def total_s(scenario: Scenario) -> float:
    """Length of a run: all windows, s."""
    return scenario.windows * scenario.parsed_site().window_s


def execution_seed(seed: int, number: int) -> int:
    """Return the noise seed of tuple ``number`` in the execution ``seed``.

    Tuples with the same seed get independent noise; scenarios with the same tuple number and seed share
    noise, so that best and worst cases differ only in their production.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(_EXECUTION_KEY, number))
    return int(sequence.generate_state(1, np.uint64)[0])


def forecast_workload(scenario: Scenario, number: int) -> GeneratedWorkload:
    """Return the forecast workload of tuple ``number``. Raises InputError and ConfigError."""
    return noiseless_workload(scenario, scenario.tuples[number].workload)


def noiseless_workload(scenario: Scenario, part: WorkloadPart) -> GeneratedWorkload:
    """Return the jobs of a workload before noise. Raises InputError and ConfigError."""
    if isinstance(part, SwfWorkload):
        return workload_from_swf(part.file, swf_options(scenario, part))
    drawn = synthetic_workload(synthetic_options(scenario, part))
    wanted_s = total_s(scenario)
    submit_s = np.floor(drawn.submit_s * (wanted_s / drawn.window_s))
    return replace(drawn, submit_s=submit_s, window_s=wanted_s)


def forecast_production(scenario: Scenario, number: int) -> SitePower:
    """Return the forecast production of tuple ``number``. Raises InputError and ConfigError."""
    part, site = scenario.tuples[number].production, scenario.parsed_site()
    steps = scenario.windows * site.steps
    start_s = None if part.start is None else _moment_s(part.start)
    plants = _plants(part, total_s(scenario))
    window = Window(steps, site.step_s, shared_start(plants) if start_s is None else start_s)
    how: dict[str, Any] = {}
    if isinstance(part, FileProduction):
        how = {"method": part.interpolation, "gaps": part.gaps}
    return site_power(plants, window, **how)


def real_workload(
    scenario: Scenario, forecast: GeneratedWorkload, seed: int, number: int
) -> GeneratedWorkload:
    """Return the actual workload of the execution ``seed`` of tuple ``number``, with its deadlines."""
    noise = scenario.noise
    real = noisy_workload(
        forecast,
        seed=execution_seed(seed, number),
        arrivals_sigma=noise.arrivals_sigma,
        run_sigma=noise.run_time_sigma,
        walltimes=noise.walltimes,
    )
    rule = None if scenario.deadlines is None else parse_deadlines(scenario.deadlines.rule)
    if rule is None:
        return real
    calendar = scenario.parsed_site().calendar
    if calendar is not None:
        real = replace(real, midnight_s=calendar.seconds(calendar.midnight(calendar.local(0.0))))
    return with_deadlines(real, rule, seed=execution_seed(seed, number))


def real_production_w(scenario: Scenario, forecast_w: FloatArray, seed: int, number: int) -> FloatArray:
    """Return the actual production (W per step) of the execution ``seed`` of tuple ``number``."""
    site, planned, band = scenario.parsed_site(), scenario.plan.options().uncertainty("renew"), scenario.noise
    at_once, later = (min(u * band.production_band, 1.0) for u in (planned.at_once, planned.at_horizon))
    return real_production(
        forecast_w,
        scenario.tuples[number].production.case,
        step_s=site.step_s,
        uncertainty=replace(planned, at_once=at_once, at_horizon=later),
        window_steps=site.steps,
        seed=execution_seed(seed, number),
    )


def swf_options(scenario: Scenario, part: SwfWorkload) -> SwfOptions:
    """Return the options for reading the trace. Raises ConfigError."""
    start_s = start_in_trace_s(part)
    return made_of(
        SwfOptions,
        msgspec.structs.asdict(part),
        reference=_reference(scenario.platform),
        start_s=start_s,
        end_s=start_s + total_s(scenario),
        hosts=scenario.servers,
        walltimes="trace" if scenario.noise.walltimes == "keep" else "groups",
        chains="none" if scenario.deadlines is None else scenario.deadlines.chains,
    )


def synthetic_options(scenario: Scenario, part: SyntheticWorkload) -> SyntheticOptions:
    """Return the options for generating jobs. Raises ConfigError."""
    return made_of(
        SyntheticOptions,
        msgspec.structs.asdict(part),
        reference=_reference(scenario.platform),
        hosts=scenario.servers,
        day_shares=ARRIVAL_SHAPES[part.shape],
    )


def start_in_trace_s(part: SwfWorkload) -> float:
    """Return the start in the trace, s. Raises ConfigError."""
    try:
        start_s = parse_duration(part.start) if isinstance(part.start, str) else part.start
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if not 0 <= start_s < math.inf:
        raise ConfigError(f"found {start_s!r}, expected 0 s or more")
    return start_s


def _reference(platform: PlatformPart) -> str:
    return platform.reference or next(iter(platform.servers))


def _plants(part: ProductionPart, length_s: float) -> list[Production]:
    pv_w, wind_w = kw_to_w(part.pv_kw), kw_to_w(part.wind_kw)
    if isinstance(part, FileProduction):
        files = ((part.pv, pv_production, pv_w), (part.wind, wind_production, wind_w))
        return [
            produce(read_weather_file(file), installed_w=installed_w, route=part.route)
            for file, produce, installed_w in files
            if file is not None
        ]
    hours = math.ceil(length_s / SECONDS_PER_HOUR)
    sky = synthetic_series(part.weather(), seed=part.seed, start_s=_moment_s(part.start), hours=hours)
    plants = ((pv_production, pv_w), (wind_production, wind_w))
    return [produce(sky, installed_w=installed_w) for produce, installed_w in plants if installed_w > 0]


def _moment_s(text: str) -> int:
    if (moment_s := parse_moment(text)) is None:
        raise ConfigError(f"production.start: found {text!r}, expected a date such as 2024-06-01")
    return moment_s


@dataclass(frozen=True)
class PlanTask:
    """All inputs of a plan."""

    site: str
    """Content of the site file, without a guard, on which plans do not depend."""
    windows: int
    platform: bytes
    workload: bytes
    production: bytes
    options: PlanPart
    season_windows: int = 0
    """Number of windows of the seasonal plan with the hydrogen targets; 0: no seasonal plan."""

    @property
    def recipe(self) -> str:
        """SHA-256 of all inputs and of the program's version."""
        options = {name: str(getattr(self.options, name)) for name in self.options.__struct_fields__}
        del options["replan"]  # it changes the runs, not their initial plans
        head = json.dumps([__version__, self.windows, self.season_windows, options, self.site]).encode()
        digests = [hashlib.sha256(part).digest() for part in (self.platform, self.workload, self.production)]
        return hashlib.sha256(b"".join([hashlib.sha256(head).digest(), *digests])).hexdigest()

    def expected(
        self, site: Site, windows: int, step_s: float | None = None
    ) -> tuple[Platform, FloatArray, FloatArray]:
        """Return the servers, and the demand and production to plan for, W a step; see `read_back`."""
        files = self.platform, self.workload, self.production
        servers, demand_w, renew_w = read_back(site, windows, *files, step_s=step_s)
        return servers, times_demand_w(servers, demand_w, self.options.demand_factor), renew_w


def make_plan(task: PlanTask) -> bytes:
    """Return the plan file. Raises ConfigError, InputError and NoPlan."""
    contents = {  # names as in ``beasy-sched plan``
        "platform": task.platform,
        "production": task.production,
        "workload 0": task.workload,
        "site": task.site.encode(),
    }
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    options, site = task.options, parse_site(task.site, "site")
    made_by = Provenance(f"beasy-sched {__version__}", inputs=hashes)
    targets_kg: tuple[float, ...] = ()
    if task.season_windows:
        step_s = parse_duration(options.season)
        expected = task.expected(site, task.season_windows, step_s)
        problem = SeasonProblem.of_site(site, *expected, step_s)
        targets_kg = plan_season(problem, provenance=made_by).targets_kg
    plans = plan_windows(
        site,
        *task.expected(site, task.windows),
        options=options.options().settled(targets_kg),
        provenance=made_by,
    )
    return plan_bytes(plans)


def times_demand_w(servers: Platform, demand_w: FloatArray, factor: float) -> FloatArray:
    """Return a demand (W per step) with the part above that of a sleeping site scaled by ``factor``."""
    if factor == 1.0:
        return demand_w
    no_jobs = np.empty(0), np.empty(0), np.empty(0, dtype=np.int64)
    asleep_w = demand_power_w(servers, *no_jobs, steps=1, step_s=1.0)
    return np.asarray(asleep_w + factor * (demand_w - asleep_w))


def read_back(
    site: Site, windows: int, platform: bytes, workload: bytes, power: bytes, step_s: float | None = None
) -> tuple[Platform, FloatArray, FloatArray]:
    """Return the content of files: platform, demand and production (W per step) of ``windows`` windows.

    Steps are the site's, or ``step_s`` seconds long.
    """
    step_s = site.step_s if step_s is None else step_s
    steps = round(site.window_s * windows / step_s)
    with TemporaryDirectory(prefix="beasy-plan-") as place:
        paths = [Path(place, name) for name in ("platform.xml", "workload.json", "power.txt")]
        for path, content in zip(paths, (platform, workload, power), strict=True):
            path.write_bytes(content)
        servers = read_simgrid_platform(paths[0]).platform
        demand_w = workload_demand_w([paths[1]], servers, steps=steps, step_s=step_s)
        return servers, demand_w, read_power_series(paths[2], steps=steps, step_s=step_s)
