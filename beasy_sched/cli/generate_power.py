"""``beasy-sched generate power``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click
import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.cli.generate import write_output
from beasy_sched.cli.power_options import PowerOptions, power_options
from beasy_sched.energy.resample import Interpolation
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.power_events import EventsFormat, power_event_lines
from beasy_sched.formats.time_series import TimeSeries, time_text
from beasy_sched.formats.timestamps import DateOrder, parse_moment
from beasy_sched.formats.weather_file import read_weather_file
from beasy_sched.generate.noise import ProductionCase, real_production
from beasy_sched.generate.power import (
    Gaps,
    Production,
    Route,
    Window,
    flagged_intervals,
    pv_production,
    shared_start,
    step_power,
    summarize,
    wind_production,
)
from beasy_sched.generate.synthetic_export import export_lines
from beasy_sched.generate.synthetic_power import SYNTHETIC_START, SyntheticWeather, synthetic_series
from beasy_sched.units import kw_to_w, w_to_kw


@click.command()
@power_options
def power(**values: Any) -> None:
    """Write the power produced in each step, as external events for Batsim.

    The power comes from files of the past (hourly or finer, times in UTC), scaled to the site's size
    and brought to steps so that each hour keeps its energy, or from a seeded synthetic sky. Sun and wind
    are added. The first line is always at time 0.

    \b
    Three days of June from two Renewables.ninja exports:
      beasy-sched generate power --pv ninja_pv.csv --pv-kw 10 --wind ninja_wind.csv --wind-kw 7 \\
          --start 2019-06-01 --days 3 -o power.txt

    \b
    No file at hand:
      beasy-sched generate power --synthetic --seed 1 --pv-kw 10 --wind-kw 7 -o power.txt

    \b
    From weather (irradiance and wind speed, here both in one NASA POWER file):
      beasy-sched generate power --pv power_hourly.csv --wind power_hourly.csv --pv-kw 10 --wind-kw 7 \\
          --wind-column WS50M --rated-speed 11 -o power.txt

    \b
    From a CSV file of measurements without times, one row an hour, as a share of the capacity:
      beasy-sched generate power --pv plant.csv --pv-column PV-MEAS --unit per-unit --interval 3600 \\
          --pv-kw 10 -o power.txt

    \b
    Use it:
      batsim -p platform.xml -w workload.json -e out/run -E --events power.txt --forward-unknown-events
    """
    options = PowerOptions(**values)
    if options.steps < 1:
        raise ConfigError(f"--days {options.days:g} is shorter than one step of {options.dt:g} s")
    productions = _synthetic(options) if options.synthetic else _from_files(options)
    windows = [_window(options, production, productions) for production in productions]
    powers = [
        step_power(production, window, method=Interpolation(options.interpolation), gaps=Gaps(options.gaps))
        for production, window in zip(productions, windows, strict=True)
    ]
    total = np.sum(powers, axis=0)
    case = ProductionCase(options.case)
    real = real_production(total, case, step_s=options.dt, seed=options.seed)
    write_output(options.output, power_event_lines(real, options.dt, EventsFormat(options.events_format)))
    for production, window in zip(productions, windows, strict=True):
        for note in _notes(production, window):
            click.echo(f"note: {production.series.path}: {note}", err=True)
        for finding in production.findings:
            click.echo(f"warning: {production.series.path}: {finding.text}", err=True)
    if not options.quiet:
        for line in _summary(options, productions, windows, powers, total):
            click.echo(line, err=True)
        if case is not ProductionCase.EXACT:
            came = _figures(real, options.dt, sum(production.installed_w for production in productions))
            click.echo(f"  {case.value + ':':9} {came.strip()} (written; the rest is the forecast)", err=True)


def _from_files(options: PowerOptions) -> list[Production]:
    """Read the files that are given, and scale them."""
    if options.pv is None and options.wind is None:
        raise ConfigError("nothing to read: give --pv FILE, --wind FILE or both, or --synthetic")
    if options.write_ninja:
        raise ConfigError("--write-ninja goes with --synthetic: an export is not ours to write again")
    productions = []
    if options.pv is not None:
        productions.append(_pv(options, _read(options, options.pv, options.pv_column)))
    if options.wind is not None:
        productions.append(_wind(options, _read(options, options.wind, options.wind_column)))
    return productions


def _read(options: PowerOptions, path: str, column: str | None) -> TimeSeries:
    series = read_weather_file(
        path,
        column=column,
        unit=options.unit,
        interval_s=options.interval,
        date_order=DateOrder(options.date_order) if options.date_order else None,
    )
    if options.first_time is not None and series.start_s is None:
        series = replace(series, start_s=options.first_time)
    return series


def _pv(options: PowerOptions, series: TimeSeries) -> Production:
    return pv_production(
        series,
        installed_w=_watts(options.pv_kw),
        stated_w=_watts(options.pv_capacity_kw),
        route=Route(options.route),
        efficiency=options.pv_efficiency,
    )


def _wind(options: PowerOptions, series: TimeSeries) -> Production:
    return wind_production(
        series,
        installed_w=_watts(options.wind_kw),
        stated_w=_watts(options.wind_capacity_kw),
        route=Route(options.route),
        cut_in_m_s=options.cut_in,
        rated_m_s=options.rated_speed,
        cut_out_m_s=options.cut_out,
    )


def _watts(power_kw: float | None) -> float | None:
    return None if power_kw is None else kw_to_w(power_kw)


def _synthetic(options: PowerOptions) -> list[Production]:
    """Make the weather of the window, and the export files where they are asked for."""
    if options.pv is not None or options.wind is not None:
        raise ConfigError("--synthetic makes the weather up: give it without --pv and --wind")
    if options.pv_kw is None and options.wind_kw is None:
        raise ConfigError("--synthetic needs the size of a plant: give --pv-kw, --wind-kw or both")
    weather = SyntheticWeather(
        latitude_deg=options.latitude, cloudiness=options.cloudiness, wind_mean_m_s=options.wind_mean
    )
    start_s = parse_moment(SYNTHETIC_START) if options.start is None else options.start
    assert start_s is not None
    series = synthetic_series(weather, seed=options.seed, start_s=start_s, hours=math.ceil(options.days * 24))
    productions = []
    if options.pv_kw is not None:
        productions.append(_pv(options, series))
    if options.wind_kw is not None:
        productions.append(_wind(options, series))
    if options.write_ninja:
        for production in productions:
            lines = export_lines(production, latitude_deg=options.latitude, seed=options.seed)
            write_atomic(f"{options.write_ninja}_{production.name}.csv", lines)
    return productions


def _window(options: PowerOptions, production: Production, productions: list[Production]) -> Window:
    """The window in one production's file."""
    own = options.pv_start if production.name == "pv" else options.wind_start
    start_s = own if own is not None else options.start
    if start_s is None and production.series.start_s is not None:
        start_s = shared_start(productions)
    return Window(options.steps, options.dt, start_s)


