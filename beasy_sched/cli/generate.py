"""``beasy-sched generate``: the makers of Batsim's inputs, and of scenario files."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from beasy_sched.cli import LazyGroup
from beasy_sched.formats.atomic import write_atomic

_COMMANDS = {
    "platform": "beasy_sched.cli.generate_platform:platform",
    "workload": "beasy_sched.cli.generate_workload:workload",
    "power": "beasy_sched.cli.generate_power:power",
    "scenario": "beasy_sched.cli.generate_scenario:scenario",
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def generate() -> None:
    """Make Batsim's inputs: a platform, a workload, the power produced; or scenarios of them all.

    \b
    A first experiment:
      beasy-sched generate platform --servers gros:50 -o platform.xml
      beasy-sched generate workload --synthetic --seed 1 -o workload.json
      beasy-sched generate power --help
    """


def write_output(output: str, pieces: Iterable[str | bytes]) -> None:
    """Write to the file ``output``, whole or not at all, or to the standard output for ``-``."""
    if output != "-":
        write_atomic(output, pieces)
        return
    stream = sys.stdout.buffer
    for piece in pieces:
        stream.write(piece.encode() if isinstance(piece, str) else piece)
    stream.flush()
