"""Shared option types and the options of a run."""

from __future__ import annotations

import functools
import math
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import click
import msgspec
from msgspec import UNSET

from beasy_sched import declared
from beasy_sched.declared import check, default_of, meaning_of
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.earlier import will_replace
from beasy_sched.formats.run_files import path_of
from beasy_sched.limits import LATEST_S, shortened
from beasy_sched.model.choices import RETRIES, EnergySource, OnKill, Placement
from beasy_sched.numbers import ANY_NUMBER, ANY_WHOLE, Range
from beasy_sched.plugin import Kind, load, own_targets
from beasy_sched.run.settings import FollowSettings, ReplanSettings, RunSettings
from beasy_sched.units import parse_duration

if TYPE_CHECKING:
    from beasy_sched.model.platform import Platform
    from beasy_sched.outputs.metrics import Metrics
    from beasy_sched.outputs.watch import Watch

FILE: Final = click.Path(dir_okay=False, path_type=Path)
FOLDER: Final = click.Path(file_okay=False, path_type=Path)


class _NumberType(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Base of numeric option types: finite numbers in a range, with common error messages."""

    range: Range

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Raises BadParameter that states what was found and expected."""
        try:
            return self.range.read(value) if isinstance(value, str) else self.range.checked(value)
        except ValueError as error:
            return self.fail(str(error), param, ctx)

    @property
    def _is_unlimited(self) -> bool:
        return self.range in (ANY_NUMBER, ANY_WHOLE)

    def get_metavar(self, *args: Any, **named: Any) -> str | None:
        """Return the placeholder of a value in the help, if not click's: a number without limits."""
        return ("INTEGER" if self.range.whole else "FLOAT") if self._is_unlimited else None

    def _describe_range(self) -> str:
        """Return the range for the help: empty without limits, where click would write x<=None."""
        return "" if self._is_unlimited else str(super()._describe_range())  # type: ignore[misc]


class Number(_NumberType, click.FloatRange):
    """An option's number: finite, and in a range."""

    def __init__(self, least: float | None = None, most: float | None = None, *, above: bool = False) -> None:
        """Range from ``least`` (excluded with ``above``) to ``most``; None: no limit."""
        super().__init__(least, most, min_open=above)
        lowest, highest = ANY_NUMBER.least, ANY_NUMBER.most
        self.range = Range(lowest if least is None else least, highest if most is None else most, above=above)


class Whole(_NumberType, click.IntRange):
    """An option's integer, in a range."""

    def __init__(self, least: int | None = None, most: int | None = None) -> None:
        """Range from ``least`` to ``most``; None: the limits of any integer."""
        super().__init__(least, most)
        lowest, highest = ANY_WHOLE.least, ANY_WHOLE.most
        self.range = Range(lowest if least is None else least, highest if most is None else most, whole=True)


class DeclaredOption(click.Option):
    """An option of a command that stores the type of the attribute that declares it."""

    def __init__(self, *names: Any, hint: Any = None, heading: str = "", **attributes: Any) -> None:
        """``hint`` is that type, ``heading`` its section of the help; the rest is as in `click.Option`."""
        super().__init__(*names, **attributes)
        self.hint, self.heading = hint, heading


class SectionedCommand(click.Command):
    """A command whose help lists its options under the headings of their `CommandOptions`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; those without a heading under "Options"."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                heading = getattr(parameter, "heading", "") or "Options"
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


SECONDS: Final = Number(0, LATEST_S, above=True)
COUNT: Final = Whole(1)
SEED: Final = Whole(0)


def number_type(numbers: Range) -> _NumberType:
    """Return the type of an option with these numbers."""
    least = None if numbers.least <= ANY_NUMBER.least else numbers.least
    most = None if numbers.most >= ANY_NUMBER.most else numbers.most
    if numbers.whole:
        return Whole(None if least is None else int(least), None if most is None else int(most))
    return Number(least, most, above=numbers.above)


WINDOWS: Final = number_type(declared.WINDOWS)
T = TypeVar("T", bound="CommandOptions")
_LONGEST_FOUND: Final = 60
"""Number of characters of an option's value that a message quotes."""


class CommandOptions:
    """Parsed options of a command; subclasses declare them with `option`, in the order of the help."""

    heading = ""
    """Heading of the options in the help of a `SectionedCommand`."""

    def __init__(self, **values: Any) -> None:
        """Store the values by the options' names."""
        self.__dict__.update(values)


def option(help: str | None, *names: str, **attributes: Any) -> Any:
    """Declare an attribute of `CommandOptions` as an option of a command.

    It is named after the attribute if ``names`` has no long name, and its type is the attribute's: a flag
    for bool, a choice for enumerations and literals, repeatable for a tuple. ``attributes`` are those of
    `click.option`; a ``type`` among them overrides the attribute's.
    """
    return names, {"help": help, **attributes}


def option_of(kind: type[Any], name: str, *names: str, **attributes: Any) -> Any:
    """Declare an option that is a field of a generator's class, which defines its help, default and range.

    ``attributes`` are those of `option` that only the command line has; for a type that parses a string, also
    the default as a string.
    """
    means, default = meaning_of(kind, name), default_of(kind, name)
    given = dict(attributes)
    if means.range is not None and "type" not in given:
        given["type"] = number_type(means.range)
    if "default" not in given and default is not None and default is not False and default != math.inf:
        given["default"] = default.value if isinstance(default, Enum) else default
    return option(means.sentence, *names, **given)


def again(before: Any, **attributes: Any) -> Any:
    """Declare an option again, with other attributes."""
    names, own = before
    return names, {**own, **attributes}


def with_options_of_plugins(kind: Kind) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a kind that our plug-ins have to a command, each as one more argument."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for target in reversed(own_targets(kind).values()):
            command = with_options(load(target))(command)
        return command

    return add


def with_options(kind: type[T]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of ``kind`` to a command, as one argument (in the order of such decorators)."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(kind)

        @functools.wraps(command)
        def called(*before: Any, **values: Any) -> Any:
            return command(*before, kind(**{name: values.pop(name) for name in hints}), **values)

        for name in reversed(hints):
            names, attributes = getattr(kind, name)
            long = [] if any("--" in one for one in names) else [f"--{name.replace('_', '-')}"]
            attributes = attributes if "type" in attributes else {**_typed(hints[name]), **attributes}
            declared = click.option(
                *names, *long, name, cls=DeclaredOption, hint=hints[name], heading=kind.heading, **attributes
            )
            declared(called)
        return called

    return add


def _typed(hint: Any) -> dict[str, Any]:
    """Return the option's attributes that follow from the type of its attribute."""
    if type(None) in get_args(hint):
        hint = get_args(hint)[0]
    if get_origin(hint) is tuple:
        return {"multiple": True, **_typed(get_args(hint)[0])}
    if get_origin(hint) is Literal:
        return {"type": click.Choice(get_args(hint))}
    if issubclass(hint, Enum):
        return {
            "type": click.Choice([member.value for member in hint]),
            "callback": lambda context, parameter, value: None if value is None else hint(value),
        }
    if hint is Path:
        return {"type": FILE, "metavar": "FILE"}
    if hint is bool:
        return {"is_flag": True}
    return {"type": {int: Whole(), float: Number()}.get(hint, hint)}


def parsed(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    """An option type whose value is parsed by ``read``; a ValueError becomes a usage error."""

    def value_of(value: Any) -> Any:
        try:
            return read(value) if isinstance(value, str) else value
        except ValueError as error:
            raise click.BadParameter(str(error).replace(value, shortened(value, _LONGEST_FOUND))) from None

    return value_of


def known_platform(path: Path | None, master_host: str) -> Platform | None:
    """Read the platform file, if one is given; ``master_host`` is Batsim's -m. Raises InputError."""
    if path is None:
        return None
    from beasy_sched.formats.simgrid_xml import read_simgrid_platform

    return read_simgrid_platform(path, master=master_host).platform


def output_option(what: str) -> Any:
    """Declare the output file of a command, written by `write_output`."""
    help = f"The {what} to write; - is the standard output."
    return written_option(help, "-o", required=True, metavar="FILE")


def written_option(help: str, *names: str, **attributes: Any) -> Any:
    """Declare an output file; a command that fails reports that it kept an earlier file of that name."""
    return option(help, *names, callback=_noting_file, **attributes)


def _noting_file(_: click.Context, __: click.Parameter, value: PathLike | None) -> PathLike | None:
    """Record that a file is to be replaced."""
    if value is not None and value != "-":
        will_replace(value)
    return value


def write_output(output: str, pieces: Iterable[str | bytes]) -> None:
    """Write to the file ``output`` atomically, or to the standard output for ``-``."""
    if output != "-":
        write_atomic(output, pieces)
        return
    stream = sys.stdout.buffer
    for piece in pieces:
        stream.write(piece.encode() if isinstance(piece, str) else piece)
    stream.flush()


def print_written(*paths: PathLike | None, quiet: bool = False) -> None:
    """List the written files on stderr, without None and stdout."""
    for path in paths:
        if not quiet and path is not None and path != "-":
            click.echo(f"wrote {path}", err=True)


def print_line(text: str) -> None:
    """Print a line to stderr."""
    click.echo(text, err=True)


def width(otherwise: int) -> int:
    """Return the terminal's width, in columns; ``otherwise`` if the standard output is not a terminal."""
    return shutil.get_terminal_size((otherwise, 24)).columns if sys.stdout.isatty() else otherwise


def prefix_option(help: str, files: Sequence[str]) -> Any:
    """Declare the output prefix of a run: ``-o``, or ``-e`` as in Batsim.

    A command that fails lists the files of an earlier run that it kept, among ``files`` (their names without
    the prefix).
    """
    names = ("-o", "--output", "-e", "--export")
    return option(help, *names, metavar="PREFIX", type=parsed(_prefix), callback=noting_prefix(files))


def noting_prefix(files: Sequence[str]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return the callback of an option whose value is the prefix of files that are to be replaced."""

    def note(_: click.Context, __: click.Parameter, prefix: str | None) -> str | None:
        if prefix is not None:
            will_replace(*(path_of(prefix, name) for name in files))
        return prefix

    return note


def _prefix(text: str) -> str:
    """Return the prefix; reject values meant for another option."""
    if text[:1] in ("{", "[", "@"):
        raise ValueError(
            f"found {shortened(text, 40)!r}, expected an output prefix; to set a policy option, use"
            " --option NAME=VALUE, or --options with JSON"
        )
    return text


def known_policies(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Complete policy names in a shell."""
    from beasy_sched.policies.registry import policy_names

    return [name for name in policy_names() if name.startswith(incomplete)]


def _retry(text: str) -> float:
    """Read the delay before a server is woken again, s. Raises ValueError."""
    delay_s: float = RETRIES.checked(parse_duration(text))
    return delay_s


class InputOptions(CommandOptions):
    """Inputs of a simulation."""

    platform: Path | None = option("SimGrid platform (XML).", "-p")
    workloads: tuple[Path, ...] = option(
        "Batsim workload (JSON); several are simulated together.", "-w", "--workload"
    )
    events: tuple[Path, ...] = option(
        "External events, including the power production (one JSON object per line)."
    )
    master_host: str = option(
        "Name of the master host, which runs no jobs ('none' if the platform file already marks one).",
        "-m",
        default="master_host",
        metavar="NAME",
    )
    metering: bool = option(
        "Meter energy and allow P-state changes, as Batsim does with -E (on by default).",
        "-E/--no-metering",
        default=True,
        show_default=False,
    )


class PolicyOptions(CommandOptions):
    """The policy and its options."""

    policy: str = option_of(RunSettings, "policy", metavar="NAME", shell_complete=known_policies)
    single_options: tuple[str, ...] = option(
        "Option of the policy, such as prices=flat; may be repeated ('beasy-sched policies NAME' lists the"
        " options).",
        "--option",
        metavar="NAME=VALUE",
    )
    policy_options: str = option_of(
        RunSettings, "options", "--options", metavar="JSON|@FILE", default="{}", show_default=False
    )
    budget: str | None = option(
        "Energy budget of 'energybud', 'reducepc' and 'powercap': '60%' of the energy used if all servers"
        " computed for the whole period, or '500kWh', '1.2e12J', 'inf'.",
        metavar="AMOUNT",
    )
    period: str | None = option(
        "Period of the budget, from time 0: '2d:5d', '0:12h', '172800:432000'.", metavar="START:END"
    )
    shutdown: Literal["none", "opportunistic"] | None = option(
        "Switch off servers that are idle during the budget period."
    )
    risk: str | None = option(
        "Share of windows, such as 5%, in which a job may be killed for lack of energy or the battery may"
        " fall below SoC_min ('beasy', 'bid-price'). Margins follow from the quantiles of the forecast.",
        metavar="SHARE",
    )
    allocation: Literal["any", "contiguous"] | None = option(
        "Allocate any servers to a job, or only servers with consecutive numbers."
    )


class SiteOptions(CommandOptions):
    """Site, length, plans and forecasts of a run."""

    site: Path | None = option_of(RunSettings, "site")
    plan: str | None = option_of(RunSettings, "plan", type=click.Path(dir_okay=False), metavar="FILE")
    forecast: str | None = option_of(RunSettings, "forecast", metavar="SOURCE")
    windows: int = option_of(RunSettings, "windows")
    replan: str | None = option_of(ReplanSettings, "every", metavar="window|TIME")
    replan_workload: tuple[Path, ...] = option_of(ReplanSettings, "workloads", default=None)
    replan_demand: Path | None = option_of(ReplanSettings, "demand")
    replan_production: str | None = option_of(
        ReplanSettings, "production", type=click.Path(dir_okay=False), metavar="SOURCE"
    )
    replan_season: Path | None = option_of(ReplanSettings, "season")
    replan_limit: float | None = option_of(ReplanSettings, "limit_s", metavar="S")


class FollowOptions(CommandOptions):
    """Forecasts that `serve` and `slurm run` read again."""

    forecast_stale: float | None = option_of(
        FollowSettings, "stale_s", type=parsed(parse_duration), default=None, metavar="TIME"
    )
    forecast_every: float = option_of(
        FollowSettings, "every_s", type=parsed(parse_duration), default="1h", metavar="TIME"
    )
    forecast_pv_kw: float | None = option_of(FollowSettings, "pv_kw", metavar="KW")
    forecast_wind_kw: float | None = option_of(FollowSettings, "wind_kw", metavar="KW")


class RunOptions(SiteOptions, PolicyOptions):
    """Options shared by `serve` and `simulate`."""

    energy: EnergySource = option_of(RunSettings, "energy")
    no_power_actions: bool = option(
        "Never change P-states. Required if Batsim runs without -E, because it would abort."
    )
    retry: float | None = option_of(RunSettings, "retry_s", type=parsed(_retry), default=None, metavar="TIME")
    decisions: bool = option("Write the decision log.", "--decisions/--no-decisions", default=True)
    watch: bool = option(
        "Show a live view in the terminal: storage levels, powers, the plan, servers, queue and decisions."
    )
    metrics: str | None = option(
        "Serve Prometheus metrics during the run, at http://ADDRESS/metrics: :9100 (this machine only),"
        " *:9100 (all network interfaces), [::1]:9100. Port 0 selects any free port. In 'simulate', metrics"
        " change at the speed of the simulation.",
        metavar="ADDRESS",
    )
    record: Path | None = option("Record every message to this file, for 'beasy-sched replay'.")


class PlacedRunOptions(RunOptions):
    """Options of runs in which the policy or an EASY scheduler within its offers places the jobs."""

    placement: Placement | None = option_of(RunSettings, "placement", default=None)
    suspend_s: float | None = option_of(
        RunSettings, "suspend_s", "--suspend", type=parsed(parse_duration), default=None, metavar="TIME"
    )
    on_kill: OnKill | None = option_of(RunSettings, "on_kill", default=None)


def settings_of(given: RunOptions) -> RunSettings:
    """Read the files that the options name. Raises ConfigError and InputError."""
    from beasy_sched.formats.site_file import read_site_text

    placed = given if isinstance(given, PlacedRunOptions) else None
    placement = None if placed is None else placed.placement
    suspend_s = None if placed is None else placed.suspend_s
    on_kill = None if placed is None else placed.on_kill
    return RunSettings(
        policy=given.policy,
        options=policy_options(given),
        site=None if given.site is None else read_site_text(given.site),
        site_name=str(given.site),
        plan=given.plan,
        forecast=given.forecast,
        windows=given.windows,
        energy=given.energy,
        power_actions=not given.no_power_actions,
        replan=replan_of(given),
        retry_s=UNSET if given.retry is None else given.retry,
        placement=UNSET if placement is None else placement,
        suspend_s=UNSET if suspend_s is None else suspend_s,
        on_kill=UNSET if on_kill is None else on_kill,
    )


def followed(settings: RunSettings, given: FollowOptions) -> RunSettings:
    """Return the settings with those of forecasts that are read again. Raises ConfigError."""
    follow = FollowSettings(
        given.forecast_stale, given.forecast_every, given.forecast_pv_kw, given.forecast_wind_kw
    )
    if follow == FollowSettings():
        return settings
    check(follow)
    return msgspec.structs.replace(settings, follow=follow)


def replan_of(given: SiteOptions) -> ReplanSettings | None:
    """Return the settings of plans made during the run. Raises ConfigError for options without --replan."""
    if given.replan is None:
        values = ("workload", "demand", "production", "season", "limit")
        if lone := next((name for name in values if getattr(given, f"replan_{name}")), None):
            raise ConfigError(f"--replan-{lone} requires --replan, such as --replan window")
        return None
    demand, season = (
        None if path is None else str(path) for path in (given.replan_demand, given.replan_season)
    )
    workloads = tuple(map(str, given.replan_workload))
    return ReplanSettings(
        given.replan, workloads, demand, given.replan_production, given.replan_limit, season
    )


def policy_options(given: PolicyOptions) -> dict[str, Any]:
    """Read the policy's options, including those given as flags of the budget.

    Raises ConfigError and InputError, also if an option is given in both ways.
    """
    from beasy_sched.run.building import read_options

    options = read_options(given.policy_options, given.single_options)
    flags = ("budget", "shutdown", "allocation", "risk")
    named = {name: (name, text) for name in flags if (text := getattr(given, name)) is not None}
    if given.period is not None:
        start, colon, end = given.period.partition(":")
        if not colon:
            raise ConfigError(f"--period: found {given.period!r}, expected START:END, such as 2d:5d")
        named |= {"period_start": ("period", start or "0"), "period_end": ("period", end)}
    for name, (flag, _) in named.items():
        if name in options:
            raise ConfigError(
                f"--{flag} {getattr(given, flag)} and the policy's option {name}={options[name]} are the same"
                " option: give only one of them"
            )
    return options | {name: text for name, (_, text) in named.items()}


@contextmanager
def watching(asked: bool, policy: str) -> Iterator[Watch | None]:
    """Show a run on stderr while the block runs, if requested; None if not.

    If stderr is not a terminal, nothing is shown, with a warning.
    """
    if asked and not sys.stderr.isatty():
        click.echo("warning: --watch is ignored: stderr is not a terminal", err=True)
    elif asked:
        from rich.console import Console

        from beasy_sched.outputs.watch import Watch

        with Watch(Console(stderr=True, highlight=False), policy).shown() as watch:
            yield watch
        return
    yield None


@contextmanager
def exporting(address: str | None, policy: str, *, quiet: bool = False) -> Iterator[Metrics | None]:
    """Serve metrics while the block runs, if an address is given; None if not.

    Raises ConfigError for an address that cannot be used, and without the extra ``metrics``.
    """
    if address is None:
        yield None
        return
    from beasy_sched.outputs.metrics import Metrics
    from beasy_sched.outputs.metrics_page import MetricsPage

    metrics = Metrics(policy)
    with MetricsPage(address, metrics.page, metrics.content_type) as page:
        if not quiet:
            print_line(f"metrics at {page.url}")
        yield metrics
