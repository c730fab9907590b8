"""``beasy-sched compare``: compare policies on the same workload and weather."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_type_hints

import click

from beasy_sched.cli import main
from beasy_sched.cli.options import (
    FOLDER,
    CommandOptions,
    InputOptions,
    SectionedCommand,
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
from beasy_sched.cli.progress import Bars, ProgressOptions, counting, progress_bar
from beasy_sched.declared import made_of
from beasy_sched.errors import Interrupted
from beasy_sched.extras import is_installed, pip_words
from beasy_sched.generate.workload_options import ArrivalShape
from beasy_sched.model.choices import Placement
from beasy_sched.plugins.campaigns.commands.campaign import (
    ExecutorOptions,
    JobsOption,
    PartOption,
    TableOptions,
    check_tables,
    executor_of,
    left_text,
    print_warnings,
    show_paired,
    unless_stopped,
)
from beasy_sched.plugins.campaigns.comparisons.compared_policy import ComparedPolicy
from beasy_sched.plugins.campaigns.comparisons.days import (
    HOSTS,
    PV_KW,
    WIND_KW,
    ComparedDays,
    DayInputs,
    DayOptions,
    GeneratedDays,
    OwnDays,
    Production,
)
from beasy_sched.plugins.campaigns.comparisons.greenslot_runs import GREENSLOT_RUNS
from beasy_sched.run.settings import RunSettings
from beasy_sched.units import counted, parse_duration

if TYPE_CHECKING:
    from beasy_sched.outputs.tables import Contender
    from beasy_sched.plugins.campaigns.comparisons.side_by_side import Compared, Comparison


INPUT: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
"""An existing file."""


class _SiteFileType(click.Path):
    """An existing site file, or ``default``: the built-in site."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from beasy_sched.formats.site_file import DEFAULT_SITE

        return Path(DEFAULT_SITE) if value == DEFAULT_SITE else super().convert(value, param, ctx)


SITE: Final = _SiteFileType(exists=True, dir_okay=False, path_type=Path)
_PRELOADED: Final = (
    "beasy_sched.cli.simulate", "beasy_sched.outputs.tables", "beasy_sched.run.in_process",
    "beasy_sched.plugins.campaigns.comparisons.policy_run",
)  # fmt: skip
"""Context of the policies' processes."""


