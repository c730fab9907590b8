"""``beasy-sched serve``: the daemon."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from beasy_sched.cli.options import (
    SECONDS,
    CommandOptions,
    FollowOptions,
    InputOptions,
    PlacedRunOptions,
    exporting,
    followed,
    known_platform,
    option,
    prefix_option,
    print_line,
    print_written,
    settings_of,
    watching,
    with_options,
    with_options_of_plugins,
)
from beasy_sched.errors import why
from beasy_sched.formats.run_files import OF_SCHEDULER
from beasy_sched.model.choices import HostsText

if TYPE_CHECKING:
    from beasy_sched.daemon import Daemon
    from beasy_sched.engine.observed import ObservedSession
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.run.following import LiveFollower


class _ServeOptions(CommandOptions):
    platform: Path | None = option(
        "Batsim's platform file, for the servers' speeds: required unless the file was made by"
        " 'beasy-sched generate platform'.",
        "-p",
    )
    master_host: str = InputOptions.master_host
    prefix: str | None = prefix_option(
        "Write PREFIX_summary.json, PREFIX_decisions.jsonl, PREFIX_energy_trace.csv.", OF_SCHEDULER
    )
    timeout: float | None = option(
        "Give up if no simulation begins within this time (default: wait forever).",
        type=SECONDS,
        metavar="SECONDS",
    )
    keep_serving: bool = option("Serve one simulation after another.")
    batsim5_hosts: HostsText | None = option(
        "Batsim 5: separator used in sets of hosts. [default: space, or comma for Batsim 5.0.0-rc0 and -rc1]"
    )
    verbosity: Literal["debug", "info", "quiet", "silent"] = option(
        "Log level; -v alone means debug (adds message counts and timings); silent: errors only.",
        "-v",
        is_flag=False,
        flag_value="debug",
        default="info",
        metavar="[LEVEL]",
    )
    quiet: bool = option("No summary (the same as --verbosity quiet).", "-q")


@click.command()
@click.option(
    "-s",
    "--socket-endpoint",
    default="tcp://127.0.0.1:28000",
    metavar="ENDPOINT",
    help="Endpoint to listen on: tcp://127.0.0.1:28000 (or tcp://[::1]:28000) means this machine only;"
    " tcp://*:28000 means every network interface, so other machines can connect."
    " Port 0 selects any free port.",
)
@with_options(PlacedRunOptions)
@with_options(FollowOptions)
@with_options(_ServeOptions)
@with_options_of_plugins("live_followers")
def serve(
    how: PlacedRunOptions, follow: FollowOptions, given: _ServeOptions, *of_plugins: Any, socket_endpoint: str
) -> None:
    """Schedule a Batsim simulation over ZeroMQ.

    Start this command first, then Batsim (or 'beasy-sched batsim') with -s and the printed endpoint.

    \b
    beasy-sched serve --policy easy --site site.toml -o out/run
    batsim -p platform.xml -w workload.json --events power.txt --forward-unknown-events -E
    """
    from beasy_sched.daemon import Daemon
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.planner.replanner import replanned
    from beasy_sched.run.building import build_session
    from beasy_sched.run.following import live_followers_of, observers_of
    from beasy_sched.run.live_forecasts import LiveForecasts, live_forecasts
    from beasy_sched.run.opening import open_run

    if given.quiet:
        given.verbosity = "quiet"
    settings = followed(settings_of(how), follow)
    known = known_platform(given.platform, given.master_host)
    warned: list[str] = []

    def warn(text: str) -> None:
        """Report a warning at once."""
        warned.append(text)
        if given.verbosity != "silent":
            print_line(f"warning: {text}")

    live_followers_of(of_plugins, warn, is_real_time=False)  # errors are reported before listening starts
    live = LiveForecasts(settings, say=warn)
    before = live.begin()
    planning = replanned(
        settings,
        lambda: known,
        forecast=before.forecast,
        production=before.production,
        hashes=live.hashes(),
    )
    with planning as replanner:  # bad settings are reported before listening starts
        first = replanner.plans
        build_session(
            settings, platform=known, replan=replanner.rule, plans=first, forecast=before.forecast
        ).check_platform()
    daemon = Daemon(
        socket_endpoint,
        timeout_s=given.timeout,
        batsim5_hosts=given.batsim5_hosts,
        waiting=None if given.verbosity in ("quiet", "silent") else say_waiting,
        refused=None if given.verbosity == "silent" else say_refused,
    )
    silent = given.verbosity == "silent"
    with daemon, live_forecasts(live), exporting(how.metrics, how.policy, quiet=silent) as metrics:
        for run in itertools.count(1):
            number = "" if run == 1 else f"-{run}"
            written = None if given.prefix is None else f"{given.prefix}{number}"
            recorded = how.record and how.record.parent / f"{how.record.stem}{number}{how.record.suffix}"
            with RunFiles(written, settings, decisions=how.decisions, record=recorded) as files:
                if run == 1 and given.verbosity != "silent":
                    say_listening(daemon.endpoint, given.timeout)
                followers = live_followers_of(of_plugins, warn, is_real_time=False)
                with (
                    watching(how.watch, how.policy) as watch,
                    open_run(
                        files,
                        lambda: known,
                        observers=(*observers_of(followers, (metrics, watch)), metrics, watch),
                        encodes_messages=False,
                        first_plans=first,
                        stopped=lambda: daemon.stopping,
                        live=live,
                    ) as running,
                ):
                    for follower in followers:
                        follower.join(running, files)
                    _serve_one(daemon, running, files, given.verbosity, warned, followers)
            if not given.keep_serving:
                return


def say_listening(endpoint: str, timeout_s: float | None) -> None:
    """Print the daemon's endpoint and how to start Batsim."""
    from beasy_sched.protocol.wire import is_open_to_all, reachable

    click.echo(f"listening on {endpoint}", err=True)
    where = " (on other machines, use the name of this one)" if is_open_to_all(endpoint) else ""
    until = "" if timeout_s is None else f"; timeout {timeout_s:g} s"
    click.echo(f"waiting for Batsim: start it with '-s {reachable(endpoint)}'{where}{until}", err=True)


