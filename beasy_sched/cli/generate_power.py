"""``beasy-sched generate power``: production from files of weather or power, or from synthetic weather."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from beasy_sched.cli.options import (
    CommandOptions,
    Number,
    Whole,
    option,
    option_of,
    output_option,
    parsed,
    with_options,
    write_output,
)
from beasy_sched.energy.plants import PvPlant, WindTurbine
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.generate.power_options import FileOptions, Gaps, Night, PowerOptions, Route, SyntheticWeather
from beasy_sched.model.choices import BatsimFormat, DateOrder, Interpolation, ProductionCase
from beasy_sched.units import SECONDS_PER_DAY, TIME_TOLERANCE_S, counted, j_to_kwh, kw_to_w, w_to_kw

if TYPE_CHECKING:
    from beasy_sched.arrays import FloatArray
    from beasy_sched.formats.table import TimeSeries
    from beasy_sched.generate.power_events import Production, Window


def _moment(text: str) -> int:
    """Read a date, with a time of day or without, in UTC, as seconds since 1970."""
    from beasy_sched.formats.table import parse_moment

    moment = parse_moment(text)
    if moment is None:
        raise ValueError(f"found {text!r}, expected a time such as 2019-06-01 or '2019-06-01 05:00'")
    return moment


_MOMENT: Final[dict[str, Any]] = {"type": parsed(_moment), "metavar": "TIME"}


def _zone(text: str) -> tzinfo:
    """Read a time zone. Raises ValueError."""
    from beasy_sched.formats.local_time import named_zone

    try:
        return named_zone(text)
    except ConfigError as error:
        raise ValueError(str(error)) from None


_SITE: Final[dict[str, Any]] = {"type": Number(0, 1e6, above=True), "metavar": "KW"}
_FLEET: Final[dict[str, Any]] = {"type": Number(0, 1e9, above=True), "metavar": "KW"}
"""All plants of a country, whose production ENTSO-E publishes."""


class _PowerOptions(CommandOptions):
    output: str = output_option("events file")
    pv: str | None = option(
        "Solar: an export of a weather service or a market, or CSV (see the guide on your own data).",
        metavar="FILE",
    )
    wind: str | None = option("Wind: a file of the same kinds.", metavar="FILE")
    pv_kw: float | None = option_of(PowerOptions, "pv_kw", default=None, **_SITE)
    wind_kw: float | None = option_of(PowerOptions, "wind_kw", default=None, **_SITE)
    start: int | None = option_of(PowerOptions, "start", **_MOMENT)
    days: float = option_of(PowerOptions, "days", metavar="DAYS")
    dt: float = option("Step, seconds.", type=Number(1, 86_400), metavar="S", default=300.0)
    events_format: BatsimFormat = option(
        "For Batsim 5, generic events, whose data is a JSON string.", "--format", default="batsim4"
    )
    interpolation: Interpolation = option_of(FileOptions, "interpolation")
    gaps: Gaps = option_of(FileOptions, "gaps")
    night: Night = option_of(FileOptions, "night")
    clip_negative: bool = option("Count negative power, such as an inverter's own demand at night, as 0.")
    route: Route = option_of(FileOptions, "route")
    pv_efficiency: float = option_of(PvPlant, "efficiency", "--pv-efficiency")
    cut_in: float = option_of(WindTurbine, "cut_in_m_s", "--cut-in")
    rated_speed: float = option_of(WindTurbine, "rated_m_s", "--rated-speed")
    cut_out: float = option_of(WindTurbine, "cut_out_m_s", "--cut-out")
    pv_capacity_kw: float | None = option(
        "Capacity that the file's electricity is for, where the file does not state it.", **_FLEET
    )
    wind_capacity_kw: float | None = option("The same for wind.", **_FLEET)
    pv_start: int | None = option("Start in the PV file, if different from --start.", **_MOMENT)
    wind_start: int | None = option("Start in the wind file, if different from --start.", **_MOMENT)
    pv_column: str | None = option(
        "Column of a CSV file, or production type of a market's export, or a part of its name.",
        metavar="NAME",
    )
    wind_column: str | None = option("The same for wind; for NASA POWER, for example WS10M.", metavar="NAME")
    unit: str | None = option(
        "Unit of a CSV column whose name states none: W, kW, MW, GW; Wh, kWh, MWh for the energy of each "
        "row; per-unit or %.",
        metavar="UNIT",
    )
    interval: int | None = option(
        "Time between rows of a CSV file without times, seconds.", type=Whole(1, 86_400 * 366), metavar="S"
    )
    first_time: int | None = option("Date of the first row of a CSV file without dates.", **_MOMENT)
    timezone: tzinfo | None = option(
        "Time zone of times in a CSV file that state none, such as Europe/Berlin or +01:00. [default: UTC]",
        type=parsed(_zone),
        metavar="ZONE",
    )
    date_order: DateOrder | None = option("How to read 03/04/2019. [default: whichever fits]")
    synthetic: bool = option("Generate the weather from --seed; no files needed.")
    seed: int = option_of(PowerOptions, "seed")
    latitude: float | None = option(
        f"Degrees north, of --night zero (default: the file's) and of synthetic weather"
        f" (default: {SyntheticWeather.latitude_deg:g}).",
        type=Number(-90, 90),
    )
    longitude: float | None = option(
        "Degrees east, of --night zero. [default: the file's]", type=Number(-180, 180)
    )
    cloudiness: float = option_of(SyntheticWeather, "cloudiness")
    wind_mean: float = option_of(SyntheticWeather, "wind_mean_m_s", "--wind-mean")
    write_ninja: str | None = option(
        "Synthetic: also write PREFIX_pv.csv and PREFIX_wind.csv, like Renewables.ninja exports.",
        metavar="PREFIX",
    )
    case: ProductionCase = option(
        "Write the actual production for this forecast: at the upper bound of its uncertainty band (best), "
        "at the lower bound (worst), or random within the band in each step (between). The band is that of "
        "plans: 5 %, rising to 30 % after 72 h.",
        default="exact",
    )
    write_forecast: str | None = option(
        "Files: also write a forecast of the window with quantiles (CSV), issued every 6 hours for the "
        "next 96 hours, from the errors of past forecasts. Requires 98 days before --start.",
        metavar="FILE",
    )
    grid: Path | None = option(
        "Site file with a [grid]: also write its price and carbon intensity of each step, for schedulers "
        "without access to these files, or as actual values.",
        metavar="SITE",
    )
    quiet: bool = option("Print no summary.", "-q")


@click.command()
@with_options(_PowerOptions)
def power(options: _PowerOptions) -> None:
    """Write the power produced in each step, as external events for Batsim.

    The power comes from files of the past (hourly or finer), scaled to the site's size and resampled to
    steps so that each hour keeps its energy, or from seeded synthetic weather. The output is the sum of solar
    and wind power. The first line is always at time 0.

    \b
    Three days of June from two Renewables.ninja exports:
      beasy-sched generate power --pv ninja_pv.csv --pv-kw 10 --wind ninja_wind.csv --wind-kw 7 \\
          --start 2019-06-01 --days 3 -o power.txt

    \b
    Without a file:
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
    With the prices and carbon intensities of the site's grid:
      beasy-sched generate power --synthetic --pv-kw 10 --grid site.toml -o power.txt

    \b
    With a probabilistic forecast:
      beasy-sched generate power --pv ninja_pv.csv --pv-kw 10 --start 2019-06-01 --days 30 -o power.txt \\
          --write-forecast forecast.csv

    \b
    Use it:
      batsim -p platform.xml -w workload.json -e out/run -E --events power.txt --forward-unknown-events
    """
    import numpy as np

    from beasy_sched.formats.batsim_events import power_event_lines
    from beasy_sched.formats.file_set import together
    from beasy_sched.generate.noise import real_production
    from beasy_sched.generate.power_events import Window, export_lines, step_power, sun_part_w
    from beasy_sched.protocol.notices import SUN_FIELD

    steps = int(options.days * SECONDS_PER_DAY / options.dt + 1e-9)
    if steps < 1:
        raise ConfigError(f"--days {options.days:g} is shorter than one step of {options.dt:g} s")
    rates = None if options.grid is None else _rates(options, options.grid, steps)
    series_by_source = _synthetic(options) if options.synthetic else _from_files(options)
    productions = [_production(options, name, series) for name, series in series_by_source]
    placed = [(one, Window(steps, options.dt, _start_s(options, one, productions))) for one in productions]
    powers = [
        step_power(production, window, method=options.interpolation, gaps=options.gaps)
        for production, window in placed
    ]
    total = np.sum(powers, axis=0)
    real = real_production(total, options.case, step_s=options.dt, seed=options.seed)
    more_rates = {SUN_FIELD: sun_part_w(productions, powers, real), **(rates or {})}
    with together():
        for production in productions if options.write_ninja else ():
            lines = export_lines(production, latitude_deg=_latitude_deg(options), seed=options.seed)
            write_atomic(f"{options.write_ninja}_{production.name}.csv", lines)
        if options.write_forecast:
            _write_forecast(options, options.write_forecast, placed)
        write_output(options.output, power_event_lines(real, options.dt, options.events_format, more_rates))
    for production, window in placed:
        _remark(production, window, options.timezone)
    if not options.quiet:
        _print_figures(options, placed, powers, real)


def _write_forecast(options: _PowerOptions, path: str, placed: Sequence[tuple[Production, Window]]) -> None:
    """Write forecasts of the window, issued every six hours, from the production before it."""
    from beasy_sched.forecast.production_history import issue_quantiles
    from beasy_sched.formats.forecast_source import forecast_lines
    from beasy_sched.generate.power_events import hourly_with_past

    if options.synthetic:
        raise ConfigError(
            "--write-forecast requires files that begin before --start: give --pv or --wind"
            " (--write-ninja writes some)"
        )
    hourly_w, past_h = hourly_with_past(placed, gaps=options.gaps)
    write_atomic(path, forecast_lines(issue_quantiles(hourly_w, past_h), past_h))


def _rates(options: _PowerOptions, path: Path, steps: int) -> dict[str, FloatArray]:
    """Price and carbon intensity of a site's grid in each step, by the fields of events."""
    import numpy as np

    from beasy_sched.engine.run_findings import rates_too_short
    from beasy_sched.formats.site_file import read_site
    from beasy_sched.protocol.notices import CARBON_FIELD, PRICE_FIELD

    site = read_site(path)
    given = {} if site.grid is None else {PRICE_FIELD: site.grid.price, CARBON_FIELD: site.grid.carbon}
    rates = {name: foreseen.rate for name, foreseen in given.items() if foreseen is not None}
    if not rates:
        raise ConfigError(
            f"{path}: has no price and no carbon intensity: add them to its section [grid], or omit --grid"
        )
    edges_s = options.dt * np.arange(steps + 1, dtype=np.float64)
    if (short := rates_too_short(site, float(edges_s[-1]))) is not None:
        raise ConfigError(f"{path}: {short.text}")
    if abs(options.dt - site.step_s) > TIME_TOLERANCE_S:
        click.echo(
            f"warning: {path}: its step is {site.step_s:g} s, --dt {options.dt:g} s: an announced price"
            " holds for one step of the site",
            err=True,
        )
    return {name: rate.means(edges_s) for name, rate in rates.items()}


