"""``beasy-sched campaign``: many runs in parallel, and their table."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from beasy_sched.cli import LazyGroup
from beasy_sched.cli.options import (
    FILE,
    FOLDER,
    CommandOptions,
    Whole,
    option,
    parsed,
    print_line,
    print_written,
    width,
    with_options,
    written_option,
)
from beasy_sched.cli.progress import ProgressOptions, counting, progress_bar
from beasy_sched.declared import check_choice
from beasy_sched.errors import BeasyError, ConfigError, Interrupted, machine_error
from beasy_sched.plugins.campaigns.parts import CampaignPart
from beasy_sched.units import counted, parse_duration

if TYPE_CHECKING:
    from beasy_sched.plugins.campaigns.campaign import Outcome
    from beasy_sched.plugins.campaigns.comparisons.scenarios import PairedResults
    from beasy_sched.plugins.campaigns.sizing import SizeAnswer
    from beasy_sched.plugins.campaigns.tasks import Keep
    from beasy_sched.plugins.campaigns.workers import Executor
    from beasy_sched.plugins.reports.comparison import Figure


def _time_limit(text: str) -> float:
    if text == "none":
        return math.inf
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise ValueError(f"{error}; or none") from None
    if seconds == 0:
        raise ValueError("expected more than 0 s, or none")
    return seconds


class _CampaignOptions(CommandOptions):
    out: Path = option("Folder of the campaign.", "-o", "--output", type=FOLDER, required=True, metavar="DIR")
    quick: bool = option("Quick trial: 24 h, fewer jobs, two tuples, one seed.")
    keep_traces: bool = option("Keep the energy trace of each run, in DIR/traces.")
    keep_runs: bool = option("Keep all files of each run, in DIR/runs.")


def processors_here() -> int:
    """Return the number of processors available to this process."""
    from beasy_sched.plugins.campaigns.workers import processors

    return processors()


class ExecutorOptions(CommandOptions):
    """Execution of runs: processes or Dask, and time limits."""

    executor: Literal["processes", "dask"] = option(
        "Executor of the runs: processes on this machine, or the workers of a Dask cluster.",
        default="processes",
    )
    scheduler: str | None = option("Address of the Dask cluster, such as tcp://host:8786.", metavar="ADDRESS")
    limit_s: float | None = option(
        "Stop a run (or plan) that takes longer; it counts as failed: 90s, 12h or none. Not with dask.",
        "--time-limit",
        metavar="TIME",
        type=parsed(_time_limit),
        show_default="6h",
    )
    retry_failed: bool = option("Rerun failed runs.")


class PartOption(CommandOptions):
    """The part of the runs that is executed."""

    part: CampaignPart | None = option(
        "Execute only part I of N of the runs, such as 3/10, for job arrays. Parts may run at the same time"
        " on computers that share the folder.",
        type=parsed(CampaignPart.of),
        metavar="I/N",
    )


class JobsOption(CommandOptions):
    """Number of parallel runs."""

    jobs: int = option(
        "Number of runs executed in parallel.",
        "-j",
        type=Whole(1, 1_000_000),
        default=processors_here,
        show_default="all cores",
    )


class WorkerOptions(ExecutorOptions):
    """Execution of the runs of a campaign."""

    jobs: int = JobsOption.jobs
    allowed: tuple[str, ...] = option(
        "Allow scenarios to import this policy; scenario files cannot import code on their own.",
        "--allow-policy",
        metavar="MODULE:CLASS",
    )
    quiet: bool = ProgressOptions.quiet
    verbose: bool = ProgressOptions.verbose


class _RunOptions(WorkerOptions, PartOption):
    """Execution of all runs of a campaign, or a part of them."""


_COMMANDS = {
    "run": __name__,
    "resume": __name__,
    "status": __name__,
    "compare": __name__,
    "figure": __name__,
    "bundle": "beasy_sched.plugins.campaigns.commands.campaign_bundle",
    "rerun": "beasy_sched.plugins.campaigns.commands.campaign_bundle",
}
"""The commands and their modules."""


@click.group(cls=LazyGroup, lazy={"campaign": _COMMANDS})
def campaign() -> None:
    """Run scenarios in parallel, for every policy, guard setting and seed.

    \b
      beasy-sched generate scenario best-begin -o best-begin.toml
      beasy-sched campaign run best-begin.toml -o out/begin
      beasy-sched campaign status out/begin

    A campaign that was interrupted or killed continues with 'campaign resume' (or the same 'campaign run')
    and produces the same table, byte for byte.
    """


@click.command()
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO...")
@with_options(_CampaignOptions)
@with_options(_RunOptions)
def run(given: _CampaignOptions, how: _RunOptions, scenarios: tuple[str, ...]) -> None:
    """Run scenario files (or built-in scenarios, by name) into DIR/runs.parquet."""
    from beasy_sched.plugins.campaigns.campaign import begin
    from beasy_sched.plugins.campaigns.scenario_file import find_scenario

    chosen = [find_scenario(name, allowed=how.allowed) for name in scenarios]
    keep: Keep = "everything" if given.keep_runs else "trace" if given.keep_traces else "nothing"
    begin(chosen, given.out, small=given.quick, keep=keep)
    _go_on(given.out, how)


@click.command()
@click.argument("folder", type=FOLDER, metavar="DIR")
@with_options(_RunOptions)
def resume(how: _RunOptions, folder: Path) -> None:
    """Continue an interrupted campaign."""
    _go_on(folder, how)


class _StatusOptions(CommandOptions):
    as_json: bool = option("Print JSON.", "--json")


@click.command()
@click.argument("folder", type=FOLDER, metavar="DIR")
@with_options(_StatusOptions)
def status(given: _StatusOptions, folder: Path) -> None:
    """Show the progress of a campaign, the estimated time left, and failures."""
    from beasy_sched.plugins.campaigns.status import status_json, status_lines, status_of

    progress = status_of(folder)
    if given.as_json:
        click.echo(json.dumps(status_json(progress), indent=2, allow_nan=False))
        return
    for line in status_lines(progress):
        click.echo(line)


class TableOptions(CommandOptions):
    """Output options of a comparison."""

    markdown: bool = option("Print the tables in Markdown.")
    figure: Path | None = written_option(
        "Plot the differences, with their intervals, into a file: png, svg or pdf.", type=FILE, metavar="FILE"
    )
    measures: tuple[str, ...] = option(
        "Measure to plot with --figure; may be repeated.",
        "--measure",
        metavar="NAME",
        show_default="finished, killed, lost, slowdown, and cost and missed if available",
    )


class _CompareOptions(TableOptions):
    against: str | None = option(
        "Policy that the others are compared with.", metavar="LABEL", show_default="the first"
    )
    policies: tuple[str, ...] = option(
        "Compare only this policy; may be repeated.", "--policy", metavar="LABEL"
    )
    scenarios: tuple[str, ...] = option(
        "Compare only in this scenario; may be repeated.", "--scenario", metavar="NAME"
    )


@click.command()
@click.argument("folder", type=FOLDER, metavar="DIR")
@with_options(_CompareOptions)
def compare(given: _CompareOptions, folder: Path) -> None:
    """Compare the policies of a campaign: means, paired differences, intervals, permutation tests.

    \b
      beasy-sched campaign compare out/begin --against beasy
      beasy-sched campaign compare out/begin --against beasy --policy easy --figure easy.pdf

    The campaign need not be complete: executions that are finished for all policies are compared.
    'beasy-sched compare SCENARIO...' runs policies of your choice, and prints the same tables.
    """
    from beasy_sched.plugins.campaigns.comparisons.scenarios import paired_results

    results = paired_results(folder, given.against, given.policies, given.scenarios)
    show_paired(results, given)


def check_tables(given: TableOptions) -> None:
    """Raise UsageError or BeasyError if the figure of a comparison cannot be drawn or written."""
    from beasy_sched.plugins.reports.drawing import check_figure

    if given.measures and given.figure is None:
        raise click.UsageError("--measure requires --figure FILE.")
    if given.figure is not None:
        check_figure(given.figure)


def show_paired(results: PairedResults, given: TableOptions) -> None:
    """Print a comparison's tables, and plot its figure. Raises ConfigError, before it prints."""
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.plugins.campaigns.paired_figure import draw_differences
    from beasy_sched.plugins.campaigns.text_tables import markdown_of

    check_tables(given)
    if given.figure is not None:
        drawn = draw_differences(results.blocks, results.against, given.figure.suffix, given.measures)
        write_atomic(given.figure, drawn)
    if given.markdown:
        click.echo(markdown_of(results.tables), nl=False)
    else:
        for table in results.tables:
            table.print(width(120))
    print_written(given.figure)