def say_refused(count: int, reason: str) -> None:
    """Report messages that did not begin a simulation, if anyone can read it."""
    number = "a message was" if count == 1 else f"{count} messages were"
    with contextlib.suppress(OSError, ValueError):
        click.echo(f"{number} rejected; still waiting for Batsim: {reason}", err=True)


def say_waiting(endpoint: str, waited_s: float) -> None:
    """Report that no simulator has connected, and what to do, if anyone can read it."""
    from beasy_sched.protocol.wire import reachable

    with contextlib.suppress(OSError, ValueError):  # a closed stderr is no reason to stop serving
        click.echo(
            f"no simulator has connected to {reachable(endpoint)} for {waited_s:.0f} s; still waiting:"
            f" start Batsim with '-s {reachable(endpoint)}'",
            err=True,
        )


def _serve_one(
    daemon: Daemon,
    running: ObservedSession,
    files: RunFiles,
    verbosity: str,
    warned: Container[str],
    followers: Sequence[LiveFollower] = (),
) -> None:
    """Serve one simulation and write its files, also if it fails; none if it never began.

    The warnings ``warned`` have already been printed.
    """
    from beasy_sched.outputs.tables import print_summary  # now, when files can still be opened

    session = running.session

    def leave(error: str | None) -> None:
        """Write the output files and print the summary."""
        for notice in daemon.notices:
            session.warn(notice)
        for follower in followers:
            follower.end(files)
        summary = files.finish(session, error)
        if verbosity != "silent":
            for warning in summary.warnings:
                if warning in warned:
                    continue
                click.echo(f"warning: {warning}", err=True)
        if verbosity in ("debug", "info"):
            if session.begun:
                print_summary(summary)
            print_written(*files.written, quiet=error is not None)
        if verbosity == "debug" and daemon.messages:
            each_us = 1e6 * daemon.busy_s / daemon.messages
            click.echo(f"{daemon.messages} messages, {each_us:.1f} us each", err=True)

    def record(raw: bytes, reply: bytes) -> None:
        """Record a message and its reply."""
        if files.recording is not None:
            files.recording.add(raw, reply)

    try:
        daemon.serve(running, record)
    except BaseException as error:
        if daemon.messages:
            with contextlib.suppress(Exception):  # the first error is the one to report
                leave(why(error))
        at_once = isinstance(error, KeyboardInterrupt)
        if not at_once and daemon.dismiss(why(error)) and verbosity != "silent":
            click.echo("the simulator may still run, without a scheduler: stop it if it does", err=True)
        raise
    leave(None)
