"""``beasy-sched slurm run`` and ``slurm release``: an external scheduler for a real cluster."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from beasy_sched.cli.options import (
    SECONDS,
    CommandOptions,
    FollowOptions,
    InputOptions,
    RunOptions,
    exporting,
    followed,
    option,
    option_of,
    parsed,
    prefix_option,
    print_line,
    print_written,
    settings_of,
    watching,
    with_options,
    with_options_of_plugins,
)
from beasy_sched.declared import made_of
from beasy_sched.errors import ConfigError
from beasy_sched.formats.run_files import OF_SCHEDULER
from beasy_sched.model.choices import EnergySource
from beasy_sched.plugins.slurm.live_settings import (
    MODEL,
    LiveSettings,
    Mode,
    OnKill,
    OnReject,
    Order,
    read_on_kill,
)
from beasy_sched.run.settings import RunSettings
from beasy_sched.signals import ENDING_SIGNALS
from beasy_sched.units import parse_duration

if TYPE_CHECKING:
    from beasy_sched.energy.site import Site


_DURATION: Final = parsed(parse_duration)


class _Partition(CommandOptions):
    partition: str = option_of(LiveSettings, "partition", "-P", required=True, metavar="NAME")


class _LiveOptions(_Partition):
    act: bool = option_of(LiveSettings, "act", "--act/--shadow", default=False)
    mode: Mode = option_of(LiveSettings, "mode")
    platform: Path = option(
        "Platform file of the nodes (written by 'beasy-sched slurm platform').", "-p", required=True
    )
    master_host: str = InputOptions.master_host
    prefix: str | None = prefix_option(
        "Write PREFIX_summary.json, PREFIX_decisions.jsonl and so on.", OF_SCHEDULER
    )
    power: str | None = option_of(LiveSettings, "power", metavar="SOURCE")
    battery: str | None = option_of(LiveSettings, "battery", metavar="SOURCE")
    meter: str = option_of(LiveSettings, "meter", metavar="SOURCE")
    power_stale_s: float | None = option_of(
        LiveSettings, "power_stale_s", "--power-stale", type=_DURATION, default=None, metavar="TIME"
    )
    endpoint: str | None = option_of(LiveSettings, "endpoint", "-s", "--socket-endpoint", metavar="ENDPOINT")
    poll_s: float | None = option_of(LiveSettings, "poll_s", "--poll", type=SECONDS, metavar="SECONDS")
    for_s: float | None = option_of(LiveSettings, "for_s", "--for", type=_DURATION, metavar="TIME")
    fail_open_s: float = option_of(
        LiveSettings, "fail_open_s", "--fail-open", type=_DURATION, default="10m", metavar="TIME"
    )
    on_kill: OnKill | None = option_of(
        LiveSettings, "on_kill", type=parsed(read_on_kill), default=None, metavar="[drop|requeue|checkpoint]"
    )
    low_partition: str | None = option_of(LiveSettings, "low_partition", metavar="NAME")
    on_reject: OnReject = option_of(LiveSettings, "on_reject")
    order: Order = option_of(LiveSettings, "order")
    pstate_command: str | None = option_of(LiveSettings, "pstate_command", metavar="COMMAND")
    tell_users: bool = option_of(LiveSettings, "tell_users")
    quiet: bool = option("Print warnings only.", "-q")


@click.command("run")
@with_options(RunOptions)
@with_options(FollowOptions)
@with_options(_LiveOptions)
@with_options_of_plugins("live_followers")
def run(how: RunOptions, follow: FollowOptions, given: _LiveOptions, *of_plugins: Any) -> None:
    """Let a policy schedule a partition of a Slurm cluster, or show what it would do (--shadow).

    \b
    beasy-sched slurm run --shadow -P main -p nodes.xml --policy easy -o out/shadow
    """
    from beasy_sched.formats.simgrid_xml import read_simgrid_platform
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.outputs.tables import print_summary
    from beasy_sched.plugins.slurm.live import LiveRun
    from beasy_sched.run.following import live_followers_of

    def warn(text: str) -> None:
        print_line(f"warning: {text}")

    settings, live = _settings_of(how, follow, given)
    followers = live_followers_of(of_plugins, warn, is_real_time=True)
    _check_followers(given, followed=bool(followers))
    platform = read_simgrid_platform(given.platform, master=given.master_host).platform
    with (
        stopped_by_signals() as stop,
        RunFiles(given.prefix, settings, decisions=how.decisions, record=how.record) as files,
        watching(how.watch, how.policy) as watch,
        exporting(how.metrics, how.policy, quiet=given.quiet) as metrics,
    ):
        if not given.quiet:
            what = (
                ("limits the nodes of" if given.mode == "nodes-only" else "schedules")
                if given.act
                else "watches"
            )
            print_line(f"{how.policy} {what} partition {given.partition!r}; Ctrl-C stops it")
        beside = LiveRun(
            platform,
            settings,
            live,
            files,
            stopped=lambda: bool(stop),
            say=warn,
            followers=followers,
            watch=watch,
            metrics=metrics,
        )
        summary = beside.go()
    if summary is not None and not given.quiet:
        print_summary(summary)
    print_written(*files.written, quiet=given.quiet)


def _settings_of(
    how: RunOptions, follow: FollowOptions, given: _LiveOptions
) -> tuple[RunSettings, LiveSettings]:
    """Read the files that the options name. Raises ConfigError and InputError."""
    from beasy_sched.formats.site_file import parse_site
    from beasy_sched.plugins.slurm.live import live_windows, placed_by_slurm, with_lives

    how.energy = EnergySource.MODEL if given.meter == MODEL else EnergySource.BATSIM
    settings = followed(settings_of(how), follow)
    site = None if settings.site is None else parse_site(settings.site, settings.site_name)
    _check_together(how, given, site)
    settings = msgspec.structs.replace(settings, windows=live_windows(settings, site, given.for_s))
    if given.mode == "nodes-only":
        settings = placed_by_slurm(settings)
    if given.act and given.endpoint is None:
        settings = with_lives(settings, given.on_kill)
    given.power_stale_s = given.power_stale_s or (None if site is None else 2.0 * site.step_s)
    return settings, made_of(LiveSettings, vars(given))


def _check_together(how: RunOptions, given: _LiveOptions, site: Site | None) -> None:
    """Raise ConfigError for options that require or exclude others."""

    if given.meter != MODEL and not given.act:
        raise ConfigError(
            "--meter requires --act: with --shadow, measured power does not follow the simulated decisions"
        )
    if given.order == "priority" and (not given.act or given.endpoint is not None):
        raise ConfigError("--order priority requires --act and a policy of this process (--policy)")
    if given.mode == "nodes-only" and site is None:
        raise ConfigError(
            "--mode nodes-only requires a site, whose energy limits the nodes: pass --site FILE"
        )
    if given.mode == "nodes-only" and given.endpoint is not None:
        raise ConfigError(
            "--mode nodes-only requires a policy of this program, because Batsim has no message for offers of"
            " nodes: omit -s/--socket-endpoint"
        )
    if given.low_partition is not None and given.mode != "nodes-only":
        raise ConfigError("--low-partition requires --mode nodes-only")
    if site is not None and given.power is None:
        raise ConfigError("a site requires a production: pass --power SOURCE")
    for name in ("power", "battery"):
        if site is None and getattr(given, name) is not None:
            raise ConfigError(f"--{name} requires a site: pass --site FILE")
    if given.endpoint is not None and (how.metrics is not None or how.watch):
        raise ConfigError("--metrics and --watch show the policy of this process: omit -s/--socket-endpoint")


def _check_followers(given: _LiveOptions, *, followed: bool) -> None:
    """Raise ConfigError for options of forecasts that require or exclude others."""
    if given.tell_users and not followed:
        raise ConfigError("--tell-users requires --foresee TIME")
    if given.tell_users and (not given.act or given.mode == "nodes-only"):
        raise ConfigError(
            "--tell-users requires --act and --mode jobs: only then are jobs held, and started by the policy"
        )
    if followed and given.mode == "nodes-only":
        raise ConfigError(
            "--foresee requires --mode jobs: with nodes-only, Slurm starts the jobs, whose order is unknown"
        )
    if followed and given.endpoint is not None:
        raise ConfigError("--foresee continues the policy of this process: omit -s/--socket-endpoint")


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[list[int]]:
    """Yield a list that is no longer empty after a termination signal.

    A further signal ends the program at once. Signals that are ignored, as under nohup, stay ignored.
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


class _ReleaseOptions(_Partition):
    low_partition: str | None = option(
        "Also set this partition UP: that of 'slurm run --low-partition'.", metavar="NAME"
    )


@click.command("release")
@with_options(_ReleaseOptions)
def release(given: _ReleaseOptions) -> None:
    """Return a partition to Slurm: release its held jobs, delete our reservations, power its nodes up."""
    from beasy_sched.plugins.slurm.service import release_partition
    from beasy_sched.plugins.slurm.slurm_commands import Slurm

    count = release_partition(Slurm(), given.partition, print_line, low=given.low_partition)
    print_line(f"{count} jobs of partition {given.partition!r} were released")
