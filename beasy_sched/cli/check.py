"""``beasy-sched check``: a look at a run's inputs together, before anything runs."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from beasy_sched.cli.options import input_options, quiet_option, site_options
from beasy_sched.errors import ConfigError, InputError

if TYPE_CHECKING:
    from beasy_sched.energy.site import Site
    from beasy_sched.formats.batsim_events import ExternalEvent
    from beasy_sched.formats.batsim_workload import Workload
    from beasy_sched.model.platform import Platform
    from beasy_sched.plan.store import PlanStore
    from beasy_sched.preflight import Finding, RunInputs

T = TypeVar("T")

_WIDTH = 80
_VERDICTS = ("fine", "odd", "would fail")
"""By exit code."""


@click.command()
@input_options(required=False)
@site_options
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
@quiet_option("No table: the findings alone, on standard error.")
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
    """Look at the inputs of a run together: what are they, what is odd, what would fail.

    Give what the run will be given, or a part of it. Nothing is run, nothing is written. The exit code is 0
    where all is fine, 1 where something is odd, 2 where the run, or that of a real Batsim, would fail.

    \b
    beasy-sched check -p platform.xml -w workload.json --events power.txt --site default
    """
    if not any((platform, workloads, events, site, plan)):
        raise click.UsageError("nothing to look at: give at least one of -p, -w, --events, --site, --plan")
    from beasy_sched.preflight import Level, RunInputs, fails, look_at, odd

    reading = _Reading()
    given = RunInputs(
        platform=reading.platform(platform, master_host, metering),
        workloads=reading.workloads(workloads),
        events=reading.events(events),
        energy=metering,
        site=reading.site(site),
        plans=reading.plans(plan),
        windows=windows,
    )
    read = [fails(code, text) for code, text in reading.failures]
    read += [odd("platform-old", text) for text in reading.notes]
    found = sorted((*read, *look_at(given)), key=lambda finding: finding.level is Level.ODD)
    code = 0 if not found else 1 if all(finding.level is Level.ODD for finding in found) else 2
    if as_json:
        _print_json(given, found, code)
    elif quiet:
        for finding in found:
            label = "warning" if finding.level is Level.ODD else "would fail"
            click.echo(f"{label}: {finding.text}", err=True)
    else:
        _print_table(given, found, code)
    context.exit(code)


@dataclass
class _Reading:
    """Reads the files; one that cannot be read is a failure to tell, and the rest is read all the same."""

    failures: list[tuple[str, str]] = field(default_factory=list)
    """Code and text of each."""
    notes: list[str] = field(default_factory=list)
    """Where Batsim would take the platform otherwise."""

    def _read(self, code: str, read: Callable[[], T], prefix: str = "") -> T | None:
        try:
            return read()
        except (InputError, ConfigError) as error:
            self.failures.append((code, f"{prefix}{error}"))
            return None

    def platform(self, path: Path | None, master: str, metering: bool) -> Platform | None:
        if path is None:
            return None
        from beasy_sched.formats.simgrid_xml import SimGridPlatform, read_simgrid_platform

        def read(strict: bool) -> SimGridPlatform:
            return read_simgrid_platform(path, master=master, energy=metering, strict=strict)

        found = self._read("platform-bad", lambda: read(False))
        if found is None:
            return None
        as_batsim = self._read("platform-batsim", lambda: read(True), "Batsim would abort: ")
        if as_batsim is not None:
            self.notes.extend(as_batsim.notes)
        return found.platform

    def workloads(self, paths: tuple[Path, ...]) -> list[Workload]:
        from beasy_sched.formats.batsim_workload import read_workload

        found = (
            self._read("workload-bad", partial(read_workload, path, f"w{number}"))
            for number, path in enumerate(paths)
        )
        return [workload for workload in found if workload is not None]

    def events(self, paths: tuple[Path, ...]) -> list[ExternalEvent] | None:
        from beasy_sched.formats.batsim_events import merge_events, read_external_events

        read = [
            self._read("events-bad", partial(read_external_events, path, forward_unknown=True))
            for path in paths
        ]
        found = [events for events in read if events is not None]
        return merge_events(found) if found else None

    def site(self, name: Path | None) -> Site | None:
        from beasy_sched.formats.site_file import read_site

        return None if name is None else self._read("site-bad", lambda: read_site(name))

    def plans(self, path: str | None) -> PlanStore | None:
        from beasy_sched.formats.plan_file import read_plans

        return None if path is None else self._read("plan-bad", lambda: read_plans(path))


def _print_json(given: RunInputs, found: list[Finding], code: int) -> None:
    from beasy_sched.preflight import figures

    report = {
        "verdict": _VERDICTS[code],
        "figures": figures(given),
        "findings": [{**asdict(finding), "level": finding.level.value} for finding in found],
    }
    click.echo(json.dumps(report, indent=2, allow_nan=False))


def _print_table(given: RunInputs, found: list[Finding], code: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from beasy_sched.preflight import Level, facts

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
    plain = Console(file=io.StringIO(), width=_WIDTH, highlight=False)
    plain.print(table)
    assert isinstance(plain.file, io.StringIO)
    for line in plain.file.getvalue().splitlines():
        click.echo(line.rstrip())