class _FigureOptions(CommandOptions):
    out: Path = written_option("File to write: png, svg or pdf.", "-o", "--output", required=True)
    scenario: str | None = option("Scenario to plot, if there are several.", metavar="NAME")
    guard: str | None = option("Guard setting to plot, if there are several.", metavar="LABEL")
    policies: tuple[str, ...] = option(
        "Policy to plot; may be repeated.", "--policy", metavar="LABEL", show_default="all"
    )
    measures: tuple[str, ...] = option(
        "Column of the table to plot; may be repeated.",
        "--measure",
        metavar="COLUMN",
        show_default="finished work and jobs, kills, unserved energy, lowest state of charge",
    )
    wanted_pct: float = option(
        "Share of finished work or jobs that a line marks, in percent.", "--wanted", default=99.0
    )
    quiet: bool = option("Do not list the written files.", "-q")


@click.command()
@click.argument("folder", type=FOLDER, metavar="DIR")
@with_options(_FigureOptions)
def figure(given: _FigureOptions, folder: Path) -> None:
    """Plot a campaign that sweeps sizes: maps over two axes, lines over one.

    \b
      beasy-sched campaign figure out/sweep -o map.png
      beasy-sched campaign figure out/sweep --policy easy --measure finished_pct --wanted 95 -o map.svg

    Cells are means over seeds, and pairs of workload and production. 'beasy-sched report' has the same maps
    in one HTML file.
    """
    from beasy_sched.formats.atomic import write_atomic

    write_atomic(given.out, _sweep_picture(given, folder))
    print_written(given.out, quiet=given.quiet)


