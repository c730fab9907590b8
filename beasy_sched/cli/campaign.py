"""``beasy-sched campaign``: many runs, side by side, and their table."""

from __future__ import annotations

import math
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from beasy_sched.cli.options import parsed, progress_bar, quiet_option, with_options
from beasy_sched.errors import BeasyError, Interrupted, machine_error
from beasy_sched.units import parse_duration

if TYPE_CHECKING:
    from beasy_sched.campaign.campaign import Outcome
    from beasy_sched.campaign.workers import Executor

_FOLDER = click.Path(file_okay=False, path_type=Path)

_TIME_LIMIT_S = 6 * 3600.0


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


_how_options = with_options(
    click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1),
        default=lambda: len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        show_default="all cores",
        help="How many runs at a time, each in its own process.",
    ),
    click.option(
        "--executor",
        type=click.Choice(["processes", "dask"]),
        default="processes",
        help="Processes of this machine, or the workers of a Dask cluster.",
    ),
    click.option(
        "--scheduler", metavar="ADDRESS", help="Address of the Dask cluster, such as tcp://host:8786."
    ),
    click.option(
        "--time-limit",
        "limit_s",
        metavar="TIME",
        type=parsed(_time_limit),
        show_default="6h",
        help="Stop a run (or plan) that takes longer; it counts as failed: 90s, 12h or none. Not with dask.",
    ),
    click.option(
        "--allow-policy",
        "allowed",
        multiple=True,
        metavar="MODULE:CLASS",
        help="Allow scenarios to import this policy: a file alone cannot cause code to be imported.",
    ),
    click.option("--retry-failed", is_flag=True, help="Run failed runs again."),
    quiet_option("No progress bar, no summary."),
)


@click.group()
def campaign() -> None:
    """Run scenarios in parallel: every policy, guard setting and seed of each.

    \b
      beasy-sched generate scenario best-begin -o best-begin.toml
      beasy-sched campaign run best-begin.toml -o out/begin
      beasy-sched campaign status out/begin

    A campaign that was interrupted, or even killed, continues with 'campaign resume' (or the same
    'campaign run') and produces the same table, byte for byte.
    """


@campaign.command()
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO...")
@click.option("-o", "--out", type=_FOLDER, required=True, metavar="DIR", help="The campaign's folder.")
@click.option("--quick", is_flag=True, help="Try it out: 24 h, fewer jobs, two tuples, one seed.")
@click.option("--keep-traces", is_flag=True, help="Keep the energy trace of each run, in DIR/traces.")
@click.option("--keep-runs", is_flag=True, help="Keep all files of each run, in DIR/runs.")
@_how_options
def run(
    scenarios: tuple[str, ...],
    out: Path,
    quick: bool,
    keep_traces: bool,
    keep_runs: bool,
    allowed: tuple[str, ...],
    **how: Any,
) -> None:
    """Run scenario files (or the scenarios that come with the program, by name) into DIR/runs.parquet."""
    from beasy_sched.campaign.campaign import begin
    from beasy_sched.campaign.scenario_file import find_scenario

    keep = "everything" if keep_runs else "trace" if keep_traces else "nothing"
    found = [find_scenario(name, allowed=allowed) for name in scenarios]
    begin(found, out, small=quick, keep=keep)  # type: ignore[arg-type]
    _go_on(out, allowed=allowed, **how)


@campaign.command()
@click.argument("folder", type=_FOLDER, metavar="DIR")
@_how_options
def resume(folder: Path, **how: Any) -> None:
    """Continue an interrupted campaign."""
    _go_on(folder, **how)


@campaign.command()
@click.argument("folder", type=_FOLDER, metavar="DIR")
def status(folder: Path) -> None:
    """Show the progress of a campaign, and what failed."""
    from beasy_sched.campaign.table import status_lines

    for line in status_lines(folder):
        click.echo(line)


def _go_on(folder: Path, *, allowed: tuple[str, ...], retry_failed: bool, quiet: bool, **where: Any) -> None:
    from beasy_sched.campaign.campaign import go_on

    try:
        with progress_bar("runs", quiet=quiet) as report:
            outcome = go_on(
                folder,
                _executor(**where),
                progress=None if report is None else lambda done, total: report(done / total),
                retry_failed=retry_failed,
                allowed=allowed,
            )
    except KeyboardInterrupt:
        _stopped(folder, 128 + signal.SIGINT)
    except Interrupted as stop:
        _stopped(folder, 128 + stop.number)
    except (BeasyError, OSError, MemoryError) as error:
        if (lack := machine_error(error)) is None:
            raise
        click.echo(f"beasy-sched: this machine, or a worker, is at its limit: {lack}", err=True)
        _stopped(folder, lack.exit_code)
    _tell(outcome, quiet)


def _executor(executor: str, jobs: int, scheduler: str | None, limit_s: float | None) -> Executor:
    if executor == "dask":
        if scheduler is None:
            raise click.UsageError("--executor dask needs --scheduler ADDRESS.")
        if limit_s is not None:
            raise click.UsageError("--time-limit goes with --executor processes.")
        from beasy_sched.campaign.workers import DaskCluster

        return DaskCluster(scheduler)
    if scheduler is not None:
        raise click.UsageError("--scheduler goes with --executor dask.")
    from beasy_sched.campaign.workers import Processes

    return Processes(jobs, _TIME_LIMIT_S if limit_s is None else limit_s)


def _stopped(folder: Path, code: Any) -> NoReturn:
    click.echo(
        f"stopped; the runs that have ended are kept. To go on: beasy-sched campaign resume {folder}",
        err=True,
    )
    sys.exit(code)


def _tell(outcome: Outcome, quiet: bool) -> None:
    from beasy_sched.campaign.table import result_lines

    if not quiet:
        for text, count in outcome.warnings.items():
            click.echo(f"warning: {count} of {outcome.executed} runs: {text}", err=True)
        for line in result_lines(outcome.folder):
            click.echo(line)
    if outcome.failed:
        which = f"{outcome.failed} of {outcome.runs} runs failed"
        click.echo(f"{which}; to see why: beasy-sched campaign status {outcome.folder}", err=True)
    if not quiet:
        ran = f"{outcome.executed} runs" if outcome.executed else "nothing was left to run"
        click.echo(f"{ran}; wrote {outcome.folder / 'runs.parquet'}", err=True)
    if outcome.failed:
        sys.exit(1)
