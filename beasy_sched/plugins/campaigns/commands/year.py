"""``beasy-sched year``: policies over a year, with rolling plans."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import click
from rich.progress import ProgressColumn, TaskID
from rich.progress import Task as RichTask
from rich.progress_bar import ProgressBar

from beasy_sched.cli import main
from beasy_sched.cli.options import (
    FOLDER,
    Whole,
    again,
    known_policies,
    option,
    option_of,
    parsed,
    print_line,
    width,
    with_options,
)
from beasy_sched.cli.progress import Bars, ProgressOptions
from beasy_sched.declared import made_of
from beasy_sched.errors import BeasyError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.limits import shortened
from beasy_sched.plugins.campaigns.commands.campaign import JobsOption
from beasy_sched.plugins.campaigns.commands.compare import (
    SITE,
    SharedOptions,
    print_text,
    require_trace,
    with_signal_code,
)
from beasy_sched.plugins.campaigns.comparisons.year_run import (
    SHARE,
    YEAR_DAYS,
    YEAR_POLICIES,
    YEAR_PV_KW,
    YEAR_SERVERS,
    YEAR_WIND_KW,
    Year,
)
from beasy_sched.units import counted

_QUICK_DAYS: Final = 6
_MOST_DAYS: Final = 3660
"""Ten years."""
_TABLE: Final = "months.txt"
_PICTURE: Final = "year.png"
_PRELOADED: Final = ("beasy_sched.plugins.campaigns.comparisons.year_run",)


def _date(text: str) -> datetime:
    try:
        day = datetime.strptime(text, "%Y-%m-%d")
        if not 1900 <= day.year <= 2200:
            raise ValueError
    except ValueError:
        raise ValueError(f"found {shortened(text, 40)!r}, expected a day such as 2019-01-01") from None
    return day


class _YearOptions(SharedOptions, JobsOption):
    policies: tuple[str, ...] = option(
        "Policy to compare, by name or as package.module:Class; may be repeated.",
        "--policy",
        metavar="NAME",
        show_default=", ".join(YEAR_POLICIES),
        shell_complete=known_policies,
    )
    days: int | None = option(
        "Number of days.", type=Whole(1, _MOST_DAYS), metavar="N", show_default=str(YEAR_DAYS)
    )
    quick: bool = option(f"{_QUICK_DAYS} days.")
    servers: int = option_of(Year, "servers")
    pv_kw: float = option_of(Year, "pv_kw", metavar="KW")
    wind_kw: float = option_of(Year, "wind_kw", metavar="KW")
    site: Path | None = option(
        "Your site file (must have battery and hydrogen).",
        type=SITE,
        metavar="FILE",
    )
    start: datetime | None = option(
        "First day, within the exports.", type=parsed(_date), metavar="DATE", show_default="2024-01-01"
    )
    out: Path = option(
        "Output folder.", "-o", "--out", "--output", type=FOLDER, default=Path("out/year"), metavar="DIR"
    )
    quiet: bool = again(ProgressOptions.quiet, help="No progress, no hints: the results only.")
    verbose: bool = ProgressOptions.verbose


@click.command()
@with_options(_YearOptions)
@click.pass_context
@with_signal_code
def year(context: click.Context, given: _YearOptions) -> None:
    """Compare policies over a year with rolling plans: monthly table and chart of storage levels."""
    from beasy_sched.outputs.tables import comparison_lines
    from beasy_sched.plugins.campaigns.comparisons.repeated_command import Commands
    from beasy_sched.plugins.campaigns.comparisons.side_by_side import PATIENCE_S
    from beasy_sched.plugins.campaigns.processes import Processes

    began_s = time.monotonic()
    require_trace(context, given)
    chosen = _chosen(given)
    slots = min(given.jobs, len(chosen.policies))
    with contextlib.closing(Processes(slots, patience_s=PATIENCE_S, preload=_PRELOADED)) as executor:
        commands = Commands(main, executor, print_line, quiet=given.quiet)
        inputs = chosen.prepare(commands)
        commands.say(
            f"{counted(chosen.days, 'day')} on {counted(chosen.servers, 'server')}, a plan for each of"
            f" {counted(inputs.windows, 'window')}"
        )
        with _Bars(chosen.out, quiet=given.quiet) as bars:
            contenders, stop = chosen.run(inputs, commands, bars)
    for line in ("", *comparison_lines(contenders, width(100)), ""):
        click.echo(line)
    if ended := [each.policy for each in contenders if each.failure is None]:
        _show_months(chosen, ended, written=stop is None, quiet=given.quiet)
    commands.say(f"{time.monotonic() - began_s:.0f} s")
    if stop is not None:
        raise stop
    context.exit(int(len(ended) < len(contenders)))


year.help = f"""Compare policies over a year with rolling plans: monthly table and chart of storage levels.

    Generates {YEAR_DAYS} days of weather and jobs for {YEAR_SERVERS} servers with {YEAR_PV_KW} kW of PV,
    {YEAR_WIND_KW} kW of wind, a battery and hydrogen, as forecast and as actual values; runs the policies,
    with a new plan at the start of every window; prints a table by month, and plots the storage levels over
    the year. Results are in DIR/POLICY/run_*.

    \b
      beasy-sched year --quick
      beasy-sched year --servers 100 --pv-kw 70 --wind-kw 10 --swf trace.swf --days 333 --start 2015-01-01 \\
          --ninja-pv pv.csv --ninja-wind wind.csv
    """


def _chosen(given: _YearOptions) -> Year:
    """Read the options. Raises a usage error for options that exclude each other."""
    if given.days and given.quick:
        raise click.UsageError("--quick sets the number of days: omit --days")
    settled = {
        "policies": tuple(dict.fromkeys(given.policies or YEAR_POLICIES)),
        "days": given.days or (_QUICK_DAYS if given.quick else YEAR_DAYS),
    }
    return made_of(Year, vars(given) | settled)


def _show_months(chosen: Year, policies: Sequence[str], *, written: bool, quiet: bool) -> None:
    """Print the table by month; write it and the figure, unless the comparison was stopped."""
    from beasy_sched.formats.file_set import together
    from beasy_sched.plugins.campaigns.months import draw_year, month_lines
    from beasy_sched.plugins.reports.run_data import read_run_data

    runs = [read_run_data(policy, str(chosen.out / policy / "run")) for policy in policies]
    for line in (*month_lines(runs, width(100)), ""):
        click.echo(line)
    work = "generated jobs" if chosen.swf is None else f"jobs of {chosen.swf.name}"
    title = f"{chosen.days} days, {chosen.servers} servers, {work}"
    if written:
        with together():
            write_atomic(chosen.out / _TABLE, "\n".join(month_lines(runs)) + "\n")
            write_atomic(chosen.out / _PICTURE, draw_year(runs, title))
    if quiet:
        return
    print_text(
        "fin., killed: percent of the jobs submitted in the month that finished, or started but did not; "
        "low: lowest state of charge of the battery; H2: hydrogen at the end of the month."
    )
    tables = f"the table in {_TABLE}, the figure {_PICTURE}, " if written else ""
    print_text(f"Files in {chosen.out}: {tables}results in POLICY/run_*")
    print_text(f"To explain a step: {explain_command(chosen.out / policies[0], chosen.days)}")


def explain_command(run: Path, days: int) -> str:
    """Return the command that explains a noon of a run of some days: in its middle, or on day 21."""
    return shlex.join(["beasy-sched", "explain", str(run), "--at", f"{min(days // 2, 20)}d12h"])


class _Bars(contextlib.AbstractContextManager["_Bars"]):
    """Progress: a line for each policy that ends; on a terminal, a bar for each that runs."""

    def __init__(self, folder: Path, *, quiet: bool) -> None:
        from rich.progress import TextColumn, TimeElapsedColumn

        self._folder = folder
        columns = (TextColumn("  {task.description}"), _ShareColumn(), TimeElapsedColumn())
        self._bars = Bars(*columns, where=self._where, quiet=quiet)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _Bars:
        self._bars.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.__exit__(*_)

    def _where(self) -> str:
        shares = [f"{name} {_share_in(self._file_of(name)):.0%}" for name in [*self._tasks]]
        return f"  {', '.join(shares) or 'no policy is running'}"

    def _file_of(self, policy: str) -> Path:

        return self._folder / policy / SHARE

    def began(self, policy: str) -> None:
        """Add a policy's bar."""
        self._tasks[policy] = self._bars.rich.add_task(policy, share=self._file_of(policy))

    def ended(self, policy: str, story: str) -> None:
        """Replace a policy's bar by a line."""
        self._bars.rich.remove_task(self._tasks.pop(policy))
        self._bars.say(f"  {policy}: {story}")


class _ShareColumn(ProgressColumn):
    """Bar column for the share that a run has written to its file."""

    max_refresh = 0.5

    def render(self, task: RichTask) -> ProgressBar:
        """Read the share."""
        return ProgressBar(total=1.0, completed=_share_in(task.fields["share"]), width=40)


def _share_in(path: Path) -> float:
    """Read the share that a run has done; 0 if it has written none."""
    from beasy_sched.formats.reading import read_bytes

    with contextlib.suppress(OSError, ValueError, BeasyError):
        return float(read_bytes(path))
    return 0.0
