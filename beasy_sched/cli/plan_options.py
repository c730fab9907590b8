"""The options of ``beasy-sched plan``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from beasy_sched.errors import ConfigError

Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = click.Path(dir_okay=False, path_type=Path)
_PCT = click.FloatRange(0, 100)


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The command's options, as they are named on the command line."""

    platform: Path | None
    site: Path | None
    workload: tuple[Path, ...]
    demand: Path | None
    production: Path | None
    out: Path | None
    windows: int
    surplus: str
    runs: str
    load_uncertainty: tuple[float, float]
    renew_uncertainty: tuple[float, float]
    minimum_on: float
    unit: str | None
    time_limit: float | None
    master_host: str

    def __post_init__(self) -> None:
        needed = {"--platform": self.platform, "--production": self.production, "--out": self.out}
        missing = [name for name, value in needed.items() if value is None]
        if missing:
            raise ConfigError(f"plan needs {' and '.join(missing)}; see beasy-sched plan --help")
        if bool(self.workload) == (self.demand is not None):
            raise ConfigError("plan needs the demand: give either --workload or --demand")


_OPTIONS = (
    click.option("-p", "--platform", type=_FILE, metavar="FILE", help="SimGrid platform (XML)."),
    click.option(
        "--site",
        type=_FILE,
        metavar="FILE",
        help="Site file; 'default' is the package's own. [default: default]",
    ),
    click.option(
        "-w",
        "--workload",
        type=_FILE,
        multiple=True,
        metavar="FILE",
        help="Batsim workload (JSON) to forecast the demand from.",
    ),
    click.option("--demand", type=_FILE, metavar="FILE", help="The demand itself: powers (CSV or events)."),
    click.option(
        "--production",
        "--power",
        "production",
        type=_FILE,
        metavar="FILE",
        help="The production: external events (of 'generate power') or CSV.",
    ),
    click.option("-o", "--out", type=_FILE, metavar="FILE", help="The plan file to write."),
    click.option(
        "--windows",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="How many of the site's windows (72 h each by default) to plan, one after the other.",
    ),
    click.option(
        "--surplus",
        type=click.Choice(["envelope", "store"]),
        default="envelope",
        show_default=True,
        help="Power beyond the demand: for the servers, or into the battery first.",
    ),
    click.option(
        "--runs",
        type=click.Choice(["profile", "walltime"]),
        default="profile",
        show_default=True,
        help="How long jobs are expected to run: as their profiles say, or to their walltimes.",
    ),
    click.option(
        "--load-uncertainty",
        type=(_PCT, _PCT),
        default=(5.0, 30.0),
        show_default=True,
        metavar="PCT PCT",
        help="Of the demand, at once and after 72 h, percent.",
    ),
    click.option(
        "--renew-uncertainty",
        type=(_PCT, _PCT),
        default=(5.0, 30.0),
        show_default=True,
        metavar="PCT PCT",
        help="The same of the production.",
    ),
    click.option(
        "--minimum-on",
        type=click.FloatRange(0),
        default=3600.0,
        show_default=True,
        metavar="S",
        help="Seconds that a server which wakes stays on at least.",
    ),
    click.option("--unit", metavar="UNIT", help="Of CSV columns whose name has none: W, kW or MW."),
    click.option(
        "--time-limit",
        type=click.FloatRange(0),
        metavar="S",
        help="Stop each search after this time; plans then depend on the machine, and say so.",
    ),
    click.option(
        "-m",
        "--master-host",
        default="master_host",
        show_default=True,
        metavar="NAME",
        help="Host that no job runs on ('none' if the platform file itself gives a host that role).",
    ),
)

_EXPORTS = (
    click.option("--figure", type=_FILE, metavar="FILE", help="Draw the plan (PNG, SVG or PDF)."),
    click.option("--export-json", type=_FILE, metavar="FILE", help="Also write everything as JSON."),
    click.option("--export-csv", type=_FILE, metavar="FILE", help="Also write one row a step as CSV."),
    click.option("-q", "--quiet", is_flag=True, help="No progress bar, no summary."),
)


def plan_options(command: Command) -> Command:
    """Give a click command the options that make a plan."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def export_options(command: Command) -> Command:
    """Give a click command the options that show a plan."""
    for option in reversed(_EXPORTS):
        command = option(command)
    return command
