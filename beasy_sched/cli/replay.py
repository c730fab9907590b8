"""``beasy-sched replay``: compare the decisions of this version with those of a recording."""

from __future__ import annotations

from pathlib import Path

import click

from beasy_sched.cli.options import FILE, CommandOptions, InputOptions, known_platform, option, with_options
from beasy_sched.errors import BeasyError


class _ReplayOptions(CommandOptions):
    policy: str | None = option(
        "Replay with a policy other than the recorded one; your own policy (package.module:Class) is"
        " imported only if you name it here, even if it is the recorded one.",
        metavar="NAME",
    )
    platform: Path | None = option(
        "Platform file of the recorded run: required unless it was made by 'beasy-sched generate"
        " platform', or the run was one of 'serve' without -p.",
        "-p",
    )
    master_host: str = InputOptions.master_host
    quiet: bool = option("Print only differences.", "-q")


@click.command()
@click.argument("recording", type=FILE)
@with_options(_ReplayOptions)
def replay(given: _ReplayOptions, recording: Path) -> None:
    """Replay a recording's messages to the policy and compare the decisions.

    The first difference is reported. The exit code is 0 if there is none, 1 otherwise.

    \b
    beasy-sched simulate -p platform.xml -w workload.json --record run.rec
    beasy-sched replay run.rec
    """  # fmt: skip
    from beasy_sched.outputs.recording import open_recording
    from beasy_sched.outputs.recording import replay as play

    with open_recording(recording) as opened:
        platform = known_platform(given.platform, given.master_host)
        count, difference = play(opened, policy=given.policy, platform=platform)
    if difference is not None:
        raise BeasyError(f"{recording}: {difference}")
    if not given.quiet:
        click.echo(f"{recording}: {count} messages, the same decisions")
