"""``beasy-sched plan``: forecasts and a site become a plan; ``plan show``: look at one."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, Final, Literal

import click

from beasy_sched._version import __version__
from beasy_sched.arrays import FloatArray
from beasy_sched.cli.options import FILE, CommandOptions, InputOptions, option, progress_bar, with_options
from beasy_sched.energy.site import Site
from beasy_sched.errors import ConfigError
from beasy_sched.formats.batsim_workload import workload_demand_w
from beasy_sched.formats.forecast_source import forecast_files, read_forecast
from beasy_sched.formats.power_series import read_power_series
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import DEFAULT_SITE, parse_site, read_site_text
from beasy_sched.model.platform import Platform
from beasy_sched.plan.forecast import Uncertainty, full_draw_w
from beasy_sched.plan.offline import OfflineOptions, plan_windows
from beasy_sched.plan.plan import PlanStore, Provenance
from beasy_sched.plan.power_problem import PowerProblem, Surplus, check_sizes
from beasy_sched.plan.servers import ServerRules
from beasy_sched.plan.solver import SolverLimits
from beasy_sched.units import w_to_kw

_PCT: Final = click.FloatRange(0, 100)


def _uncertainty_option(help: str) -> Any:
    def read(_: click.Context, __: click.Parameter, percent: tuple[float, float]) -> Uncertainty:
        return Uncertainty(*(share / 100.0 for share in percent))

    return option(help, type=(_PCT, _PCT), default=(5.0, 30.0), metavar="PCT PCT", callback=read)


class _PlanOptions(CommandOptions):
    platform: Path | None = InputOptions.platform
    site: Path | None = option(
        "Site file; 'default' is the one that comes with the program. [default: default]"
    )
    workload: tuple[Path, ...] = option("Batsim workload (JSON) to forecast the demand from.", "-w")
    demand: Path | None = option("The demand itself: powers (CSV or events).")
    production: Path | None = option(
        "The production: external events (of 'generate power') or CSV.", "--production", "--power"
    )
    production_forecast: str | None = option(
        "Instead of --production: what a forecast predicts at time 0, as --forecast of 'simulate' names it: "
        "a forecast file, 'predictor:FILE', 'perfect:EVENTS' or 'none'.",
        metavar="SOURCE",
    )
    out: Path | None = option("The plan file to write.", "-o")
    windows: int = option(
        "How many of the site's windows (72 h each by default) to plan, one after the other.",
        type=click.IntRange(1),
        default=1,
    )
    surplus: Surplus = option(
        "Where power beyond the demand goes first: to the servers, or into the battery.", default="envelope"
    )
    runs: Literal["profile", "walltime"] = option(
        "How long jobs are expected to run: as their profiles say, or to their walltimes.", default="profile"
    )
    load_uncertainty: Uncertainty = _uncertainty_option(
        "Uncertainty of the demand, at the start and after 72 h, percent."
    )
    renew_uncertainty: Uncertainty = _uncertainty_option("The same for the production.")
    minimum_on: float = option(
        "Minimum time that a server stays on after waking, seconds.",
        type=click.FloatRange(0),
        default=3600.0,
        metavar="S",
    )
    unit: str | None = option("Unit of CSV columns whose name states none: W, kW or MW.", metavar="UNIT")
    time_limit: float | None = option(
        "Stop each search after this time; plans then depend on the machine, and say so.",
        type=click.FloatRange(0),
        metavar="S",
    )
    master_host: str = InputOptions.master_host


class _Exports(CommandOptions):
    figure: Path | None = option("Draw the plan (PNG, SVG or PDF).")
    export_json: Path | None = option("Also write everything as JSON.")
    export_csv: Path | None = option("Also write one row per step as CSV.")
    quiet: bool = option("No progress bar, no summary.", "-q")


@click.group(invoke_without_command=True)
@with_options(_PlanOptions)
@with_options(_Exports)
@click.pass_context
def plan(context: click.Context, given: _PlanOptions, exports: _Exports) -> None:
    """Plan power and servers for the days to come, from forecasts of demand and production.

    The demand comes from a workload (each job's energy over its expected run) or from a file of powers;
    the production from a file of powers, or from a forecast. If not everything can be served, the plan
    minimizes what each step lacks (the relax factor rf), then the total.

    \b
      beasy-sched generate platform --servers gros:50 -o platform.xml
      beasy-sched generate workload --synthetic --seed 1 -o workload.json
      beasy-sched generate power --synthetic --seed 1 --pv-kw 15 --wind-kw 8 -o power.txt
      beasy-sched plan -p platform.xml -w workload.json --production power.txt \\
          -o plan.msgpack --figure plan.png
      beasy-sched plan show plan.msgpack
      beasy-sched plan -p platform.xml -w workload.json --site site.toml \\
          --production-forecast predictor:training.csv -o plan.msgpack
    """
    if context.invoked_subcommand is not None:
        return
    platform_path, out = _required(given)
    name = given.site or DEFAULT_SITE
    site_text = read_site_text(name)
    site = parse_site(site_text, name)
    platform = _read_platform(platform_path, given.master_host)
    renew_w, load_w = _production_w(given, site), _demand_w(given, site, platform)
    for note in check_sizes(PowerProblem(site.storage, load_w, renew_w, site.step_s)):
        click.echo(f"warning: {note}", err=True)
    _check_demand(float(load_w.max()), platform)
    time_s = math.inf if given.time_limit is None else given.time_limit
    with progress_bar("windows planned", quiet=exports.quiet) as report:
        plans = plan_windows(
            site,
            platform,
            load_w,
            renew_w,
            options=OfflineOptions(
                surplus=given.surplus,
                load_uncertainty=given.load_uncertainty,
                renew_uncertainty=given.renew_uncertainty,
                limits=SolverLimits(time_s=time_s),
                rules=ServerRules(minimum_on_s=given.minimum_on, time_s=time_s),
            ),
            provenance=Provenance(f"beasy-sched {__version__}", inputs=_hashes(given, site_text)),
            report=report,
        )
    from beasy_sched.formats.plan_file import write_plans

    write_plans(out, plans)
    _finish(plans, [out], exports)


def _required(given: _PlanOptions) -> tuple[Path, Path]:
    """Return the platform's and the plan's file. Raises ConfigError for options missing or too many."""
    production = given.production or given.production_forecast
    if given.platform is None or production is None or given.out is None:
        needed = {"--platform": given.platform, "--production": production, "--out": given.out}
        missing = " and ".join(name for name, value in needed.items() if value is None)
        raise ConfigError(f"plan requires {missing}; see beasy-sched plan --help")
    if given.production is not None and given.production_forecast is not None:
        raise ConfigError("the production comes from one place: give --production or --production-forecast")
    if bool(given.workload) == (given.demand is not None):
        raise ConfigError("plan requires the demand: give either --workload or --demand")
    return given.platform, given.out


def _demand_w(given: _PlanOptions, site: Site, platform: Platform) -> FloatArray:
    """The demand of each step, W, from a file of powers or from the workload."""
    steps, step_s = site.steps * given.windows, site.step_s
    if given.demand is not None:
        return read_power_series(given.demand, steps=steps, step_s=step_s, unit=given.unit)
    walltimes = given.runs == "walltime"
    return workload_demand_w(given.workload, platform, steps=steps, step_s=step_s, walltimes=walltimes)


def _hashes(given: _PlanOptions, site_text: str) -> dict[str, str]:
    """The SHA-256 of everything that the plan is made from, by what it is."""
    files = {"platform": given.platform, "production": given.production, "demand": given.demand}
    if given.production_forecast is not None:
        named = enumerate(forecast_files(given.production_forecast))
        files |= {f"production forecast {number}": Path(path) for number, path in named}
    files |= {f"workload {number}": path for number, path in enumerate(given.workload)}
    contents = {name: read_bytes(path) for name, path in files.items() if path is not None}
    contents["site"] = site_text.encode()
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def _production_w(given: _PlanOptions, site: Site) -> FloatArray:
    """The production that the plan reckons with, W per step."""
    steps, step_s = site.steps * given.windows, site.step_s
    if given.production is not None:
        return read_power_series(given.production, steps=steps, step_s=step_s, unit=given.unit)
    source = read_forecast(given.production_forecast or "none", site, given.windows)
    renew_w = source.renewable_w(0.0, step_s, steps)
    for note in source.notes:
        click.echo(f"note: forecast: {note}", err=True)
    if source.name != "none" and not renew_w.any():
        click.echo(
            "warning: the forecast has no production at all, as it stands at time 0: is [time] start of the"
            " site file right, and was it issued by then?",
            err=True,
        )
    return renew_w


def _read_platform(path: Path, master_host: str) -> Platform:
    described = read_simgrid_platform(path, master=master_host)
    for note in described.notes:
        click.echo(f"warning: {note}", err=True)
    if not (described.platform.has_powers and described.platform.has_speeds):
        raise ConfigError(
            f"{path}: planning requires the speeds and powers of every host; generate the platform "
            "with 'beasy-sched generate platform'"
        )
    return described.platform


def _check_demand(peak_w: float, platform: Platform) -> None:
    most_w = full_draw_w(platform)
    if peak_w > most_w * (1 + 1e-9):
        click.echo(
            f"warning: the demand reaches {w_to_kw(peak_w):.4g} kW, but the servers draw at most "
            f"{w_to_kw(most_w):.4g} kW: the excess is not planned for",
            err=True,
        )


@plan.command()
@click.argument("file", type=FILE)
@with_options(_Exports)
def show(exports: _Exports, file: Path) -> None:
    """Print the contents of a plan file, and export it."""
    from beasy_sched.formats.plan_file import read_plans

    _finish(read_plans(file), [], exports)


def _finish(plans: PlanStore, written: list[Path], exports: _Exports) -> None:
    """Export what was asked for, show the plan, and tell what was written."""
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.formats.plan_file import csv_lines, json_text

    if exports.export_json is not None:
        write_atomic(exports.export_json, json_text(plans))
    if exports.export_csv is not None:
        write_atomic(exports.export_csv, csv_lines(plans))
    if exports.figure is not None:
        from beasy_sched.report.plan_figure import draw_plan

        write_atomic(exports.figure, draw_plan(plans, exports.figure.suffix))
    if exports.quiet:
        return
    from beasy_sched.outputs.tables import plan_rows, print_rows

    print_rows([*plan_rows(plans)])
    for path in (*written, exports.export_json, exports.export_csv, exports.figure):
        if path is not None:
            click.echo(f"wrote {path}", err=True)
