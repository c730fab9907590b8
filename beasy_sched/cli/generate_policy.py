"""``beasy-sched generate policy``: a policy class to begin with, and its test."""

from __future__ import annotations

from pathlib import Path

import click

from beasy_sched.cli.options import CommandOptions, option, with_options
from beasy_sched.generate.policy import class_name, write_policy


class _PolicyOptions(CommandOptions):
    output: Path = option(
        "The folder to write to.",
        "-o",
        "--output",
        type=click.Path(file_okay=False, path_type=Path),
        default=".",
        metavar="DIR",
    )
    quiet: bool = option("Do not report what was written.", "-q")


@click.command()
@click.argument("name", metavar="NAME")
@with_options(_PolicyOptions)
def policy(given: _PolicyOptions, name: str) -> None:
    """Write NAME.py, a policy of your own to begin with, and NAME_test.py.

    The policy works: it starts the shortest jobs first. Its comments say what may be added. The test runs it
    through 100 small data centres drawn at random, and checks what must hold in every run. No file is
    overwritten.

    \b
      beasy-sched generate policy shortest_first
      beasy-sched simulate -p platform.xml -w workload.json --policy shortest_first:ShortestFirst
      python shortest_first_test.py          # or pytest shortest_first_test.py
    """  # fmt: skip
    for path in write_policy(name, given.output):
        if not given.quiet:
            click.echo(f"wrote {path}", err=True)
    if not given.quiet:
        where = "" if given.output == Path() else f"from {given.output}, "
        click.echo(f"to run it: {where}beasy-sched simulate ... --policy {name}:{class_name(name)}", err=True)
