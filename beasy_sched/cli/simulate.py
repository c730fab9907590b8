"""``beasy-sched simulate``: policy and simulator in one process."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beasy_sched.cli.run_options import run_options, settings_of
from beasy_sched.errors import BeasyError
from beasy_sched.settings import build_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from beasy_sched.model.decisions import Reply
    from beasy_sched.model.events import Message
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.session import Session
    from beasy_sched.simulator import Simulation

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("-p", "--platform", type=_FILE, required=True, metavar="FILE", help="SimGrid platform (XML).")
@click.option(
    "-w",
    "--workload",
    "workloads",
    type=_FILE,
    required=True,
    multiple=True,
    metavar="FILE",
    help="Batsim workload (JSON); several are played together.",
)
@click.option(
    "--events",
    "events",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="External events, among them the production (one JSON object a line).",
)
@click.option(
    "-e",
    "--export",
    "prefix",
    metavar="PREFIX",
    help="Write Batsim's CSV files and our own under PREFIX_... (default: write none).",
)
@click.option(
    "-m",
    "--master-host",
    default="master_host",
    show_default=True,
    metavar="NAME",
    help="Host that no job runs on, unless one has the role 'master'.",
)
@click.option(
    "-E/--no-metering",
    "metering",
    default=True,
    help="Meter energy and allow P-state changes, as Batsim's -E does (on unless switched off).",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress bar, no summary.")
@run_options
def simulate(
    platform: Path,
    workloads: tuple[Path, ...],
    events: tuple[Path, ...],
    prefix: str | None,
    master_host: str,
    metering: bool,
    quiet: bool,
    decisions: bool,
    record: Path | None,
    **shared: Any,
) -> None:
    """Run a policy on the embedded simulator, in one process.

    The same messages as over ZeroMQ, the same decisions, and much faster.

    \b
    beasy-sched generate platform --servers gros:50 -o platform.xml
    beasy-sched generate workload --synthetic -o workload.json
    beasy-sched simulate -p platform.xml -w workload.json --policy easy -e out/run
    """  # fmt: skip
    from beasy_sched.outputs.files import RunFiles

    settings = settings_of(**shared)
    files = RunFiles(prefix, settings, decisions=decisions, record=record)
    session = build_session(settings, log=files.log)
    simulation = _simulation(platform, workloads, events, prefix, master_host, metering)
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    error: str | None = None
    try:
        _run(simulation, session, files, quiet)
    except KeyboardInterrupt:
        error = "stopped by the user"
        raise
    except BeasyError as found:
        error = str(found)
        raise
    finally:
        summary = files.finish(session, error)
        if not quiet:
            _report(summary, files)


def _simulation(
    platform: Path,
    workloads: tuple[Path, ...],
    events: tuple[Path, ...],
    prefix: str | None,
    master_host: str,
    metering: bool,
) -> Simulation:
    from beasy_sched.formats.batsim_events import read_external_events
    from beasy_sched.formats.batsim_workload import read_workload
    from beasy_sched.formats.simgrid_xml import read_simgrid_platform
    from beasy_sched.simulator import Simulation, SimulationOptions, Tracer

    site = read_simgrid_platform(platform, master=master_host, energy=metering)
    jobs = [read_workload(path, f"w{number}") for number, path in enumerate(workloads)]
    outside = (
        [e for path in events for e in read_external_events(path, forward_unknown=True)] if events else None
    )
    options = SimulationOptions(energy=metering, forward_unknown_events=bool(events), send_profiles=True)
    tracer = Tracer(prefix, energy=metering) if prefix is not None else None
    return Simulation(site, jobs, outside, options, tracer)


def _run(simulation: Simulation, session: Session, files: RunFiles, quiet: bool) -> None:
    from beasy_sched.cli.progress import progress_bar

    decide: Callable[[Message], Reply] = session.step
    if files.recording is not None:
        from beasy_sched.protocol.batsim4 import encode_message, encode_reply

        add = files.recording.add

        def decide(message: Message) -> Reply:
            reply = session.step(message)
            add(encode_message(message), encode_reply(reply))
            return reply

    with progress_bar("jobs submitted", quiet=quiet) as report:
        result = simulation.run(decide, report)
    files.written.extend(result.files)
    session.warnings.extend(result.notes)


def _report(summary: dict[str, Any], files: RunFiles) -> None:
    from beasy_sched.outputs.table import print_summary

    for warning in summary["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    print_summary(summary)
    for path in files.written:
        click.echo(f"wrote {path}", err=True)
