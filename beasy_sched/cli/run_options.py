"""Options that `serve` and `simulate` share: the policy, the site, the outputs.

Options of the energy-budget policies as plain flags: they become part of ``--options``.

A progress bar on a terminal's standard error, and nothing elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from beasy_sched.engine.power import EnergySource
from beasy_sched.errors import ConfigError
from beasy_sched.formats.reading import read_text
from beasy_sched.formats.site_file import read_site_text
from beasy_sched.settings import RunSettings

BUDGET_OPTIONS = [
    click.option("--budget", metavar="AMOUNT",
                 help="Energy budget of 'energybud', 'reducepc' and 'powercap': '60%' of what all servers"
                 " would use computing, or '500kWh', '1.2e12J', 'inf'."),
    click.option("--period", metavar="START:END",
                 help="When the budget holds, after time 0: '2d:5d', '0:12h', '172800:432000'."),
    click.option("--shutdown", type=click.Choice(["none", "opportunistic"]),
                 help="Whether servers that are idle during the period are switched off."),
    click.option("--allocation", type=click.Choice(["any", "contiguous"]),
                 help="Whether a job's servers must have consecutive numbers."),
]  # fmt: skip


def budget_options(
    budget: str | None = None,
    period: str | None = None,
    shutdown: str | None = None,
    allocation: str | None = None,
) -> dict[str, Any]:
    """Return the policy options that the flags stand for. Raises ConfigError."""
    found: dict[str, Any] = {"budget": budget, "shutdown": shutdown, "allocation": allocation}
    if period is not None:
        start, colon, end = period.partition(":")
        if not colon:
            raise ConfigError(f"--period: found {period!r}, expected START:END, such as 2d:5d")
        found |= {"period_start": start or "0", "period_end": end}
    return {name: value for name, value in found.items() if value is not None}


F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = [
    click.option("--policy", default="easy", show_default=True, metavar="NAME",
                 help="Which policy decides: a name of 'beasy-sched policies', or package.module:Class."),
    click.option("-o", "--options", "policy_options", metavar="JSON|@FILE", default="{}",
                 help="The policy's options as a JSON object, or @ and a file that holds one."),
    click.option("--site", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Site file (TOML): battery, hydrogen, steps, guard. Without one, power is no concern."
                 " 'default' takes the one that comes with the program."),
    click.option("--plan", type=click.Path(dir_okay=False), metavar="FILE",
                 help="Plan of the site ('beasy-sched plan'): the hydrogen follows it, results show planned"
                 " beside real, and some policies need it."),
    click.option("--windows", type=click.IntRange(1), default=1, show_default=True,
                 help="How many of the site's windows (72 h each by default) the run has."),
    click.option("--energy", type=click.Choice([e.value for e in EnergySource]), default="batsim",
                 show_default=True, help="Where the energy used is known from: the simulator's answers"
                 " (needs its -E), or the daemon's own account."),
    click.option("--no-power-actions", is_flag=True,
                 help="Never change P-states: for a Batsim without -E, which aborts on them."),
    click.option("--decisions/--no-decisions", default=True, show_default=True,
                 help="Whether to write the decision log."),
    click.option("--record", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Record every message, for 'beasy-sched replay'."),
]  # fmt: skip


def run_options(function: F) -> F:
    """Add the shared options to a command."""
    for option in reversed([*_OPTIONS, *BUDGET_OPTIONS]):
        function = option(function)
    return function


def settings_of(
    policy: str,
    policy_options: str,
    site: Path | None,
    plan: str | None,
    windows: int,
    energy: str,
    no_power_actions: bool,
    **flags: str | None,
) -> RunSettings:
    """Read what the options name. Raises ConfigError and InputError."""
    return RunSettings(
        policy=policy,
        options=_merged(read_options(policy_options), flags),
        site=None if site is None else read_site_text(site),
        site_name=str(site),
        plan=plan,
        windows=windows,
        energy=EnergySource(energy),
        power_actions=not no_power_actions,
    )


def read_options(text: str) -> dict[str, Any]:
    """Read ``--options``: a JSON object, or ``@`` and its file. Raises ConfigError and InputError."""
    source = "--options"
    if text.startswith("@"):
        source = text[1:]
        text = read_text(source)
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f'{source}: expected a JSON object such as \'{{"priority": "arrival"}}\': {error}'
        ) from None


def _merged(options: dict[str, Any], flags: dict[str, str | None]) -> dict[str, Any]:
    """Add what the budget's flags stand for. Raises ConfigError where both say the same thing."""
    for flag, text in flags.items():
        for name in budget_options(**{flag: text}):
            if name in options:
                raise ConfigError(
                    f"--{flag} {text} and {name!r} of --options ({options[name]!r}) are the same option:"
                    " leave one of them out"
                )
    return {**options, **budget_options(**flags)}


Report = Callable[[float], None]
"""Called with the share that is done, 0 to 1."""


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Report | None]:
    """Show a bar while the block runs; yields None where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda share: progress.update(task, completed=share)
