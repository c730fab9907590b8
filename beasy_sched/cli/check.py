"""``beasy-sched check``: a look at a run's inputs together, before anything runs."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from beasy_sched.cli.options import input_options, quiet_option, site_options
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.batsim_events import merge_events, read_external_events
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.plan_file import read_plans
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import read_site
from beasy_sched.preflight import Finding, Level, RunInputs, facts, fails, figures, look_at, odd

T = TypeVar("T")

_WIDTH = 80
_VERDICTS = ("fine", "odd", "would fail")
"""By exit code."""


@click.command()
@input_options(required=False)
@site_options
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
@quiet_option("No table: only the findings, on standard error.")
@click.pass_context
def check(
    context: click.Context,
    platform: Path | None,
    workloads: tuple[Path, ...],
    events: tuple[Path, ...],
    site: Path | None,
    plan: str | None,
    windows: int,
    master_host: str,
    metering: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Check the inputs of a run together: what they are, what is odd, what would fail.

    Give all or some of the inputs of the run. Nothing is run, nothing is written. The exit code is 0 if all
    is fine, 1 if something is odd, 2 if the run, or that of a real Batsim, would fail.

    \b
    beasy-sched check -p platform.xml -w workload.json --events power.txt --site default
    """
    if not any((platform, workloads, events, site, plan)):
        raise click.UsageError("nothing to check: give at least one of -p, -w, --events, --site, --plan")
    given, problems = _read(platform, workloads, events, site, plan, windows, master_host, metering)
    found = sorted((*problems, *look_at(given)), key=lambda finding: finding.level is Level.ODD)
    code = 0 if not found else 1 if all(finding.level is Level.ODD for finding in found) else 2
    if as_json:
        report = {
            "verdict": _VERDICTS[code],
            "figures": figures(given),
            "findings": [{**asdict(finding), "level": finding.level.value} for finding in found],
        }
        click.echo(json.dumps(report, indent=2, allow_nan=False))
    elif quiet:
        for finding in found:
            label = "warning" if finding.level is Level.ODD else "would fail"
            click.echo(f"{label}: {finding.text}", err=True)
    else:
        _print_table(given, found, code)
    context.exit(code)


def _read(
    platform: Path | None,
    workloads: tuple[Path, ...],
    events: tuple[Path, ...],
    site: Path | None,
    plan: str | None,
    windows: int,
    master_host: str,
    metering: bool,
) -> tuple[RunInputs, list[Finding]]:
    """Read what is given; a file that cannot be read is a finding, and the rest is read all the same."""
    problems: list[Finding] = []

    def attempt(code: str, read: Callable[[], T], prefix: str = "") -> T | None:
        try:
            return read()
        except (InputError, ConfigError) as error:
            problems.append(fails(code, f"{prefix}{error}"))
            return None

    described = None
    if platform is not None:
        read_platform = partial(read_simgrid_platform, platform, master=master_host, energy=metering)
        described = attempt("platform-bad", read_platform)
        if described is not None:
            strict = partial(read_platform, strict=True)
            as_batsim = attempt("platform-batsim", strict, "Batsim would abort: ")
            problems += [odd("platform-old", note) for note in (as_batsim.notes if as_batsim else ())]
    jobs = [
        attempt("workload-bad", partial(read_workload, path, f"w{number}"))
        for number, path in enumerate(workloads)
    ]
    lists = [
        attempt("events-bad", partial(read_external_events, path, forward_unknown=True)) for path in events
    ]
    read_lists = [one for one in lists if one is not None]
    given = RunInputs(
        platform=described.platform if described else None,
        workloads=[workload for workload in jobs if workload is not None],
        events=merge_events(read_lists) if read_lists else None,
        energy=metering,
        site=attempt("site-bad", partial(read_site, site)) if site else None,
        plans=attempt("plan-bad", partial(read_plans, plan)) if plan else None,
        windows=windows,
    )
    return given, problems


def _print_table(given: RunInputs, found: list[Finding], code: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts(given):
        table.add_row(Text(name, "bold"), Text(value))
    for number, finding in enumerate(found):
        if number == 0 and table.row_count:
            table.add_row()
        style = "yellow" if finding.level is Level.ODD else "red"
        table.add_row(Text(finding.level.value, style), Text(finding.text))
    table.add_row()
    table.add_row(Text("verdict", "bold"), Text(_VERDICTS[code], ("green", "yellow", "red")[code]))
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
        return
    text = io.StringIO()
    Console(file=text, width=_WIDTH, highlight=False).print(table)
    for line in text.getvalue().splitlines():
        click.echo(line.rstrip())
