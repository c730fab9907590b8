"""``beasy-sched serve``: the daemon."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beasy_sched.cli.options import known_platform, platform_option, run_options, settings_of
from beasy_sched.errors import why
from beasy_sched.protocol.wire import reachable
from beasy_sched.settings import RunSettings, build_session

if TYPE_CHECKING:
    from beasy_sched.daemon import Daemon
    from beasy_sched.model.platform import Platform
    from beasy_sched.outputs.files import RunFiles


@click.command()
@click.option(
    "-s",
    "--socket-endpoint",
    default="tcp://*:28000",
    metavar="ENDPOINT",
    help="Where to listen: * means every network interface, so other machines can connect, too;"
    " tcp://127.0.0.1:28000 (or tcp://[::1]:28000) means this machine only. Port 0 selects any free port.",
)
@run_options
@platform_option(
    help="Batsim's platform file, for the servers' speeds: required unless the file was made by"
    " 'beasy-sched generate platform'."
)
@click.option(
    "-e",
    "--export",
    "prefix",
    metavar="PREFIX",
    help="Write PREFIX_summary.json, PREFIX_decisions.jsonl, PREFIX_energy_trace.csv.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Give up if no simulator has connected by then (default: wait forever).",
)
@click.option("--keep-serving", is_flag=True, help="Serve one simulation after another.")
@click.option(
    "-v",
    "--verbosity",
    type=click.Choice(["debug", "info", "quiet", "silent"]),
    default="info",
    help="quiet: no summary; silent: errors only.",
)
def serve(
    socket_endpoint: str,
    platform: Path | None,
    prefix: str | None,
    decisions: bool,
    record: Path | None,
    timeout: float | None,
    keep_serving: bool,
    verbosity: str,
    **shared: Any,
) -> None:
    """Decide for a Batsim simulation over ZeroMQ.

    Start it, then start Batsim (or 'beasy-sched batsim') with its -s option set to the endpoint printed.

    \b
    beasy-sched serve --policy easy --site site.toml -e out/run
    batsim -p platform.xml -w workload.json --events power.txt --forward-unknown-events -E
    """
    from beasy_sched.daemon import Daemon
    from beasy_sched.outputs.files import RunFiles

    settings = settings_of(**shared)
    build_session(settings)  # bad settings are reported before listening starts
    known = known_platform(platform)
    waiting = None if verbosity in ("quiet", "silent") else say_waiting
    with Daemon(socket_endpoint, timeout_s=timeout, waiting=waiting) as daemon:
        for run in itertools.count(1):
            number = "" if run == 1 else f"-{run}"
            written = None if prefix is None else f"{prefix}{number}"
            recorded = record and record.parent / f"{record.stem}{number}{record.suffix}"
            with RunFiles(written, settings, decisions=decisions, record=recorded) as files:
                files.begin()
                if run == 1 and verbosity != "silent":
                    click.echo(f"listening on {reachable(daemon.endpoint)}", err=True)
                _serve_one(daemon, settings, known, files, verbosity, idle_is_fine=run > 1)
            if not keep_serving:
                return


def say_waiting(endpoint: str, waited_s: float) -> None:
    """Report that no simulator has connected, and what to do, if anyone can read it."""
    with contextlib.suppress(OSError, ValueError):  # stderr was closed: no reason to stop serving
        click.echo(
            f"no simulator has connected to {reachable(endpoint)} for {waited_s:.0f} s; still waiting:"
            f" start Batsim with '-s {reachable(endpoint)}'",
            err=True,
        )


def _serve_one(
    daemon: Daemon,
    settings: RunSettings,
    platform: Platform | None,
    files: RunFiles,
    verbosity: str,
    *,
    idle_is_fine: bool,
) -> None:
    """Serve one simulation and write its files, also when it fails.

    ``idle_is_fine``: a daemon that has served before leaves nothing of a simulation that never came.
    """
    from beasy_sched.outputs.tables import print_summary  # now, when files can still be opened

    session = build_session(settings, platform=platform, log=files.log)

    def leave(error: str | None) -> None:
        """Write the files and tell what there is to tell."""
        session.warnings.extend(daemon.notices)
        summary = files.finish(session, error)
        if verbosity != "silent":
            for warning in summary["warnings"]:
                click.echo(f"warning: {warning}", err=True)
        if verbosity in ("debug", "info"):
            if session.begun:
                print_summary(summary)
            for path in files.written:
                click.echo(f"wrote {path}", err=True)
        if verbosity == "debug" and daemon.messages:
            each_us = 1e6 * daemon.busy_s / daemon.messages
            click.echo(f"{daemon.messages} messages, {each_us:.1f} us each", err=True)

    try:
        daemon.serve(session, files.recording.add if files.recording else None)
    except BaseException as error:
        if daemon.messages or not idle_is_fine:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                leave(why(error))
        raise
    leave(None)
