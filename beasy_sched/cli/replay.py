"""``beasy-sched replay``: does this version still decide as the one that made a recording?"""

from __future__ import annotations

from pathlib import Path

import click

from beasy_sched.cli.options import FILE, known_platform, platform_option
from beasy_sched.errors import BeasyError


class Parted(BeasyError):
    """The replay found another decision."""


@click.command()
@click.argument("recording", type=FILE)
@click.option(
    "--policy",
    metavar="NAME",
    help="Replay with a policy other than the recorded one; your own policy (package.module:Class) is"
    " imported only if you name it here, even if it is the recorded one.",
)
@platform_option(help="The platform file given to the recorded daemon, if any.")
def replay(recording: Path, policy: str | None, platform: Path | None) -> None:
    """Replay a recording's messages to the policy and compare the answers.

    Reports the first difference. The exit code is 0 if there is none, 1 otherwise.

    \b
    beasy-sched simulate -p platform.xml -w workload.json --record run.rec
    beasy-sched replay run.rec
    """  # fmt: skip
    from beasy_sched.outputs.recording import open_recording
    from beasy_sched.outputs.recording import replay as play

    opened = open_recording(recording)
    count, difference = play(opened, policy=policy, platform=known_platform(platform))
    if difference is not None:
        raise Parted(f"{recording}: {difference}")
    click.echo(f"{recording}: {count} messages, the same decisions")
