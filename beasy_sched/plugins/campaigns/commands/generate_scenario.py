"""``beasy-sched generate scenario``."""

from __future__ import annotations

from pathlib import Path

import click

from beasy_sched.cli.options import (
    FOLDER,
    SEED,
    CommandOptions,
    option,
    print_written,
    with_options,
    write_output,
    written_option,
)
from beasy_sched.errors import ConfigError


class _ScenarioOptions(CommandOptions):
    output: str | None = written_option(
        "Write the scenario file; - is the standard output.", "-o", metavar="FILE"
    )
    inputs: Path | None = option("Write the input files of one execution.", type=FOLDER, metavar="DIR")
    seed: int | None = option("--inputs: seed of the noise. [default: the first]", type=SEED, metavar="N")
    number: int = option(
        "--inputs: which pair of workload and production.",
        "--tuple",
        type=SEED,
        default=0,
        metavar="N",
    )
    allowed: tuple[str, ...] = option(
        "--inputs: allow the scenario to import this policy.", "--allow-policy", metavar="MODULE:CLASS"
    )
    quiet: bool = option("Do not report what was written.", "-q")


@click.command()
@click.argument("name", default="best-begin", metavar="[NAME|FILE]")
@with_options(_ScenarioOptions)
def scenario(given: _ScenarioOptions, name: str) -> None:
    """Write a scenario file, or the inputs of one execution of a scenario.

    NAME is best-begin, best-end, worst-begin or worst-end (production at the upper or the lower bound of
    its forecast, jobs mainly in the first or the last third), or average (ten tuples, anywhere between).

    \b
      beasy-sched generate scenario worst-end -o mine.toml
      beasy-sched campaign run mine.toml -o out/mine

    \b
    One execution by hand, with Batsim or its stand-in:
      beasy-sched generate scenario mine.toml --inputs in --seed 3
      beasy-sched simulate -p in/platform.xml -w in/workload.json --events in/power.txt \\
          --site in/site.toml --plan in/plan.msgpack --policy beasy -o out/beasy
    """
    from beasy_sched.plugins.campaigns.scenario import NAMES, scenario_text

    if given.output is None and given.inputs is None:
        raise click.UsageError(
            "Nothing to do: give the scenario file (-o FILE) or a folder for its inputs (--inputs DIR)."
        )
    if given.inputs is None and (given.seed is not None or given.number):
        raise click.UsageError("--seed and --tuple select an execution: they require --inputs DIR.")
    if given.output is not None:
        if name not in NAMES:
            raise ConfigError(f"unknown scenario {name!r}: the scenarios are {', '.join(NAMES)}")
        write_output(given.output, [scenario_text(name)])
        print_written(given.output, quiet=given.quiet)
    if given.inputs is not None:
        from beasy_sched.plugins.campaigns.run_inputs import materialize
        from beasy_sched.plugins.campaigns.scenario_file import find_scenario

        chosen = find_scenario(name, allowed=given.allowed)
        seed = chosen.seeds[0] if given.seed is None else given.seed
        written = materialize(chosen, given.inputs, seed=seed, number=given.number)
        print_written(*written, quiet=given.quiet)
