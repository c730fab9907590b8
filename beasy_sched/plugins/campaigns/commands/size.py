"""``beasy-sched size``: the smallest battery, or other part of a site, with which a policy reaches a goal."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from beasy_sched.cli.options import (
    FOLDER,
    WINDOWS,
    CommandOptions,
    Number,
    Whole,
    option,
    parsed,
    with_options,
)
from beasy_sched.cli.progress import counting, progress_bar
from beasy_sched.declared import check_choice
from beasy_sched.errors import ConfigError
from beasy_sched.numbers import ANY_NUMBER
from beasy_sched.plugins.campaigns.axes import AXES
from beasy_sched.plugins.campaigns.commands.campaign import (
    WorkerOptions,
    executor_of,
    print_warnings,
    unless_stopped,
)
from beasy_sched.units import counted

if TYPE_CHECKING:
    from beasy_sched.plugins.campaigns.scenario import Scenario
    from beasy_sched.plugins.campaigns.sizing import SizeAnswer, SizeQuestion

_FROM_OWN, _TO_OWN = 0.1, 10.0
"""Range of sizes tested by default, relative to the scenario's size."""


def _given_size(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, ANY_NUMBER.read(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}; write AXIS=SIZE, such as pv_kw=12") from None


class _SizeOptions(CommandOptions):
    find: str = option(
        "Size to search for; everything else is taken from the scenario.",
        type=click.Choice([*AXES]),
        default="battery_kwh",
    )
    least: float | None = option("Smallest size to test.", "--from", show_default="a tenth of the scenario's")
    most: float | None = option("Largest size to test.", "--to", show_default="ten times the scenario's")
    resolution_pct: float = option(
        "Minimum relative step between tested sizes, in percent.", "--resolution", default=5.0
    )
    goal: Literal["work", "jobs"] = option(
        "Goal: a share of finished work (flops), or of finished jobs.", default="work"
    )
    least_pct: float = option(
        "Share to reach, in percent.", "--least", type=Number(0, 100, above=True), default=99.0
    )
    of_unlimited: bool = option(
        "Relate the share to what the same policy finishes with the same noise seed and unlimited power, so"
        " that work limited by time or servers does not count against the battery."
    )
    no_kills: bool = option("Also require that no job is killed by the guard or the policy.")
    end_at_target: bool = option(
        "Also require that battery and hydrogen end at or above their targets; otherwise the initial charge"
        " may be used up."
    )
    policies: tuple[str, ...] = option(
        "Policy to size for, from the scenario or by name; may be repeated.",
        "--policy",
        metavar="NAME",
        show_default="all of the scenario",
    )
    guard: str | None = option(
        "Guard setting, one of the scenario's.", metavar="LABEL", show_default="its first one"
    )
    seeds: int | None = option(
        "Number of noise seeds for each pair of workload and production, from the scenario's first seed.",
        type=Whole(1, 100_000),
        show_default="the scenario's seeds",
    )
    windows: int | None = option(
        "Length of a run in planning windows of the site.", type=WINDOWS, show_default="the scenario's"
    )
    given: tuple[tuple[str, float], ...] = option(
        "Another size of the scenario; AXIS as for --find. May be repeated.",
        "--set",
        metavar="AXIS=SIZE",
        multiple=True,
        type=parsed(_given_size),
    )
    years: float | None = option(
        "Years of use after which the battery must still suffice; requires [battery.life] in the site.",
        type=Number(0, 100, above=True),
        show_default="until it is replaced, at 80 % of its capacity",
    )
    balance: bool = option(
        "Estimate the size from an hourly energy balance, without a scheduler or runs: takes seconds, but"
        " is often far off (docs/guides/sizing.md)."
    )
    out: Path | None = option(
        "Folder for the runs; later searches reuse them. Required unless --balance is given.",
        "-o",
        "--output",
        type=FOLDER,
        metavar="DIR",
    )
    as_json: bool = option("Print JSON: each noise seed with all tested sizes.", "--json")


@click.command()
@click.argument("scenario", metavar="SCENARIO")
@with_options(_SizeOptions)
@with_options(WorkerOptions)
def size(given: _SizeOptions, how: WorkerOptions, scenario: str) -> None:
    """Find the smallest battery (or PV, wind, hydrogen, servers) with which a policy reaches a goal.

    SCENARIO is a scenario file, or the name of a built-in one ('beasy-sched generate scenario' writes one to
    edit). Each policy is evaluated with several noise seeds; the table shows the median and the range of the
    smallest size.

    \b
    Which battery finishes 99 % of the work with the scenario's PV and wind?
      beasy-sched size mine.toml --policy easy --seeds 5 -o out/size
    How much PV is needed with a battery of 50 kWh and without any kill?
      beasy-sched size mine.toml --find pv_kw --set battery_kwh=50 --no-kills -o out/size
    A first estimate, in seconds:
      beasy-sched size mine.toml --balance

    The largest size is tested first. If it does not suffice, the command reports the limiting factor, with
    exit code 1. Otherwise a coarse grid, bisection and a check of neighbouring sizes follow. A larger size
    may perform worse: schedulers are not monotone. The reported size is the smallest from which all tested
    sizes meet the goal; smaller sizes that also met it are listed below the table.

    Power limits of a battery scale with its capacity, as do the levels of a tank. Runs are kept in DIR by the
    hash of their inputs: after Ctrl-C, or a kill, the same command continues, and another goal reuses them.
    """
    from beasy_sched.plugins.campaigns.size_balance import balance_sizes
    from beasy_sched.plugins.campaigns.size_table import balance_json, balance_lines

    question = _question(given, how, scenario)
    if given.balance and given.years is not None:
        raise ConfigError("--years cannot be used with --balance, which does not model ageing")
    if given.balance:
        answers = balance_sizes(question)
        _show(balance_json(question, answers) if given.as_json else None, [*balance_lines(question, answers)])
        sys.exit(int(any(answer.found.rung is None for answer in answers)))
    if given.out is None:
        raise click.UsageError("Missing option '-o': name the folder of the runs (or use --balance).")
    _tell(_search(question, given.out, how), given, how.quiet)


def _search(question: SizeQuestion, folder: Path, how: WorkerOptions) -> SizeAnswer:
    from beasy_sched.plugins.campaigns.sizing import find_sizes

    with (
        unless_stopped("run the same command again"),
        progress_bar("runs (estimated)", quiet=how.quiet) as report,
    ):
        return find_sizes(
            question,
            folder,
            executor_of(how, how.jobs),
            progress=counting(report),
            retry_failed=how.retry_failed,
        )


def _tell(answer: SizeAnswer, given: _SizeOptions, quiet: bool) -> None:
    from beasy_sched.plugins.campaigns.size_table import size_json, size_lines

    _show(size_json(answer) if given.as_json else None, [*size_lines(answer)])
    if not quiet:
        print_warnings(answer)
        click.echo(f"{counted(answer.executed, 'run')} executed; all are in {given.out}", err=True)
    sys.exit(int(any(math.isinf(each.median) for each in answer.policies)))


def _show(as_json: dict[str, object] | None, lines: list[str]) -> None:
    if as_json is not None:
        click.echo(json.dumps(as_json, indent=1, allow_nan=False))
        return
    for line in lines:
        click.echo(line)


def _question(given: _SizeOptions, how: WorkerOptions, name: str) -> SizeQuestion:
    """Read the options. Raises ConfigError and InputError."""
    from beasy_sched.plugins.campaigns.scenario_file import check_scenario, find_scenario
    from beasy_sched.plugins.campaigns.size_life import cells_of
    from beasy_sched.plugins.campaigns.sizing import Goal, SizeQuestion, ladder
    from beasy_sched.plugins.campaigns.sweep import at_point

    axis = AXES[given.find]
    scenario = _changed(find_scenario(name, allowed=how.allowed), given)
    own = axis.found(scenario)
    least, most = given.least, given.most
    if (least is None or most is None) and not own > 0:
        raise ConfigError(f"--find {axis.name}: the scenario has no single value of it: give --from and --to")
    least, most = own * _FROM_OWN if least is None else least, own * _TO_OWN if most is None else most
    if axis.whole:
        least, most = max(math.floor(least), 1), math.ceil(most)
    sizes = ladder(least, most, given.resolution_pct, whole=axis.whole)
    for option_name, end in (("--from", least), ("--to", most)):
        axis.check(end, option_name)
        at_point(scenario, ((axis.name, end),)).parsed_site()
    guards = {guard.label: guard for guard in scenario.guards}
    if given.guard is not None:
        check_choice("--guard", given.guard, guards)
    check_scenario(scenario, how.allowed)
    goal = Goal(given.goal, given.least_pct, given.of_unlimited, given.no_kills, given.end_at_target)
    question = SizeQuestion(
        scenario, axis, sizes, goal, guards[given.guard or scenario.guards[0].label], years=given.years
    )
    cells_of(question)
    return question


def _changed(scenario: Scenario, given: _SizeOptions) -> Scenario:
    """Return the scenario with the changes of the options, and without a sweep. Raises ConfigError."""
    import msgspec

    from beasy_sched.plugins.campaigns.scenario import PolicyPart
    from beasy_sched.plugins.campaigns.sweep import at_point, axis_of

    for name, value in given.given:
        axis_of(name, "--set").check(value, f"--set {name}")
    by_label = {policy.label: policy for policy in scenario.policies}
    policies = [
        by_label.get(name, PolicyPart(name=name, label=name)) for name in dict.fromkeys(given.policies)
    ]
    first = scenario.seeds[0]
    return msgspec.structs.replace(
        at_point(scenario, given.given),
        policies=tuple(policies) or scenario.policies,
        seeds=scenario.seeds if given.seeds is None else tuple(range(first, first + given.seeds)),
        windows=given.windows or scenario.windows,
    )
