"""``beasy-sched generate power``: the production, from files of weather or power or a synthetic sky."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import click
import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.cli.generate import write_output
from beasy_sched.cli.options import Option, choice_option, parsed, quiet_option, with_options
from beasy_sched.energy.sources import Interpolation
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_events import EventsFormat, power_event_lines
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.table import DateOrder, parse_moment
from beasy_sched.formats.time_series import TimeSeries, time_text
from beasy_sched.generate.noise import ProductionCase, real_production
from beasy_sched.generate.power import (
    SYNTHETIC_START,
    Gaps,
    Production,
    Route,
    SyntheticWeather,
    Window,
    export_lines,
    flagged_intervals,
    pv_production,
    shared_start,
    step_power,
    synthetic_series,
    wind_production,
)
from beasy_sched.units import SECONDS_PER_DAY, j_to_kwh, kw_to_w, w_to_kw


def _above(least: float, *, inclusive: bool = False) -> Callable[[Any], float]:
    """An option type: a finite number above ``least`` (or equal to it)."""

    def number(value: Any) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (number > least or (inclusive and number == least)) or math.isinf(number):
            sign = ">=" if inclusive else ">"
            raise click.BadParameter(f"found {value!r}, expected a number {sign} {least:g}")
        return number

    return number


def _moment(text: str) -> int:
    """Read a date, with a time of day or without, in UTC, as seconds since 1970."""
    moment = parse_moment(text)
    if moment is None:
        raise ValueError(f"found {text!r}, expected a time such as 2019-06-01 or '2019-06-01 05:00'")
    return moment


def _time_option(name: str, help: str) -> Option:
    return click.option(name, type=parsed(_moment), metavar="TIME", help=help)


def _power_option(name: str, help: str) -> Option:
    """A power in kW; the command gets it in W, as ``..._w``."""
    read = _above(0)
    destination = name[2:].replace("-", "_").replace("_kw", "_w")
    return click.option(name, destination, type=lambda kw: kw_to_w(read(kw)), metavar="KW", help=help)


@click.command()
@with_options(
    click.option(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="The events file to write; - is the standard output.",
    ),
    click.option("--pv", metavar="FILE", help="Sun: a Renewables.ninja, NASA POWER, ENTSO-E or CSV file."),
    click.option("--wind", metavar="FILE", help="Wind: the same kinds of file."),
    _power_option("--pv-kw", "Size of the site's PV plant (peak power)."),
    _power_option("--wind-kw", "Size of the site's turbines (rated power)."),
    _time_option("--start", "Start of the window, UTC. [default: the file's]"),
    click.option("--days", type=_above(0), metavar="DAYS", default=3.0, help="Length of the window."),
    click.option("--dt", type=_above(1, inclusive=True), metavar="S", default=300.0, help="Step, seconds."),
    choice_option(
        "--format",
        "events_format",
        kind=EventsFormat,
        default="batsim4",
        help="batsim5 supports generic events only.",
    ),
    choice_option(
        "--interpolation",
        kind=Interpolation,
        default="smooth",
        help="Shape of the power within an hour; its energy is preserved either way.",
    ),
    choice_option(
        "--gaps",
        kind=Gaps,
        default="refuse",
        help="What to do about hours missing from a file: interpolate fills up to six.",
    ),
    choice_option(
        "--route",
        kind=Route,
        default="auto",
        help="Take the file's electricity, or compute it from the file's weather.",
    ),
    click.option("--pv-efficiency", type=float, default=0.9, help="Weather route: eta_pv in Eq. 2.2."),
    click.option("--cut-in", type=float, default=3.0, help="Weather route: m/s, Eq. 2.1."),
    click.option("--rated-speed", type=float, default=12.0, help="Weather route: m/s."),
    click.option("--cut-out", type=float, default=25.0, help="Weather route: m/s."),
    _power_option(
        "--pv-capacity-kw", "Capacity that the file's electricity is for, where the file does not state it."
    ),
    _power_option("--wind-capacity-kw", "The same for wind."),
    _time_option("--pv-start", "Start in the PV file, if different from --start."),
    _time_option("--wind-start", "Start in the wind file, if different from --start."),
    click.option(
        "--pv-column", metavar="NAME", help="Column of a CSV or ENTSO-E file, or a part of its name."
    ),
    click.option(
        "--wind-column", metavar="NAME", help="The same for wind; for NASA POWER, for example WS10M."
    ),
    click.option(
        "--unit",
        metavar="UNIT",
        help="Unit of a CSV column whose name states none: W, kW, MW, GW or per-unit.",
    ),
    click.option(
        "--interval",
        type=click.IntRange(1),
        metavar="S",
        help="Time between rows of a CSV file without times, seconds.",
    ),
    _time_option("--first-time", "Date of the first row of a CSV file without dates."),
    choice_option("--date-order", kind=DateOrder, help="How to read 03/04/2019. [default: whichever fits]"),
    click.option("--synthetic", is_flag=True, help="Generate the weather from --seed; no files needed."),
    click.option(
        "--seed", type=click.IntRange(0), default=0, help="Seed of synthetic weather, and of --case between."
    ),
    click.option("--latitude", type=float, default=43.6, help="Synthetic: degrees north."),
    click.option("--cloudiness", type=float, default=0.5, help="Synthetic: 0 to 1."),
    click.option(
        "--wind-mean", type=float, default=SyntheticWeather.wind_mean_m_s, help="Synthetic: mean wind, m/s."
    ),
    click.option(
        "--write-ninja",
        metavar="PREFIX",
        help="Synthetic: also write PREFIX_pv.csv and PREFIX_wind.csv, like Renewables.ninja exports.",
    ),
    choice_option(
        "--case",
        kind=ProductionCase,
        default=ProductionCase.EXACT.value,
        help="Write what really comes if this had been forecast: at the upper bound of its band (best), at "
        "the lower (worst), or anywhere between in each step. The band is that of plans: 5 %, rising to 30 % "
        "after 72 h.",
    ),
    quiet_option("Print no summary."),
)
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
    From a CSV file of measurements without times, one row per hour, as a share of the capacity:
      beasy-sched generate power --pv plant.csv --pv-column PV-MEAS --unit per-unit --interval 3600 \\
          --pv-kw 10 -o power.txt

    \b
    Use it:
      batsim -p platform.xml -w workload.json -e out/run -E --events power.txt --forward-unknown-events
    """
    options = SimpleNamespace(**values)
    steps = int(options.days * SECONDS_PER_DAY / options.dt + 1e-9)
    if steps < 1:
        raise ConfigError(f"--days {options.days:g} is shorter than one step of {options.dt:g} s")
    found = _synthetic(options) if options.synthetic else _from_files(options)
    productions = [_production(options, name, series) for name, series in found]
    if options.write_ninja:
        for production in productions:
            lines = export_lines(production, latitude_deg=options.latitude, seed=options.seed)
            write_atomic(f"{options.write_ninja}_{production.name}.csv", lines)
    placed = [(one, Window(steps, options.dt, _start_s(options, one, productions))) for one in productions]
    powers = [
        step_power(production, window, method=options.interpolation, gaps=options.gaps)
        for production, window in placed
    ]
    total = np.sum(powers, axis=0)
    real = real_production(total, options.case, step_s=options.dt, seed=options.seed)
    write_output(options.output, power_event_lines(real, options.dt, options.events_format))
    for production, window in placed:
        _remark(production, window)
    if not options.quiet:
        _print_figures(options, placed, powers, real)


