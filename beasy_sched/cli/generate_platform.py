"""``beasy-sched generate platform``."""

from __future__ import annotations

import click

from beasy_sched.cli.generate import write_output
from beasy_sched.generate.platform import build_platform, platform_xml
from beasy_sched.generate.server_spec import ServerSpec, load_server, preset_names
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform


def _parse_servers(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[tuple[ServerSpec, int]]:
    """Read ``gros:50`` or ``my.toml:10``."""
    servers = []
    for value in values:
        source, _, count = value.rpartition(":")
        if not source or not count.isdecimal() or int(count) < 1:
            raise click.BadParameter(f"{value!r} is not SERVER:COUNT, such as gros:50 or my.toml:10")
        servers.append((load_server(source), int(count)))
    return servers


@click.command()
@click.option(
    "-n",
    "--servers",
    callback=_parse_servers,
    metavar="SERVER:COUNT",
    multiple=True,
    required=True,
    help=f"A preset ({', '.join(preset_names())}) or a TOML server file, and how many. Repeat it for a "
    "mixed platform.",
)
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="The XML file to write; - is the terminal."
)
@click.option(
    "--one-pstate",
    is_flag=True,
    help="Keep the fastest P-state of each server (and its sleep state): a small file for studies without "
    "DVFS, such as one host per processor of a large machine.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no summary.")
def platform(servers: list[tuple[ServerSpec, int]], output: str, one_pstate: bool, quiet: bool) -> None:
    """Write a SimGrid platform file for Batsim.

    It has one host a server, with every DVFS state, the sleep state and the two transitions, a master
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
    built = build_platform((spec.fastest_only() if one_pstate else spec, count) for spec, count in servers)
    write_output(output, platform_xml(built))
    if not quiet:
        click.echo(_summary(built, output), err=True)


def _summary(platform: Platform, output: str) -> str:
    lines = [f"{output}: {platform.size} hosts"]
    for index, kind in enumerate(platform.kinds):
        hosts = HostSet.of(host for host in range(platform.size) if platform.kind_of[host] == index)
        states = f"computing P-states {HostSet.of(kind.computing)}"
        if kind.sleep:
            states += f", sleep {kind.sleep.pstate}, off {kind.sleep.off_pstate}, on {kind.sleep.on_pstate}"
        lines.append(f"  ids {hosts}: {kind.name} ({states})")
    return "\n".join(lines)