def _notes(production: Production, window: Window) -> Iterator[str]:
    yield from production.series.notes
    flagged = flagged_intervals(production.series, window)
    if flagged:
        yield f"{flagged} hours of the window are marked as missing and filled in by the provider"


def _summary(
    options: PowerOptions,
    productions: list[Production],
    windows: list[Window],
    powers: list[FloatArray],
    total: FloatArray,
) -> Iterator[str]:
    """What was written, for people."""
    yield f"{options.output}: {len(total)} steps of {options.dt:g} s"
    rows = [
        (production.name, production.installed_w, window, values)
        for production, window, values in zip(productions, windows, powers, strict=True)
    ]
    for name, installed_w, window, values in rows:
        since = f", from {time_text(window.start_s, 0)} UTC" if window.start_s is not None else ""
        yield f"  {name:5} {_figures(values, options.dt, installed_w)} of {w_to_kw(installed_w):g} kW{since}"
    if len(rows) > 1:
        yield f"  total {_figures(total, options.dt, sum(row[1] for row in rows))}"


def _figures(values: FloatArray, step_s: float, installed_w: float) -> str:
    summary = summarize(values, step_s, installed_w)
    return (
        f"{summary.energy_kwh:9.3f} kWh, peak {summary.peak_kw:.3f} kW, mean {summary.mean_kw:.3f} kW, "
        f"capacity factor {100 * summary.capacity_factor:.1f} %"
    )