def _print_figures(
    options: SimpleNamespace,
    placed: list[tuple[Production, Window]],
    powers: list[FloatArray],
    real: FloatArray,
) -> None:
    """Print energy, peak, mean and capacity factor of each plant, of all, and of what was written."""
    total = np.sum(powers, axis=0)
    installed_w = sum(production.installed_w for production, _ in placed)
    click.echo(f"{options.output}: {len(total)} steps of {options.dt:g} s", err=True)
    for (production, window), power_w in zip(placed, powers, strict=True):
        since = "" if window.start_s is None else f", from {time_text(window.start_s, 0)} UTC"
        size = f"of {w_to_kw(production.installed_w):g} kW{since}"
        came = figures(power_w, options.dt, production.installed_w)
        click.echo(f"  {production.name:5} {came} {size}", err=True)
    if len(placed) > 1:
        click.echo(f"  total {figures(total, options.dt, installed_w)}", err=True)
    if options.case is not ProductionCase.EXACT:
        came = figures(real, options.dt, installed_w).strip()
        click.echo(f"  {options.case.value + ':':9} {came} (written; the rest is the forecast)", err=True)


def _from_files(options: SimpleNamespace) -> Iterator[tuple[str, TimeSeries]]:
    """Read the files that are given."""
    if options.pv is None and options.wind is None:
        raise ConfigError("no input: give --pv FILE, --wind FILE or both, or --synthetic")
    if options.write_ninja:
        raise ConfigError("--write-ninja requires --synthetic: it exports synthetic weather only")
    given = (("pv", options.pv, options.pv_column), ("wind", options.wind, options.wind_column))
    for name, path, column in given:
        if path is None:
            continue
        series = read_weather_file(
            path,
            column=column,
            unit=options.unit,
            interval_s=options.interval,
            date_order=options.date_order,
        )
        if options.first_time is not None and series.start_s is None:
            series = replace(series, start_s=options.first_time)
        yield name, series


