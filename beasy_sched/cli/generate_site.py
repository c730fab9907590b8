"""``beasy-sched generate site``: a commented site file from a few sizes."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Literal

import click

from beasy_sched.cli.generate import write_output
from beasy_sched.cli.options import CommandOptions, option, parsed, with_options
from beasy_sched.formats.site_file import parse_site
from beasy_sched.generate.site import SiteSizes, site_text

_KW = click.FloatRange(0, min_open=True)
_PCT = click.FloatRange(0, 100)


def _size(text: str) -> float:
    """Read a size; ``none`` is 0."""
    if text == "none":
        return 0.0
    try:
        size = float(text)
    except ValueError:
        size = math.nan
    if not 0.0 <= size < math.inf:
        raise ValueError(f"found {text!r}, expected a number, 0 or more, or none")
    return size


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


def _grid(text: str) -> float:
    """Read the largest power from the grid; ``unlimited`` is infinity."""
    return math.inf if text == "unlimited" else _size(text)


class _SiteOptions(CommandOptions):
    output: str = option(
        "The TOML file to write; - is the standard output.", "-o", required=True, metavar="FILE"
    )
    battery_kwh: float = option(
        "Capacity of the battery; none: a site without one.",
        type=parsed(_size),
        default="100",
        metavar="KWH|none",
    )
    charge_kw: float | None = option(
        "Largest power into the battery. [default: a quarter of the capacity an hour]", type=_KW, metavar="KW"
    )
    discharge_kw: float | None = option(
        "Largest power out of the battery. [default: half of the capacity an hour]", type=_KW, metavar="KW"
    )
    soc_start_pct: float = option(
        "State of charge at the start.", "--soc-start", type=_PCT, default=50.0, metavar="PCT"
    )
    soc_target_pct: float | None = option(
        "State of charge where each window should end. [default: as at the start]",
        "--soc-target",
        type=_PCT,
        metavar="PCT",
    )
    hydrogen_kg: float = option(
        "Size of the hydrogen tank, half full at the start; none: a site without hydrogen.",
        type=parsed(_size),
        default="none",
        metavar="KG|none",
    )
    electrolyzer_kw: float | None = option(
        "Largest power of the electrolyzer. [default: 0.5 for each kg of the tank]", type=_KW, metavar="KW"
    )
    fuel_cell_kw: float | None = option(
        "Largest power of the fuel cell. [default: 0.3 for each kg of the tank]", type=_KW, metavar="KW"
    )
    grid_kw: float = option(
        "Largest power from the grid, or unlimited; none: a site without a connection.",
        type=parsed(_grid),
        default="none",
        metavar="KW|unlimited|none",
    )
    price_per_kwh: float | None = option(
        "Price of a kWh from the grid, EUR; requires --start. For other currencies, and prices by hour,"
        " change the file.",
        "--price",
        type=float,
        metavar="EUR",
    )
    base_kw: float = option(
        "What is always drawn beside the servers.", type=click.FloatRange(0), default=0.0, metavar="KW"
    )
    step_s: float = option("Length of a step.", "--step", type=_KW, default=300.0, metavar="S")
    window_h: float = option("Length of a window.", type=_KW, default=72.0, metavar="H")
    start: str | None = option(
        "What time 0 is, with its offset from UTC, such as 2024-07-01T00:00:00+02:00.",
        type=parsed(_moment),
        metavar="TIME",
    )
    guard: Literal["shed", "kill-all"] = option(
        "What the storage guard does where energy is short: kill some jobs, or all.", default="shed"
    )
    veto: bool = option(
        "Whether starts must fit into what is left in the step.", "--veto/--no-veto", default=True
    )
    quiet: bool = option("Do not report what was written.", "-q")


@click.command()
@with_options(_SiteOptions)
def site(given: _SiteOptions) -> None:
    """Write a commented site file: battery, hydrogen, grid, steps, guard.

    The sections that the site does not have are in the file, too, as comments, so that they are easily added.

    \b
      beasy-sched generate site --battery-kwh 60 -o site.toml
      beasy-sched generate site --battery-kwh 60 --hydrogen-kg 10 -o hydrogen.toml
      beasy-sched generate site --battery-kwh none --grid-kw unlimited --price 0.13 \\
          --start 2024-07-01T00:00:00+02:00 -o grid.toml
      beasy-sched check --site site.toml
    """
    sizes = {name: value for name, value in vars(given).items() if name not in ("output", "quiet")}
    text = site_text(SiteSizes(**sizes))
    parse_site(text, "generate site" if given.output == "-" else given.output)  # refuses what makes no sense
    write_output(given.output, [text])
    if given.output != "-" and not given.quiet:
        click.echo(f"wrote {given.output}", err=True)
