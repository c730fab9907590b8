"""``beasy-sched report``: one HTML file that shows what runs came to."""

from __future__ import annotations

from pathlib import Path

import click

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN ...]")
@click.option(
    "-o", "--output", "out", type=_FILE, required=True, metavar="FILE", help="The HTML file to write."
)
@click.option(
    "--plan",
    type=_FILE,
    metavar="FILE",
    help="The plan that the runs followed: marks its dangerous steps and the storages' limits.",
)
@click.option("--title", metavar="TEXT", help="Heading of the page (default: the runs' names).")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar, no word on what was written.")
def report(runs: tuple[str, ...], out: Path, plan: Path | None, title: str | None, quiet: bool) -> None:
    """Show runs in one HTML file that opens in any browser, without a network.

    RUN is the prefix that -e was given, or a folder of runs. Of one run the report shows the outcomes, the
    power balance, the storages planned and real, servers and jobs, the queue; of several also how they
    compare. What a run's files do not tell is left out, with a line that says why.

    \b
      beasy-sched simulate -p platform.xml -w workload.json --events power.txt --site default \\
          --policy easy -e out/easy
      beasy-sched report out/easy -o easy.html
      beasy-sched report out/easy out/beasy --plan plan.msgpack -o both.html
    """
    from beasy_sched.cli.progress import progress_bar
    from beasy_sched.formats.atomic import write_atomic
    from beasy_sched.formats.plan_file import read_plans
    from beasy_sched.report.html import report_html

    plans = None if plan is None else read_plans(plan)
    with progress_bar("runs read", quiet=quiet) as tell:
        pieces = report_html(runs, plans=plans, title=title, report=tell)
        write_atomic(out, pieces)
    if not quiet:
        click.echo(f"wrote {out} ({out.stat().st_size / 1e6:.1f} MB)", err=True)