def _sweep_picture(given: _FigureOptions, folder: Path) -> bytes:
    """Return the content of the figure file. Raises ConfigError and InputError."""
    from beasy_sched.plugins.campaigns.campaign_html import swept_axes
    from beasy_sched.plugins.campaigns.campaign_table import read_campaign
    from beasy_sched.plugins.campaigns.sweep_charts import draw_sweep

    table = read_campaign(folder)
    swept = {each.name: each for each in table.manifest.parsed() if each.sweep}
    if not swept:
        raise ConfigError(f"{folder}: no scenario of this campaign has a section [sweep]")
    chosen = swept[_one_of("--scenario", given.scenario, [*swept])]
    axes = swept_axes(chosen)
    if len(axes) > 2:
        raise ConfigError(
            f"the sweep has {len(axes)} axes, a figure at most two: 'beasy-sched report' shows all of them"
        )
    guards = {each.label: each for each in chosen.guards}
    setting = guards[_one_of("--guard", given.guard, [*guards])]
    labels = [policy.label for policy in chosen.policies]
    wanted = [_one_of("--policy", policy, labels) for policy in given.policies] or labels
    runs = table.runs
    runs = runs[
        (runs["status"] == "ok")
        & (runs["scenario"] == chosen.name)
        & (runs["guard"] == setting.mode.value)
        & (runs["veto"] == setting.veto)
        & runs["policy"].isin(wanted)
    ]
    if runs.empty:
        raise ConfigError(f"{folder}: found no successful run of these")
    return draw_sweep(
        runs,
        axes,
        _figures(given.measures),
        title=f"{chosen.name}, guard {setting.label}",
        wanted_pct=given.wanted_pct,
        suffix=given.out.suffix,
    )


def _one_of(option: str, given: str | None, choices: Sequence[str]) -> str:
    if given is None and len(choices) == 1:
        return choices[0]
    if given is None:
        raise ConfigError(f"{option}: found nothing, expected one of {', '.join(choices)}")
    check_choice(option, given, choices)
    return given