def with_signal_code(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command that a signal stops exit with the code that shells use (130 for SIGINT)."""

    @functools.wraps(command)
    def called(*given: Any, **named: Any) -> None:
        try:
            command(*given, **named)
        except Interrupted as stop:
            print_line(f"beasy-sched: {stop}")
            sys.exit(128 + stop.number)

    return called


class SharedOptions(CommandOptions):
    """Options shared by `compare` and `year`."""

    seed: int = option_of(DayOptions, "seed")
    sigma_pct: float = option_of(DayOptions, "sigma_pct", "--sigma", metavar="PCT")
    swf: Path | None = option_of(DayOptions, "swf", type=INPUT, metavar="FILE")
    cores_per_host: int | None = option_of(DayOptions, "cores_per_host", default=None, metavar="N")
    max_run_s: float | None = option_of(
        DayOptions, "max_run_s", "--max-run-time", type=parsed(parse_duration), metavar="TIME"
    )
    ninja_pv: Path | None = option_of(DayOptions, "ninja_pv", type=INPUT, metavar="FILE")
    ninja_wind: Path | None = option_of(DayOptions, "ninja_wind", type=INPUT, metavar="FILE")


class _WhatRuns(JobsOption):
    policies: tuple[ComparedPolicy, ...] = option(
        "Policy to compare: a name from 'beasy-sched policies', or package.module:Class; with options as one"
        " argument, 'greenslot prices=flat'. With 'placement=external', an EASY scheduler places the jobs"
        " within the servers that the policy offers. With 'on_kill=requeue' or 'on_kill=checkpoint', killed"
        " jobs come back. May be repeated. A single policy prints its full summary."
        " [default: nine]",
        "--policy",
        type=parsed(ComparedPolicy.of),
        multiple=True,
        metavar="NAME",
        shell_complete=known_policies,
    )
    single_options: tuple[str, ...] = option(
        "Option of the policy; may be repeated. Requires a single --policy.",
        "--option",
        metavar="NAME=VALUE",
    )
    policy_options: str | None = option(
        "All options of the policy. Requires a single --policy.", "--options", metavar="JSON|@FILE"
    )
    wire: bool = option(
        "Run scheduler and simulator as two processes that communicate over ZeroMQ, as with a real Batsim"
        " (slower; same results)."
    )
    out: Path | None = option(
        "Output folder.",
        "-o",
        "--out",
        "--output",
        type=FOLDER,
        metavar="DIR",
        show_default="out/run; out/comparison for SCENARIOs",
    )
    no_report: bool = option("Do not write the HTML report.")
    markdown: bool = option("Print the table in Markdown.")
    quiet: bool = again(ProgressOptions.quiet, help="No progress, no hints: the results only.")
    verbose: bool = ProgressOptions.verbose


class _OnScenarios(CommandOptions):
    heading = "Options with SCENARIOs"

    against: str | None = option(
        "Policy that the others are compared with, pair by pair.",
        metavar="NAME",
        shell_complete=known_policies,
        show_default="the first",
    )
    figure: Path | None = again(TableOptions.figure)
    measures: tuple[str, ...] = again(TableOptions.measures)
    most_seeds: int | None = option(
        "Use only the first N noise seeds of each scenario.", "--seeds", type=Whole(1, 100_000), metavar="N"
    )


class _Where(ExecutorOptions, PartOption):
    heading = _OnScenarios.heading


class _TheDays(SharedOptions):
    heading = "Jobs, weather and days"

    scenario: Literal["greenslot"] | None = option(
        "Use the week of the GreenSlot paper instead: 28 workflows with deadlines on 16 servers with"
        f" 2.3 kW of PV and a grid connection; compares {', '.join(GREENSLOT_RUNS)}."
    )
    quick: bool = option_of(GeneratedDays, "quick")
    arrivals: ArrivalShape | None = option_of(GeneratedDays, "arrivals")
    production: Production = option_of(GeneratedDays, "production")
    no_plan: bool = option("Do not plan the window. Requires a --policy that works without a plan.")
    begin: str | None = option_of(GeneratedDays, "begin", "--from", metavar="TIME")
    start: str | None = option_of(GeneratedDays, "start", metavar="TIME")
    site: Path | None = option(
        "Your site file, or 'default' for the built-in site.",
        type=SITE,
        metavar="FILE",
    )


_INPUTS: Final[dict[str, Any]] = {"type": INPUT, "multiple": True, "metavar": "FILE"}


class _OwnFiles(CommandOptions):
    heading = "Options on your own files"

    platform: Path | None = option(
        "Compare on your own files: SimGrid platform (XML).", "-p", type=INPUT, metavar="FILE"
    )
    workloads: tuple[Path, ...] = again(InputOptions.workloads, **_INPUTS)
    events: tuple[Path, ...] = again(InputOptions.events, **_INPUTS)
    plan: Path | None = option_of(RunSettings, "plan", type=INPUT, metavar="FILE")
    forecast: str | None = option_of(RunSettings, "forecast", metavar="SOURCE")
    windows: int = option_of(RunSettings, "windows")
    master_host: str | None = option(
        "Name of the master host, which runs no jobs. [default: master_host]", "-m", metavar="NAME"
    )


@click.command(cls=SectionedCommand)
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@with_options(_WhatRuns)
@with_options(_OnScenarios)
@with_options(_Where)
@with_options(_TheDays)
@with_options(_OwnFiles)
@click.pass_context
@with_signal_code
def compare(
    context: click.Context,
    what: _WhatRuns,
    shown: _OnScenarios,
    where: _Where,
    days: _TheDays,
    own: _OwnFiles,
    scenarios: tuple[str, ...],
) -> None:
    """Compare policies on the same workload and weather, with a table and a report."""
    from beasy_sched.plugins.campaigns.comparisons.repeated_command import Commands
    from beasy_sched.plugins.campaigns.comparisons.side_by_side import PATIENCE_S, Compared
    from beasy_sched.plugins.campaigns.processes import Processes

    if scenarios:
        _compare_scenarios(context, what, shown, where, days, scenarios)
        return
    _omit(context, _WITH_SCENARIOS, "intervals and tests require several executions: pass SCENARIOs, or")
    comparison = _comparison(context, what, days, own)
    single = len(comparison.policies) == 1 and not what.markdown
    slots = min(what.jobs, len(comparison.policies))
    processes = Processes(slots, patience_s=PATIENCE_S, preload=_PRELOADED)
    with contextlib.closing(processes) as executor:
        commands = Commands(main, executor, print_line, quiet=what.quiet)
        clock = _Clock()
        inputs = comparison.prepare(commands)
        clock.passed("inputs", "plan", commands.spent_s.get("plan"))
        comparison.show_runs(inputs, commands, single=single)
        if single:
            compared = Compared([comparison.run_one(inputs, commands)], inputs)
        else:
            with _CompareProgress(len(comparison.policies), slots, quiet=what.quiet) as progress:
                compared = comparison.run_all(inputs, commands, progress, width(100) - 2)
        clock.passed("policies")
        report = None
        if compared.stop is None and not what.no_report:
            if is_installed("plotly"):
                report = comparison.write_report(compared, commands)
                clock.passed("report")
            else:
                commands.say(f"no HTML report, which needs plotly: {_install_report()}")
    _show(comparison, compared, report, what, single=single)
    if not what.quiet:
        print_line(clock.line())
    if compared.stop is not None:
        raise compared.stop
    context.exit(int(any(contender.problem for contender in compared.contenders)))


class _Clock:
    """Stopwatch of the parts of a command, in wall-clock time."""

    def __init__(self) -> None:
        self._parts: dict[str, float] = {}
        with contextlib.suppress(ValueError):  # of a script that has just made the environment
            self._parts["installation"] = float(os.environ.get(_INSTALLATION, ""))
        self._begin = time.monotonic()

    def passed(self, part: str, within: str = "", within_s: float | None = None) -> None:
        """Record the time since the last call as that of a part, without the ``within_s`` of another."""
        now = time.monotonic()
        self._parts[part] = now - self._begin - (within_s or 0.0)
        if within_s is not None:
            self._parts[within] = within_s
        self._begin = now

    def line(self) -> str:
        """Return the times in a line."""
        parts = ", ".join(f"{part} {seconds:.0f} s" for part, seconds in self._parts.items())
        return f"Time: {sum(self._parts.values()):.0f} s ({parts})"


_INSTALLATION: Final = "BEASY_INSTALLATION_S"
"""Variable with the time that `scripts/run` needed to install the program, s."""
_ADD_REPORT: Final = "BEASY_ADD_REPORT"
"""Variable with the command that adds the report's packages, if `scripts/run` has made the environment."""


def _install_report() -> str:
    """Return how to install the packages of the report."""
    return os.environ.get(_ADD_REPORT) or pip_words("beasy-sched[report]")


compare.help = f"""Compare policies on the same workload and weather, with a table and a report.

    Without your own files, the command generates a platform of {HOSTS} servers, a workload of three days and
    the power of {PV_KW} kW of PV and {WIND_KW} kW of wind, as forecast and as actual values; plans the window
    from the forecast; then runs nine policies on the actual values. Results are in DIR/POLICY/run_*.

    \b
      beasy-sched compare
      beasy-sched compare --quick --policy beasy --policy "easy priority=slowdown"
      beasy-sched compare --swf trace.swf --ninja-pv pv.csv --start 2019-06-01

    With your own files, nothing is generated. Your own policies are given as package.module:Class:

    \b
      beasy-sched compare -p platform.xml -w workload.json --events power.txt --site site.toml \\
          --plan plan.msgpack --policy beasy --policy easy --policy mine.policy:Mine -o out/mine

    With SCENARIOs (files, or built-in ones by name), policies run on many executions; the tables have means,
    paired differences from one policy, their intervals and permutation tests:

    \b
      beasy-sched compare best-begin mine.toml --policy beasy --policy mine.policy:Mine --against beasy
      beasy-sched compare average --swf trace.swf --policy beasy --policy mine.policy:Mine --figure mine.pdf

    With --swf, --ninja-pv and --ninja-wind, scenarios use your jobs and weather, from days spread over your
    files.

    The exit code is 0 if all runs are complete, 1 if one failed, 2 if an option or input is invalid.
    """


def _compare_scenarios(
    context: click.Context,
    what: _WhatRuns,
    shown: _OnScenarios,
    where: _Where,
    days: _TheDays,
    names: tuple[str, ...],
) -> None:
    """Compare policies on many executions: a campaign, whose finished runs are reused, and its tables."""
    from beasy_sched.plugins.campaigns.comparisons.scenarios import RUNS, scenario_comparison
    from beasy_sched.plugins.campaigns.comparisons.side_by_side import TABLE_NAME, check_labels
    from beasy_sched.plugins.campaigns.own_days import OwnFiles

    others = {parameter.name or "" for parameter in context.command.params} - _OF_SCENARIOS
    _omit(context, sorted(others), "scenarios define their own workload, weather and files")
    require_trace(context, days)
    check_labels(what.policies)
    how = TableOptions(markdown=what.markdown, figure=shown.figure, measures=shown.measures)
    check_tables(how)
    out = what.out or Path("out/comparison")
    weather = tuple(path for path in (days.ninja_pv, days.ninja_wind) if path is not None)
    comparison = scenario_comparison(
        names,
        what.policies,
        out,
        against=shown.against,
        small=days.quick,
        files=OwnFiles(weather, days.swf, days.cores_per_host, days.max_run_s),
        most_seeds=shown.most_seeds,
    )
    with unless_stopped("run the same command again"), progress_bar("runs", quiet=what.quiet) as report:
        executor = executor_of(where, what.jobs)
        outcome = comparison.run(executor, counting(report), retry_failed=where.retry_failed, part=where.part)
    if not what.quiet:
        print_line(
            f"{counted(outcome.runs, 'run')}, {outcome.executed} executed now, {outcome.failed} failed"
        )
    print_warnings(outcome)
    if outcome.left:
        print_line(f"{left_text(outcome.left)}; the last part to finish prints the tables")
    else:
        show_paired(comparison.results(), how)
        if not (what.markdown or what.quiet):
            print_text(f"Files in {out}: the tables in {TABLE_NAME}; the runs in {RUNS}/runs.parquet")
    context.exit(int(outcome.failed > 0))


_WITH_SCENARIOS: Final = (*get_type_hints(_OnScenarios), *get_type_hints(_Where))
"""Parameters of comparisons on scenarios only."""
_OF_SCENARIOS: Final = {
    "scenarios", "policies", "out", "quick", "jobs", "markdown", "swf", "cores_per_host", "max_run_s",
    "ninja_pv", "ninja_wind", "quiet", "verbose", *_WITH_SCENARIOS,
}  # fmt: skip
"""Parameters of comparisons on scenarios."""


# --- interpreting the options -------------------------------------------------------------------------------


def _comparison(context: click.Context, what: _WhatRuns, days: _TheDays, own: _OwnFiles) -> Comparison:
    """Read the options. Raises a usage error for options that exclude each other, and ConfigError."""
    from beasy_sched.plugins.campaigns.comparisons.side_by_side import (
        Comparison,
        check_labels,
        with_short_labels,
    )

    chosen = _days(context, days, own)
    if (what.single_options or what.policy_options is not None) and len(what.policies) != 1:
        raise click.UsageError("--option and --options require exactly one policy: pass --policy NAME")
    if days.no_plan and not what.policies and not days.scenario:
        raise click.UsageError(
            "--no-plan: most of the nine policies need a plan; choose others, such as --policy easy"
        )
    by_label = {
        name: ComparedPolicy(name, policy, (*words,)) for name, (policy, words) in chosen.policies.items()
    }
    named = [by_label.get(policy.label, policy) for policy in with_short_labels(what.policies)]
    policies = named or [*by_label.values()]
    check_labels(policies)
    given = [] if what.policy_options is None else ["--options", what.policy_options]
    given += [word for each in what.single_options for word in ("--option", each)]
    if given:
        (only,) = policies
        if what.policies[0].arguments:
            raise click.UsageError(
                f"--policy {only.label!r} already has options: omit --option and --options"
            )
        policies = [replace(only, arguments=(*given,))]
    return Comparison(chosen, policies, what.out or Path("out/run"), what.wire)


def _days(context: click.Context, days: _TheDays, own: _OwnFiles) -> ComparedDays:
    """Return the days. Raises a usage error for options that do not apply to them."""
    from beasy_sched.plugins.campaigns.comparisons.greenslot_days import GreenslotDays

    if days.scenario is not None:
        _omit(context, _OTHER_DAYS, f"--scenario {days.scenario} defines its own workload and weather")
        if days.production in ("best", "worst"):
            raise click.UsageError(
                f"--production {days.production}: the solar power of --scenario {days.scenario} was measured;"
                " omit the option, or pass exact for perfect predictions"
            )
        _omit(context, _OWN_FILES, f"--scenario {days.scenario} defines its own files")
        return GreenslotDays(days.site, days.production == "exact")
    if own.platform is not None or own.workloads:
        return _own_days(context, days, own)
    _omit(context, _OWN_FILES, "to compare on your own files, also pass -p and -w; or")
    require_trace(context, days)
    if days.swf is not None and days.arrivals:
        raise click.UsageError("--arrivals is for generated jobs: a trace has its own arrivals")
    if days.site is not None and days.quick:
        raise click.UsageError(
            "--quick applies only to the site of the generated days: set window_h in your site file instead"
        )
    return made_of(GeneratedDays, vars(days), planned=not days.no_plan)


_OTHER_DAYS: Final = (
    "quick", "seed", "arrivals", "sigma_pct", "swf", "begin", "cores_per_host", "max_run_s", "ninja_pv",
    "ninja_wind", "start",
)  # fmt: skip
"""Options of generated days."""
_OWN_FILES: Final = (*get_type_hints(_OwnFiles),)


def _own_days(context: click.Context, days: _TheDays, own: _OwnFiles) -> OwnDays:

    if own.platform is None or not own.workloads:
        missing = "-p PLATFORM" if own.platform is None else "-w WORKLOAD"
        raise click.UsageError(f"your own files must include a platform and a workload: also pass {missing}")
    _omit(context, (*_OTHER_DAYS, "production", "no_plan"), "-p and -w replace the generated days")
    return OwnDays(
        DayInputs(
            str(own.platform),
            [*map(str, own.workloads)],
            [*map(str, own.events)],
            None if days.site is None else str(days.site),
            None if own.plan is None else str(own.plan),
            own.forecast,
            own.windows,
            own.master_host,
        )
    )


def _omit(context: click.Context, names: Sequence[str], why: str) -> None:
    """Raise a usage error if one of these options is given."""
    if given := _given(context, names):
        raise click.UsageError(f"{why}: omit {given[0]}")


def require_trace(context: click.Context, days: SharedOptions) -> None:
    """Raise a usage error if an option of traces is given without a trace."""
    given = _given(context, ("begin", "cores_per_host", "max_run_s"))
    if given and days.swf is None:
        raise click.UsageError(f"{given[0]} requires a trace: pass --swf FILE")


def _given(context: click.Context, names: Sequence[str]) -> list[str]:
    """Return the options with these names that the command has and that differ from their default."""
    options = {parameter.name: parameter.opts[-1] for parameter in context.command.params}
    default = click.core.ParameterSource.DEFAULT
    return [
        options[name] for name in names if name in options and context.get_parameter_source(name) != default
    ]


# --- printing ----------------------------------------------------------------------------------------


def _show(
    comparison: Comparison, compared: Compared, report: Path | None, what: _WhatRuns, *, single: bool
) -> None:
    """Print the results and what to do next; at the very end the name of the report."""
    from beasy_sched.plugins.campaigns.comparisons.side_by_side import TABLE_NAME

    if single:  # its run has printed its summary
        for _, text in comparison.yardsticks(compared.contenders):
            print_text(f"perfect foresight: {text}")
        print_text(f"Workload and weather: {comparison.days.in_words}")
        results = f"results in {comparison.policies[0].folder_name}/run_*"
    else:
        if compared.stop is None:
            comparison.write_table(compared.contenders, report)
        if what.markdown:
            click.echo(comparison.table(compared.contenders), nl=False)
            return
        _show_table(comparison, compared.contenders)
        table = f"the table in {TABLE_NAME}; " if compared.stop is None else ""
        results = f"{table}results in POLICY/run_*"
    if what.quiet:
        return
    _list_files(comparison, compared, results)
    _show_hints(comparison)
    if report is not None:
        print_text(f"Charts, in any browser: {report}")


def _show_table(comparison: Comparison, contenders: Sequence[Contender]) -> None:
    """Print the table of all policies, its conclusion, and the common conditions of the runs."""
    from beasy_sched.outputs.tables import comparison_lines, conditions, own_warnings
    from beasy_sched.outputs.verdict import verdict

    for line in ("", *comparison_lines(contenders, width(100)), ""):
        click.echo(line)
    if said := " ".join(verdict(contenders)):
        print_text(said, indent="")
        click.echo()
    for label, text in own_warnings(contenders):
        print_text(f"warning: {label}: {text}")
    for label, text in comparison.yardsticks(contenders):
        print_text(f"perfect foresight, {label}: {text}")
    print_text(f"Workload and weather: {comparison.days.in_words}")
    print_text(f"The site: {'; '.join(conditions(contenders)) or 'no run is complete'}")
    for each in comparison.policies:
        described = f"{each.label}: policy {each.policy} {shlex.join(each.arguments)}".rstrip()
        if each.placement is Placement.EXTERNAL:
            print_text(f"{described}; an EASY scheduler places the jobs within the servers that it offers")
        elif each.label != each.policy:
            print_text(described)


def _list_files(comparison: Comparison, compared: Compared, results: str) -> None:
    """Print which files were written."""
    made = [path.name for path in map(Path, compared.inputs.made) if path.exists()]
    print_text(f"Files in {comparison.out}: {', '.join(made)}{'; ' if made else ''}{results}")
    if earlier := comparison.earlier_runs():
        print_text(f"Also in {comparison.out}, from an earlier comparison: {', '.join(earlier)}")


def _show_hints(comparison: Comparison) -> None:
    """Print the commands that explain the results."""
    days, policies = comparison.days, comparison.policies
    shown = next((each for each in policies if each.label == days.example_policy), policies[0])
    example = shlex.quote(str(comparison.folder_of(shown)))
    activate = os.path.join(sys.prefix, "bin", "activate")
    if shutil.which("beasy-sched") is None and os.path.exists(activate):
        print_text(f"To make the command beasy-sched available: . {os.path.relpath(activate)}")
    print_text(f"To see why jobs waited or were killed: beasy-sched explain {example}")
    if (job := days.example_job) is not None:
        print_text(f"To inspect a single job: beasy-sched explain {example} --job {job}")


class _CompareProgress(contextlib.AbstractContextManager["_CompareProgress"]):
    """Printer of a line for each policy that ends; on a terminal, above a bar with the running ones."""

    def __init__(self, total: int, jobs: int, *, quiet: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

        self._title = f"{total} policies, {jobs} concurrently:"
        self._total, self._ended, self._at_a_time = total, 0, jobs
        columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._bars = Bars(*columns, where=self.where, quiet=quiet)
        self._task = self._bars.rich.add_task("", total=total)
        self._begun: list[str] = []
        """Policies that run, in front of those that wait for a process."""

    def __enter__(self) -> _CompareProgress:
        self._bars.say(self._title)
        self._bars.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.__exit__(*_)

    def where(self) -> str:
        """Return how far the comparison is, and which policies run."""
        return f"  {self._ended} of {self._total} policies have ended; running: {self._running}"

    @property
    def _running(self) -> str:
        return ", ".join(self._begun[: self._at_a_time])

    def began(self, policy: str) -> None:
        """Record that a policy started."""
        self._begun.append(policy)
        self._bars.rich.update(self._task, description=self._running)

    def ended(self, policy: str, story: str) -> None:
        """Record that a policy ended, and report it."""
        self._begun.remove(policy)
        self._ended += 1
        for line in story.splitlines():
            self._bars.say(f"  {line}")
        self._bars.rich.update(self._task, advance=1, description=self._running)


def print_text(text: str, *, indent: str = "  ") -> None:
    """Print text wrapped to the terminal, with all lines but the first indented."""
    wrapped = textwrap.fill(
        text, width(100), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    click.echo(wrapped)
