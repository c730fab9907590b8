"""``beasy-sched report``: a self-contained HTML report of runs or a campaign."""

from __future__ import annotations

from pathlib import Path

import click

from beasy_sched.cli.options import (
    CommandOptions,
    option,
    with_options,
    written_option,
)
from beasy_sched.cli.progress import ProgressOptions, progress_bar
from beasy_sched.units import some_of

_MOST_NAMED = 5


class _ReportOptions(CommandOptions):
    out: Path = written_option("HTML file to write.", "-o", "--output", required=True)
    plan: Path | None = option("Plan that the runs followed, used to mark steps at risk and storage limits.")
    title: str | None = option("Heading of the page (default: the runs' names).", metavar="TEXT")
    quiet: bool = ProgressOptions.quiet
    verbose: bool = ProgressOptions.verbose


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN ...]")
@with_options(_ReportOptions)
def report(given: _ReportOptions, runs: tuple[str, ...]) -> None:
    """Write a self-contained HTML report of runs or a campaign, for any browser.

    RUN is an output prefix (-o), a folder of runs, or the folder of a campaign. For one run, the report shows
    outcomes, the power balance, planned and actual storage levels, servers and jobs, and the queue; for
    several, also a comparison; for a campaign, the policies by scenario, with intervals over its runs.
    Charts whose data are missing are omitted, with the reason. If several RUNs are given, such as by out/*,
    arguments that are not runs are skipped.

    \b
      beasy-sched simulate -p platform.xml -w workload.json --events power.txt --site default \\
          --policy easy -o out/easy
      beasy-sched report out/easy -o easy.html
      beasy-sched report out/easy out/beasy --plan plan.msgpack -o both.html
      beasy-sched report out/campaign -o campaign.html
    """
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.plugins.reports.pages import page_of_folder, report_pieces
    from beasy_sched.run.results import runs_among

    if str(given.out) == "-":
        raise click.UsageError("-o: a report must be written to a file, such as report.html")
    shown_runs, others = runs_among(runs, counts=page_of_folder)
    if others and not given.quiet:
        click.echo(f"warning: skipped, because they are not runs: {some_of(others, _MOST_NAMED)}", err=True)
    with progress_bar("runs read", quiet=given.quiet) as report:
        pieces = report_pieces(shown_runs, plan=given.plan, title=given.title, report=report)
    write_atomic(given.out, pieces)
    if not given.quiet:
        # A device or pipe has no size.
        size = f" ({given.out.stat().st_size / 1e6:.1f} MB)" if given.out.is_file() else ""
        click.echo(f"wrote {given.out}{size}", err=True)
