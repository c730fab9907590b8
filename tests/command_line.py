"""The command line, called inside the test's process."""

from __future__ import annotations

from collections.abc import Iterator

import click

from beasy_sched.cli import cli, main


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    """All commands, with their names."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


ALL_COMMANDS = dict(commands(cli))
"""Every command by its name, such as ``generate power``."""


def exit_code(*arguments: str) -> int:
    """Run ``beasy-sched`` with ``arguments``; return its exit code."""
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0