def _print_figures(
    options: _PowerOptions,
    placed: list[tuple[Production, Window]],
    powers: list[FloatArray],
    real: FloatArray,
) -> None:
    """Print energy, peak, mean and capacity factor of each plant, of all, and of what was written."""
    import numpy as np

    from beasy_sched.formats.table import time_text

    total = np.sum(powers, axis=0)
    installed_w = sum(production.installed_w for production, _ in placed)
    click.echo(f"{options.output}: {counted(len(total), 'step')} of {options.dt:g} s", err=True)
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


def _from_files(options: _PowerOptions) -> Iterator[tuple[str, TimeSeries]]:
    """Read the files that are given."""
    from beasy_sched.formats.power_series import read_weather_file
    from beasy_sched.generate.power_events import with_nights_at_zero

    if options.pv is None and options.wind is None:
        raise ConfigError("no input: give --pv FILE, --wind FILE or both, or --synthetic")
    if options.write_ninja:
        raise ConfigError("--write-ninja requires --synthetic: it exports synthetic weather only")
    read = partial(
        read_weather_file,
        unit=options.unit,
        interval_s=options.interval,
        date_order=options.date_order,
        clip_negative=options.clip_negative,
        zone=options.timezone,
    )
    given = (("pv", options.pv, options.pv_column), ("wind", options.wind, options.wind_column))
    clocks: list[tuple[str, str]] = []
    for name, path, column in given:
        if path is None:
            continue
        series = read(path, column=column)
        clocks.append((path, series.clock))
        if options.first_time is not None and series.start_s is None:
            series = replace(series, start_s=options.first_time)
        if name == "pv" and options.night is Night.ZERO:
            series = with_nights_at_zero(
                series, latitude_deg=options.latitude, longitude_deg=options.longitude
            )
        yield name, series
    if options.timezone is not None and all(clock for _, clock in clocks):
        reasons = "; ".join(f"{path}: {clock}" for path, clock in clocks)
        raise ConfigError(f"--timezone applies to none of the files: {reasons}; omit it")


