"""``beasy-sched generate``: makes Batsim's inputs and scenario files; here platforms and scenarios."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from beasy_sched.cli import LazyGroup
from beasy_sched.cli.options import CommandOptions, option, with_options
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.generate.platform import ServerSpec, build_platform, load_server, platform_xml, preset_names
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform

_COMMANDS = {
    "platform": __name__,
    "workload": "beasy_sched.cli.generate_workload",
    "power": "beasy_sched.cli.generate_power",
    "site": "beasy_sched.cli.generate_site",
    "scenario": __name__,
    "policy": "beasy_sched.cli.generate_policy",
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def generate() -> None:
    """Generate Batsim's inputs: platform, workload, power produced; a site; scenarios; a policy.

    \b
    A first experiment:
      beasy-sched generate platform --servers gros:50 -o platform.xml
      beasy-sched generate workload --synthetic --seed 1 -o workload.json
      beasy-sched generate power --synthetic --seed 1 --pv-kw 10 --wind-kw 7 -o power.txt
      beasy-sched generate site --battery-kwh 60 -o site.toml
      beasy-sched simulate -p platform.xml -w workload.json --events power.txt --site site.toml
    """


def write_output(output: str, pieces: Iterable[str | bytes]) -> None:
    """Write to the file ``output``, whole or not at all, or to the standard output for ``-``."""
    if output != "-":
        write_atomic(output, pieces)
        return
    stream = sys.stdout.buffer
    for piece in pieces:
        stream.write(piece.encode() if isinstance(piece, str) else piece)
    stream.flush()


def _server(text: str) -> tuple[ServerSpec, int]:
    """Read ``gros:50`` or ``my.toml:10``."""
    source, _, count = text.rpartition(":")
    if not source or not count.isdecimal() or int(count) < 1:
        raise click.BadParameter(f"{text!r} is not SERVER:COUNT, such as gros:50 or my.toml:10")
    return load_server(source), int(count)


class _PlatformOptions(CommandOptions):
    servers: tuple[tuple[ServerSpec, int], ...] = option(
        f"A preset ({', '.join(preset_names())}) or a TOML server file, and how many. Repeat it for a "
        "mixed platform.",
        "-n",
        type=_server,
        metavar="SERVER:COUNT",
        multiple=True,
        required=True,
    )
    output: str = option(
        "The XML file to write; - is the standard output.", "-o", required=True, metavar="FILE"
    )
    one_pstate: bool = option(
        "Keep the fastest P-state of each server (and its sleep state): a small file for studies "
        "without DVFS, such as one host per processor of a large machine."
    )
    quiet: bool = option("Print no summary.", "-q")


@click.command()
@with_options(_PlatformOptions)
def platform(given: _PlatformOptions) -> None:
    """Write a SimGrid platform file for Batsim.

    It has one host per server, with every DVFS state, the sleep state and the two transitions, a master
    host, and a network without latency. Batsim numbers hosts by name: kinds in alphabetical order,
    whatever the order of the options.

    \b
    Examples:
      beasy-sched generate platform --servers gros:50 -o platform.xml
      beasy-sched generate platform -n gros:50 -n taurus:4 -n my.toml:10 -o mixed.xml
      beasy-sched generate platform -n taurus:8192 --one-pstate -o ricc.xml

    \b
    A server file (idle and sleeping power and times in W and s):
      name = "my"
      idle_w = 62.0
      pstates = [
        { speed_gflops = 35.2, full_w = 143.45 },
        { speed_gflops = 16.0, full_w = 100.78 },
      ]
      [sleep]                # leave it out for servers that cannot sleep
      sleep_w = 4.5
      off_s = 6.0            # from on to asleep
      off_w = 76.5
      on_s = 164.0           # from asleep to on
      on_w = 110.52

    \b
    Run it:
      batsim -p platform.xml -w workload.json -e out/run -E
    """
    built = build_platform(
        (spec.fastest_only() if given.one_pstate else spec, count) for spec, count in given.servers
    )
    write_output(given.output, platform_xml(built))
    if not given.quiet:
        click.echo(_summary(built, given.output), err=True)


def _summary(platform: Platform, output: str) -> str:
    lines = [f"{output}: {platform.size} hosts"]
    for index, kind in enumerate(platform.kinds):
        hosts = HostSet.of(host for host in range(platform.size) if platform.kind_of[host] == index)
        states = f"computing P-states {HostSet.of(kind.computing)}"
        if kind.sleep:
            states += f", sleep {kind.sleep.pstate}, off {kind.sleep.off_pstate}, on {kind.sleep.on_pstate}"
        lines.append(f"  ids {hosts}: {kind.name} ({states})")
    return "\n".join(lines)


class _ScenarioOptions(CommandOptions):
    output: str | None = option("Write the scenario file; - is the standard output.", "-o", metavar="FILE")
    inputs: Path | None = option(
        "Write the input files of one execution.",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
    )
    seed: int | None = option(
        "--inputs: seed of the noise. [default: the first]", type=click.IntRange(0), metavar="N"
    )
    number: int = option(
        "--inputs: which pair of workload and production.",
        "--tuple",
        type=click.IntRange(0),
        default=0,
        metavar="N",
    )
    allowed: tuple[str, ...] = option(
        "--inputs: import this policy where the scenario names it.", "--allow-policy", metavar="MODULE:CLASS"
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
    from beasy_sched.campaign.scenario import NAMES, scenario_text

    if given.output is None and given.inputs is None:
        raise click.UsageError(
            "Specify what to write: the scenario file (-o FILE) or its inputs (--inputs DIR)."
        )
    if given.inputs is None and (given.seed is not None or given.number):
        raise click.UsageError("--seed and --tuple select an execution: they require --inputs DIR.")
    if given.output is not None:
        if name not in NAMES:
            raise ConfigError(f"unknown scenario {name!r}: the scenarios are {', '.join(NAMES)}")
        write_output(given.output, [scenario_text(name)])
        if given.output != "-" and not given.quiet:
            click.echo(f"wrote {given.output}", err=True)
    if given.inputs is not None:
        from beasy_sched.campaign.inputs import materialize
        from beasy_sched.campaign.scenario_file import find_scenario

        found = find_scenario(name, allowed=given.allowed)
        seed = found.seeds[0] if given.seed is None else given.seed
        for path in materialize(found, given.inputs, seed=seed, number=given.number):
            if not given.quiet:
                click.echo(f"wrote {path}", err=True)