def _figures(measures: Sequence[str]) -> Sequence[Figure]:
    """Return the measure for each column. Raises ConfigError for a column without numbers."""
    from beasy_sched.plugins.campaigns.campaign_table import COLUMNS
    from beasy_sched.plugins.campaigns.sweep_charts import SWEEP_FIGURES
    from beasy_sched.plugins.reports.comparison import MEASURES, Figure

    figures = {**MEASURES, **{figure.column: figure for figure in SWEEP_FIGURES}}
    columns = {column.name: column for column in COLUMNS if column.kind in ("number", "integer")}
    for name in measures:
        if name not in columns:
            raise ConfigError(
                f"--measure: found {name!r}, expected a column of numbers, such as {next(iter(figures))}"
            )
    return [
        figures.get(name) or Figure(name, columns[name].unit, column=name) for name in measures
    ] or SWEEP_FIGURES


def _go_on(folder: Path, how: _RunOptions) -> None:
    from beasy_sched.plugins.campaigns.campaign import go_on

    with (
        unless_stopped(f"beasy-sched campaign resume {shlex.quote(str(folder))}"),
        progress_bar("runs", quiet=how.quiet) as report,
    ):
        outcome = go_on(
            folder,
            executor_of(how, how.jobs),
            progress=counting(report),
            retry_failed=how.retry_failed,
            allowed=how.allowed,
            part=how.part,
        )
    _tell(outcome, how.quiet)


@contextlib.contextmanager
def unless_stopped(again: str | None) -> Iterator[None]:
    """Print which results are kept, and exit, if a signal or a lack of resources stops the runs.

    ``again`` is the command that continues; None if nothing is kept.
    """
    try:
        yield
    except KeyboardInterrupt:
        _leave(128 + signal.SIGINT, again)
    except Interrupted as stop:
        _leave(128 + stop.number, again)
    except (BeasyError, OSError, MemoryError) as error:
        if (lack := machine_error(error)) is None:
            raise
        click.echo(f"beasy-sched: this computer, or a worker, is out of resources: {lack}", err=True)
        _leave(lack.exit_code, again)


def _leave(code: int, again: str | None) -> NoReturn:
    """Print how to continue, and exit while the exception is handled; else a signal's counts as dropped."""
    kept = "nothing is kept" if again is None else f"finished runs are kept. To continue: {again}"
    click.echo(f"stopped; {kept}", err=True)
    sys.exit(code)


def executor_of(how: ExecutorOptions, jobs: int) -> Executor:
    """Return the executor of the runs, with ``jobs`` in parallel on this computer.

    Raises ConfigError and a usage error.
    """
    from beasy_sched.plugins.campaigns.dask_cluster import DaskCluster
    from beasy_sched.plugins.campaigns.processes import Processes
    from beasy_sched.plugins.campaigns.workers import TIME_LIMIT_S

    if how.executor == "dask":
        if how.scheduler is None:
            raise click.UsageError("--executor dask needs --scheduler ADDRESS.")
        if how.limit_s is not None:
            raise click.UsageError("--time-limit requires --executor processes.")
        return DaskCluster(how.scheduler)
    if how.scheduler is not None:
        raise click.UsageError("--scheduler requires --executor dask.")
    return Processes(jobs, TIME_LIMIT_S if how.limit_s is None else how.limit_s)


def print_warnings(outcome: Outcome | SizeAnswer) -> None:
    """Print the warnings of the runs."""
    for text, count in outcome.warnings.items():
        print_line(f"warning: {count} of {counted(outcome.executed, 'run')}: {text}")


def left_text(runs: int) -> str:
    """Return the number of runs left to other parts of a campaign, in words."""
    return f"{counted(runs, 'run')} {'is' if runs == 1 else 'are'} left to other parts"


def _tell(outcome: Outcome, quiet: bool) -> None:
    from beasy_sched.plugins.campaigns.campaign_table import result_lines

    if not quiet:
        print_warnings(outcome)
        for line in result_lines(outcome.folder) if not outcome.left else ():
            click.echo(line)
    if outcome.failed:
        which = f"{outcome.failed} of {counted(outcome.runs, 'run')} failed"
        click.echo(
            f"{which}; for the reasons: beasy-sched campaign status {shlex.quote(str(outcome.folder))}",
            err=True,
        )
    if not quiet:
        ran = counted(outcome.executed, "run") if outcome.executed else "all runs were already finished"
        wrote = f"wrote {outcome.folder / 'runs.parquet'}"
        rest = left_text(outcome.left) if outcome.left else wrote
        click.echo(f"{ran}; {rest}", err=True)
    if outcome.failed:
        sys.exit(1)
