"""The command line, called inside the test's process."""

from __future__ import annotations

from beasy_sched.cli import main


def exit_code(*arguments: str) -> int:
    """Run ``beasy-sched`` with ``arguments``; return its exit code."""
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0
