"""What commands share: kinds of options, the options of a run, the progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from beasy_sched.engine.power import EnergySource
from beasy_sched.errors import ConfigError
from beasy_sched.formats.site_file import read_site_text
from beasy_sched.settings import RunSettings, read_options

if TYPE_CHECKING:
    from beasy_sched.model.platform import Platform

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
FILE: Final = click.Path(dir_okay=False, path_type=Path)


def known_platform(path: Path | None) -> Platform | None:
    """Read the platform file where one is given. Raises InputError."""
    if path is None:
        return None
    from beasy_sched.formats.simgrid_xml import read_simgrid_platform

    return read_simgrid_platform(path).platform


def with_options(*options: Option) -> Option:
    """Give a command several options, listed in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def file_option(*names: str, **attributes: Any) -> Option:
    """An option that names a file."""
    return click.option(*names, type=FILE, metavar="FILE", **attributes)


def choice_option(*names: str, kind: type[Enum], **attributes: Any) -> Option:
    """An option whose value is a member of an enumeration."""

    def member(context: click.Context, parameter: click.Parameter, value: str | None) -> Enum | None:
        return None if value is None else kind(value)

    choices = click.Choice([member.value for member in kind])
    return click.option(*names, type=choices, callback=member, **attributes)


def parsed(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    """An option type whose text is read by ``read``; its ValueError becomes a usage error."""

    def value_of(value: Any) -> Any:
        try:
            return read(value) if isinstance(value, str) else value
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return value_of


def windows_option(help: str) -> Option:
    """``--windows``."""
    return click.option("--windows", type=click.IntRange(1), default=1, help=help)


def quiet_option(help: str) -> Option:
    """``-q``."""
    return click.option("-q", "--quiet", is_flag=True, help=help)


def platform_option(required: bool = False, help: str = "SimGrid platform (XML).") -> Option:
    """``-p``: the platform."""
    return file_option("-p", "--platform", required=required, help=help)


master_host_option: Final = click.option(
    "-m",
    "--master-host",
    default="master_host",
    metavar="NAME",
    help="Host that runs no jobs ('none' if the platform file itself gives a host that role).",
)


def input_options(required: bool) -> Option:
    """What a simulation reads."""
    return with_options(
        platform_option(required),
        file_option(
            "-w",
            "--workload",
            "workloads",
            required=required,
            multiple=True,
            help="Batsim workload (JSON); several are played together.",
        ),
        file_option(
            "--events",
            multiple=True,
            help="External events, including the production (one JSON object per line).",
        ),
        master_host_option,
        click.option(
            "-E/--no-metering",
            "metering",
            default=True,
            show_default=False,
            help="Meter energy and allow P-state changes, as Batsim's -E does (on unless switched off).",
        ),
    )


site_options: Final = with_options(
    file_option(
        "--site",
        help="Site file (TOML): battery, hydrogen, steps, guard. Without it, power is unlimited."
        " 'default' selects the file that comes with the program.",
    ),
    click.option(
        "--plan",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Plan of the site ('beasy-sched plan'): the hydrogen follows it, results compare planned with"
        " real values, and some policies require it.",
    ),
    windows_option("How many of the site's windows (72 h each by default) the run has."),
)

run_options: Final = with_options(
    click.option(
        "--policy",
        default="easy",
        metavar="NAME",
        help="Policy that decides: a name listed by 'beasy-sched policies', or package.module:Class.",
    ),
    click.option(
        "-o",
        "--options",
        "policy_options",
        metavar="JSON|@FILE",
        default="{}",
        show_default=False,
        help="The policy's options as a JSON object, or @ and the name of a file that contains one.",
    ),
    site_options,
    choice_option(
        "--energy",
        kind=EnergySource,
        default="batsim",
        help="Source of the energy used: the simulator's answers (needs its -E), or the daemon's own model.",
    ),
    click.option(
        "--no-power-actions",
        is_flag=True,
        help="Never change P-states: for a Batsim without -E, which aborts on them.",
    ),
    click.option("--decisions/--no-decisions", default=True, help="Whether to write the decision log."),
    file_option("--record", help="Record every message, for 'beasy-sched replay'."),
    click.option(
        "--budget",
        metavar="AMOUNT",
        help="Energy budget of 'energybud', 'reducepc' and 'powercap': '60%' of what all servers would use"
        " computing, or '500kWh', '1.2e12J', 'inf'.",
    ),
    click.option(
        "--period",
        metavar="START:END",
        help="When the budget holds, after time 0: '2d:5d', '0:12h', '172800:432000'.",
    ),
    click.option(
        "--shutdown",
        type=click.Choice(["none", "opportunistic"]),
        help="Whether servers that are idle during the period are switched off.",
    ),
    click.option(
        "--allocation",
        type=click.Choice(["any", "contiguous"]),
        help="Whether a job's servers must have consecutive numbers.",
    ),
)
"""What `serve` and `simulate` share; `settings_of` reads all of it but ``decisions`` and ``record``."""


def settings_of(policy_options: str, site: Path | None, no_power_actions: bool, **more: Any) -> RunSettings:
    """Read what the options name. Raises ConfigError and InputError."""
    budget = {name: more.pop(name) for name in ("budget", "period", "shutdown", "allocation")}
    return RunSettings(
        options=_with_budget(read_options(policy_options), **budget),
        site=None if site is None else read_site_text(site),
        site_name=str(site),
        power_actions=not no_power_actions,
        **more,
    )


def _with_budget(options: dict[str, Any], period: str | None, **flags: str | None) -> dict[str, Any]:
    """Add what the budget's flags stand for. Raises ConfigError where both say the same thing."""
    found = {name: (name, text) for name, text in flags.items() if text is not None}
    if period is not None:
        start, colon, end = period.partition(":")
        if not colon:
            raise ConfigError(f"--period: found {period!r}, expected START:END, such as 2d:5d")
        found |= {"period_start": ("period", start or "0"), "period_end": ("period", end)}
    for name, (flag, text) in found.items():
        if name in options:
            raise ConfigError(
                f"--{flag} {period if flag == 'period' else text} and {name!r} of --options"
                f" ({options[name]!r}) are the same option: leave one of them out"
            )
    return {**options, **{name: text for name, (_, text) in found.items()}}


Report = Callable[[float], None]
"""Called with the share that is done, 0 to 1."""


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Report | None]:
    """Show a bar on the standard error while the block runs; yields None where it is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda share: progress.update(task, completed=share)
