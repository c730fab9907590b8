"""``beasy-sched simulate``: policy and simulator in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from beasy_sched.cli.options import (
    InputOptions,
    PlacedRunOptions,
    again,
    exporting,
    option,
    prefix_option,
    print_written,
    settings_of,
    watching,
    with_options,
    with_options_of_plugins,
)
from beasy_sched.cli.progress import ProgressOptions, progress_bar
from beasy_sched.errors import RunIncomplete
from beasy_sched.formats.run_files import OF_BATSIM, OF_SCHEDULER
from beasy_sched.model.choices import EnergySource


class _SimulateOptions(InputOptions):
    platform: Path = again(InputOptions.platform, required=True)
    workloads: tuple[Path, ...] = again(InputOptions.workloads, required=True)
    failures: Path | None = option(
        "Server failures (not available in Batsim): breakdowns and failed wake-ups (one JSON object per line;"
        " see docs/reference/files.md)."
    )
    prefix: str | None = prefix_option(
        "Write Batsim's CSV files and those of beasy-sched as PREFIX_... (default: no files).",
        (*OF_BATSIM, *OF_SCHEDULER),
    )
    as_json: bool = option("Print the summary as JSON.", "--json")
    quiet: bool = again(ProgressOptions.quiet, help="No progress, no summary, no warnings.")
    verbose: bool = ProgressOptions.verbose


@click.command()
@with_options(_SimulateOptions)
@with_options(PlacedRunOptions)
@with_options_of_plugins("followers")
def simulate(given: _SimulateOptions, how: PlacedRunOptions, *of_plugins: Any) -> None:
    """Run a policy on the embedded simulator, in one process.

    It exchanges the same messages and makes the same decisions as over ZeroMQ, but is much faster.

    \b
    beasy-sched generate platform --servers gros:50 -o platform.xml
    beasy-sched generate workload --synthetic -o workload.json
    beasy-sched simulate -p platform.xml -w workload.json --policy easy -o out/run
    """  # fmt: skip
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.outputs.tables import print_summary
    from beasy_sched.planner.replanner import with_own_inputs
    from beasy_sched.run.in_process import run_in_process
    from beasy_sched.run.repeating import InputsKeeper
    from beasy_sched.simulator import Inputs

    if not given.metering:
        if how.site is not None and how.energy is EnergySource.BATSIM:
            raise click.UsageError("with --no-metering, energy queries are disabled: add --energy model")
        how.no_power_actions = True
    if how.forecast is not None:
        from beasy_sched.formats.forecast_source import with_own_events

        how.forecast = with_own_events(how.forecast, given.events)
    settings = with_own_inputs(settings_of(how), given.workloads, given.events)
    files = RunFiles(given.prefix, settings, decisions=how.decisions, record=how.record)
    inputs = Inputs(given.platform, given.workloads, given.events, given.master_host, failures=given.failures)
    printed: list[str] = []

    def warn(text: str) -> None:
        if not given.quiet and text not in printed:
            click.echo(f"warning: {text}", err=True)
            printed.append(text)

    keeper = None if given.prefix is None else InputsKeeper(given.prefix, inputs, settings, given.metering)
    followers = [
        one for one in (keeper, *(options.follower(warn) for options in of_plugins)) if one is not None
    ]
    with (
        exporting(how.metrics, how.policy, quiet=given.quiet) as metrics,
        watching(how.watch, how.policy) as watch,
        progress_bar("jobs submitted", quiet=given.quiet or watch is not None) as report,
    ):
        if watch is not None:
            report = watch.progress
        summary = run_in_process(
            inputs,
            files,
            report,
            metering=given.metering,
            warn=warn,
            observers=(metrics, watch),
            followers=followers,
        )
    for text in summary.warnings:
        warn(text)
    if given.as_json:
        added = {name: value for follower in followers for name, value in follower.figures().items()}
        click.echo(summary.to_json(added))
    elif not given.quiet:
        print_summary(summary)
        for line in (line for follower in followers for line in follower.lines()):
            click.echo(line)
    print_written(*files.written, quiet=given.quiet)
    if not summary.complete:
        raise RunIncomplete(f"the run is incomplete: {summary.error or 'it ended early'}")
