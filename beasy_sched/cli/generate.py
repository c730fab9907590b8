"""Commands ``beasy-sched generate`` for platforms, sites, scenarios and policies."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from beasy_sched.cli import LazyGroup
from beasy_sched.cli.options import (
    FOLDER,
    CommandOptions,
    option,
    option_of,
    output_option,
    parsed,
    print_line,
    print_written,
    with_options,
    write_output,
)
from beasy_sched.declared import HOSTS, default_of, made_of
from beasy_sched.generate.server_presets import ONE_PSTATE, preset_names
from beasy_sched.generate.site_template import SiteSizes, site_text
from beasy_sched.limits import MOST_HOSTS, shortened
from beasy_sched.numbers import Range
from beasy_sched.units import counted

if TYPE_CHECKING:
    from beasy_sched.generate.platform_file import ServerSpec
    from beasy_sched.model.platform import Platform


_COMMANDS = {
    "platform": __name__,
    "workload": "beasy_sched.cli.generate_workload",
    "power": "beasy_sched.cli.generate_power",
    "site": __name__,
    "policy": __name__,
}


@click.group(cls=LazyGroup, lazy={"generate": _COMMANDS})
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


def _server(text: str) -> tuple[ServerSpec, int]:
    """Read ``gros:50`` or ``my.toml:10``."""
    from beasy_sched.generate.platform_file import load_server

    source, _, number = text.rpartition(":")
    try:
        count = HOSTS.read(number)
    except ValueError:
        count = None
    if not source or count is None:
        raise click.BadParameter(
            f"{shortened(text, 40)!r} is not SERVER:COUNT, such as gros:50 or my.toml:10, with at most"
            f" {MOST_HOSTS:,} servers"
        )
    return load_server(source), count


class _PlatformOptions(CommandOptions):
    servers: tuple[tuple[Any, int], ...] = option(  # of `ServerSpec`, which takes long to import
        f"A preset ({', '.join(preset_names())}) or a TOML server file, and how many. Repeat it for a "
        "mixed platform.",
        "-n",
        type=_server,
        metavar="SERVER:COUNT",
        multiple=True,
        required=True,
    )
    output: str = output_option("XML file")
    one_pstate: bool = option(ONE_PSTATE.sentence)
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
      [sleep]                # omit it for servers that cannot sleep
      sleep_w = 4.5
      off_s = 6.0            # from on to asleep
      off_w = 76.5
      on_s = 164.0           # from asleep to on
      on_w = 110.52

    \b
    Run it:
      batsim -p platform.xml -w workload.json -e out/run -E
    """
    from beasy_sched.generate.platform_file import build_platform

    built = build_platform(
        (spec.fastest_only() if given.one_pstate else spec, count) for spec, count in given.servers
    )
    write_platform(built, given.output, quiet=given.quiet)


def write_platform(platform: Platform, output: str, *, quiet: bool) -> None:
    """Write a platform file and print its hosts by kind, with their P-states."""
    from beasy_sched.generate.platform_file import platform_xml
    from beasy_sched.model.hosts import HostSet

    write_output(output, platform_xml(platform))
    if quiet:
        return
    print_line(f"{output}: {counted(platform.size, 'host')}")
    for index, kind in enumerate(platform.kinds):
        hosts = HostSet.of(host for host in range(platform.size) if platform.kind_of[host] == index)
        states = f"computing P-states {HostSet.of(kind.computing)}"
        if kind.sleep:
            states += f", sleep {kind.sleep.pstate}, off {kind.sleep.off_pstate}, on {kind.sleep.on_pstate}"
        print_line(f"  ids {hosts}: {kind.name} ({states})")


def _size(text: str) -> float:
    """Read a size; ``none`` is 0."""
    if text == "none":
        return 0.0
    try:
        size: float = _SIZE.read(text)
    except ValueError as error:
        raise ValueError(f"{error}, or none") from None
    return size


_SIZE: Final = Range(0)


