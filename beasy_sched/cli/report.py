"""``beasy-sched report``: one HTML file that shows what runs or a campaign came to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from beasy_sched.cli.options import CommandOptions, option, progress_bar, with_options
from beasy_sched.errors import ConfigError

if TYPE_CHECKING:
    from beasy_sched.campaign.scenario import Scenario
    from beasy_sched.report.sweeps import SweptAxis


class _ReportOptions(CommandOptions):
    out: Path = option("The HTML file to write.", "-o", "--output", required=True)
    plan: Path | None = option(
        "The plan that the runs followed: marks its dangerous steps and the storages' limits."
    )
    title: str | None = option("Heading of the page (default: the runs' names).", metavar="TEXT")
    quiet: bool = option("No progress bar, no message about what was written.", "-q")


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN ...]")
@with_options(_ReportOptions)
def report(given: _ReportOptions, runs: tuple[str, ...]) -> None:
    """Show runs, or a campaign, in one HTML file that opens in any browser, without a network.

    RUN is the prefix given to -o, a folder of runs, or a campaign's folder. For one run the report shows
    the outcomes, the power balance, the storages planned and real, servers and jobs, the queue; of several
    also how they compare; of a campaign the policies, scenario by scenario, with intervals over its runs.
    What the files do not tell is left out, with a line that says why.

    \b
      beasy-sched simulate -p platform.xml -w workload.json --events power.txt --site default \\
          --policy easy -o out/easy
      beasy-sched report out/easy -o easy.html
      beasy-sched report out/easy out/beasy --plan plan.msgpack -o both.html
      beasy-sched report out/campaign -o campaign.html
    """
    from beasy_sched.formats.atomic import write_atomic

    if str(given.out) == "-":
        raise click.UsageError("-o: a report must be written to a file, such as report.html")
    write_atomic(given.out, _campaign(runs, given) if _is_campaign(runs) else _runs(runs, given))
    if not given.quiet:
        # A device or pipe has no size.
        size = f" ({given.out.stat().st_size / 1e6:.1f} MB)" if given.out.is_file() else ""
        click.echo(f"wrote {given.out}{size}", err=True)


def _runs(runs: tuple[str, ...], given: _ReportOptions) -> Iterator[str]:
    from beasy_sched.formats.plan_file import read_plans
    from beasy_sched.report.html import report_html

    plans = None if given.plan is None else read_plans(given.plan)
    with progress_bar("runs read", quiet=given.quiet) as tell:
        return report_html(runs, plans=plans, title=given.title, report=tell)


def _is_campaign(runs: tuple[str, ...]) -> bool:
    campaigns = [run for run in runs if (Path(run) / "campaign.json").is_file()]
    if campaigns and len(runs) > 1:
        raise ConfigError(f"{campaigns[0]} is a campaign: it cannot be shown together with other runs")
    return bool(campaigns)


def _campaign(runs: tuple[str, ...], given: _ReportOptions) -> Iterator[str]:
    from beasy_sched.campaign.table import read_campaign
    from beasy_sched.report.campaign_html import campaign_html
    from beasy_sched.report.page import check_installed

    if given.plan is not None:
        raise ConfigError("--plan is for single runs: a campaign has its own plans")
    check_installed()
    campaign = read_campaign(runs[0])
    return campaign_html(
        Path(runs[0]).resolve().name,
        campaign.runs,
        len(campaign.specs),
        title=given.title,
        sweeps={scenario.name: swept_axes(scenario) for scenario in campaign.manifest.parsed()},
    )


def swept_axes(scenario: Scenario) -> list[SweptAxis]:
    """Return the axes of a scenario's sweep, as reports name them."""
    from beasy_sched.campaign.sweep import AXES
    from beasy_sched.report.sweeps import SweptAxis

    return [SweptAxis(name, AXES[name].title) for name in scenario.sweep]
