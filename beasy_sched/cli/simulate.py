"""``beasy-sched simulate``: policy and simulator in one process."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import click

from beasy_sched.cli.options import input_options, progress_bar, quiet_option, run_options, settings_of
from beasy_sched.engine.power import EnergySource
from beasy_sched.errors import RunIncomplete


@click.command()
@input_options(required=True)
@click.option(
    "-e",
    "--export",
    "prefix",
    metavar="PREFIX",
    help="Write Batsim's CSV files and those of beasy-sched as PREFIX_... (default: no files).",
)
@quiet_option("No progress bar, no summary.")
@run_options
def simulate(
    platform: Path,
    workloads: tuple[Path, ...],
    events: tuple[Path, ...],
    prefix: str | None,
    master_host: str,
    metering: bool,
    quiet: bool,
    decisions: bool,
    record: Path | None,
    **shared: Any,
) -> None:
    """Run a policy on the embedded simulator, in one process.

    It exchanges the same messages and makes the same decisions as over ZeroMQ, but is much faster.

    \b
    beasy-sched generate platform --servers gros:50 -o platform.xml
    beasy-sched generate workload --synthetic -o workload.json
    beasy-sched simulate -p platform.xml -w workload.json --policy easy -e out/run
    """  # fmt: skip
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.outputs.tables import print_summary
    from beasy_sched.runner import run_in_process
    from beasy_sched.simulator import Inputs

    if not metering:
        if shared["site"] is not None and shared["energy"] is EnergySource.BATSIM:
            raise click.UsageError("with --no-metering, energy queries are disabled: add --energy model")
        shared["no_power_actions"] = True
    files = RunFiles(prefix, settings_of(**shared), decisions=decisions, record=record)
    inputs = Inputs(platform, workloads, events, master_host)
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    told: list[str] = []

    def warn(text: str) -> None:
        if not quiet and text not in told:
            click.echo(f"warning: {text}", err=True)
            told.append(text)

    with progress_bar("jobs submitted", quiet=quiet) as report:
        summary = run_in_process(inputs, files, report, metering=metering, warn=warn)
    for text in summary["warnings"]:
        warn(text)
    if not quiet:
        print_summary(summary)
        for path in files.written:
            click.echo(f"wrote {path}", err=True)
    if not summary["complete"]:
        raise RunIncomplete(f"the run is not complete: {summary['error'] or 'it ended early'}")
