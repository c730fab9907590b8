"""``beasy-sched plan``: compute a plan from forecasts and a site; ``plan show``: print one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import click

from beasy_sched.cli import HelpfulGroup
from beasy_sched.cli.options import (
    FILE,
    WINDOWS,
    CommandOptions,
    InputOptions,
    Number,
    option,
    option_of,
    parsed,
    print_written,
    with_options,
    written_option,
)
from beasy_sched.cli.progress import ProgressOptions, progress_bar
from beasy_sched.declared import made_of
from beasy_sched.errors import ConfigError
from beasy_sched.model.choices import Surplus
from beasy_sched.planner.plan_options import PlanOptions
from beasy_sched.units import parse_duration

if TYPE_CHECKING:
    from beasy_sched.planner.offline import PlanSources
    from beasy_sched.planner.plan import PlanStore
    from beasy_sched.planner.season import Season


_Planned = TypeVar("_Planned", "PlanStore", "Season")


def _uncertainty_option(name: str) -> Any:
    pct = (Number(0, 100), Number(0, 100))
    return option_of(
        PlanOptions, f"{name}_uncertainty_pct", f"--{name}-uncertainty", type=pct, metavar="PCT PCT"
    )


_WHOLE: Final = ""
"""Value of --season without a file."""


class _PlanOptions(CommandOptions):
    platform: Path | None = InputOptions.platform
    site: Path | None = option("Site file; 'default' is the built-in site. [default: default]")
    workload: tuple[Path, ...] = option("Batsim workload (JSON) to forecast the demand from.", "-w")
    demand: Path | None = option(
        "Demand instead of a workload: powers (CSV or events), or their quantiles (CSV: p10 p50 p90, or m1 m2"
        " m3)."
    )
    production: Path | None = option(
        "Production: external events (of 'generate power') or CSV.", "--production", "--power"
    )
    production_forecast: str | None = option(
        "Instead of --production: the prediction of a forecast at time 0, as for --forecast of 'simulate': "
        "a forecast file, 'predictor:FILE', 'perfect:EVENTS' or 'none'.",
        metavar="SOURCE",
    )
    out: Path | None = written_option("Plan file to write.", "-o", "--output")
    windows: int | None = option(
        "Number of planning windows of the site (72 h each by default) to plan in sequence. [default: 1; "
        "with --season alone, as many as the production covers]",
        type=WINDOWS,
    )
    season: str | None = option(
        "Without a file: write a coarse seasonal plan of the whole horizon to --output, which stores "
        "hydrogen for later. With the file of a seasonal plan: use its hydrogen targets for the windows.",
        is_flag=False,
        flag_value=_WHOLE,
        type=str,
        metavar="[FILE]",
    )
    season_step: float = option(
        "With --season alone: length of the steps, such as 1h or 1d.",
        type=parsed(parse_duration),
        default="1h",
        metavar="TIME",
    )
    season_end: float | None = option(
        "With --season alone: least hydrogen at the end of the horizon. [default: the level at its start]",
        type=Number(0),
        metavar="KG",
    )
    other_year: tuple[Path, ...] = option(
        "With --season alone: production of another possible year; each year is planned separately, and "
        "the targets are the mean levels."
    )
    surplus: Surplus = option_of(PlanOptions, "surplus")
    runs: Literal["profile", "walltime"] = option(
        "Expected run time of jobs: from their profiles, or their walltimes.", default="profile"
    )
    forecast_step_s: float = option_of(
        PlanOptions,
        "forecast_step_s",
        "--forecast-step",
        type=parsed(parse_duration),
        show_default=False,
        metavar="TIME",
    )
    load_uncertainty_pct: tuple[float, float] = _uncertainty_option("load")
    renew_uncertainty_pct: tuple[float, float] = _uncertainty_option("renew")
    minimum_on_s: float = option_of(PlanOptions, "minimum_on_s", "--minimum-on", metavar="S")
    unit: str | None = option(
        "Unit of CSV columns whose name states none: W, kW, MW, or kWh for the energy of each row.",
        metavar="UNIT",
    )
    time_limit_s: float | None = option_of(PlanOptions, "time_limit_s", "--time-limit", metavar="S")
    master_host: str = InputOptions.master_host


class _Exports(CommandOptions):
    figure: Path | None = written_option("Plot the plan (PNG, SVG or PDF).")
    export_json: Path | None = written_option("Also write everything as JSON.")
    export_csv: Path | None = written_option("Also write one row per step as CSV.")
    quiet: bool = ProgressOptions.quiet
    verbose: bool = ProgressOptions.verbose


@click.group(cls=HelpfulGroup, invoke_without_command=True)
@with_options(_PlanOptions)
@with_options(_Exports)
@click.pass_context
def plan(context: click.Context, given: _PlanOptions, exports: _Exports) -> None:
    """Compute a plan for power and servers from forecasts of demand and production.

    The demand comes from a workload (each job's energy over its expected run) or from a file of powers;
    the production from a file of powers, or from a forecast. If the demand cannot be met, the plan first
    minimizes the largest unmet share of any step (the relax factor rf), then the total unmet energy.

    \b
      beasy-sched generate platform --servers gros:50 -o platform.xml
      beasy-sched generate workload --synthetic --seed 1 -o workload.json
      beasy-sched generate power --synthetic --seed 1 --pv-kw 15 --wind-kw 8 -o power.txt
      beasy-sched plan -p platform.xml -w workload.json --production power.txt \\
          -o plan.msgpack --figure plan.png
      beasy-sched plan show plan.msgpack
      beasy-sched plan -p platform.xml -w workload.json --site site.toml \\
          --production-forecast predictor:training.csv -o plan.msgpack

    \b
    Seasonal plan, which stores summer hydrogen for winter:
      beasy-sched plan --season -p platform.xml -w year.json --site site.toml \\
          --production year.txt -o season.msgpack --figure season.png
      beasy-sched plan --season season.msgpack -p platform.xml -w year.json --site site.toml \\
          --production year.txt --windows 100 -o plan.msgpack
    """
    if context.invoked_subcommand is not None:
        return
    platform, out = _required(given)
    sources = _sources(given, platform)
    if given.season == _WHOLE:
        _plan_season(given, exports, out, sources)
    else:
        _plan_windows(given, exports, out, sources)


def _plan_windows(given: _PlanOptions, exports: _Exports, out: Path, sources: PlanSources) -> None:
    """Plan the windows in sequence, write the plan and show it."""
    from beasy_sched.planner.offline import plan_from_files

    if given.other_year or given.season_end is not None:
        raise ConfigError("--other-year and --season-end require --season without a file")
    options = made_of(PlanOptions, vars(given)).settled()
    with progress_bar("windows planned", quiet=exports.quiet) as report:
        plans = plan_from_files(sources, options, report)
    _finish(plans, exports, out)


def _required(given: _PlanOptions) -> tuple[Path, Path]:
    """Return the platform's and the plan's file. Raises ConfigError for missing or conflicting options."""
    production = given.production or given.production_forecast
    if given.platform is None or production is None or given.out is None:
        needed = {"--platform": given.platform, "--production": production, "--output": given.out}
        missing = " and ".join(name for name, value in needed.items() if value is None)
        raise ConfigError(f"plan requires {missing}; see beasy-sched plan --help")
    if given.production is not None and given.production_forecast is not None:
        raise ConfigError("give only one of --production and --production-forecast")
    if bool(given.workload) == (given.demand is not None):
        raise ConfigError("plan requires a demand: give one of --workload and --demand")
    return given.platform, given.out


def _plan_season(given: _PlanOptions, exports: _Exports, out: Path, sources: PlanSources) -> None:
    """Plan the whole horizon coarsely, write it and show it."""
    from beasy_sched.planner.offline import season_from_files

    with progress_bar("years planned", quiet=exports.quiet) as report:
        season = season_from_files(
            sources,
            given.season_step,
            given.windows,
            least_end_kg=given.season_end,
            time_limit_s=given.time_limit_s,
            report=report,
        )
    _finish_season(season, exports, out)


def _sources(given: _PlanOptions, platform: Path) -> PlanSources:
    """Return the inputs of the plan that the options name. Raises ConfigError."""
    from beasy_sched.formats.site_file import DEFAULT_SITE
    from beasy_sched.planner.offline import PlanSources

    if given.season and not Path(given.season).exists():
        raise ConfigError(
            f"--season {given.season}: no such file; to create it, give --season without a file and"
            f" --output {given.season}"
        )
    return PlanSources(
        platform,
        given.site or DEFAULT_SITE,
        workloads=given.workload,
        demand=given.demand,
        production=given.production,
        production_forecast=given.production_forecast,
        windows=given.windows or 1,
        season=given.season or None,
        other_years=given.other_year,
        walltimes=given.runs == "walltime",
        unit=given.unit,
        master_host=given.master_host,
        tell=_tell,
    )


def _tell(kind: str, text: str) -> None:
    click.echo(f"{kind}: {text}", err=True)


class _ShowOptions(CommandOptions):
    as_json: bool = option("Print the whole plan as JSON, as written by --export-json.", "--json")


@plan.command()
@click.argument("file", type=FILE)
@with_options(_ShowOptions)
@with_options(_Exports)
def show(given: _ShowOptions, exports: _Exports, file: Path) -> None:
    """Print the contents of a plan file, and export it; a seasonal plan by month."""
    from beasy_sched.formats.plan_file import SEASON_FORMAT, json_text, read_plans, read_season, season_json

    if SEASON_FORMAT.describes(file):
        season = read_season(file)
        if given.as_json:
            click.echo(season_json(season), nl=False)
            exports.quiet = True
        _finish_season(season, exports)
        return
    plans = read_plans(file)
    if given.as_json:
        click.echo(json_text(plans), nl=False)
        exports.quiet = True
    _finish(plans, exports)


def _finish(plans: PlanStore, exports: _Exports, out: Path | None = None) -> None:
    """Write the plan and the requested exports, all files or none; show it, and print their names."""
    from beasy_sched.formats.file_set import together
    from beasy_sched.formats.plan_file import csv_lines, json_text, write_plans

    with together():
        if out is not None:
            write_plans(out, plans)
        _export(plans, exports, json_text, csv_lines, "plan")
    if not exports.quiet:
        from beasy_sched.outputs.tables import plan_rows, print_rows

        print_rows([*plan_rows(plans)])
        print_written(out, exports.export_json, exports.export_csv, exports.figure)


def _finish_season(season: Season, exports: _Exports, out: Path | None = None) -> None:
    """Write and show a coarse plan, as `_finish` does."""
    from beasy_sched.formats.file_set import together
    from beasy_sched.formats.plan_file import season_csv_lines, season_json, write_season
    from beasy_sched.outputs.season_table import season_lines

    with together():
        if out is not None:
            write_season(out, season)
        _export(season, exports, season_json, season_csv_lines, "seasonal plan")
    if not exports.quiet:
        click.echo("\n".join(season_lines(season)))
        print_written(out, exports.export_json, exports.export_csv, exports.figure)


def _export(
    what: _Planned,
    exports: _Exports,
    json_of: Callable[[_Planned], str | bytes],
    csv_of: Callable[[_Planned], Iterable[str]],
    drawn: str,
) -> None:
    """Write a plan in the requested formats; ``drawn`` is the name of its drawing."""
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.plugin import drawing

    if exports.export_json is not None:
        write_atomic(exports.export_json, json_of(what))
    if exports.export_csv is not None:
        write_atomic(exports.export_csv, csv_of(what))
    if exports.figure is not None:
        write_atomic(exports.figure, drawing(drawn)(what, exports.figure.suffix))