def _synthetic(options: SimpleNamespace) -> Iterator[tuple[str, TimeSeries]]:
    """Make the weather of the window, for each plant."""
    if options.pv is not None or options.wind is not None:
        raise ConfigError("--synthetic generates the weather: do not combine it with --pv and --wind")
    if options.pv_w is None and options.wind_w is None:
        raise ConfigError("--synthetic needs the size of a plant: give --pv-kw, --wind-kw or both")
    weather = SyntheticWeather(
        latitude_deg=options.latitude, cloudiness=options.cloudiness, wind_mean_m_s=options.wind_mean
    )
    start_s = _moment(SYNTHETIC_START) if options.start is None else options.start
    series = synthetic_series(weather, seed=options.seed, start_s=start_s, hours=math.ceil(options.days * 24))
    for name, installed_w in (("pv", options.pv_w), ("wind", options.wind_w)):
        if installed_w is not None:
            yield name, series


def _production(options: SimpleNamespace, name: str, series: TimeSeries) -> Production:
    if name == "pv":
        return pv_production(
            series,
            installed_w=options.pv_w,
            stated_w=options.pv_capacity_w,
            route=options.route,
            efficiency=options.pv_efficiency,
        )
    return wind_production(
        series,
        installed_w=options.wind_w,
        stated_w=options.wind_capacity_w,
        route=options.route,
        cut_in_m_s=options.cut_in,
        rated_m_s=options.rated_speed,
        cut_out_m_s=options.cut_out,
    )


def _start_s(options: SimpleNamespace, production: Production, productions: list[Production]) -> int | None:
    """The start of the window in one production's file."""
    own = options.pv_start if production.name == "pv" else options.wind_start
    start_s: int | None = options.start if own is None else own
    if start_s is None and production.series.start_s is not None:
        return shared_start(productions)
    return start_s


def _remark(production: Production, window: Window) -> None:
    series = production.series
    notes = [*series.notes]
    if flagged := flagged_intervals(series, window):
        notes.append(f"{flagged} hours of the window are marked as missing and filled in by the provider")
    for note in notes:
        click.echo(f"note: {series.path}: {note}", err=True)
    for finding in production.findings:
        click.echo(f"warning: {series.path}: {finding.text}", err=True)


def figures(power_w: FloatArray, step_s: float, installed_w: float) -> str:
    """Energy, peak, mean, and mean over capacity (NaN without capacity) of a profile."""
    mean_w = float(power_w.mean())
    factor = mean_w / installed_w if installed_w > 0 else math.nan
    return (
        f"{j_to_kwh(float(power_w.sum()) * step_s):9.3f} kWh, peak {w_to_kw(float(power_w.max())):.3f} kW, "
        f"mean {w_to_kw(mean_w):.3f} kW, capacity factor {100 * factor:.1f} %"
    )
