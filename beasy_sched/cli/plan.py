"""``beasy-sched plan``: forecasts and a site become a plan; ``plan show``: look at one.

The options of ``beasy-sched plan``.

From the files on the command line to plans.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from beasy_sched._version import __version__
from beasy_sched.arrays import FloatArray
from beasy_sched.cli.run_options import progress_bar
from beasy_sched.energy.site import Site
from beasy_sched.errors import ConfigError
from beasy_sched.formats.batsim_workload import workload_demand_w
from beasy_sched.formats.power_series import read_power_series
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import DEFAULT_SITE, parse_site, read_site_text
from beasy_sched.model.platform import Platform
from beasy_sched.plan.forecast import Uncertainty, full_draw_w
from beasy_sched.plan.offline import OfflineOptions, plan_windows
from beasy_sched.plan.plan import Provenance
from beasy_sched.plan.power_problem import PowerProblem, Surplus, check_sizes
from beasy_sched.plan.servers import ServerRules
from beasy_sched.plan.solver import SolverLimits
from beasy_sched.plan.store import PlanStore
from beasy_sched.units import w_to_kw

Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = click.Path(dir_okay=False, path_type=Path)
_PCT = click.FloatRange(0, 100)


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The command's options, as they are named on the command line."""

    platform: Path | None
    site: Path | None
    workload: tuple[Path, ...]
    demand: Path | None
    production: Path | None
    out: Path | None
    windows: int
    surplus: str
    runs: str
    load_uncertainty: tuple[float, float]
    renew_uncertainty: tuple[float, float]
    minimum_on: float
    unit: str | None
    time_limit: float | None
    master_host: str

    def __post_init__(self) -> None:
        needed = {"--platform": self.platform, "--production": self.production, "--out": self.out}
        missing = [name for name, value in needed.items() if value is None]
        if missing:
            raise ConfigError(f"plan needs {' and '.join(missing)}; see beasy-sched plan --help")
        if bool(self.workload) == (self.demand is not None):
            raise ConfigError("plan needs the demand: give either --workload or --demand")


_OPTIONS = (
    click.option("-p", "--platform", type=_FILE, metavar="FILE", help="SimGrid platform (XML)."),
    click.option(
        "--site",
        type=_FILE,
        metavar="FILE",
        help="Site file; 'default' is the package's own. [default: default]",
    ),
    click.option(
        "-w",
        "--workload",
        type=_FILE,
        multiple=True,
        metavar="FILE",
        help="Batsim workload (JSON) to forecast the demand from.",
    ),
    click.option("--demand", type=_FILE, metavar="FILE", help="The demand itself: powers (CSV or events)."),
    click.option(
        "--production",
        "--power",
        "production",
        type=_FILE,
        metavar="FILE",
        help="The production: external events (of 'generate power') or CSV.",
    ),
    click.option("-o", "--out", type=_FILE, metavar="FILE", help="The plan file to write."),
    click.option(
        "--windows",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="How many of the site's windows (72 h each by default) to plan, one after the other.",
    ),
    click.option(
        "--surplus",
        type=click.Choice(["envelope", "store"]),
        default="envelope",
        show_default=True,
        help="Power beyond the demand: for the servers, or into the battery first.",
    ),
    click.option(
        "--runs",
        type=click.Choice(["profile", "walltime"]),
        default="profile",
        show_default=True,
        help="How long jobs are expected to run: as their profiles say, or to their walltimes.",
    ),
    click.option(
        "--load-uncertainty",
        type=(_PCT, _PCT),
        default=(5.0, 30.0),
        show_default=True,
        metavar="PCT PCT",
        help="Of the demand, at once and after 72 h, percent.",
    ),
    click.option(
        "--renew-uncertainty",
        type=(_PCT, _PCT),
        default=(5.0, 30.0),
        show_default=True,
        metavar="PCT PCT",
        help="The same of the production.",
    ),
    click.option(
        "--minimum-on",
        type=click.FloatRange(0),
        default=3600.0,
        show_default=True,
        metavar="S",
        help="Seconds that a server which wakes stays on at least.",
    ),
    click.option("--unit", metavar="UNIT", help="Of CSV columns whose name has none: W, kW or MW."),
    click.option(
        "--time-limit",
        type=click.FloatRange(0),
        metavar="S",
        help="Stop each search after this time; plans then depend on the machine, and say so.",
    ),
    click.option(
        "-m",
        "--master-host",
        default="master_host",
        show_default=True,
        metavar="NAME",
        help="Host that no job runs on ('none' if the platform file itself gives a host that role).",
    ),
)

_EXPORTS = (
    click.option("--figure", type=_FILE, metavar="FILE", help="Draw the plan (PNG, SVG or PDF)."),
    click.option("--export-json", type=_FILE, metavar="FILE", help="Also write everything as JSON."),
    click.option("--export-csv", type=_FILE, metavar="FILE", help="Also write one row a step as CSV."),
    click.option("-q", "--quiet", is_flag=True, help="No progress bar, no summary."),
)


