"""``beasy-sched what-if``: a run continued from a moment as it was and as changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from beasy_sched.cli.options import (
    CommandOptions,
    Whole,
    known_policies,
    option,
    parsed,
    with_options,
    write_output,
    written_option,
)
from beasy_sched.outputs.quantities import parse_moment

if TYPE_CHECKING:
    from beasy_sched.plugins.foresee.what_if import ChangedComparison


def _hosts(text: str) -> Any:
    from beasy_sched.model.hosts import HostSet

    return HostSet.parse(text)


class _WhatIfOptions(CommandOptions):
    at: float = option(
        "Time of the change, such as 1d6h.", type=parsed(parse_moment), required=True, metavar="TIME"
    )
    policy: str | None = option(
        "Continue with another policy, with its default options.",
        metavar="NAME",
        shell_complete=known_policies,
    )
    lose: Any = option(  # a `HostSet`, which takes long to import
        "Servers that break down at that time, such as 0-3.", type=parsed(_hosts), metavar="SERVERS"
    )
    add: Any = option(
        "Servers that are put back into service at that time.", type=parsed(_hosts), metavar="SERVERS"
    )
    site: Path | None = option(
        "Site file with other limits of grid and battery, prices or carbon intensity from that time on."
    )
    production: Path | None = option("Production from that time on (an events file).")
    known: bool = option("Continue in the run's own future instead of drawn ones.")
    continuations: int = option("Number of drawn futures.", "-n", type=Whole(1, 10_000), default=30)
    at_once: int | None = option(
        "Number of futures computed at the same time.", "-j", type=Whole(1, 1000), show_default="processors"
    )
    chart: str | None = written_option(
        "Draw the battery's levels of both to this file (png, svg or pdf).", metavar="FILE"
    )
    as_json: bool = option("Print the figures as JSON.", "--json")


@click.command("what-if")
@click.argument("prefix", metavar="PREFIX")
@with_options(_WhatIfOptions)
def what_if(given: _WhatIfOptions, prefix: str) -> None:
    """Repeat a run to a time, then continue it as it was and with a change.

    Both continue in the same possible futures, so that their difference is that of the change. PREFIX is that
    of a run of 'simulate', or its folder.

    \b
    beasy-sched what-if out/run --at 1d12h --lose 0-3
    beasy-sched what-if out/run --at 18h --policy bid-price
    """
    from beasy_sched.plugins.foresee.what_if import Change
    from beasy_sched.plugins.foresee.what_if import what_if as compare
    from beasy_sched.run.results import find_prefix

    if given.chart is not None:
        from beasy_sched.plugins.reports.drawing import check_format

        check_format(Path(given.chart).suffix)
    comparison = compare(
        find_prefix(prefix) if Path(prefix).is_dir() else prefix,
        given.at,
        Change(given.policy, given.lose, _text(given.production), given.add, _text(given.site)),
        is_known=given.known,
        continuations=given.continuations,
        at_once=given.at_once,
    )
    for problem in dict.fromkeys(comparison.problems):
        count = comparison.problems.count(problem)
        click.echo(f"warning: {count} of the continuations {problem}; the other pairs count", err=True)
    try:
        if given.chart is not None:
            from beasy_sched.plugins.foresee.charts import comparison_chart

            write_output(given.chart, [comparison_chart(comparison, Path(given.chart).suffix)])
    finally:  # the figures took long, and the chart may have no place
        _print(comparison, as_json=given.as_json)


def _print(comparison: ChangedComparison, *, as_json: bool) -> None:
    from beasy_sched.plugins.foresee.what_if import figures, table

    if as_json:
        click.echo(msgspec.json.encode(figures(comparison)).decode())
        return
    for line in table(comparison):
        click.echo(line)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
