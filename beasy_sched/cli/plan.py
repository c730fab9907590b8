"""``beasy-sched plan``: forecasts and a site become a plan; ``plan show``: look at one."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click

from beasy_sched._version import __version__
from beasy_sched.cli.options import (
    FILE,
    Option,
    choice_option,
    file_option,
    master_host_option,
    platform_option,
    progress_bar,
    quiet_option,
    windows_option,
    with_options,
)
from beasy_sched.errors import ConfigError
from beasy_sched.formats.batsim_workload import workload_demand_w
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


def _uncertainty_option(name: str, help: str) -> Option:
    def read(_: click.Context, __: click.Parameter, percent: tuple[float, float]) -> Uncertainty:
        return Uncertainty(*(share / 100.0 for share in percent))

    bounds, default = (_PCT, _PCT), (5.0, 30.0)
    return click.option(name, type=bounds, default=default, metavar="PCT PCT", callback=read, help=help)


_export_options = with_options(
    file_option("--figure", help="Draw the plan (PNG, SVG or PDF)."),
    file_option("--export-json", help="Also write everything as JSON."),
    file_option("--export-csv", help="Also write one row per step as CSV."),
    quiet_option("No progress bar, no summary."),
)


@click.group(invoke_without_command=True)
@platform_option()
@file_option("--site", help="Site file; 'default' is the one that comes with the program. [default: default]")
@file_option("-w", "--workload", multiple=True, help="Batsim workload (JSON) to forecast the demand from.")
@file_option("--demand", help="The demand itself: powers (CSV or events).")
@file_option(
    "--production",
    "--power",
    "production",
    help="The production: external events (of 'generate power') or CSV.",
)
@file_option("-o", "--out", help="The plan file to write.")
@windows_option("How many of the site's windows (72 h each by default) to plan, one after the other.")
@choice_option(
    "--surplus",
    kind=Surplus,
    default="envelope",
    help="Where power beyond the demand goes first: to the servers, or into the battery.",
)
@click.option(
    "--runs",
    type=click.Choice(["profile", "walltime"]),
    default="profile",
    help="How long jobs are expected to run: as their profiles say, or to their walltimes.",
)
@_uncertainty_option("--load-uncertainty", "Uncertainty of the demand, at the start and after 72 h, percent.")
@_uncertainty_option("--renew-uncertainty", "The same for the production.")
@click.option(
    "--minimum-on",
    type=click.FloatRange(0),
    default=3600.0,
    metavar="S",
    help="Minimum time that a server stays on after waking, seconds.",
)
@click.option("--unit", metavar="UNIT", help="Unit of CSV columns whose name states none: W, kW or MW.")
@click.option(
    "--time-limit",
    type=click.FloatRange(0),
    metavar="S",
    help="Stop each search after this time; plans then depend on the machine, and say so.",
)
@master_host_option
@_export_options
@click.pass_context
def plan(context: click.Context, /, **values: Any) -> None:
    """Plan power and servers for the days to come, from forecasts of demand and production.

    The demand comes from a workload (each job's energy over its expected run) or from a file of powers;
    the production from a file of powers. If not everything can be served, the plan minimizes
    what each step lacks (the relax factor rf), then the total.

    \b
      beasy-sched generate platform --servers gros:50 -o platform.xml
      beasy-sched generate workload --synthetic --seed 1 -o workload.json
      beasy-sched generate power --synthetic --seed 1 --pv-kw 15 --wind-kw 8 -o power.txt
      beasy-sched plan -p platform.xml -w workload.json --production power.txt \\
          -o plan.msgpack --figure plan.png
      beasy-sched plan show plan.msgpack
    """
    if context.invoked_subcommand is not None:
        return
    given = SimpleNamespace(**values)
    needed = {"--platform": given.platform, "--production": given.production, "--out": given.out}
    if missing := [name for name, value in needed.items() if value is None]:
        raise ConfigError(f"plan requires {' and '.join(missing)}; see beasy-sched plan --help")
    if bool(given.workload) == (given.demand is not None):
        raise ConfigError("plan requires the demand: give either --workload or --demand")
    name = given.site or DEFAULT_SITE
    site_text = read_site_text(name)
    site = parse_site(site_text, name)
    platform = _read_platform(given.platform, given.master_host)
    steps, step_s = site.steps * given.windows, site.step_s
    renew_w = read_power_series(given.production, steps=steps, step_s=step_s, unit=given.unit)
    if given.demand is not None:
        load_w = read_power_series(given.demand, steps=steps, step_s=step_s, unit=given.unit)
    else:
        walltimes = given.runs == "walltime"
        load_w = workload_demand_w(given.workload, platform, steps=steps, step_s=step_s, walltimes=walltimes)
    for note in check_sizes(PowerProblem(site.storage, load_w, renew_w, step_s)):
        click.echo(f"warning: {note}", err=True)
    _check_demand(float(load_w.max()), platform)
    files = {"platform": given.platform, "production": given.production, "demand": given.demand}
    files |= {f"workload {number}": path for number, path in enumerate(given.workload)}
    contents = {name: read_bytes(path) for name, path in files.items() if path is not None}
    contents["site"] = site_text.encode()
    time_s = math.inf if given.time_limit is None else given.time_limit
    with progress_bar("windows planned", quiet=given.quiet) as report:
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
            provenance=Provenance(
                f"beasy-sched {__version__}",
                inputs={name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
            ),
            report=report,
        )
    from beasy_sched.formats.plan_file import write_plans

    write_plans(given.out, plans)
    _finish(plans, [given.out], given)


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
@_export_options
def show(file: Path, **values: Any) -> None:
    """Print the contents of a plan file, and export it."""
    from beasy_sched.formats.plan_file import read_plans

    _finish(read_plans(file), [], SimpleNamespace(**values))


def _finish(plans: PlanStore, written: list[Path], given: SimpleNamespace) -> None:
    """Export what was asked for, show the plan, and tell what was written."""
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.formats.plan_file import csv_lines, json_text

    if given.export_json is not None:
        write_atomic(given.export_json, json_text(plans))
    if given.export_csv is not None:
        write_atomic(given.export_csv, csv_lines(plans))
    if given.figure is not None:
        from beasy_sched.report.plan_figure import draw_plan

        write_atomic(given.figure, draw_plan(plans, given.figure.suffix))
    if given.quiet:
        return
    from beasy_sched.outputs.tables import plan_rows, print_rows

    print_rows([*plan_rows(plans)])
    for path in (*written, given.export_json, given.export_csv, given.figure):
        if path is not None:
            click.echo(f"wrote {path}", err=True)
