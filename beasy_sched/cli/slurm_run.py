"""``beasy-sched slurm run`` and ``slurm release``: a scheduler beside a real cluster."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

import click
import msgspec

from beasy_sched.cli.options import (
    SECONDS,
    CommandOptions,
    InputOptions,
    RunOptions,
    exporting,
    option,
    parsed,
    prefix_option,
    settings_of,
    tell,
    tell_written,
    watching,
    with_options,
)
from beasy_sched.engine.power import EnergySource
from beasy_sched.errors import ConfigError
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import parse_site
from beasy_sched.signals import ENDING_SIGNALS
from beasy_sched.units import parse_duration

_DURATION: Final = parsed(parse_duration)


class _Partition(CommandOptions):
    partition: str = option("Partition of the cluster.", "-P", required=True, metavar="NAME")


class _LiveOptions(_Partition):
    act: bool = option(
        "Start the jobs that are held for it, and switch nodes off and on. --shadow: change nothing, and tell"
        " what would be done.",
        "--act/--shadow",
        default=False,
    )
    platform: Path = option(
        "The nodes as a platform ('beasy-sched slurm platform' makes it).", "-p", required=True
    )
    master_host: str = InputOptions.master_host
    prefix: str | None = prefix_option("Write PREFIX_summary.json, PREFIX_decisions.jsonl and so on.")
    power: str | None = option(
        "What is produced now: a file that grows (CSV or events), 'command:PROGRAM' (prints watts, or a JSON"
        " object, a line), or 'prometheus:URL?query=...'.",
        metavar="SOURCE",
    )
    battery: str | None = option(
        "The true state of charge, percent, from a source like --power's (default: the run's own balance).",
        metavar="SOURCE",
    )
    meter: str = option(
        "What measures the energy that the nodes use: 'model' (nothing: it is reckoned from their states),"
        " 'slurm' (Slurm's energy accounting), 'command:PROGRAM' (prints watts, or JSON with power_w or"
        " energy_j, a line), or 'prometheus:URL?query=...' (W).",
        default="model",
        metavar="SOURCE",
    )
    power_stale: float | None = option(
        "A source that is silent for so long produces 0 W. [default: two steps of the site, or 10 min]",
        type=_DURATION,
        metavar="TIME",
    )
    endpoint: str | None = option(
        "Let the scheduler that listens there decide, such as batsched, instead of --policy.",
        "-s",
        "--socket-endpoint",
        metavar="ENDPOINT",
    )
    poll: float = option(
        "Time between two looks at the cluster.", type=SECONDS, default=1.0, metavar="SECONDS"
    )
    duration: float | None = option(
        "End after this time (default: when it is stopped).", "--for", type=_DURATION, metavar="TIME"
    )
    fail_open: float = option(
        "Give the partition back to Slurm if the scheduler has not answered for so long.",
        type=_DURATION,
        default="10m",
        metavar="TIME",
    )
    on_kill: Literal["cancel", "requeue"] = option(
        "What becomes of jobs that are killed for lack of energy.", default="cancel"
    )
    on_reject: Literal["hold", "cancel"] = option(
        "What becomes of jobs that the scheduler rejects.", default="hold"
    )
    pstate_command: str | None = option(
        "Program that sets the frequency of a node; {node}, {pstate} and {mhz} are filled in.",
        metavar="COMMAND",
    )
    quiet: bool = option("Print warnings only.", "-q")


@click.command("run")
@with_options(RunOptions)
@with_options(_LiveOptions)
def run(how: RunOptions, given: _LiveOptions) -> None:
    """Let a policy decide for a partition of a Slurm cluster, or watch what it would do (--shadow).

    \b
    beasy-sched slurm run --shadow -P main -p nodes.xml --policy easy -o out/shadow
    """
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.outputs.tables import print_summary
    from beasy_sched.slurm.bridge import ActingRules
    from beasy_sched.slurm.live import LiveRun, LiveSettings, live_windows
    from beasy_sched.slurm.meter import MODEL
    from beasy_sched.slurm.service import Pace

    how.energy = EnergySource.MODEL if given.meter == MODEL else EnergySource.BATSIM
    if given.meter != MODEL and not given.act:
        raise ConfigError("--meter measures the cluster, and not what a shadow would make of it: pass --act")
    settings = settings_of(how)
    site = None if settings.site is None else parse_site(settings.site, settings.site_name)
    if site is not None and given.power is None:
        raise ConfigError("a site requires the production: pass --power SOURCE")
    if site is None and given.power is not None:
        raise ConfigError("--power requires a site: pass --site FILE")
    if site is None and given.battery is not None:
        raise ConfigError("--battery requires a site: pass --site FILE")
    if given.endpoint is not None and (how.metrics is not None or how.watch):
        raise ConfigError(
            "--metrics and --watch show the policy of this process: leave out -s/--socket-endpoint"
        )
    windows = live_windows(settings, site, given.duration)
    settings = msgspec.structs.replace(settings, windows=windows)
    live = LiveSettings(
        partition=given.partition,
        act=given.act,
        rules=ActingRules(given.on_kill == "requeue", given.on_reject == "cancel"),
        endpoint=given.endpoint,
        pace=Pace(given.poll, given.duration),
        power=given.power,
        meter=given.meter,
        battery=given.battery,
        stale_s=given.power_stale or (2.0 * site.step_s if site else 600.0),
        fail_open_s=given.fail_open,
        pstate_command=given.pstate_command,
    )
    platform = read_simgrid_platform(given.platform, master=given.master_host).platform
    with (
        stopped_by_signals() as stop,
        RunFiles(given.prefix, settings, decisions=how.decisions, record=how.record) as files,
        watching(how.watch, how.policy) as watch,
        exporting(how.metrics, how.policy, quiet=given.quiet) as metrics,
    ):
        if not given.quiet:
            what = "decides for" if given.act else "watches"
            tell(f"{how.policy} {what} partition {given.partition!r}; Ctrl-C ends it")
        beside = LiveRun(
            platform,
            settings,
            live,
            files,
            stopped=lambda: bool(stop),
            say=lambda text: tell(f"warning: {text}"),
            watch=watch,
            metrics=metrics,
        )
        summary = beside.go()
    if summary is not None and not given.quiet:
        print_summary(summary)
    tell_written(*files.written, quiet=given.quiet)


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[list[int]]:
    """Yield a list that is not empty any more once a signal has asked the program to end.

    A further signal ends it at once. Signals that are ignored, as under nohup, stay so.
    """
    stop: list[int] = []
    before: dict[int, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        stop.append(number)
        if len(stop) > 1:
            before[number](number, frame)

    for number in ENDING_SIGNALS:
        if callable(handler := signal.getsignal(number)):
            before[number] = handler
            signal.signal(number, note)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command("release")
@with_options(_Partition)
def release(given: _Partition) -> None:
    """Give a partition back to Slurm: release the jobs that are held, and power its nodes up."""
    from beasy_sched.slurm.commands import Slurm
    from beasy_sched.slurm.service import release_partition

    count = release_partition(Slurm(), given.partition, tell)
    tell(f"{count} jobs of partition {given.partition!r} were released")