def _synthetic(options: _PowerOptions) -> Iterator[tuple[str, TimeSeries]]:
    """Generate the weather of the window, for each plant."""
    from beasy_sched.generate.power_events import SYNTHETIC_START, synthetic_series

    if options.pv is not None or options.wind is not None:
        raise ConfigError("--synthetic generates the weather: do not combine it with --pv and --wind")
    if options.pv_kw is None and options.wind_kw is None:
        raise ConfigError("--synthetic needs the size of a plant: give --pv-kw, --wind-kw or both")
    weather = SyntheticWeather(
        latitude_deg=_latitude_deg(options), cloudiness=options.cloudiness, wind_mean_m_s=options.wind_mean
    )
    start_s = _moment(SYNTHETIC_START) if options.start is None else options.start
    series = synthetic_series(weather, seed=options.seed, start_s=start_s, hours=math.ceil(options.days * 24))
    for name, installed_kw in (("pv", options.pv_kw), ("wind", options.wind_kw)):
        if installed_kw is not None:
            yield name, series


def _latitude_deg(options: _PowerOptions) -> float:
    """Return the latitude of synthetic weather."""
    return SyntheticWeather.latitude_deg if options.latitude is None else options.latitude


def _watts(power_kw: float | None) -> float | None:
    return None if power_kw is None else kw_to_w(power_kw)


