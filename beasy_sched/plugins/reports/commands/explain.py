"""``beasy-sched explain``: explain the decisions of a run."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import click

from beasy_sched.cli.options import COUNT, CommandOptions, Whole, option, parsed, with_options

if TYPE_CHECKING:
    from beasy_sched.plugins.reports.story import Story


def _moment(text: str) -> float:
    from beasy_sched.outputs.quantities import parse_moment

    return parse_moment(text)


class _ExplainOptions(CommandOptions):
    job: str | None = option("Explain this job (id with or without the workload's name, w0!).", metavar="ID")
    at: float | None = option(
        "Explain the step that contains this time: seconds, 1d6h, or '1d 06:30:00'.",
        metavar="TIME",
        type=parsed(_moment),
    )
    killed: bool = option("Explain every kill.")
    longest_waits: int | None = option(
        "Explain the N longest waits (20 if N is omitted).",
        is_flag=False,
        flag_value=20,
        type=COUNT,
        metavar="[N]",
    )
    host: int | None = option(
        "Explain when and why this host (by its id) was on, asleep or lost.", type=Whole(0), metavar="ID"
    )
    as_json: bool = option("Print everything as JSON.", "--json")


@click.command()
@click.argument("run", metavar="RUN", type=click.Path())
@with_options(_ExplainOptions)
def explain(given: _ExplainOptions, run: str) -> None:
    """Explain a run: why jobs waited, started or were killed, and why servers changed state.

    Without an option, it prints an overview: why jobs waited and for how long, which waited longest, which
    were killed and why, and when energy was short.

    RUN is the output prefix (-o) of a run, or a folder that contains one run. The explanation is based
    on the run's files: the decision log, and jobs.csv and energy_trace.csv if they exist.

    \b
    beasy-sched explain out/run
    beasy-sched explain out/run --job 17
    beasy-sched explain out/run --at 1d6h
    beasy-sched explain out/run --killed
    beasy-sched explain out/run --longest-waits 50
    beasy-sched explain out/run --host 3
    """  # fmt: skip
    from beasy_sched.plugins.reports.pages import explain as explained

    one_of = (given.job, given.at, given.killed or None, given.longest_waits, given.host)
    if sum(each is not None for each in one_of) > 1:
        raise click.UsageError(
            "give only one of --job ID, --at TIME, --killed, --longest-waits and --host ID"
        )
    story = explained(
        run,
        job=given.job,
        at=given.at,
        killed=given.killed,
        longest_waits=given.longest_waits,
        host=given.host,
    )
    if given.as_json:
        click.echo(json.dumps(story.data, indent=2))
    else:
        _print(story)


def _print(story: Story) -> None:
    """Print an explanation wrapped to the terminal, with headings in bold on one."""
    from beasy_sched.plugins.reports.story import STORY_WIDTH

    width = min(shutil.get_terminal_size((STORY_WIDTH, 24)).columns, STORY_WIDTH)
    if not sys.stdout.isatty():
        click.echo("\n".join(line for _, line in story.lines(width)))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for heading, line in story.lines(width):
        console.print(Text(line, style="bold" if heading else ""))