def plan_options(command: Command) -> Command:
    """Give a click command the options that make a plan."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def export_options(command: Command) -> Command:
    """Give a click command the options that show a plan."""
    for option in reversed(_EXPORTS):
        command = option(command)
    return command


def make_plans(options: PlanOptions, *, quiet: bool = False) -> PlanStore:
    """Read, forecast and plan. Raises InputError, ConfigError and NoPlan; warnings go to standard error."""
    assert options.platform is not None
    assert options.production is not None
    site_name = options.site or DEFAULT_SITE
    site_text = read_site_text(site_name)
    site = parse_site(site_text, site_name)
    described = read_simgrid_platform(options.platform, master=options.master_host)
    platform = described.platform
    for note in described.notes:
        click.echo(f"warning: {note}", err=True)
    if not (platform.has_powers and platform.has_speeds):
        raise ConfigError(
            f"{options.platform}: planning needs the speeds and powers of every host; generate the platform "
            "with 'beasy-sched generate platform'"
        )
    steps = site.steps * options.windows
    renew_w = read_power_series(options.production, steps=steps, step_s=site.step_s, unit=options.unit)
    load_w = _demand_w(options, site, platform, steps)
    problem = PowerProblem(site.storage, load_w, renew_w, site.step_s)
    for note in (*check_sizes(problem), *_too_large(load_w, platform)):
        click.echo(f"warning: {note}", err=True)
    with progress_bar("windows planned", quiet=quiet) as report:
        return plan_windows(
            site,
            platform,
            load_w,
            renew_w,
            options=_choices(options),
            provenance=Provenance(f"beasy-sched {__version__}", inputs=_hashes(options, site_text)),
            report=report,
        )


def _demand_w(options: PlanOptions, site: Site, platform: Platform, steps: int) -> FloatArray:
    """The demand of each step, W."""
    if options.demand is not None:
        return read_power_series(options.demand, steps=steps, step_s=site.step_s, unit=options.unit)
    return workload_demand_w(
        options.workload, platform, steps=steps, step_s=site.step_s, walltimes=options.runs == "walltime"
    )


def _too_large(load_w: FloatArray, platform: Platform) -> list[str]:
    most_w = full_draw_w(platform)
    if load_w.max() <= most_w * (1 + 1e-9):
        return []
    return [
        f"the demand reaches {w_to_kw(load_w.max()):.4g} kW, but the servers draw at most "
        f"{w_to_kw(most_w):.4g} kW: what is beyond that is not planned for"
    ]


def _choices(options: PlanOptions) -> OfflineOptions:
    time_s = math.inf if options.time_limit is None else options.time_limit
    load, renew = (
        Uncertainty(at_once / 100.0, later / 100.0)
        for at_once, later in (options.load_uncertainty, options.renew_uncertainty)
    )
    return OfflineOptions(
        surplus=Surplus(options.surplus),
        load_uncertainty=load,
        renew_uncertainty=renew,
        limits=SolverLimits(time_s=time_s),
        rules=ServerRules(minimum_on_s=options.minimum_on, time_s=time_s),
    )


def _hashes(options: PlanOptions, site_text: str) -> dict[str, str]:
    """SHA-256 of each input."""
    files: dict[str, Path | None] = {
        "platform": options.platform,
        "production": options.production,
        "demand": options.demand,
        **{f"workload {number}": path for number, path in enumerate(options.workload)},
    }
    contents = {name: read_bytes(path) for name, path in files.items() if path is not None}
    contents["site"] = site_text.encode()
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


@click.group(invoke_without_command=True)
@plan_options
@export_options
@click.pass_context
def plan(context: click.Context, /, **values: Any) -> None:
    """Plan power and servers for the days to come, from forecasts of demand and production.

    The demand comes from a workload (each job's energy over its expected run) or from a file of powers;
    the production from a file of powers. Where not everything can be served, the plan asks the least
    of each step (the relax factor rf), then of all together.

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
    exports = {name: values.pop(name) for name in ("export_json", "export_csv", "figure")}
    quiet = values.pop("quiet")
    options = PlanOptions(**values)
    from beasy_sched.formats.plan_file import write_plans

    plans = make_plans(options, quiet=quiet)
    assert options.out is not None
    write_plans(options.out, plans)
    written = [options.out, *_export(plans, **exports)]
    if not quiet:
        _tell(plans)
        for path in written:
            click.echo(f"wrote {path}", err=True)


@plan.command()
@click.argument("file", type=_FILE)
@export_options
def show(file: Path, quiet: bool, **exports: Path | None) -> None:
    """Print what a plan file holds, and export it."""
    from beasy_sched.formats.plan_file import read_plans

    plans = read_plans(file)
    written = _export(plans, **exports)
    if not quiet:
        _tell(plans)
        for path in written:
            click.echo(f"wrote {path}", err=True)


def _export(plans: Any, export_json: Path | None, export_csv: Path | None, figure: Path | None) -> list[Path]:
    """Write what was asked for. Returns the files."""
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.formats.plan_file import csv_lines, json_text

    if export_json is not None:
        write_atomic(export_json, json_text(plans))
    if export_csv is not None:
        write_atomic(export_csv, csv_lines(plans))
    if figure is not None:
        from beasy_sched.report.plan_figure import draw_plan

        write_atomic(figure, draw_plan(plans, figure.suffix))
    return [path for path in (export_json, export_csv, figure) if path is not None]


def _tell(plans: Any) -> None:
    """Print the summary."""
    from beasy_sched.outputs.tables import plan_rows, print_rows

    print_rows([*plan_rows(plans)])
