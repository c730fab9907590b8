"""``beasy-sched generate scenario``: a scenario file to change, or the inputs of one of its executions."""

from __future__ import annotations

from pathlib import Path

import click

from beasy_sched.cli.generate import write_output
from beasy_sched.errors import ConfigError


@click.command()
@click.argument("name", default="best-begin", metavar="[NAME|FILE]")
@click.option("-o", "--output", metavar="FILE", help="Write the scenario file; - is the terminal.")
@click.option(
    "--inputs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the files that one execution reads.",
)
@click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="--inputs: seed of the noise. [default: the first]"
)
@click.option(
    "--tuple",
    "number",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="--inputs: which pair of workload and production.",
)
@click.option(
    "--allow-policy",
    "allowed",
    multiple=True,
    metavar="MODULE:CLASS",
    help="--inputs: import this policy where the scenario names it.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of what was written.")
def scenario(
    name: str,
    output: str | None,
    inputs: Path | None,
    seed: int | None,
    number: int,
    allowed: tuple[str, ...],
    quiet: bool,
) -> None:
    """Write a scenario file, or what an execution of a scenario reads.

    NAME is best-begin, best-end, worst-begin or worst-end (production at the upper or the lower bound of
    its forecast, jobs mainly in the first or the last third), or average (ten tuples, anywhere between).

    \b
      beasy-sched generate scenario worst-end -o mine.toml
      beasy-sched campaign run mine.toml -o out/mine

    \b
    One execution by hand, with Batsim or its stand-in:
      beasy-sched generate scenario mine.toml --inputs in --seed 3
      beasy-sched simulate -p in/platform.xml -w in/workload.json --events in/power.txt \\
          --site in/site.toml --plan in/plan.msgpack --policy beasy -e out/beasy
    """
    from beasy_sched.experiments.scenario_text import NAMES, scenario_text

    if output is None and inputs is None:
        raise click.UsageError("Say what to write: the scenario file (-o FILE) or its inputs (--inputs DIR).")
    if inputs is None and (seed is not None or number):
        raise click.UsageError("--seed and --tuple choose an execution: they go with --inputs DIR.")
    if output is not None:
        if name not in NAMES:
            raise ConfigError(f"no scenario is called {name!r}: there are {', '.join(NAMES)}")
        write_output(output, [scenario_text(name)])
        if output != "-" and not quiet:
            click.echo(f"wrote {output}", err=True)
    if inputs is not None:
        _write_inputs(name, inputs, seed, number, allowed, quiet)


def _write_inputs(
    name: str, folder: Path, seed: int | None, number: int, allowed: tuple[str, ...], quiet: bool
) -> None:
    from beasy_sched.experiments.materialize import materialize
    from beasy_sched.experiments.shipped import find_scenario

    found = find_scenario(name, allowed=allowed)
    for path in materialize(found, folder, seed=found.seeds[0] if seed is None else seed, number=number):
        if not quiet:
            click.echo(f"wrote {path}", err=True)