def _moment(text: str) -> str:
    """Check a time with its offset from UTC."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(
            f"found {text!r}, expected a time with its offset from UTC, such as 2024-07-01T00:00:00+02:00"
        )
    return moment.isoformat()


def _hours(text: str) -> tuple[int, int]:
    """Read two local hours, such as ``22-6``."""
    first, dash, last = text.partition("-")
    if not (dash and first.strip().isdecimal() and last.strip().isdecimal()):
        raise ValueError(f"found {text!r}, expected two hours, such as 22-6")
    return int(first), int(last)


def _grid(text: str) -> float:
    """Read the largest power from the grid; ``unlimited`` is infinity."""
    return math.inf if text == "unlimited" else _size(text)


def _size_option(name: str, metavar: str, read: Callable[[str], float] = _size) -> Any:
    """Declare a size that may be ``none``, which is 0."""
    default = default_of(SiteSizes, name)
    text = f"{default:g}" if default else "none"
    return option_of(SiteSizes, name, type=parsed(read), default=text, metavar=metavar)


class _SiteOptions(CommandOptions):
    output: str = output_option("TOML file")
    battery_kwh: float = _size_option("battery_kwh", "KWH|none")
    charge_kw: float | None = option_of(SiteSizes, "charge_kw", metavar="KW")
    discharge_kw: float | None = option_of(SiteSizes, "discharge_kw", metavar="KW")
    soc_start_pct: float = option_of(SiteSizes, "soc_start_pct", "--soc-start", metavar="PCT")
    soc_target_pct: float | None = option_of(SiteSizes, "soc_target_pct", "--soc-target", metavar="PCT")
    hydrogen_kg: float = _size_option("hydrogen_kg", "KG|none")
    electrolyzer_kw: float | None = option_of(SiteSizes, "electrolyzer_kw", metavar="KW")
    fuel_cell_kw: float | None = option_of(SiteSizes, "fuel_cell_kw", metavar="KW")
    grid_kw: float = _size_option("grid_kw", "KW|unlimited|none", _grid)
    price_per_kwh: float | None = option_of(SiteSizes, "price_per_kwh", "--price", metavar="EUR")
    charge_hours: tuple[int, int] | None = option_of(
        SiteSizes, "charge_hours", type=parsed(_hours), metavar="FROM-TO"
    )
    peak_kw: float | None = option_of(SiteSizes, "peak_kw", metavar="KW")
    peak_price_per_kw: float | None = option_of(SiteSizes, "peak_price_per_kw", "--peak-price", metavar="EUR")
    target_band_pct: float | None = option_of(SiteSizes, "target_band_pct", "--target-band", metavar="PCT")
    pue: float | None = option_of(SiteSizes, "pue", metavar="PUE")
    base_kw: float = option_of(SiteSizes, "base_kw", metavar="KW")
    step_s: float = option_of(SiteSizes, "step_s", "--step", metavar="S")
    window_h: float = option_of(SiteSizes, "window_h", metavar="H")
    start: str | None = option_of(SiteSizes, "start", type=parsed(_moment), metavar="TIME")
    guard: Literal["shed", "kill-all"] = option_of(SiteSizes, "guard")
    veto: bool = option_of(SiteSizes, "veto", "--veto/--no-veto")
    quiet: bool = option("Do not report what was written.", "-q")


@click.command()
@with_options(_SiteOptions)
def site(given: _SiteOptions) -> None:
    """Write a commented site file: battery, hydrogen, grid, cooling, steps, guard.

    Optional sections are included as comments.

    \b
      beasy-sched generate site --battery-kwh 60 -o site.toml
      beasy-sched generate site --battery-kwh 60 --hydrogen-kg 10 -o hydrogen.toml
      beasy-sched generate site --battery-kwh none --grid-kw unlimited --price 0.13 \\
          --start 2024-07-01T00:00:00+02:00 -o grid.toml
      beasy-sched generate site --battery-kwh 8 --grid-kw 2.4 --charge-hours 22-6 --peak-price 12 \\
          --pue 1.25 --start 2024-07-01T00:00:00+02:00 -o rules.toml
      beasy-sched check --site site.toml
    """
    from beasy_sched.formats.site_file import parse_site

    text = site_text(made_of(SiteSizes, vars(given)))
    parse_site(text, "generate site" if given.output == "-" else given.output)  # refuses what makes no sense
    write_output(given.output, [text])
    print_written(given.output, quiet=given.quiet)


class _TemplateOptions(CommandOptions):
    output: Path = option(
        "The folder to write to.", "-o", "--output", type=FOLDER, default=".", metavar="DIR"
    )
    quiet: bool = option("Do not report what was written.", "-q")


@click.command()
@click.argument("name", metavar="NAME")
@with_options(_TemplateOptions)
def policy(given: _TemplateOptions, name: str) -> None:
    """Write NAME.py, a template of your own policy, and NAME_test.py.

    The generated policy starts the shortest jobs first; comments in the file show how to extend it.
    The test runs it in 100 random small data centres and checks invariants that must hold in every run. No
    file is overwritten.

    \b
      beasy-sched generate policy shortest_first
      beasy-sched simulate -p platform.xml -w workload.json --policy shortest_first:ShortestFirst
      python shortest_first_test.py          # or pytest shortest_first_test.py
    """  # fmt: skip
    from beasy_sched.generate.policy_template import class_name, write_policy

    print_written(*write_policy(name, given.output), quiet=given.quiet)
    if not given.quiet:
        where = "" if given.output == Path() else f"from {given.output}, "
        click.echo(f"to run it: {where}beasy-sched simulate ... --policy {name}:{class_name(name)}", err=True)