def _production(options: _PowerOptions, name: str, series: TimeSeries) -> Production:
    from beasy_sched.generate.power_events import pv_production, wind_production

    if name == "pv":
        return pv_production(
            series,
            installed_w=_watts(options.pv_kw),
            stated_w=_watts(options.pv_capacity_kw),
            route=options.route,
            efficiency=options.pv_efficiency,
        )
    return wind_production(
        series,
        installed_w=_watts(options.wind_kw),
        stated_w=_watts(options.wind_capacity_kw),
        route=options.route,
        cut_in_m_s=options.cut_in,
        rated_m_s=options.rated_speed,
        cut_out_m_s=options.cut_out,
    )


def _start_s(options: _PowerOptions, production: Production, productions: list[Production]) -> int | None:
    """The start of the window in one production's file."""
    from beasy_sched.generate.power_events import shared_start

    own = options.pv_start if production.name == "pv" else options.wind_start
    start_s: int | None = options.start if own is None else own
    if start_s is None and production.series.start_s is not None:
        return shared_start(productions)
    return start_s


def _remark(production: Production, window: Window, zone: tzinfo | None) -> None:
    from beasy_sched.generate.power_events import flagged_intervals

    series = production.series
    notes = [*series.notes]
    if flagged := flagged_intervals(series, window):
        notes.append(f"{flagged} hours of the window are marked as missing and filled in by the provider")
    if zone is not None and series.clock:
        notes.append(f"--timezone does not apply: {series.clock}")
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
